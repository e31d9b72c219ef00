"""A folder of motion files to sound or numbers, on all cores."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyanticip.errors import FormatError, MotionError, OptionError
from pyanticip.motion.atomic import writing
from pyanticip.motion.load import SUFFIXES as MOTION
from pyanticip.motion.load import check_reading
from pyanticip.workers import spread
from realtime.programs.render import SUFFIXES, render
from realtime.rig import Rig

__all__ = ["render_folder"]


@dataclass(frozen=True)
class _Task:
    path: Path
    out: Path
    rig: Rig
    seconds: float | None


_Result = tuple[Path, dict[str, Any] | str, list[str]]
"""A file, what was done with it or why nothing was, and what was decided on the way."""


def render_folder(
    folder: Path,
    out: Path,
    *,
    suffix: str = ".wav",
    rig: Callable[[Path], Rig] | None = None,
    reading: Iterable[str] = (),
    seconds: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Render every motion file below ``folder`` into the folder ``out``, in folders like its own.

    Each file becomes what :func:`realtime.programs.render.render` makes of it by its ``rig`` (None: the
    built-in one), whatever the number of ``workers`` (processes; None: one a core). A file that cannot be
    read is told by ``say``, named among the result's ``failed``, and costs the others nothing.

    Files below ``out`` are none of the folder's. Raises an OptionError for another suffix than ``render``
    writes, for an ``out`` that is named like a file and for one of the options named in ``reading`` that no
    file has a use for (:func:`pyanticip.motion.load.check_reading`), a FormatError for a folder without
    motion, a DeviceError where nothing can be written.
    """
    if out.suffix.lower() in SUFFIXES and not out.is_dir():
        raise OptionError(f"{out}: expected a folder for what is in the folder {folder}")
    if suffix not in SUFFIXES:
        raise OptionError(f"suffix: expected {', '.join(SUFFIXES)}, got {suffix!r}")
    begun = time.perf_counter()
    done: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    tasks: list[_Task] = []
    outs = list(_outs(folder, out, suffix))
    check_reading([path for path, _ in outs], reading, folder=folder)
    for path, made in outs:
        try:
            with writing(out):
                made.parent.mkdir(parents=True, exist_ok=True)
            tasks.append(_Task(path, made, Rig() if rig is None else rig(path), seconds))
        except MotionError as error:
            failed[str(path)] = str(error)
    count = max(min(workers or os.cpu_count() or 1, len(tasks)), 1)
    for line in failed.values():
        if say is not None:
            say(line)
    told: set[str] = set()
    for path, result, lines in _shown(spread(_one, tasks, count), len(tasks), progress):
        for line in (*lines, *([result] if isinstance(result, str) else [])):
            if say is not None and line not in told:
                told.add(line)
                say(line)
        if isinstance(result, str):
            failed[str(path)] = result
        else:
            done.append(result)
    took = time.perf_counter() - begun
    length = sum(report["seconds"] for report in done)
    return {
        "out": str(out),
        "files": len(done),
        "failed": failed,
        "seconds": round(length, 3),
        "without_model": sum(report["without_model"] for report in done),
        "work_seconds": round(took, 3),
        "times_real_time": round(length / took, 1),
        "workers": count,
        "reports": sorted(done, key=lambda report: str(report["out"])),
    }


def _outs(folder: Path, out: Path, suffix: str) -> Iterator[tuple[Path, Path]]:
    """Each motion file, and where it goes. Two of one name keep their suffix in it."""
    within, made = folder.resolve(), out.resolve()
    found = sorted(
        Path(top) / name
        for top, folders, names in os.walk(folder)
        if not folders.sort() and (made == within or not Path(top).resolve().is_relative_to(made))
        for name in names
        if Path(name).suffix.lower() in MOTION and not name.startswith(".")
    )
    if not found:
        raise FormatError(f"{folder}: no motion in it; expected files {', '.join(MOTION)}")
    stems = Counter(path.with_suffix("") for path in found)
    for path in found:
        plain = path.with_suffix("") if stems[path.with_suffix("")] == 1 else path
        target = out / plain.relative_to(folder)
        yield path, target.with_name(target.name + suffix)


def _one(task: _Task) -> _Result:
    """In a process of its own: what was done, or why it was not, and what was decided on the way."""
    lines: list[str] = []
    try:
        told = render(task.path, task.out, rig=task.rig, seconds=task.seconds, say=lines.append)
    except (MotionError, OSError, MemoryError) as error:
        return task.path, str(error) or "not enough memory", lines
    return task.path, told, lines


def _shown(results: Iterator[_Result], total: int, progress: bool) -> Iterator[_Result]:
    """The results, with a bar on the terminal."""
    if not progress:
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, "rendering", total, console=Console(stderr=True), transient=True)
