"""The folder of a show: the files that may be asked for by name, and no others."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pyanticip.errors import FormatError, OptionError, printable
from pyanticip.models.checkpoint.manifest import MANIFEST, WEIGHTS
from pyanticip.untrusted import parse_toml, read_file

__all__ = ["inside", "listing", "new_file", "plain_name"]

# So many entries are looked at, and of rigs so many bytes.
_MOST, _LARGEST = 4000, 1 << 18
# Bytes of a new file's name.
_LONGEST = 100


def inside(folder: Path, name: object, what: str) -> Path:
    """The file or folder of this name in the folder of the show, or in one within.

    Raises:
        OptionError: It is not there, or not in there: no ``..``, no absolute path, nothing hidden, no link
            that leads out.
    """
    text = str(name)
    way = Path(text)
    plain = text.isprintable() and not way.is_absolute() and way.parts
    if not plain or any(part.startswith(".") for part in way.parts):
        raise OptionError(f"{what}: expected a name in the folder of the show, got {text!r}")
    path, is_there = folder / way, False
    with contextlib.suppress(OSError, RuntimeError):
        # A link that leads out is as if it were not there.
        is_there = path.resolve(strict=True).is_relative_to(folder.resolve())
    if not is_there:
        raise OptionError(f"{what}: no {text!r} in {folder.absolute()}")
    return path


def new_file(folder: Path, name: object, stem: str, suffix: str, what: str) -> Path:
    """Where a new file goes in the folder of the show, by its :func:`plain_name`.

    Raises:
        OptionError: Not a plain name, or there is one already.
    """
    found = folder / plain_name(what, name, stem, suffix)
    if found.exists() or found.is_symlink():
        raise OptionError(f"{what}: {found} exists already; nothing is overwritten")
    return found


def plain_name(command: str, given: object, stem: str, suffix: str) -> str:
    """The name of a new file without a folder: a datagram must not choose where files go.

    Empty: one that is made of ``stem`` and the time. Raises an :class:`OptionError`.
    """
    text = str(given) or datetime.now().strftime(f"{stem}-%Y%m%d-%H%M%S")
    text = text.removesuffix(suffix)
    # A blob, a list or a toggle is no name, though Python can write it as one.
    fits = isinstance(given, str | int | float) and not isinstance(given, bool)
    fits = fits and 0 < len(text.encode(errors="replace")) <= _LONGEST
    if not fits or text.startswith(".") or not text.isprintable() or set(text) & set("/\\:"):
        raise OptionError(f"{command}: expected a plain file name, got {printable(text)[:_LONGEST]!r}")
    return text + suffix


def listing(folder: Path) -> dict[str, list[str]]:
    """What the folder of a show has for it, by the names that it is asked for by: ``rigs``, ``mappings``,
    ``memories`` and ``models``, of the folders within as well."""
    found: dict[str, list[str]] = {"rigs": [], "mappings": [], "memories": [], "models": []}
    for path in itertools.islice(_entries(folder), _MOST):
        name = str(path.relative_to(folder))
        with contextlib.suppress(OSError, OptionError):
            inside(folder, name, "list")
            if path.is_dir():
                if (path / MANIFEST).is_file() and (path / WEIGHTS).is_file():
                    found["models"].append(name)
            elif path.suffix == ".safetensors" and path.name != WEIGHTS:
                found["mappings"].append(name)
            elif path.suffix == ".memory":
                found["memories"].append(name)
            elif path.suffix == ".toml" and _is_rig(path):
                found["rigs"].append(name)
    return {kind: sorted(names) for kind, names in found.items()}


def _entries(folder: Path) -> Iterator[Path]:
    """Everything in a folder, in those within, and in those within these."""
    folders = [folder]
    for _ in range(3):
        within: list[Path] = []
        for each in folders:
            with contextlib.suppress(OSError):
                for path in each.iterdir():
                    if not path.name.startswith("."):
                        yield path
                        if path.is_dir() and not path.is_symlink():
                            within.append(path)
        folders = within


def _is_rig(path: Path) -> bool:
    """Whether a TOML file has tables of a rig and no others."""
    from realtime.rig import Rig

    try:
        return parse_toml(read_file(path, _LARGEST), path).keys() <= Rig.model_fields.keys()
    except FormatError:
        return False
