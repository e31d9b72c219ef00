"""Does a control field that knows which frames are bad keep forecasts better when the tracking fails?"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from training.data.glitches import KINDS
from training.studies.engine import Measure, Rows, Study, mean_of
from training.studies.on_glitches import GlitchedGround
from training.studies.on_motion import SIDES, MotionOptions, ratio, units

AHEAD: Final = (2, 3, 4)
"""Horizons that count: 100, 200 and 400 ms."""

RISK: Final = {"risk": 0.2}
INPUT: Final = {"control_field": True, "field_input": True}
ARMS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "plain": {},
    "field": {"model": {"control_field": True}},
    "risk": {"model": {"control_field": True}, "loss": RISK},
    "input": {"model": INPUT},
    "risk-input": {"model": INPUT, "loss": RISK},
    "input-alone": {"model": INPUT, "loss": {"distrust": 0.2}},
}


def taught(kind: str) -> Callable[[Rows, Rows], float]:
    """The area under the curve of the risk that a model's frames are gated by first: that of the input, where
    it has one, or the blocks'."""
    first, second = mean_of(f"auc_input.{kind}"), mean_of(f"auc.{kind}")

    def value(rows: Rows, held: Rows) -> float:
        found = first(rows, held)
        return second(rows, held) if math.isnan(found) else found

    return value


def average(parts: Sequence[Callable[[Rows, Rows], float]]) -> Callable[[Rows, Rows], float]:
    """The mean of several measures."""
    return lambda rows, held: float(np.mean([part(rows, held) for part in parts]))


def near(kind: str) -> str:
    """The scores at bad frames and for half a second after."""
    return f"{kind}.near"


STUDY: Final = Study(
    title="Does a control field that is told about bad frames keep forecasts?",
    options=MotionOptions,
    arms=ARMS,
    pairs=(
        ("field", "plain"),
        ("risk", "plain"),
        ("risk", "field"),
        ("input", "plain"),
        ("risk-input", "plain"),
        ("risk-input", "input"),
        ("risk-input", "risk"),
        ("input-alone", "plain"),
        ("input-alone", "input"),
        ("input-alone", "risk-input"),
    ),
    tables=(
        (
            "Error over whole streams, clean and with bad stretches; area under the curve of the risk of bad "
            "frames",
            (
                *(Measure(kind, ratio(kind, AHEAD)) for kind in ("clean", *KINDS)),
                Measure("all four", average([ratio(kind, AHEAD) for kind in KINDS])),
                Measure("AUC", average([taught(kind) for kind in KINDS])),
            ),
        ),
        (
            "Error near bad frames: at them and for half a second after",
            (
                *(Measure(f"{kind}, near", ratio(near(kind), AHEAD)) for kind in KINDS),
                Measure("all four, near", average([ratio(near(kind), AHEAD) for kind in KINDS])),
            ),
        ),
        (
            "Area under the curve of the blocks' risk by kind, of their held risk, and of the input's",
            (
                *(Measure(f"AUC {kind}", mean_of(f"auc.{kind}")) for kind in KINDS),
                Measure("AUC of held", mean_of(*(f"auc_held.{kind}" for kind in KINDS))),
                Measure("AUC of input", mean_of(*(f"auc_input.{kind}" for kind in KINDS))),
            ),
        ),
    ),
    ground=lambda options, case, folder: GlitchedGround(
        ARMS, options, folder, {"data": {"recipe": "glitched"}}
    ),
    views=tuple(SIDES),
    units=units,
)
