"""The protocol of step backends: feature rows in, the newest controls out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pyanticip._core import MotionStream
from pyanticip._core import StepResult as StepResult  # also for backends of other packages
from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.checkpoint.manifest import Manifest
from pyanticip.models.config import row_widths

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The plan of one step: ``codes`` (K,) int64 expected within the next second, and their ``weights`` (K,),
    which sum to 1 or are all 0. A slot without weight is empty."""

    codes: npt.NDArray[np.int64]
    weights: F32


class StepBackend(Protocol):
    """Steps one performer's model, one frame of 20 ms at a time.

    Subclasses inherit defaults for optional features: no hidden state, no plans, no prewarming.

    Attributes:
        name: Name shown in the status.
        manifest: Manifest of the checkpoint; None if there is none, so that no mapping taught on a model can
            play.
        hidden: Width of the hidden state in a step's result; 0 if it has none.
        codes: Number of codes to plan with; 0 if the model makes no plans that :meth:`steer` could change.
        why: Why no faster backend is used: the result of ``auto``, or why kernels are not fused; empty if
            nothing is known.
        core: Stream of a model that the Rust core steps by itself; None: :meth:`step` is called.
    """

    name: str
    manifest: Manifest | None = None
    hidden: int = 0
    codes: int = 0
    why: str = ""
    core: MotionStream | None = None

    @property
    def description(self) -> str:
        """The name, and why no faster backend is used."""
        return f"{self.name} ({self.why})" if self.why else self.name

    def step(self, rows: F32) -> StepResult:
        """Step all rows (n, 231 or 279), oldest first, and return the output for the newest.

        Raises:
            ShapeError: Another shape, no row, or values that are not finite; the state is then unchanged.
        """
        ...

    def imagine(self, row: F32) -> StepResult | None:
        """Output if ``row`` (1, 231 or 279) were the next one, leaving the state unchanged; None if
        unsupported.

        Raises:
            ShapeError: As :meth:`step`.
        """
        return None

    def reset(self) -> None:
        """Begin a new stream: the next row is its first frame."""
        ...

    def prewarm(self) -> None:
        """Compute a step and discard it, to warm caches and clocks; the state is unchanged."""
        return

    def steer(self, boost: F32) -> None:
        """Add ``boost`` (codes,) to the contrasts by which plans are selected, from the next frame on.

        Raises:
            OptionError: The model makes no plans.
            ShapeError: Another number of codes, or values that are not finite.
        """
        checked_boost(boost, self.codes)

    def close(self) -> None:
        """Release resources."""
        return


def checked_boost(boost: F32, codes: int) -> F32:
    """Validate a boost for :meth:`StepBackend.steer`, with the errors documented there."""
    if not codes:
        raise OptionError("this model makes no plans: nothing to steer")
    checked = np.asarray(boost, np.float32)
    if checked.shape != (codes,) or not bool(np.isfinite(checked).all()):
        raise ShapeError(f"a boost must be {codes} finite numbers, got {checked.shape}")
    return checked


def checked_rows(rows: F32, columns: int) -> F32:
    """The first ``columns`` columns of feature rows of any version that has as many, as float32 (n, columns).

    Raises:
        ShapeError: Not 2-D of a known width, no row, or values that are not finite.
    """
    rows = np.asarray(rows, dtype=np.float32)
    widths = row_widths(columns)
    if rows.ndim != 2 or rows.shape[1] not in widths or rows.shape[0] < 1:
        wide = " or ".join(map(str, widths))
        raise ShapeError(f"feature rows must be (n, {wide}) with n >= 1, got {rows.shape}")
    # A sum is one pass without a temporary, and finite only if all values are.
    if not math.isfinite(rows.sum()):
        raise ShapeError("feature rows must be finite, got NaN or infinity")
    return rows[:, :columns]


Telemetry = tuple[Sequence[float], Sequence[tuple[int, float]]]
"""Field (trust 0..1, curvature), and plan: codes expected within the next second with their weights, heaviest
first. Either may be empty."""

_NO_TELEMETRY: Telemetry = ((), ())


def telemetry_of(step: StepResult | None) -> Telemetry:
    """Telemetry of one step: the mean of the control field over the blocks, and the plan's filled slots.

    Empty for models without these parts and for fallbacks.
    """
    if step is None or (step.field is None and step.plan is None):
        return _NO_TELEMETRY
    field: tuple[float, ...] = ()
    if step.field is not None and len(step.field):
        # With cold caches, lists cost a fraction of what arrays do.
        pairs = step.field.tolist()
        field = (sum(p[0] for p in pairs) / len(pairs), sum(p[1] for p in pairs) / len(pairs))
    plan: list[tuple[int, float]] = []
    if step.plan is not None:
        pairs = zip(step.plan.codes.tolist(), step.plan.weights.tolist(), strict=True)
        plan = sorted((p for p in pairs if p[1] > 0.0), key=lambda p: -p[1])
    return field, plan
