"""The questions about the parts of the motion model, by the name that the command line takes."""

from typing import Final

from pyanticip.errors import OptionError
from training.study import plan_ahead, risk, where
from training.study.arms import Question

QUESTIONS: Final[dict[str, Question]] = {
    "risk": risk.QUESTION,
    "positions": where.QUESTION,
    "plan": plan_ahead.QUESTION,
}


def question(name: str) -> Question:
    """The question of this name.

    Raises:
        OptionError: there is none.
    """
    if name not in QUESTIONS:
        raise OptionError(f"question: expected one of {', '.join(QUESTIONS)}, given {name!r}")
    return QUESTIONS[name]
