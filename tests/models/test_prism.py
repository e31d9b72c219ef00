"""PRISM positions: the module's state, its parts and options."""

import copy

import pytest
import torch
from support import models
from support.models import PRISM

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models import ModelConfig
from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.core.part import LossContext
from pyanticip.models.parts.positions.prism.gru import OrthogonalGRU
from pyanticip.models.parts.positions.prism.module import PrismPositions
from pyanticip.models.token.baseline import BaselineTransformer
from pyanticip.models.token.transformer import AnticipatoryTransformer


def config(**changes):
    sizes = {"d_model": 24, "heads": 4, "prism_cursors": 5, "prism_width": 8, "prism_hidden": 12}
    return ModelConfig(**{**sizes, "positions": "prism", "prism_places": 20, **changes})


def build(dtype=torch.float64, seed=0, **changes):
    torch.manual_seed(seed)
    made = PrismPositions(config(**changes))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return made.to(dtype).eval()


def test_state_and_step_do_not_grow_with_the_stream():
    made = build(torch.float32, prism_copy=True)
    state = made.initial_state(1)
    sizes = [t.shape for t in state.tensors()]
    with torch.no_grad():
        for _ in range(300):
            places, state = made(torch.randn(1, 1, 24), state)
    assert [t.shape for t in state.tensors()] == sizes
    assert bool(torch.isfinite(places.queries).all())
    torch.testing.assert_close(places.histograms.sum(-1), torch.ones(1, 1, 10))


def test_places_are_superposed_sinusoids_of_one_length():
    made = build(prism_cursors=3)
    places, _ = made(torch.randn(2, 9, 24, dtype=torch.float64))
    table = sinusoids(torch.arange(20), 8).float().double()
    expected = torch.einsum("blck,kd->blcd", places.histograms[:, :, :3], table)
    expected = expected * (8**0.5 / expected.flatten(2).norm(dim=-1))[..., None, None]
    torch.testing.assert_close(places.queries, expected)
    for tensor in (places.queries, places.keys):
        torch.testing.assert_close(tensor.flatten(2).norm(dim=-1), torch.full((2, 9), 8**0.5).double())
    # With every cursor at a single place, the constant has the same effect.
    fixed = build(prism_cursors=3, prism_norm="fixed")
    sharp = table[[3, 0, 19]][None, None]
    torch.testing.assert_close(fixed._normalise(sharp), made._normalise(sharp), atol=1e-6, rtol=0)


def test_cursors_start_indifferent_and_at_place_0():
    torch.manual_seed(0)
    made = PrismPositions(config(prism_reset=0.2)).double()
    hidden = torch.zeros(1, 1, 12, dtype=torch.float64)
    third = 0.8 / 3
    expected = torch.tensor([third, third, third, 0.2 * 2 / 3, 0.2 / 3], dtype=torch.float64)
    torch.testing.assert_close(made.moves(hidden)[0, 0, 0], expected, atol=1e-7, rtol=0)
    torch.testing.assert_close(made.gamma(), torch.full((10,), 2.0).double(), atol=1e-7, rtol=0)
    spread = PrismPositions(config(prism_spread=2.0))
    assert float(spread.moves(torch.zeros(1, 1, 12)).detach()[0, :, 0].std(0).min()) > 0.02


def test_copies_go_to_where_the_paired_key_stands():
    """The key's cursor counts steps; a query that copies from key j jumps to that cursor's place."""
    made = build(prism_copy=True)
    assert made.copying == 1
    x = torch.randn(1, 30, 24, dtype=torch.float64)
    places, _ = made(x)
    counting = places.histograms[0, :, 5].argmax(-1)
    assert counting.tolist() == [min(t + 1, 19) for t in range(30)]
    torch.testing.assert_close(
        places.histograms[0, :, 5].max(-1).values, torch.ones(30).double(), atol=1e-6, rtol=0
    )
    copy = made.copy
    jumps, stay, _ = copy(torch.randn(1, 30, copy.query.in_features).double())
    torch.testing.assert_close(jumps.sum(-1) + stay, torch.ones(1, 1, 30).double())
    for t in (0, 1, 5, 17):
        reached = torch.nonzero(jumps[0, 0, t]).flatten().tolist()
        assert reached == [min(j + 1, 19) for j in range(t)]
    # More steps than places: each place has its key, the last place the newest.
    assert torch.nonzero(jumps[0, 0, 28]).flatten().tolist() == list(range(1, 20))


def test_copies_by_content():
    """Sharp attention moves the cursor's whole mass to the one key that matches."""
    made = build(prism_copy=True, prism_copy_width=8, prism_sharpen=False)
    copy = made.copy
    with torch.no_grad():
        for linear in (copy.query, copy.key):
            linear.weight.zero_()
            linear.bias.zero_()
            linear.weight[:, :8] = 20 * torch.eye(8)
        copy.null.zero_()
        copy.stay.fill_(50.0)
    x = torch.zeros(1, 9, copy.query.in_features).double()
    for t, symbol in enumerate([3, 1, 4, 0, 5, 2, 6, 4, 1]):
        x[0, t, symbol] = 1.0
    with torch.no_grad():
        jumps, stay, _ = copy(x)
    assert jumps[0, 0, 7].argmax() == 3
    assert jumps[0, 0, 8].argmax() == 2
    assert float(jumps[0, 0, 7].max()) > 0.999
    assert float(stay[0, 0, :7].min()) > 0.999


