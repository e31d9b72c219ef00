"""The pipeline: the only file that joins the stages.

Everything happens synchronously in the callback of the datagram that completes a frame: decode, resample
and scalars in Rust, one model step, the desk, one bundle to each sink. There is no queue and no second
thread on the way, so a frame's latency is the sum of its stages.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pyanticip.controls import Presence
from realtime.clock import Clock
from realtime.frame import ControlFrame, Sink
from realtime.inner import inner_of
from realtime.mapping.desk import Desk, Stepped
from realtime.mapping.taught import Taught, open_taught
from realtime.parts import Backend, Front, FrontFrame, Lesson, Observer, Tape
from realtime.rig import OscRig, Rig, SmoothingRig
from realtime.sinks.osc import OscSink

__all__ = ["Backend", "Front", "FrontFrame", "Observer", "Pipeline", "Tape", "assemble", "desk_of"]

F32 = npt.NDArray[np.float32]

_FRAME_NS = 20_000_000
# A tick of silence is due when nothing has left for one and a half frames.
_QUIET_NS = 30_000_000
_STATUS_NS = 1_000_000_000
# Frames between two looks at which joints the source has.
_LOOK_AT_MASK = 50
# So many late steps in a row, and the scalars take over; the model is tried again after the pause, which
# doubles each time up to the longest.
_LATE_IN_A_ROW = 3
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000_000, 32_000_000_000

STAGES = ("decode", "resample", "scalars", "step", "map", "send")


class Pipeline:
    """One performer's way from datagrams to sinks.

    The model is optional: without it, while it is late, and after it failed, the scalar mapping plays.
    ``tape`` and ``observer`` may be set and cleared at any time.
    """

    def __init__(
        self,
        *,
        front: Front,
        desk: Desk,
        sinks: Sequence[Sink],
        clock: Clock,
        backend: Backend | None = None,
        kind: str = "mocopi",
        budget_ms: float = 15.0,
    ) -> None:
        self.desk = desk
        self.sinks = list(sinks)
        self.backend = backend
        self.tape: Tape | None = None
        self.lesson: Lesson | None = None
        self.taught: Taught | None = None
        self.mapping_error = ""
        self.lacking: list[str] = []
        self.observer: Observer | None = None
        self.kind = kind
        self.counts = {"frames": 0, "ticks": 0, "late_steps": 0, "failed_steps": 0, "invalid": 0, "errors": 0}
        self.model_error = ""
        self.front = front
        self._clock = clock
        self._understudy = Desk()
        self._newest: tuple[Stepped | None, ControlFrame] | None = None
        self._row: F32 | None = None
        self._budget_ns = int(budget_ms * 1e6)
        self._late_row = 0
        self._pause_ns = _FIRST_PAUSE_NS
        self._off_until_ns = 0
        self._stale = True
        self._base = 0
        self._seq = -1
        self._seconds = 0.0
        self._last_source_ns = 0
        self._live_seconds = 0.0
        self._last_live_ns = 0
        self._last_out_ns = 0
        self._ticked = False
        self._scalars: list[float] = [0.0] * 7
        self._status_ns = -_STATUS_NS

    # -- the way of a frame ------------------------------------------------------------------------

    def feed(self, datagram: bytes, t_arrival_ns: int) -> bool:
        """Take one datagram; True if it completed a frame, which then has been sent."""
        out = self.front.feed(datagram, t_arrival_ns)
        if out is None:
            if self.tape is not None:
                self.tape.raw(t_arrival_ns, self.kind, datagram)
            return False
        begun = time.perf_counter_ns()
        step = self._model(out)
        stepped = time.perf_counter_ns()
        now = self._clock.now_ns()
        dt = self._advance(out, now)
        self._scalars = out.scalars.tolist()
        taught = self._by_mapping(out, step, dt)
        params, events = self.desk.play(step, self._scalars, dt, taught, out.activity)
        status = self._due_status(now)
        field, plan = inner_of(step)
        frame = ControlFrame(
            self._seq, self._seconds, self._scalars, params, events, status, self.desk.extras, field, plan
        )
        mapped = time.perf_counter_ns()
        for sink in self.sinks:
            sink.send(frame)
        sent = time.perf_counter_ns()
        self._newest = step, frame
        self._row = out.features[-1]
        self.counts["frames"] += 1
        if not out.valid:
            self.counts["invalid"] += 1
        if self.observer is not None:
            # perf_counter and monotonic may differ in origin: the end is stamped on the arrival's clock.
            done = time.monotonic_ns() - (time.perf_counter_ns() - sent)
            stages = (*out.stages_ns, stepped - begun, mapped - stepped, sent - mapped)
            self.observer(t_arrival_ns, done, out.seq, stages)
        if self.tape is not None:
            self.tape.raw(t_arrival_ns, self.kind, datagram)
            self.tape.frame(now, self._seq, out.t_source_ns, out.quats, out.root)
            told = (field, plan) if field or plan else ()
            self.tape.output(now, self._seq, [*params, *frame.extras], self._scalars, events, *told)
        if self.lesson is not None:
            self.lesson.frame(out)
        return True

    def teach(self, taught: Taught | None) -> None:
        """Play a mapping from the next frame on; None: none any more."""
        self.taught = taught
        self.mapping_error = ""
        self.lacking = []
        self.desk.teach(taught)
        self._understudy.teach(taught)
        for sink in self.sinks:
            sink.announce(taught.extras if taught is not None else ())

    def _by_mapping(self, out: FrontFrame, step: Stepped | None, dt: float) -> list[float] | None:
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
            mask = getattr(self.front, "mask", None)
            self.lacking = taught.mapping.lacking(mask) if mask is not None else []
        return values

    def _advance(self, out: FrontFrame, now: int) -> float:
        """Move the frame number and the source's time on; the seconds since the last live frame.

        They are the source's seconds, so that a show replays as it was played. Only where its clock was
        set anew does ours stand in.
        """
        first = self._seq < 0
        dt = (out.t_source_ns - self._last_source_ns) / 1e9
        if first:
            self._base = -out.seq
            dt = _FRAME_NS / 1e9
        elif out.reset:
            elapsed = (now - self._last_live_ns) / 1e9
            dt = min(dt, elapsed + 0.1) if dt > 0.0 else max(elapsed, _FRAME_NS / 1e9)
        if out.reset:
            self.desk.forget()
        number = self._base + out.seq
        if number <= self._seq:
            # The stream restarted, or ticks of silence ran ahead: the count goes on.
            self._base += self._seq + 1 - number
            number = self._seq + 1
        if not first:
            self._live_seconds += dt
        self._seconds = max(self._seconds, self._live_seconds)
        self._seq = number
        self._last_source_ns = out.t_source_ns
        self._last_live_ns = self._last_out_ns = now
        self._ticked = False
        return dt

    def _model(self, out: FrontFrame) -> Stepped | None:
        """One model step, or None where the scalars must play."""
        backend = self.backend
        if backend is None:
            return None
        begun = self._clock.now_ns()
        if begun < self._off_until_ns:
            self._stale = True
            return None
        start = time.perf_counter_ns()
        try:
            if out.reset or self._stale:
                backend.reset()
                self._stale = False
            step = backend.step(out.features)
            # Sums of lists, not of arrays: cold, they cost a fraction.
            numbers = (*step.params.tolist(), *step.hazards.tolist())
            if not math.isfinite(sum(map(sum, numbers)) + step.gate):
                raise FloatingPointError("the model's output is not finite")
        except Exception as error:
            # Whatever goes wrong in the model must not stop the sound; it is told in the status.
            self.counts["failed_steps"] += 1
            self.model_error = f"{type(error).__name__}: {error}"
            self._rest(begun)
            return None
        if time.perf_counter_ns() - start > self._budget_ns and self._clock.speed <= 1.0:
            self.counts["late_steps"] += 1
            self._late_row += 1
            if self._late_row >= _LATE_IN_A_ROW:
                self._rest(begun)
        else:
            self._late_row = 0
        return step

    def _rest(self, now: int) -> None:
        """Leave the model out for a while, longer each time."""
        self._late_row = 0
        self._stale = True
        self._off_until_ns = now + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)

    # -- silence, status ---------------------------------------------------------------------------

    def tick(self) -> None:
        """Called at 50 Hz while no datagrams come: holds, then fades, and keeps the sinks alive."""
        now = self._clock.now_ns()
        status = self._due_status(now)
        if self._seq < 0:
            if status:
                self._send(ControlFrame(-1, 0.0, self._scalars, (), (), status))
            return
        elapsed = now - self._last_out_ns
        if elapsed < (_FRAME_NS // 2 if self._ticked else _QUIET_NS):
            return
        dt = elapsed / 1e9
        params = self.desk.silence(dt)
        self._ticked = True
        self._last_out_ns = now
        self._seq += 1
        self._seconds = max(self._seconds, self._live_seconds + (now - self._last_live_ns) / 1e9)
        self.counts["ticks"] += 1
        self._send(
            ControlFrame(self._seq, self._seconds, self._scalars, params, (), status, self.desk.extras)
        )

    def _send(self, frame: ControlFrame) -> None:
        for sink in self.sinks:
            sink.send(frame)

    def _due_status(self, now: int) -> tuple[str, ...]:
        if now - self._status_ns < _STATUS_NS:
            return ()
        self._status_ns = now
        return self.status()

    @property
    def state(self) -> str:
        """waiting, silent, or the desk's mode: playing, frozen, stopped, panic."""
        if self._seq < 0:
            return "waiting"
        if self.desk.mode == "playing" and self.desk.silent_seconds > 0.1:
            return "silent"
        return self.desk.mode

    def status(self) -> tuple[str, ...]:
        """What `/anticip/status` says: the state, then name=value."""
        front = self.front.counters()
        model = self.backend.name if self.backend is not None else "none"
        resting = self.backend is not None and self._clock.now_ns() < self._off_until_ns
        lost = front.get("lost", 0)
        bad = sum(front.get(name, 0) for name in ("truncated", "malformed", "alien"))
        return (
            self.state,
            f"source={self.kind}",
            f"backend={model}",
            f"plays={'model' if self.desk.by_model else 'scalars'}" + (" (model rests)" if resting else ""),
            f"frames={self.counts['frames']}",
            f"lost={lost}",
            f"bad={bad}",
            f"late_steps={self.counts['late_steps']}",
            f"failed_steps={self.counts['failed_steps']}",
            f"lead_ms={self.desk.lead_ms:g}",
            f"recording={'yes' if self.tape is not None else 'no'}",
            *self._taught_status(),
        )

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
        names = getattr(self.front, "skeleton", None)
        return None if names is None else list(names)

    def prewarm(self) -> None:
        """Run what the next datagram will run, on scratch states, shortly before it is due."""
        if self.backend is not None and self._clock.now_ns() >= self._off_until_ns:
            self.backend.prewarm()
        if self._newest is not None:
            step, frame = self._newest
            self._understudy.play(step, frame.scalars, 0.02, self._rehearsed(step))

    def _rehearsed(self, step: Stepped | None) -> list[float] | None:
        if self.taught is None or self._row is None:
            return None
        with contextlib.suppress(Exception):
            return self.taught.rehearse(self._row, step)
        return None

    def close(self) -> None:
        """Close the sinks and the model."""
        for sink in self.sinks:
            sink.close()
        if self.backend is not None:
            self.backend.close()


