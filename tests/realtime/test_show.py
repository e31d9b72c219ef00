"""The asyncio loop around the pipeline, over real sockets, with a fake front end and model."""

import asyncio
import gc
import math
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pythonosc.osc_message import OscMessage
from support.ear import Ear
from support.wire import bundle, command, udp

from pyanticip.controls import NEUTRAL
from pyanticip.errors import DeviceError, OptionError
from pyanticip.motion.recording import Control, Raw, RecordingWriter, read_recording
from realtime.clock import MonotonicClock
from realtime.control.commands import Commands
from realtime.mapping.mixer import Mixer
from realtime.mapping.performer import PerformerRange
from realtime.pipeline import Pipeline
from realtime.programs.live import live
from realtime.recording.recorder import Recorder
from realtime.rig import Rig
from realtime.show import Show
from realtime.sinks.base import DeferredSink
from realtime.sockets import bind_udp, free_port
from realtime.sources.replay import Command
from realtime.sources.udp import UdpSource


class Hall:
    """A show over real sockets, with a performer who sends to it."""

    def __init__(self, stage: Any, model: Any = None, rig: Rig | None = None) -> None:
        paper = stage(model)
        self.ear, self.front = paper.ear, paper.front
        self.rig = rig or Rig.model_validate({"control": {"port": free_port()}})
        self.source = UdpSource("mocopi", "127.0.0.1", 0)
        self.pipeline = Pipeline(
            front=self.front, mixer=Mixer(), sinks=[self.ear], clock=MonotonicClock(), backend=model
        )
        self.lines: list[str] = []
        commands = Commands(self.pipeline, self.lines.append)
        control = self.rig.control
        self.recorder = Recorder(self.lines.append)
        self.show = Show(
            self.pipeline,
            self.source,
            commands,
            control=control,
            spin=self.rig.spin,
            recorder=self.recorder,
            say=self.lines.append,
        )
        self.out = udp()
        self.replies: list[OscMessage] = []

    async def move(self, first: int, count: int) -> None:
        for n in range(first, first + count):
            self.out.sendto(str(n).encode(), self.source.address)
            await asyncio.sleep(0.02)

    async def command(self, name: str, *arguments: object) -> list[Any]:
        with udp() as remote:
            remote.sendto(command(name, *arguments), ("127.0.0.1", self.rig.control.port))
            data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(remote, 4096), 2)
        return list(OscMessage(data).params)

    def play(self, performance: Coroutine[Any, Any, None]) -> dict[str, Any]:
        mistakes: list[dict[str, Any]] = []

        async def evening() -> dict[str, Any]:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: mistakes.append(context))
            running = asyncio.create_task(self.show.run(20))
            await asyncio.sleep(0)
            await performance
            self.show.end()
            return await running

        try:
            summary = asyncio.run(evening())
        finally:
            self.out.close()
        assert not mistakes, mistakes
        return summary


@pytest.mark.parametrize("spin", [False, True])
def test_frames_are_sent_and_the_end_is_a_fade(stage: Any, paper_model: Any, spin: bool) -> None:
    rig = Rig.model_validate({"control": {"port": free_port()}, "spin": spin})
    hall = Hall(stage, paper_model(), rig)

    played: list[int] = []

    async def performance() -> None:
        await hall.move(0, 40)
        played.append(len(hall.ear.frames))

    summary = hall.play(performance())
    assert summary["counters"]["frames"] == 40
    # A busy machine may send more than forty frames: forecasts in place of late datagrams.
    assert hall.ear.frames[played[0] - 1].params == pytest.approx([0.75] * 8, abs=1e-3)
    live = hall.ear.frames[played[0] - 1 :]
    loudness = [f.params[1] for f in live]
    assert len(loudness) > 15
    assert loudness == sorted(loudness, reverse=True)
    assert live[-1].params == pytest.approx(NEUTRAL, abs=1e-6)
    assert hall.ear.closed
    # Prewarmed once before each datagram, or repeatedly while there is time.
    assert hall.pipeline.backend.calls.count("prewarm") in (range(80, 9999) if spin else range(1, 80))
    assert hall.pipeline.backend.calls[-1] == "close"


def test_queued_datagrams_are_played_before_the_end(stage, paper_model):
    hall = Hall(stage, paper_model())

    async def performance() -> None:
        await hall.move(0, 10)
        hall.out.sendto(b"10", hall.source.address)
        await asyncio.sleep(0.003)

    summary = hall.play(performance())
    assert summary["counters"]["frames"] == 11
    assert hall.ear.frames[-1].params == pytest.approx(NEUTRAL, abs=1e-6)


