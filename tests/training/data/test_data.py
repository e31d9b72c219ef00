"""Cutting of takes, and what augmentation may and may not change."""

from collections.abc import Callable

import numpy as np
import pytest

from pyanticip.motion.rotations import multiply, rotate
from training.data import augment
from training.data.examples import example_from_piece, jumps, steady_runs
from training.teacher.kinematics import MIRROR, positions

Array = augment.Array
Move = Callable[..., Array]


def unit(quats):
    return np.allclose(np.linalg.norm(quats, axis=-1), 1.0, atol=1e-6)


def test_a_take_is_cut_at_its_jumps(move):
    quats = move(800, seed=1, amount=0.2).astype(np.float32)
    root = np.zeros((800, 3), dtype=np.float32)
    root[300:] += 1.0
    quats[500:, 9] = (0.0, 1.0, 0.0, 0.0)
    assert np.flatnonzero(jumps(quats, root, 100.0)).tolist() == [300, 301, 500, 501]
    assert steady_runs(quats, root, 100.0) == [(0, 300), (302, 500), (502, 800)]


def test_augmented_rotations_stay_unit(move):
    quats, root = move(300, seed=2, amount=1.0), np.zeros((300, 3))
    rng = np.random.default_rng(0)
    assert unit(augment.mirror(quats, root)[0])
    assert unit(augment.yaw(quats, root, 2.0)[0])
    assert unit(augment.posture(quats, 0.2, rng))
    assert unit(augment.exaggerate(quats, 1.4))
    assert unit(augment.without(quats, 2))
    assert unit(augment.tilt(quats, np.array([1.0, 0.0, 2.0])))
    assert unit(augment.upper_body_of(quats, quats[::-1]))
    assert unit(augment.time_warp(quats, root, 50.0, rng, hold=True)[0])
    for _ in range(5):
        assert unit(augment.time_warp(quats, root, 50.0, rng)[0])


def test_mirroring_twice_is_nothing_and_so_is_a_factor_of_one(move):
    quats, root = move(50, seed=3), np.random.default_rng(0).normal(size=(50, 3))
    twice, back = augment.mirror(*augment.mirror(quats, root))
    np.testing.assert_array_equal(twice, quats)
    np.testing.assert_array_equal(back, root)
    same = augment.exaggerate(quats, 1.0)
    np.testing.assert_allclose(np.abs((same * quats).sum(-1)), 1.0, atol=1e-9)


def test_a_mirrored_body_is_everywhere_the_reflection(move):
    quats, root = move(50, seed=3), np.random.default_rng(0).normal(size=(50, 3))
    turned, moved = augment.mirror(quats, root)
    across = np.array([-1.0, 1.0, 1.0])
    there, here = positions(quats, upright=True), positions(turned, upright=True)
    np.testing.assert_allclose(here[:, MIRROR], there * across, atol=1e-12)
    np.testing.assert_array_equal(moved, root * across)


def test_yaw_turns_hips_and_root_alike(move):
    quats, root = move(20, seed=4), np.random.default_rng(1).normal(size=(20, 3))
    turned, moved = augment.yaw(quats, root, 0.7)
    np.testing.assert_allclose(turned[:, 1:], quats[:, 1:])
    turn = np.array([np.cos(0.35), 0.0, np.sin(0.35), 0.0])
    np.testing.assert_allclose(moved, rotate(np.broadcast_to(turn, (20, 4)), root), atol=1e-12)
    np.testing.assert_allclose(
        rotate(turned[:, 0], np.array([0.0, 0.0, 1.0])),
        rotate(np.broadcast_to(turn, (20, 4)), rotate(quats[:, 0], np.array([0.0, 0.0, 1.0]))),
        atol=1e-12,
    )


def test_the_warp_keeps_its_bounds(move):
    quats, root = move(500, seed=5), np.column_stack([np.arange(500.0)] * 3)
    rng = np.random.default_rng(2)
    for _ in range(20):
        _, path = augment.time_warp(quats, root, 50.0, rng)
        speed = np.diff(path[:, 0])
        assert speed.min() >= augment.MIN_SPEED - 1e-9
        assert speed.max() <= augment.MAX_SPEED + 1e-9
        assert np.abs(np.diff(speed)).max() < 0.02


def test_a_held_movement_stands_still_and_goes_on(move):
    quats, root = move(300, seed=5), np.column_stack([np.arange(300.0)] * 3)
    stops = 0
    for seed in range(10):
        _, path = augment.time_warp(quats, root, 50.0, np.random.default_rng(seed), hold=True)
        speed = np.diff(path[:, 0])
        assert speed.min() >= 0.0
        assert speed.max() <= augment.MAX_SPEED + 1e-9
        assert np.abs(np.diff(speed)).max() < 0.3, "it slows down before it stops"
        stops += bool((speed < 1e-9).sum() >= 15)
    assert stops >= 5


