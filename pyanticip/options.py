"""Option classes: one field per option, from which :mod:`pyanticip.cli` generates the command line.

An option class lives beside the code that uses it, in a module that imports nothing heavy: the command line
needs it for help and validation before anything else is imported.

>>> class Walk(Options):
...     seconds: float = option("How long.", 2.0, gt=0)
>>> Walk(seconds="3").seconds
3.0
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from pyanticip.errors import DeviceError, OptionError

_MAX_NUMBER = 1e9
"""Largest number of any option: as seconds, 31 years, which an int64 of nanoseconds can hold."""


class Options(BaseModel):
    """Base of option classes: frozen, no unknown fields, no NaN or infinity, no true or false as a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _check_numbers(cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        valid = validate(value)
        # pydantic reads a boolean as 0 or 1.
        if _has_boolean(value):
            types = set(_leaf_types(cls.model_fields[str(info.field_name)].annotation))
            if types & {int, float} and bool not in types:
                raise PydanticCustomError("number", "expected a number")
        return valid

    def check(self) -> None:
        """Validate against the file system before work begins: inputs exist, outputs can be written.

        Raises:
            OSError: A path that is missing, cannot be written, or is a link that leads back to itself.
            MotionError: A number above 1e9; what subclasses check besides (combinations, contents).
        """
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, float) and value > _MAX_NUMBER:
                flag = f"--{name.replace('_', '-')}"
                raise OptionError(f"{flag}: expected at most {_MAX_NUMBER:g}, got {value:g}")
            for path in value if isinstance(value, tuple) else (value,):
                if isinstance(path, Path):
                    _check_no_link_loop(path)
                if path is not None and command_line_settings(field).get("exists"):
                    Path(path).stat()  # raises an error that names the path
                if path is not None and command_line_settings(field).get("written"):
                    check_writable_folder(path if path.is_dir() else path.parent)


def _check_no_link_loop(path: Path) -> None:
    # Path.resolve raises a RuntimeError for these.
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise


def _has_boolean(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_boolean, value.values()))
    return isinstance(value, bool) or (isinstance(value, list | tuple) and any(map(_has_boolean, value)))


def _leaf_types(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from _leaf_types(part)


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
    names: str | None = None,
    **limits: Any,
) -> Any:
    """A field of an option class; required where it has no default.

    Args:
        flag: Name on the command line where it differs from the field's, as ``--json`` or ``--on/--off``.
        argument: Whether it is positional.
        metavar: Placeholder for the value in the help.
        exists: Whether it is an input path; :meth:`Options.check` checks that it exists.
        written: Whether it is an output path; :meth:`Options.check` checks that it can be written.
        alone: Value of a flag that is given without one.
        variable: Environment variable that supplies the value where the command line does not.
        names: ``module:attribute`` of an object whose method ``names`` lists values for Tab to complete.
        limits: ``ge``, ``gt``, ``le``, ``lt`` and whatever else :func:`pydantic.Field` takes.
    """
    settings: dict[str, Any] = {"flag": flag, "argument": argument, "metavar": metavar, "alone": alone}
    settings |= {"exists": exists, "written": written, "variable": variable, "names": names}
    return Field(default, description=description, json_schema_extra=settings, **limits)


def command_line_settings(field: FieldInfo) -> dict[str, Any]:
    """The arguments that :func:`option` stored in a field for the command line."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def check_writable_folder(folder: Path) -> None:
    """Check before a long computation that its result can be written to ``folder``; leaves nothing behind.

    Raises:
        OSError, DeviceError: The folder, or the nearest parent that exists, is not writable.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except FileNotFoundError:
        # Folders below /proc do not hold files.
        raise DeviceError(f"{folder}: no file can be made there") from None
    except OSError as error:
        error.filename = str(folder)
        raise


@dataclass(frozen=True)
class Overrides:
    """Annotates a dict field with options that override keys of a settings ``tree``, such as a rig file's.

    ``names`` maps option names to dotted keys of the tree; type, limits and help come from the tree. The
    field's value is a nested dict of the options that were given.
    """

    tree: type[BaseModel]
    names: Mapping[str, str]


def host_port(text: object) -> tuple[str, int]:
    """(host, port) of ``HOST:PORT``, ``:PORT`` or ``PORT``; IPv6 as ``[::1]:9000``. The host is not resolved.

    Raises:
        ValueError: The text has none of these forms.
    """
    host, _, port = str(text).rpartition(":")
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError(f"expected HOST:PORT with a port from 1 to 65535, got {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


HostPort = Annotated[tuple[str, int], BeforeValidator(host_port)]


def non_empty_path(text: object) -> object:
    """``text``; a ValueError if it is empty (an unset shell variable): that would mean the current folder."""
    if text == "":
        raise ValueError("expected a path, got ''")
    return text


PathText = Annotated[str, BeforeValidator(non_empty_path)]
"""A path in a rig file."""


def first_problem(error: ValidationError) -> str:
    """The first problem that pydantic found, in one line."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] != "value_error":
        message = f"{message[:1].lower()}{message[1:]}, got {problem['input']!r}"
    return f"{where}: {message}" if where else message


class JsonOption(Options):
    """Options of every command with machine-readable output."""

    as_json: bool = option("Print one JSON object.", False, flag="--json")

    def without_json(self) -> dict[str, Any]:
        """All other options by name, for use as keyword arguments."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "as_json"}


class SecondsOption(Options):
    """Options of every command that runs until it is stopped."""

    seconds: float | None = option("Stop after this many seconds.", None, gt=0)


class CheckpointOption(Options):
    """Options of every command that uses a model, built in by default."""

    checkpoint: Path | None = option("Checkpoint folder; the packaged model by default.", None, exists=True)


class ModelOptions(CheckpointOption):
    """Options of every command that can run without a model."""

    model: bool = option("Run the model; --no-model: the seven scalars play instead.", True)

    def check(self) -> None:
        """Also refuses a checkpoint that ``--no-model`` would ignore."""
        super().check()
        if self.checkpoint is not None and not self.model:
            raise OptionError("--checkpoint: --no-model has no use for it")
