import json
import time

import pytest
import torch
from click.testing import CliRunner

from pyanticip.bench import train as bench
from pyanticip.bench.memory import peak_bytes
from pyanticip.cli import cli
from pyanticip.errors import OptionError


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(bench, "PAIRS", 2)
    monkeypatch.setattr(bench, "POSITIONS", (4, 9))
    monkeypatch.setattr(bench, "LENGTHS", (32,))
    monkeypatch.setattr(bench, "TOKENS", 64)


def test_the_command_reports_ratio_memory_and_decoding(short):
    before = torch.get_num_threads()
    done = CliRunner().invoke(cli, ["bench", "train", "--seconds", "1", "--device", "cpu", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    row = result["train"][0]
    assert row["length"] == 32
    assert row["batch"] == 2
    assert row["pairs"] >= 2
    assert row["ratio"]["q25"] <= row["ratio"]["median"] <= row["ratio"]["q75"]
    ours, plain = row["parameters"]
    assert plain == pytest.approx(ours, rel=0.01)
    assert min(result["memory"][0][n] for n in ("fused", "reference", "plain")) > 0
    assert set(result["decode"]["us"]["anticipatory"]) == {"4", "9"}
    assert torch.get_num_threads() == before
    assert "fused" in _text(bench.table(result))


def test_what_there_is_no_time_for_is_left_out_and_named(short, monkeypatch):
    def slow(size, length, threads, *_):
        time.sleep(1.1)
        return {"threads": threads, "length": length}

    monkeypatch.setattr(bench, "_training", slow)
    monkeypatch.setattr(bench, "_memory", lambda size, length, on: {"length": length})
    monkeypatch.setattr(bench, "_decoding", lambda *_: {})
    result = bench.run(1.0, lengths=(64, 32), threads=(1,), device="cpu")
    assert [row["length"] for row in result["train"]] == [32]
    assert result["memory"] == [{"length": 32}]
    assert result["left_out"] == ["length 64, 1 thread", "memory at length 64"]


def _text(shown):
    from rich.console import Console

    console = Console(width=140, record=True, file=None)
    with console.capture() as kept:
        console.print(shown)
    return kept.get()


@pytest.mark.parametrize("wrong", [{"seconds": 0.0}, {"size": "huge"}, {"device": "tpu"}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        bench.run(**wrong)


def test_peak_memory_counts_what_lives_at_once():
    def two_at_once():
        a = torch.zeros(1 << 18)  # 1 MiB
        b = a + 1
        del a
        return b + 1

    def one_at_a_time():
        for _ in range(8):
            torch.zeros(1 << 18)

    device = torch.device("cpu")
    assert peak_bytes(two_at_once, device) == pytest.approx(2 << 20, rel=1e-3)
    assert peak_bytes(one_at_a_time, device) == pytest.approx(1 << 20, rel=1e-3)


def test_memory_of_a_step_is_linear_in_the_length():
    small, large = (bench._memory("small", length, torch.device("cpu")) for length in (256, 1024))
    assert large["fused"] < 4.4 * small["fused"]
    assert large["reference"] > 6 * small["reference"]
