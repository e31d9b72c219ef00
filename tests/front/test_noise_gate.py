"""The noise gate through its bindings: batch equals stream, stillness, real movement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyanticip import _core
from pyanticip.errors import ShapeError
from pyanticip.motion.load import load_motion

ALL = np.ones(22, bool)


def trembling(degrees: float, frames: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The rest pose with white jitter about every axis: (frames, 22, 4), (frames, 3)."""
    half = np.radians(degrees) * np.random.default_rng(seed).standard_normal((frames, 22, 3)) / 2.0
    angle = np.linalg.norm(half, axis=-1, keepdims=True)
    quats = np.concatenate([np.cos(angle), np.sinc(angle / np.pi) * half], axis=-1)
    return quats, np.tile([0.0, 0.95, 0.0], (frames, 1))


def test_the_stream_is_the_batch() -> None:
    still, root = trembling(0.5, 150)
    moving = still.copy()
    swing = 0.6 * np.sin(np.arange(150) / 8.0)
    moving[:, 7] = np.stack([np.cos(swing), 0 * swing, 0 * swing, np.sin(swing)], axis=-1)
    quats = np.concatenate([still, moving, still]).astype(np.float32)
    root = np.tile(root, (3, 1)).astype(np.float32)
    batch, places, activity = _core.noise_gate(quats, root, ALL)
    front = _core.LiveFront("msgpack", steady=True)
    assert activity.max() == 1.0
    assert activity[149] == 0.0
    for i, datagram in enumerate(_core.encode_native_frame(i, i / 50, quats[i], root[i]) for i in range(450)):
        out = front.feed(datagram, i * 20_000_000)
        assert out is not None
        np.testing.assert_allclose(out.poses[-1], batch[i], atol=2e-7)
        np.testing.assert_allclose(out.root, places[i], atol=2e-7)
        assert out.activity == pytest.approx(activity[i], abs=1e-5)
    assert front.noise is not None
    assert 0.3 < np.degrees(front.noise).mean() < 0.7


def test_without_the_gate_everything_moves() -> None:
    front = _core.LiveFront("msgpack")
    out = front.feed(_core.encode_native_frame(0, 0.0, trembling(0, 1)[0][0]), 0)
    assert out is not None
    assert out.activity == 1.0
    assert front.noise is None


def test_a_gap_shuts_the_gate_and_keeps_what_was_learned() -> None:
    quats, root = trembling(0.1, 500)
    front = _core.LiveFront("msgpack", steady=True)
    for i in range(400):
        front.feed(_core.encode_native_frame(i, i / 50, quats[i], root[i]), i * 20_000_000)
    learned = front.noise
    out = front.feed(_core.encode_native_frame(500, 10.0, quats[400], root[400]), 10_000_000_000)
    assert out is not None
    assert out.reset
    assert out.activity == 0.0
    assert learned is not None
    np.testing.assert_array_equal(front.noise, learned)


@pytest.mark.parametrize("wrong", [[0.1] * 21, ["a"] * 22])
def test_noise_of_another_shape_is_refused(wrong: list[float]) -> None:
    with pytest.raises((TypeError, ValueError)):
        _core.LiveFront("mocopi", steady=True, noise=wrong)


def test_shapes_are_checked() -> None:
    with pytest.raises(ShapeError, match="quats"):
        _core.noise_gate(np.zeros((3, 21, 4)), np.zeros((3, 3)), ALL)


def test_real_movement_passes_as_it_came(data_dir: Path) -> None:
    """A walk and the slowest dance there is: open within a second and a half, and open to the end."""
    for name in ("02_01.bvh", "49_09.amc"):
        body = load_motion(data_dir / "cmu" / name).retarget("humanoid").resample(50.0)
        quats, root, activity = _core.noise_gate(body.quats, body.root, ALL)
        begin = int(np.argmax(activity == 1.0))
        assert 0 < begin < 75, name
        assert (activity[begin:] == 1.0).all(), name
        same = np.abs((quats[begin:] * body.quats[begin:]).sum(-1))
        np.testing.assert_allclose(same, 1.0, atol=1e-6)
        np.testing.assert_allclose(root[begin:], body.root[begin:], atol=1e-6)


@pytest.mark.parametrize("body", ["mocopi", "vmc", "humanoid"])
@pytest.mark.parametrize("rate", [24.0, 60.0, 240.0])
def test_a_trembling_body_stands_still_whatever_its_suit(body: str, rate: float) -> None:
    names, parents, offsets = _core.standard_skeleton(body)
    frames = round(15 * rate)
    noise = np.random.default_rng(1).standard_normal((frames, len(names), 3))
    spectrum = np.fft.rfft(noise, axis=0)
    spectrum[np.fft.rfftfreq(frames, 1 / rate) >= 5.0] = 0.0
    slow = np.fft.irfft(spectrum, frames, axis=0)
    front = _core.LiveFront("msgpack", steady=True)
    front.feed(_core.encode_native_skeleton(list(names), parents, offsets, rate=rate), 0)
    half = np.radians(1.0) * slow / slow.std() / 2.0
    quats = np.concatenate([np.sqrt(1.0 - (half**2).sum(-1, keepdims=True)), half], axis=-1)
    outs = [front.feed(_core.encode_native_frame(i, i / rate, q), 0) for i, q in enumerate(quats)]
    moving = [out.activity for out in outs if out is not None]
    assert len(moving) > 300
    assert max(moving) == 0.0
