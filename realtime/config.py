"""Kinds of values that several tables of a rig have."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from pyanticip.errors import suggestion
from pyanticip.vocabulary import HORIZONS_MS
from realtime.seams import Registry

__all__ = ["BufferMs", "LeadMs", "Port", "Seconds", "Sender", "Unit", "named", "registered", "unknown"]

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


def registered(registry: Registry[Any], *also: str) -> AfterValidator:
    """Annotates a name that a seam's registry knows, or that is one of ``also``."""

    def check(name: str) -> str:
        if name not in also and name not in registry:
            names = ", ".join((*also, *registry.names()))
            raise PydanticCustomError("unregistered", "expected one of {names}", {"names": names})
        return name

    return AfterValidator(check)


def named(*known: str, also: str = "") -> AfterValidator:
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
    return suggestion(name, known) or f"; expected one of {', '.join(known)}"
