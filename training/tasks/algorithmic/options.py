"""All options of the training of a model on a task."""

from typing import Any, ClassVar, Final, Literal, Self, get_args

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from training.run.options import Betas, Options, RunOptions, ScheduleOptions, TrainOptions
from training.tasks.algorithmic import TASKS, find
from training.tasks.algorithmic.problem import SIZE

Positions = Literal["prism", "sinusoidal", "rope", "alibi", "none"]

POSITIONS: Final[tuple[str, ...]] = get_args(Positions)
"""Kinds of positions; sinusoids are shifted randomly in training, so that all of their table is used."""

SIZES: Final[dict[str, dict[str, Any]]] = {
    "small": {"d_model": 64, "heads": 4, "fast_layers": 2, "ff": 256},
    "paper": {"d_model": 512, "heads": 8, "fast_layers": 5, "ff": 2048},
}
"""Sizes of the model: one that trains on a laptop, and the paper's baseline."""

PRISM: Final[dict[str, dict[str, Any]]] = {
    # Cursors with diverse initial biases, and scores that distinguish places from the start, learn to count
    # in hundreds of updates instead of the paper's tens of thousands.
    "small": {
        "prism_cursors": 8,
        "prism_width": 32,
        "prism_hidden": 64,
        "prism_norm": "fixed",
        "prism_orthogonal": "none",
        "prism_reset": 0.12,
        "prism_spread": 2.0,
        "prism_alpha": 40.0,
    },
    # 140 cursors = 5 layers x 7 heads x 4 in the paper; here layers share them. 340 channels = 4 x 85.
    "paper": {
        "d_model": 192,
        "ff": 768,
        "prism_cursors": 28,
        "prism_width": 84,
        "prism_hidden": 100,
    },
}
"""The same for PRISM positions."""

AGAIN: Final = ("odds-first", "stack")
"""Tasks for which the paper computes places again before layer 4."""

GROWTH: Final = ((5, 1), (10, 1), (20, 2), (30, 2), (40, 2))
"""The paper's curriculum: longest lengths, and proportions of its updates (5,000, 5,000, 3 x 10,000)."""


class DataOptions(Options):
    """Training data."""

    longest: int = Field(default=0, ge=0)
    """Longest training length; 0: the task's, as in the paper."""
    mixed: bool = False
    """Whether every example of a batch has its own length; otherwise a batch has one length, which avoids
    padding where it determines the length of the answer."""
    growth: float = Field(default=0.25, ge=0, le=1)
    """Share of the updates in which lengths grow, in the proportions of :data:`GROWTH`, up to the longest; 0:
    all lengths from the first update on."""
    valid_samples: int = Field(default=200, ge=1)
    """Validation examples of the longest training length, and of twice that."""


class StartOptions(Options):
    """Initialisation of the weights."""

    latch: float = Field(default=4.0, ge=0, le=100)
    """Initial gain of the cursors' recurrence from its state to its candidate state. Above about 1.4 a
    switched unit stays switched, as a cursor that turns round at ``=`` must for the whole answer. 0: the
    model's own initialisation."""
    embedding: float = Field(default=0.0, ge=0, le=100)
    """Initial standard deviation of the embeddings; 0: the model's own, 0.02. Sinusoids have 0.7, beside
    which small embeddings are hardly visible at first."""


class LossOptions(Options):
    """Weights of the loss, to which the cross-entropy of the answer contributes with weight 1."""

    crisp: float = Field(default=0.02, ge=0, le=100)
    """Weight of the entropy of the cursors' moves. Uncertain moves make a cursor drift from its place, which
    does not show at training lengths."""
    crisp_from: float = Field(default=0.5, ge=0, le=1)
    """Share of the updates after which it counts: applied from the start, it hinders learning."""


