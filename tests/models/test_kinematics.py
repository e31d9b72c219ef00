"""The model's forward kinematics against the clip's, and invariance to the heading."""

import numpy as np
import pytest
import torch
from support.motions import swings

import pyanticip as pa
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.models.motion.kinematics import KINEMATICS, BodyKinematics
from pyanticip.motion import canonical
from pyanticip.motion.rotations import conjugate, multiply, rotate

SCALE = 0.3


def dance(frames: int = 200, seed: int = 0) -> pa.Clip:
    """Motion slow enough that differences approximate velocities."""
    root = np.zeros((frames, 3), np.float32)
    quats = swings(frames, 22, seed, rate=100.0).astype(np.float32)
    return pa.Clip(quats, root, 50.0, canonical.canonical_skeleton())


def test_positions_heights_and_velocities_are_the_clips() -> None:
    clip = dance()
    rows = torch.from_numpy(np.asarray(clip.features()))
    body = BodyKinematics()
    seen = body(rows).numpy()
    assert seen.shape == (len(clip), KINEMATICS)
    place = clip.positions().astype(np.float64)
    place -= place[:, :1]
    back = conjugate(clip.quats[:, :1])
    rest = body.rest[1:].numpy()
    np.testing.assert_allclose(
        seen[:, 3:66].reshape(-1, 21, 3) * SCALE + rest, rotate(back, place)[:, 1:], atol=2e-6
    )
    np.testing.assert_allclose(seen[:, 66:87] * SCALE + rest[:, 1], place[:, 1:, 1], atol=2e-6)
    speed = np.gradient(place, 1 / 50.0, axis=0)
    found = seen[:, 87:150].reshape(-1, 21, 3)
    # The features' angular velocity is that of the last 20 ms, the gradient is centred.
    expected = rotate(back, speed)[:, 1:]
    assert np.abs(found - expected)[2:-1].max() < 0.06 * np.abs(expected).max()
    logarithm = 0.5 * np.log((found**2).sum(-1) + 0.01) + 1.0
    np.testing.assert_allclose(seen[:, 150:171], logarithm, atol=1e-4)


def test_a_still_body_has_gradients() -> None:
    rows = torch.from_numpy(np.array(dance(2).features()))[:1]
    rows[:, 132:198] = 0.0
    rows.requires_grad_()
    BodyKinematics()(rows).sum().backward()
    assert bool(rows.grad.isfinite().all())


@pytest.mark.parametrize("size", [2.0, 1e10, 1e38])
def test_a_glitch_stays_a_number(size: float) -> None:
    rows = torch.randn(500, 231, generator=torch.Generator().manual_seed(0)).sign() * size
    assert not bool(BodyKinematics()(rows).isnan().any())


@pytest.mark.parametrize("angle", [0.7, 3.0])
def test_where_the_performer_faces_does_not_matter(angle: float) -> None:
    torch.set_num_threads(1)
    clip = dance(seed=3)
    yaw = np.array([np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0])
    turned = clip.quats.astype(np.float64)
    turned[:, 0] = multiply(yaw, turned[:, 0])
    other = pa.Clip(turned.astype(np.float32), clip.root, 50.0, clip.skeleton)
    torch.manual_seed(0)
    model = MotionTransformer(ModelConfig()).eval()
    with torch.no_grad():
        a, b = (model(torch.from_numpy(np.array(c.features()))[None]).params for c in (clip, other))
    assert float((a - b).abs().max()) < 1e-4
