"""Everything that decides the training of a model on a task."""

from typing import Any, ClassVar, Final, Literal, Self, get_args

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from training.run.options import Betas, Options, RunOptions, ScheduleOptions, TrainOptions
from training.tasks.algorithmic import TASKS, find
from training.tasks.algorithmic.problem import SIZE

Positions = Literal["prism", "sinusoidal", "rope", "alibi", "none"]

POSITIONS: Final[tuple[str, ...]] = get_args(Positions)
"""What is compared; sinusoids are shifted by chance in training, so that all of their table is used."""

SIZES: Final[dict[str, dict[str, Any]]] = {
    "small": {"d_model": 64, "heads": 4, "fast_layers": 2, "ff": 256},
    "paper": {"d_model": 512, "heads": 8, "fast_layers": 5, "ff": 2048},
}
"""Shapes of the model: one that trains on a laptop, and the paper's baseline."""

PRISM: Final[dict[str, dict[str, Any]]] = {
    # Cursors that differ in their habits from the start, and scores that tell places apart from the start,
    # take hundreds of updates to a program that counts where even ones take the paper's tens of thousands.
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
    # 140 cursors = 5 layers x 7 heads x 4: ours are shared by the layers. 340 channels = 4 cursors x 85.
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
"""Tasks for which the paper makes places anew before layer 4."""

GROWTH: Final = ((5, 1), (10, 1), (20, 2), (30, 2), (40, 2))
"""The paper's curriculum: longest lengths, and the shares of its updates (5,000, 5,000, then 10,000 each)."""


class DataOptions(Options):
    """What a model learns from."""

    longest: int = Field(default=0, ge=0)
    """Longest training length; 0: the task's, as in the paper."""
    mixed: bool = False
    """Whether every example of a batch draws its own length; otherwise the batch draws one, and nothing is
    padded where the answer's length follows from it."""
    growth: float = Field(default=0.25, ge=0, le=1)
    """Share of the updates in which the lengths grow, in the proportions of :data:`GROWTH`, until the longest
    ones are in; 0: all lengths from the first update on."""
    valid_samples: int = Field(default=200, ge=1)
    """Examples of a validation, of the longest training length and of twice that."""


class StartOptions(Options):
    """The first weights."""

    latch: float = Field(default=4.0, ge=0, le=100)
    """What the candidate state of the cursors' recurrence begins with: so many times itself. Above some 1.4 a
    unit that was switched stays switched: a cursor that turns round at ``=`` has to keep that in mind for the
    whole answer. 0: as the model begins by itself."""
    embedding: float = Field(default=0.0, ge=0, le=100)
    """Standard deviation that embeddings begin with. 0: as the model begins, with 0.02. Sinusoids have 0.7:
    beside them tokens are hardly seen, until they have grown."""


class LossOptions(Options):
    """What is minimised: the cross-entropy of the answer, and this."""

    crisp: float = Field(default=0.02, ge=0, le=100)
    """Weight, in the loss, of the entropy of the cursors' moves. A cursor that is in doubt at every step
    loses its place little by little, and on strings of the training lengths nothing tells it so."""
    crisp_from: float = Field(default=0.5, ge=0, le=1)
    """Share of the updates after which that counts: cursors that may not doubt before they know what to do
    stay as they began."""


class TaskScheduleOptions(ScheduleOptions):
    """How the weights move: a linear rise, a plateau, a linear fall."""

    FINAL: ClassVar[float] = 0.05

    steps: int = Field(default=800, ge=1)
    """Training steps (updates of the weights)."""
    batch: int = Field(default=64, ge=1)
    """Examples per update."""
    peak_lr: float = Field(default=3e-3, gt=0, le=10)
    """Highest learning rate. The paper's 9e-5 is for 512 channels and 150,000 updates."""
    warm_up_steps: int = Field(default=50, ge=0)
    """Steps over which the rate rises linearly."""
    hold: float = Field(default=0.6, ge=0, le=1)
    """Share of the updates after which the rate falls, linearly."""
    betas: Betas = (0.9, 0.98)
    """Decays of AdamW's averages, of the gradient and of its square."""
    recurrent_decay: float = Field(default=0.0, ge=0, le=10)
    """Weight decay of the recurrence that moves the cursors."""
    cursor_lr: float = Field(default=0.4, ge=0, le=10)
    """Highest rate of the cursors' weights in the scores. The paper's 0.03 has 150,000 updates."""
    cursor_betas: Betas = (0.8, 0.92)
    """Of those."""

    def share(self, step: int) -> float:
        """The learning rate of update ``step`` (from 0), as a share of the highest."""
        rise = min((step + 1) / max(self.warm_up_steps, 1), 1.0)
        fall = (step + 1) / self.steps - self.hold
        down = 1.0 if fall <= 0.0 else 1.0 - (1.0 - self.final_share) * fall / max(1.0 - self.hold, 1e-9)
        return min(rise, down)

    def learning_rate(self, step: int) -> float:
        """Of update ``step`` (from 0)."""
        return self.peak_lr * self.share(step)


class TaskRunOptions(RunOptions):
    """How a run is computed, and what it writes when."""

    precision: Literal["32"] = "32"
    """Of all numbers."""
    accumulate: Literal[1] = 1
    """Updates are computed in one part."""
    log_every: int = Field(default=50, ge=1)
    """Steps per row of the metrics, which are means over them."""
    validate_every: int = Field(default=100, ge=1)
    """Updates between validations; each keeps the weights, for the mean of the best three."""
    save_every: int = Field(default=100, ge=1)
    """Steps between the states that a killed run goes on from; there is one at every validation too."""
    tensorboard: bool = False
    """Whether the metrics are written as TensorBoard events too."""


class TaskOptions(TrainOptions):
    """One training run on a task, from the first weights to the last update.

    Raises:
        OptionError: a value outside its range or of the wrong type; the message names option and value.
    """

    task: str = "copy"
    """One of :data:`~training.tasks.algorithmic.TASKS`."""
    positions: Positions = "prism"
    """What is compared; sinusoids are shifted by chance in training, so that all of their table is used."""
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
        """The configuration of the model for sequences of so many tokens.

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
        """As many places as tokens: no cursor ever comes to the last one. The weights do not depend on it."""
        fields: dict[str, Any] = {**PRISM[self.size], "prism_places": tokens + 2}
        if self.size == "paper":
            fields["prism_copy"] = TASKS[self.task].copies
            fields["prism_again"] = 4 if self.task in AGAIN else 0
        return fields

    def reach(self, step: int) -> int:
        """The longest length of update ``step`` (from 0)."""
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
"""The paper's scale; for a GPU."""
