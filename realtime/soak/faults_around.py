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
    FaultContext,
    back,
    back_to,
    recorded_again,
    wait,
)
from realtime.soak.servers import Pulse
from realtime.soak.show_process import MODEL, RIG, ShowProcess

__all__ = ["DISK", "FILES", "RECEIVERS", "REMOTE", "SOUND", "every"]

_FLOOD = 60
_NOTICED_S = 4.0


def _flood(context: FaultContext) -> float | None:
    """Sixty times record/start, sixty times record/stop, at once."""
    stem = f"flood{context.chance.getrandbits(32):x}"
    for n in range(_FLOOD):
        context.show.command("record/start", f"{stem}-{n}")
    for _ in range(_FLOOD):
        context.show.command("record/stop")
    return recorded_again(context, f"{stem}-again")


def _takes(context: FaultContext) -> float | None:
    """Take after take, some of names that are taken, as fast as the show does it."""
    stem = f"take{context.chance.getrandbits(32):x}"
    for n in range(4):
        context.show.ask("record/start", f"{stem}-{n}")
        wait(context, context.lasts / 8)
        if context.chance.random() < 0.5:
            context.show.ask("record/stop")
        context.show.ask("record/start", f"{stem}-{n}")
        wait(context, context.lasts / 8)
    return recorded_again(context, f"{stem}-again")


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


def _strange(context: FaultContext) -> float | None:
    """Three hundred a second that are no commands."""
    until = time.monotonic() + context.lasts
    while time.monotonic() < until:
        for _ in range(6):
            context.show.throw(_nonsense(context.chance)[:60_000])
        wait(context, 0.02)
    return back(context, lambda: context.show.ask("gain", 1.0)[0] == "ok")


def _hand(context: FaultContext) -> float | None:
    """Commands that make sense, a hundred a second: stop and go, freeze, presets, shapes."""
    until = time.monotonic() + context.lasts
    chance, show = context.chance, context.show
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
        wait(context, 0.01)
    for name, *arguments in (("freeze", 0), ("bypass", 0), ("start",), ("lead_ms", "auto"), ("gain", 1.0)):
        show.command(name, *arguments)
    return back_to(context, "playing")


#: The remote control in the wrong hands.
REMOTE: dict[str, Fault] = {
    "control: flood": _flood,
    "control: takes": _takes,
    "control: nonsense": _strange,
    "control: played with": _hand,
}


def _full(context: FaultContext) -> float | None:
    """No file of the recorder may grow: what a full disk is to it, and nobody else notices."""
    (pid,) = context.show.children(CHILDREN["recorder"])
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1024, hard))
    try:
        wait(context)
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    return recorded_again(context, "full")


def _gone(context: FaultContext) -> float | None:
    """The folder is taken away, and the recorder dies: the next part has nowhere to go until it is back."""
    takes, away = context.show.takes, context.show.folder / "elsewhere"
    takes.rename(away)
    try:
        for pid in context.show.children(CHILDREN["recorder"]):
            os.kill(pid, signal.SIGKILL)
        wait(context)
    finally:
        away.rename(takes)
    return recorded_again(context, "gone")


def _in_the_way(context: FaultContext) -> float | None:
    """Where a take is to go stands a pipe that nobody reads, a folder, or a link to nowhere."""
    name = f"way{context.chance.getrandbits(32):x}"
    path = context.show.takes / f"{name}.anticip"
    make = context.chance.choice((os.mkfifo, os.mkdir, lambda path: path.symlink_to("/nowhere/at/all")))
    make(path)
    try:
        verdict, _ = context.show.ask("record/start", name)
        wait(context)
    finally:
        path.rmdir() if path.is_dir() else path.unlink()
    return recorded_again(context, f"{name}-again") if verdict != "ok" else None


#: Disks and folders that do not take what is recorded.
DISK: dict[str, Fault] = {
    **({"disk: full": _full} if hasattr(resource, "prlimit") else {}),
    "disk: folder gone": _gone,
    "disk: in the way": _in_the_way,
}


def _cut(context: FaultContext, path: Path) -> None:
    """Leave a part of a file, let the show be asked for it, and make it whole."""
    whole = path.read_bytes()
    path.write_bytes(whole[: context.chance.randrange(len(whole))])
    try:
        context.show.ask("rig/load", RIG)
        wait(context)
    finally:
        path.write_bytes(whole)


def _weights(context: FaultContext) -> float | None:
    """The model's weights: what plays is in memory."""
    _cut(context, context.show.folder / MODEL / WEIGHTS)
    return back_to(context, "plays=model")


def _rig(context: FaultContext) -> float | None:
    """The rig: what plays goes on, and it can be loaded again."""
    _cut(context, context.show.folder / RIG)
    return back(context, lambda: context.show.ask("rig/load", RIG)[0] == "ok")


#: Files that a show was begun with, cut off while it plays.
FILES: dict[str, Fault] = {"file: weights": _weights, "file: rig": _rig}


def _away(context: FaultContext, transport: str) -> float | None:
    """A receiver is gone for a while."""
    (guest,) = (guest for guest in context.guests if guest.transport == transport)
    guest.go()
    try:
        wait(context)
    finally:
        guest.come()
    return back(context, lambda: guest.heard)


def _silenced(context: FaultContext) -> float | None:
    """PulseAudio is killed, and begun again."""
    assert context.pulse is not None
    context.pulse.stop()
    # A device is taken to have gone when it has not asked for samples for 2 s.
    noticed = time.monotonic() + _NOTICED_S
    try:
        wait(context)
    finally:
        context.pulse.start()
    return back(context, lambda: time.monotonic() > noticed and context.show.says("voice=yes"))


#: Who hears the show goes, and comes back.
RECEIVERS: dict[str, Fault] = {
    "receiver away: udp": partial(_away, transport="udp"),
    "receiver away: tcp": partial(_away, transport="tcp"),
}
#: Where there is a server of ours.
SOUND: dict[str, Fault] = {"sound: server gone": _silenced}


def every(show: ShowProcess, pulse: Pulse | None) -> dict[str, Fault]:
    """By name, those of this show: a process that it does not have cannot die."""
    there = {word for word, module in CHILDREN.items() if show.children(module)}
    deaths = {
        name: fault
        for name, fault in PROCESSES.items()
        if not name.startswith("killed") or name.partition(": ")[2] in there
    }
    sound = SOUND if pulse is not None else {}
    return REMOTE | deaths | DISK | sound | FILES | MOTION | RECEIVERS
