"""Building sets: complete, reproducible, and never left half written."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from support.motion_files import AMC
from support.takes import contents, pieces_of_side

import pyanticip as pa
from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.npz import save_npz
from pyanticip.motion.units import RATE_HINT
from training.data.examples import example_from_piece
from training.data.sets import MotionSet, build
from training.data.sets.format import ARRAYS, INDEX
from training.data.sets.prepare import never_upright
from training.data.sets.writer import WORK, lock


def test_every_kind_of_file_is_in_the_set(takes, tmp_path):
    seen = []
    report = build(takes, tmp_path / "set", on_progress=seen.append)
    found = MotionSet.open(tmp_path / "set", verify=True)
    assert [clip.name for clip in found.clips] == [
        "anna/run", "anna/walk", "ben/show", "cleo/deep/a", "cleo/deep/b",
    ]  # fmt: skip
    assert [clip.subject for clip in found.clips] == ["anna", "anna", "ben", "cleo/deep", "cleo/deep"]
    # At 50 Hz, 300 frames of 60 Hz and 500 of 120 Hz; the grid ends at or before the last frame.
    assert [clip.frames for clip in found.clips] == [250, 200, 150, 120, 208]
    assert found.frames == 928 == len(found.features) == report.frames
    assert sorted(found.subjects("train") + found.subjects("validation") + found.subjects("test")) == [
        "anna", "ben", "cleo/deep",
    ]  # fmt: skip
    assert (report.made, report.found, report.kept, report.refused) == (5, 0, 0, [])
    assert [step.done for step in seen] == [1, 2, 3, 4, 5]
    assert not (tmp_path / "set" / WORK).exists()


def test_amass_lies_beside_the_others(takes, take, tmp_path):
    take(takes / "KIT" / "3" / "turn_poses.npz", 300, 6, 100.0)
    np.savez(takes / "KIT" / "3" / "shape.npz", betas=np.zeros(16))
    report = build(takes, tmp_path / "set")
    found = MotionSet.open(tmp_path / "set")
    assert report.refused == []
    (clip,) = [clip for clip in found.clips if clip.subject == "KIT/3"]
    assert (clip.name, clip.frames, clip.missing) == ("KIT/3/turn_poses", 150, ())


def test_a_set_of_real_takes_holds_what_training_reads_from_the_files(data_dir, tmp_path):
    few = tmp_path / "cmu"
    few.mkdir()
    for name in (
        "06.asf",
        "06_13.bvh",
        "35.asf",
        "35_01.amc",
        "35_02.amc",
        "05.asf",
        "05_01.amc",
        "05_01.bvh",
    ):
        if (data_dir / "cmu" / name).is_file():
            shutil.copy(data_dir / "cmu" / name, few / name)
    build(few, tmp_path / "set")
    found = MotionSet.open(tmp_path / "set")
    for split in ("train", "validation"):
        ours, theirs = (
            found.examples(split),
            [example_from_piece(piece) for piece in pieces_of_side(few, split)],
        )
        assert [example.name for example in ours] == [example.name for example in theirs]
        for one, other in zip(ours, theirs, strict=True):
            for name in ("quats", "features", "params", "onsets", "phrases"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
    # The take in two formats, AMC and BVH, is in the set once.
    assert [clip.source for clip in found.clips if clip.name.startswith("05_01")] == ["05_01.amc"]
    assert found.subjects("train") == ["05"]


def test_examples_are_views_and_nothing_can_be_written(whole):
    found = MotionSet.open(whole)
    example = found.example(1)
    assert np.shares_memory(example.features, found.features)
    with pytest.raises(ValueError, match="read-only"):
        example.params[0] = 0.0
    piece = found.piece(1)
    assert piece.rate == 50.0
    assert piece.mask.all()
    np.testing.assert_array_equal(piece.quats, example.quats)


def test_another_movement_is_another_digest(takes, take, tmp_path):
    one = build(takes, tmp_path / "one")
    take(takes / "ben" / "show.npz", 150, 30)
    two = build(takes, tmp_path / "one")
    assert one.digest != two.digest
    assert (two.made, two.kept) == (1, 5)
    assert two.warnings[0].startswith("ben/show.npz: there is another take of that name")
    assert contents(tmp_path / "one") != {}
    # Copied and newly computed rows give the same set.
    assert build(takes, tmp_path / "fresh").digest == two.digest


def test_files_that_cannot_be_read_are_told_and_the_rest_goes_on(takes, tmp_path):
    (takes / "ben" / "cut.bvh").write_bytes((takes / "anna" / "walk.bvh").read_bytes()[:4000])
    (takes / "ben" / "empty.bvh").touch()
    (takes / "ben" / "noise.npz").write_bytes(os.urandom(100))
    text = (takes / "anna" / "walk.bvh").read_text().splitlines()
    text[-3] = "nan " + text[-3].split(" ", 1)[1]
    (takes / "ben" / "nan.bvh").write_text("\n".join(text) + "\n")
    lines = []
    report = build(takes, tmp_path / "set", on_progress=lambda step: lines.append(step.error))
    refused = {line["path"]: line["reason"] for line in report.refused}
    assert set(refused) == {"ben/cut.bvh", "ben/empty.bvh", "ben/nan.bvh", "ben/noise.npz"}
    for path, reason in refused.items():
        assert reason.startswith(path)
        assert "\n" not in reason
        assert reason in lines
    assert f"ben/nan.bvh:{len(text) - 2}" in refused["ben/nan.bvh"]
    found = MotionSet.open(tmp_path / "set")
    assert found.index["refused"] == report.refused
    assert "4 takes could not be used" in found.warnings
    assert len(found) == 5


def test_takes_that_are_too_short_are_told(take, tmp_path):
    take(tmp_path / "takes" / "a" / "long.bvh", 100)
    take(tmp_path / "takes" / "b" / "short.bvh", 79)
    report = build(tmp_path / "takes", tmp_path / "set")
    assert report.refused == [
        {"path": "b/short.bvh", "reason": "b/short.bvh: 1.58 s of motion, expected at least 1.60 s"}
    ]
    assert any("shorter than 5.12 s, the window of the scalars" in line for line in report.warnings)
    slow = tmp_path / "takes" / "b" / "short.bvh"
    whole = slow.read_text()
    lines = whole.splitlines()
    lines[-40:] = [f"{float(x) + 1000.0} {rest}" for x, rest in (line.split(" ", 1) for line in lines[-40:])]
    slow.write_text("\n".join(lines))
    why = "0.78 s of motion, cut at 1 tracking jump, expected at least 1.60 s"
    assert why in build(tmp_path / "takes", tmp_path / "cut").refused[0]["reason"]
    slow.write_text(whole)
    slow.write_text(slow.read_text().replace("Frame Time: 0.02", "Frame Time: 2.00"))
    why = f"b/short.bvh: 0.5 frames a second, expected at least 5; give {RATE_HINT}"
    assert build(tmp_path / "takes", tmp_path / "set").refused[0]["reason"] == why
    take(slow, 79)
    assert build(tmp_path / "takes", tmp_path / "set", min_seconds=1.0).clips == 2


def test_a_folder_of_nothing_usable_is_an_error(takes, tmp_path):
    with pytest.raises(FormatError, match="no such folder"):
        build(tmp_path / "nowhere", tmp_path / "set")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="no motion in it"):
        build(tmp_path / "empty", tmp_path / "set")
    (tmp_path / "empty" / "a.bvh").write_text("nothing")
    with pytest.raises(FormatError, match=r"none of the 1 takes can be used; the first: a\.bvh"):
        build(tmp_path / "empty", tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_folder_that_holds_something_else_is_left_alone(takes, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("x")
    with pytest.raises(OptionError, match=r"holds chapter\.txt and no set"):
        build(takes, tmp_path / "thesis")


def test_a_set_may_lie_inside_the_folder_of_its_takes(takes):
    first = build(takes, takes / "sets")
    assert build(takes, takes / "sets").digest == first.digest


def test_two_builds_at_once_are_refused(takes, tmp_path):
    pytest.importorskip("fcntl")
    (tmp_path / "set" / WORK).mkdir(parents=True)
    with lock(tmp_path / "set" / WORK), pytest.raises(OptionError, match="another process is building"):
        build(takes, tmp_path / "set")


def test_the_same_file_twice_is_there_once(takes, tmp_path):
    shutil.copy(takes / "anna" / "walk.bvh", takes / "ben" / "copy.bvh")
    report = build(takes, tmp_path / "set")
    assert report.clips == 5
    assert "ben/copy.bvh: the same motion as anna/walk.bvh; it is in the set once" in report.warnings
    assert (report.made, report.found, report.kept) == (report.takes, 0, 0)


def test_names_whose_bytes_are_no_text_are_written_so_that_they_can_be(take, tmp_path):
    for number in range(2):
        take(tmp_path / "takes" / f"caf{number}" / "walk.bvh", 120, number)
        old = tmp_path / "takes" / f"caf{number}"
        try:
            old.rename(os.fsdecode(os.fsencode(old) + b"\xe9"))
        except OSError:
            pytest.skip("file names are text here")
    (tmp_path / "takes" / os.fsdecode(b"bad\xe9.bvh")).touch()
    report = build(tmp_path / "takes", tmp_path / "set")
    assert [line["path"] for line in report.refused] == ["bad\\udce9.bvh"]
    found = MotionSet.open(tmp_path / "set")
    assert {clip.subject for clip in found.clips} == {"caf0\\udce9", "caf1\\udce9"}
    assert build(tmp_path / "takes", tmp_path / "set").kept == 2
    json.dumps(report.to_dict()).encode()
    "".join([*report.warnings, *(clip.name for clip in found.clips)]).encode()


def test_the_bvh_is_read_where_the_amc_cannot_be(take, tmp_path):
    take(tmp_path / "takes" / "01_01.bvh", 100)
    (tmp_path / "takes" / "01_01.amc").write_text(AMC)
    report = build(tmp_path / "takes", tmp_path / "set")
    found = MotionSet.open(tmp_path / "set")
    assert found.clips[0].source == "01_01.bvh"
    (line,) = [line for line in report.warnings if line.startswith("01_01.bvh: read instead of")]
    assert "01_01.amc: has no skeleton beside it" in line
    assert report.refused == []
    again = build(tmp_path / "takes", tmp_path / "set")
    assert (again.kept, again.digest) == (1, report.digest)


SCRIPT = """
import sys
import training.data.sets.builder as b
from slow import prepare
b.prepare = prepare
if __name__ == "__main__":
    b.build(sys.argv[1], sys.argv[2], workers=2)
