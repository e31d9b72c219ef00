"""The Rust core's step against the torch model in double precision: models of the packaged kind, over streams
with resets and gaps, from the first frame on."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.models import motion_stream, rows_of

from pyanticip.errors import CheckpointError, ShapeError
from pyanticip.models.config import visible_columns
from pyanticip.models.motion.kinematics import KINEMATICS, BodyKinematics
from pyanticip.models.motion.smoothed import CARRIED
from pyanticip.vocabulary import FEATURES
from realtime.step import rust
from realtime.step.open import open_backend

PROPERTY = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
PACES = st.sampled_from([0.0, 0.01, 0.3, 3.0])


def movement(seed, frames, pace):
    """Feature rows whose rotations turn at the speed ``pace``."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(pace * rng.standard_normal((frames, 22, 3, 3)), 0) + rng.standard_normal((22, 3, 3))
    rows = rows_of(rng, walk)
    rows[:, 132:198] *= np.float32(pace * 20.0)
    return rows


@st.composite
def options(draw):
    """A configuration that the core supports."""
    heads, part = draw(st.sampled_from([1, 2, 4, 7])), draw(st.sampled_from([4, 6, 16, 18]))
    kinematics = draw(st.booleans())
    d_model = heads * part
    while kinematics and d_model <= CARRIED:
        d_model += heads * 2
    found = {
        "heads": heads,
        "d_model": d_model,
        "kinematics": kinematics,
        "strokes": kinematics and draw(st.booleans()),
        "fast_layers": draw(st.integers(1, 3)),
        "slow_layers": draw(st.integers(1, 2)),
        "slow_stride": draw(st.sampled_from([1, 2, 5])),
        "ff": draw(st.integers(1, 40)),
        "window": draw(st.sampled_from([2, 3, 14])),
        "pools": draw(st.sampled_from([2, 5])),
        "taps": draw(st.sampled_from([2, 9, 13])),
        "control_hidden": draw(st.integers(1, 30)),
        "dist_scale": draw(st.sampled_from([0.02, 1.0])),
        "bias": draw(st.sampled_from(["trajectory", "none"])),
        "alpha": draw(st.sampled_from(["softplus", "raw"])),
        "mixing": draw(st.sampled_from(["gated", "mean"])),
    }
    found |= {name: draw(st.booleans()) for name in ("gated_events", "twin")}
    found["scaled"] = found["twin"] and draw(st.booleans())
    posed = kinematics and found["twin"]
    return found | {"pose_window": draw(st.sampled_from([0, 6, 20])) if posed else 0}


@PROPERTY
@given(changes=options(), seed=st.integers(0, 2**32 - 1), reset=st.integers(1, 39), pace=PACES)
def test_what_the_core_says_is_what_the_model_says(build, changes, seed, reset, pace):
    model = build(torch.float64, seed=seed % 1000, noise=0.05, **changes)
    stream, rows = motion_stream(model), movement(seed, 40, pace)
    for piece in (rows[:reset], rows[reset:]):
        stream.reset()
        if not len(piece):
            continue
        with torch.no_grad():
            out = model(torch.from_numpy(piece).double()[None])
        expected = (out.params, torch.sigmoid(out.events), out.scalars, out.hidden)
        for t in range(len(piece)):
            if t % 3 == 0:
                stream.imagine(np.ones((1, FEATURES), np.float32))
                stream.prewarm()
            if t % 5 == 3:  # a gap: two rows at once with the next frame
                continue
            output = stream.step(piece[t - 1 : t + 1] if t % 5 == 4 else piece[t : t + 1])
            assert output.gate == pytest.approx(out.gate[0, t].item(), abs=1e-5)
            found = (output.params, output.hazards, output.scalars, output.hidden)
            for got, tensor in zip(found, expected, strict=True):
                right = tensor[0, t].numpy()
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(right).max()))


