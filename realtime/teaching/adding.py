"""Takes from files: any motion file, whole or a part of it, with constants or curves as what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyanticip.errors import FormatError, OptionError, utf8
from pyanticip.motion.clip import Clip
from pyanticip.motion.load import load_take
from pyanticip.teach.curves import load_curves, sample
from pyanticip.teach.labels import GESTURE, parse_labels
from pyanticip.teach.outputs import parse_values
from pyanticip.teach.project import Project
from pyanticip.teach.state import TakeEntry
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE

__all__ = ["LEAD_IN", "SHORTEST", "add_file", "parse_changes"]

LEAD_IN = 250
"""Frames before a take that the model sees and nobody learns from: 5 s, as far as there are any."""

SHORTEST = 25
"""Frames that a take has at least."""

_APART_S = 1.0


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
    """Add a motion file as a take; the take and what there is to say about it.

    Args:
        name: of the take; the file's without its suffix.
        values: constants, in the outputs' own units.
        curve: a file of curves (:func:`pyanticip.teach.curves.load_curves`), whose seconds count from the
            file's first frame; columns that are no outputs are left out, where the project has any.
        labels: which label of a class it shows.
        start: seconds into the file where the take begins; what comes before leads in.
        end: seconds into the file where it ends.
        reading: options of :func:`pyanticip.load_motion` for a file that has to be helped.

    Raises:
        MotionError: a file that cannot be read, outputs that do not exist, nothing wanted.
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
        ends = max(float(curves[n][0][-1]) for n in columns)
        if ends < last / RATE - _APART_S:
            warnings.append(f"the curve ends at {ends:.2f} s, the take at {last / RATE:.2f} s: its end holds")
        elif end is None and ends > len(clip) / RATE + _APART_S:
            warnings.append(f"the curve goes on to {ends:.2f} s, the motion ends at {len(clip) / RATE:.2f} s")
    take = project.add_take(
        name if name is not None else file.stem,
        _plain(part),
        begin=lead_in,
        values=values,
        columns=columns,
        labels=labels,
        source=utf8(file.name)
        if (start, end) == (0.0, None)
        else f"{utf8(file.name)} {first / RATE:g}..{last / RATE:g} s",
    )
    if not clip.mask.all():
        lacking = [n for n, there in zip(CANONICAL_JOINTS, clip.mask, strict=True) if not there]
        warnings.append(f"the source has no {', '.join(lacking)}")
    return take, warnings


def _span(file: Path, frames: int, start: float, end: float | None) -> tuple[int, int]:
    length = frames / RATE
    if not 0.0 <= start < length:
        raise OptionError(f"{file}: start must be within its {length:.2f} s, got {start:g}")
    if end is not None and not start < end:
        raise OptionError(f"{file}: end must come after {start:g} s, got {end:g}")
    first, last = round(start * RATE), frames if end is None else min(round(end * RATE), frames)
    if last - first < SHORTEST:
        raise OptionError(
            f"{file}: {(last - first) / RATE:.2f} s are too short for a take; expected at least"
            f" {SHORTEST / RATE:g} s"
        )
    return first, last


def _plain(clip: Clip) -> Clip:
    """Without the reader's remarks: the stored take is canonical motion, nothing else."""
    return replace(clip, warnings=())


def parse_changes(project: Project, text: str) -> tuple[dict[str, float | None], dict[str, str]]:
    """What ``brightness=.9,cutoff=none,pose=stand`` changes in a take: values, and labels.

    ``cutoff=none`` takes an output out of the take, ``pose=`` a class, as None; ``pose=none`` is a label.
    What is no output and is given no number is a class, if need be a new one.

    Raises:
        OptionError: anything else.
    """
    classes = {*project.state.classes, GESTURE}
    outputs = {output.name for output in project.state.outputs}
    changed: dict[str, float | None] = {}
    values: list[str] = []
    labels: list[str] = []
    for part in text.replace(",", " ").split():
        name, mark, said = part.partition("=")
        if mark and said == ("" if name in classes else "none"):
            changed[name] = None
        else:
            new = name not in outputs and said and not _is_number(said)
            (labels if name in classes or new else values).append(part)
    changed.update(parse_values(",".join(values)) if values else {})
    return changed, parse_labels(",".join(labels)) if labels else {}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