def test_a_mixed_body_is_two_halves(move):
    one, other = move(100, seed=1), move(80, seed=2)
    mixed = augment.upper_body_of(one, other)
    assert mixed.shape == (80, 22, 4)
    np.testing.assert_array_equal(mixed[:, 1:14], other[:, 1:14])
    np.testing.assert_array_equal(mixed[:, [0, *range(14, 22)]], one[:80, [0, *range(14, 22)]])


def test_a_missing_joint_keeps_the_rest_of_the_body_where_it_was(move):
    quats = move(10, seed=6)
    less = augment.without(quats, 10)
    assert (less[:, 10] == (1.0, 0.0, 0.0, 0.0)).all()
    there, here = positions(quats, upright=True), positions(less, upright=True)
    # The upper arm is attached to another shoulder, but everything below it is only translated.
    np.testing.assert_allclose(np.diff(here[:, 11:14], axis=1), np.diff(there[:, 11:14], axis=1), atol=1e-12)


def test_features_of_a_frame_do_not_depend_on_later_ones(piece_of):
    import dataclasses

    piece = piece_of(200, seed=8)
    other = piece.quats.copy()
    other[120:] = piece_of(200, seed=9).quats[120:]
    one, two = example_from_piece(piece), example_from_piece(dataclasses.replace(piece, quats=other))
    assert np.array_equal(one.features[:120], two.features[:120])
    # The teacher does look ahead, which is what the model learns.
    assert not np.array_equal(one.params[:120], two.params[:120])


def swung(angles: Array, joint: int = 8) -> Array:
    """A body with one joint rotated about x, by an angle for each frame."""
    quats = np.zeros((len(angles), 22, 4))
    quats[..., 0] = 1.0
    quats[:, joint, 0], quats[:, joint, 1] = np.cos(angles / 2.0), np.sin(angles / 2.0)
    return quats


def angle(quats: Array, joint: int = 8) -> Array:
    return np.asarray(2.0 * np.arctan2(quats[:, joint, 1], quats[:, joint, 0]))


def test_exaggerated_a_swing_is_wider_about_the_same_mean_but_not_past_half_a_turn() -> None:
    swing = np.sin(2.0 * np.pi * np.arange(100) / 50.0)
    for about, wide, factor in ((0.0, 0.5, 1.5), (0.8, 0.5, 0.5), (-0.3, 1.0, 2.0)):
        found = angle(augment.exaggerate(swung(about + wide * swing), factor))
        np.testing.assert_allclose(found, about + factor * wide * swing, atol=1e-6)
    assert np.abs(angle(augment.exaggerate(swung(2.0 * swing), 3.0))).max() == 0.95 * np.pi
    hips = swung(swing, joint=0)
    np.testing.assert_array_equal(augment.exaggerate(hips, 2.0), hips)


def test_another_posture_is_a_constant_turn_of_the_given_spread_and_not_of_the_hips(move: Move) -> None:
    quats = move(40, seed=2, amount=1.0)
    back = np.array([1.0, -1.0, -1.0, -1.0])
    turns = []
    for seed in range(30):
        other = augment.posture(quats, 0.2, np.random.default_rng(seed))
        turn = multiply(other, quats * back)
        np.testing.assert_allclose(turn, np.broadcast_to(turn[:1], turn.shape), atol=1e-12)
        np.testing.assert_array_equal(other[:, 0], quats[:, 0])
        turns.append(2.0 * turn[0, 1:, 1:])
    assert np.std(turns) == pytest.approx(0.2, rel=0.1)


def test_a_leant_body_is_leant_as_a_whole(move: Move) -> None:
    quats = move(10, seed=6)
    leant = positions(augment.tilt(quats, np.array([0.0, 0.0, np.pi / 2.0])), upright=True)
    x, y, z = np.moveaxis(positions(quats, upright=True), -1, 0)
    # A quarter turn about z: up becomes -x.
    about = leant[:, :1] - np.stack([-y, x, z], -1)[:, :1]
    np.testing.assert_allclose(leant - about, np.stack([-y, x, z], -1), atol=1e-12)


def test_a_warp_is_the_same_movement_whatever_the_rate_it_was_recorded_at() -> None:
    seconds = [np.arange(int(4 * rate)) / rate for rate in (50.0, 100.0)]
    slow, fast = (
        augment.time_warp(swung(s), np.column_stack([s] * 3), rate, np.random.default_rng(3))
        for s, rate in zip(seconds, (50.0, 100.0), strict=True)
    )
    both = min(len(slow[1]), len(fast[1]))
    assert both > 100
    np.testing.assert_allclose(slow[1][:both], fast[1][:both], atol=1e-9)
    # Joints and root are warped alike.
    for quats, root in (slow, fast):
        np.testing.assert_allclose(angle(quats), root[:, 0], atol=1e-6)
