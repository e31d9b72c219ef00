"""Everything that decides the training of a motion model: one TOML file of five tables."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from training.run.settings import (
    check_choice,
    check_flag,
    check_real,
    check_whole,
    hint,
    merge,
    read_fields,
    setting,
)

EXECUTION: Final = (
    "data.path",
    "data.cache",
    "data.recipe",
    "data.build_workers",
    "run.device",
    "run.threads",
    "run.workers",
    "run.accumulate",
    "run.tensorboard",
)
"""Options that say where things are and how they are computed, not what: they may change when a run is
resumed (on the same data: that is compared by its digest)."""


@dataclass(frozen=True)
class DataOptions:
    """What a model learns from."""

    path: str = ""
    """A set made by ``train data build``, or a folder of takes, which is built into a set first."""
    copies: int = 16
    """Varied copies of every training clip."""
    copies_seed: int = 0
    """Of the variations; runs with other seeds then share the same copies."""
    recipe: str = "clean"
    """How copies are made: ``"clean"`` other movements, ``"corrupted"`` with what suits and networks do to
    them as well, ``"glitched"`` with bad stretches and which frames they are, or a TOML file
    (:func:`training.data.sets.read_recipe`)."""
    build_workers: int = 0
    """Processes that build sets and copies; 0: one for every core."""
    cache: str = ""
    """Folder of the sets that are built on the way; the user's cache folder by default."""

    def __post_init__(self) -> None:
        for name in ("path", "recipe", "cache"):
            object.__setattr__(self, name, str(getattr(self, name)))
        check_whole("data.build_workers", self.build_workers, 0)
        check_whole("data.copies", self.copies, 0)
        check_whole("data.copies_seed", self.copies_seed, 0)


@dataclass(frozen=True)
class LossOptions:
    """What is minimised: the error of the parameters, weight 1, and these."""

    events: float = 0.02
    """Weight of the negative log-likelihood of the next event."""
    scalars: float = 0.5
    """Weight of the squared error of the seven scalars at both heads."""
    gate: float = 0.02
    """Weight of the commitment gate's cross-entropy with how reliable the hazards were."""
    orthogonality: float = 0.1
    """Weight of the overlap of the bias heads' directions."""
    pose: float = 0.1
    """Weight of the pose forecast; counts where the model has ``pose_horizons``."""
    field: float = 1.0
    """How many times the control field's own small losses count, 1e-3 of its mean risk and 1e-4 of its mean
    curvature; where the model has one."""
    risk: float = 0.0
    """Weight of the likelihood, under the control field's risk, of which frames are bad; needs such a field
    and copies that know their bad frames (``data.recipe = "glitched"``)."""
    distrust: float = 0.0
    """Weight of the same of the risk of the frames as they came alone (``field_input``), beside what ``risk``
    asks of all of them."""
    reset: float = 0.0
    """Weight of the likelihood, under the resets of the first cursors, of where phrases begin; needs
    ``positions="prism"``."""
    plan: float = 0.01
    """Weight of what the anticipator learns, cross-entropy and unlikelihood of the next second's codes; where
    the model plans."""
    plan_shown: bool = True
    """Whether frames look at plans in training. False makes the anticipator a side task, which must then be
    run with empty plans."""
    huber: tuple[float, float] = (0.02, 0.004)
    """Where the parameters' loss turns from quadratic to linear, at the first and at the last step: the large
    errors first, the exactness of a still pose in the end."""
    own_scalars: float = 0.3
    """Share of windows that, at the end of training, are steered by the model's own scalars."""

    def __post_init__(self) -> None:
        for name in (
            "events",
            "scalars",
            "gate",
            "orthogonality",
            "pose",
            "field",
            "risk",
            "distrust",
            "reset",
            "plan",
        ):
            check_real(f"loss.{name}", getattr(self, name), 0.0, 1e3)
        check_flag("loss.plan_shown", self.plan_shown)
        object.__setattr__(self, "huber", _pair("loss.huber", self.huber))
        check_real("loss.own_scalars", self.own_scalars, 0.0, 1.0)


