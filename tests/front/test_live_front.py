"""The live front end through its binding, on real packets, with its noise gate. Streams and faults are
tested in the crate."""

from pathlib import Path

import numpy as np
import pytest
from support.motions import datagrams

from pyanticip import _core
from pyanticip.motion.load import load_motion
from pyanticip.motion.rotations import angle_between
from pyanticip.vocabulary import PARAMETERS
from training.teacher.kinematic_targets import compute_targets

COUNTERS = {
    "packets", "frames", "numbered", "emitted", "filled", "lost", "doubled", "reordered", "truncated",
    "malformed", "alien", "strange", "refused", "ignored", "resets",
}  # fmt: skip


@pytest.mark.parametrize(("source", "numbered"), [("mocopi", 30), ("vmc", 0)])
def test_frames_without_numbers_are_not_counted_as_numbered(source, numbered):
    front = _core.LiveFront(source)
    for i, datagram in enumerate(datagrams(source, 30)):
        front.feed(datagram, i * 20_000_000)
    assert set(front.counters()) == COUNTERS
    assert front.counters()["numbered"] == numbered


def test_the_real_packets_of_a_suit_stand_in_t_pose(data_dir):
    live = data_dir / "live" / "mocopi"
    front = _core.LiveFront("mocopi")
    assert front.feed((live / "sample_skdf.bin").read_bytes(), 0) is None
    out = front.feed((live / "sample_fram.bin").read_bytes(), 1)
    assert out.reset
    np.testing.assert_allclose(np.abs(out.poses[-1]), np.tile([1, 0, 0, 0], (22, 1)), atol=1e-6)
    np.testing.assert_allclose(out.root[1], 0.9329, atol=1e-3)
    batch = _core.motion_features(out.poses, out.root[None], front.mask)
    np.testing.assert_array_equal(out.features, batch)
    assert out.t_source_ns > 1_600_000_000_000_000_000
    assert front.skeleton[:2] == ["root", "torso_1"]
    # Also without the skeleton packet: a receiver may start between two of them.
    fresh = _core.LiveFront("mocopi").feed((live / "sample_fram.bin").read_bytes(), 1)
    np.testing.assert_array_equal(fresh.features, out.features)


def trembling(degrees: float, frames: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The rest pose with white jitter about every axis: (frames, 22, 4), (frames, 3)."""
    half = np.radians(degrees) * np.random.default_rng(seed).standard_normal((frames, 22, 3)) / 2.0
    angle = np.linalg.norm(half, axis=-1, keepdims=True)
    quats = np.concatenate([np.cos(angle), np.sinc(angle / np.pi) * half], axis=-1)
    return quats, np.tile([0.0, 0.95, 0.0], (frames, 1))


def gated(front: _core.LiveFront, quats: np.ndarray, root: np.ndarray) -> list[_core.FrontOutput]:
    """Outputs for frames at 50 Hz, (T, 22, 4) and (T, 3)."""
    sent = (_core.encode_native_frame(i, i / 50, quats[i], root[i]) for i in range(len(quats)))
    outs = [front.feed(datagram, i * 20_000_000) for i, datagram in enumerate(sent)]
    assert None not in outs
    return [out for out in outs if out is not None]


def test_the_noise_gate_is_closed_during_jitter_and_open_during_movement() -> None:
    still, root = trembling(0.5, 150)
    moving = still.copy()
    swing = 0.6 * np.sin(np.arange(150) / 8.0)
    moving[:, 7] = np.stack([np.cos(swing), 0 * swing, 0 * swing, np.sin(swing)], axis=-1)
    quats = np.concatenate([still, moving, still]).astype(np.float32)
    front = _core.LiveFront("msgpack", steady=True)
    outs = gated(front, quats, np.tile(root, (3, 1)).astype(np.float32))
    activity = np.array([out.activity for out in outs])
    assert (activity[:150] == 0.0).all()
    assert (activity[200:300] == 1.0).all()
    assert (activity[400:] == 0.0).all()
    shown = np.array([out.poses[-1] for out in outs])
    turns, sent = (angle_between(q[101:150], q[100:149]).max() for q in (shown, quats))
    assert turns < 0.05 * sent
    np.testing.assert_allclose(np.abs((shown * quats)[200:300].sum(-1)), 1.0, atol=1e-6)
    assert front.noise is not None
    assert 0.3 < np.degrees(front.noise).mean() < 0.7


def test_without_the_gate_everything_moves() -> None:
    front = _core.LiveFront("msgpack")
    out = front.feed(_core.encode_native_frame(0, 0.0, trembling(0, 1)[0][0]), 0)
    assert out.activity == 1.0
    assert front.noise is None


def test_a_gap_closes_the_noise_gate_and_keeps_the_learned_noise() -> None:
    quats, root = trembling(0.1, 500)
    front = _core.LiveFront("msgpack", steady=True)
    gated(front, quats[:400], root[:400])
    learned = front.noise
    out = front.feed(_core.encode_native_frame(500, 10.0, quats[400], root[400]), 10_000_000_000)
    assert out.reset
    assert out.activity == 0.0
    assert learned is not None
    np.testing.assert_array_equal(front.noise, learned)


@pytest.mark.parametrize("wrong", [[0.1] * 21, ["a"] * 22])
def test_noise_of_another_shape_is_refused(wrong: list[float]) -> None:
    with pytest.raises((TypeError, ValueError)):
        _core.LiveFront("mocopi", steady=True, noise=wrong)


def test_real_movement_passes_unchanged(data_dir: Path) -> None:
    """A walk and the slowest dance: the gate opens within a second and a half, and stays open.

    The dance ends in a held pose: active is what the teacher hears.
    """
    for name in ("02_01.bvh", "49_09.amc"):
        body = load_motion(data_dir / "cmu" / name).retarget("humanoid").resample(50.0)
        outs = gated(_core.LiveFront("msgpack", steady=True), body.quats, body.root)
        activity = np.array([out.activity for out in outs])
        quats, root = (
            np.array([get(out) for out in outs]) for get in (lambda o: o.poses[-1], lambda o: o.root)
        )
        begin = int(np.argmax(activity == 1.0))
        assert 0 < begin < 75, name
        heard = compute_targets(body.quats).params[begin:, PARAMETERS.index("loudness")] > 0.05
        assert heard.sum() > 50, name
        assert (activity[begin:][heard] == 1.0).all(), name
        same = np.abs((quats[begin:] * body.quats[begin:]).sum(-1))
        np.testing.assert_allclose(same, 1.0, atol=1e-6)
        np.testing.assert_allclose(root[begin:], body.root[begin:], atol=1e-6)


@pytest.mark.parametrize(("body", "rate"), [("mocopi", 24.0), ("vmc", 60.0), ("humanoid", 240.0)])
def test_jitter_of_any_suit_is_removed(body: str, rate: float) -> None:
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
