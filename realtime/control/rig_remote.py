"""Files of the show's folder: the rig is written, another is played by, another model steps, another memory
is mixed with."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pyanticip import _core
from pyanticip.errors import MotionError, OptionError
from pyanticip.memory.cues import Cue
from realtime.control.commands import Commands
from realtime.control.folder import inside, new_file
from realtime.control.live_rig import LIVE, fixed_of, patch_of, tree_of
from realtime.control.server import Action
from realtime.mapping.live_mapping import open_mapping
from realtime.memory.live_memory import LiveMemory, check_cues, open_memory
from realtime.pipeline import Pipeline
from realtime.rig import Rig, load_rig
from realtime.rig.edit import edit_rig
from realtime.rig.load import rig_for_performer
from realtime.step.base import StepBackend
from realtime.step.open import open_backend

__all__ = ["RigRemote"]

T = TypeVar("T")

# Tables that say nothing of what a rig would play, and those that change by commands of their own.
_APART = ("record", "monitor", "control", "oscquery", "teach", "realtime_priority")
_BY_COMMAND = (*LIVE, "model", "mapping", "memory", "cue", "synth")


class RigRemote:
    """See :class:`realtime.control.server.Remote`. ``memories`` is the folder of memories where it is not
    ``folder``.

    What differs from its file is written, with the preset, the mapping and the memory that play, and with
    what the command line said but ``--record``; all else in the file stays as it is. Files are read and
    written beside the loop.
    """

    def __init__(
        self, pipeline: Pipeline, commands: Commands, folder: Path, memories: Path | None = None
    ) -> None:
        self.actions: dict[str, Action] = {
            "rig/save": self._save,
            "rig/load": self._load,
            "model/load": self._load_model,
            "memory/load": self._load_memory,
        }
        self.families: dict[str, Action] = {}
        self._pipeline = pipeline
        self._commands = commands
        self._folder, self._memories = folder, folder if memories is None else memories
        # What the file says, and what is kept of what no command changes; of a show without a file everything
        # that plays has to be written.
        self._written: Mapping[str, Any] = {}
        self._kept: Mapping[str, Any] = {}
        if commands.live_rig.file is not None:
            alone, whole = commands.live_rig.rig.begun
            self._written, told = {} if alone is None else tree_of(alone), tree_of(whole)
            record = {name: self._written[name] for name in ("record",) if name in self._written}
            self._kept = {**{name: said for name, said in told.items() if name != "record"}, **record}
        self._thread = ThreadPoolExecutor(1, "rig")
        # What is saved behind a rig that is being loaded is that rig.
        self._turn = asyncio.Lock()

    async def _save(self, name: object = "") -> str:
        """Into the rig that plays, or into a new file of this name: that is the rig from then on."""
        async with self._turn:
            return await self._write(name)

    async def _write(self, name: object) -> str:
        file = self._commands.live_rig.file
        if not str(name) and file is None:
            one = self._commands.live_rig.rig.one
            why = f"what {one} alone saves is another rig" if one else "the show was begun without a rig"
            raise OptionError(f"rig/save: {why}: expected a name for its file")
        path = new_file(self._folder, name, "", ".toml", "rig/save") if str(name) else file
        assert path is not None
        now = self._now()
        before, source = self._written, path if file is None else file
        await self._beside(lambda: edit_rig(path, before, now, source))
        self._written = now
        self._commands.live_rig.written(path)
        return str(path)

    def _now(self) -> Mapping[str, Any]:
        """What plays, as a file would say it, beside what was told of what cannot change."""
        playing = tree_of(self._commands.live_rig.rig)
        if preset := self._commands.preset:
            playing["synth"] = {**playing.get("synth", {}), "preset": preset}
        if self._commands.mapping is not None:
            playing["mapping"] = self._commands.mapping
        elif self._pipeline.live_mapping is None and not self._pipeline.mapping_error:
            # It was unloaded.
            playing.pop("mapping", None)
        playing.pop("cue", None)
        if cues := self._commands.cues:
            playing["cue"] = [cue.model_dump(exclude_defaults=True) for cue in cues]
        kept = self._kept or {name: told for name, told in playing.items() if name != "record"}
        tree = {name: told for name, told in kept.items() if name not in _BY_COMMAND}
        return tree | {name: playing[name] for name in _BY_COMMAND if name in playing}

    async def _load(self, name: object) -> str:
        """Play by another rig, as far as a show can change; what needs a restart is told.

        All of it is read before any of it plays: what cannot be played changes nothing.
        """
        async with self._turn:
            return await self._play(name)

    async def _play(self, name: object) -> str:
        path = inside(self._folder, name, "rig/load")
        self._check_unsaved("rig/load")
        now, played = self._commands.live_rig.rig, self._plays()
        rig = _for_one(await self._beside(lambda: load_rig(path)), now)
        restart = _fixed(rig, now)
        file, mapping, following = rig.memory.file, rig.mapping, self._commands.following
        checkpoint = rig.model.checkpoint
        another = checkpoint != now.model.checkpoint and rig.model.enabled and "model" not in restart
        backend = self._pipeline.backend
        plays: list[Callable[[], str]] = []
        with contextlib.ExitStack() as undo:
            if another:
                backend = await self._open_model(checkpoint)
                undo.callback(backend.close)
                plays.append(partial(self._play_model, backend, checkpoint))
            if rig.memory.enabled and file is not None and file != now.memory.file:
                memory, cues = rig.memory, rig.cue
                live = await self._beside(
                    partial(open_memory, file, memory.sha256, learn=memory.learn, cues=cues)
                )
                plays.append(partial(self._commands.play_memory, live, Path(file), memory))
            elif rig.memory != now.memory:
                restart.append("memory")
            elif rig.cue != self._commands.cues and following is not None:
                check_cues(rig.cue, following.seconds)
                shared = await self._beside(partial(following.shared, rig.cue))
                plays.append(partial(self._commands.play_cues, following, rig.cue, shared))
            mapped = self._pipeline.live_mapping is not None
            current = (self._commands.mapping or now.mapping) if mapped else None
            if mapping is not None and (another or mapping != current):
                taught = await self._beside(partial(open_mapping, mapping, backend))
                plays.append(partial(self._commands.play_mapping, taught, Path(mapping)))
            if self._plays() != played:
                raise OptionError("rig/load: another model, memory or mapping plays by now; load once more")
            before, after = (
                {n: tree_of(one).get(n, {}) for n in ("shape", "smoothing", "osc")}
                for one in (self._commands.live_rig.rig, rig)
            )
            if "osc" in restart:
                after["osc"] = before["osc"]
            patch = patch_of(before, after) | {"gain": rig.gain, "lead_ms": rig.lead_ms}
            done = [self._obey("rig/merge", json.dumps(patch))]
            undo.pop_all()
        preset = rig.synth.preset
        if preset != (self._commands.preset or now.synth.preset) and preset in _core.PRESETS:
            try:
                done.append("preset " + self._obey("preset", preset))
            except OptionError as error:
                # The voice that plays cannot: it has no sounds, or is another package's.
                done.append(str(error))
        there = self._pipeline.live_mapping is not None or self._pipeline.mapping_error
        if there and (another or mapping is None):
            done.append(self._obey("unload"))
        done += [play() for play in plays]
        if not now.one:
            self._kept = tree_of(rig)
            # Of what could change, and what did not, what is changed from now on differs.
            self._written = self._now()
            self._commands.live_rig.written(path)
        return "; ".join([*done, *([f"needs a restart: {', '.join(restart)}"] if restart else [])])

    async def _load_model(self, name: object = "") -> str:
        """Step another model of the folder from the next frame on; no name: the packaged one."""
        checkpoint = str(inside(self._folder, name, "model/load")) if str(name) else None
        return self._play_model(await self._open_model(checkpoint), checkpoint)

    async def _open_model(self, checkpoint: str | None) -> StepBackend:
        kind = self._commands.live_rig.rig.model.backend
        return await self._beside(lambda: open_backend(kind, checkpoint))

    def _play_model(self, backend: StepBackend, checkpoint: str | None) -> str:
        try:
            self._commands.set_model(backend, checkpoint)
        except MotionError:
            backend.close()
            raise
        known = "" if backend.manifest is None else f" {backend.manifest.name}"
        return f"model{known} on {backend.description}"

    async def _load_memory(self, name: object) -> str:
        """Mix with another memory, go on learning or not, and say the cues that are within its takes."""
        path = self._memory_file(name)
        self._check_unsaved("memory/load")
        cues: tuple[Cue, ...] | None = None
        # One may be set while it is read.
        while cues != self._commands.cues:
            cues = self._commands.cues
            live, left = await self._beside(partial(_open_with, path, cues))
        before = self._pipeline.memory
        learns = self._commands.live_rig.rig.memory.learn if before is None else before.memory.learning
        live.memory.learning = learns
        return self._commands.play_memory(live, path) + (
            f"; not in it: cue {', '.join(left)}" if left else ""
        )

    def _memory_file(self, name: object) -> Path:
        """Where ``memory/save`` puts it, or, as the monitor lists it, in the folder of the show."""
        try:
            return inside(self._memories, name, "memory/load")
        except OptionError:
            with contextlib.suppress(OptionError):
                return inside(self._folder, name, "memory/load")
            raise

    def _check_unsaved(self, command: str) -> None:
        if self._pipeline.memory is not None:
            self._pipeline.memory.check_unsaved(command)

    def _plays(self) -> tuple[object, ...]:
        return self._pipeline.backend, self._pipeline.memory, self._pipeline.live_mapping

    def _obey(self, name: str, *arguments: object) -> str:
        return str(self._commands.obey(name, *arguments))

    async def _beside(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))

    def close(self) -> None:
        """Finish what was begun."""
        self._thread.shutdown()


def _open_with(path: Path, cues: Sequence[Cue]) -> tuple[LiveMemory, list[str]]:
    """A memory with those of the cues that are within its takes, and the names of the others."""
    live = open_memory(path)
    following = live.following
    seconds = {} if following is None else following.seconds
    kept = [cue for cue in cues if _is_in(cue, seconds)]
    if following is not None:
        following.say(kept, following.shared(kept))
    return live, [cue.name for cue in cues if cue not in kept]


def _is_in(cue: Cue, seconds: Mapping[str, float]) -> bool:
    try:
        check_cues([cue], seconds)
    except OptionError:
        return False
    return True


def _fixed(rig: Rig, now: Rig) -> list[str]:
    """The tables of a loaded rig that no show can change to while it plays ``now``."""
    apart = (*_APART, *_BY_COMMAND)
    found = [n for n in Rig.model_fields if n not in apart and getattr(rig, n) != getattr(now, n)]
    if fixed_of(rig) != fixed_of(now):
        found.append("osc")
    if rig.model.model_copy(update={"checkpoint": now.model.checkpoint}) != now.model:
        found.append("model")
    if rig.synth.model_copy(update={"preset": now.synth.preset}) != now.synth:
        found.append("synth")
    return found


def _for_one(rig: Rig, now: Rig) -> Rig:
    """A loaded rig for whoever plays ``now``: of several performers their part of it, or, where it knows none
    of this name, all of it at the addresses that are theirs."""
    if not now.one:
        return rig
    if any(performer.name == now.one for performer in rig.performers):
        rig = rig_for_performer(rig, now.one)
    else:
        pairs = zip(rig.osc, now.osc, strict=False)
        kept = [(told, {"prefix": one.prefix, "addresses": one.addresses}) for told, one in pairs]
        rig = rig.model_copy(update={"osc": tuple(told.model_copy(update=names) for told, names in kept)})
        rig._one = now.one
    if rig.model.backend == "auto":
        # It was chosen once for all of them.
        rig = rig.model_copy(update={"model": rig.model.model_copy(update={"backend": now.model.backend})})
    return rig
