"""Calibration of a performer: the suit's noise while they stand, and their range while they move."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import DeviceError, OptionError
from realtime.control.server import Action, switch
from realtime.mapping.performer import MAX_STILL, PLACES, STRETCHED, PerformerRange
from realtime.pipeline import Pipeline
from realtime.rig.edit import edit_rig
from realtime.rig.mapping import PerformerRig

Table = dict[str, list[float]]

# Minimum duration of each stage.
_MIN_STILL_S, _MIN_MOVE_S = 2.0, 2.0
# The beginning of standing still is ignored until the body has settled.
_SETTLE_S = 1.0
# Maximum number of frames kept of each stage: the last ten minutes.
_MAX_SAMPLES = 30_000
# Lower limit of the "still" value; below, the model's output does not distinguish degrees of stillness.
_MIN_STILL_VALUE = 0.02


class Calibration:
    """Calibrates from a playing pipeline: :meth:`still`, :meth:`move`, then :meth:`save`.

    The result depends on the frames only. ``file`` returns the rig file that :meth:`save` writes to (None:
    none). ``on_change`` is called with changed keys of ``[performer]``. Methods raise an OptionError if the
    rig plays without a performer, a DeviceError if too little was shown, or no stillness.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        file: Callable[[], Path | None] = lambda: None,
        on_change: Callable[[Mapping[str, Any]], None] = lambda table: None,
    ) -> None:
        self._pipeline = pipeline
        self._file = file
        self._on_change = on_change
        self._stage = ""
        self._samples = _empty_samples()
        self._seconds = {"still": 0.0, "move": 0.0}
        self._noise: list[float] = []
        #: Result of the last :meth:`save`.
        self.found: Table = {}

    @property
    def actions(self) -> dict[str, Action]:
        """The commands under ``/anticip/control/``."""
        steps = (self.still, self.move, self.save, self.clear, self.freeze)
        return {f"calibrate/{step.__name__}": step for step in steps}

    def still(self) -> str:
        """Begin the stage in which the performer stands still."""
        return self._begin("still")

    def move(self) -> str:
        """Begin the stage in which the performer moves as they will.

        Raises if they did not stand still in the stage before, or not for long enough.
        """
        if self._stage == "still":
            self._check("still", _MIN_STILL_S)
        self._still_values()
        self._noise = self.noise()
        return self._begin("move")

    def save(self) -> str | Awaitable[str]:
        """Use the result from now on, and write it to the rig file, in a thread."""
        table = self.found = self.table()
        self.play(table)
        if (file := self._file()) is None:
            return "playing; there is no rig file to write it into"
        if not file.exists():
            # A file with nothing but this table would be another rig.
            return f"playing, but not written: {file} is gone; rig/save writes the whole rig into it"
        return self._write(file, table)

    async def _write(self, file: Path, table: Table) -> str:
        await asyncio.to_thread(edit_rig, file, {}, {"performer": table})
        return f"playing, and written into {file}"

    def play(self, table: Mapping[str, Any]) -> None:
        """Use a table from now on. Raises a ValueError if it is not a valid ``[performer]``."""
        self._performer().calibrate(PerformerRig.model_validate(table).reaches())
        self._on_change(table)
        self._end()

    def clear(self) -> str:
        """Remove the calibration, so that the range is learned while playing."""
        self._performer().calibrate({})
        self._on_change(dict.fromkeys(STRETCHED))
        self._end()
        return "learning while playing"

    def freeze(self, value: object = 1) -> str:
        """Stop or continue learning while playing."""
        performer = self._performer()
        performer.frozen = switch("calibrate/freeze", value)
        return "frozen" if performer.frozen else "learning"

    def noise(self) -> list[float]:
        """Jitter of the joints as learned so far, in degrees; empty if it is not learned."""
        noise = self._pipeline.front.noise
        return [] if noise is None else [round(math.degrees(a), 3) for a in noise.tolist()]

    def seconds(self, stage: str) -> float:
        """Duration of a stage so far; of ``move`` only frames with movement count."""
        return self._seconds[stage]

    def table(self) -> Table:
        """The rig's ``[performer]`` table: noise in degrees; still, low and high of each parameter."""
        self._check("move", _MIN_MOVE_S)
        table: Table = {"noise": self._noise} if self._noise else {}
        moved = np.quantile(self._samples["move"], (0.05, 0.95), axis=0)
        for i, (name, still) in enumerate(self._still_values().items()):
            low = max(float(moved[0, i]), still)
            table[name] = [round(v, 4) for v in (still, low, max(float(moved[1, i]), low))]
        return table

    def _check(self, stage: str, min_s: float) -> None:
        if (seconds := self._seconds[stage]) < min_s:
            raise DeviceError(f"calibrate/{stage}: expected at least {min_s:g} s of it, got {seconds:.1f}")

    def _still_values(self) -> dict[str, float]:
        """The value of each parameter while standing still (95th percentile)."""
        values = {}
        for i, name in enumerate(STRETCHED):
            still = float(np.quantile([v[i] for v in self._samples["still"]] or [0.0], 0.95))
            if still > MAX_STILL:
                problem = "you moved while you should have stood still; stand still once more"
                raise DeviceError(
                    f"calibrate/still: {problem} ({name} {still:.2f}, expected below {MAX_STILL:g})"
                )
            values[name] = max(still, _MIN_STILL_VALUE)
        return values

    def _performer(self) -> PerformerRange:
        performer = self._pipeline.mixer.performer
        if performer is None:
            raise OptionError("calibrate: the rig plays without it (performer.enabled = false)")
        return performer

    def _begin(self, stage: str) -> str:
        self._performer().listener = self._observe
        if stage == "still":
            self._samples["move"].clear()
            self._seconds["move"] = 0.0
        self._samples[stage].clear()
        self._seconds[stage] = 0.0
        self._stage = stage
        return {"still": "stand still", "move": "move as you will"}[stage]

    def _end(self) -> None:
        self._performer().listener = None
        self._stage = ""
        self._samples = _empty_samples()
        self._seconds = {"still": 0.0, "move": 0.0}

    def _observe(self, params: Sequence[float], activity: float, dt: float) -> None:
        is_moving = self._stage == "move"
        if is_moving and activity < 1.0:
            return
        self._seconds[self._stage] += dt
        if is_moving or self._seconds["still"] > _SETTLE_S:
            self._samples[self._stage].append(tuple(params[place] for place in PLACES))


def _empty_samples() -> dict[str, deque[tuple[float, ...]]]:
    return {stage: deque(maxlen=_MAX_SAMPLES) for stage in ("still", "move")}
