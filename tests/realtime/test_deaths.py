"""Processes that die, get stuck or restart: the sound fades or continues, and the status reports it."""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.concert import run_jack_tool
from support.wire import wait_for

from pyanticip.controls import NEUTRAL
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.guard import Guard, _fade, _Performer
from realtime.sinks.osc import OscSink
from realtime.sockets import free_port
from realtime.voice.process import SynthProcess
from tests.realtime.test_live_command import LiveHarness, largest_changes

pytestmark = pytest.mark.slow

LOUD = (0.5, 0.8, 0.6, 0.2, 0.4, 0.3, 0.5, 0.1)


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveHarness]:
    # A busy machine may still be starting the guard when it is closed.
    monkeypatch.setattr(Guard, "close_timeouts_s", (30.0, 1.0))
    made = LiveHarness(tmp_path)
    yield made
    made.close()


def test_the_guard_fades_out_sound_only(harness: LiveHarness) -> None:
    target = OscConfig(port=harness.osc, send=("frame", "params"))
    for last, sends in (((LOUD, NEUTRAL), False), ((NEUTRAL, LOUD), True)):
        lines: list[str] = []
        guard, sink = Guard(lines.append), OscSink(target)
        watch = guard.watch([sink], NEUTRAL)
        for n, params in enumerate(last):
            watch.send(ControlFrame(5 * n, 0.1 * n, (0.0,) * 7, params))
            watch.run_deferred()
        harness.received.clear()
        guard.close()
        sink.close()
        time.sleep(0.1)
        assert bool(harness.frames()) is sends
        assert lines == []
    assert harness.frames()[-1] == (5 + 10 + 30, pytest.approx(NEUTRAL))
    assert max(largest_changes([(5, list(LOUD)), *harness.frames()])) < 0.1, "it fades"


def test_one_guard_fades_out_all_performers(harness: LiveHarness) -> None:
    guard, parts, sinks = Guard(lambda line: None), [], []
    for last, name in ((LOUD, "a"), (NEUTRAL, "b"), (LOUD, "c")):
        sinks.append(OscSink(OscConfig(port=harness.osc, prefix=f"/{name}", send=("params",))))
        watch = guard.watch(sinks[-1:], NEUTRAL)
        watch.send(ControlFrame(0, 0.0, (0.0,) * 7, last))
        parts.append(watch)
    first = guard.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait(guard, lambda: guard.pid not in (None, first))
    for watch in parts:
        watch.run_deferred()
    harness.received.clear()
    assert guard.close() == 0
    assert guard.close() is None  # each performer's show does
    received = harness.listen()
    assert {address for message in received for address in message} == {"/a/params", "/c/params"}
    for name in "ac":
        assert [m for m in received if f"/{name}/params" in m][-1][f"/{name}/params"] == pytest.approx(
            NEUTRAL
        )
    for sink in sinks:
        sink.close()


def test_the_guard_uses_the_latest_addresses(harness: LiveHarness) -> None:
    target = OscConfig(port=harness.osc, send=("loudness",), max_rate=4)
    guard, sink = Guard(lambda line: None), OscSink(target)
    watch = guard.watch([sink], NEUTRAL)
    for n in range(2):
        watch.send(ControlFrame(5 * n, 0.1 * n, (0.0,) * 7, LOUD))
        watch.run_deferred()
        sink.configure(target.model_copy(update={"addresses": {"loudness": ("/n_set", 1000, "amp")}}))
    harness.received.clear()
    guard.close()
    sink.close()
    received = harness.listen()
    assert {address for message in received for address in message} == {"/n_set"}
    assert received[-1]["/n_set"] == [1000, "amp", pytest.approx(NEUTRAL[1])], "in spite of its low max_rate"


def test_the_guard_waits_before_it_connects() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = OscConfig(port=server.getsockname()[1], transport="tcp")
        performer = _Performer([target], list(NEUTRAL), 5, 0.1, list(LOUD))
        began = time.monotonic()
        fading = threading.Thread(target=_fade, args=([performer],))
        fading.start()
        server.accept()[0].close()
        waited = time.monotonic() - began
        fading.join()
    assert waited >= 0.05


def test_a_stuck_voice_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime.voice.process._REPORT_TIMEOUT_S", 2.5)
    lines: list[str] = []
    with contextlib.closing(SynthProcess(free_port(), "none of these", lines.append)) as voice:
        wait(voice, lambda: voice.state == "no (no audio device)")
        first = voice.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        wait(voice, lambda: voice.pid not in (None, first))
        assert lines == [
            "the built-in voice is not responding",
            "the built-in voice ended (code -9); restarting it in 1 s",
        ]


