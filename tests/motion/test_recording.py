"""The recording file: round trips, truncation, corruption, newer versions, and reading as motion."""

import errno
import os
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clips import walking_clip
from support.file_trees import packed
from support.full_disk import full_disk

import pyanticip as pa
from pyanticip import _core
from pyanticip.errors import DeviceError, FormatError, OptionError
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.recording import (
    Frame,
    Note,
    Output,
    Raw,
    RecordingWriter,
    is_recording,
    pack_header,
    read_recording,
)
from pyanticip.motion.rotations import angle_between

QUATS = np.tile(np.float32([0.8, 0.6, 0, 0]), (22, 1))


def write_show(path: Path) -> None:
    with RecordingWriter(path, {"rig": {"lead_ms": 100}, "skeleton": ["hips"]}) as tape:
        for i in range(5):
            tape.raw(1_000 + i, "mocopi", bytes(range(i)))
            tape.frame(2_000 + i, i, 3_000 + i, QUATS, [0, 1, i])
            tape.output(4_000 + i, i, [i / 8] * 8, [0.5] * 7, [("onset", 0.5, 0.04)] if i == 2 else [])
        tape.note(9_000, "the end — fin")


def comparable(record: Any) -> tuple[Any, ...]:
    def plain(field: Any) -> Any:
        if isinstance(field, np.ndarray):
            return field.tobytes()
        return tuple(field) if isinstance(field, list) else field

    return (type(record), *map(plain, record))


def test_what_the_model_told_of_itself_is_kept(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "x.anticip", {}) as tape:
        tape.output(1, 1, [0.5] * 8, [0.5] * 7, [], (0.75, 0.5), [(7, 0.75), (300, 0.25)])
        tape.output(2, 2, [0.5] * 8, [0.5] * 7, [], (0.25, 0.0))
        tape.output(3, 3, [0.5] * 8, [0.5] * 7)
    with_model, felt, plain = list(read_recording(tmp_path / "x.anticip", strict=True))
    assert (with_model.field, with_model.plan) == ((0.75, 0.5), ((7, 0.75), (300, 0.25)))
    assert (felt.field, felt.plan) == ((0.25, 0.0), ())
    assert (plain.field, plain.plan) == ((), ())


@pytest.fixture
def show(tmp_path: Path) -> Path:
    path = tmp_path / "show.anticip"
    write_show(path)
    return path


def test_what_is_written_is_read(show: Path) -> None:
    recording = read_recording(show, strict=True)
    assert recording.version == (1, 0)
    assert recording.header["rig"] == {"lead_ms": 100}
    assert recording.header["versions"]["pyanticip"] == _core.__version__
    assert recording.header["skeleton"] == ["hips"]
    assert recording.header["unix_ns"] > 1_600_000_000 * 10**9
    records = list(recording)
    assert len(records) == 16
    assert records[0] == Raw(1_000, "mocopi", b"")
    frame = records[4]
    assert isinstance(frame, Frame)
    assert (frame.t_ns, frame.seq, frame.t_source_ns) == (2_001, 1, 3_001)
    np.testing.assert_array_equal(frame.quats, QUATS)
    np.testing.assert_array_equal(frame.root, [0, 1, 1])
    output = records[8]
    assert isinstance(output, Output)
    assert output.events == [("onset", 0.5, 0.04)]
    assert output.params.tolist() == [0.25] * 8
    assert records[-1] == Note(9_000, "the end — fin")
    # Each iteration reads the file again.
    assert [comparable(r) for r in recording] == [comparable(r) for r in records]
    assert list(recording.datagrams()) == [(1_000 + i, "mocopi", bytes(range(i))) for i in range(5)]
    assert [frame.seq for frame in recording.frames()] == list(range(5))
    assert recording.warnings == []


