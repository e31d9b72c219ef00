"""A real port: JACK with a dummy driver, and another program, ``jack_midi_dump``, that listens."""

import importlib.util
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
from typing import Any

import pytest
from support.concert import jack_server, run_jack_tool, write_moving_part
from support.wire import paced, wait_for

import realtime.programs.doctor
from pyanticip.errors import DeviceError, OptionError
from pyanticip.vocabulary import PARAMETERS
from realtime.programs.check import check_show
from realtime.programs.doctor import doctor
from realtime.rig import load_rig
from realtime.sinks.base import ControlFrame
from realtime.sinks.midi.clock import ClockConfig, ClockSink
from realtime.sinks.midi.config import MidiConfig
from realtime.sinks.midi.sink import MidiSink

_NEEDED = ("jackd", "jack_midi_dump", "jack_connect", "jack_lsp", "stdbuf")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in _NEEDED), reason="JACK and its tools are not installed"
    ),
    pytest.mark.skipif(importlib.util.find_spec("rtmidi") is None, reason="python-rtmidi is not installed"),
]

NOTE = {"note": 60, "length_ms": 60_000, "velocity": {"low": 100, "high": 100}}
ON, OFF, ALL_NOTES, ALL_SOUND = "90 3c 64", "80 3c 40", "b0 7b 00", "b0 78 00"
# The messages at the end of a show are tested in test_schedule.
RESET = ("b0 79 00", "e0 00 40", "b0 0b 7f", "b0 0a 40", "b0 47 40", "b0 4a 40", "b0 5b 28")


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """A private JACK server, which every program finds by the environment."""
    with jack_server() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JACK_DEFAULT_SERVER", name)
        yield


def ports() -> list[str] | None:
    done = run_jack_tool(dict(os.environ), "jack_lsp")
    return done.stdout.split() if done.returncode == 0 else None


class Listener:
    """The other program, and what it prints of each message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: list[str] = []
        self._process = subprocess.Popen(
            ["stdbuf", "-oL", "jack_midi_dump", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        wait_for(lambda: f"{name}:input" in (ports() or []))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = re.search(r":((?: [0-9a-f]{2})+)(?: |$)", line)
            if found:
                self.messages.append(found[1].strip())

    def ended(self) -> list[str]:
        """The last four messages without the reset, of which a busy listener may miss some."""
        return [line for line in self.messages if line not in RESET][-4:]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()


@pytest.fixture
def listener(server: None) -> Iterator[Listener]:
    made = Listener("listener")
    yield made
    made.close()


def frame(n: int, events: Any = (), state: str = "playing", level: float = 0.5) -> ControlFrame:
    now = time.monotonic_ns()
    return ControlFrame(n, n / 50, [0.0] * 7, [level] * len(PARAMETERS), events, t_ns=now, state=state)


STATUS = ControlFrame(-1, 0.0, (), ())


def open_sink(port: str = "listener", **table: Any) -> MidiSink:
    return MidiSink(MidiConfig.model_validate({"port": port, "note": [NOTE], "control": [], **table}))


def test_notes_and_controllers_are_received_and_panic_ends_them(listener: Listener) -> None:
    sink = open_sink("LISTEN", control=[{"from": "pitch", "to": 1, "bits": 14}])
    assert sink.name == "midi listener:input"
    # A note that is half a second late is not played, so a busy machine gets some seconds.
    sink.send(frame(0, [("onset", 1.0, 3.0)]))
    wait_for(lambda: ON in listener.messages)
    assert listener.messages == ["b0 01 40", "b0 21 00", ON]
    sink.send(frame(1, state="panic"))
    wait_for(lambda: ALL_SOUND in listener.messages)
    assert listener.messages[3:] == [OFF, ALL_NOTES, ALL_SOUND]
    sink.close()
    wait_for(lambda: len(listener.messages) >= 8)
    assert sink.counters() == {"sent": 4, "dropped": 0, "refused": 0, "failed": 0}


SHOW = """
import sys, time
from pyanticip.vocabulary import PARAMETERS
from realtime.sinks.base import ControlFrame
from realtime.sinks.midi.clock import ClockConfig, ClockSink
from realtime.sinks.midi.config import MidiConfig
from realtime.sinks.midi.sink import MidiSink
note = {"note": 60, "length_ms": 60000, "velocity": {"low": 100, "high": 100}}
sink = MidiSink(MidiConfig.model_validate({"port": sys.argv[1], "note": [note], "control": [], "mpe": 0}))
print("open", flush=True)
sys.stdin.readline()
while True:
    sink.send(ControlFrame(0, 0.0, [0.0] * 7, [0.5] * 8, [("onset", 1.0, 0.0)], t_ns=time.monotonic_ns()))
    time.sleep(1.0)
