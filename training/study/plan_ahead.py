"""Does a plan of the next second, in codes of motion frames, help to forecast it?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer
from pyanticip.models.motion.pose import PoseHead
from pyanticip.models.motion.transformer import MotionOutput
from pyanticip.models.parts.planning.codebook import PlanCodebook
from pyanticip.models.parts.planning.targets import LOWEST, divergence, look_ahead
from training.data.examples import Example, Split
from training.study.arms import Question
from training.study.motion_data import MotionData
from training.study.motion_report import Measure, error_ratio
from training.study.motion_scores import by_subject
from training.study.risk import mean
from training.tasks.motion import MotionTrainOptions
from training.tasks.motion.planning import fitted, no_plans
from training.tasks.motion.scores import Said, measure
from training.tasks.motion.validation import pose_sums

CODES: Final = 256
AHEAD: Final = 50
"""Frames that a plan looks ahead: one second."""

POSES_MS: Final = (400, 1000)

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Heard:
    """What a model says of a clip with one kind of plans: its rows, the hidden states (T, D) that the pose is
    read off, and the log-scores (1, T, C) of its anticipator, where it has one."""

    said: Said
    hidden: Tensor | None
    anticipation: Tensor | None


class PlanGround:
    """Scores by split and subject: ``error`` and the other scores of the motion study; ``degrees.MS`` and
    ``millimetres.MS`` of the pose at :data:`POSES_MS`; ``kl`` the divergence KL(P || Q) of the next second's
    codes P from what was anticipated, nats; and of models with plans ``blind`` and ``true``, the same with
    empty plans and with plans made of what does come.

    Args:
        motion: of the study.
    """

    def __init__(self, motion: MotionData) -> None:
        self.motion = motion
        self.codebook = PlanCodebook(CODES)
        counts, self.lost = fitted(self.codebook, motion.training.bare)
        self.frequency = counts / counts.sum()

    @cached_property
    def reference(self) -> dict[str, Any]:
        """Hold of the parameters and of the pose."""
        return {
            split: {
                subject: {**row, **self._poses([(e, None) for e in clips if e.subject == subject], None)}
                for subject, row in self.motion.reference[split].items()
            }
            for split, clips in self.motion.held_out.items()
        }

    @cached_property
    def rivals(self) -> dict[str, dict[str, Any]]:
        """Hold, and the divergence of what is guessed by three simple rules."""
        table = self._followers(self.motion.training.bare)
        rules: dict[str, Callable[[Tensor], Tensor]] = {
            "how often codes come": self._usual,
            "the last second again": self._again,
            "what followed this code": lambda codes: table[codes],
        }
        return {
            "hold": self.reference,
            **{
                name: {split: self._guessed(split, guess) for split in self.motion.held_out}
                for name, guess in rules.items()
            },
        }

    def judge(self, model: MotionTransformer, options: MotionTrainOptions) -> dict[str, Any]:
        """The scores of a model.

        Raises:
            OptionError: it plans with other codes than those its rivals are judged with.
        """
        model.eval()
        ways = ["own"]
        if model.planning is not None:
            assert model.codebook is not None
            if not torch.equal(model.codebook.centres, self.codebook.centres):
                raise OptionError("the model plans with other codes than the study's")
            ways = ["own", "blind", "true"] if options.loss.plan_shown else ["blind"]
        found: dict[str, Any] = {}
        for split, clips in self.motion.held_out.items():
            each = {
                way: self._scores(model, clips, [self.hear(model, e, way) for e in clips]) for way in ways
            }
            found[split] = each[ways[0]]
            for way in ways[1:]:
                for subject, row in each[way].items():
                    found[split][subject][way] = row
        return found

    @torch.no_grad()
    def hear(self, model: MotionTransformer, example: Example, way: str = "own") -> Heard:
        """A model on a whole clip, with its own plans, empty ones (``blind``) or ``true`` ones."""
        rows = torch.from_numpy(example.features)[None]
        plan = None
        if model.planning is not None and way == "blind":
            plan = no_plans(model, 1, len(example))
        elif model.planning is not None and way == "true":
            ahead = look_ahead(self.codebook(rows), AHEAD)
            plan = model.planning.select(ahead.dense(CODES).clamp(min=LOWEST).log())
        out: MotionOutput = model(rows, plan=plan)
        said = Said(
            out.params[0].numpy(),
            torch.sigmoid(out.events[0]).numpy(),
            out.scalars[0].numpy(),
            out.gate[0].numpy(),
        )
        return Heard(said, out.hidden[0], out.anticipation)

    def _scores(
        self, model: MotionTransformer, clips: Sequence[Example], heard: Sequence[Heard]
    ) -> dict[str, Any]:
        answers = {id(e): h.said for e, h in zip(clips, heard, strict=True)}
        errors = measure(clips, lambda e: answers[id(e)].params)
        rows = by_subject(clips, [h.said for h in heard], errors)
        for subject, row in rows.items():
            mine = [(e, h) for e, h in zip(clips, heard, strict=True) if e.subject == subject]
            row.update(self._poses([(e, h.hidden) for e, h in mine], model.pose))
            told = [(e, h.anticipation) for e, h in mine if h.anticipation is not None]
            if told:
                row["kl"] = self._divergence([(e, scores) for e, scores in told if scores is not None])
        return rows

    @staticmethod
    def _poses(heard: Sequence[tuple[Example, Tensor | None]], head: PoseHead | None) -> dict[str, float]:
        """``degrees.MS`` and ``millimetres.MS`` of a head on what it reads; of hold without one."""
        sums = np.sum([pose_sums(e, POSES_MS, head, hidden) for e, hidden in heard], axis=0)
        row = {}
        for i, ms in enumerate(POSES_MS):
            degrees, millimetres, frames = sums[i, 1 if head is None else 0]
            row[f"degrees.{ms}"] = round(float(degrees / max(frames, 1.0)), 5)
            row[f"millimetres.{ms}"] = round(float(millimetres / max(frames, 1.0)), 4)
        return row

    def _divergence(self, told: Sequence[tuple[Example, Tensor]]) -> float:
        """KL(P || Q), mean over the frames whose next second is known."""
        total, frames = 0.0, 0
        for example, scores in told:
            ahead = look_ahead(self.codebook(torch.from_numpy(example.features)[None]), AHEAD)
            gap = divergence(scores, ahead)[ahead.whole]
            total, frames = total + float(gap.sum()), frames + len(gap)
        return round(total / max(frames, 1), 6)

    def _guessed(self, split: Split, guess: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """``kl`` by subject of what is guessed (1, T, C) from the codes (1, T) so far."""
        found, clips = {}, self.motion.held_out[split]
        for subject in sorted({e.subject for e in clips} & set(self.motion.reference[split])):
            mine = [e for e in clips if e.subject == subject]
            guesses = [(e, guess(self.codebook(torch.from_numpy(e.features)[None])).log()) for e in mine]
            found[subject] = {"kl": self._divergence(guesses)}
        return found

    def _usual(self, codes: Tensor) -> Tensor:
        return self.frequency.clamp(min=LOWEST).expand(1, codes.shape[1], CODES)

    def _again(self, codes: Tensor) -> Tensor:
        """The codes of the last second as often as they came, the newest counting most, mixed with a tenth of
        the usual frequencies."""
        back = torch.flip(codes, (1,))
        seen = torch.flip(look_ahead(back, AHEAD).dense(CODES), (1,))
        here = torch.zeros_like(seen).scatter_(-1, codes[..., None], 1.0)
        near = (seen + here / 10.0) / (seen.sum(-1, keepdim=True) + 0.1)
        return 0.9 * near + 0.1 * self._usual(codes)

    def _followers(self, clips: Sequence[Example]) -> Tensor:
        """(C, C): the mean target of the training frames of each code, mixed with twenty frames' worth of
        the usual frequencies."""
        sums, counts = torch.zeros(CODES, CODES), torch.zeros(CODES)
        for example in clips:
            codes = self.codebook(torch.from_numpy(np.array(example.features))[None])
            ahead = look_ahead(codes, AHEAD)
            whole = ahead.whole[0]
            sums.index_add_(0, codes[0][whole], ahead.dense(CODES)[0][whole])
            counts += torch.bincount(codes[0][whole], minlength=CODES)
        prior = 20.0
        return (sums + prior * self.frequency.clamp(min=LOWEST)) / (counts[:, None] + prior)


def part(way: str, name: str) -> Callable[[Rows, Rows], float]:
    """A score with other plans than a model's own."""
    return lambda rows, held: mean(name)([row[way] for row in rows if way in row], held)


