"""Interpretation of files of any origin: the right body, or a clear error."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.clips import walking_clip
from support.odd_rigs import (
    about,
    difference,
    limb_errors,
    local_axes,
    lying_first,
    mirrored,
    on_hands,
    on_the_floor,
    sitting,
    turned_file,
    turned_world,
    walker,
    with_axes,
)

import pyanticip as pa
from pyanticip.errors import FormatError, OptionError, SkeletonError
from pyanticip.motion.agreement import bone_angles
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.joints import as_toml, guess_joints, read_joints
from pyanticip.motion.npz import save_npz
from pyanticip.motion.rotations import angle_between, multiply, rotate
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.understand import understand
from pyanticip.motion.world import up_axis

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
WORLDS = {
    "z": about(X, 90),
    "x": about(Z, -90),
    "-z": about(X, -90),
    "-x": about(Z, 90),
    "-y": about(Z, 180),
    "z turned": multiply(about(Z, 130), about(X, 90)),
}
Z_UP = ("dab", "zombie", "pybvh1", "pybvh3")
"""Third-party files with z up, determined from their numbers."""
STORED = (
    "makers/**/*.bvh",
    "more/accad-male1/*A[1-9]_*.bvh",
    "more/accad-male1/*C1[07]*.bvh",
    "more/cmu-85/**/*.bvh",
    "more/g1-moves/**/J_Dance1[12]_*.bvh",
    "more/movin-sample/**/*.bvh",
    "more/reactidle/p00[0-3]/*.bvh",
    "cmu/0[1-9]_0[12].bvh",
)


@pytest.mark.parametrize("lift", [0.5, 5.0, -30.0])
def test_off_the_floor_only_what_the_rest_pose_says_as_well_is_certain(lift: float) -> None:
    places = walking_clip(4.0).positions() + np.array((0.0, lift, 0.0))
    assert [up_axis(places, habit) for habit in (None, "y", "z")] == [("y", False), ("y", True), ("y", False)]
    assert up_axis(places - np.array((0.0, lift, 0.0)), None) == ("y", True)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_what_is_beside_a_body_off_the_floor_is_a_wall(side: float) -> None:
    still = np.repeat(walking_clip(1.0).positions()[:1], 60, axis=0) * np.array((side, 1.0, 1.0))
    beside = (side * still[..., 0]).min() * side
    places = still - np.array((beside - 0.05 * side, 1.0, 0.0))
    assert up_axis(places, "y") == ("y", False)
    assert up_axis(places, None) == ("x" if side > 0.0 else "-x", False)  # the body may as well be lying


def saved(clip: pa.Clip, folder: Path, name: str = "clip") -> Path:
    path = folder / f"{name}.bvh"
    save_bvh(clip, path)
    return path


@pytest.fixture(scope="module")
def right() -> pa.Clip:
    return walker()


@pytest.fixture(scope="module")
def body(right: pa.Clip) -> pa.Clip:
    return right.retarget("humanoid")


def test_the_walker_is_read_as_it_is(tmp_path, right, body):
    clip = pa.load_motion(saved(right, tmp_path))
    assert clip.warnings == ()
    assert (clip.up, clip.unit) == ("y", 0.01)
    assert angle_between(clip.retarget("humanoid").quats, body.quats).max() < 1e-3


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("change", [turned_world, turned_file])
def test_the_motion_tells_which_way_is_up(tmp_path, right, body, change, world):
    clip = pa.load_motion(saved(change(right, WORLDS[world]), tmp_path))
    assert clip.up == world.split()[0]
    assert any("up in the file: turned" in line for line in clip.warnings)
    head, foot = (clip.positions()[:, clip.skeleton.index(name), 1] for name in ("Head", "LeftFoot"))
    assert (head - foot).min() > 1.0
    assert difference(clip.retarget("humanoid"), body).max() < 2.0


@pytest.mark.parametrize("seed", range(3))
def test_the_motion_tells_the_rest_pose_of_bones_with_axes_of_their_own(tmp_path, right, body, seed):
    path = saved(local_axes(right, seed), tmp_path)
    clip = pa.load_motion(path)
    assert "the zero pose is no T-pose: the rest pose is estimated from the motion" in clip.warnings
    retargeted = clip.retarget("humanoid")
    assert max(limb_errors(path, retargeted).values()) < 1.0
    assert difference(retargeted, body).mean() < 2.0
    # Elbows and knees keep their hinge axes.
    joints = retargeted.skeleton.names
    for joint in ("left_lower_arm", "right_lower_leg"):
        off = np.degrees(
            angle_between(retargeted.quats[:, joints.index(joint)], body.quats[:, joints.index(joint)])
        )
        assert off.mean() < 8.0, joint


@pytest.mark.parametrize("axis", [X, Y, Z], ids="xyz")
@pytest.mark.parametrize("joint", ["Hips", "Spine", "Chest"])
def test_one_joint_of_the_trunk_with_axes_of_its_own_does_not_lie(right, body, joint, axis):
    """Its bones are short, so the limbs are in place although the joint is off by a right angle."""
    own = np.tile((1.0, 0.0, 0.0, 0.0), (len(right.skeleton), 1))
    own[right.skeleton.index(joint)] = about(axis, 90)
    quats = with_axes(right, own).quats.copy()
    quats[:3] = (1.0, 0.0, 0.0, 0.0)  # empty frames match any zero pose
    clip = understand(replace(with_axes(right, own), quats=quats))
    assert "the zero pose is no T-pose: the rest pose is estimated from the motion" in clip.warnings
    apart = angle_between(clip.retarget("humanoid").global_rotations(), body.global_rotations())[3:]
    assert np.degrees(apart).mean(axis=0).max() < 15.0


@pytest.mark.parametrize("degrees", [-90, 100, 180])
@pytest.mark.parametrize(
    ("joints", "axis"),
    [
        (("LeftUpperArm", "LeftLowerArm", "LeftHand"), X),
        (("RightUpperArm",), X),
        (("LeftUpperLeg", "LeftLowerLeg", "RightUpperLeg"), Y),
    ],
)
def test_limbs_that_the_zero_pose_rolls_about_their_bones_bend_as_they_should(
    right, body, joints, axis, degrees
):
    own = np.tile((1.0, 0.0, 0.0, 0.0), (len(right.skeleton), 1))
    own[[right.skeleton.index(joint) for joint in joints]] = about(axis, degrees)
    clip = understand(with_axes(right, own))
    assert clip.warnings == (
        "limbs of the zero pose are rolled about their bones: put right by how they bend",
    )
    turned = angle_between(clip.retarget("humanoid").global_rotations(), body.global_rotations())
    assert np.degrees(turned).max() < 1.0


def test_a_t_pose_in_the_middle_is_the_rest_pose(tmp_path, right):
    frame = 100
    quats = right.quats.copy()
    quats[frame:, 1:] = (1.0, 0.0, 0.0, 0.0)
    posed = pa.Clip(quats, right.root, right.rate, right.skeleton)
    clip = pa.load_motion(saved(local_axes(posed, 1), tmp_path))
    assert "the zero pose is no T-pose: a T-pose in the motion is used" in clip.warnings
    body = posed.retarget("humanoid")
    assert np.degrees(angle_between(clip.retarget("humanoid").quats[:, 1:], body.quats[:, 1:])).max() < 1.0


@pytest.mark.parametrize("pose", [sitting, on_hands])
@pytest.mark.parametrize("world", [None, "z", "x"])
def test_poses_in_which_nobody_stands(tmp_path, right, pose, world):
    posed = pose(right)
    changed = posed if world is None else turned_world(posed, WORLDS[world])
    for given in (changed, local_axes(changed, 1)):
        clip = pa.load_motion(saved(given, tmp_path))
        assert clip.up == (world or "y")
        assert difference(clip.retarget("humanoid"), posed.retarget("humanoid")).max() < 2.0


def test_all_at_once(tmp_path, right, body):
    changed = turned_world(local_axes(lying_first(mirrored(right)), 7), WORLDS["x"])
    clip = pa.load_motion(saved(changed, tmp_path))
    assert clip.up == "x"
    assert any("left and right are exchanged" in line for line in clip.warnings)
    assert difference(clip.retarget("humanoid"), body).mean() < 2.0


@pytest.mark.parametrize("change", [lambda c: c, lambda c: turned_file(c, WORLDS["z"])])
def test_the_wrong_hand_is_put_right(tmp_path, right, body, change):
    clip = pa.load_motion(saved(change(mirrored(right)), tmp_path))
    assert any("left and right are exchanged" in line for line in clip.warnings)
    assert difference(clip.retarget("humanoid"), body).max() < 2.0


def test_elbows_tell_the_wrong_hand_where_knees_and_toes_do_not(right):
    """Legs are straight and have no toes, arms are spread."""
    quats, keep = right.quats.copy(), [j for j, name in enumerate(right.skeleton.names) if "Toes" not in name]
    for side in ("Left", "Right"):
        for joint in ("LowerLeg", "UpperArm"):
            quats[:, right.skeleton.index(f"{side}{joint}")] = (1.0, 0.0, 0.0, 0.0)
    body = right.skeleton
    parents = [keep.index(parent) if parent >= 0 else -1 for parent in body.parents[keep]]
    names, tips = tuple(body.names[j] for j in keep), {0: (0.1, 0.2, 0.3)}
    few = Skeleton(names, np.array(parents, np.int32), body.offsets[keep], tips=tips)
    clip = pa.Clip(quats[:, keep], right.root, right.rate, few)
    assert understand(clip).warnings == ()
    read = understand(mirrored(clip))
    assert [line for line in read.warnings if "left and right are exchanged" in line] == list(read.warnings)
    assert difference(read.retarget("humanoid"), clip.retarget("humanoid")).max() < 1e-3
    assert read.skeleton.tips == tips


@pytest.mark.parametrize(("unit", "metres"), [("cm", 0.01), ("mm", 0.001), ("in", 0.0254)])
def test_units_change_nothing(tmp_path, right, body, unit, metres):
    factor = 0.01 / metres  # save_bvh writes centimetres
    skeleton = Skeleton(right.skeleton.names, right.skeleton.parents, right.skeleton.offsets * factor)
    large = pa.Clip(right.quats, right.root * factor, right.rate, skeleton)
    clip = pa.load_motion(saved(turned_file(large, WORLDS["z"]), tmp_path))
    assert clip.unit == metres
    retargeted = clip.retarget("humanoid")
    assert difference(retargeted, body).max() < 2.0
    assert abs(np.median(retargeted.root[:, 1]) - np.median(body.root[:, 1])) < 0.02


def warned_of_up(clip: pa.Clip) -> bool:
    return any("which way is up" in line for line in clip.warnings)


def test_somebody_who_lies_throughout_is_said(tmp_path, right):
    lying = lying_first(right)[: round(1.4 * right.rate)]
    clip = pa.load_motion(saved(lying, tmp_path))
    assert clip.up == "y"
    assert warned_of_up(clip)
    assert any("give --up AXIS" in line for line in clip.warnings)
    assert pa.load_motion(saved(lying, tmp_path), up="-z").up == "-z"


ROLLS = np.linspace(0.0, 500.0, 240)
FLOOR = {
    "back": about(X, -88),
    "front": about(X, 88),
    "side": about(Z, 88),
    "rolling": multiply(np.stack([about(Z, roll) for roll in ROLLS]), about(X, -88)),
    "cartwheels": np.stack([about(Z, roll) for roll in ROLLS]),
    "on the head": about(Z, 180),
}


@pytest.mark.parametrize("turn", FLOOR)
def test_nobody_on_the_floor_is_turned_the_wrong_way_without_a_word(right, turn):
    posed = on_the_floor(right, FLOOR[turn])
    right_count = 0
    for world, axes in {"y": about(X, 0), **WORLDS}.items():
        for change in (turned_world, turned_file):
            clip = understand(change(posed, axes))
            assert clip.up == world.split()[0] or warned_of_up(clip), (world, change)
            right_count += clip.up == world.split()[0]
    assert right_count >= 10  # of 14


def test_nobody_who_really_lies_or_crawls_is_turned_the_wrong_way_without_a_word(data_dir):
    found, worlds = [], [("y", about(X, 0)), *WORLDS.items()]
    for path in sorted(data_dir.glob("more/accad-male1/*A[189]_*_*L[iy]*.bvh")) + sorted(
        data_dir.glob("more/accad-male1/*Crawl*.bvh")
    ):
        clip = pa.load_motion(path)
        for start in range(0, len(clip) - 59, 30):
            part = replace(clip[start : start + 60], warnings=())
            worlds = worlds[2:] + worlds[:2]  # three of seven for each part
            for world, axes in worlds[:3]:
                turned = understand(turned_file(part, axes))
                found.append(turned.up == world.split()[0])
                assert found[-1] or warned_of_up(turned), (path.stem, start, world)
    assert np.mean(found) > 0.5


def test_what_is_said_counts(tmp_path, right, body):
    path = saved(local_axes(turned_world(right, WORLDS["z"]), 4), tmp_path)
    helped = pa.load_motion(path, up="z", rest=0)  # standing, arms hanging
    assert helped.warnings == ("z is up in the file: turned",)
    assert max(bone_angles(helped.skeleton, helped.quats).values()) < 15.0
    assert difference(helped.retarget("humanoid"), body).mean() < 6.0
    for option in ({"up": "w"}, *({"rest": frame} for frame in (len(right), -1, 1.5))):
        with pytest.raises(OptionError, match=rf"{path.name}: {next(iter(option))} is"):
            pa.load_motion(path, **option)


def refused_file(folder: Path, clip: pa.Clip) -> Path:
    """This project's npz is not interpreted: an invalid rest pose is used as it is."""
    path = folder / "odd.npz"
    save_npz(local_axes(clip, 3), path)
    return path