def test_a_voice_whose_device_hangs_at_start_is_killed_and_reported(monkeypatch, tmp_path: Path) -> None:
    hangs = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    (tmp_path / "sounddevice.py").write_text(hangs)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("realtime.voice.process._START_TIMEOUT_S", 2.0)
    monkeypatch.setattr(SynthProcess, "close_timeouts_s", (0.1, 0.1))
    lines: list[str] = []
    voice = SynthProcess(free_port(), None, lines.append)
    first = voice.pid
    wait(voice, lambda: voice.pid not in (None, first))
    assert lines == [
        "the built-in voice is not responding",
        "the built-in voice ended (code -9); restarting it in 1 s",
    ]
    # Reading samples may take long without being stuck.
    monkeypatch.setattr(voice, "_read_lines", iter([['{"reads": true}'], *[[]] * 99]).__next__)
    voice.poll()
    monkeypatch.setattr("realtime.voice.process._START_TIMEOUT_S", 0.0)
    second = voice.pid
    for _ in range(20):
        voice.poll()
    assert (voice.pid, len(lines)) == (second, 2)
    assert voice.close() in (-9, -15)


def test_a_voice_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a process within a driver that hangs."""
    monkeypatch.setattr("realtime.voice.process._START_TIMEOUT_S", 0.0)
    monkeypatch.setattr(SynthProcess, "close_timeouts_s", (0.01, 0.01))
    lines: list[str] = []
    voice = SynthProcess(free_port(), "none of these", lines.append)
    process = voice._process
    assert process is not None
    with monkeypatch.context() as patch:
        patch.setattr(process, "kill", lambda: None)
        patch.setattr(process, "terminate", lambda: None)
        patch.setattr(voice, "_read_lines", list)
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(5):
            voice.poll()
        assert lines == ["the built-in voice is not responding"]
        assert voice.close() is None
    process.kill()
    process.wait()


def test_a_report_that_is_read_late_keeps_the_voice_alive(monkeypatch) -> None:
    monkeypatch.setattr("realtime.voice.process._REPORT_TIMEOUT_S", 0.0)
    lines: list[str] = []
    voice = SynthProcess(free_port(), "none of these", lines.append)
    first = voice.pid
    try:
        for _ in range(3):
            assert voice._process is not None
            # No polling meanwhile, as if the show had stalled.
            assert select.select([voice._process.stdout], [], [], 60.0)[0]
            voice.poll()
        assert voice.state == "no (no audio device)"
        assert (voice.pid, lines) == (first, [])
    finally:
        voice.close()


@pytest.mark.skipif(shutil.which("jackd") is None, reason="needs jackd")
def test_the_voice_plays_again_when_the_sound_server_is_back(monkeypatch, tmp_path):
    """The server comes back with another rate, and the restarted voice plays at that."""
    name = f"deaths{os.getpid()}"
    monkeypatch.setenv("JACK_DEFAULT_SERVER", name)
    monkeypatch.setenv("JACK_NO_START_SERVER", "1")
    with contextlib.ExitStack() as undo:

        def server(rate: int, period: int) -> subprocess.Popen[bytes]:
            words = ["jackd", "--no-realtime", "-n", name, "-d", "dummy", "-r", str(rate), "-p", str(period)]
            jack = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            undo.callback(jack.wait)
            undo.callback(jack.terminate)
            wait_for(lambda: run_jack_tool(dict(os.environ), "jack_lsp").returncode == 0)
            return jack

        jack = server(48_000, 256)
        voice = SynthProcess(free_port(), None, [].append)
        undo.callback(voice.close)
        try:
            wait(voice, lambda: voice.state.startswith("yes"), 10.0)
        except AssertionError:
            pytest.skip("the voice finds no JACK here")
        jack.kill()
        jack.wait()
        wait(voice, lambda: voice.state == "no (no audio device)")
        server(44_100, 512)
        wait(voice, lambda: voice.state.startswith("yes"))
        path = tmp_path / "take.wav"
        command = [sys.executable, "-P", "-m", "realtime.voice.synth", "--port", "0", "--wav", str(path)]
        command += ["--seconds", "1", "--device", "system"]
        lines = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert "playing on system" in lines.stderr
        report = dict(each.split(" ", 1) for each in lines.stdout.strip().split(", "))
        with wave.open(str(path)) as file:
            assert file.getframerate() == 44_100
            assert file.getnframes() / 44_100 == pytest.approx(float(report["seconds"]), abs=0.2)


def wait(child: Guard | SynthProcess, condition: Callable[[], bool], seconds: float = 40.0) -> None:
    wait_for(lambda: (child.poll(), condition())[1], seconds)
