"""`pyanticip live` as a user runs it: a process of its own, real datagrams, real faults."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.wire import arrived, messages, port_of, start, udp, wait_for

from pyanticip.controls import NEUTRAL
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from pyanticip.motion.recording import read_recording
from realtime.bench.performer import mocopi_datagrams
from realtime.soak.processes import alive, below
from realtime.sockets import free_port

pytestmark = pytest.mark.slow

SKELETON, FRAMES = mocopi_datagrams(400)
MODEL = [] if (SHIPPED / MANIFEST).is_file() else ["--no-model"]


class Theatre:
    """A running `pyanticip live`, a suit that sends to it and an ear that hears its bundles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.control = free_port(), free_port()
        self.suit, self.ear = udp(), udp()
        self.osc = port_of(self.ear)
        self.process: subprocess.Popen[str] | None = None
        self.heard: list[dict[str, list[Any]]] = []

    def start(self, *options: str) -> None:
        rig = self.folder / "rig.toml"
        rig.write_text(f"[control]\nport = {self.control}\n")
        self.process = start(
            "live", "--rig", str(rig), "--source", f"mocopi://127.0.0.1:{self.port}",
            "--osc", f"127.0.0.1:{self.osc}", "--json", *MODEL, *options, cwd=self.folder,
        )  # fmt: skip
        self.wait_for(lambda: any("/anticip/status" in m for m in self.listen()))

    def wait_for(self, condition: Any, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process is not None
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)

    def move(self, first: int, count: int) -> None:
        due = time.monotonic()
        for n in range(first, first + count):
            if n % 50 == 0:
                self.send(SKELETON)
            self.send(FRAMES[n])
            self.listen()  # a usual system keeps fewer than 200 bundles
            due += 0.02
            time.sleep(max(due - time.monotonic(), 0))

    def send(self, datagram: bytes) -> None:
        self.suit.sendto(datagram, ("127.0.0.1", self.port))

    def listen(self) -> list[dict[str, list[Any]]]:
        """Every bundle so far as {address: arguments}."""
        self.heard += map(messages, arrived(self.ear))
        return self.heard

    def children(self, module: str) -> list[int]:
        assert self.process is not None
        return [pid for pid, runs in below(self.process.pid).items() if runs == module]

    def ends(self, *numbers: signal.Signals) -> dict[str, Any]:
        """Its summary after these signals, as after Ctrl-C: it must exit 0, in silence."""
        assert self.process is not None
        for number in numbers:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, err
        assert "Traceback" not in err, err
        assert self.frames()[-1][1] == pytest.approx(NEUTRAL, abs=1e-6)
        summary: dict[str, Any] = json.loads(out)
        summary["said"] = err
        return summary

    def frames(self) -> list[tuple[int, list[float]]]:
        """Number and parameters of every frame so far."""
        heard = (m for m in self.listen() if "/anticip/frame" in m)
        return [(m["/anticip/frame"][0], m["/anticip/params"]) for m in heard]

    def told(self) -> list[str]:
        """Every word of every status so far."""
        return [word for m in self.listen() for word in m.get("/anticip/status", ())]

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.suit.close()
        self.ear.close()


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Theatre]:
    made = Theatre(tmp_path)
    yield made
    made.close()


def jumps(frames: list[tuple[int, list[float]]]) -> list[float]:
    """The largest change of a parameter from each frame to the next."""
    pairs = itertools.pairwise(params for _, params in frames)
    return [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in pairs]


def test_a_performance_with_every_fault_and_a_clean_end(theatre: Theatre) -> None:
    gone = free_port()
    theatre.start("--record", "take.anticip", "--osc", f"127.0.0.1:{gone}")
    theatre.move(0, 50)
    for alien in (b"", b"hello", b"\xff" * 2000, SKELETON[:40], FRAMES[0][:-3], b"#bundle\0" + bytes(20)):
        theatre.send(alien)
    theatre.send(FRAMES[49])  # doubled
    theatre.move(50, 50)
    theatre.move(103, 50)  # three frames lost
    summary = theatre.ends(signal.SIGINT)
    counts = summary["counters"]
    # The frame that ended the gap waited for the next one; the gap itself was bridged.
    assert counts["frames"] == 149
    assert counts["filled"] == 3
    assert counts["bridged"] >= 3
    assert counts["alien"] + counts["malformed"] + counts["truncated"] >= 6
    assert counts["doubled"] == 1
    assert counts["errors"] == 0
    assert summary["sinks"][f"osc 127.0.0.1:{gone}"]["refused"] > 0
    heard = [m for m in theatre.listen() if "/anticip/frame" in m]
    assert 150 <= len(heard) <= 150 + 60
    numbers = [m["/anticip/frame"][0] for m in heard]
    assert numbers == sorted(set(numbers))
    assert all(len(m["/anticip/params"]) == 8 for m in heard)
    assert heard[-1]["/anticip/param/loudness"] == [pytest.approx(0.0, abs=1e-4)], "it ends in silence"
    taken = read_recording(theatre.folder / "take.anticip")
    kinds = [type(record).__name__ for record in taken]
    assert taken.warnings == []
    assert kinds.count("Raw") == counts["packets"]
    assert kinds.count("Frame") == 149
    assert kinds.count("Output") >= 153


