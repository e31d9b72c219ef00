"""What options of models and of their parts have in common. No torch."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pyanticip.errors import OptionError, suggestion

Count = Annotated[int, Field(ge=1, le=1_048_576)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0, lt=1e12)]


def without_removed(options: Mapping[str, Any], removed: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Options without those that are no more: files that name them at their default are still read.

    Args:
        removed: names and defaults of those that are no more.
        prefix: what stands before the name in a message.

    Raises:
        OptionError: one of them has another value than its default.
    """
    for name, usual in removed.items():
        if name in options and options[name] != usual:
            raise OptionError(
                f"{prefix}{name} is gone: only its default {usual!r} is still read, got {options[name]!r}"
            )
    return {name: value for name, value in options.items() if name not in removed}


class Config(BaseModel):
    """Options: frozen, of exact types, without unknown names.

    Raises:
        OptionError: an unknown option (with the nearest known one), or a value out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    owner: ClassVar[str] = "model"
    """Whose options they are, for messages."""

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
        """The same with some options changed."""
        return type(self)(**{**self.to_dict(), **changes})

    @classmethod
    def _line(cls, error: ValidationError) -> str:
        """The first thing that is wrong, in one line."""
        first, *others = error.errors(include_url=False)
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "value_error":
            return str(first["ctx"]["error"])
        if first["type"] == "extra_forbidden":
            known = [field.alias or own for own, field in cls.model_fields.items()]
            return f"unknown {cls.owner} option {name!r}{suggestion(name, known)}"
        same = [first, *(each for each in others if each["loc"][:1] == first["loc"][:1])]
        wanted = " or ".join(each["msg"].removeprefix("Input should be ") for each in same)
        return f"{cls.owner} option {name} must be {wanted}, got {first['input']!r}"


class PartConfig(Config):
    """Options of a part; this class is that of one without any."""

    owner: ClassVar[str] = "part"
    kind: str
    """Its name among those of the registry that it could be replaced by."""


class PositionConfig(PartConfig):
    """Options of a position scheme."""

    owner: ClassVar[str] = "positions"