"""

SLOW = """
import os, pathlib, sys, time
import training.data.sets.prepare as p
def prepare(task):
    (pathlib.Path(sys.argv[2] + "-pids") / str(os.getpid())).touch()
    if "cleo" in task.paths[0]:
        time.sleep(60)
    return p.prepare(task)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_killed_build_leaves_no_process_behind_and_goes_on_to_the_same_bytes(
    takes, whole, tmp_path, environment
):
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "long.py").write_text(SCRIPT)
    pids, work = tmp_path / "set-pids", tmp_path / "set" / WORK
    pids.mkdir()
    arguments = [sys.executable, "-P", str(tmp_path / "long.py"), str(takes), str(tmp_path / "set")]
    paths = f"{environment['PYTHONPATH']}{os.pathsep}{tmp_path}"
    process = subprocess.Popen(arguments, env={**environment, "PYTHONPATH": paths})
    deadline = time.monotonic() + 120.0

    def begun() -> bool:
        return len(list(work.glob("*.npz"))) >= 2 and len(list(pids.iterdir())) == 2

    while not begun() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    workers = [int(path.name) for path in pids.iterdir()]
    assert len(workers) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()

    def alive(pid: int) -> bool:
        status = Path(f"/proc/{pid}/stat")
        # A zombie has exited: in a container it may not be reaped.
        return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"

    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in workers)
    done = len(list(work.glob("*.npz")))
    assert 2 <= done < 5
    with pytest.raises(FormatError, match="no set in it"):
        MotionSet.open(tmp_path / "set")
    # A kill may also leave a partial result.
    broken = sorted(work.glob("*.npz"))[0]
    broken.write_bytes(broken.read_bytes()[:-200])
    report = build(takes, tmp_path / "set")
    assert report.found == done - 1
    assert report.made == 5 - report.found
    assert report.digest == MotionSet.open(whole).digest
    assert contents(tmp_path / "set") == contents(whole)


