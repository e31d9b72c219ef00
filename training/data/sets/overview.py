"""What is in a set, in numbers: totals by side and subject, lengths, spread of scalars and parameters."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import EVENTS, PARAMETERS, RATE, SCALAR_COLUMNS, SCALARS
from training.data.examples import Split
from training.data.sets.format import SPLITS, ClipEntry, MotionSet

SAMPLED: Final = 100_000
"""Rows that are looked at for the spread, evenly over the set: a large set is not read whole."""

_QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Sample:
    """Evenly spread rows of one side of a set."""

    scalars: NDArray[np.float32]
    """(n, 7)."""
    params: NDArray[np.float32]
    """(n, 8)."""


def sample(found: MotionSet, split: Split | None = None, rows: int = SAMPLED) -> Sample:
    """At most about ``rows`` rows of one side, or of all, at equal distances."""
    clips = [found.clips[number] for number in found.indices(split)]
    total = sum(clip.frames for clip in clips)
    step = max(total // rows, 1)
    index: list[NDArray[np.int64]] = []
    past = 0
    for clip in clips:
        first = -past % step
        index.append(np.arange(clip.start + first, clip.start + clip.frames, step))
        past += clip.frames
    where = np.concatenate(index) if index else np.zeros(0, dtype=np.int64)
    low, high = SCALAR_COLUMNS
    scalars = np.empty((len(where), high - low), dtype=np.float32)
    params = np.empty((len(where), len(PARAMETERS)), dtype=np.float32)
    for first in range(0, len(where), 4096):  # rows lie far apart: not all pages at once
        block = where[first : first + 4096]
        scalars[first : first + 4096] = found.features[block][:, low:high]
        params[first : first + 4096] = found.params[block]
    return Sample(scalars, params)


def _totals(clips: Iterable[ClipEntry]) -> dict[str, Any]:
    found = list(clips)
    frames = sum(clip.frames for clip in found)
    seconds = frames / RATE
    events = {
        kind: round(sum(clip.events[1 + n] for clip in found) / seconds, 3) if seconds else 0.0
        for n, kind in enumerate(EVENTS)
    }
    return {
        "subjects": len({clip.subject for clip in found}),
        "takes": len({clip.source for clip in found}),
        "clips": len(found),
        "frames": frames,
        "minutes": round(seconds / 60.0, 3),
        "events_per_second": events,
        "taught_by_sound": sum(clip.targets == "audio" for clip in found),
        "with_missing_joints": sum(bool(clip.missing) for clip in found),
    }


def _spread(values: NDArray[np.float32], names: Iterable[str]) -> dict[str, dict[str, float]]:
    if len(values) == 0:
        return {}
    table = np.quantile(values.astype(np.float64), _QUANTILES, axis=0)
    return {
        name: {f"{round(100 * q)}%": round(float(v), 4) for q, v in zip(_QUANTILES, table[:, k], strict=True)}
        for k, name in enumerate(names)
    }


def overview(found: MotionSet) -> dict[str, Any]:
    """Everything the page says in words, as plain values."""
    sides = {split: [clip for clip in found.clips if clip.split == split] for split in SPLITS}
    by_subject: dict[str, list[ClipEntry]] = {}
    for clip in found.clips:
        by_subject.setdefault(clip.subject, []).append(clip)
    rows = sample(found)
    lengths = np.array([clip.frames for clip in found.clips]) / RATE
    return {
        "set": str(found.folder),
        "digest": found.digest,
        "made_by": found.index["made_by"],
        "total": _totals(found.clips),
        "splits": {split: _totals(clips) for split, clips in sides.items()},
        "subjects": {
            subject: {"split": clips[0].split, **_totals(clips)}
            for subject, clips in sorted(by_subject.items())
        },
        "clip_seconds": {
            "shortest": round(float(lengths.min()), 2),
            "median": round(float(np.median(lengths)), 2),
            "longest": round(float(lengths.max()), 2),
        },
        "scalars": _spread(rows.scalars, SCALARS),
        "params": _spread(rows.params, PARAMETERS),
        "refused": found.index["refused"],
        "warnings": list(found.warnings),
    }


def chosen(found: MotionSet, most: int = 6) -> list[int]:
    """Clips worth drawing: of each side in turn, the longest of a subject that has not been shown."""
    order = sorted(found.indices(), key=lambda n: (-min(found.clips[n].frames, 600), n))
    queues = {split: [n for n in order if found.clips[n].split == split] for split in SPLITS}
    picked: list[int] = []
    seen: set[str] = set()
    while len(picked) < most and any(queues.values()):
        for queue in queues.values():
            fresh = next(
                (n for n in queue if found.clips[n].subject not in seen), queue[0] if queue else None
            )
            if fresh is not None and len(picked) < most:
                queue.remove(fresh)
                seen.add(found.clips[fresh].subject)
                picked.append(fresh)
    return picked
