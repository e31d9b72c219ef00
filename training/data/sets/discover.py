"""Which takes lie in a folder, each once."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from pyanticip.errors import FormatError, reason
from pyanticip.motion.load import SUFFIXES
from training.data.manifest import Manifests, no_motion, take_folders
from training.data.sets.splits import CMU_NAME, composed, subject_of

SOUND: Final = (".flac", ".wav")
OTHER_SOUND: Final = (".aac", ".aif", ".aiff", ".m4a", ".mp3", ".ogg", ".opus", ".wma")
"""Sounds that do not teach by lying beside a take."""
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
    words: str = ""
    """What it shows, as a manifest says."""


@dataclass
class Found:
    """What :func:`discover` found."""

    sources: list[Source]
    sounds: dict[str, str] = field(default_factory=dict)
    """Relative path of a sound by the relative path, without suffix, of what it lies beside."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """Sounds that are not taken, by the same: of another kind, or beside a FLAC of that name."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Files that are no motion, by suffix."""
    warnings: list[str] = field(default_factory=list)


def printable(path: str) -> str:
    """A path whose bytes need not be UTF-8 (old archives), as text that can be written anywhere."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _files(folder: Path, leave_out: Path, warnings: list[str]) -> list[str]:
    """Relative paths of all files, hidden ones and a set inside the folder left out; sorted.

    Links to folders are followed, each folder once and by its own name if it has one in here.
    """
    found: list[str] = []
    tops = take_folders(folder)
    skip, seen = leave_out.resolve(), {folder.resolve(), *(top.resolve() for top in tops)}

    def unreadable(error: OSError) -> None:
        where = printable(Path(error.filename or folder).relative_to(folder).as_posix())
        warnings.append(f"{where}: cannot be read: {reason(error)}; what is in it is left out")

    while tops:
        links: list[Path] = []
        for top in tops:
            for where, folders, names in os.walk(top, onerror=unreadable):
                here = Path(where)
                inside = sorted(here / n for n in folders if not n.startswith("."))
                links += [path for path in inside if path.is_symlink()]
                own = {path: path.resolve() for path in inside if not path.is_symlink()}
                folders[:] = [path.name for path, real in own.items() if real not in (skip, *seen)]
                seen.update(own.values())
                found += [(here / n).relative_to(folder).as_posix() for n in names if not n.startswith(".")]
        tops = []
        for link in links:
            real = link.resolve()
            if real != skip and real not in seen:
                seen.add(real)
                tops.append(link)
    return sorted(found)


def discover(folder: Path, out: Path, subject_from: str = "auto") -> Found:
    """All takes in a folder and its folders: BVH, AMC, C3D, MVNX, npz and recordings.

    Of a folder whose ``cmu`` and ``more`` have a manifest these two alone; see
    :func:`training.data.manifest.take_folders`.
    Of an AMC and a BVH of the same take (same folder and name, or the same CMU name anywhere) the AMC is
    read, and the BVH only where that fails.

    Args:
        folder: of the takes.
        out: where the set goes, which may be inside.
        subject_from: rule of :func:`training.data.sets.splits.subject_of`; whom a ``MANIFEST.csv`` above a
            take names goes before ``auto``.

    Raises:
        FormatError: no such folder, no take in it, or a manifest that is none.
        OptionError: the rule does not fit.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise FormatError(f"{folder}: {what}; expected motion files (BVH, AMC, C3D, MVNX, npz, .anticip)")
    found = Found([])
    takes: dict[tuple[str, str], list[str]] = {}
    for path in _files(folder, out, found.warnings):
        file = PurePosixPath(path)
        suffix = file.suffix.lower()
        stem = file.with_suffix("").as_posix()
        if suffix in SOUND and stem not in found.sounds:
            found.sounds[stem] = path
        elif suffix in (*SOUND, *OTHER_SOUND):
            found.left_out.setdefault(stem, []).append(path)
        elif suffix not in SUFFIXES or file.name.endswith(_BODIES):
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
        raise no_motion(folder)
    manifests = Manifests(folder)
    names = Counter(PurePosixPath(group[0]).with_suffix("").as_posix() for group in groups)
    for group in groups:
        first = PurePosixPath(group[0])
        name = first.with_suffix("").as_posix()
        if names[name] > 1:
            name = first.as_posix()
        said = (manifests.of(path).person for path in group if subject_from == "auto")
        words = next(filter(None, map(manifests.words, group)), "")
        subject = next(filter(None, said), "") or composed(
            printable(subject_of(group[0], folder.resolve().name, subject_from))
        )
        cmu = CMU_NAME.fullmatch(first.stem)
        known = cmu is not None and subject == cmu[1]
        found.sources.append(Source(printable(name), subject, known, tuple(group), words))
    return found
