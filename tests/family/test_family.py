"""All parts of the family in one model: whatever is put together streams, never looks ahead, and is kept.

Here a set of combinations in which every two choices meet. All of them, with export of every motion model:
``python -m pytest tests/family --full-product``.
"""

import math

import pytest
import torch
from support.members import FACTORS, KINDS, VOCAB, build, covering, inputs, name_of, pairs, product, run, said
from torch.nn import functional as F

from pyanticip.models import ModelConfig, load_checkpoint, save_checkpoint

LENGTH, RESET = 40, 22


def pytest_generate_tests(metafunc):
    full = metafunc.config.getoption("--full-product")
    chosen = [(kind, member) for kind in KINDS for member in (product() if full else covering())]
    if "member" in metafunc.fixturenames:
        metafunc.parametrize(("kind", "member"), chosen, ids=map(label, chosen))
    if "noisy" in metafunc.fixturenames:
        few = [(kind, dict(zip(FACTORS, values, strict=True))) for kind, *values in NOISY]
        metafunc.parametrize("noisy", chosen if full else few, ids=label)


def label(case):
    """A combination's name among the tests."""
    kind, member = case
    return f"{kind}-{name_of(member)}"


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def test_every_two_choices_meet_and_none_is_missing():
    chosen = covering()
    assert set().union(*map(pairs, chosen)) == set().union(*map(pairs, product()))
    assert len(chosen) < len(product()) / 5


@torch.no_grad()
def test_a_stream_says_what_the_sequence_says(kind, member):
    """In single steps and in chunks, across wrap-around of all rings, with one row reset on the way."""
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        noise = 0.2 if dtype == torch.float64 else 0.05
        model = build(kind, member, dtype, noise)
        x = inputs(kind, 2, LENGTH, dtype)
        whole, fresh = said(run(model, x)), said(run(model, x[1:, RESET:]))
        assert ("field" in whole, "codes" in whole) == (member["control_field"], member["planning"])
        for sizes in ([1] * LENGTH, [7, 1, 14, 13, 5]):
            state, at, parts = model.initial_state(2), 0, []
            assert all(not t.any() for t in state.tensors())
            for size in sizes:
                if at == RESET:
                    state.reset(torch.tensor([False, True]))
                out, state = run(model, x[:, at : at + size], state)
                parts.append(said(out))
                at += size
            for name, wanted in whole.items():
                got = torch.cat([part[name] for part in parts], 1)
                for one, other in (
                    (got[0], wanted[0]),
                    (got[1, :RESET], wanted[1, :RESET]),
                    (got[1, RESET:], fresh[name][0]),
                ):
                    torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance, msg=name)


def test_the_past_does_not_depend_on_the_future(kind, member):
    """Exactly: gradients of each step by later inputs are zero, and other inputs later leave it alone."""
    model = build(kind, member)
    x = inputs(kind, 1, 20)
    caught = []
    if kind == "token":
        hook = model.token.register_forward_hook(lambda *args: caught.append(args[2]))
        found = said(run(model, x))
        hook.remove()
    else:
        caught.append(x.requires_grad_())
        found = said(run(model, x))
    for t in (0, 4, 11, 18):
        total = sum(value[:, t].sum() for value in found.values() if value.requires_grad)
        (gradient,) = torch.autograd.grad(total, caught[0], retain_graph=True)
        assert torch.count_nonzero(gradient[:, t + 1 :]) == 0
        assert torch.count_nonzero(gradient[:, t]) > 0
    other = x.detach().clone()
    other[:, 12:] = inputs(kind, 1, 8) if kind == "motion" else (other[:, 12:] + 1) % VOCAB
    with torch.no_grad():
        # In calls of their own, as a plan may be made anew from all there is.
        before, after = said(run(model, x.detach())), said(run(model, other))
    for name, value in before.items():
        assert torch.equal(value[:, :12], after[name][:, :12]), name


def test_it_is_kept_and_comes_back(kind, member, tmp_path, request):
    """Configuration and weights say all; a motion model's graphs are made with ``--full-product`` only."""
    model = build(kind, member, torch.float32, 0.03)
    x = inputs(kind, 1, 20, torch.float32)
    full = request.config.getoption("--full-product")
    if kind == "motion" and not full:
        other = type(model)(ModelConfig.from_dict(model.cfg.to_dict())).eval()
        other.load_state_dict(model.state_dict())
    else:
        other = load_checkpoint(save_checkpoint(tmp_path / "kept", model))
    with torch.no_grad():
        before, after = said(run(model, x)), said(run(other, x))
        for name, value in before.items():
            assert torch.equal(value, after[name]), name
        if kind == "motion" and full:
            from realtime.step.open import open_backend

            backend = open_backend("onnx", tmp_path / "kept")
            for t in range(20):
                step = backend.step(x[0, t : t + 1].numpy())
                torch.testing.assert_close(
                    torch.from_numpy(step.params), before["params"][0, t], atol=1e-4, rtol=0
                )


NOISY = [
    ("token", "prism", "trajectory", True, True, 3),
    ("token", "trajectory", "random", True, False, 1),
    ("motion", "prism", "none", True, False, 3),
]


def test_noise_stays_noise(noisy):
    """Trained on independent uniform symbols, none beats their entropy on others; that it learns to tell the
    symbol it has just seen, from the same batches, shows that a leak would be found."""
    kind, member = noisy
    symbols = VOCAB if kind == "token" else 2
    code = torch.randn(231, generator=torch.Generator().manual_seed(5))
    for target, leaks in ((1, False), (0, True)):
        model = build(kind, member, torch.float32, noise=0.0).train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        generator = torch.Generator().manual_seed(1)

        def loss(rows, target=target, model=model, generator=generator):
            drawn = torch.randint(symbols, (rows, 13), generator=generator)
            truth = drawn[:, target : target + 12]
            if kind == "token":
                return F.cross_entropy(model(drawn[:, :-1]).logits.flatten(0, 1), truth.flatten())
            x = (2.0 * drawn[:, :-1, None] - 1.0) * code
            x[..., 220:227] = torch.rand(rows, 12, 7, generator=generator)
            logits = model(x).events[..., 0, 0]
            return F.binary_cross_entropy_with_logits(logits, truth.float())

        for _ in range(45 if kind == "token" else 25):
            optimiser.zero_grad()
            loss(12).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            found = loss(384).item()
        if leaks:
            assert found < math.log(symbols) - 0.1
        else:
            assert found >= math.log(symbols) - 0.01