def test_a_body_that_is_not_the_files_is_refused_by_all(tmp_path, right):
    from realtime.programs.send import send
    from realtime.sources.replay import open_show
    from training.data.sets import build

    path = refused_file(tmp_path, right)
    clip = pa.load_motion(path)
    why = r"odd\.npz: .*degrees away.*say --rest FRAME.*--up AXIS"
    with pytest.raises(SkeletonError, match=why):
        clip.retarget("humanoid")
    with pytest.raises(SkeletonError, match=why):
        open_show(path)
    for protocol in ("mocopi", "vmc", "msgpack"):
        with pytest.raises(SkeletonError, match=why):
            next(datagrams(clip, protocol))
        with pytest.raises(SkeletonError, match=why):
            send(path, protocol, "127.0.0.1", 9)
    with pytest.raises(FormatError, match=r"odd\.npz: .*degrees away"):
        build(tmp_path, tmp_path / "set")
    # With the rest pose from the motion it is accepted everywhere.
    assert open_show(path, up="y")[0] == "msgpack"
    assert build(tmp_path, tmp_path / "set", up="y").takes == 1


def test_a_frame_time_in_milliseconds_is_played_and_learned_by_none(tmp_path, right):
    from pyanticip.teach.project import Project
    from realtime.programs.rehearse import rehearse
    from realtime.programs.send import send
    from realtime.sources.replay import open_show
    from realtime.teaching.adding import add_file

    path = tmp_path / "ms.bvh"
    save_bvh(right, path)
    text = path.read_text()
    seconds = text.split("Frame Time: ")[1].split()[0]
    path.write_text(text.replace(seconds, "8.333"))
    assert "milliseconds" in " ".join(pa.load_motion(path).warnings)
    why = r"ms\.bvh: 0\.12 frames a second, expected at least 5; give "
    for refuses in (
        lambda: open_show(path),
        lambda: send(path, "mocopi", "127.0.0.1", 9),
        lambda: rehearse([path], tmp_path / "x.memory"),
        lambda: add_file(Project.create(tmp_path / "project"), path, values={"a": 1.0}),
    ):
        with pytest.raises(FormatError, match=why):
            refuses()
    assert open_show(path, rate=50.0)[0] == "msgpack"


