"""Augmented copies of a set: of training clips only, resumable, the same for any number of processes."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from support.takes import contents

from pyanticip._core import motion_features
from pyanticip.errors import FormatError, OptionError
from training.data.corrupt import Corruption
from training.data.examples import Piece, example_from_piece, vary
from training.data.sets import MotionSet, Recipe, augment, build, read_recipe
from training.data.sets.vary import _vary_movement, _vary_with_sound, upsample
from training.data.sets.writer import WORK
from training.teacher.kinematic_targets import compute_targets

CLEAN = Corruption(noise=0.0, drop=0.0, freeze=0.0, loss=0.0)


@pytest.fixture(scope="module")
def split_file(tmp_path_factory):
    """A split file: ben is held out."""
    path = tmp_path_factory.mktemp("who") / "who.toml"
    path.write_text('train = ["*"]\nvalidation = ["ben"]\n')
    return path


@pytest.fixture(scope="module")
def base(written, split_file):
    build(written, split_file.parent / "base", split_file=split_file)
    return MotionSet.open(split_file.parent / "base")


def test_copies_of_the_training_clips_only(base, tmp_path):
    made = augment(base, tmp_path / "more", copies=3, seed=1)
    MotionSet.open(tmp_path / "more", verify=True)
    assert {clip.of for clip in made.clips} == {base.clips[n].name for n in base.indices("train")}
    assert {clip.split for clip in made.clips} == {"train"}
    assert made.subjects() == ["anna", "cleo/deep"]
    assert made.clips[0].name == "anna/run~0"
    assert len(made) == 12
    assert made.index["made_by"]["of"] == base.digest
    assert not (tmp_path / "more" / WORK).exists()


def test_the_bytes_do_not_depend_on_workers(base, tmp_path):
    augment(base, tmp_path / "one", copies=1, seed=1)
    augment(base, tmp_path / "two", copies=1, seed=1, workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def movements(made) -> dict[str, np.ndarray]:
    return {clip.name: np.array(made.piece(number).quats) for number, clip in enumerate(made.clips)}


def test_a_seed_makes_other_movements_and_so_does_each_copy(base, tmp_path):
    """Another seed changes the data, not only the digest, which includes the seed."""
    one, two = (
        movements(augment(base, tmp_path / f"{seed}", copies=2, seed=seed, recipe=Recipe(corruption=CLEAN)))
        for seed in (1, 2)
    )
    for name, quats in one.items():
        other = one[f"{name[:-1]}{1 - int(name[-1])}"]
        for apart in (two[name], other):
            frames = min(len(quats), len(apart))
            assert np.abs(quats[:frames] - apart[:frames]).max() > 0.01, name


@pytest.mark.parametrize(("one", "without"), [("ben/show.anticip", ()), ("cleo/deep/a.bvh", ("cleo/deep",))])
def test_who_is_held_out_leaves_no_trace_in_the_copies(takes, take, tmp_path, split_file, one, without):
    """Upper bodies come from training clips only: another take of a validation subject changes no copy."""
    found, recipe = [], Recipe(corruption=CLEAN)
    for seed in (3, 33):
        (takes / one).unlink()
        take(takes / one, 150, seed)
        build(takes, tmp_path / f"base{seed}", split_file=split_file)
        out = tmp_path / f"more{seed}"
        made = augment(tmp_path / f"base{seed}", out, copies=4, recipe=recipe, without=without)
        found.append(movements(made))
    assert found[0].keys() == found[1].keys()
    for name, quats in found[0].items():
        np.testing.assert_array_equal(quats, found[1][name], err_msg=name)


def test_what_is_there_is_opened_and_what_was_begun_is_gone_on_with(base, tmp_path, monkeypatch):
    import training.data.sets.vary as vary_module

    calls = []
    real = vary_module._copy

    def counting(task, copy):
        calls.append((task.number, copy))
        if len(calls) == 4 and failing:
            raise KeyboardInterrupt
        return real(task, copy)

    failing = True
    monkeypatch.setattr(vary_module, "_copy", counting)
    with pytest.raises(KeyboardInterrupt):
        augment(base, tmp_path / "more", copies=2)
    with pytest.raises(FormatError, match="no set"):
        MotionSet.open(tmp_path / "more")
    failing, first = False, list(calls)
    made = augment(base, tmp_path / "more", copies=2)
    # Both copies of the first clip were finished and are reused.
    assert len(calls) - len(first) == 2 * len(base.indices("train")) - 2
    calls.clear()
    assert augment(base, tmp_path / "more", copies=2).digest == made.digest
    assert calls == []


def test_neither_takes_nor_copies_replace_a_set_of_the_other_kind(base, takes, tmp_path):
    built = shutil.copytree(base.folder, tmp_path / "built")
    augment(base, tmp_path / "more", copies=1)
    before = contents(built), contents(tmp_path / "more")
    with pytest.raises(OptionError, match="built: holds a set made by train data build; expected another"):
        augment(base, built, copies=1)
    with pytest.raises(OptionError, match="more: holds a set made by train data augment; expected another"):
        build(takes, tmp_path / "more")
    assert before == (contents(built), contents(tmp_path / "more"))
    (built / "set.json").write_text("{}")  # a damaged one may be replaced
    assert augment(base, built, copies=1).clips


def test_without_corruption_features_and_targets_are_of_the_new_movement(base, tmp_path):
    made = augment(base, tmp_path / "more", copies=2, recipe=Recipe(corruption=CLEAN))
    for number in range(len(made)):
        example, piece = made.example(number), made.piece(number)
        np.testing.assert_array_equal(example.features, motion_features(piece.quats, piece.root, piece.mask))
        targets = compute_targets(example.quats)
        np.testing.assert_array_equal(example.params, targets.params)
        np.testing.assert_array_equal(example.onsets, targets.times("onset"))


def test_corruption_changes_what_is_seen_and_not_what_is_taught(base, tmp_path):
    worst = Corruption(noise=1.0, drop=1.0, freeze=1.0, loss=1.0, suits=("six",))
    made = augment(base, tmp_path / "more", copies=2, recipe=Recipe(movement="none", corruption=worst))
    for number, clip in enumerate(made.clips):
        original = next(n for n in base.indices() if base.clips[n].name == clip.of)
        clean, seen, piece = base.example(original), made.example(number), made.piece(number)
        np.testing.assert_array_equal(seen.params, clean.params)
        np.testing.assert_array_equal(seen.onsets, clean.onsets)
        np.testing.assert_array_equal(seen.features, motion_features(piece.quats, piece.root, piece.mask))
        # Including the scalars, which are computed from the corrupted input.
        assert np.abs(seen.features[:, 220:227] - clean.features[:, 220:227]).max() > 0.01
        # Joints that are not measured are solved, as live.
        assert piece.mask.all()
        assert clip.missing == ()


def test_simple_changes_are_only_those(base, tmp_path):
    recipe = Recipe(movement="simple", warp=0.0, mirror=1.0, yaw=0.0, corruption=CLEAN)
    made = augment(base, tmp_path / "more", copies=1, recipe=recipe)
    for number, clip in enumerate(made.clips):
        original = base.example(next(n for n in base.indices() if base.clips[n].name == clip.of))
        example = made.example(number)
        np.testing.assert_allclose(example.params[:, 6], 1.0 - original.params[:, 6], atol=1e-4)
        np.testing.assert_allclose(example.params[:, :6], original.params[:, :6], atol=1e-4)


def test_the_finer_movement_is_the_movement(clip):
    quats, root = clip(600)
    piece = Piece("a", "b", quats[::3], root[::3], np.ones(22, dtype=np.bool_), 50.0)
    fine = upsample(piece)
    assert fine.rate == 150.0
    assert len(fine.quats) == 3 * (len(piece.quats) - 1) + 1
    # The movement is given at 150 Hz: splines through every third frame reproduce the others.
    true = quats[: len(fine.quats)].astype(np.float64)
    apart = np.minimum(np.linalg.norm(fine.quats - true, axis=-1), np.linalg.norm(fine.quats + true, axis=-1))
    assert 2.0 * apart[10:-10].max() < 3e-3  # radians; slerp is 0.05 away here
    assert 2.0 * apart.max() < 0.015  # splines are less accurate at the ends
    np.testing.assert_allclose(fine.root, root[: len(fine.root)], atol=1e-4)
    assert upsample(fine) is fine


def test_a_mirrored_suit_lacks_the_other_side(clip):
    quats, root = clip(100)
    mask = np.ones(22, dtype=np.bool_)
    mask[9] = False
    piece = Piece("a", "b", quats, root, mask, 50.0)
    lacking = set()
    for seed in range(20):
        example = example_from_piece(vary(piece, np.random.default_rng(seed)))
        missing = np.flatnonzero(example.features[0, 198:220] == 0.0)
        lacking |= {tuple(missing)} if len(missing) == 1 else set()
    assert lacking == {(9,), (13,)}


def test_joints_that_a_suit_lacks_stay_at_rest(clip):
    quats, root = (part.copy() for part in clip(200))
    mask = np.ones(22, dtype=np.bool_)
    mask[[3, 9]] = False  # the parent of 3 is also left out
    quats[:, ~mask] = (1.0, 0.0, 0.0, 0.0)
    piece, partner = Piece("a", "b", quats, root, mask, 50.0), Piece("c", "d", *clip(200), mask | True, 50.0)
    for seed in range(40):
        made = vary(piece, np.random.default_rng(seed), partner)
        assert made.mask.sum() <= 20
        assert (made.quats[:, ~made.mask] == (1.0, 0.0, 0.0, 0.0)).all()


def test_an_upper_body_is_borrowed_with_what_its_suit_lacks(clip):
    """A joint that never moves counts as missing."""
    piece = Piece("a", "b", *clip(200), np.ones(22, dtype=np.bool_), 50.0)
    quats, mask = piece.quats.copy(), piece.mask.copy()
    mask[[9, 20]] = False
    quats[:, ~mask] = (1.0, 0.0, 0.0, 0.0)
    partner = Piece("c", "d", quats, piece.root, mask, 50.0)
    lacking = set()
    for seed in range(60):
        made = vary(piece, np.random.default_rng(seed), partner)
        assert (np.ptp(made.quats[:, made.mask], axis=0).max(axis=-1) > 1e-5).all()
        if made.mask.sum() == 21:
            lacking.add(*np.flatnonzero(~made.mask).tolist())
    assert {9, 13} <= lacking, "of the arm, mirrored or not; the leg stays"
    assert not lacking & {16, 20}


def test_a_share_of_movements_is_done_slowly(clip):
    piece = Piece("a", "b", *clip(300), np.ones(22, dtype=np.bool_), 50.0)
    longer = {
        share: [len(vary(piece, np.random.default_rng(s), slowly=share).quats) / 300 for s in range(60)]
        for share in (0.0, 0.5, 1.0)
    }
    # A stop of up to two seconds, and a speed of 0.8 to 1.25.
    assert max(longer[0.0]) < 1.0 / 0.8 + 100 / 300
    assert min(longer[1.0]) > 1.0
    assert 1.3 / 0.8 < np.median(longer[1.0]) < 1.0 / 0.4
    slow = np.mean(np.array(longer[0.5]) > 1.4)
    assert 0.3 < slow < 0.7


def test_a_suit_lacks_the_other_side_however_it_was_mirrored(clip):
    quats, root = clip(100)
    mask = np.ones(22, dtype=np.bool_)
    mask[9] = False
    piece = Piece("a", "b", quats, root, mask, 50.0)
    base = SimpleNamespace(piece=lambda number: piece, example=lambda number: example_from_piece(piece))
    recipe, rng = Recipe(movement="simple", warp=0.0, mirror=1.0, yaw=0.0), np.random.default_rng(0)
    for made in (_vary_movement(base, 0, 0, recipe, rng), _vary_with_sound(base, 0, recipe, rng)[0]):
        assert np.flatnonzero(~made.mask).tolist() == [13]


def test_bad_options_are_refused(base, tmp_path):
    with pytest.raises(OptionError, match="copies must be at least 1"):
        augment(base, tmp_path / "more", copies=0)
    with pytest.raises(OptionError, match="is the set itself"):
        augment(base, base.folder, copies=1)
    with pytest.raises(
        OptionError, match="movement: input should be 'varied', 'simple' or 'none', got 'wild'"
    ):
        Recipe(movement="wild")


def test_a_recipe_is_read_from_toml(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(
        'movement = "simple"\nwarp = 0\n[corruption]\nnoise = 1\nsuits = ["six"]\nfreeze_frames = [2, 4]\n'
    )
    found = read_recipe(path)
    assert found == Recipe(
        movement="simple", warp=0, corruption=Corruption(noise=1, suits=("six",), freeze_frames=(2, 4))
    )
    # Integers stay integers: the digest of the copies depends on it.
    path.write_text(
        "mirror = 1\nyaw = 1.0\n[corruption]\njitter_degrees = [1, 2]\nslow_rate = [20, 30]\n"
        "loss_share = [0, 0.5]\nloss_burst = [1, 2]\n[glitches]\nplace = 0\n"
    )
    found = read_recipe(path)
    assert "mirror=1, yaw=1.0," in repr(found)
    assert "jitter_degrees=(1, 2)" in repr(found)
    told = json.dumps(found.record())
    for pair in (
        '"mirror": 1, "yaw": 1.0,',
        '"jitter_degrees": [1, 2]',
        '"slow_rate": [20, 30]',
        '"loss_share": [0, 0.5]',
        '"loss_burst": [1, 2]',
        '"place": 0}',
    ):
        assert pair in told
    for text, match in (
        ("colour = 1", "no key 'colour'; expected some of movement"),
        ("warp = true", "warp: input should be a valid number, got True"),
        ("slowly = 2.0", "slowly: .* less than or equal to 1, got 2.0"),
        ("[corruption]\nloss_share = 0.1", "corruption: loss_share: input should be a valid tuple, got 0.1"),
        ("[corruption]\nfreeze_frames = [1.5, 2]", r"freeze_frames\.0: .* integer, got 1\.5"),
        ("[corruption]\nfreeze_frames = [0, 2]", r"freeze_frames\.0: .* equal to 1, got 0"),
        ("[corruption]\nloss_share = [0.5, 0.1]", "expected a range from low to high, got 0.5 to 0.1"),
        ("[corruption]\nloss_share = [0.2, 1.0]", r"loss_share\.1: input should be less than 1"),
        ("[corruption]\nslow_rate = [5.0, 30.0]", r"slow_rate\.0: .* greater than or equal to 10, got 5"),
        ('[corruption]\nsuits = ["ten", "octopus"]', r"suits\.1: .*, got 'octopus'"),
        ("corruption = 3", "corruption: input should be a valid dictionary"),
        ("warp = ", "not valid TOML"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=match):
            read_recipe(path)
    with pytest.raises(FormatError, match="no such file"):
        read_recipe(tmp_path / "none.toml")
