"""Figures of known logs: planned faults, gaps, latencies, missing datagrams."""

import itertools
from random import Random

import numpy as np
import pytest

from realtime.soak.report import QUIET, figures
from realtime.soak.run import plan
from realtime.soak.suit import CLEAN, DISTURBED, NETWORKS

KINDS = ("a", "b", "c")
MS = 1_000_000


@pytest.mark.parametrize("seconds", [6.0, 60.0, 3600.0])
def test_every_fault_is_planned_once_before_any_repeats(seconds: float) -> None:
    planned = plan(KINDS, seconds, Random(1))
    for each in zip(*[iter(planned)] * len(KINDS), strict=True):
        assert {kind for kind, *_ in each} == set(KINDS)
    assert len(planned) == pytest.approx(max(seconds / 12.0, len(KINDS)), abs=len(KINDS))
    times = [0.0, *(at for _, at, _ in planned), seconds]
    assert all(a < b for a, b in itertools.pairwise(times))
    assert min(lasts for *_, lasts in planned) >= 0.4
    assert planned == plan(KINDS, seconds, Random(1)) != plan(KINDS, seconds, Random(2))


@pytest.mark.parametrize(("word", "least", "most"), [
    ("loss", 700, 900), ("jitter", 1000, 1000), ("reorder", 1000, 1000), ("duplicates", 1400, 1600),
    ("bursts", 1000, 1000), ("silence", 0, 0),
])  # fmt: skip
def test_simulated_networks_do_what_their_names_say(word: str, least: int, most: int) -> None:
    chance = Random(2)
    sent = [n * 20 * MS for n in range(1000)]
    delays = [NETWORKS[word](t, chance) for t in sent]
    assert least <= sum(map(len, delays)) <= most
    assert all(0 <= delay <= 150 * MS for one in delays for delay in one)
    arrivals = [t + one[0] for t, one in zip(sent, delays, strict=True) if one]
    if word == "reorder":
        assert arrivals != sorted(arrivals)
    if word == "bursts":
        assert len(set(arrivals)) == pytest.approx(20_000 / 150, abs=1)


def log(minutes: int = 1, what: int = CLEAN) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A frame each 20 ms, its bundle 0.5 ms later; what the show took each 20 s."""
    number = np.arange(minutes * 3000)
    left = 100 * MS + number * 20 * MS
    usage = [(at, mb * 10**6, 5 * 10**6, mb // 10, 7) for at, mb in ((left[500], 300), (left[-1], 200))]
    received = np.stack([left + MS // 2, number], 1)
    # The first left before the first bundle came.
    return np.stack([left + 1, np.full_like(left, what)], 1), received, np.array(usage)


def test_a_show_without_faults() -> None:
    report = figures(*log(2), [])
    assert (report["frames_sent"], report["bundles"], report["missed"]) == (5999, 6000, 0)
    assert report["gap_ms"] == pytest.approx(20.0)
    assert report["latency_ms"] == {"p50": 0.5, "p99": 0.5}
    assert report["latency_of"] == 5998
    assert [row["kind"] for row in report["by_kind"]] == [QUIET]
    first, second = report["by_minute"]
    assert (first["bundles"], second["bundles"]) == (2999, 3000)
    assert (first["show_mb"], first["descriptors"], first["processes"]) == (300.0, 30, 7)
    assert (second["show_mb"], second["children_mb"]) == (200.0, 5.0)


def test_missing_bundles_belong_to_the_current_fault() -> None:
    sent, received, usage = log()
    received[-1, 0] += 17 * MS + 123_456
    received = np.delete(received, (500, 501, 502, 1500), 0)
    happened = [
        {"kind": "disk", "at_s": 9.99, "lasted_s": 0.03, "back_s": 0.25},
        {"kind": "disk", "at_s": 20.0, "lasted_s": 0.1, "back_s": None},
        {"kind": "net", "at_s": 50.0, "lasted_s": 0.1, "back_s": 0.0},
    ]
    report = figures(sent, received, usage, happened)
    rows = {row["kind"]: row for row in report["by_kind"]}
    assert (rows["disk"]["times"], rows["disk"]["missed"], rows["disk"]["not_back"]) == (2, 3, 1)
    assert rows["disk"]["gap_ms"] == pytest.approx(80.0)
    assert (rows["disk"]["over_bar"], rows["disk"]["back_s"]) == (1, 0.25)
    assert (rows["net"]["missed"], rows["net"]["gap_ms"]) == (0, pytest.approx(20.0))
    # Rounded to a hundredth of a millisecond.
    assert (rows[QUIET]["missed"], rows[QUIET]["gap_ms"]) == (1, 40.0)
    assert (report["missed"], report["not_back"], report["by_minute"][0]["gap_ms"]) == (4, 1, 80.0)


def test_latency_uses_frames_answered_before_the_next() -> None:
    sent = np.array([(0, CLEAN), (20, CLEAN), (40, CLEAN), (60, CLEAN)]) * (MS, 1)
    received = np.array([(-5, 0), (1, 1), (23, 2), (65, 3)]) * (MS, 1)
    report = figures(sent, received, log()[2], [])
    assert (report["latency_of"], report["latency_ms"]["p50"]) == (2, 2.0)
    report = figures(*log(what=DISTURBED), [])
    assert (report["frames_sent"], report["latency_of"], report["latency_ms"]) == (2999, 0, {})
