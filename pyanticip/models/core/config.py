"""Base classes of the options of models and parts. Does not import torch."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pyanticip.errors import OptionError, suggestion

Count = Annotated[int, Field(ge=1, le=1_048_576)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0, lt=1e12)]


def without_removed(options: Mapping[str, Any], removed: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Drop removed options, so that files that name one at its default can still be read.

    Args:
        removed: names of the removed options and their defaults.
        prefix: text before the name in an error message.

    Raises:
        OptionError: a removed option has a value other than its default.
    """
    for name, default in removed.items():
        if name in options and options[name] != default:
            raise OptionError(
                f"{prefix}{name} is gone: only its default {default!r} is still read, got {options[name]!r}"
            )
    return {name: value for name, value in options.items() if name not in removed}


class Config(BaseModel):
    """Base class of options: frozen, strictly typed, unknown names refused.

    Raises:
        OptionError: an unknown option (with the nearest known one), or a value out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    owner: ClassVar[str] = "model"
    """What the options belong to, for error messages."""

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise OptionError(self._line(error)) from None

    def to_dict(self) -> dict[str, Any]:
        """All options as plain values, for a checkpoint's JSON."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Rebuild options from :meth:`to_dict`."""
        return cls(**fields)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some options changed."""
        return type(self)(**{**self.to_dict(), **changes})

    @classmethod
    def _line(cls, error: ValidationError) -> str:
        """The first validation error, in one line."""
        first, *others = error.errors(include_url=False)
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "value_error":
            return str(first["ctx"]["error"])
        if first["type"] == "extra_forbidden":
            known = [field.alias or own for own, field in cls.model_fields.items()]
            return f"unknown {cls.owner} option {name!r}{suggestion(name, known)}"
        same_field = [first, *(each for each in others if each["loc"][:1] == first["loc"][:1])]
        expected = " or ".join(each["msg"].removeprefix("Input should be ") for each in same_field)
        return f"{cls.owner} option {name} must be {expected}, got {first['input']!r}"


class PartConfig(Config):
    """Options of a part; used as it is by parts that have no options."""

    owner: ClassVar[str] = "part"
    kind: str
    """Name of the implementation in the registry."""


class PositionConfig(PartConfig):
    """Options of a position scheme."""

    owner: ClassVar[str] = "positions"
