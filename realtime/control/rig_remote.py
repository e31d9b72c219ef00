"""Commands that save the rig, and load another rig, model or memory from the folder of the show."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
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

T = TypeVar("T")

# Tables that do not affect what a rig plays: of a loaded rig they matter only if its file has them.
_UNRELATED_TABLES = ("record", "monitor", "control", "oscquery", "teach", "realtime_priority")
# Tables that can be changed live, by commands.
_LIVE_TABLES = (*LIVE, "model", "mapping", "memory", "cue", "synth")


class RigRemote:
    """See :class:`realtime.control.server.Remote`. ``memory_folder`` is the folder of memories if it is not
    ``folder``.

    Saving writes what differs from the rig's file: live changes, the current preset, mapping and memory, and
    the options of the command line except ``--record``. The rest of the file is unchanged. Files are read and
    written in a thread.
    """

    def __init__(
        self, pipeline: Pipeline, commands: Commands, folder: Path, memory_folder: Path | None = None
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
        self._folder, self._memory_folder = folder, folder if memory_folder is None else memory_folder
        # The tree of the file, and the tables to keep that no command changes. Without a file both are empty,
        # and everything that plays is written.
        self._file_tree: Mapping[str, Any] = {}
        self._kept_tables: Mapping[str, Any] = {}
        if commands.live_rig.file is not None:
            file_rig, merged_rig = commands.live_rig.rig.as_loaded
            self._file_tree, merged_tree = {} if file_rig is None else tree_of(file_rig), tree_of(merged_rig)
            record = {name: self._file_tree[name] for name in ("record",) if name in self._file_tree}
            self._kept_tables = {
                **{name: table for name, table in merged_tree.items() if name != "record"},
                **record,
            }
        self._thread = ThreadPoolExecutor(1, "rig")
        # A save that follows a load must save the loaded rig.
        self._lock = asyncio.Lock()

    async def _save(self, name: object = "") -> str:
        """Save into the rig's file, or into a new one, which is the rig's file from then on."""
        async with self._lock:
            return await self._save_rig(name)

    async def _save_rig(self, name: object) -> str:
        file = self._commands.live_rig.file
        if not str(name) and file is None:
            one = self._commands.live_rig.rig.performer_name
            why = f"what {one} alone saves is another rig" if one else "the show was begun without a rig"
            raise OptionError(f"rig/save: {why}: expected a name for its file")
        path = new_file(self._folder, name, "", ".toml", "rig/save") if str(name) else file
        assert path is not None
        now = self._current_tree()
        before, source = self._file_tree, path if file is None else file
        await self._in_thread(lambda: edit_rig(path, before, now, source))
        self._file_tree = now
        self._commands.live_rig.set_file(path)
        return str(path)

    def _current_tree(self) -> Mapping[str, Any]:
        """The tree of what plays, as in a file, with the tables that cannot change."""
        playing = tree_of(self._commands.live_rig.rig)
        if preset := self._commands.preset:
            playing["synth"] = {**playing.get("synth", {}), "preset": preset}
        if self._commands.mapping is not None:
            playing["mapping"] = self._commands.mapping
        elif self._pipeline.live_mapping is None and not self._pipeline.mapping_error:
            # The mapping was unloaded.
            playing.pop("mapping", None)
        playing.pop("cue", None)
        if cues := self._commands.cues:
            playing["cue"] = [cue.model_dump(exclude_defaults=True) for cue in cues]
        base = self._kept_tables or {name: table for name, table in playing.items() if name != "record"}
        tree = {name: table for name, table in base.items() if name not in _LIVE_TABLES}
        return tree | {name: playing[name] for name in _LIVE_TABLES if name in playing}

    async def _load(self, name: object) -> str:
        """Change to another rig as far as possible during a show; the reply names what needs a restart.

        Everything is read before anything is applied, so that an unusable rig changes nothing.
        """
        async with self._lock:
            return await self._load_rig(name)

    async def _load_rig(self, name: object) -> str:
        path = inside(self._folder, name, "rig/load", ".toml")
        self._check_unsaved("rig/load")
        now, played = self._commands.live_rig.rig, self._playing()
        loaded = await self._in_thread(lambda: load_rig(path))
        rig = _for_performer(loaded, now)
        restart = _unchangeable(rig, now, loaded.model_fields_set)
        file, mapping, following = rig.memory.file, rig.mapping, self._commands.following
        checkpoint = rig.model.checkpoint
        is_new_model = checkpoint != now.model.checkpoint and rig.model.enabled and "model" not in restart
        backend = self._pipeline.backend
        changes: list[Callable[[], str]] = []
        with contextlib.ExitStack() as undo:
            if is_new_model:
                backend = await self._open_model(checkpoint)
                undo.callback(backend.close)
                changes.append(partial(self._play_model, backend, checkpoint))
            if rig.memory.enabled and file is not None and file != now.memory.file:
                memory, cues = rig.memory, rig.cue
                live = await self._in_thread(
                    partial(open_memory, file, memory.sha256, learn=memory.learn, cues=cues)
                )
                changes.append(partial(self._commands.play_memory, live, Path(file), memory))
            elif rig.memory != now.memory:
                restart.append("memory")
            elif rig.cue != self._commands.cues and following is not None:
                check_cues(rig.cue, following.seconds)
                shared = await self._in_thread(partial(following.shared, rig.cue))
                changes.append(partial(self._commands.play_cues, following, rig.cue, shared))
            has_mapping = self._pipeline.live_mapping is not None
            current = (self._commands.mapping or now.mapping) if has_mapping else None
            if mapping is not None and (is_new_model or mapping != current):
                live_mapping = await self._in_thread(partial(open_mapping, mapping, backend))
                changes.append(partial(self._commands.play_mapping, live_mapping, Path(mapping)))
            if self._playing() != played:
                raise OptionError("rig/load: another model, memory or mapping plays by now; load once more")
            before, after = (
                {n: tree_of(one).get(n, {}) for n in ("shape", "smoothing", "osc")}
                for one in (self._commands.live_rig.rig, rig)
            )
            if "osc" in restart:
                after["osc"] = before["osc"]
            patch = patch_of(before, after) | {"gain": rig.gain, "lead_ms": rig.lead_ms}
            results = [self._obey("rig/merge", json.dumps(patch))]
            undo.pop_all()
        preset = rig.synth.preset
        if preset != (self._commands.preset or now.synth.preset) and preset in _core.PRESETS:
            try:
                results.append("preset " + self._obey("preset", preset))
            except OptionError as error:
                # The current voice cannot switch: it has no sounds, or is another package's.
                results.append(str(error))
        mapping_plays = self._pipeline.live_mapping is not None or self._pipeline.mapping_error
        if mapping_plays and (is_new_model or mapping is None):
            results.append(self._obey("unload"))
        results += [play() for play in changes]
        if not now.performer_name:
            self._kept_tables = tree_of(rig)
            # Later saves write what differs from the state now, not from the loaded file.
            self._file_tree = self._current_tree()
            self._commands.live_rig.set_file(path)
        return "; ".join([*results, *([f"needs a restart: {', '.join(restart)}"] if restart else [])])

    async def _load_model(self, name: object = "") -> str:
        """Step another model of the folder from the next frame on; without a name, the packaged one."""
        checkpoint = str(inside(self._folder, name, "model/load")) if str(name) else None
        return self._play_model(await self._open_model(checkpoint), checkpoint)

    async def _open_model(self, checkpoint: str | None) -> StepBackend:
        kind = self._commands.live_rig.rig.model.backend
        return await self._in_thread(lambda: open_backend(kind, checkpoint))

    def _play_model(self, backend: StepBackend, checkpoint: str | None) -> str:
        try:
            self._commands.set_model(backend, checkpoint)
        except MotionError:
            backend.close()
            raise
        name = "" if backend.manifest is None else f" {backend.manifest.name}"
        return f"model{name} on {backend.description}"

    async def _load_memory(self, name: object) -> str:
        """Change to another memory, with learning as before and the cues that are within its takes."""
        path = self._memory_file(name)
        self._check_unsaved("memory/load")
        cues: tuple[Cue, ...] | None = None
        # A cue may be set while the memory is read.
        while cues != self._commands.cues:
            cues = self._commands.cues
            live, other_cues = await self._in_thread(partial(_open_with, path, cues))
        before = self._pipeline.memory
        learning = self._commands.live_rig.rig.memory.learn if before is None else before.memory.learning
        live.memory.learning = learning
        return self._commands.play_memory(live, path) + (
            f"; not in it: cue {', '.join(other_cues)}" if other_cues else ""
        )

    def _memory_file(self, name: object) -> Path:
        """A memory in the folder of ``memory/save`` or, as listed by the monitor, in that of the show."""
        try:
            return inside(self._memory_folder, name, "memory/load", ".memory")
        except OptionError:
            with contextlib.suppress(OptionError):
                return inside(self._folder, name, "memory/load", ".memory")
            raise

    def _check_unsaved(self, command: str) -> None:
        if self._pipeline.memory is not None:
            self._pipeline.memory.check_unsaved(command)

    def _playing(self) -> tuple[object, ...]:
        return self._pipeline.backend, self._pipeline.memory, self._pipeline.live_mapping

    def _obey(self, name: str, *arguments: object) -> str:
        return str(self._commands.obey(name, *arguments))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))

    def close(self) -> None:
        """Wait for the thread."""
        self._thread.shutdown()


def _open_with(path: Path, cues: Sequence[Cue]) -> tuple[LiveMemory, list[str]]:
    """Open a memory with the cues that are within its takes; also returns the names of the others."""
    live = open_memory(path)
    following = live.following
    seconds = {} if following is None else following.seconds
    own_cues = [cue for cue in cues if _is_in(cue, seconds)]
    if following is not None:
        following.set_cues(own_cues, following.shared(own_cues))
    return live, [cue.name for cue in cues if cue not in own_cues]


def _is_in(cue: Cue, seconds: Mapping[str, float]) -> bool:
    try:
        check_cues([cue], seconds)
    except OptionError:
        return False
    return True


def _unchangeable(rig: Rig, current: Rig, in_file: Collection[str]) -> list[str]:
    """Tables in which a loaded rig, whose file has the tables ``in_file``, differs from the current one and
    that need a restart."""
    ignored = {*_LIVE_TABLES, *(n for n in _UNRELATED_TABLES if n not in in_file)}
    names = [n for n in Rig.model_fields if n not in ignored and getattr(rig, n) != getattr(current, n)]
    names = list(dict.fromkeys("performer" if n == "performers" else n for n in names))
    if fixed_of(rig) != fixed_of(current):
        names.append("osc")
    if rig.model.model_copy(update={"checkpoint": current.model.checkpoint}) != current.model:
        names.append("model")
    if rig.synth.model_copy(update={"preset": current.synth.preset}) != current.synth:
        names.append("synth")
    return names


def _for_performer(rig: Rig, now: Rig) -> Rig:
    """A loaded rig for the performer of ``now``: their part of it, or, if it has no performer of this name,
    all of it with their OSC addresses. Unchanged if there is a single performer."""
    if not now.performer_name:
        return rig
    if any(performer.name == now.performer_name for performer in rig.performers):
        rig = rig_for_performer(rig, now.performer_name)
    else:
        pairs = zip(rig.osc, now.osc, strict=False)
        kept = [(told, {"prefix": one.prefix, "addresses": one.addresses}) for told, one in pairs]
        rig = rig.model_copy(update={"osc": tuple(told.model_copy(update=names) for told, names in kept)})
        rig._performer_name = now.performer_name
    return rig
