"""``pyanticip teach record``: record a take from the suit, without a show."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import tempfile
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path

from pyanticip._core import LiveFront
from pyanticip.errors import DeviceError
from pyanticip.motion.npz import save_npz
from pyanticip.teach.project import Project
from pyanticip.teach.state import TakeEntry
from realtime.loop import obey_signals
from realtime.rig import SourceRig
from realtime.sockets import host_and_port
from realtime.sources.udp import UdpSource
from realtime.sources.watch import why_refused, why_silent
from realtime.teaching.take_recorder import PlayedTake, TakeRecorder

Say = Callable[[str], None]

_TIMEOUT_S = 30.0
"""Longest wait for the suit's first frame."""
_HINT_DELAY_S = 3.0
"""Wait after which the reason for the silence is reported."""
_REFUSED_TAKE_S = 2.0
"""A body is refused within its first second: a longer take began with another body, and is kept."""


async def record_take(
    project: Project,
    source: SourceRig,
    *,
    name: str | None,
    values: Mapping[str, float],
    labels: Mapping[str, str],
    seconds: float | None,
    countdown: float,
    say: Say,
) -> TakeEntry:
    """Record one take with constant values and labels and store it; Ctrl-C ends it like ``seconds``.

    The countdown (seconds) begins with the suit's first frame; the frames during it lead in.

    Raises:
        DeviceError: the port is in use, no frame for half a minute, or a body that cannot be played.
        OptionError: values outside their ranges, a name in use, a take too short.
    """
    begun, done = asyncio.Event(), asyncio.Event()
    # Steadied as a performance is, so that taught and played motion are alike.
    front = LiveFront(source.wire, steady=True)
    take_recorder = TakeRecorder(project, body=front, source=source.kind, on_full=done.set)
    take_recorder.set_targets(values)
    take_recorder.set_labels(labels)

    def receive(datagram: bytes, arrival: int, sender: str) -> None:
        out = front.feed(datagram, arrival, sender)
        if out is not None:
            take_recorder.add_frame(out)
            begun.set()
        elif front.refusal and begun.is_set():
            # The body was refused after its first second.
            done.set()

    def silence_reason(seconds: float) -> str:
        refusal = why_refused(source.kind, front.refusal or udp.trouble)
        return refusal or why_silent(source.kind, udp.address, seconds, front.counters(), udp.newest)

    # Invalid arguments are refused now rather than after the countdown.
    take_recorder.start(name, seconds)
    take_recorder.cancel()
    udp = UdpSource(source.kind, *source.listen, say=say, **source.udp_options())
    # Until the take is stored, a further Ctrl-C must not lose it.
    with contextlib.closing(udp), obey_signals(done.set, done.set):
        udp.start(asyncio.get_running_loop(), receive)
        say(f"listening for {source.kind} at {host_and_port(*udp.address)}")
        try:
            try:
                await asyncio.wait_for(_either(begun, done), _HINT_DELAY_S)
            except TimeoutError:
                say(silence_reason(_HINT_DELAY_S))
                await asyncio.wait_for(_either(begun, done), _TIMEOUT_S - _HINT_DELAY_S)
        except TimeoutError:
            raise DeviceError(silence_reason(_TIMEOUT_S)) from None
        for remaining in range(ceil(countdown), 0, -1):
            if not done.is_set():
                say(f"{remaining} ...")
                await asyncio.sleep(min(countdown - (remaining - 1), 1.0))
        if front.refusal:
            raise DeviceError(why_refused(source.kind, front.refusal))
        if done.is_set():
            # Ctrl-C before the take began.
            raise KeyboardInterrupt
        name = take_recorder.start(name, seconds)
        say(f"recording {name}" + (f" for {seconds:g} s" if seconds else "; Ctrl-C ends it"))
        # A suit that falls silent must not block a take of fixed length forever.
        timeout = None if seconds is None else seconds + 5.0
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), timeout)
        if not done.is_set():
            say("the suit fell silent: the take ends there")
        # No frame comes in between: nothing is awaited from here on.
        refusal = why_refused(source.kind, front.refusal)
        if refusal and take_recorder.seconds < _REFUSED_TAKE_S:
            raise DeviceError(refusal)
        played = take_recorder.stop()
        if warning := played.warning:
            say(f"{refusal}: the take ends there" if refusal and played.cut else warning)
        return store_or_keep(played, project)


def store_or_keep(played: PlayedTake, project: Project) -> TakeEntry:
    """Store a take; if that fails, save it to a temporary file, since it cannot be danced again.

    Raises:
        MotionError: it was not stored; the message has the command that adds the saved file.
    """
    try:
        return played.store(project)
    except DeviceError as error:
        try:
            file = Path(tempfile.mkdtemp(prefix="pyanticip-")) / f"{played.name}.npz"
            save_npz(played.clip, file)
        except OSError:
            raise error from None
        command = ["pyanticip", "teach", "add", str(project.folder), str(file), "--take", played.name]
        if played.begin:
            command += ["--start", f"{played.begin / played.clip.rate:.2f}"]
        for option, table in (("--values", played.values), ("--class", played.labels)):
            if table:
                command += [option, ",".join(f"{name}={value}" for name, value in table.items())]
        raise DeviceError(f"{error}; the take is kept: {shlex.join(command)}") from None


async def _either(*events: asyncio.Event) -> None:
    """Wait until any of the events is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
