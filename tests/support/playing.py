"""A show without a performer that takes commands; and the output of a recording and of its replay."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyanticip.motion.recording import Output, read_recording
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.control.rig_remote import RigRemote
from realtime.pipeline import Pipeline
from realtime.programs.live import replay
from realtime.rig import Rig, load_rig
from realtime.sinks.osc import OscSink
from realtime.sources.replay import Command, open_show
from realtime.stage import assemble

OFF: dict[str, Any] = {"osc": [], "control": {"enabled": False}}


def outputs(recording: Path) -> list[tuple[int, bytes, list[Any]]]:
    """Number, parameters and events of all outputs in a recording."""
    return [(r.seq, r.params.tobytes(), r.events) for r in read_recording(recording) if isinstance(r, Output)]


def replayed(recording: Path) -> list[tuple[int, bytes, list[Any]]]:
    """The outputs of a recording's replay with its own rig."""
    kind, items = open_show(recording)
    again = recording.with_name("again.anticip")
    replay(items, kind, load_rig(None, {**OFF, "record": str(again)}, recording), speed=None, say=pytest.fail)
    return outputs(again)


def captured_bundles(pipeline: Pipeline) -> list[bytes]:
    """Every bundle that the pipeline sends to its OSC receiver from now on; none leaves the process."""
    bundles: list[bytes] = []
    (sink,) = (sink for sink in pipeline.sinks if isinstance(sink, OscSink))
    sink._transmit = lambda data: bundles.append(bytes(data))  # type: ignore[method-assign]
    return bundles


class Playing:
    """A show that takes commands; ``recorded`` are those that it records."""

    status_words = ()

    def __init__(
        self, rig: Rig, folder: Path | None = None, say: Callable[[str], object] = str, **more: Any
    ) -> None:
        self.recorded: list[Command] = []
        self.pipeline = assemble(rig, OfflineClock(0), **more)
        self.pipeline.tape = self  # type: ignore[assignment]
        self.commands = Commands(self.pipeline, say, rig)
        self.remote = RigRemote(self.pipeline, self.commands, folder or rig.folder)

    @property
    def rig(self) -> Rig:
        """The current rig."""
        return self.commands.live_rig.rig

    raw = frame = output = staticmethod(lambda *_, **__: None)

    def control(self, t_ns: int, name: str, arguments: tuple[object, ...]) -> None:
        self.recorded.append(Command(t_ns, name, tuple(arguments)))

    def do(self, name: str, *words: object) -> str:
        if name in self.remote.actions:
            return asyncio.run(self.remote.actions[name](*words))
        return str(self.commands.obey(name, *words))

    def replays(self, commands: list[Command]) -> None:
        for command in commands:
            self.commands.replay_command(command)

    def close(self) -> None:
        self.remote.close()
        self.pipeline.close()
