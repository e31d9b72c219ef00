"""A running show: the asyncio loop around the pipeline, with its timers, child processes and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyanticip.errors import DeviceError, OptionError
from realtime.child import Child
from realtime.control.commands import Commands
from realtime.control.folder import plain_name, unused
from realtime.control.server import Action, ControlServer, Remote
from realtime.loop import obey_signals, run_loop
from realtime.monitor.keys import Keys
from realtime.oscquery.offer import Offer
from realtime.pipeline import Pipeline
from realtime.recording.recorder import Recorder
from realtime.rig.load import recording_path
from realtime.rig.tree import ControlRig
from realtime.sinks.base import SlowClosingSink
from realtime.sources.base import DatagramStream
from realtime.sources.replay import Command
from realtime.sources.watch import SourceWatch
from realtime.status import BeatWatch, SinkWatch, mapping_trouble, sink_counts
from realtime.tuning import Collector
from realtime.voice.process import SynthProcess

_FRAME_S = 0.02
# Time before the next datagram at which the dummy step runs, which warms the caches and is slow itself.
_PREWARM_LEAD_S = 0.001
# The loop's timers round up to whole milliseconds, so they are set earlier by this; `wait` covers the rest.
_TIMER_MARGIN_S = 0.0015
# With `spin` the loop starts this long before, polls the socket without sleeping and repeats the dummy step:
# a core that sleeps for a millisecond may wake late and with cold caches.
_SPIN_LEAD_S = 0.0035
_REWARM_INTERVAL_S = 0.0005
# Spinning ends this long after the datagram was due.
_SPIN_GRACE_S = 0.003
# A loop that is this late has stalled; it reads all waiting datagrams first, within these limits.
_STALL_S = 0.04
_MAX_BURSTS = 64
_MAX_CATCH_UP_S = 1.0


class Show:
    """Runs a pipeline until it is stopped.

    ``control`` configures the remote control, which offers ``commands`` and those of ``remotes``.
    ``recorder`` writes files that begin with the result of ``header`` (None: no recording). ``prewarm`` runs
    a dummy step shortly before each datagram, ``spin`` polls for it without sleeping. With ``must_listen`` a
    remote control that cannot be opened is an error. ``watch`` reports whether the suit is sending. ``say``
    takes one line for the user.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: DatagramStream,
        commands: Commands,
        *,
        control: ControlRig | None = None,
        remotes: Sequence[Remote] = (),
        prewarm: bool = True,
        spin: bool = False,
        recorder: Recorder | None = None,
        header: Callable[[], Mapping[str, Any]] = dict,
        synth: SynthProcess | None = None,
        must_listen: bool = True,
        watch: SourceWatch | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.pipeline = pipeline
        self._source = source
        self._prewarm = prewarm
        self._spin = spin
        self._lead_s = _SPIN_LEAD_S if spin else _PREWARM_LEAD_S
        self._recorder = recorder
        self._header = header
        self._synth = synth
        self._source_watch = watch
        self._say = say
        #: Shared by shows of one process.
        self.collector = Collector()
        self._timer: asyncio.TimerHandle | None = None
        self._reported_errors: set[str] = set()
        self._ended = asyncio.Event()
        self._end_ns: int | None = None
        # End of the final fade.
        self._fade_end_ns: int | None = None
        # Folder of recordings.
        self._folder = Path()
        # Whether commands come from a recording.
        self._is_replay = False
        self.interrupted = False
        # Whether it has ended or was interrupted twice: a further interrupt changes nothing.
        self._is_over = False
        #: Child processes other than voice and recorder; polled once a second.
        self.children: list[Child] = []
        #: Name of the performer if there are several; part of the names of their recordings.
        self.performer = ""
        #: What is offered by OSCQuery.
        self.offer: Offer | None = None
        #: Keyboard commands of the terminal.
        self.keys: Keys | None = None
        self.commands = commands
        commands.poll = self._poll
        self._remotes = remotes
        pipeline.extra_status = self._status_words
        pipeline.report_to(say)
        self.control = None if control is None else self._open_control(control, must_listen)

    def _open_control(self, control: ControlRig, must_listen: bool) -> ControlServer | None:
        if not control.enabled:
            return None
        try:
            return ControlServer(
                control.host, control.port, self.actions(), control.reply_port, self.families(), self._say
            )
        except DeviceError as error:
            if must_listen:
                raise
            self._say(f"{error}; continuing without remote control")
            return None

    # -- the loop ----------------------------------------------------------------------------------

    async def run(self, seconds: float | None = None) -> dict[str, Any]:
        """:meth:`play` and close; returns a summary in numbers."""
        with obey_signals(self.interrupt, self.end):
            try:
                summary = await self.play(seconds)
            finally:
                close_shows([self])
        return summary | {"recording_complete": self.recording_complete}

    @property
    def recording_complete(self) -> bool:
        """Whether no record is missing in its recordings; known once it is closed."""
        return self._recorder is None or self._recorder.complete

    async def play(self, seconds: float | None = None) -> dict[str, Any]:
        """Play until the source ends, ``seconds`` have passed or :meth:`end` is called, then fade out.

        Closing, which may block the loop, is left to :func:`close_shows`.
        """
        self._loop = asyncio.get_running_loop()
        start = time.monotonic()
        watch = self._loop.create_task(self._watch())
        try:
            if self.control is not None:
                self.control.start(self._loop)
            if self.keys is not None:
                self.keys.start(self._loop)
            self._source.start(self._loop, self._receive)
            self._schedule_next()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)
            self._poll()
            self._source.close()
            # No datagram follows.
            self.pipeline.expected_ns = None
            self._schedule_next()
            await self._fade_out()
        finally:
            self._is_over = True
            if self.keys is not None:
                self.keys.close()
            watch.cancel()
            if self._timer is not None:
                self._timer.cancel()
            self._source.close()
            if self.control is not None:
                self.control.close()
        return {
            "seconds": round(time.monotonic() - start, 3),
            "counters": self.pipeline.counters(),
            "sinks": sink_counts(self.pipeline.sinks),
            "collections": {"runs": self.collector.runs, "longest_us": self.collector.longest_ns // 1000},
        }

    @property
    def ended_early(self) -> bool:
        """Whether it was ended by Ctrl-C, a signal, a command or the source, not by its duration."""
        return self._ended.is_set()

    def end(self, t_ns: int | None = None) -> None:
        """Finish now or, in a replay, as if it were ``t_ns``."""
        self._end_ns = t_ns if self._end_ns is None else self._end_ns
        self._ended.set()

    def replay_command(self, command: Command) -> None:
        """Execute a command from a recording."""
        self._is_replay = True
        if command.name == "end":
            return self.end(command.t_ns)
        try:
            self.commands.replay_command(command)
        except Exception as error:
            self._report_error(error)

    def interrupt(self) -> None:
        """Handle Ctrl-C: finish, and the second time raise KeyboardInterrupt."""
        if self._is_over:
            return
        if self.interrupted:
            self._is_over = True
            raise KeyboardInterrupt
        self.interrupted = True
        self.end()

    def _receive(self, datagram: bytes, arrival: int, sender: str) -> bool:
        """Process a datagram; True if it completed a frame."""
        try:
            if not self.pipeline.feed(datagram, arrival, sender):
                return False
        except Exception as error:
            self._report_error(error)
            return False
        if self.collector.due():
            self._set_timer(min(_FRAME_S / 4, self._seconds_until(self.pipeline.due_ns)), self._collect)
        else:
            self._schedule_next()
        return True

    def _report_error(self, error: Exception) -> None:
        """Count an internal error, which must not end the show, and report each kind once."""
        self.pipeline.counts["errors"] += 1
        if (kind := type(error).__name__) not in self._reported_errors:
            self._reported_errors.add(kind)
            self._say(f"internal error, continuing: {kind}: {error}")

    def _poll(self) -> None:
        """Process waiting datagrams: one burst, or all after a stall, before frames count as late."""
        deadline = time.monotonic() + _MAX_CATCH_UP_S
        for _ in range(_MAX_BURSTS):
            self._source.poll()
            caught_up = self._seconds_until(self.pipeline.due_ns) > -_STALL_S or not self._source.wait(0.0)
            if caught_up or time.monotonic() > deadline:
                return

    def _seconds_until(self, t_ns: int) -> float:
        """Seconds of the loop's time until the show time ``t_ns``."""
        clock = self.pipeline.clock
        return (t_ns - clock.now_ns()) / 1e9 / clock.speed

    def _set_timer(self, seconds: float, action: Callable[[], None]) -> None:
        """Set the only timer: run ``action`` in ``seconds``, in place of what was set before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(seconds, 0.0), self._run_action, action)

    def _run_action(self, action: Callable[[], None]) -> None:
        """Run a timer's action, which sets the timer again; if it fails, the next frame is still due."""
        try:
            action()
        except Exception as error:
            self._report_error(error)
            self._set_timer(_FRAME_S, self._process_due)

    def _collect(self) -> None:
        """Collect garbage a quarter into the gap between two frames, where it disturbs nothing."""
        self.collector.collect()
        self._schedule_next()

    def _schedule_next(self) -> None:
        """Set the timer for the next event: the prewarming for the next datagram, or an earlier deadline."""
        due = self._seconds_until(self.pipeline.due_ns)
        if self._prewarm and (expected := self.pipeline.expected_ns) is not None:
            prewarm_in = self._seconds_until(expected) - self._lead_s - _TIMER_MARGIN_S
            if 0.0 < prewarm_in < due:
                self._set_timer(prewarm_in, self._prepare)
                return
        self._set_timer(due, self._process_due)

    def _prepare(self) -> None:
        """Warm the caches shortly before the next datagram is due, unless it has arrived already."""
        expected = self.pipeline.expected_ns
        if self._prewarm and expected is not None:
            timeout = min(self._seconds_until(expected) - self._lead_s, self._lead_s + _TIMER_MARGIN_S)
            if not self._source.wait(timeout):
                if self._spin:
                    self._stay_warm(expected)
                else:
                    self.pipeline.prewarm()
        self._set_timer(self._seconds_until(self.pipeline.due_ns), self._process_due)

    def _stay_warm(self, expected_ns: int) -> None:
        """Keep the core awake and the caches warm until the datagram arrives or is clearly late."""
        late = min(
            self._seconds_until(expected_ns) + _SPIN_GRACE_S, self._seconds_until(self.pipeline.due_ns)
        )
        deadline, next_warm = self._loop.time() + late, 0.0
        while (now := self._loop.time()) < deadline:
            if now >= next_warm:
                self.pipeline.prewarm()
                next_warm = self._loop.time() + _REWARM_INTERVAL_S
            if self._source.wait(0.0):
                return

    def _process_due(self) -> None:
        """Send what is due, such as a late frame, after processing the datagrams that have arrived."""
        # The time before reading: what arrives during it may be on time.
        now = self.pipeline.clock.now_ns()
        self._poll()
        self.pipeline.run_until(now if self._fade_end_ns is None else min(now, self._fade_end_ns))
        if self.collector.due():
            self.collector.collect()
        self._schedule_next()

    async def _fade_out(self) -> None:
        """Stop, in the same number of frames however late the loop is."""
        now = self.pipeline.clock.now_ns() if self._end_ns is None else self._end_ns
        self.pipeline.run_until(now)
        if self.pipeline.tape is not None:
            self.pipeline.tape.control(now, "end", ())
        if self.pipeline.state == "waiting":
            return
        end = self._fade_end_ns = self.pipeline.fade_out(now)
        while self._timer is not None and self._seconds_until(end) > 0.0:
            await asyncio.sleep(min(self._seconds_until(end), _FRAME_S))
        if self._timer is not None:
            self._timer.cancel()
        self.pipeline.run_until(end)

    def _all_children(self) -> list[Child]:
        return [*filter(None, (self._recorder, self._synth)), *self.children]

    def _status_words(self) -> list[str]:
        """Status words on the socket and the child processes."""
        words = [f"{child.name.split()[-1].lower()}={child.state}" for child in self._all_children()]
        # Datagrams that the system dropped because they were not read in time.
        return [f"dropped={n}", *words] if (n := self._source.dropped) else words

    async def _watch(self) -> None:
        """Once a second: poll the children and report changes."""
        beat, sinks = BeatWatch(), SinkWatch()
        reported: set[str] = set()
        while True:
            await asyncio.sleep(1.0)
            try:
                self._check(beat, sinks, reported)
            except Exception as error:
                self._report_error(error)

    def _check(self, beat: BeatWatch, sinks: SinkWatch, reported: set[str]) -> None:
        for child in self._all_children():
            child.poll()
        sound_ms = None if self._synth is None else self._synth.sound_ms
        leads = self.commands.beat.session_beat() is not None
        if not (self._is_replay or self._ended.is_set()) and (leads or sound_ms is not None):
            # In a replay these come from the recording.
            self._poll()
            self.commands.follow_beat()
            if sound_ms is not None:
                self.commands.follow_sound(sound_ms)
        news = sinks.look(self.pipeline.sinks)
        if self._source_watch is not None:
            news += self._source_watch.watch(time.monotonic(), self.pipeline.front)
        if (line := beat.look(self.pipeline.tempo, led=self.pipeline.leading_beat is not None)) is not None:
            news.append(line)
        mapping_state = self.pipeline.live_mapping, self.pipeline.mapping_error, self.pipeline.missing_joints
        for problem in (self.pipeline.model_error, mapping_trouble(*mapping_state)):
            if problem and problem not in reported:
                reported.add(problem)
                news.append(problem)
        for line in news:
            self._say(line)

    # -- closing, in the steps of close_shows --------------------------------------------------------

    def _begin_close(self) -> None:
        for child in filter(None, (self._recorder, self._synth)):
            child.begin_close()
        for sink in self.pipeline.sinks:
            if isinstance(sink, SlowClosingSink):
                sink.begin_close()

    def _close_outputs(self) -> None:
        for remote in self._remotes:
            remote.close()
        if self._recorder is not None:
            self._recorder.close()
        self.pipeline.close()

    def _stop_children(self) -> None:
        for child in self.children:
            child.begin_close()

    def _join_children(self) -> None:
        for child in filter(None, (*self.children, self._synth)):
            child.close()

    # -- recording ---------------------------------------------------------------------------------

    def start_recording(self, path: Path) -> None:
        """Record into a new file from now on, and wait until it is created; called before the show begins.

        Raises:
            OptionError: The file exists.
            DeviceError: It cannot be created, or the recorder does not answer.
        """
        self._open_recording(path).wait()

    def _open_recording(self, path: Path) -> Recorder:
        if self._recorder is None:
            raise OptionError("recording is not possible here")
        self._folder = path.parent
        self._recorder.open(path, self._recording_start)
        self.pipeline.tape = self._recorder
        return self._recorder

    def _recording_start(self) -> tuple[int, Mapping[str, Any], Sequence[Command]]:
        # Records have the pipeline's clock, which in a replay is that of the first show.
        now = self.pipeline.clock.now_ns()
        return now, self._header(), self.commands.state_as_commands(now)

    # -- remote control ----------------------------------------------------------------------------

    def actions(self) -> dict[str, Action]:
        """All commands by name; they are recorded, and have the same effect in a replay."""

        return {
            **{name: partial(self._obey, name) for name in self.commands.names},
            "record/start": self._record_start,
            "record/stop": self._record_stop,
            **{name: action for remote in self._remotes for name, action in remote.actions.items()},
        }

    def families(self) -> dict[str, Action]:
        """Commands whose name ends in an argument, by their prefix."""
        own: dict[str, Action] = {f: partial(self._obey_one_of, f) for f in self.commands.families}
        return own | {name: action for remote in self._remotes for name, action in remote.families.items()}

    def _obey(self, name: str, *arguments: object) -> str | Awaitable[str]:
        return self.commands.obey(name, *arguments)

    def _obey_one_of(self, family: str, rest: str, *arguments: object) -> str | Awaitable[str]:
        return self._obey(family + rest, *arguments)

    def _record_start(self, name: object = "") -> Awaitable[str]:
        plain = plain_name("record/start", name, "take", ".anticip")
        path = self._folder / (recording_path(Path(plain), self.performer) if self.performer else plain)
        if not str(name):
            path = unused(path)
        if self._recorder is None or self._recorder.is_opening:
            raise OptionError("record/start: the file before is not made yet")
        return self._recorded(self._open_recording(path), path)

    async def _recorded(self, recorder: Recorder, path: Path) -> str:
        """Wait until the recorder has created a file."""
        await recorder.settled()
        if recorder.path is None:
            self.pipeline.tape = None
        recorder.check()
        return str(path)

    def _record_stop(self) -> Awaitable[str]:
        if self._recorder is None or self._recorder.path is None:
            raise OptionError("record/stop: nothing is being recorded")
        # A file that exists is finished at once, so that a recording started next is another file.
        ended = None if self._recorder.is_opening else self._end(self._recorder)
        return self._stopped(self._recorder, ended)

    def _end(self, recorder: Recorder) -> Path | None:
        self.pipeline.tape = None
        return recorder.finish()

    async def _stopped(self, recorder: Recorder, path: Path | None) -> str:
        """Wait until a file is finished; one that is still being created is finished once it exists, because
        its creator waits for it."""
        if path is None:
            await recorder.settled()
            path = self._end(recorder)
        if path is None:
            raise OptionError("record/stop: nothing is being recorded")
        await recorder.settled()
        recorder.check_end(path)
        return str(path)


def close_shows(shows: Sequence[Show]) -> None:
    """Close shows that have played, completely, whatever is raised on the way.

    Slow parts of all shows are asked to end before any is waited for, so that many take no longer than one.
    The terminal and the guard are closed after the recorders and the sinks, on which they report.
    """
    with contextlib.ExitStack() as last_first:
        for step in (Show._join_children, Show._stop_children, Show._close_outputs, Show._begin_close):
            for show in reversed(shows):
                last_first.callback(step, show)


def close_unplayed(show: Show) -> None:
    """Close a show that has not played, by running it for no time."""
    run_loop(show.run(0.0))