def assemble(
    rig: Rig,
    clock: Clock,
    *,
    kind: str | None = None,
    sinks: Sequence[Sink] | None = None,
    backend: Backend | None = None,
) -> Pipeline:
    """The pipeline that a rig describes.

    ``kind`` is the wire format where it is not the rig's source; ``sinks`` replaces the rig's OSC targets;
    ``backend`` replaces the rig's model. Hosts are resolved and the checkpoint is loaded here, so that
    what is wrong with them is known before anything plays. Raises a MotionError.
    """
    from pyanticip._core import LiveFront

    kind = kind or rig.source.kind
    made = list(sinks) if sinks is not None else [_osc(target) for target in rig.osc]
    try:
        if backend is None and rig.model.enabled:
            from realtime.step import open_backend

            backend = open_backend(rig.model.backend, rig.model.checkpoint)
    except BaseException:
        for sink in made:
            sink.close()
        raise
    pipeline = Pipeline(
        front=LiveFront(kind, steady=rig.performer.steady, noise=rig.performer.jitter),
        desk=desk_of(rig),
        sinks=made,
        clock=clock,
        backend=backend,
        kind=kind,
        budget_ms=rig.model.budget_ms,
    )
    if rig.mapping is not None:
        try:
            pipeline.teach(open_taught(rig.mapping, backend))
        except BaseException:
            pipeline.close()
            raise
    return pipeline


def desk_of(rig: Rig) -> Desk:
    """The desk with a rig's settings."""
    neutral = rig.silence.neutral_vector()
    silence = rig.silence
    return Desk(
        smoothing=rig.smoothings(),
        lead_ms=rig.lead_ms,
        gain=rig.gain,
        trigger=rig.events.build(),
        presence=Presence(hold=silence.hold, fade=silence.fade, catch_up=silence.catch_up, neutral=neutral),
        neutral=neutral,
        extra_smoothing=rig.smoothing.get("default", SmoothingRig()).build(),
        performer=rig.performer.build(),
    )


def _osc(target: OscRig) -> OscSink:
    return OscSink(
        target.host,
        target.port,
        prefix=target.prefix,
        send=target.send,
        addresses=target.addresses,
        ranges={name: r.build() for name, r in target.ranges.items()},
        max_rate=target.max_rate,
    )
