"""What ``pyanticip train beats`` does: a checkpoint's event head learns to hear strokes, the trunk stays.

A set, or a folder of takes, teaches the head of :mod:`training.finish.event_head`: its training clips, varied
copies, and copies that are played faster than they were (few people run in them).
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
from training.data.examples import SHORTEST, Example, Piece, plain
from training.data.sets import MotionSet
from training.data.sets.vary import finer
from training.evaluate.events import score_clips, total
from training.evaluate.rules import LEADS_MS, live
from training.evaluate.takes import KINDS
from training.finish import common
from training.finish.event_head import STEPS, Frames, inputs_of, learn, with_strokes
from training.report.tables import Say, bars
from training.tasks.motion.data import base_set, training_data
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.scores import run_model
from training.teacher.kinematic_targets import TEACHER_VERSION

FASTER: Final = (1.15, 1.6)
"""How much faster the copies are that are sped up."""

MOST: Final = 600_000
"""Frames about which a head learns from; of more, every second or third is kept, so that memory suffices."""

RULES: Final[Mapping[str, EventTrigger | None]] = {"reach": EventTrigger(), "last-moment": None}
"""By the names that a rig has for them; None: the one that plays, with the lead as its own."""


@dataclass(frozen=True)
class EventHeadData:
    """What a head learns from and is judged on."""

    clips: Iterable[Example]
    """Clips and copies, gone through once."""
    count: int
    """How many they are."""
    frames: int
    """How many frames they have, about."""
    judged: Sequence[Example]
    kinds: Sequence[str]
    """Of those that are judged."""
    noted: Mapping[str, Any]
    """What to note of it in the checkpoint."""
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
    """Teach a checkpoint's head what a set holds, and write the checkpoint anew.

    Args:
        data: a set, or a folder of takes, which is built into one first as ``train motion`` does.
        out: folder of the new checkpoint; it is there whole or, after an error or Ctrl-C, not at all.
        base: that set, where it is open already and its warnings were told.
        checkpoint: the packaged one where it is None.
        without: training subjects to judge on instead of the validation side; nothing is learned from them.
        copies: varied copies of each training clip.
        faster: copies of each that are played faster; none of clips that have a sound.
        steps: of the head's training.
        seed: of the head.
        cache: folder of what is built on the way; the user's cache folder by default.
        quiet: no progress.

    Returns:
        What is noted in the checkpoint, and what there is to warn of.

    Raises:
        OptionError: a folder that holds something, data that nothing can be learned from, a model that cannot
            follow strokes or that learned from who is judged.
        FormatError: no motion there, or a set of another version or teacher.
        CheckpointError: no motion model, or one of another teacher.
    """
    common.check_new(out)
    torch.set_num_threads(1)  # the same figures everywhere, and more would gain little
    manifest, model = common.teachable(checkpoint, "its head cannot hear strokes", strokes=True)
    console = Console(stderr=True, quiet=quiet)
    given = {"path": data, "copies": copies, "cache": "" if cache is None else cache}
    options = MotionTrainOptions().but(data=given)
    told = base.warnings if base else ()
    base = base or base_set(options, console)
    unsure = common.check_strangers(manifest, base, without)
    head_data = _head_data(base, options, without, faster, console)
    warnings = [*head_data.warnings, *unsure]
    common.warn(console, [line for line in warnings if line not in told])
    with bars(console) as progress:
        frames = frames_of(model, head_data, progress)
        units = model.control.first.out_features
        learned = learn(
            frames, units, steps=steps, seed=seed, on_step=lambda done: progress("learning", done, steps)
        )
        changed = with_strokes(model, learned)
        figures = common.before_and_after(
            model, changed, lambda one: judged(one, head_data.judged, head_data.kinds), progress
        )
        counts = {"steps": steps, "seed": seed, "frames": len(frames.inputs)}
        report = {"teacher_version": TEACHER_VERSION, **head_data.noted, **counts, **figures}
        progress("writing", 0, 1)
        save_checkpoint(out, changed, training=common.training_of(manifest, "beats", report))
        progress("writing", 1, 1)
    return {"checkpoint": str(out), **report, "warnings": warnings}


def sped_up(pieces: Iterable[Piece], copies: int) -> Iterator[Example]:
    """Copies of pieces, each as it would be if it had been done faster throughout; one at a time."""
    rng = np.random.default_rng(1)
    for piece in pieces:
        for _ in range(copies):
            example = plain(replace(piece, rate=piece.rate * rng.uniform(*FASTER)))
            if len(example) >= SHORTEST:
                yield example


def _head_data(
    base: MotionSet, options: MotionTrainOptions, without: Sequence[str], faster: int, console: Console
) -> EventHeadData:
    known = {base.clips[number].name: number for number in base.indices()}
    # Before copies are made, which takes a while; half of nothing is nothing.
    if not any(base.clips[number].events[1] for number in base.training(without)):
        raise OptionError(
            f"{options.data.path}: no beat in any training clip: nowhere were hands, feet and head fast "
            "enough (0.6 m/s) and then slower; add livelier takes"
        )
    data = training_data(options, console, base=base, without=without)
    numbers = [known[example.name] for example in data.bare]
    # What goes with a sound cannot be played faster without it.
    free = [number for number in numbers if base.clips[number].targets == "teacher"]
    quick = sped_up((finer(base.piece(number)) for number in free), faster)
    frames = sum(base.clips[number].frames for number in free) * faster / (sum(FASTER) / len(FASTER))
    warnings = list(data.warnings)
    if not any(len(example.onsets) for example in data.validation):
        warnings.append(f"{options.data.path}: no beat in the clips to judge on: there are no figures")
    return EventHeadData(
        clips=chain(data.train, quick),
        count=len(data.train) + faster * len(free),
        frames=round(sum(map(len, data.train)) + frames),
        judged=data.validation,
        kinds=common.kinds_of(base, data.validation),
        noted={**common.noted(data, options.data.copies, without), "faster": faster},
        warnings=warnings,
    )


def frames_of(model: MotionTransformer, head_data: EventHeadData, progress: Say) -> Frames:
    """What a head learns from; subjects count by the root of their frames, as in training.

    Raises:
        OptionError: no beat in any clip.
    """
    every = max(-(-head_data.frames // MOST), 1)
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
    progress("listening", len(parts), len(parts))  # some copies may have been too short
    weights = [torch.full((len(p[1]),), counts[s] ** -0.5) for p, s in zip(parts, subjects, strict=True)]
    inputs, bins, known = (torch.cat(column) for column in zip(*parts, strict=True))
    return Frames(inputs, bins, known, torch.cat(weights))


def judged(
    model: MotionTransformer, examples: Sequence[Example], kinds: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    """F1 of a model's beats by either rule, kind of movement (how many beats) and lead, to two digits."""
    outputs = [run_model(model, example) for example in examples]
    found: dict[str, dict[str, list[float]]] = {}
    for name, rule in RULES.items():
        cells = found.setdefault(name, {})
        for ms in LEADS_MS:
            announced = [live(output, 0, rule, lead_ms=float(ms)) for output in outputs]
            scores, _ = score_clips(examples, announced, 0, ms * RATE / 1000.0)
            for kind in KINDS:
                score = total([s for s, one in zip(scores, kinds, strict=True) if one == kind])
                if score.true:
                    cells.setdefault(f"{kind} ({score.true})", []).append(round(score.f1, 2))
    return found


def table(report: Mapping[str, Any]) -> Table:
    """F1 of beats by kind of movement and rule, before and after, at each lead."""
    title = "F1 of beats, announced so many ms ahead"
    found = common.table_of(title, ("beats of", "rule"), LEADS_MS)
    kinds = list(next(iter(report["judged"].values())))
    for kind in kinds:
        for rule, after in report["judged"].items():
            cells = [*report["before"][rule][kind], *after[kind]]
            name = kind.replace("other", "all") if len(kinds) == 1 else kind
            found.add_row(name, rule, *(f"{value:.2f}" for value in cells))
    return found
