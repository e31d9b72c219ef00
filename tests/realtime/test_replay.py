"""Replays: at the recorded pace, as fast as possible, and until when; the same frames at any pace."""

import asyncio
import itertools
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyanticip.errors import FormatError, OptionError
from pyanticip.motion.recording import Output, Raw, RecordingWriter, read_recording
from realtime.bench.performer import mocopi_datagrams
from realtime.clock import OfflineClock, ScaledClock
from realtime.control.commands import Commands
from realtime.programs.live import replay
from realtime.rig import Rig
from realtime.show import Show
from realtime.sources.replay import Command, Datagram, Item, ReplaySource, open_show, play_offline


def make_items(count: int) -> list[Item]:
    return [Datagram(5_000_000_000 + n * 20_000_000, str(n).encode(), "a:1") for n in range(count)]


def test_a_replay_keeps_its_pace_and_reports_recorded_arrivals() -> None:
    got: list[tuple[int, int]] = []

    async def show() -> float:
        loop = asyncio.get_running_loop()
        clock = ScaledClock(4.0)
        ended = asyncio.Event()
        source = ReplaySource(make_items(41), clock)
        source.ended = ended.set
        start_s = loop.time()
        source.start(loop, lambda data, t, sender: got.append((int(data), t)))
        await asyncio.wait_for(ended.wait(), 5)
        source.close()
        return loop.time() - start_s

    took = asyncio.run(show())
    assert 0.19 < took < 0.5, "0.8 s at four times the pace"
    assert [n for n, _ in got] == list(range(41))
    assert {b - a for (_, a), (_, b) in itertools.pairwise(got)} == {20_000_000}


def test_a_replay_faster_than_the_machine_skips_nothing(stage: Any) -> None:
    # Datagrams 20 us apart, more than frames; a machine handles a few hundred thousand per second.
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


def test_offline_items_are_delivered_at_their_times() -> None:
    clock = OfflineClock(5_000_000_000)
    got: list[tuple[int, object]] = []
    gain = Command(5_030_000_000, "gain", (0.5,))
    items = [
        *make_items(2),
        gain,
        Datagram(5_040_000_000, b"2"),
        Command(5_300_000_000, "end"),
        *make_items(1),
    ]
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
        return len(got) > 20  # before that there was no suit

    got: list[int] = []
    play_offline(make_items(100), OfflineClock(5_000_000_000), frames, seconds=1.0)
    assert len(got) == 20 + 51

    async def paced() -> None:
        source = ReplaySource(make_items(1000), ScaledClock(10.0), seconds=0.1)
        ended = asyncio.Event()
        source.ended = ended.set
        source.start(asyncio.get_running_loop(), frames)
        await ended.wait()
        source.close()

    got.clear()
    asyncio.run(paced())
    assert 30 < len(got) < 1000


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), 1e9])
def test_invalid_speeds_are_refused(speed: float) -> None:
    with pytest.raises(OptionError, match="speed"):
        ScaledClock(speed)


Pair = tuple[int, bytes] | Item


def mocopi(frames: int, lost: Collection[int] = ()) -> list[Pair]:
    skeleton, datagrams = mocopi_datagrams(frames)
    return [(0, skeleton), *((n * 20_000_000, d) for n, d in enumerate(datagrams) if n not in lost)]


def play(pairs: Iterable[Pair], kind: str, path: Path, speed: float | None) -> list[Output]:
    items = (p if isinstance(p, Command) else Datagram(*p) for p in pairs)
    rig = Rig.model_validate(
        {"record": str(path), "model": {"enabled": False}, "osc": [], "control": {"enabled": False}}
    )
    replay(items, kind, rig, speed=speed, say=lambda line: None)
    return [r for r in read_recording(path) if isinstance(r, Output)]


def numbers(outputs: list[Output]) -> list[tuple[int, bytes, bytes]]:
    return [(o.seq, o.params.tobytes(), o.scalars.tobytes()) for o in outputs]


