"""MVNX files: written in the form of a real Xsens export, and read back."""

import re

import numpy as np
import pytest

import pyanticip as pa
from pyanticip.motion.mvnx import read_mvnx
from pyanticip.motion.rotations import angle_between, conjugate, from_euler, multiply, rotate

NAMES = [
    "Pelvis", "L5", "L3", "T12", "T8", "Neck", "Head", "RightShoulder", "RightUpperArm",
    "RightForeArm", "RightHand", "LeftShoulder", "LeftUpperArm", "LeftForeArm", "LeftHand",
    "RightUpperLeg", "RightLowerLeg", "RightFoot", "RightToe", "LeftUpperLeg", "LeftLowerLeg",
    "LeftFoot", "LeftToe",
]  # fmt: skip
PARENTS = [-1, 0, 1, 2, 3, 4, 5, 4, 7, 8, 9, 4, 11, 12, 13, 0, 15, 16, 17, 0, 19, 20, 21]
# Metres, x forward, y left, z up: the proportions of the export of an adult.
_ARM = [(0, 0.03, 0.07), (0, 0.14, 0), (0, 0.26, 0), (0, 0.22, 0)]
_LEG = [(0, 0.095, 0), (0, 0, -0.4), (0, 0, -0.4), (0.15, 0, -0.07)]
_MIRROR = np.array((1, -1, 1))
OFFSETS = np.array(
    [(0, 0, 0), (0, 0, 0.115), (0, 0, 0.093), (0, 0, 0.084), (0, 0, 0.084), (0, 0, 0.12), (0, 0, 0.087)]
    + [tuple(_MIRROR * part) for part in _ARM] + _ARM
    + [tuple(_MIRROR * part) for part in _LEG] + _LEG,
    float,
)  # fmt: skip
FRAMES = 90


def _motion():
    """World orientations (T, 23, 4) and positions (T, 23, 3) of a walk with swinging arms."""
    t = np.arange(FRAMES) / 60
    local = np.zeros((FRAMES, 23, 3))
    for side, sign in ((15, 1), (19, -1)):
        local[:, side, 1] = 0.4 * sign * np.sin(6 * t)
        local[:, side + 1, 1] = 0.3 + 0.3 * np.sin(6 * t)
    for side, sign in ((8, -1), (12, 1)):
        local[:, side, 0] = sign * -1.2
        local[:, side + 1, 2] = sign * -0.4 * (1 + np.sin(6 * t))
    local[:, 0, 2] = 0.5 + 0.2 * np.sin(t)
    quats = from_euler(local, (0, 1, 2))
    places = np.zeros((FRAMES, 23, 3))
    places[:, 0] = np.stack((0.8 * t, 0.4 * t, 0.95 + 0.02 * np.cos(12 * t)), axis=1)
    for joint, parent in enumerate(PARENTS[1:], 1):
        places[:, joint] = places[:, parent] + rotate(quats[:, parent], OFFSETS[joint])
        quats[:, joint] = multiply(quats[:, parent], quats[:, joint])
    return quats, places


def _numbers(values):
    return " ".join(f"{value:.6f}" for value in np.ravel(values))


def _frame(kind, index, quats, places):
    return (
        f'<frame time="{index * 16}" index="{index}" type="{kind}">'
        f"<orientation>{_numbers(quats)}</orientation><position>{_numbers(places)}</position>"
        "<velocity>1 2 3</velocity></frame>\n"
    )


def _file(props=0, frames=None):
    quats, places = _motion()
    segments = "".join(
        f'<segment label="{name}" id="{index + 1}"><points><point label="pTopOfHead"><pos_b>0 0 0.17</pos_b>'
        f'</point><point label="p{name}"><pos_b>0.05 0 -0.01</pos_b></point></points></segment>\n'
        for index, name in enumerate(NAMES + [f"Prop{n}" for n in range(props)])
    )
    joints = "".join(
        f'<joint label="j{index}"><connector1>{NAMES[parent]}/j{index}</connector1>'
        f"<connector2>{NAMES[index]}/j{index}</connector2></joint>\n"
        for index, parent in enumerate(PARENTS)
        if index
    )
    more = np.tile((1.0, 0, 0, 0), (FRAMES, props, 1)), np.zeros((FRAMES, props, 3))
    quats, places = np.concatenate((quats, more[0]), 1), np.concatenate((places, more[1]), 1)
    still = np.tile((1.0, 0, 0, 0), (23 + props, 1))
    moving = (
        "".join(_frame("normal", n, quats[n], places[n]) for n in range(FRAMES)) if frames is None else frames
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<mvnx version="4" xmlns="http://www.xsens.com/mvn/mvnx">\n'
        f'<comment/><subject label="a" frameRate="60" segmentCount="{23 + props}">\n'
        f"<segments>{segments}</segments>\n<joints>{joints}</joints>\n<frames>\n"
        f"{_frame('identity', 0, still, places[0])}{moving}</frames></subject></mvnx>\n"
    ).encode()


