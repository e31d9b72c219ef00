"""`pyanticip live` as a user runs it: its own process, real datagrams, real faults."""

import itertools
import json
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.wire import arrived, messages, paced, port_of, start, udp

from pyanticip.controls import NEUTRAL
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from pyanticip.motion.recording import read_recording
from realtime.bench.performer import mocopi_datagrams
from realtime.sockets import free_port

pytestmark = pytest.mark.slow

SKELETON, FRAMES = mocopi_datagrams(400)
MODEL = [] if (SHIPPED / MANIFEST).is_file() else ["--no-model"]


class LiveHarness:
    """A running `pyanticip live`, a suit that sends to it and a receiver of its bundles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.control = free_port(), free_port()
        self.suit, self.ear = udp(), udp()
        self.osc = port_of(self.ear)
        self.process: subprocess.Popen[str] | None = None
        self.received: list[dict[str, list[Any]]] = []

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
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)

    def move(self, first: int, count: int) -> None:
        for n in paced(count):
            if (first + n) % 50 == 0:
                self.send(SKELETON)
            self.send(FRAMES[first + n])
            self.listen()  # most systems keep fewer than 200 bundles

    def send(self, datagram: bytes) -> None:
        self.suit.sendto(datagram, ("127.0.0.1", self.port))

    def listen(self) -> list[dict[str, list[Any]]]:
        """Every bundle so far as {address: arguments}."""
        self.received += map(messages, arrived(self.ear))
        return self.received

    def finish(self, *numbers: signal.Signals) -> dict[str, Any]:
        """Its summary after these signals, as after Ctrl-C: it must exit 0, in silence."""
        for number in numbers:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, err
        assert "Traceback" not in err, err
        assert self.frames()[-1][1] == pytest.approx(NEUTRAL, abs=1e-6)
        summary: dict[str, Any] = json.loads(out)
        summary["stderr"] = err
        return summary

    def frames(self) -> list[tuple[int, list[float]]]:
        """Number and parameters of every frame so far."""
        received = (m for m in self.listen() if "/anticip/frame" in m)
        return [(m["/anticip/frame"][0], m["/anticip/params"]) for m in received]

    def status_words(self) -> list[str]:
        """Every word of every status so far."""
        return [word for m in self.listen() for word in m.get("/anticip/status", ())]

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.suit.close()
        self.ear.close()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LiveHarness]:
    made = LiveHarness(tmp_path)
    yield made
    made.close()


def largest_changes(frames: list[tuple[int, list[float]]]) -> list[float]:
    """The largest change of a parameter from each frame to the next."""
    pairs = itertools.pairwise(params for _, params in frames)
    return [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in pairs]


def test_a_performance_with_every_fault_ends_cleanly(harness: LiveHarness) -> None:
    gone = free_port()
    harness.start("--record", "take.anticip", "--osc", f"127.0.0.1:{gone}")
    harness.move(0, 50)
    for alien in (b"", b"hello", b"\xff" * 2000, SKELETON[:40], FRAMES[0][:-3], b"#bundle\0" + bytes(20)):
        harness.send(alien)
    harness.send(FRAMES[49])  # duplicated
    harness.move(50, 50)
    harness.move(103, 50)  # three frames lost
    # Decreasing numbers are late packets until they continue for a while.
    harness.move(0, 60)
    time.sleep(3.4)
    assert harness.listen()[-1]["/anticip/param/loudness"] == [0.0]
    harness.move(240, 60)  # the suit continued counting: a gap far too long to fill
    # Both the shell and the system signal a closed terminal.
    summary = harness.finish(signal.SIGHUP, signal.SIGHUP)
    assert "recorded take.anticip" in summary["stderr"]
    counts = summary["counters"]
    # The frame that ended the gap waited for the next one; the gap itself was bridged.
    assert counts["frames"] >= 149 + 30 + 60
    assert counts["filled"] == 3
    assert counts["bridged"] >= 3
    assert counts["alien"] + counts["malformed"] + counts["truncated"] >= 6
    assert counts["doubled"] == 1
    assert counts["errors"] == 0
    assert counts["ticks"] > 120
    assert counts["resets"] == 3
    assert summary["sinks"][f"osc 127.0.0.1:{gone}"]["refused"] > 0
    received = [m for m in harness.listen() if "/anticip/frame" in m]
    numbers = [m["/anticip/frame"][0] for m in received]
    assert numbers == sorted(set(numbers))
    assert all(len(m["/anticip/params"]) == 8 for m in received)
    assert received[-1]["/anticip/param/loudness"] == [pytest.approx(0.0, abs=1e-4)], "it ends in silence"
    assert max(largest_changes(harness.frames())) < 0.35
    recording = read_recording(harness.folder / "take.anticip")
    kinds = [type(record).__name__ for record in recording]
    assert recording.warnings == []
    assert kinds.count("Raw") == counts["packets"]
    assert kinds.count("Frame") == counts["frames"]
    assert kinds.count("Output") >= counts["frames"] + 4


@pytest.mark.parametrize(("room", "code"), [(20_000, 1), (20_000_000, 0)])
def test_record_exits_with_1_if_the_disk_was_full(harness: LiveHarness, room: int, code: int) -> None:
    rig = harness.folder / "rig.toml"
    rig.write_text("[control]\nenabled = false\n")
    harness.process = start(
        "record", "take.anticip", "--rig", str(rig), "--source", f"mocopi://127.0.0.1:{harness.port}",
        "--json", cwd=harness.folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )  # fmt: skip
    take = harness.folder / "take.anticip"
    harness.wait_for(lambda: (harness.move(0, 10), take.exists() and take.stat().st_size > 2_000)[1])
    harness.move(10, 100)
    harness.process.send_signal(signal.SIGINT)
    out, _ = harness.process.communicate(timeout=20)
    assert harness.process.returncode == code
    assert json.loads(out)["recording_complete"] is (code == 0)


def test_a_closed_terminal_costs_no_frame(harness: LiveHarness) -> None:
    harness.start("--record", "take.anticip")  # reported at the end
    process = harness.process
    process.stderr.close()
    harness.move(0, 60)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    with process.stdout as output:
        counts = json.load(output)["counters"]
    assert (counts["frames"], counts["failed_steps"]) == (60, 0)
    assert process.wait(20) == 0
    assert harness.frames()[-1][1] == pytest.approx(NEUTRAL, abs=1e-6)