def test_two_joints_of_one_name_are_refused_where_the_other_side_lacks_one(tmp_path, data_dir):
    path, table = tmp_path / "twins.bvh", tmp_path / "map.toml"
    text = (data_dir / "cmu/05_02.bvh").read_text()
    for wrong, right in (("LeftArm", "RightArm"), ("RightFoot", "LeftFoot")):
        path.write_text(text.replace(f"JOINT {right}\n", f"JOINT {wrong}\n"))
        with pytest.raises(SkeletonError, match=rf"twins\.bvh: .* '{wrong}', .*--joints map\.toml"):
            pa.load_motion(path).retargeter()
    path.write_text(text.replace("JOINT RightArm\n", "JOINT LeftArm\n"))
    toml = as_toml(pa.load_motion(path).skeleton)
    toml = toml.replace('# right_shoulder = ""', 'right_shoulder = "RightShoulder"')
    toml = toml.replace('right_upper_arm = "RightShoulder"', 'right_upper_arm = "LeftArm_2"')
    table.write_text(toml)
    assert pa.load_motion(path, joints=table).retargeter().mask.all()


def test_hands_that_are_bent_throughout_point_where_their_ends_do(right):
    quats, ends = right.quats.astype(np.float64), {}
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        hand = right.skeleton.index(f"{side}Hand")
        quats[:, hand] = about(Z, -50.0 * sign)
        ends[hand] = (0.1 * sign, 0.0, 0.0)
    body = Skeleton(right.skeleton.names, right.skeleton.parents, right.skeleton.offsets, tips=ends)
    bent = replace(right, quats=quats.astype(np.float32), skeleton=body)
    read = understand(local_axes(bent, 7))
    assert read.warnings[-1] == "the zero pose is no T-pose: the rest pose is estimated from the motion"
    found, truth = read.retarget("humanoid").global_rotations(), bent.global_rotations()
    for hand, end in ends.items():
        shown, there = rotate(found[:, hand], np.array(end)), rotate(truth[:, hand], np.array(end))
        apart = np.degrees(np.arccos(np.clip((shown * there).sum(axis=-1) / 0.01, -1.0, 1.0)))
        assert apart.max() < 5.0


