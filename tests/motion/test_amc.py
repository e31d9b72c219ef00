"""ASF and AMC files."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.motion_files import AMC, ASF, write_amc

import pyanticip as pa
from pyanticip.errors import FormatError
from pyanticip.motion import amc
from pyanticip.motion.asf import AcclaimSkeleton, find_asf, read_asf

CMU = 0.0254 / 0.45


def test_channels_are_applied_about_the_bones_own_axes(tmp_path):
    clip = pa.load_motion(write_amc(tmp_path))
    assert clip.skeleton.names == ("root", "lfemur", "ltibia", "lowerback", "lclavicle")
    assert clip.skeleton.parents.tolist() == [-1, 0, 1, 0, 3]
    assert clip.rate == 120.0
    np.testing.assert_allclose(
        clip.root, np.array([[1, 16.5, -3], [1.1, 16.6, -3.1], [1.2, 16.7, -3.2]]) * CMU, atol=1e-6
    )
    # SciPy's lower-case orders are extrinsic: first x, then y, then z about fixed axes.
    femur = Rotation.from_euler("xyz", [0, 0, 20], degrees=True)
    move = Rotation.from_euler("xyz", [-32.9, -0.23, 22.4], degrees=True)
    clavicle = Rotation.from_euler("zyx", [30, 20, 10], degrees=True)
    lift = Rotation.from_euler("yz", [8, -4], degrees=True)
    for frame, joint, expected in (
        (0, 1, femur * move * femur.inv()),
        (2, 4, clavicle * lift * clavicle.inv()),
        (1, 0, Rotation.from_euler("xyz", [13, 1.5, -0.9], degrees=True)),
        (1, 3, Rotation.identity()),
    ):
        actual = Rotation.from_quat(clip.quats[frame, joint][[1, 2, 3, 0]])
        assert (actual.inv() * expected).magnitude() < 1e-6


def test_a_joint_sits_at_the_end_of_its_parents_bone(tmp_path):
    clip = pa.load_motion(write_amc(tmp_path))
    down = np.array([0.34202, -0.939693, 0.0])
    np.testing.assert_allclose(clip.skeleton.offsets[1], 0, atol=1e-9)
    np.testing.assert_allclose(clip.skeleton.offsets[2], down * 7 * CMU, atol=1e-6)
    np.testing.assert_allclose(clip.skeleton.tips[2], down * 7.5 * CMU, atol=1e-6)
    np.testing.assert_allclose(clip.skeleton.offsets[4], [0, 9 * CMU, 0], atol=1e-6)


def test_no_rate_is_said(tmp_path):
    assert "120 Hz assumed" in pa.load_motion(write_amc(tmp_path)).warnings[0]
    clip_60 = pa.load_motion(write_amc(tmp_path), rate=60)
    assert clip_60.rate == 60.0
    assert clip_60.warnings == ()


@pytest.mark.parametrize(
    ("motion", "skeleton", "radians"),
    [
        (":RADIANS\n", "deg", True),
        (":RADIANS\n", "rad", True),
        ("", "rad", True),
        (":DEGREES\n", "rad", False),
        ("", "deg", False),
    ],
)
def test_angles_are_what_the_motion_says_else_what_the_skeleton_says(tmp_path, motion, skeleton, radians):
    amc = f":FULLY-SPECIFIED\n{motion}1\nroot 0 0 0 0 1.5 0\n"
    clip = pa.load_motion(write_amc(tmp_path, amc, ASF.replace("angle deg", f"angle {skeleton}")))
    half = 0.75 if radians else np.radians(0.75)
    np.testing.assert_allclose(clip.quats[0, 0], [np.cos(half), 0, np.sin(half), 0], atol=1e-6)


@pytest.mark.parametrize(
    ("degrees", "unit", "warns"), [(60, "", True), (60, ":RADIANS", False), (0.2, "", False)]
)
def test_angles_in_radians_are_warned_of(tmp_path, degrees, unit, warns):
    frames = "".join(f"{n}\nltibia {n * np.radians(degrees) / 9}\n" for n in range(1, 10))
    clip = pa.load_motion(write_amc(tmp_path, f":FULLY-SPECIFIED\n{unit}\n{frames}"))
    line = f"rotations of up to {np.radians(degrees):.3g} degrees: are its angles in radians? if so, write"
    assert any(line in warning for warning in clip.warnings) == warns


@pytest.mark.parametrize(
    "mangle",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", " \t\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text + "\n\n",
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace("root ", "Root ").replace("lfemur -", "LFEMUR -"),
    ],
)
def test_spelling_does_not_matter(tmp_path, mangle):
    plain = pa.load_motion(write_amc(tmp_path))
    mangled = pa.load_motion(write_amc(tmp_path, mangle(AMC), mangle(ASF)))
    np.testing.assert_array_equal(mangled.quats, plain.quats)
    np.testing.assert_array_equal(mangled.skeleton.offsets, plain.skeleton.offsets)


def test_a_bone_that_a_frame_leaves_out_keeps_its_rotation(tmp_path):
    clip = pa.load_motion(write_amc(tmp_path, AMC.replace("ltibia 60.06\n", "")), rate=120)
    plain = pa.load_motion(write_amc(tmp_path), rate=120)
    assert clip.warnings == ("bones that 1 frame left out kept the rotation they had",)
    np.testing.assert_array_equal(clip.quats[1, 2], plain.quats[0, 2])
    np.testing.assert_array_equal(clip.quats[2], plain.quats[2])


def test_bones_in_another_order_are_the_same_motion(tmp_path):
    swapped = AMC.replace(
        "lfemur -31.9 -0.33 22.1\nltibia 60.06\n", "ltibia 60.06\nlfemur -31.9 -0.33 22.1\n"
    )
    assert swapped != AMC
    clip = pa.load_motion(write_amc(tmp_path, swapped))
    np.testing.assert_array_equal(clip.quats, pa.load_motion(write_amc(tmp_path)).quats)


def test_a_bone_that_never_comes_stays_at_rest(tmp_path):
    amc = "\n".join(line for line in AMC.split("\n") if not line.startswith("ltibia"))
    clip = pa.load_motion(write_amc(tmp_path, amc), rate=120)
    assert clip.warnings == ("in no frame, so at rest throughout: 'ltibia'",)
    np.testing.assert_array_equal(clip.quats[:, 2], np.tile([1, 0, 0, 0], (3, 1)))
    clip = pa.load_motion(write_amc(tmp_path, "1\nroot 1 2 3 4 5 6\n"), rate=120)
    assert clip.warnings == ("in no frame, so at rest throughout: 'lfemur', 'ltibia', 'lclavicle'",)


@pytest.mark.parametrize(
    ("channel", "values", "warns"),
    [("tx", "222", True), ("ty", "121", True), ("l", "787", True), ("l", "777", False), ("tz", "000", False)],
)
def test_translations_of_bones_are_left_out_with_a_warning(tmp_path, channel, values, warns):
    amc = AMC
    for place, value in zip(("61.06", "60.06", "59.06"), values, strict=True):
        amc = amc.replace(f"ltibia {place}", f"ltibia {place} {value}")
    asf = ASF.replace("dof rx\n", f"dof rx {channel}\n")
    clip = pa.load_motion(write_amc(tmp_path, amc, asf), rate=120)
    says = "bones do not stretch here: the translations of 'ltibia' are left out"
    assert clip.warnings == ((says,) if warns else ())
    np.testing.assert_array_equal(clip.quats, pa.load_motion(write_amc(tmp_path)).quats)


def test_frame_numbers_that_jump_are_said(tmp_path):
    clip = pa.load_motion(write_amc(tmp_path, AMC.replace("\n3\n", "\n7\n")), rate=120)
    assert len(clip) == 3
    assert "after frame 2" in clip.warnings[0]


def test_the_skeleton_is_found_or_given(tmp_path):
    path = write_amc(tmp_path, name="subject_x.amc")
    assert len(pa.load_motion(path)) == 3  # the only one in the folder
    (tmp_path / "08.asf").write_text("nonsense")
    with pytest.raises(FormatError, match=r"has no skeleton beside it: expected subject\.asf"):
        pa.load_motion(path)
    assert len(pa.load_motion(path, skeleton=tmp_path / "07.asf")) == 3
    with pytest.raises(FormatError, match=r"none\.asf: no such file"):
        pa.load_motion(path, skeleton=tmp_path / "none.asf")
    with pytest.raises(FormatError, match="skeleton without motion"):
        pa.load_motion(tmp_path / "07.asf")


def test_blocks_join_without_a_seam(tmp_path, monkeypatch):
    plain = pa.load_motion(write_amc(tmp_path))
    monkeypatch.setattr("pyanticip.motion.text.BLOCK_BYTES", 20)
    monkeypatch.setattr("pyanticip.motion.text.MAX_LINE_BYTES", 110)
    np.testing.assert_array_equal(pa.load_motion(write_amc(tmp_path)).quats, plain.quats)


BROKEN_AMC = {
    "unknown bone": (AMC.replace("ltibia 60", "rtibia 60"), r"amc:12: a bone 'rtibia' that the skeleton"),
    "too few": (
        AMC.replace("lfemur -31.9 -0.33 22.1", "lfemur -31.9 -0.33"),
        r"amc:11: lfemur has 3 numbers, got 2",
    ),
    "word": (AMC.replace("ltibia 60.06", "ltibia sixty"), r"amc:12: expected a number, got 'sixty'"),
    "cut at a line": (AMC[: AMC.rindex("lclavicle")], r"the last frame lacks 1 bone "),
    "no frames": (":FULLY-SPECIFIED\n:DEGREES\n", "has no frame"),
    "empty frames": (":FULLY-SPECIFIED\n1\n2\n3\n", "no frame has a bone"),
    "twice": (AMC.replace("ltibia 60.06", "ltibia 60.06\nltibia 60.06"), "amc:13: bone 'ltibia' comes twice"),
    "headless": (":FULLY-SPECIFIED\nroot 1 2 3 4 5 6\n", "amc:2: expected a frame number"),
}


BROKEN_ASF = {
    "cut": (ASF[: ASF.index(":hierarchy")], "has no :hierarchy"),
    "direction": (ASF.replace("direction 0 1 0", "direction 0 1"), r"asf:39: expected 3 numbers"),
    "dof": (ASF.replace("dof ry rz", "dof ry ry"), r"asf:49: expected some of"),
    "axis": (ASF.replace("30  ZYX", "30  ZZX"), r"asf:48: expected an axis order"),
    "unknown": (
        ASF.replace("    lfemur ltibia", "    lfemur rtibia"),
        "names a bone 'rtibia' that is not there",
    ),
    "loop": (
        ASF.replace("    lowerback lclavicle", "    lowerback lclavicle\n    ltibia lfemur"),
        "two parents",
    ),
    "loose": (ASF.replace("    lowerback lclavicle\n", ""), "'lclavicle' is not connected to the root"),
    "no length": (ASF.replace("length 0.45", "length 0"), "asf:6: length must be positive, got 0"),
    "named twice": (ASF.replace("name ltibia", "name lfemur"), "a second bone 'lfemur'"),
}


@pytest.mark.parametrize("kind", [*BROKEN_AMC, *BROKEN_ASF])
def test_broken_motion_and_skeletons(tmp_path, kind):
    amc, _ = BROKEN_AMC.get(kind, (AMC, ""))
    asf, _ = BROKEN_ASF.get(kind, (ASF, ""))
    _, reason = {**BROKEN_AMC, **BROKEN_ASF}[kind]
    with pytest.raises(FormatError, match=reason) as caught:
        pa.load_motion(write_amc(tmp_path, amc, asf))
    assert "\n" not in str(caught.value)


def test_frames_read_as_a_block_are_those_read_line_by_line(tmp_path, monkeypatch):
    block = pa.load_motion(write_amc(tmp_path), rate=120)
    monkeypatch.setattr(amc, "_read_regular", lambda *_: None)
    lines = pa.load_motion(write_amc(tmp_path), rate=120)
    np.testing.assert_array_equal(block.quats, lines.quats)
    np.testing.assert_array_equal(block.root, lines.root)
    assert block.warnings == lines.warnings == ()


def skeleton(*changes: tuple[str, str]) -> AcclaimSkeleton:
    text = ASF
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return read_asf(Path("small.asf"), text.encode())


def test_angles_of_a_skeleton_may_be_radians() -> None:
    plain = skeleton()
    turned = skeleton(
        ("angle deg", "angle rad"),
        ("axis 0 0 20 ", f"axis 0 0 {np.radians(20)}"),
        ("axis 10 20 30 ", f"axis {np.radians(10)} {np.radians(20)} {np.radians(30)}"),
    )
    assert (plain.degrees, turned.degrees) == (True, False)
    for one, other in zip(plain.bones, turned.bones, strict=True):
        np.testing.assert_allclose(one.axis, other.axis, atol=1e-12)


def test_a_bone_is_as_long_as_it_says_whatever_its_direction_measures() -> None:
    bones = {bone.name: bone.vector for bone in skeleton(("direction 0 1 0", "direction 0 -3 4")).bones}
    np.testing.assert_allclose(bones["lowerback"], [0.0, -5.4, 7.2])
    np.testing.assert_array_equal(bones["root"], 0.0)
    nowhere = {bone.name: bone.vector for bone in skeleton(("direction 0 1 0", "direction 0 0 0")).bones}
    np.testing.assert_array_equal(nowhere["lowerback"], 0.0)


def test_a_root_may_have_a_position_and_orientation(tmp_path: Path) -> None:
    asf = ASF.replace("position 0 0 0", "position 1 2 3").replace("orientation 0 0 0", "orientation 0 90 0")
    asf = asf.replace("order TX TY TZ RX RY RZ", "order TY RX TX")
    clip = pa.load_motion(write_amc(tmp_path, "1\nroot 5 40 7\n", asf))
    np.testing.assert_allclose(clip.root[0], np.array([8.0, 7.0, 3.0]) * CMU, atol=1e-6)
    # About the root's own x axis, which is the world's -z axis.
    about = Rotation.from_euler("z", -40, degrees=True)
    assert (Rotation.from_quat(clip.quats[0, 0][[1, 2, 3, 0]]).inv() * about).magnitude() < 1e-6


def test_the_unit_is_the_files_where_it_makes_a_body() -> None:
    inches = 0.0254 / 0.45
    assert skeleton().metres_per_unit(None) == pytest.approx(inches)
    reach = 14.5
    for length, taken in ((0.0254 * reach / 0.51, True), (0.0254 * reach / 0.49, False)):
        found = skeleton(("length 0.45", f"length {length}")).metres_per_unit(None)
        assert (found == pytest.approx(0.0254 / length)) == taken
    for length, taken in ((0.0254 * reach / 1.99, True), (0.0254 * reach / 2.01, False)):
        found = skeleton(("length 0.45", f"length {length}")).metres_per_unit(None)
        assert (found == pytest.approx(0.0254 / length)) == taken
    assert skeleton().metres_per_unit("cm") == 0.01


def test_a_skeleton_goes_by_the_name_of_the_take_then_of_its_subject(tmp_path: Path) -> None:
    for name in ("08.asf", "07.ASF", "07_01.asf"):
        (tmp_path / name).write_text("")
    assert find_asf(tmp_path / "07_01.amc").name == "07_01.asf"
    assert find_asf(tmp_path / "07_02.amc").name == "07.ASF"
    for name in ("HDM_bd.asf", "HDM_mm.asf"):
        (tmp_path / name).write_text("")
    assert find_asf(tmp_path / "HDM_bd_01-02_03_120.amc").name == "HDM_bd.asf"
    with pytest.raises(FormatError, match=r"expected 09\.asf"):
        find_asf(tmp_path / "09_01.amc")


def test_a_rate_that_the_motion_states_is_used(tmp_path: Path) -> None:
    stated = AMC.replace(":DEGREES", ":samples-per-second 60\n:DEGREES")
    clip = pa.load_motion(write_amc(tmp_path, stated))
    assert (clip.rate, [line for line in clip.warnings if "rate" in line]) == (60.0, [])
    assert pa.load_motion(write_amc(tmp_path, stated), rate=90.0).rate == 90.0
    for bad in ("0", "many"):
        with pytest.raises(pa.FormatError, match=r"07_01\.amc:3: .*(rate must be|expected a number)"):
            pa.load_motion(write_amc(tmp_path, stated.replace("second 60", f"second {bad}")))


def test_commas_in_a_skeleton_are_blanks(tmp_path: Path) -> None:
    with_commas = ASF.replace("0.34202 -0.939693 0", "0.34202,-0.939693, 0").replace("rx ry rz", "rx, ry, rz")
    read = pa.load_motion(write_amc(tmp_path, asf=with_commas))
    np.testing.assert_array_equal(read.quats, pa.load_motion(write_amc(tmp_path)).quats)


def test_a_body_that_nobody_has_is_told(tmp_path: Path) -> None:
    for length, tells in ((0.45, False), (0.6, True)):
        path = write_amc(tmp_path, asf=ASF.replace("length 0.45", f"length {length}"))
        told = [line for line in pa.load_motion(path).warnings if "from hips to fingertips" in line]
        assert bool(told) == tells
