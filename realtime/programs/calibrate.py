"""``pyanticip calibrate``: a pipeline that plays nowhere, watched while somebody stands and moves."""

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

__all__ = ["calibrate_from", "calibrate_live"]

_PATIENCE = 10.0


def calibrate_from(file: Path, rig: Rig, say: Callable[[str], None] | None = None) -> Table:
    """The performer of a recording or a motion file: all of it counts as moving, less what stands still.

    Of a recording it is who was heard then. ``say`` is told what had to be decided in reading it. Raises a
    MotionError, OSError.
    """
    kind, items = open_show(file, say=say, **rig.source.reading())
    shown = list(items)
    clock = OfflineClock(shown[0].t_ns if shown else 0)
    source = rig.source.model_copy(update={"sender": recorded_sender(file)})
    rig = rig.model_copy(update={"source": source})
    pipeline = _pipeline(rig, clock, kind)
    commands = Commands(pipeline, rig=rig)

    def obey(command: Command) -> None:
        if command.name in ("source", "player"):
            commands.replay_command(command)

    try:
        calibration = Calibration(pipeline)
        calibration.move()
        play_offline(shown, clock, pipeline.feed, obey)
        # What the gate has learned of the noise by the end.
        noise = calibration.noise()
        return {**calibration.table(), **({"noise": noise} if noise else {})}
    finally:
        pipeline.close()


def calibrate_live(rig: Rig, still: float, move: float, say: Callable[[str], None]) -> Table:
    """The performer in front of us: ``still`` seconds of standing, ``move`` seconds of moving.

    Both are of the source's time. Raises a MotionError where nobody comes.
    """
    rig = rig.resolved()
    clock = MonotonicClock()
    source = UdpSource(rig.source.kind, *rig.source.listen, say=say, **rig.source.opened())
    try:
        pipeline = _pipeline(rig, clock, rig.source.wire)
        try:
            return run_loop(_stages(pipeline, source, still, move, say))
        finally:
            pipeline.close()
    finally:
        source.close()


def _pipeline(rig: Rig, clock: MonotonicClock | OfflineClock, kind: str) -> Pipeline:
    """A pipeline that plays nowhere and learns nothing from an earlier calibration."""
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
        # A mistake in one frame must not end it.
        with contextlib.suppress(Exception):
            pipeline.feed(datagram, arrival, sender)

    host, port = source.address
    say(f"waiting for {source.kind} at {host_and_port(host, port)}")
    source.start(asyncio.get_running_loop(), receive)
    # Who stands is told once they are there, who moves at once: standing on does not count.
    for stage, long, begin, before in (
        ("still", still, calibration.still, -1.0),
        ("move", move, calibration.move, 0.0),
    ):
        words = begin()
        told, waited, quiet, frames = math.inf, 0.0, 0.0, 0
        while (left := long - calibration.seconds(stage)) > 0.0:
            if before >= 0.0 and math.ceil(left / 5.0) < told:
                told = math.ceil(left / 5.0)
                say(f"{words}: {left:.0f} s")
            await asyncio.sleep(0.1)
            now = calibration.seconds(stage)
            waited = waited + 0.1 if now == max(before, 0.0) else 0.0
            before = now if now > 0.0 else before
            # What the show plays on by itself in a gap is nobody's.
            counters = pipeline.counters()
            quiet = quiet + 0.1 if counters["heard"] == frames else 0.0
            frames = counters["heard"]
            if waited > _PATIENCE:
                if refusal := why_refused(source.kind, pipeline.front.refusal or source.trouble):
                    raise SkeletonError(refusal)
                got = "got nothing" if quiet > 1.0 else "they stood still"
                why = f"expected somebody to {words}, {got} for {waited:.0f} s"
                if not counters["heard"]:
                    why = why_silent(source.kind, source.address, waited, counters, source.newest)
                raise DeviceError(f"calibrate: {why}")
    return calibration.table()
