"""Clips for the evaluation: kinds from the manifests' descriptions, splits, and repeated takes."""

import shutil

import numpy as np
import pytest
from support.clips import turning
from support.takes import pieces_of

import pyanticip as pa
from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from training.data.manifest import Manifests, read_repeats
from training.data.sets import MotionSet, build
from training.data.sets.format import row_bytes
from training.evaluate import sensors
from training.evaluate.takes import KINDS, Takes, implausible, kind_of, step_rate, turn_rate
from training.tasks.motion.data import training_data
from training.tasks.motion.options import MotionTrainOptions


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("slow walk, stop", "walking"),
        ("other B10_WalkTurnLeft45", "walking"),
        ("other B2_WalkToStand", "walking"),
        ("other B4_StandToWalkBack", "styled walk"),
        ("walk, exaggerated stride", "styled walk"),
        ("other C19_Run2Hop2Walk", "running"),
        ("run, leap", "running"),
        ("karate BowKarate", "martial art"),
        ("dance - sideways steps, pirouette", "dance, improvised"),
        ("other A1_Stand", "idle"),
        ("idle acted idle", "idle"),
        ("other A4_LookAround", "gesture"),
        ("direct traffic, wave, point", "gesture"),
        ("basketball - forward dribble", "other"),
        ("drunk walker", "other"),
        ("", "other"),
    ],
)
def test_kinds_follow_from_a_takes_words(words, kind):
    assert kind in KINDS
    assert kind_of(words) == kind


def test_the_kind_of_a_take_is_found_by_its_path_or_its_name(tmp_path):
    (tmp_path / "MANIFEST.csv").write_text("file,kind,description\na/M_1.bvh,karate,Move1\n07_02.amc,,jog\n")
    said = Manifests(tmp_path)
    found = [kind_of(said.words(path)) for path in ("a/M_1.bvh", "deep/07_02.bvh", "M_1.bvh")]
    assert found == ["martial art", "running", "other"]


def test_repeats_are_the_likest_first_and_only_those_that_are_alike(tmp_path):
    table = tmp_path / "repeats.csv"
    table.write_text(
        "person,a,b,ratio\nx,cmu/1.amc,cmu/2.amc,.3\nx,cmu/1.amc,cmu/3.bvh,.1\nx,a.bvh,b.bvh,.36\n"
    )
    alike = [("x", "cmu/1.amc", "cmu/3.bvh"), ("x", "cmu/1.amc", "cmu/2.amc")]
    assert read_repeats(tmp_path) == alike
    for text, words in (
        ("person,a,b\n", "no column 'ratio'"),
        ("person,a,b,ratio\nx,y,z,much\n", "expected a number"),
    ):
        table.write_text(text)
        with pytest.raises(FormatError, match=words):
            read_repeats(tmp_path)


