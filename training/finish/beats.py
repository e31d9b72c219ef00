"""``pyanticip train beats``: trains a checkpoint's event head on strokes; the trunk does not change.

The head of :mod:`training.finish.event_head` is trained on a set, or a folder of takes: its training clips,
varied copies, and copies played faster (few people run in them).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from pyanticip.controls import EventTrigger
from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer, save_checkpoint
from pyanticip.vocabulary import RATE
from training.data.batches import event_targets
from training.data.examples import SHORTEST, Example, Piece, example_from_piece
from training.data.sets import MotionSet
from training.data.sets.vary import upsample
from training.evaluate.events import LEADS_MS, announce, score_clips, total
from training.evaluate.takes import KINDS
from training.finish import common
from training.finish.event_head import STEPS, Frames, inputs_of, learn, with_strokes
from training.report.tables import ProgressCallback, progress_bars
from training.tasks.motion.data import base_set, training_data
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.scores import run_model
from training.teacher.kinematic_targets import TEACHER_VERSION

FASTER: Final = (1.15, 1.6)
"""Range of the speed of copies that are played faster."""

MAX_FRAMES: Final = 600_000
"""Approximate maximum of training frames; of more, every second or third is used, to limit memory."""

RULES: Final[Mapping[str, EventTrigger | None]] = {"reach": EventTrigger(), "last-moment": None}
"""Event rules by their names in a rig; None: the default rule, with the lead as a parameter."""


@dataclass(frozen=True)
class EventHeadData:
    """Training and evaluation data of a head."""

    clips: Iterable[Example]
    """Clips and copies, iterated once."""
    count: int
    """Number of clips and copies."""
    frames: int
    """Their approximate number of frames."""
    evaluated: Sequence[Example]
    kinds: Sequence[str]
    """Kinds of movement of the evaluated clips."""
    notes: Mapping[str, Any]
    """Notes on the data, to save in the checkpoint."""
    warnings: Sequence[str]


def train_event_head(
    data: Path,
    out: Path,
    *,
    base: MotionSet | None = None,
    checkpoint: Path | None = None,
    without: Sequence[str] = (),
    copies: int = 3,
    faster: int = 1,
    steps: int = STEPS,
    seed: int = 0,
    cache: Path | None = None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Train a checkpoint's event head on a set, and write a new checkpoint.

    Args:
        data: a set, or a folder of takes, which is first built into one as ``train motion`` does.
        out: folder of the new checkpoint, written only on success.
        base: that set, if it is already open and its warnings were printed.
        checkpoint: the checkpoint to start from; None for the packaged one.
        without: training subjects to evaluate on instead of the validation side; not trained on.
        copies: varied copies of each training clip.
        faster: faster copies of each training clip; none of clips with a sound.
        steps: training steps.
        seed: random seed of weights, copies and draws.
        cache: folder of intermediate files; the user's cache folder by default.
        quiet: whether to show no progress.

    Returns:
        The notes in the checkpoint, and warnings.

    Raises:
        OptionError: a folder that is not empty, data without beats, a model that cannot have strokes, or one
            that was trained on evaluated subjects.
        FormatError: data without motion, or a set of another version or teacher.
        CheckpointError: not a motion model, or one of another version of the teacher.
    """
    common.check_new(out)
    torch.set_num_threads(1)  # the same result on every machine, and more would gain little
    manifest, model = common.load_base_model(checkpoint, "its head cannot hear strokes", strokes=True)
    console = Console(stderr=True, quiet=quiet)
    cache_path = "" if cache is None else cache
    data_options = {"path": data, "copies": copies, "copies_seed": seed, "cache": cache_path}
    options = MotionTrainOptions().replace(data=data_options)
    printed = base.warnings if base else ()
    base = base or base_set(options, console)
    stranger_warnings = common.check_strangers(manifest, base, without)
    head_data = _head_data(base, options, without, faster, console)
    warnings = [*head_data.warnings, *stranger_warnings]
    common.warn(console, [line for line in warnings if line not in printed])
    with progress_bars(console) as progress:
        frames = frames_of(model, head_data, progress)
        units = model.control.first.out_features
        trained = learn(
            frames, units, steps=steps, seed=seed, on_step=lambda done: progress("learning", done, steps)
        )
        new_model = with_strokes(model, trained)
        figures = common.evaluate_both(
            model, new_model, lambda one: evaluate(one, head_data.evaluated, head_data.kinds), progress
        )
        counts = {"steps": steps, "seed": seed, "frames": len(frames.inputs)}
        report = {"teacher_version": TEACHER_VERSION, **head_data.notes, **counts, **figures}
        progress("writing", 0, 1)
        save_checkpoint(out, new_model, training=common.training_notes(manifest, "beats", report))
        progress("writing", 1, 1)
    return {"checkpoint": str(out), **report, "warnings": warnings}


