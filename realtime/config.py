"""Value types and error texts shared by the tables of a rig."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from pyanticip.errors import suggestion
from pyanticip.vocabulary import HORIZONS_MS
from realtime.seams import Registry

Port = Annotated[int, Field(ge=1, le=65535)]
Unit = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(ge=0.0, le=3600.0)]


def number_or(*words: str, low: float, high: float, unit: str = "", whole: bool = False) -> BeforeValidator:
    """Refuses anything but a word of these or a (whole) number in this range, in one line that names both."""
    expected = f"expected {', '.join(words)}, or {low:g} to {high:g}{unit}"

    def check(value: Any) -> Any:
        with contextlib.suppress(TypeError, ValueError):
            if value in words:
                return value
            number = high + 1 if isinstance(value, bool) else float(value)
            if low <= number <= high and not (whole and number % 1):
                return value
        raise PydanticCustomError("number_or_word", expected)

    return BeforeValidator(check)


BufferMs = Annotated[float | Literal["auto"], number_or("auto", low=0, high=100, unit=" ms")]
LeadMs = Annotated[float | Literal["auto"], number_or("auto", low=0, high=HORIZONS_MS[-1], unit=" ms")]


def _check_sender(sender: str) -> str:
    # An IPv6 address contains colons, and is put in brackets before a port.
    has_no_port = sender.endswith("]") or (sender.count(":") != 1 and not sender.startswith("["))
    host, _, port = sender.rpartition(":")
    if has_no_port or (host and port.isdecimal() and 0 < int(port) < 65536):
        return sender
    raise PydanticCustomError("sender", "expected host or host:port")


#: Address of a sender: host, or host:port.
Sender = Annotated[str, Field(min_length=1), AfterValidator(_check_sender)]


def registered(registry: Registry[Any], *also: str, but: str = "") -> AfterValidator:
    """Validates a name: in the seam's ``registry`` or among ``also``, and not ``but``."""

    def check(name: str) -> str:
        if name == but or (name not in also and name not in registry):
            names = [known for known in (*also, *registry.names()) if known != but]
            raise ValueError(f"expected one of {', '.join(names)}, got {name!r}{suggestion(name, names)}")
        return name

    return AfterValidator(check)


def known_name(*known: str, also: str = "") -> AfterValidator:
    """Validates a name: in ``known``, or with the prefix ``also`` of names that are known only while a show
    plays. The error suggests the nearest name."""

    def check(name: str) -> str:
        _check_known([name], known, also)
        return name

    return AfterValidator(check)


def known_keys(*known: str, also: str = "") -> BeforeValidator:
    """Validates the keys of a table, each as :func:`known_name` does, before their values: a key that belongs
    into a table below this one is then named as unknown, not as a table of the wrong type."""

    def check(table: Any) -> Any:
        if isinstance(table, Mapping):
            _check_known(map(str, table), known, also)
        return table

    return BeforeValidator(check)


def _check_known(names: Iterable[str], known: tuple[str, ...], also: str) -> None:
    for name in names:
        if name not in known and not (also and name.startswith(also)):
            listed = (*known, f"{also}<name>") if also else known
            raise ValueError(f"{name}: unknown name{unknown_hint(name, listed)}")


def unknown_hint(name: str, known: tuple[str, ...]) -> str:
    """Text that follows an unknown name: the nearest known one, or all of them."""
    return (
        suggestion(name, known) or f"; expected {'one of' if known else 'none'} {', '.join(known)}".rstrip()
    )


def one_problem(error: ValidationError, table: type[BaseModel], *outer: str) -> str:
    """The first problem of a table at the key path ``outer``, and the number of others."""
    first, *others = problems_of(error, table, *outer)
    return first + (f" (and {len(others)} more)" if others else "")


def problems_of(error: ValidationError, table: type[BaseModel], *outer: str) -> list[str]:
    """One line for each problem: its key and what is wrong, with the nearest known key for an unknown one.

    Unknown keys come first.
    """
    problems = error.errors(include_url=False)
    # Where a name or a list is allowed, pydantic also complains that the list is not a string.
    problems = [p for p in problems if p["loc"][-1:] != ("str",) or not isinstance(p["input"], list | tuple)]
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    return list(dict.fromkeys(_problem_text(problem, table, outer) for problem in problems))


def _problem_text(problem: ErrorDetails, table: type[BaseModel], outer: tuple[str, ...]) -> str:
    kind, value = problem["type"], problem["input"]
    # In a union of number and word, pydantic adds the member it tried to the location.
    loc = tuple(
        part
        for part in problem["loc"]
        if not str(part).endswith(("]", "float", "-int")) and part not in ("int", "str")
    )
    key = ".".join("performer" if part == "performers" else str(part) for part in (*outer, *loc)) or "rig"
    if kind == "extra_forbidden":
        return f"{key}: unknown key{unknown_hint(str(loc[-1]), _keys(_table_at(table, loc[:-1])))}"
    message = problem["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        within = re.match(r"[^\s:]+: ", message)  # the message begins with a key of this table
        return f"{key}{'.' if within else ': '}{message}" if outer or loc else message
    if kind in ("model_type", "dict_type"):
        message = "expected a table" if any(isinstance(part, int) for part in loc) else f"expected [{key}]"
    elif kind == "tuple_type":
        field = _table_at(table, loc[:-1]).model_fields.get(str(loc[-1]))
        if field and _tables(field.annotation):
            if isinstance(value, Mapping):
                return f"{key}: there may be several: expected [[{key}]], got [{key}]"
            message = f"expected [[{key}]]"
        else:
            message = "expected a list"
    return f"{key}: {message[:1].lower()}{message[1:]}, got {value!r}"


def _table_at(table: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The model class at a location of the configuration tree."""
    for part in loc:
        field = table.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            table = next((t for t in _tables(field.annotation)), table)
    return table


def _keys(table: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a table as written in a rig file."""
    return tuple(field.alias or name for name, field in table.model_fields.items())


def _tables(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [t for a in get_args(annotation) for t in _tables(a)]
