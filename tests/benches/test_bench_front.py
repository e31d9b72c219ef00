"""What a datagram costs from bytes to feature row; run with `-o addopts= --benchmark-only`."""

from itertools import count

import pytest
from support.sent import datagrams

from pyanticip import _core


@pytest.mark.parametrize("source", ["mocopi", "vmc", "msgpack"])
def test_feed(benchmark, source):
    sent = datagrams(source, 3000)
    front = _core.LiveFront(source)
    for i in range(600):
        front.feed(sent[i], i * 20_000_000)
    numbers = count(600)

    def feed():
        i = next(numbers)
        return front.feed(sent[i], i * 20_000_000)

    out = benchmark.pedantic(feed, rounds=2000, iterations=1)
    assert out.features.shape == (1, 231)
