"""`pyanticip live` as a user runs it: a process of its own, real datagrams, real faults."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.wire import arrived, messages, port_of, start, udp, wait_for

from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from realtime.bench.performer import mocopi_datagrams
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
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if module in words and parent == self.process.pid:
                found.append(int(folder.name))
        return found

    def stop(self) -> dict[str, Any]:
        """Ctrl-C; the summary. It must exit 0."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, err
        assert "Traceback" not in err, err
        summary: dict[str, Any] = json.loads(out)
        summary["said"] = err
        return summary

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


def test_a_performance_with_every_fault_and_a_clean_end(theatre: Theatre) -> None:
    theatre.start("--record", "take.anticip")
    theatre.move(0, 50)
    for alien in (b"", b"hello", b"\xff" * 2000, SKELETON[:40], FRAMES[0][:-3], b"#bundle\0" + bytes(20)):
        theatre.send(alien)
    theatre.send(FRAMES[49])  # doubled
    theatre.move(50, 50)
    theatre.move(103, 50)  # three frames lost
    summary = theatre.stop()
    counts = summary["counters"]
    # The frame that ended the gap waited for the next one; the gap itself was bridged.
    assert counts["frames"] == 149
    assert counts["filled"] == 3
    assert counts["bridged"] >= 3
    assert counts["alien"] + counts["malformed"] + counts["truncated"] >= 6
    assert counts["doubled"] == 1
    assert counts["errors"] == 0
    heard = [m for m in theatre.listen() if "/anticip/frame" in m]
    assert 150 <= len(heard) <= 150 + 60
    numbers = [m["/anticip/frame"][0] for m in heard]
    assert numbers == sorted(set(numbers))
    assert all(len(m["/anticip/params"]) == 8 for m in heard)
    assert heard[-1]["/anticip/param/loudness"] == [pytest.approx(0.0, abs=1e-4)], "it ends in silence"
    from pyanticip.motion.recording import read_recording

    taken = read_recording(theatre.folder / "take.anticip")
    kinds = [type(record).__name__ for record in taken]
    assert taken.warnings == []
    assert kinds.count("Raw") == counts["packets"]
    assert kinds.count("Frame") == 149
    assert kinds.count("Output") >= 153


def test_silence_holds_fades_and_comes_back(theatre: Theatre) -> None:
    theatre.start()
    theatre.move(0, 60)
    time.sleep(3.4)
    quiet = theatre.listen()[-1]
    assert quiet["/anticip/param/loudness"] == [0.0]
    theatre.move(240, 60)  # the suit went on counting: a gap far too long to fill
    summary = theatre.stop()
    assert summary["counters"]["ticks"] > 120
    assert summary["counters"]["resets"] == 2
    values = [m["/anticip/params"] for m in theatre.listen() if "/anticip/params" in m]
    jumps = [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in itertools.pairwise(values)]
    assert max(jumps) < 0.35


def test_a_restarted_suit_goes_on(theatre: Theatre) -> None:
    theatre.start()
    theatre.move(100, 40)
    theatre.move(0, 40)
    counts = theatre.stop()["counters"]
    # Numbers that go back are late packets until they go on for a while.
    assert counts["frames"] >= 50
    assert counts["resets"] == 2


def test_nobody_listening_is_survived(theatre: Theatre) -> None:
    gone = free_port()
    theatre.start("--osc", f"127.0.0.1:{gone}")
    theatre.move(0, 60)
    summary = theatre.stop()
    assert summary["counters"]["frames"] == 60
    assert summary["sinks"][f"osc 127.0.0.1:{gone}"]["refused"] > 0


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="children are found through /proc")
def test_a_killed_recorder_does_not_stop_the_show(theatre: Theatre) -> None:
    theatre.start("--record", "take.anticip")
    theatre.move(0, 100)
    (recorder,) = theatre.children("realtime.recording.writer")
    os.kill(recorder, signal.SIGKILL)
    theatre.move(100, 250)
    told = [word for m in theatre.listen() for word in m.get("/anticip/status", ())]
    assert any(word.startswith("recording=no (") for word in told)
    assert "recording=yes" in told[-20:]
    summary = theatre.stop()
    assert summary["counters"]["frames"] == 350
    assert "recording to take.anticip" in summary["said"]
    assert "take.2.anticip" in summary["said"]
    from pyanticip.motion.recording import read_recording

    frames = sum(1 for _ in read_recording(theatre.folder / "take.anticip").frames())
    assert frames >= 50, "a killed recorder loses at most a second"
    assert sum(1 for _ in read_recording(theatre.folder / "take.2.anticip").frames()) >= 100


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="children are found through /proc")
def test_a_killed_voice_comes_back(theatre: Theatre) -> None:
    theatre.start("--synth")
    theatre.wait_for(lambda: theatre.children("realtime.voice.synth"))
    (voice,) = theatre.children("realtime.voice.synth")
    os.kill(voice, signal.SIGKILL)
    theatre.move(0, 50)
    theatre.wait_for(lambda: [v for v in theatre.children("realtime.voice.synth") if v != voice])
    summary = theatre.stop()
    assert summary["counters"]["frames"] == 50
    assert "starting it again" in summary["said"]
    assert theatre.children("realtime.voice.synth") == []


def test_a_parents_death_ends_the_children(theatre: Theatre) -> None:
    theatre.start("--synth", "--record", "take.anticip")
    theatre.wait_for(
        lambda: theatre.children("realtime.voice.synth") and theatre.children("realtime.recording.writer")
    )
    children = theatre.children("realtime.voice.synth") + theatre.children("realtime.recording.writer")
    assert theatre.process is not None
    theatre.process.kill()
    theatre.process.communicate()
    wait_for(
        lambda: not any(Path(f"/proc/{child}/cmdline").is_file() and _alive(child) for child in children),
        10.0,
    )


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_seconds_end_it(tmp_path: Path) -> None:
    rig = tmp_path / "rig.toml"
    rig.write_text(f"[control]\nport = {free_port()}\n")
    source = f"mocopi://127.0.0.1:{free_port()}"
    done = start("live", "--rig", str(rig), "--source", source, "--no-model", "--seconds", "0.3", cwd="/")
    _, err = done.communicate(timeout=30)
    assert done.returncode == 0, err
    assert "listening for mocopi at 127.0.0.1:" in err


def test_the_live_path_never_imports_torch() -> None:
    code = (
        "import sys\nfrom realtime.programs.live import live\nfrom realtime.rig import load_rig\n"
        f"rig = load_rig(None, {{'source': {{'port': {free_port()}}}, 'control': {{'port': {free_port()}}},"
        f" 'model': {{'backend': 'rust', 'enabled': {not MODEL}}}}})\n"
        "live(rig, seconds=0.3, say=print)\n"
        "heavy = {'torch', 'scipy', 'training', 'matplotlib'} & set(sys.modules)\nassert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
