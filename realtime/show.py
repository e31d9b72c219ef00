"""A running show: the asyncio loop around the pipeline, its timers, its children, its end."""

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
from realtime.control.folder import plain_name
from realtime.control.server import Action, ControlServer, Remote
from realtime.loop import obey_signals, run_loop
from realtime.monitor.keys import Keys
from realtime.oscquery.offer import Offer
from realtime.pipeline import Pipeline
from realtime.recording.recorder import Recorder
from realtime.rig.load import recorded_as
from realtime.rig.tree import ControlRig
from realtime.sinks.base import SlowClosingSink
from realtime.sources.base import DatagramStream
from realtime.sources.replay import Command
from realtime.sources.watch import SourceWatch
from realtime.status import BeatWatch, SinkWatch, mapping_trouble, sink_counts
from realtime.tuning import Collector
from realtime.voice.process import SynthProcess

__all__ = ["Show", "close_shows", "close_unplayed"]

_FRAME = 0.02
# How long before the next datagram the dummy step comes, which is slow itself. The loop's timers round up to
# a whole millisecond, so they aim earlier by _EARLY and `wait` does the rest.
_PREWARM = 0.001
_EARLY = 0.0015
# Who spins begins so long before, polls the socket without sleeping, and repeats the dummy step: a core that
# sleeps for a millisecond may wake late and with cold caches. Given up so long after the datagram was due.
_SPIN = 0.0035
_REWARM = 0.0005
_GRACE = 0.003
# Who finds itself so late (seconds) has stood still; what waits then is read in so many bursts, and for so
# long (seconds), at most.
_STOOD_STILL = 0.04
_BURSTS = 64
_CATCH_UP = 1.0