def test_a_full_disk_is_not_the_fault_of_the_takes(takes, tmp_path, monkeypatch):
    import training.data.sets.prepare as module

    real, kept = module.write_atomic, []

    def full(path, content):
        if len(kept) == 2:
            raise OSError(28, "No space left on device", str(path))
        kept.append(path)
        real(path, content)

    monkeypatch.setattr(module, "write_atomic", full)
    with pytest.raises(OSError, match="No space left"):
        build(takes, tmp_path / "set")
    monkeypatch.undo()
    report = build(takes, tmp_path / "set")
    assert (report.found, report.made, report.refused) == (2, 3, [])


def test_a_set_that_would_be_the_same_is_left_as_it_is(takes, tmp_path):
    first = build(takes, tmp_path / "set")
    written = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "set").iterdir()}
    again = build(takes, tmp_path / "set")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "set").iterdir()} == written
    assert (again.digest, again.clips, again.frames, again.subjects, again.warnings) == (
        first.digest, first.clips, first.frames, first.subjects, first.warnings,
    )  # fmt: skip
    # With only another split nothing is computed, but the set is written.
    (tmp_path / "who.csv").write_text("*,train\n")
    other = build(takes, tmp_path / "set", split_file=tmp_path / "who.csv")
    assert (other.kept, other.made) == (5, 0)
    assert other.subjects["validation"] == []
    assert other.digest != first.digest
    assert build(takes, tmp_path / "set").digest == first.digest


