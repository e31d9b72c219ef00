"""Options, declared once: a class with a field for each, of which :mod:`pyanticip.cli` makes a command line.

An option class lives where it is used, in a module that imports nothing heavy: the command line asks it for
help and for errors before anything else is imported.

>>> class Walk(Options):
...     seconds: float = option("How long.", 2.0, gt=0)
>>> Walk(seconds="3").seconds
3.0
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from pyanticip.errors import DeviceError, OptionError

__all__ = [
    "CheckpointOption",
    "HostPort",
    "JsonOption",
    "ModelOptions",
    "Options",
    "Overrides",
    "PathText",
    "SecondsOption",
    "a_path",
    "option",
]


MOST = 1e9
"""No option is a larger number: as seconds it is a life, which a clock of nanoseconds can count."""


class Options(BaseModel):
    """Options: frozen, closed, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def check(self) -> None:
        """What can be told before anything is done: what has to exist does, what is written can be.

        Raises:
            OSError: A path that does not.
            MotionError: A number that nothing can be done with; a combination or a content that makes no
                sense, where a class looks for more.
        """
        for name, field in type(self).model_fields.items():
            found = getattr(self, name)
            if isinstance(found, float) and found > MOST:
                raise OptionError(f"--{name.replace('_', '-')}: expected at most {MOST:g}, got {found:g}")
            for path in found if isinstance(found, tuple) else (found,):
                if path is not None and shown(field).get("exists"):
                    Path(path).stat()  # the error names it
                if path is not None and shown(field).get("written"):
                    can_hold(path if path.is_dir() else path.parent)


def option(
    description: str,
    default: Any = ...,
    *,
    flag: str | None = None,
    argument: bool = False,
    metavar: str | None = None,
    exists: bool = False,
    written: bool = False,
    alone: str | None = None,
    variable: str | None = None,
    **limits: Any,
) -> Any:
    """A field of an option class; without a default it has to be given.

    Args:
        flag: Its name on the command line where the field's will not do, as ``--json`` or ``--on/--off``.
        argument: Whether it stands without a name.
        metavar: What stands for the value in the help.
        exists: Whether it is a path that has to be there, which is asked before anything is done.
        written: Whether it is a path that is written in the end: that it can be is asked before anything is
            done.
        alone: The value that the name without one stands for.
        variable: The environment variable that says it where the command line does not.
        limits: ``ge``, ``gt``, ``le``, ``lt`` and whatever else :func:`pydantic.Field` takes.
    """
    shown: dict[str, Any] = {"flag": flag, "argument": argument, "metavar": metavar, "alone": alone}
    shown |= {"exists": exists, "written": written, "variable": variable}
    return Field(default, description=description, json_schema_extra=shown, **limits)


def shown(field: FieldInfo) -> dict[str, Any]:
    """What :func:`option` was told of a field, besides what pydantic asks for."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def can_hold(folder: Path) -> None:
    """Check before a long computation that what it ends with can be written; leaves nothing.

    Raises:
        OSError, DeviceError: Nothing can be written in the folder, or where it would have to be made.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except FileNotFoundError:
        # As below /proc, which has folders that take no files.
        raise DeviceError(f"{folder}: no file can be made there") from None
    except OSError as error:
        error.filename = str(folder)
        raise


@dataclass(frozen=True)
class Overrides:
    """Annotates a dict field with what may be said of a larger ``tree`` of settings, such as a rig file's.

    ``names`` maps option names to dotted keys of the tree; kind, limits and help are the tree's own. The
    field becomes a tree of what was given.
    """

    tree: type[BaseModel]
    names: Mapping[str, str]


def host_port(text: object) -> tuple[str, int]:
    """(host, port) of ``HOST:PORT``, ``:PORT`` or ``PORT``; IPv6 as ``[::1]:9000``.

    Raises:
        ValueError: It is none of these. Hosts are resolved when they are used.
    """
    host, _, port = str(text).rpartition(":")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError(f"expected HOST:PORT with a port from 1 to 65535, got {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


HostPort = Annotated[tuple[str, int], BeforeValidator(host_port)]


def a_path(text: object) -> object:
    """``text``; a ValueError where it is empty, as an unset variable is: that would be the current folder."""
    if text == "":
        raise ValueError("expected a path, got ''")
    return text


PathText = Annotated[str, BeforeValidator(a_path)]
"""A path as a rig file says it."""


def first_problem(error: ValidationError) -> str:
    """One line of the first thing that pydantic found wrong."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] != "value_error":
        message = f"{message[:1].lower()}{message[1:]}, got {problem['input']!r}"
    return f"{where}: {message}" if where else message


class JsonOption(Options):
    """Of every command whose answer a program might read."""

    as_json: bool = option("Print one JSON object.", False, flag="--json")

    def but_json(self) -> dict[str, Any]:
        """All others by name: what they are for takes them as they are."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "as_json"}


class SecondsOption(Options):
    """Of every command that goes on until it is told to stop."""

    seconds: float | None = option("Stop after this many seconds.", None, gt=0)


class CheckpointOption(Options):
    """Of every command that the built-in model does for."""

    checkpoint: Path | None = option("Checkpoint folder; the built-in model by default.", None, exists=True)


class ModelOptions(CheckpointOption):
    """Of every command that may do without a model."""

    model: bool = option("Run the model; --no-model: the seven scalars play instead.", True)

    def check(self) -> None:
        """As for all, and that a model that is named is used."""
        super().check()
        if self.checkpoint is not None and not self.model:
            raise OptionError("--checkpoint: --no-model has no use for it")
