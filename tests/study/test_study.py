"""The study of the geometric bias: equal runs, resumed by the file, and honest tables of what there is."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import build_language_model
from training.study import held_out
from training.study import runs as kept
from training.study import text as study
from training.study import text_report as study_report

LINES = "the quick brown fox jumps over the lazy dog\nand comes back again, as foxes do\n"
LENGTHS = {"text": 48, "synthetic": 40}


@pytest.fixture
def recipe(tmp_path):
    for name, repeats in (("learn.txt", 12), ("test.txt", 5)):
        (tmp_path / name).write_text(LINES * repeats)
    return study.Recipe(
        tmp_path / "learn.txt",
        tmp_path / "test.txt",
        tokens=200,
        model={"d_model": 16, "ff": 16, "dropout": 0.0},
        vocab=12,
        lengths=LENGTHS,
        batch_tokens=100,
        test_windows={"text": 4, "synthetic": 6},
    )


def untimed(file):
    run = json.loads(file.read_text())
    return {k: v for k, v in run.items() if "seconds" not in k and "second" not in k}


@pytest.fixture
def small_study(tmp_path, recipe):
    runs = study.plan(("text",), ("plain", "random", "geometric-external", "geometric-self"), [0, 1])
    study.study(tmp_path / "runs", runs, recipe)
    return tmp_path / "runs"


def test_every_variant_has_as_many_parameters():
    """At the size of the study, within 1 % of the anticipatory model with its bias."""
    counts = {}
    for name in study.VARIANTS:
        options = study.Recipe().options("synthetic", name, 0)
        model = build_language_model(options.config(64), options.kind)
        counts[name] = sum(p.numel() for p in model.parameters())
    for name, count in counts.items():
        assert count == pytest.approx(counts["geometric-external"], rel=0.01), name


def test_plans_take_all_variants_of_a_seed_before_the_next():
    runs = study.plan(study.DATA, study.MAIN, [3, 4])
    assert len({run.file for run in runs}) == len(runs) == 2 * 2 * len(study.MAIN)
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    with pytest.raises(OptionError, match=r"variant: .*'magic'"):
        study.plan(("text",), ("magic",), [0])


def test_runs_are_repeatable_and_kept(tmp_path, recipe):
    runs = study.plan(study.DATA, ("geometric-self", "none"), [0])
    first, again = tmp_path / "a", tmp_path / "b"
    assert study.study(first, runs[:2], recipe) == {"done": 2, "kept": 0}
    said = []
    assert study.study(first, runs, recipe, say=said.append) == {"done": 2, "kept": 2}
    assert len(said) == 2
    study.study(again, runs, recipe)
    for run in runs:
        assert untimed(first / run.file) == untimed(again / run.file)
    assert not list(first.glob(".*"))
    with pytest.raises(OptionError, match=r"done with schedule.peak_lr=0.006, not 0.1"):
        study.study(first, runs, replace(recipe, lr=0.1))


def test_processes_give_what_one_gives(tmp_path, recipe):
    runs = study.plan(("synthetic",), ("plain", "rope"), [0])
    study.study(tmp_path / "one", runs, recipe)
    study.study(tmp_path / "two", runs, recipe, processes=2)
    for run in runs:
        assert untimed(tmp_path / "one" / run.file) == untimed(tmp_path / "two" / run.file)


def test_text_needs_text(tmp_path):
    with pytest.raises(OptionError, match="text"):
        study.study(tmp_path, study.plan(("text",), ("plain",), [0]), study.Recipe())
    with pytest.raises(OptionError, match="seeds"):
        kept.seeds("0..4")


@torch.no_grad()
def test_scores_are_those_of_the_model_on_what_it_may_see():
    torch.manual_seed(0)
    options = replace(study.Recipe(), lengths=LENGTHS).options("synthetic", "geometric-external", 0)
    model = build_language_model(options.config(64), "anticipatory").eval()
    rng = np.random.default_rng(0)
    ids = rng.integers(64, size=(3, 41))
    mask = np.zeros((3, 40), dtype=bool)
    mask[:, [9, 35]] = True
    test = held_out.Test(ids, mask)
    found = held_out.score(model, test, "external", torch.device("cpu"), contexts=(8,))
    # Column 36 alone has 32 tokens before it; it is foretold from the 8 before it.
    assert test.places().tolist() == [[0, 36], [1, 36], [2, 36]]
    from pyanticip.bridge import bridge_scalars

    seen = torch.from_numpy(ids[:, 28:36])
    logits = model(seen, bridge_scalars(model.embed(seen)).float()).logits[:, -1]
    loss = float(F.cross_entropy(logits, torch.from_numpy(ids[:, 36])))
    assert found["loss"]["8"] == pytest.approx(loss, abs=1e-5)
    assert found["perplexity"]["8"] == pytest.approx(math.exp(loss), rel=1e-4)
    assert found["predictions"] == 6


def test_report_pairs_by_seed_and_says_how_much_is_there(tmp_path, small_study):
    pages = tmp_path / "pages"
    first = study_report.report(small_study, pages)
    page = (pages / "geometric-bias.md").read_text()
    (pages / "geometric-bias.md").write_text(page + "\nwritten by hand\n")
    study_report.report(small_study, pages)
    assert (pages / "geometric-bias.md").read_text() == page + "\nwritten by hand\n"
    assert f"8 of {len(study.MAIN) * 10} runs" in page
    assert (pages / "geometric-bias.png").read_bytes()[:4] == b"\x89PNG"
    gap = first["differences"]["text"]["geometric-external - random"]
    losses = {
        (v, s): kept.read(small_study / f"text-{v}-seed{s}.json")["test"]["loss"]["full"]
        for v in ("geometric-external", "random")
        for s in (0, 1)
    }
    apart = [losses["geometric-external", s] - losses["random", s] for s in (0, 1)]
    assert gap["mean"] == pytest.approx(np.mean(apart))
    # Student's t with one degree of freedom: 12.706 standard errors.
    half = 12.706 * np.std(apart, ddof=1) / math.sqrt(2)
    assert gap["high"] - gap["mean"] == pytest.approx(half, rel=1e-3)
    assert first["differences"]["text"]["rope - plain"] is None


def test_reports_refuse_what_does_not_belong_together(tmp_path, small_study):
    file = small_study / "text-plain-seed0.json"
    run = json.loads(file.read_text())
    file.write_text(json.dumps({**run, "tokens": 7}))
    with pytest.raises(FormatError, match="tokens"):
        study_report.load(small_study)
    with pytest.raises(FormatError, match="no runs"):
        study_report.load(tmp_path)


def test_strides_are_timed(tmp_path, monkeypatch):
    from training.study import stride_cost

    monkeypatch.setattr(stride_cost, "LENGTH", 20)
    found = stride_cost.measure(tmp_path, pairs=1)
    assert found["strides"]["1"]["train_ms_ratio"] == 1.0
    assert set(found["strides"]) == {"1", "2", "4", "10"}
    assert (tmp_path / "stride-cost.json").is_file()
