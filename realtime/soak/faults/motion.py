"""What comes from the suit and from others: poor networks, broken packets, strangers."""

from __future__ import annotations

import socket
import time
from functools import partial

from realtime.soak.faults.base import Fault, Scene, back_to, wait
from realtime.soak.suit import NETWORKS

__all__ = ["FAULTS"]

_FLOOD, _AT_ONCE = 5000, 50


def _network(scene: Scene, word: str) -> float | None:
    """The suit's datagrams over another network, or beside broken ones."""
    scene.suit.tell(word)
    try:
        wait(scene)
    finally:
        scene.suit.tell("clean")
    return back_to(scene, "playing")


def _restart(scene: Scene) -> float | None:
    """The suit counts from nought again."""
    scene.suit.tell("restart")
    return back_to(scene, "playing")


def _stray(scene: Scene) -> float | None:
    """Another suit sends to the same port, fifty frames a second of a body of its own."""
    from realtime.bench.performer import mocopi_datagrams

    skeleton, frames = mocopi_datagrams(max(round(50 * scene.lasts), 1))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        where = ("127.0.0.1", scene.show.source)
        for n, datagram in enumerate(frames):
            if n % 50 == 0:
                sock.sendto(skeleton, where)
            sock.sendto(datagram, where)
            wait(scene, 0.02)
    return back_to(scene, f"from={scene.suit.sender}")


def _flood(scene: Scene) -> float | None:
    """Five thousand datagrams a second of noise, each fifty from a port of their own."""
    where, until = ("127.0.0.1", scene.show.source), time.monotonic() + scene.lasts
    while time.monotonic() < until:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _ in range(_AT_ONCE):
                sock.sendto(scene.chance.randbytes(scene.chance.randrange(2000)), where)
        wait(scene, _AT_ONCE / _FLOOD)
    return back_to(scene, "playing")


FAULTS: dict[str, Fault] = {
    **{f"network: {word}": partial(_network, word=word) for word in NETWORKS},
    "packets: broken": partial(_network, word="malformed"),
    "packets: flood": _flood,
    "packets: another suit": _stray,
    "suit: restart": _restart,
}
