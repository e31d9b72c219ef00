"""Safe access to files in the folder of a show, by names that come from the network."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pyanticip.errors import FormatError, OptionError, printable
from pyanticip.models.checkpoint.manifest import MANIFEST, WEIGHTS
from pyanticip.untrusted import parse_toml, read_file

# Limits of a listing: number of entries, and size of a rig file.
_MAX_ENTRIES, _MAX_RIG_BYTES = 4000, 1 << 18
# Maximum length of a new file's name in bytes.
_MAX_NAME_BYTES = 100


def inside(folder: Path, name: object, command: str, suffix: str = "") -> Path:
    """The path of an existing file or folder in the folder of the show or a subfolder. With a ``suffix`` it
    is a file, and the name may lack the suffix, which was added when the file was saved.

    Raises:
        OptionError: It does not exist or is outside: ``..``, an absolute path, a hidden name, or a link that
            leads out.
    """
    text = str(name)
    relative = Path(text)
    is_plain = text.isprintable() and not relative.is_absolute() and relative.parts
    if not is_plain or any(part.startswith(".") for part in relative.parts):
        raise OptionError(f"{command}: expected a name in the folder of the show, got {text!r}")
    for path in (folder / relative, folder / f"{relative}{suffix}"):
        with contextlib.suppress(OSError, RuntimeError):
            # A link that leads out is treated as missing.
            found = path.resolve(strict=True)
            if found.is_relative_to(folder.resolve()) and not (suffix and found.is_dir()):
                return path
    raise OptionError(f"{command}: no {text!r} in {folder.absolute()}")


def new_file(folder: Path, name: object, stem: str, suffix: str, command: str) -> Path:
    """The path of a new file in the folder of the show, named by :func:`plain_name`.

    Raises:
        OptionError: Not a plain name, or the file exists.
    """
    path = folder / plain_name(command, name, stem, suffix)
    if not str(name):
        path = unused(path)
    if path.exists() or path.is_symlink():
        raise OptionError(f"{command}: {path} already exists; nothing is overwritten")
    return path


def plain_name(command: str, name: object, stem: str, suffix: str) -> str:
    """Validate the name of a new file: without a folder, because a datagram must not choose where files go.

    An empty name is replaced by ``stem`` and the time. Raises an :class:`OptionError`.
    """
    text = str(name) or datetime.now().strftime(f"{stem}-%Y%m%d-%H%M%S")
    text = text.removesuffix(suffix)
    # Other OSC types, such as blobs and booleans, could be converted to text but are no names.
    is_valid = isinstance(name, str | int | float) and not isinstance(name, bool)
    is_valid = is_valid and 0 < len(text.encode(errors="replace")) <= _MAX_NAME_BYTES
    if not is_valid or text.startswith(".") or not text.isprintable() or set(text) & set("/\\:"):
        raise OptionError(f"{command}: expected a plain file name, got {printable(text)[:_MAX_NAME_BYTES]!r}")
    return text + suffix


def unused(path: Path) -> Path:
    """The path, numbered if it exists: a name made of the time comes again within a second, or when the clock
    is set back."""
    numbers = itertools.count(2)
    free = path
    while free.exists() or free.is_symlink():
        free = path.with_stem(f"{path.stem}-{next(numbers)}")
    return free


def listing(folder: Path) -> dict[str, list[str]]:
    """Names of the ``rigs``, ``mappings``, ``memories`` and ``models`` in the folder of a show and its
    subfolders."""
    names_by_kind: dict[str, list[str]] = {"rigs": [], "mappings": [], "memories": [], "models": []}
    for path in itertools.islice(_entries(folder), _MAX_ENTRIES):
        name = str(path.relative_to(folder))
        with contextlib.suppress(OSError, OptionError):
            inside(folder, name, "list")
            if path.is_dir():
                if (path / MANIFEST).is_file() and (path / WEIGHTS).is_file():
                    names_by_kind["models"].append(name)
            elif path.suffix == ".safetensors" and path.name != WEIGHTS:
                names_by_kind["mappings"].append(name)
            elif path.suffix == ".memory":
                names_by_kind["memories"].append(name)
            elif path.suffix == ".toml" and _is_rig(path):
                names_by_kind["rigs"].append(name)
    return {kind: sorted(names) for kind, names in names_by_kind.items()}


def _entries(folder: Path) -> Iterator[Path]:
    """Entries of a folder and of two levels of subfolders, without hidden ones."""
    folders = [folder]
    for _ in range(3):
        subfolders: list[Path] = []
        for each in folders:
            with contextlib.suppress(OSError):
                for path in each.iterdir():
                    if not path.name.startswith("."):
                        yield path
                        if path.is_dir() and not path.is_symlink():
                            subfolders.append(path)
        folders = subfolders


def _is_rig(path: Path) -> bool:
    """Whether a TOML file contains only tables of a rig."""
    from realtime.rig import Rig

    try:
        return parse_toml(read_file(path, _MAX_RIG_BYTES), path).keys() <= Rig.model_fields.keys()
    except FormatError:
        return False
