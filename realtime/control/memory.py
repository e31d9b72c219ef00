"""Commands on the memory (learn, freeze, clear, save) and on cues."""

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

Moments = tuple[list[str], npt.NDArray[np.int16], npt.NDArray[np.uint16], npt.NDArray[np.uint32]]

# Number of moments copied at once, which takes a fraction of a millisecond, and the pause after it.
_CHUNK_MOMENTS, _CHUNK_PAUSE_S = 500, 0.005


def cue_values(cues: Sequence[Cue]) -> tuple[object, ...]:
    """Cues as arguments of a recorded command: name, take, seconds and ms ahead of each."""
    return tuple(value for cue in cues for value in cue.model_dump().values())


def parse_cues(words: Sequence[object]) -> tuple[Cue, ...]:
    """The inverse of :func:`cue_values`. Raises a ValueError."""
    rows = zip(*[iter(words)] * len(Cue.model_fields), strict=True)
    return tuple(Cue.model_validate(dict(zip(Cue.model_fields, row, strict=True))) for row in rows)


class MemoryControl:
    """The commands on memory and cues that affect the sound, so are recorded."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.actions: dict[str, Callable[..., str]] = {
            "memory/learn": lambda: self._learn(True),
            "memory/freeze": lambda: self._learn(False),
            "memory/clear": self._clear,
            "cue/set": self._set_cue,
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
        """Forget the show but not the rehearsed takes."""
        live = self._live()
        live.check_unsaved("memory/clear")
        live.memory.clear()
        return "the show is forgotten"

    def _following(self, command: str) -> Following:
        if (following := self._live().following) is None:
            raise OptionError(f"{command}: no take was rehearsed that can be followed")
        return following

    def _set_cue(self, name: object, take: object = "", at: object = 0.0, ahead_ms: object = None) -> str:
        """Set a cue at the performer's current place, or ``at`` seconds of a take, ``ahead_ms`` or as far
        ahead as before; returns its table for the rig."""
        following = self._following("cue/set")
        try:
            if take:
                ahead_ms = following.ahead_ms(str(name)) if ahead_ms is None else number("ahead_ms", ahead_ms)
                cue = Cue(name=str(name), take=str(take), at=number("at", at), ahead_ms=ahead_ms)
            else:
                cue = following.cue_here(str(name))
        except ValidationError as error:
            raise OptionError(f"cue/set: {first_problem(error)}") from None
        following.set(cue, here=not take)
        # Basic strings of TOML are written like those of JSON.
        name, take = (json.dumps(text, ensure_ascii=False) for text in (cue.name, cue.take))
        return f"[[cue]]\nname = {name}\ntake = {take}\nat = {cue.at:.7g}\nahead_ms = {cue.ahead_ms:g}"

    def set_here(self, cue: Cue) -> None:
        """Set a cue as if its place were the performer's current one."""
        self._following("cue/set").set(cue, here=True)

    def _remove_cue(self, name: object) -> str:
        """Remove a cue."""
        self._following("cue/remove").remove(str(name))
        return f"{name} is removed"


class MemoryRemote:
    """Saves the memory to files in ``folder``, in a thread; see :class:`realtime.control.server.Remote`.

    ``performer`` is the memory's performer if there are several, and part of generated names. ``say`` takes a
    line on a save that :meth:`close` finishes.
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
        """Save to a file of this name, without a folder: a datagram must not choose where files go."""
        path = new_file(self._folder, name, self._stem, ".memory", "memory/save")
        if (live := self._live()) is None:
            raise OptionError("memory/save: the rig plays without it (memory.enabled = false)")
        steps = self._save_steps(live, path)
        self._saving = path, steps
        for _ in steps:
            # If the show ends meanwhile, close() finishes the save.
            await asyncio.sleep(_CHUNK_PAUSE_S)
        return str(path.absolute())

    def _save_steps(self, live: LiveMemory, path: Path) -> Iterator[Future[None] | None]:
        """Save in steps between which the show goes on: copy, then wait for the thread that writes."""
        takes = {} if live.following is None else live.following.takes
        live.saving = True
        try:
            moments = yield from _copy_moments(live.memory)
            writing = self._thread.submit(save_moments, *moments, path, takes, new=True)
            while not writing.done():
                yield writing
            writing.result()
        finally:
            live.saving, self._saving = False, None

    def close(self) -> None:
        """Finish a pending save."""
        if self._saving is not None:
            path, steps = self._saving
            try:
                for writing in steps:
                    wait([writing] if writing else ())
                self._say(f"memory saved: {path}")
            except (MotionError, OSError) as error:
                self._say(f"memory/save: {error}")
        self._thread.shutdown()


def _copy_moments(memory: Memory) -> Generator[None, None, Moments]:
    """Copy all moments in chunks between which the show goes on.

    A full memory forgets the oldest moments of the show meanwhile: later ones move up, and their takes may be
    renumbered. So the show's moments are copied first, ahead of the forgetting, and each chunk begins with
    the last moment of the previous one, which gives the difference of the take numbers.
    """
    rehearsed_count, count, forgotten = memory.rehearsed, len(memory), memory.forgotten
    names, keys, followed, origins = memory.moments(
        rehearsed_count, min(_CHUNK_MOMENTS, count - rehearsed_count)
    )
    show, rehearsed = [(keys, followed, origins)], []
    for first in range(rehearsed_count + _CHUNK_MOMENTS, count, _CHUNK_MOMENTS):
        yield
        previous = first - 1 - (memory.forgotten - forgotten)
        if previous < rehearsed_count:
            raise OptionError("memory/save: the show forgets faster than it is copied; save once more")
        _, keys, followed, origins = memory.moments(previous, min(_CHUNK_MOMENTS, count - first) + 1)
        origins[:, 0] += show[-1][2][-1, 0] - origins[0, 0]
        show.append((keys[1:], followed[1:], origins[1:]))
    for first in range(0, rehearsed_count, _CHUNK_MOMENTS):
        yield
        rehearsed.append(memory.moments(first, min(_CHUNK_MOMENTS, rehearsed_count - first))[1:])
    keys, followed, origins = (np.concatenate(parts) for parts in zip(*rehearsed, *show, strict=True))
    return names, keys, followed, origins
