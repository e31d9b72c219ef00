"""Performers of takes from the manifests above them."""

import shutil
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyanticip.errors import FormatError
from training.data.manifest import Manifests, TakeDescription, takes_folder
from training.data.sets import MotionSet, build
from training.data.sets.discover import discover

PLACES = st.lists(st.sampled_from("abc"), max_size=3)


def table(folder, *lines, heading="file,person,kind,description"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MANIFEST.csv").write_text("\n".join((heading, *lines)) + "\n", encoding="utf-8")


def test_people_have_one_name_and_a_suffix_does_not_count(tmp_path):
    assert Manifests(tmp_path).of("a.bvh") == TakeDescription()
    table(tmp_path, "in/14_02.amc,cmu14,other,", "a/M_1.bvh,Mike,karate,Move1", "05.asf,5,,skeleton", "b.bvh")
    said = Manifests(tmp_path)
    assert said.of("in/14_02.bvh") == TakeDescription("14", "other")
    assert said.of("a/M_1.bvh") == TakeDescription("Mike", "karate Move1")
    assert said.of("05.bvh") == said.of("M_1.bvh") == TakeDescription()
    assert said.of("b.bvh").person == ""
    one = tmp_path / "other.csv"
    (tmp_path / "MANIFEST.csv").rename(one)
    assert Manifests(one).of("a/M_1.bvh").person == "Mike"
    table(tmp_path, "caf\u00e9/x.bvh,Zo\u00eb", heading="file,subject")
    assert Manifests(tmp_path).of(normalize("NFD", "caf\u00e9/x.bvh")).person == "Zo\u00eb"


@given(take=PLACES, told=st.lists(PLACES, unique_by=tuple, max_size=5))
def test_the_nearest_table_above_a_take_that_names_it_says_whose_it_is(take, told, tmp_path_factory):
    folder = tmp_path_factory.mktemp("takes")
    for where in told:
        # A table above the take names it; elsewhere it names another file.
        below = take[len(where) :] if take[: len(where)] == where else ["elsewhere"]
        table(folder.joinpath(*where), f"{'/'.join([*below, 'x.bvh'])},{'-'.join(['at', *where])},,")
    above = [where for where in told if take[: len(where)] == where]
    nearest = "-".join(["at", *max(above, key=len)]) if above else ""
    path = "/".join([*take, "x.bvh"])
    assert Manifests(folder).of(path).person == nearest
    folder.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
    folder.joinpath(path).touch()
    (source,) = discover(folder, folder / "set").sources
    assert source.subject == (nearest or "/".join(take) or folder.name)
    # An explicit rule overrides the manifest.
    (source,) = discover(folder, folder / "set", "folder").sources
    assert source.subject == ("/".join(take) or folder.name)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"path,person\na,b\n", "has no column 'file'; expected file"), (b"file\n\xff\n", "cannot be read")],
)
def test_what_is_no_manifest_is_said(tmp_path, content, words):
    (tmp_path / "a.bvh").touch()
    (tmp_path / "MANIFEST.csv").write_bytes(content)
    with pytest.raises(FormatError, match=f"MANIFEST.csv: {words}"):
        discover(tmp_path, tmp_path / "set", "top")


def test_a_set_follows_its_manifest(takes, tmp_path):
    build(takes, tmp_path / "set")
    before = MotionSet.open(tmp_path / "set")
    assert "words" not in before.index["clips"][0]  # as in sets of older versions
    table(takes, "anna/walk.bvh,Zoe,,slow walk", "b.npz,,jog,", heading="file,subject,kind,description")
    report = build(takes, tmp_path / "set")
    assert (report.kept, report.made) == (5, 0)
    after = MotionSet.open(tmp_path / "set")
    assert [clip.words for clip in after.clips] == ["", "slow walk", "", "", "jog"]
    changed = [
        clip.name for clip, old in zip(after.clips, before.clips, strict=True) if clip.subject != old.subject
    ]
    assert changed == ["anna/walk"]
    assert after.digest != before.digest
    table(takes, "anna/walk.bvh,Zoe,,run", heading="file,subject,kind,description")
    build(takes, tmp_path / "set")
    assert [clip.words for clip in MotionSet.open(tmp_path / "set").clips] == ["", "run", "", "", ""]


def test_two_folders_are_one_without_what_lies_beside_them(tmp_path):
    for path in ("cmu/01_01.bvh", "cmu/deep/01_02.bvh", "more/anna/x.bvh", "makers/ben/y.bvh", "z.bvh"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "more" / "again").symlink_to(tmp_path / "cmu")
    (tmp_path / "more" / "linked").symlink_to(tmp_path / "makers")
    assert takes_folder(tmp_path) == tmp_path

    def found():
        return [source.name for source in discover(tmp_path, tmp_path / "set").sources]

    everything = ["cmu/01_01", "cmu/deep/01_02", "makers/ben/y", "more/anna/x", "z"]
    assert found() == everything
    for name in ("cmu", "more"):
        (tmp_path / name / "MANIFEST.csv").write_text("file,person\n")
    assert found() == ["cmu/01_01", "cmu/deep/01_02", "more/anna/x", "more/linked/ben/y"]
    shutil.rmtree(tmp_path / "more")
    assert takes_folder(tmp_path) == tmp_path
    assert found() == [name for name in everything if "more" not in name]
