"""Recordings read as motion."""

import numpy as np
import pytest
from support.body_files import walking_clip

import pyanticip as pa
from pyanticip.errors import FormatError
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.recording import RecordingWriter
from pyanticip.motion.rotations import angle_between


def record(folder, clip, numbers, keep=None):
    path = folder / "show.anticip"
    path.unlink(missing_ok=True)
    with RecordingWriter(path, {"source": "mocopi"}) as writer:
        writer.note(0, "begin")
        for index, number in enumerate(numbers):
            if keep is None or keep(index):
                writer.raw(index, "mocopi", b"x" * 100)
                writer.frame(index, number, number * 20_000_000, clip.quats[index], clip.root[index])
    return path


def test_the_frames_of_a_recording_are_a_clip(tmp_path):
    clip = walking_clip(1.0, 50.0)
    back = pa.load_motion(record(tmp_path, clip, range(50)))
    assert back.rate == 50.0
    assert back.skeleton.names == canonical_skeleton().names
    assert back.warnings == ()
    np.testing.assert_array_equal(back.quats, clip.quats)
    np.testing.assert_array_equal(back.root, clip.root)


def test_short_gaps_are_filled(tmp_path):
    clip = walking_clip(1.0, 50.0)
    back = pa.load_motion(record(tmp_path, clip, range(50), keep=lambda index: not 20 <= index < 24))
    assert len(back) == 50
    assert back.warnings == ()
    assert np.degrees(angle_between(back.quats, clip.quats)).max() < 2.0
    assert np.degrees(angle_between(back.quats[:20], clip.quats[:20])).max() < 1e-3


def test_long_gaps_and_new_beginnings_are_joined(tmp_path):
    clip = walking_clip(1.0, 50.0)
    numbers = [*range(20), *range(500, 520), *range(10)]
    back = pa.load_motion(record(tmp_path, clip, numbers))
    assert len(back) == 50
    assert back.warnings == (
        "480 frames are missing after frame 19: joined",
        "frame numbers begin again with 0 after 519: joined",
    )


def test_a_torn_recording_is_read_up_to_there(tmp_path):
    clip = walking_clip(1.0, 50.0)
    path = record(tmp_path, clip, range(50))
    path.write_bytes(path.read_bytes()[:-100])
    back = pa.load_motion(path)
    assert len(back) == 49
    assert "inside a record" in back.warnings[0]


def test_what_is_no_motion_is_refused(tmp_path):
    clip = walking_clip(0.2, 50.0)
    with pytest.raises(FormatError, match="holds no frame of motion"):
        pa.load_motion(record(tmp_path, clip, []))
    with RecordingWriter(tmp_path / "few.anticip") as writer:
        writer.frame(0, 0, 0, clip.quats[0, :3], clip.root[0])
    with pytest.raises(FormatError, match="frame 0 has 3 joints, expected 22"):
        pa.load_motion(tmp_path / "few.anticip")
    with RecordingWriter(tmp_path / "nan.anticip") as writer:
        writer.frame(0, 0, 0, clip.quats[0] * np.nan, clip.root[0])
    with pytest.raises(FormatError, match=r"nan\.anticip: quats must be unit"):
        pa.load_motion(tmp_path / "nan.anticip")
    (tmp_path / "cut.anticip").write_bytes(b"ANTICIP\0")
    with pytest.raises(FormatError) as caught:
        pa.load_motion(tmp_path / "cut.anticip")
    assert "\n" not in str(caught.value)
