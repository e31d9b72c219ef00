"""The files of a run's folder: written atomically, read with clear errors."""

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

from pyanticip.errors import CheckpointError, MotionError, OptionError, one_line
from pyanticip.models.checkpoint.files import current_weight_name
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
"""The state from which a run is resumed."""
_MAX_WEIGHTS_BYTES: Final = 8 << 30


def read_description(
    folder: Path | str, command: str, format_name: str, version: int, *, needs: Sequence[str] = ()
) -> dict[str, Any]:
    """Read ``config.json`` of a run.

    Args:
        folder: the run's folder.
        command: the command that makes such runs, for error messages.
        format_name: the expected ``format``.
        version: the expected ``version``.
        needs: further required keys.

    Raises:
        CheckpointError: not a run, or one of another command or version.
    """
    path = Path(folder) / CONFIG
    if not path.exists():
        raise CheckpointError(f"{folder}: not a run of {command}: it has no {CONFIG}")
    config = read_json(path, CheckpointError)
    if (
        not isinstance(config, dict)
        or config.get("format") != format_name
        or any(key not in config for key in needs)
    ):
        raise CheckpointError(f"{path}: does not describe a run of {command}")
    if config.get("version") != version:
        raise CheckpointError(f"{path}: version {config.get('version')!r}, this program reads {version}")
    return config


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically and durably."""
    write_atomic(path, text.encode(), durable=True)


def check_new(folder: Path) -> None:
    """Check that a folder can hold a new run: it does not exist, or is empty.

    Raises:
        OptionError: it is not empty, or is a file.
    """
    if folder.is_dir() and any(folder.iterdir()):
        if (folder / CONFIG).is_file():
            raise OptionError(f"{folder}: holds a run already; go on with --resume, or give another folder")
        raise OptionError(f"{folder}: is not empty; give a new folder")
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file; give a new folder")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` on success and is removed on failure.

    Raises:
        OptionError: see :func:`check_new`.
    """
    check_new(folder)
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(folder.absolute().parent, f".{folder.name}.part-") as draft:
        ordinary_mode(draft, folder=True)
        yield draft
        check_new(folder)  # another command may have begun a run there
        with suppress(FileNotFoundError):
            folder.rmdir()
        draft.rename(folder)


@contextmanager
def run_lock(folder: Path, *, first: bool = True, patience: float = 10.0) -> Iterator[None]:
    """Lock a run's folder, so that only one command at a time trains it; the lock ends with the process.

    Args:
        folder: the run's folder.
        first: whether this is the first process of its command; the others take no lock.
        patience: seconds to wait for the lock: child processes of a killed command may take a moment to end.

    Raises:
        OptionError: another command holds the lock.
    """
    handle = _lock(folder, patience) if first else None
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(folder: Path, patience: float) -> int | None:
    """Take the lock; returns the handle that holds it, None on systems without folder locks."""
    if not LOCKS_FOLDERS:
        return None
    handle = os.open(folder, os.O_RDONLY)
    deadline = time.monotonic() + patience
    while try_lock(handle) is False:
        if time.monotonic() > deadline:
            os.close(handle)
            raise OptionError(f"{folder}: another process is training this run")
        time.sleep(0.1)
    return handle


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Replace a file of weights atomically."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomic(path, safetensors.torch.save(plain), durable=True)


def load_best(folder: Path) -> dict[str, Tensor]:
    """Read the weights that were best on the validation data so far, by their current names.

    Raises:
        CheckpointError: there are none, or the file is damaged.
    """
    if not (folder / BEST).exists():
        raise CheckpointError(
            f"{folder / BEST}: no such file: no validation ended with a figure yet, or it was removed"
        )
    return read_tensors(folder / BEST)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of weights, by their current names.

    Raises:
        CheckpointError: it cannot be read, is damaged, or is larger than 8 GiB.
    """
    data = read_file(path, _MAX_WEIGHTS_BYTES, CheckpointError, "a file of weights")
    try:
        weights = safetensors.torch.load(data)
        return {current_weight_name(name): tensor for name, tensor in weights.items()}
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path}: cannot be read: {one_line(error)}") from None


def read_state(folder: Path) -> dict[str, Any]:
    """Read the state that the run last saved.

    Raises:
        CheckpointError: nothing was saved yet, or the file is damaged.
    """
    path = folder / LAST
    if not path.exists():
        raise CheckpointError(f"{folder}: nothing was saved yet; start over in another folder")
    try:
        with open_file(path, CheckpointError) as file:
            state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        if int(state["global_step"]) < 1:
            raise ValueError("a state is saved after an update")
    except CheckpointError:
        raise
    except Exception:  # torch raises many kinds of errors for damaged files, with long messages
        advice = "copy the run again, or start over in another folder"
        raise CheckpointError(f"{path}: not a saved state, or one that was cut short: {advice}") from None
    return state


@contextmanager
def fitting(folder: Path) -> Iterator[None]:
    """Load the saved state of a run in the block.

    Raises:
        CheckpointError: the block found the state to be another one than it can load.
    """
    try:
        yield
    except MotionError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder}: begun by a version whose state does not fit ({one_line(error)}); "
            "start over in another folder"
        ) from None
