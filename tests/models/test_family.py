"""All parts of the family combined: every model streams, never looks ahead, and survives saving.

Tested are combinations that cover every pair of choices (the kind of model is one of them), and each option
of a part in one model. All combinations: ``python -m pytest tests/models/test_family.py --full-product``.
"""

import math

import pytest
import torch
from support.models import (
    FACTORS,
    PRISM,
    VOCAB,
    build,
    covering,
    given,
    inputs,
    learn,
    name_of,
    pairs,
    product,
    run,
    said,
)
from torch.nn import functional as F

from pyanticip.models import load_checkpoint, save_checkpoint

LENGTH, RESET = 24, 11

pytestmark = pytest.mark.usefixtures("registered")
SCHEMES = ("none", "rope", "alibi", "trajectory")
FAMILY = {"kind": ("anticipatory", "motion")}
BODY = {"kinematics": True, "d_model": 32, "taps": 12}

NEW = [
    {"positions": {"kind": "leaky", "leak": 0.7}, "slow_stride": 3},
    {"control_field": {"kind": "surprise", "sharpness": 2.0}, "slow_stride": 3},
]
"""Parts of another package (``test_new_part.py``)."""

OPTIONS = {
    "motion": [
        *({**BODY, "mode": mode} for mode in ("initial", "refined_prev")),
        {"window": 2, "pools": 2, "taps": 2},
        {"slow_layers": 0, "fast_layers": 3},
        {"positions": "trajectory", "trajectory_scale": "rms", "gated_events": False},
        {"bias": "none", "mixing": "mean", "mode": "refined_prev"},
        {**BODY, "strokes": True},
        {**BODY, "twin": True, "strokes": True},
        {**BODY, "twin": True, "scaled": True, "pose_window": 9},
        {"twin": True, "planning": True, "control_field": True, "field_input": True},
        {"planning": True, "plan_inference": "passes", "plan_refine": 2, "control_field": True},
        {**PRISM, "slow_stride": 3, "pools": 5},
        *NEW,
    ],
    "anticipatory": [
        {"mode": "external", "positions": "trajectory"},
        {"bias": "random", "mode": "external", "positions": "rope"},
        {"bias": "none", "mode": "refined_prev"},
        {"bias": "random", "mode": "refined_prev", "positions": "alibi"},
        {"slow_stride": 10, "dist_scale": 4.0},
        {"alpha": "raw", "gate_start": "normal"},
        {"planning": True, "plan_refine": 3, "positions": "rope"},
        {"planning": True, "plan_inference": "recurrent", "positions": "alibi"},
        {"planning": True, "plan_paper": True, "control_field": True, "slow_stride": 3, "positions": "none"},
        {**PRISM, "prism_copy": True, "slow_stride": 3},
        {**PRISM, "bias": "none", "slow_layers": 0},
        *NEW,
    ],
    "baseline": [
        *({"positions": scheme} for scheme in SCHEMES),
        {"planning": True},
        {"planning": True, "plan_inference": "recurrent", "positions": "none"},
        {**PRISM, "prism_again": 3, "prism_copy": True, "prism_absolute": True},
        {**PRISM, "prism_again": 2, "control_field": True},
        {**PRISM, "prism_orthogonal": "none", "prism_sharpen": False},
        {**PRISM, "prism_orthogonal": "penalty", "prism_cursors": 1},
        {**PRISM, "prism_norm": "fixed", "prism_absolute": True},
        *(
            {"positions": "trajectory", "trajectory_interpolation": between, "trajectory_scale": scale}
            for between, scale in (("linear", "none"), ("cubic", "rms"))
        ),
        *NEW,
    ],
}
"""Options of parts that the combinations do not cover; ``mode`` is an argument of ``forward``."""


