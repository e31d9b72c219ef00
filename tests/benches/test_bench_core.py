"""`bench bridge` and `bench scalars`; with `-o addopts= --benchmark-only` the time of a datagram; and the
table of ``make bench``."""

import json
from itertools import count
from math import isnan

import numpy as np
import pytest
from benches import beside
from support.motions import datagrams
from support.wire import console_text

import pyanticip as pa
from pyanticip import _core


@pytest.mark.parametrize("data", ["noise", "tokens", "walk"])
def test_bench_of_the_bridge(data):
    from pyanticip.bench.bridge import run, table

    result = json.loads(json.dumps(run(1.5, (16, 64), data, compiled=False)))
    measured = [row for row in result["rows"] if "left_out" not in row]
    assert {row["way"] for row in measured} >= {"rust", "torch"}
    for row in measured:
        assert 0 < row["min"] <= row["p10"] <= row["p50"] <= row["p90"]
        assert row["rounds"] >= 1
        assert row["difference"] < 1e-6
    skipped = [row for row in result["rows"] if "left_out" in row]
    assert {(row["length"], row["way"]) for row in skipped} >= {(16, "torch.compile"), (64, "torch.compile")}
    assert "left out: L 64, torch.compile: not asked for" in console_text(table(result))


def test_slow_measurements_are_left_out_and_named():
    from pyanticip.bench.bridge import run

    rows = run(1.0, (64, 2048), compiled=True)["rows"]
    skipped = {(row["length"], row["way"]): row["left_out"] for row in rows if "left_out" in row}
    assert "one call would take about" in skipped[2048, "torch"]
    assert (64, "torch.compile") in skipped


@pytest.mark.parametrize("source", ["mocopi", "vmc", "msgpack"])
def test_feed(benchmark, source):
    sent = datagrams(source, 3000)
    front = _core.LiveFront(source)
    for i in range(600):
        front.feed(sent[i], i * 20_000_000)
    numbers = count(600)

    def feed():
        i = next(numbers)
        return front.feed(sent[i], i * 20_000_000)

    out = benchmark.pedantic(feed, rounds=2000, iterations=1)
    assert out.features.shape == (1, 279)


@pytest.mark.parametrize("window", [1024, 4096, 16384])
def test_random_poses(benchmark, window):
    """A frame of a long window in which no pose is like another."""
    poses = np.random.default_rng(1).normal(size=(window + 1000, 22, 4)).astype(np.float32)
    stream = pa.ScalarStream(joints=22, window=window)
    stream.push_many(poses[:-500])
    rest = iter(poses[-500:])
    benchmark.pedantic(lambda: stream.push(next(rest)), rounds=500, iterations=1)


@pytest.mark.slow
def test_bench_of_scalars(monkeypatch):
    from pyanticip.bench import scalars

    monkeypatch.setattr(scalars, "TIMED", 100)
    monkeypatch.setattr(scalars, "LATE", 40_000)
    result = json.loads(json.dumps(scalars.run(1.0)))
    assert set(result["push_us"]) == {"256", "1500"}
    for by_motion in result["push_us"].values():
        assert set(by_motion) == {"smooth", "still", "still, 0.1 mrad of noise", "random"}
        for times in by_motion.values():
            assert 0 < times["p10"] <= times["p50"] <= times["p99"]
    flat = result["flat"]
    assert flat["late_frame"] > flat["early_frame"] == 10_000
    assert flat["blocks"] >= 3
    assert {"cpu", "cores", "commit", "python", "threads"} <= set(result)
    assert "smooth" in console_text(scalars.table(result))


NONE = {"p50": None, "p99": None}
SOME = {"p50": 0.5, "p99": 0.9}


def test_bundles_of_both_encoders_are_timed() -> None:
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
