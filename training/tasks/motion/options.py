"""All options of the training of a motion model: one TOML file of five tables."""

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
    """Training data."""

    path: Text = ""
    """A set made by ``train data build``, or a folder of takes, which is built into a set first."""
    copies: int = Field(default=16, ge=0)
    """Augmented copies of every training clip."""
    copies_seed: int = Field(default=0, ge=0)
    """Seed of the copies, apart from the run's seed, so that runs with other seeds share the copies."""
    recipe: Text = "clean"
    """How copies are made: ``"clean"``: other movements; ``"trembling"``: an eighth of them with jitter;
    ``"corrupted"``: corrupted as by suits and networks; ``"poor_suits"``: a fifth of them so, and jitter;
    ``"glitched"``: with labelled glitches; or a TOML file (:func:`training.data.sets.read_recipe`)."""
    build_workers: int = Field(default=0, ge=0)
    """Processes that build sets and copies; 0: one per core."""
    cache: Text = ""
    """Cache folder of sets and copies; the user's cache folder by default."""


REMOVED: Final = {"pose": 0.1, "reset": 0.0}
"""Weights of losses that older versions had, with their defaults."""


class LossOptions(Options):
    """Weights and settings of the loss, to which the error of the parameters contributes with weight 1."""

    events: float = Field(default=0.02, ge=0, le=1000)
    """Weight of the negative log-likelihood of the next event."""
    scalars: float = Field(default=0.5, ge=0, le=1000)
    """Weight of the squared error of the seven scalars at both heads."""
    gate: float = Field(default=0.02, ge=0, le=1000)
    """Weight of the commitment gate's cross-entropy with the reliability of the hazards."""
    orthogonality: float = Field(default=0.1, ge=0, le=1000)
    """Weight of the overlap of the bias heads' directions."""
    field: float = Field(default=1.0, ge=0, le=1000)
    """Factor on the control field's own small losses, 1e-3 of its mean risk and 1e-4 of its mean curvature;
    for models with a control field."""
    risk: float = Field(default=0.0, ge=0, le=1000)
    """Weight of the negative log-likelihood of the bad-frame labels under the control field's risk; needs a
    control field and labelled copies (``data.recipe = "glitched"``)."""
    distrust: float = Field(default=0.0, ge=0, le=1000)
    """Weight of the same for the risk of the input frames alone (``field_input``), besides ``risk``."""
    plan: float = Field(default=0.01, ge=0, le=1000)
    """Weight of the anticipator's loss, cross-entropy and unlikelihood of the next second's codes; for models
    that plan."""
    distillation: float = Field(default=0.7, ge=0, le=1)
    """Share of the mean forecast of ``run.ensemble`` in the target parameters; the rest is the true values.
    Not used without an ensemble."""
    huber: Annotated[tuple[float, float], pair("two numbers above 0", lambda corner: corner > 0.0)] = (
        0.02,
        0.004,
    )
    """Error at which the parameters' loss changes from quadratic to linear, at the first and the last step:
    large errors are learned first, the precision of a still pose at the end."""
    own_scalars: float = Field(default=0.3, ge=0, le=1)
    """Share of windows steered by the model's own scalars at the end of training."""

    @model_validator(mode="before")
    @classmethod
    def _drop_removed(cls, values: Any) -> Any:
        return without_removed(values, REMOVED, "option loss.") if isinstance(values, Mapping) else values


class MotionScheduleOptions(AveragedScheduleOptions):
    """Optimiser and learning-rate schedule."""

    steps: int = Field(default=2400, ge=1)
    """Training steps (updates of the weights)."""
    batch_frames: int = Field(default=3072, ge=640)
    """Frames per update, over all processes; the number of windows depends on their length, at most 640."""
    peak_lr: float = Field(default=2e-3, ge=0, le=10)
    """Learning rate after the warm-up."""
    final_lr: float = Field(default=2e-5, ge=0, le=10)
    """Learning rate that the cosine falls towards, ``peak_lr`` if that is lower; the last step is just above
    it."""
    warm_up_steps: int = Field(default=200, ge=0)
    """Steps over which the rate rises linearly; at most half of all steps."""
    patience: int = Field(default=0, ge=0)
    """Validations without a better score after which the run stops; 0: never."""

    def learning_rate(self, step: int) -> float:
        """Learning rate of update ``step`` (from 0): linear warm-up, then a cosine down to ``final_lr``."""
        rise = min(self.warm_up_steps, self.steps // 2)
        if step < rise:
            return self.peak_lr * (step + 1) / rise
        done = (step - rise) / max(self.steps - rise, 1)
        half = 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))
        low = min(self.final_lr, self.peak_lr)
        return low + (self.peak_lr - low) * half


class MotionRunOptions(RunOptions):
    """Execution and output of a run."""

    init: Text = ""
    """Checkpoint to start from, with its sizes and normalisation; the default schedule is then gentler."""
    ensemble: Texts = ()
    """Checkpoints whose mean forecast of the parameters is learned beside the labels. A checkpoint that was
    trained on a subject held out in this run is refused."""
    workers: int = Field(default=0, ge=0, le=1000)
    """Loader processes; 0: windows are loaded in the training process."""
    log_every: int = Field(default=50, ge=1)
    """Steps per row of the metrics, over which they are averaged."""
    export: bool = True
    """Whether the best weights are exported as a checkpoint for ``live``."""


class MotionTrainOptions(TrainOptions):
    """One training run of a motion model.

    Raises:
        OptionError: a value is out of range; the message names table, option and value.
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
    """Also the paths of data and checkpoints: a resumed run compares their digests instead."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        config = self.config()
        if self.run.init:  # the checkpoint decides the model's configuration
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
                f"option loss.risk: {loss.risk:g} needs a model with model.control_field=true, "
                "whose risk it trains"
            )
        if loss.distrust > 0.0 and not config.holds_frames:
            raise OptionError(
                f"option loss.distrust: {loss.distrust:g} needs a model with model.field_input=true"
            )

    @classmethod
    def dependent_defaults(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """See :data:`REFINE`."""
        return REFINE if given.get("run", {}).get("init") else {}

    def config(self) -> ModelConfig:
        """The model's configuration; by default it reads the causal twin.

        Raises:
            OptionError: an unknown field, or values that do not fit together.
        """
        return ModelConfig.from_dict({"twin": True, **self.model})

    def huber_at(self, step: int) -> float:
        """Corner of the parameters' loss in update ``step`` (from 0): geometric, first to last."""
        first, last = self.loss.huber
        return float(first * (last / first) ** (step / max(self.schedule.steps - 1, 1)))

    def sampled(self, step: int) -> float:
        """Share of the windows of update ``step`` (from 0) steered by the model's own scalars."""
        return self.loss.own_scalars * step / max(self.schedule.steps - 1, 1)


REFINE: Final = {
    "schedule": {"peak_lr": 8e-4, "warm_up_steps": 100},
    "loss": {"huber": [0.01, 0.004]},
}
"""Defaults that differ for a run that starts from a checkpoint."""
