"""C3D files: markers are placed on a known body, written, and read back as that body."""

import io
import sys
from pathlib import Path

import c3d
import numpy as np
import pytest
from support.c3d_files import PROCESSORS, raw_c3d
from support.markers import c3d_bytes, markers_of
from support.odd_rigs import walker

import pyanticip as pa
from pyanticip.motion.c3d import _count, _points, _reader, read_c3d
from pyanticip.motion.c3d import _markers as marked
from pyanticip.motion.markers import Subject, body_from_markers, find_subjects

BONES = {
    "trunk": ("hips", "neck"),
    "hip line": ("right_upper_leg", "left_upper_leg"),
    "shoulder line": ("right_upper_arm", "left_upper_arm"),
    **{
        f"{side} {name}": (f"{side}_{name}", f"{side}_{end}")
        for side in ("left", "right")
        for name, end in (
            ("upper_arm", "lower_arm"),
            ("lower_arm", "hand"),
            ("upper_leg", "lower_leg"),
            ("lower_leg", "foot"),
        )
    },
}

# A frame of a person standing with bent arms, as written by a laboratory's Vicon, and the joint centres that
# Vicon's own Plug-in Gait computed with measured widths: the first frame of Sample_Static.csv in
# pyCGM's SampleData/ROM (github.com/cadop/pyCGM, MIT), millimetres, z up.
REAL = {
    "LFHD": (175, 325, 1729), "RFHD": (315, 326, 1731), "LBHD": (194, 170, 1689), "RBHD": (303, 168, 1688),
    "C7": (251, 166, 1528), "T10": (233, 144, 1273), "CLAV": (251, 310, 1462), "STRN": (245, 363, 1297),
    "LSHO": (65, 201, 1507), "LELB": (-164, 271, 1284), "LWRA": (-233, 485, 1128), "LWRB": (-299, 441, 1130),
    "LFIN": (-310, 523, 1099), "RSHO": (430, 221, 1497), "RELB": (654, 312, 1281), "RWRA": (699, 537, 1131),
    "RWRB": (770, 500, 1137), "RFIN": (772, 597, 1102), "LASI": (139, 362, 1030), "RASI": (354, 344, 1033),
    "LPSI": (192, 175, 1050), "RPSI": (277, 169, 1050), "LKNE": (89, 242, 530), "LANK": (73, 162, 86),
    "LHEE": (122, 139, 46), "LTOE": (32, 331, 42), "RKNE": (418, 241, 524), "RANK": (428, 189, 93),
    "RHEE": (382, 148, 50), "RTOE": (433, 355, 44),
}  # fmt: skip
VICON = {
    "LeftUpperArm": (60, 210, 1461), "LeftLowerArm": (-136, 254, 1254), "LeftHand": (-258, 450, 1098),
    "LeftUpperLeg": (179, 298, 934), "LeftLowerLeg": (148, 238, 526), "LeftFoot": (112, 176, 81),
    "RightUpperArm": (430, 228, 1451), "RightLowerArm": (629, 293, 1251), "RightHand": (730, 505, 1103),
    "RightUpperLeg": (306, 288, 936), "RightLowerLeg": (363, 263, 515), "RightFoot": (397, 218, 88),
}  # fmt: skip


def angle(a, b):
    """Degrees between vectors (..., 3)."""
    return np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), (a * b).sum(axis=-1)))


def places(clip):
    """Positions (T, 3) of a clip's joints by canonical name; the hips are the midpoint of the legs."""
    joints, _ = clip.retargeter().observe(clip.quats, clip.root)
    names = list(clip.retarget("humanoid").skeleton.names)
    at = {name: joints[:, index] for index, name in enumerate(names)}
    return at | {"hips": 0.5 * (at["left_upper_leg"] + at["right_upper_leg"])}


def directions(clip):
    """Directions (T, 3) of a clip's bones."""
    at = places(clip)
    return {bone: at[end] - at[start] for bone, (start, end) in BONES.items()}


def load(folder: Path, data: bytes, **options) -> pa.Clip:
    path = folder / "take.c3d"
    path.write_bytes(data)
    return pa.load_motion(path, **options)


@pytest.fixture(scope="module")
def clip():
    return walker()


@pytest.fixture(scope="module")
def markers(clip):
    return markers_of(clip)


