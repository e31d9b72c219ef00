"""Fused attention in half precision, and filled up as GPU kernels want it, against float32 scores."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from pyanticip.models import AnticipatoryTransformer, ModelConfig
from pyanticip.models.core.band import make_band
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.steering import Steering

ROWS, LENGTH, HEADS, WIDTH = 2, 200, 4, 32
PASTS = (16, LENGTH - 1)
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


def case(device="cpu"):
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
    qkv, steering = case(device)
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
    qkv, steering = case()
    qkv = [t.double() for t in qkv]
    steering = Steering(*(t.double() for t in (steering.amplitude, steering.rate, steering.beta)))
    layout = make_fused(LENGTH, past, steering, device=qkv[0].device, dtype=torch.float64)
    wide = replace(layout, alignment=8)
    assert wide._widen(qkv[0], [wide.queries]).shape[-1] == 40
    torch.testing.assert_close(wide.attend(*qkv, None)[0], layout.attend(*qkv, None)[0])
