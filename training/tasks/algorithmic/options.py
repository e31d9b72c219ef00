"""Everything that decides the training of a model on a task."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from training.run.settings import check_choice, check_flag, check_real, check_whole, refuse_unknown
from training.tasks.algorithmic.catalog import TASKS, find
from training.tasks.algorithmic.vocabulary import SIZE

POSITIONS: Final = ("prism", "sinusoidal", "rope", "alibi", "none")
"""What is compared; sinusoids are shifted by chance in training, so that all of their table is used."""

HABITS: Final = ("drawn", "dealt")
"""How cursors come to their first habits."""

EXECUTION: Final = ("device", "threads")
"""Options that say how a run is computed, not what: the only ones that may change when it is resumed."""

CURSORS: Final = (
    "recurrent_decay",
    "latch",
    "habits",
    "crisp",
    "crisp_from",
    "sparse",
    "cursor_lr",
    "cursor_betas",
)
"""Options that say nothing to models without cursors."""

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


@dataclass(frozen=True)
class TaskOptions:
    """One training run on a task, from the first weights to the last update.

    Raises:
        OptionError: a value outside its range or of the wrong type; the message names option and value.
    """

    task: str = "copy"
    """One of :data:`~training.tasks.algorithmic.catalog.TASKS`."""
    longest: int = 0
    """Longest training length; 0: the task's, as in the paper."""

    # The model
    positions: str = "prism"
    """One of :data:`POSITIONS`."""
    size: str = "small"
    """A key of :data:`SIZES`."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the model's configuration that differ."""

    # The optimisation
    steps: int = 800
    """Updates of the weights."""
    batch: int = 64
    """Examples per update."""
    mixed: bool = False
    """Whether every example of a batch draws its own length; otherwise the batch draws one, and nothing is
    padded where the answer's length follows from it."""
    growth: float = 0.25
    """Share of the updates in which the lengths grow, in the proportions of :data:`GROWTH`, until the longest
    ones are in; 0: all lengths from the first update on."""
    lr: float = 3e-3
    """Highest learning rate. The paper's 9e-5 is for 512 channels and 150,000 updates."""
    final_lr: float = 0.05
    """The rate at the last update, as a share of ``lr``."""
    warmup: int = 50
    """Updates over which the rate rises from nothing."""
    hold: float = 0.6
    """Share of the updates after which the rate falls, linearly."""
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    """Of the matrices of linear layers."""
    recurrent_decay: float = 0.0
    """Of the recurrence that moves the cursors."""
    latch: float = 4.0
    """What the candidate state of the cursors' recurrence begins with: so many times itself. Above some 1.4 a
    unit that was switched stays switched: a cursor that turns round at ``=`` has to keep that in mind for the
    whole answer. 0: as the model begins by itself."""
    habits: str = "drawn"
    """What cursors tend to do at the start, one of :data:`HABITS`. ``"drawn"``: logits of moves and resets
    drawn for each, with a standard deviation of ``model.prism_spread``. ``"dealt"``: up, down and neither in
    turn, over the queries' cursors and over the keys', each ``model.prism_spread`` above the other two moves;
    all go back to the start as often. Then no model begins without cursors of every direction."""
    embedding: float = 0.0
    """Standard deviation that embeddings begin with. 0: as the model begins, with 0.02. Sinusoids have 0.7:
    beside them tokens are hardly seen, until they have grown."""
    crisp: float = 0.02
    """Weight, in the loss, of the entropy of the cursors' moves. A cursor that is in doubt at every step
    loses its place little by little, and on strings of the training lengths nothing tells it so."""
    crisp_from: float = 0.5
    """Share of the updates after which that counts, and ``sparse``: cursors that may not doubt before they
    know what to do stay as they began."""
    sparse: float = 0.0
    """Weight, in the loss, of the mean magnitude of the cursors' weights in the scores. A cursor that a task
    has no use for otherwise keeps the weight it began with. On strings of the training lengths that is made
    up for; on longer ones its places go further than any seen, and it outweighs the cursors that count."""
    starts: int = 1
    """How many first weights are tried at most, see :mod:`training.tasks.algorithmic.starts`; 1: there are
    no trials."""
    trial: int = 300
    """Updates of a trial; at least so many that all lengths are in."""
    trial_loss: float = 0.05
    """Training loss at the end of a trial below which no more are made; otherwise the least one is kept."""
    cursor_lr: float = 0.4
    """Highest rate of the cursors' weights in the scores. The paper's 0.03 has 150,000 updates."""
    cursor_betas: tuple[float, float] = (0.8, 0.92)
    clip: float = 1.0
    """Largest norm of the gradient; 0: not clipped."""
    seed: int = 0

    # How it is computed
    device: str = "auto"
    threads: int = 0
    """Torch threads; 0: as torch chooses."""

    # What is written when
    log_every: int = 50
    eval_every: int = 100
    """Updates between validations; each keeps the weights, for the mean of the best three."""
    save_every: int = 100
    valid_samples: int = 200
    """Examples of a validation, of the longest training length and of twice that."""

    def __post_init__(self) -> None:
        for name in ("betas", "cursor_betas"):
            object.__setattr__(self, name, _betas(name, getattr(self, name)))
        check_choice("task", self.task, tuple(TASKS))
        check_choice("positions", self.positions, POSITIONS)
        check_choice("size", self.size, tuple(SIZES))
        check_choice("habits", self.habits, HABITS)
        check_choice("device", self.device, ("auto", "cpu", "cuda"))
        check_flag("mixed", self.mixed)
        for name, least in _WHOLE.items():
            check_whole(name, getattr(self, name), least)
        for name, (low, high) in _REAL.items():
            check_real(name, getattr(self, name), low, high)
        if self.starts > 1 and self.trial > self.steps:
            raise OptionError(f"option trial: no more than steps={self.steps}, given {self.trial}")
        if self.lr <= 0.0:
            raise OptionError(f"option lr: expected a number above 0, given {self.lr!r}")
        if not isinstance(self.model, Mapping):
            raise OptionError(f"option model: expected fields of a configuration, given {self.model!r}")
        object.__setattr__(self, "model", dict(self.model))
        for name in ("positions", "vocab", "max_seq_len"):
            if name in self.model:
                raise OptionError(f"option model.{name}: decided by the task and the option positions")
        find(self.task).require(self.top)

    @property
    def top(self) -> int:
        """The longest training length."""
        return self.longest or TASKS[self.task].longest

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
        done = step / max(self.growth * self.steps, 1e-9) * sum(share for _, share in stages)
        for length, share in stages if self.growth else ():
            if done < share:
                return max(length, least)
            done -= share
        return self.top

    def rate(self, step: int) -> float:
        """The learning rate of update ``step`` (from 0), as a share of the highest: a linear rise, a plateau,
        a linear fall."""
        rise = min((step + 1) / max(self.warmup, 1), 1.0)
        fall = (step + 1) / self.steps - self.hold
        down = 1.0 if fall <= 0.0 else 1.0 - (1.0 - self.final_lr) * fall / max(1.0 - self.hold, 1e-9)
        return min(rise, down)

    def to_dict(self) -> dict[str, Any]:
        """All options as plain values that JSON can hold."""
        pairs = {name: list(getattr(self, name)) for name in ("betas", "cursor_betas")}
        return {**dataclasses.asdict(self), **pairs}

    def differences(self, other: "TaskOptions") -> dict[str, tuple[Any, Any]]:
        """Options that differ and decide what is computed: name, own value, other's value."""
        mine, theirs = self.to_dict(), other.to_dict()
        return {
            name: (mine[name], theirs[name])
            for name in mine
            if name not in EXECUTION and mine[name] != theirs[name]
        }


