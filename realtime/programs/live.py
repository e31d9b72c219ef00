"""``pyanticip live``, ``replay``, ``record`` and ``monitor``: build and run the show that a rig describes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyanticip.errors import MotionError, OptionError
from pyanticip.motion.atomic import check_folder
from pyanticip.motion.recording import RecordingWriter
from realtime import tuning
from realtime.clock import MonotonicClock, OfflineClock, ScaledClock
from realtime.control.commands import Commands
from realtime.lines import threaded_say
from realtime.loop import check_no_loop, run_loop
from realtime.monitor.terminal import Terminal
from realtime.multi_show import MultiShow, open_multi_show
from realtime.pipeline import Pipeline
from realtime.rig import Rig
from realtime.rig.checks import rig_warnings
from realtime.rig.load import recording_path
from realtime.show import Show, close_unplayed
from realtime.sockets import bind_udp
from realtime.sources.arrivals import first_sender
from realtime.sources.replay import Item, ReplaySource, play_offline
from realtime.sources.udp import UdpSource
from realtime.sources.watch import listening
from realtime.stage import assemble, recording_header, stage
from realtime.status import sink_counts

Say = Callable[[str], None]


def live(rig: Rig, *, seconds: float | None = None, say: Say, meters: bool = False) -> dict[str, Any]:
    """Play a rig from its UDP source until Ctrl-C or for ``seconds``.

    With ``meters`` it draws meters in the terminal, and takes keys there.

    Returns:
        The summary that ``--json`` prints.

    Raises:
        MotionError: the rig cannot be played, or an event loop is running in this thread.
    """
    check_no_loop()
    with threaded_say(say) as say:
        if rig.control.enabled:
            # If another show has the port, fail before anything is loaded.
            bind_udp(rig.control.host, rig.control.port, "control server ([control] port in a rig)").close()
        for line in rig_warnings(rig):
            say(line)
        if rig.performers:
            return _live_multi_show(rig, seconds, say, meters)
        suit = rig.source.resolved()
        if rig.record is not None:
            check_new(Path(rig.record))
        if suit.kind == "auto":
            kind, port = first_sender(suit.host, say, seconds, suit.port, suit.mapped)
            suit = suit.model_copy(update={"kind": kind, "port": port})
        rig = rig.model_copy(update={"source": suit})
        source = UdpSource(suit.kind, *suit.listen, say=say, **suit.udp_options())
        try:
            return _run(rig, source, assemble(rig, MonotonicClock()), seconds, say, True, meters)
        finally:
            source.close()


def replay(
    items: Iterable[Item],
    kind: str,
    rig: Rig,
    *,
    speed: float | None = 1.0,
    seconds: float | None = None,
    say: Say,
    meters: bool = False,
) -> dict[str, Any]:
    """Play datagrams of wire format ``kind``, and the commands between them, through the live path.

    ``speed`` is a factor on the recorded pace; None: as fast as possible, without child processes, control
    server and ``meters``. ``seconds`` count from the first frame of motion. Returns and raises as
    :func:`live`.
    """
    if rig.record is not None:
        check_new(Path(rig.record))
    items = iter(items)
    first = next(items, None)
    begin = 0 if first is None else first.t_ns
    items = itertools.chain([] if first is None else [first], items)
    if speed is None:
        offline = OfflineClock(begin)
        pipeline = assemble(rig, offline, kind=kind)
        pipeline.report_to(say)
        with contextlib.ExitStack() as stack:
            stack.callback(pipeline.close)
            commands = Commands(pipeline, say, rig)
            if rig.record is not None:
                header = recording_header(rig, pipeline)
                pipeline.tape = stack.enter_context(RecordingWriter(rig.record, header, t_ns=begin))
                for command in commands.state_as_commands(begin):
                    pipeline.tape.control(*command)
            play_offline(items, offline, pipeline.feed, commands.replay_command, seconds)
            now = offline.now_ns()
            pipeline.run_until(now)
            if pipeline.tape is not None:
                pipeline.tape.control(now, "end", ())
            pipeline.run_until(pipeline.fade_out(now))
            if pipeline.model_error:
                say(pipeline.model_error)
            return {
                "seconds": (offline.now_ns() - begin) / 1e9,
                "counters": pipeline.counters(),
                "sinks": sink_counts(pipeline.sinks),
            }
    check_no_loop()
    clock = ScaledClock(speed)
    clock.begin(begin)
    with threaded_say(say) as say:
        source = ReplaySource(_until_unreadable(items, say), clock, seconds=seconds)
        return _run(rig, source, assemble(rig, clock, kind=kind), None, say, speed == 1.0, meters)


def _until_unreadable(items: Iterable[Item], say: Say) -> Iterator[Item]:
    """The items up to the first read error, where the show then ends normally."""
    try:
        yield from items
    except (MotionError, OSError) as error:
        say(f"{error}; the replay ends here")


def _terminal(
    stack: contextlib.ExitStack, say: Say, meters: bool, performer: str = ""
) -> tuple[Terminal | None, Say]:
    """The terminal with meters or None, and the function that prints a line beside them."""
    if not meters:
        return None, say
    terminal = Terminal(f"pyanticip {performer}".strip(), say)
    stack.callback(terminal.close)
    return terminal, terminal.say


def _run(
    rig: Rig,
    source: UdpSource | ReplaySource,
    pipeline: Pipeline,
    seconds: float | None,
    say: Say,
    prewarm: bool,
    meters: bool,
) -> dict[str, Any]:
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as undo:
        terminal, say = _terminal(stack, say, meters)
        show = stage(rig, pipeline, source, prewarm=prewarm, say=say, terminal=terminal)
        undo.callback(close_unplayed, show)
        if isinstance(source, UdpSource):
            say(listening(rig.source.kind, source.address))
        for target in rig.osc:
            say(f"sending OSC to {target.url}")
        for sink in pipeline.sinks:
            if sink.name.startswith("midi"):
                say(f"playing {sink.name}")
        if rig.synth.enabled:
            say("playing the built-in voice")
        if show.control is not None:
            say(show.control.description)
        if pipeline.backend is not None:
            say(f"model steps on {pipeline.backend.description}")
        undo.pop_all()
        return _play(show, seconds, rig.realtime_priority)


def _live_multi_show(rig: Rig, seconds: float | None, say: Say, meters: bool) -> dict[str, Any]:
    if rig.record is not None:
        for performer in rig.performers:
            check_new(recording_path(Path(rig.record), performer.name))
    with contextlib.ExitStack() as stack:
        terminal, say = _terminal(stack, say, meters, rig.performers[0].name)
        return _play(open_multi_show(rig, MonotonicClock(), say, terminal), seconds, rig.realtime_priority)


def _play(show: Show | MultiShow, seconds: float | None, realtime_priority: bool) -> dict[str, Any]:
    with tuning.realtime_mode():
        if realtime_priority:
            tuning.raise_priority()
            tuning.lock_memory()
        return run_loop(show.run(seconds))


def check_new(path: Path) -> None:
    """Check early that a recording can be created.

    Raises:
        MotionError: the file exists, or its folder cannot be written.
    """
    if path.exists():
        raise OptionError(f"{path}: already exists; a recording is never overwritten")
    check_folder(path)
