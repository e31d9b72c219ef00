"""More performers than a core can serve: each one's newest frame is sent soon; skipped ones are recorded."""

import asyncio
import socket
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from support.playing import captured_bundles, outputs

from pyanticip.motion.recording import RecordingWriter
from pyanticip.teach.project import Project
from realtime.bench.performer import mocopi_datagrams
from realtime.clock import MonotonicClock, OfflineClock
from realtime.control.commands import Commands
from realtime.multi_show import open_multi_show
from realtime.pipeline import Pipeline
from realtime.recording.info import recording_info
from realtime.rig import parse_rig
from realtime.show import Show
from realtime.sockets import free_port
from realtime.sources.replay import Command, open_show, play_offline
from realtime.sources.shared import SharedSource, Turns
from realtime.sources.udp import UdpSource
from realtime.stage import assemble
from realtime.status import LoadWatch
from realtime.teaching.take_recorder import TakeRecorder

NS, SUIT = 20_000_000, "10.0.0.1:7000"
SKELETON, FRAMES = mocopi_datagrams(300)
RIG = parse_rig({"control": {"enabled": False}, "memory": {"enabled": False}}, "test")


def shared_source(turns: Turns, socket: Any = None) -> SharedSource:
    return SharedSource(socket or SimpleNamespace(newest=b"", dropped=0, close=lambda: None), turns)


def test_the_longest_waiting_performer_is_next_and_gets_all_queued_datagrams() -> None:
    turns, calls = Turns(), []
    at_one, at_another = shared_source(turns), shared_source(turns)
    places = [at_one.add_performer("a"), at_one.add_performer("b"), at_another.add_performer(None)]
    for name, place in zip("abc", places, strict=True):
        place.receive = lambda datagram, t, sender, name=name: calls.append((name, datagram, t))
        place.hold = lambda count, t, name=name: calls.append((name, count, t))
    at_another.route(b"1", 1, "whoever:1")
    for n, sender in enumerate(["b:1", "a:1", "b:1", "b:1"]):
        at_one.route(str(n).encode(), n, sender)
    while turns.run_next():
        calls.append("next")
    assert calls == [
        *[("c", b"1", 1), "next"],
        *[("b", 2, 0), ("b", b"0", 0), ("b", b"2", 2), ("b", b"3", 3), "next"],
        *[("a", b"1", 1), "next"],
    ]
    at_one.route(b"", 9, "stranger:1")
    places[0].close()
    assert turns.run_next(), "b receives unknown senders, too"
    assert not turns.run_next(), "a closed source receives nothing more"
    for n in range(1000):
        at_one.route(b"", n, "b:1")
    assert places[1].dropped == 488


def test_overload_is_shared_fairly_and_frames_stay_fresh() -> None:
    """32 suits at 50 Hz; a turn takes 2 ms, and a skipped datagram a twentieth of that: 64 ms per round."""
    turns, clock, count = Turns(), OfflineClock(), 32
    here = shared_source(turns)
    late: list[int] = []
    played: Counter[int] = Counter()
    skipped: Counter[int] = Counter()

    def place(n: int) -> None:
        waits = [0]

        def receive(datagram: bytes, t: int, sender: str) -> None:
            if waits[0]:
                waits[0] -= 1
                skipped[n] += 1
                clock.advance_to(clock.now_ns() + 100_000)
            else:
                clock.advance_to(clock.now_ns() + 2_000_000)
                if coming:
                    late.append(clock.now_ns() - t)
                played[n] += 1

        found = here.add_performer(f"h{n}")
        found.receive, found.hold = receive, lambda held, t: waits.__setitem__(0, held)

    for n in range(count):
        place(n)
    phases = np.random.default_rng(1).integers(0, NS, count)
    coming = sorted((int(phases[n]) + k * NS, n) for n in range(count) for k in range(500))
    while coming or turns._waiting:
        while coming and (coming[0][0] <= clock.now_ns() or not turns._waiting):
            clock.advance_to(coming[0][0])
            t, n = coming.pop(0)
            here.route(b"", t, f"h{n}:1")
        turns.run_next()
    assert max(late) < NS + 5_000_000, "no datagram is older than the suit's last turn"
    assert max(played.values()) - min(played.values()) <= 3
    assert 100 < min(played.values()) < 160
    assert all(played[n] + skipped[n] == 500 for n in range(count))


