"""Everything that decides the training of a motion model: one TOML file of five tables."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from pyanticip.models.core.config import without_removed
from training.run.options import (
    AveragedScheduleOptions,
    Options,
    RunOptions,
    Text,
    Texts,
    TrainOptions,
    pair,
)


class DataOptions(Options):
    """What a model learns from."""

    path: Text = ""
    """A set made by ``train data build``, or a folder of takes, which is built into a set first."""
    copies: int = Field(default=16, ge=0)
    """Augmented copies of every training clip."""
    copies_seed: int = Field(default=0, ge=0)
    """Of the variations; runs with other seeds then share the same copies."""
    recipe: Text = "clean"
    """How copies are made: ``"clean"`` other movements, ``"corrupted"`` with what suits and networks do to
    them as well, ``"poor_suits"`` the same to a fifth of them, ``"glitched"`` with bad stretches and which
    frames they are, or a TOML file
    (:func:`training.data.sets.read_recipe`)."""
    build_workers: int = Field(default=0, ge=0)
    """Processes that build sets and copies; 0: one for every core."""
    cache: Text = ""
    """Folder of the sets that are built on the way; the user's cache folder by default."""


GONE: Final = {"pose": 0.1, "reset": 0.0}
"""Losses of older runs that are no more, with their default weights."""


class LossOptions(Options):
    """What is minimised: the error of the parameters, weight 1, and these."""

    events: float = Field(default=0.02, ge=0, le=1000)
    """Weight of the negative log-likelihood of the next event."""
    scalars: float = Field(default=0.5, ge=0, le=1000)
    """Weight of the squared error of the seven scalars at both heads."""
    gate: float = Field(default=0.02, ge=0, le=1000)
    """Weight of the commitment gate's cross-entropy with how reliable the hazards were."""
    orthogonality: float = Field(default=0.1, ge=0, le=1000)
    """Weight of the overlap of the bias heads' directions."""
    field: float = Field(default=1.0, ge=0, le=1000)
    """How many times the control field's own small losses count, 1e-3 of its mean risk and 1e-4 of its mean
    curvature; where the model has one."""
    risk: float = Field(default=0.0, ge=0, le=1000)
    """Weight of the likelihood, under the control field's risk, of which frames are bad; needs such a field
    and copies that know their bad frames (``data.recipe = "glitched"``)."""
    distrust: float = Field(default=0.0, ge=0, le=1000)
    """Weight of the same of the risk of the frames as they came alone (``field_input``), beside what ``risk``
    asks of all of them."""
    plan: float = Field(default=0.01, ge=0, le=1000)
    """Weight of what the anticipator learns, cross-entropy and unlikelihood of the next second's codes; where
    the model plans."""
    distillation: float = Field(default=0.7, ge=0, le=1)
    """How much the mean forecast of ``run.ensemble`` counts in what the parameters should be; the rest is
    what they were. Without an ensemble it says nothing."""
    huber: Annotated[tuple[float, float], pair("two numbers above 0", lambda corner: corner > 0.0)] = (
        0.02,
        0.004,
    )
    """Where the parameters' loss turns from quadratic to linear, at the first and at the last step: the large
    errors first, the exactness of a still pose in the end."""
    own_scalars: float = Field(default=0.3, ge=0, le=1)
    """Share of windows that, at the end of training, are steered by the model's own scalars."""

    @model_validator(mode="before")
    @classmethod
    def _still_there(cls, given: Any) -> Any:
        return without_removed(given, GONE, "option loss.") if isinstance(given, Mapping) else given


