"""OSC from anybody is split and read, or refused."""

import pytest
from support.wire import bundle

from realtime.osc import read_messages, split


def test_messages_come_in_order_out_of_bundles_and_no_more_than_asked() -> None:
    inner = bundle(b"b", bundle(bundle(b"c")), b"d")
    assert list(split(bundle(b"a", inner, b"e"), 9)) == [b"a", b"b", b"c", b"d", b"e"]
    assert list(split(bundle(b"a", inner, b"e"), 3)) == [b"a", b"b", b"c"]
    assert list(split(b"alone", 1)) == [b"alone"]
    assert list(split(b"alone", 0)) == list(split(bundle(), 5)) == []
    with pytest.raises(ValueError, match="bundles in bundles"):
        list(split(bundle(bundle(bundle(bundle(bundle(b"x"))))), 5))
    for rest in (b"\0\0\0\2b", bytes(4), b"\0\0", b"\xff\xff\xff\xfc"):
        with pytest.raises(ValueError, match="longer than its bundle"):
            list(split(bundle(b"a") + rest, 5))


def test_what_cannot_be_read_costs_no_other_message_of_its_bundle() -> None:
    good, odd = b"/a\0\0,i\0\0\0\0\0\7", b"/b\0\0,c\0\0abcd"
    assert [message.params for message in read_messages(bundle(good, odd), 9, 9)] == [[7]]
    with pytest.raises(ValueError, match="unknown types"):
        read_messages(bundle(odd), 9, 9)