@PROPERTY
@given(changes=options(), seed=st.integers(0, 2**32 - 1), most=st.integers(2, 30), pace=PACES)
def test_rows_at_once_are_rows_one_by_one_to_the_bit(build, changes, seed, most, pace):
    """Only the last row's output is computed; the state is the same as after single steps."""
    model = build(seed=seed % 1000, noise=0.05, **changes)
    (one, many), rows = (motion_stream(model) for _ in range(2)), movement(seed, 60, pace)
    sizes = np.random.default_rng(seed).integers(1, most + 1, 60).cumsum()
    for piece in np.split(rows, sizes[sizes < len(rows)]):
        for row in piece:
            expected = one.step(row[None])
        output = many.step(piece)
        np.testing.assert_array_equal(many.snapshot(), one.snapshot())
        for name in ("params", "hazards", "scalars", "hidden", "gate"):
            np.testing.assert_array_equal(getattr(output, name), getattr(expected, name))


@PROPERTY
@given(seed=st.integers(0, 2**32 - 1), pace=PACES)
def test_the_embedded_frames_are_the_models(build, seed, pace):
    model = build(torch.float64, taps=13, strokes=True)
    stream, rows = motion_stream(model), movement(seed, 12, pace)
    stream.step(rows)
    kept = stream.snapshot()[2 : 2 + 12 * 32].reshape(12, 32)
    with torch.no_grad():
        np.testing.assert_allclose(kept, model.observe(torch.from_numpy(rows).double()), rtol=1e-5, atol=2e-5)


def test_kinematics_are_the_models(build):
    """A projection that passes only the kinematics, including those of glitches."""
    width, rows = 177 + CARRIED, movement(6, 40, 1.0)
    rows[20, :132], rows[30, 132:198] = np.sign(rows[20, :132]) * 1e10, 1e20
    body = BodyKinematics()
    shown = {
        "front.weight": np.eye(177, 408, 231, dtype=np.float32),
        "front.bias": np.zeros(177, np.float32),
        "kinematics.offsets": body.offsets.numpy(),
    }
    stream = motion_stream(build(bias="none", d_model=width, heads=1, taps=2), tensors=shown)
    expected = body(torch.from_numpy(rows[:, :231])).clamp(-10, 10).numpy()
    assert expected.shape[1] == KINEMATICS
    for row, columns in zip(rows, expected, strict=True):
        stream.step(row[None])
        np.testing.assert_allclose(stream.snapshot()[2 : 2 + 177], columns, atol=2e-5)


@pytest.mark.parametrize(
    "name",
    [
        "front.weight",
        "filters",
        "mean",
        "kinematics.offsets",
        "trunk.bias.beta",
        "trunk.slow.1.attention.qkv.weight",
        "trunk.fast.0.down.bias",
        "control.last.weight",
        "trunk.norm.bias",
        "control.skip",
        "control.moves",
        "poses.std",
        "poses.blocks.1.down.weight",
        "poses.skip",
    ],
)
def test_tensors_that_do_not_fit(build, name):
    model = build(twin=True, scaled=True, pose_window=8)
    with pytest.raises(ShapeError, match=rf"{name}: expected \[.*\], got \[3\]"):
        motion_stream(model, tensors={name: np.zeros(3, np.float32)})


def test_a_basis_of_other_axes_is_refused(build):
    for basis in (np.zeros(8, np.float32), np.zeros((0, 4), np.float32)):
        with pytest.raises(ShapeError, match=r"poses\.basis: expected two axes of 1 to"):
            motion_stream(build(twin=True, pose_window=8), tensors={"poses.basis": basis})


def test_weights_of_another_size_are_refused_by_the_backend(saved, monkeypatch):
    monkeypatch.setattr(rust, "_cached", None)  # clear the cache of the last checkpoint
    monkeypatch.setattr(rust, "visible_columns", lambda config: visible_columns(config)[:-1])
    with pytest.raises(CheckpointError, match=r"model.safetensors does not fit its configuration"):
        open_backend("rust", saved)
