"""How large and how long the runs of the studies on motion are, and what they all do alike."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from training.study.motion_data import COPY_SEED
from training.tasks.motion import MotionTrainOptions

SIZES: Final[dict[str, Any]] = {
    "d_model": 64,
    "heads": 4,
    "fast_layers": 2,
    "slow_layers": 3,
    "ff": 256,
    "control_hidden": 128,
    "dropout": 0.1,
}
"""Half the shipped model's widths, and all of its layers."""

CURVE: Final = 20
"""Points of a learning curve."""


@dataclass(frozen=True)
class Scale:
    """What all runs of a study have in common.

    Raises:
        OptionError: sizes below one.
    """

    steps: int = 300
    batch_frames: int = 1536
    lr: float = 2e-3
    copies: int = 4
    """Varied copies of every training piece, the same for all seeds."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """What differs from :data:`SIZES`, in all runs."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch_frames", 1), ("copies", 0)):
            if getattr(self, name) < least:
                raise OptionError(f"option {name}: expected at least {least}, given {getattr(self, name)}")

    @property
    def sizes(self) -> dict[str, Any]:
        """Of the models."""
        return {**SIZES, **self.model}

    def plain(self, seed: int) -> MotionTrainOptions:
        """How a run trains a model of default options: as ``train motion`` does, but judged once, after the
        last update, and steered by the given scalars throughout."""
        return MotionTrainOptions().but(
            data={"copies": self.copies, "copies_seed": COPY_SEED},
            loss={"own_scalars": 0.0},
            schedule={
                "steps": self.steps,
                "batch_frames": self.batch_frames,
                "peak_lr": self.lr,
                "final_lr": self.lr / 100.0,
                "warm_up_steps": min(100, max(1, self.steps // 5)),
                "seed": seed,
            },
            run={
                "device": self.device,
                "threads": 1,
                "log_every": max(1, self.steps // CURVE),
                "validate_every": self.steps,
                "save_every": self.steps,
                "tensorboard": False,
                "shrink": False,
                "export": False,
            },
        )


@functools.lru_cache
def parameters(cfg: ModelConfig) -> int:
    """Parameters of a configuration's model."""
    return sum(p.numel() for p in MotionTransformer(cfg).parameters())


def widened(cfg: ModelConfig, first: ModelConfig) -> int:
    """The feed-forward width with which ``cfg`` has as many parameters as ``first``."""
    column = (cfg.fast_layers + cfg.slow_layers) * (2 * cfg.d_model + 1)
    return max(cfg.ff + round((parameters(first) - parameters(cfg)) / column), 1)
