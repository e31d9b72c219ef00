"""The rig that plays, written down: into its own file, or into a new one in the folder of the show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyanticip.errors import OptionError
from realtime.control.commands import Commands
from realtime.control.folder import new_file
from realtime.control.live_rig import tree_of
from realtime.control.server import Action
from realtime.rig import Rig
from realtime.rig.edit import edit_rig

__all__ = ["RigRemote"]


class RigRemote:
    """See :class:`realtime.control.server.Remote`. ``rig`` is the one that the show began with.

    What differs from it is written, with the preset and the mapping that play; all else in the file stays as
    it is. Files are written beside the loop.
    """

    def __init__(self, rig: Rig, commands: Commands, folder: Path) -> None:
        self.actions: dict[str, Action] = {"rig/save": self._save}
        self.families: dict[str, Action] = {}
        self._commands = commands
        self._folder = folder
        # Of a show without a file everything has to be written.
        self._written: Mapping[str, Any] = {} if rig.file is None else _said(rig)
        self._thread = ThreadPoolExecutor(1, "rig")

    async def _save(self, name: object = "") -> str:
        """Into the rig that plays, or into a new file of this name: that is the rig from then on."""
        file = self._commands.live_rig.file
        if not str(name) and file is None:
            raise OptionError("rig/save: the show was begun without a rig: expected a name for its file")
        path = new_file(self._folder, name, ".toml", "rig/save") if str(name) else file
        assert path is not None
        now = self._now()
        source = path if file is None else file
        work = asyncio.get_running_loop().run_in_executor
        await work(self._thread, edit_rig, path, self._written, now, source)
        self._written = now
        self._commands.live_rig.written(path)
        return str(path)

    def _now(self) -> Mapping[str, Any]:
        """What plays, as a file would say it."""
        tree = dict(_said(self._commands.live_rig.rig))
        if preset := self._commands.preset:
            tree["synth"] = {**tree.get("synth", {}), "preset": preset}
        if self._commands.mapping is not None:
            tree["mapping"] = self._commands.mapping
        return tree

    def close(self) -> None:
        """Finish what was begun."""
        self._thread.shutdown()


def _said(rig: Rig) -> Mapping[str, Any]:
    """A rig without the recording that it makes, which must not be there when it plays again."""
    return {name: value for name, value in tree_of(rig).items() if name != "record"}
