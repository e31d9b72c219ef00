"""Options of a run: declared in tables, each with its range and meaning; set in code, in a TOML file or as
``name=value``; errors are one line that names table, option and value."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from pyanticip.errors import OptionError, suggestion
from pyanticip.untrusted import read_toml
from training.run.settings import merge, setting


def pair(what: str, is_valid: Callable[[Any], bool], *, ascending: bool = False) -> BeforeValidator:
    """Validator of two numbers, as a tuple or a TOML array.

    Args:
        what: description of the expected value, for the error message.
        is_valid: checks one of the numbers.
        ascending: whether the second must not be below the first.
    """

    def check(given: Any) -> tuple[Any, Any]:
        if isinstance(given, (list, tuple)) and len(given) == 2:
            first, second = given
            numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in given)
            if numbers and is_valid(first) and is_valid(second) and not (ascending and second < first):
                return first, second
        raise ValueError(f"expected {what}")

    return BeforeValidator(check)


Betas = Annotated[tuple[float, float], pair("two numbers from 0 to below 1", lambda beta: 0.0 <= beta < 1.0)]
"""Decays of an optimiser's averages, of the gradient and of its square."""

Text = Annotated[str, BeforeValidator(lambda given: str(given) if isinstance(given, Path) else given)]
"""A text, or a path, which becomes its text."""


def _as_texts(given: Any) -> Any:
    if isinstance(given, (list, tuple)) and all(isinstance(one, (str, Path)) for one in given):
        return tuple(map(str, given))
    raise ValueError("expected an array of texts")


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]
"""Several texts or paths, as a tuple or a TOML array."""


class Options(BaseModel):
    """A table of options. The docstring of each field is also its help text on the command line."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class ScheduleOptions(Options):
    """Optimiser and learning-rate schedule."""

    steps: int = Field(default=1000, ge=1)
    """Training steps (updates of the weights)."""
    peak_lr: float = Field(default=1e-3, ge=0, le=10)
    """Learning rate after the warm-up."""
    final_lr: float | None = Field(default=None, ge=0, le=10)
    """Learning rate at the last step; not given: a share of ``peak_lr``."""
    warm_up_steps: int | None = Field(default=None, ge=0)
    """Steps over which the rate rises linearly; not given: a tenth of all."""
    weight_decay: float = Field(default=0.01, ge=0, le=10)
    """Of matrices."""
    clip_norm: float = Field(default=1.0, ge=0)
    """Largest norm of the gradient; 0: not clipped."""
    betas: Betas = (0.9, 0.95)
    """Decay rates of AdamW's averages of the gradient and of its square."""
    seed: int = Field(default=0, ge=0)
    """Random seed."""

    FINAL: ClassVar[float] = 0.1
    """Default learning rate at the last step, relative to ``peak_lr``."""

    @property
    def final_share(self) -> float:
        """Learning rate at the last step, relative to ``peak_lr``."""
        return self.FINAL if self.final_lr is None else self.final_lr / (self.peak_lr or 1.0)

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if type(self).model_fields["final_lr"].default is None and self.final_share > 1.0:
            raise OptionError(
                f"option schedule.final_lr: a rate up to peak_lr={self.peak_lr:g} is needed, "
                f"got {self.final_lr:g}"
            )
        return self

    def learning_rate(self, step: int) -> float:
        """Learning rate of update ``step`` (from 0): linear warm-up, then a cosine down to the last step.

        The warm-up is limited to the length of the run.
        """
        warm_up = round(0.1 * self.steps) if self.warm_up_steps is None else self.warm_up_steps
        rise = min(max(1, warm_up), self.steps)
        if step < rise:
            return self.peak_lr * ((step + 1) / rise)
        done = min((step + 1 - rise) / max(self.steps - rise, 1), 1.0)
        final = self.final_share
        return self.peak_lr * (final + 0.5 * (1.0 - final) * (1.0 + math.cos(math.pi * done)))


class AveragedScheduleOptions(ScheduleOptions):
    """Optimiser, learning-rate schedule, and averaging of the weights."""

    ema: float = Field(default=0.998, ge=0, lt=1)
    """Decay of the averaged weights, which are the ones that are judged and exported."""

    def average_decay(self, done: int) -> float:
        """Decay of the averaged weights in update ``done`` (from 1): smaller in the first updates, so that
        the average forgets the initial weights quickly."""
        return min(self.ema, (1.0 + done) / (10.0 + done))


