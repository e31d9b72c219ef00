"""What a live step computes outside its graphs, against the torch model: kinematics, embedding, smoothed
measures, bias, gates and heads, over streams with resets, from the first frame on."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.models import step_state

from pyanticip.errors import CheckpointError, ShapeError
from pyanticip.models.config import visible_columns
from pyanticip.models.motion.kinematics import KINEMATICS, BodyKinematics
from pyanticip.models.motion.smoothed import CARRIED, SMOOTHED, SmoothedMeasures
from realtime.step.open import open_backend

PROPERTY = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])


def movement(seed, frames, pace):
    """Feature rows whose rotations turn as fast as ``pace`` says, and jump now and then."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((frames, 231)).astype(np.float32)
    walk = np.cumsum(pace * rng.standard_normal((frames, 22, 3, 3)), 0) + rng.standard_normal((22, 3, 3))
    rows[:, :132] = np.linalg.qr(walk)[0][..., :2].swapaxes(-1, -2).reshape(frames, 132)
    rows[:, 132:198] *= np.float32(pace * 20.0)
    return rows


def frame(state, row, *, rehearse=False):
    """A step in which the graphs say nothing."""
    if rehearse:
        state.begin(np.ones((1, 231), np.float32), 0)
        state.rehearse(False)
    due = state.begin(row[None], 0)
    said = {name: state.fast[name].copy() for name in ("x", "bias")}
    said |= {name: state.edge[name].copy() for name in ("recent", "told")}
    said["slow_bias"], said["mean"] = state.slow["bias"].copy(), state.slow["mean"].copy()
    if due:
        state.close_pool()
    state.finish()
    return due, said


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1), reset=st.integers(1, 60), pace=st.sampled_from([0.0, 0.01, 0.3, 3.0]))
def test_embedding_and_measures_are_the_models(build, seed, reset, pace):
    model = build(torch.float64, taps=13)
    state, rows = step_state(model), movement(seed, 60, pace)
    for piece in (rows[:reset], rows[reset:]):
        state.reset()
        if not len(piece):
            continue
        with torch.no_grad():
            front = model.embed(torch.from_numpy(piece).double()[None])
        embedded, recent = front.embedded, front.recent
        for t, row in enumerate(piece):
            _, said = frame(state, row, rehearse=t % 3 == 0)
            np.testing.assert_allclose(said["x"][0], embedded[0, t], rtol=1e-5, atol=2e-5)
            np.testing.assert_allclose(said["recent"][0], recent[0, t], rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(said["told"][0], np.concatenate((row[220:227], said["x"][0])))


@PROPERTY
@given(
    seed=st.integers(0, 2**32 - 1),
    taps=st.sampled_from([2, 9, 10, 12, 25, 31]),
    reset=st.integers(1, 70),
    pace=st.sampled_from([0.0, 0.01, 0.3, 3.0]),
)
def test_smoothed_measures_are_exact_on_what_they_are_given(build, seed, taps, reset, pace):
    """1e-6 of torch's in doubles, on the very frames of the stream: from its first frame, over a reset."""
    state = step_state(build(torch.float32, taps=taps))
    reference = SmoothedMeasures(taps).double()
    past = torch.zeros(taps - 1, 32)
    for t, row in enumerate(movement(seed, 70, pace)):
        if t == reset:
            state.reset()
            past.zero_()
        _, said = frame(state, row, rehearse=t % 2 == 0)
        # The frames as they are remembered after the step, and before them the one that has just left.
        oldest = past[:1]
        past = torch.from_numpy(state.snapshot()[2 : 2 + (taps - 1) * 32]).view(taps - 1, 32)
        window = torch.cat((oldest, past))[:, -CARRIED:].double()
        wanted = reference(window).numpy()
        np.testing.assert_allclose(said["recent"][0, -SMOOTHED:], wanted, rtol=1e-6, atol=1e-6)


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1), reset=st.integers(1, 40), positive=st.booleans())
def test_bias_and_pools_are_the_models(build, seed, reset, positive):
    alpha = "softplus" if positive else "raw"
    model = build(torch.float64, seed=seed % 1000, alpha=alpha)
    cfg, bias = model.cfg, model.trunk.bias
    state, rows = step_state(model), movement(seed, 40, 0.3)
    count, xs = 0, []
    for t, row in enumerate(rows):
        if t == reset:
            state.reset()
            count, xs = 0, []
        due, said = frame(state, row)
        xs.append(said["x"][0])
        assert due == ((count + 1) % cfg.slow_stride == 0)
        with torch.no_grad():
            amplitude = bias(torch.from_numpy(row[220:227]).double())
        for name, past, stride, steps in (
            ("bias", cfg.fast_past, 1, count),
            ("slow_bias", cfg.slow_past, cfg.slow_stride, count // cfg.slow_stride),
        ):
            if name == "slow_bias" and not due:
                continue
            wanted = np.full((cfg.heads, past + 1), -np.inf)
            kernel = (amplitude[:, None] * bias.kernel(past, stride)).detach().numpy()
            wanted[:, past] = kernel[:, 0]
            for age in range(1, min(steps, past) + 1):
                wanted[:, (steps - age) % past] = kernel[:, age]
            np.testing.assert_allclose(said[name][0, :, 0], wanted, rtol=1e-5, atol=1e-6)
        if due:
            np.testing.assert_allclose(said["mean"][0], np.mean(xs, 0), atol=1e-5)
            xs = []
        count += 1


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.01, 1.0, 30.0]))
@pytest.mark.parametrize(
    "changes", [{}, {"mixing": "mean"}, {"gated_events": False}, {"kinematics": False}, {"bias": "none"}]
)
def test_gates_and_heads_are_the_models(build, changes, seed, scale):
    """What follows from any results of the two pathways."""
    model = build(torch.float64, seed=seed % 1000, **changes)
    state, trunk = step_state(model), model.trunk
    rng = np.random.default_rng(seed)
    for row in movement(seed, 5, 0.3):
        state.begin(row[None], 0)
        for arrays, name in ((state.fast, "fast"), (state.edge, "held")):
            arrays[name][:] = scale * rng.standard_normal(arrays[name].shape)
        tensors = {**state.edge, "fast": state.fast["fast"]}
        told, held, recent, fast = (
            torch.from_numpy(tensors[name].astype(np.float64)) for name in ("told", "held", "recent", "fast")
        )
        with torch.no_grad():
            mixed, _ = trunk.pathway.mix(told, fast, held)
            refined, hidden = trunk.refined_head(mixed), trunk.norm(mixed)
            gate = trunk.commitment(hidden, refined[:, :1])
            params, logits = model.control(hidden, gate, recent if recent.shape[1] else None)
        wanted = (params[0], torch.sigmoid(logits[0]), refined[0], hidden[0])
        assert abs(state.finish() - gate.item()) < 2e-6
        for got, tensor in zip(state.said(), wanted, strict=True):
            np.testing.assert_allclose(got, tensor.numpy(), rtol=1e-5, atol=5e-6)


