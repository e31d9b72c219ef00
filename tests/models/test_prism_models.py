"""PRISM positions inside the token models and the motion model."""

import pytest
import torch

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.models.token.baseline import BaselineTransformer
from pyanticip.models.token.transformer import AnticipatoryTransformer

PRISM = {"positions": "prism", "prism_cursors": 5, "prism_width": 4, "prism_places": 20, "prism_hidden": 8}
TOKENS = {
    "d_model": 16,
    "heads": 2,
    "fast_layers": 2,
    "slow_layers": 2,
    "ff": 16,
    "vocab": 11,
    "max_seq_len": 64,
    "window": 12,
    "dropout": 0.0,
}
MODELS = {
    "baseline": (BaselineTransformer, {}),
    "baseline, again": (BaselineTransformer, {"prism_again": 3, "prism_copy": True, "prism_absolute": True}),
    "baseline, field": (BaselineTransformer, {"prism_again": 2, "control_field": True}),
    "anticipatory": (AnticipatoryTransformer, {"prism_copy": True, "slow_stride": 3}),
    "anticipatory, alone": (AnticipatoryTransformer, {"bias": "none", "slow_layers": 0}),
}


def build(kind, changes, dtype=torch.float64):
    torch.manual_seed(0)
    made = kind(ModelConfig.small(**{**TOKENS, **PRISM, **changes}))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made.to(dtype).eval()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("kind", "changes"), MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_a_stream_says_what_the_sequence_says(kind, changes, dtype, tolerance):
    made = build(kind, changes, dtype)
    ids = torch.randint(0, 11, (2, 60))
    whole, fresh = made(ids).hidden, made(ids[1:, 31:]).hidden
    made.reference = True
    torch.testing.assert_close(made(ids).hidden, whole, atol=tolerance, rtol=tolerance)
    state, at, seen = made.initial_state(2), 0, []
    for size in [1] * 22 + [9, 1, 20] + [1] * 8:
        if at == 31:
            state.reset(torch.tensor([False, True]))
        out, state = made(ids[:, at : at + size], state=state)
        seen.append(out.hidden)
        at += size
    got = torch.cat(seen, 1)
    torch.testing.assert_close(got[0], whole[0], atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(got[1, :31], whole[1, :31], atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(got[1:, 31:], fresh, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("kind", "changes"), MODELS.values(), ids=MODELS)
def test_nothing_looks_ahead_and_all_of_it_learns(kind, changes):
    made = build(kind, changes)
    ids = torch.randint(0, 11, (1, 24))
    embedded = []
    made.token.register_forward_hook(
        lambda m, a, out: embedded.append(out.detach().requires_grad_()) or embedded[-1]
    )
    hidden = made(ids).hidden
    for t in (0, 5, 17):
        total = (torch.arange(16) * hidden[0, t]).sum()
        (gradient,) = torch.autograd.grad(total, embedded[0], retain_graph=True)
        assert torch.count_nonzero(gradient[:, t + 1 :]) == 0
        assert gradient[:, t].any()
    other = ids.clone()
    other[:, 12:] = (other[:, 12:] + 3) % 11
    assert torch.equal(made(other).hidden[:, :12], hidden[:, :12])
    made.zero_grad()
    made(ids).logits.square().sum().backward()
    silent = [name for name, p in made.named_parameters() if "prism" in name and p.grad is None]
    assert silent == []


@torch.no_grad()
def test_a_motion_stream_goes_on_past_every_ring():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "heads": 4, "fast_layers": 2, "slow_layers": 2, "ff": 24, "window": 12}
    cfg = ModelConfig(**{**sizes, "pools": 5, "slow_stride": 3, "taps": 12, "dropout": 0.0, **PRISM})
    made = MotionTransformer(cfg).double().eval()
    x = torch.randn(2, 120, 231).double()
    whole = made(x)
    state, seen = made.initial_state(2), []
    for t in range(120):
        out, state = made.step(x[:, t], state)
        seen.append(out.params)
    torch.testing.assert_close(torch.cat(seen, 1), whole.params, atol=1e-10, rtol=1e-10)


def test_cursors_start_as_they_say_inside_a_model():
    """The model's own start of linear layers does not reach the gates; heads weigh cursors differently."""
    torch.manual_seed(0)
    made = BaselineTransformer(ModelConfig.small(**{**TOKENS, **PRISM, "prism_alpha": 10.0}))
    bound = 8**-0.5
    assert 0.5 * bound < float(made.positions.gates.weight.detach().abs().max()) <= bound
    alpha = made.layers[0].mix.alpha.detach()
    assert float(alpha.min()) >= 5.0
    assert float(alpha.max()) <= 15.0
    assert float(alpha.std()) > 1.0
    assert not torch.equal(alpha, made.layers[1].mix.alpha.detach())


def test_new_places_need_layers_in_a_row():
    cfg = ModelConfig.small(**{**TOKENS, **PRISM, "prism_again": 2})
    with pytest.raises(OptionError, match="again=2 is for layers in a row"):
        AnticipatoryTransformer(cfg)
    for again in (1, 5):
        cfg = ModelConfig.small(**{**TOKENS, **PRISM, "prism_again": again})
        with pytest.raises(OptionError, match="a layer from 2 to the last one, 4"):
            BaselineTransformer(cfg)


def test_uniform_noise_stays_noise():
    """Trained on independent tokens, the model knows no more of the next one than its frequency."""
    torch.manual_seed(0)
    cfg = ModelConfig.small(**{**TOKENS, **PRISM, "fast_layers": 1, "slow_layers": 1, "prism_copy": True})
    made = BaselineTransformer(cfg, matched=False)
    optimiser = torch.optim.AdamW(made.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)

    def loss(rows):
        ids = torch.randint(0, 11, (rows, 33), generator=generator)
        logits = made(ids[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    for _ in range(120):
        optimiser.zero_grad()
        loss(16).backward()
        optimiser.step()
    made.eval()
    with torch.no_grad():
        entropy = float(loss(400))
    assert torch.log(torch.tensor(11.0)) - 0.01 <= entropy <= torch.log(torch.tensor(11.0)) + 0.1
