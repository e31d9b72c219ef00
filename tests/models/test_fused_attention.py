"""Fused attention: stretches and strips equal the reference at all edges; lower precision is close."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from pyanticip.models import AnticipatoryTransformer, ModelConfig
from pyanticip.models.core import chunked as strips_module
from pyanticip.models.core.band import make_band
from pyanticip.models.core.chunked import Chunked
from pyanticip.models.core.fused import MAX_EXPONENT, MAX_STRETCHES, Fused, count_stretches, make_fused
from pyanticip.models.core.steering import Extras, PositionVectors, Steering

CLOSE = {torch.float64: 1e-10, torch.float32: 1e-5}


def case(length, rates, dtype=torch.float64, rows=2, width=4, seed=0, slopes=False, places=0):
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()

    heads = len(rates)
    qkv = [normal(rows, length, heads, width) for _ in range(3)]
    steered = [normal(rows, length, heads), torch.tensor(rates, dtype=dtype).requires_grad_(), normal(heads)]
    leaves = [*qkv, *steered]
    extras = None
    if places:
        leaves += [normal(rows, length, places, 3) for _ in range(2)]
        leaves += [normal(heads, places), normal(heads), normal(rows, length)]
        extras = Extras(leaves[-1], leaves[-3], leaves[-2])
    steering = Steering(
        *steered,
        slopes=torch.linspace(0.1, 0.5, heads, dtype=dtype) if slopes else None,
        rotary=1.0 if slopes else 0.0,
        places=PositionVectors(*leaves[6:8]) if places else None,
    )
    return qkv, steering, extras, leaves


def made(make, qkv, steering, past, extras, leaves, **options):
    """Mixed values, and the gradients of a weighted sum of them."""
    length = qkv[0].shape[1]
    layout = make(length, past, steering, device=qkv[0].device, dtype=qkv[0].dtype, **options)
    mixed, _ = layout.attend(*qkv, None, extras)
    weights = torch.linspace(-1.0, 1.0, mixed.numel(), dtype=mixed.dtype).sin().view_as(mixed)
    gradients = torch.autograd.grad((mixed * weights).sum(), leaves)
    return layout, [mixed.detach(), *gradients]


def compare(kind, length, rates, past=None, dtype=torch.float64, **options):
    past = length - 1 if past is None else past
    things = case(length, rates, dtype, **options)
    qkv, steering, extras, leaves = things
    layout, found = made(make_fused, qkv, steering, past, extras, leaves)
    assert isinstance(layout, kind)
    _, wanted = made(make_band, qkv, steering, min(past, length - 1), extras, leaves, count=None)
    for actual, expected in zip(found, wanted, strict=True):
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(actual / scale, expected / scale, atol=CLOSE[dtype], rtol=0)
    return layout


@settings(max_examples=40)
@given(
    length=st.integers(2, 90),
    stretches=st.integers(3, MAX_STRETCHES),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 99),
)
def test_stretches_give_the_reference_wherever_their_edges_lie(length, stretches, share, seed):
    steepest = stretches * MAX_EXPONENT / length * (1 - 1e-9)
    layout = compare(Fused, length, [steepest, share * steepest, 0.01], seed=seed)
    assert layout.keys.shape[-1] == stretches


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("stretches", [3, 5, MAX_STRETCHES])
def test_stretches_with_all_that_layers_add(stretches, dtype):
    rate = stretches * MAX_EXPONENT / 150 * 0.99
    layout = compare(Fused, 150, [rate, rate / 7], dtype=dtype, slopes=True, places=2)
    assert layout.keys.shape[-1] == stretches + 1


@settings(max_examples=30)
@given(
    length=st.integers(1, 60),
    budget=st.integers(1, 4000),
    past=st.integers(0, 80),
    rate=st.sampled_from([0.3, 30.0, 1000.0]),
    seed=st.integers(0, 99),
)
def test_strips_give_the_reference_wherever_they_are_cut(length, budget, past, rate, seed):
    things = case(length, [rate, 0.1], seed=seed, slopes=True, places=2)
    qkv, steering, extras, leaves = things
    before, strips_module.MAX_STRIP_SCORES = strips_module.MAX_STRIP_SCORES, budget
    try:
        _, found = made(lambda length, past, steering, **_: Chunked(past, steering), *things_of(things, past))
    finally:
        strips_module.MAX_STRIP_SCORES = before
    _, wanted = made(make_band, qkv, steering, past, extras, leaves, count=None)
    for actual, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-10, rtol=1e-10)


def things_of(things, past):
    qkv, steering, extras, leaves = things
    return qkv, steering, past, extras, leaves


def test_what_takes_strips_and_what_the_reference():
    device, full = torch.device("cpu"), torch.float32

    def taken(length, past, rates, dtype=full):
        steering = case(length, rates)[1] if rates else Steering()
        return make_fused(length, past, steering, device=device, dtype=dtype)

    steep = [1.01 * MAX_STRETCHES * MAX_EXPONENT / 90]
    assert isinstance(taken(90, 89, steep), Chunked)
    assert isinstance(taken(90, 89, [-1.0]), Fused)
    assert isinstance(taken(90, 89, [-1.5]), Chunked)
    assert isinstance(taken(90, 89, []), Fused)
    assert isinstance(taken(90, 89, [], torch.float16), Chunked)
    assert taken(90, 20, steep) is None
    assert isinstance(taken(2000, 1100, [0.1]), Chunked)
    assert isinstance(taken(2000, 1100, [0.01]), Fused)
    compare(Chunked, 90, steep)


def test_how_many_stretches():
    def count(span, *rates, dtype=torch.float32):
        rate = torch.tensor(rates)
        return count_stretches(Steering(rate, rate, rate), span, dtype)

    assert [count(n, 0.01) for n in (2, 12_000, 12_001, 16_384, 32_768, 65_536)] == [1, 1, 3, 3, 6, 11]
    assert count(200_000, 0.01) == 0
    assert count(12_000, -0.01) == 1
    assert count(12_001, -0.01) == count(100, float("nan")) == count(100, float("inf")) == 0
    assert count(24_000, 0.01, -0.001) == 4
    assert count(100, 0.01, dtype=torch.float16) == 0
    assert count_stretches(Steering(), 10**9, torch.float32) == 1
    # The exponents of keys plus beta must stay in range too.
    rate = torch.tensor([0.01])
    betas = [torch.tensor([beta]) for beta in (-50.0, 20.0, 21.0)]
    assert [count_stretches(Steering(rate, rate, beta), 100, rate.dtype) for beta in betas] == [1, 1, 0]


def test_a_rate_below_zero_keeps_the_middle_of_the_sequence():
    compare(Fused, 80, [6.0, -0.05])


@torch.no_grad()
def test_gradients_of_hidden_keys_are_no_numbers_without_end():
    """A key far beyond the end of a stretch would have a factor out of range."""
    qkv, steering, _, _ = case(400, [16 * 60 / 400 * 0.999], torch.float32)
    with torch.enable_grad():
        layout = make_fused(400, 399, steering, device=qkv[0].device, dtype=torch.float32)
        layout.attend(*qkv, None)[0].square().sum().backward()
    for leaf in (steering.amplitude, steering.rate, steering.beta, *qkv):
        assert bool(leaf.grad.isfinite().all())
    assert bool((layout.keys.abs() < 1e30).all())


@torch.no_grad()
def test_memory_grows_with_the_length():
    from pyanticip.bench.train import peak_bytes

    def peak(length, rate):
        qkv, steering, _, _ = case(length, [rate] * 2, torch.float32, rows=1, width=8)
        layout = make_fused(length, length - 1, steering, device=qkv[0].device, dtype=torch.float32)
        return peak_bytes(lambda: layout.attend(*qkv, None), qkv[0].device)

    for rate in (0.1, 5.0):
        short, long = peak(1024, rate), peak(4096, rate)
        if short is not None and long is not None:
            # The scores alone would take 128 MiB.
            assert long < max(8 * short, 1 << 26)


ROWS, LENGTH, HEADS, WIDTH = 2, 200, 4, 32
PASTS = (16, LENGTH - 1)
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


def in_half(device="cpu"):
    draw = torch.Generator().manual_seed(0)
    amplitude = 2 * torch.randn(ROWS, LENGTH, HEADS, generator=draw)
    rate = 0.01 + 0.05 * torch.rand(HEADS, generator=draw)
    qkv = [torch.randn(ROWS, LENGTH, HEADS, WIDTH, generator=draw).bfloat16() for _ in range(3)]
    steering = Steering(amplitude.to(device), rate.to(device), torch.zeros(HEADS, device=device))
    return [t.to(device) for t in qkv], steering


def attend(make, qkv, past, steering, dtype, **options):
    layout = make(LENGTH, past, steering, device=qkv[0].device, dtype=dtype, **options)
    return layout.attend(*qkv, None)[0].float()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("past", PASTS)
@torch.no_grad()
def test_bfloat16_errs_by_a_thousandth_and_less_than_plain_attention(past, device):
    qkv, steering = in_half(device)
    exact = attend(make_band, [t.float() for t in qkv], past, steering, torch.float32, count=None)
    fused = attend(make_fused, qkv, past, steering, torch.bfloat16)
    with torch.autocast(device, torch.bfloat16):
        plain = attend(make_band, qkv, past, steering, torch.bfloat16, count=None)
    error = (fused - exact).square().mean().sqrt()
    assert error <= 1e-3
    assert error <= (plain - exact).square().mean().sqrt()


@pytest.mark.parametrize("device", DEVICES)
@torch.no_grad()
def test_autocast_leaves_the_loss_where_it_is(device):
    torch.manual_seed(0)
    model = AnticipatoryTransformer(ModelConfig.small(dropout=0.0)).to(device)
    for parameter in model.parameters():
        parameter.add_(0.02 * torch.randn_like(parameter))
    ids = torch.randint(1000, (2, 257), device=device)
    scalars = torch.rand(2, 256, 7, device=device)
    losses = []
    for reference in (False, True):
        model.trunk.reference = reference
        with torch.autocast(device, torch.bfloat16):
            logits = model(ids[:, :-1], scalars).logits.float()
        losses.append(float(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())))
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)


@pytest.mark.parametrize("past", PASTS)
def test_filling_up_heads_changes_nothing(past):
    qkv, steering = in_half()
    qkv = [t.double() for t in qkv]
    steering = Steering(*(t.double() for t in (steering.amplitude, steering.rate, steering.beta)))
    layout = make_fused(LENGTH, past, steering, device=qkv[0].device, dtype=torch.float64)
    wide = replace(layout, alignment=8)
    assert wide._widen(qkv[0], [wide.queries]).shape[-1] == 40
    torch.testing.assert_close(wide.attend(*qkv, None)[0], layout.attend(*qkv, None)[0])
