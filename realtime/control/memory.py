"""The hand on the memory: go on learning, learn no further, forget the show, save it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from pyanticip._core import Memory
from pyanticip.errors import MotionError, OptionError
from pyanticip.memory import save_moments
from pyanticip.memory.cues import Cue
from pyanticip.options import first_problem
from realtime.control.folder import new_file
from realtime.control.server import Action, number
from realtime.memory.live_memory import Following, LiveMemory
from realtime.pipeline import Pipeline

__all__ = ["MemoryControl", "MemoryRemote", "cues_of", "words_of"]

Moments = tuple[list[str], npt.NDArray[np.int16], npt.NDArray[np.uint16], npt.NDArray[np.uint32]]

# So many moments are copied at once, within a fraction of a millisecond; then the show has its turn.
_PIECE, _PAUSE = 500, 0.005


def words_of(cues: Sequence[Cue]) -> tuple[object, ...]:
    """Cues as a recording has them: name, take, seconds, ms ahead of each."""
    return tuple(value for cue in cues for value in cue.model_dump().values())


def cues_of(words: Sequence[object]) -> tuple[Cue, ...]:
    """The cues that :func:`words_of` made these of. Raises a ValueError."""
    rows = zip(*[iter(words)] * len(Cue.model_fields), strict=True)
    return tuple(Cue.model_validate(dict(zip(Cue.model_fields, row, strict=True))) for row in rows)


class MemoryControl:
    """The commands under ``/anticip/control/memory/`` that change what is heard."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.actions: dict[str, Callable[..., str]] = {
            "memory/learn": lambda: self._learn(True),
            "memory/freeze": lambda: self._learn(False),
            "memory/clear": self._clear,
            "cue/set": self._cue,
            "cue/remove": self._remove_cue,
        }

    def _live(self) -> LiveMemory:
        live = self._pipeline.memory
        if live is None:
            raise OptionError("memory: the rig plays without it (memory.enabled = false)")
        return live

    def _learn(self, learning: bool) -> str:
        self._live().memory.learning = learning
        return "learning" if learning else "frozen"

    def _clear(self) -> str:
        """What was rehearsed stays."""
        live = self._live()
        live.check_unsaved("memory/clear")
        live.memory.clear()
        return "the show is forgotten"

    def _following(self, command: str) -> Following:
        if (following := self._live().following) is None:
            raise OptionError(f"{command}: no take was rehearsed that can be followed")
        return following

    def _cue(self, name: object, take: object = "", at: object = 0.0, ahead_ms: object = None) -> str:
        """A cue of this name: where the performer is now, or at these seconds of a take, and as long ahead as
        it was, or so many ms; the answer is its table of the rig."""
        following = self._following("cue/set")
        try:
            if take:
                ahead_ms = following.ahead_ms(str(name)) if ahead_ms is None else number("ahead_ms", ahead_ms)
                cue = Cue(name=str(name), take=str(take), at=number("at", at), ahead_ms=ahead_ms)
            else:
                cue = following.here(str(name))
        except ValidationError as error:
            raise OptionError(f"cue/set: {first_problem(error)}") from None
        following.set(cue, here=not take)
        # TOML's basic strings are JSON's.
        name, take = (json.dumps(text, ensure_ascii=False) for text in (cue.name, cue.take))
        return f"[[cue]]\nname = {name}\ntake = {take}\nat = {cue.at:.7g}\nahead_ms = {cue.ahead_ms:g}"

    def set_here(self, cue: Cue) -> None:
        """A cue that was set where the performer was, wherever they are now."""
        self._following("cue/set").set(cue, here=True)

    def _remove_cue(self, name: object) -> str:
        """The cue of this name is said no more."""
        self._following("cue/remove").remove(str(name))
        return f"{name} is said no more"


class MemoryRemote:
    """See :class:`realtime.control.server.Remote`. Files go into ``folder``, written beside the loop.

    ``performer`` is the one of several whose memory it is, and part of a name that is made up. ``say`` is
    told of what nobody waits for any more.
    """

    def __init__(
        self,
        live: Callable[[], LiveMemory | None],
        folder: Path,
        performer: str = "",
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.actions: dict[str, Action] = {"memory/save": self._save}
        self.families: dict[str, Action] = {}
        self._live = live
        self._folder = folder
        self._stem = f"show-{performer}" if performer else "show"
        self._say = say
        self._thread = ThreadPoolExecutor(1, "memory")
        self._saving: tuple[Path, Iterator[Future[None] | None]] | None = None

    async def _save(self, name: object = "") -> str:
        """A name without a folder: a datagram must not choose where files go."""
        path = new_file(self._folder, name, self._stem, ".memory", "memory/save")
        if (live := self._live()) is None:
            raise OptionError("memory/save: the rig plays without it (memory.enabled = false)")
        steps = self._steps(live, path)
        self._saving = path, steps
        for _ in steps:
            # Where the show ends meanwhile, close() goes on with it.
            await asyncio.sleep(_PAUSE)
        return str(path.absolute())

    def _steps(self, live: LiveMemory, path: Path) -> Iterator[Future[None] | None]:
        """Save in steps between which the show has its turn: copy, and wait for what is written meanwhile."""
        takes = {} if live.following is None else live.following.takes
        live.saving = True
        try:
            told = yield from _copied(live.memory)
            written = self._thread.submit(save_moments, *told, path, takes, new=True)
            while not written.done():
                yield written
            written.result()
        finally:
            live.saving, self._saving = False, None

    def close(self) -> None:
        """Finish what was begun."""
        if self._saving is not None:
            path, steps = self._saving
            try:
                for written in steps:
                    wait([written] if written else ())
                self._say(f"memory saved: {path}")
            except (MotionError, OSError) as error:
                self._say(f"memory/save: {error}")
        self._thread.shutdown()


def _copied(memory: Memory) -> Generator[None, None, Moments]:
    """What is remembered now, in pieces between which the show goes on.

    Of a full memory the oldest of the show are forgotten meanwhile: what comes behind them moves up, and its
    takes may be numbered anew. So the show's are copied first, ahead of the forgetting, each piece from the
    last moment of the one before on, which says by how much the numbers differ.
    """
    kept, count, forgotten = memory.rehearsed, len(memory), memory.forgotten
    names, keys, followed, origins = memory.moments(kept, min(_PIECE, count - kept))
    show, rehearsed = [(keys, followed, origins)], []
    for first in range(kept + _PIECE, count, _PIECE):
        yield
        before = first - 1 - (memory.forgotten - forgotten)
        if before < kept:
            raise OptionError("memory/save: the show forgets faster than it is copied; save once more")
        _, keys, followed, origins = memory.moments(before, min(_PIECE, count - first) + 1)
        origins[:, 0] += show[-1][2][-1, 0] - origins[0, 0]
        show.append((keys[1:], followed[1:], origins[1:]))
    for first in range(0, kept, _PIECE):
        yield
        rehearsed.append(memory.moments(first, min(_PIECE, kept - first))[1:])
    keys, followed, origins = (np.concatenate(parts) for parts in zip(*rehearsed, *show, strict=True))
    return names, keys, followed, origins
