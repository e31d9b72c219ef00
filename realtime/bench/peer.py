"""Child process of ``bench latency`` and ``bench performers``: a suit and a synth, or an echo server.

``python -P -m realtime.bench.peer suit``: reads a line of JSON and datagrams from standard input, sends them
at a steady rate, pings the echo half a frame later, and counts the bundles that it receives.
``... suits N``: the same with N suits, each with its own port and phase within the period, without pings.
``... echo``: returns every datagram at once, and measures the time since the kernel's timestamp.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import struct
import sys
import threading
import time
from typing import Any

from realtime import tuning
from realtime.sockets import LINUX_TIMESTAMPNS, age_ns

# Time before a deadline that is spun rather than slept.
_SPIN_S = 0.0003


def _wait_until(when: float) -> None:
    """Sleep until shortly before, then spin: sleeps alone are late by up to a millisecond."""
    sleep_s = when - time.perf_counter() - _SPIN_S
    if sleep_s > 0:
        time.sleep(sleep_s)
    while time.perf_counter() < when:
        pass


def _drain(sock: socket.socket, into: list[bytes]) -> None:
    """Append all waiting datagrams of a non-blocking socket."""
    with contextlib.suppress(BlockingIOError):
        while True:
            into.append(sock.recv(65536))


def _numbers(bundles: list[bytes]) -> list[int]:
    """The frame numbers of bundles, from their first element, `/anticip/frame ,if`."""
    return [int.from_bytes(b[40:44], "big") for b in bundles if b[20:40] == b"/anticip/frame\0\0,if\0"]


def _datagrams(data: bytes) -> list[bytes]:
    """Split data into datagrams, each preceded by its length, u32 little-endian."""
    out, offset = [], 0
    while offset < len(data):
        (size,) = struct.unpack_from("<I", data, offset)
        out.append(data[offset + 4 : offset + 4 + size])
        offset += 4 + size
    return out


def _read_plan() -> dict[str, Any]:
    """The bench's plan from standard input; exits if the bench has ended."""
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit()
    plan: dict[str, Any] = json.loads(line)
    return plan


def _exit_with_parent() -> None:
    """Exit when standard input is closed, which the bench keeps open while it runs.

    Reads the descriptor directly: if this thread held the lock of Python's buffer when the process ends, that
    would be a fatal error.
    """
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


def suit() -> dict[str, Any]:
    """Send, ping and count according to standard input, whose first datagram is the skeleton."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    receiver.bind(("127.0.0.1", 0))
    receiver.setblocking(False)
    pinger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    pinger.setblocking(False)
    print(receiver.getsockname()[1], flush=True)
    plan = _read_plan()
    skeleton, *frames = _datagrams(sys.stdin.buffer.read())
    to, echo = ("127.0.0.1", plan["port"]), ("127.0.0.1", plan["echo"])
    period, every = 1.0 / plan["rate"], plan["skeleton_every"]
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    time.sleep(plan["pause"])
    start = time.perf_counter() + 0.01
    sent = 0
    bundles: list[bytes] = []
    pongs: list[bytes] = []
    for k, datagram in enumerate(frames):
        when = start + k * period
        if skeleton and k % every == 0:
            # A quarter of a period before the frame, since a suit sends it between two frames.
            _wait_until(when - period / 4)
            sender.sendto(skeleton, to)
        _wait_until(when)
        sender.sendto(datagram, to)
        sent += 1
        _wait_until(when + period / 2)
        pinger.sendto(b"ping", echo)
        _drain(receiver, bundles)
        _drain(pinger, pongs)
    time.sleep(0.3)
    _drain(receiver, bundles)
    _drain(pinger, pongs)
    sender.sendto(b"end", echo)
    numbers = _numbers(bundles)
    gaps = sum(b - a - 1 for a, b in itertools.pairwise(numbers))
    return {"sent": sent, "bundles": len(numbers), "gaps": gaps, "pongs": len(pongs)}


def suits() -> dict[str, Any]:
    """Send the same frames from each of N suits, and count the bundles received."""
    receiver, *senders = (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(int(sys.argv[2]) + 1)
    )
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    receiver.setblocking(False)
    for sock in (receiver, *senders):
        sock.bind(("127.0.0.1", 0))
    print(json.dumps({"ports": [sock.getsockname()[1] for sock in (receiver, *senders)]}), flush=True)
    plan = _read_plan()
    skeleton, *frames = _datagrams(sys.stdin.buffer.read())
    to, period = ("127.0.0.1", plan["port"]), 1.0 / plan["rate"]
    time.sleep(plan["pause"])
    start, count = time.perf_counter() + 0.01, 0
    bundles: list[bytes] = []
    for k, datagram in enumerate(frames):
        for sender, phase in zip(senders, plan["phases"], strict=True):
            _wait_until(start + (k + phase) * period)
            if k % plan["skeleton_every"] == 0:
                sender.sendto(skeleton, to)
            sender.sendto(datagram, to)
        _drain(receiver, bundles)
        count += sum(b"/frame\0" in b[20:80] for b in bundles)
        bundles.clear()
    time.sleep(0.3)
    _drain(receiver, bundles)
    return {"bundles": count + sum(b"/frame\0" in b[20:80] for b in bundles)}


def echo() -> dict[str, Any]:
    """Return datagrams until one is ``end``; with the pipeline's priority unless the role is ``ordinary``."""
    if "ordinary" not in sys.argv:
        tuning.raise_priority()
        tuning.lock_memory()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    if sys.platform == "linux":
        sock.setsockopt(socket.SOL_SOCKET, LINUX_TIMESTAMPNS, 1)
    print(sock.getsockname()[1], flush=True)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    times: list[float] = []
    ancillary: list[tuple[int, int, bytes]] = []
    while True:
        if sys.platform == "win32":
            data, peer = sock.recvfrom(2048)
        else:
            data, ancillary, _, peer = sock.recvmsg(2048, 128)
        if data == b"end":
            return {"times_ms": times}
        received_ns = time.time_ns()
        sock.sendto(data, peer)
        times.append((age_ns(ancillary[0][2]) if ancillary else time.time_ns() - received_ns) / 1e6)


if __name__ == "__main__":
    print(json.dumps({"suit": suit, "suits": suits, "echo": echo}[sys.argv[1]]()), flush=True)
