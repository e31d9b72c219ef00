"""What was recorded is what was played: bundles on the wire, live and replayed, bit for bit."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models import another_checkpoint
from support.wire import arrived, command, messages, port_of, run, start, udp, wait_for

from realtime.bench.performer import mocopi_datagrams
from realtime.sockets import free_port

SKELETON, FRAMES = mocopi_datagrams(700)


class Wire:
    """Sockets of a stage: a synth's ear, a suit, a hand."""

    def __init__(self) -> None:
        self.ear, self.out = udp(), udp()
        self.osc = f"127.0.0.1:{port_of(self.ear)}"

    def bundles(self) -> list[dict[str, list[Any]]]:
        """Every bundle with a frame in it so far, without what tells of the show itself."""
        found = [messages(data) for data in arrived(self.ear)]
        return [each for each in found if "/anticip/frame" in each]

    def close(self) -> None:
        self.ear.close()
        self.out.close()


@pytest.fixture
def wire() -> Any:
    made = Wire()
    yield made
    made.close()


@pytest.mark.slow
def test_a_show_with_every_command_replays_to_the_same_bits(tmp_path: Path, wire: Wire) -> None:
    port, control = free_port(), free_port()
    shapes = "shape.pan = {threshold = 0.5, toggle = true}\nshape.pitch = {invert = true, steps = 9}\n"
    (tmp_path / "rig.toml").write_text(f"lead_ms = 'auto'\n{shapes}[control]\nport = {control}\n")
    another_checkpoint(tmp_path / "other")
    live = start(
        "live", "--rig", "rig.toml", "--json", "--record", "take.anticip", "--source",
        f"mocopi://127.0.0.1:{port}", "--osc", wire.osc, cwd=tmp_path,
    )  # fmt: skip
    commands: dict[int, tuple[Any, ...]] = {
        45: ("sound_ms", 60.0),
        50: ("learn/density", True),
        55: ("rig/smoothing/roughness/half_life", 0.3),
        75: ("rig/shape/brightness/invert", True),
        100: ("rig/osc/0/ranges/space/high", 50.0),
        130: ("learn/density", False),
        135: ("rig/shape/pitch/steps",),
        225: ("rig/merge", '{"shape": {"pan": null, "loudness": {"in": [0.0, 0.5]}}}'),
        60: ("gain", 0.5),
        90: ("freeze", 1),
        120: ("freeze", 0),
        150: ("lead_ms", 200.0),
        180: ("smoothing", 3.0),
        190: ("model/load", "other"),
        210: ("bypass", 1),
        240: ("bypass", 0),
        270: ("panic",),
        300: ("start",),
        330: ("lead_ms", "auto"),
        379: ("model/load",),
        480: ("stop",),
        510: ("start",),
    }
    rng = np.random.default_rng(2)
    lost = set(rng.choice(500, 25, replace=False).tolist()) | set(range(350, 362))
    wait_for(
        lambda: live.poll() is not None or any(b"/anticip/status" in data for data in arrived(wire.ear)), 30.0
    )
    due = time.monotonic()
    for n in range(560):
        if n % 100 == 0:
            wire.out.sendto(SKELETON, ("127.0.0.1", port))
        if n in commands:
            wire.out.sendto(command(*commands[n]), ("127.0.0.1", control))
        # A gap of a quarter of a second, one of a second and a half, and single frames.
        if n not in lost and not 400 <= n < 475:
            wire.out.sendto(FRAMES[n], ("127.0.0.1", port))
        due += 0.02
        time.sleep(max(due - time.monotonic(), 0))
    time.sleep(0.7)
    live.send_signal(2)
    said, errors = live.communicate(timeout=20)
    assert live.returncode == 0, errors
    counts = json.loads(said)["counters"]
    played = wire.bundles()
    assert len(played) > 580
    assert counts["bridged"] > 30
    assert counts["ticks"] > 60

    again = Wire()
    try:
        run("replay", "take.anticip", "--osc", again.osc, "--json", cwd=tmp_path)
        heard = again.bundles()
    finally:
        again.close()
    # A machine under load may have left out bundles that came too late to be worth sending.
    found = {m["/anticip/frame"][0]: m for m in heard}
    assert len(found) == len(heard) == len(played) + counts["superseded"]
    assert counts["superseded"] or [m["/anticip/frame"] for m in heard] == [
        m["/anticip/frame"] for m in played
    ]
    different = [m["/anticip/frame"] for m in played if found[m["/anticip/frame"][0]] != m]
    assert different == []
    assert {0.0, 1.0} <= {m["/anticip/param/pan"][0] for m in played[50:200]}
    # The file says of itself what the show said.
    told = run("info", "take.anticip", "--json", cwd=tmp_path)
    assert json.loads(told)["lost"] == counts["lost"] > 0
