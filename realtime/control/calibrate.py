"""Getting to know a performer: how the suit trembles while they stand, and how far they go when they move."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import DeviceError, OptionError, RigError
from pyanticip.motion.atomic import write_atomic
from realtime import tuning
from realtime.clock import MonotonicClock, OfflineClock
from realtime.control.server import switch
from realtime.mapping.performer import PLACES, RESTLESS, STRETCHED, Performer, Reach
from realtime.pipeline import Pipeline
from realtime.rig import Rig, load_rig
from realtime.sources.replay import Item, play_offline
from realtime.sources.udp import UdpSource
from realtime.stage import assemble

__all__ = ["Calibration", "calibrate_from", "calibrate_live", "write_performer"]

Table = dict[str, list[float]]

# Seconds: how much of either part is needed, and what of standing is left out until the body has settled.
_LEAST_STILL, _LEAST_MOVE, _SETTLE = 2.0, 2.0, 1.0
# Below this the model does not tell stillness from stillness.
_STILL = 0.02
_PATIENCE = 10.0


class Calibration:
    """Listens to a pipeline that plays: :meth:`still`, :meth:`move`, then :meth:`save`.

    What it finds depends on the frames alone. ``file`` is the rig that :meth:`save` writes into; None: it
    only plays. Raises :class:`OptionError` where the rig plays without a performer, or too little was shown.
    """

    def __init__(self, pipeline: Pipeline, file: Path | None) -> None:
        self._pipeline = pipeline
        self._file = file
        self._stage = ""
        self._heard: dict[str, list[tuple[float, ...]]] = {"still": [], "move": []}
        self._seconds = {"still": 0.0, "move": 0.0}
        self._noise: list[float] = []

    @property
    def actions(self) -> dict[str, Callable[..., str]]:
        """The commands under ``/anticip/control/``."""
        names = ("still", "move", "save", "clear", "freeze")
        return {f"calibrate/{name}": getattr(self, name) for name in names}

    def still(self) -> str:
        """The performer stands still from now on."""
        return self._begin("still")

    def move(self) -> str:
        """The performer moves as they will from now on."""
        front = getattr(self._pipeline.front, "noise", None)
        self._noise = [] if front is None else [round(math.degrees(a), 3) for a in front.tolist()]
        return self._begin("move")

    def save(self) -> str:
        """Play in what was found from now on, and write it into the rig."""
        table = self.play()
        if self._file is None:
            return "playing; there is no rig file to write it into"
        write_performer(self._file, table)
        return f"playing, and written into {self._file}"

    def play(self) -> Table:
        """Play in what was found from now on."""
        table = self.table()
        self._performer().calibrate({name: Reach(*table[name]) for name in STRETCHED})
        self._end()
        return table

    def clear(self) -> str:
        """Forget what was calibrated: the range is learned while playing."""
        self._performer().calibrate({})
        self._end()
        return "learning while playing"

    def freeze(self, value: object = 1) -> str:
        """Learn no further while playing, or go on."""
        performer = self._performer()
        performer.frozen = switch("calibrate/freeze", value)
        return "frozen" if performer.frozen else "learning"

    def seconds(self, stage: str) -> float:
        """How much of a part was heard: of still all, of move what moved."""
        return self._seconds[stage]

    def table(self) -> Table:
        """``[performer]`` as the rig has it: noise in degrees, still, low and high of each parameter."""
        for stage, least in (("still", _LEAST_STILL), ("move", _LEAST_MOVE)):
            if (stage == "move" or self._heard["still"]) and self._seconds[stage] < least:
                found = f"expected at least {least:g} s of it, got {self._seconds[stage]:.1f}"
                raise OptionError(f"calibrate/{stage}: {found}")
        found_table: Table = {"noise": self._noise} if self._noise else {}
        moved = np.quantile(self._heard["move"], (0.05, 0.95), axis=0)
        for i, name in enumerate(STRETCHED):
            still = float(np.quantile([v[i] for v in self._heard["still"]] or [0.0], 0.95))
            if still > RESTLESS:
                raise OptionError(f"calibrate/still: expected a still body, got {name} {still:.2f}")
            still = max(still, _STILL)
            low = max(float(moved[0, i]), still)
            found_table[name] = [round(v, 4) for v in (still, low, max(float(moved[1, i]), low))]
        return found_table

    def _performer(self) -> Performer:
        performer = self._pipeline.desk.performer
        if performer is None:
            raise OptionError("calibrate: the rig plays without it (performer.enabled = false)")
        return performer

    def _begin(self, stage: str) -> str:
        self._performer().listener = self._hear
        if stage == "still":
            self._heard["move"], self._seconds["move"] = [], 0.0
        self._heard[stage], self._seconds[stage] = [], 0.0
        self._stage = stage
        return {"still": "stand still", "move": "move as you will"}[stage]

    def _end(self) -> None:
        self._performer().listener = None
        self._stage = ""
        self._heard = {"still": [], "move": []}
        self._seconds = {"still": 0.0, "move": 0.0}

    def _hear(self, now: Sequence[float], activity: float, dt: float) -> None:
        moves = self._stage == "move"
        if moves and activity < 1.0:
            return
        self._seconds[self._stage] += dt
        if moves or self._seconds["still"] > _SETTLE:
            self._heard[self._stage].append(tuple(now[place] for place in PLACES))


def calibrate_from(kind: str, items: Iterable[Item], rig: Rig) -> Table:
    """The performer of a recorded performance: all of it counts as moving, less what stands still."""
    shown = list(items)
    clock = OfflineClock(shown[0].t_ns if shown else 0)
    pipeline = _pipeline(rig, clock, kind)
    try:
        calibration = Calibration(pipeline, None)
        calibration.move()
        play_offline(shown, clock, pipeline.feed)
        # What the gate has learned of the noise by the end.
        noise = getattr(pipeline.front, "noise", None)
        table = calibration.table()
        if noise is not None:
            table["noise"] = [round(math.degrees(a), 3) for a in noise.tolist()]
        return table
    finally:
        pipeline.close()


def calibrate_live(rig: Rig, still: float, move: float, say: Callable[[str], None]) -> Table:
    """The performer in front of us: ``still`` seconds of standing, ``move`` seconds of moving.

    Both are of the source's time. Raises a MotionError where nobody comes.
    """
    tuning.one_thread_each()
    clock = MonotonicClock()
    source = UdpSource(rig.source.kind, *rig.source.listen)
    try:
        pipeline = _pipeline(rig, clock, rig.source.kind)
        try:
            return asyncio.run(_stages(pipeline, source, still, move, say))
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
    calibration = Calibration(pipeline, None)

    def receive(datagram: bytes, arrival: int, sender: str) -> None:
        # A mistake in one frame must not end it.
        with contextlib.suppress(Exception):
            pipeline.feed(datagram, arrival, sender)

    host, port = source.address
    say(f"waiting for {source.kind} at {host}:{port}")
    source.start(asyncio.get_running_loop(), receive)
    for stage, long, begin in (("still", still, calibration.still), ("move", move, calibration.move)):
        words = begin()
        told, waited, before = math.inf, 0.0, -1.0
        while (left := long - calibration.seconds(stage)) > 0.0:
            if before >= 0.0 and math.ceil(left / 5.0) < told:
                told = math.ceil(left / 5.0)
                say(f"{words}: {left:.0f} s")
            await asyncio.sleep(0.1)
            now = calibration.seconds(stage)
            waited = waited + 0.1 if now == max(before, 0.0) else 0.0
            before = now if now > 0.0 else before
            if waited > _PATIENCE:
                raise DeviceError(f"calibrate: expected somebody to {words}, got nothing for {waited:.0f} s")
    return calibration.table()


def write_performer(path: Path, table: Mapping[str, Sequence[float]]) -> None:
    """Write these keys of ``[performer]`` into a rig file, made if it is not there; all else stays as it is.

    Raises :class:`RigError` where the file is no rig, or has the table in a form that cannot be edited.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text:
        load_rig(path)
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if re.match(r"\s*\[performer\]", line)), None)
    if begin is None:
        lines += ["", "[performer]"] if lines else ["[performer]"]
        begin = len(lines) - 1
    end = next((i for i in range(begin + 1, len(lines)) if re.match(r"\s*\[", lines[i])), len(lines))
    ours = re.compile(rf"\s*({'|'.join(table)})\s*=")
    kept = [line for line in lines[begin + 1 : end] if not ours.match(line)]
    last = next((i for i in range(len(kept), 0, -1) if kept[i - 1].strip()), 0)
    kept[last:last] = [f"{name} = {json.dumps(list(values))}" for name, values in table.items()]
    new = "\n".join([*lines[: begin + 1], *kept, *lines[end:]]) + "\n"
    try:
        read = tomllib.loads(new).get("performer", {})
    except tomllib.TOMLDecodeError:
        read = {}
    if any(read.get(name) != list(values) for name, values in table.items()):
        raise RigError(f"{path}: performer: expected a table [performer] with a line for each of its keys")
    try:
        write_atomic(path.absolute(), new.encode("utf-8"))
    except OSError as error:
        raise DeviceError(f"{path}: cannot be written ({(error.strerror or str(error)).lower()})") from None
