"""All parts of the family in one model: whatever is put together streams, never looks ahead, and is kept.

Here a set of combinations in which every two choices meet, and each option of a part by itself. All
combinations, with export of every motion model:
``python -m pytest tests/models/test_family.py --full-product``.
"""

import math

import torch
from support.models import (
    FACTORS,
    PRISM,
    VOCAB,
    build,
    covering,
    given,
    inputs,
    name_of,
    pairs,
    product,
    run,
    said,
)
from torch.nn import functional as F

from pyanticip.models import load_checkpoint, save_checkpoint

LENGTH, RESET = 40, 22
MODES = ("external", "initial", "refined_prev")
SCHEMES = ("none", "sinusoidal", "rope", "alibi", "trajectory")
BIASES = ("none", "trajectory", "random")
BODY = {"kinematics": True, "d_model": 32, "taps": 12}

OPTIONS = {
    "motion": [
        *({**changes, "mode": mode} for mode in MODES for changes in (BODY, {**BODY, "bias": "none"})),
        *({"slow_stride": 1, "mode": mode} for mode in MODES),
        {"window": 2, "pools": 2, "taps": 2},
        {"bias_start": "fan-in"},
        {"slow_layers": 0, "fast_layers": 3},
        {"positions": "trajectory", "trajectory_scale": "rms"},
        *({"mixing": "mean", "mode": mode} for mode in ("external", "refined_prev")),
        {"gated_events": False},
        {"scalar_input": True, "bias": "none", "mode": "refined_prev"},
        {**BODY, "strokes": True},
        *({**BODY, "twin": True, "strokes": strokes} for strokes in (False, True)),
        {**BODY, "twin": True, "scaled": True},
        {**BODY, "twin": True, "pose_window": 9},
        {"twin": True, "planning": True, "control_field": True, "field_input": True},
        {"control_field": True, "field_input": True},
        {"planning": True, "plan_inference": "passes", "positions": "sinusoidal"},
        {"planning": True, "plan_inference": "passes", "plan_refine": 2, "control_field": True},
        {**PRISM, "slow_stride": 3, "pools": 5},
    ],
    "anticipatory": [
        *({"bias": bias, "mode": mode} for mode in MODES for bias in BIASES),
        *({"positions": scheme, "mode": "external"} for scheme in SCHEMES),
        *({"slow_stride": stride} for stride in (2, 4, 10)),
        {"alpha": "raw", "gate_start": "normal"},
        {"dist_scale": 4.0},
        {"planning": True, "plan_refine": 3, "positions": "rope"},
        {"planning": True, "plan_inference": "recurrent", "positions": "alibi"},
        {"planning": True, "plan_paper": True, "control_field": True, "slow_stride": 3, "positions": "none"},
        {**PRISM, "prism_copy": True, "slow_stride": 3},
        {**PRISM, "bias": "none", "slow_layers": 0},
    ],
    "baseline": [
        *({"positions": scheme} for scheme in SCHEMES),
        {"planning": True},
        {"planning": True, "plan_inference": "recurrent", "positions": "none"},
        PRISM,
        {**PRISM, "prism_again": 3, "prism_copy": True, "prism_absolute": True},
        {**PRISM, "prism_again": 2, "control_field": True},
    ],
}
"""What a part can be beside the choices that the combinations are made of; ``mode`` is the forward's."""


def pytest_generate_tests(metafunc):
    full = metafunc.config.getoption("--full-product")
    members = product() if full else covering()
    made = [(kind, {**member, "mode": None}) for kind in ("anticipatory", "motion") for member in members]
    alone = [(kind, {"mode": None, **changes}) for kind, each in OPTIONS.items() for changes in each]
    cases = {"member": made, "changes": made + alone, "learner": LEARNERS + (MORE_LEARNERS + made) * full}
    for argument, chosen in cases.items():
        if argument in metafunc.fixturenames:
            names = [f"{kind}-{name_of(changes)}" for kind, changes in chosen]
            split = [(kind, dict(changes), changes.get("mode")) for kind, changes in chosen]
            for _, changes, _ in split:
                changes.pop("mode", None)
            metafunc.parametrize(("kind", argument, "mode"), split, ids=names)


def test_every_two_choices_meet_and_none_is_missing():
    chosen = covering()
    assert set().union(*map(pairs, chosen)) == set().union(*map(pairs, product()))
    assert len(chosen) < len(product()) / 5


@torch.no_grad()
def test_a_stream_says_what_the_sequence_says(kind, changes, mode):
    """In chunks, and in double precision in single steps; the reference too; across wrap-around of all rings,
    with one row reset on the way; what a snapshot brings back says the same bits again."""
    # Single precision is what plays: the motion models.
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5))[: 1 + (kind == "motion")]:
        model = build(kind, dtype, 0.2 if dtype == torch.float64 else 0.05, **changes)
        x = inputs(kind, 2, LENGTH, dtype)
        scalars = given(model, x, mode)

        def part(at, end, rows=slice(None), state=None, model=model, x=x, scalars=scalars):
            told = None if scalars is None else scalars[rows, at:end]
            return run(model, x[rows, at:end], state, mode, told)

        whole, fresh = said(part(0, LENGTH)), said(part(RESET, LENGTH, slice(1, 2)))
        assert ("field" in whole) == bool(changes.get("control_field"))
        assert ("codes" in whole) == bool(changes.get("planning"))
        if dtype == torch.float64:
            trunk = model if kind == "baseline" else model.trunk
            trunk.reference = True
            for name, value in said(part(0, LENGTH)).items():
                torch.testing.assert_close(value, whole[name], atol=tolerance, rtol=tolerance, msg=name)
            trunk.reference = False
        for sizes in ([1] * LENGTH, [7, 1, 14, 13, 5])[dtype == torch.float32 :]:
            state, at, parts = model.initial_state(2), 0, []
            assert all(not t.any() for t in state.tensors())
            for size in sizes:
                if at == RESET:
                    state.reset(torch.tensor([False, True]))
                    kept, after = state.clone(), (at, at + size)
                out, state = part(at, at + size, state=state)
                parts.append(said(out))
                at += size
            for name, wanted in whole.items():
                got = torch.cat([one[name] for one in parts], 1)
                for one, other in (
                    (got[0], wanted[0]),
                    (got[1, :RESET], wanted[1, :RESET]),
                    (got[1, RESET:], fresh[name][0]),
                ):
                    torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance, msg=name)
            state.restore(kept)
            again = said(part(*after, state=state)[0])
            for name in whole:
                first = torch.cat([one[name] for one in parts], 1)[:, slice(*after)]
                assert torch.equal(again[name], first), name


