"""The voice's process: it plays, stays alive, and ends when it should."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from support.full_disk import full_disk
from support.sounds import read_wav
from support.wire import paced, udp, wait_for

from pyanticip.cli import cli
from pyanticip.errors import DeviceError, OptionError
from realtime.osc import message
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink
from realtime.soak.show import pulse
from realtime.sockets import free_port
from realtime.voice import output, wav
from realtime.voice import synth as synth_module
from realtime.voice.synth import SAMPLE_RATE, Synth, VoicePlayer

PARAMS = (0.4, 0.8, 0.5, 0.1, 0.3, 0.2, 0.5, 0.2)
# The child process must import the packages under test.
HOME = {"PYTHONPATH": str(Path(synth_module.__file__).resolve().parents[2])}
COMMAND = [sys.executable, "-P", "-m", "realtime.voice.synth", "--port"]


def perform(sink: OscSink, seconds: float) -> None:
    for n in paced(int(seconds * 50)):
        events = [("onset", 0.9, 0.05)] if n % 25 == 0 else []
        sink.send(ControlFrame(n, n / 50, [0.0] * 7, PARAMS, events))


def test_without_input_the_voice_holds_a_second_then_fades() -> None:
    player = VoicePlayer()
    commands = [("set", i, v, 0.0) for i, v in enumerate(PARAMS)]
    now = 100.0
    for _ in range(100):
        player.push(commands, now)
        player.render(960, now)
        now += 0.02
    levels = []
    for _ in range(200):
        levels.append(float(np.abs(player.render(960, now)).max()))
        now += 0.02
    assert min(levels[:48]) > 0.02
    assert max(levels[155:]) == 0.0
    assert 0.0 < levels[140] < 0.5 * max(levels[:50])
    player.push(commands, now)
    assert np.abs(player.render(9600, now)).max() > 0.02


def test_events_wait_for_their_time_less_the_latency() -> None:
    def first(ahead: float, latency: float, arrival: float) -> int:
        blocks = []
        for strike in (True, False):
            player = VoicePlayer()
            calm = [("set", 4, 0.0, 0.0), ("set", 1, 0.8, 0.0), ("set", 3, 0.0, 0.0)]
            player.push(calm, 9.0)
            player.render(48_000, 9.0)
            player.push([("event", 0, 1.0, ahead)] if strike else [], arrival)
            blocks.append(player.render(24_000, 10.0, latency))
        return int(np.argmax(np.any(blocks[0] != blocks[1], axis=1)))

    assert first(0.2, 0.0, 10.0) == pytest.approx(0.2 * 48_000, abs=110)
    assert first(0.2, 0.05, 10.0) == pytest.approx(0.15 * 48_000, abs=110)
    assert first(0.2, 0.0, 9.99) == pytest.approx(0.19 * 48_000, abs=110)
    assert first(0.0, 0.1, 10.0) < 200


def test_a_restarted_voice_plays_for_the_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    voice = SimpleNamespace(poll=lambda: None, sound=SimpleNamespace(needs_restart=True))
    clock = iter([0.0, 3.5])
    monkeypatch.setattr(synth_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    left = synth_module._run(voice, threading.Event(), 10.0, False)
    assert left == ("--seconds", "6.500")


def test_a_restarted_voice_still_prints_to_the_terminal() -> None:
    program = """
import os, sys
from realtime.voice import synth
synth._run = lambda *_: ("--more",)
synth.restart_program = lambda *more: os.execv(sys.executable, [sys.executable, "-c",
    f"import sys; print({more!r}, file=sys.stderr)"])
synth.synth(0)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "('--more',)"


class DeadStream:
    """A stream whose server is gone: no callbacks, and stopping it blocks for ever."""

    active, device, latency = True, 0, 0.01

    def __init__(self, **_: object) -> None:
        self.start = self.close = lambda: None
        self.stop = threading.Event().wait