def shares(way: str, horizon: int) -> Callable[[Rows, Rows], float]:
    """A ratio to hold's error with other plans than a model's own."""

    def value(rows: Rows, held: Rows) -> float:
        pairs = [(row[way], other) for row, other in zip(rows, held, strict=True) if way in row]
        return error_ratio(horizon)([p[0] for p in pairs], [p[1] for p in pairs]) if pairs else float("nan")

    return value


PLANNING: Final[dict[str, Any]] = {
    "planning": True,
    "plan_codes": CODES,
    "plan_tokens": AHEAD,
    "plan_inference": "passes",
}

QUESTION: Final = Question(
    name="motion-plan",
    title="Does a plan of the next second help to forecast it?",
    arms={
        "plain": {},
        "side-task": {"model": PLANNING, "loss": {"plan_shown": False}},
        "plan": {"model": PLANNING},
    },
    pairs=(("plan", "plain"), ("plan", "side-task"), ("side-task", "plain")),
    tables=(
        (
            "KL(P || Q) in nats; pose ahead in degrees and millimetres; parameters as a ratio to hold's",
            (
                Measure("KL", mean("kl")),
                Measure("pose 1 s, degrees", mean("degrees.1000"), 2),
                Measure("pose 1 s, mm", mean("millimetres.1000"), 1),
                Measure("pose 400 ms, degrees", mean("degrees.400"), 2),
                *(Measure(f"{ms} ms", error_ratio(i)) for i, ms in ((2, 100), (3, 200), (4, 400))),
            ),
        ),
        (
            "With other plans than a model's own: none, and what does come",
            (
                Measure("KL, empty", part("blind", "kl")),
                Measure("pose 1 s, degrees, empty", part("blind", "degrees.1000"), 2),
                Measure("400 ms, empty", shares("blind", 4)),
                Measure("KL, true", part("true", "kl")),
                Measure("pose 1 s, degrees, true", part("true", "degrees.1000"), 2),
                Measure("400 ms, true", shares("true", 4)),
            ),
        ),
    ),
    ground=PlanGround,
    common={"model": {"pose_horizons": list(POSES_MS)}},
)
