import io
import json

import pytest
from rich.console import Console

from pyanticip.errors import OptionError
from realtime.bench import field


def test_bench_times_both_blocks_in_both_passes(monkeypatch):
    monkeypatch.setattr(field, "CASES", {"tiny": (16, 2, 24, 7, True)})
    monkeypatch.setattr(field, "LENGTH", 16)
    result = field.run(1.0)
    assert json.loads(json.dumps(result)) == result
    for found in result["cases"]["tiny"].values():
        assert found["runs"] >= 10
        assert found["plain_ms"]["p50"] > 0
        assert found["ratio"] == pytest.approx(found["field_ms"]["p50"] / found["plain_ms"]["p50"], rel=0.05)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(field.table(result))
    assert "training" in console.export_text()
    with pytest.raises(OptionError, match="1 to 3600"):
        field.run(0.0)
