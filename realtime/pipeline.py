"""The pipeline: the only file that joins the stages.

Everything happens synchronously in the callback of the datagram that completes a frame: decode, resample
and scalars in Rust, one model step, the mixer, one bundle to each sink. There is no queue and no second
thread on the way, so a frame's latency is the sum of its stages.

Time here is that of the datagrams' arrivals and of what is due between them, never the moment the loop gets
round to it: a tick that is due before a datagram arrived comes before it, so that a recording replays as it
was played.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pyanticip.controls import Event
from realtime.clock import Clock
from realtime.mapping.live_mapping import LiveMapping
from realtime.mapping.mixer import Mixer
from realtime.mapping.performer import PerformerRange
from realtime.playout import FRAME_NS, Playout
from realtime.protocols import Front, FrontFrame, Lesson, Observer, Tape
from realtime.sinks.base import ControlFrame, Sink
from realtime.step.base import StepBackend, StepResult
from realtime.step.telemetry import telemetry_of

__all__ = ["Front", "FrontFrame", "Observer", "Pipeline", "StepBackend", "Tape"]

F32 = npt.NDArray[np.float32]

_FRAME = FRAME_NS / 1e9
# The forecast of the last frame stands in for so many frames that do not come.
_BRIDGED = 20
# A frame is never waited for longer than this, nor shorter.
_SHORTEST_NS, _LONGEST_NS = 1_000_000, 60_000_000
# Frames that have come behind their turn for so long will not come in time again.
_DETOUR_NS = 300_000_000
# What the loop gets round to this late is worked through without a bundle: newer frames wait.
_STALE_NS = 40_000_000
_STATUS_NS = 1_000_000_000
_FADE_OUT = 0.4
# Frames between two looks at which joints the source has.
_LOOK_AT_MASK = 50
# So many late steps in a row, and the scalars take over; the model is tried again after the pause, which
# doubles each time up to the longest.
_LATE_IN_A_ROW = 3
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000_000, 32_000_000_000
# A sender that was not heard for so long is not counted as ignored any more.
_RECENT_NS = 60_000_000_000

STAGES = ("decode", "resample", "scalars", "step", "map", "send")


def _finite(step: StepResult) -> bool:
    # Sums of lists, not of arrays: cold, they cost a fraction.
    return math.isfinite(sum(map(sum, (*step.params.tolist(), *step.hazards.tolist()))) + step.gate)


class Pipeline:
    """One performer's way from datagrams to sinks.

    Each frame of the 50 Hz grid leaves once: with the datagram that completes it, or, where that is late, by
    :meth:`run_until` as the forecast of the newest frame has it. The model is optional: without it, while it
    is late, and after it failed, the scalar mapping plays. ``tape`` and ``observer`` may be set and cleared
    at any time.
    """

    def __init__(
        self,
        *,
        front: Front,
        mixer: Mixer,
        sinks: Sequence[Sink],
        clock: Clock,
        backend: StepBackend | None = None,
        kind: str = "mocopi",
        budget_ms: float = 15.0,
        playout: Playout | None = None,
    ) -> None:
        self.mixer = mixer
        self.sinks = list(sinks)
        self.backend = backend
        self.tape: Tape | None = None
        self.lesson: Lesson | None = None
        self.taught: LiveMapping | None = None
        self.mapping_error = ""
        self.lacking: list[str] = []
        self.observer: Observer | None = None
        self.kind = kind
        self.counts = {
            "frames": 0,
            "bridged": 0,
            "ticks": 0,
            "overtaken": 0,
            "superseded": 0,
            "stale_events": 0,
            "late_steps": 0,
            "failed_steps": 0,
            "invalid": 0,
            "errors": 0,
        }
        self.model_error = ""
        self.front = front
        self.clock = clock
        self._playout = playout
        self._queue: deque[tuple[int, ControlFrame]] = deque()
        self._warm_mixer = Mixer(performer=None if mixer.performer is None else PerformerRange())
        self._newest: tuple[StepResult | None, ControlFrame] | None = None
        self._row: F32 | None = None
        self._budget_ns = int(budget_ms * 1e6)
        self._late_row = 0
        self._pause_ns = _FIRST_PAUSE_NS
        self._off_until_ns = 0
        self._stale = True
        self._base = 0
        self._seq = -1
        # The newest frame that a datagram completed: its number, and what the model said of it.
        self._completed = -1
        # How many frames after it the model has been told of a body carried on.
        self._guessed = 0
        # Since when frames come behind their turn.
        self._behind_ns: int | None = None
        # The newest that was more than silence.
        self._spoken = -1
        self._step: StepResult | None = None
        self._now_ns = clock.now_ns()
        self._due_ns = self._now_ns + FRAME_NS
        #: When the datagram that completes the next frame is expected; None while there is no telling.
        self.expected_ns: int | None = None
        self._is_leaving = False
        self._carried: list[tuple[int, str, float]] = []
        self._scalars: list[float] = [0.0] * 7
        self._taped: list[float] = []
        self._status_ns = -_STATUS_NS

    # -- the way of a frame ------------------------------------------------------------------------

    def feed(self, datagram: bytes, t_arrival_ns: int, sender: str = "") -> bool:
        """Take one datagram of ``sender``; True if it completed a frame.

        Arrivals do not go back; whatever was due before this one is done first.
        """
        self.run_until(t_arrival_ns)
        self._now_ns = now = max(t_arrival_ns, self._now_ns)
        out = self.front.feed(datagram, t_arrival_ns, sender)
        if self.tape is not None:
            self.tape.raw(t_arrival_ns, f"{self.kind}@{sender}" if sender else self.kind, datagram)
        if out is None:
            return False
        begun = time.perf_counter_ns()
        step = self._model(out, now)
        stepped = time.perf_counter_ns()
        number = self._number(out, now)
        since = max(number - self._completed, 1) * _FRAME
        self._scalars = out.scalars.tolist()
        taught = self._by_mapping(out, step, since)
        self._completed, self._guessed = max(number, self._completed), 0
        self._step, self._row = step, out.features[-1]
        self.expected_ns = out.expected_ns
        release = now
        if self._playout is not None:
            release = self._playout.release_ns(out.t_local_ns, now)
            self._due_ns = release + (max(self._seq, number) + 1 - number) * FRAME_NS
        elif number >= self._seq:
            self._due_ns = min(max(out.late_ns, now + _SHORTEST_NS), now + _LONGEST_NS)
        self.counts["frames"] += 1
        if not out.valid:
            self.counts["invalid"] += 1
        if self.tape is not None:
            self.tape.frame(now, number, out.t_source_ns, out.quats, out.root)
        if number > self._seq:
            dt = (number - self._spoken) * _FRAME if self._seq >= 0 else _FRAME
            params, events = self.mixer.play(step, self._scalars, dt, taught, out.activity)
            self._seq = self._spoken = number
            frame = self._frame(now, params, events, step)
            self._newest = step, frame
            mapped = time.perf_counter_ns()
            self._leave(frame, release)
            sent = time.perf_counter_ns()
            self.mixer.learn()
            if self.observer is not None:
                # perf_counter and monotonic may differ in origin: the end is stamped on the arrival's clock.
                done = time.monotonic_ns() - (time.perf_counter_ns() - sent)
                stages = (*out.stages_ns, stepped - begun, mapped - stepped, sent - mapped)
                self.observer(t_arrival_ns, done, out.seq, stages)
        else:
            # Its turn has passed: the forecast spoke for it. What it says counts from the next frame on.
            self.counts["overtaken"] += 1
            if step is not None and not self.mixer.bypass:
                self.mixer.overhear(step, out.activity, since)
                self.mixer.learn()
        if self.lesson is not None:
            self.lesson.frame(out)
        return True

    def _frame(
        self, now: int, params: Sequence[float], events: Sequence[Event], step: StepResult | None
    ) -> ControlFrame:
        field, plan = telemetry_of(step)
        status = self._due_status(now)
        seconds = self._seq * _FRAME
        return ControlFrame(
            self._seq, seconds, self._scalars, params, events, status, self.mixer.extras, field, plan, now
        )

    def _number(self, out: FrontFrame, now: int) -> int:
        """The frame's number: grid indices go on where the stream begins anew or ticks ran ahead of it."""
        if self._seq < 0:
            self._base = -out.seq
        number = self._base + out.seq
        if number > self._seq:
            self._behind_ns = None
        elif self._behind_ns is None:
            self._behind_ns = now
        if out.reset:
            self.mixer.forget()
        # Frames that keep coming behind their turn have a longer way now: the count goes on with them.
        behind = self._behind_ns is not None and now - self._behind_ns > _DETOUR_NS
        if number <= self._seq and (out.reset or behind):
            self._base += self._seq + 1 - number
            number, self._behind_ns = self._seq + 1, None
        return number

    def teach(self, taught: LiveMapping | None) -> None:
        """Play a mapping from the next frame on; None: none any more."""
        self.taught = taught
        self.mapping_error = ""
        self.lacking = []
        self.mixer.teach(taught)
        self._warm_mixer.teach(taught)
        for sink in self.sinks:
            sink.announce(taught.extras if taught is not None else ())

    def _by_mapping(self, out: FrontFrame, step: StepResult | None, dt: float) -> list[float] | None:
        """The mapping's values, or None where there is none or it cannot speak."""
        taught = self.taught
        if taught is None:
            return None
        try:
            values = taught.step(out.features[-1], step, dt)
            if values is not None and not math.isfinite(sum(values)):
                raise FloatingPointError("a taught output is not finite")
        except Exception as error:
            # As with the model: told in the status, never the end of the sound.
            self.mapping_error = f"{type(error).__name__}: {error}"
            self.taught = None
            return None
        if out.reset or self._seq % _LOOK_AT_MASK == 0:
            self.lacking = taught.mapping.lacking(self.front.mask)
        return values

    def _model(self, out: FrontFrame, now: int) -> StepResult | None:
        """One model step, or None where the scalars must play."""
        backend = self.backend
        if backend is None:
            return None
        if now < self._off_until_ns:
            self._stale = True
            return None
        start = time.perf_counter_ns()
        try:
            if out.reset or self._stale:
                backend.reset()
                self._stale = False
            step = backend.step(out.features)
            if not _finite(step):
                raise FloatingPointError("the model's output is not finite")
        except Exception as error:
            # Whatever goes wrong in the model must not stop the sound; it is told in the status.
            self.counts["failed_steps"] += 1
            self.model_error = f"{type(error).__name__}: {error}"
            self.rest(now)
            return None
        if self.clock.live and time.perf_counter_ns() - start > self._budget_ns:
            self.counts["late_steps"] += 1
            self._late_row += 1
            if self._late_row >= _LATE_IN_A_ROW:
                self.rest(now)
                if self.tape is not None:
                    # How long a step took is no part of a replay: that it was too long is.
                    self.tape.control(now, "rest", ())
        else:
            self._late_row = 0
        return step

    def rest(self, now: int) -> None:
        """Leave the model out for a while from ``now`` on, longer each time."""
        self._late_row = 0
        self._stale = True
        self._off_until_ns = now + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)

    # -- between datagrams ---------------------------------------------------------------------------

    @property
    def due_ns(self) -> int:
        """When :meth:`run_until` has something to do unless a datagram comes before."""
        return min(self._queue[0][0], self._due_ns) if self._queue else self._due_ns

    def run_until(self, t_ns: int) -> None:
        """Do what is due before ``t_ns``: frames that are late, bundles that were held back, the status."""
        while (due := self.due_ns) < t_ns:
            self._now_ns = max(due, self._now_ns)
            if self._queue and self._queue[0][0] <= due:
                self._send(self._queue.popleft()[1])
            else:
                self._due_ns = due + FRAME_NS
                self._tick(due)

    def _tick(self, now: int) -> None:
        """A frame that no datagram has completed in time: its forecast, then hold and fade."""
        if self._seq < 0:
            self._due_ns = now + _STATUS_NS
            self._send(ControlFrame(-1, 0.0, self._scalars, (), (), self._due_status(now), t_ns=now))
            return
        self._seq += 1
        away = self._seq - self._completed
        step: StepResult | None = None
        events: list[Event] = []
        if away <= _BRIDGED:
            self.counts["bridged"] += 1
            self._spoken = self._seq
            if away == 1 and (guess := self._imagine(now)) is not None:
                out, step = guess
                self._scalars = out.scalars.tolist()
                # The forecast of what follows is the guess's from now on.
                self._step, self._guessed = step, 1
                taught = self._rehearsed(out.features[-1], step)
                told = step, self._scalars, _FRAME, taught, out.activity
                params, events = self.mixer.play(*told, guessed=True)
            else:
                step = self._step
                params, events = self.mixer.bridge(step, (away - self._guessed) * _FRAME, _FRAME)
        else:
            self.counts["ticks"] += 1
            self.expected_ns = None
            params = self.mixer.silence((away if away == _BRIDGED + 1 else 1) * _FRAME)
        self._leave(self._frame(now, params, events, step), now)

    def _imagine(self, now: int) -> tuple[FrontFrame, StepResult | None] | None:
        """The frame after the newest with its body carried on, and what the model says of it, if anything."""
        out = self.front.imagine()
        if out is None or self._base + out.seq != self._seq:
            return None
        if self._playout is None:
            self._due_ns = min(max(out.late_ns, now + _SHORTEST_NS), now + _LONGEST_NS)
        if self.backend is None or self._step is None:
            return out, None
        # A model that fails here will say why with the next true frame.
        with contextlib.suppress(Exception):
            step = self.backend.imagine(out.features)
            if step is not None and _finite(step):
                return out, step
        return None

    def fade_out(self, t_ns: int) -> int:
        """The show is over at ``t_ns``: to neutral, whatever the mode; returns when that is reached."""
        self.run_until(t_ns)
        self._now_ns = max(t_ns, self._now_ns)
        self.mixer.leave(_FADE_OUT)
        # However late the loop is, silence must be heard.
        self._is_leaving = True
        return t_ns + round((_FADE_OUT + 2 * _FRAME) * 1e9)

    def _leave(self, frame: ControlFrame, release_ns: int) -> None:
        """Record a frame, and send it now or when its turn comes."""
        moves = self._seq - self._completed <= _BRIDGED or list(frame.params) != self._taped
        if self.tape is not None and moves:
            self._taped = list(frame.params)
            telemetry = (frame.field, frame.plan) if frame.field or frame.plan else ()
            values = [*frame.params, *frame.extras]
            self.tape.output(frame.t_ns, frame.seq, values, self._scalars, frame.events, *telemetry)
        if release_ns <= frame.t_ns:
            self._send(frame)
            return
        if self._queue:
            release_ns = max(release_ns, self._queue[-1][0] + _SHORTEST_NS)
        frame.t_ns = release_ns
        self._queue.append((release_ns, frame))

    def _send(self, frame: ControlFrame) -> None:
        """Hand a frame to the sinks, unless the loop is so late that newer ones wait."""
        stale = self.clock.live and self.clock.now_ns() - frame.t_ns > _STALE_NS
        if stale and frame.seq >= 0 and not self._is_leaving:
            self.counts["superseded"] += 1
            self._carried.extend((frame.t_ns + round(a * 1e9), name, s) for name, s, a in frame.events)
            return
        if self._carried:
            due = [(name, s, (t - frame.t_ns) / 1e9) for t, name, s in self._carried]
            self._carried.clear()
            late = [event for event in due if event[2] < 0.0]
            self.counts["stale_events"] += len(late)
            frame.events = [*(event for event in due if event[2] >= 0.0), *frame.events]
        for sink in self.sinks:
            sink.send(frame)

    def _due_status(self, now: int) -> tuple[str, ...]:
        if now - self._status_ns < _STATUS_NS:
            return ()
        self._status_ns = now
        return self.status()

    @property
    def state(self) -> str:
        """waiting, silent, or the mixer's mode: playing, frozen, stopped, panic."""
        if self._seq < 0:
            return "waiting"
        if self.mixer.mode == "playing" and self.mixer.silent_seconds > 0.1:
            return "silent"
        return self.mixer.mode

    def status(self) -> tuple[str, ...]:
        """What `/anticip/status` says: the state, then name=value."""
        front = self.front.counters()
        model = self.backend.name if self.backend is not None else "none"
        resting = self.backend is not None and self._now_ns < self._off_until_ns
        lost = front.get("lost", 0)
        bad = sum(front.get(name, 0) for name in ("truncated", "malformed", "alien"))
        return (
            self.state,
            f"source={self.kind}",
            f"backend={model}",
            f"plays={'model' if self.mixer.by_model else 'scalars'}" + (" (model rests)" if resting else ""),
            f"frames={self.counts['frames']}",
            f"lost={lost}",
            f"bad={bad}",
            *self._stream_status(),
            f"late_steps={self.counts['late_steps']}",
            f"failed_steps={self.counts['failed_steps']}",
            f"lead_ms={self.mixer.lead_ms:g}",
            f"recording={'yes' if self.tape is not None else 'no'}",
            *self._taught_status(),
        )

    def _stream_status(self) -> list[str]:
        """How the stream keeps time, who plays, who does not."""
        rate, jitter_ms, _ = self.front.timing
        found = [] if rate is None else [f"rate={rate:.1f}", f"jitter_ms={jitter_ms:.1f}"]
        if self._playout is not None:
            found.append(f"buffer_ms={self._playout.buffer_ms:.1f}")
        since = self._now_ns - _RECENT_NS
        senders = self.front.senders()
        found += [f"from={name}" for name, plays, *_ in senders if plays and name]
        found.append(f"ignored={sum(not plays and last >= since for _, plays, _, last in senders)}")
        if self.front.refusal:
            found.append(f"refused={self.front.refusal}")
        return found

    def _taught_status(self) -> list[str]:
        found = []
        if self.taught is not None:
            mapping = self.taught.mapping
            beyond = f" ({mapping.beyond}s)" if self.taught.is_beyond else ""
            found = [f"mapping={mapping.name}", f"novelty={self.taught.novelty:.1f}{beyond}"]
            if self.lacking:
                found.append(f"lacking={','.join(self.lacking)}")
        elif self.mapping_error:
            found = [f"mapping=failed: {self.mapping_error}"]
        if self.lesson is not None:
            found.append(f"teaching={self.lesson.state}")
        return found

    def counters(self) -> dict[str, int]:
        """Everything counted by the front and by the pipeline itself."""
        return {**self.front.counters(), **self.counts}

    def skeleton(self) -> list[str] | None:
        """Joint names of the source, once it has told them."""
        return self.front.skeleton

    def prewarm(self) -> None:
        """Run what the next datagram will run, on scratch states, shortly before it is due."""
        if self.backend is not None and self._now_ns >= self._off_until_ns:
            self.backend.prewarm()
        if self._newest is not None:
            step, frame = self._newest
            self._warm_mixer.play(step, frame.scalars, 0.02, self._rehearsed(self._row, step))

    def _rehearsed(self, row: F32 | None, step: StepResult | None) -> list[float] | None:
        if self.taught is None or row is None:
            return None
        with contextlib.suppress(Exception):
            return self.taught.rehearse(row, step)
        return None

    def close(self) -> None:
        """Close the sinks and the model."""
        for sink in self.sinks:
            sink.close()
        if self.backend is not None:
            self.backend.close()
