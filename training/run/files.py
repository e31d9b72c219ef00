"""The files of a run's folder: written whole or not at all, read with clear errors."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from pyanticip.errors import CheckpointError, OptionError, one_line
from pyanticip.models.checkpoint.files import renamed
from pyanticip.motion.atomic import draft_folder, ordinary_mode, write_atomic
from pyanticip.system import LOCKS_FOLDERS, try_lock
from pyanticip.untrusted import open_file, read_file, read_json

CONFIG: Final = "config.json"
METRICS: Final = "metrics.csv"
REPORT: Final = "report.json"
TENSORBOARD: Final = "tensorboard"
BEST: Final = Path("checkpoints") / "best.safetensors"
"""The weights that were best on the validation data so far."""
LAST: Final = Path("checkpoints") / "last.ckpt"
"""Everything a killed run goes on from."""
_LARGEST: Final = 8 << 30


def read_description(
    folder: Path | str, command: str, form: str, version: int, *, needs: Sequence[str] = ()
) -> dict[str, Any]:
    """``config.json`` of a run.

    Args:
        folder: of the run.
        command: that makes such runs, for the messages.
        form: what the file must give as its ``format``.
        version: and as its ``version``.
        needs: further keys that it must have.

    Raises:
        CheckpointError: no run, one of another command, or one made by another version.
    """
    path = Path(folder) / CONFIG
    if not path.exists():
        raise CheckpointError(f"{folder}: not a run of {command}: it has no {CONFIG}")
    config = read_json(path, CheckpointError)
    if (
        not isinstance(config, dict)
        or config.get("format") != form
        or any(key not in config for key in needs)
    ):
        raise CheckpointError(f"{path}: does not describe a run of {command}")
    if config.get("version") != version:
        raise CheckpointError(f"{path}: version {config.get('version')!r}, this program reads {version}")
    return config


def write_text(path: Path, text: str) -> None:
    """Write a file that is there whole or as it was before, even if the machine stops."""
    write_atomic(path, text.encode(), durable=True)


def check_new(folder: Path) -> None:
    """Refuse a folder that a run cannot begin in.

    Raises:
        OptionError: something is there already.
    """
    if folder.is_dir() and any(folder.iterdir()):
        if (folder / CONFIG).is_file():
            raise OptionError(f"{folder}: holds a run already; go on with --resume, or give another folder")
        raise OptionError(f"{folder}: is not empty; give a new folder")
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file; give a new folder")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A draft of a run's folder; it becomes ``folder`` when all is well, else it vanishes.

    Raises:
        OptionError: something is there already.
    """
    check_new(folder)
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(folder.absolute().parent, f".{folder.name}.part-") as draft:
        ordinary_mode(draft, folder=True)
        yield draft
        with suppress(FileNotFoundError):
            folder.rmdir()
        draft.rename(folder)


@contextmanager
def alone(folder: Path, *, first: bool = True, patience: float = 10.0) -> Iterator[None]:
    """Only one command at a time goes on with a run; the lock goes with the process that holds it.

    Args:
        folder: of the run.
        first: whether this process is the first of its command: the others take no lock.
        patience: seconds; what a killed command leaves behind may take a moment to end.

    Raises:
        OptionError: another command is at work.
    """
    handle = _locked(folder, patience) if first else None
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _locked(folder: Path, patience: float) -> int | None:
    """A handle that holds the lock, None where there are no locks."""
    if not LOCKS_FOLDERS:
        return None
    handle = os.open(folder, os.O_RDONLY)
    until = time.monotonic() + patience
    while try_lock(handle) is False:
        if time.monotonic() > until:
            os.close(handle)
            raise OptionError(f"{folder}: another process is training this run")
        time.sleep(0.1)
    return handle


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Replace a file of weights, at once."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomic(path, safetensors.torch.save(plain), durable=True)


def read_weights(path: Path) -> bytes:
    """The content of a file of weights.

    Raises:
        CheckpointError: it cannot be read, or is larger than any model's.
    """
    return read_file(path, _LARGEST, CheckpointError, "a file of weights")


def load_best(folder: Path) -> dict[str, Tensor]:
    """The weights that were best on the validation data so far, by the names of today.

    Raises:
        CheckpointError: there are none, or the file is damaged.
    """
    if not (folder / BEST).exists():
        raise CheckpointError(
            f"{folder / BEST}: no such file: no validation ended with a figure yet, or it was removed"
        )
    data = read_weights(folder / BEST)
    try:
        kept = safetensors.torch.load(data)
        return {renamed(name): tensor for name, tensor in kept.items()}
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{folder / BEST}: cannot be read: {one_line(error)}") from None


def read_state(folder: Path) -> dict[str, Any]:
    """What the run was last saved with.

    Raises:
        CheckpointError: nothing was saved yet, or the file is damaged.
    """
    path = folder / LAST
    if not path.exists():
        raise CheckpointError(f"{folder}: nothing was saved yet; begin anew in another folder")
    try:
        with open_file(path, CheckpointError) as file:
            state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        int(state["global_step"])
    except CheckpointError:
        raise
    except Exception:  # torch raises many kinds for damaged files, of several sentences each
        wanted = "copy the run again, or begin anew in another folder"
        raise CheckpointError(f"{path}: not a saved state, or one that was cut short: {wanted}") from None
    return state