@pytest.fixture
def folder(move, tmp_path, monkeypatch):
    """``cmu`` and ``more`` with synthetic takes, manifests, and a repeated take."""
    # Built in this process: starting workers would take longer.
    monkeypatch.setattr("training.tasks.motion.data.cores", lambda: 1)
    skeleton = canonical_skeleton()
    files = {
        "cmu/01_01.bvh": (1, "walk"),
        "cmu/06_01.bvh": (2, "walk"),
        "cmu/07_01.bvh": (3, "dance"),
        "cmu/07_02.bvh": (7, "dance"),
        "cmu/07_03.bvh": (4, "dance"),
        "more/m/mike_1.bvh": (5, "karate"),
        "more/m/coro_1.bvh": (8, "dance"),
        "more/m/14_09.bvh": (6, "laugh"),
    }
    rows = {"cmu": ["file,subject,description"], "more": ["file,person,description"]}
    for name, (seed, words) in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        root = np.tile([0.0, 0.9, 0.0], (150, 1)).astype(np.float32)
        save_bvh(pa.Clip(move(150, seed).astype(np.float32), root, 50.0, skeleton), path)
        place, _, rest = name.partition("/")
        person = {"mike_1.bvh": "Mike_Gassaway", "coro_1.bvh": "Jasmine_Coro", "14_09.bvh": "cmu14"}.get(
            path.name, path.name[:2]
        )
        rows[place].append(f"{rest},{person},{words}")
    for place, lines in rows.items():
        (tmp_path / place / "MANIFEST.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "repeats.csv").write_text("person,a,b,ratio\ncmu07,cmu/07_01.bvh,cmu/07_02.bvh,.2\n")
    return tmp_path


def test_both_folders_are_one_set_and_everybody_has_a_side(folder, tmp_path_factory, capsys):
    cache = tmp_path_factory.mktemp("cache")
    (folder / "cmu" / "01_02.bvh").write_text("no motion")
    takes = Takes(folder, cache)
    assert "01_02.bvh" in capsys.readouterr().err, "what cannot be read is told"
    assert [path.name.split("-")[0] for path in cache.glob("set-*")] == ["set"]
    assert {clip.source for clip in takes.training_clips()} == {"cmu/01_01", "more/m/14_09", "more/m/coro_1"}
    found = {clip.source: (clip.person, clip.side, clip.kind) for clip in takes.clips}
    assert found["cmu/06_01"] == ("06", "validation", "walking")
    assert found["more/m/mike_1"] == ("Mike_Gassaway", "test", "martial art")
    assert found["more/m/coro_1"] == ("Jasmine_Coro", "train", "dance, improvised")
    assert found["more/m/14_09"] == ("14", "train", "gesture")
    assert found["cmu/07_02"] == ("07", "test", "dance, repeated")
    assert found["cmu/07_03"] == ("07", "test", "dance, improvised")
    assert takes.pairs == [("cmu/07_01", "cmu/07_02")]
    assert takes.warnings == []
    build(folder, cache / "mine")  # the manifests stay with the takes, the set has their descriptions
    told = {clip.source: clip.kind for clip in Takes(cache / "mine").clips}
    assert (told["cmu/06_01"], told["more/m/mike_1"]) == ("walking", "martial art")
    assert {clip.person for clip in takes.held_out_clips("test")} == {"07", "Mike_Gassaway"}
    assert {clip.person for clip in takes.held_out_clips("test", ("01",))} == {"01"}
    with pytest.raises(OptionError, match="no motion of subject 77"):
        takes.held_out_clips("test", ("77",))
    takes.clips = [clip for clip in takes.clips if clip.side != "train"]
    with pytest.raises(FormatError, match=r"no train clip; expected a set with a side to learn from"):
        takes.training_clips()


def test_training_takes_the_same_clips_as_judging(folder, tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    options = MotionTrainOptions().replace(data={"path": folder, "cache": cache, "copies": 0})
    learned = training_data(options)
    takes = Takes(folder, cache)
    assert [clip.name for clip in takes.training_clips()] == [example.name for example in learned.originals]
    assert learned.test_subjects == ("07", "Mike_Gassaway")
    shutil.rmtree(folder / "more")
    alone = Takes(folder, cache)
    assert {clip.source for clip in alone.clips} == {
        f"cmu/{name}" for name in ("01_01", "06_01", "07_01", "07_02", "07_03")
    }
    assert alone.digest != takes.digest


def test_a_side_of_clips_too_short_to_judge_says_so(piece_of, set_of, tmp_path):
    sides = {"train": [piece_of(200)], "test": [piece_of(85, seed=1, subject="07")]}
    data = set_of(tmp_path / "takes", sides)
    with pytest.raises(FormatError, match=r"longest clip has 85 frames, expected at least 86"):
        sensors.evaluate(data, "test")


@pytest.mark.parametrize(
    ("array", "says"),
    [
        ("features.f32", "features"),
        ("params.f32", "params"),
        ("quats.f32", "rotations"),
        ("root.f32", "positions"),
    ],
)
def test_a_damaged_clip_is_named(array, says, piece_of, set_of, tmp_path):
    data = set_of(
        tmp_path / "takes", {"train": [piece_of(100)], "test": [piece_of(90, seed=1, subject="07")]}
    )
    learned, judged = MotionSet.open(data).clips
    for clip, clips_of in (
        (judged, lambda: Takes(data).held_out_clips("test")),
        (learned, lambda: Takes(data).training_clips()),
    ):
        with (data / array).open("r+b") as file:
            file.seek((clip.start + 30) * row_bytes(array))
            file.write(b"\xff" * 4)
        with pytest.raises(FormatError, match=f"clip {clip.name}: {says} of frame 30 are not finite"):
            clips_of()


def walk(seconds, rate, steps=1.8, turn=0.0):
    """Legs that swing with ``steps`` per second, on a body that turns at ``turn`` rad/s."""
    t = np.arange(round(seconds * rate)) / rate
    angle = 0.4 * np.sin(np.pi * steps * t)
    quats = turning({14: angle, 18: -angle}, axis=0)
    quats[:, 0] = turning({0: turn * t}, axis=1)[:, 0]
    return quats


def test_steps_and_turns_are_counted():
    quats = walk(6.0, 60.0, 1.8, 3.0)
    assert step_rate(quats, 60.0) == pytest.approx(1.8, abs=0.1)
    assert turn_rate(quats, 60.0) == pytest.approx(3.0, abs=0.05)
    assert step_rate(np.tile(quats[:1], (100, 1, 1)), 60.0) == 0.0
    assert turn_rate(quats[:3], 60.0) == 0.0


@pytest.mark.parametrize("kind", ["walking", "styled walk"])
def test_a_take_at_60_hz_that_says_120_is_flagged(kind):
    quats = walk(6.0, 60.0)
    assert implausible(quats, 60.0, kind) == ""
    assert "3.6 steps a second, expected at most 3" in implausible(quats, 120.0, kind)


def test_a_pirouette_passes_and_the_same_twice_as_fast_does_not():
    quats = walk(3.0, 60.0, 0.5, 13.0)
    assert implausible(quats, 60.0, "dance, improvised") == ""
    assert "turns at 26.0 rad/s" in implausible(quats, 120.0, "dance, improvised")
    assert implausible(walk(4.0, 60.0, 3.2), 60.0, "running") == ""
    assert "6.4 steps" in implausible(walk(4.0, 60.0, 3.2), 120.0, "running")


def test_no_take_of_the_right_rate_is_flagged_and_walks_of_the_wrong_one_are(data_dir):
    walks = sorted([*data_dir.glob("cmu/35_*.amc"), *data_dir.glob("cmu/43_*.amc")])[:6]
    pieces = [piece for path in walks for piece in pieces_of(path)]
    assert not any(implausible(piece.quats, piece.rate, "walking") for piece in pieces)
    assert all(implausible(piece.quats, 2.0 * piece.rate, "walking") for piece in pieces)
