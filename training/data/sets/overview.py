"""Statistics of a set: totals by split and subject, clip lengths, quantiles of scalars and parameters."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import EVENTS, PARAMETERS, RATE, SCALAR_COLUMNS, SCALARS
from training.data.examples import Split
from training.data.sets.format import SPLITS, ClipEntry, MotionSet

MAX_SAMPLE_ROWS: Final = 100_000
"""Rows sampled evenly over the set for the quantiles, so that a large set is not read whole."""

_QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Sample:
    """Evenly spaced rows of one split of a set."""

    scalars: NDArray[np.float32]
    """(n, 7)."""
    params: NDArray[np.float32]
    """(n, 8)."""


def sample(motion_set: MotionSet, split: Split | None = None, rows: int = MAX_SAMPLE_ROWS) -> Sample:
    """Take about ``rows`` rows at most, evenly spaced, of one split or of the whole set."""
    clips = [motion_set.clips[number] for number in motion_set.indices(split)]
    total = sum(clip.frames for clip in clips)
    step = max(total // rows, 1)
    index: list[NDArray[np.int64]] = []
    passed = 0
    for clip in clips:
        first = -passed % step
        index.append(np.arange(clip.start + first, clip.start + clip.frames, step))
        passed += clip.frames
    selected = np.concatenate(index) if index else np.zeros(0, dtype=np.int64)
    low, high = SCALAR_COLUMNS
    scalars = np.empty((len(selected), high - low), dtype=np.float32)
    params = np.empty((len(selected), len(PARAMETERS)), dtype=np.float32)
    for first in range(0, len(selected), 4096):  # in blocks: the rows lie on many different pages
        block = selected[first : first + 4096]
        scalars[first : first + 4096] = motion_set.features[block][:, low:high]
        params[first : first + 4096] = motion_set.params[block]
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


def overview(motion_set: MotionSet) -> dict[str, Any]:
    """The statistics of a set as JSON values."""
    by_split = {split: [clip for clip in motion_set.clips if clip.split == split] for split in SPLITS}
    by_subject: dict[str, list[ClipEntry]] = {}
    for clip in motion_set.clips:
        by_subject.setdefault(clip.subject, []).append(clip)
    rows = sample(motion_set)
    lengths = np.array([clip.frames for clip in motion_set.clips]) / RATE
    return {
        "set": str(motion_set.folder),
        "digest": motion_set.digest,
        "made_by": motion_set.index["made_by"],
        "total": _totals(motion_set.clips),
        "splits": {split: _totals(clips) for split, clips in by_split.items()},
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
        "refused": motion_set.index["refused"],
        "warnings": list(motion_set.warnings),
    }


def pick_clips(motion_set: MotionSet, most: int = 6) -> list[int]:
    """Pick clips to draw: from each split in turn, the longest clip of a subject not yet picked."""
    order = sorted(motion_set.indices(), key=lambda n: (-min(motion_set.clips[n].frames, 600), n))
    queues = {split: [n for n in order if motion_set.clips[n].split == split] for split in SPLITS}
    picked: list[int] = []
    seen: set[str] = set()
    while len(picked) < most and any(queues.values()):
        for queue in queues.values():
            pick = next(
                (n for n in queue if motion_set.clips[n].subject not in seen), queue[0] if queue else None
            )
            if pick is not None and len(picked) < most:
                queue.remove(pick)
                seen.add(motion_set.clips[pick].subject)
                picked.append(pick)
    return picked
