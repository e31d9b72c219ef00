"""Glitches: their effects, their labels, and both in sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip._core import motion_features
from pyanticip.errors import FormatError
from training.data.batches import Windows
from training.data.corrupt import Corruption
from training.data.glitches import KINDS, LIMBS, Glitches, glitch
from training.data.sets import MotionSet, Recipe, augment, build, read_recipe
from training.data.sets.format import LABELS
from training.teacher.kinematics import MIRROR

ALL = np.ones(22, dtype=np.bool_)
OFTEN = Glitches(share=1.0, per_minute=(60.0, 60.0), frames=(4, 12))
REST = np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32)
CLEAN = Corruption(noise=0.0, drop=0.0, freeze=0.0, loss=0.0)


def only(kind):
    return OFTEN.model_copy(update={"kinds": (kind,)})


@pytest.mark.parametrize("kind", KINDS)
def test_the_bad_frames_and_the_one_after_are_labelled_and_all_others_are_as_they_were(clip, kind):
    quats, root = clip(400)
    found = glitch(quats, root, ALL, np.random.default_rng(1), only(kind))
    wanted = np.zeros(400, dtype=np.bool_)
    assert len(found.glitches) > 3
    for name, start, stop in found.glitches:
        assert name == kind
        assert start >= 1
        assert 4 <= stop - start <= 12 or stop == 400
        assert not wanted[start - 1]
        wanted[start : stop + 1] = True
        assert (found.quats[start:stop] != quats[start:stop]).any(axis=(1, 2)).all()
    np.testing.assert_array_equal(found.bad, wanted)
    np.testing.assert_array_equal(found.quats[~wanted], quats[~wanted])
    np.testing.assert_array_equal(found.root[~wanted], root[~wanted])
    np.testing.assert_allclose(np.linalg.norm(found.quats, axis=-1), 1.0, atol=1e-5)
    # Frames with a wrong pose or velocities: in others only scalars and recursive features change.
    before, after = (motion_features(q, r, ALL) for q, r in ((quats, root), (found.quats, found.root)))
    np.testing.assert_array_equal(before[~wanted, :198], after[~wanted, :198])
    assert (before[wanted, :198] != after[wanted, :198]).any(axis=1).mean() > 0.9


def test_each_kind_does_what_it_is_called(clip):
    quats, root = clip(200)
    rng = np.random.default_rng
    (_, start, stop), *_ = (frozen := glitch(quats, root, ALL, rng(0), only("freeze"))).glitches
    np.testing.assert_array_equal(
        frozen.quats[start:stop], np.broadcast_to(quats[start - 1], (stop - start, 22, 4))
    )
    np.testing.assert_array_equal(
        frozen.root[start:stop], np.broadcast_to(root[start - 1], (stop - start, 3))
    )
    (_, start, stop), *_ = (lost := glitch(quats, root, ALL, rng(1), only("dropout"))).glitches
    gone = {joint for joint in range(22) if (lost.quats[start:stop, joint] == REST).all()}
    assert gone
    assert gone == {joint for limb in LIMBS if limb[0] in gone for joint in limb}
    (_, start, stop), *_ = (swapped := glitch(quats, root, ALL, rng(2), only("swap"))).glitches
    other = [
        joint for joint in range(22) if (swapped.quats[start:stop, joint] != quats[start:stop, joint]).any()
    ]
    assert other
    for joint in other:
        np.testing.assert_array_equal(swapped.quats[start:stop, joint], quats[start:stop, MIRROR[joint]])


def test_joints_that_are_not_there_stay_as_they_are(clip):
    quats, root = (array.copy() for array in clip(400))
    mask = ALL.copy()
    mask[[6, 7, 8, 9, 15, 21]] = False
    quats[:, ~mask] = REST
    found = glitch(quats, root, mask, np.random.default_rng(0), OFTEN)
    assert found.bad.any()
    np.testing.assert_array_equal(found.quats[:, ~mask], quats[:, ~mask])


@given(st.integers(0, 90), st.integers(0, 2**31), st.floats(0, 2000), st.integers(1, 60))
@settings(max_examples=60)
def test_whatever_happens_it_is_a_movement_of_the_same_length(frames, seed, rate, longest):
    quats = np.tile(REST, (frames, 22, 1))
    how = Glitches(share=1.0, per_minute=(rate, rate), frames=(1, longest))
    found = glitch(quats, np.zeros((frames, 3)), ALL, np.random.default_rng(seed), how)
    assert found.quats.shape == (frames, 22, 4)
    assert np.isfinite(found.quats).all()
    assert not found.bad[:1].any()
    again = glitch(quats, np.zeros((frames, 3)), ALL, np.random.default_rng(seed), how)
    np.testing.assert_array_equal(found.quats, again.quats)


def test_they_come_as_often_as_asked():
    quats = np.tile(REST, (50 * 60 * 20, 22, 1))
    how = Glitches(share=1.0, per_minute=(20.0, 20.0), frames=(2, 2))
    found = glitch(quats, np.zeros((len(quats), 3)), ALL, np.random.default_rng(0), how)
    assert len(found.glitches) == pytest.approx(400, rel=0.15)
    assert {kind for kind, _, _ in found.glitches} == set(KINDS)
    never = glitch(
        quats[:300], np.zeros((300, 3)), ALL, np.random.default_rng(0), how.model_copy(update={"share": 0.0})
    )
    assert not never.bad.any()
    assert never.glitches == ()


def test_a_set_keeps_the_labels_and_teaches_the_clean_movement(takes, tmp_path):
    base = build(takes, tmp_path / "base") and MotionSet.open(tmp_path / "base")
    recipe = Recipe(movement="none", corruption=CLEAN, glitches=OFTEN)
    made = augment(base, tmp_path / "bad", copies=2, recipe=recipe)
    made = MotionSet.open(made.folder, verify=True)
    assert made.index["arrays"][LABELS]["rows"] == made.frames
    number = {clip.name: n for n, clip in enumerate(base.clips)}
    labelled = 0
    for clip, copy in zip(made.clips, made.examples(), strict=True):
        clean = base.example(number[clip.of])
        labelled += int(copy.bad.sum())
        np.testing.assert_array_equal(copy.params, clean.params)
        np.testing.assert_array_equal(copy.quats[~copy.bad], clean.quats[~copy.bad])
        np.testing.assert_array_equal(
            copy.features,
            motion_features(copy.quats, made.root[clip.start : clip.start + clip.frames], made.mask(0)),
        )
    assert 0.05 < labelled / made.frames < 0.5
    assert base.example(0).bad is None
    # A set made by a recipe without glitches has the same bytes and digest as in older versions.
    plain = augment(base, tmp_path / "plain", copies=1, recipe=Recipe(corruption=CLEAN))
    assert LABELS not in plain.index["arrays"]
    assert "glitches" not in plain.index["made_by"]["recipe"]

    windows = Windows([base.example(0), *made.examples()])
    batch = windows.gather(np.array([0, 1]), np.array([0, 20]), 160)
    assert not batch.bad[0].any()
    wanted = made.example(0).bad[20:180]
    np.testing.assert_array_equal(batch.bad[1, : len(wanted)].numpy(), wanted)
    assert Windows([base.example(0)]).gather(np.array([0]), np.array([0]), 160).bad is None


def test_a_recipe_with_glitches_is_read_from_toml(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text('[glitches]\nkinds = ["swap"]\nframes = [3, 9]\nshare = 1.0\n')
    assert read_recipe(file).glitches == Glitches(share=1.0, kinds=("swap",), frames=(3, 9))
    for text, match in (
        ("[glitches]\nlength = 3\n", "no key 'length'"),
        ("glitches = 3\n", "glitches: input should be a valid dictionary"),
        ('[glitches]\nkinds = ["magic"]\n', r"glitches: kinds\.0: .*, got 'magic'"),
        ("[glitches]\nkinds = []\n", "glitches: kinds: "),
        ("[glitches]\nshare = 1.5\n", "share: .* less than or equal to 1, got 1.5"),
        ("[glitches]\nframes = [0, 4]\n", r"frames\.0: .* greater than or equal to 1, got 0"),
        ("[glitches]\nper_minute = [3.0, 1.0]\n", "per_minute: expected a range from low to high"),
    ):
        file.write_text(text)
        with pytest.raises(FormatError, match=match):
            read_recipe(file)
    file.write_text("[corruption]\nnoise = 0.0\n")
    assert read_recipe(file).glitches is None
