"""Shared by the stages after training: checks of checkpoint and data, notes, comparison of results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer
from pyanticip.models.checkpoint.manifest import Manifest
from training.data.examples import Example
from training.data.sets import MotionSet
from training.evaluate.takes import kind_of
from training.report.tables import ProgressCallback
from training.tasks.motion.data import TrainingData
from training.tasks.motion.people import load_taught, training_overlap_warnings, training_subjects
from training.teacher.kinematic_targets import TEACHER_VERSION


def check_new(out: Path) -> None:
    """Check that a folder does not exist or is empty.

    Raises:
        OptionError: it is not empty, or is a file.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OptionError(f"{out}: already exists; give a new folder for the checkpoint")


def load_base_model(
    checkpoint: Path | None, cannot: str, **changes: Any
) -> tuple[Manifest, MotionTransformer]:
    """Load a checkpoint, and check that these changes of its configuration are possible.

    Args:
        checkpoint: its folder; None for the packaged one.
        cannot: text for the error message, if they are not.
        **changes: changes of the configuration.

    Raises:
        CheckpointError: not a motion model, or one trained with another version of the teacher.
        OptionError: a model that cannot have these changes.
    """
    manifest, model = load_taught(checkpoint)
    model.eval()
    try:
        model.cfg.replace(**changes)
    except OptionError as error:
        raise OptionError(f"checkpoint {manifest.folder}: {cannot}: {error}") from None
    return manifest, model


def check_strangers(manifest: Manifest, base: MotionSet, without: Sequence[str]) -> list[str]:
    """Refuse to evaluate a checkpoint on subjects it was trained on.

    Args:
        manifest: the checkpoint's manifest.
        base: the set to train with.
        without: training subjects to evaluate on instead of the validation side.

    Returns:
        Warnings about evaluated subjects that, according to the checkpoint, were not held out.

    Raises:
        OptionError: it was trained on an evaluated subject. A checkpoint that does not list its training
            subjects is accepted.
    """
    evaluated = {*without} or {*base.subjects("validation")}
    if seen := sorted(evaluated & training_subjects(manifest.training)):
        raise OptionError(
            f"checkpoint {manifest.folder}: learned from {', '.join(seen)}, whom this judges; expected "
            "a validation side that it has not seen (train data build --split-file), or others in --without"
        )
    return training_overlap_warnings(manifest.training, evaluated)


def kinds_of(base: MotionSet, examples: Sequence[Example]) -> list[str]:
    """The kind of movement of each of some clips of a set."""
    words = {clip.name: clip.words for clip in base.clips}
    return [kind_of(words[example.name]) for example in examples]


def data_notes(data: TrainingData, copies: int, without: Sequence[str]) -> dict[str, Any]:
    """Notes on the training data, to save in the checkpoint."""
    return {
        "data": data.digest,
        "copies": copies,
        "without": list(without),
        "learned_from": sorted({example.subject for example in data.originals}),
        "judged_on": sorted({example.subject for example in data.validation}),
    }


def training_notes(manifest: Manifest, stage: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """The checkpoint's training notes with those of ``stage``, whose subjects are no longer held out."""
    notes = {**manifest.training, "teacher_version": TEACHER_VERSION, stage: report}
    if isinstance(held_out := notes.get("held_out"), Mapping):
        used = {*report["learned_from"]}
        sides = {side: subjects for side, subjects in held_out.items() if isinstance(subjects, list)}
        notes["held_out"] = {
            side: [subject for subject in subjects if subject not in used] for side, subjects in sides.items()
        }
    return notes


def warn(console: Console, lines: Sequence[str]) -> None:
    """Print warnings, a line each."""
    for line in lines:
        console.print(f"warning: {line}", markup=False, highlight=False, soft_wrap=True)


def evaluate_both(
    before: MotionTransformer,
    after: MotionTransformer,
    judge: Callable[[MotionTransformer], Any],
    say: ProgressCallback,
) -> dict[str, Any]:
    """Evaluate two models; returns the results as ``before`` and ``judged``."""
    results = {}
    for number, (name, model) in enumerate({"before": before, "judged": after}.items()):
        say("judging", number, 2)
        results[name] = judge(model)
    say("judging", 2, 2)
    return results


def table_of(title: str, names: Sequence[str], leads_ms: Sequence[int]) -> Table:
    """An empty table: columns of names, then of figures before and after at each lead."""
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True)
    for when in ("before", "after"):
        for number, ms in enumerate(leads_ms):
            table.add_column(f"{'' if number else when}\n{ms} ms", justify="right", no_wrap=True)
    return table
