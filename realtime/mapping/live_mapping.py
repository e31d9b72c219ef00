"""A mapping at work: its inputs are put together for every frame, and what is far from all it knows is
tamed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyanticip.controls import Range
from pyanticip.errors import CheckpointError
from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.teach.frames import body
from pyanticip.teach.labels import NONE
from pyanticip.teach.mapping import Mapping, load_mapping
from pyanticip.teach.outputs import Output
from pyanticip.vocabulary import PARAMETERS
from realtime.mapping.labels import Gestures, Labels
from realtime.step.base import StepBackend, StepResult

__all__ = ["LiveMapping", "check_model", "open_mapping"]

F32 = npt.NDArray[np.float32]

# Seconds within which an output goes over to what it does beyond everything shown, and comes back.
_BEYOND = 0.3
# It comes back at this share of the limit: no flutter on the edge.
_BACK = 0.8
# Frames between two looks at the novelty where nothing depends on it.
_LOOK = 25
_LINEAR = Range()


@dataclass(frozen=True, slots=True)
class LabelOutput:
    """Something that is told beside the outputs, 0..1 at an address of its own."""

    name: str
    address: str | None = None
    range: Range = _LINEAR


class LiveMapping:
    """The live face of a :class:`Mapping`: rows and steps in, values in 0..1 out.

    ``names`` and ``neutral`` (0..1) of its outputs and labels; ``extras`` those that are none of the eight;
    ``labels`` decides which are shown; ``gestures`` spots those that were taught, if any; ``novelty`` of the
    newest frame, the largest of all heads.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.names = list(mapping.names)
        # Where nobody is there, no label is shown.
        told = self.names[len(mapping.outputs) :]
        self.neutral = [o.rest for o in mapping.outputs] + [float(n.endswith(f"/{NONE}")) for n in told]
        self.extras: list[Output | LabelOutput] = [o for o in mapping.outputs if o.name not in PARAMETERS]
        begin = len(self.extras)
        self.extras += [LabelOutput(name) for name in told]
        at = {name: begin + told.index(f"class/{name}/{own[0]}") for name, own in mapping.classes.items()}
        self.labels = Labels(mapping.classes, at)
        self.gestures = Gestures(mapping.gestures) if mapping.gestures else None
        self.novelty = 0.0
        self._frames = 0
        # Of outputs alone: a class says itself that a frame is none of its labels.
        self._held = list(self.neutral)
        self._away = [0.0] * len(mapping.outputs)
        self._beyond = [False] * len(mapping.outputs)

    def step(self, row: F32, step: StepResult | None, dt: float) -> list[float] | None:
        """The values of the newest feature row (231 or 279,), ``dt`` seconds after the last.

        ``step`` is the model's; None where a head needs its hidden state and it has none.
        """
        blocks = self._blocks(row, step)
        if blocks is None:
            return None
        play = self.mapping.beyond == "play"
        # Where it changes nothing, novelty is a word in the status: looked at now and then.
        look = not play or self._frames % _LOOK == 0
        self._frames += 1
        values, novelty = self.mapping.apply(blocks, novel=look)
        if look:
            self.novelty = max(novelty, default=0.0)
        return values if play else self._tamed(values, novelty, dt)

    def _blocks(self, row: F32, step: StepResult | None) -> dict[str, F32] | None:
        blocks: dict[str, F32] = {}
        if self.mapping.needs_model:
            if step is None or step.hidden is None:
                return None
            blocks["hidden"] = step.hidden
        if "body" in self.mapping.inputs:
            blocks["body"] = body(row[None])[0]
        return blocks

    def rehearse(self, row: F32, step: StepResult | None) -> list[float] | None:
        """What :meth:`step` would say, without a trace."""
        blocks = self._blocks(row, step)
        if blocks is None:
            return None
        play = self.mapping.beyond == "play"
        values, _ = self.mapping.apply(blocks, novel=not play)
        return values if play else self._held_back(values)

    def _tamed(self, values: list[float], novelty: list[float], dt: float) -> list[float]:
        """Hold, or go to neutral, where the movement is like nothing that was shown."""
        limit = self.mapping.novelty_limit
        for i, (value, new) in enumerate(zip(values[: len(self._away)], novelty, strict=False)):
            self._beyond[i] = new > limit * (_BACK if self._beyond[i] else 1.0)
            way = dt / _BEYOND
            self._away[i] = min(max(self._away[i] + (way if self._beyond[i] else -way), 0.0), 1.0)
            if not self._beyond[i] and self._away[i] == 0.0:
                self._held[i] = value
        return self._held_back(values)

    def _held_back(self, values: list[float]) -> list[float]:
        goals = self._held if self.mapping.beyond == "hold" else self.neutral
        away = self._away
        held = [v + a * (goal - v) for v, a, goal in zip(values[: len(away)], away, goals, strict=False)]
        return held + values[len(away) :]

    @property
    def is_beyond(self) -> bool:
        """Whether an output is held back now."""
        return self.mapping.beyond != "play" and any(self._beyond)


def open_mapping(path: str | Path, backend: StepBackend | None) -> LiveMapping:
    """A mapping file for the model that is going to play (None: there is none).

    Raises:
        FormatError: no usable mapping.
        CheckpointError: a mapping that belongs to another model, or needs one where there is none.
    """
    mapping = load_mapping(path)
    check_model(mapping, backend, str(path))
    return LiveMapping(mapping)


def check_model(mapping: Mapping, backend: StepBackend | None, called: str = "") -> None:
    """Raises a CheckpointError where a mapping (``called`` so) needs a model, and it is not this one."""
    if not mapping.needs_model:
        return
    if backend is None or backend.manifest is None:
        made_for = (mapping.model or {}).get("name", "a model")
        said = called or f"mapping {mapping.name}"
        raise CheckpointError(f"{said}: was taught on model {made_for} and needs it; play with that model")
    mapping.check_model(backend.manifest.name, backend.manifest.sha256[WEIGHTS], backend.hidden)