@pytest.mark.parametrize("ends_first", [False, True])
def test_a_lost_device_is_not_waited_for(ends_first, tmp_path, monkeypatch):
    fake = SimpleNamespace(
        OutputStream=DeadStream,
        query_hostapis=list,
        query_devices=lambda _: {"name": "a"},
        PortAudioError=OSError,
    )
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    monkeypatch.setattr(output, "_STOP_TIMEOUT_S", 0.1)
    monkeypatch.setattr(output, "_CALLBACK_TIMEOUT_S", 99.0 if ends_first else 0.0)
    lines: list[str] = []
    voice = Synth(0, wav=tmp_path / "take.wav", say=lines.append)
    assert voice.sound.device == "a"
    if not ends_first:
        voice.poll()
        assert lines == ["audio device 'a' has gone; continuing with the file only; start again to hear it"]
        assert voice.sound.device is None
        time.sleep(0.1)
    assert (voice.close()["seconds"] > 0.0) is not ends_first
    assert voice.sound.lost
    assert (tmp_path / "take.wav").stat().st_size > 40


@pytest.fixture
def without_sounddevice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)


@pytest.mark.usefixtures("without_sounddevice")
def test_without_portaudio_the_file_is_still_written(tmp_path: Path) -> None:
    lines: list[str] = []
    path = tmp_path / "take.wav"
    voice = Synth(0, wav=path, say=lines.append)
    assert len(lines) == 1
    assert lines[0].startswith("no sound: ")
    assert "PortAudio" in lines[0]
    sink = OscSink(OscConfig(port=voice.address[1]))
    with udp(1) as asking:
        for name in ("bagpipe", "granular", "bagpipe"):
            asking.sendto(message("/anticip/control/preset", [name]), voice.address)
    perform(sink, 1.0)
    voice.poll()
    assert [line.partition(":")[0] for line in lines] == ["no sound", "preset", "preset granular"]
    report = voice.close()
    sink.close()
    assert report["datagrams"] == 50 + 3
    assert report["events"] == 2
    assert report["malformed"] == 0
    assert report["device"] is None
    sound = read_wav(path)
    assert len(sound) == pytest.approx(1.5 * SAMPLE_RATE, rel=0.35)
    assert 0.05 < np.abs(sound).max() <= 0.892
    assert np.abs(sound[-100:]).max() < 1e-3, "it fades out at the end"
    assert [p.name for p in tmp_path.iterdir()] == ["take.wav"]
    with pytest.raises(OptionError, match=r"take\.wav: already exists; a recording is never overwritten"):
        Synth(0, wav=path)


class FailingVoice:
    """A voice of another package that fails while playing."""

    sample_rate, latency, position = SAMPLE_RATE, 0, 0
    set = params = fade = lambda *_: None

    def event(self, *_: float) -> None:
        raise RuntimeError("no\nhands")

    def render(self, samples: int) -> np.ndarray:
        self.position += samples
        # Half a second, in which a busy machine also pushes the commands.
        if self.position > 50 * output.BLOCK:
            raise RuntimeError("no\nbreath")
        return np.zeros((samples, 2), np.float32)


@pytest.mark.usefixtures("without_sounddevice")
@pytest.mark.parametrize(
    ("commands", "says"),
    [
        ([("event", 0, 1.0, 0.0)], r"FailingVoice failed \(RuntimeError: no hands\)"),
        ([], r"FailingVoice: cannot be rendered \(RuntimeError: no breath\)"),
    ],
)
def test_a_voice_that_fails_while_playing_is_silent_and_reported(commands, says, tmp_path):
    path = tmp_path / "take.wav"
    voice = Synth(0, wav=path, voice=FailingVoice())
    voice.player.push(commands, time.monotonic())
    with pytest.raises(DeviceError, match=says):
        any(voice.poll() or time.sleep(0.01) for _ in range(1000))
    voice.close()
    assert len(read_wav(path)) > 4 * output.BLOCK


@pytest.mark.usefixtures("without_sounddevice")
def test_a_full_wav_file_continues_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wav, "_MAX_DATA", 6 * SAMPLE_RATE)
    (tmp_path / "take.2.wav").touch()
    lines: list[str] = []
    voice = Synth(0, wav=tmp_path / "take.wav", say=lines.append)
    time.sleep(0.8)
    voice.close()
    assert lines[1] == f"{tmp_path / 'take.wav'} has 4 GiB; continuing in {tmp_path / 'take.3.wav'}"
    assert len(read_wav(tmp_path / "take.wav")) == SAMPLE_RATE
    assert len(read_wav(tmp_path / "take.3.wav")) > 0
    assert not list(tmp_path.glob(".*"))


