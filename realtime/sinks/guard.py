"""Fades the OSC receivers out if the show is killed: ``python -P -m realtime.sinks.guard``.

The process reads JSON lines from standard input: each performer's receivers, and a frame ten times a second.
If the input ends after a frame that is not silence, the show died unexpectedly, and the guard fades every OSC
receiver to neutral in its place. MIDI ports and the built-in voice run in their own processes and do so
themselves.
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
from realtime.sinks.base import ControlFrame, DeferredSink, Sink
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink

_FRAME_S = 0.02
# The guard process receives every fifth frame.
_REPORT_INTERVAL = 5
# Length of the fade in frames (0.4 s).
_FADE_FRAMES = 20
# Frames of silence after the fade: a datagram may be lost, and a slow receiver gets few.
_SILENCE_FRAMES = 10
# liblo 0.31 may not read a SLIP stream opened within milliseconds after the show's own stream ended.
_TCP_REOPEN_DELAY_S = 0.05
# Frames of several performers are written together, because each write wakes the process.
_FLUSH_INTERVAL_S = 0.05
# Added to the last frame's number: the show may have sent this many more frames after it.
_SEQ_MARGIN = 2 * _REPORT_INTERVAL


class Guard(Child):
    """The guard process, one for all performers of a show; restarted if it dies.

    When the show ends, it fades the performers whose last frame was not silence.
    """

    first_retry_delay_s = 0.1

    def __init__(self, say: Callable[[str], None]) -> None:
        self._target_lines: list[bytes] = []
        self._frame_lines: dict[int, bytes] = {}
        self._flushed_at = 0.0
        super().__init__("the guard", "realtime.sinks.guard", [], say, quiet=True)

    def watch(self, receivers: Sequence[OscSink], neutral: Sequence[float]) -> Sink:
        """Returns a sink that reports one performer's frames, which go to ``receivers`` as well.

        ``neutral`` are the eight parameters of silence.
        """
        performer = len(self._target_lines)
        self._target_lines.append(b"")
        return _Watch(self, performer, receivers, neutral)

    def report_targets(self, performer: int, targets: Sequence[OscConfig], neutral: Sequence[float]) -> None:
        """Report the options of one performer's receivers: at the start, and whenever they change."""
        options = {"targets": [t.model_dump(mode="json") for t in targets], "neutral": list(neutral)}
        self._target_lines[performer] = json.dumps([performer, options]).encode() + b"\n"
        self.write(self._target_lines[performer])

    def report_frame(self, performer: int, frame: ControlFrame, *, flush: bool) -> None:
        """Report one performer's frame, at the next flush or with one now."""
        record = performer, frame.seq, frame.seconds, list(frame.params)
        self._frame_lines[performer] = json.dumps(record).encode() + b"\n"
        if flush or time.monotonic() - self._flushed_at >= _FLUSH_INTERVAL_S:
            self._flush()

    def _flush(self) -> None:
        self._flushed_at = time.monotonic()
        self.write(b"".join(self._frame_lines.values()))
        self._frame_lines.clear()

    def _on_start(self) -> None:
        for line in self._target_lines:
            self.write(line)

    def begin_close(self) -> None:
        """See :meth:`Child.begin_close`; frames not yet written are written first."""
        self._flush()
        super().begin_close()


class _Watch(DeferredSink, Sink):
    """Reports one performer's frames to the guard, a process that the show closes."""

    name = "guard"

    def __init__(
        self, guard: Guard, performer: int, receivers: Sequence[OscSink], neutral: Sequence[float]
    ) -> None:
        self._guard, self._performer, self._receivers, self._neutral = guard, performer, receivers, neutral
        self._targets: list[OscConfig] = []
        self._pending: ControlFrame | None = None
        self._is_silent = True
        self._report_targets()

    def _report_targets(self) -> None:
        targets = [sink.config for sink in self._receivers]
        if targets != self._targets:
            self._targets = targets
            self._guard.report_targets(self._performer, targets, self._neutral)

    def send(self, frame: ControlFrame) -> None:
        """Store every fifth frame, and the first of silence and of sound, for :meth:`run_deferred`."""
        is_silent = _is_silent(frame.params, self._neutral) if frame.seq >= 0 else self._is_silent
        if is_silent != self._is_silent or (frame.seq >= 0 and frame.seq % _REPORT_INTERVAL == 0):
            self._pending = frame

    def run_deferred(self) -> None:
        """Report the stored frame, and the receivers' options if they changed."""
        frame, self._pending = self._pending, None
        if frame is not None:
            self._report_targets()
            was_silent, self._is_silent = self._is_silent, _is_silent(frame.params, self._neutral)
            self._guard.report_frame(self._performer, frame, flush=was_silent != self._is_silent)


def _is_silent(params: Sequence[float], neutral: Sequence[float]) -> bool:
    return all(abs(a - b) < 1e-3 for a, b in zip(params, neutral, strict=True))


@dataclass(slots=True)
class _Performer:
    """One performer's receivers, neutral parameters, and last reported frame."""

    targets: list[OscConfig]
    neutral: list[float]
    seq: int = -1
    seconds: float = 0.0
    params: list[float] = field(default_factory=list)

    @property
    def is_sounding(self) -> bool:
        return self.seq >= 0 and not _is_silent(self.params, self.neutral)

    def fade_frame(self, n: int) -> ControlFrame:
        """The ``n``-th frame (from 1) of the fade from the last parameters to neutral."""
        progress = min(n / _FADE_FRAMES, 1.0)
        params = [a + (b - a) * progress for a, b in zip(self.params, self.neutral, strict=True)]
        seq, seconds = self.seq + _SEQ_MARGIN + n, self.seconds + (_SEQ_MARGIN + n) * _FRAME_S
        return ControlFrame(seq, seconds, (0.0,) * len(SCALARS), params, state="stopped")


def _fade(performers: Sequence[_Performer]) -> None:
    """Fade every receiver of these performers to neutral; returns when done."""
    if any(target.transport == "tcp" for performer in performers for target in performer.targets):
        time.sleep(_TCP_REOPEN_DELAY_S)
    sinks: list[tuple[OscSink, _Performer]] = []
    for performer in performers:
        for target in performer.targets:
            with contextlib.suppress(DeviceError):
                sinks.append((OscSink(target), performer))
    for n in range(1, _FADE_FRAMES + _SILENCE_FRAMES + 1):
        for sink, performer in sinks:
            sink.send(performer.fade_frame(n))
        time.sleep(_FRAME_S)
    for sink, _ in sinks:
        sink.close()


def main() -> int:
    """Entry point of the process."""
    ignore_terminal()
    performers: dict[int, _Performer] = {}
    for line in sys.stdin.buffer:
        if not line.endswith(b"\n"):
            break
        index, *record = json.loads(line)
        if len(record) == 1:
            performer = performers.setdefault(index, _Performer([], record[0]["neutral"]))
            performer.targets = [OscConfig.model_validate(target) for target in record[0]["targets"]]
        else:
            performer = performers[index]
            performer.seq, performer.seconds, performer.params = record
    _fade([performer for performer in performers.values() if performer.is_sounding])
    return 0


if __name__ == "__main__":
    sys.exit(main())
