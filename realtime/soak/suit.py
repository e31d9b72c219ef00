"""The motion sender, a process beside: a mocopi suit, over a network that changes as it is told.

``python -P -m realtime.soak.suit FROM TO SEED`` plays from one port to another, once it reads a word: the
name of a network of :data:`NETWORKS`, ``clean``, ``malformed`` (broken copies between the frames) or
``restart`` (the suit counts from nought again). Standard output has of each datagram when it left and what it
was.
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
from pyanticip.system import ALONE
from realtime import tuning
from realtime.sockets import free_port

__all__ = ["CLEAN", "DISTURBED", "NETWORKS", "Suit"]

_MS = 1_000_000
# When it left (monotonic ns), and what it was: a skeleton or a broken packet; a frame over a poor network; a
# frame that nothing delays.
_LEFT = struct.Struct("=qq")
_OTHER, DISTURBED, CLEAN = range(3)
# So long before its time a frame is made.
_AHEAD_NS = 5 * _MS
_MOTION = Path(__file__).parents[1] / "data" / "performance.bvh"

#: From when a datagram is sent (ns) to the delays (ns) of what arrives of it.
NETWORKS: dict[str, Callable[[int, Random], tuple[int, ...]]] = {
    # One in five is lost.
    "loss": lambda sent, chance: () if chance.random() < 0.2 else (0,),
    # Half normal delays of 10 ms.
    "jitter": lambda sent, chance: (round(abs(chance.gauss(0.0, 10.0 * _MS))),),
    # One in five is overtaken by the next, or by the one after that.
    "reorder": lambda sent, chance: (chance.choice((25, 45)) * _MS if chance.random() < 0.2 else 0,),
    # One in two comes twice.
    "duplicates": lambda sent, chance: (0, chance.randrange(60 * _MS)) if chance.random() < 0.5 else (0,),
    # Held back, and delivered together every 150 ms.
    "bursts": lambda sent, chance: (150 * _MS - sent % (150 * _MS),),
    "silence": lambda sent, chance: (),
}


class Suit:
    """The parent's end, which begins it and tells it of networks; ``sender`` is where its datagrams come
    from, as a recording names it."""

    def __init__(self, port: int, seed: int) -> None:
        own = free_port()
        self.sender = f"127.0.0.1:{own}"
        self._records = tempfile.TemporaryFile()  # noqa: SIM115
        words = [sys.executable, "-P", "-m", "realtime.soak.suit", str(own), str(port), str(seed)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=self._records, **ALONE)

    def tell(self, word: str) -> None:
        """A network, ``clean``, ``malformed`` or ``restart``."""
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), word.encode() + b"\n")

    def left(self) -> npt.NDArray[np.int64]:
        """(N, 2): when each datagram left (monotonic ns), and whether it was CLEAN, DISTURBED or another."""
        file = self._records.fileno()
        return np.frombuffer(os.pread(file, os.fstat(file).st_size, 0), np.int64).reshape(-1, 2)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
        self._records.close()


def _broken(datagram: bytes, chance: Random) -> bytes:
    """A datagram that came to harm: cut off, lengthened, without its beginning, or other bytes altogether."""
    at = chance.randrange(1, len(datagram))
    return chance.choice((datagram[:at], datagram[at:], datagram + datagram[:at], chance.randbytes(at), b""))


def _send(sock: socket.socket, where: tuple[str, int], chance: Random) -> None:
    # What is under way: when it is due, its number (they leave in order), the datagram, what it is.
    way: list[tuple[int, int, bytes, int]] = []
    number = itertools.count()

    def deliver(until: int) -> None:
        """What is due by then, each at its time."""
        while way and way[0][0] <= until:
            due, _, datagram, what = heapq.heappop(way)
            _sleep_until(due)
            left = time.monotonic_ns()
            sock.sendto(datagram, where)
            os.write(1, _LEFT.pack(left, what))
        _sleep_until(until)

    clip, word = load_motion(_MOTION), "restart"
    while word == "restart":
        word, begun = "clean", time.monotonic_ns() + 2 * _AHEAD_NS
        stream = datagrams(clip, "mocopi", loop=True)
        _, skeleton = next(stream)
        for at, datagram in itertools.chain([(0, skeleton)], stream):
            sent = begun + at
            deliver(sent - _AHEAD_NS)
            with contextlib.suppress(BlockingIOError):
                if not (told := os.read(0, 4096).decode().split()):
                    return
                word = told[-1]
                # What the network held back comes at once: it is not overtaken by what comes after.
                way[:] = sorted((sent, *held[1:]) for held in way)
                if word == "restart":
                    break
            what = _OTHER if datagram is skeleton else CLEAN if word == "clean" else DISTURBED
            for delay in NETWORKS[word](sent, chance) if word in NETWORKS else (0,):
                heapq.heappush(way, (sent + delay, next(number), datagram, what))
            if word == "malformed":
                heapq.heappush(way, (sent + 8 * _MS, next(number), _broken(datagram, chance), _OTHER))


def _sleep_until(t_ns: int) -> None:
    while (left := t_ns - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)


def main(own: str, port: str, seed: str) -> None:
    """The process."""
    os.read(0, 4096)
    os.set_blocking(0, False)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", int(own)))
        # As punctual as the show, or its lateness would be taken for the show's.
        tuning.raise_priority()
        _send(sock, ("127.0.0.1", int(port)), Random(int(seed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
