"""``pyanticip bench positions`` measures what it says."""

from realtime.bench.positions import run, table


def test_every_way_is_measured_and_shown():
    from rich.console import Console

    found = run(1.0, (16, 32), device="cpu")
    ways = {row["way"] for row in found["rows"]}
    assert {"look-up", "fresh", "forward", "trajectory", "trajectory, cached"} <= ways
    for row in found["rows"]:
        assert row["rounds"] >= 5
        assert 0.0 < row["min_us"] <= row["us"]
        if row["way"].startswith("trajectory"):
            assert row["to_lookup"] > 0.0
            assert row["of_forward"] > 0.0
    for row in found["memory"]:
        assert row["table"] > row["standard_table"] == 512 * row["length"]
        assert row["peak"] >= row["standard_peak"] > 0
        assert row["ratio"] < row["learning_ratio"] < 2.0
    assert found["step_us"] > 0.0
    console = Console(record=True, width=120)
    console.print(table(found))
    assert "trajectory, cubic" in console.export_text()
