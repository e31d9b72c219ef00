"""The motion sender, a process beside: ``python -P -m realtime.soak.suit PORT SEED`` plays a mocopi suit to
``PORT``, over a network that changes as it is told.

A line through standard input is the name of a network of :data:`NETWORKS`, ``clean``,
``malformed`` (broken copies between the frames) or ``restart`` (the suit counts anew). Standard output has
the port that it sends from, and then a record of each datagram that left.
"""

from __future__ import annotations

import heapq
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from pyanticip.errors import DeviceError
from realtime import tuning

__all__ = ["CLEAN", "DISTURBED", "NETWORKS", "Network", "Suit", "broken"]

_MS = 1_000_000

#: From when it is sent (ns) to the delays (ns) of what arrives of it.
Network = Callable[[int, Random], tuple[int, ...]]


def _loss(sent: int, chance: Random) -> tuple[int, ...]:
    """One in five is lost."""
    return () if chance.random() < 0.2 else (0,)


def _jitter(sent: int, chance: Random) -> tuple[int, ...]:
    """Half normal delays of 10 ms."""
    return (round(abs(chance.gauss(0.0, 10.0 * _MS))),)


def _reorder(sent: int, chance: Random) -> tuple[int, ...]:
    """One in five is overtaken by the next, or by the one after that."""
    return (chance.choice((25, 45)) * _MS if chance.random() < 0.2 else 0,)


def _duplicates(sent: int, chance: Random) -> tuple[int, ...]:
    """One in two comes twice."""
    return (0, round(chance.uniform(0.0, 60.0) * _MS)) if chance.random() < 0.5 else (0,)


def _bursts(sent: int, chance: Random) -> tuple[int, ...]:
    """Held back, and delivered together every 150 ms."""
    return (150 * _MS - sent % (150 * _MS),)


def _silence(sent: int, chance: Random) -> tuple[int, ...]:
    """Nothing arrives."""
    return ()


NETWORKS: dict[str, Network] = {
    "loss": _loss,
    "jitter": _jitter,
    "reorder": _reorder,
    "duplicates": _duplicates,
    "bursts": _bursts,
    "silence": _silence,
}


#: When it left and when it was to leave (monotonic ns), and what it is.
_LEFT = struct.Struct("<qqb")
#: A skeleton or a broken packet; a frame over a poor network; a frame that nothing delays.
_OTHER, DISTURBED, CLEAN = range(3)
_MOTION = Path(__file__).parents[1] / "data" / "performance.bvh"


class Suit(threading.Thread):
    """The parent's end: tells it of networks, remembers what left.

    ``left`` and ``due`` are monotonic nanoseconds of each datagram; ``what`` it is: :data:`CLEAN`,
    :data:`DISTURBED` or another.
    """

    def __init__(self, port: int, seed: int) -> None:
        super().__init__(name="suit", daemon=True)
        self.left, self.due, self.what = array("q"), array("q"), array("b")
        command = [sys.executable, "-P", "-m", "realtime.soak.suit", str(port), str(seed)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        self._told = b""
        #: Where its datagrams come from, as a recording names it.
        self.sender = f"127.0.0.1:{self._line()}"
        self.start()

    def _line(self) -> str:
        out = self._process.stdout
        assert out is not None
        found = b""
        while not found.endswith(b"\n"):
            byte = out.read(1)
            if not byte:
                raise DeviceError("soak: the suit's process did not start")
            found += byte
        return found.decode().strip()

    def run(self) -> None:
        """Read what it says until it ends."""
        out = self._process.stdout
        assert out is not None
        while data := out.read(1 << 12):
            self._told += data
            whole = len(self._told) // _LEFT.size * _LEFT.size
            for left, due, what in _LEFT.iter_unpack(self._told[:whole]):
                self.left.append(left)
                self.due.append(due)
                self.what.append(what)
            self._told = self._told[whole:]

    def tell(self, word: str) -> None:
        """A network, ``clean``, ``malformed`` or ``restart``."""
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self.join(2.0)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def broken(datagram: bytes, chance: random.Random) -> bytes:
    """A datagram that came to harm: cut off, lengthened, without its beginning, or other bytes altogether."""
    at = chance.randrange(1, len(datagram))
    return chance.choice(
        (datagram[:at], datagram[at:], datagram + datagram[:at], chance.randbytes(at), b"", datagram[:at] * 2)
    )


def _stream() -> Iterator[tuple[int, bytes, bool]]:
    """What a suit sends, for ever: ns since it began, a datagram, whether it is a frame."""
    from pyanticip.motion.datagrams import datagrams
    from pyanticip.motion.load import load_motion

    stream = datagrams(load_motion(_MOTION), "mocopi", loop=True)
    at, skeleton = next(stream)
    yield at, skeleton, False
    for at, datagram in stream:
        yield at, datagram, datagram is not skeleton


def _send(sock: socket.socket, where: tuple[str, int], seed: int) -> None:
    chance = random.Random(seed)
    told, network, is_malformed = b"", None, False
    # What is under way: when it is due, its number (they leave in order), the datagram, what it is.
    way: list[tuple[int, int, bytes, int]] = []
    stream, count = _stream(), 0
    next(stream)  # the file is read
    stream, begun = _stream(), time.monotonic_ns() + 100_000_000
    at, datagram, is_frame = next(stream)
    while True:
        while not way or begun + at <= way[0][0]:
            sent = begun + at
            what = (CLEAN if network is None and not is_malformed else DISTURBED) if is_frame else _OTHER
            for delay in (0,) if network is None else network(sent, chance):
                heapq.heappush(way, (sent + delay, count, datagram, what))
                count += 1
            if is_malformed:
                heapq.heappush(way, (sent + 8_000_000, count, broken(datagram, chance), _OTHER))
                count += 1
            at, datagram, is_frame = next(stream)
            if not way:
                _sleep_until(sent)
                break
        if way:
            due, _, whole, what = heapq.heappop(way)
            _sleep_until(due)
            left = time.monotonic_ns()
            sock.sendto(whole, where)
            os.write(1, _LEFT.pack(left, due, what))
        while select.select([0], [], [], 0)[0]:
            heard = os.read(0, 4096)
            if not heard:
                return
            *words, told = (told + heard).split(b"\n")
            for word in map(bytes.decode, words):
                if word == "restart":
                    stream, begun = _stream(), time.monotonic_ns() + 20_000_000
                    at, datagram, is_frame = next(stream)
                else:
                    network, is_malformed = NETWORKS.get(word), word == "malformed"


def _sleep_until(t_ns: int) -> None:
    while (left := t_ns - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)


def main(arguments: list[str]) -> int:
    """The process."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        os.write(1, f"{sock.getsockname()[1]}\n".encode())
        # As punctual as the show, or its lateness would be taken for the show's.
        tuning.raise_priority()
        _send(sock, ("127.0.0.1", int(arguments[0])), int(arguments[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
