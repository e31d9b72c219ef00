"""The body within a BVH hierarchy: joints above, beside and on it; and unusual spellings."""

import re

import numpy as np
import pytest
from support.clips import walking_clip
from support.motion_files import BVH_HEADER, ROWS, bvh_text, t_pose_bvh, write_bvh
from support.odd_rigs import walker

import pyanticip as pa
from pyanticip.errors import FormatError
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.rotations import angle_between, conjugate, multiply
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.units import UNITS

SIX = "CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation\n"
NAMED = {"UpLegEnd": "Leg", "ArmEnd": "ForeArm"}
"""Names with which the joints of ``t_pose_bvh`` are recognised as a body."""


@pytest.mark.parametrize("names", [NAMED, {"Hips": "b1", "UpLeg": "b2", "Arm": "b3", "Spine": "b4"}])
def test_whatever_stands_above_the_hips_is_folded_into_them(tmp_path, names):
    text = t_pose_bvh(30)
    for old, new in names.items():
        text = text.replace(old, new)
    header, motion = text.split("MOTION")
    rows = np.loadtxt(motion.strip().split("\n")[2:])
    rows[:, 0] += np.arange(30)
    helper = f"JOINT LeftFootIK\n{{\nOFFSET 0 0 0\n{SIX}}}\n"
    if names is NAMED:  # in a recognised body they may be chains
        helper = helper.replace("}", "JOINT Pole\n{\nOFFSET 0 9 0\n}\n}")
    above = np.zeros((30, 18))
    above[:, 2], above[:, 6], above[:, 12] = 30.0, 20.0, np.arange(30)
    bare = pa.load_motion(write_bvh(tmp_path, header + bvh_text(rows)[len(BVH_HEADER) :]))
    header = (
        f"HIERARCHY\nROOT World\n{{\nOFFSET 0 0 0\n{SIX}JOINT Reference\n{{\nOFFSET 0 0 0\n{SIX}{helper}"
        + header[header.index("ROOT") :].replace("ROOT", "JOINT")
        + "}\n}\n"
    )
    rows = np.concatenate((above, rows), axis=1)
    clip = pa.load_motion(write_bvh(tmp_path, header + bvh_text(rows)[len(BVH_HEADER) :]))
    assert clip.skeleton.names == bare.skeleton.names
    np.testing.assert_array_equal(clip.quats, bare.quats)
    np.testing.assert_allclose(clip.root, bare.root + np.array([0.2, 0.0, 0.3]), atol=1e-6)
    assert np.ptp(clip.root[:, 0]) > 0.25
    assert "the reference joint 'World' was folded into 'Reference'" in clip.warnings
    assert f"the reference joint 'Reference' was folded into {clip.skeleton.names[0]!r}" in clip.warnings
    warning = (
        "no joint found for neck, head, left_foot, right_foot: if there is one, give --joints MAP (joints="
    )
    warning += " in Python)"
    assert (warning in clip.warnings) == (names is NAMED)
    assert any(line.startswith("not of the body and left out: 'LeftFootIK'") for line in clip.warnings)


def test_names_in_shift_jis_are_read(tmp_path):
    # The last byte of its "\u30dc" is that of a brace.
    text = bvh_text().replace("LeftArm", "\u5de6\u8155").replace("Spine", "\u30dc\u30c7\u30a3")
    for encoding in ("cp932", "utf-8"):
        names = pa.load_motion(write_bvh(tmp_path, text.encode(encoding))).skeleton.names
        assert {"\u5de6\u8155", "\u30dc\u30c7\u30a3"} <= set(names)


def test_names_in_latin_1_are_read(tmp_path):
    # In Shift-JIS, \xe9_ would be one character.
    text = bvh_text().replace("LeftArm", "Ren\xe9_LeftArm").replace("Spine", "R\xfccken")
    names = pa.load_motion(write_bvh(tmp_path, text.encode("latin-1"))).skeleton.names
    assert {"Ren\xe9_LeftArm", "R\xfccken"} <= set(names)


