"""What ``pyanticip train beats`` does: a set, or a folder of takes, teaches a checkpoint's event head."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from pyanticip.errors import OptionError
from training import teach_beats
from training.beat_strokes import FASTER, hurried
from training.data.sets import MotionSet
from training.data.sets.vary import finer
from training.evaluate.categories import group_of, read_categories
from training.evaluate.rules import LEADS_MS
from training.tasks.motion.data import base_set, training_data
from training.tasks.motion.options import MotionTrainOptions


def run(
    data: Path,
    out: Path,
    *,
    checkpoint: Path | None,
    without: Sequence[str],
    copies: int,
    faster: int,
    steps: int,
    seed: int,
    cache: Path | None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Teach a checkpoint's head what a set holds, and write the checkpoint anew.

    Args:
        data: a set, or a folder of takes, which is built into one first as ``train motion`` does.
        out: folder of the new checkpoint.
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
            follow strokes.
        FormatError: no motion there, or a set of another version or teacher.
        CheckpointError: no motion model, or one of another teacher.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OptionError(f"{out}: is there already; give a new folder for the checkpoint")
    torch.set_num_threads(1)  # the same figures everywhere, and more would gain little
    manifest, _ = teach_beats.able(checkpoint)
    console = Console(stderr=True, quiet=quiet)
    given = {"path": data, "copies": copies, "cache": "" if cache is None else cache}
    options = MotionTrainOptions().but(data=given)
    base = base_set(options, console)
    lesson, noted, warnings = _lesson(base, options, without, faster, console)
    warnings += _seen(manifest.training, without)
    for line in warnings:
        console.print(f"warning: {line}", markup=False, highlight=False, soft_wrap=True)
    with _shown(console) as progress:
        report = teach_beats.teach(
            checkpoint, out, lesson, steps=steps, seed=seed, noted=noted, progress=progress
        )
    return {"checkpoint": str(out), **report, "warnings": warnings}


def _lesson(
    base: MotionSet, options: MotionTrainOptions, without: Sequence[str], faster: int, console: Console
) -> tuple[teach_beats.Lesson, dict[str, Any], list[str]]:
    """What there is to learn and to judge, what to note about it, and what to warn of."""
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
    quick = hurried((finer(base.piece(number)) for number in free), faster)
    frames = sum(base.clips[number].frames for number in free) * faster / (sum(FASTER) / len(FASTER))
    categories = read_categories(Path(options.data.path))
    lesson = teach_beats.Lesson(
        clips=chain(data.train, quick),
        count=len(data.train) + faster * len(free),
        frames=round(sum(map(len, data.train)) + frames),
        judged=data.validation,
        groups=[
            group_of(Path(base.clips[known[example.name]].source).stem, categories)
            for example in data.validation
        ],
    )
    noted = {
        "data": data.digest,
        "copies": options.data.copies,
        "faster": faster,
        "without": list(without),
        "learned_from": sorted({example.subject for example in data.bare}),
        "judged_on": sorted({example.subject for example in data.validation}),
    }
    warnings = list(data.warnings)
    if not any(len(example.onsets) for example in data.validation):
        warnings.append(f"{options.data.path}: no beat in the clips to judge on: there are no figures")
    return lesson, noted, warnings


def _seen(training: Mapping[str, Any], without: Sequence[str]) -> list[str]:
    """Who is left out here, but not of the training of the checkpoint, as far as it says."""
    kept = training.get("held_out")
    out = {str(name) for names in kept.values() for name in names} if isinstance(kept, Mapping) else set()
    if who := sorted({*without} - out):
        return [f"the checkpoint does not say that its training left out subject {', '.join(who)}"]
    return []


@contextmanager
def _shown(console: Console) -> Iterator[teach_beats.Progress]:
    """A bar for every part of the work."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=console.quiet) as bars:
        tasks: dict[str, Any] = {}

        def say(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield say


def table(report: Mapping[str, Any]) -> Table:
    """F1 of beats by kind of movement and rule, before and after, at each lead."""
    title = "F1 of beats, announced so many ms ahead"
    found = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    found.add_column("beats of", no_wrap=True)
    found.add_column("rule", no_wrap=True)
    for when in ("before", "after"):
        for number, ms in enumerate(LEADS_MS):
            found.add_column(f"{'' if number else when}\n{ms} ms", justify="right", no_wrap=True)
    kinds = list(next(iter(report["judged"].values())))
    for kind in kinds:
        for rule, after in report["judged"].items():
            cells = [*report["before"][rule][kind], *after[kind]]
            name = kind.replace("other", "all") if len(kinds) == 1 else kind
            found.add_row(name, rule, *(f"{value:.2f}" for value in cells))
    return found
