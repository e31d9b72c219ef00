"""Teaching over OSC: the commands under ``/anticip/control/teach/`` and ``load``.

The project is the one that the rig names: a datagram chooses names of takes, never paths. Files are written
on a thread and fitting runs in a child process, so the show is not blocked; the reply comes when the work is
done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from pyanticip.errors import DeviceError, MotionError, OptionError
from pyanticip.teach.mapping import load_mapping
from pyanticip.teach.outputs import parse_output
from pyanticip.teach.project import MAPPING, Project
from pyanticip.teach.state import TakeEntry
from pyanticip.vocabulary import RATE
from realtime.control.commands import Commands
from realtime.control.folder import inside
from realtime.control.server import Action, number
from realtime.mapping.live_mapping import LiveMapping, open_mapping
from realtime.pipeline import Pipeline
from realtime.teaching.adding import parse_changes
from realtime.teaching.recording import store_or_keep
from realtime.teaching.take_recorder import PlayedTake, TakeRecorder
from realtime.teaching.worker import fit_beside

Say = Callable[[str], None]
T = TypeVar("T")


class Loader:
    """Loads mapping files on a thread and plays them from the next frame on.

    ``file`` is the mapping that the show began with or teaches: names are looked up in its folder and the
    ``mappings`` there, then in ``folder``, that of the show.
    """

    def __init__(self, pipeline: Pipeline, commands: Commands, file: Path | None, folder: Path) -> None:
        self.file = file
        self._folder = folder
        self._pipeline = pipeline
        self._commands = commands
        self._thread = ThreadPoolExecutor(1, "teach")
        self.actions: dict[str, Action] = {"load": self.load}
        self.families: dict[str, Action] = {}

    def load(self, what: object = "mapping", name: object = "") -> Awaitable[str]:
        """The ``load`` command: ``mapping`` and a plain file name; without a name, reload the current one."""
        if what != "mapping":
            raise OptionError(f"load: a running show takes a mapping, got {what!r}")
        text = str(name)
        if not text:
            current = self._commands.mapping or self.file
            if current is None:
                raise OptionError("load mapping: the show was begun without a mapping and without a project")
            return self.play(Path(current))
        if self.file is not None and Path(text).name == text and not text.startswith("."):
            parent = self.file.parent
            for candidate in (parent / text, parent / "mappings" / text):
                if candidate.is_file():
                    return self.play(candidate)
        return self.play(inside(self._folder, text, "load mapping"))

    async def play(self, file: Path) -> str:
        """Play a mapping file from the next frame on."""
        live_mapping: LiveMapping = await self.run_in_thread(
            lambda: open_mapping(file, self._pipeline.backend)
        )
        return self._commands.play_mapping(live_mapping, file)

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run on the file thread, in turn; if the show ends meanwhile, :meth:`close` waits for it."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))

    def close(self) -> None:
        """Finish the work in progress."""
        self._thread.shutdown()


class TeachRemote:
    """The teaching commands; implements :class:`realtime.control.server.Remote`."""

    def __init__(
        self,
        project: Project,
        pipeline: Pipeline,
        loader: Loader,
        checkpoint: Callable[[], str | None],
        say: Say,
    ) -> None:
        self._project = project
        self._loader = loader
        self._pipeline = pipeline
        self._checkpoint = checkpoint
        self._say = say
        self._fitting = False
        self._tasks: set[asyncio.Task[str]] = set()
        self.take_recorder = TakeRecorder(
            project,
            body=pipeline.front,
            source=pipeline.kind,
            on_full=self._on_full,
        )
        pipeline.take_recorder = self.take_recorder
        self.actions: dict[str, Action] = {
            "teach/values": self._values,
            "teach/class": self._class,
            "teach/clear": self._clear,
            "teach/output": self._output,
            "teach/start": self._start,
            "teach/stop": self._stop,
            "teach/cancel": self.take_recorder.cancel,
            "teach/list": self._list,
            "teach/set": self._set,
            "teach/remove": self._remove,
            "teach/undo": self._undo,
            "teach/fit": self._fit,
        }
        self.families: dict[str, Action] = {"teach/param/": self._param}

    def close(self) -> None:
        """Store the running take, as ``stop`` would, and takes that could not be stored before."""
        while self.take_recorder.has_take:
            try:
                played = self.take_recorder.stop()
                self._say(_take_line(played, store_or_keep(played, self._project)))
            except (MotionError, OSError) as error:
                self._say(str(error))

    def _values(self, *pairs: object) -> str:
        """``teach/values``: pairs of a name and a number."""
        if len(pairs) % 2 or not pairs:
            raise OptionError("teach/values: expected pairs of a name and a number, as cutoff 800. mix .2")
        self.take_recorder.set_targets(
            {str(n): number(f"teach/values {n}", v) for n, v in zip(pairs[::2], pairs[1::2], strict=True)}
        )
        return " ".join(f"{name}={value:g}" for name, value in self.take_recorder.targets.items())

    def _param(self, name: str, value: object) -> str:
        self.take_recorder.set_targets({name: number(name, value)})
        return f"{self.take_recorder.targets[name]:g}"

    def _class(self, *pairs: object) -> str:
        """``teach/class``: pairs of a class and a label."""
        if len(pairs) % 2 or not pairs:
            raise OptionError("teach/class: expected pairs of a class and a label, as pose crouch")
        self.take_recorder.set_labels(
            {str(n): str(label) for n, label in zip(pairs[::2], pairs[1::2], strict=True)}
        )
        return " ".join(f"{name}={label}" for name, label in self.take_recorder.labels.items())

    async def _output(self, text: object) -> str:
        """``teach/output``: add an output, in the short form of the command line."""
        output = parse_output(str(text))
        await self._loader.run_in_thread(lambda: self._project.add_output(output))
        return output.describe()

    def _clear(self) -> str:
        self.take_recorder.clear_targets()
        return "no values, no labels"

    def _start(self, name: object = "", seconds: object = None) -> str:
        """``teach/start``: the take's name (by default numbered) and its length in seconds; both optional.

        A single number never comes here: it is a pressed button, without arguments.
        """
        length = None if seconds is None else number("seconds", seconds)
        return self.take_recorder.start(str(name) or None, length)

    def _on_full(self) -> None:
        """The take has reached its length: store it, as ``stop`` would."""
        task = asyncio.ensure_future(self._stop())
        self._tasks.add(task)
        task.add_done_callback(self._on_stored)

    def _on_stored(self, task: asyncio.Task[str]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._say(str(task.exception()))

    async def _stop(self) -> str:
        played = self.take_recorder.stop()

        def store() -> TakeEntry:
            try:
                return played.store(self._project)
            except (MotionError, OSError) as error:
                # Here on the thread: if the show ends meanwhile, nobody waits for it any more.
                self.take_recorder.add_unstored(played)
                hint = "teach/stop tries again, teach/cancel throws it away"
                raise DeviceError(f"take {played.name} is not stored ({error}): {hint}") from None

        take = await self._loader.run_in_thread(store)
        line = _take_line(played, take)
        self._say(line)
        return line

    def _list(self) -> str:
        self._project.refresh()
        lines = [
            " ".join([f"{t.name} {t.frames / RATE:.1f}s", *(f"{n}={label}" for n, label in t.labels.items())])
            for t in self._project.state.takes
        ]
        takes = ", ".join(lines) or "no take yet"
        outputs = ", ".join(o.describe() for o in self._project.state.outputs) or "no output yet"
        return f"{takes}; {outputs}"

    async def _set(self, name: object, text: object) -> str:
        """``teach/set``: change values or labels of a take, in the short form of the command line."""

        def change() -> None:
            self._project.refresh()
            self._project.set_values(str(name), *parse_changes(self._project, str(text)))

        await self._loader.run_in_thread(change)
        return f"{name}: {text}"

    async def _remove(self, name: object) -> str:
        await self._loader.run_in_thread(lambda: self._project.remove_take(str(name)))
        return f"removed {name}; teach/undo brings it back"

    async def _undo(self) -> str:
        return f"undone: {await self._loader.run_in_thread(self._project.undo)}"

    def _fit(self, kind: object = "auto", lead_ms: object = None) -> Awaitable[str]:
        if self._fitting:
            raise OptionError("teach/fit: a fit is running")
        lead = {} if lead_ms is None else {"lead_ms": round(number("lead_ms", lead_ms))}
        return self._fit_and_play({"kind": str(kind), **lead})

    async def _fit_and_play(self, changed_options: dict[str, Any]) -> str:
        self._fitting, self.take_recorder.busy = True, "fitting"
        try:
            options = await self._loader.run_in_thread(lambda: _last_options(self._project.folder / MAPPING))
            options |= changed_options
            model = self._pipeline.backend is not None
            report = await fit_beside(
                self._project.folder, options, checkpoint=self._checkpoint(), model=model
            )
        finally:
            self._fitting, self.take_recorder.busy = False, ""
        await self._loader.play(self._project.folder / MAPPING)
        return fit_line(report)


def _take_line(played: PlayedTake, take: TakeEntry) -> str:
    """A stored take in one line."""
    targets = [
        *(f"{n}={v:g}" for n, v in take.values.items()),
        *(f"{n}: curve" for n in take.columns),
        *(f"{n}={label}" for n, label in take.labels.items()),
    ]
    warning = played.warning and f"; {played.warning}"
    return f"take {take.name}: {take.frames / RATE:.1f} s, {', '.join(targets)}{warning}"


def _last_options(file: Path) -> dict[str, Any]:
    """The options of the project's last fit; empty if there is no readable mapping."""
    try:
        last = load_mapping(file)
    except MotionError:
        return {}
    return {"beyond": last.beyond, "novelty": last.novelty_limit, "lead_ms": last.lead_ms}


def fit_line(report: dict[str, Any]) -> str:
    """A fit's report in one line: kinds, cross-validated errors as shares of the range, time, warnings."""
    results = []
    for part in report["parts"]:
        if "class" in part:
            right = "not judged" if part["accuracy"] is None else f"{100 * part['accuracy']:.0f} % right"
            results.append(f"{part['class']}: {right}")
            continue
        errors = part["error"]
        text = ", ".join(f"{name} {100 * e:.1f} %" for name, e in errors.items()) if errors else "not judged"
        results.append(f"{part['kind']}: {text}")
    results += [
        f"{gesture['gesture']}: {len(gesture['found'])} of {len(gesture['takes'])} found"
        for gesture in report["gestures"]
    ]
    results.append(f"fit took {report['seconds']:.1f} s")
    return "; ".join([*results, *(f"warning: {line}" for line in report["warnings"])])
