"""Losses of token models, with and without planning."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import pyanticip as pa
from training.run.train import train
from training.tasks.token.module import LanguageModule, forward_losses, new_model
from training.tasks.token.options import LanguageOptions
from training.tasks.token.task import LanguageTask, load_run
from training.tasks.token.windows import Batches, synthetic_data


def windows(options: LanguageOptions, rows: int = 4) -> torch.Tensor:
    return torch.randint(50, (rows, options.data.seq_len + 1), generator=torch.Generator().manual_seed(3))


def given_for(model, ids):
    return torch.from_numpy(
        pa.vector_scalars(model.token.weight.detach().numpy()[ids[:, :-1].numpy()])
    ).float()


def test_the_loss_is_the_sum_it_says(tiny):
    options = tiny(scalar_weight=2.0, ortho_weight=0.3)
    model = new_model(options, 50).eval()
    ids = windows(options)
    found = forward_losses(model, ids, options)
    given = given_for(model, ids)
    out = model(ids[:, :-1], given)
    ce = F.cross_entropy((out.gate[..., None] * out.raw_logits).flatten(0, 1), ids[:, 1:].flatten())
    refined, initial = F.mse_loss(out.scalars, given), F.mse_loss(out.initial, given)
    penalty = model.orthogonality().penalty
    torch.testing.assert_close(found.ce, ce)
    torch.testing.assert_close(found.total, ce + 2.0 * (refined + initial) + 0.3 * penalty)
    torch.testing.assert_close(found.paper, ce + refined + 0.1 * penalty)
    letter = forward_losses(model, ids, options.replace(supervise="refined"))
    torch.testing.assert_close(letter.total, ce + 2.0 * refined + 0.3 * penalty)
    torch.testing.assert_close(found.gate_std, out.gate.std())


def test_no_gradient_reaches_the_embeddings_through_the_scalars(tiny):
    options = tiny(scalar_weight=1.0)
    model = new_model(options, 50).eval()
    ids = windows(options)
    found = forward_losses(model, ids, options)
    (direct,) = torch.autograd.grad(found.total, model.token.weight)
    out = model(ids[:, :-1], given_for(model, ids))
    given = given_for(model, ids)
    ce = F.cross_entropy(out.logits.flatten(0, 1), ids[:, 1:].flatten())
    total = ce + F.mse_loss(out.scalars, given) + F.mse_loss(out.initial, given)
    total = total + 0.1 * model.orthogonality().penalty
    (expected,) = torch.autograd.grad(total, model.token.weight)
    torch.testing.assert_close(direct, expected)


def test_self_steering_and_scheduled_sampling_use_the_initial_heads_scalars(tiny):
    options = tiny()
    model = new_model(options, 50).eval().requires_grad_(False)
    ids = windows(options)
    everywhere = torch.ones(4, options.data.seq_len, dtype=torch.bool)
    own = forward_losses(model, ids, options.replace(scalars="self"))
    sampled = forward_losses(model, ids, options, everywhere)
    given = forward_losses(model, ids, options, ~everywhere)
    torch.testing.assert_close(own.ce, sampled.ce)
    torch.testing.assert_close(given.ce, forward_losses(model, ids, options).ce)
    assert abs(float(own.ce - given.ce)) > 1e-7
    # Both heads are supervised by the computed scalars in any case.
    torch.testing.assert_close(own.scalar_initial, given.scalar_initial)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"model": {"bias": "none"}}, False),
        ({"supervise": "refined", "own_scalars": 0.0}, True),
        ({"kind": "baseline", "own_scalars": 0.0, "model": {"planning": True, "plan_tokens": 3}}, False),
    ],
)
def test_several_processes_know_whether_weights_are_left_without_gradient(tiny, changes, expected):
    options = tiny(**changes)
    module = LanguageModule(new_model(options, 50), options)
    module(next(iter(Batches(synthetic_data(options, 50).train, options))))["loss"].backward()
    assert any(weight.grad is None for weight in module.parameters()) is expected
    assert LanguageTask().idle_weights(SimpleNamespace(options=options), module) is expected


def test_a_plain_transformer_has_cross_entropy_alone(tiny):
    options = tiny(kind="baseline", own_scalars=0.0)
    model = new_model(options, 50).eval().requires_grad_(False)
    found = forward_losses(model, windows(options), options)
    assert float(found.total) == float(found.ce) == pytest.approx(np.log(50), abs=0.3)
    assert float(found.scalar_refined) == 0.0


def test_only_matrices_of_linear_layers_decay(tiny):
    model = new_model(tiny(), 50)
    module = LanguageModule(model, tiny(weight_decay=0.25))
    decayed, rest = module.groups()
    assert (decayed["weight_decay"], rest["weight_decay"]) == (0.25, 0.0)
    names = {id(p): name for name, p in model.named_parameters()}
    assert len(names) == len(decayed["params"]) + len(rest["params"])
    assert {names[id(p)] for p in rest["params"]} >= {"token.weight"}
    assert all(p.ndim == 2 for p in decayed["params"])
    assert all(p.ndim == 1 or "token" in names[id(p)] for p in rest["params"])


def test_the_seed_alone_decides_the_first_weights(tiny):
    torch.manual_seed(1)
    one = new_model(tiny(seed=4), 50).state_dict()
    torch.manual_seed(2)
    two = new_model(tiny(seed=4), 50).state_dict()
    other = new_model(tiny(seed=5), 50).state_dict()
    assert all((one[name] == two[name]).all() for name in one)
    assert any((one[name] != other[name]).any() for name in one)


PLANNING = {"planning": True, "plan_tokens": 4}


def test_a_model_that_plans_trains(tiny, tmp_path):
    options = tiny(model=PLANNING)
    report = train(LanguageTask(), options, tmp_path / "whole")
    model, *_ = load_run(tmp_path / "whole", "last")
    start = new_model(options, 50)
    changed = {
        name.split(".")[0]
        for name, value in model.planning.state_dict().items()
        if not torch.equal(value, start.planning.state_dict()[name])
    }
    assert changed == {"anticipator", "simulator", "future", "log_frequency"}
    assert abs(float(model.planning.log_frequency.double().exp().sum()) - 1.0) < 1e-4
    assert report["finished"]
    assert report["best_perplexity"] > 1.0


def test_the_simulator_has_its_own_rate(tiny):
    options = tiny(model=PLANNING)
    module = LanguageModule(new_model(options, 50), options)
    groups = module.groups()
    simulator = {id(p) for p in module.model.planning.simulator.parameters()}
    assert [{id(p) for p in g["params"]} == simulator for g in groups] == [False, False, True]
    assert groups[2]["rate"](7) == 1e-2
    assert sum(len(g["params"]) for g in groups) == len(list(module.model.parameters()))
    plain = tiny()
    groups = LanguageModule(new_model(plain, 50), plain).groups()
    assert len(groups) == 2


def test_a_model_is_judged_with_its_own_plans(tiny):
    for kind in ("anticipatory", "baseline"):
        options = tiny(kind=kind, own_scalars=0.0, model=PLANNING)
        model = new_model(options, 50)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        ids = torch.randint(50, (3, 17))
        model.eval()
        with torch.no_grad():
            judged = forward_losses(model, ids, options).ce
            other = forward_losses(model, ids, options).ce
        assert torch.equal(judged, other)
        if kind == "baseline":
            logits = model(ids[:, :-1]).logits
            assert torch.allclose(judged, F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))
        model.train()
        drawn = [forward_losses(model, ids, options) for _ in range(2)]
        assert not torch.equal(drawn[0].ce, drawn[1].ce)
        assert float(drawn[0].total.detach()) > float(drawn[0].ce.detach())
