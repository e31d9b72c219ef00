"""Splits by whole subjects: by rule, file or hash, and reproducible."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyanticip.errors import FormatError, OptionError
from training.data.sets.discover import discover
from training.data.sets.splits import (
    absent_subjects,
    default_split,
    hashed_split,
    known_people,
    read_split_file,
    sides_of,
    split_warnings,
    subject_of,
)

NAMES = st.lists(st.text("abcdefgh01234", min_size=1, max_size=6), unique=True, min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("path", "rule", "subject"),
    [
        ("05_02.bvh", "auto", "05"),
        ("subjects/05/05_02.amc", "auto", "05"),
        ("CMU/05/05_02_poses.npz", "auto", "05"),
        ("114_01.bvh", "auto", "114"),
        ("anna/walk.bvh", "auto", "anna"),
        ("KIT/3/turn_left04_poses.npz", "auto", "KIT/3"),
        ("walk.bvh", "auto", "takes"),
        ("anna/05_02.bvh", "folder", "anna"),
        ("KIT/3/a.npz", "top", "KIT"),
        ("a.npz", "top", "takes"),
        ("KIT/3/a.npz", "file", "KIT/3/a"),
        ("x/anna_walk_3.bvh", r"([a-z]+)_\w+\.bvh", "anna"),
        ("x/P07/walk.bvh", r"P\d+", "P07"),
    ],
)
def test_the_subject_of_a_path(path, rule, subject):
    assert subject_of(path, "takes", rule) == subject


def test_rules_that_do_not_fit_are_refused():
    with pytest.raises(OptionError, match=r"is not found in .a\.bvh."):
        subject_of("a.bvh", "takes", "P(.)")
    with pytest.raises(OptionError, match="not a regular expression"):
        subject_of("a.bvh", "takes", "(")
    with pytest.raises(OptionError, match="an empty name"):
        subject_of("a.bvh", "takes", "x*")


@given(NAMES)
def test_every_side_has_somebody_as_soon_as_there_are_enough(subjects):
    sides = hashed_split(subjects)
    assert set(sides) == set(subjects)
    found = set(sides.values())
    assert "train" in found
    assert ("validation" in found) or len(subjects) < 2
    assert ("test" in found) or len(subjects) < 3
    # The order does not matter.
    assert hashed_split(reversed(subjects)) == sides


def test_in_a_crowd_a_subject_stays_where_it_is():
    few = [f"p{number}" for number in range(60)]
    more = [*few, *(f"q{number}" for number in range(60))]
    before, after = hashed_split(few), hashed_split(more)
    assert all(before[name] == after[name] for name in few)


def test_cmu_subjects_follow_the_split_of_the_results():
    cmu = dict.fromkeys(("01", "02", "06", "07", "35", "43", "49"), True)
    sides = default_split(cmu)
    assert sorted(s for s, side in sides.items() if side == "validation") == ["06", "35", "43"]
    assert sorted(s for s, side in sides.items() if side == "test") == ["07", "49"]
    # Other subjects are hashed among themselves.
    mixed = default_split(cmu | {"anna": False, "ben": False})
    assert {s: side for s, side in mixed.items() if s in cmu} == sides
    assert {mixed["anna"], mixed["ben"]} == {"train", "validation"}
    # Without any of the validation subjects another one is used; 07 is never trained on.
    few = default_split(dict.fromkeys(("01", "02", "03", "04", "07"), True))
    assert few["07"] == "test"
    assert "validation" in few.values()
    # A folder named 07 is not CMU's subject 07.
    assert default_split({"07": False}) == {"07": "train"}


PEOPLE = st.dictionaries(
    st.sampled_from([*known_people(), "01", "02", "anna", "ben"]), st.booleans(), min_size=1
)


@given(PEOPLE)
def test_whom_the_packaged_model_is_judged_on_is_never_trained_on(subjects):
    sides, table = default_split(subjects), known_people()
    assert set(sides) == set(subjects)
    known = {who for who, cmu in subjects.items() if who in table and (cmu or not who.isdigit())}
    assert all(sides[who] == table[who] for who in known if table[who] != "train")
    # With one subject to train on and one to validate on, the table decides.
    if {"train", "validation"} <= {table[who] for who in known}:
        assert all(sides[who] == table[who] for who in known)


def test_the_sides_of_the_real_takes(data_dir, tmp_path):
    found = discover(data_dir, tmp_path)
    assert len(found.sources) == 221 + 168
    assert len({source.paths[0].rpartition("/")[2] for source in found.sources}) == 221 + 168
    # Four takes exist in two formats: the AMC is used.
    twice = {source.name: source.paths for source in found.sources if len(source.paths) > 1}
    assert set(twice) == {f"cmu/{name}" for name in ("02_01", "05_01", "05_02", "05_06")}
    assert all(paths[0].endswith(".amc") for paths in twice.values())
    sides: dict[str, set[str]] = {}
    for who, side in default_split({source.subject: source.cmu for source in found.sources}).items():
        sides.setdefault(side, set()).add(who)
    cmu = {"01", "02", "03", "05", "08", "09", "10", "14", "16", "32", "38", "39", "55"}
    idle = {number: f"reactidle{number:03}" for number in range(16)}
    assert sides["train"] == {*cmu, "Jasmine_Coro", *(idle[n] for n in (0, 1, 2, 3, 4, 7, 8))}
    assert sides["validation"] == {"06", "35", "43", "Mitch_Chaiet", idle[9], idle[10]}
    others = {"accad_male1", "movin1", "Mike_Gassaway"}
    assert sides["test"] == {"07", "49", "85", *others, *(idle[n] for n in range(11, 16))}


def test_split_files_of_both_kinds(tmp_path):
    toml, table, csv = tmp_path / "a.toml", tmp_path / "b.toml", tmp_path / "c.csv"
    toml.write_text('train = ["anna", "*"]\nvalidation = ["ben"]\ntest = ["cleo"]\n')
    table.write_text('[split]\nanna = "train"\nben = "validation"\ncleo = "test"\n"*" = "train"\n')
    csv.write_text("subject,split\n# who\nanna,train\nben, validation\n\ncleo,test\n*,train\n")
    expected = {"anna": "train", "*": "train", "ben": "validation", "cleo": "test"}
    for path in (toml, table, csv):
        assert read_split_file(path) == expected
        assert sides_of({"dora": False, "ben": True}, path) == {"dora": "train", "ben": "validation"}


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.toml", 'anna = "training"', "subject 'anna': expected train, validation, test, got 'training'"),
        ("a.toml", 'train = ["a"]\ntest = ["a"]', "subject 'a' is both train and test"),
        ("a.toml", 'split = "a"', "expected a table"),
        ("a.toml", "a", "not valid TOML"),
        ("a.toml", "", "names no subject"),
        ("a.toml", 'valid = ["a"]', "got 'valid'"),
        ("a.csv", "anna,train,yes", "line 1: expected subject,split"),
        ("a.csv", "subject,split\nanna,train\nanna,test", "line 3: subject 'anna' is both"),
    ],
)
def test_bad_split_files_say_where(tmp_path, name, text, match):
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match=match):
        read_split_file(tmp_path / name)


def test_a_subject_that_is_left_out_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("anna,train\n")
    with pytest.raises(FormatError, match=r"says nothing of b, c, d, e, f and 1 more"):
        sides_of(dict.fromkeys("bcdefg", False), tmp_path / "a.csv")
    with pytest.raises(FormatError, match="no such file"):
        sides_of({"a": False}, tmp_path / "b.csv")


def test_names_of_nobody_are_told_and_kept_in_the_set(tmp_path):
    (tmp_path / "a.toml").write_text('train = ["*"]\nvalidation = ["07", "7"]\n')
    (line,) = absent_subjects({"07": True, "16": True}, tmp_path / "a.toml")
    assert line == "the split names 7, of whom there is no take; the subjects here are 07, 16"
    assert absent_subjects({"07": True, "7": True}, tmp_path / "a.toml") == []
    assert absent_subjects({"07": True}, None) == []


def test_what_a_split_lacks_is_said():
    assert split_warnings({"a": "train", "b": "validation", "c": "test"}) == []
    assert split_warnings({"a": "train", "b": "train"}) == [
        "no validation subject: training cannot choose",
        "no test subject: no last test",
    ]
    assert "one subject only (a, train)" in split_warnings({"a": "train"})[0]
    sides = {"Anna": "train", "anna": "test", "ben": "validation", "Ben": "validation"}
    assert split_warnings(sides) == [
        "subjects that differ in case alone are on different sides: Anna (train), anna (test); one person?"
    ]


def names(folder: Path, out: Path | None = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(source.name, source.paths) for source in discover(folder, out or folder / "none").sources]


def test_takes_are_found_once_in_any_folder(tmp_path):
    for path in (
        "amc/05_02.amc", "amc/05.asf", "bvh/05_02.bvh", "bvh/05_03.BVH", "anna/walk.bvh", "anna/walk.amc",
        "ben/walk.bvh", "ben/show.anticip", "ben/show.wav", "ben/.hidden.bvh", ".git/a.bvh", "ben/notes.txt",
        "ben/shape.npz", "ben/neutral_stagei.npz", "set/old.bvh",
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    found = discover(tmp_path, tmp_path / "set")
    assert [(source.name, source.paths) for source in found.sources] == [
        ("amc/05_02", ("amc/05_02.amc", "bvh/05_02.bvh")),
        ("anna/walk", ("anna/walk.amc", "anna/walk.bvh")),
        ("ben/show", ("ben/show.anticip",)),
        ("ben/walk", ("ben/walk.bvh",)),
        ("bvh/05_03", ("bvh/05_03.BVH",)),
    ]
    assert [source.subject for source in found.sources] == ["05", "anna", "ben", "ben", "05"]
    assert found.sounds == {"ben/show": "ben/show.wav"}
    assert found.ignored == {".txt": 1, ".npz": 2}


def test_links_to_folders_are_followed_once(tmp_path):
    takes, elsewhere = tmp_path / "takes", tmp_path / "elsewhere"
    for path in (takes / "own" / "a.bvh", elsewhere / "b.bvh", elsewhere / "deep" / "c.bvh"):
        path.parent.mkdir(parents=True)
        path.touch()
    (takes / "again").symlink_to(takes / "own")
    (takes / "linked").symlink_to(elsewhere)
    (takes / "twice").symlink_to(elsewhere / "deep")
    (elsewhere / "deep" / "round").symlink_to(takes)
    (takes / "nowhere").symlink_to(tmp_path / "none")
    (takes / "set").symlink_to(tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "d.bvh").touch()
    found = discover(takes, tmp_path / "out")
    assert [source.name for source in found.sources] == ["linked/b", "own/a", "twice/c"]


def test_a_folder_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "walk.bvh").touch()
    (tmp_path / "locked").mkdir()
    true = os.scandir

    def scandir(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return true(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = discover(tmp_path, tmp_path / "set")
    assert [source.name for source in found.sources] == ["a/walk"]
    assert found.warnings == ["locked: cannot be read: permission denied; what is in it is left out"]


def test_two_recordings_of_one_cmu_name_are_two_takes(tmp_path):
    for path in ("a/01_01.amc", "b/01_01.amc", "c/01_01.bvh"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).touch()
    assert names(tmp_path) == [("a/01_01", ("a/01_01.amc", "c/01_01.bvh")), ("b/01_01", ("b/01_01.amc",))]


def test_about_fifteen_of_a_hundred_are_on_either_side_that_is_held_out() -> None:
    sides = hashed_split(f"p{number}" for number in range(4000))
    found = [*sides.values()]
    for side in ("validation", "test"):
        assert 0.13 < found.count(side) / 4000 < 0.17
    assert hashed_split([]) == {}


def test_long_lists_of_names_are_cut(tmp_path: Path) -> None:
    file = tmp_path / "split.csv"
    for told, there, named, ends, nothing in (
        (
            6,
            13,
            "names s0, s1, s2, s3, s4 and 1 more, of whom",
            "p10, p11 and 1 more",
            "p03, p04 and 8 more;",
        ),
        (5, 5, "s4, of whom", "p03, p04", "p03, p04; expected"),
    ):
        file.write_text("subject,split\n" + "".join(f"s{n},train\n" for n in range(told)))
        here = {f"p{n:02}": False for n in range(there)}
        (line,) = absent_subjects(here, file)
        assert named in line
        assert line.endswith(ends)
        with pytest.raises(FormatError, match=nothing):
            sides_of(here, file)
