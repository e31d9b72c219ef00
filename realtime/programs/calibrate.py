"""``pyanticip calibrate``: observe a pipeline without sinks while the performer stands still and moves."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyanticip.errors import DeviceError, OptionError, SkeletonError
from realtime.clock import MonotonicClock, OfflineClock
from realtime.control.calibration import Calibration, Table
from realtime.control.commands import Commands
from realtime.loop import run_loop
from realtime.pipeline import Pipeline
from realtime.rig import Rig
from realtime.sockets import host_and_port
from realtime.sources.replay import Command, open_show, play_offline, recorded_sender
from realtime.sources.udp import UdpSource
from realtime.sources.watch import why_refused, why_silent
from realtime.stage import assemble

_TIMEOUT_S = 10.0
"""Longest wait for progress of a stage."""


def calibrate_from(file: Path, rig: Rig, say: Callable[[str], None] | None = None) -> Table:
    """Calibrate to the performer in a recording or a motion file; everything that is not still is moving.

    In a recording with several senders it is the one that was heard then. ``say`` receives warnings about
    the file.

    Raises:
        MotionError, OSError: the file cannot be read, or shows no performer to calibrate to.
    """
    kind, items = open_show(file, say=say, **rig.source.reading())
    datagrams = list(items)
    clock = OfflineClock(datagrams[0].t_ns if datagrams else 0)
    source = rig.source.model_copy(update={"sender": recorded_sender(file)})
    rig = rig.model_copy(update={"source": source})
    pipeline = _pipeline(rig, clock, kind)
    commands = Commands(pipeline, rig=rig)

    def obey(command: Command) -> None:
        if command.name in ("source", "player"):
            commands.replay_command(command)

    with contextlib.closing(pipeline):
        calibration = Calibration(pipeline)
        calibration.move()
        play_offline(datagrams, clock, pipeline.feed, obey)
        noise = calibration.noise()  # as the gate has learned it by the end
        return {**calibration.table(), **({"noise": noise} if noise else {})}


def calibrate_live(rig: Rig, still: float, move: float, say: Callable[[str], None]) -> Table:
    """Calibrate to the live performer: ``still`` seconds of standing, then ``move`` seconds of moving.

    Both are measured in the source's time.

    Raises:
        MotionError: no performer, or no progress for ten seconds.
    """
    rig = rig.resolved()
    clock = MonotonicClock()
    udp = UdpSource(rig.source.kind, *rig.source.listen, say=say, **rig.source.udp_options())
    with (
        contextlib.closing(udp) as source,
        contextlib.closing(_pipeline(rig, clock, rig.source.wire)) as pipeline,
    ):
        return run_loop(_stages(pipeline, source, still, move, say))


def _pipeline(rig: Rig, clock: MonotonicClock | OfflineClock, kind: str) -> Pipeline:
    """A pipeline without sinks, mapping or an earlier calibration."""
    if not rig.model.enabled:
        raise OptionError("calibrate: the range is the model's; expected model.enabled = true")
    performer = rig.performer.model_copy(update={"enabled": True, "steady": True, "noise": None})
    update: dict[str, Any] = {"performer": performer, "mapping": None}
    return assemble(rig.model_copy(update=update), clock, kind=kind, sinks=[])


async def _stages(
    pipeline: Pipeline, source: UdpSource, still: float, move: float, say: Callable[[str], None]
) -> Table:
    calibration = Calibration(pipeline)

    def receive(datagram: bytes, arrival: int, sender: str) -> None:
        # An error in one frame must not end the calibration.
        with contextlib.suppress(Exception):
            pipeline.feed(datagram, arrival, sender)

    host, port = source.address
    say(f"waiting for {source.kind} at {host_and_port(host, port)}")
    source.start(asyncio.get_running_loop(), receive)
    # Standing is counted down from the first frame on; moving at once, and time that the performer is still
    # in does not count. `done` is the time counted so far, negative before the first frame of the suit.
    for stage, length, begin, done in (
        ("still", still, calibration.still, -1.0),
        ("move", move, calibration.move, 0.0),
    ):
        instruction = begin()
        announced, waited, quiet, frames = math.inf, 0.0, 0.0, 0
        while (remaining := length - calibration.seconds(stage)) > 0.0:
            if done >= 0.0 and math.ceil(remaining / 5.0) < announced:
                announced = math.ceil(remaining / 5.0)
                say(f"{instruction}: {remaining:.0f} s")
            await asyncio.sleep(0.1)
            now = calibration.seconds(stage)
            waited = waited + 0.1 if now == max(done, 0.0) else 0.0
            done = now if now > 0.0 else done
            # Only received frames count: in a gap the pipeline generates its own.
            counters = pipeline.counters()
            quiet = quiet + 0.1 if counters["heard"] == frames else 0.0
            frames = counters["heard"]
            if waited > _TIMEOUT_S:
                if refusal := why_refused(source.kind, pipeline.front.refusal or source.trouble):
                    raise SkeletonError(refusal)
                observed = "got nothing" if quiet > 1.0 else "they stood still"
                reason = f"expected somebody to {instruction}, {observed} for {waited:.0f} s"
                if not counters["heard"]:
                    reason = why_silent(source.kind, source.address, waited, counters, source.newest)
                raise DeviceError(f"calibrate: {reason}")
    return calibration.table()
