"""Options of trajectory positions, and how strongly content moves them. No torch."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.core.config import PositionConfig

_STRENGTHS = {"code": 0.25, "dialogue": 0.15, "random": 0.0}


def auto_strength(content: str) -> float:
    """Displacement per step at most, for a kind of content: .25 code, .15 dialogue, 0 random, else .2.

    The paper (Trajectory-Guided Positional Encoding, 2025) writes four single conditions, by which the last
    would overrule the first two; meant is a chain.

    >>> [auto_strength(kind) for kind in ("code", "dialogue", "random", "circular")]
    [0.25, 0.15, 0.0, 0.2]
    """
    return _STRENGTHS.get(content, 0.2)


class TrajectoryConfig(PositionConfig):
    """Options of :class:`~pyanticip.models.parts.positions.trajectory.module.TrajectoryPositions`."""

    kind: str = "trajectory"
    strength: Annotated[float, Field(ge=0.0, le=1.0)] | Literal["auto"] = "auto"
    """a, the most that a step adds to the position; ``"auto"`` by content. With 0 the encoding is the
    standard one, bit for bit; so is that of a sequence of one step."""
    content: Annotated[str, Field(min_length=1)] = "text"
    """What ``"auto"`` goes by: ``code`` .25, ``dialogue`` .15, ``random`` 0, anything else .2."""
    magnitude: Annotated[float, Field(gt=0.0, lt=1e6)] = 2.0
    """b, factor of the embedding's step inside the hyperbolic tangent."""
    interpolation: Literal["exact", "linear", "cubic"] = "exact"
    """``"exact"`` encodes the position itself, ``"linear"`` (the paper's) and ``"cubic"`` look between whole
    ones."""
    scale: Literal["none", "rms"] = "none"
    """``"rms"`` measures a step by the root mean square of all steps of the row so far, itself included: the
    hyperbolic tangent is 1 for the steps of ordinary embeddings (independent normal ones of D channels lie
    sqrt(2 D) apart), and positions then just run faster."""
    cache: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Sequences whose displacements are kept, by the exact bytes of their embeddings, where whole ones run on
    the CPU and no gradient is asked for; the paper's 10,000 cost more than they save, see
    docs/experiments/trajectory-positions/page.md."""

    @model_validator(mode="after")
    def _check(self) -> "TrajectoryConfig":
        if self.strength != "auto" and self.content != "text":
            raise OptionError(
                f"positions option content={self.content!r} decides strength='auto', "
                f"but the strength is given: {self.strength!r}"
            )
        return self
