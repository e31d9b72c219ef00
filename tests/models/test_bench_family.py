import io
import json

import pytest
from rich.console import Console

from pyanticip.errors import OptionError
from realtime.bench import family


def test_bench_steps_every_variant_on_both_backends(monkeypatch):
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(family, "VARIANTS", {"plain": {}, "alibi": {"positions": "alibi", "slow_stride": 1}})
    sizes = {"d_model": 16, "heads": 2, "fast_layers": 1, "slow_layers": 1, "ff": 16, "window": 8, "pools": 3}
    result = family.run(1.0, sizes={**sizes, "taps": 4, "control_hidden": 8, "kinematics": False})
    assert json.loads(json.dumps(result)) == result
    assert result["steps_us"]["plain"]["onnx"]["ratio"] == 1.0
    assert all(result["steps_us"]["alibi"][backend]["p50"] > 0 for backend in ("onnx", "torch"))
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(family.table(result))
    assert "alibi" in console.export_text()
    with pytest.raises(OptionError, match="1 to 3600"):
        family.run(0.0)
    with pytest.raises(OptionError, match="got 'rop'"):
        family.run(1.0, variants=["rop"])