@pytest.fixture(scope="module")
def body(markers, tmp_path_factory):
    return load(tmp_path_factory.mktemp("c3d"), c3d_bytes(markers, 60.0))


def same(a, b, degrees=0.5):
    """Whether the bones of two clips have the same directions."""
    mine, other = directions(a), directions(b)
    return all(angle(mine[bone], other[bone]).max() < degrees for bone in BONES)


@pytest.mark.parametrize(
    "name", ["01_01.bvh", "02_01.amc", "05_13.bvh", "06_05.bvh", "07_01.bvh", "35_01.amc", "49_01.amc"]
)
def test_bones_point_where_those_of_the_body_do_that_wore_the_markers(data_dir, tmp_path, name):
    clip = pa.load_motion(data_dir / "cmu" / name)
    read = load(tmp_path, c3d_bytes(markers_of(clip), clip.rate))
    assert (read.rate, read.frames, read.up, read.unit) == (clip.rate, clip.frames, "z", 0.001)
    for shown in (read, read.retarget("humanoid")):
        truth, found = directions(clip), directions(shown)
        apart = {bone: angle(truth[bone], found[bone]).mean() for bone in BONES}
        assert np.mean(list(apart.values())) < 6.0, apart
        assert max(apart.values()) < 10.0, apart
    assert np.linalg.norm(places(clip)["hips"] - places(read)["hips"], axis=-1).max() < 0.05


def test_a_real_performers_joints_are_where_vicon_found_them():
    frame = {name: np.array([place]) / 1000 for name, place in REAL.items()}
    marker_body = body_from_markers(Path("real.c3d"), frame)
    clip = pa.Clip(marker_body.quats, marker_body.root, 100.0, marker_body.skeleton)
    at = dict(zip(clip.skeleton.names, clip.positions()[0], strict=True))
    for name, place in VICON.items():
        assert np.linalg.norm(at[name] - np.array(place) / 1000) < 0.033, name
    for side in ("Left", "Right"):
        for first, last in (
            ("UpperArm", "LowerArm"),
            ("LowerArm", "Hand"),
            ("UpperLeg", "LowerLeg"),
            ("LowerLeg", "Foot"),
        ):
            start, end = side + first, side + last
            assert angle(at[end] - at[start], np.subtract(VICON[end], VICON[start])) < 5.0, start


def test_a_body_stands_walks_and_plays(clip, body):
    assert same(clip, body, degrees=15.0)
    assert [warning for warning in body.warnings if "z is up" not in warning] == []
    human = body.retarget("humanoid")
    assert human.root[:, 1].min() > 0.8
    assert human.mask.sum() >= 18
    assert np.isfinite(body.features()).all()


@pytest.mark.parametrize(
    "options", [{"unit": "m"}, {"unit": "cm"}, {"unit": "mm", "scale": 0.2}], ids=["m", "cm", "whole numbers"]
)
def test_units_and_kinds_of_numbers_say_the_same(markers, body, tmp_path, options):
    read = load(tmp_path, c3d_bytes(markers, 60.0, **options))
    assert same(read, body)
    np.testing.assert_allclose(read.root, body.root, atol=2e-3)


def test_subjects_have_names_and_of_several_the_first_is_read(markers, body, tmp_path):
    ours = {f"Ann:{name}": place for name, place in markers.items()}
    others = {f"Bob:{name}": place + 1.0 for name, place in markers.items()}
    assert same(load(tmp_path, c3d_bytes({"*12": markers["C7"], **ours}, 60.0)), body)
    low = {name.replace(":", "_"): place for name, place in ours.items()}
    assert same(load(tmp_path, c3d_bytes(low, 60.0)), body)
    both = load(tmp_path, c3d_bytes(ours | others, 60.0))
    np.testing.assert_array_equal(both.quats, load(tmp_path, c3d_bytes(ours, 60.0)).quats)
    assert "more than one performer: the first, Ann, was read" in both.warnings
    # Ann wears less of those that may be missing, and is still the first.
    fewer = {name: place for name, place in ours.items() if name[4:] not in ("T10", "LPSI", "RPSI")}
    fewer["Ann:SACR"] = 0.5 * (ours["Ann:LPSI"] + ours["Ann:RPSI"])
    both = load(tmp_path, c3d_bytes(fewer | others, 60.0))
    np.testing.assert_array_equal(both.quats, load(tmp_path, c3d_bytes(fewer, 60.0)).quats)
    assert "more than one performer: the first, Ann, was read" in both.warnings


