"""What every step backend takes, gives and promises: feature rows in, the newest controls out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pyanticip._core import MotionStream, StepResult
from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.checkpoint.manifest import Manifest
from pyanticip.models.config import row_widths

__all__ = [
    "F32",
    "StepBackend",
    "StepPlan",
    "StepResult",
    "checked_boost",
    "checked_rows",
    "telemetry_of",
]

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a model that plans looked at in a step: ``codes`` (K,) int64 foreseen for the next second, and
    their ``weights`` (K,), which sum to 1 or are all 0. A slot without weight is empty."""

    codes: npt.NDArray[np.int64]
    weights: F32


class StepBackend(Protocol):
    """A model that steps one performer, one frame of 20 ms at a time.

    A class that names this one as its base inherits what is said here of a model without special gifts.

    Attributes:
        name: What the status calls it.
        manifest: Of the checkpoint that steps; None: of no checkpoint, so that no mapping taught on a model
            can play.
        hidden: Width of the hidden state that a step tells; 0: it tells none.
        codes: How many codes there are to plan with; 0: it makes no plans that :meth:`steer` could change.
        why: Why it is not a faster one: what ``auto`` found, or why kernels are not fused; empty: nothing is
            known.
        core: The stream of a model that the core steps by itself; None: :meth:`step` is called.
    """

    name: str
    manifest: Manifest | None = None
    hidden: int = 0
    codes: int = 0
    why: str = ""
    core: MotionStream | None = None

    @property
    def description(self) -> str:
        """The name, and why it is not a better one."""
        return f"{self.name} ({self.why})" if self.why else self.name

    def step(self, rows: F32) -> StepResult:
        """Step all rows (n, 231 or 279), oldest first, and return what holds after the newest.

        Raises:
            ShapeError: another shape, no row, or values that are not finite; the state is then unchanged.
        """
        ...

    def imagine(self, row: F32) -> StepResult | None:
        """What holds if (1, 231 or 279) is the next row, the stream's state left as it is; None: it
        cannot be told.

        Raises:
            ShapeError: as :meth:`step`.
        """
        return None

    def reset(self) -> None:
        """Begin a new stream: the next row is a first frame."""
        ...

    def prewarm(self) -> None:
        """Compute a step and throw it away, to warm caches and clocks; the stream's state stays as it is."""
        return

    def steer(self, boost: F32) -> None:
        """Add (codes,) to the contrasts that plans are selected by, from the next frame on.

        Raises:
            OptionError: a model that makes no plans.
            ShapeError: another number of codes, or values that are not finite.
        """
        checked_boost(boost, self.codes)

    def close(self) -> None:
        """Give the resources back."""
        return


def checked_boost(boost: F32, codes: int) -> F32:
    """A boost as :meth:`StepBackend.steer` takes it, and its errors."""
    if not codes:
        raise OptionError("this model makes no plans: nothing to steer")
    checked = np.asarray(boost, np.float32)
    if checked.shape != (codes,) or not bool(np.isfinite(checked).all()):
        raise ShapeError(f"a boost must be {codes} finite numbers, got {checked.shape}")
    return checked


def checked_rows(rows: F32, columns: int) -> F32:
    """What a model reads, float32 (n, columns), of feature rows of any version that has as many: n >= 1,
    finite.

    Raises:
        ShapeError: anything else.
    """
    rows = np.asarray(rows, dtype=np.float32)
    widths = row_widths(columns)
    if rows.ndim != 2 or rows.shape[1] not in widths or rows.shape[0] < 1:
        wide = " or ".join(map(str, widths))
        raise ShapeError(f"feature rows must be (n, {wide}) with n >= 1, got {rows.shape}")
    # A sum is one pass without a temporary; it is finite only where all of it is.
    if not math.isfinite(rows.sum()):
        raise ShapeError("feature rows must be finite, got NaN or infinity")
    return rows[:, :columns]


Telemetry = tuple[Sequence[float], Sequence[tuple[int, float]]]
"""Trust 0..1 and curvature, or nothing; codes expected within the next second and their weights, heaviest
first, or nothing."""

_NOTHING: Telemetry = ((), ())


def telemetry_of(step: StepResult | None) -> Telemetry:
    """Of one model step: the mean over the blocks of the control field, and the plan's filled slots.

    Models without these parts, and fallbacks that play in a model's place, tell nothing.
    """
    if step is None or (step.field is None and step.plan is None):
        return _NOTHING
    field: tuple[float, ...] = ()
    if step.field is not None and len(step.field):
        # Lists, not arrays: cold, they cost a fraction.
        pairs = step.field.tolist()
        field = (sum(p[0] for p in pairs) / len(pairs), sum(p[1] for p in pairs) / len(pairs))
    plan: list[tuple[int, float]] = []
    if step.plan is not None:
        pairs = zip(step.plan.codes.tolist(), step.plan.weights.tolist(), strict=True)
        plan = sorted((p for p in pairs if p[1] > 0.0), key=lambda p: -p[1])
    return field, plan
