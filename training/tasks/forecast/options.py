"""Everything that decides the training of a forecaster but the files."""

import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.forecast.manifest import ForecastConfig
from training.run.options import AveragedScheduleOptions, Betas, Options, RunOptions, Text, TrainOptions
from training.tasks.forecast.cmu import MIRROR, OBSERVED, PREDICTED, TARGET


class Variation(Options):
    """How drawn windows differ from the recorded ones."""

    warp: float = Field(default=1.25, ge=1, le=2)
    """Largest factor of speed, either way."""
    mirror: float = Field(default=0.5, ge=0, le=1)
    """Share of mirrored windows."""
    swap: float = Field(default=0.25, ge=0, le=1)
    """Share of windows with another window's legs."""
    arms: float = Field(default=0.25, ge=0, le=1)
    """Share of windows with another window's arm, for each arm by itself."""

    @model_validator(mode="before")
    @classmethod
    def _older(cls, given: Any) -> Any:
        """Runs once had two more of these, which none used."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in ("turn", "noise") or value}


class DataOptions(Variation):
    """What a model learns from."""

    path: Text = ""
    """Folder with train/."""
    validation: int = Field(default=4, ge=0, le=5)
    """Number of the clip of every action that tells when to stop; 0: none."""
    leave_out: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names of further clips that nothing is learned from."""


class ForecastScheduleOptions(AveragedScheduleOptions):
    """How the weights move."""

    FINAL: ClassVar[float] = 0.01

    steps: int = Field(default=3000, ge=1)
    """Training steps (updates of the weights)."""
    batch: int = Field(default=256, ge=1)
    """Windows per update."""
    peak_lr: float = Field(default=1e-3, gt=0, le=10)
    """Peak learning rate."""
    warm_up_steps: int = Field(default=100, ge=0)
    """Steps over which the rate rises linearly."""
    weight_decay: float = Field(default=0.02, ge=0, le=10)
    """Of matrices."""
    betas: Betas = (0.9, 0.98)
    """Decays of AdamW's averages, of the gradient and of its square."""
    stop: int | None = Field(default=None, ge=1)
    """End at the first validation from this update on, while the rate falls as over all steps."""

    def average_decay(self, done: int) -> float:
        """See :meth:`~training.run.options.AveragedScheduleOptions.average_decay`."""
        return min(self.ema, done / (done + 10.0))

    def learning_rate(self, step: int) -> float:
        """Of update ``step`` (from 0): a cosine over the whole run, under a linear warm-up."""
        fall = 0.5 * (1.0 + math.cos(math.pi * (step + 1) / self.steps))
        rise = min(1.0, (step + 1) / max(self.warm_up_steps, 1))
        return self.peak_lr * rise * (self.final_share + (1.0 - self.final_share) * fall)


class ForecastRunOptions(RunOptions):
    """How a run is computed, and what is looked at when."""

    precision: Literal["32", "bf16"] = "32"
    """bf16: fast where there is AVX-512 BF16."""
    device: Literal["cpu"] = "cpu"
    """Compute device."""
    accumulate: Literal[1] = 1
    """Updates are computed in one part."""
    threads: int = Field(default=1, ge=1, le=1000)
    """Torch threads."""
    validate_every: int = Field(default=250, ge=1)
    """Updates between looks at the clip that stops it."""
    refit: bool = True
    """Then train on all files up to that step."""


class ForecastOptions(TrainOptions):
    """One training run of a forecaster; ``model`` has fields of
    :class:`~pyanticip.models.forecast.manifest.ForecastConfig`.

    Raises:
        OptionError: a value out of its range; the message names table, option and value.
    """

    data: DataOptions = DataOptions()
    schedule: ForecastScheduleOptions = ForecastScheduleOptions()
    run: ForecastRunOptions = ForecastRunOptions()

    EXECUTION: ClassVar[tuple[str, ...]] = (*TrainOptions.EXECUTION, "data.path")
    """Also where the files are: those of a resumed run are compared by names and hashes."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        cfg = self.config()
        if (cfg.joints, cfg.observed, cfg.target) != (len(PREDICTED), OBSERVED, TARGET):
            raise OptionError(
                f"the benchmark needs a model of {len(PREDICTED)} joints, {OBSERVED} observed and {TARGET} "
                f"target frames, got {cfg.joints}, {cfg.observed} and {cfg.target}"
            )
        return self

    def config(self) -> ForecastConfig:
        """The model's configuration.

        Raises:
            OptionError: an unknown field, or a value out of range.
        """
        return ForecastConfig.from_dict({"mirror": list(MIRROR), **self.model})
