"""Kinds of values that several tables of a rig have."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from pyanticip.errors import suggestion
from pyanticip.vocabulary import HORIZONS_MS
from realtime.seams import Registry

__all__ = [
    "BufferMs",
    "LeadMs",
    "Port",
    "Seconds",
    "Sender",
    "Unit",
    "known_keys",
    "one_problem",
    "problems_of",
    "registered",
    "unknown",
]

Port = Annotated[int, Field(ge=1, le=65535)]
Unit = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(ge=0.0, le=3600.0)]


def _auto_or_ms(most: int) -> BeforeValidator:
    def check(value: Any) -> Any:
        with contextlib.suppress(TypeError, ValueError):
            if value == "auto" or (not isinstance(value, bool) and 0.0 <= float(value) <= most):
                return value
        raise PydanticCustomError("milliseconds", f"expected auto, or 0 to {most} ms")

    return BeforeValidator(check)


BufferMs = Annotated[float | Literal["auto"], _auto_or_ms(100)]
LeadMs = Annotated[float | Literal["auto"], _auto_or_ms(HORIZONS_MS[-1])]


def _a_sender(who: str) -> str:
    # An IPv6 address has colons of its own, and stands in brackets before a port.
    alone = who.endswith("]") or (who.count(":") != 1 and not who.startswith("["))
    host, _, port = who.rpartition(":")
    if alone or (host and port.isdecimal() and 0 < int(port) < 65536):
        return who
    raise PydanticCustomError("sender", "expected host or host:port")


#: Who sends: host, or host:port.
Sender = Annotated[str, Field(min_length=1), AfterValidator(_a_sender)]


def registered(registry: Registry[Any], *also: str, but: str = "") -> AfterValidator:
    """Annotates a name that a seam's registry knows, but for one, or that is one of ``also``."""

    def check(name: str) -> str:
        if name == but or (name not in also and name not in registry):
            names = [known for known in (*also, *registry.names()) if known != but]
            raise ValueError(f"expected one of {', '.join(names)}, got {name!r}{suggestion(name, names)}")
        return name

    return AfterValidator(check)


def known_keys(*known: str, also: str = "") -> AfterValidator:
    """Annotates a table whose keys are among the known names, or begin with ``also`` (what is known only
    while a show plays); the error suggests the nearest."""

    def check(table: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in table:
            if name not in known and not (also and name.startswith(also)):
                listed = (*known, f"{also}<name>") if also else known
                raise ValueError(f"{name}: unknown name{unknown(name, listed)}")
        return table

    return AfterValidator(check)


def unknown(name: str, known: tuple[str, ...]) -> str:
    """What to say behind an unknown name."""
    return (
        suggestion(name, known) or f"; expected {'one of' if known else 'none'} {', '.join(known)}".rstrip()
    )


def one_problem(error: ValidationError, table: type[BaseModel], *outer: str) -> str:
    """The first problem with a table that lies at the keys ``outer``, and how many more there are."""
    first, *others = problems_of(error, table, *outer)
    return first + (f" (and {len(others)} more)" if others else "")


def problems_of(error: ValidationError, table: type[BaseModel], *outer: str) -> list[str]:
    """Each problem: its key and, for an unknown one, the nearest known. Unknown keys come first."""
    problems = error.errors(include_url=False)
    # Of what may be a name or a list, a list is no wrong name.
    problems = [p for p in problems if p["loc"][-1:] != ("str",) or not isinstance(p["input"], list | tuple)]
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    return list(dict.fromkeys(_problem_text(problem, table, outer) for problem in problems))


def _problem_text(problem: ErrorDetails, table: type[BaseModel], outer: tuple[str, ...]) -> str:
    kind, given = problem["type"], problem["input"]
    # Where there may be a number or a word, pydantic names which of them it tried.
    loc = tuple(
        part
        for part in problem["loc"]
        if not str(part).endswith(("]", "float", "-int")) and part not in ("int", "str")
    )
    key = ".".join("performer" if part == "performers" else str(part) for part in (*outer, *loc)) or "rig"
    if kind == "extra_forbidden":
        return f"{key}: unknown key{unknown(str(loc[-1]), _keys(_table_at(table, loc[:-1])))}"
    message = problem["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        within = re.match(r"[^\s:]+: ", message)  # it begins with a key of the table
        return f"{key}{'.' if within else ': '}{message}" if outer or loc else message
    if kind == "tuple_type" and isinstance(given, Mapping):
        return f"{key}: there may be several: expected [[{key}]], got [{key}]"
    if kind in ("model_type", "dict_type"):
        message = "expected a table" if any(isinstance(part, int) for part in loc) else f"expected [{key}]"
    elif kind == "tuple_type":
        field = _table_at(table, loc[:-1]).model_fields.get(str(loc[-1]))
        message = f"expected [[{key}]]" if field and _tables(field.annotation) else "expected a list"
    return f"{key}: {message[:1].lower()}{message[1:]}, got {given!r}"


def _table_at(table: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The table at a location of the tree."""
    for part in loc:
        field = table.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            table = next((t for t in _tables(field.annotation)), table)
    return table


def _keys(table: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a table, as a rig has them."""
    return tuple(field.alias or name for name, field in table.model_fields.items())


def _tables(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [t for a in get_args(annotation) for t in _tables(a)]