def test_cmus_names_and_a_sacrum_are_understood(markers, body, tmp_path):
    waist = {name.replace("ASI", "FWT").replace("PSI", "BWT").lower(): p for name, p in markers.items()}
    assert same(load(tmp_path, c3d_bytes(waist, 60.0)), body)
    sacrum = dict(markers)
    sacrum["SACR"] = 0.5 * (sacrum.pop("LPSI") + sacrum.pop("RPSI"))
    assert same(load(tmp_path, c3d_bytes(sacrum, 60.0)), body)


def test_without_markers_that_can_be_missed_there_is_still_a_body(clip, markers, tmp_path):
    few = {name: place for name, place in markers.items() if name not in ("T10", "STRN", "LFIN", "RFIN")}
    assert same(load(tmp_path, c3d_bytes(few, 60.0)), clip, degrees=15.0)


def test_hidden_markers_are_bridged_and_told(markers, body, tmp_path):
    gone = {name: place.copy() for name, place in markers.items()}
    gone["LELB"][100:112] = gone["RKNE"][:40] = np.nan
    read = load(tmp_path, c3d_bytes(gone, 60.0))
    assert "markers often hidden, bridged straight: RKNE 17%" in read.warnings
    mine, whole = directions(read), directions(body)
    assert angle(mine["left upper_arm"][100:112], whole["left upper_arm"][100:112]).max() < 15.0
    assert angle(mine["right upper_leg"][40:], whole["right upper_leg"][40:]).max() < 1.5


