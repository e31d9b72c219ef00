"""``pyanticip teach record``: a take from the suit, without a show around it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pyanticip._core import LiveFront
from pyanticip.errors import DeviceError
from pyanticip.motion.npz import save_npz
from pyanticip.teach.project import Project
from pyanticip.teach.state import TakeEntry
from realtime.loop import obey_signals, run_loop
from realtime.rig import SourceRig
from realtime.sockets import host_and_port
from realtime.sources.udp import UdpSource
from realtime.sources.watch import why_refused, why_silent
from realtime.teaching.take_recorder import PlayedTake, TakeRecorder

__all__ = ["record_take", "store_or_keep"]

Say = Callable[[str], None]

_PATIENCE_S = 30.0
_HINT_S = 3.0
# A body is refused in its first second; a take that is longer began with another one, and is kept.
_JUDGED_S = 2.0


def record_take(
    project: Project,
    source: SourceRig,
    *,
    name: str | None,
    values: Mapping[str, float],
    labels: Mapping[str, str],
    seconds: float | None,
    countdown: float = 3.0,
    say: Say = lambda line: None,
) -> TakeEntry:
    """Record one take with constant values and labels and store it; Ctrl-C ends it as ``seconds`` would.

    The countdown begins with the first frame that the suit sends; what it sends then leads in.

    Raises:
        DeviceError: the port is taken, nothing comes for half a minute, or a body that cannot be played.
        OptionError: values outside their ranges, a name that is there already, a take too short.
    """

    async def obeying() -> TakeEntry:
        done = asyncio.Event()
        with obey_signals(done.set, done.set):
            return await _record(project, source, name, values, labels, seconds, countdown, say, done)

    return run_loop(obeying())


async def _record(
    project: Project,
    source: SourceRig,
    name: str | None,
    values: Mapping[str, float],
    labels: Mapping[str, str],
    seconds: float | None,
    countdown: float,
    say: Say,
    done: asyncio.Event,
) -> TakeEntry:
    loop = asyncio.get_running_loop()
    begun = asyncio.Event()
    # What is taught stands as still as what plays.
    front = LiveFront(source.wire, steady=True)
    take_recorder = TakeRecorder(project, body=front, source=source.kind, full=done.set)
    take_recorder.want(values)
    take_recorder.show(labels)

    def receive(datagram: bytes, arrival: int, sender: str) -> None:
        out = front.feed(datagram, arrival, sender)
        if out is not None:
            take_recorder.frame(out)
            begun.set()
        elif front.refusal and begun.is_set():
            # A body is judged by its first second.
            done.set()

    def why_none(seconds: float) -> str:
        refusal = why_refused(source.kind, front.refusal or udp.trouble)
        return refusal or why_silent(source.kind, udp.address, seconds, front.counters(), udp.newest)

    # Refused now rather than after the countdown.
    take_recorder.start(name, seconds)
    take_recorder.cancel()
    udp = UdpSource(source.kind, *source.listen, say=say, **source.opened())
    try:
        udp.start(loop, receive)
        say(f"listening for {source.kind} at {host_and_port(*udp.address)}")
        try:
            try:
                await asyncio.wait_for(_either(begun, done), _HINT_S)
            except TimeoutError:
                say(why_none(_HINT_S))
                await asyncio.wait_for(_either(begun, done), _PATIENCE_S - _HINT_S)
        except TimeoutError:
            raise DeviceError(why_none(_PATIENCE_S)) from None
        for left in range(int(countdown), 0, -1):
            if not done.is_set():
                say(f"{left} ...")
                await asyncio.sleep(1.0)
        if front.refusal:
            raise DeviceError(why_refused(source.kind, front.refusal))
        if done.is_set():
            # Ctrl-C before the take has begun.
            raise KeyboardInterrupt
        name = take_recorder.start(name, seconds)
        say(f"recording {name}" + (f" for {seconds:g} s" if seconds else "; Ctrl-C ends it"))
        # A suit that falls silent must not keep us waiting for ever.
        limit = None if seconds is None else seconds + 5.0
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), limit)
        if not done.is_set():
            say("the suit fell silent: the take ends there")
    finally:
        udp.close()
    refusal = why_refused(source.kind, front.refusal)
    if refusal and take_recorder.seconds < _JUDGED_S:
        raise DeviceError(refusal)
    played = take_recorder.stop()
    if warning := played.warning:
        say(f"{refusal}: the take ends there" if refusal and played.cut else warning)
    return store_or_keep(played, project)


def store_or_keep(played: PlayedTake, project: Project) -> TakeEntry:
    """Store a take; where that fails it is kept as a file, for nobody dances it the same way again.

    Raises a MotionError, which says where it is kept.
    """
    try:
        return played.store(project)
    except DeviceError as error:
        try:
            kept = Path(tempfile.mkdtemp(prefix="pyanticip-")) / f"{played.name}.npz"
            save_npz(played.clip, kept)
        except OSError:
            raise error from None
        command = ["pyanticip", "teach", "add", str(project.folder), str(kept), "--take", played.name]
        if played.begin:
            command += ["--start", f"{played.begin / played.clip.rate:.2f}"]
        for option, given in (("--values", played.values), ("--class", played.labels)):
            if given:
                command += [option, ",".join(f"{name}={value}" for name, value in given.items())]
        raise DeviceError(f"{error}; the take is kept: {shlex.join(command)}") from None


async def _either(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
