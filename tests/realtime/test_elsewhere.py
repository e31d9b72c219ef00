"""A show and its files without the features of Linux that Windows lacks."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.wire import arrived, command, messages, port_of, start, tcp_port, udp, wait_for

import pyanticip
from pyanticip.errors import DeviceError
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from pyanticip.system import shell_quote, try_lock
from realtime.bench.performer import mocopi_datagrams
from realtime.loop import obey_signals
from realtime.sinks.midi import port as port_module
from realtime.sockets import free_port
from realtime.voice.audio import SAMPLE_RATE, _query, device_arguments, device_rate

BARE = Path(__file__).resolve().parents[1] / "support/elsewhere"
ROOT = str(Path(pyanticip.__file__).resolve().parents[1])
MODEL = [] if (SHIPPED / MANIFEST).is_file() else ["--no-model"]
# A terminal with few characters, and an error for files opened without an encoding.
ELSEWHERE = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(BARE), ROOT]),
    "PYTHONWARNDEFAULTENCODING": "1",
    "PYTHONIOENCODING": "cp1252",
}


def ended(process: subprocess.Popen[str], starting: str | None = None) -> str:
    """Its output, which must report no trouble; ``starting`` may refuse what is sent before it listens."""
    try:
        output = "\n".join(process.communicate(timeout=60))
    finally:
        process.kill()
    assert process.returncode == 0, output
    judged = "\n".join(line for line in output.splitlines() if starting is None or starting not in line)
    for trouble in ("Traceback", "restarting it", "is not responding", "refused"):
        assert trouble not in judged, output
    return output


@pytest.mark.slow
def test_a_show_with_all_its_processes(tmp_path):
    port, control, voice = free_port(), free_port(), free_port()
    (tmp_path / "stage.toml").write_text(
        f"[control]\nport = {control}\n[monitor]\nenabled = true\nport = {tcp_port()}\n"
        f"[oscquery]\nenabled = true\nport = {tcp_port()}\n[synth]\nenabled = true\nport = {voice}\n"
    )
    received: list[dict[str, list[Any]]] = []
    with udp() as suit, udp() as ear:

        def listens(address: str, what: str = "") -> bool:
            received.extend(map(messages, arrived(ear)))
            return any(what in str(m[address]) for m in received if address in m)

        words = ("--rig", "stage.toml", "--source", f"mocopi://127.0.0.1:{port}", "--record", "take.anticip")
        osc = f"127.0.0.1:{port_of(ear)}"
        with start("live", *words, "--osc", osc, *MODEL, cwd=tmp_path, env=ELSEWHERE) as show:
            wait_for(lambda: listens("/anticip/status", "recording=yes"), 40, "the show")
            skeleton, frames = mocopi_datagrams(200)
            for datagram in (skeleton, *frames):
                suit.sendto(datagram, ("127.0.0.1", port))
                time.sleep(0.02)
            suit.sendto(command("freeze", 1), ("127.0.0.1", control))
            wait_for(lambda: listens("/anticip/status", "frozen"), what="obedience")
            show.send_signal(signal.SIGINT)
            output = ended(show, f"127.0.0.1:{voice}")
    assert any("/anticip/param/pitch" in m for m in received)
    assert "recorded take.anticip" in output
    assert "monitor: " in output
    commands = (
        ("render", "take.anticip", "--out", "take.wav"),
        ("rehearse", "take.anticip", "--out", "piece.memory"),
        ("rig", "init", "another.toml"),
        ("teach", "new", "mine", "--outputs", "brightness"),
    )
    program = f"from pyanticip.cli import cli\nfor words in {commands}: cli(words, standalone_mode=False)"
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [sys.executable, "-P", "-c", program]
    with subprocess.Popen(words, cwd=tmp_path, env=ELSEWHERE, **piped) as process:
        ended(process)
    assert (tmp_path / "take.wav").stat().st_size > 100_000
    assert not list(tmp_path.glob(".*part*"))


REMOVED_FEATURES = """
import asyncio, os, select
calls = (
    lambda: select.select([0], [], [], 0),
    lambda: (open('a', 'w', encoding='utf-8'), os.replace('a', 'b')),
    lambda: os.open('.', os.O_RDONLY),
    lambda: asyncio.SelectorEventLoop().add_signal_handler(2, print),
)
for call in calls:
    try:
        call()
    except Exception:
        print("fails")
    else:
        print("works")