def test_joints_nobody_knows_are_named_by_a_map(tmp_path, right, body):
    plain = saved(right, tmp_path, "plain")
    names = {name: f"bone_{number:02}" for number, name in enumerate(right.skeleton.names)}
    text = plain.read_text()
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(f" {name}\n", f" {names[name]}\n")
    strange = tmp_path / "strange.bvh"
    strange.write_text(text)
    clip = pa.load_motion(strange)
    with pytest.raises(SkeletonError, match=r"strange\.bvh: .*no joint found for hips.*--joints map\.toml"):
        clip.retarget("humanoid")
    assert guess_joints(clip.skeleton) == {}
    assert "# not used: " in as_toml(clip.skeleton)

    map_file = tmp_path / "map.toml"
    text = as_toml(right.skeleton)
    for name, new in names.items():
        text = text.replace(f'"{name}"', f'"{new}"')
    map_file.write_text(text)
    helped = pa.load_motion(strange, joints=map_file).retarget("humanoid")
    assert angle_between(helped.quats, body.quats).max() < 1e-3
    np.testing.assert_array_equal(helped.mask, body.mask)
    # A joint that the map leaves out is missing, whatever its name.
    less = {joint: found for joint, found in read_joints(map_file).items() if not joint.endswith("_hand")}
    without = pa.load_motion(strange, joints=less).retarget("humanoid")
    assert [name for name, there in zip(without.skeleton.names, without.mask, strict=True) if not there] == [
        "left_hand",
        "right_hand",
    ]


