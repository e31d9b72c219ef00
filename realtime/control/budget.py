"""Rate limits on what unknown senders may cause: commands, and lines at the terminal."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from realtime.sockets import is_loopback

# Maximum number of hosts that are remembered.
_MAX_HOSTS = 64
_LINE_INTERVAL_S = 10.0


class Bucket:
    """Token bucket: ``rate`` tokens per second, at most ``burst`` at once. ``now`` is the time in seconds."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._now = rate, burst, now
        self._left, self._filled_at = burst, now()

    def take(self, cost: float = 1.0) -> bool:
        """Take ``cost`` tokens, if there are as many; returns whether there were."""
        now = self._now()
        self._left = min(self._left + (now - self._filled_at) * self._rate, self._burst)
        self._filled_at = now
        if self._left < cost:
            return False
        self._left -= cost
        return True

    @property
    def is_half_full(self) -> bool:
        """Whether at least half of the tokens are left."""
        return self._left >= self._burst / 2


class Budgets:
    """One bucket for each host, and one for all other machines together.

    If that is empty, a spare one serves hosts that have hardly used their own, so that a flood from others
    does not block them.
    """

    def __init__(self, rate: float, burst: float, total_factor: int = 4) -> None:
        self._rate, self._burst = rate, burst
        self._remote_hosts = Bucket(total_factor * rate, total_factor * burst)
        self._spare = Bucket(rate, burst)
        self._hosts: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, host: str) -> bool:
        """Whether a command of this host is admitted."""
        if host not in self._hosts:
            if len(self._hosts) >= _MAX_HOSTS:
                self._hosts.popitem(last=False)
            self._hosts[host] = Bucket(self._rate, self._burst)
        self._hosts.move_to_end(host)
        own = self._hosts[host]
        if not own.take():
            return False
        return is_loopback(host) or self._remote_hosts.take() or (own.is_half_full and self._spare.take())


class Lines:
    """Passes a limited number of lines to ``say``; the next one tells how many were dropped."""

    def __init__(self, say: Callable[[str], None], bucket: Bucket | None = None) -> None:
        self._say = say
        self._bucket = bucket or Bucket(1 / _LINE_INTERVAL_S, 6)
        self._dropped = 0
        self._last = ""

    def __call__(self, line: str) -> None:
        """Pass a line on, unless it equals the last one or exceeds the limit."""
        if line == self._last:
            return
        if not self._bucket.take():
            self._dropped += 1
            return
        self._last = line
        self._say(f"{line} ({self._dropped} more were dropped)" if self._dropped else line)
        self._dropped = 0