def test_a_file_torn_at_any_byte_keeps_what_was_whole(show: Path, tmp_path: Path) -> None:
    data = show.read_bytes()
    whole = [comparable(record) for record in read_recording(show)]
    ends = record_ends(data)
    torn = tmp_path / "torn.anticip"
    torn.write_bytes(data)
    kept_before = len(whole)
    for end in reversed(range(len(data))):
        # Truncated rather than rewritten: writing two thousand files would take half a minute.
        os.truncate(torn, end)
        if end < 12:
            with pytest.raises(FormatError, match=r"torn\.anticip"):
                read_recording(torn)
            continue
        recording = read_recording(torn)
        records = [comparable(record) for record in recording]
        assert records == whole[: len(records)]
        assert kept_before - 1 <= len(records) <= kept_before
        kept_before = len(records)
        assert (recording.warnings == []) == (end in ends), end
    assert kept_before == 0


def record_ends(data: bytes) -> set[int]:
    ends, at = set(), 12
    while at < len(data):
        found, _, at = _core.recording_next(data, at)
        assert found == "record"
        ends.add(at)
    return ends


def test_a_corrupt_record_is_left_out_with_its_offset(show: Path) -> None:
    data = bytearray(show.read_bytes())
    offset = sorted(record_ends(bytes(data)))[3]
    data[offset + 8 + 5] ^= 0x10
    show.write_bytes(data)
    recording = read_recording(show)
    assert len(list(recording)) == 15
    assert len(recording.warnings) == 1
    assert f"byte {offset}: the checksum does not hold; " in recording.warnings[0]
    with pytest.raises(FormatError, match=f"byte {offset}"):
        list(read_recording(show, strict=True))


def test_a_hole_costs_the_records_that_it_touches(show: Path) -> None:
    data = bytearray(show.read_bytes())
    ends = sorted(record_ends(bytes(data)))
    # Damage from within the fourth record after the header to within the sixth; then another show follows.
    data[ends[3] + 9 : ends[5] + 5] = bytes(ends[5] - ends[3] - 4)
    show.write_bytes(data + data[:12] + data[12 : ends[3]])
    recording = read_recording(show)
    assert len(list(recording)) == 13 + 3
    assert f"byte {ends[3]}: the checksum does not hold; {ends[6] - ends[3]} bytes" in recording.warnings[0]
    assert len(recording.warnings) == 2


def test_damage_at_the_end_is_a_torn_tail(show: Path) -> None:
    data = bytearray(show.read_bytes())
    offset = sorted(record_ends(bytes(data)))[-2]
    data[offset : offset + 4] = (1 << 24).to_bytes(4, "little")
    show.write_bytes(data)
    recording = read_recording(show)
    assert len(list(recording)) == 15
    assert (
        f"byte {offset}: the file ends inside a record; its last {len(data) - offset} bytes"
        in recording.warnings[0]
    )


def test_what_the_future_adds_is_skipped(show: Path) -> None:
    with show.open("ab") as file:
        file.write(_core.recording_frame(msgpack.packb([77, 5, {"who": "knows"}])))
        file.write(_core.recording_frame(msgpack.packb([4, 6, "a note", "with more"])))
    recording = read_recording(show, strict=True)
    records = list(recording)
    assert records[-1] == Note(6, "a note")
    assert recording.skipped == 1
    data = bytearray(show.read_bytes())
    data[10] = 9
    show.write_bytes(data)
    assert read_recording(show).version == (1, 9)
    data[8] = 2
    show.write_bytes(data)
    with pytest.raises(FormatError, match="recording version 2 is newer than 1"):
        read_recording(show)


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",
        msgpack.packb(["4", 1, "text"]),
        msgpack.packb([4, 1 << 62, "text"]),
        msgpack.packb([4, 1]),
        msgpack.packb([1, 1, "mocopi", "text"]),
        msgpack.packb([2, 1, 0, 0, bytes(15), bytes(12)]),
        msgpack.packb([3, 1, 0, bytes(4), bytes(4), [["onset", 1]]]),
        b"\x91" * 2000,
    ],
)
def test_whole_records_that_make_no_sense_are_left_out(show: Path, payload: bytes) -> None:
    size = show.stat().st_size
    with show.open("ab") as file:
        file.writelines((_core.recording_frame(payload), *packed(lambda tape: tape.note(10, "after"))))
    recording = read_recording(show)
    records = list(recording)
    assert len(records) == 17
    assert records[-1] == Note(10, "after")
    assert len(recording.warnings) == 1
    assert f"byte {size}: a record" in recording.warnings[0]
    assert "\n" not in recording.warnings[0]


