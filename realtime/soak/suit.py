"""A simulated mocopi suit in a child process, over simulated networks.

``python -P -m realtime.soak.suit FROM TO SEED`` sends from one port to another. It starts when it reads a
mode from standard input, and changes it with each further one: the name of a network of :data:`NETWORKS`,
``clean``, ``malformed`` (broken copies between the frames) or ``restart`` (frame numbers restart at 0). It
writes the time and kind of each datagram to standard output.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_motion
from pyanticip.system import OWN_PROCESS_GROUP
from realtime import tuning
from realtime.sockets import free_port

_MS = 1_000_000
# A sent datagram: time (monotonic ns) and kind.
_SENT = struct.Struct("=qq")
# Kinds: a skeleton or a broken packet; a frame over a poor network; a frame without any delay.
_OTHER, DISTURBED, CLEAN = range(3)
# Time by which a frame is computed before it is due.
_AHEAD_NS = 5 * _MS
_MOTION = Path(__file__).parents[1] / "data" / "performance.bvh"

#: Networks: functions from the time a datagram is sent (ns) to the delays (ns) of the copies that arrive.
NETWORKS: dict[str, Callable[[int, Random], tuple[int, ...]]] = {
    # One in five is lost.
    "loss": lambda sent, random: () if random.random() < 0.2 else (0,),
    # Half normal delays of 10 ms.
    "jitter": lambda sent, random: (round(abs(random.gauss(0.0, 10.0 * _MS))),),
    # One in five is overtaken by the next, or by the one after that.
    "reorder": lambda sent, random: (random.choice((25, 45)) * _MS if random.random() < 0.2 else 0,),
    # One in two arrives twice.
    "duplicates": lambda sent, random: (0, random.randrange(60 * _MS)) if random.random() < 0.5 else (0,),
    # Held back, and delivered together every 150 ms.
    "bursts": lambda sent, random: (150 * _MS - sent % (150 * _MS),),
    "silence": lambda sent, random: (),
}


class Suit:
    """Starts and controls the suit's process; ``sender`` is its address, as in a recording."""

    def __init__(self, port: int, seed: int) -> None:
        own_port = free_port()
        self.sender = f"127.0.0.1:{own_port}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-P", "-m", "realtime.soak.suit", str(own_port), str(port), str(seed)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self._log, **OWN_PROCESS_GROUP
        )

    def set_mode(self, mode: str) -> None:
        """Set a network, ``clean``, ``malformed`` or ``restart``."""
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), mode.encode() + b"\n")

    def sent(self) -> npt.NDArray[np.int64]:
        """Time (monotonic ns) and kind (CLEAN, DISTURBED or another) of each datagram sent, (N, 2)."""
        file = self._log.fileno()
        return np.frombuffer(os.pread(file, os.fstat(file).st_size, 0), np.int64).reshape(-1, 2)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()


def _broken(datagram: bytes, random: Random) -> bytes:
    """A damaged datagram: truncated, without its beginning, lengthened, random bytes, or empty."""
    at = random.randrange(1, len(datagram))
    return random.choice((datagram[:at], datagram[at:], datagram + datagram[:at], random.randbytes(at), b""))


def _send(sock: socket.socket, address: tuple[str, int], random: Random) -> None:
    # Datagrams on the way: due time (ns), number (so that equal times keep their order), datagram, kind.
    queue: list[tuple[int, int, bytes, int]] = []
    number = itertools.count()

    def deliver(until_ns: int) -> None:
        """Send what is due by then, each at its time."""
        while queue and queue[0][0] <= until_ns:
            due, _, datagram, kind = heapq.heappop(queue)
            _sleep_until(due)
            sent_ns = time.monotonic_ns()
            sock.sendto(datagram, address)
            os.write(1, _SENT.pack(sent_ns, kind))
        _sleep_until(until_ns)

    clip, mode = load_motion(_MOTION), "restart"
    while mode == "restart":
        mode, start_ns = "clean", time.monotonic_ns() + 2 * _AHEAD_NS
        stream = datagrams(clip, "mocopi", loop=True)
        _, skeleton = next(stream)
        for t_ns, datagram in itertools.chain([(0, skeleton)], stream):
            due_ns = start_ns + t_ns
            deliver(due_ns - _AHEAD_NS)
            with contextlib.suppress(BlockingIOError):
                if not (modes := os.read(0, 4096).decode().split()):
                    return
                mode = modes[-1]
                # Delayed datagrams are sent at once, so that later ones do not overtake them.
                queue[:] = sorted((due_ns, *delayed[1:]) for delayed in queue)
                if mode == "restart":
                    break
            kind = _OTHER if datagram is skeleton else CLEAN if mode == "clean" else DISTURBED
            for delay in NETWORKS[mode](due_ns, random) if mode in NETWORKS else (0,):
                heapq.heappush(queue, (due_ns + delay, next(number), datagram, kind))
            if mode == "malformed":
                heapq.heappush(queue, (due_ns + 8 * _MS, next(number), _broken(datagram, random), _OTHER))


def _sleep_until(t_ns: int) -> None:
    while (remaining_ns := t_ns - time.monotonic_ns()) > 0:
        time.sleep(remaining_ns / 1e9)


def main(own_port: str, port: str, seed: str) -> None:
    """Entry point of the suit's process."""
    os.read(0, 4096)
    os.set_blocking(0, False)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", int(own_port)))
        # As punctual as the show, whose latency would otherwise include the suit's delays.
        tuning.raise_priority()
        _send(sock, ("127.0.0.1", int(port)), Random(int(seed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
