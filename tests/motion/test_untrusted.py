"""Untrusted files that are too large, too deep, or no files: a one-line error, in little memory and time."""

import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.motion_files import AMC, ASF, BVH_HEADER, bvh_text, write_amc, write_bvh

from pyanticip import load_motion
from pyanticip.errors import CheckpointError, FormatError, MotionError, RigError
from pyanticip.memory import load_memory
from pyanticip.models.checkpoint.manifest import read_description
from pyanticip.motion.joints import read_joints
from pyanticip.motion.recording import read_recording
from pyanticip.teach.curves import load_curves
from pyanticip.teach.mapping import load_mapping
from pyanticip.teach.state import read_state
from pyanticip.untrusted import parse_json, parse_toml, read_file
from realtime.rig import load_rig
from training.data.manifest import rows
from training.data.sets.format import read_index
from training.data.sets.prepare import read_parts
from training.data.sets.sounds import _read as read_sounds
from training.data.sets.splits import read_split_file
from training.data.sets.vary import read_recipe
from training.evaluate.event_tuning import EventBaselines
from training.evaluate.report import count_test_evaluations
from training.evaluate.trackers import load as load_trackers
from training.run.files import BEST, CONFIG, LAST, METRICS, load_best
from training.run.files import read_description as read_run
from training.run.files import read_state as read_last
from training.run.options import TrainOptions
from training.run.recorder import read_metrics
from training.run.task import REPORT, read_report
from training.tasks.forecast.folds import read_json
from training.tasks.motion.baselines import ParameterBaselines
from training.tasks.token.corpus import Corpus, read_lines
from training.tasks.token.tokens import Tokenizer
from training.teacher.sound import duration

PLAYED: dict[str, tuple[str, Callable[[Path], object]]] = {
    # the file, and its reader
    "motion": ("x.json", load_motion),
    "rig": ("x.json", load_rig),
    "curves": ("x.json", load_curves),
    "mapping": ("x.json", load_mapping),
    "memory": ("x.json", load_memory),
    "joints": ("x.json", read_joints),
    "recording": ("x.json", read_recording),
    "project": ("x.json", read_state),
    "checkpoint": ("model.json", lambda file: read_description(file.parent)),
}
"""Readers of files to play, which also explain what is wrong with a folder."""

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    **PLAYED,
    "manifest": ("MANIFEST.csv", lambda file: rows(file, "file")),
    "set": ("set.json", lambda file: read_index(file.parent)),
    "parts": ("part.npz", read_parts),
    "recipe": ("recipe.toml", read_recipe),
    "sounds": ("sounds.toml", read_sounds),
    "sounds-csv": ("sounds.csv", read_sounds),
    "split": ("split.toml", read_split_file),
    "split-csv": ("split.csv", read_split_file),
    "event rivals": ("rivals.json", EventBaselines.load),
    "rivals": ("rivals.json", ParameterBaselines.load),
    "trackers": ("trackers.json", load_trackers),
    "config": (CONFIG, lambda file: read_run(file.parent, "train", "x", 1)),
    "best": (str(BEST), lambda file: load_best(file.parents[1])),
    "last": (str(LAST), lambda file: read_last(file.parents[1])),
    "report": (REPORT, lambda file: read_report(file.parent)),
    "options": ("options.toml", TrainOptions.gather),
    "scores": ("scores.json", read_json),
    "tokenizer": ("tokenizer.json", Tokenizer.load),
    "tokens": ("tokens.npy", lambda file: Corpus.open(file, "a text", "")),
    "text": ("text.txt", lambda file: list(read_lines(file))),
    "sound": ("sound.wav", duration),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_not_waited_for_and_a_device_not_read(name: str, tmp_path: Path) -> None:
    where, read = READERS[name]
    file = tmp_path / where
    file.parent.mkdir(exist_ok=True)
    words = "is a pipe or a device, expected a file on a disk"
    os.mkfifo(file)
    refused(read, file, words)
    file.unlink()
    file.symlink_to("/dev/zero")
    refused(read, file, words)
    file.unlink()
    file.mkdir()
    if name in PLAYED:
        refused(read, file, "folder")


