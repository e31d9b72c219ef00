"""Who ends the sound at the receivers when the show is killed: ``python -P -m realtime.sinks.guard``.

It is told each performer's receivers, and a frame ten times a second, through standard input, a line of JSON
each. Where that ends with another frame than silence, the show has died of something that it could not see
coming: the guard fades every OSC receiver to neutral in its place. MIDI ports and the built-in voice are
processes of their own, and do so themselves.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyanticip.errors import DeviceError
from pyanticip.system import ignore_terminal
from pyanticip.vocabulary import SCALARS
from realtime.child import Child
from realtime.sinks.base import ControlFrame, DeferredSink, Extra, Sink
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink

__all__ = ["Guard", "main"]

# Frames for each that is told; those of a fade, 0.4 s, and of the silence after it: a datagram may be lost,
# and a slow receiver gets few.
_EVERY, _FADE, _SILENCE = 5, 20, 10
_FRAME = 0.02
# liblo 0.31 may read nothing of a stream (SLIP) opened within milliseconds of the end of the show's own.
_APART_S = 0.05
# What several performers tell goes together, so often: each time the process wakes for it.
_TOGETHER_S = 0.05
# So many frames may have gone on after one that was told.
_SINCE = 2 * _EVERY


class Guard(Child):
    """The guard's process, one for all performers of a show. Where it dies it is started again.

    At the end it fades those whose last frame was not silence.
    """

    first_pause = 0.1

    def __init__(self, say: Callable[[str], None]) -> None:
        self._watched: list[bytes] = []
        self._kept: dict[int, bytes] = {}
        self._flushed_at = 0.0
        super().__init__("the guard", "realtime.sinks.guard", [], say, quiet=True)

    def watch(self, receivers: Sequence[OscSink], neutral: Sequence[float]) -> Sink:
        """Watch one performer's receivers; what is sent them goes to this sink as well.

        ``neutral`` are the eight parameters of silence.
        """
        performer = len(self._watched)
        self._watched.append(b"")
        return _Watch(self, performer, receivers, neutral)

    def introduce(self, performer: int, targets: Sequence[OscConfig], neutral: Sequence[float]) -> None:
        """Tell of one performer's receivers: at first, and whenever they have other tables."""
        told = {"targets": [t.model_dump(mode="json") for t in targets], "neutral": list(neutral)}
        self._watched[performer] = json.dumps([performer, told]).encode() + b"\n"
        self.write(self._watched[performer])

    def tell(self, performer: int, frame: ControlFrame, *, at_once: bool) -> None:
        """Tell of one performer's frame, soon or at once."""
        told = performer, frame.seq, frame.seconds, list(frame.params)
        self._kept[performer] = json.dumps(told).encode() + b"\n"
        if at_once or time.monotonic() - self._flushed_at >= _TOGETHER_S:
            self._hand_over()

    def _hand_over(self) -> None:
        self._flushed_at = time.monotonic()
        self.write(b"".join(self._kept.values()))
        self._kept.clear()

    def _greet(self) -> None:
        for line in self._watched:
            self.write(line)

    def leave(self) -> None:
        """See :meth:`Child.leave`; it is told what was kept."""
        self._hand_over()
        super().leave()


class _Watch(DeferredSink):
    """A sink that tells the guard of one performer's frames."""

    name = "guard"
    trouble = ""

    def __init__(
        self, guard: Guard, performer: int, receivers: Sequence[OscSink], neutral: Sequence[float]
    ) -> None:
        self._guard, self._performer, self._receivers, self._neutral = guard, performer, receivers, neutral
        self._targets: list[OscConfig] = []
        self._kept: ControlFrame | None = None
        self._is_silent = True
        self._introduce()

    def _introduce(self) -> None:
        targets = [sink.config for sink in self._receivers]
        if targets != self._targets:
            self._targets = targets
            self._guard.introduce(self._performer, targets, self._neutral)

    def announce(self, extras: Sequence[Extra]) -> None:
        """Taught outputs stay where they are."""

    def send(self, frame: ControlFrame) -> None:
        """Keep every fifth frame, and the first of silence and of sound, for :meth:`run_deferred`."""
        is_silent = _is_silent(frame.params, self._neutral) if frame.seq >= 0 else self._is_silent
        if is_silent != self._is_silent or (frame.seq >= 0 and frame.seq % _EVERY == 0):
            self._kept = frame

    def run_deferred(self) -> None:
        """Tell of what was kept."""
        frame, self._kept = self._kept, None
        if frame is not None:
            self._introduce()
            was_silent, self._is_silent = self._is_silent, _is_silent(frame.params, self._neutral)
            self._guard.tell(self._performer, frame, at_once=was_silent != self._is_silent)

    def counters(self) -> dict[str, int]:
        """Nothing that a receiver would miss."""
        return {}

    def close(self) -> None:
        """The process is closed with the show's others."""


def _is_silent(params: Sequence[float], neutral: Sequence[float]) -> bool:
    return all(abs(a - b) < 1e-3 for a, b in zip(params, neutral, strict=True))


@dataclass(slots=True)
class _Last:
    """One performer: their receivers, silence, and the last frame that was told."""

    targets: list[OscConfig]
    neutral: list[float]
    seq: int = -1
    seconds: float = 0.0
    params: list[float] = field(default_factory=list)

    @property
    def sounds(self) -> bool:
        return self.seq >= 0 and not _is_silent(self.params, self.neutral)

    def faded(self, n: int) -> ControlFrame:
        """The ``n``-th frame of the way to neutral."""
        part = min(n / _FADE, 1.0)
        now = [a + (b - a) * part for a, b in zip(self.params, self.neutral, strict=True)]
        number, at = self.seq + _SINCE + n, self.seconds + (_SINCE + n) * _FRAME
        return ControlFrame(number, at, (0.0,) * len(SCALARS), now, state="stopped")


def _fade(performers: Sequence[_Last]) -> None:
    """Take every receiver of these from the last frame to neutral."""
    if any(target.transport == "tcp" for last in performers for target in last.targets):
        time.sleep(_APART_S)
    sinks: list[tuple[OscSink, _Last]] = []
    for last in performers:
        for target in last.targets:
            with contextlib.suppress(DeviceError):
                sinks.append((OscSink(target), last))
    for n in range(1, _FADE + _SILENCE + 1):
        for sink, last in sinks:
            sink.send(last.faded(n))
        time.sleep(_FRAME)
    for sink, _ in sinks:
        sink.close()


def main() -> int:
    """The process."""
    ignore_terminal()
    performers: dict[int, _Last] = {}
    for line in sys.stdin.buffer:
        if not line.endswith(b"\n"):
            break
        performer, *told = json.loads(line)
        if len(told) == 1:
            last = performers.setdefault(performer, _Last([], told[0]["neutral"]))
            last.targets = [OscConfig.model_validate(target) for target in told[0]["targets"]]
        else:
            last = performers[performer]
            last.seq, last.seconds, last.params = told
    _fade([last for last in performers.values() if last.sounds])
    return 0


if __name__ == "__main__":
    sys.exit(main())
