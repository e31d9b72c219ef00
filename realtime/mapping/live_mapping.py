"""Applies a mapping to every frame, and limits its outputs where the movement is unlike all that was
taught."""

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

F32 = npt.NDArray[np.float32]

# Duration of an output's fade to its behaviour beyond the taught range, and back.
_FADE_S = 0.3
# Hysteresis: an output returns when its novelty falls below this ratio of the limit.
_RETURN_RATIO = 0.8
# Number of frames between two measurements of novelty where only the status shows it.
_NOVELTY_FRAMES = 25
_LINEAR = Range()


@dataclass(frozen=True, slots=True)
class LabelOutput:
    """The probability of a class's label, 0..1, sent at an address of its own."""

    name: str
    address: str | None = None
    range: Range = _LINEAR


class LiveMapping:
    """Applies a :class:`Mapping` live: feature rows and model steps in, values in 0..1 out.

    Attributes:
        names: Names of the outputs and labels.
        neutral: Their neutral values, 0..1.
        extras: Outputs and labels that are not among the eight parameters.
        labels: Decides which labels are shown.
        gestures: Spots the taught gestures, if any.
        novelty: Novelty of the newest measured frame, the largest of all heads.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.names = list(mapping.names)
        # Neutral is probability 1 of the label "none".
        label_names = self.names[len(mapping.outputs) :]
        self.neutral = [o.rest for o in mapping.outputs] + [
            float(n.endswith(f"/{NONE}")) for n in label_names
        ]
        self.extras: list[Output | LabelOutput] = [o for o in mapping.outputs if o.name not in PARAMETERS]
        first_label = len(self.extras)
        self.extras += [LabelOutput(name) for name in label_names]
        offsets = {
            name: first_label + label_names.index(f"class/{name}/{own[0]}")
            for name, own in mapping.classes.items()
        }
        self.labels = Labels(mapping.classes, offsets)
        self.gestures = Gestures(mapping.gestures) if mapping.gestures else None
        self.novelty = 0.0
        self._frames = 0
        # Only for outputs: classes have a label for frames that are none of the others.
        self._held_values = list(self.neutral)
        self._fades = [0.0] * len(mapping.outputs)
        self._beyond_flags = [False] * len(mapping.outputs)

    def step(self, row: F32, step: StepResult | None, dt: float) -> list[float] | None:
        """Values for the newest feature row (231 or 279,), ``dt`` seconds after the last.

        ``step`` is the model's output. Returns None if a head needs its hidden state and there is none.
        """
        inputs = self._inputs(row, step)
        if inputs is None:
            return None
        is_free = self.mapping.beyond == "play"
        # Where novelty has no effect but a word in the status, it is measured only now and then.
        measures_novelty = not is_free or self._frames % _NOVELTY_FRAMES == 0
        self._frames += 1
        values, novelty = self.mapping.apply(inputs, novel=measures_novelty)
        if measures_novelty:
            self.novelty = max(novelty, default=0.0)
        return values if is_free else self._limit(values, novelty, dt)

    def _inputs(self, row: F32, step: StepResult | None) -> dict[str, F32] | None:
        inputs: dict[str, F32] = {}
        if self.mapping.needs_model:
            if step is None or step.hidden is None:
                return None
            inputs["hidden"] = step.hidden
        if "body" in self.mapping.inputs:
            inputs["body"] = body(row[None])[0]
        return inputs

    def preview(self, row: F32, step: StepResult | None) -> list[float] | None:
        """What :meth:`step` would return, without changing any state."""
        inputs = self._inputs(row, step)
        if inputs is None:
            return None
        is_free = self.mapping.beyond == "play"
        values, _ = self.mapping.apply(inputs, novel=not is_free)
        return values if is_free else self._blend(values)

    def _limit(self, values: list[float], novelty: list[float], dt: float) -> list[float]:
        """Hold the outputs, or fade them to neutral, where the movement is unlike all that was taught."""
        limit = self.mapping.novelty_limit
        for i, (value, new) in enumerate(zip(values[: len(self._fades)], novelty, strict=False)):
            self._beyond_flags[i] = new > limit * (_RETURN_RATIO if self._beyond_flags[i] else 1.0)
            change = dt / _FADE_S
            self._fades[i] = min(
                max(self._fades[i] + (change if self._beyond_flags[i] else -change), 0.0), 1.0
            )
            if not self._beyond_flags[i] and self._fades[i] == 0.0:
                self._held_values[i] = value
        return self._blend(values)

    def _blend(self, values: list[float]) -> list[float]:
        targets = self._held_values if self.mapping.beyond == "hold" else self.neutral
        fades = self._fades
        blended = [
            v + a * (target - v) for v, a, target in zip(values[: len(fades)], fades, targets, strict=False)
        ]
        return blended + values[len(fades) :]

    @property
    def is_beyond(self) -> bool:
        """Whether the movement is beyond the taught range, and an output is limited."""
        return self.mapping.beyond != "play" and any(self._beyond_flags)


def open_mapping(path: str | Path, backend: StepBackend | None) -> LiveMapping:
    """Open a mapping file for the model that is going to play (None: there is none).

    Raises:
        FormatError: Not a usable mapping.
        CheckpointError: The mapping belongs to another model, or needs one and there is none.
    """
    mapping = load_mapping(path)
    check_model(mapping, backend, str(path))
    return LiveMapping(mapping)


def check_model(mapping: Mapping, backend: StepBackend | None, description: str = "") -> None:
    """Raise a CheckpointError if a mapping (``description`` in the message) needs a model other than this
    one."""
    if not mapping.needs_model:
        return
    if backend is None or backend.manifest is None:
        made_for = (mapping.model or {}).get("name", "a model")
        subject = description or f"mapping {mapping.name}"
        raise CheckpointError(f"{subject}: was taught on model {made_for} and needs it; play with that model")
    mapping.check_model(backend.manifest.name, backend.manifest.sha256[WEIGHTS], backend.hidden)
