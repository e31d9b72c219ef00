"""Does a plan of the next second, in codes of motion frames, help to forecast it?"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from pyanticip.models import MotionTransformer
from pyanticip.models.motion.pose import PoseHead
from pyanticip.models.parts.planning.codebook import PlanCodebook
from pyanticip.models.parts.planning.targets import LOWEST, divergence, look_ahead
from training.data.examples import Example
from training.studies.engine import Measure, Rows, Study, mean_of
from training.studies.on_motion import SIDES, MotionGround, MotionOptions, by_subject, ratio, units
from training.tasks.motion import MotionTrainOptions
from training.tasks.motion.planning import fitted, no_plans
from training.tasks.motion.scores import Predictions, measure
from training.tasks.motion.validation import pose_sums

CODES: Final = 256
AHEAD: Final = 50
"""Frames that a plan looks ahead: one second."""
POSES_MS: Final = (400, 1000)
PLANNING: Final = {"planning": True, "plan_codes": CODES, "plan_tokens": AHEAD, "plan_inference": "passes"}
ARMS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "plain": {},
    "side-task": {"model": PLANNING, "loss": {"plan_shown": False}},
    "plan": {"model": PLANNING},
}


class PlanGround(MotionGround):
    """Besides, ``degrees.MS`` and ``millimetres.MS`` of the pose at :data:`POSES_MS`; ``kl``, the divergence
    KL(P || Q) of the next second's codes P from what was anticipated, nats; and of models with plans
    ``blind`` and ``true``, the scores with empty plans and with plans made of what does come."""

    def __init__(self, options: MotionOptions, folder: Path) -> None:
        super().__init__(ARMS, options, folder, {"model": {"pose_horizons": list(POSES_MS)}})
        self.codebook = PlanCodebook(CODES)
        counts, _ = fitted(self.codebook, self.training.bare)
        self.frequency = counts / counts.sum()

    @cached_property
    def rivals(self) -> dict[str, dict[str, Any]]:
        """Hold of the parameters and of the pose; and how often codes come, whatever went before."""
        hold = super().rivals["hold"]
        found: dict[str, dict[str, Any]] = {"hold": {}, "how often codes come": {}}
        usual = self.frequency.clamp(min=LOWEST).log()
        for split, clips in self.held_out.items():
            for name in found:
                found[name][split] = {}
            for subject, row in hold[split].items():
                mine = [e for e in clips if e.subject == subject]
                found["hold"][split][subject] = {**row, **poses([(e, None) for e in mine], None)}
                kl = self.divergence([(e, usual.expand(1, len(e), CODES)) for e in mine])
                found["how often codes come"][split][subject] = {"kl": kl}
        return found

    @torch.no_grad()
    def judge(self, model: MotionTransformer, options: MotionTrainOptions) -> dict[str, Any]:
        """The scores of a model."""
        model.eval()
        ways = ["own"]
        if model.planning is not None:
            ways = ["own", "blind", "true"] if options.loss.plan_shown else ["blind"]
        found: dict[str, Any] = {}
        for split, clips in self.held_out.items():
            found[split] = self._scores(model, clips, ways[0])
            for way in ways[1:]:
                for subject, row in self._scores(model, clips, way).items():
                    found[split][subject][way] = row
        return found

    def _scores(self, model: MotionTransformer, clips: Sequence[Example], way: str) -> dict[str, Any]:
        """By subject, with a model's own plans, empty ones (``blind``) or ``true`` ones."""
        said, outs = {}, {}
        for example in clips:
            x, plan = torch.from_numpy(example.features)[None], None
            if model.planning is not None and way == "blind":
                plan = no_plans(model, 1, len(example))
            elif model.planning is not None and way == "true":
                ahead = look_ahead(self.codebook(x), AHEAD)
                plan = model.planning.select(ahead.dense(CODES).clamp(min=LOWEST).log())
            outs[id(example)] = out = model(x, plan=plan)
            answers = out.params, torch.sigmoid(out.events), out.scalars, out.gate
            said[id(example)] = Predictions(*(answer[0].numpy() for answer in answers))
        rows = by_subject(clips, [said[id(e)] for e in clips], measure(clips, lambda e: said[id(e)].params))
        for subject, row in rows.items():
            mine = [(e, outs[id(e)]) for e in clips if e.subject == subject]
            row.update(poses([(e, out.hidden[0]) for e, out in mine], model.pose))
            if model.planning is not None:
                row["kl"] = self.divergence([(e, out.anticipation) for e, out in mine])
        return rows

    def divergence(self, told: Sequence[tuple[Example, Tensor]]) -> float:
        """KL(P || Q) of log-scores (1, T, C), mean over the frames whose next second is known."""
        sums, frames = 0.0, 0
        for example, scores in told:
            ahead = look_ahead(self.codebook(torch.from_numpy(example.features)[None]), AHEAD)
            gap = divergence(scores, ahead)[ahead.whole]
            sums, frames = sums + float(gap.sum()), frames + len(gap)
        return round(sums / max(frames, 1), 6)


def poses(heard: Sequence[tuple[Example, Tensor | None]], head: PoseHead | None) -> dict[str, float]:
    """``degrees.MS`` and ``millimetres.MS`` of a head on what it reads; of hold without one."""
    sums = np.sum([pose_sums(e, POSES_MS, head, hidden) for e, hidden in heard], axis=0)
    row = {}
    for i, ms in enumerate(POSES_MS):
        degrees, millimetres, frames = sums[i, 1 if head is None else 0]
        row[f"degrees.{ms}"] = round(float(degrees / max(frames, 1.0)), 5)
        row[f"millimetres.{ms}"] = round(float(millimetres / max(frames, 1.0)), 4)
    return row


def other(way: str, measure: Measure) -> Measure:
    """A measure with other plans than a model's own."""

    def value(rows: Rows, held: Rows) -> float:
        pairs = [(row[way], against) for row, against in zip(rows, held, strict=True) if way in row]
        return measure.value([p[0] for p in pairs], [p[1] for p in pairs]) if pairs else float("nan")

    return Measure(f"{measure.title}, {way}", value, measure.digits)


KL: Final = Measure("KL", mean_of("kl"))
DEGREES: Final = Measure("pose 1 s, degrees", mean_of("degrees.1000"), 2)
RATIOS: Final = tuple(Measure(f"{ms} ms", ratio("error", [i])) for i, ms in ((2, 100), (3, 200), (4, 400)))

STUDY: Final = Study(
    title="Does a plan of the next second help to forecast it?",
    options=MotionOptions,
    arms=ARMS,
    pairs=(("plan", "plain"), ("plan", "side-task"), ("side-task", "plain")),
    tables=(
        (
            "KL(P || Q) in nats; pose ahead in degrees and millimetres; parameters as a ratio to hold's",
            (
                KL,
                DEGREES,
                Measure("pose 1 s, mm", mean_of("millimetres.1000"), 1),
                Measure("pose 400 ms, degrees", mean_of("degrees.400"), 2),
                *RATIOS,
            ),
        ),
        (
            "With other plans than a model's own: none, and what does come",
            tuple(other(way, m) for way in ("blind", "true") for m in (KL, DEGREES, RATIOS[-1])),
        ),
    ),
    ground=lambda options, case, folder: PlanGround(options, folder),
    views=tuple(SIDES),
    units=units,
)