def test_after_days_of_silence_reading_goes_on_with_what_is_not_alone(tmp_path: Path) -> None:
    later = 3 * 86_400 * 10**9
    with RecordingWriter(tmp_path / "long.anticip", {}) as tape:
        for t_ns in (1, 2 * later, 2, later, later + 1, 3, 9 * later):
            tape.note(t_ns, "here")
    recording = read_recording(tmp_path / "long.anticip")
    assert [record.t_ns for record in recording] == [1, 2, later, later + 1, 3]
    assert ["a single record" in line for line in recording.warnings] == [True, True]


def test_a_recording_without_its_header_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "headless.anticip"
    (raw,) = packed(lambda tape: tape.raw(5, "vmc", b"data"))
    path.write_bytes(_core.recording_header() + raw)
    recording = read_recording(path)
    assert (recording.header, recording.start_ns) == ({}, None)
    assert list(recording) == [Raw(5, "vmc", b"data")]
    assert "header record is missing" in recording.warnings[0]


def test_a_name_that_is_no_utf_8_is_told_as_far_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    RecordingWriter(path, {"rig": {"memory": os.fsdecode(b"r\xe9p.memory")}}).close()
    assert read_recording(path).header["rig"] == {"memory": "r?p.memory"}


def test_a_flood_of_damage_is_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "flood.anticip"
    first, good = packed(lambda tape: (tape.note(1, "x"), tape.note(2, "ok")))
    bad = bytearray(first)
    bad[-1] ^= 1
    flood = (bytes(bad) + good) * 500
    path.write_bytes(_core.recording_header() + pack_header(0, {}) + flood)
    recording = read_recording(path)
    assert list(recording) == [Note(2, "ok")] * 500
    assert len(recording.warnings) == 100


def test_long_recordings_are_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "long.anticip"
    with RecordingWriter(path) as tape:
        for i in range(60):
            tape.raw(i, "mocopi", bytes([i]) * 65_000)
        tape.note(99, "x" * 3_000_000)
    recording = read_recording(path, strict=True)
    records = list(recording)
    assert [record.t_ns for record in records] == [*range(60), 99]
    assert all(
        record.data == bytes([i]) * 65_000
        for i, record in enumerate(recording.datagrams())
        for record in [records[i]]
    )


def test_strangers_and_missing_files_get_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing.anticip"
    with pytest.raises(FormatError, match=r"missing.anticip: no such file"):
        read_recording(missing)
    other = tmp_path / "walk.bvh"
    other.write_bytes(b"HIERARCHY\nROOT Hips\n")
    with pytest.raises(FormatError, match=r"walk.bvh: not a pyanticip recording"):
        read_recording(other)
    assert not is_recording(other.read_bytes())
    with pytest.raises(FormatError):
        read_recording(tmp_path)


def test_nothing_is_overwritten(show: Path, tmp_path: Path) -> None:
    before = show.read_bytes()
    with pytest.raises(OptionError, match="already exists"):
        RecordingWriter(show)
    assert show.read_bytes() == before
    with pytest.raises(DeviceError, match="cannot be written"):
        RecordingWriter(tmp_path / "no" / "such" / "folder.anticip")


def test_on_a_full_disk_no_recording_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "new.anticip"
    with full_disk(), pytest.raises(DeviceError, match=rf"^{path}: cannot be written \(file too large\)$"):
        RecordingWriter(path)
    assert not path.exists()
    with RecordingWriter(path) as tape, full_disk(), pytest.raises(DeviceError, match=f"^{path}: cannot be"):
        tape.note(1, "look")


def test_a_recording_that_cannot_be_flushed_at_its_end_is_one_line(tmp_path: Path, monkeypatch: Any) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    tape = RecordingWriter(tmp_path / "x.anticip")
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(DeviceError, match=r"x\.anticip: cannot be written \(no space left on device\)$"):
        tape.close()
    assert tape._file.closed