def test_nothing_looks_ahead_and_all_of_it_learns(kind, changes, mode):
    """Exactly: gradients of each step by later inputs are zero, and other inputs later leave it alone."""
    model = build(kind, **changes)
    x = inputs(kind, 1, 20)
    if kind == "motion":
        leaf = x.requires_grad_()
        found = said(run(model, x, mode=mode))
    else:
        caught = []
        scalars = given(model, x, mode)
        hook = model.token.register_forward_hook(lambda *args: caught.append(args[2]))
        found = said(run(model, x, mode=mode, scalars=scalars))
        hook.remove()
        leaf = caught[0]
    for t in (0, 4, 11, 18):
        total = sum(value[:, t].sum() for value in found.values() if value.requires_grad)
        (gradient,) = torch.autograd.grad(total, leaf, retain_graph=True)
        assert torch.count_nonzero(gradient[:, t + 1 :]) == 0
        assert torch.count_nonzero(gradient[:, t]) > 0
    sum(value.sum() for value in found.values() if value.requires_grad).backward()
    silent = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    # Which has a loss of its own.
    assert [name for name in silent if "simulator" not in name] == []
    x, model = x.detach(), model.float()
    x = x.float() if kind == "motion" else x
    with torch.no_grad():
        # In calls of their own, as a plan may be made anew from all there is.
        before = said(run(model, x, mode=mode, scalars=given(model, x, mode)))
        for t in (1, 12, 19):
            other = x.clone()
            other[:, t:] = inputs(kind, 1, 20 - t) if kind == "motion" else (other[:, t:] + 1) % VOCAB
            after = said(run(model, other, mode=mode, scalars=given(model, other, mode)))
            for name, value in before.items():
                assert torch.equal(value[:, :t], after[name][:, :t]), name
            assert not torch.equal(before["hidden"][:, t:], after["hidden"][:, t:])


def test_it_is_kept_and_comes_back(kind, member, mode, tmp_path):
    """Configuration and weights say all."""
    model = build(kind, torch.float32, 0.03, **member)
    x = inputs(kind, 1, 20, torch.float32)
    other = load_checkpoint(save_checkpoint(tmp_path / "kept", model))
    with torch.no_grad():
        before, after = said(run(model, x)), said(run(other, x))
        for name, value in before.items():
            assert torch.equal(value, after[name]), name


ALL = dict(zip(FACTORS, ("prism", "trajectory", True, True, 3), strict=True))
LEARNERS = [
    ("anticipatory", ALL),
    ("motion", {**ALL, "bias": "none", "planning": False}),
    ("motion", BODY),
    ("anticipatory", {"mode": "external", "bias": "random", "slow_stride": 3}),
    ("anticipatory", {"mode": "refined_prev"}),
    ("anticipatory", {"mode": "initial", "positions": "trajectory"}),
    ("baseline", {**PRISM, "prism_copy": True}),
]
"""One of each way in which something could leak."""
MORE_LEARNERS = [
    ("anticipatory", dict(zip(FACTORS, ("trajectory", "random", True, False, 1), strict=True))),
    *(("anticipatory", {"mode": mode}) for mode in ("external", "initial")),
    *(("baseline", {"positions": scheme}) for scheme in ("none", "rope", "trajectory")),
]


def test_noise_stays_noise(kind, learner, mode):
    """Trained on independent uniform symbols, none beats their entropy on others; that it learns to tell the
    symbol it has just seen, from the same batches, shows that a leak would be found."""
    symbols = 2 if kind == "motion" else VOCAB
    length = 6 if mode == "refined_prev" else 12
    code = torch.randn(231, generator=torch.Generator().manual_seed(5))
    for target, leaks in ((1, False), (0, True)):
        model = build(kind, torch.float32, noise=0.0, **learner).train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        generator = torch.Generator().manual_seed(1)

        def loss(rows, target=target, model=model, generator=generator):
            drawn = torch.randint(symbols, (rows, length + 1), generator=generator)
            ids, truth = drawn[:, :-1], drawn[:, target : target + length]
            if kind != "motion":
                logits = run(model, ids, mode=mode, scalars=given(model, ids, mode)).logits
                return F.cross_entropy(logits.flatten(0, 1), truth.flatten())
            x = (2.0 * ids[..., None] - 1.0) * code
            x[..., 220:227] = torch.rand(rows, length, 7, generator=generator)
            logits = model(x).events[..., 0, 0]
            return F.binary_cross_entropy_with_logits(logits, truth.float())

        for _ in range(25 if kind == "motion" else 45):
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
