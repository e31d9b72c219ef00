"""The bench drives the real pipeline; how long it takes is not for a test to judge."""

import json

import pytest

from pyanticip.errors import OptionError
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from realtime.bench.latency import run

KEYS = {
    "latency_ms",
    "jitter_ms",
    "frames",
    "missed",
    "dropped",
    "stages_us",
    "device",
    "model",
    "parameters",
}
STAGES = {"decode", "resample", "scalars", "step", "map", "send"}


@pytest.mark.slow
def test_the_object_that_json_prints() -> None:
    shipped = (SHIPPED / MANIFEST).is_file()
    result = run(1.0, model=shipped, priority=False)
    assert result.keys() >= KEYS | {"commit", "cpu", "threads", "late", "echo_late", "stamp", "prewarm"}
    assert set(result["latency_ms"]) == {"p50", "p90", "p99", "max"}
    assert set(result["stages_us"]) == STAGES
    assert all(set(stage) == {"p50", "p99"} for stage in result["stages_us"].values())
    assert result["frames"] + result["missed"] == 50
    assert result["bundles_received"] >= result["frames"]
    assert result["latency_ms"]["p50"] > 0
    assert (result["parameters"] > 0) is shipped
    json.dumps(result)


@pytest.mark.parametrize("seconds", [0.5, 4000.0, float("nan")])
def test_senseless_lengths_are_refused(seconds: float) -> None:
    with pytest.raises(OptionError, match="seconds"):
        run(seconds)
