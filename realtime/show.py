"""A running show: the asyncio loop around the pipeline, its timers, its children, its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from pyanticip.errors import DeviceError, OptionError
from realtime.attendance import Attendance
from realtime.calibrate import Calibration
from realtime.child import SynthProcess
from realtime.control import Action, ControlServer, number, switch
from realtime.pipeline import Pipeline
from realtime.rig import Rig
from realtime.sources.udp import Receive
from realtime.teaching.remote import Loader, TeachRemote
from realtime.tuning import Collector
from realtime.wishes import PlanWishes

__all__ = ["Show", "Source", "Taping"]

_FRAME = 0.02
# The first tick of silence comes when a packet is three quarters of a frame late.
_QUIET = 0.035
# How long before the next datagram the dummy steps begin; the first ones are slow themselves. The loop's
# timers round up to a whole millisecond, so they aim earlier and `wait` does the rest.
_PREWARM = 0.0035
_WAKE = 0.005
# From then on the socket is polled without sleeping, and the dummy step repeated: a core that sleeps for a
# millisecond wakes late and with cold caches. Given up so long after the datagram was due.
_REWARM = 0.0005
_GRACE = 0.003
_FADE_OUT = 0.4


class Source(Protocol):
    """Something that hands datagrams on: a socket, or a file."""

    def start(self, loop: asyncio.AbstractEventLoop, receive: Receive) -> None:
        """Begin."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; True at once when a datagram is there to be read."""
        ...

    def close(self) -> None:
        """End."""
        ...


class Taping(Protocol):
    """A running recorder that can be ended; see :mod:`realtime.recorder`."""

    dropped: int

    def close(self) -> None:
        """Finish the file."""
        ...


