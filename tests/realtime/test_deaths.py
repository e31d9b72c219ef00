"""Whoever dies, stands still or comes back: the sound ends gently, or goes on, and the status tells."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyanticip.controls import NEUTRAL
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from realtime.sinks.base import ControlFrame, Onlooker
from realtime.sinks.config import OscConfig
from realtime.sinks.guard import Guard
from realtime.sinks.osc import OscSink
from realtime.sockets import free_port
from realtime.voice.audio import probe
from realtime.voice.process import SynthProcess
from tests.realtime.test_live_command import Theatre

MODEL_IS_HERE = (SHIPPED / MANIFEST).is_file()

pytestmark = pytest.mark.slow

LOUD = (0.5, 0.8, 0.6, 0.2, 0.4, 0.3, 0.5, 0.1)


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Theatre]:
    made = Theatre(tmp_path)
    yield made
    made.close()


def frames(theatre: Theatre, seconds: float) -> list[tuple[int, list[float]]]:
    """Number and parameters of every frame once so much time has passed."""
    time.sleep(seconds)
    heard = (m for m in theatre.listen() if "/anticip/frame" in m)
    return [(m["/anticip/frame"][0], m["/anticip/params"]) for m in heard]


def test_a_killed_show_is_faded_at_its_receivers(theatre: Theatre) -> None:
    theatre.start()
    theatre.move(0, 100)
    before = len(frames(theatre, 0.0))
    assert theatre.process is not None
    theatre.process.kill()
    theatre.process.communicate()
    heard = frames(theatre, 1.5)
    assert heard[-1][1] == pytest.approx(NEUTRAL, abs=1e-6)
    numbers = [number for number, _ in heard]
    assert numbers == sorted(set(numbers))
    after = [params for _, params in heard[before - 1 :]]
    jumps = [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in itertools.pairwise(after)]
    # The show's last frames may still have been under way: these move.
    assert max(jumps[-20:]) < 0.1, "it fades"
    assert max(jumps) < 0.3, "and does not jump to where it does"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM])
def test_a_closed_terminal_ends_it_as_ctrl_c_does(theatre: Theatre, number: signal.Signals) -> None:
    theatre.start("--record", "take.anticip")
    theatre.move(0, 60)
    assert theatre.process is not None
    theatre.process.send_signal(number)
    if number == signal.SIGHUP:
        # The shell and the system both tell.
        theatre.process.send_signal(number)
    out, err = theatre.process.communicate(timeout=20)
    assert theatre.process.returncode == 0, err
    assert json.loads(out)["counters"]["frames"] == 60
    assert frames(theatre, 0.0)[-1][1] == pytest.approx(NEUTRAL, abs=1e-6)
    assert "recorded take.anticip" in err


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="children are found through /proc")
def test_the_status_tells_of_every_process_beside_the_show(theatre: Theatre) -> None:
    theatre.start("--synth")
    theatre.move(0, 50)
    for module in ("realtime.recording.writer", "realtime.sinks.guard"):
        (child,) = theatre.children(module)
        os.kill(child, signal.SIGKILL)

    def told() -> set[str]:
        return {word for m in theatre.listen() for word in m.get("/anticip/status", ())}

    theatre.wait_for(lambda: {"recorder=no (ended (code -9))", "guard=no (ended (code -9))"} <= told())
    theatre.heard.clear()
    theatre.wait_for(lambda: {"recorder=yes", "guard=yes"} <= told())
    theatre.wait_for(lambda: any(word.startswith(("voice=yes (", "voice=no (no audio")) for word in told()))
    said = theatre.stop()["said"]
    for name in ("recorder", "guard"):
        assert said.count(f"the {name} ended (code -9)") == 1


def test_a_terminal_that_has_gone_costs_nothing(theatre: Theatre) -> None:
    theatre.start()
    assert theatre.process is not None
    assert theatre.process.stderr is not None
    theatre.process.stderr.close()
    theatre.move(0, 60)
    (child,) = theatre.children("realtime.sinks.guard")
    os.kill(child, signal.SIGKILL)
    theatre.move(60, 100)
    theatre.process.send_signal(signal.SIGTERM)
    assert theatre.process.stdout is not None
    with theatre.process.stdout as told:
        assert json.load(told)["counters"]["frames"] == 160
    assert theatre.process.wait(20) == 0


@pytest.mark.skipif(not MODEL_IS_HERE, reason="no model comes with this tree")
def test_a_model_that_is_overwritten_while_it_plays_goes_on(theatre: Theatre) -> None:
    """What is loaded is in memory: nothing of the file is looked at again."""
    model = theatre.folder / "model"
    shutil.copytree(SHIPPED, model)
    theatre.start("--checkpoint", str(model))
    theatre.move(0, 60)
    (model / "model.safetensors").write_bytes(b"")
    shutil.rmtree(model)
    theatre.move(60, 100)
    counts = theatre.stop()["counters"]
    assert (counts["frames"], counts["failed_steps"]) == (160, 0)
    told = [word for m in theatre.listen() for word in m.get("/anticip/status", ())]
    assert told.count("plays=model") >= 3


def test_the_guard_ends_what_sounds_and_leaves_silence_alone(theatre: Theatre) -> None:
    target = OscConfig(port=theatre.osc, send=("frame", "params"))
    for last, sends in (((LOUD, NEUTRAL), False), ((NEUTRAL, LOUD), True)):
        said: list[str] = []
        guard, sink = Guard(said.append), OscSink(target)
        watch = guard.watch([sink], NEUTRAL)
        assert isinstance(watch, Onlooker)
        for n, params in enumerate(last):
            watch.send(ControlFrame(5 * n, 0.1 * n, (0.0,) * 7, params))
            watch.look()
        theatre.heard.clear()
        guard.close()
        sink.close()
        assert bool(frames(theatre, 0.1)) is sends
        assert said == []
    assert frames(theatre, 0.0)[-1] == (5 + 10 + 30, pytest.approx(NEUTRAL))


def test_one_guard_ends_what_sounds_of_all_performers_when_the_last_has_gone(theatre: Theatre) -> None:
    guard, parts, sinks = Guard(lambda line: None), [], []
    for last, name in ((LOUD, "a"), (NEUTRAL, "b"), (LOUD, "c")):
        sinks.append(OscSink(OscConfig(port=theatre.osc, prefix=f"/{name}", send=("params",))))
        watch = guard.watch(sinks[-1:], NEUTRAL)
        watch.send(ControlFrame(0, 0.0, (0.0,) * 7, last))
        parts.append(watch)
    first = guard.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait(guard, lambda: guard.pid not in (None, first))
    for watch in parts:
        assert isinstance(watch, Onlooker)
        watch.look()
    theatre.heard.clear()
    assert guard.close() is None
    assert guard.close() is None
    assert theatre.listen() == []
    assert guard.close() == 0
    told = theatre.listen()
    assert {address for message in told for address in message} == {"/a/params", "/c/params"}
    for name in "ac":
        assert [m for m in told if f"/{name}/params" in m][-1][f"/{name}/params"] == pytest.approx(NEUTRAL)
    for sink in sinks:
        sink.close()


def test_the_guard_ends_what_sounds_where_it_was_told_last(theatre: Theatre) -> None:
    target = OscConfig(port=theatre.osc, send=("loudness",), max_rate=4)
    guard, sink = Guard(lambda line: None), OscSink(target)
    watch = guard.watch([sink], NEUTRAL)
    assert isinstance(watch, Onlooker)
    for n in range(2):
        watch.send(ControlFrame(5 * n, 0.1 * n, (0.0,) * 7, LOUD))
        watch.look()
        sink.configure(target.model_copy(update={"addresses": {"loudness": ("/n_set", 1000, "amp")}}))
    theatre.heard.clear()
    guard.close()
    sink.close()
    told = theatre.listen()
    assert {address for message in told for address in message} == {"/n_set"}
    assert told[-1]["/n_set"] == [1000, "amp", pytest.approx(NEUTRAL[1])], "slow as it is"


def test_a_voice_that_stands_still_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime.voice.process._SILENT_S", 2.5)
    said: list[str] = []
    voice = SynthProcess(free_port(), "none of these", said.append)
    try:
        wait(voice, lambda: voice.state == "no (no audio device)")
        first = voice.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        wait(voice, lambda: voice.pid not in (None, first))
        assert said == [
            "the built-in voice stands still",
            "the built-in voice ended (code -9); starting it again in 1 s",
        ]
    finally:
        voice.close()


@pytest.mark.skipif(shutil.which("jackd") is None, reason="needs jackd")
def test_the_voice_is_heard_again_when_the_sound_server_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"deaths{os.getpid()}"
    monkeypatch.setenv("JACK_DEFAULT_SERVER", name)
    monkeypatch.setenv("JACK_NO_START_SERVER", "1")

    def server() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["jackd", "-n", name, "-d", "dummy", "-r", "48000", "-p", "256"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    jack = server()
    voice = None
    try:
        time.sleep(2.0)
        voice = SynthProcess(free_port(), None, [].append)
        try:
            wait(voice, lambda: voice.state.startswith("yes"), 10.0)
        except AssertionError:
            pytest.skip("the voice finds no JACK here")
        jack.kill()
        jack.wait()
        wait(voice, lambda: voice.state == "no (no audio device)")
        jack = server()
        wait(voice, lambda: voice.state.startswith("yes"))
    finally:
        if voice is not None:
            voice.close()
        jack.terminate()
        jack.wait()


@pytest.mark.skipif(shutil.which("jackd") is None, reason="needs jackd")
def test_a_sound_server_of_another_rate_is_played_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = f"rates{os.getpid()}"
    monkeypatch.setenv("JACK_DEFAULT_SERVER", name)
    monkeypatch.setenv("JACK_NO_START_SERVER", "1")
    jack = subprocess.Popen(
        ["jackd", "--no-realtime", "-n", name, "-d", "dummy", "-r", "44100", "-p", "512"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(2.0)
        if not (audio := probe("system")).usable:
            pytest.skip(f"no JACK here: {audio.error}")
        path = tmp_path / "take.wav"
        command = [sys.executable, "-P", "-m", "realtime.voice.synth", "--port", "0", "--wav", str(path)]
        command += ["--seconds", "1", "--device", "system"]
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert "playing on system" in said.stderr
        told = dict(each.split(" ", 1) for each in said.stdout.strip().split(", "))
        with wave.open(str(path)) as file:
            assert file.getframerate() == 44_100
            assert file.getnframes() / 44_100 == pytest.approx(float(told["seconds"]), abs=0.2)
    finally:
        jack.terminate()
        jack.wait()


def wait(voice: SynthProcess, condition, seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {voice.state}"
        voice.poll()
        time.sleep(0.1)