def test_the_map_of_a_file_is_the_file(data_dir, tmp_path):
    """A map written by `info --joints` and read by `--joints` changes nothing."""
    for file in ("makers/mocopi/mocopi-mobile-arm-raise-turn.bvh", "cmu/02_01.bvh", "cmu/02_01.amc"):
        clip = pa.load_motion(data_dir / file)
        map_file = tmp_path / "map.toml"
        map_file.write_text(as_toml(clip.skeleton))
        mapped = pa.load_motion(data_dir / file, joints=map_file).retarget("humanoid")
        assert np.degrees(angle_between(mapped.quats, clip.retarget("humanoid").quats)).max() < 0.1, file


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("joints = 3", r"expected a table"),
        ("[joints]\nhops = 'a'", r"joints\.hops: unknown joint; did you mean hips"),
        ("[joints]\nhips = 3", r"expected a name or"),
        ("[joints", r"not valid TOML"),
        ("[joints]\nhips = 'Hip'", r"no joint 'Hip' in the file; did you mean Hips"),
        ("[joints]\nhips = 'Hips'\nneck = 'Hips'", r"named twice"),
    ],
)
def test_bad_maps_are_one_line(tmp_path, right, text, reason):
    (tmp_path / "map.toml").write_text(text)
    with pytest.raises(pa.MotionError, match=reason) as error:
        pa.load_motion(saved(right, tmp_path), joints=tmp_path / "map.toml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrap", [lambda table: table, lambda table: {"joints": table}])
