"""The study of the planning signal: equal runs, resumed by the file, tables of what there is."""

import json
import shutil

import numpy as np
import pytest
import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import load_language_model
from training.planning import report, study
from training.planning.arms import ARMS, Optimisers, planning_copy
from training.planning.judge import judge
from training.planning.text import Text

SIZES = {"d_model": 16, "heads": 2, "fast_layers": 1, "slow_layers": 1, "ff": 16, "dropout": 0.0}


def recipe(texts, **changes):
    options = {"vocab": 290, "horizon": 6, "length": 16, "rows": 4, "backbone_steps": 4, "steps": 3}
    return study.Recipe(*texts, **{**options, "windows": 5, "model": SIZES, **changes})


@pytest.fixture(name="done", scope="module")
def done_fixture(tmp_path_factory, texts):
    out = tmp_path_factory.mktemp("study") / "runs"
    said = []
    study.study(out, study.plan(list(ARMS), [0, 1]), recipe(texts), say=said.append)
    assert len(said) == 10
    assert "full seed 0: perplexity" in said[1]
    return out


def run(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def untimed(found):
    return {k: v for k, v in found.items() if "seconds" not in k}


def test_every_arm_goes_on_from_the_same_backbone(done):
    backbone = load_language_model(done / "models" / "backbone-seed0")
    frozen = load_language_model(done / "models" / "without-fine-tuning-seed0")
    tuned = load_language_model(done / "models" / "full-seed0")
    for name, value in backbone.state_dict().items():
        assert torch.equal(frozen.state_dict()[name], value), name
    assert any(not torch.equal(tuned.state_dict()[n], v) for n, v in backbone.state_dict().items())
    assert not torch.equal(frozen.planning.anticipator.head.weight, backbone.token.weight)
    assert load_language_model(done / "models" / "base-training-seed0").planning is None
    other = load_language_model(done / "models" / "backbone-seed1")
    assert not torch.equal(other.token.weight, backbone.token.weight)


def test_what_is_measured_of_whom(done):
    full = run(done, "full-seed0")["test"]
    assert {"perplexity", "perplexity_without", "perplexity_simulated", "divergence", "hits"} <= set(full)
    aside = run(done, "without-anticipator-seed0")["test"]
    assert "divergence" in aside
    assert "hits" not in aside
    assert set(run(done, "backbone-seed0")["test"]) == {"loss", "perplexity", "predictions"}
    assert full["predictions"] == 5 * 16
    assert 0.0 <= full["hits"] <= 1.0
    assert full["perplexity"] == pytest.approx(np.exp(full["loss"]))


def test_perplexity_is_of_own_plans_and_does_not_look_ahead(done, texts):
    """Held-out windows of which what comes after the last prediction is another text."""
    model = load_language_model(done / "models" / "full-seed0")
    windows = np.random.default_rng(0).integers(0, model.cfg.vocab, (4, 16 + 7))
    other = windows.copy()
    other[:, 17:] = 3
    found = [judge(model, ARMS["full"], each, 16) for each in (windows, other)]
    assert found[0]["loss"] == found[1]["loss"]
    assert found[0]["perplexity_without"] == found[1]["perplexity_without"]
    assert found[0]["divergence"] != found[1]["divergence"]
    # By hand, from the model's forward alone.
    ids = torch.from_numpy(windows)
    logits = model(ids[:, :16]).logits
    by_hand = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:17].flatten())
    assert found[0]["loss"] == pytest.approx(by_hand.item(), abs=1e-5)


@torch.no_grad()
def test_hits_are_the_weight_of_a_plan_on_what_comes(done):
    model = load_language_model(done / "models" / "full-seed0")
    model.planning.set_frequencies(torch.ones(model.cfg.vocab))
    rng = np.random.default_rng(1)
    # Tokens that this model likes to name.
    liked = model(torch.from_numpy(rng.integers(0, 290, (2, 16)))).plan.codes.flatten().bincount()
    windows = liked.topk(10).indices.numpy()[rng.integers(0, 10, (2, 16 + 7))]
    found = judge(model, ARMS["full"], windows, 16)
    plan = model(torch.from_numpy(windows[:, :16])).plan
    hits, named = [], []
    for row in range(2):
        for step in range(1, 16):
            coming = set(windows[row, step : step + 6].tolist())
            pairs = zip(plan.codes[row, step].tolist(), plan.weights[row, step].tolist(), strict=True)
            kept = [(code, weight) for code, weight in pairs if weight > 0]
            hits.append(sum(weight for code, weight in kept if code in coming))
            named.append(len(kept))
    assert found["hits"] == pytest.approx(np.mean(hits), abs=1e-6)
    assert found["named"] == pytest.approx(np.mean(named))
    assert np.mean(hits) > 0.0


