"""Options of trajectory positions, and how strongly content moves them. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.core.config import PositionConfig

_STRENGTHS = {"code": 0.25, "dialogue": 0.15, "random": 0.0}


def auto_strength(content: str) -> float:
    """Maximum displacement per step for a kind of content: .25 code, .15 dialogue, 0 random, else .2.

    The paper (Trajectory-Guided Positional Encoding, 2025) writes four separate conditions, the last of which
    would override the first two; they are read as an if-else chain.

    >>> [auto_strength(kind) for kind in ("code", "dialogue", "random", "circular")]
    [0.25, 0.15, 0.0, 0.2]
    """
    return _STRENGTHS.get(content, 0.2)


class TrajectoryConfig(PositionConfig):
    """Options of :class:`~pyanticip.models.parts.positions.trajectory.module.TrajectoryPositions`."""

    kind: str = "trajectory"
    strength: Annotated[float, Field(ge=0.0, le=1.0)] | Literal["auto"] = "auto"
    """a, the maximum displacement per step; ``"auto"`` chooses it by ``content``. With 0, and for a sequence
    of one step, the encoding is the standard one, bit for bit."""
    content: Annotated[str, Field(min_length=1)] = "text"
    """Selects the strength for ``"auto"``: ``code`` .25, ``dialogue`` .15, ``random`` 0, anything else .2."""
    magnitude: Annotated[float, Field(gt=0.0, lt=1e6)] = 2.0
    """b, factor of the embedding's step length inside the hyperbolic tangent."""
    interpolation: Literal["exact", "linear", "cubic"] = "exact"
    """``"exact"`` encodes the position itself; ``"linear"`` (the paper's) and ``"cubic"`` interpolate between
    whole positions."""
    scale: Literal["none", "rms"] = "none"
    """``"rms"`` divides a step's length by the root mean square of all steps of the row so far, itself
    included. Without it the hyperbolic tangent saturates at the steps of ordinary embeddings (independent
    normal ones of D channels lie sqrt(2 D) apart), and positions just advance faster."""
    cache: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Maximum number of sequences whose displacements are cached, by the exact bytes of their embeddings;
    used for whole sequences on the CPU without gradients. The paper's 10,000 cost more than they save, see
    docs/experiments/trajectory-positions/page.md."""

    @model_validator(mode="after")
    def _check(self) -> "TrajectoryConfig":
        if self.strength != "auto" and self.content != "text":
            raise OptionError(
                f"positions option content={self.content!r} decides strength='auto', "
                f"but the strength is given: {self.strength!r}"
            )
        return self
