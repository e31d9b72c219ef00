"""npz files: this project's own, and AMASS / SMPL."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from support.clips import walking_clip
from support.motion_files import write_bvh

import pyanticip as pa
from pyanticip.errors import FormatError
from pyanticip.motion.canonical import retargeter
from pyanticip.motion.npz import save_npz, smpl_skeleton
from pyanticip.motion.rotations import angle_between, conjugate, multiply, rotation_between

FRAMES = 5
Z_UP = Rotation.from_euler("x", 90, degrees=True)
"""From a world with y up to one with z up."""


def amass(**changes):
    rng = np.random.default_rng(1)
    poses = rng.normal(size=(FRAMES, 156)) * 0.3
    poses[:, :3] = (Z_UP * Rotation.from_rotvec(poses[:, :3])).as_rotvec()
    arrays = {
        "poses": poses,
        "trans": rng.normal(size=(FRAMES, 3)) * 0.03,
        "mocap_framerate": np.array(60.0),
        "betas": np.zeros(16),
    } | changes
    return {name: array for name, array in arrays.items() if array is not None}


def write_npz(folder, arrays, **options):
    path = folder / "clip.npz"
    np.savez(path, **arrays, **options)
    return path


def test_our_own_files_come_back_exactly(tmp_path):
    clip = pa.load_motion(write_bvh(tmp_path))
    path = tmp_path / "clip.npz"
    save_npz(clip, path)
    back = pa.load_motion(path)
    for name in ("quats", "root", "mask"):
        np.testing.assert_array_equal(getattr(back, name), getattr(clip, name))
    for name in ("parents", "offsets", "rest"):
        np.testing.assert_array_equal(getattr(back.skeleton, name), getattr(clip.skeleton, name))
    assert back.skeleton.names == clip.skeleton.names
    assert dict(back.skeleton.tips) == dict(clip.skeleton.tips)
    assert (back.rate, back.name) == (clip.rate, clip.name)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_a_unit_that_is_given_scales_our_own_files_too(tmp_path):
    clip, path = pa.load_motion(write_bvh(tmp_path)), tmp_path / "clip.npz"
    save_npz(clip, path)
    scaled = pa.load_motion(path, units="cm")
    assert scaled.unit == 0.01
    np.testing.assert_allclose(scaled.positions(), 0.01 * clip.positions(), atol=1e-6)
    np.testing.assert_allclose(scaled.skeleton.reach(), 0.01 * clip.skeleton.reach(), rtol=1e-6)


def test_amass_becomes_y_up(tmp_path):
    arrays = amass()
    clip = pa.load_motion(write_npz(tmp_path, arrays))
    assert clip.quats.shape == (FRAMES, 22, 4)
    assert clip.rate == 60.0
    assert clip.skeleton.names[:4] == ("pelvis", "left_hip", "right_hip", "spine1")
    x, y, z = arrays["trans"].T
    np.testing.assert_allclose(clip.root, np.stack((x, z, -y), axis=1), atol=1e-6)
    for joint in range(22):
        expected = Rotation.from_rotvec(arrays["poses"][:, 3 * joint : 3 * joint + 3])
        expected = Z_UP.inv() * expected if joint == 0 else expected
        given = Rotation.from_quat(clip.quats[:, joint][:, [1, 2, 3, 0]])
        assert (given.inv() * expected).magnitude().max() < 1e-6


def test_a_body_that_stands_in_amass_stands_here(tmp_path):
    poses = np.zeros((FRAMES, 72))
    poses[:, 0] = np.pi / 2  # SMPL's rest pose is y up, AMASS rotates it to z up
    trans = np.tile((0.0, 0.0, 0.95), (FRAMES, 1))
    clip = pa.load_motion(write_npz(tmp_path, amass(poses=poses, trans=trans)))
    positions = clip.positions()[0]
    assert positions[clip.skeleton.index("head"), 1] > 1.4
    assert positions[clip.skeleton.index("left_foot"), 1] < 0.1
    assert positions[clip.skeleton.index("left_wrist"), 0] > 0.6
    assert positions[clip.skeleton.index("left_foot"), 2] > 0.1
    assert clip.warnings == ()


def as_smpl(body: pa.Clip, world: str, lift: float = 0.0) -> dict[str, np.ndarray]:
    """A canonical clip as SMPL arrays, in a world with y, z or -y up."""
    axes = {"z": Z_UP, "-y": Rotation.from_euler("x", 180, degrees=True)}.get(world, Rotation.identity())
    poses = np.zeros((len(body), 22, 3))
    for joint, ends in enumerate(retargeter(smpl_skeleton()).ends):
        turns = Rotation.from_quat(body.quats[:, joint][:, [1, 2, 3, 0]])
        poses[:, ends[0]] = ((axes * turns) if joint == 0 else turns).as_rotvec()
    trans = axes.apply(body.root + np.array((0.0, lift, 0.0)))
    return {"poses": poses.reshape(len(body), 66), "trans": trans, "fps": np.array(body.rate)}


@pytest.mark.parametrize("lift", [-1.0, 0.0, 3.0])
def test_of_a_camera_s_world_the_axis_that_has_the_head_up_is_named(tmp_path: Path, lift: float) -> None:
    path = write_npz(tmp_path, as_smpl(walking_clip(4.0), "-y", lift))
    clip = pa.load_motion(path)
    assert clip.up == "z"
    assert clip.warnings[0].endswith("if that is wrong, give --up -y, which has the head up (up= in Python)")


def test_the_motion_tells_whether_y_or_z_is_up(tmp_path: Path) -> None:
    body = walking_clip(4.0)
    bow, quats = rotation_between(np.array((0.0, 1.0, 0.0)), np.array((0.0, 0.1, 1.0))), body.quats.copy()
    bowed = slice(0, len(body) // 5)  # hips that lie while the body stands
    quats[bowed, 0] = multiply(quats[bowed, 0], bow)
    for joint in map(body.skeleton.index, ("left_upper_leg", "right_upper_leg")):
        quats[bowed, joint] = multiply(conjugate(bow), quats[bowed, joint])
    body = pa.Clip(quats, body.root, body.rate, body.skeleton)
    for world, expected in (("z", []), ("y", ["y is up in the file, where z is usual"])):
        path = write_npz(tmp_path, as_smpl(body, world))
        for clip in (pa.load_motion(path), pa.load_motion(path, up=world)):
            assert clip.up == world
            assert [line for line in clip.warnings if "is up in the file" in line] == expected
            back = clip.retarget("humanoid")
            assert np.degrees(angle_between(back.quats, body.quats)).max() < 0.1
            np.testing.assert_allclose(back.root, body.root, atol=1e-5)
        raised = pa.load_motion(write_npz(tmp_path, as_smpl(body, world, lift=5.0)))
        assert raised.up == world or "which way is up" in raised.warnings[0]
    # A given axis is used even if it is wrong.
    lying = pa.load_motion(path, up="z")
    head, foot = (lying.positions()[:, lying.skeleton.index(name), 1] for name in ("head", "left_foot"))
    assert np.abs(head - foot).max() < 1.0


def test_what_looks_meant_otherwise_is_told(tmp_path):
    poses = np.zeros((FRAMES, 72))
    poses[:, 0], poses[:, 5] = 90.0, 30.0
    degrees = pa.load_motion(write_npz(tmp_path, amass(poses=poses)))
    assert degrees.warnings[0] == "rotations of up to 90 rad: are its poses in degrees?"


@pytest.mark.parametrize("world", ["y", "z"])
def test_a_way_that_nobody_goes_is_told(tmp_path, world):
    arrays = as_smpl(walking_clip(4.0), world)
    way = arrays["trans"]
    jump = way + 5.0 * (np.arange(len(way))[:, None] > 100)
    rises = (
        way + np.array((0.0, 0.06, 0.06)) * np.arange(len(way))[:, None]
    )  # on the up axis, whichever it is
    for trans, units, warns in (
        (way, None, False),
        (jump, None, False),
        (way * (1, 3, 1) + (100, 100, 100), None, False),
        (100 * way, None, True),
        (1000 * way, None, True),
        (100 * way, "cm", False),
        (rises, None, True),
    ):
        clip = pa.load_motion(write_npz(tmp_path, arrays | {"trans": trans}), units=units, up=world)
        assert any("m: if that is wrong, give --units" in line for line in clip.warnings) == warns, (
            clip.warnings
        )


def test_blocks_of_frames_join_without_a_seam(tmp_path, monkeypatch):
    poses = amass()["poses"]
    turned = amass(poses=np.where(np.arange(FRAMES)[:, None] == 3, 20.0, poses))
    for arrays in (turned, turned | {"poses": np.asfortranarray(turned["poses"].astype(">f4"))}):
        path = write_npz(tmp_path, arrays)
        plain = pa.load_motion(path)
        with monkeypatch.context() as smaller:
            smaller.setattr("pyanticip.motion.npz._BLOCK_FRAMES", 2)
            smaller.setattr("pyanticip.motion.text.BLOCK_BYTES", 100)
            joined = pa.load_motion(path)
        np.testing.assert_array_equal(joined.quats, plain.quats)
        assert joined.warnings == plain.warnings
        assert "rotations of up to 34.6 rad" in joined.warnings[0]


def test_a_long_file_takes_a_few_times_its_result_and_no_more(tmp_path):
    frames = 40_000
    rng = np.random.default_rng(0)
    poses = np.zeros((frames, 156), np.float32)
    poses[:, :66] = 0.3 * rng.normal(size=(frames, 66))
    poses[:, 0] += np.pi / 2
    path = tmp_path / "long.npz"
    np.savez_compressed(path, poses=poses, trans=np.tile(np.float32((0, 0, 0.95)), (frames, 1)), fps=120.0)
    del poses
    tracemalloc.start()
    clip = pa.load_motion(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert clip.up == "z"
    assert most < 5 * (clip.quats.nbytes + clip.root.nbytes)


def test_smplx_spelling(tmp_path):
    poses = amass()["poses"]
    arrays = amass(poses=None, root_orient=poses[:, :3], pose_body=poses[:, 3:66], mocap_framerate=None)
    with pytest.raises(FormatError, match="has no frame rate"):
        pa.load_motion(write_npz(tmp_path, arrays))
    arrays["mocap_frame_rate"] = np.array(30)
    clip = pa.load_motion(write_npz(tmp_path, arrays))
    assert clip.rate == 30.0
    np.testing.assert_array_equal(clip.quats, pa.load_motion(write_npz(tmp_path, amass())).quats)
    with pytest.raises(FormatError, match=r"pose_body must be numbers of shape \(5, 63\)"):
        pa.load_motion(write_npz(tmp_path, arrays | {"pose_body": poses[1:, 3:66]}))


BROKEN = {
    "poses": (amass(poses=np.zeros((4, 63))), r"poses must have shape \(T, >= 66\), got \(4, 63\)"),
    "6D": (amass(poses=np.zeros((5, 132))), r"rotation vectors, .*\(5, 132\): 6D rotations of 22 joints"),
    "no pelvis": (amass(poses=np.zeros((5, 69))), r"\(5, 69\) lack the pelvis' rotation"),
    "no pelvis, hands": (amass(poses=np.zeros((5, 153))), "lack the pelvis' rotation"),
    "matrices": (amass(poses=np.zeros((5, 198))), "rotation matrices of 22 joints"),
    "trans": (amass(trans=np.zeros((4, 3))), r"trans must be numbers of shape \(5, 3\)"),
    "nan": (amass(poses=np.full((5, 66), np.nan)), "poses must hold finite numbers"),
    "rate": (amass(mocap_framerate=np.array([1.0, 2.0])), "mocap_framerate must be one number"),
    "no frame": (amass(poses=np.zeros((0, 66)), trans=np.zeros((0, 3))), "has no frame"),
    "other": ({"x": np.zeros(3)}, "expected arrays 'quats'"),
    "objects": (amass(trans=np.array([{}] * 5, dtype=object)), "holds Python objects"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_contents(tmp_path, kind):
    arrays, reason = BROKEN[kind]
    with pytest.raises(FormatError, match=reason) as caught:
        pa.load_motion(write_npz(tmp_path, arrays, allow_pickle=True))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("descr", "shape", "reason"),
    [
        ("<f8", (10**12, 66), "is cut short"),
        ("<f8", (True, 1), "has a broken header"),
        ("<f8", (1,) * 70, "has a broken header"),
        ("<f8", (0, 2**63 - 1, 2**63 - 1), "has a broken header"),
        ("|S0", (10**12,), "has a broken header"),
    ],
)
def test_a_header_that_promises_what_cannot_be_is_refused(tmp_path, descr, shape, reason):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("poses.npy", header.getvalue() + bytes(8))
    with pytest.raises(FormatError, match=f"'poses' {reason}"):
        pa.load_motion(path)


def test_a_member_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("pyanticip.motion.npz.MAX_MEMBER_BYTES", 1000)
    with pytest.raises(FormatError, match="'poses' is larger than"):
        pa.load_motion(write_npz(tmp_path, amass()))


def test_a_cut_archive_is_refused(tmp_path):
    path = write_npz(tmp_path, amass())
    data = path.read_bytes()
    for size in (10, 1000, len(data) - 5):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError, match="broken npz"):
            pa.load_motion(path)


@pytest.mark.parametrize("name", ["mocap_framerate", "mocap_frame_rate", "fps", "framerate"])
def test_the_rate_goes_by_several_names_and_may_be_given(tmp_path: Path, name: str) -> None:
    arrays = amass(mocap_framerate=None) | {name: np.array(48)}
    assert pa.load_motion(write_npz(tmp_path, arrays)).rate == 48.0
    assert pa.load_motion(tmp_path / "clip.npz", rate=25.0).rate == 25.0


def test_a_turn_of_two_rounds_is_none_to_wonder_at_and_no_place_is_told(tmp_path: Path) -> None:
    poses = np.zeros((FRAMES, 66))
    poses[:, 0] = np.pi / 2
    for turn, expected in ((12.5, ()), (12.6, ("rotations of up to 12.6 rad: are its poses in degrees?",))):
        poses[0, 10] = turn
        assert pa.load_motion(write_npz(tmp_path, amass(poses=poses))).warnings == expected
    nowhere = pa.load_motion(write_npz(tmp_path, amass(poses=poses, trans=None)))
    assert "has no 'trans': the root stays at the origin" in nowhere.warnings
    assert (nowhere.root == 0.0).all()


def test_a_length_unit_scales_the_way_and_numbers_end_at_a_billion(tmp_path: Path) -> None:
    trans = np.full((FRAMES, 3), 1e9)
    clip = pa.load_motion(write_npz(tmp_path, amass(trans=trans)), units="cm")
    assert np.abs(clip.root).max() == pytest.approx(1e7)
    with pytest.raises(FormatError, match="trans must hold finite numbers of at most 1e"):
        pa.load_motion(write_npz(tmp_path, amass(trans=-1.001 * trans)))


@pytest.mark.parametrize("joints", [21, 23])
def test_the_names_and_shapes_of_the_smplx_package(tmp_path: Path, joints: int) -> None:
    poses = np.random.default_rng(0).normal(0, 0.2, (40, 1 + joints, 3))
    place = np.random.default_rng(1).normal(0, 0.1, (40, 3))
    np.savez(tmp_path / "one.npz", poses=poses.reshape(40, -1), trans=place, fps=60)
    split = {
        "global_orient": poses[:, 0],
        "body_pose": poses[:, 1:] if joints == 21 else poses[:, 1:].reshape(40, -1),
    }
    np.savez(tmp_path / "split.npz", **split, transl=place, fps=60)
    one, other = (pa.load_motion(tmp_path / f"{name}.npz") for name in ("one", "split"))
    assert np.array_equal(one.quats, other.quats)
    assert np.array_equal(one.root, other.root)
    assert np.ptp(one.root, axis=0).min() > 0.1
    np.savez(tmp_path / "cut.npz", **split | {"body_pose": poses[:, 1:20]}, fps=60)
    with pytest.raises(FormatError, match="body_pose must be numbers of shape"):
        pa.load_motion(tmp_path / "cut.npz")


def test_aist_dances_are_read(tmp_path: Path) -> None:
    # As its pickles hold them: y up, the place in the dataset's own unit, no rate.
    body = walking_clip(4.0)
    arrays = as_smpl(body, "y")
    dance = {
        "smpl_poses": np.pad(arrays["poses"], ((0, 0), (0, 6))),
        "smpl_trans": 93.78 * arrays["trans"],
        "smpl_scaling": np.array([93.78]),
        "smpl_loss": np.array(1.6),
    }
    path = write_npz(tmp_path, dance)
    clip = pa.load_motion(path)
    assert clip.rate == 60.0
    assert clip.up == "y"
    assert [line.split(";")[0] for line in clip.warnings] == ["has no frame rate: 60 Hz, as AIST++ has"]
    back = clip.retarget("humanoid")
    assert np.degrees(angle_between(back.quats, body.quats)).max() < 0.1
    np.testing.assert_allclose(back.root, body.root, atol=1e-4)
    assert pa.load_motion(path, rate=30.0).rate == 30.0
    by_joint = dance | {"smpl_poses": dance["smpl_poses"].reshape(-1, 24, 3)}
    np.testing.assert_array_equal(pa.load_motion(write_npz(tmp_path, by_joint)).quats, clip.quats)
    with pytest.raises(FormatError, match="smpl_scaling must be units a metre"):
        pa.load_motion(write_npz(tmp_path, dance | {"smpl_scaling": np.zeros(1)}))
    two = dance | {"smpl_poses": np.stack([dance["smpl_poses"]] * 2)}
    with pytest.raises(FormatError, match=r"smpl_poses must have shape \(T, >= 66\)"):
        pa.load_motion(write_npz(tmp_path, two))