@pytest.mark.usefixtures("without_sounddevice")
def test_on_a_full_disk_the_file_ends_and_the_voice_plays_on(tmp_path: Path) -> None:
    path, lines = tmp_path / "take.wav", list[str]()
    voice = Synth(0, wav=path, say=lines.append)
    with full_disk(100_000):
        time.sleep(0.5)
        voice.poll()
    assert lines[1:] == [f"{path}: cannot be written (file too large); it ends here, the voice plays on"]
    played = voice.player.samples
    time.sleep(0.1)
    assert voice.player.samples > played
    assert voice.close()["wav_complete"] is False
    assert 100_000 - 6 * 480 < path.stat().st_size <= 100_000
    assert 44 + 6 * len(read_wav(path)) == path.stat().st_size
    assert len(lines) == 2


@pytest.mark.usefixtures("without_sounddevice")
def test_a_command_whose_file_ends_early_fails(tmp_path: Path) -> None:
    command = f"synth --port {free_port()} --seconds 0.8 --wav {tmp_path / 'take.wav'}"
    with full_disk(100_000):
        answer = CliRunner().invoke(cli, command)
    assert answer.exit_code == 1


@pytest.mark.usefixtures("without_sounddevice")
def test_audio_lost_to_a_hanging_disk_is_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(output, "_MAX_QUEUED_S", 0.3)
    path, lines = tmp_path / "take.wav", list[str]()
    voice = Synth(0, wav=path, say=lines.append)
    # No polling, as during a long write.
    wait_for(lambda: voice.player.samples > SAMPLE_RATE)
    report = voice.close()
    missing = re.fullmatch(rf"{path}: (\d\.\d) s are missing, because the disk hung", lines[1])
    assert missing is not None
    written_s = len(read_wav(path)) / SAMPLE_RATE
    assert 0.3 < written_s < 0.35
    assert written_s + float(missing[1]) == pytest.approx(report["seconds"], abs=0.1)
    assert len(lines) == 2


def test_a_missing_device_is_reported() -> None:
    pytest.importorskip("sounddevice", exc_type=OSError)
    lines: list[str] = []
    voice = Synth(0, device="no such device", say=lines.append)
    assert lines == [
        s for s in lines if s.startswith("no sound: audio device 'no such device' cannot be used")
    ]
    assert len(lines) == 1
    voice.player.push([], 0.0)
    assert voice.close()["device"] is None


class Child:
    def __init__(self, *options: str, env: dict[str, str] | None = None, pipe: bool = True) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            [*COMMAND, str(self.port), *options],
            stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **HOME, **(env or {})},
        )
        self.sink = OscSink(OscConfig(port=self.port))

    def wait_until_it_hears(self) -> None:
        for _ in range(200):
            before = self.sink.counters()["refused"]
            self.sink.send(ControlFrame(0, 0.0, [0.0] * 7, PARAMS))
            time.sleep(0.05)
            self.sink.send(ControlFrame(0, 0.0, [0.0] * 7, PARAMS))
            if self.sink.counters()["refused"] == before:
                return
        raise AssertionError(self.process.communicate(timeout=5))

    def leave(self) -> tuple[str, str]:
        """Close its standard input, as a dying parent does; returns its output."""
        self.process.stdin.close()
        self.process.stdin = None
        return self.process.communicate(timeout=5)

    def close(self) -> None:
        self.sink.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.close()


