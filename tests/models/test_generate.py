"""Generation with the commitment gate: which rows wait, their latent steps, and the statistics."""

import numpy as np
import pytest
import torch
from support.models import build

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.token.generate import generate

SIZES = {"fast_layers": 1, "ff": 16, "vocab": 13, "max_seq_len": 64}


def model(gate=None, **changes):
    """A random model; ``gate`` pins its commitment gate to a constant."""
    made = build("anticipatory", torch.float32, 0.3, **{**SIZES, **changes})
    if gate is not None:
        with torch.no_grad():
            made.trunk.commitment.combine.weight.zero_()
            made.trunk.commitment.combine.bias.fill_(float(np.log(gate / (1 - gate))))
    return made


PROMPT = torch.tensor([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    ("gate", "wait", "forced"),
    [(0.9, 0, False), (0.75, 1, False), (0.65, 2, False), (0.5, 4, False), (0.41, 5, False), (0.3, 5, True)],
)
def test_a_constant_gate_waits_until_the_threshold_has_fallen_below_it(gate, wait, forced):
    made = generate(model(gate), PROMPT, tokens=4)
    assert (made.waits == wait).all()
    assert (made.forced == forced).all()
    assert (made.forwards == 4 * (1 + wait)).all()
    assert made.statistics()["tokens_per_forward"] == round(1 / (1 + wait), 5)
    torch.testing.assert_close(made.gate, torch.full((2, 4), gate))
    assert torch.equal(made.ids[:, :3], PROMPT)


def test_without_the_gate_generation_is_the_offline_model():
    made = model()
    out = generate(made, PROMPT, tokens=9, gated=False, temperature=0.0)
    assert out.statistics()["waits"] == [18]
    whole = made(out.ids).logits
    assert torch.equal(whole[:, 2:-1].argmax(-1), out.ids[:, 3:])
    expected = whole[:, 2:-1].log_softmax(-1).gather(-1, out.ids[:, 3:, None])[..., 0]
    torch.testing.assert_close(out.log_probs, expected, atol=1e-5, rtol=1e-5)


def test_waiting_feeds_the_hidden_state():
    made = model(0.75)
    out = generate(made, PROMPT, tokens=2, temperature=0.0)
    state = made.initial_state(2)
    output, state = made(PROMPT, state=state)
    yes = torch.ones(2, dtype=torch.bool)
    none = torch.zeros(2, dtype=torch.int64)
    waited, state = made.latent_step(none, output.hidden[:, -1], yes, state)
    first = waited.logits[:, -1].argmax(-1)
    after, state = made.step(first, state)
    waited, state = made.latent_step(none, after.hidden[:, -1], yes, state)
    assert torch.equal(out.ids[:, 3:], torch.stack([first, waited.logits[:, -1].argmax(-1)], 1))


@pytest.mark.parametrize("scalars", ["initial", "refined_prev", "external"])
def test_rows_are_independent(scalars):
    made = model()
    with torch.no_grad():
        made.token.weight.mul_(5.0)  # so that tokens matter more than positions
        made.trunk.commitment.local.weight.copy_(torch.randn(1, 16))
        made.trunk.commitment.combine.weight.copy_(torch.tensor([[3.0, 0.0]]))
        made.trunk.commitment.combine.bias.fill_(-2.0)
    both = generate(made, PROMPT, tokens=12, seed=5, scalars=scalars)
    assert len(both.statistics()["waits"]) > 1, "the gate must decide differently at times"
    assert not torch.equal(both.waits[0], both.waits[1])
    for row in range(2):
        among = torch.tensor([[7, 8, 9], [10, 11, 12], [2, 2, 2]])[: row + 2]
        among[row] = PROMPT[row]
        other = generate(made, among, tokens=12, seed=5, scalars=scalars)
        assert torch.equal(other.ids[row], both.ids[row])
        assert torch.equal(other.waits[row], both.waits[row])
        torch.testing.assert_close(other.log_probs[row], both.log_probs[row], atol=1e-5, rtol=1e-4)


def test_external_scalars_are_those_of_what_was_fed():
    made = model(0.9)
    import pyanticip as pa

    out = generate(made, PROMPT, tokens=10, scalars="external", temperature=0.0, neighbours=2)
    given = pa.vector_scalars(made.embed(out.ids).detach().double().numpy(), k=2)
    whole = made(out.ids, torch.from_numpy(given).float()).logits
    assert torch.equal(whole[:, 2:-1].argmax(-1), out.ids[:, 3:])


def test_rows_stop_waiting_when_the_sequence_would_not_fit():
    made = model(0.3, max_seq_len=12)
    out = generate(made, PROMPT, tokens=6)
    assert out.waits[0].tolist() == [4, 0, 0, 0, 0, 0]
    assert out.cramped[0].all()
    endless = generate(model(0.3, max_seq_len=12, positions="rope"), PROMPT, tokens=6)
    assert (endless.waits == 5).all()


def test_sampling_follows_the_distribution():
    made = model()
    drawn = generate(made, PROMPT[:1].expand(4000, 3), tokens=1, gated=False, seed=1).ids[:, 3]
    expected = made(PROMPT[:1]).logits[0, -1].softmax(-1).detach().numpy()
    found = np.bincount(drawn.numpy(), minlength=13) / 4000
    np.testing.assert_allclose(found, expected, atol=0.03)
    top = generate(made, PROMPT[:1].expand(500, 3), tokens=1, gated=False, top_k=2).ids[:, 3]
    assert set(top.tolist()) == set(np.argsort(-expected)[:2].tolist())
    again = generate(made, PROMPT, tokens=8, seed=3)
    assert torch.equal(again.ids, generate(made, PROMPT, tokens=8, seed=3).ids)
    assert not torch.equal(again.ids, generate(made, PROMPT, tokens=8, seed=30).ids)
    # No row of one seed is a row of another: samples of several seeds are independent.
    rows = [generate(made, PROMPT[:1].expand(4, 3), tokens=12, seed=seed).ids for seed in range(4)]
    assert len({tuple(row) for row in torch.cat(rows).tolist()}) == 16


def test_the_baseline_generates_without_a_gate():
    plain = build("baseline", torch.float32, 0.0, **SIZES)
    out = generate(plain, PROMPT, tokens=7, gated=False, temperature=0.0)
    assert torch.equal(plain(out.ids).logits[:, 2:-1].argmax(-1), out.ids[:, 3:])
    with pytest.raises(OptionError, match="gated must be False for a baseline"):
        generate(plain, PROMPT, tokens=7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"theta": 1.5}, "theta must be from 0 to 1, got 1.5"),
        ({"max_buffer": 0}, "max_buffer must be at least 1, got 0"),
        ({"temperature": float("nan")}, "temperature must be 0 or more"),
        ({"top_k": 14}, "top_k must be from 1 to the vocabulary's 13, got 14"),
        ({"tokens": 0}, "tokens must be a whole number of at least 1, got 0"),
        ({"tokens": 3.0}, "tokens must be a whole number of at least 1, got 3.0"),
        ({"scalars": "own"}, "scalars must be initial"),
        ({"tokens": 70}, "max_seq_len is 64"),
    ],
)
def test_bad_options(changes, message):
    with pytest.raises((OptionError, ShapeError), match=message):
        generate(model(), PROMPT, **{"tokens": 3, **changes})


@pytest.mark.parametrize("prompt", [[[1, 2]], torch.zeros(0, 3, dtype=torch.int64), torch.full((1, 2), 13)])
def test_bad_prompts(prompt):
    with pytest.raises(ShapeError, match="prompt must be"):
        generate(model(), prompt, tokens=3)