def test_a_suit_begins_anew_and_falls_silent_and_comes_back(theatre: Theatre) -> None:
    theatre.start("--record", "take.anticip")
    theatre.move(100, 40)
    # Numbers that go back are late packets until they go on for a while.
    theatre.move(0, 60)
    time.sleep(3.4)
    quiet = theatre.listen()[-1]
    assert quiet["/anticip/param/loudness"] == [0.0]
    theatre.move(240, 60)  # the suit went on counting: a gap far too long to fill
    # The shell and the system both tell of a closed terminal.
    summary = theatre.ends(signal.SIGHUP, signal.SIGHUP)
    assert "recorded take.anticip" in summary["said"]
    counts = summary["counters"]
    assert counts["frames"] >= 40 + 30 + 60
    assert counts["ticks"] > 120
    assert counts["resets"] == 3
    assert max(jumps(theatre.frames())) < 0.35


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="children are found through /proc")
def test_killed_children_are_told_of_and_come_back(theatre: Theatre) -> None:
    modules = {
        "recorder": "realtime.recording.writer",
        "guard": "realtime.sinks.guard",
        "voice": "realtime.voice.synth",
    }
    theatre.start("--synth", "--record", "take.anticip")
    theatre.wait_for(lambda: all(map(theatre.children, modules.values())))
    theatre.move(0, 100)
    killed = {name: theatre.children(module) for name, module in modules.items()}
    for (child,) in killed.values():
        os.kill(child, signal.SIGKILL)
    moved = 100
    alive = {"recorder=yes", "guard=yes", "recording=yes"}

    def lost() -> bool:
        return any(word.startswith("recording=no (") for word in theatre.told())

    while moved < 300 and not (lost() and alive <= set(theatre.told()[-20:])):
        theatre.move(moved, 25)
        moved += 25
    theatre.move(moved, 100)
    assert lost()
    assert alive <= set(theatre.told()[-20:])
    theatre.wait_for(lambda: set(theatre.children(modules["voice"])) - set(killed["voice"]))
    theatre.heard.clear()
    theatre.wait_for(lambda: any(w.startswith(("voice=yes (", "voice=no (no audio")) for w in theatre.told()))
    summary = theatre.ends(signal.SIGQUIT)
    assert summary["counters"]["frames"] == moved + 100
    said = summary["said"]
    for name in ("recorder", "guard"):
        assert said.count(f"the {name} ended (code -9)") == 1
    assert "the built-in voice ended (code -9); starting it again" in said
    assert "recording to take.anticip" in said
    assert "take.2.anticip" in said
    assert theatre.children(modules["voice"]) == []
    first, second = (read_recording(theatre.folder / f"take{part}.anticip") for part in ("", ".2"))
    assert sum(1 for _ in first.frames()) >= 50, "a killed recorder loses at most a second"
    assert sum(1 for _ in second.frames()) >= 100


def test_a_killed_show_is_faded_at_its_receivers_and_its_children_end(theatre: Theatre) -> None:
    modules = ("realtime.voice.synth", "realtime.recording.writer", "realtime.sinks.guard")
    theatre.start("--synth", "--record", "take.anticip")
    theatre.wait_for(lambda: all(map(theatre.children, modules)))
    children = [child for module in modules for child in theatre.children(module)]
    theatre.move(0, 100)
    before = len(theatre.frames())
    assert theatre.process is not None
    theatre.process.kill()
    theatre.process.communicate()
    wait_for(lambda: not any(map(alive, children)), 10.0)
    heard = theatre.frames()
    assert heard[-1][1] == pytest.approx(NEUTRAL, abs=1e-6)
    numbers = [number for number, _ in heard]
    assert numbers == sorted(set(numbers))
    after = jumps(heard[before - 1 :])
    # The show's last frames may still have been under way: these move.
    assert max(after[-20:]) < 0.1, "it fades"
    assert max(after) < 0.3, "and does not jump to where it does"


def test_a_terminal_that_has_gone_and_a_model_that_is_overwritten_cost_nothing(theatre: Theatre) -> None:
    """What is loaded is in memory: nothing of the model's file is looked at again."""
    model = theatre.folder / "model"
    if not MODEL:
        shutil.copytree(SHIPPED, model)
    theatre.start(*(() if MODEL else ("--checkpoint", str(model))))
    process = theatre.process
    assert process is not None
    assert process.stderr is not None
    process.stderr.close()
    theatre.move(0, 60)
    if not MODEL:
        (model / "model.safetensors").write_bytes(b"")
        shutil.rmtree(model)
    for module in ("realtime.recording.writer", "realtime.sinks.guard"):
        (child,) = theatre.children(module)
        os.kill(child, signal.SIGKILL)
    theatre.move(60, 100)
    died = {"recorder=no (ended (code -9))", "guard=no (ended (code -9))"}
    theatre.wait_for(lambda: died <= set(theatre.told()))
    theatre.wait_for(lambda: {"recorder=yes", "guard=yes"} <= set(theatre.told()[-20:]))
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    with process.stdout as told:
        counts = json.load(told)["counters"]
    assert (counts["frames"], counts["failed_steps"]) == (160, 0)
    assert process.wait(20) == 0
    assert theatre.frames()[-1][1] == pytest.approx(NEUTRAL, abs=1e-6)
    assert MODEL or theatre.told().count("plays=model") >= 3


def test_seconds_end_it_and_the_live_path_never_imports_torch(tmp_path: Path) -> None:
    rig = tmp_path / "rig.toml"
    rig.write_text(f"[control]\nport = {free_port()}\n")
    words = ["live", "--rig", str(rig), "--source", f"mocopi://127.0.0.1:{free_port()}", "--seconds", "0.3"]
    words += MODEL or ["--backend", "rust"]
    code = (
        "import atexit, sys\nfrom pyanticip.cli import main\n"
        "heavy = {'torch', 'scipy', 'training', 'matplotlib'}\n"
        "atexit.register(lambda: print(heavy & set(sys.modules), 'realtime.show' in sys.modules))\n"
        f"sys.argv[1:] = {words}\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd="/", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "listening for mocopi at 127.0.0.1:" in done.stderr
    assert done.stdout.splitlines()[-1] == "set() True"
