"""Checkpoints that are taught something more: which can be, and where the outcome goes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import MotionTransformer, load_motion_model
from pyanticip.models.checkpoint.manifest import Manifest, read_manifest
from training.teacher.handmade import PARAMETERS_SINCE, TEACHER_VERSION


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
    if version not in range(PARAMETERS_SINCE, TEACHER_VERSION + 1):
        raise CheckpointError(
            f"checkpoint {manifest.folder}: was taught by teacher {version}, "
            f"expected {PARAMETERS_SINCE} to {TEACHER_VERSION}"
        )
    try:
        model.cfg.replace(**changes)
    except OptionError as error:
        raise OptionError(f"checkpoint {manifest.folder}: {cannot}: {error}") from None
    return manifest, model


def not_left_out(training: Mapping[str, Any], without: Sequence[str]) -> list[str]:
    """A warning of who is left out here, but not of the training of the checkpoint, as far as it says."""
    kept = training.get("held_out")
    out = {str(name) for names in kept.values() for name in names} if isinstance(kept, Mapping) else set()
    if who := sorted({*without} - out):
        return [f"the checkpoint does not say that its training left out subject {', '.join(who)}"]
    return []
