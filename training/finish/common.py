"""Checkpoints that are taught something more: which can be, and where the outcome goes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import MotionTransformer, load_motion_model
from pyanticip.models.checkpoint.manifest import Manifest, read_manifest
from training.data.examples import Example
from training.data.sets import MotionSet
from training.evaluate.takes import kind_of
from training.report.tables import Say
from training.tasks.motion.data import TrainingData
from training.tasks.motion.people import not_strangers, training_subjects
from training.teacher.kinematic_targets import TEACHER_VERSION


def check_new(out: Path) -> None:
    """Refuse a folder that holds something.

    Raises:
        OptionError: it does, or is none.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OptionError(f"{out}: is there already; give a new folder for the checkpoint")


def teachable(checkpoint: Path | None, cannot: str, **changes: Any) -> tuple[Manifest, MotionTransformer]:
    """A checkpoint that can be taught what changes its configuration so.

    Args:
        checkpoint: the packaged one where it is None.
        cannot: what it then cannot do, for the message.
        **changes: of the configuration.

    Raises:
        CheckpointError: no motion model, or one that another teacher has taught its parameters.
        OptionError: a model that cannot have these changes.
    """
    manifest, model = read_manifest(checkpoint), load_motion_model(checkpoint).eval()
    version = manifest.training.get("teacher_version", TEACHER_VERSION)
    if version != TEACHER_VERSION:
        raise CheckpointError(
            f"checkpoint {manifest.folder}: was taught by teacher {version}, expected {TEACHER_VERSION}"
        )
    try:
        model.cfg.replace(**changes)
    except OptionError as error:
        raise OptionError(f"checkpoint {manifest.folder}: {cannot}: {error}") from None
    return manifest, model


def check_strangers(manifest: Manifest, base: MotionSet, without: Sequence[str]) -> list[str]:
    """Refuse to judge a checkpoint on whom it learned from.

    Args:
        manifest: of the checkpoint.
        base: the set it is to be taught by.
        without: training subjects to judge on instead of the validation side.

    Returns:
        A warning of who is judged and, as far as it says, was not held out of its training.

    Raises:
        OptionError: it learned from one who is judged; a checkpoint that does not say whom it learned from
            is believed.
    """
    judged = {*without} or {*base.subjects("validation")}
    if known := sorted(judged & training_subjects(manifest.training)):
        raise OptionError(
            f"checkpoint {manifest.folder}: learned from {', '.join(known)}, whom this judges; expected "
            "a validation side that it has not seen (train data build --split-file), or others in --without"
        )
    return not_strangers(manifest.training, judged)


def kinds_of(base: MotionSet, examples: Sequence[Example]) -> list[str]:
    """What each of some clips of a set shows."""
    words = {clip.name: clip.words for clip in base.clips}
    return [kind_of(words[example.name]) for example in examples]


def noted(data: TrainingData, copies: int, without: Sequence[str]) -> dict[str, Any]:
    """What to note in a checkpoint of what it was taught by."""
    return {
        "data": data.digest,
        "copies": copies,
        "without": list(without),
        "learned_from": sorted({example.subject for example in data.bare}),
        "judged_on": sorted({example.subject for example in data.validation}),
    }


def training_of(manifest: Manifest, stage: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint says of its training once ``stage`` taught it: who did is held out no more."""
    found = {**manifest.training, "teacher_version": TEACHER_VERSION, stage: report}
    if isinstance(kept := found.get("held_out"), Mapping):
        taught = {*report["learned_from"]}
        sides = {side: who for side, who in kept.items() if isinstance(who, list)}
        found["held_out"] = {side: [one for one in who if one not in taught] for side, who in sides.items()}
    return found


def warn(console: Console, lines: Sequence[str]) -> None:
    """Print warnings, a line each."""
    for line in lines:
        console.print(f"warning: {line}", markup=False, highlight=False, soft_wrap=True)


def before_and_after(
    before: MotionTransformer, after: MotionTransformer, judge: Callable[[MotionTransformer], Any], say: Say
) -> dict[str, Any]:
    """How two models are judged, as ``before`` and ``judged``."""
    found = {}
    for number, (name, model) in enumerate({"before": before, "judged": after}.items()):
        say("judging", number, 2)
        found[name] = judge(model)
    say("judging", 2, 2)
    return found


def table_of(title: str, names: Sequence[str], leads_ms: Sequence[int]) -> Table:
    """A table without rows: columns of names, then figures before and after at so many ms ahead."""
    found = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        found.add_column(name, no_wrap=True)
    for when in ("before", "after"):
        for number, ms in enumerate(leads_ms):
            found.add_column(f"{'' if number else when}\n{ms} ms", justify="right", no_wrap=True)
    return found
