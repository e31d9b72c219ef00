"""The loss, the optimiser's groups, and which scalars steer."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import pyanticip as pa
from training.tasks.token.module import LanguageModule, forward_losses, new_model
from training.tasks.token.options import LanguageOptions


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
    letter = forward_losses(model, ids, options.but(supervise="refined"))
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
    own = forward_losses(model, ids, options.but(scalars="self"))
    sampled = forward_losses(model, ids, options, everywhere)
    given = forward_losses(model, ids, options, ~everywhere)
    torch.testing.assert_close(own.ce, sampled.ce)
    torch.testing.assert_close(given.ce, forward_losses(model, ids, options).ce)
    assert abs(float(own.ce - given.ce)) > 1e-7
    # Both are supervised by the given scalars all the same.
    torch.testing.assert_close(own.scalar_initial, given.scalar_initial)


def test_a_plain_transformer_has_cross_entropy_alone(tiny):
    options = tiny(kind="baseline")
    model = new_model(options, 50).eval().requires_grad_(False)
    found = forward_losses(model, windows(options), options)
    assert float(found.total) == float(found.ce) == pytest.approx(np.log(50), abs=0.3)
    assert float(found.scalar_refined) == 0.0


def test_only_matrices_of_linear_layers_decay(tiny):
    model = new_model(tiny(), 50)
    module = LanguageModule(model, tiny(weight_decay=0.25))
    optimizer = module.configure_optimizers()["optimizer"]
    decayed, rest = optimizer.param_groups
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
