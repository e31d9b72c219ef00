"""``pyanticip rehearse``: play takes through the live front end into a memory, and save it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip._core import LiveFront, Memory
from pyanticip.errors import FormatError, OptionError, utf8
from pyanticip.memory import rehearse as remember
from pyanticip.memory import save_memory
from pyanticip.memory.files import is_memory
from pyanticip.motion.atomic import check_folder
from pyanticip.vocabulary import RATE
from realtime.protocols import FIRST_SENDER_TIMEOUT_NS
from realtime.sources.replay import Command, Item, NoDatagramsError, open_show, recorded_sender

Poses = npt.NDArray[np.float32]

# Fewest frames of a take: shorter pieces, as between gaps of the suit, are left out.
_MIN_FRAMES = round(3 * RATE)
# What a memory has room for: two frames a moment.
_MAX_SECONDS = 2 * Memory().capacity / RATE


def rehearse(
    files: Iterable[Path],
    out: Path,
    *,
    force: bool = False,
    say: Callable[[str], None] = lambda line: None,
    **reading: Any,
) -> dict[str, Any]:
    """Write a memory of takes: recordings or motion files.

    They are processed as they would be live, noise gate included; a take ends where the stream restarts.
    Takes are named after their files, and numbered where a file has several; files of the same name get
    their folder's name too (``monday/take1``), and where that is also the same, the whole file name. Pieces
    that are too short are left out, and reported.

    Args:
        force: overwrite an existing memory.
        say: receives a line for each take and each piece left out.
        reading: options of :func:`pyanticip.load_motion`.

    Returns:
        The summary that ``--json`` prints.

    Raises:
        MotionError: a file cannot be read, there is no take, ``out`` exists (unless it is a memory and
            ``force`` is set), or its folder does not.
    """
    files = list(files)
    _check_out(out, files, force)
    check_folder(out)
    takes: dict[str, Poses] = {}
    left_out: list[float] = []
    titles = _titles(files)
    for file, title in zip(files, titles, strict=True):
        try:
            kind, items = open_show(file, say=say, joined=True, **reading)
        except NoDatagramsError as error:
            say(f"{error}; it is left out")
            continue
        pieces = list(_takes(kind, items, recorded_sender(file)))
        long_pieces = [poses for poses in pieces if len(poses) >= _MIN_FRAMES]
        if not pieces:
            say(f"{file}: holds no motion and is left out")
        short = [len(poses) / RATE for poses in pieces if len(poses) < _MIN_FRAMES]
        if short:
            length = f"{sum(short):.2f} s"
            text = (
                f"{len(short)} pieces, {length} in all, are" if len(short) > 1 else f"a piece of {length} is"
            )
            say(f"{file}: {text} left out; a take has at least {_MIN_FRAMES / RATE:g} s")
        left_out += [round(each, 2) for each in short]
        for poses in long_pieces:
            name = title if len(long_pieces) == 1 else _numbered(title, 1, {*titles, *takes})
            takes[name] = poses
            say(f"{name}: {len(poses) / RATE:.1f} s")
        if (total := sum(map(len, takes.values())) / RATE) > _MAX_SECONDS:
            raise OptionError(
                f"{file}: up to it the takes last {total:.0f} s; a memory holds {_MAX_SECONDS:.0f} s"
            )
    if not takes:
        expected = f"expected at least {_MIN_FRAMES / RATE:g} s of motion without a gap"
        raise FormatError(f"{', '.join(map(str, files))}: {expected}")
    memory = remember(takes.items())
    save_memory(memory, out, takes, new=not force)
    return {
        "out": str(out),
        "takes": {name: round(len(poses) / RATE, 2) for name, poses in takes.items()},
        "seconds": round(sum(map(len, takes.values())) / RATE, 2),
        "left_out": left_out,
        "moments": len(memory),
        "bytes": out.stat().st_size,
    }


def _titles(files: Sequence[Path]) -> list[str]:
    """A unique name for each file, the shortest that no other file has.

    Raises:
        OptionError: a file is given twice.
    """
    namings: list[Callable[[Path], str]] = [
        lambda file: file.stem,
        lambda file: f"{file.absolute().parent.name}/{file.stem}",
        lambda file: f"{file.absolute().parent.name}/{file.name}",
    ]
    counts = [Counter(utf8(naming(file)) for file in files) for naming in namings]
    seen: set[Path] = set()
    titles: list[str] = []
    for file in files:
        if (resolved := file.resolve()) in seen:
            raise OptionError(f"{file}: is given twice")
        seen.add(resolved)
        names = [utf8(naming(file)) for naming in namings]
        title = next((name for name, n in zip(names, counts, strict=True) if n[name] == 1), names[-1])
        titles.append(_numbered(title, 2, titles) if title in titles else title)
    return titles


def _numbered(title: str, first: int, used: Collection[str]) -> str:
    """The title with the first number, from ``first`` on, that gives an unused name."""
    return next(name for n in itertools.count(first) if (name := f"{title} {n}") not in used)


def _check_out(out: Path, files: Sequence[Path], force: bool) -> None:
    """Check that ``out`` is free, or a memory that may be overwritten.

    Raises:
        OptionError: it is not.
    """
    if not out.exists():
        return
    if any(file.exists() and file.samefile(out) for file in files):
        raise OptionError(f"{out}: is one of the takes; expected another --out")
    if not is_memory(out):
        raise OptionError(f"{out}: already exists and is not a memory; expected another --out")
    if not force:
        raise OptionError(f"{out}: already exists; name all takes again with another --out, or --force")


def _takes(kind: str, items: Iterable[Item], sender: str | None) -> Iterator[Poses]:
    """The poses (T, 22, 4) on the grid of each piece between resets of the stream.

    ``sender`` is the only one that is listened to, until a command chooses another; None: any.
    """
    front = LiveFront(kind, steady=True)
    front.listen_to(sender)
    # Time until which only the recorded player is listened to; see `Pipeline.begin_with`.
    player_until_ns: int | None = None
    piece: list[Poses] = []
    for item in items:
        if isinstance(item, Command):
            chosen = str(next(iter(item.arguments), "")) or None
            if item.name == "source":
                sender = chosen
            if item.name == "player":
                player_until_ns = item.t_ns + FIRST_SENDER_TIMEOUT_NS
            if item.name in ("source", "player"):
                front.listen_to(chosen)
            continue
        frame = front.feed(item.data, item.t_ns, item.sender)
        if player_until_ns is not None and (frame is not None or item.t_ns > player_until_ns):
            front.listen_to(sender)
            player_until_ns = None
        if frame is None:
            continue
        if frame.reset and piece:
            yield np.concatenate(piece)
            piece = []
        piece.append(frame.poses)
    if piece:
        yield np.concatenate(piece)
