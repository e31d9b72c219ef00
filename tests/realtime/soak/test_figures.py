"""What a log says, of logs that are known: planned faults, gaps, latencies, what is missing."""

import itertools
import random

import numpy as np
import pytest

from realtime.soak.faults import plan
from realtime.soak.figures import QUIET, FaultRecord, Log, by_kind, by_minute, figures, latencies
from realtime.soak.processes import Sample
from realtime.soak.suit import CLEAN, DISTURBED, NETWORKS

KINDS = ("a", "b", "c")
MS = 1_000_000


@pytest.mark.parametrize("seconds", [6.0, 60.0, 3600.0])
def test_every_fault_happens_before_any_comes_again_and_in_time(seconds: float) -> None:
    planned = plan(KINDS, seconds, 1)
    assert len(planned) % len(KINDS) == 0
    for n in range(0, len(planned), len(KINDS)):
        assert {one.kind for one in planned[n : n + len(KINDS)]} == set(KINDS)
    assert len(planned) == pytest.approx(max(seconds / 12.0, len(KINDS)), abs=len(KINDS))
    assert all(a.at < b.at for a, b in itertools.pairwise(planned))
    assert planned[0].at > 0.0
    assert planned[-1].at < seconds
    assert min(one.lasts for one in planned) >= 0.4


def test_a_seed_is_a_plan() -> None:
    assert plan(KINDS, 600.0, 3) == plan(KINDS, 600.0, 3)
    assert plan(KINDS, 600.0, 3) != plan(KINDS, 600.0, 4)


@pytest.mark.parametrize(("word", "least", "most"), [
    ("loss", 700, 900), ("jitter", 1000, 1000), ("reorder", 1000, 1000), ("duplicates", 1400, 1600),
    ("bursts", 1000, 1000), ("silence", 0, 0),
])  # fmt: skip
def test_networks_do_what_they_are_called(word: str, least: int, most: int) -> None:
    chance = random.Random(2)
    sent = [n * 20 * MS for n in range(1000)]
    delays = [NETWORKS[word](t, chance) for t in sent]
    assert least <= sum(map(len, delays)) <= most
    assert all(0 <= delay <= 150 * MS for one in delays for delay in one)
    came = [t + one[0] for t, one in zip(sent, delays, strict=True) if one]
    if word == "reorder":
        assert came != sorted(came)
    if word == "bursts":
        assert len(set(came)) == pytest.approx(20_000 / 150, abs=1)


def log(minutes: int = 2) -> Log:
    """A frame each 20 ms, its bundle 0.5 ms later."""
    left = [n * 20 * MS for n in range(minutes * 3000)]
    times = [t + MS // 2 for t in left]
    return Log(left, left, [CLEAN] * len(left), times, list(range(len(left))))


def test_a_show_without_faults() -> None:
    told = figures(log())
    assert (told["frames_sent"], told["bundles"], told["missed"]) == (6000, 6000, 0)
    assert told["gap_ms"] == pytest.approx(20.0)
    assert told["latency_ms"] == {"p50": 0.5, "p99": 0.5}
    assert told["latency_of"] == 5999
    assert [row["kind"] for row in told["by_kind"]] == [QUIET]
    assert [row["bundles"] for row in told["by_minute"]] == [2999, 3000]


def test_a_show_of_which_no_bundle_came() -> None:
    told = figures(Log([], [], [], [], []))
    assert (told["seconds"], told["frames_sent"], told["bundles"], told["missed"]) == (0.0, 0, 0, 0)
    assert (told["latency_of"], told["by_kind"]) == (0, [])


def test_what_comes_after_the_end_does_not_count() -> None:
    told = figures(log(1).until(30_000 * MS))
    assert (told["frames_sent"], told["bundles"], told["seconds"]) == (1500, 1500, 30.0)


def test_what_did_not_come_belongs_to_the_fault_that_went_on() -> None:
    played = log(1)
    for at in (500, 501, 502, 1500):
        played.times[at] = -1  # type: ignore[index]
    numbers = [n for n, t in zip(played.numbers, played.times, strict=True) if t >= 0]
    times = [t for t in played.times if t >= 0]
    times[-1] += 17 * MS + 123_456
    happened = [
        FaultRecord("disk", 9_990 * MS, 10_020 * MS, 0.25),
        FaultRecord("disk", 20_000 * MS, 20_100 * MS, None),
        FaultRecord("net", 50_000 * MS, 50_100 * MS, 0.0),
    ]
    rows = {row["kind"]: row for row in by_kind(np.array(times), np.array(numbers), happened)}
    assert (rows["disk"]["times"], rows["disk"]["missed"], rows["disk"]["not_back"]) == (2, 3, 1)
    assert rows["disk"]["gap_ms"] == pytest.approx(80.0)
    assert rows["disk"]["over_bar"] == 1
    assert rows["disk"]["back_s"] == {"p50": 0.25, "max": 0.25}
    assert (rows["net"]["missed"], rows["net"]["gap_ms"]) == (0, pytest.approx(20.0))
    # A hundredth of a millisecond is as much as is told.
    assert (rows[QUIET]["missed"], rows[QUIET]["gap_ms"]) == (1, pytest.approx(40.0))
    assert by_kind(np.array(times[-2:]), np.array(numbers[-2:]), ())[0]["gap_ms"] == 37.12


def test_latency_is_of_frames_that_were_answered_before_the_next() -> None:
    frames = np.array([0, 20, 40, 60]) * MS
    left, ms = latencies(frames, np.array([1, 22, 65]) * MS)
    assert (left.tolist(), ms.tolist()) == ([0, 20 * MS], [1.0, 2.0])
    assert len(latencies(frames, np.zeros(0, np.int64))[1]) == 0
    played = log(1)
    told = figures(Log(played.left, played.due, [DISTURBED] * 3000, played.times, played.numbers))
    assert (told["frames_sent"], told["latency_of"], told["latency_ms"]) == (3000, 0, {})


def test_a_minute_tells_what_the_show_took_at_most() -> None:
    played = log(2)
    samples = ((30, 100), (50, 300), (70, 200))
    played.samples += [Sample(at * 1000 * MS, mb * 10**6, 5 * 10**6, mb // 10, 7) for at, mb in samples]
    first, second = by_minute(played)
    assert (first["show_mb"], first["descriptors"], first["processes"]) == (300.0, 30, 7)
    assert (second["show_mb"], second["children_mb"]) == (200.0, 5.0)
    assert by_minute(Log([], [], [], [], [])) == []
