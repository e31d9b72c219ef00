"""The datagram codecs in Python, against msgpack and python-osc as independent implementations."""

from typing import Any

import msgpack
import numpy as np
import pytest
from pythonosc.osc_bundle_builder import IMMEDIATELY, OscBundleBuilder
from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip import _core
from pyanticip.errors import MotionError, OptionError, ShapeError, WireError

QUATS = np.tile(np.float32([0.8, 0.6, 0, 0]), (55, 1))
PLACES = np.arange(165, dtype=np.float32).reshape(55, 3) / 100


def test_a_mocopi_frame_comes_back() -> None:
    data = _core.encode_mocopi_frame(9, QUATS[:27], PLACES[:27], stream_time=0.5)
    (read,) = _core.Decoder("mocopi").feed(data)
    np.testing.assert_array_equal(read["quats"], QUATS[:27])
    np.testing.assert_array_equal(read["positions"], PLACES[:27])
    np.testing.assert_array_equal(read["root"], PLACES[0])
    assert (read["time"], read["unusable"]) == (0.5, 0)
    assert read["fresh"].all()


def osc(address: str, *arguments: Any) -> Any:
    builder = OscMessageBuilder(address)
    for argument in arguments:
        builder.add_arg(argument)
    return builder.build()


def bundle(*messages: Any) -> bytes:
    builder = OscBundleBuilder(IMMEDIATELY)
    for message in messages:
        builder.add_content(message)
    return builder.build().dgram


def test_vmc_as_python_osc_builds_it() -> None:
    messages = [osc("/VMC/Ext/OK", 1), osc("/VMC/Ext/T", 2.5)]
    messages.append(osc("/VMC/Ext/Root/Pos", "root", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    for name, (w, x, y, z), (px, py, pz) in zip(
        _core.VMC_BONES, QUATS.tolist(), PLACES.tolist(), strict=True
    ):
        messages.append(osc("/VMC/Ext/Bone/Pos", name, px, py, -pz, x, y, -z, -w))
    theirs = bundle(*messages)
    assert _core.encode_frame("vmc", 0, 2.5, QUATS, PLACES) == theirs
    (read,) = _core.Decoder("vmc").feed(theirs)
    np.testing.assert_array_equal(read["quats"], QUATS)
    np.testing.assert_array_equal(read["positions"], PLACES)
    assert read["time"] == 2.5


def test_what_a_datagram_completes_before_its_error_is_read() -> None:
    def bone(name: str) -> Any:
        return osc("/VMC/Ext/Bone/Pos", name, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)

    decoder = _core.Decoder("vmc")
    assert len(decoder.feed(bundle(osc("/VMC/Ext/T", 1.0), bone("Hips"), bone("Head")))) == 1
    # Half of a frame; then the next frame's time ends it, and none of its bones can be read.
    assert decoder.feed(bundle(osc("/VMC/Ext/T", 2.0), bone("Hips"))) == []
    broken = bundle(osc("/VMC/Ext/T", 3.0), osc("/VMC/Ext/Bone/Pos", "Hips"))
    assert [read["time"] for read in decoder.feed(broken)] == [2.0]
    with pytest.raises(WireError):
        decoder.feed(broken)


def test_our_own_datagrams_are_plain_msgpack() -> None:
    data = _core.encode_native_frame(7, 1.25, QUATS[:22], [0, 1, 2])
    plain = msgpack.unpackb(data)
    assert plain == {
        "v": 1,
        "type": "frame",
        "seq": 7,
        "t": 1.25,
        "quats": QUATS[:22].astype("<f4").tobytes(),
        "root": np.array([0, 1, 2], "<f4").tobytes(),
    }
    # Keys in another order, and unknown keys, are accepted.
    other = msgpack.packb({"more": [{}], **dict(reversed(plain.items()))})
    (read,) = _core.Decoder("msgpack").feed(other)
    np.testing.assert_array_equal(read["quats"], QUATS[:22])
    np.testing.assert_array_equal(read["root"], [0, 1, 2])
    names, parents = ["hips", "spine"], [-1, 0]
    body = _core.encode_native_skeleton(names, parents, PLACES[:2], rate=60.0)
    assert msgpack.unpackb(body)["names"] == names
    (read,) = _core.Decoder("msgpack").feed(body)
    assert (read["kind"], read["parents"], read["rate"]) == ("skeleton", parents, 60.0)
    np.testing.assert_array_equal(read["rest"], [[1, 0, 0, 0]] * 2)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ShapeError, lambda: _core.encode_frame("vmc", 0, 0.0, QUATS[:, :3], PLACES)),
        (ShapeError, lambda: _core.encode_frame("vmc", 0, 0.0, "quats", PLACES)),
        (ShapeError, lambda: _core.encode_frame("vmc", 0, 0.0, QUATS, PLACES[:5])),
        (ShapeError, lambda: _core.encode_native_frame(0, 0.0, QUATS, [1, 2])),
        (OptionError, lambda: _core.encode_native_frame(0, float("inf"), QUATS)),
        (OptionError, lambda: _core.encode_native_frame(0, 0.0, np.zeros((0, 4)))),
        (OptionError, lambda: _core.encode_frame("vmc", 0, 0.0, QUATS, PLACES, ids=range(1, 56))),
        (OptionError, lambda: _core.encode_frame("osc", 0, 0.0, QUATS, PLACES)),
        (OptionError, lambda: _core.encode_mocopi_skeleton([1, 0], PLACES[:2])),
        # Skeletons that the decoder would refuse; a chain of a million joints is not walked from each joint.
        (OptionError, lambda: _core.encode_natnet_skeleton(["j"] * 257, range(-1, 256), np.zeros((257, 3)))),
        (OptionError, lambda: _core.encode_natnet_frame(0, 0.0, QUATS, PLACES, range(-1, 256))),
        (WireError, lambda: _core.Decoder("mocopi").feed(b"")),
        (WireError, lambda: _core.Decoder("msgpack").feed(b"\x93\x01\x02\x03")),
        (WireError, lambda: _core.Decoder("msgpack").feed(msgpack.packb({"v": 2, "type": "frame"}))),
        (WireError, lambda: _core.Decoder("vmc").feed(b"#bundle\0short")),
    ],
)
def test_bad_values_get_one_clear_line(error: type[MotionError], call: Any) -> None:
    with pytest.raises(error) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) > 10


@pytest.mark.benchmark(group="decode")
@pytest.mark.parametrize("kind", ["mocopi", "vmc", "msgpack"])
def test_decoding_speed(benchmark: Any, kind: str) -> None:
    data = {
        "mocopi": _core.encode_mocopi_frame(1, QUATS[:27], PLACES[:27], unix_time=1.7e9),
        "vmc": _core.encode_frame("vmc", 0, 1.0, QUATS, PLACES),
        "msgpack": _core.encode_native_frame(1, 1.0, QUATS[:22], [0, 1, 2]),
    }[kind]
    benchmark(_core.Decoder(kind).feed, data)