def test_a_root_below_a_body_is_not_its_hips(tmp_path):
    # As in Roblox' figures; in Rigify's the hips are DEF-spine.
    clip = walker()
    body = clip.skeleton
    names = ("Root", "LowerTorso", *body.names[1:])
    parents = np.concatenate(([-1], body.parents + 1))
    ends = {joint + 1: tip for joint, tip in body.tips.items()}
    skeleton = Skeleton(names, parents, np.insert(body.offsets, 0, 0.0, axis=0), tips=ends)
    quats = np.insert(clip.quats, 0, (1.0, 0.0, 0.0, 0.0), axis=1)
    save_bvh(pa.Clip(quats, clip.root, clip.rate, skeleton), tmp_path / "clip.bvh")
    read, expected = pa.load_motion(tmp_path / "clip.bvh").retarget("humanoid"), clip.retarget("humanoid")
    assert np.abs(expected.quats[:, 0, 2]).max() > 0.1, "the hips turn"
    np.testing.assert_allclose(read.quats, expected.quats, atol=1e-4)


@pytest.mark.parametrize("unit", ["m", "cm", "mm", "in", "cmu"])
@pytest.mark.parametrize(("staff", "tall"), [(0.1, 1.0), (0.6, 1.0), (1.0, 1.0), (3.2, 1.0), (0.1, 1.28)])
def test_neither_a_staff_nor_a_root_on_the_floor_makes_a_body_longer(tmp_path, unit, staff, tall):
    body = canonical_skeleton()
    metres = np.concatenate((np.zeros((1, 3)), body.offsets * tall, [[0, 0, staff]]))
    metres[1, 1] = 0.95
    parents = [-1, *(body.parents + 1).tolist(), 1 + body.names.index("right_hand")]
    in_file = metres * 0.01 / UNITS[unit]  # files are written in centimetres
    skeleton = Skeleton(("Root", *body.names, "Staff"), np.array(parents), in_file)
    still = np.tile([1.0, 0.0, 0.0, 0.0], (5, len(parents), 1))
    save_bvh(pa.Clip(still, np.zeros((5, 3)), 50, skeleton), tmp_path / "clip.bvh")
    clip = pa.load_motion(tmp_path / "clip.bvh")
    assert clip.unit == UNITS[unit]
    assert not any("hips to fingertips" in line for line in clip.warnings)


def test_positions_that_are_lost_are_told_of(tmp_path):
    text = bvh_text().replace("CHANNELS 3 Yrotation Xrotation Zrotation", SIX.strip())
    start = text.index("Frame Time: 0.02\n") + len("Frame Time: 0.02\n")
    for reach, warns in ((2.0, False), (20.0, True)):
        moves = np.stack((np.zeros(6), -42.0 + np.linspace(0, reach, 6), np.zeros(6)), axis=1)
        rows = np.insert(ROWS, [9, 9, 9], moves, axis=1)
        lines = "\n".join(" ".join(f"{value:g}" for value in row) for row in rows)
        clip = pa.load_motion(write_bvh(tmp_path, text[:start] + lines))
        assert any("positions of 'LeftLeg' move" in line for line in clip.warnings) == warns


@pytest.mark.parametrize("root", [True, False])
def test_a_body_without_rotations_is_refused(tmp_path, root):
    # Its root may turn.
    text = re.sub("CHANNELS 3 .*", "CHANNELS 3 Xposition Yposition Zposition", bvh_text())
    if not root:
        text = text.replace("CHANNELS 6", "CHANNELS 3").replace(" Zrotation Yrotation Xrotation", "")
        text = text.split("Frame Time")[0] + "Frame Time: 0.02\n" + "\n".join(["1 " * 15] * 6) + "\n"
    with pytest.raises(FormatError, match=r"has positions of joints and no rotations: export rotations$"):
        pa.load_motion(write_bvh(tmp_path, text))


@pytest.mark.parametrize(("factor", "warns"), [(1.0, False), (np.pi / 180.0, True), (0.01 / 60.0, False)])
def test_angles_in_radians_are_warned_of(tmp_path, factor, warns):
    rows = ROWS.copy()
    rows[:, 3:] *= factor
    clip = pa.load_motion(write_bvh(tmp_path, bvh_text(rows)))
    assert any("are its angles in radians? BVH has degrees" in line for line in clip.warnings) == warns


def test_comments_and_other_spellings_of_an_end_site_are_read(tmp_path):
    plain = bvh_text()
    clip = pa.load_motion(write_bvh(tmp_path, plain))
    assert "End Site" in plain
    for text in (
        "# by hand\n\n  # and once more\n" + plain,
        plain.replace("MOTION\n", "# now\nMOTION\n # of a dance\n"),
        plain.rstrip() + "\n# the end\n",
        plain.replace("End Site", "EndSite"),
        plain.replace("End Site", "End_Site"),
        re.sub(r"(End Site\s*\{)", r"\1\nCHANNELS 0\n", plain),
    ):
        assert text != plain
        read = pa.load_motion(write_bvh(tmp_path, text))
        assert read.skeleton.names == clip.skeleton.names
        assert read.skeleton.tips == clip.skeleton.tips
        np.testing.assert_array_equal(read.quats, clip.quats)


