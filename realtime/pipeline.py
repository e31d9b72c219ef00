"""The pipeline: the only module that joins the stages.

Everything happens synchronously in the callback of the datagram that completes a frame: one call of the
core's engine (decode, resample, scalars, model step, memory, mixing), then one bundle to each sink.

Times are those of datagram arrivals and of deadlines between them, not of their processing: a tick that is
due before a datagram arrived is processed first, so that a recording replays as it was played.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence

from pyanticip._core import Engine, FrameResult, FrontOutput, LiveFront
from pyanticip.controls import Event
from pyanticip.motion.recording import Records
from realtime import status
from realtime.clock import FRAME, FRAME_NS, Clock
from realtime.config import BufferMs
from realtime.mapping.labels import ActiveGesture, Gestures, Labels
from realtime.mapping.live_mapping import LiveMapping, check_model
from realtime.mapping.mixer import Mixer
from realtime.mapping.performer import PerformerRange
from realtime.memory.live_memory import LiveMemory
from realtime.protocols import FIRST_SENDER_TIMEOUT_NS, Observer, TakeRecorder
from realtime.sinks.base import ControlFrame, Sink, Tempo, beat_at
from realtime.sinks.outlet import Outlet
from realtime.step.base import StepBackend, StepResult, telemetry_of
from realtime.step.guard import GuardedModel

# Maximum number of missing frames in a row that are bridged by the forecast of the last one.
_MAX_BRIDGED = 20
_STATUS_INTERVAL_NS = 1_000_000_000
_FADE_OUT_S = 0.4
# Upper limit of the age that is subtracted from the time until an event.
_MAX_EVENT_AGE_S = 0.2
# Number of frames between two checks of which joints the source has.
_MASK_CHECK_FRAMES = 50
_COUNTERS = (
    *("frames", "bridged", "ticks", "overtaken", "superseded", "stale_events"),
    *("late_steps", "failed_steps", "without_model", "invalid", "errors", "skipped"),
)
STAGES = ("decode", "resample", "scalars", "step", "map", "send")


class Pipeline:
    """Processes one performer's datagrams into frames for the sinks.

    Each frame of the 50 Hz grid is sent once: with the datagram that completes it or, if that is late, by
    :meth:`run_until` from the forecast of the newest frame. The scalar mapping plays without a model, while
    it is late, and after it failed. ``tape`` (the recording) and ``observer`` may be set and cleared at any
    time. ``buffer_ms`` holds frames back for a regular pace, ``delay_ms`` is the latency of the suit.
    """

    def __init__(
        self,
        *,
        front: LiveFront,
        mixer: Mixer,
        sinks: Sequence[Sink],
        clock: Clock,
        backend: StepBackend | None = None,
        kind: str = "mocopi",
        budget_ms: float = 15.0,
        buffer_ms: BufferMs = 0.0,
        memory: LiveMemory | None = None,
        delay_ms: float = 0.0,
    ) -> None:
        self.mixer, self._delay_s = mixer, delay_ms / 1000.0
        self.tape: Records | None = None
        self.take_recorder: TakeRecorder | None = None
        self.live_mapping: LiveMapping | None = None
        self.mapping_error = ""
        self._labels: Labels | None = None
        self._gestures: Gestures | None = None
        self._leave_events: list[Event] = []
        self.missing_joints: list[str] = []
        self.observer: Observer | None = None
        #: Returns status words that come from outside the pipeline.
        self.extra_status: Callable[[], Sequence[str]] = tuple
        #: Wire format of the datagrams, and kind of source; they differ where packets are translated before.
        self.kind = self.source = kind
        self.counts = dict.fromkeys(_COUNTERS, 0)
        self.front, self.clock = front, clock
        self._now_ns = clock.now_ns()
        self._model = GuardedModel(backend, clock, budget_ms, self.counts)
        #: Suspend the model for a while from the given time in nanoseconds.
        self.suspend_model = self._model.suspend
        self._outlet = Outlet(sinks, clock, self.counts)
        #: Sinks that receive every frame; :attr:`add` appends one.
        self.sinks, self.add = self._outlet.sinks, self._outlet.add
        # While only one sender is heard: until when, and a function that returns the sender to hear then.
        self._only_sender: tuple[int, Callable[[], str | None]] | None = None
        self._warm_mixer = Mixer(performer=None if mixer.performer is None else PerformerRange())
        self._engine = Engine(front, mixer.core, self._warm_mixer.core, self._now_ns, buffer_ms or None)
        self._engine.set_model(backend, None if backend is None else backend.core)
        self.memory = memory
        self._newest_frame: tuple[StepResult | None, ControlFrame] | None = None
        self._front_output: FrontOutput | None = None
        # Model output for the newest frame, and the number of imagined frames that it lies after that one.
        self._step: StepResult | None = None
        self._imagined_frames = self._datagrams_to_hold = 0
        #: When the datagram that completes the next frame is expected; None if unknown.
        self.expected_ns: int | None = None
        # Latest scalars and limb values; a limb's stroke is kept until it has been sent.
        self._scalars, self._limbs = [0.0] * 7, [0.0] * 12
        self._newest_local_ns = 0
        self._tempo: Tempo = (0.0, 0.0, 0.0)
        #: External beat that replaces the body's: beats per minute, and phase at time 0 of the clock.
        self.leading_beat: tuple[float, float] | None = None
        self._taped_params: list[float] = []
        self._status_ns, self._last_mode = -_STATUS_INTERVAL_NS, self.mixer.mode

    def report_to(self, say: Callable[[str], None]) -> None:
        """Report failing sinks to ``say`` from now on and continue with the others; before, they raise."""
        self._outlet.report = say

    @property
    def backend(self) -> StepBackend | None:
        """The backend that steps the model, if any."""
        return self._model.backend

    @property
    def model_error(self) -> str:
        """Why the model last failed or was late, as one line; empty if it did not."""
        return self._model.error

    @property
    def memory(self) -> LiveMemory | None:
        """The memory that plays along, if any."""
        return self._memory

    @memory.setter
    def memory(self, memory: LiveMemory | None) -> None:
        self._memory = memory
        if memory is None:
            self._engine.set_memory(None)
        else:
            following = None if memory.following is None else memory.following.core
            self._engine.set_memory(memory.memory, following, memory.numbers)

    # -- frames ------------------------------------------------------------------------------------

    def feed(self, datagram: bytes, t_arrival_ns: int, sender: str = "") -> bool:
        """Process one datagram of ``sender``; True if it completed a frame.

        Arrival times must not decrease; what was due before this one is done first.
        """
        self.run_until(t_arrival_ns)
        # Before the first frame only arrival times count: the clock of a replay may have started earlier.
        has_frames = self._engine.newest_slot >= 0
        self._now_ns = now_ns = max(t_arrival_ns, self._now_ns) if has_frames else t_arrival_ns
        steps, reset = self._model.ready(now_ns)
        result = None
        try:
            if self._datagrams_to_hold:
                self._datagrams_to_hold -= 1
                self._engine.hold(datagram, t_arrival_ns, sender, now_ns)
            else:
                result = self._engine.feed(datagram, t_arrival_ns, sender, now_ns, steps, reset, self._fill)
        finally:
            if self.tape is not None:
                if result is not None and result.failure is not None:
                    # The step may not fail in a replay: suspend the model there, before this frame.
                    self.tape.control(now_ns, "rest", ())
                self.tape.raw(t_arrival_ns, f"{self.kind}@{sender}" if sender else self.kind, datagram)
        if self._only_sender is not None and (result is not None or t_arrival_ns > self._only_sender[0]):
            self.front.listen_to(self._only_sender[1]())
            self._only_sender = None
        if result is None:
            self._outlet.on_datagram(sender, datagram)
            return False
        start = time.perf_counter_ns()
        out, step, engine_ns = result.front_output, result.step, result.stages_ns
        if steps and self._model.judge(now_ns, result.failure, engine_ns[0]) and self.tape is not None:
            # Step durations are not replayed, so the suspension is recorded.
            self.tape.control(now_ns, "rest", ())
        self._store(result)
        if self.tape is not None:
            self.tape.frame(now_ns, result.number, out.t_source_ns, out.poses[-1], out.root, self.front.mask)
        if (output := result.output) is not None:
            params, events = output
            self.mixer.follow_extras()
            if self._memory is not None and self._memory.following is not None:
                due = self._memory.following.take_due()
                events = [*events, *due] if self.mixer.mode == "playing" else events
            frame = self._frame(now_ns, params, events, step)
            frame.body = out
            self._newest_frame = step, frame
            mapped = time.perf_counter_ns()
            self._emit(frame, result.release_ns)
            sent = time.perf_counter_ns()
            self._finish_frame(now_ns)
            if self.observer is not None:
                # perf_counter and monotonic may differ in origin; convert the end to the arrival's clock.
                done = time.monotonic_ns() - (time.perf_counter_ns() - sent)
                stages = (*out.stages_ns, engine_ns[0], engine_ns[1] + mapped - start, sent - mapped)
                self.observer(t_arrival_ns, done, out.seq, stages)
        else:
            # The forecast was already sent in its place; its content counts from the next frame on.
            self.counts["overtaken"] += 1
            self._finish_frame(now_ns)
        if self.take_recorder is not None:
            self.take_recorder.add_frame(out)
        self._outlet.on_datagram(sender, datagram)
        self._outlet.run_deferred()
        return True

    def hold(self, count: int, t_ns: int, *, replayed: bool = False) -> None:
        """Play the next ``count`` datagrams, the first of ``t_ns``, with the one after them: newer ones wait.

        Ignored while the buffer leaves time for each in turn, unless ``replayed``, which repeats a decision.
        """
        buffer_ms = self._engine.buffer_ms or 0.0
        if not replayed and buffer_ms > 0.0 and self.clock.now_ns() - t_ns < buffer_ms * 1e6:
            return
        self.run_until(t_ns)  # records what comes before, in the order a replay needs
        if self.tape is not None:
            self.tape.control(t_ns, "hold", (count,))
        self._datagrams_to_hold = count

    def _store(self, result: FrameResult) -> None:
        """Keep what following frames, and the forecast of late ones, need of this one."""
        out, step = result.front_output, result.step
        if self._memory is not None and (remembered := result.remembered) is not None:
            self._memory.update(remembered)
        self._scalars, self._tempo, limbs = out.scalars.tolist(), out.tempo, out.limbs
        # Strokes of overtaken frames are sent with the next one.
        limbs[2::3] = map(max, limbs[2::3], self._limbs[2::3])
        self._limbs = limbs
        if self._gestures is not None:
            self._gestures.push(out.poses, reset=out.reset)
        self._step, self._front_output, self._imagined_frames = step, out, 0
        self._newest_local_ns, self.expected_ns = out.t_local_ns, out.expected_ns
        self.counts["frames"] += 1 + result.skipped
        self.counts["skipped"] += result.skipped
        self.counts["without_model"] += step is None and self.backend is not None
        self.counts["invalid"] += not out.valid

    def begin_with(self, sender: str, t_ns: int, then: Callable[[], str | None]) -> None:
        """Listen only to this sender until its first frame, or for two seconds from ``t_ns`` on; ``then``
        returns the sender to listen to afterwards (None: any)."""
        self.front.listen_to(sender)
        self._only_sender = t_ns + FIRST_SENDER_TIMEOUT_NS, then

    def _finish_frame(self, now_ns: int) -> None:
        """After a frame was sent: learn from it, and do what is not urgent."""
        self.mixer.notify_listener()
        self._engine.learn()
        self._send_status(now_ns)

    def _frame(
        self, now_ns: int, params: Sequence[float], events: Sequence[Event], step: StepResult | None
    ) -> ControlFrame:
        classes, changed = self._labels.step(self.mixer.extras) if self._labels is not None else ((), ())
        events = [*events, *self._leave_events, *changed]
        self._leave_events = []
        gestures: Sequence[ActiveGesture] = ()
        if self._gestures is not None:
            missing = self._engine.missing_frames
            playing = missing <= _MAX_BRIDGED and self.mixer.mode == "playing" and not self.mixer.bypass
            gestures, changed = self._gestures.report(missing, playing=playing)
            events += changed
        frame = self._control_frame(now_ns, params, step)
        frame.events, frame.classes, frame.gestures = events, classes, gestures
        self._limbs = [*self._limbs]
        self._limbs[2::3] = [0.0] * 4
        return frame

    def _control_frame(self, now_ns: int, params: Sequence[float], step: StepResult | None) -> ControlFrame:
        """A frame with the values known to the pipeline itself."""
        field, plan = telemetry_of(step)
        number, missing = self._engine.newest_slot, self._engine.missing_frames
        trust = self._memory.trust if self._memory is not None and step is not None else ()
        place = self._memory.place if self._memory is not None and missing == 0 else None
        shared = self.mixer.extras, field, plan, trust, place
        frame = ControlFrame(number, number * FRAME, self._scalars, params, (), (), *shared, (), now_ns)
        frame.state, frame.tempo, frame.step = self.state, self.tempo, step
        if missing <= _MAX_BRIDGED:
            frame.limbs = self._limbs
        return frame

    @property
    def tempo(self) -> Tempo:
        """Beats per minute, phase and trust now. The body's beat continues through missing frames, and keeps
        its trust while these are bridged; the phase of an external one in a frame is that of its sending."""
        if self.leading_beat is not None:
            return beat_at(self.leading_beat, self._now_ns)
        bpm, phase, trust = self._tempo
        if (missing := self._engine.missing_frames) <= 0:
            return self._tempo
        return bpm, (phase + missing * FRAME * bpm / 60.0) % 1.0, trust if missing <= _MAX_BRIDGED else 0.0

    def set_mapping(self, live_mapping: LiveMapping | None) -> None:
        """Play a mapping from the next frame on; None removes it."""
        if self._labels is not None:
            self._leave_events += self._labels.leave_all()
        if self._gestures is not None:
            self._leave_events += self._gestures.leave_all()
        self._labels = live_mapping.labels if live_mapping and live_mapping.mapping.classes else None
        self._gestures = live_mapping.gestures if live_mapping is not None else None
        self.live_mapping = live_mapping
        self.mapping_error, self.missing_joints = "", []
        self.mixer.set_mapping(live_mapping)
        self._warm_mixer.set_mapping(live_mapping)
        self._engine.set_mapping(None if live_mapping is None else self._mapping_values)
        self._outlet.announce(live_mapping.extras if live_mapping is not None else ())

    def _mapping_values(
        self, out: FrontOutput, step: StepResult | None, since: float, number: int
    ) -> list[float] | None:
        """The mapping's values; None if there is no mapping or it has no output for this frame."""
        if (live_mapping := self.live_mapping) is None:
            return None
        try:
            values = live_mapping.step(out.features[-1], step, since)
            if values is not None and not math.isfinite(sum(values)):
                raise FloatingPointError("a taught output is not finite")
        except Exception as error:
            # As with the model, an error is reported in the status and must not stop the sound.
            self.mapping_error = f"{type(error).__name__}: {error}"
            self.live_mapping = None
            return None
        if out.reset or number % _MASK_CHECK_FRAMES == 0:
            self.missing_joints = live_mapping.mapping.missing_joints(self.front.mask)
        return values

    def set_model(self, backend: StepBackend) -> None:
        """Step another model from the next frame on, as a new stream; the previous one is closed.

        Raises a CheckpointError if the current mapping was taught on a different model.
        """
        if self.live_mapping is not None:
            check_model(self.live_mapping.mapping, backend)
        self._model.set_backend(backend)
        self._engine.set_model(backend, backend.core)
        # The output of the previous model is not a forecast of this one.
        self._step = None

    # -- between datagrams ---------------------------------------------------------------------------

    @property
    def due_ns(self) -> int:
        """When :meth:`run_until` has something to do, unless a datagram arrives earlier."""
        held = self._outlet.due_ns
        return self._engine.due_ns if held is None else min(held, self._engine.due_ns)

    def run_until(self, t_ns: int) -> None:
        """Do what is due before ``t_ns``: late frames, bundles that were held back, the status."""
        while (due := self.due_ns) < t_ns:
            self._resume(due)
            self._now_ns = max(due, self._now_ns)
            if self._outlet.due_ns == due:
                self._outlet.send_due()
            else:
                self._engine.due_ns = due + FRAME_NS
                self._tick(self._now_ns, self._now_ns)
            self._outlet.run_deferred()
        self._resume(t_ns)

    def _resume(self, now_ns: int) -> None:
        """After superseded frames, continue smoothly from the values that were sent last."""
        if values := self._outlet.last_sent_values(now_ns):
            self.mixer.resume(values)
            if self.tape is not None:
                self.tape.control(now_ns, "resume", values)

    def _fill(self, turns: Sequence[int]) -> None:
        """Send the frames that a buffered datagram skips, each at its own time."""
        for turn in turns:
            self._tick(self._now_ns, turn)

    def _tick(self, now_ns: int, release_ns: int) -> None:
        """Send a frame that no datagram completed in time: its forecast, later hold and fade."""
        if self._engine.newest_slot < 0:
            self._engine.due_ns = now_ns + _STATUS_INTERVAL_NS
            self._send_status(now_ns)
            return
        self._engine.skip(self._engine.missing_frames >= _MAX_BRIDGED)
        missing = self._engine.missing_frames
        step: StepResult | None = None
        events: list[Event] = []
        if missing <= _MAX_BRIDGED:
            self.counts["bridged"] += 1
            self.mixer.lead.set_frame_age((release_ns - self._newest_local_ns - missing * FRAME_NS) / 1e6)
            if missing == 1 and release_ns == now_ns and (imagined := self._imagine(now_ns)) is not None:
                out, step = imagined
                self._scalars = out.scalars.tolist()
                # Later frames are forecast from the imagined one.
                self._step, self._imagined_frames = step, 1
                arguments = step, self._scalars, FRAME, self._preview_mapping(out, step), out.activity
                params, events = self.mixer.play(*arguments, guessed=True)
            else:
                step = self._step
                params, events = self.mixer.bridge(step, (missing - self._imagined_frames) * FRAME, FRAME)
        else:
            self.counts["ticks"] += 1
            self.expected_ns = None
            # The first tick of a silence also counts the frames that were bridged.
            params = self.mixer.silence((1 if self.mixer.silent_seconds > 0.0 else missing) * FRAME)
        self._emit(self._frame(now_ns, params, events, step), release_ns)
        self._send_status(now_ns)

    def _imagine(self, now_ns: int) -> tuple[FrontOutput, StepResult | None] | None:
        """The next frame with the body's motion extrapolated, and the model's output for it, if any."""
        if (out := self._engine.imagine(now_ns)) is None:
            return None
        if self.backend is None or self._step is None:
            return out, None
        if (step := self._model.imagine(out.features)) is None:
            return None
        return out, step if self._memory is None else self._memory.imagine(step)

    def fade_out(self, t_ns: int) -> int:
        """Stop from ``t_ns`` on, in any mode; returns the time when that is reached."""
        self.run_until(t_ns)
        self._now_ns = max(t_ns, self._now_ns)
        self.mixer.fade_out(_FADE_OUT_S)
        self._outlet.is_leaving = True
        return t_ns + round((_FADE_OUT_S + 2 * FRAME) * 1e9)

    def _emit(self, frame: ControlFrame, release_ns: int) -> None:
        """Record a frame, and send it now or at ``release_ns``."""
        if frame.events:
            # Events are forecast from the time of the movement, so the delay since then is subtracted.
            age_ns = max(release_ns, frame.t_ns) - self._newest_local_ns
            age = age_ns / 1e9 - self._engine.missing_frames * FRAME
            age = min(max(age, 0.0), _MAX_EVENT_AGE_S) + self._delay_s
            frame.events = [(name, strength, max(ahead - age, 0.0)) for name, strength, ahead in frame.events]
        if self.leading_beat is not None:
            frame.tempo = beat_at(self.leading_beat, max(release_ns, frame.t_ns))
        is_new = self._engine.missing_frames <= _MAX_BRIDGED or list(frame.params) != self._taped_params
        if self.tape is not None and is_new:
            self._taped_params = list(frame.params)
            telemetry = (frame.field, frame.plan) if frame.field or frame.plan else ()
            values = [*frame.params, *frame.extras]
            self.tape.output(frame.t_ns, frame.seq, values, self._scalars, frame.events, *telemetry)
        self._outlet.enqueue(frame, release_ns)

    def _send_status(self, now_ns: int) -> None:
        """Send the status if it is due or the mode has changed: by itself, so that no frame waits for it."""
        if now_ns - self._status_ns >= _STATUS_INTERVAL_NS or self._last_mode != self.mixer.mode:
            self._status_ns, self._last_mode = now_ns, self.mixer.mode
            self._outlet.send(ControlFrame(-1, 0.0, self._scalars, (), (), self.status(), t_ns=now_ns))

    @property
    def state(self) -> str:
        """waiting, silent, or the mixer's mode: playing, frozen, stopped, panic."""
        if self._engine.newest_slot < 0:
            return "waiting"
        mode = self.mixer.mode
        return "silent" if mode == "playing" and self.mixer.silent_seconds > 0.1 else mode

    def status(self) -> tuple[str, ...]:
        """Words of `/anticip/status`: the state, then ``name=value``."""
        return (
            self.state,
            f"source={self.source}",
            *status.model_words(self._model, self.mixer, self._now_ns),
            *status.count_words(self.front.counters(), self.counts),
            *status.sink_words(self.sinks),
            *status.stream_words(self.front, self._engine.buffer_ms, self._now_ns),
            status.lead_word(self.mixer),
            *status.tempo_words(self.tempo),
            *status.tape_words(self.tape),
            *self.extra_status(),
            *(() if self._memory is None else self._memory.status_words()),
            *status.taught_words(self.live_mapping, self.mapping_error, self.missing_joints),
            *(() if self.take_recorder is None else (f"teaching={self.take_recorder.state}",)),
        )

    def counters(self) -> dict[str, int]:
        """All counters of the front end and the pipeline; ``heard`` are the sender's own frames."""
        front = self.front.counters()
        return {**front, "heard": front.get("frames", 0), **self.counts}

    def prewarm(self) -> None:
        """Run the next frame's code on scratch state shortly before its datagram is due, to warm caches."""
        self._model.prewarm(self._now_ns)
        if self._newest_frame is None or self._front_output is None:
            return
        step, frame = self._newest_frame
        self._engine.prewarm(self._front_output, step, self._preview_mapping(self._front_output, step))
        self._outlet.prewarm(self._control_frame(self._now_ns, frame.params, step))

    def _preview_mapping(self, out: FrontOutput, step: StepResult | None) -> list[float] | None:
        if self.live_mapping is not None:
            with contextlib.suppress(Exception):
                return self.live_mapping.preview(out.features[-1], step)
        return None

    def close(self) -> None:
        """Close the sinks and the model."""
        self._outlet.close()
        self._model.close()
        # The engine holds a method of this object; without it both are freed at once.
        self._engine.set_mapping(None)
