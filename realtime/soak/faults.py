"""What can go wrong while a show plays, and around it."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterable
from functools import partial

from pyanticip._core import PRESETS
from pyanticip.errors import DeviceError
from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.vocabulary import PARAMETERS
from realtime.bench.performer import mocopi_datagrams
from realtime.control.server import CONTROL
from realtime.sinks.osc import message
from realtime.soak.show import MODEL, RIG, Show
from realtime.soak.suit import NETWORKS

__all__ = ["CHILDREN", "FAULTS", "as_before", "possible"]

#: What each process runs, by the word that the status has for it.
CHILDREN = {
    "recorder": "realtime.recording.writer",
    "voice": "realtime.voice.synth",
    "monitor": "realtime.monitor.server",
    "guard": "realtime.sinks.guard",
    "oscquery": "realtime.oscquery.server",
    "midi": "realtime.sinks.midi.port",
}


def as_before(show: Show, there: Iterable[str]) -> Callable[[], bool]:
    """Whether a status that is told after now complains of nothing, these processes run, and each receiver
    hears. Where it was told to stop recording, it is told to go on."""
    since = time.monotonic_ns()
    # A machine without a sound server has no device all the time.
    usual = set() if show.pulse else {"voice=no (no audio device)"}

    def is_so() -> bool:
        nonlocal since
        if show.ear.status_ns < since:
            return False
        since, words = time.monotonic_ns(), set(show.ear.words) - usual
        if "recording=no" in words:
            show.command("record/start", f"again{since}")
        return (
            {"playing", "plays=model", "recording=yes", f"from={show.suit.sender}"} <= words
            and not any(word.startswith("away=") or "=no" in word for word in words)
            and all(show.children(CHILDREN[word]) for word in there)
            and all(guest.is_receiving for guest in show.guests)
        )

    return is_so


def _flood(show: Show) -> None:
    """Sixty times record/start, sixty times record/stop, at once."""
    for n in range(60):
        show.command("record/start", f"flood{show.chance.getrandbits(32):x}-{n}")
    for _ in range(60):
        show.command("record/stop")


def _takes(show: Show) -> None:
    """Take after take, each begun a second time while it is there."""
    stem = f"take{show.chance.getrandbits(32):x}"
    for n, _ in enumerate(show.every(show.lasts / 8)):
        show.ask("record/start", f"{stem}-{n // 2}")
        if show.chance.random() < 0.25:
            show.ask("record/stop")


def _nonsense(show: Show) -> None:
    """Three hundred datagrams a second that are no command, or none that makes sense."""
    chance, bundle = show.chance, b"#bundle\0" + bytes(8)
    names = ("record/start", "gain", "rig/load", "rig/merge", "cue/set", "no/such/thing", "plan")
    texts = ("../../etc/passwd", "\x1b[2J", "", "a/b\\c:", "x" * 5000, "{" * 3000)
    for _ in show.every(1 / 300):
        address, text = CONTROL + chance.choice(names), chance.choice(texts)
        datagrams = (
            chance.randbytes(chance.randrange(1, 3000)),
            message(address, [text]),
            message(address, [float("nan"), float("inf"), 1]),
            message(address, [0] * chance.choice((0, 40, 299, 2000))),
            message(address, [text])[: chance.randrange(4, 24)],
            address.encode() + b"\0,[[[[" + b"\0" * 3,
            bundle * 60,
            bundle + struct.pack(">i", chance.choice((-4, 0, 1 << 30))) + address.encode(),
            b"",
        )
        show.throw(chance.choice(datagrams))
    _obeyed(show, "gain", 1.0)


def _played_with(show: Show) -> None:
    """Commands that make sense, a hundred a second: stop and go, freeze, presets, shapes."""
    chance = show.chance
    for _ in show.every(0.01):
        commands: tuple[tuple[str, *tuple[str | float, ...]], ...] = (
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
        show.command(*chance.choice(commands))
    for name, *arguments in (("freeze", 0), ("bypass", 0), ("start",), ("lead_ms", "auto"), ("gain", 1.0)):
        _obeyed(show, str(name), *arguments)


def _obeyed(show: Show, name: str, *arguments: str | float) -> None:
    """Command something until it is done. Raises a DeviceError where it is not for long."""
    if not show.until(lambda: show.ask(name, *arguments), 10.0):
        raise DeviceError(f"{name} is refused")


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _killed(show: Show, word: str) -> None:
    _signal(show.children(CHILDREN[word]), signal.SIGKILL)


def _stands_still(show: Show) -> None:
    """One of them is stopped, and goes on, unless it was begun anew meanwhile."""
    stopped = show.chance.choice([pids for pids in map(show.children, CHILDREN.values()) if pids])
    _signal(stopped, signal.SIGSTOP)
    show.wait()
    _signal(stopped, signal.SIGCONT)


def _full(show: Show) -> None:
    """No file of the recorder may grow: what a full disk is to it, and nobody else notices."""
    (pid,) = show.children(CHILDREN["recorder"])
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1024, hard))
    show.wait()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def _folder_gone(show: Show) -> None:
    """The folder is taken away, and the recorder dies: the next part has nowhere to go until it is back."""
    away = show.takes.rename(show.folder / "elsewhere")
    _killed(show, "recorder")
    show.wait()
    away.rename(show.takes)


def _in_the_way(show: Show) -> None:
    """Where a take is to go stands a pipe that nobody reads, a folder, or a link to nowhere."""
    name = f"way{show.chance.getrandbits(32):x}"
    path = show.takes / f"{name}.anticip"
    show.chance.choice((os.mkfifo, os.mkdir, lambda path: path.symlink_to("/nowhere/at/all")))(path)
    was_begun = show.ask("record/start", name)
    show.wait()
    path.rmdir() if path.is_dir() else path.unlink()
    if was_begun:
        raise DeviceError(f"{path} was recorded to")


def _cut_off(show: Show, file: str) -> None:
    """Of a file that the show was begun with there is a part. What plays is in memory, and the rig can be
    loaded again when it is whole."""
    path = show.folder / file
    whole = path.read_bytes()
    path.write_bytes(whole[: show.chance.randrange(len(whole))])
    show.ask("rig/load", RIG)
    show.wait()
    path.write_bytes(whole)
    _obeyed(show, "rig/load", RIG)


def _network(show: Show, word: str) -> None:
    """The suit's datagrams over another network, or beside broken ones."""
    show.suit.tell(word)
    show.wait()
    show.suit.tell("clean")