class Show:
    """Runs a pipeline until it is told to stop.

    ``control`` says where the remote control listens; it offers ``commands`` and what ``remotes`` add.
    ``recorder`` writes files that begin with what ``header`` returns (None: recording is not offered).
    ``say`` takes one line of text for the person at the terminal. ``must_listen``: without its remote
    control there is no show. ``watch`` tells whether the suit is there.
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
        self._ahead = _SPIN if spin else _PREWARM
        self._recorder = recorder
        self._header = header
        self._synth = synth
        self._source_watch = watch
        self._say = say
        #: Shared by shows of one process.
        self.collector = Collector()
        self._timer: asyncio.TimerHandle | None = None
        self._mistakes: set[str] = set()
        self._ended = asyncio.Event()
        self._end_ns: int | None = None
        # When the fade at the end is over.
        self._silent_ns: int | None = None
        # Where files go.
        self._folder = Path()
        # Whether commands come from a recording.
        self._again = False
        self.interrupted = False
        # Whether it has ended, or been told to at once: being asked again changes nothing then.
        self._is_over = False
        #: Processes beside the voice that are looked after once a second.
        self.children: list[Child] = []
        #: Who plays, of several performers: part of the names of their recordings.
        self.performer = ""
        #: What is offered to those who ask by OSCQuery.
        self.offer: Offer | None = None
        #: The keyboard of the terminal, where it commands.
        self.keys: Keys | None = None
        self.commands = commands
        self._remotes = remotes
        pipeline.extra_status = self._beside
        pipeline.tell(say)
        self.control = None if control is None else self._remote(control, must_listen)

    def _remote(self, control: ControlRig, must_listen: bool) -> ControlServer | None:
        if not control.enabled:
            return None
        try:
            return ControlServer(
                control.host, control.port, self.actions(), control.reply_port, self.families(), self._say
            )
        except DeviceError as error:
            if must_listen:
                raise
            self._say(f"{error}; going on without remote control")
            return None

    # -- the loop ----------------------------------------------------------------------------------

    async def run(self, seconds: float | None = None) -> dict[str, Any]:
        """:meth:`play`, and close; what happened, in numbers."""
        with obey_signals(self.interrupt, self.end):
            try:
                return await self.play(seconds)
            finally:
                close_shows([self])

    async def play(self, seconds: float | None = None) -> dict[str, Any]:
        """Play until the source ends, ``seconds`` have passed or :meth:`end` is called, then fade out: what
        blocks the loop waits for :func:`close_shows`."""
        self._loop = asyncio.get_running_loop()
        begun = time.monotonic()
        watch = self._loop.create_task(self._watch())
        try:
            if self.control is not None:
                self.control.start(self._loop)
            if self.keys is not None:
                self.keys.start(self._loop)
            self._source.start(self._loop, self._receive)
            self._await()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)
            self._poll()
            self._source.close()
            # Whatever the timer was waiting for, no datagram follows.
            self.pipeline.expected_ns = None
            self._await()
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
            "seconds": round(time.monotonic() - begun, 3),
            "counters": self.pipeline.counters(),
            "sinks": sink_counts(self.pipeline.sinks),
            "collections": {"runs": self.collector.runs, "longest_us": self.collector.longest_ns // 1000},
        }

    @property
    def ended_early(self) -> bool:
        """Whether something ended it before its time: Ctrl-C, a signal, a command."""
        return self._ended.is_set()

    def end(self, t_ns: int | None = None) -> None:
        """Finish: now, or (of a show that is played again) as if it were ``t_ns``."""
        self._end_ns = t_ns if self._end_ns is None else self._end_ns
        self._ended.set()

    def replay_command(self, command: Command) -> None:
        """What a recording says was commanded."""
        self._again = True
        if command.name == "end":
            return self.end(command.t_ns)
        try:
            self.commands.replay_command(command)
        except Exception as error:
            self._mistaken(error)

    def interrupt(self) -> None:
        """What Ctrl-C does: finish, and asked twice, at once."""
        if self._is_over:
            return
        if self.interrupted:
            self._is_over = True
            raise KeyboardInterrupt
        self.interrupted = True
        self.end()

    def _receive(self, datagram: bytes, arrival: int, sender: str) -> bool:
        """Take a datagram; True if it completed a frame."""
        try:
            if not self.pipeline.feed(datagram, arrival, sender):
                return False
        except Exception as error:
            self._mistaken(error)
            return False
        if self.collector.due():
            self._set(min(_FRAME / 4, self._in(self.pipeline.due_ns)), self._collect)
        else:
            self._await()
        return True

    def _mistaken(self, error: Exception) -> None:
        """A mistake of ours must not end the show: it is counted, and each kind told once."""
        self.pipeline.counts["errors"] += 1
        if (kind := type(error).__name__) not in self._mistakes:
            self._mistakes.add(kind)
            self._say(f"internal error, going on: {kind}: {error}")

    def _poll(self) -> None:
        """Hand on what has come: after a standstill all, before anything is late; of a flood, one burst."""
        until = time.monotonic() + _CATCH_UP
        for _ in range(_BURSTS):
            self._source.poll()
            caught_up = self._in(self.pipeline.due_ns) > -_STOOD_STILL or not self._source.wait(0.0)
            if caught_up or time.monotonic() > until:
                return

    def _in(self, t_ns: int) -> float:
        """Seconds of the loop until a moment of the show."""
        clock = self.pipeline.clock
        return (t_ns - clock.now_ns()) / 1e9 / clock.speed

    def _set(self, seconds: float, act: Callable[[], None]) -> None:
        """The one timer: ``act`` in so many seconds, and nothing before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(seconds, 0.0), self._act, act)

    def _act(self, act: Callable[[], None]) -> None:
        """What the timer came for, which sets it again; where it fails, the next frame is due even so."""
        try:
            act()
        except Exception as error:
            self._mistaken(error)
            self._set(_FRAME, self._due)

    def _collect(self) -> None:
        """A quarter into the gap between two frames: the moment that disturbs nobody."""
        self.collector.collect()
        self._await()

    def _await(self) -> None:
        """What comes next: the moment to warm up for the next datagram, or something that is due before."""
        due = self._in(self.pipeline.due_ns)
        if self._prewarm and (expected := self.pipeline.expected_ns) is not None:
            warm = self._in(expected) - self._ahead - _EARLY
            if 0.0 < warm < due:
                self._set(warm, self._before)
                return
        self._set(due, self._due)

    def _before(self) -> None:
        """Shortly before the next datagram is due: warm the caches, unless it is here already."""
        expected = self.pipeline.expected_ns
        if self._prewarm and expected is not None:
            before = min(self._in(expected) - self._ahead, self._ahead + _EARLY)
            if not self._source.wait(before):
                if self._spin:
                    self._stay_warm(expected)
                else:
                    self.pipeline.prewarm()
        self._set(self._in(self.pipeline.due_ns), self._due)

    def _stay_warm(self, expected_ns: int) -> None:
        """Keep the core awake and the caches warm until the datagram is there, or plainly late."""
        late = min(self._in(expected_ns) + _GRACE, self._in(self.pipeline.due_ns))
        until, again = self._loop.time() + late, 0.0
        while (now := self._loop.time()) < until:
            if now >= again:
                self.pipeline.prewarm()
                again = self._loop.time() + _REWARM
            if self._source.wait(0.0):
                return

    def _due(self) -> None:
        """A frame is late: the sinks go on at 50 Hz. What has come before that is done before."""
        self._poll()
        now = self.pipeline.clock.now_ns()
        self.pipeline.run_until(now if self._silent_ns is None else min(now, self._silent_ns))
        if self.collector.due():
            self.collector.collect()
        self._await()

    async def _fade_out(self) -> None:
        """To neutral, in as many frames however late the loop is."""
        now = self.pipeline.clock.now_ns() if self._end_ns is None else self._end_ns
        self.pipeline.run_until(now)
        if self.pipeline.tape is not None:
            self.pipeline.tape.control(now, "end", ())
        if self.pipeline.state == "waiting":
            return
        end = self._silent_ns = self.pipeline.fade_out(now)
        while self._timer is not None and self._in(end) > 0.0:
            await asyncio.sleep(min(self._in(end), _FRAME))
        if self._timer is not None:
            self._timer.cancel()
        self.pipeline.run_until(end)

    def _all_children(self) -> list[Child]:
        return [*filter(None, (self._recorder, self._synth)), *self.children]

    def _beside(self) -> list[str]:
        """What the status says of the socket and of the processes beside the show."""
        words = [f"{child.name.split()[-1].lower()}={child.state}" for child in self._all_children()]
        # Of datagrams, for nobody read them in time.
        return [f"dropped={n}", *words] if (n := self._source.dropped) else words

    async def _watch(self) -> None:
        """Once a second: look after the children, tell what has changed."""
        beat, sinks = BeatWatch(), SinkWatch()
        reported: set[str] = set()
        while True:
            await asyncio.sleep(1.0)
            try:
                self._look(beat, sinks, reported)
            except Exception as error:
                self._mistaken(error)

    def _look(self, beat: BeatWatch, sinks: SinkWatch, reported: set[str]) -> None:
        for child in self._all_children():
            child.poll()
        sound_ms = None if self._synth is None else self._synth.sound_ms
        leads = self.commands.beat.session_beat() is not None
        if not (self._again or self._ended.is_set()) and (leads or sound_ms is not None):
            # In a replay it is as it was then.
            self._poll()
            self.commands.follow_beat()
            if sound_ms is not None:
                self.commands.follow_sound(sound_ms)
        news = sinks.look(self.pipeline.sinks)
        if self._source_watch is not None:
            news += self._source_watch.watch(time.monotonic(), self.pipeline.front)
        if (line := beat.look(self.pipeline.tempo, led=self.pipeline.leading_beat is not None)) is not None:
            news.append(line)
        taught = self.pipeline.live_mapping, self.pipeline.mapping_error, self.pipeline.missing_joints
        for once in (self.pipeline.model_error, mapping_trouble(*taught)):
            if once and once not in reported:
                reported.add(once)
                news.append(once)
        for line in news:
            self._say(line)

    # -- the end, in the steps of close_shows --------------------------------------------------------

    def _leave(self) -> None:
        for child in filter(None, (self._recorder, self._synth)):
            child.leave()
        for sink in self.pipeline.sinks:
            if isinstance(sink, SlowClosingSink):
                sink.leave()

    def _part(self) -> None:
        for remote in self._remotes:
            remote.close()
        if self._recorder is not None:
            self._recorder.close()
        self.pipeline.close()

    def _dismiss(self) -> None:
        for child in self.children:
            child.leave()

    def _wait(self) -> None:
        for child in filter(None, (*self.children, self._synth)):
            child.close()

    # -- recording ---------------------------------------------------------------------------------

    def start_recording(self, path: Path) -> None:
        """Record into a new file from now on; it is there when this returns: before the show begins.

        Raises:
            OptionError: The file exists.
            DeviceError: It cannot be made, or the recorder does not answer.
        """
        self._record(path).wait()

    def _record(self, path: Path) -> Recorder:
        if self._recorder is None:
            raise OptionError("recording is not possible here")
        self._folder = path.parent
        self._recorder.open(path, self._begun)
        self.pipeline.tape = self._recorder
        return self._recorder

    def _begun(self) -> tuple[int, Mapping[str, Any], Sequence[Command]]:
        # The clock of the records: of a show that is played again the first one's.
        now = self.pipeline.clock.now_ns()
        return now, self._header(), self.commands.state_as_commands(now)

    # -- remote control ----------------------------------------------------------------------------

    def actions(self) -> dict[str, Action]:
        """All that can be commanded, by name; recorded, and the same again in a replay."""

        return {
            **{name: partial(self._obey, name) for name in self.commands.names},
            "record/start": self._record_start,
            "record/stop": self._record_stop,
            **{name: act for remote in self._remotes for name, act in remote.actions.items()},
        }

    def families(self) -> dict[str, Action]:
        """Commands whose end is an argument, by what they begin with."""
        own: dict[str, Action] = {f: partial(self._obey_one_of, f) for f in self.commands.families}
        return own | {name: act for remote in self._remotes for name, act in remote.families.items()}

    def _obey(self, name: str, *arguments: object) -> str | Awaitable[str]:
        # What came before the command is done before it.
        self._poll()
        return self.commands.obey(name, *arguments)

    def _obey_one_of(self, family: str, rest: str, *arguments: object) -> str | Awaitable[str]:
        return self._obey(family + rest, *arguments)

    def _record_start(self, name: object = "") -> Awaitable[str]:
        plain = plain_name("record/start", name, "take", ".anticip")
        path = self._folder / (recorded_as(Path(plain), self.performer) if self.performer else plain)
        if self._recorder is None or self._recorder.is_opening:
            raise OptionError("record/start: the file before is not made yet")
        return self._recorded(self._record(path), path)

    async def _recorded(self, recorder: Recorder, path: Path) -> str:
        """Wait until the recorder has made a file."""
        await recorder.settled()
        if recorder.path is None:
            self.pipeline.tape = None
        recorder.check()
        return str(path)

    def _record_stop(self) -> Awaitable[str]:
        if self._recorder is None or self._recorder.path is None:
            raise OptionError("record/stop: nothing is being recorded")
        # A file that is there ends at once: what is started right behind is another.
        ended = None if self._recorder.is_opening else self._end(self._recorder)
        return self._stopped(self._recorder, ended)

    def _end(self, recorder: Recorder) -> Path | None:
        self.pipeline.tape = None
        return recorder.finish()

    async def _stopped(self, recorder: Recorder, path: Path | None) -> str:
        """Wait until a file is finished; one that is being made ends once it is there, for whoever made it
        still waits for it."""
        if path is None:
            await recorder.settled()
            path = self._end(recorder)
        if path is None:
            raise OptionError("record/stop: nothing is being recorded")
        await recorder.settled()
        recorder.check_end(path)
        return str(path)


def close_shows(shows: Sequence[Show]) -> None:
    """Close shows that have played, all of it whatever is raised on the way.

    Who takes a while to end is told so by every show before any is waited for: many take no longer than one.
    The terminal and the guard come behind the recorders and the receivers' connections, of which they tell.
    """
    with contextlib.ExitStack() as last_first:
        for step in (Show._wait, Show._dismiss, Show._part, Show._leave):
            for show in reversed(shows):
                last_first.callback(step, show)


def close_unplayed(show: Show) -> None:
    """A show that has not begun closes all that it has at its end."""
    run_loop(show.run(0.0))