def test_silence_ticks_at_fifty_a_second(stage: Any) -> None:
    hall = Hall(stage)
    hall.source.dropped = 3
    marks = []

    async def performance() -> None:
        await hall.move(0, 5)
        marks.append(len(hall.ear.frames))
        await asyncio.sleep(1.0)
        marks.append(len(hall.ear.frames))

    hall.play(performance())
    assert 35 <= marks[1] - marks[0] <= 51
    assert "dropped=3" in hall.ear.statuses[-1]


def test_the_remote_control(stage: Any, paper_model: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    hall = Hall(stage, paper_model())

    async def performance() -> None:
        await hall.move(0, 30)
        mixer = hall.pipeline.mixer
        assert await hall.command("freeze") == ["ok", "frozen"]
        assert mixer.mode == "frozen"
        assert await hall.command("freeze", 0) == ["ok", "playing"]
        assert await hall.command("bypass", 1) == ["ok", "on"]
        assert await hall.command("bypass", 0) == ["ok", "off"]
        assert await hall.command("gain", 0.5) == ["ok", "0.5"]
        assert mixer.gain == 0.5
        assert await hall.command("smoothing", 2.0) == ["ok", "2"]
        refused = "calibrate: the rig plays without it (performer.enabled = false)"
        assert await hall.command("calibrate/still") == ["error", refused]
        hall.pipeline.mixer.performer = PerformerRange()
        assert await hall.command("calibrate/still") == ["ok", "stand still"]
        assert await hall.command("calibrate/freeze", 1) == ["ok", "frozen"]
        assert await hall.command("lead_ms", 100) == ["ok", "100"]
        assert (await hall.command("lead_ms", 1000))[0] == "error"
        assert mixer.lead_ms == 100
        assert await hall.command("panic") == ["ok", "panic"]
        await hall.move(30, 6)
        assert hall.ear.frames[-1].params == pytest.approx(NEUTRAL)
        assert await hall.command("freeze", 0) == ["ok", "panic"]
        assert await hall.command("start") == ["ok", "playing"]
        assert await hall.command("freeze", 0) == ["ok", "playing"]
        assert await hall.command("stop") == ["ok", "stopped"]
        assert await hall.command("freeze", 0) == ["ok", "stopped"]
        refused = "freeze: expected a show that plays, got stopped; start it first"
        assert await hall.command("freeze", 1) == ["error", refused]
        assert (await hall.command("record/stop"))[0] == "error"
        assert await hall.command("source", "10.0.0.2") == ["ok", "10.0.0.2"]
        assert hall.front.wanted == "10.0.0.2"
        assert (await hall.command("source", "laptop"))[0] == "error"
        assert await hall.command("source") == ["ok", "whoever comes"]
        assert await hall.command("record/start", "take one") == ["ok", "take one.anticip"]
        await hall.move(36, 5)
        assert await hall.command("record/stop") == ["ok", "take one.anticip"]
        taken = list(read_recording("take one.anticip", strict=True))
        assert sum(isinstance(record, Raw) for record in taken) == 5
        # Late steps of a busy machine are recorded, too.
        obeyed = [r for r in taken if isinstance(r, Control) and r.name not in ("rest", "resume")]
        assert [(r.name, *r.arguments) for r in obeyed] == [
            ("gain", 0.5),
            ("smoothing", 2.0),
            ("lead_ms", 100.0),
            ("sound_ms", 0.0),
            ("stop",),
            ("player", "10.0.0.1:4000"),
        ]
        assert (await hall.command("record/start", "take one"))[0] == "error"
        assert hall.recorder.path is None
        # Named by the time, also twice in a second.
        assert (await hall.command("record/start"))[0] == "ok"
        assert (await hall.command("record/stop"))[0] == "ok"
        assert (await hall.command("record/start"))[0] == "ok"
        first = hall.recorder.path
        assert (await hall.command("record/start", "take one"))[0] == "error"
        assert hall.recorder.path == first, "what was recorded before goes on"

    hall.play(performance())
    newest = max(tmp_path.glob("take-*"), key=lambda file: file.stat().st_mtime_ns)
    records = read_recording(newest, strict=True)
    assert "end" in [record.name for record in records if isinstance(record, Control)]


def test_stopping_a_recording_that_ended_early_is_an_error(stage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hall = Hall(stage)

    async def performance() -> None:
        await hall.move(0, 5)
        assert (await hall.command("record/start", "cut"))[0] == "ok"
        # Prevent further attempts.
        monkeypatch.setattr(hall.recorder, "_next_attempt_at", math.inf)
        monkeypatch.setattr(hall.recorder, "_failure", "no room")
        verdict, why = await hall.command("record/stop")
        assert verdict == "error"
        assert why.startswith("cut.anticip ends early: no room")
        assert await hall.command("record/start", "whole") == ["ok", "whole.anticip"]
        assert await hall.command("record/stop") == ["ok", "whole.anticip"]

    hall.play(performance())


def test_recordings_can_be_stopped_and_started_while_one_is_pending(
    stage: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    hall = Hall(stage)

    async def performance() -> None:
        await hall.move(0, 5)
        both = hall.command("record/start", "short"), hall.command("record/stop")
        assert await asyncio.gather(*both) == [["ok", "short.anticip"]] * 2
        assert hall.pipeline.tape is None
        assert await hall.command("record/start", "long") == ["ok", "long.anticip"]
        await hall.move(5, 5)
        assert await hall.command("record/stop") == ["ok", "long.anticip"]
        refused = hall.command("record/start", "long"), hall.command("record/stop")
        assert [verdict for verdict, _ in await asyncio.gather(*refused)] == ["error"] * 2
        assert await hall.command("record/start", "before") == ["ok", "before.anticip"]
        await hall.move(10, 3)
        both = hall.command("record/stop"), hall.command("record/start", "after")
        assert await asyncio.gather(*both) == [["ok", "before.anticip"], ["ok", "after.anticip"]]
        await hall.move(13, 4)

    hall.play(performance())
    names = ("short", "long", "before", "after")
    takes = [list(read_recording(f"{name}.anticip", strict=True)) for name in names]
    assert [sum(isinstance(record, Raw) for record in records) for records in takes] == [0, 5, 3, 4]


def test_many_record_commands_cost_no_frame_and_few_files(stage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hall = Hall(stage)
    many = bundle(*(command("record/start", f"take{n}") for n in range(60)))
    served: list[int] = []
    begun = hall.recorder.pid

    async def performance() -> None:
        await hall.move(0, 5)
        hall.out.sendto(many, ("127.0.0.1", hall.rig.control.port))
        served.append(len(hall.ear.frames))
        await hall.move(5, 5)
        served.append(len(hall.ear.frames))

    hall.play(performance())
    assert served[1] - served[0] >= 4
    # Another part begins only once the previous one is on the disk: one, or two on a fast disk.
    files = {file.name for file in tmp_path.iterdir()}
    assert "take0.anticip" in files
    assert len(files) < 6
    assert hall.recorder.restarts == 0
    assert begun is not None
    assert len([line for line in hall.lines if "refused" in line]) <= 2


@pytest.mark.parametrize("name", ["take\x1b[2J", "x" * 101, "../x", "/x", ".x", "a\\b", "a\nb"])
def test_a_recording_name_from_the_network_is_checked(stage: Any, name: str, tmp_path: Path) -> None:
    hall = Hall(stage)
    hall.show._folder = tmp_path

    async def performance() -> None:
        verdict, why = await hall.command("record/start", name)
        assert verdict == "error"
        assert why.isprintable()

    hall.play(performance())
    assert list(tmp_path.iterdir()) == []
    assert all(line.isprintable() for line in hall.lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_fades_out_and_closes(stage: Any, number: signal.Signals, tmp_path: Path) -> None:
    hall = Hall(stage)
    hall.show.start_recording(tmp_path / "take.anticip")

    async def performance() -> None:
        await hall.move(0, 10)
        os.kill(os.getpid(), number)
        # However long the loop stalls meanwhile, the fade is as long as in a replay.
        asyncio.get_running_loop().call_later(0.1, time.sleep, 0.9)
        await asyncio.sleep(0.6)

    hall.play(performance())
    assert hall.show.interrupted
    records = list(read_recording(tmp_path / "take.anticip", strict=True))
    assert sum(isinstance(record, Raw) for record in records) == 10
    end = [record for record in records if isinstance(record, Control)][-1]
    assert end.name == "end"
    assert hall.ear.frames[-1].t_ns - end.t_ns < 600_000_000
    assert hall.ear.frames[-1].params == pytest.approx(NEUTRAL, abs=1e-6)


def test_frames_due_before_the_end_are_recorded_before_it(stage: Any) -> None:
    s = stage()
    for n in range(25):
        s.frame(n)
    # The loop stalled, and the show ends before it has caught up.
    s.clock.live = True
    s.clock.advance_to(60 * 20_000_000)
    for n in range(25, 40):
        s.pipeline.feed(str(n).encode(), n * 20_000_000 + 1)
    tape = s.pipeline.tape = Mock(spec=RecordingWriter, status_words=[])
    asyncio.run(Show(s.pipeline, Mock(dropped=0), Commands(s.pipeline))._fade_out())
    assert [call.args[1] for call in tape.control.call_args_list] == ["resume", "end"]


def test_ctrl_c_while_it_closes_changes_nothing(stage: Any, recwarn: pytest.WarningsRecorder) -> None:
    hall = Hall(stage)
    close = hall.show.pipeline.close

    def slow() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        close()

    hall.show.pipeline.close = slow

    async def performance() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    assert hall.play(performance())["seconds"] < 5.0
    assert not recwarn.list


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_a_failed_show_leaves_nothing_open_and_restores_the_interpreter(
    in_a_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = [free_port() for _ in range(2)]
    tree = {"source": {"port": ports[0]}, "control": {"port": ports[1]}, "model": {"enabled": False}}
    rig = Rig.model_validate({**tree, "osc": [], "memory": {"enabled": False}})

    async def played() -> None:
        live(rig, seconds=0.1, say=print)

    sys.setswitchinterval(0.002)
    gc.disable()
    try:
        live(rig, seconds=0.1, say=print)
        assert (sys.getswitchinterval(), gc.isenabled()) == (pytest.approx(0.002), False)
    finally:
        gc.enable()
        sys.setswitchinterval(0.005)
    monkeypatch.setattr("realtime.programs.live.listening", Mock(side_effect=OptionError("a mistake")))
    with pytest.raises(OptionError, match=r"^(a mistake|an event loop runs)"):
        asyncio.run(played()) if in_a_loop else live(rig, seconds=0.1, say=print)
    for port in ports:
        bind_udp("127.0.0.1", port, "test").close()


def test_a_broken_datagram_or_replayed_command_does_not_end_the_show(stage: Any) -> None:
    hall = Hall(stage)
    feed = hall.front.feed

    def failing(datagram: bytes, t: int, sender: str) -> Any:
        if datagram == b"3":
            raise RuntimeError("a bug of ours")
        return feed(datagram, t, sender)

    hall.front.feed = failing
    hall.show.commands.replay_command = Mock(side_effect=ValueError("another bug"))  # type: ignore[method-assign]

    async def performance() -> None:
        hall.show.replay_command(Command(0, "start"))
        await hall.move(0, 8)

    summary = hall.play(performance())
    assert summary["counters"]["frames"] == 7
    assert summary["counters"]["errors"] == 2
    for bug in ("a bug of ours", "another bug"):
        assert [line for line in hall.lines if bug in line]


class FailingSink(Ear, DeferredSink):
    """A sink that fails on request."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False

    def run_deferred(self) -> None:
        if self.fails:
            raise RuntimeError("a bug of theirs")


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_a_failing_timer_does_not_stop_the_sound(stage: Any, whose: str) -> None:
    hall = Hall(stage)
    gazer = FailingSink()
    hall.pipeline.add(gazer)
    tick = hall.pipeline.run_until
    received: list[int] = []

    def failing(t_ns: int) -> None:
        hall.pipeline.run_until = tick
        raise RuntimeError("a bug of ours")

    async def performance() -> None:
        await hall.move(0, 5)
        if whose == "ours":
            hall.pipeline.run_until = failing
        else:
            gazer.fails = True
        received.append(len(hall.ear.frames))
        await asyncio.sleep(0.5)
        received.append(len(hall.ear.frames))

    assert hall.play(performance())["counters"]["errors"] >= 1
    assert received[1] - received[0] >= 15
    assert hall.ear.frames[-1].params == pytest.approx(NEUTRAL, abs=1e-6)
    assert len([line for line in hall.lines if f"a bug of {whose}" in line]) == 1


def test_a_replay_beside_a_show_continues_without_remote_control(stage: Any) -> None:
    hall = Hall(stage)
    lines: list[str] = []
    show = hall.pipeline, hall.source, hall.show.commands
    beside = Show(*show, control=hall.rig.control, must_listen=False, say=lines.append)
    assert beside.control is None
    assert "continuing without remote control" in lines[0]
    with pytest.raises(DeviceError, match="in use"):
        Show(*show, control=hall.rig.control)
    hall.recorder.close()
    hall.source.close()
    hall.show.control.close()
    hall.out.close()
