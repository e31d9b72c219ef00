"""What all studies have in common: runs in files, done once, in the order they are asked for."""

import json
import os
import platform
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.atomic import write_atomic
from training.data.sets.pool import end_with_parent

FORMAT: Final = 1


class Run(Protocol):
    """One run of a study."""

    @property
    def file(self) -> str:
        """Its file's name in the study's folder."""
        ...


R = TypeVar("R", bound=Run)


@contextmanager
def folder_of(out: Path) -> Iterator[None]:
    """Make the folder of a study; an error that comes before anything was written takes it away again.

    Raises:
        OptionError: it is a file.
    """
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out}: is a file; give a folder")
    new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        # Empty files are locks.
        if new and not any(file.is_file() and file.stat().st_size for file in out.rglob("*")):
            shutil.rmtree(out)
        raise


def perform(
    out: Path,
    runs: Sequence[R],
    do: Callable[[R], dict[str, Any]],
    *,
    kept: Callable[[R], bool],
    line: Callable[[dict[str, Any], int | None, int], str],
    processes: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, int]:
    """Do the runs of a study that have not been done yet.

    Args:
        out: folder of the runs' files, made if need be; without a run it goes again.
        runs: which, in this order.
        do: does one, writes its file and returns what is in it; with several processes it is pickled.
        kept: whether a run has been done.
        line: what to say about a result, its number where it has one, and how many there are.
        processes: runs at a time.
        say: told about every run that is finished.

    Returns:
        ``done`` in this call, ``kept`` from earlier ones.

    Raises:
        OptionError: ``out`` is a file.
    """
    try:
        with folder_of(out):
            return _perform(runs, do, kept, line, processes, say)
    except KeyboardInterrupt:
        say("interrupted; runs that were finished are kept, and the same command goes on")
        raise


def _perform(
    runs: Sequence[R],
    do: Callable[[R], dict[str, Any]],
    kept: Callable[[R], bool],
    line: Callable[[dict[str, Any], int | None, int], str],
    processes: int,
    say: Callable[[str], None],
) -> dict[str, int]:
    waiting = [run for run in runs if not kept(run)]
    before, count = len(runs) - len(waiting), len(runs)
    if processes == 1:
        for number, run in enumerate(waiting):
            say(line(do(run), before + number + 1, count))
        return {"done": len(waiting), "kept": before}
    others = {child.pid for child in active_children()}
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=end_with_parent)
    try:
        futures = [pool.submit(_one, do, run) for run in waiting]
        for future in futures:
            future.add_done_callback(
                lambda f: None if f.cancelled() or f.exception() else say(line(f.result(), None, count))
            )
        wait(futures, return_when=FIRST_EXCEPTION)
    except BaseException:
        # Ctrl-C: what is under way is given up, in the workers as well.
        for child in active_children():
            if child.pid not in others and child.pid is not None:
                os.kill(child.pid, signal.SIGINT)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    try:
        for future in futures:
            if not future.cancelled():
                future.result()
    except BrokenProcessPool:
        raise FormatError(
            "a worker process ended (out of memory?); what is finished is kept: run it again, with fewer "
            "--processes"
        ) from None
    return {"done": len(waiting), "kept": before}


def _one(do: Callable[[R], dict[str, Any]], run: R) -> dict[str, Any]:
    """One run in a worker, which ends with it when it is interrupted: it must not begin the next."""
    try:
        return do(run)
    except KeyboardInterrupt:
        os._exit(130)


def write(file: Path, result: Mapping[str, Any]) -> None:
    """Write a run's file; it is there whole or not at all."""
    write_atomic(file, (json.dumps({"format": FORMAT, **result}) + "\n").encode())


def read(file: Path) -> dict[str, Any]:
    """A run's file.

    Raises:
        FormatError: not one.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{file}: not a run of a study: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FormatError(f"{file}: not a run of a study of format {FORMAT}")
    return found


def must_equal(file: Path, theirs: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a kept run that followed another recipe.

    Raises:
        OptionError: a value that differs.
    """
    for name, value in wanted.items():
        if theirs.get(name) != value:
            raise OptionError(
                f"{file}: done with {name}={theirs.get(name)!r}, not {value!r}: use another folder"
            )


def check_names(what: str, given: Sequence[str], known: Iterable[str]) -> None:
    """Refuse a name of something that a study does not have.

    Raises:
        OptionError: the name, and those that there are.
    """
    names = tuple(known)
    for name in given:
        if name not in names:
            raise OptionError(f"{what}: expected one of {', '.join(names)}, given {name!r}")


def versions() -> dict[str, str]:
    """Of what decides a number's last digits."""
    return {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}


def processor() -> str:
    """The name of the CPU."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
