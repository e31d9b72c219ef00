"""The teacher and the people a checkpoint was trained with, and warnings if it is evaluated on them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyanticip.errors import CheckpointError
from pyanticip.models import MotionTransformer, load_motion_model
from pyanticip.models.checkpoint.manifest import Manifest, read_manifest
from training.teacher.kinematic_targets import TEACHER_VERSION


def load_taught(checkpoint: Path | str | None) -> tuple[Manifest, MotionTransformer]:
    """Load a checkpoint that was trained with this version of the teacher; None for the packaged one.

    Raises:
        CheckpointError: not a motion model, or one trained with another version of the teacher.
    """
    manifest = read_manifest(checkpoint)
    version = manifest.training.get("teacher_version", TEACHER_VERSION)
    if version != TEACHER_VERSION:
        raise CheckpointError(
            f"checkpoint {manifest.folder}: was taught by teacher {version}, expected {TEACHER_VERSION}"
        )
    return manifest, load_motion_model(checkpoint)


def training_subjects(training: Mapping[str, Any]) -> frozenset[str]:
    """All people a checkpoint was trained on, in its run and in later stages.

    Args:
        training: table ``training`` of the checkpoint's manifest.
    """
    lists = [training.get("people")]
    for stage in ("beats", "poses"):
        entry = training.get(stage)
        lists.append(entry.get("learned_from") if isinstance(entry, Mapping) else None)
    return frozenset(str(name) for names in lists if isinstance(names, list) for name in names)


def training_overlap_warnings(training: Mapping[str, Any], judged: Iterable[str]) -> list[str]:
    """Warn about evaluated people that the checkpoint was trained on.

    If its run does not list them, warn about everybody who is not listed as held out.

    Args:
        training: table ``training`` of the checkpoint's manifest.
        judged: the subjects it is evaluated on.
    """
    people, warnings = set(judged), []
    if known := sorted(people & training_subjects(training)):
        warnings.append(f"this checkpoint learned from subject {', '.join(known)}, who is judged here")
    if isinstance(training.get("people"), list):
        return warnings
    held_out = training.get("held_out")
    if not isinstance(held_out, Mapping):
        return [*warnings, "the checkpoint does not say which subjects it was not trained on"]
    held_out_names = {str(name) for names in held_out.values() if isinstance(names, list) for name in names}
    if unclear := sorted(people - held_out_names - set(known)):
        names = ", ".join(unclear)
        warnings.append(f"not held out of this checkpoint's training as far as it says: subject {names}")
    return warnings
