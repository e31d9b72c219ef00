"""The table of ``make bench``: what it times works, and a turn without a figure is no end of it."""

from math import isnan

import pytest
from benches import beside

NONE = {"p50": None, "p99": None}
SOME = {"p50": 0.5, "p99": 0.9}


def test_both_bundles_leave_and_take_their_time() -> None:
    took = beside.bundles_us()
    assert {"ours", "python-osc"} <= set(took)
    assert all(value > 0.0 for value in took.values())


@pytest.mark.parametrize("without", [1, 2 * beside.TURNS])
def test_turns_without_a_frame_are_left_out(without: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([NONE] * without + [SOME] * (2 * beside.TURNS - without))

    def run(seconds: float, spin: bool) -> dict[str, object]:
        return {"latency_ms": next(runs), "echo_ms": SOME, "core": 0.05}

    monkeypatch.setattr(beside.latency, "run", run)
    monkeypatch.setattr(beside.gc, "collect", lambda: 0)
    found = beside.live(12.0)
    for name in ("asleep", "awake"):
        assert isnan(found[name]["p50"]) if without > 1 else found[name]["p50"] == 0.5
    assert found["echo"] == SOME
