"""Teaching over OSC, in a running show: values, takes, fit, load, without a keyboard."""

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pythonosc.osc_message import OscMessage
from support import wire
from support.clips import LEFT_ARM, swing
from support.paper import paper_frame
from support.wire import arrived, messages, udp

from pyanticip import _core
from pyanticip.errors import DeviceError, OptionError
from pyanticip.motion.datagrams import datagrams
from pyanticip.teach.options import FitOptions
from pyanticip.teach.outputs import Output
from pyanticip.teach.project import MAPPING, Project
from realtime.bench.performer import mocopi_datagrams
from realtime.clock import MonotonicClock, OfflineClock
from realtime.rig import Rig
from realtime.sockets import free_port
from realtime.sources.udp import UdpSource
from realtime.stage import assemble, stage
from realtime.teaching import remote, worker
from realtime.teaching.fitting import fit_project
from realtime.teaching.take_recorder import TakeRecorder


class Remote:
    """An OSC program of the performer: sends commands and receives replies."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._sock, self._to = udp(), to

    async def ask(self, command: str, *arguments: object, patience: float = 60.0) -> list[Any]:
        self._sock.sendto(wire.command(command, *arguments), self._to)
        until = time.monotonic() + patience
        while time.monotonic() < until:
            try:
                reply = OscMessage(self._sock.recv(65536))
            except BlockingIOError:
                await asyncio.sleep(0.01)
                continue
            assert reply.address == f"/anticip/reply/{command}"
            return list(reply.params)
        raise AssertionError(f"no reply to {command}")

    def close(self) -> None:
        self._sock.close()


@pytest.fixture
def synth() -> Iterator[socket.socket]:
    with udp() as sock:
        yield sock


class Files:
    """Runs work at once, where a show runs it on a thread."""

    async def run_in_thread(self, work: Any) -> Any:
        return work()

    async def play(self, file: Path) -> str:
        return ""


def taught(project: Project, say: Any = print) -> remote.TeachRemote:
    """The project in a show without a performer."""
    pipeline: Any = SimpleNamespace(
        front=SimpleNamespace(mask=np.ones(22, bool), has_skeleton=True), kind="msgpack", backend=None
    )
    files: Any = Files()
    return remote.TeachRemote(project, pipeline, files, lambda: None, say)


def heard(synth: socket.socket) -> dict[str, Any]:
    """The newest values by address."""
    found: dict[str, Any] = {}
    for data in arrived(synth):
        found |= messages(data)
    return found


@pytest.mark.slow
def test_teaching_fitting_and_playing_over_osc(tmp_path: Path, synth: socket.socket) -> None:
    folder = tmp_path / "mine"
    Project.create(folder, (Output("mix"),))
    rig = Rig.model_validate(
        {
            "osc": [{"host": "127.0.0.1", "port": synth.getsockname()[1]}],
            "teach": str(folder),
            "control": {"port": 1, "enabled": True},
            "model": {"enabled": False},
        }
    )
    lines: list[str] = []

    async def play() -> None:
        clock = MonotonicClock()
        source = UdpSource("msgpack", "127.0.0.1", 0)
        rig_ = rig.model_copy(update={"control": rig.control.model_copy(update={"port": free_port()})})
        show = stage(rig_, assemble(rig_, clock, kind="msgpack"), source, prewarm=False, say=lines.append)
        teacher = Remote(show.control.address)
        running = asyncio.ensure_future(show.run())
        suit = Suit(source.address)
        try:
            assert (await teacher.ask("teach/start"))[1].startswith("nothing to record yet")
            made = await teacher.ask("teach/output", "cutoff:200..8000@/synth/cutoff")
            assert made == ["ok", "cutoff:200..8000@/synth/cutoff"]
            assert (await teacher.ask("teach/values", "mix", 2.0))[1] == "mix: expected 0 to 1, got 2"
            assert (await teacher.ask("teach/values", "mixx", 0.5))[1].startswith(
                "no output 'mixx'; did you mean mix"
            )
            for name, joint, mix, cutoff in (("east", 11, 0.9, 6000.0), ("西", LEFT_ARM, 0.1, 400.0)):
                suit.move(swing(3.0, joint=joint, level=0.5 if joint == 11 else 1.2))
                await asyncio.sleep(0.4)
                assert await teacher.ask("teach/values", "mix", mix, "cutoff", cutoff) == [
                    "ok",
                    f"mix={mix:g} cutoff={cutoff:g}",
                ]
                arm = {"east": "right"}.get(name, "left")
                assert await teacher.ask("teach/class", "arm", arm) == ["ok", f"arm={arm}"]
                assert await teacher.ask("teach/start", name) == ["ok", name]
                assert (await teacher.ask("teach/start", name))[0] == "error"
                await asyncio.sleep(1.5)
                verdict, line = await teacher.ask("teach/stop")
                assert verdict == "ok", line
                assert line.startswith(f"take {name}: ")
            # A fader that moves during a take becomes a curve; this take has a fixed length.
            assert (await teacher.ask("teach/class", "arm"))[1].startswith("teach/class: expected pairs")
            assert (await teacher.ask("teach/class", "arm", "a b"))[1].startswith("label: expected a letter")
            assert (await teacher.ask("teach/class", "arm", "right"))[0] == "ok"
            assert (await teacher.ask("teach/param/mix", 0.2))[0] == "ok"
            assert (await teacher.ask("teach/start", "bent", 2.0))[0] == "ok"
            suit.move(swing(3.0))
            await asyncio.sleep(0.5)
            assert (await teacher.ask("teach/param/mix", 0.8))[0] == "ok"
            await wait_for(lambda: any("take bent" in line for line in lines))
            assert "east" in (await teacher.ask("teach/list"))[1]
            assert (await teacher.ask("teach/remove", "none"))[0] == "error"
            assert (await teacher.ask("load", "mapping"))[0] == "error"
            assert (await teacher.ask("load", "model"))[0] == "error"
            suit.move(swing(20.0))
            verdict, line = await teacher.ask("teach/fit", "knn")
            assert verdict == "ok", line
            assert "fit took" in line
            assert "arm: " in line
            heard(synth)
            await asyncio.sleep(0.4)
            at_work = heard(synth)
            assert "/synth/cutoff" in at_work
            label, likely = at_work["/anticip/class/arm"]
            assert label in ("left", "right", "none")
            assert 0.0 <= likely <= 1.0
            assert (await teacher.ask("load", "mapping", "../x"))[0] == "error"
            assert (await teacher.ask("load", "mapping"))[0] == "ok"
            assert (await teacher.ask("teach/undo"))[1] == "undone: add take bent"
            assert (await teacher.ask("unload"))[0] == "ok"
        finally:
            suit.close()
            teacher.close()
            show.end()
            await running

    asyncio.run(play())
    project = Project.open(folder)
    assert [take.name for take in project.state.takes] == ["east", "西"]
    assert project.problems() == []
    assert project.state.take("西").begin > 0, "what came before the take leads in"
    bent = project.history()[-2].take("bent")
    assert (set(bent.columns), set(bent.values)) == ({"mix"}, {"cutoff"})
    # Two seconds; a busy machine sends fewer frames.
    assert 50 < bent.frames <= 100
    target = project.targets(bent)["mix"]
    assert target[0] == pytest.approx(0.2)
    assert target[-1] == pytest.approx(0.8)
    assert (folder / MAPPING).exists()


def test_without_a_name_the_mapping_that_plays_is_loaded_again(tmp_path, play):
    for output in ("cutoff", "mix"):
        project = Project.create(tmp_path / output)
        for value in (0.2, 0.8):
            project.add_take(f"at-{value}", swing(2.0, level=value), values={output: value})
        fit_project(project.folder, FitOptions(), model=False)
    begun = tmp_path / "cutoff" / MAPPING
    show = play(Rig.model_validate({"model": {"enabled": False}, "osc": [], "mapping": str(begun)}))
    loader = remote.Loader(show.pipeline, show.commands, begun, tmp_path)

    async def load(*name: str) -> str:
        return await loader.load("mapping", *name)

    assert asyncio.run(load()).endswith(": cutoff")
    for name in ([f"mix/{MAPPING}"], []):
        assert asyncio.run(load(*name)).endswith(": mix")
    show.do("unload")
    assert asyncio.run(load()).endswith(": cutoff")
    loader.close()


def test_a_fit_during_a_show_keeps_the_previous_options(tmp_path, monkeypatch):
    project = Project.create(tmp_path / "mine")
    for i in range(2):
        project.add_take(f"east {i}", swing(2, seed=i), labels={"arm": "right"})
        project.add_take(f"west {i}", swing(2, seed=i, joint=LEFT_ARM, level=1.2), labels={"arm": "left"})
    last = FitOptions(beyond="hold", novelty=3.0, lead_ms=100)
    fit_project(project.folder, last, model=False)
    fits: list[dict[str, Any]] = []

    async def fit(folder: Path, options: dict[str, Any], **others: Any) -> dict[str, Any]:
        fits.append(options)
        return {"parts": [], "gestures": [], "seconds": 1.0, "warnings": ["too few"]}

    monkeypatch.setattr(remote, "fit_beside", fit)
    actions = taught(project).actions
    lines = [asyncio.run(actions["teach/fit"](*words)) for words in ((), ("knn", 0))]  # type: ignore[arg-type]
    unchanged = {"beyond": "hold", "novelty": 3.0}
    assert fits == [{**unchanged, "kind": "auto", "lead_ms": 100}, {**unchanged, "kind": "knn", "lead_ms": 0}]
    assert lines[0] == "fit took 1.0 s; warning: too few"
    assert "east 1 2.0s arm=right" in str(actions["teach/list"]())
    assert asyncio.run(actions["teach/set"]("east 1", "arm=none")) == "east 1: arm=none"  # type: ignore[arg-type]
    assert project.state.take("east 1").labels == {"arm": "none"}


def test_a_report_larger_than_a_pipe_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = (
        "import json, signal, sys; signal.alarm(20); sys.stdin.read()\n"
        "print('fitting', file=sys.stderr, flush=True)\n"
        "print(json.dumps({'report': {'takes': ['x' * 99] * 9999}}))"
    )
    lines: list[str] = []
    monkeypatch.setattr(worker, "_COMMAND", (sys.executable, "-c", fit))
    assert len(worker.fit_in_child(tmp_path, {}, say=lines.append)["takes"]) == 9999
    assert lines == ["fitting"]
    monkeypatch.setattr(worker, "_COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    with pytest.raises(DeviceError, match="ended with code 3"):
        worker.fit_in_child(tmp_path, {"a": "x" * 999_999})


def test_a_take_that_cannot_be_stored_is_kept(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "mine")
    lines: list[str] = []
    teacher = taught(project, lines.append)
    act = teacher.actions
    clip = swing(1.0)

    def play(name: str) -> None:
        act["teach/start"](name)
        for n in range(len(clip)):
            frame = SimpleNamespace(seq=n, reset=False, poses=clip.quats[n : n + 1], root=clip.root[n])
            teacher.take_recorder.add_frame(frame)

    act["teach/values"]("brightness", 0.5)
    takes = project.folder / "takes"
    takes.rename(tmp_path / "away")
    takes.write_text("no folder")
    play("solo")
    refusal = r"^take solo is not stored \(.*\): teach/stop tries again, teach/cancel throws it away$"
    for _ in range(2):
        with pytest.raises(DeviceError, match=refusal):
            asyncio.run(act["teach/stop"]())  # type: ignore[arg-type]
        assert teacher.take_recorder.state == "not stored: solo"
    with pytest.raises(OptionError, match="solo is not stored yet"):
        act["teach/start"]("next")
    assert act["teach/cancel"]() == "solo"
    play("next")
    with pytest.raises(DeviceError, match="take next is not stored"):
        asyncio.run(act["teach/stop"]())  # type: ignore[arg-type]
    takes.unlink()
    (tmp_path / "away").rename(takes)
    assert asyncio.run(act["teach/stop"]()).startswith("take next: 1.0 s, brightness=0.5")  # type: ignore[arg-type]
    assert teacher.take_recorder.state == "idle"
    assert [take.name for take in Project.open(project.folder).state.takes] == ["next"]
    with pytest.raises(OptionError, match="no take is being recorded"):
        asyncio.run(act["teach/stop"]())  # type: ignore[arg-type]
    # Nor is a take lost if the show ends while it cannot be stored.
    takes.rename(tmp_path / "away")
    takes.write_text("no folder")
    play("late")

    async def end_while_storing() -> None:
        storing = asyncio.create_task(act["teach/stop"]())  # type: ignore[arg-type]
        await asyncio.sleep(0)
        storing.cancel()
        await asyncio.wait([storing])

    nothing: Any = None
    teacher._loader, files = remote.Loader(nothing, nothing, None, tmp_path), teacher._loader
    asyncio.run(end_while_storing())
    teacher._loader.close()
    teacher._loader = files
    assert teacher.take_recorder.state == "not stored: late"
    assert act["teach/cancel"]() == "late"
    takes.unlink()
    (tmp_path / "away").rename(takes)
    # What is played when the show ends is stored as well.
    lines.clear()
    play("last")
    teacher.close()
    assert (lines[0].partition(",")[0], teacher.take_recorder.state) == ("take last: 1.0 s", "idle")
    assert [take.name for take in Project.open(project.folder).state.takes] == ["next", "last"]
    act["teach/start"]("short")
    teacher.close()
    assert lines[1:] == ["take short: 0.00 s are too short; expected at least 0.5 s"]


@pytest.mark.parametrize("tells", [True, False])
def test_a_take_before_the_skeleton_arrived_gives_a_warning(tmp_path: Path, tells: bool) -> None:
    skeleton, frames = mocopi_datagrams(150)
    pipeline = assemble(Rig(), OfflineClock(), sinks=[])
    lines: list[str] = []
    project, files = Project.create(tmp_path / "mine"), Files()
    teacher = remote.TeachRemote(project, pipeline, files, lambda: None, lines.append)
    teacher.take_recorder.set_targets({"mix": 0.5})
    for n, datagram in enumerate(frames):
        pipeline.clock.advance_to(n * 20_000_000)
        if n == 100:
            teacher.take_recorder.start("first")
        if n == 145 and tells:
            pipeline.feed(skeleton, n * 20_000_000)
        pipeline.feed(datagram, n * 20_000_000)
    teacher.close()
    pipeline.close()
    warning = (
        "; the suit had not sent its skeleton: the take is of a standard body, record it again once it has"
    )
    # The late skeleton equals the assumed one, so nothing restarts.
    (line,) = lines
    assert line.partition(" (mocopi")[0] == f"take first: 1.0 s, mix=0.5{'' if tells else warning}"


def test_a_take_ends_when_the_body_changes(tmp_path: Path) -> None:
    body = SimpleNamespace(mask=np.arange(22) < 20, has_skeleton=False)
    ends: list[str] = []
    project = Project.create(tmp_path / "mine")
    recorder = TakeRecorder(project, body=body, on_full=lambda: ends.append(recorder.state))
    recorder.set_targets({"mix": 0.5})
    recorder.start("one")
    for n in range(40):
        if n == 30:
            body.mask, body.has_skeleton = np.ones(22, bool), True
        recorder.add_frame(paper_frame(n, n in (0, 30, 35)))
    assert ends == ["recording one 0.6s"], "once, even if the stream begins anew before the take is fetched"
    played = recorder.stop()
    assert (len(played.clip), played.cut, played.has_skeleton) == (30, True, False)
    assert played.clip.mask.sum() == 20
    assert played.warning.startswith(
        "the signal was lost or the skeleton changed: the take ends there; the suit had not"
    )


def test_changes_of_another_process_are_seen(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "mine")
    act = taught(project).actions
    terminal = Project.open(project.folder)
    terminal.add_output(Output("cutoff"))
    terminal.add_take("a", swing(1.0), values={"cutoff": 0.5}, labels={"pose": "up"})
    assert act["teach/list"]() == "a 1.0s pose=up; cutoff"
    terminal.change_output("cutoff", high=8000.0)
    assert act["teach/values"]("cutoff", 500.0) == "cutoff=500"
    terminal.rename_take("a", "b")
    with pytest.raises(OptionError, match="'b' already exists"):
        act["teach/start"]("b")
    terminal.set_values("b", {}, {"way": "walk"})
    assert asyncio.run(act["teach/set"]("b", "way=none")) == "b: way=none"  # type: ignore[arg-type]


async def wait_for(true: Any, patience: float = 20.0) -> None:
    until = time.monotonic() + patience
    while not true():
        assert time.monotonic() < until
        await asyncio.sleep(0.02)


class Suit:
    """Sends movements at 50 Hz, one after the other, with times that go on."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._sock, self._to = udp(), to
        self._task: asyncio.Task[None] | None = None
        self._count = 0

    def move(self, clip: Any) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.ensure_future(self._send(clip))

    async def _send(self, clip: Any) -> None:
        _, skeleton = next(iter(datagrams(clip, "msgpack")))
        self._sock.sendto(skeleton, self._to)
        due = time.monotonic()
        for i in range(10**6):
            frame = i % len(clip)
            self._count += 1
            made = _core.encode_native_frame(
                self._count, self._count / 50, clip.quats[frame], clip.root[frame]
            )
            self._sock.sendto(made, self._to)
            due += 0.02
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._sock.close()


def test_a_class_named_like_a_wanted_output_is_refused_at_once(tmp_path: Path) -> None:
    """In a project without outputs, whose first take makes one of each wanted value."""
    act = taught(Project.create(tmp_path / "mine")).actions
    act["teach/values"]("bend", 0.5)
    with pytest.raises(OptionError, match="class bend: an output has that name"):
        act["teach/class"]("bend", "left")
    act["teach/class"]("arm", "left")
    with pytest.raises(OptionError, match="class arm: an output has that name"):
        act["teach/values"]("arm", 0.5)
    assert act["teach/start"]("", 2.0) == "take-001"