class Show:
    """Runs a pipeline until it is told to stop.

    ``record`` opens a recorder for a path (None: recording is not offered). ``say`` takes one line of
    text for the person at the terminal. ``must_listen``: without its remote control there is no show.
    ``attendance`` watches whether the suit is there.
    """

    def __init__(
        self,
        rig: Rig,
        pipeline: Pipeline,
        source: Source,
        *,
        speed: float = 1.0,
        prewarm: bool = True,
        record: Callable[[Path], Any] | None = None,
        synth: SynthProcess | None = None,
        must_listen: bool = True,
        attendance: Attendance | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.pipeline = pipeline
        self._source = source
        self._speed = speed
        self._prewarm = prewarm
        self._open_tape = record
        self._tape: Taping | None = None
        self._synth = synth
        self._attendance = attendance
        self._say = say
        self._collector = Collector()
        self._period = _FRAME
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ended: asyncio.Event | None = None
        self._record_path: Path | None = None
        self.interrupted = False
        self._loader = Loader(pipeline, _mapping_file(rig), say)
        self._teach = self._teaching(rig)
        self._calibration = Calibration(pipeline, rig.file)
        self.control = self._remote(rig, must_listen)

    def _remote(self, rig: Rig, must_listen: bool) -> ControlServer | None:
        control = rig.control
        if not control.enabled:
            return None
        try:
            families = {} if self._teach is None else self._teach.families
            return ControlServer(
                control.host, control.port, self._actions(), control.reply_port, families, self._say
            )
        except DeviceError as error:
            if must_listen:
                raise
            self._say(f"{error}; going on without remote control")
            return None

    def _teaching(self, rig: Rig) -> TeachRemote | None:
        """The commands that teach, where the rig names a project; a new one where there is none yet."""
        if rig.teach is None:
            return None
        from pyanticip.teach.project import MANIFEST, Project

        folder = Path(rig.teach)
        project = Project.open(folder) if (folder / MANIFEST).exists() else Project.create(folder)
        return TeachRemote(project, self.pipeline, self._loader, rig.model.checkpoint, self._say)

    # -- the loop ----------------------------------------------------------------------------------

    async def run(self, seconds: float | None = None) -> dict[str, Any]:
        """Play until the source ends, ``seconds`` have passed or Ctrl-C; then fade out and close."""
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        begun = time.monotonic()
        for number_ in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
                self._loop.add_signal_handler(number_, self._interrupt)
        watch = self._loop.create_task(self._watch())
        try:
            if self.control is not None:
                self.control.start(self._loop)
            self._timer = self._loop.call_later(_FRAME, self._quiet, self._loop.time() + _FRAME)
            self._source.start(self._loop, self._receive)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)
            self._source.close()
            # Whatever the timer was waiting for, no datagram follows: only the ticks of silence go on.
            if self._timer is not None:
                self._timer.cancel()
            self._await_quiet()
            await self._fade_out()
        finally:
            watch.cancel()
            if self._timer is not None:
                self._timer.cancel()
            self._source.close()
            if self.control is not None:
                self.control.close()
            self._loader.close()
            self.stop_recording()
            sinks = {sink.name: sink.counters() for sink in self.pipeline.sinks}
            self.pipeline.close()
            if self._synth is not None:
                self._synth.close()
        return {
            "seconds": round(time.monotonic() - begun, 3),
            "counters": self.pipeline.counters(),
            "sinks": sinks,
            "collections": {"runs": self._collector.runs, "longest_us": self._collector.longest_ns // 1000},
        }

    def end(self) -> None:
        """The source has nothing more: finish."""
        if self._ended is not None:
            self._ended.set()

    def _interrupt(self) -> None:
        if self.interrupted:
            # Asked twice: no more patience.
            raise KeyboardInterrupt
        self.interrupted = True
        self.end()

    def _receive(self, datagram: bytes, arrival: int) -> None:
        now = self._loop.time()
        try:
            if not self.pipeline.feed(datagram, arrival):
                return
        except Exception as error:
            # A mistake of ours in one frame must not end the show; it is counted and told once.
            self.pipeline.counts["errors"] += 1
            if self.pipeline.counts["errors"] == 1:
                self._say(f"internal error, going on: {type(error).__name__}: {error}")
            return
        interval = now - self._last
        self._last = now
        if 0.005 < interval < 0.1:
            self._period += 0.05 * (interval - self._period)
        if self._timer is not None:
            self._timer.cancel()
        if self._collector.due():
            self._timer = self._loop.call_at(now + self._period / 4, self._collect)
        else:
            self._timer = self._loop.call_at(now + self._period - _WAKE, self._before)

    def _collect(self) -> None:
        """A quarter into the gap between two frames: the moment that disturbs nobody."""
        self._collector.collect()
        self._timer = self._loop.call_at(self._last + self._period - _WAKE, self._before)

    def _before(self) -> None:
        """Shortly before the next datagram is due: warm the caches, unless it is here already."""
        rest = self._last + self._period - _PREWARM - self._loop.time()
        if self._prewarm and not self._source.wait(min(rest, _WAKE)):
            self._stay_warm(self._last + self._period + _GRACE)
        self._await_quiet()

    def _await_quiet(self) -> None:
        due = self._last + _QUIET / self._speed
        self._timer = self._loop.call_at(due, self._quiet, due)

    def _stay_warm(self, until: float) -> None:
        """Keep the core awake and the caches warm until the datagram is there, or plainly late."""
        again = 0.0
        while (now := self._loop.time()) < until:
            if now >= again:
                self.pipeline.prewarm()
                again = self._loop.time() + _REWARM
            if self._source.wait(0.0):
                return

    def _quiet(self, due: float) -> None:
        """Nothing came: the sinks go on at 50 Hz."""
        self.pipeline.tick()
        if self._collector.due():
            self._collector.collect()
        due = max(due + _FRAME / self._speed, self._loop.time())
        self._timer = self._loop.call_at(due, self._quiet, due)

    async def _fade_out(self) -> None:
        if self.pipeline.state == "waiting":
            return
        self.pipeline.desk.leave(_FADE_OUT)
        for _ in range(round(_FADE_OUT / _FRAME) + 2):
            await asyncio.sleep(_FRAME / self._speed)

    async def _watch(self) -> None:
        """Once a second: look after the children."""
        told, warned = False, ""
        while True:
            await asyncio.sleep(1.0)
            if self._synth is not None:
                self._synth.poll()
            if self.pipeline.model_error and not told:
                told = True
                self._say(f"the model failed, the scalars play: {self.pipeline.model_error}")
            if self._attendance is not None:
                news = self._attendance.look(time.monotonic(), self.pipeline.front.counters())
                if news:
                    self._say(news)
            trouble = self._mapping_trouble()
            if trouble and trouble != warned:
                self._say(trouble)
            warned = trouble

    def _mapping_trouble(self) -> str:
        """What the performer should know about the mapping that plays."""
        if self.pipeline.mapping_error:
            return f"the mapping failed, the model plays: {self.pipeline.mapping_error}"
        taught = self.pipeline.taught
        if taught is None or not self.pipeline.lacking:
            return ""
        joints = ", ".join(self.pipeline.lacking)
        return (
            f"mapping {taught.mapping.name} was taught with joints that this source does not have: {joints};"
            " what it says may be far off: teach it with this suit"
        )

    # -- recording ---------------------------------------------------------------------------------

    def start_recording(self, path: Path) -> None:
        """Record into a new file from now on; the one that is running is finished first."""
        if self._open_tape is None:
            raise OptionError("recording is not possible here")
        if path.exists():
            raise OptionError(f"{path}: exists already; a recording is never overwritten")
        self.stop_recording()
        self._tape = self.pipeline.tape = self._open_tape(path)
        self._record_path = path
        self._say(f"recording to {path}")

    def stop_recording(self) -> None:
        """Finish the recording, if there is one."""
        tape, self._tape, self.pipeline.tape = self._tape, None, None
        if tape is not None:
            tape.close()
            lost = f", {tape.dropped} records dropped" if tape.dropped else ""
            self._say(f"recorded {self._record_path}{lost}")

    # -- remote control ----------------------------------------------------------------------------

    def _actions(self) -> dict[str, Action]:
        desk = self.pipeline.desk

        def mode(name: str) -> Callable[[], str]:
            def act() -> str:
                desk.set_mode(name)
                return desk.mode

            return act

        def freeze(value: object = 1) -> str:
            desk.set_mode("frozen" if switch("freeze", value) else "playing")
            return desk.mode

        def bypass(value: object = 1) -> str:
            desk.bypass = switch("bypass", value)
            return "on" if desk.bypass else "off"

        def setting(name: str) -> Callable[[object], str]:
            def act(value: object) -> str:
                setattr(desk, name, number(name, value))
                return f"{getattr(desk, name):g}"

            return act

        return {
            "start": mode("playing"),
            "stop": mode("stopped"),
            "panic": mode("panic"),
            "freeze": freeze,
            "bypass": bypass,
            "gain": setting("gain"),
            "smoothing": setting("smoothing"),
            "lead_ms": setting("lead_ms"),
            "record/start": self._record_start,
            "record/stop": self._record_stop,
            "load": self._loader.load,
            "unload": self._loader.unload,
            **self._calibration.actions,
            "plan": PlanWishes(self.pipeline.backend).wish,
            **(self._teach.actions if self._teach is not None else {}),
        }

    def _record_start(self, name: object = "") -> str:
        """A name without a folder: a datagram must not choose where files go."""
        text = str(name) or datetime.now().strftime("take-%Y%m%d-%H%M%S")
        path = Path(text).with_suffix(".anticip")
        if path.name != str(path) or path.name.startswith("."):
            raise OptionError(f"record/start: expected a plain file name, got {text!r}")
        folder = self._record_path.parent if self._record_path is not None else Path()
        self.start_recording(folder / path)
        return str(self._record_path)

    def _record_stop(self) -> str:
        if self._tape is None:
            raise OptionError("record/stop: nothing is being recorded")
        path = self._record_path
        self.stop_recording()
        return str(path)


def _mapping_file(rig: Rig) -> Path | None:
    """The mapping that plays, or that a fit will write."""
    if rig.mapping is not None:
        return Path(rig.mapping)
    return None if rig.teach is None else Path(rig.teach) / "mapping.safetensors"