def pytest_generate_tests(metafunc):
    full = metafunc.config.getoption("--full-product")
    made = [(member.pop("kind"), member) for member in (product if full else covering)(**FAMILY)]
    alone = [(kind, changes) for kind, each in OPTIONS.items() for changes in each]
    cases = {
        "kept": made,
        "changes": made + alone,
        "played": [(kind, changes) for kind, changes in made + alone if kind == "motion"],
        "learner": LEARNERS + (MORE_LEARNERS + made) * full,
    }
    for argument, chosen in cases.items():
        if argument in metafunc.fixturenames:
            names = [f"{kind}-{name_of(changes)}" for kind, changes in chosen]
            split = [(kind, dict(changes), changes.get("mode")) for kind, changes in chosen]
            for _, changes, _ in split:
                changes.pop("mode", None)
            metafunc.parametrize(("kind", argument, "mode"), split, ids=names)


def test_every_two_choices_meet_and_none_is_missing():
    chosen, every = covering(**FAMILY), product(**FAMILY)
    assert set().union(*map(pairs, chosen)) == set().union(*map(pairs, every))
    assert len(chosen) < len(every) / 5


@torch.no_grad()
def test_a_stream_says_what_the_sequence_says(kind, changes, mode):
    """In chunks and single steps, across wrap-around, with one row reset, and from snapshots."""
    model, x = build(kind, **changes), inputs(kind, 2, LENGTH)
    scalars = given(model, x, mode)

    def part(at, end, rows=slice(None), state=None):
        return run(model, x[rows, at:end], state, mode, None if scalars is None else scalars[rows, at:end])

    whole, fresh = said(part(0, LENGTH)), said(part(RESET, LENGTH, slice(1, 2)))
    assert ("field" in whole) == bool(changes.get("control_field"))
    assert ("codes" in whole) == bool(changes.get("planning"))
    trunk = model if kind == "baseline" else model.trunk
    trunk.reference = True
    for name, value in said(part(0, LENGTH)).items():
        assert_near(value, whole[name], name)
    trunk.reference = False
    state, at, parts = model.initial_state(2), 0, []
    assert all(not t.any() for t in state.tensors())
    for size in (3, 1, RESET - 4, *[1] * 7, 6):
        if at == RESET:
            state.reset(torch.tensor([False, True]))
            kept = state.clone()
        out, state = part(at, at + size, state=state)
        parts.append(said(out))
        at += size
    assert at == LENGTH
    state.restore(kept)
    again = said(part(RESET, RESET + 1, state=state)[0])
    for name, expected in whole.items():
        actual = torch.cat([one[name] for one in parts], 1)
        assert_near(actual[0], expected[0], name)
        assert_near(actual[1, :RESET], expected[1, :RESET], name)
        assert_near(actual[1, RESET:], fresh[name][0], name)
        assert torch.equal(again[name], actual[:, RESET : RESET + 1]), name


def assert_near(one, other, name, tolerance=1e-10):
    torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance, msg=name)


@torch.no_grad()
def test_a_stream_in_single_precision_says_it_too(kind, played, mode):
    """For the models that run live, the motion models."""
    model, x = build(kind, torch.float32, 0.05, **played), inputs(kind, 2, 24, torch.float32)
    whole, state, parts = said(run(model, x, mode=mode)), model.initial_state(2), []
    for chunk in x.split((9, 1, 14), 1):
        out, state = run(model, chunk, state, mode)
        parts.append(said(out))
    for name, expected in whole.items():
        assert_near(torch.cat([one[name] for one in parts], 1), expected, name, 1e-5)


