"""Who ends the sound at the receivers when the show is killed: ``python -P -m realtime.sinks.guard TOLD``.

It is told a frame ten times a second through standard input. Where that ends with another one than silence,
the show has died of something that it could not see coming: the guard fades every OSC receiver to neutral in
its place. MIDI ports and the built-in voice are processes of their own, and do so themselves.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from pyanticip.errors import DeviceError
from pyanticip.vocabulary import SCALARS
from realtime.child import Child
from realtime.sinks.base import ControlFrame, Extra, Onlooker
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink

__all__ = ["Guard", "main"]

# Frames for each that is told; those of a fade, 0.4 s, and of the silence after it: a datagram may be lost,
# and a slow receiver gets few.
_EVERY, _FADE, _SILENCE = 5, 20, 10
_FRAME = 0.02


class Guard(Child, Onlooker):
    """A sink that tells the guard's process. ``neutral`` are the eight parameters of silence.

    Where that process dies it is started again.
    """

    first_pause = 0.1

    def __init__(
        self, targets: Sequence[OscConfig], neutral: Sequence[float], say: Callable[[str], None]
    ) -> None:
        self._neutral, self._sent = list(neutral), 0
        self._kept: list[ControlFrame] = []
        told = {"targets": [t.model_dump(mode="json") for t in targets], "neutral": list(neutral)}
        super().__init__("the guard", "realtime.sinks.guard", [json.dumps(told)], say, quiet=True)

    def announce(self, extras: Sequence[Extra]) -> None:
        """Taught outputs stay where they are."""

    def send(self, frame: ControlFrame) -> None:
        """Keep every fifth frame, and silence, for :meth:`look`."""
        if frame.seq >= 0 and (frame.seq % _EVERY == 0 or _is_silent(frame.params, self._neutral)):
            self._kept.append(frame)

    def look(self) -> None:
        """Tell of what was kept."""
        for frame in self._kept:
            told = frame.seq, frame.seconds, list(frame.params)
            self.write(json.dumps(told).encode() + b"\n")
            self._sent += 1
        self._kept.clear()

    def counters(self) -> dict[str, int]:
        """Frames told, and how often the process failed."""
        return {"sent": self._sent, "dropped": 0, "refused": 0, "failed": max(self.restarts, 0)}

    def close(self) -> None:
        """End it; where the last frame was not silence, it fades first."""
        super().close()


def _is_silent(params: Sequence[float], neutral: Sequence[float]) -> bool:
    return all(abs(a - b) < 1e-3 for a, b in zip(params, neutral, strict=True))


def fade(targets: Sequence[OscConfig], neutral: Sequence[float], last: tuple[Any, ...]) -> None:
    """Take every receiver from the last frame (number, seconds, parameters) to neutral."""
    seq, seconds, params = last
    sinks = []
    for target in targets:
        with contextlib.suppress(DeviceError):
            sinks.append(OscSink(target))
    scalars = (0.0,) * len(SCALARS)
    for n in range(1, _FADE + _SILENCE + 1):
        part = min(n / _FADE, 1.0)
        now = [a + (b - a) * part for a, b in zip(params, neutral, strict=True)]
        # Told every fifth frame, its number may have gone on by so many.
        number, at = seq + _EVERY + n, seconds + (_EVERY + n) * _FRAME
        for sink in sinks:
            sink.send(ControlFrame(number, at, scalars, now, state="panic"))
        time.sleep(_FRAME)
    for sink in sinks:
        sink.close()


def main(arguments: Sequence[str]) -> int:
    """The process."""
    # The terminal's signals are for the show.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    told = json.loads(arguments[0])
    targets = [OscConfig.model_validate(target) for target in told["targets"]]
    last = b""
    for line in sys.stdin.buffer:
        if line.endswith(b"\n"):
            last = line
    if last and not _is_silent((frame := json.loads(last))[2], told["neutral"]):
        fade(targets, told["neutral"], frame)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