def test_a_recording_replays_as_it_was_played(tmp_path: Path) -> None:
    first = play(mocopi(150, lost={40, 41, 90}), "mocopi", tmp_path / "a.anticip", 3.0)
    kind, pairs = open_show(tmp_path / "a.anticip")
    again = play(list(pairs), kind, tmp_path / "b.anticip", None)
    assert numbers(first) == numbers(again)
    assert [o.seq for o in first] == list(range(len(first)))
    assert len(first) >= 150 + 18, "frames that are lost are bridged, and the end is a fade"


def test_a_recording_of_two_suits_replays_the_first(tmp_path: Path) -> None:
    tape = RecordingWriter(tmp_path / "a.anticip", {})
    for t, data in mocopi(5):
        tape.raw(t, "mocopi", data)
        tape.raw(t, "vmc", b"other")
    tape.close()
    kind, pairs = open_show(tmp_path / "a.anticip")
    assert kind == "mocopi"
    assert [type(p).__name__ for p in pairs] == ["Datagram"] * 6
    assert sum(isinstance(r, Raw) for r in read_recording(tmp_path / "a.anticip")) == 12


@pytest.mark.parametrize("speed", [None, 100.0])
def test_a_replay_reports_damage_and_data_after_the_end(speed: float | None, tmp_path: Path) -> None:
    whole = play(mocopi(50), "mocopi", tmp_path / "a.anticip", 100.0)
    recording = (tmp_path / "a.anticip").read_bytes()
    begins, *more = recording.split(b"sony motion format")
    damaged = begins
    for n, rest in enumerate(more):
        damaged += (b"sony motion format", b"Sony motion format")[n in (20, 30, 40)] + rest
    (tmp_path / "j.anticip").write_bytes(damaged + recording)
    lines: list[str] = []
    kind, items = open_show(tmp_path / "j.anticip", say=lines.append)
    assert len(play(items, kind, tmp_path / "b.anticip", speed)) == pytest.approx(len(whole), abs=4)
    behind, damage = lines
    assert behind == f"{tmp_path / 'j.anticip'}: what follows the end (51 datagrams) is not played"
    assert "the checksum does not hold" in damage
    # The magic of the second file is the fourth.
    assert "and 3 more such places" in damage
    # A memory's takes are all recordings of the file.
    _, items = open_show(tmp_path / "j.anticip", joined=True)
    assert sum(isinstance(item, Datagram) for item in items) > 51 + 45


def test_a_replay_ends_at_a_read_error() -> None:
    lines: list[str] = []

    def items() -> Iterator[Item]:
        yield from (Datagram(*pair) for pair in mocopi(20))
        yield Command(390_000_000, "start", ())
        raise FormatError("a.anticip: cannot be read: input/output error")

    tree = {"model": {"enabled": False}, "osc": [], "control": {"enabled": False}}
    summary = replay(items(), "mocopi", Rig.model_validate(tree), speed=10.0, say=lines.append)
    assert summary["counters"]["frames"] == 20
    assert lines == ["a.anticip: cannot be read: input/output error; the replay ends here"]


def test_a_joined_recording_after_a_long_pause_is_not_played(tmp_path: Path) -> None:
    day = 86_400 * 10**9
    for name, t_ns in (("a", 3 * day), ("b", 366 * day)):
        with RecordingWriter(tmp_path / name, t_ns=t_ns) as tape:
            tape.raw(t_ns, "mocopi", b"frame")
            if name == "b":
                break
            # An earlier one does not change what is late either.
            tape.raw(0, "mocopi", b"frame")
            tape.raw(t_ns + day, "mocopi", b"frame")
    (tmp_path / "j").write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
    lines: list[str] = []
    assert [item.t_ns for item in open_show(tmp_path / "j", say=lines.append)[1]] == [3 * day, 0, 4 * day]
    assert lines[0] == f"{tmp_path / 'j'}: what follows a pause of more than a day (1 datagram) is not played"
    assert len(list(open_show(tmp_path / "j", joined=True)[1])) == 4
