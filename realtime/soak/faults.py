"""Faults that are injected into a running show and its surroundings."""

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
from realtime.osc import message
from realtime.soak.show import MODEL, RIG, Show
from realtime.soak.suit import NETWORKS

#: Module that each child process runs, by its word in the status.
CHILDREN = {
    "recorder": "realtime.recording.writer",
    "voice": "realtime.voice.synth",
    "monitor": "realtime.monitor.server",
    "guard": "realtime.sinks.guard",
    "oscquery": "realtime.oscquery.server",
    "midi": "realtime.sinks.midi.port",
}


def recovery_check(show: Show, processes: Iterable[str]) -> Callable[[], bool]:
    """A function that returns whether the show has recovered.

    It has if a status newer than the last call reports no problem, these child processes run, and every guest
    receives. A recording that the fault stopped is started again.
    """
    since_ns = time.monotonic_ns()
    # Without a sound server there never is an audio device.
    ignored = set() if show.pulse else {"voice=no (no audio device)"}

    def has_recovered() -> bool:
        nonlocal since_ns
        if show.receiver.status_ns < since_ns:
            return False
        since_ns, words = time.monotonic_ns(), set(show.receiver.words) - ignored
        if "recording=no" in words:
            show.command("record/start", f"again{since_ns}")
        return (
            {"playing", "plays=model", "recording=yes", f"from={show.suit.sender}"} <= words
            and not any(word.startswith("away=") or "=no" in word for word in words)
            and all(show.children(CHILDREN[word]) for word in processes)
            and all(guest.is_receiving for guest in show.guests)
        )

    return has_recovered


def _flood(show: Show) -> None:
    """Sixty times record/start, sixty times record/stop, at once."""
    for n in range(60):
        show.command("record/start", f"flood{show.random.getrandbits(32):x}-{n}")
    for _ in range(60):
        show.command("record/stop")


def _takes(show: Show) -> None:
    """Take after take, each started a second time while it exists."""
    stem = f"take{show.random.getrandbits(32):x}"
    for n, _ in enumerate(show.every(show.fault_s / 8)):
        show.ask("record/start", f"{stem}-{n // 2}")
        if show.random.random() < 0.25:
            show.ask("record/stop")


def _nonsense(show: Show) -> None:
    """Three hundred datagrams a second that are no commands, or invalid ones."""
    random, bundle = show.random, b"#bundle\0" + bytes(8)
    names = ("record/start", "gain", "rig/load", "rig/merge", "cue/set", "no/such/thing", "plan")
    texts = ("../../etc/passwd", "\x1b[2J", "", "a/b\\c:", "x" * 5000, "{" * 3000)
    for _ in show.every(1 / 300):
        address, text = CONTROL + random.choice(names), random.choice(texts)
        datagrams = (
            random.randbytes(random.randrange(1, 3000)),
            message(address, [text]),
            message(address, [float("nan"), float("inf"), 1]),
            message(address, [0] * random.choice((0, 40, 299, 2000))),
            message(address, [text])[: random.randrange(4, 24)],
            address.encode() + b"\0,[[[[" + b"\0" * 3,
            bundle * 60,
            bundle + struct.pack(">i", random.choice((-4, 0, 1 << 30))) + address.encode(),
            b"",
        )
        show.send_control(random.choice(datagrams))
    _command_until_ok(show, "gain", 1.0)


def _random_commands(show: Show) -> None:
    """Valid commands, a hundred a second: stop and start, freeze, presets, shapes."""
    random = show.random
    for _ in show.every(0.01):
        commands: tuple[tuple[str, *tuple[str | float, ...]], ...] = (
            ("freeze", random.randrange(2)),
            ("bypass", random.randrange(2)),
            ("panic",),
            ("stop",),
            ("start",),
            ("lead_ms", random.uniform(0.0, 400.0)),
            ("gain", random.uniform(0.0, 2.0)),
            ("preset", random.choice(list(PRESETS))),
            (f"rig/smoothing/{random.choice(PARAMETERS)}/min_cutoff", random.uniform(0.5, 5.0)),
            (f"rig/shape/{random.choice(PARAMETERS)}/invert", random.randrange(2)),
        )
        show.command(*random.choice(commands))
    for name, *arguments in (("freeze", 0), ("bypass", 0), ("start",), ("lead_ms", "auto"), ("gain", 1.0)):
        _command_until_ok(show, str(name), *arguments)


def _command_until_ok(show: Show, name: str, *arguments: str | float) -> None:
    """Repeat a command until the show accepts it.

    Raises:
        DeviceError: it is refused for ten seconds.
    """
    if not show.until(lambda: show.ask(name, *arguments), 10.0):
        raise DeviceError(f"{name} is refused")


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_child(show: Show, word: str) -> None:
    _signal(show.children(CHILDREN[word]), signal.SIGKILL)