@pytest.mark.slow
def test_the_voice_ends_with_its_parent(children: list[Child]) -> None:
    child = Child("--device", "none of these")
    children.append(child)
    child.wait_until_it_hears()
    assert child.process.poll() is None
    child.leave()
    assert child.process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_voice_with_a_report(children: list[Child], number: signal.Signals) -> None:
    child = Child("--device", "none of these", pipe=False)
    children.append(child)
    child.wait_until_it_hears()
    child.process.send_signal(number)
    out, err = child.process.communicate(timeout=5)
    assert child.process.returncode == 0
    assert "datagrams " in out
    assert err.count("\n") == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [(["70000"], "port: expected 0 to 65535"), (["0", "--gain", "3"], "gain: expected 0 to 1")],
)
def test_bad_usage(options, says, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        sys.exit(synth_module.main(["--port", *options]))
    assert says in capsys.readouterr().err


@pytest.fixture
def null_sink(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A private PulseAudio server with one null sink; yields the environment that reaches it."""
    with pulse() as server:
        if server is None or shutil.which("parecord") is None:
            pytest.skip("no pulseaudio here that ALSA reaches (Debian: libasound2-plugins)")
        yield {**server.environment, "HOME": str(tmp_path)}


@pytest.mark.slow
def test_the_device_plays_the_rendered_sound(null_sink, tmp_path, children):
    own, captured = tmp_path / "own.wav", tmp_path / "captured.raw"
    child = Child("--wav", str(own), env=null_sink)
    children.append(child)
    child.wait_until_it_hears()
    with captured.open("wb") as file:
        recorder = subprocess.Popen(
            ["parecord", "-d", "null.monitor", "--raw", "--latency-msec=20", "--format=s16le", "--rate=48000",
             "--channels=2"],
            env={**os.environ, **null_sink}, stdout=file, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            perform(child.sink, 4.0)
        finally:
            recorder.terminate()
            recorder.wait(5)
    _, err = child.leave()
    if "no sound" in err:
        pytest.skip(f"PortAudio finds no device here: {err.strip()}")
    assert child.process.returncode == 0
    heard = np.frombuffer(captured.read_bytes(), "<i2").reshape(-1, 2) / 32768.0
    rendered = read_wav(own)[:, 0]
    # Pieces of the capture match the rendered sound, sample for sample up to 16-bit rounding.
    # A busy machine may stall the device now and then: pieces across such a gap match nowhere.
    size, length = 1 << int(np.ceil(np.log2(len(rendered) + 2048))), 2048
    spectrum = np.fft.rfft(rendered, size)
    energy = np.sqrt(np.convolve(rendered**2, np.ones(length), "valid")) + 1e-6
    found = []
    for start in range(0, len(heard) - length, length):
        piece = heard[start : start + length, 0]
        if piece.std() < 1e-3:
            continue
        match = np.fft.irfft(spectrum * np.conj(np.fft.rfft(piece, size)))[: len(energy)] / energy
        at = int(match.argmax())
        found.append(float(np.corrcoef(rendered[at : at + length], piece)[0, 1]))
    assert sum(correlation > 0.999 for correlation in found) >= 4, found


@pytest.mark.usefixtures("without_sounddevice")
def test_two_voices_with_one_file_name_leave_two_files(tmp_path: Path) -> None:
    lines: list[str] = []
    voices = [Synth(0, wav=tmp_path / "take.wav", say=lines.append) for _ in range(2)]
    time.sleep(0.2)
    for voice in voices:
        voice.close()
    first, second = (tmp_path / name for name in ("take.wav", "take.2.wav"))
    assert lines[-1] == f"{first} was made by another program meanwhile; the sound is in {second}"
    assert all(len(read_wav(path)) > 0 for path in (first, second))
    assert {path.name for path in tmp_path.iterdir()} == {"take.wav", "take.2.wav"}


@pytest.mark.usefixtures("without_sounddevice")
def test_a_socket_error_is_recovered_from() -> None:
    voice = Synth(0)
    sock, failed = voice._socket, threading.Event()

    def recv(size: int) -> bytes:
        if not failed.is_set():
            failed.set()
            raise OSError("no buffer space available")
        return sock.recv(size)

    voice._socket = SimpleNamespace(recv=recv, close=sock.close)  # type: ignore[assignment]
    assert failed.wait(10.0)
    with udp() as asking:
        asking.sendto(message("/anticip/control/preset", ["default"]), voice.address)
        wait_for(lambda: voice.input.counts["datagrams"], 5.0, "the datagram")
    voice.close()