def test_nothing_looks_ahead_and_all_of_it_learns(kind, changes, mode):
    """Gradients of later inputs are zero, and other later inputs change nothing; each row tests one step."""
    model, steps = build(kind, **changes), (0, 4, 9, 12)
    x = inputs(kind, len(steps), 14)
    caught = [x.requires_grad_()] if kind == "motion" else []
    scalars = given(model, x, mode)
    if kind != "motion":
        hook = model.token.register_forward_hook(lambda *args: caught.append(args[2]))
    found = said(run(model, x, mode=mode, scalars=scalars))
    if kind != "motion":
        hook.remove()
    told = [value for value in found.values() if value.requires_grad]
    total = sum(value[row, t].sum() for value in told for row, t in enumerate(steps))
    # The simulator has a separate loss.
    learns = {name: each for name, each in model.named_parameters() if "simulator" not in name}
    gradient, *others = torch.autograd.grad(total, [caught[0], *learns.values()])
    for name, other in zip(learns, others, strict=True):
        # The first pool has no other to be weighed against.
        assert other.any() or name.startswith("trunk.slow.0.field."), name
    for row, t in enumerate(steps):
        assert torch.count_nonzero(gradient[row, t + 1 :]) == 0
        assert torch.count_nonzero(gradient[row, t]) > 0
    x, model = x.detach(), model.float()
    x = x.float() if kind == "motion" else x
    other = x.clone()
    for row, t in enumerate(steps):
        later = other[row, t + 1 :]
        later[:] = torch.randn_like(later) if kind == "motion" else (later + 1) % VOCAB
    with torch.no_grad():
        # In separate calls, as a plan may depend on the whole input.
        before, after = (
            said(run(model, rows, mode=mode, scalars=given(model, rows, mode))) for rows in (x, other)
        )
    for row, t in enumerate(steps):
        for name, value in before.items():
            assert torch.equal(value[row, : t + 1], after[name][row, : t + 1]), name
        assert not torch.equal(before["hidden"][row, t + 1 :], after["hidden"][row, t + 1 :])


def test_it_is_kept_and_comes_back(kind, kept, mode, tmp_path):
    """A model is determined by configuration and weights."""
    model = build(kind, torch.float32, 0.03, **kept)
    x = inputs(kind, 1, 10, torch.float32)
    other = load_checkpoint(save_checkpoint(tmp_path / "kept", model))
    with torch.no_grad():
        before, after = said(run(model, x)), said(run(other, x))
        for name, value in before.items():
            assert torch.equal(value, after[name]), name


ALL = dict(zip(FACTORS, ("prism", "trajectory", True, True, 3), strict=True)) | PRISM
LEARNERS = [
    ("anticipatory", ALL),
    ("motion", {**ALL, "bias": "none", "planning": False}),
    ("motion", BODY),
    ("anticipatory", {"mode": "external", "bias": "random", "slow_stride": 3}),
    ("anticipatory", {"mode": "refined_prev"}),
    ("anticipatory", {"mode": "initial", "positions": "trajectory"}),
    ("baseline", {**PRISM, "prism_copy": True}),
    *(("baseline", {"planning": True, "plan_inference": way}) for way in ("passes", "recurrent")),
]
"""One model for each way in which the future could leak."""
MORE_LEARNERS = [
    ("anticipatory", dict(zip(FACTORS, ("trajectory", "random", True, False, 1), strict=True))),
    *(("anticipatory", {"mode": mode}) for mode in ("external", "initial")),
    *(("baseline", {"positions": scheme}) for scheme in ("none", "rope", "trajectory")),
]


def test_noise_stays_noise(kind, learner, mode):
    """Trained on independent uniform symbols, no model's loss on new ones is below their entropy. That it
    learns to predict the current symbol from the same batches shows that a leak would be found."""
    symbols = 2 if kind == "motion" else VOCAB
    length = 4 if mode == "refined_prev" else 12
    code = torch.randn(231, generator=torch.Generator().manual_seed(5))
    for target, leaks in ((1, False), (0, True)):
        model = build(kind, torch.float32, noise=0.0, **learner)
        generator = torch.Generator().manual_seed(1)

        def loss(rows=16, target=target, model=model, generator=generator):
            drawn = torch.randint(symbols, (rows, length + 1), generator=generator)
            ids, truth = drawn[:, :-1], drawn[:, target : target + length]
            if kind != "motion":
                logits = run(model, ids, mode=mode, scalars=given(model, ids, mode)).logits
                return F.cross_entropy(logits.flatten(0, 1), truth.flatten())
            x = (2.0 * ids[..., None] - 1.0) * code
            x[..., 220:227] = torch.rand(rows, length, 7, generator=generator)
            logits = model(x).events[..., 0, 0]
            return F.binary_cross_entropy_with_logits(logits, truth.float())

        learn(model, loss, 12, 4e-2)
        with torch.no_grad():
            found = loss(128).item()
        if leaks:
            assert found < math.log(symbols) - 0.1
        else:
            assert found >= math.log(symbols) - 0.01
