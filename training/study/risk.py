"""Does a control field that knows which frames are bad keep forecasts better when the tracking fails?"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from training.data.glitches import KINDS
from training.study.arms import Question
from training.study.glitched import GlitchedGround
from training.study.motion_report import Measure

AHEAD: Final = (2, 3, 4)
"""Horizons that count: 100, 200 and 400 ms."""

RISK_WEIGHT: Final = 0.2

Rows = Sequence[dict[str, Any]]


def kept(name: str) -> Callable[[Rows, Rows], float]:
    """Errors under a condition as a ratio to hold's on the same frames of the clean movement, mean over the
    parameters and the horizons from 100 ms on; subjects count alike."""

    def value(rows: Rows, held: Rows) -> float:
        pairs = [(row[name], other[name]) for row, other in zip(rows, held, strict=True) if name in row]
        if not pairs:
            return float("nan")
        mine, theirs = (np.mean([pair[i] for pair in pairs], axis=0)[:, AHEAD] for i in (0, 1))
        return float(np.mean(mine / theirs))

    return value


def mean(*names: str) -> Callable[[Rows, Rows], float]:
    """The mean over these scores and the subjects that have them; not a number where nobody does."""

    def value(rows: Rows, held: Rows) -> float:
        found = [row[name] for row in rows for name in names if name in row]
        return float(np.mean(found)) if found else float("nan")

    return value


def taught(kind: str) -> Callable[[Rows, Rows], float]:
    """The area under the curve of the risk that a model's frames are gated by first: that of the input, where
    it has one, or the blocks'."""
    first, second = mean(f"auc_input.{kind}"), mean(f"auc.{kind}")

    def value(rows: Rows, held: Rows) -> float:
        found = first(rows, held)
        return second(rows, held) if math.isnan(found) else found

    return value


def average(parts: Sequence[Callable[[Rows, Rows], float]]) -> Callable[[Rows, Rows], float]:
    """The mean of several measures."""
    return lambda rows, held: float(np.mean([part(rows, held) for part in parts]))


QUESTION: Final = Question(
    name="motion-risk",
    title="Does a control field that is told about bad frames keep forecasts?",
    arms={
        "plain": {},
        "field": {"model": {"control_field": True}},
        "risk": {"model": {"control_field": True}, "loss": {"risk": RISK_WEIGHT}},
        "input": {"model": {"control_field": True, "field_input": True}},
        "risk-input": {
            "model": {"control_field": True, "field_input": True},
            "loss": {"risk": RISK_WEIGHT},
        },
        "input-alone": {
            "model": {"control_field": True, "field_input": True},
            "loss": {"distrust": RISK_WEIGHT},
        },
    },
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
                Measure("clean", kept("clean")),
                *(Measure(kind, kept(kind)) for kind in KINDS),
                Measure("all four", average([kept(kind) for kind in KINDS])),
                Measure("AUC", average([taught(kind) for kind in KINDS])),
            ),
        ),
        (
            "Error near bad frames: at them and for half a second after",
            (
                *(Measure(f"{kind}, near", kept(f"{kind}.near")) for kind in KINDS),
                Measure("all four, near", average([kept(f"{kind}.near") for kind in KINDS])),
            ),
        ),
        (
            "Area under the curve of the blocks' risk by kind, of their held risk, and of the input's",
            (
                *(Measure(f"AUC {kind}", mean(f"auc.{kind}")) for kind in KINDS),
                Measure("AUC of held", mean(*(f"auc_held.{kind}" for kind in KINDS))),
                Measure("AUC of input", mean(*(f"auc_input.{kind}" for kind in KINDS))),
            ),
        ),
    ),
    ground=GlitchedGround,
    common={"data": {"recipe": "glitched"}},
)
