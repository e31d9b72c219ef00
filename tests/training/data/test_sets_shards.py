"""A set built in shards is the same as one built on one machine."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.takes import contents

from pyanticip.errors import FormatError, OptionError
from training.data.manifest import SHARD, check_motion
from training.data.sets import MotionSet, build, merge
from training.data.sets.splits import hashed_split
from training.data.sets.writer import WORK

COUNT = 3


@pytest.fixture(scope="module")
def machines(written, take, tmp_path_factory):
    """The takes, and three shards of them, each built with the folder at another path."""
    folder = tmp_path_factory.mktemp("machines")
    takes = shutil.copytree(written, folder / "takes")
    take(takes / "dora" / "again.bvh", 200, 1)  # the same motion as anna's walk, in another shard
    (takes / "ben" / "cut.bvh").write_text("HIERARCHY")
    (takes / "MANIFEST.csv").write_text("file,kind\nanna/walk.bvh,walk\n")
    for number in range(1, COUNT + 1):
        mine = takes.rename(folder / f"machine{number}")
        build(mine, folder / f"shard{number}", shard=f"{number}/{COUNT}")
        mine.rename(takes)
    return folder


@pytest.fixture
def shards(machines, takes, tmp_path):
    """A copy of the shards, which a test may change."""
    shutil.copytree(machines, tmp_path, dirs_exist_ok=True)
    return [tmp_path / f"shard{number}" for number in range(1, COUNT + 1)]


def test_together_they_are_the_set_of_one_build(takes, shards, tmp_path):
    one = build(takes, tmp_path / "one")
    report = merge(shards[::-1], tmp_path / "many")
    assert contents(tmp_path / "many") == contents(tmp_path / "one")
    assert report.digest == one.digest
    assert report.subjects == one.subjects  # no subject is on two sides
    assert (report.refused, report.warnings) == (one.refused, one.warnings)
    assert any("the same motion as" in line for line in report.warnings)
    found = MotionSet.open(tmp_path / "many", verify=True)
    assert [clip.words for clip in found.clips] == ["", "walk", "", "", ""]
    assert (len(found), found.frames) == (5, one.frames)
    # Takes can be added later, as to any set.
    assert build(takes, tmp_path / "many").kept == 5


def test_a_subject_whose_takes_cannot_be_used_takes_no_side(take, tmp_path):
    takes, people = tmp_path / "takes", ("anna", "ben", "cleo")
    drawn = hashed_split(people)
    for number, who in enumerate(people):
        path = take(takes / who / "walk.bvh", 100, number)
        if drawn[who] == "validation":
            path.write_text("HIERARCHY")
    left = [who for who in people if drawn[who] != "validation"]
    one = build(takes, tmp_path / "one")
    assert {who: side for side, whose in one.subjects.items() for who in whose} == hashed_split(left)
    assert one.subjects["validation"]
    shards = [tmp_path / "1", tmp_path / "2"]
    for number, shard in enumerate(shards, start=1):
        build(takes, shard, shard=f"{number}/2")
    assert merge(shards, tmp_path / "both").digest == one.digest


def test_each_prepares_its_share_alone_and_goes_on_where_it_was(takes, tmp_path):
    states = []
    for number in range(1, COUNT + 1):
        report = build(takes, tmp_path / f"shard{number}", shard=f"{number}/{COUNT}")
        states.append((report.made, report.found, report.takes))
    assert states == [(2, 0, 2), (2, 0, 2), (1, 0, 1)]
    (tmp_path / "shard1" / SHARD).unlink()
    assert build(takes, tmp_path / "shard1", shard="1/3").found == 2


def test_a_shard_more_than_there_are_takes_is_empty(takes, tmp_path):
    shards = [tmp_path / str(n) for n in range(1, 8)]
    reports = [build(takes, out, shard=f"{n}/7") for n, out in enumerate(shards, 1)]
    assert [report.takes for report in reports] == [1] * 5 + [0] * 2
    assert merge(shards, tmp_path / "set").clips == 5


def test_a_shard_in_the_place_of_a_set_is_told_how_to_become_one(shards):
    for look in (check_motion, MotionSet.open):
        with pytest.raises(FormatError, match=r"is one shard of a set; .*: pyanticip train data merge"):
            look(shards[0])


def test_what_does_not_fit_together_is_refused(takes, shards, tmp_path):
    out = tmp_path / "set"
    with pytest.raises(OptionError, match="shard 2/3 is missing; expected the folders of all 3"):
        merge([shards[0], shards[2]], out)
    with pytest.raises(OptionError, match="expected 3 shards, got 4: one appears twice"):
        merge([*shards, shards[0]], out)
    with pytest.raises(OptionError, match=r"expected i/n .*, got '0/3'"):
        build(takes, tmp_path / "new", shard="0/3")
    build(takes, shards[1], shard="2/3", rate=60.0)
    with pytest.raises(
        OptionError, match=r"shard2: is of another build than .*shard1: rate is 60.0, not None"
    ):
        merge(shards, out)
    with pytest.raises(OptionError, match=r"shard2: holds shard 2/3; expected another folder for shard 2/2"):
        build(takes, shards[1], shard="2/2")
    build(takes, tmp_path / "half", shard="2/2")
    with pytest.raises(OptionError, match="2 shards, not 3"):
        merge([shards[0], tmp_path / "half", shards[2]], out)
    (takes / "ben" / "show.anticip").rename(takes / "ben" / "other.anticip")
    build(takes, shards[1], shard="2/3")
    with pytest.raises(OptionError, match="it saw other takes"):
        merge(shards, out)
    assert not out.exists()


def test_what_is_damaged_or_unfinished_is_one_line(takes, shards, tmp_path):
    out = tmp_path / "set"
    with pytest.raises(FormatError, match="no finished shard in it"):
        merge([takes], out)
    index = json.loads((shards[0] / SHARD).read_text())
    index["shard"] = [2, 3]
    (shards[0] / SHARD).write_text(json.dumps(index))
    with pytest.raises(FormatError, match="was changed by hand or damaged"):
        merge(shards, out)
    build(takes, shards[0], shard="1/3")
    saved = next((shards[1] / WORK).glob("*.npz"))
    saved.write_bytes(saved.read_bytes()[:-200])
    with pytest.raises(FormatError, match="is damaged"):
        merge(shards, out)
    assert not (out / "set.json").exists()


def test_a_folder_holds_a_shard_or_a_set(takes, shards, tmp_path):
    build(takes, tmp_path / "set")
    with pytest.raises(OptionError, match="holds a set"):
        build(takes, tmp_path / "set", shard="1/2")
    with pytest.raises(OptionError, match="holds a shard"):
        build(takes, shards[0])
    with pytest.raises(OptionError, match="holds a shard"):
        merge(shards, shards[0])


FILES, CLIPS, FRAMES = 100, 10, 20

SCRIPT = """
import json, pathlib, resource, sys
from training.data.sets import build

