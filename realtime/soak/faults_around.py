"""What can go wrong around a show: remote control, disks, files, receivers and the sound device; and every
fault that there can be here."""

from __future__ import annotations

import os
import random
import resource
import signal
import struct
import time
from functools import partial
from pathlib import Path

from pyanticip._core import PRESETS
from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.vocabulary import PARAMETERS
from realtime.control.server import CONTROL
from realtime.sinks.osc import message
from realtime.soak.faults import (
    CHILDREN,
    MOTION,
    PROCESSES,
    Fault,
    Scene,
    back,
    back_to,
    recorded_again,
    wait,
)
from realtime.soak.servers import Pulse
from realtime.soak.theatre import MODEL, RIG, Theatre

__all__ = ["DISK", "FILES", "RECEIVERS", "REMOTE", "SOUND", "every"]

_FLOOD = 60
_NOTICED_S = 4.0


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


def _nonsense(chance: random.Random) -> bytes:
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
            scene.show.throw(_nonsense(scene.chance)[:60_000])
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


#: The remote control in the wrong hands.
REMOTE: dict[str, Fault] = {
    "control: flood": _flood,
    "control: takes": _takes,
    "control: nonsense": _strange,
    "control: played with": _hand,
}


def _full(scene: Scene) -> float | None:
    """No file of the recorder may grow: what a full disk is to it, and nobody else notices."""
    (pid,) = scene.show.children(CHILDREN["recorder"])
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1024, hard))
    try:
        wait(scene)
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    return recorded_again(scene, "full")


def _gone(scene: Scene) -> float | None:
    """The folder is taken away, and the recorder dies: the next part has nowhere to go until it is back."""
    takes, away = scene.show.takes, scene.show.folder / "elsewhere"
    takes.rename(away)
    try:
        for pid in scene.show.children(CHILDREN["recorder"]):
            os.kill(pid, signal.SIGKILL)
        wait(scene)
    finally:
        away.rename(takes)
    return recorded_again(scene, "gone")


def _in_the_way(scene: Scene) -> float | None:
    """Where a take is to go stands a pipe that nobody reads, a folder, or a link to nowhere."""
    name = f"way{scene.chance.getrandbits(32):x}"
    path = scene.show.takes / f"{name}.anticip"
    make = scene.chance.choice((os.mkfifo, os.mkdir, lambda path: path.symlink_to("/nowhere/at/all")))
    make(path)
    try:
        verdict, _ = scene.show.ask("record/start", name)
        wait(scene)
    finally:
        path.rmdir() if path.is_dir() else path.unlink()
    return recorded_again(scene, f"{name}-again") if verdict != "ok" else None


#: Disks and folders that do not take what is recorded.
DISK: dict[str, Fault] = {
    **({"disk: full": _full} if hasattr(resource, "prlimit") else {}),
    "disk: folder gone": _gone,
    "disk: in the way": _in_the_way,
}


def _cut(scene: Scene, path: Path) -> None:
    """Leave a part of a file, let the show be asked for it, and make it whole."""
    whole = path.read_bytes()
    path.write_bytes(whole[: scene.chance.randrange(len(whole))])
    try:
        scene.show.ask("rig/load", RIG)
        wait(scene)
    finally:
        path.write_bytes(whole)


def _weights(scene: Scene) -> float | None:
    """The model's weights: what plays is in memory."""
    _cut(scene, scene.show.folder / MODEL / WEIGHTS)
    return back_to(scene, "plays=model")


def _rig(scene: Scene) -> float | None:
    """The rig: what plays goes on, and it can be loaded again."""
    _cut(scene, scene.show.folder / RIG)
    return back(scene, lambda: scene.show.ask("rig/load", RIG)[0] == "ok")


#: Files that a show was begun with, cut off while it plays.
FILES: dict[str, Fault] = {"file: weights": _weights, "file: rig": _rig}


def _away(scene: Scene, transport: str) -> float | None:
    """A receiver is gone for a while."""
    (guest,) = (guest for guest in scene.guests if guest.transport == transport)
    guest.go()
    try:
        wait(scene)
    finally:
        guest.come()
    return back(scene, lambda: guest.heard)


def _silenced(scene: Scene) -> float | None:
    """PulseAudio is killed, and begun again."""
    assert scene.pulse is not None
    scene.pulse.stop()
    # A device is taken to have gone when it has not asked for samples for 2 s.
    noticed = time.monotonic() + _NOTICED_S
    try:
        wait(scene)
    finally:
        scene.pulse.start()
    return back(scene, lambda: time.monotonic() > noticed and scene.show.says("voice=yes"))


#: Who hears the show goes, and comes back.
RECEIVERS: dict[str, Fault] = {
    "receiver away: udp": partial(_away, transport="udp"),
    "receiver away: tcp": partial(_away, transport="tcp"),
}
#: Where there is a server of ours.
SOUND: dict[str, Fault] = {"sound: server gone": _silenced}


def every(show: Theatre, pulse: Pulse | None) -> dict[str, Fault]:
    """By name, those of this show: a process that it does not have cannot die."""
    there = {word for word, module in CHILDREN.items() if show.children(module)}
    deaths = {
        name: fault
        for name, fault in PROCESSES.items()
        if not name.startswith("killed") or name.partition(": ")[2] in there
    }
    sound = SOUND if pulse is not None else {}
    return REMOTE | deaths | DISK | sound | FILES | MOTION | RECEIVERS
