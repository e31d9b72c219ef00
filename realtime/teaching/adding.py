"""Takes from motion files, whole or in part, with constants or curves as targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyanticip.errors import FormatError, OptionError, utf8
from pyanticip.motion.load import load_take
from pyanticip.teach.curves import load_curves, sample
from pyanticip.teach.labels import GESTURE, parse_labels
from pyanticip.teach.outputs import parse_values
from pyanticip.teach.project import Project
from pyanticip.teach.state import TakeEntry
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE

LEAD_IN = 250
"""Most frames before a take that the model sees and that are not trained on: 5 s."""

MIN_FRAMES = 25
"""Fewest frames of a take."""

_MAX_MISMATCH_S = 1.0
"""Ends of curve and take that differ by more cause a warning."""


def add_file(
    project: Project,
    file: Path,
    *,
    name: str | None = None,
    values: Mapping[str, float] | None = None,
    curve: Path | None = None,
    labels: Mapping[str, str] | None = None,
    start: float = 0.0,
    end: float | None = None,
    **reading: Any,
) -> tuple[TakeEntry, list[str]]:
    """Add a motion file as a take.

    Args:
        name: of the take; None: the file's name without its suffix.
        values: constants, in the outputs' own units.
        curve: a file of curves (:func:`pyanticip.teach.curves.load_curves`), whose seconds count from the
            motion file's first frame. In a project with outputs other columns are left out.
        labels: the label it shows, by class.
        start: seconds into the file where the take begins; frames before lead in.
        end: seconds into the file where it ends; None: at the file's end.
        reading: options of :func:`pyanticip.load_motion`.

    Returns:
        The take, and warnings.

    Raises:
        MotionError: a file that cannot be read, outputs that do not exist, no targets.
    """
    clip = load_take(file, **reading).retarget("humanoid").resample(RATE)
    warnings = list(clip.warnings)
    first, last = _span(file, len(clip), start, end)
    lead_in = min(first, LEAD_IN)
    part = clip[first - lead_in : last]
    columns = {}
    if curve is not None:
        curves = load_curves(curve)
        known = {output.name for output in project.state.outputs} or set(curves)
        for column in (values or {}).keys() & curves.keys():
            raise OptionError(f"{column}: is given as a value and in {curve}; leave one out")
        columns = {n: sample(c, len(clip))[first:last] for n, c in curves.items() if n in known}
        if not columns:
            raise FormatError(
                f"{curve}: none of its columns ({', '.join(list(curves)[:8])}) is an output of the project"
                f" ({', '.join(sorted(known))})"
            )
        curve_end = max(float(curves[n][0][-1]) for n in columns)
        if curve_end < last / RATE - _MAX_MISMATCH_S:
            warnings.append(
                f"the curve ends at {curve_end:.2f} s, the take at {last / RATE:.2f} s: its end holds"
            )
        elif end is None and curve_end > len(clip) / RATE + _MAX_MISMATCH_S:
            warnings.append(
                f"the curve goes on to {curve_end:.2f} s, the motion ends at {len(clip) / RATE:.2f} s"
            )
    take = project.add_take(
        name if name is not None else file.stem,
        replace(part, warnings=()),  # the stored take is plain canonical motion
        begin=lead_in,
        values=values,
        columns=columns,
        labels=labels,
        source=utf8(file.name)
        if (start, end) == (0.0, None)
        else f"{utf8(file.name)} {first / RATE:g}..{last / RATE:g} s",
    )
    if not clip.mask.all():
        missing = [n for n, present in zip(CANONICAL_JOINTS, clip.mask, strict=True) if not present]
        warnings.append(f"the source has no {', '.join(missing)}")
    return take, warnings


def add_project(project: Project, folder: Path) -> Iterator[TakeEntry]:
    """Add and yield the takes of another project, as they are; outputs that this one lacks come with them.

    A take whose name is in use gets the folder's name before its own.

    Raises:
        MotionError: no project, a damaged take, values outside the range of an output of the same name.
    """
    other = Project.open(folder)
    if other.folder.resolve() == project.folder.resolve():
        raise OptionError(f"{folder}: its takes are in the project already")
    names = {output.name for output in project.state.outputs}
    for output in other.state.outputs:
        if output.name not in names:
            project.add_output(output)
    for take in other.state.takes:
        targets = other.targets(take)
        is_taken = any(mine.name == take.name for mine in project.state.takes)
        yield project.add_take(
            f"{folder.resolve().name} {take.name}" if is_taken else take.name,
            other.motion(take),
            begin=take.begin,
            values=take.values,
            columns={name: targets[name] for name in take.columns},
            labels=take.labels,
            source=take.source,
        )


def _span(file: Path, frames: int, start: float, end: float | None) -> tuple[int, int]:
    """First and last frame (exclusive) of a take."""
    length = frames / RATE
    if not 0.0 <= start < length:
        raise OptionError(f"{file}: start must be within its {length:.2f} s, got {start:g}")
    if end is not None and not start < end:
        raise OptionError(f"{file}: end must come after {start:g} s, got {end:g}")
    first, last = round(start * RATE), frames if end is None else min(round(end * RATE), frames)
    if last - first < MIN_FRAMES:
        raise OptionError(
            f"{file}: {(last - first) / RATE:.2f} s are too short for a take; expected at least"
            f" {MIN_FRAMES / RATE:g} s"
        )
    return first, last


def parse_changes(project: Project, text: str) -> tuple[dict[str, float | None], dict[str, str]]:
    """The values and labels to change in a take, from ``brightness=.9,cutoff=none,pose=stand``.

    ``cutoff=none`` removes an output from the take and ``pose=`` a class, both as a value of None;
    ``pose=none`` is a label. A name that is not an output and whose value is no number is a class.

    Raises:
        OptionError: the text has another form.
    """
    classes = {*project.state.classes, GESTURE}
    outputs = {output.name for output in project.state.outputs}
    changed: dict[str, float | None] = {}
    values: list[str] = []
    labels: list[str] = []
    for part in text.replace(",", " ").split():
        name, mark, value = part.partition("=")
        if mark and value == ("" if name in classes else "none"):
            changed[name] = None
        else:
            is_new_class = name not in outputs and value and not _is_number(value)
            (labels if name in classes or is_new_class else values).append(part)
    changed.update(parse_values(",".join(values)) if values else {})
    return changed, parse_labels(",".join(labels)) if labels else {}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