def test_an_old_set_never_opens_with_new_arrays(takes, take, tmp_path, monkeypatch):
    build(takes, tmp_path / "set")
    before = contents(tmp_path / "set")
    take(takes / "dora" / "new.bvh", 100, 9)
    monkeypatch.setattr(
        "training.data.sets.writer.write_atomic", lambda *_: (_ for _ in ()).throw(OSError("full"))
    )
    with pytest.raises(OSError, match="full"):
        build(takes, tmp_path / "set")
    with pytest.raises(FormatError, match="no set in it"):
        MotionSet.open(tmp_path / "set")
    monkeypatch.undo()
    assert build(takes, tmp_path / "set").clips == 6
    (takes / "dora" / "new.bvh").unlink()
    build(takes, tmp_path / "set")
    assert contents(tmp_path / "set") == before


def test_damage_is_told(whole, tmp_path):
    out = Path(shutil.copytree(whole, tmp_path / "set"))
    index = json.loads((out / INDEX).read_text())

    def opening(match, **changed):
        (out / INDEX).write_text(json.dumps(index | changed))
        with pytest.raises(FormatError, match=match):
            MotionSet.open(out)

    opening("changed by hand", warnings=["nothing to see"])
    opening("layout of version 2, expected 1", version=2)
    opening("teacher 0, expected", teacher_version=0)
    opening("features of version 9", features_version=9)
    opening("not the index of a set", format="other")
    (out / INDEX).write_text("{")
    with pytest.raises(FormatError, match="not valid JSON; build the set again"):
        MotionSet.open(out)
    (out / INDEX).write_text(json.dumps(index))
    assert len(MotionSet.open(out)) == 5
    data = bytearray((out / "params.f32").read_bytes())
    data[100] ^= 1
    (out / "params.f32").write_bytes(data)
    with pytest.raises(FormatError, match=r"params\.f32: its content"):
        MotionSet.open(out, verify=True)
    (out / "params.f32").write_bytes(data[:-1])
    with pytest.raises(FormatError, match=r"params\.f32: has \d+ bytes, expected"):
        MotionSet.open(out)
    (out / "params.f32").unlink()
    with pytest.raises(FormatError, match="is missing"):
        MotionSet.open(out)


