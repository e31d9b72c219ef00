"""Streaming state: rows are independent, memory is bounded. That sequences equal their chunks is tested in
``test_family.py``."""

import dataclasses
import itertools

import pytest
import torch
from support import models

from pyanticip.errors import OptionError, ShapeError

FIELDS = ("params", "events", "scalars", "initial", "gate", "share", "hidden")


def frames(rows, length, seed=1, dtype=torch.float64):
    return torch.randn(rows, length, 231, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("batch", [0, -1, 2.5, True])
def test_a_state_has_rows(build, batch):
    with pytest.raises(OptionError, match=f"batch must be an integer of at least 1, got {batch}"):
        build().initial_state(batch)


@pytest.mark.parametrize("rows", [torch.tensor([0, 1]), torch.tensor([True]), [True, False]])
def test_rows_that_are_no_mask_reset_nothing(build, rows):
    _, state = build()(frames(2, 3), build().initial_state(2))
    before = state.clone()
    with pytest.raises(ShapeError, match=r"rows must be .*\(2,\) of torch.bool, got"):
        state.reset(rows)
    assert all(map(torch.equal, state.tensors(), before.tensors()))


@torch.no_grad()
def test_rows_are_independent(build):
    model = build()
    x = frames(3, 40)
    other = x.clone()
    other[1] += 1.0
    a, b = model(x), model(other)
    for name in FIELDS:
        one, two = getattr(a, name), getattr(b, name)
        assert torch.equal(one[[0, 2]], two[[0, 2]])
        assert name == "params" or not torch.equal(one[1], two[1])


def test_gradients_flow_through_a_carried_state_and_leave_it_alone(build):
    model = build()
    x = frames(1, 40)
    _, state = model(x[:, :20], model.initial_state(1))
    before = [t.clone() for t in state.tensors()]
    out, _ = model(x[:, 20:], state)
    out.params.sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(before, state.tensors(), strict=True))
    carried = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    whole = model(x)
    whole.params[:, 20:].sum().backward()
    for a, p in zip(carried, (p for p in model.parameters() if p.grad is not None), strict=True):
        torch.testing.assert_close(a, p.grad, atol=1e-9, rtol=1e-7)


@torch.no_grad()
def test_context_is_finite_and_the_same_offline(build):
    """Inputs beyond the reach of all layers together have no effect; memory does not grow."""
    model = build(slow_stride=3, pools=3, window=6, taps=4)
    reach = 3 + max(2 * 3, 2 * 2 * 3 + 2 * 3)
    x = frames(1, 80)
    other = x.clone()
    other[:, : 80 - reach - 3] = frames(1, 80 - reach - 3, seed=5)
    assert torch.equal(model(x).hidden[:, -1], model(other).hidden[:, -1]) or torch.allclose(
        model(x).hidden[:, -1], model(other).hidden[:, -1], atol=1e-13, rtol=0
    )
    state = model.initial_state(1)
    shapes = [t.shape for t in state.tensors()]
    for i in range(80):
        _, state = model.step(x[:, i], state)
    assert [t.shape for t in state.tensors()] == shapes


@torch.no_grad()
def test_state_keeps_its_memory_when_stepping(build):
    model = build()
    state = model.initial_state(2)
    rings = [ring.k.data_ptr() for ring in (*state.trunk.fast, *state.trunk.slow)]
    for i in range(20):
        _, state = model.step(frames(2, 1, seed=i)[:, 0], state)
    assert [ring.k.data_ptr() for ring in (*state.trunk.fast, *state.trunk.slow)] == rings
    assert dataclasses.is_dataclass(state)


@pytest.mark.parametrize("strokes", [False, True])
@torch.no_grad()
def test_state_updated_in_place_with_known_pools_is_the_same(build, strokes):
    """As in a captured graph: the caller passes ``due``, and the state is updated in its own memory."""
    model = build(slow_stride=3, strokes=strokes)
    x = frames(1, 30)
    plain, fixed = model.initial_state(1), model.initial_state(1)
    places = [t.data_ptr() for t in fixed.tensors()]
    for i in range(30):
        a, plain = model.step(x[:, i], plain)
        b, after = model.step(x[:, i], fixed, due=i % 3 == 2)
        fixed.restore(after)
        assert torch.equal(a.params, b.params)
        assert torch.equal(a.events, b.events)
    assert [t.data_ptr() for t in fixed.tensors()] == places
    assert len(set(places)) == len(places)


OTHERS = [
    {"window": 12},
    {"control_field": True},
    {"planning": {"inference": "recurrent"}},
    {"planning": {"inference": "passes"}},
    {"positions": "trajectory"},
    models.PRISM,
    {**models.PRISM, "prism_places": 30},
    {"slow_layers": 2},
]


@pytest.mark.parametrize("kind", models.KINDS)
def test_a_state_of_another_configuration_is_refused(kind):
    family = [models.build(kind, torch.float32, **changes) for changes in ({}, *OTHERS)]
    family.append(models.build(kind, torch.float64))
    with torch.no_grad():
        for one, other in itertools.permutations(family, 2):
            x = models.inputs(kind, 2, 1, one.state_dict()[next(iter(one.state_dict()))].dtype)
            state = other.initial_state(2)
            if kind == "baseline" and {one.cfg.window, other.cfg.window} == {8, 12}:
                continue  # it has no finite window
            with pytest.raises(ShapeError, match="make it with this model's initial_state"):
                one(x, state=state)
