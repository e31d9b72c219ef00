"""Whoever sends is told by name: captures of real senders, and OSC as python-osc writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pythonosc.osc_message_builder import OscMessageBuilder
from support.captures import packets
from support.stranger import FRAMES

from realtime.sources.arrivals import recognise, wrong_kind


def osc(address: str, *floats: float) -> bytes:
    message = OscMessageBuilder(address)
    for value in floats:
        message.add_arg(value)
    return message.build().dgram


def test_captures_of_senders_are_their_kind(data_dir: Path) -> None:
    live = data_dir / "live"
    for file in ("sample_fram.bin", "sample_skdf.bin"):
        assert recognise((live / "mocopi" / file).read_bytes()) == "mocopi"
    for kind, capture in (
        ("mocopi", live / "mocopi-60hz" / "arms-lowered-60hz.mocopipackets"),
        ("vmc", live / "vmc" / "arm-raise-30hz.vmcpackets"),
    ):
        assert {recognise(packet) for _, packet in packets(capture)} == {kind}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_by_another_encoder(kind: str) -> None:
    assert recognise(FRAMES[kind](0, 0.0, 0.3)) == kind


@pytest.mark.parametrize(
    ("kind", "datagram"),
    [
        ("vrchat", osc("/tracking/trackers/1/position", 0.0, 1.0, 0.0)),
        ("vrchat", osc("/tracking/trackers/head/rotation", 0.0, 1.0, 0.0)),
        ("wek", osc("/wek/inputs", 0.5, 0.1)),
        ("phone", osc("/ZIGSIM/me/quaternion", 0.0, 0.0, 0.0, 1.0)),
        ("phone", osc("/gyrosc/quat", 1.0, 0.0, 0.0, 0.0)),
        ("osc", osc("/1/fader1", 0.5)),
        ("rokoko", json.dumps({"version": 3, "fps": 60, "scene": {"timestamp": 0}}).encode()),
        (None, b""),
        (None, b"hello"),
        (None, b"{}"),
        (None, b"\x00" * 40),
    ],
)
def test_others(kind: str | None, datagram: bytes) -> None:
    assert recognise(datagram) == kind


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(datagram: bytes) -> None:
    recognise(datagram)
    assert "\n" not in wrong_kind("mocopi", datagram, 1)


def test_what_to_do_is_said() -> None:
    vmc = FRAMES["vmc"](0, 0.0, 0.3)
    assert wrong_kind("mocopi", vmc, 12351) == "this is vmc: use --source vmc://0.0.0.0:12351"
    assert wrong_kind("mocopi", vmc, 39539) == "this is vmc: use --source vmc://0.0.0.0"
    assert wrong_kind("vmc", vmc, 39539) == ""
    euler = b"MXTP01" + bytes(18)
    assert "choose Position + Orientation (Quaternion)" in wrong_kind("xsens", euler, 9763)
    trackers = osc("/tracking/trackers/1/position", 0.0, 1.0, 0.0)
    assert wrong_kind("vmc", trackers, 9000) == "this is vrchat: use --source vrchat://0.0.0.0"
    assert "OSC of another program" in wrong_kind("vmc", osc("/1/fader1", 0.5), 9000)
    assert wrong_kind("vmc", b"hello", 9000) == ""