def test_a_set_goes_to_another_process_by_its_folder(whole):
    found = MotionSet.open(whole)
    sent = pickle.dumps(found)
    assert len(sent) < 1000
    again = pickle.loads(sent)
    assert again.digest == found.digest
    np.testing.assert_array_equal(again.params, found.params)


def test_a_body_that_lies_down_throughout_is_told(take, tmp_path):
    clip = pa.load_motion(take(tmp_path / "takes" / "up.npz"))
    quats = clip.quats.astype(np.float64)
    quats[:, 0] = np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0
    save_npz(pa.Clip(quats, clip.root[:, [0, 2, 1]], 50, clip.skeleton), tmp_path / "takes" / "down.npz")
    report = build(tmp_path / "takes", tmp_path / "set", subject_from="file")
    assert [line for line in report.warnings if "lies down" in line] == [
        "down.npz: the body lies down throughout, or hangs: is up in this file another axis?"
    ]


def test_nobody_is_upright_whose_hips_are_within_60_degrees_in_less_than_a_tenth() -> None:
    def hips(*degrees: float) -> np.ndarray:
        about = np.array([[0.6, 0.0, 0.8]]) * np.radians(degrees)[:, None]
        turned = Rotation.from_euler("y", 70, degrees=True) * Rotation.from_rotvec(about)
        return turned.as_quat()[:, [3, 0, 1, 2]]

    assert never_upright(hips(59.0, *[61.0] * 5, *[-180.0] * 5))
    assert not never_upright(hips(-59.0, *[61.0] * 9))


def test_what_readers_decide_is_said_once_for_all_alike(takes, tmp_path):
    for name in ("a", "b"):
        text = (takes / "anna" / "walk.bvh").read_text().replace("Frames: 200", "Frames: 199")
        (takes / "anna" / f"{name}.bvh").write_text(text.replace("OFFSET", "OFFSET ", ord(name) - ord("a")))
    report = build(takes, tmp_path / "set")
    (line,) = [line for line in report.warnings if "199" in line]
    assert line.startswith("anna/a.bvh: ")
    assert line.endswith("; and 1 more like it")


@given(where=st.floats(0.0, 1.0, exclude_max=True), junk=st.binary(min_size=1, max_size=8))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_index_is_a_clear_error(whole, tmp_path, where, junk):
    out = Path(shutil.copytree(whole, tmp_path / "set", dirs_exist_ok=True))
    good = (out / INDEX).read_bytes()
    at = int(where * len(good))
    bad = good[:at] + junk + good[at + len(junk) :]
    (out / INDEX).write_bytes(bad)
    if json.loads(good) == _json_or_none(bad):
        return
    with pytest.raises(FormatError, match=r"set\.json"):
        MotionSet.open(out)


def _json_or_none(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_arrays_are_what_the_documentation_says(whole):
    found = MotionSet.open(whole)
    for name, (kind, row) in ARRAYS.items():
        rows = found.index["arrays"][name]["rows"]
        raw = np.fromfile(whole / name, dtype=kind).reshape(rows, *row)
        np.testing.assert_array_equal(raw, getattr(found, name.split(".")[0]))


def test_one_subject_is_a_warning_and_asking_for_another_side_an_error(take, tmp_path):
    take(tmp_path / "takes" / "solo" / "a.bvh", 100)
    report = build(tmp_path / "takes", tmp_path / "set")
    assert report.subjects == {"train": ["solo"], "validation": [], "test": []}
    assert report.warnings[0].startswith("one subject only (solo, train): nobody is held out")
    found = MotionSet.open(tmp_path / "set")
    with pytest.raises(FormatError, match=r"no validation clip \(its only subject is solo\)"):
        found.examples("validation")
    with pytest.raises(OptionError, match="split is one of train"):
        found.examples("valid")


def test_a_set_is_built_by_one_worker_at_least(takes, tmp_path):
    with pytest.raises(OptionError, match="workers must be at least 1"):
        build(takes, tmp_path / "set", workers=0)