def sped_up(pieces: Iterable[Piece], copies: int, seed: int = 0) -> Iterator[Example]:
    """Copies of pieces, each played faster by a constant factor; generated one at a time."""
    rng = np.random.default_rng(1 + seed)
    for piece in pieces:
        for _ in range(copies):
            example = example_from_piece(replace(piece, rate=piece.rate * rng.uniform(*FASTER)))
            if len(example) >= SHORTEST:
                yield example


def _head_data(
    base: MotionSet, options: MotionTrainOptions, without: Sequence[str], faster: int, console: Console
) -> EventHeadData:
    numbers_by_name = {base.clips[number].name: number for number in base.indices()}
    # Checked before making copies, which takes a while.
    if not any(base.clips[number].events[1] for number in base.training(without)):
        raise OptionError(
            f"{options.data.path}: no beat in any training clip: nowhere were hands, feet and head fast "
            "enough (0.6 m/s) and then slower; add livelier takes"
        )
    data = training_data(options, console, base=base, without=without)
    numbers = [numbers_by_name[example.name] for example in data.originals]
    # A clip with a sound cannot be played faster without it.
    soundless = [number for number in numbers if base.clips[number].targets == "teacher"]
    fast_copies = sped_up(
        (upsample(base.piece(number)) for number in soundless), faster, options.data.copies_seed
    )
    frames = sum(base.clips[number].frames for number in soundless) * faster / (sum(FASTER) / len(FASTER))
    warnings = list(data.warnings)
    if not any(len(example.onsets) for example in data.validation):
        warnings.append(f"{options.data.path}: no beat in the clips to judge on: there are no figures")
    return EventHeadData(
        clips=chain(data.train, fast_copies),
        count=len(data.train) + faster * len(soundless),
        frames=round(sum(map(len, data.train)) + frames),
        evaluated=data.validation,
        kinds=common.kinds_of(base, data.validation),
        notes={**common.data_notes(data, options.data.copies, without), "faster": faster},
        warnings=warnings,
    )


def frames_of(model: MotionTransformer, head_data: EventHeadData, progress: ProgressCallback) -> Frames:
    """Training frames of a head; as in training, a subject's weight is the root of its number of frames.

    Raises:
        OptionError: no beat in any clip.
    """
    every = max(-(-head_data.frames // MAX_FRAMES), 1)
    parts, subjects, counts, beats = [], list[str](), dict[str, int](), 0
    for number, example in enumerate(head_data.clips, start=1):
        targets = map(torch.from_numpy, event_targets(example.onsets, len(example)))
        parts.append([column[::every].clone() for column in (inputs_of(model, example), *targets)])
        subjects.append(example.subject)
        counts[example.subject] = counts.get(example.subject, 0) + len(example)
        beats += len(example.onsets)
        progress("listening", number, head_data.count)
    if not beats:
        raise OptionError(
            f"no beat in the {len(parts)} clips and copies to learn from: no hand, foot or head was fast "
            "enough and then slower; record livelier takes"
        )
    progress("listening", len(parts), len(parts))  # some copies may have been dropped as too short
    weights = [torch.full((len(p[1]),), counts[s] ** -0.5) for p, s in zip(parts, subjects, strict=True)]
    inputs, bins, bins_inside = (torch.cat(column) for column in zip(*parts, strict=True))
    return Frames(inputs, bins, bins_inside, torch.cat(weights))


def evaluate(
    model: MotionTransformer, examples: Sequence[Example], kinds: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    """F1 of a model's beats by rule, kind of movement (with the number of beats) and lead, to two digits."""
    outputs = [run_model(model, example) for example in examples]
    results: dict[str, dict[str, list[float]]] = {}
    for name, rule in RULES.items():
        cells = results.setdefault(name, {})
        for ms in LEADS_MS:
            announced = [announce(output, 0, rule, lead_ms=float(ms)) for output in outputs]
            scores, _ = score_clips(examples, announced, 0, ms * RATE / 1000.0)
            for kind in KINDS:
                score = total([s for s, each in zip(scores, kinds, strict=True) if each == kind])
                if score.true:
                    cells.setdefault(f"{kind} ({score.true})", []).append(round(score.f1, 2))
    return results


def table(report: Mapping[str, Any]) -> Table:
    """F1 of beats by kind of movement and rule, before and after, at each lead."""
    title = "F1 of beats, announced so many ms ahead"
    rows = common.table_of(title, ("beats of", "rule"), LEADS_MS)
    kinds = list(next(iter(report["judged"].values())))
    for kind in kinds:
        for rule, after in report["judged"].items():
            cells = [*report["before"][rule][kind], *after[kind]]
            name = kind.replace("other", "all") if len(kinds) == 1 else kind
            rows.add_row(name, rule, *(f"{value:.2f}" for value in cells))
    return rows
