"""What can go wrong while a show plays: what a fault is, those of processes and of motion, and when which
happens."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from realtime.soak.osc_recorder import Guest
from realtime.soak.servers import Pulse
from realtime.soak.show_process import ShowProcess
from realtime.soak.suit import NETWORKS, Suit

__all__ = [
    "CHILDREN",
    "MOTION",
    "PROCESSES",
    "Fault",
    "FaultContext",
    "Planned",
    "back",
    "back_to",
    "plan",
    "recorded_again",
    "wait",
]

# Who is not back after so long is gone: pauses before a restart grow to 30 s, and what stands still is left
# so for 10.
_PATIENCE_S = 60.0
# The status comes once a second: what it says after so long is not of before.
_ANEW_S = 1.1
# Noise: datagrams a second, and so many at a time.
_FLOOD, _AT_ONCE = 5000, 50
# A fault has so many seconds, if there is time; the first begins when it has been quiet for so long, the last
# leaves so much for the show to be seen whole again.
_EACH, _BEFORE, _AFTER = 12.0, 2.0, 3.0
# How long a fault lasts that lasts: at least, and at most of the time that it has.
_SHORTEST, _MOST = 0.4, 0.5


@dataclass(frozen=True)
class FaultContext:
    """A show that plays, what is around it, and for how long (seconds) a fault that lasts is to last."""

    show: ShowProcess
    suit: Suit
    guests: tuple[Guest, ...]
    pulse: Pulse | None
    chance: random.Random
    lasts: float


#: Does what goes wrong and sets it right again, in the calling thread; returns seconds from then until all
#: was as before, None where it was not in time.
Fault = Callable[[FaultContext], float | None]


def wait(context: FaultContext, seconds: float | None = None) -> None:
    """As long as the fault lasts, or so long; raises ShowEndedError when the show does not."""
    until = time.monotonic() + (context.lasts if seconds is None else seconds)
    while context.show.pid and (left := until - time.monotonic()) > 0.0:
        time.sleep(min(left, 0.1))


def back(context: FaultContext, condition: Callable[[], object]) -> float | None:
    """Seconds from now until something is so; None: not in time."""
    begun = time.monotonic()
    found = context.show.until(condition, _PATIENCE_S)
    return time.monotonic() - begun if found else None


def back_to(context: FaultContext, beginning: str) -> float | None:
    """Seconds from now until a new status has a word that begins so."""
    since = time.monotonic() + _ANEW_S
    return back(context, lambda: time.monotonic() > since and context.show.says(beginning))


def recorded_again(context: FaultContext, take: str) -> float | None:
    """Seconds from now until the show records: into a new file where it does not go on by itself."""
    since = time.monotonic() + _ANEW_S

    def does() -> bool:
        nonlocal since
        if (now := time.monotonic()) < since or context.show.says("recording=yes"):
            return now >= since
        if context.show.says("recording=no") and not context.show.says("recording=no ("):
            since = now + _ANEW_S
            context.show.command("record/start", take)
        return False

    return back(context, does)


#: What each runs, by the word that the status has for it.
CHILDREN = {
    "recorder": "realtime.recording.writer",
    "voice": "realtime.voice.synth",
    "monitor": "realtime.monitor.server",
    "guard": "realtime.sinks.guard",
    "oscquery": "realtime.oscquery.server",
    "midi": "realtime.sinks.midi.port",
}


def _is_well(show: ShowProcess, word: str) -> bool:
    """Whether the newest status has nothing to say against a process."""
    if word == "midi":
        return not show.says("away=midi")
    if word == "recorder" and not show.says("recording=yes"):
        return False
    return show.says(f"{word}=yes") or show.says(f"{word}=no (no audio device)")


def _killed(context: FaultContext, word: str) -> float | None:
    show, before = context.show, context.show.children(CHILDREN[word])
    for pid in before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    came_ns = 0

    def plays() -> bool:
        nonlocal came_ns
        if not came_ns and set(show.children(CHILDREN[word])) - set(before):
            came_ns = time.monotonic_ns()
        # What was told since it came.
        return 0 < came_ns < show.ear.told_ns and _is_well(show, word)

    return back(context, plays)


def _stands_still(context: FaultContext) -> float | None:
    """One of them is stopped, and goes on, unless it was begun anew meanwhile."""
    show = context.show
    there = [word for word, module in CHILDREN.items() if show.children(module)]
    word = context.chance.choice(there)
    stopped = show.children(CHILDREN[word])
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait(context)
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    since = time.monotonic_ns()
    return back(context, lambda: show.ear.told_ns > since and _is_well(show, word))


#: Processes that die, or stand still.
PROCESSES: dict[str, Fault] = {
    **{f"killed: {word}": partial(_killed, word=word) for word in CHILDREN},
    "stands still: a child": _stands_still,
}


def _network(context: FaultContext, word: str) -> float | None:
    """The suit's datagrams over another network, or beside broken ones."""
    context.suit.tell(word)
    try:
        wait(context)
    finally:
        context.suit.tell("clean")
    return back_to(context, "playing")


def _restart(context: FaultContext) -> float | None:
    """The suit counts from nought again."""
    context.suit.tell("restart")
    return back_to(context, "playing")


def _stray(context: FaultContext) -> float | None:
    """Another suit sends to the same port, fifty frames a second of a body of its own."""
    from realtime.bench.performer import mocopi_datagrams

    skeleton, frames = mocopi_datagrams(max(round(50 * context.lasts), 1))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        where = ("127.0.0.1", context.show.source)
        for n, datagram in enumerate(frames):
            if n % 50 == 0:
                sock.sendto(skeleton, where)
            sock.sendto(datagram, where)
            wait(context, 0.02)
    return back_to(context, f"from={context.suit.sender}")


def _flood(context: FaultContext) -> float | None:
    """Five thousand datagrams a second of noise, each fifty from a port of their own."""
    where, until = ("127.0.0.1", context.show.source), time.monotonic() + context.lasts
    while time.monotonic() < until:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _ in range(_AT_ONCE):
                sock.sendto(context.chance.randbytes(context.chance.randrange(2000)), where)
        wait(context, _AT_ONCE / _FLOOD)
    return back_to(context, "playing")


#: Poor networks, broken packets, strangers.
MOTION: dict[str, Fault] = {
    **{f"network: {word}": partial(_network, word=word) for word in NETWORKS},
    "packets: broken": partial(_network, word="malformed"),
    "packets: flood": _flood,
    "packets: another suit": _stray,
    "suit: restart": _restart,
}


class Planned(NamedTuple):
    """A fault: what, how many seconds after the first frame, for how long, and the chance of the rest."""

    kind: str
    at: float
    lasts: float
    seed: int


def plan(kinds: Sequence[str], seconds: float, seed: int) -> list[Planned]:
    """The faults of a show of so many seconds: all kinds at least once, however short it is."""
    chance = random.Random(seed)
    room = max(seconds - _BEFORE - _AFTER, 0.0)
    rounds = max(round(room / (_EACH * len(kinds))), 1)
    order = [kind for _ in range(rounds) for kind in chance.sample(list(kinds), len(kinds))]
    each = room / len(order)
    return [
        Planned(
            kind,
            round(_BEFORE + (n + 0.3 * chance.random()) * each, 3),
            round(max(chance.uniform(0.1, _MOST) * each, _SHORTEST), 3),
            chance.getrandbits(32),
        )
        for n, kind in enumerate(order)
    ]