class RunOptions(Options):
    """How a run is computed, and when it writes what."""

    precision: Literal["32", "bf16", "16"] = "32"
    """``"32"``, or mixed with ``"bf16"`` or ``"16"`` (CUDA only)."""
    accumulate: int = Field(default=1, ge=1)
    """Gradient accumulation steps of an update, to save memory."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Compute device."""
    threads: int = Field(default=0, ge=0, le=1000)
    """Torch threads; 0: as torch chooses."""
    log_every: int = Field(default=10, ge=1)
    """Steps per row of the metrics, which are means over them."""
    validate_every: int = Field(default=200, ge=1)
    """Steps between validations; there is always one at the end."""
    save_every: int = Field(default=200, ge=1)
    """Steps between the states that a killed run goes on from; there is one at every validation too."""
    tensorboard: bool = True
    """Whether the metrics are written as TensorBoard events too."""


class TrainOptions(Options):
    """Options of a training run: fields of the model's configuration, and tables of options.

    An option can always be given in its table or by its bare name, which is unique among the tables:
    ``schedule={"steps": 50}`` or ``steps=50``; ``data="file"`` stands for ``data.path``.

    Raises:
        OptionError: an unknown name (with the nearest known one), or a value out of range or of the wrong
            type; the message names table, option and value.
    """

    model: Annotated[dict[str, Any], BeforeValidator(lambda v: dict(v) if isinstance(v, Mapping) else v)] = {}
    """Fields of the model's configuration that differ from its preset."""
    schedule: ScheduleOptions = ScheduleOptions()
    run: RunOptions = RunOptions()

    EXECUTION: ClassVar[tuple[str, ...]] = ("run.device", "run.threads", "run.accumulate", "run.tensorboard")
    """Options of how a run is computed: the only ones that may change when a run is resumed."""
    FLAGS: ClassVar[Mapping[str, str]] = {"lr": "schedule.peak_lr"}
    """Options with another name on the command line."""

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**self.by_table(given))
        except ValidationError as error:
            raise OptionError(self._error_line(error)) from None

    @classmethod
    def tables(cls) -> dict[str, type[Options]]:
        """The tables of options by name."""
        kinds = {name: field.annotation for name, field in cls.model_fields.items()}
        return {n: k for n, k in kinds.items() if isinstance(k, type) and issubclass(k, Options)}

    @classmethod
    def place(cls, name: str) -> str:
        """The full name of a bare name: ``table.name``, or the name itself if it is in no table.

        Raises:
            OptionError: an unknown name.
        """
        if name in cls.model_fields:
            return name
        tables = cls.tables()
        owner = next((table for table, kind in tables.items() if name in kind.model_fields), None)
        if owner is None:
            known = [*cls.model_fields, *(n for kind in tables.values() for n in kind.model_fields)]
            guess = cls.FLAGS.get(name, "").rpartition(".")[2] or name
            raise OptionError(f"unknown option {name!r}{suggestion(guess, known)}")
        return f"{owner}.{name}"

    @classmethod
    def by_table(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Sort options into their tables.

        Raises:
            OptionError: an unknown name, or one that is given twice.
        """
        sorted_options: dict[str, Any] = {}
        tables = cls.tables()
        for name, value in given.items():
            is_data_path = name == "data" and isinstance(value, (str, Path))
            table, _, option = cls.place("path" if is_data_path else name).rpartition(".")
            if not table and name in tables and isinstance(value, Mapping) and name in sorted_options:
                duplicates = set(value) & set(sorted_options[name])
                sorted_options[name] = {**sorted_options[name], **value}
            elif not table:
                duplicates = {option} & set(sorted_options)
                sorted_options[option] = dict(value) if isinstance(value, Mapping) else value
            else:
                target = sorted_options.setdefault(table, {})
                duplicates = {option} & set(target)
                target[option] = value
            for duplicate in duplicates:
                raise OptionError(f"option {duplicate} is given twice")
        return sorted_options

    @classmethod
    def assignments(cls, given: Sequence[str], flags: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Build tables from settings ``table.name=value`` or ``name=value``, and from flags.

        Args:
            given: settings, as on the command line.
            flags: values by name, dotted or bare; None values are ignored.

        Raises:
            OptionError: no ``=``, an unknown name, or the same one twice.
        """
        fields: dict[str, Any] = {}
        from_settings = [setting(text) for text in given]
        full_names = {cls.FLAGS.get(name, name): value for name, value in (flags or {}).items()}
        from_flags = [
            (*name.rpartition(".")[::2], value) for name, value in full_names.items() if value is not None
        ]
        for table, name, value in (*from_settings, *from_flags):
            if table and table not in ("model", *cls.tables()):
                raise OptionError(f"unknown table {table!r}{suggestion(table, ['model', *cls.tables()])}")
            for key, content in cls.by_table({table: {name: value}} if table else {name: value}).items():
                if not isinstance(content, Mapping):
                    if key in ("model", *cls.tables()):
                        raise OptionError(f"option {key}: expected a table of options, got {content!r}")
                    content, target = {key: content}, fields
                else:
                    target = fields.setdefault(key, {})
                for option in set(content) & set(target):
                    where = f"{key}.{option}" if key != option else option
                    raise OptionError(
                        f"option {where} is given twice: {target[option]!r} and {content[option]!r}"
                    )
                target.update(content)
        return fields

    @classmethod
    def gather(
        cls, config: Path | str | None, *over: Mapping[str, Any], under: Mapping[str, Any] = {}
    ) -> Self:
        """Combine options, in rising priority: ``under``, a TOML file, ``over``.

        Raises:
            OptionError: an unreadable file, an unknown name, or a value out of range; for an error in the
                file the message names it.
        """
        file = {} if config is None else read_toml(config, OptionError)
        try:
            given = merge(cls.by_table(file), *(cls.by_table(layer) for layer in over))
            return cls(**merge(cls.by_table(under), cls.dependent_defaults(given), given))
        except OptionError as error:
            try:
                cls(**file)
            except OptionError as file_error:
                if str(file_error) == str(error):
                    raise OptionError(f"{config}: {error}") from None
            raise

    @classmethod
    def dependent_defaults(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Defaults that depend on the given tables."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """All tables as JSON values."""
        return self.model_dump(mode="json")

    def flat(self) -> dict[str, Any]:
        """All options by ``table.name``, as JSON values."""
        return _flat(self.to_dict())

    def replace(self, **changes: Any) -> Self:
        """A copy with changes, such as ``replace(schedule={"steps": 300}, model={"ff": 64}, seed=1)``."""
        return type(self)(**merge(self.to_dict(), self.by_table(changes)))

    def differences(self, other: Self) -> dict[str, tuple[Any, Any]]:
        """Options besides :attr:`EXECUTION` that differ: table.name to own value and other's value."""
        own_values, other_values = self.flat(), other.flat()
        names = [name for name in {**own_values, **other_values} if name not in self.EXECUTION]
        return {
            n: (own_values.get(n), other_values.get(n))
            for n in names
            if own_values.get(n) != other_values.get(n)
        }

    @classmethod
    def _error_line(cls, error: ValidationError) -> str:
        """The first validation error, in one line."""
        first = error.errors(include_url=False)[0]
        where = [str(part) for part in first["loc"]]
        fields: Mapping[str, FieldInfo] = cls.model_fields
        table, names = cls.tables().get(where[0]) if where else None, where[:1]
        if table is not None and len(where) > 1:
            fields, names = table.model_fields, where[:2]
        if first["type"] == "extra_forbidden":
            table_name = "".join(f"{name}." for name in names[:-1])
            return f"unknown option {table_name}{names[-1]!r}{suggestion(names[-1], list(fields))}"
        field = fields.get(names[-1]) if names else None
        if first["type"] == "value_error":
            text = str(first["ctx"]["error"])
            plain = not text.startswith("expected ")
            return text if plain else f"option {'.'.join(names)}: {text}, got {first['input']!r}"
        assert field is not None
        expected = _expected(field.annotation, field.metadata)
        return f"option {'.'.join(names)}: expected {expected}, got {first['input']!r}"


def _flat(tables: Mapping[str, Any], table: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tables.items():
        found |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {f"{table}{name}": value}
    return found


def _expected(kind: Any, bounds: Sequence[Any]) -> str:
    """The accepted values of a field, by its type and bounds, in words."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(str(word) for word in get_args(kind))
    if get_origin(kind) is not None and type(None) in get_args(kind):
        return _expected(get_args(kind)[0], bounds)
    if kind is bool:
        return "true or false"
    if kind not in (int, float):
        return "a text" if kind is str else "a table of options"
    words = "a whole number" if kind is int else "a number"
    for bound in bounds:
        for name, word in (("gt", "above"), ("ge", "from"), ("lt", "to below"), ("le", "to")):
            if hasattr(bound, name):
                words += f" {word} {getattr(bound, name):g}"
    return words
