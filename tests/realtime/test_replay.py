"""A recording played again: at its pace, as fast as can be, and until when."""

import asyncio
import itertools
from typing import Any

import pytest

from pyanticip.errors import OptionError
from realtime.clock import OfflineClock, ScaledClock
from realtime.control.commands import Commands
from realtime.show import Show
from realtime.sources.replay import Command, Datagram, Item, ReplaySource, play_offline


def shown(count: int) -> list[Item]:
    return [Datagram(5_000_000_000 + n * 20_000_000, str(n).encode(), "a:1") for n in range(count)]


def test_a_replay_keeps_its_pace_and_reports_recorded_arrivals() -> None:
    got: list[tuple[int, int]] = []

    async def show() -> float:
        loop = asyncio.get_running_loop()
        clock = ScaledClock(4.0)
        ended = asyncio.Event()
        source = ReplaySource(shown(41), clock, ended.set)
        begun = loop.time()
        source.start(loop, lambda data, t, sender: got.append((int(data), t)))
        await asyncio.wait_for(ended.wait(), 5)
        source.close()
        return loop.time() - begun

    took = asyncio.run(show())
    assert 0.19 < took < 0.5, "0.8 s at four times the pace"
    assert [n for n, _ in got] == list(range(41))
    assert {b - a for (_, a), (_, b) in itertools.pairwise(got)} == {20_000_000}


def test_a_replay_that_is_too_fast_for_the_machine_leaves_nothing_behind(stage: Any) -> None:
    # More datagrams than frames: 20 us apart, of which a machine does a few hundred thousand a second.
    items: list[Item] = []
    for n in range(100):
        many = (Datagram(5_000_000_000 + n * 20_000_000 + i * 20_000, b"?", "a:1") for i in range(1, 400))
        items += [Datagram(5_000_000_000 + n * 20_000_000, str(n).encode(), "a:1"), *many]

    def played(again: bool) -> tuple[list[tuple[int, int]], dict[str, int]]:
        paper = stage()
        if again:
            paper.pipeline.clock = clock = ScaledClock(1000.0)
            source = ReplaySource(items, clock)
            show = Show(paper.pipeline, source, Commands(paper.pipeline, str))
            source.ended = show.end
            asyncio.run(show.run(20))
        else:
            play_offline(items, OfflineClock(5_000_000_000), paper.pipeline.feed)
        return [(f.seq, f.t_ns) for f in paper.ear.frames if f.seq < 100], paper.pipeline.counts

    (frames, counts), (once, before) = played(again=True), played(again=False)
    assert frames == once
    assert counts["overtaken"] == before["overtaken"] == 0


def test_offline_everything_comes_at_its_time_until_the_end() -> None:
    clock = OfflineClock(5_000_000_000)
    got: list[tuple[int, object]] = []
    gain = Command(5_030_000_000, "gain", (0.5,))
    items = [*shown(2), gain, Datagram(5_040_000_000, b"2"), Command(5_300_000_000, "end"), *shown(1)]
    play_offline(
        items,
        clock,
        lambda d, t, sender: got.append((t, d)),
        lambda command: got.append((clock.now_ns(), command)),
    )
    assert got == [(5_000_000_000, b"0"), (5_020_000_000, b"1"), (5_030_000_000, gain), (5_040_000_000, b"2")]
    assert clock.now_ns() == 5_300_000_000


def test_a_replay_stops_in_time_counted_from_the_first_frame_of_motion() -> None:
    def frames(data: bytes, t_ns: int, sender: str) -> bool:
        got.append(t_ns)
        return len(got) > 20  # until then there was no suit

    got: list[int] = []
    play_offline(shown(100), OfflineClock(5_000_000_000), frames, seconds=1.0)
    assert len(got) == 20 + 51

    async def paced() -> None:
        source = ReplaySource(shown(1000), ScaledClock(10.0), seconds=0.1)
        ended = asyncio.Event()
        source.ended = ended.set
        source.start(asyncio.get_running_loop(), frames)
        await ended.wait()
        source.close()

    got.clear()
    asyncio.run(paced())
    assert 30 < len(got) < 1000


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), 1e9])
def test_senseless_speeds_are_refused(speed: float) -> None:
    with pytest.raises(OptionError, match="speed"):
        ScaledClock(speed)