def test_a_study_goes_on_and_repeats_itself(done, texts, tmp_path):
    files = {p.name: p.stat().st_mtime_ns for p in done.glob("*.json")}
    kept = study.study(done, study.plan(list(ARMS), [0, 1]), recipe(texts))
    assert kept == {"done": 0, "kept": 10}
    assert files == {p.name: p.stat().st_mtime_ns for p in done.glob("*.json")}
    study.study(tmp_path, study.plan(["full"], [1]), recipe(texts))
    assert untimed(run(tmp_path, "full-seed1")) == untimed(run(done, "full-seed1"))
    with pytest.raises(OptionError, match="steps"):
        study.study(done, study.plan(["full"], [0]), recipe(texts, steps=4))
        # `recipe` is compared field by field
    with pytest.raises(OptionError, match="expected one of full"):
        study.plan(["half"], [0])


def test_a_backbone_of_a_call_that_was_killed_is_not_taken_for_another(done, texts, tmp_path):
    shutil.copytree(done / "models" / "backbone-seed0", tmp_path / "models" / "backbone-seed0")
    with pytest.raises(OptionError, match="done with backbone_steps=4, not 5"):
        study.study(tmp_path, study.plan([], [0]), recipe(texts, backbone_steps=5))
    study.study(tmp_path, study.plan([], [0]), recipe(texts))
    assert run(tmp_path, "backbone-seed0")["test"] == run(done, "backbone-seed0")["test"]


def test_the_tables_say_what_the_runs_say(done, tmp_path):
    found = report.report(done, tmp_path)
    text = (tmp_path / "planning-signal.md").read_text()
    assert found["runs"] == 10
    values = [run(done, f"full-seed{s}")["test"]["divergence"] for s in (0, 1)]
    assert f"| ours | 2 | {np.mean(values):.4f} ± {np.std(values, ddof=1):.4f} |" in text
    gap = np.mean(
        [run(done, f"full-seed{s}")["test"]["loss"] - run(done, f"base-training-seed{s}")["test"]["loss"]
         for s in (0, 1)]
    )  # fmt: skip
    assert f"{gap:+.4f}" in text
    assert found["differences"]["full"]["mean"] == pytest.approx(gap)
    assert "the untouched backbone" in text
    report.report(done, tmp_path)
    assert (tmp_path / "planning-signal.md").read_text() == text
    with pytest.raises(FormatError, match="no runs of the planning study"):
        report.report(tmp_path)


def test_what_an_arm_does_not_train_stays(texts, done):
    backbone = load_language_model(done / "models" / "backbone-seed0")
    text = Text(np.arange(200) % 290, 16, 7)
    model = planning_copy(backbone, {"plan_tokens": 6}, text.counts(290))
    trained = Optimisers(model, ARMS["without fine-tuning"], 1e-3, 1e-2).trained
    assert {id(p) for p in trained}.isdisjoint(id(p) for p in model.layers.parameters())
    assert model.token.weight.requires_grad is False
    # The simulator has an optimiser and a rate of its own.
    assert {id(p) for p in trained}.isdisjoint(id(p) for p in model.planning.simulator.parameters())
    assert torch.equal(model.planning.anticipator.head.weight, backbone.token.weight)
    counts = text.counts(290).double()
    shares = (counts / counts.sum()).clamp(min=1e-5).log()
    assert torch.allclose(model.planning.log_frequency.double(), shares, atol=1e-6)


def test_windows_reach_beyond_what_is_read():
    text = Text(np.arange(100), 10, 7)
    assert len(text) == 9
    taken = text.take(np.array([0, 8]))
    assert taken.shape == (2, 17)
    assert taken[1, 0] == 80
    assert taken[1, -1] == 96
    epoch = np.concatenate([text.batch(0, step, 3)[:, 0] for step in range(3)])
    assert sorted(epoch) == list(range(0, 90, 10))
    assert not np.array_equal(text.batch(0, 0, 3), text.batch(1, 0, 3))
    with pytest.raises(OptionError, match="has 12 tokens, a window needs 17"):
        Text(np.arange(12), 10, 7, "short.txt")