@dataclass(frozen=True)
class ScheduleOptions:
    """How the weights move."""

    steps: int = 2400
    """Updates."""
    batch_frames: int = 3072
    """Frames of an update, over all processes; the number of its windows follows from their length."""
    peak_lr: float = 2e-3
    """Learning rate after the warm-up."""
    final_lr: float = 2e-5
    """Learning rate at the last step."""
    warm_up_steps: int = 200
    """Steps over which the rate rises linearly."""
    weight_decay: float = 0.01
    """Of everything with more than one dimension."""
    clip_norm: float = 1.0
    """Largest norm of the gradient."""
    ema: float = 0.998
    """Decay of the averaged weights, which are the ones that are judged and exported."""
    patience: int = 0
    """Validations without a better score after which a run ends; 0: never."""
    seed: int = 0
    """Of the first weights, the windows and dropout."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch_frames", 1), ("warm_up_steps", 0), ("patience", 0)):
            check_whole(f"schedule.{name}", getattr(self, name), least)
        check_whole("schedule.seed", self.seed, 0)
        for name, high in (("peak_lr", 10.0), ("final_lr", 10.0), ("weight_decay", 10.0), ("ema", 1.0)):
            check_real(f"schedule.{name}", getattr(self, name), 0.0, high)
        check_real("schedule.clip_norm", self.clip_norm, 1e-9, 1e9)
        if self.ema == 1.0:
            raise OptionError("option schedule.ema: expected a number below 1, given 1")

    def learning_rate(self, step: int) -> float:
        """Of update ``step`` (from 0): linear warm-up, then a cosine down to ``final_lr``."""
        if step < self.warm_up_steps:
            return self.peak_lr * (step + 1) / self.warm_up_steps
        done = (step - self.warm_up_steps) / max(self.steps - self.warm_up_steps, 1)
        half = 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))
        return self.final_lr + (self.peak_lr - self.final_lr) * half


@dataclass(frozen=True)
class RunOptions:
    """How a run is computed, and what it writes when."""

    init: str = ""
    """Checkpoint to start from, with its sizes and its normalisation; the schedule is then a gentler one."""
    precision: str = "32"
    """``"32"``, or mixed with ``"bf16"`` or ``"16"`` (CUDA only)."""
    accumulate: int = 1
    """Parts that a process computes its share of an update in, to save memory."""
    device: str = "auto"
    """``"auto"``, ``"cpu"`` or ``"cuda"``."""
    threads: int = 0
    """Torch threads; 0: as torch chooses."""
    workers: int = 0
    """Processes that gather windows ahead; 0: gathered between the updates."""
    log_every: int = 50
    """Steps per row of the metrics, which are means over them."""
    validate_every: int = 200
    """Steps between validations; there is always one at the end."""
    save_every: int = 200
    """Steps between the states that a killed run goes on from; there is one at every validation too."""
    tensorboard: bool = True
    """Whether the metrics are written as TensorBoard events too."""
    shrink: bool = True
    """Whether the parameters 400 ms ahead are drawn towards a slow hold at the end, where that helps."""
    export: bool = True
    """Whether the best weights are written as a checkpoint that can play."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "init", str(self.init))
        check_choice("run.precision", self.precision, ("32", "bf16", "16"))
        check_choice("run.device", self.device, ("auto", "cpu", "cuda"))
        for name in ("accumulate", "log_every", "validate_every", "save_every"):
            check_whole(f"run.{name}", getattr(self, name), 1)
        for name in ("threads", "workers"):
            check_whole(f"run.{name}", getattr(self, name), 0)
        for name in ("tensorboard", "shrink", "export"):
            check_flag(f"run.{name}", getattr(self, name))


