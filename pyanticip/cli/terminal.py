"""Terminal output: results, one-line errors, exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import click

from pyanticip.errors import MotionError, OptionError, Terminated, printable, reason, suggestion
from pyanticip.system import shell_quote

#: Human-readable output of a command: a text, its lines, or a function that renders the result with rich.
Text = str | Iterable[str] | Callable[[dict[str, Any]], Any]
#: What a command returns: its result (for --json), its text, and its exit code where it may not be 0.
Answer = tuple[dict[str, Any], Text] | tuple[dict[str, Any], Text, int]


OTHERS_WAIT_S = 10.0
"""How long the error of a process that is not the first on its machine waits under ``torchrun``."""


def needs(extra: str) -> None:
    """Check that the packages of an extra are installed, without importing them.

    Raises:
        MotionError: One is missing; the message names it and the extra.
    """
    from importlib import metadata  # slow to import

    for package in (package for package, of in _extra_packages() if of == extra):
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            raise MotionError(_missing_message(package, extra)) from None


def _missing_message(package: str, extra: str) -> str:
    return f"this needs {package}, of the extra {extra!r}: pip install 'pyanticip[{extra}]'"


def _extra_packages() -> Iterator[tuple[str, str]]:
    """The packages that pyanticip's extras require, each with its extra."""
    from importlib import metadata

    for requirement in metadata.requires("pyanticip") or ():
        if match := re.match(r"([\w.-]+).*;.*extra\s*==\s*['\"](\w+)['\"]", requirement):
            yield match[1], match[2]


def say(line: str) -> None:
    """Print a message on standard error; silently dropped if the terminal is gone."""
    with contextlib.suppress(OSError):
        tell(line, err=True)


def tell(text: str, *, err: bool = False) -> None:
    """Print a text that may hold untrusted data: control characters become ``?``."""
    click.echo("\n".join(map(printable, text.split("\n"))), err=err)


def drawn(as_json: bool) -> bool:
    """Whether a show draws meters in the terminal."""
    from realtime.monitor.terminal import can_draw

    return not as_json and can_draw()


def shell_argument(path: object) -> str:
    """A path as a shell argument, quoted where needed."""
    return shell_quote(str(path))


def run(group: click.Command) -> int:
    """Run the command line and return the exit code: 0 done, 1 failed, 2 bad usage."""
    try:
        code = group.main(prog_name="pyanticip", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        return _print_usage_error(error)
    except click.ClickException as error:
        return _print_error(error.format_message(), 1)
    except OptionError as error:
        return _print_error(str(error), 2)
    except MotionError as error:
        return _print_error(str(error), 1)
    except BrokenPipeError:
        # The reader of our output exited (`pyanticip info | head`): there is nobody to tell.
        return 1
    except OSError as error:
        return _print_error(f"{error.filename}: {reason(error)}" if error.filename else reason(error), 1)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        found = (of for name, of in _extra_packages() if name == package)
        if (extra := next(found, None)) is None:
            raise
        return _print_error(_missing_message(package, extra), 1)
    except MemoryError:
        return _print_error("there is not enough memory for this", 1)
    except RecursionError:
        return _print_error("this is nested too deep", 1)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except Terminated:
        return 128 + signal.SIGTERM


@contextlib.contextmanager
def unwound() -> Iterator[None]:
    """Within, SIGTERM unwinds the stack as Ctrl-C does, so that cleanup runs (exit code 143).

    A second SIGTERM ends the process at once.
    """

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def prepare_streams() -> None:
    """Open the null device as stdin, stdout or stderr where that was closed from the start (``2>&-``).

    Letters that the encoding of stdout lacks are printed as ``?``, as in a name that is not UTF-8.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  (open until the process ends)
            # Otherwise the next socket or file opened would take the descriptor that children write to.
            os.set_inheritable(null.fileno(), True)
            setattr(sys, name, null)


def drop_unwritten() -> None:
    """Drop output buffered for a terminal that is gone: Python would fail to flush it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_usage_error(error: click.UsageError) -> int:
    if error.ctx and isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        click.echo(error.ctx.get_help(), err=True)
        return 2
    path = error.ctx.command_path if error.ctx else "pyanticip"
    if isinstance(error, click.NoSuchOption):
        params = error.ctx.command.params if error.ctx else []
        known = [o for p in params for o in p.opts]
        message = f"no option {error.option_name}{suggestion(error.option_name, [*known, '--help'])}"
        for argument in params:
            if isinstance(argument, click.Argument):
                hint = f"{argument.human_readable_name} is given without one"
                message = message.replace(f"did you mean {argument.name}?", hint)
    else:
        message = error.format_message().rstrip(".")
        message = message[:1].lower() + message[1:]
    return _print_error(
        f"{path.removeprefix('pyanticip').strip()}: {message} (see {path} --help)".lstrip(": "), 2
    )


def _print_error(message: str, code: int) -> int:
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("LOCAL_RANK", "0") != "0":
        # Most errors are the same in all processes. The first one prints at once, and torchrun then ends the
        # others; if this one ended first, torchrun might end the first before it has printed.
        time.sleep(OTHERS_WAIT_S)
    say("pyanticip: " + re.sub(r"\s*\n\s*", " ", message.strip()))
    return code


def speed_factor(text: str) -> float | None:
    """The factor in a ``--speed`` value; None for ``max``."""
    if text == "max":
        return None
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.01 <= factor <= 1000.0:
        raise OptionError(f"--speed: expected 0.01 to 1000 or max, got {text!r}")
    return factor


def _finite(value: Any) -> Any:
    """A JSON value with null in place of numbers that JSON lacks: NaN and the infinities."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def answer(result: dict[str, Any], text: Text, as_json: bool) -> None:
    """Print a command's result as JSON, or its text."""
    if as_json:
        click.echo(json.dumps(_finite(result), indent=2))
    elif callable(text):
        from rich.console import Console

        Console().print(text(result))
    else:
        for line in [text] if isinstance(text, str) else text:
            tell(line.removesuffix("\n"))