class MotionScheduleOptions(AveragedScheduleOptions):
    """How the weights move."""

    steps: int = Field(default=2400, ge=1)
    """Training steps (updates of the weights)."""
    batch_frames: int = Field(default=3072, ge=640)
    """Frames of an update, over all processes; the number of its windows follows from their length, of which
    640 is the longest."""
    peak_lr: float = Field(default=2e-3, ge=0, le=10)
    """Learning rate after the warm-up."""
    final_lr: float = Field(default=2e-5, ge=0, le=10)
    """Learning rate that the cosine falls towards; that of the last step lies just above."""
    warm_up_steps: int = Field(default=200, ge=0)
    """Steps over which the rate rises linearly; at most half of all."""
    patience: int = Field(default=0, ge=0)
    """Validations without a better score after which a run ends; 0: never."""

    def learning_rate(self, step: int) -> float:
        """Of update ``step`` (from 0): linear warm-up, then a cosine down to ``final_lr``."""
        rise = min(self.warm_up_steps, self.steps // 2)
        if step < rise:
            return self.peak_lr * (step + 1) / rise
        done = (step - rise) / max(self.steps - rise, 1)
        half = 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))
        return self.final_lr + (self.peak_lr - self.final_lr) * half


class MotionRunOptions(RunOptions):
    """How a run is computed, and what it writes when."""

    init: Text = ""
    """Checkpoint to start from, with its sizes and its normalisation; the schedule is then a gentler one."""
    ensemble: Texts = ()
    """Checkpoints whose mean forecast of the parameters is learned beside the labels. One
    that learned from somebody whom this run holds out is refused."""
    workers: int = Field(default=0, ge=0, le=1000)
    """Loader processes; 0: windows are loaded between the updates."""
    log_every: int = Field(default=50, ge=1)
    """Steps per row of the metrics, which are means over them."""
    export: bool = True
    """Whether the best weights are written as a checkpoint that can play."""


class MotionTrainOptions(TrainOptions):
    """One training run of a motion model.

    Raises:
        OptionError: a value out of its range; the message names table, option and value.
    """

    data: DataOptions = DataOptions()
    loss: LossOptions = LossOptions()
    schedule: MotionScheduleOptions = MotionScheduleOptions()
    run: MotionRunOptions = MotionRunOptions()

    EXECUTION: ClassVar[tuple[str, ...]] = (
        *TrainOptions.EXECUTION,
        "data.path",
        "data.cache",
        "data.recipe",
        "data.build_workers",
        "run.init",
        "run.ensemble",
        "run.workers",
    )
    """Also where data and checkpoints are: a resumed run compares them by their digests."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        config = self.config()
        if self.run.init:  # the checkpoint says what its model has
            return self
        self.check_losses(config)
        if config.pose_window:
            raise OptionError(
                f"option model.pose_window: {config.pose_window} needs a model that was taught: train one "
                "without, then use train poses"
            )
        return self

    def check_losses(self, config: ModelConfig) -> None:
        """Refuse weights of losses that a model of this configuration does not have.

        Raises:
            OptionError: one of them is not 0.
        """
        loss = self.loss
        if loss.risk > 0.0 and config.control_field is None:
            raise OptionError(
                f"option loss.risk: {loss.risk:g} needs a model with model.control_field=true: the risk "
                "is what its field is taught"
            )
        if loss.distrust > 0.0 and not config.holds_frames:
            raise OptionError(
                f"option loss.distrust: {loss.distrust:g} needs a model with model.field_input=true"
            )

    @classmethod
    def unless_given(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """See :data:`REFINE`."""
        return REFINE if given.get("run", {}).get("init") else {}

    def config(self) -> ModelConfig:
        """The model's configuration; unless it is told otherwise, one that reads the causal twin.

        Raises:
            OptionError: an unknown field, or values that do not fit together.
        """
        return ModelConfig.from_dict({"twin": True, **self.model})

    def huber_at(self, step: int) -> float:
        """The parameters' corner in update ``step``: geometric from the first to the last."""
        first, last = self.loss.huber
        return float(first * (last / first) ** min(step / self.schedule.steps, 1.0))

    def sampled(self, step: int) -> float:
        """Share of the windows of update ``step`` that are steered by the model's own scalars."""
        return self.loss.own_scalars * min(step / self.schedule.steps, 1.0)


REFINE: Final = {
    "schedule": {"peak_lr": 8e-4, "warm_up_steps": 100},
    "loss": {"huber": [0.01, 0.004]},
}
"""What is different, unless it is given, for a run that starts from a checkpoint."""
