"""The split, the takes, the jumps, and what augmentation may and may not change."""

import numpy as np
import pytest

from pyanticip.errors import FormatError
from training.data import augment
from training.data import examples as data
from training.data.examples import (
    TEST,
    VALIDATION,
    Take,
    find_takes,
    jumps,
    load_pieces,
    plain,
    split_of,
    statistics,
)
from training.teacher.kinematics import positions, rotate


def unit(quats):
    return np.allclose(np.linalg.norm(quats, axis=-1), 1.0, atol=1e-6)


def test_no_subject_is_on_two_sides():
    assert not set(VALIDATION) & set(TEST)
    for subject in (*VALIDATION, *TEST, "01", "05", "16"):
        assert split_of(subject) == (
            "validation" if subject in VALIDATION else "test" if subject in TEST else "train"
        )


def test_the_sides_of_the_real_data_share_no_subject_and_no_take(data_dir):
    sides = {side: find_takes(data_dir, side) for side in ("train", "validation", "test")}
    subjects = {side: {take.subject for take in takes} for side, takes in sides.items()}
    assert subjects["validation"] == set(VALIDATION)
    assert subjects["test"] == set(TEST)
    assert not subjects["train"] & (set(VALIDATION) | set(TEST))
    names = [take.name for takes in sides.values() for take in takes]
    assert len(names) == len(set(names)) == 221
    # The same motion stands there twice for four takes: the AMC is taken.
    twice = {take.name: take.path.suffix for take in sides["train"]}
    assert {twice[name] for name in ("05_01", "05_02", "05_06", "02_01")} == {".amc"}


def test_a_folder_without_takes_is_said_in_one_line(tmp_path):
    with pytest.raises(FormatError, match="no take in it"):
        find_takes(tmp_path)
    with pytest.raises(FormatError, match="no such folder"):
        find_takes(tmp_path / "nowhere")


def test_a_take_is_cut_at_its_jumps(move, tmp_path, monkeypatch):
    quats = move(800, seed=1, amount=0.2).astype(np.float32)
    root = np.zeros((800, 3), dtype=np.float32)
    root[300:] += 1.0
    quats[500:, 9] = (0.0, 1.0, 0.0, 0.0)
    path = tmp_path / "01_01.bvh"
    path.write_text("x")
    monkeypatch.setattr(data, "_read", lambda take: (quats, root, np.ones(22, dtype=bool), 100.0))
    assert np.flatnonzero(jumps(quats, root, 100.0)).tolist() == [300, 301, 500, 501]
    pieces = load_pieces(Take("01_01", "01", path), tmp_path / "cache")
    assert [len(piece.quats) for piece in pieces] == [300, 198, 298]
    assert [piece.name for piece in pieces] == ["01_01/0", "01_01/1", "01_01/2"]
    # A second time from the cache, without reading.
    monkeypatch.setattr(data, "_read", None)
    again = load_pieces(Take("01_01", "01", path), tmp_path / "cache")
    assert all(np.array_equal(a.quats, b.quats) for a, b in zip(pieces, again, strict=True))


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
        assert speed.min() >= augment.SLOWEST - 1e-9
        assert speed.max() <= augment.FASTEST + 1e-9
        assert np.abs(np.diff(speed)).max() < 0.02


def test_a_held_movement_stands_still_and_goes_on(move):
    quats, root = move(300, seed=5), np.column_stack([np.arange(300.0)] * 3)
    stops = 0
    for seed in range(10):
        _, path = augment.time_warp(quats, root, 50.0, np.random.default_rng(seed), hold=True)
        speed = np.diff(path[:, 0])
        assert speed.min() >= 0.0
        assert speed.max() <= augment.FASTEST + 1e-9
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
    # The upper arm hangs on another shoulder, but all below it is only shifted.
    np.testing.assert_allclose(np.diff(here[:, 11:14], axis=1), np.diff(there[:, 11:14], axis=1), atol=1e-12)


def test_features_of_a_frame_do_not_depend_on_later_ones(piece_of):
    import dataclasses

    piece = piece_of(200, seed=8)
    other = piece.quats.copy()
    other[120:] = piece_of(200, seed=9).quats[120:]
    one, two = plain(piece), plain(dataclasses.replace(piece, quats=other))
    assert np.array_equal(one.features[:120], two.features[:120])
    # The teacher does look ahead: that is what there is to learn.
    assert not np.array_equal(one.params[:120], two.params[:120])


def test_statistics_leave_constant_columns_alone(piece_of):
    mean, std = statistics([plain(piece_of(150, seed=1))])
    assert mean.shape == std.shape == (231,)
    mask = slice(132 + 66, 132 + 66 + 22)
    assert (std[mask] == 1.0).all()
    assert (mean[mask] == 1.0).all()
    assert (std > 0.0).all()