@given(tail=st.binary(max_size=400))
def test_any_tail_is_survived(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = tmp_path_factory.mktemp("tail") / "show.anticip"
    write_show(path)
    with path.open("ab") as file:
        file.write(tail)
    recording = read_recording(path)
    assert len(list(recording)) >= 16
    assert bool(recording.warnings) == bool(tail)


@given(changes=st.lists(st.tuples(st.integers(12, 4000), st.integers(0, 255)), min_size=1, max_size=6))
def test_any_damage_is_survived(tmp_path_factory, changes):
    path = tmp_path_factory.mktemp("damage") / "show.anticip"
    write_show(path)
    whole = {comparable(record) for record in read_recording(path)}
    data = bytearray(path.read_bytes())
    for at, value in changes:
        data[at % (len(data) - 12) + 12] = value
    path.write_bytes(data)
    # Every delivered record was written: damage is never taken for a record.
    assert {comparable(record) for record in read_recording(path)} <= whole


@given(t_ns=st.integers(0, 86_400 * 10**9), source=st.text(max_size=20), data=st.binary(max_size=300))
def test_any_datagram_goes_through(tmp_path_factory, t_ns, source, data):
    path = tmp_path_factory.mktemp("raw") / "show.anticip"
    with RecordingWriter(path) as tape:
        tape.raw(t_ns, source, data)
    assert read_recording(path).header["skeleton"]["names"] == list(_core.CANONICAL_JOINTS)
    assert list(read_recording(path, strict=True).datagrams()) == [(t_ns, source, data)]


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


def test_what_is_no_motion_is_refused(tmp_path):
    clip = walking_clip(0.2, 50.0)
    with pytest.raises(FormatError, match="holds no frame of motion"):
        pa.load_motion(record(tmp_path, clip, []))
    (tmp_path / "torn.anticip").write_bytes(b"ANTICIP\0\1")
    with pytest.raises(FormatError, match=r"torn\.anticip: cut short at byte 0: the header needs 12"):
        pa.load_motion(tmp_path / "torn.anticip")


@pytest.mark.parametrize(
    ("seq", "quats", "root", "why"),
    [
        (0, QUATS[:3], [0, 1, 0], "3 joints, expected 22"),
        (0, QUATS * np.nan, [0, 1, 0], "expected unit quaternions and a finite root"),
        (0, QUATS * 2, [0, 1, 0], "expected unit quaternions and a finite root"),
        (0, QUATS, [0, np.inf, 0], "expected unit quaternions and a finite root"),
        (1 << 63, QUATS, [0, 1, 0], "expected an integer of 64 bits"),
    ],
)
def test_a_frame_that_is_no_pose_is_left_out(tmp_path, seq, quats, root, why):
    for count in (2, 0):
        path = tmp_path / f"{count}.anticip"
        with RecordingWriter(path) as writer:
            writer.frame(0, seq, 0, quats, root)
            for n in range(count):
                writer.frame(n, n, n, QUATS, [0, 1, 0])
    back = pa.load_motion(tmp_path / "2.anticip")
    assert len(back) == 2
    assert [why in line for line in back.warnings] == [True]
    with pytest.raises(FormatError, match=rf"holds no frame of motion \(byte \d+: .*{why}\)"):
        pa.load_motion(path)


@pytest.mark.parametrize("names", [["a", "b"], list(_core.CANONICAL_JOINTS)[::-1], None])
def test_frames_of_another_body_are_not_taken_for_ours(tmp_path, names):
    path = tmp_path / "other.anticip"
    with RecordingWriter(path, {"skeleton": {"names": names}}) as writer:
        writer.frame(0, 0, 0, QUATS, [0, 1, 0])
    if names is None:
        assert len(pa.load_motion(path)) == 1
        return
    with pytest.raises(FormatError, match=r"no frame .*\(byte 12: the header record names other joints"):
        pa.load_motion(path)
    recording = read_recording(path)
    assert list(recording) == []
    assert len(recording.warnings) == 1