def _load(folder, data):
    path = folder / "take.mvnx"
    path.write_bytes(data)
    return pa.load_motion(path)


def test_the_motion_that_was_exported_comes_back(tmp_path):
    quats, places = _motion()
    clip = _load(tmp_path, _file())
    assert (clip.rate, clip.frames, clip.up, clip.unit) == (60.0, FRAMES, "z", 1.0)
    assert clip.skeleton.names == tuple(NAMES)
    assert clip.skeleton.parents.tolist() == PARENTS
    # z up becomes y up by a rotation of the world, the same in every frame and for every joint.
    turns = multiply(clip.global_rotations(), conjugate(quats))
    assert angle_between(turns, turns[:1, :1]).max() < 1e-3
    np.testing.assert_allclose(rotate(turns[0, 0], np.array((0.0, 0, 1))), (0, 1, 0), atol=1e-5)
    apart = clip.positions() - rotate(turns[0, 0], places)
    np.testing.assert_allclose(apart, np.broadcast_to(apart[:1, :1], apart.shape), atol=1e-4)
    np.testing.assert_allclose(clip.skeleton.tips[6], (0, 0, 0.17), atol=1e-6)
    assert set(clip.skeleton.tips) == {NAMES.index(n) for n in ("Head", "LeftToe", "RightToe")}


def test_it_is_a_body_and_plays(tmp_path):
    body = _load(tmp_path, _file()).retarget("humanoid")
    points = dict(zip(body.skeleton.names, body.positions().mean(axis=0), strict=True))
    head = next(place for name, place in points.items() if name.lower() == "head")
    assert head[1] > 1.3
    assert not [warning for warning in body.warnings if "lies" in warning]
    assert np.isfinite(body.features()).all()


def test_half_a_body_does_not_play_and_is_told_so(tmp_path):
    data = _file()
    for name in (b"LeftUpperLeg", b"RightUpperLeg"):
        data = data.replace(b"<connector2>" + name, b"<connector2>Nowhere")
    clip = _load(tmp_path, data)
    assert len(clip.skeleton) == 15
    with pytest.raises(pa.MotionError, match=r"no joint found for .*; only whole bodies play: where"):
        clip.retarget("humanoid")


def test_props_are_left_out_and_told(tmp_path):
    clip, plain = _load(tmp_path, _file(props=2)), _load(tmp_path, _file())
    np.testing.assert_array_equal(clip.quats, plain.quats)
    assert "2 segments of no joint (props) left out" in " ".join(clip.warnings)


def test_a_unit_that_is_given_scales_all(tmp_path):
    path = tmp_path / "take.mvnx"
    plain, half = (read_mvnx(path, _file(), length_unit=unit) for unit in (None, 0.5))
    np.testing.assert_allclose(half.root, plain.root / 2)
    np.testing.assert_allclose(half.skeleton.offsets, plain.skeleton.offsets / 2)
    np.testing.assert_allclose(half.skeleton.tips[6], np.array(plain.skeleton.tips[6]) / 2)


def test_centimetres_are_told(tmp_path):
    quats, places = _motion()
    far = "".join(_frame("normal", n, quats[n], 100.0 * places[n]) for n in range(FRAMES))
    said = "m from hips to fingertips: if that is wrong, give --units"
    assert not [line for line in _load(tmp_path, _file()).warnings if said in line]
    assert [line for line in _load(tmp_path, _file(frames=far)).warnings if said in line]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[: len(data) // 2], "truncated?"),
        (lambda data: _file(frames=""), "has no frame of motion"),
        (lambda data: data.replace(b'frameRate="60"', b'frameRate="x"'), "expected a number"),
        (lambda data: data.replace(b'frameRate="60"', b'frameRate="0"'), "rate must be"),
        (lambda data: data.replace(b'label="L5"', b'label="Pelvis"'), "expected a new segment"),
        (lambda data: data.replace(b"<position>", b"<position>1 ", 2), "position has 69 numbers, got 70"),
        (lambda data: data.replace(b"<position>", b"<position>nan ", 2), "position has 69 numbers"),
        (lambda data: data.replace(b"orientation>", b"other>"), "a frame without orientation"),
        (
            lambda data: data.replace(b"<mvnx", b'<!DOCTYPE m [<!ENTITY a "b">]><mvnx', 1),
            "declares an entity",
        ),
    ],
)
def test_what_is_damaged_is_told_in_one_line(tmp_path, change, says):
    with pytest.raises(pa.MotionError) as caught:
        _load(tmp_path, change(_file()))
    message = str(caught.value)
    assert says in message
    assert "take.mvnx" in message
    assert "\n" not in message


