"""What ``pyanticip rehearse`` does: takes go through the live front end into a memory, and into a file."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip._core import LiveFront
from pyanticip.errors import FormatError, OptionError, utf8
from pyanticip.memory import rehearse as remember
from pyanticip.memory import save_memory
from pyanticip.memory.files import is_memory
from pyanticip.motion.atomic import check_folder
from pyanticip.vocabulary import RATE
from realtime.protocols import ALONE_NS
from realtime.sources.replay import Command, Item, NobodyCameError, open_show, recorded_sender

__all__ = ["rehearse"]

Poses = npt.NDArray[np.float32]

# Shorter pieces, as after a gap of the suit, are no takes.
_SHORTEST = round(3 * RATE)


def rehearse(
    files: Iterable[Path],
    out: Path,
    *,
    force: bool = False,
    say: Callable[[str], None] = lambda line: None,
    **reading: Any,
) -> dict[str, Any]:
    """Write a memory of these takes, recordings or motion files; what was done, in numbers.

    They are heard as they would be live, noise gate included; where a stream begins anew, so does a take.
    Takes are named after their files, and numbered where a file has several; files of one name, after their
    folders as well (``monday/take1``), and where these agree, by the whole file name. What is too short or
    empty is left out, and told. ``reading`` are options of :func:`pyanticip.load_motion`. Raises a
    MotionError for a file that cannot be read, where there is no take at all, and where ``out`` is there
    already, unless it is a memory and by ``force``, or its folder is not.
    """
    files = list(files)
    _check_out(out, files, force)
    check_folder(out)
    takes: dict[str, Poses] = {}
    left: list[float] = []
    titles = _titles(files)
    for file, title in zip(files, titles, strict=True):
        try:
            shown = open_show(file, say=say, joined=True, **reading)
        except NobodyCameError as error:
            say(f"{error}; it is left out")
            continue
        pieces = list(_takes(*shown, recorded_sender(file)))
        found = [poses for poses in pieces if len(poses) >= _SHORTEST]
        if not pieces:
            say(f"{file}: holds no motion and is left out")
        short = [len(poses) / RATE for poses in pieces if len(poses) < _SHORTEST]
        if short:
            several, length = len(short) > 1, f"{sum(short):.2f} s"
            some = f"{len(short)} pieces, {length} in all, are" if several else f"a piece of {length} is"
            say(f"{file}: {some} left out; a take has at least {_SHORTEST / RATE:g} s")
        left += [round(each, 2) for each in short]
        for poses in found:
            name = title if len(found) == 1 else _numbered(title, 1, {*titles, *takes})
            takes[name] = poses
            say(f"{name}: {len(poses) / RATE:.1f} s")
    if not takes:
        expected = f"expected at least {_SHORTEST / RATE:g} s of motion without a gap"
        raise FormatError(f"{', '.join(map(str, files))}: {expected}")
    memory = remember(takes.items())
    save_memory(memory, out, takes, new=not force)
    return {
        "out": str(out),
        "takes": {name: round(len(poses) / RATE, 2) for name, poses in takes.items()},
        "seconds": round(sum(map(len, takes.values())) / RATE, 2),
        "left_out": left,
        "moments": len(memory),
        "bytes": out.stat().st_size,
    }


def _titles(files: Sequence[Path]) -> list[str]:
    """A name of its own for each file: as short a one as no other has. Raises an OptionError: one twice."""
    ways: list[Callable[[Path], str]] = [
        lambda file: file.stem,
        lambda file: f"{file.absolute().parent.name}/{file.stem}",
        lambda file: f"{file.absolute().parent.name}/{file.name}",
    ]
    counts = [Counter(utf8(way(file)) for file in files) for way in ways]
    seen: set[Path] = set()
    found: list[str] = []
    for file in files:
        if (whole := file.resolve()) in seen:
            raise OptionError(f"{file}: is given twice")
        seen.add(whole)
        names = [utf8(way(file)) for way in ways]
        title = next((name for name, n in zip(names, counts, strict=True) if n[name] == 1), names[-1])
        found.append(_numbered(title, 2, found) if title in found else title)
    return found


def _numbered(title: str, first: int, taken: Collection[str]) -> str:
    """The title with the first number from this one on that gives a name of its own."""
    return next(name for n in itertools.count(first) if (name := f"{title} {n}") not in taken)


def _check_out(out: Path, files: Sequence[Path], force: bool) -> None:
    """Nothing is overwritten but a memory. Raises an OptionError."""
    if not out.exists():
        return
    if any(file.exists() and file.samefile(out) for file in files):
        raise OptionError(f"{out}: is one of the takes; expected another --out")
    if not is_memory(out):
        raise OptionError(f"{out}: exists already and is no memory; expected another --out")
    if not force:
        raise OptionError(f"{out}: exists already; name all takes anew with another --out, or --force")


def _takes(kind: str, items: Iterable[Item], sender: str | None) -> Iterator[Poses]:
    """The poses (T, 22, 4) on the grid, each time from where the stream begins.

    ``sender`` is the one that is heard, until another is commanded; None: whoever comes.
    """
    front = LiveFront(kind, steady=True)
    front.listen_to(sender)
    # Until when only who played first is heard; see `Pipeline.begin_with`.
    alone_ns: int | None = None
    heard: list[Poses] = []
    for item in items:
        if isinstance(item, Command):
            who = str(next(iter(item.arguments), "")) or None
            if item.name == "source":
                sender = who
            if item.name == "player":
                alone_ns = item.t_ns + ALONE_NS
            if item.name in ("source", "player"):
                front.listen_to(who)
            continue
        frame = front.feed(item.data, item.t_ns, item.sender)
        if alone_ns is not None and (frame is not None or item.t_ns > alone_ns):
            front.listen_to(sender)
            alone_ns = None
        if frame is None:
            continue
        if frame.reset and heard:
            yield np.concatenate(heard)
            heard = []
        heard.append(frame.poses)
    if heard:
        yield np.concatenate(heard)
