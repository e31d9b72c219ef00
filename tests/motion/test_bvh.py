"""BVH files: reading, one-line errors, and writing."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.motion_files import BVH_HEADER, COLUMNS, ROWS, bvh_text, t_pose_bvh, write_amc, write_bvh

import pyanticip as pa
from pyanticip.errors import FormatError, OptionError
from pyanticip.motion import bvh
from pyanticip.motion.bvh import read_bvh, save_bvh
from pyanticip.motion.rotations import angle_between, from_euler
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.units import UNITS_HINT, rate_from_frame_time

ORDERS = ("ZYX", "ZXY", "YXZ", "XYZ", "ZYX")


def as_rotation(quats):
    return Rotation.from_quat(np.asarray(quats)[..., [1, 2, 3, 0]])


@pytest.mark.parametrize("leg", ["YXZ", "YZY"])
def test_every_joint_has_its_own_rotation_order(tmp_path, leg):
    text = bvh_text().replace("Yrotation Xrotation Zrotation", " ".join(f"{axis}rotation" for axis in leg))
    clip = pa.load_motion(write_bvh(tmp_path, text))
    assert clip.quats.shape == (6, 5, 4)
    assert clip.quats.dtype == np.float32
    assert clip.rate == 50.0
    assert clip.skeleton.names == ("Hips", "LeftUpLeg", "LeftLeg", "Spine", "LeftArm")
    assert clip.skeleton.parents.tolist() == [-1, 0, 1, 0, 3]
    for joint, order in enumerate((*ORDERS[:2], leg, *ORDERS[3:])):
        # SciPy's upper-case orders are intrinsic: Rz Ry Rx for "ZYX", as BVH channels are read.
        expected = Rotation.from_euler(order, ROWS[:, 3 + 3 * joint : 6 + 3 * joint], degrees=True)
        assert (as_rotation(clip.quats[:, joint]).inv() * expected).magnitude().max() < 1e-6


def test_lengths_are_metres(tmp_path):
    clip = pa.load_motion(write_bvh(tmp_path))
    np.testing.assert_allclose(clip.root, ROWS[:, :3] * 0.01, atol=1e-6)
    np.testing.assert_allclose(clip.skeleton.offsets[2], (0, -0.42, 0), atol=1e-6)
    assert clip.skeleton.tips[4] == pytest.approx((0.55, 0, 0))


@pytest.mark.parametrize(
    ("scale", "unit"), [(1.0, "cm"), (0.01, "m"), (10.0, "mm"), (0.01 / 0.056444, "cmu")]
)
def test_the_unit_is_told_from_the_size(tmp_path, scale, unit):
    header = BVH_HEADER
    for number in ("9 -8 0", "0 -42 0", "0 -40 0", "0 52 0", "18 0 0", "55 0 0"):
        scaled = " ".join(f"{float(x) * scale:.6f}" for x in number.split())
        header = header.replace(f"OFFSET {number}\n", f"OFFSET {scaled}\n")
    clip = pa.load_motion(write_bvh(tmp_path, header + bvh_text()[len(BVH_HEADER) :]))
    assert clip.skeleton.reach() == pytest.approx(1.25, rel=1e-4)
    with_unit = pa.load_motion(tmp_path / "clip.bvh", units=unit)
    np.testing.assert_allclose(with_unit.skeleton.offsets, clip.skeleton.offsets, atol=1e-5)


def test_unwrapped_angles_are_the_same_rotations(tmp_path):
    turned = ROWS.copy()
    turned[:, 3:] -= 360.0 * np.array([4, 3, 2, 1, 0] * 3)
    straight = pa.load_motion(write_bvh(tmp_path))
    many = pa.load_motion(write_bvh(tmp_path, bvh_text(turned), "many.bvh"))
    assert turned.min() < -1400
    assert np.degrees(angle_between(straight.quats, many.quats)).max() < 1e-3


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text[: len(text) // 2].replace("\n", "\r\n") + text[len(text) // 2 :],
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("  ", "\t"),
        lambda text: text.replace("\n", " \t \n"),
        lambda text: text.rstrip("\n"),
        lambda text: text + "\n\n \t\n",
        lambda text: "\ufeff" + text,
        lambda text: text + "\x1a",
        lambda text: text.rstrip("\n") + "\r\n\x1a\x1a\r\n",
        lambda text: text.replace("Frames: 6", "Frames:\t6").replace("Frame Time: ", "frame time:\t"),
        lambda text: text.replace("Frames: 6", "Frames: 6.000"),
        lambda text: text.replace(" {", "{").replace("\n{", " {"),
        lambda text: text.replace("Zrotation", "ZROTATION").replace("CHANNELS", "Channels"),
        lambda text: " ".join(text.split("MOTION")[0].split()) + "\nMOTION" + text.split("MOTION")[1],
        lambda text: " ".join(text.split("MOTION")[0].split()) + " MOTION" + text.split("MOTION")[1],
    ],
)
def test_spelling_does_not_matter(tmp_path, mangle):
    plain = pa.load_motion(write_bvh(tmp_path))
    mangled = pa.load_motion(write_bvh(tmp_path, mangle(bvh_text()), "mangled.bvh"))
    assert mangled.warnings == ()
    assert mangled.skeleton.names == plain.skeleton.names
    np.testing.assert_array_equal(mangled.quats, plain.quats)
    np.testing.assert_array_equal(mangled.root, plain.root)


def test_exponents_are_numbers(tmp_path):
    text = bvh_text().replace("\n0 7.5732", "\n5.86e-015 7.5732E+0", 1)
    assert "5.86e-015" in text
    clip = pa.load_motion(write_bvh(tmp_path, text))
    assert clip.root[0] == pytest.approx((0.0, 0.075732, 0.081837), abs=1e-6)


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("0.008333", 120.0),
        ("0.041667", 24.0),
        ("0.033", 30.0),
        ("8.3333e-3", 120.0),
        ("0.033367", 30000 / 1001),
        ("0.02", 50.0),
        ("0.0175", 57.0),
        ("0.01751", 1 / 0.01751),
        ("0.016", 60.0),
        ("0.03", 30.0),
        ("0.017", 60.0),
        ("0.0417", 24.0),
        ("0.0417083", 24000 / 1001),
        ("0.008341", 120000 / 1001),
    ],
)
def test_frame_times_mean_the_rate_they_stand_for(written, rate):
    assert rate_from_frame_time(written)[0] == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize(
    ("written", "sure"),
    [("0.016", False), ("0.02", True), ("0.0167", True), ("0.008", False), ("0.0080", True), ("0.025", True)],
)
def test_a_frame_time_of_few_decimals_is_told(tmp_path, written, sure):
    clip = pa.load_motion(write_bvh(tmp_path, bvh_text(frame_time=written)))
    assert any(f"a frame time of {written} s may mean" in line for line in clip.warnings) != sure
    assert pa.load_motion(tmp_path / "clip.bvh", rate=60).warnings == ()


def test_a_frame_time_in_milliseconds_is_told(tmp_path):
    clip = pa.load_motion(write_bvh(tmp_path, bvh_text(frame_time="8.3333")))
    assert clip.rate == pytest.approx(0.12, rel=1e-4)
    frame_warnings = [line for line in clip.warnings if "frame" in line]
    assert frame_warnings == [
        "a frame every 8.33 s (is it in milliseconds?): if that is wrong, correct Frame Time: in the file"
        " or give --rate (send: --file-rate; rate= in Python)"
    ]
    assert not any("frame every" in line for line in pa.load_motion(write_bvh(tmp_path)).warnings)


def test_a_given_rate_replaces_the_frame_time(tmp_path):
    path = write_bvh(tmp_path, bvh_text(frame_time="0"))
    with pytest.raises(FormatError, match=r"clip\.bvh:\d+: frame time"):
        pa.load_motion(path)
    assert pa.load_motion(path, rate=100).rate == 100.0
    for bad in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(OptionError):
            pa.load_motion(path, rate=bad)


@pytest.mark.parametrize("declared", [5, 7])
def test_a_count_that_is_off_by_one_keeps_what_is_there(tmp_path, declared):
    clip = pa.load_motion(write_bvh(tmp_path, bvh_text(frames=declared)))
    assert len(clip) == 6
    assert clip.warnings == (f"declares {declared} frames, 6 are there and were kept",)


def test_a_t_pose_that_the_motion_jumps_away_from_is_dropped(tmp_path):
    path = write_bvh(tmp_path, t_pose_bvh(30))
    clip = pa.load_motion(path)
    kept = pa.load_motion(path, keep_tpose=True)
    assert (len(clip), len(kept)) == (29, 30)
    assert clip.warnings == ("frame 0 is a T-pose, dropped: the motion begins in frame 1",)
    assert kept.warnings == ("frame 0 is a T-pose, kept: the motion begins in frame 1",)
    np.testing.assert_array_equal(clip.quats, kept.quats[1:])
    np.testing.assert_array_equal(clip.skeleton.rest, kept.quats[0])


def test_frame_0_is_the_rest_where_the_offsets_are_no_t_pose(tmp_path):
    text = (
        t_pose_bvh(30).replace("OFFSET 50 0 0", "OFFSET 0 -50 0").replace("OFFSET -50 0 0", "OFFSET 0 -50 0")
    )
    rows = np.zeros((30, 33))
    rows[0, 21], rows[0, 27] = 90.0, -90.0  # arms up to the T-pose, hanging in the frames after it
    rows[1:, 21] = np.arange(29.0)
    clip = pa.load_motion(
        write_bvh(tmp_path, text[: text.index("MOTION")] + bvh_text(rows)[len(BVH_HEADER) :])
    )
    assert len(clip) == 29
    arm = clip.skeleton.rest[clip.skeleton.index("LeftArm")]
    np.testing.assert_allclose(arm, [np.sqrt(0.5), 0, 0, np.sqrt(0.5)], atol=1e-6)


def test_a_motion_that_flows_out_of_its_t_pose_keeps_it(tmp_path):
    text = t_pose_bvh(30)
    rows = np.zeros((30, 33))
    rows[:, 21] = -np.arange(30.0)
    rows[:, 27] = np.arange(30.0)
    clip = pa.load_motion(
        write_bvh(tmp_path, text[: text.index("MOTION")] + bvh_text(rows)[len(BVH_HEADER) :])
    )
    assert len(clip) == 30
    assert clip.warnings == ()


def test_a_first_frame_that_jumps_but_is_no_t_pose_is_kept(tmp_path):
    rows = ROWS.copy()
    rows[0, 3:] += 60.0
    assert len(pa.load_motion(write_bvh(tmp_path, bvh_text(rows)))) == 6


def with_line(number, content):
    def change(text):
        lines = text.split("\n")
        lines[number] = content
        return "\n".join(lines)

    return change


FIRST = bvh_text().split("\n").index("Frame Time: 0.02") + 1
BROKEN = {
    "empty": (lambda _: "", "is empty"),
    "not a bvh": (lambda _: "hello\nworld\n", "is not a motion file"),
    "binary": (lambda text: text[:300] + "\0\1\2" + text[300:], "zero byte"),
    "no motion": (lambda text: text[: text.index("MOTION")], "without a MOTION"),
    "no frames": (lambda text: text[: text.index("Frame Time: 0.02") + 17], "no frame"),
    "frames cut": (lambda text: text.replace("Frames: 6", "Frames: 60"), "declares 60 frames, only 6"),
    "row cut": (lambda text: text[: text.rindex(" ")], rf":{FIRST + 6}: expected 18 numbers, got 17"),
    "word": (with_line(FIRST + 1, "1 2 x" + " 0" * 15), rf":{FIRST + 2}: expected a number, got 'x'"),
    "nan": (with_line(FIRST, "1 2 nan" + " 0" * 15), rf":{FIRST + 1}: expected a finite number"),
    "count": (lambda text: text.replace("Frames: 6", "Frames: six"), "number of frames, got 'six'"),
    "second root": (lambda text: text.replace("JOINT Spine", "ROOT Spine"), ":20: a second ROOT"),
    "channel": (
        lambda text: text.replace("Xrotation Yrotation\n", "Xrotation Wrotation\n"),
        ":9: expected a channel",
    ),
    "scale": (
        lambda text: text.replace("CHANNELS 6", "CHANNELS 9 Xscale Yscale Zscale"),
        ":5: expected at most 6 channels, positions and rotations .no scale., got 9",
    ),
    "comma": (with_line(FIRST, "1 2 3,5" + " 0" * 15), f":{FIRST + 1}: expected a number, got '3,5' .deci"),
    "commas": (lambda text: text.replace("OFFSET 9 -8 0", "OFFSET 9,5 -8,0 0"), "x y z, .* not a comma"),
    "utf-16 without a mark": (lambda text: text.encode("utf-16-be"), ":1: is text in UTF-16"),
    "utf-16": (lambda text: "\ufeff".join(("", text)).encode("utf-16-le"), ":1: is text in UTF-16"),
    "utf-32 without a mark": (lambda text: text.encode("utf-32-be"), ":1: is text in UTF-32"),
    "utf-32": (lambda text: text.encode("utf-32"), ":1: is text in UTF-32"),
    "utf-32 of the other order": (
        lambda text: ("\ufeff" + text).encode("utf-32-be"),
        ":1: is text in UTF-32",
    ),
    "channels": (lambda text: text.replace("CHANNELS 3 Z", "CHANNELS 4 Z"), ":9: expected 4"),
    "brace": (lambda text: text.replace("}\nMOTION", "}\n}\nMOTION"), "'}' too many"),
    "no offset": (lambda text: text.replace("OFFSET 9 -8 0", ""), "has no OFFSET"),
    "keyword": (lambda text: text.replace("OFFSET 9", "OFFFSET 9"), ":8: expected a joint"),
    "frame time": (
        lambda text: text.replace("0.02", "fast"),
        "frame time is a number of seconds, got 'fast'; correct it, or give --rate",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_get_one_line_with_file_line_and_reason(tmp_path, kind):
    change, reason = BROKEN[kind]
    path = write_bvh(tmp_path, change(bvh_text()))
    with pytest.raises(FormatError, match=reason) as caught:
        pa.load_motion(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"Kaydara FBX Binary  \0\x1a\0", "FBX"),
        (b"; FBX 7.7.0 project file\n", "FBX"),
        (b"glTF\2\0\0\0", "glTF, VRM or VRMA"),
        (b"PathFileType\t4\t(X/Y/Z)\twalk.trc\n", "TRC"),
        (b"Format Version,1.23,Take Name,Walk\n", "CSV from Motive"),
        (b"Vocaloid Motion Data 0002\0", "VMD"),
        (b"#usda 1.0\n", "USD"),
        (b"\x1f\x8b\x08\0", "a compressed file"),
        (b"\x93NUMPY\1\0", "a NumPy array .npy."),
        (b"\x80\x04\x95", r"a pickle, which may run any program \(if you trust it: .*numpy.savez.*"),
    ],
)
def test_files_of_other_kinds_are_refused_by_name(tmp_path, start, kind):
    path = tmp_path / "walk.bvh"
    path.write_bytes(start + bytes(600))
    with pytest.raises(FormatError, match=f"walk.bvh:1: is not .* read, it is {kind}: expected BVH,"):
        pa.load_motion(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        pa.load_motion(tmp_path / "none.bvh")
    with pytest.raises(FormatError) as caught:
        pa.load_motion(tmp_path)
    assert str(caught.value) == f"{tmp_path}: is a folder, expected a file"


def test_too_many_joints_or_bytes_are_refused(tmp_path, monkeypatch):
    joints = "JOINT a\n{\nOFFSET 0 1 0\n" * 1100
    with pytest.raises(FormatError, match="more than 1024 joints"):
        pa.load_motion(write_bvh(tmp_path, "HIERARCHY\nROOT r\n{\nOFFSET 0 0 0\n" + joints))
    monkeypatch.setattr("pyanticip.motion.text.MAX_FILE_BYTES", 1000)
    with pytest.raises(FormatError, match="is larger than"):
        pa.load_motion(write_bvh(tmp_path))
    monkeypatch.undo()
    monkeypatch.setattr("pyanticip.motion.text.MAX_VALUES", 3 * COLUMNS)
    with pytest.raises(FormatError, match="has more than"):
        pa.load_motion(write_bvh(tmp_path))


def test_quaternions_are_made_of_some_frames_at_a_time(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr("pyanticip.motion.bvh.from_euler", lambda *a: calls.append(a) or from_euler(*a))
    rows = np.tile(ROWS, (1000, 1)) + 0.01 * np.arange(6000)[:, None]
    clip = pa.load_motion(write_bvh(tmp_path, bvh_text(rows)))
    assert max(len(angles) for angles, _ in calls) == 4096
    np.testing.assert_array_equal(
        clip.quats[:, 1], from_euler(np.radians(rows[:, 6:9]), (2, 0, 1)).astype(np.float32)
    )


def test_names_that_come_twice_are_told_apart(tmp_path):
    clip = pa.load_motion(write_bvh(tmp_path, bvh_text().replace("JOINT LeftLeg", "JOINT LeftUpLeg")))
    assert clip.skeleton.names[1:3] == ("LeftUpLeg", "LeftUpLeg_2")
    assert "a second joint" in clip.warnings[0]


@pytest.mark.parametrize("write", [write_bvh, write_amc])
def test_what_is_written_is_read_back(tmp_path, write):
    clip = pa.load_motion(write(tmp_path), rate=120)
    path = tmp_path / "out.bvh"
    save_bvh(clip, path)
    back = pa.load_motion(path, units="cm")
    assert back.warnings == ()
    assert back.rate == 120.0
    assert back.skeleton.names == clip.skeleton.names
    np.testing.assert_array_equal(back.skeleton.parents, clip.skeleton.parents)
    np.testing.assert_allclose(back.skeleton.offsets[1:], clip.skeleton.offsets[1:], atol=1e-6)
    assert np.degrees(angle_between(back.quats, clip.quats)).max() < 1e-4
    np.testing.assert_allclose(back.root, clip.root, atol=1e-6)
    np.testing.assert_allclose(back.positions(), clip.positions(), atol=1e-5)


def test_joints_are_put_in_the_order_of_the_file(tmp_path):
    # Breadth first: both children of the root before the child of the first.
    clip = pa.load_motion(write_bvh(tmp_path))
    skeleton = clip.skeleton
    order = [0, 1, 3, 2, 4]
    parents = [-1, 0, 0, 1, 2]
    mixed = pa.Clip(
        clip.quats[:, order],
        clip.root,
        clip.rate,
        Skeleton(tuple(skeleton.names[j] for j in order), np.array(parents), skeleton.offsets[order]),
    )
    save_bvh(mixed, tmp_path / "out.bvh")
    back = pa.load_motion(tmp_path / "out.bvh", units="cm")
    assert back.skeleton.names == skeleton.names
    assert np.degrees(angle_between(back.quats, clip.quats)).max() < 1e-4


def read(header: str = BVH_HEADER, rows: np.ndarray = ROWS, **options: float) -> pa.Clip:
    """Read a BVH file from bytes, in metres by default."""
    data = (header + bvh_text(rows)[len(BVH_HEADER) :]).encode()
    return read_bvh(Path("clip.bvh"), data, **{"length_unit": 1.0} | options)


@pytest.mark.parametrize(("reach", "odd"), [(0.79, True), (0.81, False), (1.64, False), (1.66, True)])
def test_a_body_that_nobody_has_is_told(reach: float, odd: bool) -> None:
    warnings = read(length_unit=reach / 125.0).warnings
    assert warnings == (
        (f"a body {reach} m from hips to fingertips: if that is wrong, give {UNITS_HINT}",) if odd else ()
    )


@pytest.mark.parametrize(
    ("bone", "moved", "taken"),
    [
        ("0 -42 0", (0.0, 4.1, 0.0), False),
        ("0 -42 0", (3.0, -3.1, 0.0), True),
        ("0 0 0", (0.0, -42.0, 0.0), True),
    ],
)
def test_places_of_an_inner_joint_are_its_bone_unless_they_are_changes_of_it(bone, moved, taken):
    six = "CHANNELS 6 Xposition Yposition Zposition Yrotation Xrotation Zrotation"
    header = BVH_HEADER.replace("CHANNELS 3 Yrotation Xrotation Zrotation", six)
    header = header.replace("OFFSET 0 -42 0", f"OFFSET {bone}")
    rows = np.insert(ROWS, [9, 9, 9], moved, axis=1)
    # A single outlier is no stretch.
    rows[2, 9:12] = 900.0
    clip = read(header, rows, length_unit=0.01)
    expected = moved if taken else (0.0, -42.0, 0.0)
    np.testing.assert_allclose(clip.skeleton.offsets[2], np.array(expected) / 100.0, atol=1e-6)
    np.testing.assert_array_equal(clip.quats, read().quats)


def test_the_root_is_at_its_offset_along_the_axes_that_have_no_channel() -> None:
    header = BVH_HEADER.replace("CHANNELS 6 Xposition Yposition Zposition", "CHANNELS 4 Zposition")
    clip = read(header.replace("OFFSET 0 0 0", "OFFSET 1 2 3"), ROWS[:, 2:], length_unit=0.5)
    np.testing.assert_allclose(clip.root[:, :2], [[0.5, 1.0]] * 6)
    np.testing.assert_allclose(clip.root[:, 2], ROWS[:, 2] / 2.0, rtol=1e-6)
    np.testing.assert_array_equal(clip.quats, read().quats)


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        ("OFFSET 9 -8 1e6", "OFFSET 9 -8 1000001", "8: an OFFSET out of range"),
        ("OFFSET 9 -8 0", "OFFSET 9 nan 0", "8: an OFFSET out of range"),
        ("OFFSET 9 -8 0" + " " * 9000, "OFFSET 9 -8 0" + " " * 10_000, "8: more than 10000 characters"),
    ],
)
def test_what_is_out_of_bounds_in_the_hierarchy_is_refused(good: str, bad: str, reason: str) -> None:
    assert len(read(BVH_HEADER.replace("OFFSET 9 -8 0", good))) == 6
    with pytest.raises(FormatError, match=reason):
        read(BVH_HEADER.replace("OFFSET 9 -8 0", bad))


def test_a_joint_has_six_channels_at_most_in_one_line_and_none_twice_in_a_row() -> None:
    line = "CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation"
    for wrong, reason in (
        (line.replace("6", "7") + " Xrotation", "expected at most 6 channels, positions and rotations"),
        (line.replace("Yrotation", "Zrotation"), "5: channel 'Zrotation' appears twice"),
        (line.replace("Xposition", "Zposition"), "5: channel 'Zposition' appears twice"),
        (line + "\n" + line, "6: second CHANNELS of joint 'Hips'"),
        ("CHANNELS", "5: expected CHANNELS n names"),
    ):
        with pytest.raises(FormatError, match=reason):
            read(BVH_HEADER.replace(line, wrong))


def test_blank_lines_and_blanks_in_the_timing_are_none() -> None:
    text = bvh_text().replace("Frames:", " \n\n Frames :").replace("Frame Time", "\n\t\nFrameTime")
    assert len(read_bvh(Path("clip.bvh"), text.encode())) == 6
    line = text[: text.index("FrameTime")].count("\n") + 1
    with pytest.raises(FormatError, match=rf"clip\.bvh:{line}: frame time"):
        read_bvh(Path("clip.bvh"), text.replace("0.02", "fast").encode())


def test_a_joint_above_the_hips_that_carries_more_than_them_or_does_not_move_them_stays() -> None:
    inner = BVH_HEADER.split("ROOT Hips", 1)[1]
    rows = np.concatenate((np.zeros((6, 3)), ROWS), axis=1)
    head = "HIERARCHY\nROOT Reference\n{\nOFFSET 0 0 0\nCHANNELS 3 Zrotation Yrotation Xrotation\n"
    other = "JOINT Prop\n{\nOFFSET 1 0 0\nJOINT Tip\n{\nOFFSET 1 0 0\n}\n}\n"
    assert read(head + "JOINT Hips" + inner + "}\n", rows).skeleton.names[0] == "Hips"
    assert read(head + other + "JOINT Hips" + inner + "}\n", rows).skeleton.names[0] == "Reference"
    rows[:, 3:6] = 7.0
    assert read(head + "JOINT Hips" + inner + "}\n", rows).skeleton.names[0] == "Reference"
    # Two such joints in a chain: both are folded, and their motions add up.
    rows = np.concatenate((np.tile([0.0, 40.0, 0.0, 1.0, 2.0, 3.0, 0.0, 50.0, 0.0], (6, 1)), ROWS), axis=1)
    rows[0, 3] = 1.5
    middle = head.replace("HIERARCHY\nROOT Reference", "JOINT Carrier").replace(
        "CHANNELS 3", "CHANNELS 6 Xposition Yposition Zposition"
    )
    clip = read(head + middle + "JOINT Hips" + inner + "}\n}\n", rows)
    turn = Rotation.from_euler("Y", 90, degrees=True)
    assert clip.skeleton.names == read().skeleton.names
    assert (
        as_rotation(clip.quats[:, 0]).inv() * turn * as_rotation(read().quats[:, 0])
    ).magnitude().max() < 1e-6
    place = Rotation.from_euler("Y", 40, degrees=True).apply([1, 2, 3]) + turn.apply(ROWS[1, :3])
    np.testing.assert_allclose(clip.root[1], place, atol=1e-4)


def test_every_word_of_the_hierarchy_is_looked_at_once(monkeypatch) -> None:
    """However many statements stand on a line: looking on from each of them took minutes."""

    class Counted(tuple):
        looks = 0

        def __contains__(self, word: object) -> bool:
            Counted.looks += 1
            return super().__contains__(word)

    monkeypatch.setattr(bvh, "_KEYWORDS", Counted(bvh._KEYWORDS))
    text = bvh_text().replace("OFFSET 9 -8 0", 700 * "OFFSET 9 -8 0 ", 1)
    assert len(bvh.read_bvh(Path("clip.bvh"), text.encode())) == len(ROWS)
    assert 0 < Counted.looks <= len(text.split())
