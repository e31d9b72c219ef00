"""With options, a suit with an ambiguous skeleton plays like one with a clear skeleton."""

from pathlib import Path

import numpy as np
import pytest
from support.clips import swing

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.rotations import conjugate, multiply, rotate
from pyanticip.motion.skeleton import Skeleton
from pyanticip.motion.world import TO_Y_UP
from realtime.clock import OfflineClock
from realtime.rig import load_rig
from realtime.seams import SOURCES
from realtime.sources.helped import HelpedSource
from realtime.sources.udp import UdpSource
from realtime.stage import assemble


def suit_datagrams(clip: Clip) -> list[bytes]:
    """The clip as a suit sends it."""
    body = clip.skeleton
    parents = [int(parent) for parent in body.parents]
    skeleton = _core.encode_native_skeleton(
        list(body.names), parents, body.offsets, body.rest, rate=clip.rate
    )
    frames = [
        _core.encode_native_frame(n, n / clip.rate, clip.quats[n], clip.root[n]) for n in range(len(clip))
    ]
    return [skeleton, *frames]


def canonical_poses(packets: list[bytes], kind: str = "msgpack", **options: object) -> np.ndarray:
    """Canonical poses (T, 22, 4) of the live front; with options, of msgpack made by a HelpedSource."""
    front = _core.LiveFront("msgpack" if options else kind)
    source = HelpedSource(SOURCES.load(kind)(), **options) if options else None
    poses = []
    for n, packet in enumerate(packets):
        for native in [packet] if source is None else source.decode(packet):
            out = front.feed(native, n * 20_000_000)
            if out is not None:
                poses.extend(out.poses)
    assert front.refusal is None
    return np.array(poses)


def max_angle(a: np.ndarray, b: np.ndarray) -> float:
    """Largest angle between poses, radians."""
    assert len(a) == len(b) > 90
    return float(2 * np.arccos(np.clip(np.abs((a * b).sum(-1)), 0, 1)).max())


def test_a_joint_map_names_unknown_joints(tmp_path: Path) -> None:
    clip = swing(2)
    body = clip.skeleton
    names = [f"bone{i}" for i in range(len(body))]
    strange = Skeleton(tuple(names), body.parents, body.offsets, body.rest, body.tips)
    file = tmp_path / "map.toml"
    lines = [f'{own} = "{name}"' for own, name in zip(body.names, names, strict=True)]
    file.write_text("\n".join(["[joints]", *lines]))
    packets = suit_datagrams(Clip(clip.quats, clip.root, clip.rate, strange))
    assert max_angle(canonical_poses(packets, joints=str(file)), canonical_poses(suit_datagrams(clip))) < 1e-3
    front = _core.LiveFront("msgpack")
    front.feed(packets[0], 0)
    assert front.refusal is not None


@pytest.mark.parametrize("up", ["z", "-y", "x"])
def test_the_up_option_turns_the_world_upright(up: str) -> None:
    """The motion lies, but the rest pose stands y up: only the option says so."""
    clip = swing(2)
    turn = conjugate(np.array(TO_Y_UP[up]))
    quats = clip.quats.astype(np.float64)
    quats[:, 0] = multiply(turn, quats[:, 0])
    root = rotate(turn, clip.root.astype(np.float64)).astype(np.float32)
    packets = suit_datagrams(Clip(quats.astype(np.float32), root, clip.rate, clip.skeleton))
    assert max_angle(canonical_poses(packets, up=up), canonical_poses(suit_datagrams(clip))) < 1e-3


def test_the_rest_option_uses_the_pose_of_a_frame() -> None:
    """The zero pose has arbitrary bone rolls; frame 3 of the suit is a T-pose."""
    clip = swing(2)
    rng = np.random.default_rng(0)
    roll = rng.normal(size=(22, 4))
    roll /= np.linalg.norm(roll, axis=1, keepdims=True)
    parents, offsets = clip.skeleton.parents, clip.skeleton.offsets.astype(np.float64)
    moved = np.array(clip.quats, np.float64)
    moved[3] = (1.0, 0.0, 0.0, 0.0)
    for joint in range(22):
        before = (1.0, 0.0, 0.0, 0.0) if parents[joint] < 0 else roll[parents[joint]]
        moved[:, joint] = multiply(multiply(conjugate(np.array(before)), moved[:, joint]), roll[joint])
        offsets[joint] = rotate(conjugate(np.array(before)), offsets[joint])
    rolled = Skeleton(clip.skeleton.names, parents, offsets.astype(np.float32))
    packets = suit_datagrams(Clip(moved.astype(np.float32), clip.root, clip.rate, rolled))
    mine = canonical_poses(packets, rest=3)
    assert max_angle(mine[1:], canonical_poses(suit_datagrams(clip))[-len(mine) + 1 :]) < 1e-2


def test_a_wrong_map_is_one_line_and_vmc_has_no_options(tmp_path):
    file = tmp_path / "map.toml"
    file.write_text('[joints]\nhips = "nothing"\n')
    source = HelpedSource(SOURCES.load("msgpack")(), joints=str(file))
    with pytest.raises(OptionError, match="no joint 'nothing'"):
        list(source.decode(suit_datagrams(swing(1))[0]))
    with pytest.raises(OptionError, match="not vmc's"):
        UdpSource("vmc", "127.0.0.1", 0, up="z")


def test_options_turn_mocopi_into_msgpack(tmp_path) -> None:
    rig = load_rig(None, {"source": "mocopi"}, up="y", rest=None)
    assert (rig.source.kind, rig.source.wire, rig.source.body()) == ("mocopi", "msgpack", {"up": "y"})
    assert load_rig(None, {"source": "mocopi"}).source.wire == "mocopi"
    (tmp_path / "rig.toml").write_text("[source]\nup = 'z'")
    assert load_rig(tmp_path / "rig.toml", up=None, rest=3).source.body() == {"up": "z", "rest": 3}
    pipeline = assemble(rig, OfflineClock(0), sinks=[])
    assert (pipeline.status()[1], pipeline.kind) == ("source=mocopi", "msgpack")
    pipeline.close()
    packets = [data for _, data in datagrams(swing(2), "mocopi")]
    helped = canonical_poses(packets, "mocopi", up="y")
    assert max_angle(helped, canonical_poses(packets, "mocopi")[-len(helped) :]) < 1e-3