def test_kinematics_are_the_models(build):
    """A projection that shows the kinematics and nothing else, and a filter that lets them through."""
    width, rows = 177 + CARRIED, movement(6, 40, 1.0)
    body = BodyKinematics()
    shown = {
        "front.weight": np.eye(177, 408, 231, dtype=np.float32),
        "front.bias": np.zeros(177, np.float32),
        "filters": np.array([[0.0], [1.0]], np.float32).repeat(width, 1),
        "kinematics.offsets": body.offsets.numpy(),
    }
    model = build(bias="none", d_model=width, heads=1, taps=2)
    state = step_state(model, tensors=shown)
    wanted = body(torch.from_numpy(rows)).clamp(-10, 10).numpy()
    assert wanted.shape[1] == KINEMATICS
    for row, columns in zip(rows, wanted, strict=True):
        _, said = frame(state, row)
        np.testing.assert_allclose(said["x"][0, :177], columns, atol=2e-5)


def test_new_keys_and_values_replace_the_oldest(build):
    model = build(torch.float32)
    past = model.cfg.fast_past
    state, row = step_state(model), np.zeros((1, 231), np.float32)
    for count in range(2 * past + 2):
        state.begin(row, 0)
        for name in ("key_0", "value_0", "key_1", "value_1"):
            state.fast[name][:] = count + len(name)
        state.finish()
        for name in ("key_0", "value_0", "key_1", "value_1"):
            ring = state.fast[name.replace("_", "s_")][0]
            for slot in range(past):
                written = [n for n in range(count + 1) if n % past == slot]
                wanted = written[-1] + len(name) if written else 0.0
                assert (ring[:, slot] == wanted).all()


@pytest.mark.parametrize(
    "name",
    [
        "front.weight",
        "filters",
        "mean",
        "kinematics.offsets",
        "trunk.bias.beta",
        "control.last.weight",
        "trunk.norm.bias",
    ],
)
def test_tensors_that_do_not_fit(build, name):
    with pytest.raises(ShapeError, match=rf"{name}: expected \[.*\], got \[3\]"):
        step_state(build(), tensors={name: np.zeros(3, np.float32)})


def test_sizes_that_do_not_fit(build):
    for wrong in ({"heads": 5}, {"stride": 0}, {"past": (0, 4)}):
        with pytest.raises(ShapeError, match="sizes: expected"):
            step_state(build(), **wrong)
    with pytest.raises(ShapeError, match="embedding: expected over 21 channels"):
        step_state(build(), visible=[True])


def test_weights_of_another_size_are_refused_by_the_backend(saved, monkeypatch):
    from realtime.step import onnx as step

    monkeypatch.setattr(step, "visible_columns", lambda config: visible_columns(config)[:-1])
    with pytest.raises(CheckpointError, match=r"model.safetensors does not fit its configuration"):
        open_backend("onnx", saved)
