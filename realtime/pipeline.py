"""The pipeline: the only file that joins the stages.

Everything happens synchronously in the callback of the datagram that completes a frame: one call of the
core's engine (decode, resample, scalars, the model's step, memory, desk), and one bundle to each sink.

Time here is that of the datagrams' arrivals and of what is due between them, never the moment the loop gets
round to it: a tick that is due before a datagram arrived comes before it, so that a recording replays as it
was played.
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
from realtime.mapping.labels import Gestures, Labels, UnderWay
from realtime.mapping.live_mapping import LiveMapping, check_model
from realtime.mapping.mixer import Mixer
from realtime.mapping.performer import PerformerRange
from realtime.memory.live_memory import LiveMemory
from realtime.protocols import ALONE_NS, Observer, TakeRecorder
from realtime.sinks.base import ControlFrame, Sink, Tempo, beat_at
from realtime.sinks.outlet import Outlet
from realtime.step.base import StepBackend, StepResult, telemetry_of
from realtime.step.guard import GuardedModel

__all__ = ["Observer", "Pipeline", "StepBackend"]

# The forecast of the last frame stands in for so many frames that do not come.
_BRIDGED = 20
_STATUS_NS = 1_000_000_000
_FADE_OUT = 0.4
# No frame is taken to be older when it leaves.
_OLDEST = 0.2
# Frames between two looks at which joints the source has.
_LOOK_AT_MASK = 50
_COUNTED = (
    *("frames", "bridged", "ticks", "overtaken", "superseded", "stale_events"),
    *("late_steps", "failed_steps", "without_model", "invalid", "errors", "skipped"),
)
STAGES = ("decode", "resample", "scalars", "step", "map", "send")


class Pipeline:
    """One performer's way from datagrams to sinks.

    Each frame of the 50 Hz grid leaves once: with the datagram that completes it, or, where that is late, by
    :meth:`run_until` as the forecast of the newest frame has it. The model is optional: without it, while it
    is late, and after it failed, the scalar mapping plays. ``tape`` and ``observer`` may be set and cleared
    at any time. ``buffer_ms`` is how long frames are held back for a regular pace, ``delay_ms`` how late the
    suit tells of a movement.
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
        self.mixer, self._delay = mixer, delay_ms / 1000.0
        self.tape: Records | None = None
        self.take_recorder: TakeRecorder | None = None
        self.live_mapping: LiveMapping | None = None
        self.mapping_error = ""
        self._labels: Labels | None = None
        self._gestures: Gestures | None = None
        self._parted: list[Event] = []
        self.lacking: list[str] = []
        self.observer: Observer | None = None
        #: What the status says of what is none of the pipeline's.
        self.beside: Callable[[], Sequence[str]] = tuple
        #: The wire format, and the kind of source, which for what is decoded on the way is another.
        self.kind = self.source = kind
        self.counts = dict.fromkeys(_COUNTED, 0)
        self.front, self.clock = front, clock
        self._now_ns = clock.now_ns()
        self._model = GuardedModel(backend, clock, budget_ms, self.counts)
        #: Leave the model out for a while from a moment on.
        self.rest = self._model.rest
        self._outlet = Outlet(sinks, clock, self.counts)
        #: Who is sent every frame, and: send every frame to one more.
        self.sinks, self.add = self._outlet.sinks, self._outlet.add
        # Until when the first frame is one sender's alone, and whose the others are.
        self._alone: tuple[int, Callable[[], str | None]] | None = None
        self._warm_mixer = Mixer(performer=None if mixer.performer is None else PerformerRange())
        self._engine = Engine(front, mixer.core, self._warm_mixer.core, self._now_ns, buffer_ms or None)
        self._engine.set_model(backend, None if backend is None else backend.core)
        self.memory = memory
        self._newest: tuple[StepResult | None, ControlFrame] | None = None
        self._front_output: FrontOutput | None = None
        # What the model said of the newest frame, and of how many frames after it as it imagines them.
        self._step: StepResult | None = None
        self._guessed = self._to_hold = 0
        #: When the datagram that completes the next frame is expected; None while there is no telling.
        self.expected_ns: int | None = None
        # As they were last; a stroke stands here until it has left.
        self._scalars, self._limbs = [0.0] * 7, [0.0] * 12
        # The time of the newest frame that a datagram completed.
        self._local_ns = 0
        self._tempo: Tempo = (0.0, 0.0, 0.0)
        #: A beat that leads instead of the body's: beats a minute, and the phase at 0 of the clock.
        self.led: tuple[float, float] | None = None
        self._taped: list[float] = []
        self._status_ns, self._last_mode = -_STATUS_NS, self.mixer.mode

    def tell(self, say: Callable[[str], None]) -> None:
        """From now on this is told of a sink that fails, and the others go on."""
        self._outlet.say = say

    @property
    def backend(self) -> StepBackend | None:
        """What steps the model; None: nothing does."""
        return self._model.backend

    @property
    def model_error(self) -> str:
        """Why the model failed or was late last, as a line; empty: it did not."""
        return self._model.error

    @property
    def memory(self) -> LiveMemory | None:
        """What remembers; None: nothing does."""
        return self._memory

    @memory.setter
    def memory(self, memory: LiveMemory | None) -> None:
        self._memory = memory
        if memory is None:
            self._engine.set_memory(None)
        else:
            following = None if memory.following is None else memory.following.core
            self._engine.set_memory(memory.memory, following, memory.numbers)

    # -- the way of a frame ------------------------------------------------------------------------

    def feed(self, datagram: bytes, t_arrival_ns: int, sender: str = "") -> bool:
        """Take one datagram of ``sender``; True if it completed a frame.

        Arrivals do not go back; whatever was due before this one is done first.
        """
        self.run_until(t_arrival_ns)
        # Before the first frame no time counts but that of arrivals: a replay's clock may have begun before.
        self._now_ns = now = max(t_arrival_ns, self._now_ns) if self._engine.newest >= 0 else t_arrival_ns
        stepping, stale = self._model.ready(now)
        result = None
        try:
            if self._to_hold:
                self._to_hold -= 1
                self._engine.hold(datagram, t_arrival_ns, sender, now)
            else:
                result = self._engine.feed(datagram, t_arrival_ns, sender, now, stepping, stale, self._fill)
        finally:
            if self.tape is not None:
                if result is not None and result.failure is not None:
                    # It may have failed here alone: before this frame, which a replay must not step either.
                    self.tape.control(now, "rest", ())
                self.tape.raw(t_arrival_ns, f"{self.kind}@{sender}" if sender else self.kind, datagram)
        if self._alone is not None and (result is not None or t_arrival_ns > self._alone[0]):
            self.front.listen_to(self._alone[1]())
            self._alone = None
        if result is None:
            self._outlet.on_datagram(sender, datagram)
            return False
        begun = time.perf_counter_ns()
        out, step, took = result.out, result.step, result.stages_ns
        if stepping and self._model.judge(now, result.failure, took[0]) and self.tape is not None:
            # How long a step took is no part of a replay: that it was too long is.
            self.tape.control(now, "rest", ())
        self._keep(result)
        if self.tape is not None:
            self.tape.frame(now, result.number, out.t_source_ns, out.poses[-1], out.root, self.front.mask)
        if (played := result.played) is not None:
            params, events = played
            self.mixer.follow_extras()
            if self._memory is not None and self._memory.following is not None:
                due = self._memory.following.due()
                events = [*events, *due] if self.mixer.mode == "playing" else events
            frame = self._frame(now, params, events, step)
            frame.body = out
            self._newest = step, frame
            mapped = time.perf_counter_ns()
            self._leave(frame, result.release_ns)
            sent = time.perf_counter_ns()
            self._learn(now)
            if self.observer is not None:
                # perf_counter and monotonic may differ in origin: the end is stamped on the arrival's clock.
                done = time.monotonic_ns() - (time.perf_counter_ns() - sent)
                stages = (*out.stages_ns, took[0], took[1] + mapped - begun, sent - mapped)
                self.observer(t_arrival_ns, done, out.seq, stages)
        else:
            # Its turn has passed: the forecast spoke for it. What it says counts from the next frame on.
            self.counts["overtaken"] += 1
            self._learn(now)
        if self.take_recorder is not None:
            self.take_recorder.frame(out)
        self._outlet.on_datagram(sender, datagram)
        self._outlet.run_deferred()
        return True

    def hold(self, count: int, t_ns: int, *, again: bool = False) -> None:
        """Play the next ``count`` datagrams, the first of ``t_ns``, with the one behind them: newer wait.

        Not where all can have their turns yet, for a buffer is longer; a replay does ``again`` what was done.
        """
        buffer_ms = self._engine.buffer_ms or 0.0
        if not again and buffer_ms > 0.0 and self.clock.now_ns() - t_ns < buffer_ms * 1e6:
            return
        self.run_until(t_ns)  # what that records stands before, as a replay needs it
        if self.tape is not None:
            self.tape.control(t_ns, "hold", (count,))
        self._to_hold = count

    def _keep(self, result: FrameResult) -> None:
        """What the frames that follow, and the forecast of those that are late, need of this one."""
        out, step = result.out, result.step
        if self._memory is not None and (remembered := result.remembered) is not None:
            self._memory.update(remembered)
        self._scalars, self._tempo, limbs = out.scalars.tolist(), out.tempo, out.limbs
        # The strokes of frames whose turn had passed leave with the next one.
        limbs[2::3] = map(max, limbs[2::3], self._limbs[2::3])
        self._limbs = limbs
        if self._gestures is not None:
            self._gestures.hear(out.poses, reset=out.reset)
        self._step, self._front_output, self._guessed = step, out, 0
        self._local_ns, self.expected_ns = out.t_local_ns, out.expected_ns
        self.counts["frames"] += 1 + result.left_out
        self.counts["skipped"] += result.left_out
        self.counts["without_model"] += step is None and self.backend is not None
        self.counts["invalid"] += not out.valid

    def begin_with(self, sender: str, t_ns: int, then: Callable[[], str | None]) -> None:
        """Hear only this sender until its first frame, or for two seconds from ``t_ns`` on; who is heard from
        there on is asked of ``then`` (None: whoever comes)."""
        self.front.listen_to(sender)
        self._alone = t_ns + ALONE_NS, then

    def _learn(self, now: int) -> None:
        """What only the next frame needs to know, and what can wait, once this one has left."""
        self.mixer.tell()
        self._engine.learn()
        self._tell_status(now)

    def _frame(
        self, now: int, params: Sequence[float], events: Sequence[Event], step: StepResult | None
    ) -> ControlFrame:
        classes, changed = self._labels.step(self.mixer.extras) if self._labels is not None else ((), ())
        events = [*events, *self._parted, *changed]
        self._parted = []
        gestures: Sequence[UnderWay] = ()
        if self._gestures is not None:
            away = self._engine.away
            playing = away <= _BRIDGED and self.mixer.mode == "playing" and not self.mixer.bypass
            gestures, changed = self._gestures.tell(away, playing=playing)
            events += changed
        frame = self._control_frame(now, params, step)
        frame.events, frame.classes, frame.gestures = events, classes, gestures
        self._limbs = [*self._limbs]
        self._limbs[2::3] = [0.0] * 4
        return frame

    def _control_frame(self, now: int, params: Sequence[float], step: StepResult | None) -> ControlFrame:
        """The frame with what the pipeline itself knows."""
        field, plan = telemetry_of(step)
        number, away = self._engine.newest, self._engine.away
        trust = self._memory.trust if self._memory is not None and step is not None else ()
        place = self._memory.place if self._memory is not None and away == 0 else None
        known = self.mixer.extras, field, plan, trust, place
        frame = ControlFrame(number, number * FRAME, self._scalars, params, (), (), *known, (), now)
        frame.state, frame.tempo, frame.step = self.state, self.tempo, step
        if away <= _BRIDGED:
            frame.limbs = self._limbs
        return frame

    @property
    def tempo(self) -> Tempo:
        """The body's beat in the newest frame; it goes on through frames without a datagram, and is trusted
        while these are bridged. A beat that leads has the phase of now; a frame, that of its leaving."""
        if self.led is not None:
            return beat_at(self.led, self._now_ns)
        bpm, phase, trust = self._tempo
        if (away := self._engine.away) <= 0:
            return self._tempo
        return bpm, (phase + away * FRAME * bpm / 60.0) % 1.0, trust if away <= _BRIDGED else 0.0

    def set_mapping(self, live_mapping: LiveMapping | None) -> None:
        """Play a mapping from the next frame on; None: none any more."""
        if self._labels is not None:
            self._parted += self._labels.part()
        if self._gestures is not None:
            self._parted += self._gestures.part()
        self._labels = live_mapping.labels if live_mapping and live_mapping.mapping.classes else None
        self._gestures = live_mapping.gestures if live_mapping is not None else None
        self.live_mapping = live_mapping
        self.mapping_error, self.lacking = "", []
        self.mixer.set_mapping(live_mapping)
        self._warm_mixer.set_mapping(live_mapping)
        self._engine.set_mapping(None if live_mapping is None else self._by_mapping)
        self._outlet.announce(live_mapping.extras if live_mapping is not None else ())

    def _by_mapping(
        self, out: FrontOutput, step: StepResult | None, since: float, number: int
    ) -> list[float] | None:
        """The mapping's values, or None where there is none or it cannot speak."""
        if (live_mapping := self.live_mapping) is None:
            return None
        try:
            values = live_mapping.step(out.features[-1], step, since)
            if values is not None and not math.isfinite(sum(values)):
                raise FloatingPointError("a taught output is not finite")
        except Exception as error:
            # As with the model: told in the status, never the end of the sound.
            self.mapping_error = f"{type(error).__name__}: {error}"
            self.live_mapping = None
            return None
        if out.reset or number % _LOOK_AT_MASK == 0:
            self.lacking = live_mapping.mapping.lacking(self.front.mask)
        return values

    def play_model(self, backend: StepBackend) -> None:
        """Step another model from the next frame on, as a new stream; the one before is closed.

        Raises a CheckpointError where the mapping that plays was taught on another one.
        """
        if self.live_mapping is not None:
            check_model(self.live_mapping.mapping, backend)
        self._model.play(backend)
        self._engine.set_model(backend, backend.core)
        # What the other one said is no forecast of this one's.
        self._step = None

    # -- between datagrams ---------------------------------------------------------------------------

    @property
    def due_ns(self) -> int:
        """When :meth:`run_until` has something to do unless a datagram comes before."""
        held = self._outlet.due_ns
        return self._engine.due_ns if held is None else min(held, self._engine.due_ns)

    def run_until(self, t_ns: int) -> None:
        """Do what is due before ``t_ns``: frames that are late, bundles that were held back, the status."""
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

    def _resume(self, now: int) -> None:
        """After frames that were left out: ease from what was heard last."""
        if values := self._outlet.last_sent_values(now):
            self.mixer.resume(values)
            if self.tape is not None:
                self.tape.control(now, "resume", values)

    def _fill(self, turns: Sequence[int]) -> None:
        """What a datagram leaps over while the buffer holds it back, each at its turn."""
        for turn in turns:
            self._tick(self._now_ns, turn)

    def _tick(self, now: int, release_ns: int) -> None:
        """A frame that no datagram of its own completes in time: its forecast, then hold and fade."""
        if self._engine.newest < 0:
            self._engine.due_ns = now + _STATUS_NS
            self._tell_status(now)
            return
        self._engine.skip(self._engine.away >= _BRIDGED)
        away = self._engine.away
        step: StepResult | None = None
        events: list[Event] = []
        if away <= _BRIDGED:
            self.counts["bridged"] += 1
            if away == 1 and release_ns == now and (guess := self._imagine(now)) is not None:
                out, step = guess
                self._scalars = out.scalars.tolist()
                # The forecast of what follows is the guess's from now on.
                self._step, self._guessed = step, 1
                given = step, self._scalars, FRAME, self._rehearsed(out, step), out.activity
                params, events = self.mixer.play(*given, guessed=True)
            else:
                step = self._step
                params, events = self.mixer.bridge(step, (away - self._guessed) * FRAME, FRAME)
        else:
            self.counts["ticks"] += 1
            self.expected_ns = None
            params = self.mixer.silence((away if away == _BRIDGED + 1 else 1) * FRAME)
        self._leave(self._frame(now, params, events, step), release_ns)
        self._tell_status(now)

    def _imagine(self, now: int) -> tuple[FrontOutput, StepResult | None] | None:
        """The frame after the newest with its body carried on, and what the model says of it, if anything."""
        if (out := self._engine.imagine(now)) is None:
            return None
        if self.backend is None or self._step is None:
            return out, None
        if (step := self._model.imagine(out.features)) is None:
            return None
        return out, step if self._memory is None else self._memory.imagine(step)

    def fade_out(self, t_ns: int) -> int:
        """The show is over at ``t_ns``: to neutral, whatever the mode; returns when that is reached."""
        self.run_until(t_ns)
        self._now_ns = max(t_ns, self._now_ns)
        self.mixer.leave(_FADE_OUT)
        self._outlet.is_leaving = True
        return t_ns + round((_FADE_OUT + 2 * FRAME) * 1e9)

    def _leave(self, frame: ControlFrame, release_ns: int) -> None:
        """Record a frame, and send it now or when its turn comes."""
        if frame.events:
            # They were foreseen from the movement's own time on: however late it is heard of.
            age = (max(release_ns, frame.t_ns) - self._local_ns) / 1e9 - self._engine.away * FRAME
            age = min(max(age, 0.0), _OLDEST) + self._delay
            frame.events = [(name, strength, max(ahead - age, 0.0)) for name, strength, ahead in frame.events]
        if self.led is not None:
            frame.tempo = beat_at(self.led, max(release_ns, frame.t_ns))
        if self.tape is not None and (self._engine.away <= _BRIDGED or list(frame.params) != self._taped):
            self._taped = list(frame.params)
            telemetry = (frame.field, frame.plan) if frame.field or frame.plan else ()
            values = [*frame.params, *frame.extras]
            self.tape.output(frame.t_ns, frame.seq, values, self._scalars, frame.events, *telemetry)
        self._outlet.enqueue(frame, release_ns)

    def _tell_status(self, now: int) -> None:
        """Send the status where it is due, a new mode at once: by itself, so that no frame waits for it."""
        if now - self._status_ns >= _STATUS_NS or self._last_mode != self.mixer.mode:
            self._status_ns, self._last_mode = now, self.mixer.mode
            self._outlet.send(ControlFrame(-1, 0.0, self._scalars, (), (), self.status(), t_ns=now))

    @property
    def state(self) -> str:
        """waiting, silent, or the mixer's mode: playing, frozen, stopped, panic."""
        if self._engine.newest < 0:
            return "waiting"
        mode = self.mixer.mode
        return "silent" if mode == "playing" and self.mixer.silent_seconds > 0.1 else mode

    def status(self) -> tuple[str, ...]:
        """What `/anticip/status` says: the state, then name=value."""
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
            *self.beside(),
            *(() if self._memory is None else self._memory.words()),
            *status.taught_words(self.live_mapping, self.mapping_error, self.lacking),
            *(() if self.take_recorder is None else (f"teaching={self.take_recorder.state}",)),
        )

    def counters(self) -> dict[str, int]:
        """Everything counted by the front and by the pipeline itself; `heard` are the sender's own frames."""
        front = self.front.counters()
        return {**front, "heard": front.get("frames", 0), **self.counts}

    def prewarm(self) -> None:
        """Run what the next datagram will run, on scratch states, shortly before it is due."""
        self._model.prewarm(self._now_ns)
        if self._newest is None or self._front_output is None:
            return
        step, frame = self._newest
        self._engine.prewarm(self._front_output, step, self._rehearsed(self._front_output, step))
        self._outlet.prewarm(self._control_frame(self._now_ns, frame.params, step))

    def _rehearsed(self, out: FrontOutput, step: StepResult | None) -> list[float] | None:
        if self.live_mapping is not None:
            with contextlib.suppress(Exception):
                return self.live_mapping.rehearse(out.features[-1], step)
        return None

    def close(self) -> None:
        """Close the sinks and the model."""
        self._outlet.close()
        self._model.close()
        # A method of this: without it both go at once.
        self._engine.set_mapping(None)
