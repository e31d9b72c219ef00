"""``pyanticip render`` for a folder of motion files, on all cores."""

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
from realtime.programs.render import SUFFIXES, is_rendered, render, with_progress
from realtime.rig import Rig


@dataclass(frozen=True)
class _Task:
    path: Path
    out: Path
    rig: Rig
    seconds: float | None


_Result = tuple[Path, dict[str, Any] | str, list[str]]
"""A file, its render summary or the error message, and its warnings."""


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
    """Render every motion file below ``folder`` into the folder ``out``, with the same subfolders.

    A file that cannot be read is reported by ``say`` and in the result's ``failed``; the others are still
    rendered. Files below ``out`` are skipped.

    Args:
        suffix: format of the rendered files: .wav, .npz or .csv.
        rig: gives the rig of a file; None: the built-in rig for all.
        reading: names of the reading options in use (:func:`pyanticip.motion.load.check_reading`).
        seconds: longest motion that is rendered of a file.
        workers: number of processes; None: one per core. Does not change the results.
        progress: show a bar on standard error.
        say: receives errors and warnings, each once.

    Returns:
        The summary that ``--json`` prints.

    Raises:
        OptionError: an unknown suffix, an ``out`` that is named like a file, or a reading option that no
            file can use.
        FormatError: a folder without motion.
        DeviceError: nothing can be written.
    """
    if out.suffix.lower() in SUFFIXES and not out.is_dir():
        raise OptionError(f"{out}: expected a folder for what is in the folder {folder}")
    if suffix not in SUFFIXES:
        raise OptionError(f"suffix: expected {', '.join(SUFFIXES)}, got {suffix!r}")
    started = time.perf_counter()
    reports: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    tasks: list[_Task] = []
    targets = list(_targets(folder, out, suffix))
    check_reading([path for path, _ in targets], reading, folder=folder)
    for path, target in targets:
        try:
            with writing(out):
                target.parent.mkdir(parents=True, exist_ok=True)
            tasks.append(_Task(path, target, Rig() if rig is None else rig(path), seconds))
        except MotionError as error:
            failed[str(path)] = str(error)
    count = max(min(workers or os.cpu_count() or 1, len(tasks)), 1)
    for line in failed.values():
        if say is not None:
            say(line)
    reported: set[str] = set()

    def on_wait() -> None:
        if say is not None:
            say("stopping when the files in work are rendered; Ctrl-C again stops at once, without them")

    results = spread(_render_one, tasks, count, on_wait)
    for path, result, lines in with_progress(results, len(tasks), progress):
        for line in (*lines, *([result] if isinstance(result, str) else [])):
            if say is not None and line not in reported:
                reported.add(line)
                say(line)
        if isinstance(result, str):
            failed[str(path)] = result
        else:
            reports.append(result)
    work_s = time.perf_counter() - started
    length = sum(report["seconds"] for report in reports)
    return {
        "out": str(out),
        "files": len(reports),
        "failed": failed,
        "seconds": round(length, 3),
        "without_model": sum(report["without_model"] for report in reports),
        "work_seconds": round(work_s, 3),
        "times_real_time": round(length / work_s, 1),
        "workers": count,
        "reports": sorted(reports, key=lambda report: str(report["out"])),
    }


def _targets(folder: Path, out: Path, suffix: str) -> Iterator[tuple[Path, Path]]:
    """Each motion file and its output path, without the numbers of an earlier render. A name keeps its suffix
    if without it it would be another file's."""
    resolved_folder, resolved_out = folder.resolve(), out.resolve()
    files = sorted(
        Path(top) / name
        for top, folders, names in os.walk(folder)
        if not folders.sort()
        and (resolved_out == resolved_folder or not Path(top).resolve().is_relative_to(resolved_out))
        for name in names
        if Path(name).suffix.lower() in MOTION
        and not name.startswith(".")
        and not (name.lower().endswith(".npz") and is_rendered(Path(top) / name))
    )
    if not files:
        raise FormatError(f"{folder}: no motion in it; expected files {', '.join(MOTION)}")
    # a.bvh and a.amc keep their suffixes, and so does a.bvh.bvh beside them.
    taken = Counter([*(path.with_suffix("") for path in files), *files])
    for path in files:
        stem = path.with_suffix("") if taken[path.with_suffix("")] == 1 else path
        target = out / stem.relative_to(folder)
        yield path, target.with_name(target.name + suffix)


def _render_one(task: _Task) -> _Result:
    """Render a file; runs in a worker process."""
    lines: list[str] = []
    try:
        report = render(task.path, task.out, rig=task.rig, seconds=task.seconds, say=lines.append)
    except (MotionError, OSError, MemoryError) as error:
        return task.path, str(error) or "not enough memory", lines
    return task.path, report, lines
