"""Who is judged on what: kinds by the manifests' words, people on one side, takes shown twice."""

import shutil

import numpy as np
import pytest

import pyanticip as pa
from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.bvh_write import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from training.data.examples import plain
from training.evaluate import takes as module
from training.evaluate.kinds import KINDS, Described, kind_of, of_take, read_repeats, read_takes
from training.evaluate.plausible import implausible, step_rate, turn_rate
from training.evaluate.takes import Clip, Takes, check_people


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


def test_takes_are_found_by_path_or_name_and_people_have_one_name(tmp_path):
    assert read_takes(tmp_path) == {}
    (tmp_path / "MANIFEST.csv").write_text(
        "file,person,kind,description\nin/14_02.amc,cmu14,other,\na/M_1.bvh,Mike,karate,Move1\n05.asf,5,,skeleton\n"
    )
    found = read_takes(tmp_path)
    assert found == {"in/14_02": Described("14", "other"), "a/M_1": Described("Mike", "martial art")}
    assert of_take("a/M_1.bvh", found).person == "Mike"
    assert of_take("99_01.bvh", found) == Described("", "other")


def test_repeats_are_the_likest_first_and_only_those_that_are_alike(tmp_path):
    assert read_repeats(tmp_path) == []
    table = tmp_path / "repeats.csv"
    table.write_text(
        "person,a,b,ratio\nx,cmu/1.amc,cmu/2.amc,.3\nx,cmu/1.amc,cmu/3.bvh,.1\nx,a.bvh,b.bvh,.36\n"
    )
    assert read_repeats(tmp_path) == [("cmu/1", "cmu/3"), ("cmu/1", "cmu/2")]
    for text, words in (("a,b\n", "no column 'ratio'"), ("a,b,ratio\nx,y,much\n", "expected a number")):
        table.write_text(text)
        with pytest.raises(FormatError, match=words):
            read_repeats(tmp_path)


def clip_of(piece, side, source):
    return Clip(plain(piece), piece, "walking", side, source)


def test_somebody_on_two_sides_is_refused(piece_of):
    one = clip_of(piece_of(100, 1, "14"), "train", "cmu/14_01")
    check_people([one, clip_of(piece_of(100, 2, "15"), "test", "more/15_01")])
    with pytest.raises(OptionError, match="more/14_09: subject 14 is on two sides, train and test"):
        check_people([one, clip_of(piece_of(100, 2, "14"), "test", "more/14_09")])


@pytest.fixture
def folder(move, tmp_path):
    """``cmu`` and ``more`` with synthetic takes, manifests, and a pair that shows the same."""
    skeleton = canonical_skeleton()
    files = {
        "cmu/01_01.bvh": (1, "walk"),
        "cmu/06_01.bvh": (2, "walk"),
        "cmu/07_01.bvh": (3, "dance"),
        "cmu/07_02.bvh": (7, "dance"),
        "cmu/07_03.bvh": (4, "dance"),
        "more/m/mike_1.bvh": (5, "karate"),
        "more/m/14_09.bvh": (6, "laugh"),
    }
    rows = {"cmu": ["file,subject,description"], "more": ["file,person,description"]}
    for name, (seed, words) in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        root = np.tile([0.0, 0.9, 0.0], (150, 1)).astype(np.float32)
        save_bvh(pa.Clip(move(150, seed).astype(np.float32), root, 50.0, skeleton), path)
        place, _, rest = name.partition("/")
        person = {"mike_1.bvh": "Mike", "14_09.bvh": "cmu14"}.get(path.name, path.name[:2])
        rows[place].append(f"{rest},{person},{words}")
    for place, lines in rows.items():
        (tmp_path / place / "MANIFEST.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "repeats.csv").write_text("person,a,b,ratio\ncmu07,cmu/07_01.bvh,cmu/07_02.bvh,.2\n")
    return tmp_path


def test_both_folders_are_read_and_everybody_has_a_side(folder, monkeypatch, tmp_path_factory):
    people = tmp_path_factory.mktemp("people") / "people.csv"
    people.write_text("Mike,test\n")
    monkeypatch.setattr(module, "PEOPLE", people)
    cache = tmp_path_factory.mktemp("cache")
    takes = Takes(folder, cache)
    assert {clip.source for clip in takes.taught()} == {"cmu/01_01"}
    found = {clip.source: (clip.person, clip.side, clip.kind) for clip in takes.clips}
    assert found["cmu/06_01"] == ("06", "validation", "walking")
    assert found["more/m/mike_1"] == ("Mike", "test", "martial art")
    # Of the people of both folders and of no table: their sides are those of training.
    assert found["more/m/14_09"] == ("14", "train", "gesture")
    assert found["cmu/07_02"] == ("07", "test", "dance, repeated")
    assert found["cmu/07_03"] == ("07", "test", "dance, improvised")
    assert takes.pairs == [("cmu/07_01", "cmu/07_02")]
    assert {clip.person for clip in takes.strangers("test")} == {"07", "Mike"}
    assert {clip.person for clip in takes.strangers("test", ("01",))} == {"01"}
    with pytest.raises(OptionError, match="no motion of subject 77"):
        takes.strangers("test", ("77",))
    people.write_text("Mike,test\n14,test\n")
    shutil.copy(folder / "more/m/14_09.bvh", folder / "cmu/14_01.bvh")
    with pytest.raises(OptionError, match="subject 14 is on two sides, train and test"):
        Takes(folder, cache)


def walk(seconds, rate, steps=1.8, turn=0.0):
    """Legs that swing, ``steps`` a second, of a body that turns so many rad/s."""
    t = np.arange(round(seconds * rate)) / rate
    quats = np.zeros((len(t), 22, 4))
    quats[..., 0] = 1.0
    angle = 0.4 * np.sin(np.pi * steps * t)
    for joint, sign in ((14, 1.0), (18, -1.0)):
        quats[:, joint] = np.column_stack([np.cos(angle / 2), sign * np.sin(angle / 2), 0 * t, 0 * t])
    quats[:, 0] = np.column_stack([np.cos(turn * t / 2), 0 * t, np.sin(turn * t / 2), 0 * t])
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


def test_no_take_of_the_right_rate_is_flagged_and_walks_of_the_wrong_one_are(data_dir, tmp_path):
    from training.data.examples import find_takes, load_pieces

    walks = [t for t in find_takes(data_dir, "validation") if t.subject in ("35", "43")][:6]
    pieces = [piece for take in walks for piece in load_pieces(take)]
    assert not any(implausible(piece.quats, piece.rate, "walking") for piece in pieces)
    assert all(implausible(piece.quats, 2.0 * piece.rate, "walking") for piece in pieces)