"""


@pytest.mark.parametrize(("environment", "outcome"), [(dict(os.environ), "works"), (ELSEWHERE, "fails")])
def test_the_simulated_system_lacks_what_windows_lacks(tmp_path, environment, outcome):
    command = [sys.executable, "-c", REMOVED_FEATURES]
    piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, **piped)
    assert done.stdout.split() == [outcome] * 4


def test_a_lock_belongs_to_one_handle_until_it_is_closed(tmp_path):
    with (tmp_path / "lock").open("wb") as one, (tmp_path / "lock").open("wb") as other:
        assert try_lock(one.fileno()) is True
        assert try_lock(other.fileno()) is False
        one.close()
        assert try_lock(other.fileno()) is True
    assert try_lock(other.fileno() if not other.closed else 10_000) is None


def test_a_show_handles_signals_and_restores_the_handlers():
    calls: list[str] = []
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT

    async def shows() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, calls.append, "the loop's")
        before = [signal.getsignal(number) for number in numbers]
        with obey_signals(lambda: calls.append("interrupt"), lambda: calls.append("end")):
            for number in numbers:
                os.kill(os.getpid(), number)
            await asyncio.sleep(0.05)
        assert [signal.getsignal(number) for number in numbers] == before
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)

    asyncio.run(shows())
    assert calls.count("the loop's") == 2, "in the show and behind it"
    assert [word for word in calls if word != "the loop's"] == ["interrupt", "interrupt", "end", "end"]


def test_standard_input_and_sockets_are_awaited_together():
    program = (
        "import socket\n"
        "from pyanticip.system import wait_readable\n"
        "from realtime.loop import input_lines, run_loop\n"
        "sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.bind(('127.0.0.1', 0))\n"
        "print(wait_readable(0.0, sock), flush=True)\n"
        "sock.sendto(b'x', sock.getsockname())\n"
        "print(wait_readable(9.0, sock) == [sock], flush=True)\n"
        "sock.recv(9)\n"
        "print(wait_readable(9.0, sock), flush=True)\n"
        "async def main():\n"
        "    async for line in input_lines(): print(line, flush=True)\n"
        "run_loop(main())\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, env=ELSEWHERE) as child:
        assert child.stdout.readline() == b"[]\n"
        assert child.stdout.readline() == b"True\n"
        child.stdin.write(b"one\ntw")
        child.stdin.flush()
        assert child.stdout.readline() == b"[0]\n"
        assert child.stdout.readline() == b"b'one'\n"
        child.stdin.write(b"o\n\nhalf")
        child.stdin.close()
        assert child.stdout.read() == b"b'two'\nb''\n"
        assert child.wait(20) == 0


def test_a_path_is_quoted_for_the_shell():
    assert shell_quote("a b") == "'a b'"
    assert shell_quote("ab") == "ab"


class Wasapi:
    """PortAudio as on Windows: each device once for every driver, MME's is the default."""

    names = ("Speakers", "Phones", "Speakers", "Phones")

    def query_hostapis(self) -> list[dict[str, Any]]:
        return [
            {"name": "MME", "default_output_device": 0, "devices": [0, 1]},
            {"name": "Windows WASAPI", "default_output_device": 3, "devices": [2, 3]},
        ]

    def query_devices(self, words: str, kind: str) -> dict[str, Any]:
        assert kind == "output"
        full = [
            f"{name}, {self.query_hostapis()[at // 2]['name']}".lower() for at, name in enumerate(self.names)
        ]
        found = [at for at, name in enumerate(full) if all(word in name for word in words.lower().split())]
        if len(found) != 1:
            raise ValueError("none, or several")
        return {"index": found[0]}

    def WasapiSettings(self, auto_convert: bool) -> str:
        return "converted" if auto_convert else "as it is"


@pytest.mark.parametrize(
    ("requested", "device", "settings"),
    [
        (None, 3, "converted"),
        ("speakers", 2, "converted"),
        (2, 2, "converted"),
        (1, 1, None),
        ("Speakers MME", "Speakers MME", None),
        ("nothing", "nothing", None),
    ],
)
def test_the_voice_prefers_wasapi(requested, device, settings):
    found = device_arguments(Wasapi(), requested)
    assert found.pop("extra_settings", None) == settings
    assert found == {"device": device}


class Server(Wasapi):
    """PortAudio before a JACK server: a single rate."""

    class PortAudioError(Exception):
        pass

    def query_hostapis(self) -> list[dict[str, Any]]:
        return []

    def query_devices(self, device: Any = None, kind: str = "") -> Any:
        if device not in (None, "system"):
            raise ValueError(f"No output device matching {device!r}")
        found = {"name": "system", "default_samplerate": 44_100.0, "max_output_channels": 2}
        return found if kind else [found]

    def check_output_settings(self, *, samplerate: int, device: Any, **_: Any) -> None:
        if samplerate != self.query_devices(device, "output")["default_samplerate"]:
            raise self.PortAudioError("Invalid sample rate")

    def get_portaudio_version(self) -> tuple[int, str]:
        return 1, "PortAudio"


def test_a_device_with_one_rate_is_played_at_that_rate(monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", Server())
    assert (device_rate(None), device_rate("system"), device_rate("none")) == (44_100, 44_100, SAMPLE_RATE)
    assert (_query(None).default, _query("system").default) == ("system", "system")
    assert not _query("none").usable, "a device of that name is not there, whatever else is"


def test_no_audio_device_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Server):
        def query_devices(self, device: Any = None, kind: str = "") -> Any:
            if kind:
                raise self.PortAudioError("Error querying device -1")
            return []

    monkeypatch.setitem(sys.modules, "sounddevice", Silent())
    assert _query(None).error == "no audio device"


def test_an_error_names_a_loopback_driver_where_virtual_ports_are_missing(monkeypatch):
    class Driver:
        def open_virtual_port(self, name: str) -> None:
            raise NotImplementedError

    monkeypatch.setattr(port_module, "_drivers", lambda way: iter([Driver()]))
    monkeypatch.setattr(
        port_module,
        "_rtmidi",
        lambda: SimpleNamespace(RtMidiError=OSError, UnsupportedOperationError=OSError),
    )
    with pytest.raises(DeviceError, match=r"MIDI virtual: .* on Windows; make one with a loopback driver"):
        port_module.Port("virtual")