def test_axes_of_the_left_hand_are_put_right_before_there_is_a_body(markers, body, tmp_path):
    read = load(tmp_path, c3d_bytes({n: p * (-1, 1, 1) for n, p in markers.items()}, 60.0))
    assert "axes of the left hand, or left and right exchanged: its markers were mirrored" in read.warnings
    assert not any("mirrored" in line for line in body.warnings)
    assert same(read, body)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda m: {n: p for n, p in m.items() if n not in ("LELB", "C7")},
            "needs the markers of a whole body, missing: C7, LELB; it has CLAV",
        ),
        (lambda m: {f"m{n}": p for n, p in m.items()}, "it has none of Plug-in Gait's or CMU's names"),
        (
            lambda m: {n: np.where(np.arange(len(p))[:, None] < 9, p, np.nan) for n, p in m.items()},
            "RTOE; all are hidden in more than half of the frames",
        ),
        (lambda m: m | {"RTOE": np.full_like(m["RTOE"], np.nan)}, "missing: RTOE; it has"),
    ],
)
def test_what_is_missing_is_named_in_one_line(markers, tmp_path, change, says):
    with pytest.raises(pa.MotionError) as caught:
        load(tmp_path, c3d_bytes(change(markers), 60.0))
    assert says in str(caught.value)
    assert "take.c3d" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[: len(data) // 2], "is cut short"),
        (lambda data: data[:600], "is a broken C3D file"),
        (lambda data: data[:1] + b"Q" + data[2:], "is a broken C3D file: C3D magic"),
        (lambda data: data[:2] + bytes(2000), "is a broken C3D file: its header names no type of processor"),
        (lambda data: data.replace(b"LABELS", b"LIBELS"), "it has none of"),
        (lambda data: data.replace(np.float32(60.0).tobytes(), np.float32(0.0).tobytes()), "POINT:RATE"),
        (lambda data: data.replace(np.float32(60.0).tobytes(), np.float32(np.nan).tobytes()), "C3D|RATE"),
    ],
)
def test_what_is_damaged_is_refused_in_one_line(markers, tmp_path, change, says):
    with pytest.raises(pa.FormatError, match=says) as caught:
        load(tmp_path, change(c3d_bytes(markers, 60.0)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rate", [29.97, 59.94, 119.88, 239.76, 120000 / 1001])
@pytest.mark.parametrize("samples", [5, 10])
def test_rates_of_video_have_no_quotient_to_the_last_bit(markers, rate, samples):
    few = {name: place[:20] for name, place in markers.items()}
    data = c3d_bytes(few, 60.0, analog=samples)
    for factor in (1, samples):
        data = data.replace(np.float32(factor * 60.0).tobytes(), np.float32(factor * rate).tobytes())
    read = read_c3d(Path("take.c3d"), data)
    assert read.rate == pytest.approx(rate)
    np.testing.assert_array_equal(read.root, read_c3d(Path("take.c3d"), c3d_bytes(few, 60.0)).root)
    with pytest.raises(pa.FormatError, match=f"inconsistent analog count: {2 * samples} in its header"):
        read_c3d(Path("take.c3d"), data[:18] + np.uint16(samples - 1).tobytes() + data[20:])


def test_what_a_header_says_otherwise_is_told_or_refused(markers):
    few = {name: place[:20] for name, place in markers.items()}
    data = c3d_bytes(few, 120.0)
    plain = read_c3d(Path("take.c3d"), data)
    idle = read_c3d(Path("take.c3d"), data[:18] + b"\1\0" + data[20:])  # an analog sample of no channel
    assert (idle.rate, idle.warnings) == (120.0, plain.warnings)
    for rate, stated in ((0.0, "0"), (119.88, "119.88")):
        other = data[:20] + np.float32(rate).tobytes() + data[24:]
        read = read_c3d(Path("take.c3d"), other)
        assert read.rate == 120.0
        assert (
            f"POINT:RATE is 120 Hz, its header says {stated}: if that is wrong, give --" in read.warnings[0]
        )
        assert read_c3d(Path("take.c3d"), other, rate=120.0).warnings == plain.warnings
    with pytest.raises(pa.FormatError, match="inconsistent point count: 2 in its header"):
        read_c3d(Path("take.c3d"), data[:2] + b"\2\0" + data[4:])


def test_numbers_of_a_dec_need_no_analog_data(markers):
    """The library reads their analog rate of 0 Hz as -1.7e38."""
    few = {name: place[:20] for name, place in markers.items()}
    data = c3d_bytes(few, 60.0, scale=0.2)
    plain = read_c3d(Path("take.c3d"), data)
    for number in (60.0, 0.2):
        words = np.frombuffer(np.float32(4.0 * number).tobytes(), np.uint16)[::-1]
        data = data.replace(np.float32(number).tobytes(), words.tobytes())
    read = read_c3d(Path("take.c3d"), data[:515] + b"U" + data[516:])
    assert (read.rate, read.warnings) == (60.0, plain.warnings)
    np.testing.assert_array_equal(read.root, plain.root)


def test_a_reader_that_is_missing_is_named_with_its_extra(markers, tmp_path, monkeypatch):
    data = c3d_bytes(markers, 60.0)
    monkeypatch.setitem(sys.modules, "c3d", None)
    with pytest.raises(pa.FormatError, match=r"C3D files need c3d: pip install 'pyanticip\[c3d\]'"):
        load(tmp_path, data)


def test_labels_beyond_255_stand_in_a_second_parameter(markers, body, tmp_path, monkeypatch):
    """As written by Vicon, whose models' results are points as well."""
    many = {f"Angles{number}": markers["C7"] for number in range(240)} | markers

    def two(self, labels):
        for name, part in (("LABELS", labels[:255]), ("LABELS2", labels[255:])):
            padded, length = c3d.Writer.pack_labels(part)
            self.point_group.add_str(name, "", padded, length, len(part))
        self.point_group.add_str("DESCRIPTIONS", "", " ", 1, 1)

    monkeypatch.setattr(c3d.Writer, "set_point_labels", two)
    many = {name: place[:60] for name, place in many.items()}
    np.testing.assert_allclose(load(tmp_path, c3d_bytes(many, 60.0)).root, body.root[:60], atol=1e-3)


def test_nobody_wears_what_has_no_name():
    assert [subject.columns for subject in find_subjects(["*1", "", "LKneeAngles"])] == [{}]


def test_a_marker_is_hidden_where_its_residual_its_zero_or_its_distance_says_so():
    seen = [[1.0, 2.0, 3.0, 0.0], [0.0, 0.0, 4.0, 0.5], [0.0, -4.0, 0.0, 0.0], [1e12, 0.0, 0.0, 0.0]]
    hidden = [[1.0, 2.0, 3.0, -1.0], [0.0, 0.0, 0.0, 0.0], [1.01e12, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, np.nan]]
    hidden.append([np.nan, 1.0, 1.0, 0.0])
    seen.append([1.0, 1.0, 1.0, -0.5])  # a residual is a whole number, whatever its type
    places = np.array([seen, hidden]).transpose(1, 0, 2)
    found = marked(Subject("Ann", {"SEEN": 8, "HIDDEN": 3}), places, 0.001)
    np.testing.assert_allclose(found["SEEN"], 0.001 * np.array(seen)[:, :3])
    assert np.isnan(found["HIDDEN"]).all()


@pytest.mark.parametrize("scale", [-1.0, 0.2])
def test_bytes_that_are_not_there_are_missed_whatever_the_numbers_take(markers, scale):
    few = {name: place[:20] for name, place in markers.items()}
    data = c3d_bytes(few, 60.0, scale=scale)
    needed = 20 * len(few) * (16 if scale < 0 else 8)
    start = len(data) - 512 * -(-needed // 512)
    whole = read_c3d(Path("take.c3d"), data[: start + needed] + bytes(512))
    assert (len(whole), whole.rate, whole.unit) == (20, 60.0, 0.001)
    with pytest.raises(
        pa.FormatError, match=rf"is cut short: {needed - 1} bytes of 20 frames, expected {needed}"
    ):
        read_c3d(Path("take.c3d"), data[: start + needed - 1])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scale", [-1.0, 0.1])
def test_more_frames_than_a_header_can_tell_are_counted(markers, scale):
    data = c3d_bytes({name: place[:20] for name, place in markers.items()}, scale=scale)
    size = len(markers) * 4 * (4 if scale < 0 else 2)
    reader = c3d.Reader(io.BytesIO(data))
    start = 512 * (reader.header.data_block - 1)
    head = bytearray(data[:start].replace(b"ACTUAL_END", b"ACTUAL_ANY"))
    head[8:10] = b"\xff\xff"
    rows = data[start : start + 20 * size] * 3300
    long = bytes(head) + rows + bytes(-len(rows) % 512)
    reader = c3d.Reader(io.BytesIO(long))
    assert _count(Path("long.c3d"), long, reader, size) == 66000
    # The same of a part of a take, where a parameter counts no further than the header.
    reader.header.first_frame, reader.get("POINT:FRAMES").bytes = 3, b"\xff\xff"
    assert _count(Path("long.c3d"), long, reader, size) == 66000


def test_a_unit_that_is_given_is_taken_at_its_word(markers):
    few = {name: place[:20] for name, place in markers.items()}
    plain = read_c3d(Path("take.c3d"), c3d_bytes(few, 60.0))
    assert not [line for line in plain.warnings if "--units" in line]
    ells = c3d_bytes(few, 60.0, unit="ells")
    warning = "its unit of length is 'ells': millimetres are assumed; if that is wrong, give --units "
    assert read_c3d(Path("take.c3d"), ells).warnings[0].startswith(warning)
    in_cm = read_c3d(Path("take.c3d"), ells, length_unit="cm", rate=50.0)
    assert warning not in in_cm.warnings
    assert (in_cm.rate, in_cm.unit) == (50.0, 0.01)
    assert "m from hips to fingertips: if that is wrong, give --units" in in_cm.warnings[-1]
    # The distance of a joint from its markers does not scale with them.
    np.testing.assert_allclose(in_cm.root, 10.0 * plain.root, atol=0.15)


def millimetres(markers, frames=20):
    """The names and the places (T, N, 3), z up, of the first frames."""
    places = 1000.0 * np.stack([place[:frames] for place in markers.values()], axis=1)
    return list(markers), np.stack((places[..., 0], -places[..., 2], places[..., 1]), axis=-1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("channels", [0, 3])
@pytest.mark.parametrize("scale", [-1.0, 0.1])
@pytest.mark.parametrize("processor", PROCESSORS)
def test_numbers_of_every_processor_are_those_that_the_library_reads(markers, processor, scale, channels):
    names, places = millimetres(markers)
    data = raw_c3d(names, places, processor=processor, scale=scale, channels=channels)
    read = _points(Path("take.c3d"), data, _reader(c3d.Reader, data), [4, 2])
    frames = [points for _, points, _ in c3d.Reader(io.BytesIO(data)).read_frames()]
    np.testing.assert_array_equal(read, np.array(frames)[:, [4, 2], :4])
    np.testing.assert_allclose(read[..., :3], places[:, [4, 2]], atol=0.06)


@pytest.mark.parametrize(
    ("unit", "scale"), [("m", 1.0), ("METERS", 1.0), ("centimetres", 0.01), ("mm", 0.001)]
)
@pytest.mark.parametrize("pad", [b" ", b"\0"])
def test_texts_may_end_in_zeros_and_units_be_spelt_out(markers, unit, scale, pad):
    names, places = millimetres(markers)
    read = read_c3d(Path("take.c3d"), raw_c3d(names, 0.001 / scale * places, unit=unit, pad=pad))
    assert (read.unit, [line for line in read.warnings if "unit" in line]) == (scale, [])


def test_more_analog_channels_than_a_parameter_holds_do_not_matter(markers):
    names, places = millimetres(markers)
    plain = read_c3d(Path("take.c3d"), raw_c3d(names, places))
    data = raw_c3d(names, places, channels=300)
    np.testing.assert_array_equal(read_c3d(Path("take.c3d"), data).quats, plain.quats)
    # Samples a frame, so many that their number in 16 bits is 300 again.
    many = data[:18] + (16385).to_bytes(2, "little") + data[20:]
    with pytest.raises(pa.FormatError, match="inconsistent analog count"):
        read_c3d(Path("take.c3d"), many)


def test_of_the_scale_of_real_numbers_only_the_sign_counts(markers):
    names, places = millimetres(markers)
    plain = read_c3d(Path("take.c3d"), raw_c3d(names, places))
    read = read_c3d(Path("take.c3d"), raw_c3d(names, places, scale=-0.05))
    np.testing.assert_array_equal(read.quats, plain.quats)
    for wrong in (0.1, np.nan):
        with pytest.raises(pa.FormatError, match="inconsistent scale factor"):
            read_c3d(Path("take.c3d"), raw_c3d(names, places, header_scale=wrong))
    other = read_c3d(Path("take.c3d"), raw_c3d(names, places, header_scale=-0.1))
    np.testing.assert_array_equal(other.quats, plain.quats)


@pytest.mark.parametrize(
    ("header", "trial"),
    [
        ((65535, 65535), (70_001, 70_020)),  # a part of a long take
        ((4465, 4484), (70_001, 70_020)),  # the same, if only the lower half is in the header
        ((65530, 13), (65_530, 65_549)),
        ((1, 20), (1, 3000)),  # a part that was cut out of it, without a word in this parameter
        ((1, 20), (11, 20)),
        ((1, 20), None),
    ],
)
def test_the_frames_that_are_there_are_read_wherever_they_are_counted_from(markers, header, trial):
    names, places = millimetres(markers)
    data = raw_c3d(names, places, header=header, trial=trial)
    assert len(read_c3d(Path("take.c3d"), data)) == 20
    with pytest.raises(pa.FormatError, match="is cut short"):
        read_c3d(Path("take.c3d"), data[:-512])


def test_without_a_frame_nothing_is_read(markers):
    names, places = millimetres(markers)
    with pytest.raises(pa.FormatError, match="has no frame of markers"):
        read_c3d(Path("take.c3d"), raw_c3d(names, places, header=(1, 0)))


def test_whole_numbers_times_zero_are_no_places(markers):
    names, places = millimetres(markers)
    data, tenth = raw_c3d(names, places, scale=0.1), np.float32(0.1).tobytes()
    assert data.count(tenth) == 2
    with pytest.raises(pa.FormatError, match="all are hidden"):
        read_c3d(Path("take.c3d"), data.replace(tenth, bytes(4)))


@pytest.mark.parametrize(("screen", "up"), [("+Z", "z"), ("+Y", "-x"), ("", "-x")])
def test_whoever_lies_does_not_stand_if_the_file_says_which_way_is_up(markers, tmp_path, screen, up):
    names, places = millimetres(markers, 120)
    standing = load(tmp_path, raw_c3d(names, places, screen=screen))
    assert (standing.up, [line for line in standing.warnings if "assumed" in line]) == ("z", [])
    lying = np.stack((-places[..., 2], places[..., 1], places[..., 0]), axis=-1)  # on the back
    lying[..., 2] += 40.0 - lying[..., 2].min()
    read = load(tmp_path, raw_c3d(names, lying, screen=screen))
    told = "z is assumed; if that is wrong, give --up -x, which has the head up"
    assert (read.up, any(told in line for line in read.warnings)) == (up, up == "z")
