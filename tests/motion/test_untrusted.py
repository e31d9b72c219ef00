"""Files of anybody's that are too large, too deep, or no files: one line, within little memory and time."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

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

READERS = [
    load_motion,
    load_rig,
    load_curves,
    load_mapping,
    load_memory,
    read_joints,
    read_recording,
    read_state,
    lambda path: read_description(path.parent),
]
NAMES = ["motion", "rig", "curves", "mapping", "memory", "joints", "recording", "project", "checkpoint"]


@pytest.mark.parametrize("read", READERS, ids=NAMES)
def test_a_pipe_is_not_waited_for_and_a_device_not_read(read, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.json")
    with pytest.raises(MotionError, match="is a pipe or a device, expected a file on a disk") as caught:
        read(tmp_path / "model.json")
    assert "\n" not in str(caught.value)
    (tmp_path / "model.json").unlink()
    (tmp_path / "model.json").symlink_to("/dev/zero")
    with pytest.raises(MotionError, match="is a pipe or a device"):
        read(tmp_path / "model.json")
    (tmp_path / "model.json").unlink()
    (tmp_path / "model.json").mkdir()
    with pytest.raises(MotionError, match="folder"):
        read(tmp_path / "model.json")


@pytest.mark.parametrize("read", READERS, ids=NAMES)
@pytest.mark.parametrize(
    "text",
    ["{" * 100_000, "[" * 100_000, "a = " + "[" * 100_000, "a = " + "9" * 5001, '{"a": ' + "9" * 5001 + "}"],
    ids=["objects", "arrays", "toml", "toml-digits", "json-digits"],
)
def test_what_is_too_deep_or_has_too_many_digits_is_one_line(read, text: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(MotionError) as caught:
        read(tmp_path / "model.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_files_are_read_up_to_a_length(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(bytes(2000))
    assert len(read_file(file, 2000)) == 2000
    assert len(read_file(file, 1 << 50)) == 2000  # no room is taken for what a file might have
    with pytest.raises(RigError, match=r"x: is larger than 1999 bytes, the most a rig may have"):
        read_file(file, 1999, RigError, "a rig")
    with pytest.raises(CheckpointError, match=r"nowhere: no such file"):
        read_file(tmp_path / "nowhere", 1, CheckpointError)
    with pytest.raises(FormatError, match="here is not valid JSON"):
        parse_json(b"\xff", "here")
    with pytest.raises(FormatError, match="not a text file in UTF-8"):
        parse_toml(b"\xff", "here")


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
    said = limited(f"import pyanticip as pa\npa.load_motion({str(file)!r})", 1 << 30)
    assert "has 900000 frames of 1001 joints, more than 12000000 in all" in said


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.npz"
    packed = io.BytesIO()
    np.lib.format.write_array(packed, np.zeros((400_000, 156)))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("poses.npy", packed.getvalue())
    assert file.stat().st_size < 1 << 20
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


def limited(code: str, memory: int) -> str:
    """What a program that may have so much memory says at its end."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)),
    )
    return done.stderr