@dataclass(frozen=True)
class MotionTrainOptions:
    """One training run of a motion model.

    Raises:
        OptionError: a value out of its range; the message names table, option and value.
    """

    model: Mapping[str, Any] = field(default_factory=dict)
    """Fields of :class:`~pyanticip.models.ModelConfig` that differ from the shipped model's."""
    data: DataOptions = field(default_factory=DataOptions)
    loss: LossOptions = field(default_factory=LossOptions)
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", {name: _plain(value) for name, value in self.model.items()})
        if self.loss.risk > 0.0 and not self.config().control_field:
            raise OptionError(
                f"option loss.risk: {self.loss.risk:g} needs a model with model.control_field=true: the risk "
                "is what its field is taught"
            )
        if self.loss.distrust > 0.0 and not self.config().field_input:
            raise OptionError(
                f"option loss.distrust: {self.loss.distrust:g} needs a model with model.field_input=true"
            )
        if self.loss.reset > 0.0 and self.config().positions != "prism":
            raise OptionError(
                f"option loss.reset: {self.loss.reset:g} needs a model with model.positions='prism': other "
                "positions have no cursors that could reset"
            )
        self.config()

    def config(self) -> ModelConfig:
        """The model's configuration.

        Raises:
            OptionError: an unknown field, or values that do not fit together.
        """
        return ModelConfig.from_dict(self.model)

    def huber_at(self, step: int) -> float:
        """The parameters' corner in update ``step``: geometric from the first to the last."""
        first, last = self.loss.huber
        return float(first * (last / first) ** min(step / self.schedule.steps, 1.0))

    def sampled(self, step: int) -> float:
        """Share of the windows of update ``step`` that are steered by the model's own scalars."""
        return self.loss.own_scalars * min(step / self.schedule.steps, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """All tables as plain values that JSON can hold."""
        return {name: _plain(table) for name, table in dataclasses.asdict(self).items()}

    def but(self, **tables: Mapping[str, Any]) -> "MotionTrainOptions":
        """The same options but for these, by table: ``but(schedule={"steps": 300}, model={"ff": 64})``."""
        return from_tables(merge(self.to_dict(), tables))

    def differences(self, other: "MotionTrainOptions") -> dict[str, tuple[Any, Any]]:
        """Options that differ and decide what is computed: table.name, own value, other's value."""
        mine, theirs = _flat(self.to_dict()), _flat(other.to_dict())
        names = [name for name in {**mine, **theirs} if name not in EXECUTION]
        return {n: (mine.get(n), theirs.get(n)) for n in names if mine.get(n) != theirs.get(n)}


TABLES: Final = {
    "data": DataOptions,
    "loss": LossOptions,
    "schedule": ScheduleOptions,
    "run": RunOptions,
}

REFINE: Final = {
    "schedule": {"peak_lr": 8e-4, "warm_up_steps": 100},
    "loss": {"huber": [0.01, 0.004]},
}
"""What is different, unless it is given, for a run that starts from a checkpoint."""


def from_tables(fields: Mapping[str, Any]) -> MotionTrainOptions:
    """Options from plain tables; what is not named stays at its default.

    Raises:
        OptionError: an unknown name (with the nearest known one), or a value out of range.

    >>> from_tables({"schedule": {"step": 50}})
    Traceback (most recent call last):
        ...
    pyanticip.errors.OptionError: unknown option schedule.'step'; did you mean 'steps'?
    """
    tables: dict[str, Any] = {}
    for table, content in fields.items():
        if table != "model" and table not in TABLES:
            owner = [owner for owner, kind in TABLES.items() if table in _names(kind)]
            where = f"; it belongs into the table [{owner[0]}]" if owner else hint(table, ["model", *TABLES])
            raise OptionError(f"unknown table {table!r}{where}")
        if not isinstance(content, Mapping):
            raise OptionError(f"{table}: expected a table of options, given {content!r}")
        if table == "model":
            tables[table] = content
            continue
        known = _names(TABLES[table])
        for name in content:
            if name not in known:
                raise OptionError(f"unknown option {table}.{name!r}{hint(name, known)}")
        tables[table] = TABLES[table](**content)
    return MotionTrainOptions(**tables)


def assignments(given: Sequence[str]) -> dict[str, Any]:
    """Tables from ``table.name=value``; the table may be left out where the name is an option of one only.

    Raises:
        OptionError: no ``=``, an unknown name, or the same one twice.

    >>> assignments(["steps=50", "model.bias=random"])
    {'schedule': {'steps': 50}, 'model': {'bias': 'random'}}
    """
    fields: dict[str, Any] = {}
    for each in given:
        table, name, value = setting(each)
        if not table:
            owners = [owner for owner, kind in TABLES.items() if name in _names(kind)]
            if not owners:
                known = [n for kind in TABLES.values() for n in _names(kind)]
                raise OptionError(f"--set: unknown option {name!r}{hint(name, known)}")
            table = owners[0]
        into = fields.setdefault(table, {})
        if name in into:
            raise OptionError(f"--set: {table}.{name} is given twice")
        into[name] = value
    return fields


def gather(config: Path | str | None, *layers: Mapping[str, Any]) -> MotionTrainOptions:
    """Options of a TOML file and of what is given beside it, which wins; see :data:`REFINE`.

    Raises:
        OptionError: a file that cannot be used, an unknown name, a value out of range; what is wrong in the
            file is said with its name.
    """
    given: dict[str, Any] = {}
    if config is not None:
        given = read_fields(config)
        try:
            from_tables(given)
        except OptionError as error:
            raise OptionError(f"{config}: {error}") from None
    given = merge(given, *layers)
    return from_tables(merge(REFINE, given) if given.get("run", {}).get("init") else given)


def _names(kind: type) -> list[str]:
    return [each.name for each in dataclasses.fields(kind)]


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{table}.{name}": value for table, content in tables.items() for name, value in content.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _pair(name: str, given: Any) -> tuple[float, float]:
    try:
        first, last = (float(value) for value in given)
    except (TypeError, ValueError):
        first = last = 0.0
    if not (math.isfinite(first + last) and min(first, last) > 0.0):
        raise OptionError(f"option {name}: expected two numbers above 0, given {given!r}")
    return first, last