def play(pipeline: Pipeline, held: set[int], n: int = 0) -> dict[int, Any]:
    """Output of each frame; each of those ``held`` waits for the next one."""
    left = {}
    frame = pipeline._emit
    pipeline._emit = lambda it, t: (left.__setitem__(it.seq, it), frame(it, t))
    pipeline.feed(SKELETON, n * NS, SUIT)
    while n < len(FRAMES):
        more = next(k for k in range(len(FRAMES)) if n + k not in held)
        if more:
            pipeline.hold(more, n * NS)
        for k in range(more + 1):
            pipeline.clock.advance_to((n + k) * NS)
            assert pipeline.feed(FRAMES[n + k], (n + k) * NS, SUIT) == (k == more)
        n += more + 1
    return left


HELD = {n for n in range(10, 290) if n % 7 in (1, 2, 4)} | set(range(100, 140))


def test_skipped_frames_are_decoded_and_the_model_sees_them() -> None:
    some, every = (assemble(RIG, OfflineClock()) for _ in range(2))
    left, expected = play(some, HELD), play(every, set())
    assert sorted(left) == sorted(set(range(300)) - HELD)
    for n, frame in left.items():
        for name in ("params", "hazards", "scalars", "hidden"):
            np.testing.assert_array_equal(getattr(frame.step, name), getattr(expected[n].step, name))
        assert frame.scalars == expected[n].scalars
        assert frame.tempo == expected[n].tempo
    for limb in range(4):
        strokes = [sum(f.limbs[3 * limb + 2] > 0 for f in frames.values()) for frames in (left, expected)]
        assert 0 < strokes[0] <= strokes[1], "a stroke of a skipped frame is sent with the next one"
    counts = some.counters()
    assert (counts["skipped"], counts["frames"], counts["bridged"]) == (len(HELD), 300, 0)
    assert f"skipped={len(HELD)}" in some.status()
    assert not any(word.startswith("skipped") for word in every.status())
    for pipeline in (some, every):
        pipeline.close()


def test_a_taught_take_includes_skipped_frames(tmp_path: Path) -> None:
    takes = []
    for held in (HELD, set()):
        pipeline = assemble(RIG, OfflineClock())
        pipeline.take_recorder = recorder = TakeRecorder(Project.create(tmp_path / str(len(held))))
        recorder.set_targets({"glow": 0.5})
        pipeline.feed(SKELETON, 0, SUIT)
        for n in range(8):
            pipeline.clock.advance_to(n * NS)
            assert pipeline.feed(FRAMES[n], n * NS, SUIT)
        recorder.start("one", 5.0)
        play(pipeline, held, 8)
        takes.append(recorder.stop())
        pipeline.close()
    some, every = takes
    assert (some.begin, len(some.clip)) == (every.begin, len(every.clip)) == (8, 258)
    np.testing.assert_array_equal(some.clip.quats, every.clip.quats)
    np.testing.assert_allclose(some.clip.root, every.clip.root, atol=0.05)
    assert np.abs(np.diff(some.clip.root, axis=0)).max() < 0.05


def test_no_frame_is_skipped_if_the_last_datagram_completes_none() -> None:
    """As with several datagrams per frame, or another suit."""
    pipeline = assemble(RIG, OfflineClock())
    sent = captured_bundles(pipeline)
    pipeline.feed(SKELETON, 0, SUIT)
    for n, datagram in enumerate(FRAMES[:50]):
        pipeline.clock.advance_to(n * NS)
        pipeline.hold(1, n * NS)
        assert not pipeline.feed(datagram, n * NS, SUIT)
        assert pipeline.feed(FRAMES[n], n * NS, "10.0.0.2:7000")
    counts = pipeline.counters()
    assert (counts["frames"], counts["skipped"], counts["bridged"]) == (50, 0, 0)
    assert sum(b"param" in datagram for datagram in sent) >= 50
    pipeline.close()