def test_the_largest_number_is_one_and_what_is_above_it_is_none(tmp_path):
    first = _file().split(b"<position>")
    rest = first[2].split(b" ", 1)[1]

    def with_number(number):
        return b"<position>".join([*first[:2], number + b" " + rest, *first[3:]])

    assert _load(tmp_path, with_number(b"1e9")).frames == FRAMES
    with pytest.raises(pa.FormatError, match="not finite, or above 1e"):
        _load(tmp_path, with_number(b"1000000001"))


def test_numbers_that_are_none_name_their_line(tmp_path):
    lines = _file().split(b"\n")
    moving = [index for index, line in enumerate(lines) if b'type="normal"' in line]
    lines[moving[3]] = lines[moving[3]].replace(b"<position>", b"<position>x", 1)
    with pytest.raises(pa.FormatError, match=rf"take\.mvnx:{moving[3] + 1}: position holds something"):
        _load(tmp_path, b"\n".join(lines))
    lines[moving[3]] = lines[moving[3]].replace(b"<orientation>", b"<orientation>9", 1)
    with pytest.raises(pa.FormatError, match=rf"take\.mvnx:{moving[3] + 1}: orientation .* not a unit"):
        _load(tmp_path, b"\n".join(lines))


def test_fingers_have_segments_of_their_own_which_are_none_of_the_bodys(tmp_path):
    fingers = "".join(
        f"<fingerTrackingSegments{side}>"
        f'<segment label="{side}Carpus" id="1"><points><point label="p{side}Toe"><pos_b>9 9 9</pos_b></point>'
        f'</points></segment><segment label="{side}FirstMC" id="2"><points/></segment>'
        f"</fingerTrackingSegments{side}>\n"
        for side in ("Left", "Right")
    ).encode()
    with_hands = _file().replace(b"</joints>", b"</joints>" + fingers)
    hands = b"<orientationFingersLeft>1 0 0 0 1 0 0 0</orientationFingersLeft></frame>"
    read, plain = _load(tmp_path, with_hands.replace(b"</frame>", hands)), _load(tmp_path, _file())
    assert read.skeleton.names == plain.skeleton.names
    assert dict(read.skeleton.tips) == dict(plain.skeleton.tips)
    np.testing.assert_array_equal(read.quats, plain.quats)


def test_frames_that_are_missing_are_told_once(tmp_path):
    told = "frame indices do not go on by 1 after frame 9; every frame was kept"
    whole = _file().decode()
    cut = whole.replace('index="10"', 'index="11"').replace('index="20"', 'index="25"')
    assert told in _load(tmp_path, cut.encode()).warnings
    assert sum("frame indices" in line for line in _load(tmp_path, cut.encode()).warnings) == 1
    for number in ('index=""', ""):  # as before a recording, or in old files
        plain = _load(tmp_path, whole.replace('index="10"', number).encode())
        assert not any("frame indices" in line for line in plain.warnings)


def test_a_file_of_a_fraction_of_the_captured_rate_has_no_gaps(tmp_path):
    every_fourth = re.sub(r'index="(\d+)"', lambda found: f'index="{4 * int(found[1])}"', _file().decode())
    assert not any("frame indices" in line for line in _load(tmp_path, every_fourth.encode()).warnings)
    cut = every_fourth.replace('index="40"', 'index="44"')
    told = "frame indices do not go on by 4 after frame 36; every frame was kept"
    assert told in _load(tmp_path, cut.encode()).warnings


def test_whoever_lies_throughout_does_not_stand(tmp_path, monkeypatch):
    """z is up in these files."""
    quats, places = _motion()
    down = from_euler(np.array([-0.5 * np.pi]), (1,))
    lying = rotate(down, places - places[0, 0])
    lying[..., 2] += 0.05 - lying[..., 2].min()
    monkeypatch.setitem(globals(), "_motion", lambda: (multiply(down, quats), lying))
    clip = _load(tmp_path, _file())
    at = clip.positions()
    head, foot = (at[:, clip.skeleton.index(name)] for name in ("Head", "LeftFoot"))
    assert np.abs(head[:, 1] - foot[:, 1]).max() < 0.6 < np.linalg.norm(head - foot, axis=1).min()
    assert "z is assumed; if that is wrong, give --up -x, which has the head up" in clip.warnings[0]
