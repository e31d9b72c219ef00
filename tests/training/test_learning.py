"""Targets, losses and windows."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from pyanticip.models import ModelConfig, MotionTransformer
from training.data.batches import HORIZONS, TARGET_EDGE, WARM_UP, Windows, event_targets
from training.tasks.motion.losses import event_nll, losses, reliability

SMALL = ModelConfig(d_model=32, heads=4, fast_layers=1, slow_layers=1, ff=64, control_hidden=64, dropout=0.1)


def test_event_bins_count_from_the_next_frame():
    bins, seen = event_targets(np.array([10, 40]), 50)
    assert bins[9] == 0
    assert bins[10] == 25
    assert bins[15] == 24
    assert bins[14] == 25
    assert bins[39] == 0
    assert bins[45] == 25
    assert seen[0] == 25
    assert seen[48] == 1
    assert seen[49] == 0


def test_targets_are_the_teachers_words_at_the_horizon(example_of):
    example = example_of(300, seed=1)
    batch = Windows([example]).gather(np.array([0, 0]), np.array([0, 130]), 160)
    for i, h in enumerate(HORIZONS):
        t = 120
        np.testing.assert_array_equal(batch.params[0, t, :, i].numpy(), example.params[t + h])
        np.testing.assert_array_equal(batch.params[1, t, :, i].numpy(), example.params[130 + t + h])
    # A clip's start counts, except where the teacher's kernel is truncated; a window's start is context.
    assert batch.params_weight[0, :, 0].nonzero().min() == TARGET_EDGE
    assert batch.params_weight[1, :, 0].nonzero().min() == WARM_UP
    last = batch.params_weight[1, :, -1].nonzero().max()
    assert 130 + int(last) + HORIZONS[-1] == 300 - TARGET_EDGE - 1


def test_padding_beyond_a_clip_is_not_judged(example_of):
    batch = Windows([example_of(100, seed=1)]).gather(np.array([0]), np.array([0]), 160)
    assert batch.weight[0, :100].all()
    assert not batch.weight[0, 100:].any()
    assert not batch.event_seen[0, 99:].any()


def test_the_likelihood_of_hazards_adds_up_to_one():
    torch.manual_seed(0)
    logits = torch.randn(1, 1, 1, 25, dtype=torch.float64)
    total = sum(
        math.exp(-float(event_nll(logits, torch.tensor([[[b]]]), torch.tensor([[[25]]])))) for b in range(26)
    )
    assert abs(total - 1.0) < 1e-12
    assert float(event_nll(logits, torch.tensor([[[3]]]), torch.tensor([[[0]]]))) == 0.0


def test_reliability_is_a_half_where_the_base_rate_is_said(example_of):
    model = MotionTransformer(SMALL).eval()
    batch = Windows([example_of(200, seed=2)]).gather(np.array([0]), np.array([0]), 160)
    with torch.no_grad():
        out = model(batch.features)
        base = dataclasses.replace(out, events=model.control.base.view(1, 1, 2, 25).expand_as(out.events))
    assert torch.allclose(reliability(model, base, batch), torch.tensor(0.5))
    target = reliability(model, out, batch)
    assert float(target.min()) >= 0.0
    assert float(target.max()) <= 1.0


def test_the_gate_should_open_where_the_model_foresees_and_shut_where_it_is_wrong(example_of):
    model = MotionTransformer(SMALL).eval()
    batch = Windows([example_of(200, seed=2)]).gather(np.array([0]), np.array([0]), 160)
    bins = torch.arange(25)
    knows = torch.where(bins == batch.event_bin[..., None], 6.0, -6.0)
    with torch.no_grad():
        out = model(batch.features)
    frames = batch.event_seen.sum(-1) > 0
    right, wrong = (
        reliability(model, dataclasses.replace(out, events=sign * knows), batch)[frames]
        for sign in (1.0, -1.0)
    )
    assert float(right.min()) > 0.5
    assert float(wrong.max()) < 0.01


def test_subjects_count_by_the_root_of_their_frames(example_of):
    """A person recorded nine times as long is drawn three times as often."""
    windows = Windows([example_of(300, seed, "long") for seed in range(9)] + [example_of(300, 9, "short")])
    rng = np.random.default_rng(0)
    drawn = np.concatenate([windows.choose(rng, 3200)[0] for _ in range(400)])
    assert np.mean(drawn == 9) == pytest.approx(1.0 / 4.0, abs=0.03)
    assert len(set(drawn.tolist())) == 10


def test_every_part_of_the_loss_reaches_the_model(example_of):
    model = MotionTransformer(SMALL).train()
    batch = Windows([example_of(200, seed=2)]).gather(np.array([0]), np.array([0]), 160)
    parts = losses(model, model(batch.features), batch, torch.ones(8, 5))
    torch.autograd.backward(sum(parts.values()))
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_windows_suit_the_length_of_their_clips(example_of):
    windows = Windows([example_of(n, seed=n) for n in (100, 300, 700)])
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(40):
        batch = windows.gather(*windows.choose(rng, 640))
        rows, length = batch.weight.shape
        assert rows * length <= 640
        seen.add(length)
    assert seen == {160, 320, 640}
