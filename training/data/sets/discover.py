"""Find the takes in a folder, each once."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from pyanticip.errors import FormatError, reason
from pyanticip.motion.load import SUFFIXES
from training.data.manifest import Manifests, no_motion, take_folders
from training.data.sets.splits import CMU_NAME, nfc, subject_of

SOUND: Final = (".flac", ".wav")
OTHER_SOUND: Final = (".aac", ".aif", ".aiff", ".m4a", ".mp3", ".ogg", ".opus", ".wma")
"""Sound files that are not used as targets."""
_BODIES: Final = ("shape.npz", "_stagei.npz")
# Files of AMASS that hold the body's shape and no motion.


@dataclass(frozen=True)
class Source:
    """One take, and the files it can be read from, in order of preference."""

    name: str
    """Relative path without suffix; unique in the set."""
    subject: str
    cmu: bool
    """Whether it has a CMU name and its subject is the one in the name."""
    paths: tuple[str, ...]
    """Relative to the folder, with / as separator."""
    words: str = ""
    """Description from a manifest."""


@dataclass
class Discovery:
    """Result of :func:`discover`."""

    sources: list[Source]
    sounds: dict[str, str] = field(default_factory=dict)
    """Path of the usable sound by the path it shares with a take, without suffix; all relative."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """Sounds that are not used, by the same key: of another format, or beside a FLAC of that name."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Number of files that are no motion, by suffix."""
    warnings: list[str] = field(default_factory=list)


def printable(path: str) -> str:
    """A path as encodable text; bytes that are not UTF-8 (old archives) are escaped."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _files(folder: Path, excluded: Path, warnings: list[str]) -> list[str]:
    """Sorted relative paths of all files but hidden ones and those of a set inside the folder.

    Links to folders are followed, each folder once, and by its own name if it lies in this folder.
    """
    files: list[str] = []
    tops = take_folders(folder)
    skip, seen = excluded.resolve(), {folder.resolve(), *(top.resolve() for top in tops)}

    def on_error(error: OSError) -> None:
        relative = printable(Path(error.filename or folder).relative_to(folder).as_posix())
        warnings.append(f"{relative}: cannot be read: {reason(error)}; what is in it is left out")

    while tops:
        links: list[Path] = []
        for top in tops:
            for root, folders, names in os.walk(top, onerror=on_error):
                here = Path(root)
                inside = sorted(here / n for n in folders if not n.startswith("."))
                links += [path for path in inside if path.is_symlink()]
                own = {path: path.resolve() for path in inside if not path.is_symlink()}
                folders[:] = [path.name for path, real in own.items() if real not in (skip, *seen)]
                seen.update(own.values())
                files += [(here / n).relative_to(folder).as_posix() for n in names if not n.startswith(".")]
        tops = []
        for link in links:
            real = link.resolve()
            if real != skip and real not in seen:
                seen.add(real)
                tops.append(link)
    return sorted(files)


def discover(folder: Path, out: Path, subject_from: str = "auto") -> Discovery:
    """Find all takes in a folder and its subfolders: BVH, AMC, C3D, MVNX, npz and recordings.

    Only the folders of :func:`training.data.manifest.take_folders` are searched. Of an AMC and a BVH of one
    take (same folder and name, or the same CMU name anywhere), the BVH is read only if the AMC fails.

    Args:
        folder: folder of the takes.
        out: folder of the set, which may be inside.
        subject_from: rule of :func:`training.data.sets.splits.subject_of`; with ``auto``, the person in a
            ``MANIFEST.csv`` above the take takes precedence.

    Raises:
        FormatError: the folder does not exist, has no take in it, or a manifest is invalid.
        OptionError: the rule does not fit.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise FormatError(f"{folder}: {what}; expected motion files (BVH, AMC, C3D, MVNX, npz, .anticip)")
    discovery = Discovery([])
    takes: dict[tuple[str, str], list[str]] = {}
    for path in _files(folder, out, discovery.warnings):
        file = PurePosixPath(path)
        suffix = file.suffix.lower()
        stem = file.with_suffix("").as_posix()
        if suffix in SOUND and stem not in discovery.sounds:
            discovery.sounds[stem] = path
        elif suffix in (*SOUND, *OTHER_SOUND):
            discovery.left_out.setdefault(stem, []).append(path)
        elif suffix not in SUFFIXES or file.name.endswith(_BODIES):
            if suffix != ".asf":
                discovery.ignored[suffix or file.name] += 1
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
        # Two AMC files with one CMU name in two folders are two takes; a BVH is the fallback of the first.
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
        people = (manifests.of(path).person for path in group if subject_from == "auto")
        words = next(filter(None, map(manifests.words, group)), "")
        subject = next(filter(None, people), "") or nfc(
            printable(subject_of(group[0], folder.resolve().name, subject_from))
        )
        cmu = CMU_NAME.fullmatch(first.stem)
        is_cmu = cmu is not None and subject == cmu[1]
        discovery.sources.append(Source(printable(name), subject, is_cmu, tuple(group), words))
    return discovery