def test_with_a_buffer_only_frames_that_waited_longer_are_skipped() -> None:
    rig = parse_rig({"control": {"enabled": False}, "source": {"buffer_ms": 60.0}}, "test")
    pipeline = assemble(rig, OfflineClock())
    pipeline.feed(SKELETON, 0, SUIT)
    for n in range(1, 50, 2):
        pipeline.clock.advance_to(n * NS)
        pipeline.hold(1, n * NS)
        assert [pipeline.feed(datagram, n * NS, SUIT) for datagram in FRAMES[n - 1 : n + 1]] == [True, True]
    assert pipeline.counts["skipped"] == pipeline.counts["bridged"] == 0
    pipeline.clock.advance_to(54 * NS)
    pipeline.hold(1, 51 * NS)
    assert [pipeline.feed(FRAMES[n], (n + 1) * NS, SUIT) for n in (50, 51)] == [False, True]
    Commands(pipeline, pytest.fail, rig).replay_command(Command(55 * NS, "hold", (1,)))
    assert not pipeline.feed(FRAMES[52], 55 * NS, SUIT), "a replay skips the same frames"
    pipeline.close()


def test_skipped_frames_are_recorded_and_skipped_in_a_replay(tmp_path: Path) -> None:
    files = [tmp_path / "show.anticip", tmp_path / "again.anticip"]
    rig = parse_rig({"control": {"enabled": False}}, "test")
    live = assemble(rig, OfflineClock())
    sent = captured_bundles(live)
    with RecordingWriter(files[0], t_ns=0) as live.tape:
        play(live, HELD)
    again = assemble(rig, OfflineClock())
    commands, found = Commands(again, pytest.fail, rig), captured_bundles(again)
    with RecordingWriter(files[1], t_ns=0) as again.tape:
        play_offline(open_show(files[0])[1], again.clock, again.feed, commands.replay_command)
    assert len(sent) > 150
    assert found == sent
    assert [*open_show(files[0])[1]] == [*open_show(files[1])[1]], "a recording of a replay says so, too"
    info = recording_info(files[0])
    assert (info["heard"]["mocopi"]["counters"]["frames"], info["missing_frames"]) == (300, len(HELD))
    for pipeline in (live, again):
        pipeline.close()


def test_a_replay_eases_out_of_a_standstill_with_queued_frames(tmp_path):
    files = [tmp_path / "show.anticip", tmp_path / "again.anticip"]
    live, again = (assemble(RIG, OfflineClock()) for _ in range(2))
    with RecordingWriter(files[0], t_ns=0) as live.tape:
        live.feed(SKELETON, 0, SUIT)
        for n in range(50):
            live.clock.advance_to(n * NS)
            live.feed(FRAMES[n], n * NS, SUIT)
        live.clock.live = True
        live.clock.advance_to(100 * NS)
        live.hold(1, 99 * NS)
        assert [live.feed(FRAMES[n], n * NS, SUIT) for n in (99, 100)] == [False, True]
    with RecordingWriter(files[1], t_ns=0) as again.tape:
        obey = Commands(again, pytest.fail, RIG).replay_command
        play_offline(open_show(files[0])[1], again.clock, again.feed, obey)
    controls = [item.name for item in open_show(files[0])[1] if isinstance(item, Command)]
    assert {"resume", "hold"} <= {*controls}
    assert outputs(files[0]) == outputs(files[1])
    for pipeline in (live, again):
        pipeline.close()


def test_a_queued_frame_is_found_behind_other_datagrams() -> None:
    """A frame that waits in the socket is not late."""
    source = UdpSource("mocopi", "127.0.0.1", 0)
    suits = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for suit in suits:
        suit.bind(("127.0.0.1", 0))
    here, received = shared_source(Turns(), source), []
    for suit in suits:
        place = here.add_performer(f"127.0.0.1:{suit.getsockname()[1]}")
        place.receive = lambda datagram, t, sender: received.append(datagram)
    loop = asyncio.new_event_loop()
    source.start(loop, here.route)
    for _ in range(150):
        suits[0].sendto(b"alice", source.address)
    suits[1].sendto(b"bob", source.address)
    place.poll()
    assert received == [b"bob"]
    for each in (source, loop, *suits):
        each.close()