def peak():
    if sys.platform == "linux":  # what getrusage says here includes the process that started this one
        status = pathlib.Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

few, many, out, seconds = sys.argv[1:]
build(few, out + "-few", min_seconds=float(seconds))
before = peak()
report = build(many, out, min_seconds=float(seconds))
print(json.dumps({"clips": report.clips, "frames": report.frames, "seconds": report.seconds,
                  "refused": len(report.refused), "grown": peak() - before}))
"""


def write_takes(folder: Path, files: int, body: dict[str, np.ndarray]) -> None:
    """Write takes that jump by ten metres after every clip, all with different bytes."""
    folder.mkdir()
    for number in range(files):
        quats = body["quats"].copy()
        quats[:, 0] = (np.cos(number), 0.0, np.sin(number), 0.0)
        buffer = io.BytesIO()
        np.savez(buffer, **{**body, "quats": quats})
        (folder / f"s{number % 50:02d}_{number:04d}.npz").write_bytes(buffer.getvalue())


@pytest.mark.slow
def test_a_thousand_clips_in_bounded_memory(clip, tmp_path, environment):
    from pyanticip.motion.canonical import canonical_skeleton

    body = canonical_skeleton()
    frames = CLIPS * (FRAMES + 1)
    quats, root = clip(frames)
    root = root + 10.0 * (np.arange(frames) // (FRAMES + 1))[:, None].astype(np.float32)
    take = {
        "quats": np.array(quats),
        "root": root,
        "rate": np.array(50.0),
        "names": np.array(body.names),
        "parents": body.parents,
        "offsets": body.offsets,
    }
    write_takes(tmp_path / "few", 6, take)
    write_takes(tmp_path / "many", FILES, take)
    script = tmp_path / "build.py"
    script.write_text(SCRIPT)
    arguments = [tmp_path / "few", tmp_path / "many", tmp_path / "set", FRAMES / 50]
    done = subprocess.run(
        [sys.executable, "-P", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["refused"] == 0
    assert found["clips"] == FILES * CLIPS
    made = MotionSet.open(tmp_path / "set", verify=True)
    assert len(made) == FILES * CLIPS
    assert made.frames == found["frames"] >= FILES * CLIPS * FRAMES
    size = sum(path.stat().st_size for path in (tmp_path / "set").iterdir())
    assert size > 20e6
    # More than a small build needs: only the entries of the index (about 2 kB per clip), not the arrays.
    assert found["grown"] < 15e6, found
