"""A rig that plays to nobody's dance, and the hand on it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.control.rig_remote import RigRemote
from realtime.rig import Rig
from realtime.sources.replay import Command
from realtime.stage import assemble


class Playing:
    """A show that obeys; ``told`` is what it records of that."""

    words = ()

    def __init__(
        self, rig: Rig, folder: Path | None = None, say: Callable[[str], object] = str, **more: Any
    ) -> None:
        self.told: list[Command] = []
        self.pipeline = assemble(rig, OfflineClock(0), **more)
        self.pipeline.tape = self  # type: ignore[assignment]
        self.commands = Commands(self.pipeline, say, rig)
        self.remote = RigRemote(self.pipeline, self.commands, folder or rig.folder)

    @property
    def rig(self) -> Rig:
        """As it is now."""
        return self.commands.live_rig.rig

    raw = frame = output = staticmethod(lambda *_, **__: None)

    def control(self, t_ns: int, name: str, arguments: tuple[object, ...]) -> None:
        self.told.append(Command(t_ns, name, tuple(arguments)))

    def do(self, name: str, *words: object) -> str:
        if name in self.remote.actions:
            return asyncio.run(self.remote.actions[name](*words))
        return str(self.commands.obey(name, *words))

    def replays(self, told: list[Command]) -> None:
        for command in told:
            self.commands.replay_command(command)

    def close(self) -> None:
        self.remote.close()
        self.pipeline.close()