DEEP = {
    "objects": "{" * 100_000,
    "arrays": "[" * 100_000,
    "toml-arrays": "a = " + "[" * 100_000,
    "toml-digits": "a = " + "9" * 5001,
    "json-digits": '{"looks": ' + "9" * 5001 + "}",
    "nothing": "\0" * 9,
    "cell": "x" * 200_000,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("name", [name for name in READERS if name not in ("text", "sounds-csv")])
def test_what_is_too_deep_or_has_too_many_digits_is_one_line(name: str, text: str, tmp_path: Path) -> None:
    where, read = READERS[name]
    file = tmp_path / where
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    refused(read, file)


def test_the_figures_of_a_report_may_be_anything(tmp_path: Path) -> None:
    for text in DEEP.values():
        (tmp_path / "report.json").write_text(text)
        refused(count_test_evaluations, tmp_path)


def test_a_row_of_metrics_that_is_none_is_one_line(tmp_path: Path) -> None:
    for text in ("step\nx\n", "step\n1,2\n", "step\n" + "1" * 200_000 + "\n", "step,lr\n,1\n", "lr\n1\n"):
        (tmp_path / METRICS).write_text(text)
        refused(read_metrics, tmp_path)


def test_a_cell_without_end_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sounds.csv").write_text("file,sound\n" + "x" * 200_000)
    refused(read_sounds, tmp_path / "sounds.csv")


def refused(read: Callable[[Path], object], file: Path, words: str | None = None) -> None:
    """The error is one line of readable length."""
    with pytest.raises(MotionError, match=words) as caught:
        read(file)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_files_are_read_up_to_a_length(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(bytes(2000))
    assert len(read_file(file, 2000)) == 2000
    assert len(read_file(file, 1 << 50)) == 2000  # no memory is allocated for the limit
    with pytest.raises(RigError, match=r"x: is larger than 1999 bytes, the most a rig may have"):
        read_file(file, 1999, RigError, "a rig")
    with pytest.raises(CheckpointError, match=r"nowhere: no such file"):
        read_file(tmp_path / "nowhere", 1, CheckpointError)
    with pytest.raises(FormatError, match="here is not valid JSON"):
        parse_json(b"\xff", "here")
    with pytest.raises(FormatError, match="not a text file in UTF-8"):
        parse_toml(b"\xff", "here")
    for deep in (b".".join([b"a"] * 3000) + b" = 1", b"[" + b".".join([b"a"] * 60) + b"]"):
        with pytest.raises(RigError, match="here: not valid TOML: too deep"):
            parse_toml(deep, "here", RigError)
    assert parse_toml(b"a.a.a = '" + b"." * 99 + b"'", "here") == {"a": {"a": {"a": "." * 99}}}


HEAD = "HIERARCHY\nROOT Hips\n{\nOFFSET 0 0 0\nCHANNELS 1 Xrotation\n"
JOINT = "JOINT j{n}\n{{\nOFFSET 0 1 0\nCHANNELS 0\n"


def test_many_joints_without_numbers_of_their_own_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    """1,001 joints and 900,000 frames of one number each are 13 GiB of quaternions."""
    joints, frames = 1000, 900_000
    body = "".join(JOINT.format(n=n) for n in range(joints))
    file = tmp_path / "many.bvh"
    ends = "End Site\n{\nOFFSET 0 1 0\n}\n" + "}\n" * (joints + 1)
    file.write_text(
        f"{HEAD}{body}{ends}MOTION\nFrames: {frames}\nFrame Time: 0.02\n" + "0\n" * frames, encoding="ascii"
    )
    output = limited(f"import pyanticip as pa\npa.load_motion({str(file)!r})", 1 << 30)
    assert "has 900000 frames of 1001 joints, more than 12000000 in all" in output


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("poses.npy", bytes(1000))
        archive.infolist()[0].file_size = 476 << 20  # as stated by its directory
    with pytest.raises(FormatError, match=r"bomb.npz: unpacks to 476 MB, of \d+ bytes at most \d+ MB"):
        load_motion(file)
    with pytest.raises(FormatError, match="unpacks to 476 MB"):
        load_curves(file)


def test_no_memory_and_no_depth_end_in_one_line() -> None:
    for error, line in (("MemoryError", "not enough memory"), ("RecursionError", "nested too deep")):
        code = (
            "import sys, click\nfrom pyanticip.cli.terminal import run\n"
            f"@click.command()\ndef act():\n    raise {error}\nsys.argv = ['x']\nsys.exit(run(act))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert line in done.stderr
        assert done.stderr.count("\n") == 1


MB = 1024 * 1024


def no_motion(file: Path, words: str) -> None:
    refused(load_motion, file, words)


def test_a_hierarchy_without_end(tmp_path):
    no_motion(write_bvh(tmp_path, "HIERARCHY\n" + "}\n" * (3 * MB)), "has no MOTION in its first 4 MB")
    no_motion(write_bvh(tmp_path, "HIERARCHY " + "{" * (3 * MB)), "a '{' that belongs to no joint")
    no_motion(write_bvh(tmp_path, "HIERARCHY " + "a " * (MB)), "more than 10000 characters without a brace")


@pytest.mark.parametrize("count", ["9" * (6 * MB), " " * (6 * MB), "1" + ":" * (6 * MB)])
def test_a_count_without_end(tmp_path, count):
    # Quadratic matching of such a line would take hours.
    no_motion(write_bvh(tmp_path, f"{BVH_HEADER}MOTION\nFrames: {count}"), "Frame Time|number of frames")


def test_a_frame_without_end(tmp_path):
    no_motion(write_bvh(tmp_path, bvh_text() + "1 " * (3 * MB)), r":44: a line of more than 1 MB")
    no_motion(write_amc(tmp_path, AMC + "lfemur" + " 1" * (3 * MB)), r"amc:\d+: ")
    no_motion(write_amc(tmp_path, "1\n" + "lfemur 1 2 3\n" * 500_000), "'lfemur' comes twice")


def test_frames_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("pyanticip.motion.text.MAX_FRAMES", 1000)
    many = "has more than 1000 frames"
    no_motion(write_amc(tmp_path, "".join(f"{n}\n" for n in range(2000))), many)
    rows = bvh_text().split("Frame Time: 0.02\n")
    no_motion(write_bvh(tmp_path, rows[0] + "Frame Time: 0.02\n" + rows[1] * 200), many)


def test_a_skeleton_without_end(tmp_path):
    no_motion(write_amc(tmp_path, asf=ASF + "# \n" * (2 * MB)), "is larger than 4 MB")
    bones = "".join(
        f"begin\nname b{n}\ndirection 0 1 0\nlength 1\naxis 0 0 0 XYZ\nend\n" for n in range(1100)
    )
    asf = f":root\n:bonedata\n{bones}:hierarchy\n"
    no_motion(write_amc(tmp_path, asf=asf), "more than 1024 joints")


def limited(code: str, memory: int) -> str:
    """The last output line of a program with limited memory."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)),
    )
    return done.stderr
