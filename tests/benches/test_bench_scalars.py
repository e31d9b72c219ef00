"""``bench scalars`` measures what it says, in an object a program can read."""

import json

import pytest

from pyanticip.errors import OptionError


@pytest.mark.slow
def test_bench():
    from rich.console import Console

    from pyanticip.bench.scalars import run, table

    result = json.loads(json.dumps(run(1.0)))
    assert set(result["push_us"]) == {"256", "1500"}
    for motions in result["push_us"].values():
        assert set(motions) == {"smooth", "still", "still, 0.1 mrad of noise", "random"}
        for times in motions.values():
            assert 0 < times["p10"] <= times["p50"] <= times["p99"]
    flat = result["flat"]
    assert flat["late_frame"] > flat["early_frame"] == 10_000
    assert flat["blocks"] >= 3
    assert {"cpu", "cores", "commit", "python", "threads"} <= set(result)
    console = Console(width=120)
    with console.capture() as captured:
        console.print(table(result))
    assert "smooth" in captured.get()


def test_seconds_are_checked():
    from pyanticip.bench.scalars import run

    with pytest.raises(OptionError, match="seconds: expected 1 to 3600, got 0"):
        run(0)
