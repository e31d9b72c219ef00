"""The suit's own body on the monitor: decoded from its datagrams, whatever else comes."""

import functools
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_motion
from realtime.monitor.suit import Suit
from realtime.programs.demo import PERFORMANCE


@functools.cache
def dancing(kind: str) -> list[bytes]:
    """The first datagrams of the bundled dance."""
    return [data for _, data in itertools.islice(datagrams(load_motion(PERFORMANCE), kind), 12)]


@pytest.mark.parametrize(("kind", "joints"), [("mocopi", 27), ("vmc", 55), ("xsens", 23), ("rokoko", 21)])
def test_the_body_is_displayed_as_sent(kind: str, joints: int):
    suit = Suit(kind)
    suit.decode(("one", data) for data in dancing(kind))
    body = suit.body
    assert len(body["parents"]) == len(body["places"]) == joints
    assert body["parents"].count(-1) == 1
    # A standing person: feet on the floor, the head above.
    heights = [place[1] for place in body["places"]]
    assert -0.1 < min(heights) < 0.2
    assert 1.3 < max(heights) < 1.9
    before = body
    suit.decode([("one", b"nonsense"), ("two", b"")])
    assert suit.body is None
    suit.decode([("one", b"")])
    assert suit.body == before
    # A restarted app sends from another port every time.
    for n in range(20):
        suit.decode((f"again {n}", data) for data in dancing(kind))
        assert suit.body == before
    suit.decode([("one", b"")])
    assert suit.body is None, "the oldest is forgotten"


@settings(max_examples=settings().max_examples // 2)
@given(st.sampled_from(["mocopi", "vmc", "msgpack", "phone"]), st.lists(st.binary(max_size=40)), st.randoms())
def test_no_datagram_breaks_the_display_of_a_suit(kind: str, noise: list[bytes], chance: Any):
    suit = Suit(kind)
    known = [] if kind == "phone" else dancing(kind)
    for data in [*noise, *known]:
        at = chance.randrange(len(data) + 1)
        suit.decode([("one", data), ("one", data[:at]), ("one", data[:at] + b"\xff" + data[at + 1 :])])
        assert suit.body is None or len(suit.body["parents"]) == len(suit.body["places"])
    assert kind != "phone" or suit.body is None
