"""The remote control in the wrong hands: floods, takes after takes, nonsense, somebody who plays with it."""

from __future__ import annotations

import random
import struct
import time

from pyanticip._core import PRESETS
from pyanticip.vocabulary import PARAMETERS
from realtime.control.server import CONTROL
from realtime.sinks.osc import message
from realtime.soak.faults.base import Fault, Scene, back, back_to, recorded_again, wait

__all__ = ["FAULTS", "strange"]

_FLOOD = 60


def _flood(scene: Scene) -> float | None:
    """Sixty times record/start, sixty times record/stop, at once."""
    stem = f"flood{scene.chance.getrandbits(32):x}"
    for n in range(_FLOOD):
        scene.show.command("record/start", f"{stem}-{n}")
    for _ in range(_FLOOD):
        scene.show.command("record/stop")
    return recorded_again(scene, f"{stem}-again")


def _takes(scene: Scene) -> float | None:
    """Take after take, some of names that are taken, as fast as the show does it."""
    stem = f"take{scene.chance.getrandbits(32):x}"
    for n in range(4):
        scene.show.ask("record/start", f"{stem}-{n}")
        wait(scene, scene.lasts / 8)
        if scene.chance.random() < 0.5:
            scene.show.ask("record/stop")
        scene.show.ask("record/start", f"{stem}-{n}")
        wait(scene, scene.lasts / 8)
    return recorded_again(scene, f"{stem}-again")


def strange(chance: random.Random) -> bytes:
    """A datagram that is no command, or none that makes sense."""
    name = chance.choice(
        ("record/start", "gain", "rig/load", "rig/merge", "cue/set", "no/such/thing", "plan")
    )
    text = chance.choice(("../../etc/passwd", "\x1b[2J", "", "a/b\\c:", "x" * 5000, "{" * 3000))
    address = (CONTROL + name).encode()
    bundle = b"#bundle\0" + bytes(8)
    return chance.choice(
        (
            chance.randbytes(chance.randrange(1, 3000)),
            message(CONTROL + name, [text]),
            message(CONTROL + name, [float("nan"), float("inf"), 1]),
            message(CONTROL + name, [0] * chance.choice((0, 40, 299, 2000))),
            message(CONTROL + name, [text])[: chance.randrange(4, 24)],
            address + b"\0,[[[[" + b"\0" * 3,
            bundle * 60,
            bundle + struct.pack(">i", chance.choice((-4, 0, 1 << 30))) + address,
            b"",
        )
    )


def _strange(scene: Scene) -> float | None:
    """Three hundred a second that are no commands."""
    until = time.monotonic() + scene.lasts
    while time.monotonic() < until:
        for _ in range(6):
            scene.show.throw(strange(scene.chance)[:60_000])
        wait(scene, 0.02)
    return back(scene, lambda: scene.show.ask("gain", 1.0)[0] == "ok")


def _hand(scene: Scene) -> float | None:
    """Commands that make sense, a hundred a second: stop and go, freeze, presets, shapes."""
    until = time.monotonic() + scene.lasts
    chance, show = scene.chance, scene.show
    while time.monotonic() < until:
        name, *arguments = chance.choice(
            (
                ("freeze", chance.randrange(2)),
                ("bypass", chance.randrange(2)),
                ("panic",),
                ("stop",),
                ("start",),
                ("lead_ms", chance.uniform(0.0, 400.0)),
                ("gain", chance.uniform(0.0, 2.0)),
                ("preset", chance.choice(list(PRESETS))),
                (f"rig/smoothing/{chance.choice(PARAMETERS)}/min_cutoff", chance.uniform(0.5, 5.0)),
                (f"rig/shape/{chance.choice(PARAMETERS)}/invert", chance.randrange(2)),
            )
        )
        show.command(name, *arguments)
        wait(scene, 0.01)
    for name, *arguments in (("freeze", 0), ("bypass", 0), ("start",), ("lead_ms", "auto"), ("gain", 1.0)):
        show.command(name, *arguments)
    return back_to(scene, "playing")


FAULTS: dict[str, Fault] = {
    "control: flood": _flood,
    "control: takes": _takes,
    "control: nonsense": _strange,
    "control: played with": _hand,
}
