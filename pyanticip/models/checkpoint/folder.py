"""The folder that a checkpoint is written to: replaced atomically, and only if it holds a checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyanticip.errors import CheckpointError
from pyanticip.models.checkpoint.manifest import KINDS, MANIFEST, TOKENIZER, WEIGHTS, read_description
from pyanticip.motion.atomic import draft_folder, writing


def check_checkpoint_folder(path: str | Path) -> Path:
    """Check that a folder is new, empty, or holds a checkpoint and nothing else; return its full path.

    Raises:
        CheckpointError: a file, the current folder, or a folder that holds something else.
    """
    folder = Path(path).resolve()
    where = f"cannot save {path}"
    if folder == Path.cwd():
        raise CheckpointError(f"{where}: it is the current folder; give another")
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise CheckpointError(f"{where}: it is a file; give a folder")
    foreign = sorted({file.name for file in folder.iterdir()} - _checkpoint_files(folder))
    if foreign:
        raise CheckpointError(
            f"{where}: it holds {foreign[0]}, which does not belong to a checkpoint; give another folder"
        )
    return folder


def _checkpoint_files(folder: Path) -> set[str]:
    """Names of the files of the checkpoint in a folder; empty without a checkpoint."""
    try:
        description = read_description(folder)
    except CheckpointError:
        return set()
    if str(description.get("format")) not in KINDS:
        return set()
    hashes = description.get("sha256")
    # Older checkpoints also contain graphs.
    return {MANIFEST, WEIGHTS, TOKENIZER, *(hashes if isinstance(hashes, dict) else ())}


@contextmanager
def draft_checkpoint(path: str | Path) -> Iterator[Path]:
    """A temporary folder to write into; it replaces ``path`` on success and is removed on failure.

    Raises:
        CheckpointError: see :func:`check_checkpoint_folder`.
    """
    folder = check_checkpoint_folder(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(folder.parent, f".{folder.name}.part-") as workspace:
        draft, old = workspace / "new", workspace / "old"
        draft.mkdir()
        with writing(folder):
            yield draft
        try:
            if folder.exists():
                folder.rename(old)
            draft.rename(folder)
        except BaseException:  # Ctrl-C too
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
