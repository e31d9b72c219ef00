"""The folder that a checkpoint is written to: there whole or as it was, and nobody else's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyanticip.errors import CheckpointError
from pyanticip.models.checkpoint.manifest import KINDS, MANIFEST, TOKENIZER, WEIGHTS, read_description
from pyanticip.motion.atomic import draft_folder, writing


def check_checkpoint_folder(path: str | Path) -> Path:
    """The folder's full path, if it is new, empty, or holds a checkpoint and nothing else.

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
    foreign = sorted({file.name for file in folder.iterdir()} - _own(folder))
    if foreign:
        raise CheckpointError(f"{where}: it holds {foreign[0]}, which is no checkpoint's; give another")
    return folder


def _own(folder: Path) -> set[str]:
    """Names of the files that belong to the checkpoint in a folder, none where there is no checkpoint."""
    try:
        described = read_description(folder)
    except CheckpointError:
        return set()
    if str(described.get("format")) not in KINDS:
        return set()
    hashes = described.get("sha256")
    # Older checkpoints held graphs too.
    return {MANIFEST, WEIGHTS, TOKENIZER, *(hashes if isinstance(hashes, dict) else ())}


@contextmanager
def draft_checkpoint(path: str | Path) -> Iterator[Path]:
    """A folder to write into; it takes the place of ``path`` when all is well, else it vanishes.

    Raises:
        CheckpointError: see :func:`check_checkpoint_folder`.
    """
    folder = check_checkpoint_folder(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(folder.parent, f".{folder.name}.part-") as place:
        draft, old = place / "new", place / "old"
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
