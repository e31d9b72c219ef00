"""Rate limits on commands of unknown senders, and on the lines that they cause."""

import pytest

from realtime.control import budget
from realtime.control.budget import Bucket, Budgets, Lines


class ManualClock:
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_allows_a_burst_and_refills_at_its_rate() -> None:
    clock = ManualClock()
    bucket = Bucket(2.0, 3.0, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.now += 0.49
    assert not bucket.take()
    clock.now += 0.01
    assert [bucket.take(), bucket.take()] == [True, False]
    clock.now += 60.0
    assert not bucket.take(3.1)
    assert [bucket.take(3.0), bucket.take(0.1)] == [True, False]


def test_hosts_have_their_own_budget_and_share_that_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    monkeypatch.setattr(budget, "Bucket", lambda rate, burst: Bucket(rate, burst, clock))
    budgets = Budgets(1.0, 2.0)
    assert [budgets.take("a") for _ in range(3)] == [True, True, False]
    assert sum(budgets.take(host) for host in "bcd" for _ in range(3)) == 6
    # If others have used up the shared budget, a host that hardly used its own is admitted; this machine
    # always is.
    assert [budgets.take("e"), budgets.take("f"), budgets.take("e"), budgets.take("g")] == [
        True, True, False, False
    ]  # fmt: skip
    assert [budgets.take("127.0.0.1") for _ in range(3)] == [True, True, False]
    clock.now += 1.0
    assert [budgets.take("a"), budgets.take("b"), budgets.take("a")] == [True, True, False]
    # 64 hosts are remembered; the least recent one is forgotten.
    clock.now += 1e3
    assert [budgets.take("a") for _ in range(3)] == [True, True, False]
    for number in range(63):
        clock.now += 1e-3
        budgets.take(f"host {number}")
    assert not budgets.take("a")
    budgets.take("one more")
    budgets.take("and one")
    assert len(budgets._hosts) == 64
    assert "a" in budgets._hosts
    assert "host 1" not in budgets._hosts


def test_repeated_lines_are_dropped_and_dropped_lines_are_counted() -> None:
    clock = ManualClock()
    printed: list[str] = []
    lines = Lines(printed.append, Bucket(1.0, 2.0, clock))
    for line in ("one", "one", "two", "three", "four", "one"):
        lines(line)
    assert printed == ["one", "two"]
    clock.now += 1.0
    lines("two")
    lines("five")
    assert printed[2:] == ["five (3 more were dropped)"]
    clock.now += 1.0
    lines("six")
    assert printed[3:] == ["six"]
