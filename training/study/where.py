"""Does it help a motion model to know where a frame is, and which way of saying so is best?"""

from typing import Any, Final

from pyanticip.models import MotionTransformer
from training.motion import MotionTrainOptions
from training.study.arms import Question
from training.study.motion_data import MotionData
from training.study.motion_report import MEASURES
from training.study.motion_scores import judge


class Forecasts:
    """The scores of :mod:`training.study.motion_scores`.

    Args:
        motion: of the study.
    """

    def __init__(self, motion: MotionData) -> None:
        self.motion = motion
        self.reference: dict[str, Any] = motion.reference
        self.rivals: dict[str, dict[str, Any]] = {}

    def judge(self, model: MotionTransformer, options: MotionTrainOptions) -> dict[str, Any]:
        """The scores of a model."""
        return judge(model, self.motion.held_out)


POSITIONS: Final = ("none", "sinusoidal", "rope", "alibi", "trajectory")

QUESTION: Final = Question(
    name="motion-positions",
    title="Do positions help on motion?",
    arms={name: {"model": {"positions": name, "bias": "none"}} for name in POSITIONS},
    pairs=(
        *((name, "none") for name in POSITIONS[1:]),
        *(("trajectory", name) for name in POSITIONS[1:4]),
    ),
    tables=(("Errors as a ratio to hold's, events and scalars", MEASURES),),
    ground=Forecasts,
)
