"""The forecaster's bench: what it reports."""

import pytest

from pyanticip.errors import OptionError
from realtime.bench import forecast


def test_it_reports_both_backends_hot_and_paced(tmp_path):
    result = forecast.run(1.0)
    assert set(result["steps_us"]) == {"onnx", "torch"}
    for modes in result["steps_us"].values():
        for mode in ("hot", "paced"):
            assert modes[mode]["steps"] >= 50
            assert 0.0 < modes[mode]["p50"] <= modes[mode]["p99"]
    assert result["parameters"] > 500_000
    shown = forecast.table(result)
    assert len(shown.rows) == 4
    with pytest.raises(OptionError, match="seconds"):
        forecast.run(0.0)