def _stop_child(show: Show) -> None:
    """Suspend a random child process, and resume it unless it was restarted meanwhile."""
    stopped = show.random.choice([pids for pids in map(show.children, CHILDREN.values()) if pids])
    _signal(stopped, signal.SIGSTOP)
    show.wait()
    _signal(stopped, signal.SIGCONT)


def _disk_full(show: Show) -> None:
    """Limit the recorder's file size: to it this is a full disk, and no other process is affected."""
    (pid,) = show.children(CHILDREN["recorder"])
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1024, hard))
    show.wait()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def _remove_folder(show: Show) -> None:
    """Rename the folder of takes and kill the recorder, which cannot continue until the folder is back."""
    moved = show.takes.rename(show.folder / "elsewhere")
    _kill_child(show, "recorder")
    show.wait()
    moved.rename(show.takes)


def _block_path(show: Show) -> None:
    """Put a pipe without a reader, a folder or a dangling link where a take is to be written."""
    name = f"way{show.random.getrandbits(32):x}"
    path = show.takes / f"{name}.anticip"
    show.random.choice((os.mkfifo, os.mkdir, lambda path: path.symlink_to("/nowhere/at/all")))(path)
    was_started = show.ask("record/start", name)
    show.wait()
    path.rmdir() if path.is_dir() else path.unlink()
    if was_started:
        raise DeviceError(f"{path} was recorded to")


def _truncate_file(show: Show, file: str) -> None:
    """Truncate a file that the show was started with.

    The running show has it in memory, and the rig can be loaded again when the file is whole.
    """
    path = show.folder / file
    content = path.read_bytes()
    path.write_bytes(content[: show.random.randrange(len(content))])
    show.ask("rig/load", RIG)
    show.wait()
    path.write_bytes(content)
    _command_until_ok(show, "rig/load", RIG)


def _network(show: Show, word: str) -> None:
    """Send the suit's datagrams over a poor network, or among malformed ones."""
    show.suit.set_mode(word)
    show.wait()
    show.suit.set_mode("clean")


def _restart(show: Show) -> None:
    """Restart the suit's frame numbers at 0."""
    show.suit.set_mode("restart")


def _noise(show: Show) -> None:
    """Five thousand datagrams a second of random bytes, from a new port every fifty."""
    for _ in show.every(0.01):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _ in range(50):
                noise = show.random.randbytes(show.random.randrange(2000))
                sock.sendto(noise, ("127.0.0.1", show.source))


def _another_suit(show: Show) -> None:
    """A second suit with another body sends fifty frames a second to the same port."""
    skeleton, frames = mocopi_datagrams(50)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for datagram, _ in zip(itertools.cycle([skeleton, *frames]), show.every(0.02), strict=False):
            sock.sendto(datagram, ("127.0.0.1", show.source))


def _receiver_away(show: Show, index: int) -> None:
    show.guests[index].close()
    show.wait()
    show.guests[index].open()


def _kill_pulse(show: Show) -> None:
    """Kill PulseAudio, and start it again."""
    assert show.pulse is not None
    show.pulse.stop()
    # The voice considers a device lost when it has not asked for samples for 2 s.
    show.fault_s = max(show.fault_s, 4.0)
    show.wait()
    show.pulse.start()


#: All faults by kind; each function injects a fault, waits for its duration, and reverts it.
FAULTS: dict[str, Callable[[Show], None]] = {
    "control: flood": _flood,
    "control: takes": _takes,
    "control: nonsense": _nonsense,
    "control: played with": _random_commands,
    **{f"killed: {word}": partial(_kill_child, word=word) for word in CHILDREN},
    "stands still: a child": _stop_child,
    "disk: full": _disk_full,
    "disk: folder gone": _remove_folder,
    "disk: in the way": _block_path,
    "sound: server gone": _kill_pulse,
    "file: weights": partial(_truncate_file, file=f"{MODEL}/{WEIGHTS}"),
    "file: rig": partial(_truncate_file, file=RIG),
    **{f"network: {word}": partial(_network, word=word) for word in NETWORKS},
    "packets: broken": partial(_network, word="malformed"),
    "packets: flood": _noise,
    "packets: another suit": _another_suit,
    "suit: restart": _restart,
    "receiver away: udp": partial(_receiver_away, index=0),
    "receiver away: tcp": partial(_receiver_away, index=1),
}


def available_faults(show: Show, processes: Iterable[str]) -> list[str]:
    """The kinds of faults that a show with these child processes can have."""
    unavailable = {f"killed: {word}" for word in set(CHILDREN).difference(processes)}
    if show.pulse is None:
        unavailable.add("sound: server gone")
    return [kind for kind in FAULTS if kind not in unavailable]