class TaskScheduleOptions(ScheduleOptions):
    """Optimiser and learning-rate schedule: linear rise, plateau, linear fall."""

    FINAL: ClassVar[float] = 0.05

    steps: int = Field(default=800, ge=1)
    """Training steps (updates of the weights)."""
    batch: int = Field(default=64, ge=1)
    """Examples per update."""
    peak_lr: float = Field(default=3e-3, gt=0, le=10)
    """Peak learning rate. The paper's 9e-5 is for 512 channels and 150,000 updates."""
    warm_up_steps: int = Field(default=50, ge=0)
    """Steps over which the rate rises linearly."""
    hold: float = Field(default=0.6, ge=0, le=1)
    """Share of the updates after which the rate falls linearly."""
    betas: Betas = (0.9, 0.98)
    """Decay rates of AdamW's averages of the gradient and of its square."""
    recurrent_decay: float = Field(default=0.0, ge=0, le=10)
    """Weight decay of the recurrence that moves the cursors."""
    cursor_lr: float = Field(default=0.4, ge=0, le=10)
    """Peak learning rate of the cursors' weights in the scores. The paper's 0.03 is for 150,000 updates."""
    cursor_betas: Betas = (0.8, 0.92)
    """``betas`` of these weights."""

    def share(self, step: int) -> float:
        """Learning rate of update ``step`` (from 0), as a share of the peak."""
        rise = min((step + 1) / max(self.warm_up_steps, 1), 1.0)
        fall = (step + 1) / self.steps - self.hold
        down = 1.0 if fall <= 0.0 else 1.0 - (1.0 - self.final_share) * fall / max(1.0 - self.hold, 1e-9)
        return min(rise, down)

    def learning_rate(self, step: int) -> float:
        """Learning rate of update ``step`` (from 0)."""
        return self.peak_lr * self.share(step)


class TaskRunOptions(RunOptions):
    """Execution and output of a run."""

    precision: Literal["32"] = "32"
    """Numerical precision."""
    accumulate: Literal[1] = 1
    """Updates are always computed in one part."""
    log_every: int = Field(default=50, ge=1)
    """Steps per row of the metrics, over which they are averaged."""
    validate_every: int = Field(default=100, ge=1)
    """Updates between validations, which also save the weights for the mean of the best three."""
    save_every: int = Field(default=100, ge=1)
    """Steps between saved states, from which a killed run resumes; validations save one as well."""
    tensorboard: bool = False
    """Whether the metrics are also written as TensorBoard events."""


class TaskOptions(TrainOptions):
    """One training run on a task.

    Raises:
        OptionError: a value is out of range or of the wrong type; the message names option and value.
    """

    task: str = "copy"
    """One of :data:`~training.tasks.algorithmic.TASKS`."""
    positions: Positions = "prism"
    """One of :data:`POSITIONS`."""
    size: Literal["small", "paper"] = "small"
    """A key of :data:`SIZES`."""
    data: DataOptions = DataOptions()
    start: StartOptions = StartOptions()
    loss: LossOptions = LossOptions()
    schedule: TaskScheduleOptions = TaskScheduleOptions()
    run: TaskRunOptions = TaskRunOptions()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in ("positions", "vocab", "max_seq_len"):
            if name in self.model:
                raise OptionError(f"option model.{name}: decided by the task and the option positions")
        find(self.task).require(self.top)
        return self

    @property
    def top(self) -> int:
        """The longest training length."""
        return self.data.longest or TASKS[self.task].longest

    def config(self, tokens: int) -> ModelConfig:
        """The configuration of the model for sequences of up to ``tokens`` tokens.

        Raises:
            OptionError: an unknown field in ``model``, or values that do not fit together.
        """
        fields: dict[str, Any] = {
            "bias": "none",
            "slow_layers": 0,
            "slow_stride": 1,
            "kinematics": False,
            "dropout": 0.0,
            **SIZES[self.size],
            "positions": self.positions,
            **(self._prism(tokens) if self.positions == "prism" else {}),
            **self.model,
            "vocab": SIZE,
            "max_seq_len": tokens,
        }
        return ModelConfig.from_dict(fields)

    def _prism(self, tokens: int) -> dict[str, Any]:
        """PRISM fields, with enough places for all cursors; the weights do not depend on their number."""
        fields: dict[str, Any] = {**PRISM[self.size], "prism_places": tokens + 2}
        if self.size == "paper":
            fields["prism_copy"] = TASKS[self.task].copies
            fields["prism_again"] = 4 if self.task in AGAIN else 0
        return fields

    def reach(self, step: int) -> int:
        """Longest length in update ``step`` (from 0)."""
        least = TASKS[self.task].least
        stages = [(length, share) for length, share in GROWTH if length < self.top]
        done = step / max(self.data.growth * self.schedule.steps, 1e-9) * sum(share for _, share in stages)
        for length, share in stages if self.data.growth else ():
            if done < share:
                return max(length, least)
            done -= share
        return self.top


PAPER: Final[dict[str, Any]] = {
    "size": "paper",
    "steps": 150_000,
    "batch": 100,
    "mixed": True,
    "peak_lr": 9e-5,
    "latch": 0.0,
    "crisp": 0.0,
    "cursor_lr": 0.03,
    "warm_up_steps": 1000,
    "validate_every": 1000,
    "save_every": 1000,
    "valid_samples": 1000,
}
"""Options of the paper's scale, for a GPU."""