"""


@pytest.mark.parametrize("port", ["listener", "virtual:killed"])
def test_a_killed_show_leaves_no_note(listener: Listener, port: str) -> None:
    if port.startswith("virtual") and Path("/dev/snd/seq").exists():
        pytest.skip("a virtual port is ALSA's here, and the listener JACK's")
    command = [sys.executable, "-P", "-c", SHOW, port]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as show:
        assert show.stdout.readline() == "open\n"
        if port != "listener":
            (ours,) = [name for name in ports() or [] if name.endswith(":killed")]
            subprocess.run(["jack_connect", ours, "listener:input"], check=True)
        show.stdin.write("\n")
        show.stdin.flush()
        wait_for(lambda: ON in listener.messages)
        show.send_signal(signal.SIGKILL)
        show.wait()
    wait_for(lambda: ALL_SOUND in listener.messages)
    assert listener.ended() == [ON, OFF, ALL_NOTES, ALL_SOUND]
    wait_for(lambda: not any(name.endswith(":killed") for name in ports() or []))


def test_a_port_that_disappears_is_reopened(server: None) -> None:
    first = Listener("comes-and-goes")
    sink = open_sink("comes-and-goes", mpe=1, control=[{"from": "pitch", "to": 1}])
    sink.send(frame(0))
    wait_for(lambda: "b0 01 40" in first.messages)
    first.close()
    n = 1

    def refused() -> bool:
        nonlocal n
        n += 1
        sink.send(frame(n, level=n % 100 / 100))
        sink.send(STATUS)
        return sink.counters()["refused"] > 0

    wait_for(refused)
    second = Listener("comes-and-goes")

    def is_received() -> bool:
        refused()
        return "b0 64 06" in second.messages and len(second.messages) > 20

    wait_for(is_received)
    at = second.messages.index("b0 65 00")
    assert second.messages[at : at + 5] == ["b0 65 00", "b0 64 06", "b0 06 01", "b0 65 7f", "b0 64 7f"]
    assert sink.counters()["failed"] == 0
    sink.close()
    second.close()


def test_a_killed_port_process_is_started_again(listener: Listener) -> None:
    sink = open_sink(control=[{"from": "pitch", "to": 1}])
    sink.send(frame(0, [("onset", 1.0, 3.0)]))
    wait_for(lambda: ON in listener.messages)
    assert sink._child.pid is not None
    os.kill(sink._child.pid, signal.SIGKILL)
    n = 0

    def again() -> bool:
        nonlocal n
        n += 1
        sink.send(frame(n, level=n % 2 / 1))
        sink.send(STATUS)
        # The notes of the dead process are ended.
        return sink.counters()["failed"] == 1 and ALL_SOUND in listener.messages

    wait_for(again)
    sink.close()
    assert OFF in listener.messages
    assert {message[1] for message in listener.messages if message[0] == "b"} == {"0"}, (
        "other players' channels"
    )


def test_missing_and_ambiguous_ports_are_one_line(listener: Listener) -> None:
    with pytest.raises(
        DeviceError, match=r"no MIDI port 'fagott'; there is: .*listener:input.*; virtual makes"
    ):
        open_sink("fagott")
    other = Listener("listener2")
    with pytest.raises(DeviceError, match="'listener' may be any of: listener:input, listener2:input"):
        open_sink("listener")
    assert open_sink("listener2:input").close() is None
    other.close()


def test_the_check_of_a_rig_finds_the_ports_that_a_show_would(listener: Listener, tmp_path: Path) -> None:
    file = tmp_path / "stage.toml"
    for table in ("[midi]", '[[sink]]\nkind = "midi"'):
        for port in ("listen", "virtual:ours"):
            file.write_text(f'{table}\nport = "{port}"\n')
            check_show(load_rig(file))
        file.write_text(f'{table}\nport = "fagott"\n')
        with pytest.raises(DeviceError, match=r"no MIDI port 'fagott'; there is: .*listener:input"):
            check_show(load_rig(file))
    file.write_text('[[sink]]\nkind = "midi"\n')
    with pytest.raises(OptionError, match=r"^sink midi: port: expected virtual, "):
        check_show(load_rig(file))
    file.write_text('[[sink]]\nkind = "midi-clock"\nport = "listener"\n')
    with pytest.raises(DeviceError, match="no MIDI port 'listener'; there is: "):
        check_show(load_rig(file))


def test_the_doctor_lists_ports(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realtime.programs.doctor, "_MIDI_TIMEOUT_S", 120.0)
    (midi,) = [check for check in doctor()["checks"] if check["name"] == "midi"]
    assert midi["status"] == "ok", midi
    assert "listener:input" in midi["ports"]


def test_a_performance_plays_a_synth_and_ends_in_silence(listener: Listener, tmp_path: Path) -> None:
    """The command itself, stopped by SIGTERM while it plays."""
    file = write_moving_part(tmp_path / "part.bvh")
    command = [sys.executable, "-P", "-m", "pyanticip", "replay", str(file), "--midi", "listener"]
    with subprocess.Popen([*command, "--json"], stderr=subprocess.PIPE, text=True, cwd=tmp_path) as show:
        wait_for(
            lambda: len(listener.messages) > 300 and any(line[:2] == "90" for line in listener.messages), 60.0
        )
        show.terminate()
        _, err = show.communicate(timeout=20)
        assert show.returncode == 0, err
    assert "playing midi listener:input" in err
    wait_for(lambda: ALL_SOUND in listener.messages)
    assert listener.ended()[-2:] == [ALL_NOTES, ALL_SOUND]
    # A busy listener may lose messages, so only hanging notes fail (test_schedule checks for double ends).
    last = {line[3:5]: line[:2] for line in listener.messages if line[:2] in ("80", "90")}
    assert set(last.values()) == {"80"}
    assert {line[:5] for line in listener.messages if line[:2] == "b0"} >= {"b0 0b", "b0 4a", "b0 10"}


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"^MIDI needs python-rtmidi: pip install 'pyanticip\[midi\]'$"):
        open_sink("virtual")


def test_a_midi_clock_leads_until_its_port_disappears(server: None) -> None:
    rtmidi: Any = importlib.import_module("rtmidi")
    ours = ClockSink(ClockConfig(port="virtual:ticks", latency_ms=120.0))
    out = rtmidi.MidiOut(rtmidi.API_UNIX_JACK, name="drums")
    try:
        wait_for(lambda: any("ticks" in name for name in out.get_ports()))
        assert ours.beat() is None, "nothing has ticked"
        out.open_port(next(at for at, name in enumerate(out.get_ports()) if "ticks" in name), "out")
        wait_for(lambda: run_jack_tool(dict(os.environ), "jack_lsp", "-c").stdout.count("ticks") > 1)
        off, tempi, start_s = [], [], time.monotonic()
        out.send_message([0xFA])
        # 150 beats per minute: 60 ticks per second.
        for n in paced(180, 60.0):
            out.send_message([0xF8])
            if n > 90 and n % 15 == 0 and (beat := ours.beat()) is not None:
                tempi.append(beat[0])
                ahead = (time.monotonic() - start_s + 0.12) * 2.5
                off.append(abs((beat[1] - ahead + 0.5) % 1.0 - 0.5))
        # A busy machine may tick late now and then.
        assert sorted(tempi)[len(tempi) // 2] == pytest.approx(150.0, rel=0.02)
        assert sorted(off)[len(off) // 2] < 0.06, off
        wait_for(lambda: ours.beat() is None)
        theirs = ClockSink(ClockConfig(port="drums"))
    finally:
        out.delete()
        ours.close()
    wait_for(lambda: theirs.beat() is None and bool(theirs.trouble))
    assert theirs.trouble == "the port has gone"
    theirs.close()