def _restart(show: Show) -> None:
    """The suit counts from nought again."""
    show.suit.tell("restart")


def _noise(show: Show) -> None:
    """Five thousand datagrams a second of noise, each fifty from a port of their own."""
    for _ in show.every(0.01):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _ in range(50):
                noise = show.chance.randbytes(show.chance.randrange(2000))
                sock.sendto(noise, ("127.0.0.1", show.source))


def _another_suit(show: Show) -> None:
    """Another suit sends to the same port, fifty frames a second of a body of its own."""
    skeleton, frames = mocopi_datagrams(50)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for datagram, _ in zip(itertools.cycle([skeleton, *frames]), show.every(0.02), strict=False):
            sock.sendto(datagram, ("127.0.0.1", show.source))


def _receiver_away(show: Show, which: int) -> None:
    show.guests[which].go()
    show.wait()
    show.guests[which].come()


def _silenced(show: Show) -> None:
    """PulseAudio is killed, and begun again."""
    assert show.pulse is not None
    show.pulse.stop()
    # A device is taken to have gone when it has not asked for samples for 2 s.
    show.lasts = max(show.lasts, 4.0)
    show.wait()
    show.pulse.start()


#: Everything that can go wrong, and is set right again.
FAULTS: dict[str, Callable[[Show], None]] = {
    "control: flood": _flood,
    "control: takes": _takes,
    "control: nonsense": _nonsense,
    "control: played with": _played_with,
    **{f"killed: {word}": partial(_killed, word=word) for word in CHILDREN},
    "stands still: a child": _stands_still,
    "disk: full": _full,
    "disk: folder gone": _folder_gone,
    "disk: in the way": _in_the_way,
    "sound: server gone": _silenced,
    "file: weights": partial(_cut_off, file=f"{MODEL}/{WEIGHTS}"),
    "file: rig": partial(_cut_off, file=RIG),
    **{f"network: {word}": partial(_network, word=word) for word in NETWORKS},
    "packets: broken": partial(_network, word="malformed"),
    "packets: flood": _noise,
    "packets: another suit": _another_suit,
    "suit: restart": _restart,
    "receiver away: udp": partial(_receiver_away, which=0),
    "receiver away: tcp": partial(_receiver_away, which=1),
}


def possible(show: Show, there: Iterable[str]) -> list[str]:
    """The faults of a show with these processes: one that it does not have cannot die."""
    missing = {f"killed: {word}" for word in set(CHILDREN).difference(there)}
    if show.pulse is None:
        missing.add("sound: server gone")
    return [kind for kind in FAULTS if kind not in missing]