@pytest.mark.parametrize("orthogonal", ["exact", "penalty", "none"])
def test_the_recurrence_is_orthogonal_by_gate(orthogonal):
    torch.manual_seed(0)
    gru = OrthogonalGRU(6, 10, orthogonal).double()
    with torch.no_grad():
        for parameter in gru.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    blocks = gru.weights()
    products = blocks.transpose(1, 2) @ blocks
    exact = torch.allclose(products, torch.eye(10).double(), atol=1e-6)
    assert exact == (orthogonal == "exact")
    penalty = (products - torch.eye(10).double()).square().sum()
    torch.testing.assert_close(gru.penalty(), penalty, atol=1e-12, rtol=1e-9)
    # Without gradients the matrices are cached, but never stale.
    with torch.no_grad():
        kept = gru.weights().clone()
        gru.recurrent.add_(0.1 * torch.randn_like(gru.recurrent))
        assert not torch.allclose(gru.weights(), kept)
        torch.testing.assert_close(gru.weights(), gru._matrices())


@pytest.mark.parametrize("orthogonal", ["exact", "penalty", "none"])
def test_the_penalty_is_minimised_where_it_is_asked_for(orthogonal):
    made = build(prism_orthogonal=orthogonal)
    expected = {"recurrence": 1e-3 * made.recurrent.penalty()} if orthogonal == "penalty" else {}
    torch.testing.assert_close(made.losses(LossContext(None)), expected)


@pytest.mark.parametrize("how", ["fused", "data", "buffers"])
def test_recurrences_without_gradients_follow_the_weights(how):
    """Also if neither address nor version of a changed weight differs."""
    made, other = build(torch.float32), build(torch.float32, seed=1)
    with torch.no_grad():
        made.recurrent.weights()
    if how == "fused":
        optimizer = torch.optim.AdamW(made.parameters(), lr=0.05, fused=True)
        made.recurrent.weights().square().sum().backward()
        optimizer.step()
    else:
        for actual, its in zip(made.parameters(), other.parameters(), strict=True):
            actual.data.copy_(its.data)
        if how == "buffers":
            made.recurrent.base.data.copy_(other.recurrent.base)
            made.recurrent.weights()
            made.recurrent.folded.data.zero_()
    with torch.no_grad():
        found = made.recurrent.weights()
    torch.testing.assert_close(found, made.recurrent.weights().detach(), atol=0, rtol=0)


def test_a_module_made_for_inference_runs():
    with torch.inference_mode():
        made = build(torch.float32)
    again = copy.deepcopy(made)
    with torch.no_grad():
        x = torch.randn(1, 3, 24)
        torch.testing.assert_close(made(x)[0].queries, again(x)[0].queries, atol=0, rtol=0)


def test_the_number_of_places_can_change_after_training():
    made = build(prism_copy=True)
    x = torch.randn(1, 12, 24, dtype=torch.float64)
    before, _ = made(x)
    made.set_places(64)
    after, _ = made(x)
    assert after.histograms.shape[-1] == 64
    # Twelve steps from place 0 reach no end of either. Only the eps of the places differs.
    torch.testing.assert_close(after.histograms[..., :13], before.histograms[..., :13], atol=1e-5, rtol=0)
    with pytest.raises(OptionError, match="places must be greater than or equal to 3"):
        made.set_places(2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"positions": "none"}, "prism_cursors=5 does nothing with positions='none'"),
        ({"prism_width": 7}, "width must be a multiple of 2, got 7"),
        ({"prism_places": 2}, "places must be greater than or equal to 3"),
        ({"prism_reset": 0.0}, "reset must be greater than 0, got 0.0"),
        ({"prism_reset": 1.0}, "reset must be less than 1"),
        ({"prism_copy_width": 8}, "copy_width=8 does nothing with copy=False"),
        ({"prism_norm": "time"}, "norm must be 'row' or 'fixed', got 'time'"),
        ({"prism_orthogonal": True}, "orthogonal must be 'exact'"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, reason):
    with pytest.raises(OptionError) as caught:
        config(**changes)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cursors_start_as_they_say_inside_a_model():
    """The model's initialisation does not overwrite the gates'; heads weigh cursors differently."""
    torch.manual_seed(0)
    made = BaselineTransformer(models.config("baseline", **PRISM, prism_alpha=10.0))
    bound = 8**-0.5
    assert 0.5 * bound < float(made.positions.gates.weight.detach().abs().max()) <= bound
    alpha = made.layers[0].mix.alpha.detach()
    assert float(alpha.min()) >= 5.0
    assert float(alpha.max()) <= 15.0
    assert float(alpha.std()) > 1.0
    assert not torch.equal(alpha, made.layers[1].mix.alpha.detach())


def test_new_places_need_layers_in_a_row():
    cfg = models.config("baseline", **PRISM, prism_again=2)
    with pytest.raises(OptionError, match="again=2 is for layers in a row"):
        AnticipatoryTransformer(cfg)
    for again in (1, 4):
        cfg = models.config("baseline", **PRISM, prism_again=again)
        with pytest.raises(OptionError, match="a layer from 2 to the last one, 3"):
            BaselineTransformer(cfg)
    made = models.build("baseline", torch.float32, **PRISM, prism_again=2)
    without = models.build("baseline", torch.float32, **PRISM)
    for one, other in ((made, without), (without, made)):
        with pytest.raises(ShapeError, match="another configuration's"):
            one.step(torch.zeros(1, dtype=torch.int64), other.initial_state(1))
