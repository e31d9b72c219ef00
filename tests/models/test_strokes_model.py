"""Strokes in the motion model: by definition, frame by frame, and in checkpoints."""

import json
import shutil

import numpy as np
import pytest
import torch
from support.models import motion_stream, rows_of
from support.takes import arrivals

from pyanticip.errors import CheckpointError, OptionError, ShapeError
from pyanticip.models import ModelConfig, load_motion_model, save_checkpoint
from pyanticip.models.checkpoint.manifest import MANIFEST, read_manifest
from pyanticip.models.motion.strokes import FALL, FLOOR, LAGS, STROKES, Strokes
from pyanticip.vocabulary import EVENT_BINS
from realtime.step.open import open_backend


def movement(seed, frames, pace=0.1):
    """Feature rows of a body whose speed rises above that of a stroke and falls again, every second."""
    rng = np.random.default_rng(seed)
    swell = pace * (1.1 + np.sin(np.arange(frames) / rng.uniform(5.0, 12.0)))[:, None, None, None]
    walk = np.cumsum(swell * rng.standard_normal((frames, 22, 3, 3)), 0) + rng.standard_normal((22, 3, 3))
    rows = rows_of(rng, walk)
    rows[:, 132:198] *= 5.0 * swell[:, 0, 0]
    return rows


@pytest.fixture(scope="module")
def folder(build, tmp_path_factory):
    model = build(torch.float32, strokes=True)
    return save_checkpoint(tmp_path_factory.mktemp("strokes") / "tiny", model)


def test_a_stroke_turns_where_the_teacher_has_an_arrival():
    """Up to the filters' delay: four poles of half a frame."""
    speed = 0.6 + 0.5 * np.sin(2.0 * np.pi * np.arange(600) / 50.0)
    velocity = torch.zeros(1, 600, 15, dtype=torch.float64)
    velocity[..., :5] = torch.from_numpy(speed)[:, None]
    (told,) = Strokes().double()(velocity)[0].numpy()
    assert told.shape == (600, STROKES)
    rises, below, above, _, enough = told[:, -6:-1].T
    falls = np.flatnonzero(np.diff(rises) < 0) + 1
    late = falls - arrivals(speed)
    assert len(falls) == 12
    assert (late >= 1).all()
    assert (late <= 3).all()
    assert (enough[falls - 1] == 1.0).all()
    assert (below[falls - 1] <= FALL).all()
    assert (below * above == 0.0).all()
    # With one frame of delay the curve is about that of the previous frame; its past matches.
    np.testing.assert_allclose(told[100:, 0], np.log2(speed[99:-1] + FLOOR), atol=0.1)
    np.testing.assert_allclose(told[200:, 1 + LAGS.index(24)] + told[200:, 0], told[176:-24, 0])


@torch.no_grad()
def test_a_new_head_says_nothing_yet_and_then_speaks_of_onsets_alone(build, tiny_config):
    from pyanticip.models import MotionTransformer

    torch.manual_seed(0)
    new = MotionTransformer(tiny_config(strokes=True)).eval()
    plain = MotionTransformer(tiny_config()).eval()
    left = plain.load_state_dict(new.state_dict(), strict=False)
    assert not left.missing_keys
    assert all(name.startswith("control.beats.") for name in left.unexpected_keys)
    x = torch.from_numpy(movement(5, 40))[None]
    a, b = new(x), plain(x)
    assert torch.equal(a.events, b.events)
    new.control.beats.last.bias.fill_(1.0)
    c = new(x)
    torch.testing.assert_close(c.events[..., 0, :], b.events[..., 0, :] + 1.0)
    assert torch.equal(c.events[..., 1, :], b.events[..., 1, :])
    assert torch.equal(c.params, b.params)
    assert c.events.shape[-1] == EVENT_BINS


def test_older_checkpoints_are_read(folder, saved, tiny_config, tmp_path):
    old = shutil.copytree(saved, tmp_path / "old")
    older = json.loads((old / MANIFEST).read_text())
    assert older["version"] == 6
    # As in version 3: flat options of all parts, and no strokes.
    del older["config"]["strokes"]
    older["config"] |= {"positions": "none", "control_field": False, "planning": False, "prism_cursors": 8}
    older["config"] |= {"field_half_life": 0.0, "plan_codes": 512, "trajectory_strength": "auto"}
    (old / MANIFEST).write_text(json.dumps({**older, "version": 3}))
    assert read_manifest(old).config == tiny_config()
    assert read_manifest(folder).config == tiny_config(strokes=True)
    assert load_motion_model(folder).strokes is not None


def test_what_cannot_be_is_one_line(build, folder, monkeypatch):
    for wrong in ({"kinematics": False}, {"planning": True}, {"positions": "rope"}, {"control_field": True}):
        with pytest.raises(OptionError, match="strokes=True needs a motion model with kinematics"):
            ModelConfig(strokes=True, **wrong)
    for name in ("narrow.weight", "first.bias", "last.weight", "skip.weight"):
        with pytest.raises(ShapeError, match=rf"control.beats.{name}: expected \[.*\], got \[3\]"):
            motion_stream(build(strokes=True), {f"control.beats.{name}": np.zeros(3, np.float32)})
    from realtime.step import rust

    lacking = {n: t.numpy() for n, t in build(torch.float32).state_dict().items()}
    monkeypatch.setattr(rust.safetensors.numpy, "load", lambda data: lacking)
    monkeypatch.setattr(rust, "_cached", None)  # clear the cache of the last checkpoint
    with pytest.raises(CheckpointError, match="does not fit its configuration: a head that hears strokes"):
        open_backend("rust", folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_frames_at_once_are_bit_for_bit_one_by_one(dtype):
    strokes = Strokes().to(dtype)
    torch.manual_seed(0)
    velocity = 2.0 * torch.rand(4, 90, 1, dtype=dtype) * torch.randn(4, 90, 15, dtype=dtype).cumsum(1).sin()
    start = strokes.initial_state(4)
    # One of them is in the middle of a fall.
    for value, name in ((1.0, "started"), (0.3, "smooth"), (0.1, "past"), (1.0, "falling"), (9.0, "age")):
        getattr(start, name)[2] = value
    state, rows = start, []
    for t in range(90):
        row, state = strokes(velocity[:, t : t + 1], state)
        rows.append(row)
    whole, after = strokes(velocity, start)
    assert torch.equal(whole, torch.cat(rows, 1))
    assert whole[..., -6].min() == 0.0
    first, between = strokes(velocity[:, :31], start)
    second, end = strokes(velocity[:, 31:], between)
    assert torch.equal(whole, torch.cat((first, second), 1))
    for name, value in vars(state).items():
        assert torch.equal(getattr(after, name), value), name
        assert torch.equal(getattr(end, name), value), name
