"""The other side of ``bench latency``, in a process of its own: a suit and a synth, or a bare echo.

``python -P -m realtime.bench.peer suit``: reads a line of JSON and datagrams from standard input, sends them
at a steady pace, pings the echo half a frame later, counts the bundles that come back.
``... suits N``: the same of so many suits, each from a port of its own and at its own part of the period.
``... echo``: returns every datagram at once and remembers how long that took from the kernel's stamp.
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

_SPIN = 0.0003
_TIMESTAMPNS = 35


def _wait_until(when: float) -> None:
    """Sleep most of the way, spin the rest: sleeps alone are late by up to a millisecond."""
    rest = when - time.perf_counter() - _SPIN
    if rest > 0:
        time.sleep(rest)
    while time.perf_counter() < when:
        pass


def _drain(sock: socket.socket, into: list[bytes]) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            into.append(sock.recv(65536))


def _numbers(bundles: list[bytes]) -> list[int]:
    """The frame numbers of bundles: of their first element, `/anticip/frame ,if`."""
    return [int.from_bytes(b[40:44], "big") for b in bundles if b[20:40] == b"/anticip/frame\0\0,if\0"]


def _datagrams(data: bytes) -> list[bytes]:
    """Each has its length before it, u32 little-endian."""
    out, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        out.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out


def _plan() -> dict[str, Any]:
    """What the bench says is to be sent; without a bench there is nothing to do."""
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit()
    plan: dict[str, Any] = json.loads(line)
    return plan


def _end_with_the_bench() -> None:
    """Standard input is open as long as the bench lives.

    Read past Python's buffer: its lock, held by this thread when the peer ends first, would be a fatal error.
    """
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


def suit() -> dict[str, Any]:
    """Send, ping and count as standard input says; its first datagram is the skeleton."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    receiver.bind(("127.0.0.1", 0))
    receiver.setblocking(False)
    pinger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    pinger.setblocking(False)
    print(receiver.getsockname()[1], flush=True)
    plan = _plan()
    skeleton, *frames = _datagrams(sys.stdin.buffer.read())
    to, echo = ("127.0.0.1", plan["port"]), ("127.0.0.1", plan["echo"])
    period, every = 1.0 / plan["rate"], plan["skeleton_every"]
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    time.sleep(plan["pause"])
    begun = time.perf_counter() + 0.01
    sent = 0
    bundles: list[bytes] = []
    pongs: list[bytes] = []
    for k, datagram in enumerate(frames):
        when = begun + k * period
        if skeleton and k % every == 0:
            # Well before the frame, as a suit sends it between two frames.
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
    """Send the same frames from each of so many suits, and count the bundles that come back."""
    receiver, *senders = (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(int(sys.argv[2]) + 1)
    )
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    receiver.setblocking(False)
    for sock in (receiver, *senders):
        sock.bind(("127.0.0.1", 0))
    print(json.dumps({"ports": [sock.getsockname()[1] for sock in (receiver, *senders)]}), flush=True)
    plan = _plan()
    skeleton, *frames = _datagrams(sys.stdin.buffer.read())
    to, period = ("127.0.0.1", plan["port"]), 1.0 / plan["rate"]
    time.sleep(plan["pause"])
    begun, count = time.perf_counter() + 0.01, 0
    bundles: list[bytes] = []
    for k, datagram in enumerate(frames):
        for sender, phase in zip(senders, plan["phases"], strict=True):
            _wait_until(begun + (k + phase) * period)
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
    """Return datagrams until one says end; with the pipeline's own priority unless told otherwise."""
    if "ordinary" not in sys.argv:
        tuning.raise_priority()
        tuning.lock_memory()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    stamped = False
    if sys.platform == "linux":
        sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        stamped = True
    print(sock.getsockname()[1], flush=True)
    threading.Thread(target=_end_with_the_bench, daemon=True).start()
    times: list[float] = []
    ancillary: list[tuple[int, int, bytes]] = []
    while True:
        if sys.platform == "win32":
            data, peer = sock.recvfrom(2048)
        else:
            data, ancillary, _, peer = sock.recvmsg(2048, 128)
        if data == b"end":
            return {"times_ms": times}
        begun = time.time_ns()
        if stamped and ancillary:
            seconds, nanos = struct.unpack_from("@qq", ancillary[0][2])
            begun = seconds * 1_000_000_000 + nanos
        sock.sendto(data, peer)
        times.append((time.time_ns() - begun) / 1e6)


if __name__ == "__main__":
    print(json.dumps({"suit": suit, "suits": suits, "echo": echo}[sys.argv[1]]()), flush=True)