_WHOLE: Final = {
    "longest": 0,
    "steps": 1,
    "batch": 1,
    "warmup": 0,
    "starts": 1,
    "trial": 1,
    "seed": 0,
    "threads": 0,
    "log_every": 1,
    "eval_every": 1,
    "save_every": 1,
    "valid_samples": 1,
}

_REAL: Final = {
    "growth": (0.0, 1.0),
    "lr": (0.0, 10.0),
    "final_lr": (0.0, 1.0),
    "hold": (0.0, 1.0),
    "weight_decay": (0.0, 10.0),
    "recurrent_decay": (0.0, 10.0),
    "latch": (0.0, 100.0),
    "crisp": (0.0, 100.0),
    "crisp_from": (0.0, 1.0),
    "sparse": (0.0, 100.0),
    "trial_loss": (0.0, 100.0),
    "embedding": (0.0, 100.0),
    "cursor_lr": (0.0, 10.0),
    "clip": (0.0, 1e9),
}

PAPER: Final[dict[str, Any]] = {
    "size": "paper",
    "steps": 150_000,
    "batch": 100,
    "mixed": True,
    "lr": 9e-5,
    "latch": 0.0,
    "crisp": 0.0,
    "cursor_lr": 0.03,
    "warmup": 1000,
    "eval_every": 1000,
    "save_every": 1000,
    "valid_samples": 1000,
}
"""The paper's scale; for a GPU."""


def from_dict(fields: Mapping[str, Any]) -> TaskOptions:
    """Options from plain values; what is not named stays at its default.

    Raises:
        OptionError: an unknown name (with the nearest known one), or a value out of range.

    >>> from_dict({"step": 1})
    Traceback (most recent call last):
        ...
    pyanticip.errors.OptionError: unknown option 'step'; did you mean 'steps'?
    """
    refuse_unknown(fields, TaskOptions)
    return TaskOptions(**fields)


def _betas(name: str, given: Any) -> tuple[float, float]:
    try:
        first, second = (float(value) for value in given)
    except (TypeError, ValueError):
        first = second = math.nan
    if not (0.0 <= first < 1.0 and 0.0 <= second < 1.0):
        raise OptionError(f"option {name}: expected two numbers from 0 to below 1, given {given!r}")
    return first, second