def test_the_newest_queued_frame_of_each_performer_is_played() -> None:
    port = free_port()
    suits = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for suit in suits:
        suit.bind(("127.0.0.1", 0))
    tree = {
        "source": {"port": port},
        "osc": [],
        "control": {"enabled": False},
        "performer": [
            {"name": name, "from": f"127.0.0.1:{suit.getsockname()[1]}"}
            for name, suit in zip(("alice", "bob"), suits, strict=True)
        ],
    }
    multi_show = open_multi_show(parse_rig(tree, "test"), MonotonicClock(), lambda line: None)
    for datagram in (SKELETON, *FRAMES[:8]):
        for suit in suits:
            suit.sendto(datagram, ("127.0.0.1", port))
    done = asyncio.run(multi_show.run(0.2))
    for name in ("alice", "bob"):
        counters = done["performers"][name]["counters"]
        assert counters["frames"] == counters["heard"] == 8
        assert counters["skipped"] > 0
    for suit in suits:
        suit.close()


def test_overload_is_reported_once_at_its_start_and_end() -> None:
    load = LoadWatch()
    lines = [load.look(n) for n in (0, 5, 5, 9, 9, 9)]
    assert not any(lines), "one or two stalls are not reported"
    behind = [load.look(n) for n in range(10, 40)]
    assert [line is not None for line in behind] == [False, False, True, *[False] * 27]
    assert "one core cannot keep up" in str(behind[2])
    well = [load.look(39) for _ in range(30)]
    assert [n for n, line in enumerate(well) if line] == [9]


class Backlog:
    """A source of waiting datagrams, read one burst at a time."""

    def __init__(self, pipeline: Pipeline, frames: range) -> None:
        self.pipeline = pipeline
        self.waiting = list(frames)
        self.polls = self.dropped = 0

    def poll(self) -> None:
        self.polls += 1
        for n in self.waiting[:64]:
            self.pipeline.feed(str(n).encode(), n * 20_000_000 + 1, "a:1")
        del self.waiting[:64]

    def wait(self, seconds: float) -> bool:
        return bool(self.waiting)


def test_queued_datagrams_after_a_standstill_are_read_and_a_flood_is_not(stage: Any) -> None:
    paper = stage()
    paper.clock.speed = 1.0
    paper.frame(0)
    source: Any = Backlog(paper.pipeline, range(1, 300))
    show = Show(paper.pipeline, source, Commands(paper.pipeline, str))
    paper.clock.advance_to(300 * 20_000_000)
    show._poll()
    paper.pipeline.run_until(paper.clock.now_ns())
    assert paper.pipeline.counts["frames"] == 300
    assert paper.pipeline.counts["overtaken"] == 0
    # All datagrams until now have been read; later ones wait for their turn.
    source.waiting, source.polls = list(range(300, 900)), 0
    show._poll()
    assert source.polls == 1


def test_a_frame_that_arrives_while_the_show_reads_or_loads_is_not_late(stage: Any) -> None:
    """As when another thread, which loads a rig, keeps the show from going on."""
    paper = stage()
    paper.clock.speed = 1.0
    paper.frame(0)
    source: Any = Backlog(paper.pipeline, range(0))
    show = Show(paper.pipeline, source, Commands(paper.pipeline, str))
    show._loop = Mock()
    paper.clock.advance_to(21_000_000)

    def read_and_wait() -> None:
        Backlog.poll(source)
        paper.clock.advance_to(39_000_000)
        source.poll = partial(Backlog.poll, source)

    source.poll = read_and_wait
    show._process_due()
    source.waiting = [1]
    show.commands.obey("gain", 1.0)
    assert paper.pipeline.counts["frames"] == 2
    assert paper.pipeline.counts["bridged"] == paper.pipeline.counts["overtaken"] == 0
