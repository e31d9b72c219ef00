"""Gated against ungated generation."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.errors import OptionError
from training.tasks.token.generation import compare, judge_of, shuffle, variety
from training.tasks.token.losses import balanced, shuffled, shuffled_gate
from training.tasks.token.task import load_run, open_run


def test_compare_at_equal_compute(runs):
    report = compare(
        runs["own-1"], runs["plain"], thetas=(0.2, 0.9), prompts=6, prompt=8, tokens=6, temperature=0.7
    )
    for row in report["thetas"]:
        for part in (row["foretelling"], row["writing"]):
            stats = part["statistics"]
            assert stats["tokens"] == 36
            assert sum(stats["waits"]) == 36
            assert stats["forwards"] == 36 + sum(n * count for n, count in enumerate(stats["waits"]))
            assert stats["tokens_per_forward"] == pytest.approx(36 / stats["forwards"], abs=1e-5)
    low, high = report["thetas"]
    assert low["writing"]["statistics"]["waits"] == [36], "an untrained gate lies near one half"
    assert low["writing"]["gain"]["value"] == 0.0
    assert high["writing"]["attempts"] == 6
    assert high["foretelling"]["statistics"]["waits"] == [0, 0, 0, 0, 0, 36]


def test_the_dictated_continuation_is_the_held_out_one(runs):
    report = compare(runs["own-0"], runs["plain"], thetas=(0.1,), prompts=12, prompt=8, tokens=6)
    model, _, _ = load_run(runs["own-0"])
    run = open_run(runs["own-0"])
    ids = torch.from_numpy(run.data.valid.take(np.arange(12)))[:, :14]
    from pyanticip.bridge import bridge_scalars

    with torch.no_grad():
        logits = model(ids[:, :-1], bridge_scalars(model.embed(ids[:, :-1]))).logits[:, 7:]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 8:].flatten())
    found = report["thetas"][0]["foretelling"]
    assert found["ungated"]["value"] == pytest.approx(loss.exp().item(), rel=1e-4)
    assert found["gated"] == found["ungated"]


def test_the_judge_says_what_it_says(runs):
    critic, _, options = load_run(runs["plain"])
    ids = torch.randint(24, (3, 20))
    loss = judge_of(critic, options.loss.neighbours, 5)(ids)
    assert loss.shape == (3, 15)
    with torch.no_grad():
        expected = -critic(ids[:, :-1]).logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[:, 4:, 0]
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_shuffled_waits_cost_the_same():
    waits = torch.tensor([[0, 1, 5, 2], [3, 3, 0, 0]])
    moved = shuffle(waits, seed=1)
    assert torch.equal(moved.sort(1).values, waits.sort(1).values)
    assert not torch.equal(moved, waits)


def test_variety():
    assert variety(torch.tensor([[9, 1, 1, 1, 1, 1]]), 2) == 0.25
    assert variety(torch.arange(6)[None], 2) == 1.0


def test_refusals(runs):
    with pytest.raises(OptionError, match="needs an anticipatory model"):
        compare(runs["plain"], runs["own-0"])
    with pytest.raises(OptionError, match="must fit a window of 41"):
        compare(runs["own-0"], runs["plain"], prompt=20, tokens=30)


def test_the_generation_command(runs):
    arguments = ["evaluate", "generation", str(runs["own-0"]), "--judge", str(runs["plain"])]
    arguments += ["--prompts", "3", "--prompt", "4", "--tokens", "3", "--theta", "0.5"]
    shown = CliRunner().invoke(cli, arguments)
    assert shown.exit_code == 0, shown.output
    assert "| 0.5 |" in shown.output
    plain = CliRunner().invoke(cli, [*arguments, "--json"])
    assert json.loads(plain.output)["thetas"][0]["theta"] == 0.5


def test_what_the_shuffled_gate_is_fed(runs):
    model, _, _ = load_run(runs["own-0"])
    ids = torch.randint(24, (4, 10))
    with torch.no_grad():
        out = model(ids)
        assert torch.equal(shuffled(ids).flatten().sort().values, ids.flatten().sort().values)
        other = shuffled(out.scalars[..., 0])
        expected = model.trunk.commitment(out.hidden, other[..., None])[..., 0]
        assert torch.equal(shuffled_gate(model, out), expected)
        assert not torch.allclose(other, out.scalars[..., 0])


def test_the_balanced_error_is_one_for_the_mean_of_the_position():
    given = torch.rand(50, 6, 7) * torch.tensor([1.0, 0.1, 4.0, 1.0, 1.0, 0.2, 0.05])
    given = given + torch.arange(6)[:, None]
    assert balanced(given.mean(0).expand_as(given), given).item() == pytest.approx(1.0, abs=1e-4)
    assert balanced(given, given).item() == 0.0
