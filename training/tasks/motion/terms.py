"""What the parts of a motion model add to the loss, a line each: the trainer sums whatever there is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from pyanticip.models import MotionTransformer
from pyanticip.models.motion.transformer import MotionOutput
from pyanticip.models.parts.field.risk import distrust_loss, risk_loss
from pyanticip.models.parts.planning.signal import PlanningLosses
from pyanticip.models.parts.positions.prism.resets import Resets, reset_loss
from pyanticip.vocabulary import EVENTS, RATE
from training.tasks.motion.options import LossOptions
from training.tasks.motion.windows import Part

PHRASE: Final = EVENTS.index("phrase")

JOINT_MASK: Final = slice(198, 220)
"""Columns of a feature row that say which joints the body has."""


@dataclass(frozen=True)
class Outcome:
    """What a term of the loss may need: the model, what came ``out`` of it for a ``part`` of an update,
    the ``weights`` of the terms, what its plans were worth in ``planned``, and its cursors' ``resets``."""

    model: MotionTransformer
    out: MotionOutput
    part: Part
    weights: LossOptions
    planned: PlanningLosses | None
    resets: Resets

    @property
    def frames(self) -> float | None:
        """What sums over frames are divided by; by default the sum of the weights."""
        return None if self.part.batch.divisors is None else self.part.batch.divisors[1]


def pose(outcome: Outcome) -> Tensor | None:
    """See :meth:`~pyanticip.models.motion.pose.PoseHead.loss`."""
    head, part = outcome.model.pose, outcome.part
    if head is None:
        return None
    assert part.quats is not None
    assert part.pose_known is not None
    ahead = [round(ms * RATE / 1000) for ms in outcome.model.cfg.pose_horizons]
    has = part.batch.features[..., None, JOINT_MASK]
    return head.loss(outcome.out.hidden, part.quats, ahead, has, part.pose_known) / part.pose_divisor


def field(outcome: Outcome) -> Tensor | None:
    """The control field's own loss."""
    return None if outcome.out.field is None else outcome.out.field.loss()


def risk(outcome: Outcome) -> Tensor | None:
    """The control field's risk, where the bad frames are known."""
    batch, out = outcome.part.batch, outcome.out
    if out.field is None or batch.bad is None:
        return None
    stride = outcome.model.cfg.slow_stride
    return risk_loss(out.field, batch.bad, batch.weight, stride, outcome.frames, distrust=out.distrust)


def distrust(outcome: Outcome) -> Tensor | None:
    """The risk of the frames as they came alone."""
    batch, out = outcome.part.batch, outcome.out
    if not outcome.weights.distrust or out.distrust is None or batch.bad is None:
        return None
    return distrust_loss(out.distrust, batch.bad, batch.weight, outcome.frames)


def plan(outcome: Outcome) -> Tensor | None:
    """What the anticipator of a model that plans has to learn."""
    found = outcome.planned
    return None if found is None else found.ce + found.unlikelihood


def simulator(outcome: Outcome) -> Tensor | None:
    """The simulator of plans, which learns by itself, at a rate of its own."""
    return None if outcome.planned is None else outcome.planned.simulator


def reset(outcome: Outcome) -> Tensor | None:
    """Where cursors should start anew."""
    if not outcome.weights.reset:
        return None
    batch = outcome.part.batch
    return reset_loss(outcome.resets, batch.event_bin[..., PHRASE], batch.weight, outcome.frames)


TERMS: Final[dict[str, Callable[[Outcome], Tensor | None]]] = {
    "pose": pose,
    "field": field,
    "risk": risk,
    "distrust": distrust,
    "plan": plan,
    "simulator": simulator,
    "reset": reset,
}
"""By name, in the order in which they are added; weights are the options of these names, else 1."""
