"""What a network does to the datagrams of a suit: for each, after how long it comes, how often, or never."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

__all__ = ["NETWORKS", "Network"]

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
