import io
import json

import pytest
from rich.console import Console

from pyanticip.errors import CheckpointError, OptionError
from realtime.bench.step import run, table


def test_bench_counts_cold_and_warm_steps_of_every_backend(saved):
    result = run(5.0, ["rust", "torch"], saved)
    assert json.loads(json.dumps(result)) == result
    assert not result["random"]
    for backend in ("rust", "torch"):
        for mode in ("cold", "warm"):
            kinds = result["steps_us"][backend][mode]
            assert kinds["fast"]["steps"] + kinds["slow"]["steps"] == kinds["all"]["steps"] == 50
            assert kinds["slow"]["steps"] == 17
            assert 0 < kinds["all"]["p50"] <= kinds["all"]["p99"]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(result))
    assert "rust" in console.export_text()


@pytest.mark.parametrize(
    ("seconds", "backends", "words"), [(0.0, None, "1 to 3600"), (5.0, ["auto"], "'auto'")]
)
def test_bench_refuses_bad_options(saved, seconds, backends, words):
    with pytest.raises(OptionError, match=words):
        run(seconds, backends, saved)


def test_bench_names_a_missing_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match=r"model.json: no such file"):
        run(1.0, ["rust"], tmp_path / "none")
