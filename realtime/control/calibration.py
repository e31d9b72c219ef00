"""Getting to know a performer: how the suit trembles while they stand, and how far they go when they move."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip.errors import OptionError
from realtime.control.server import Action, switch
from realtime.mapping.performer import PLACES, RESTLESS, STRETCHED, PerformerRange
from realtime.pipeline import Pipeline
from realtime.rig.edit import edit_rig
from realtime.rig.mapping import PerformerRig

__all__ = ["Calibration", "Table"]

Table = dict[str, list[float]]

# Seconds: how much of either part is needed, and what of standing is left out until the body has settled.
_LEAST_STILL, _LEAST_MOVE, _SETTLE = 2.0, 2.0, 1.0
# Frames of either part: the last ten minutes.
_MOST = 30_000
# Below this the model does not tell stillness from stillness.
_STILL = 0.02


class Calibration:
    """Listens to a pipeline that plays: :meth:`still`, :meth:`move`, then :meth:`save`.

    What it finds depends on the frames alone. ``file`` gives the rig that :meth:`save` writes into; None: it
    only plays. ``known`` is told what of ``[performer]`` plays from now on. Raises :class:`OptionError` where
    the rig plays without a performer, or too little was shown.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        file: Callable[[], Path | None] = lambda: None,
        known: Callable[[Mapping[str, Any]], None] = lambda table: None,
    ) -> None:
        self._pipeline = pipeline
        self._file = file
        self._known = known
        self._stage = ""
        self._samples = _nothing()
        self._seconds = {"still": 0.0, "move": 0.0}
        self._noise: list[float] = []
        #: What :meth:`save` found last.
        self.found: Table = {}

    @property
    def actions(self) -> dict[str, Action]:
        """The commands under ``/anticip/control/``."""
        steps = (self.still, self.move, self.save, self.clear, self.freeze)
        return {f"calibrate/{step.__name__}": step for step in steps}

    def still(self) -> str:
        """The performer stands still from now on."""
        return self._begin("still")

    def move(self) -> str:
        """The performer moves as they will from now on.

        Raises where they should have stood still before, and did not, or not for long enough.
        """
        if self._stage == "still":
            self._check("still", _LEAST_STILL)
        self._still()
        self._noise = self.noise()
        return self._begin("move")

    def save(self) -> str | Awaitable[str]:
        """Play in what was found from now on, and write it into the rig, beside the loop."""
        table = self.found = self.table()
        self.play(table)
        if (file := self._file()) is None:
            return "playing; there is no rig file to write it into"
        return self._write(file, table)

    async def _write(self, file: Path, table: Table) -> str:
        await asyncio.to_thread(edit_rig, file, {}, {"performer": table})
        return f"playing, and written into {file}"

    def play(self, table: Mapping[str, Any]) -> None:
        """Play in what was found from now on. Raises a ValueError where that is no ``[performer]``."""
        self._performer().calibrate(PerformerRig.model_validate(table).reaches())
        self._known(table)
        self._end()

    def clear(self) -> str:
        """Forget what was calibrated: the range is learned while playing."""
        self._performer().calibrate({})
        self._known(dict.fromkeys(STRETCHED))
        self._end()
        return "learning while playing"

    def freeze(self, value: object = 1) -> str:
        """Learn no further while playing, or go on."""
        performer = self._performer()
        performer.frozen = switch("calibrate/freeze", value)
        return "frozen" if performer.frozen else "learning"

    def noise(self) -> list[float]:
        """The jitter of the joints as learned so far, degrees; empty where nothing learns it."""
        noise = self._pipeline.front.noise
        return [] if noise is None else [round(math.degrees(a), 3) for a in noise.tolist()]

    def seconds(self, stage: str) -> float:
        """How much of a part was heard: of still all, of move what moved."""
        return self._seconds[stage]

    def table(self) -> Table:
        """``[performer]`` as the rig has it: noise in degrees, still, low and high of each parameter."""
        self._check("move", _LEAST_MOVE)
        found_table: Table = {"noise": self._noise} if self._noise else {}
        moved = np.quantile(self._samples["move"], (0.05, 0.95), axis=0)
        for i, (name, still) in enumerate(self._still().items()):
            low = max(float(moved[0, i]), still)
            found_table[name] = [round(v, 4) for v in (still, low, max(float(moved[1, i]), low))]
        return found_table

    def _check(self, stage: str, least: float) -> None:
        if (heard := self._seconds[stage]) < least:
            raise OptionError(f"calibrate/{stage}: expected at least {least:g} s of it, got {heard:.1f}")

    def _still(self) -> dict[str, float]:
        """How far each parameter goes in who stands still."""
        found = {}
        for i, name in enumerate(STRETCHED):
            still = float(np.quantile([v[i] for v in self._samples["still"]] or [0.0], 0.95))
            if still > RESTLESS:
                problem = "you moved while you should have stood still; stand still once more"
                raise OptionError(
                    f"calibrate/still: {problem} ({name} {still:.2f}, wanted below {RESTLESS:g})"
                )
            found[name] = max(still, _STILL)
        return found

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
        self._samples = _nothing()
        self._seconds = {"still": 0.0, "move": 0.0}

    def _observe(self, now: Sequence[float], activity: float, dt: float) -> None:
        moves = self._stage == "move"
        if moves and activity < 1.0:
            return
        self._seconds[self._stage] += dt
        if moves or self._seconds["still"] > _SETTLE:
            self._samples[self._stage].append(tuple(now[place] for place in PLACES))


def _nothing() -> dict[str, deque[tuple[float, ...]]]:
    return {stage: deque(maxlen=_MOST) for stage in ("still", "move")}