def test_a_map_may_be_the_contents_of_its_file(tmp_path, right, wrap):
    path = saved(right, tmp_path)
    read = pa.load_motion(path, joints=wrap({"hips": "Hips", "spine": ["Spine"]}))
    assert [name for name in read.skeleton.names if not name.endswith("(unmapped)")] == ["hips", "spine"]
    with pytest.raises(pa.OptionError, match=r"joints\.hops: unknown joint; did you mean hips"):
        pa.load_motion(path, joints=wrap({"hops": ("Hips",)}))


@pytest.mark.parametrize(
    "given",
    [
        *({"units": units} for units in ([1.0], True)),
        *({"joints": joints} for joints in (3, {3: "a"})),
        *({"up": 3}, {"rest": "3"}, {"rate": "60"}),
    ],
)
def test_what_an_option_cannot_be_is_an_error_of_one_line(tmp_path, right, given):
    with pytest.raises(pa.OptionError, match=r".* got |expected ") as error:
        pa.load_motion(saved(right, tmp_path), **given)
    assert "\n" not in str(error.value)


def stored(data_dir: Path) -> list[Path]:
    return sorted(path for pattern in STORED for path in data_dir.glob(pattern))


def test_files_of_every_maker_show_the_right_body(data_dir):
    """Limb directions against another reader: six degrees on average, ten for any limb."""
    for path in stored(data_dir):
        clip = pa.load_motion(path)
        retargeted = clip.retarget("humanoid")
        up = "z" if path.stem in Z_UP else "y"
        errors = limb_errors(path, retargeted, up)
        assert clip.up == up, path
        assert warned_of_up(clip) == (path.stem == "Male1_A9_LieDown"), path
        assert np.mean(list(errors.values())) < 6.0, (path, errors)
        assert max(errors.values()) < 10.0, (path, errors)
        assert max(bone_angles(clip.skeleton, clip.quats).values()) < 15.0, (
            path
        )  # trunk, hip and shoulder line


@pytest.mark.parametrize(
    "file", ["cmu/05_03.bvh", "more/cmu-85/bvh/cmu85/85_12.bvh", "more/accad-male1/Male1_B3_Walk.bvh"]
)
def test_real_motion_survives_what_strangers_do_to_it(data_dir, tmp_path, file):
    clip = pa.load_motion(data_dir / file)
    body = clip.retarget("humanoid")
    for change in (
        lambda c: turned_world(c, WORLDS["z"]),
        lambda c: turned_file(c, WORLDS["x"]),
        lambda c: mirrored(turned_world(c, WORLDS["-z"])),
        lying_first,
    ):
        retargeted = pa.load_motion(saved(change(clip), tmp_path)).retarget("humanoid")
        assert difference(retargeted, body).max() < 2.0
    path = saved(local_axes(clip, 2), tmp_path)
    retargeted = pa.load_motion(path).retarget("humanoid")
    assert max(limb_errors(path, retargeted).values()) < 2.0
    assert difference(retargeted, body).mean() < 6.0