def test_a_frame_time_with_a_comma_is_told_what_it_needs(tmp_path):
    with pytest.raises(FormatError, match=r"got '0,00833' \(decimals need a point, not a comma\); correct"):
        pa.load_motion(write_bvh(tmp_path, bvh_text(frame_time="0,00833")))


def test_a_way_that_nobody_goes_and_none_at_all_are_told(tmp_path):
    rows = ROWS.copy()
    rows[:, :3] *= 100.0  # a root in another unit than the bones
    far = pa.load_motion(write_bvh(tmp_path, bvh_text(rows)))
    assert "is it in the unit of the bones, is the frame time right?" in far.warnings[-1]
    rows = ROWS[[0] + 40 * [1]]
    rows[:, 0] = 100.0 * (np.arange(41) > 0)  # one jump, from a pose at the origin
    warnings = pa.load_motion(write_bvh(tmp_path, bvh_text(rows))).warnings
    assert not any("a root that moves" in line for line in warnings)
    text = bvh_text(ROWS[:, 3:]).replace("6 Xposition Yposition Zposition", "3")
    still = pa.load_motion(write_bvh(tmp_path, text))
    assert still.warnings[-1] == "has no positions of the body: it stays where it is"
    assert np.ptp(still.root, axis=0).max() == 0.0
    above = BVH_HEADER.replace("ROOT Hips", "ROOT World\n{\nOFFSET 0 0 0\nCHANNELS 0\nJOINT Hips") + "}\n"
    moved = pa.load_motion(write_bvh(tmp_path, above + bvh_text()[len(BVH_HEADER) :]))
    assert not any("has no positions" in line for line in moved.warnings)


def test_a_body_that_hangs_from_its_head_is_hung_from_its_hips(tmp_path):
    # As SlimeVR records: bones point down from the head, and the arms hang from the neck.
    body = walking_clip(4.0)
    trunk = ("HEAD", "NECK", "UPPER_CHEST", "CHEST", "WAIST", "HIP")
    bones = [(name, trunk[max(at - 1, 0)], (0.0, -0.1, 0.0)) for at, name in enumerate(trunk)]
    for side, x in (("LEFT", 0.1), ("RIGHT", -0.1)):
        for above, limb, step in (
            ("HIP", ("UPPER_LEG", "LOWER_LEG", "FOOT"), (0.0, -0.4, 0.0)),
            ("NECK", ("SHOULDER", "UPPER_ARM", "LOWER_ARM", "HAND"), (2 * x, 0.0, 0.0)),
        ):
            for bone in limb:
                bones.append((f"{side}_{bone}", above, (x, -0.1, 0.0) if bone == limb[0] else step))
                above = f"{side}_{bone}"
    names = [name for name, *_ in bones]
    parents = [-1, *(names.index(above) for _, above, _ in bones[1:])]
    order = {"hip": "hips", "waist": "spine"}
    joints = [body.skeleton.index(order.get(name.lower(), name.lower())) for name in names]
    world = body.global_rotations()[:, joints]
    quats = world.copy()
    quats[:, 1:] = multiply(conjugate(world[:, parents[1:]]), world[:, 1:])
    skeleton = Skeleton(tuple(names), parents, [offset for *_, offset in bones])
    hanging = pa.Clip(quats, body.root + np.array((0.0, 0.8, 0.0)), body.rate, skeleton)
    save_bvh(hanging, tmp_path / "hanging.bvh")
    clip = pa.load_motion(tmp_path / "hanging.bvh")
    assert clip.warnings == ("hangs from 'HEAD': it was hung from 'HIP'",)
    for name in ("HIP", "LEFT_FOOT", "RIGHT_HAND"):
        np.testing.assert_allclose(
            clip.positions()[:, clip.skeleton.index(name)],
            hanging.positions()[:, names.index(name)],
            atol=1e-3,
        )
    back = clip.retarget("humanoid")
    error = np.degrees(angle_between(back.global_rotations(), body.global_rotations()))
    assert error[:, back.mask].max() < 0.1
    assert back.mask[joints].all()
