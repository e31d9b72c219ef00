"""How much a stranger may ask: commands a second and a datagram, and lines at the terminal."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from realtime.sockets import is_loopback

__all__ = ["Bucket", "Budgets", "Lines"]

# Senders that are remembered.
_MOST_HOSTS = 64
_SAID_EVERY = 10.0


class Bucket:
    """Lets ``rate`` things a second pass, and ``burst`` at once. ``now`` is the time in seconds."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._now = rate, burst, now
        self._left, self._at = burst, now()

    def take(self, cost: float = 1.0) -> bool:
        """Whether it may pass; what may not costs nothing."""
        now = self._now()
        self._left = min(self._left + (now - self._at) * self._rate, self._burst)
        self._at = now
        if self._left < cost:
            return False
        self._left -= cost
        return True

    @property
    def is_spared(self) -> bool:
        """Whether at least half of it is left."""
        return self._left >= self._burst / 2


class Budgets:
    """One bucket a host, and one for all hosts beyond this machine together.

    Where that is empty, one more is for those who have hardly asked: a flood of others does not silence them.
    """

    def __init__(self, rate: float, burst: float, together: int = 4) -> None:
        self._rate, self._burst = rate, burst
        self._all = Bucket(together * rate, together * burst)
        self._spare = Bucket(rate, burst)
        self._hosts: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, host: str) -> bool:
        """Whether a command of this host may pass."""
        if host not in self._hosts:
            if len(self._hosts) >= _MOST_HOSTS:
                self._hosts.popitem(last=False)
            self._hosts[host] = Bucket(self._rate, self._burst)
        self._hosts.move_to_end(host)
        own = self._hosts[host]
        if not own.take():
            return False
        return is_loopback(host) or self._all.take() or (own.is_spared and self._spare.take())


class Lines:
    """Lets a few lines through to ``say``; how many were kept back stands in the next one."""

    def __init__(self, say: Callable[[str], None], bucket: Bucket | None = None) -> None:
        self._say = say
        self._bucket = bucket or Bucket(1 / _SAID_EVERY, 6)
        self._kept = 0
        self._last = ""

    def __call__(self, line: str) -> None:
        """Say it, unless it was said just now or too much was."""
        if line == self._last:
            return
        if not self._bucket.take():
            self._kept += 1
            return
        self._last = line
        self._say(f"{line} ({self._kept} more were not told)" if self._kept else line)
        self._kept = 0
