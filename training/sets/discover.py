"""Which takes lie in a folder, each once."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from pyanticip.errors import FormatError
from training.sets.splits import CMU_NAME, subject_of

MOTION: Final = (".amc", ".bvh", ".npz", ".anticip")
SOUND: Final = (".wav", ".flac")
_BODIES: Final = ("shape.npz", "_stagei.npz")
# What lies beside the takes of AMASS: the body's shape, no motion.


@dataclass(frozen=True)
class Source:
    """One take, and the files it can be read from, the best first."""

    name: str
    """Relative path without suffix; unique in the set."""
    subject: str
    cmu: bool
    """Whether it has a CMU name."""
    paths: tuple[str, ...]
    """Relative to the folder, / between the parts."""


@dataclass
class Found:
    """What :func:`discover` found."""

    sources: list[Source]
    sounds: dict[str, str] = field(default_factory=dict)
    """Relative path of a sound by the relative path, without suffix, of what it lies beside."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Files that are no motion, by suffix."""
    warnings: list[str] = field(default_factory=list)


def _files(folder: Path, leave_out: Path) -> list[str]:
    """Relative paths of all files, hidden ones and a set inside the folder left out; sorted."""
    found: list[str] = []
    skip = leave_out.resolve()
    for where, folders, names in os.walk(folder):
        here = Path(where)
        folders[:] = [n for n in folders if not n.startswith(".") and (here / n).resolve() != skip]
        found += [(here / n).relative_to(folder).as_posix() for n in names if not n.startswith(".")]
    return sorted(found)


def discover(folder: Path, out: Path, subject_from: str = "auto") -> Found:
    """All takes in a folder and its folders: BVH, AMC, npz and recordings.

    Of an AMC and a BVH of the same take (same folder and name, or the same CMU name anywhere) the AMC is
    read, and the BVH only where that fails.

    Args:
        folder: of the takes.
        out: where the set goes, which may be inside.
        subject_from: rule of :func:`training.sets.splits.subject_of`.

    Raises:
        FormatError: no such folder, or no take in it.
        OptionError: the rule does not fit.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise FormatError(f"{folder}: {what}; expected one of motion files (BVH, AMC, npz, .anticip)")
    found = Found([])
    takes: dict[tuple[str, str], list[str]] = {}
    for path in _files(folder, out):
        file = PurePosixPath(path)
        suffix = file.suffix.lower()
        stem = file.with_suffix("").as_posix()
        if suffix in SOUND:
            found.sounds.setdefault(stem, path)
        elif suffix not in MOTION or file.name.endswith(_BODIES):
            if suffix != ".asf":
                found.ignored[suffix or file.name] += 1
        elif suffix in (".amc", ".bvh"):
            takes.setdefault(("acclaim", file.stem if CMU_NAME.fullmatch(file.stem) else stem), []).append(
                path
            )
        else:
            takes.setdefault((suffix, stem), []).append(path)
    groups: list[list[str]] = []
    for paths in takes.values():
        amc = [path for path in paths if path.lower().endswith(".amc")]
        bvh = [path for path in paths if path not in amc]
        # Two AMC of one CMU name in two folders are two takes; a BVH stands in for the first AMC.
        groups += [[path, *bvh] if n == 0 else [path] for n, path in enumerate(amc)] or [[p] for p in bvh]
    groups.sort()
    if not groups:
        raise FormatError(f"{folder}: no motion in it; expected files .bvh, .amc with .asf, .npz or .anticip")
    names = Counter(PurePosixPath(group[0]).with_suffix("").as_posix() for group in groups)
    for group in groups:
        first = PurePosixPath(group[0])
        name = first.with_suffix("").as_posix()
        if names[name] > 1:
            if any(source.name.startswith(f"{name}.") for source in found.sources[-1:]):
                found.warnings.append(f"{first}: there is another take of that name; both are in the set")
            name = first.as_posix()
        subject = subject_of(group[0], folder.resolve().name, subject_from)
        cmu = CMU_NAME.fullmatch(first.stem)
        found.sources.append(Source(name, subject, bool(cmu) and subject == cmu[1], tuple(group)))  # type: ignore[index]
    return found
