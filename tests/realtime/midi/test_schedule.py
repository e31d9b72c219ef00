"""No note is left hanging, whatever is queued and whenever the show ends."""

from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime.sinks.midi import port as midi_port
from realtime.sinks.midi.schedule import (
    RELEASE,
    SILENCE,
    Item,
    Schedule,
    pack,
    registered_parameter,
    unpack,
)

MS = 1_000_000
PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow])
notes = st.builds(
    lambda due, hold, channel, number: Item(due * MS, hold * MS, bytes((0x90 | channel, number, 100))),
    st.integers(0, 600), st.integers(1, 300), st.integers(0, 2), st.integers(60, 62),
)  # fmt: skip
others = st.sampled_from([b"\xb0\x07\x40", b"\xd1\x10", b"\xe2\x00\x40", b"\xf8", b"\xfa", b"\xfc"])
items = st.one_of(
    notes,
    st.builds(lambda due, message: Item(due * MS, 0, message), st.integers(0, 600), others),
    st.sampled_from([Item(0, 0, RELEASE), Item(0, 0, SILENCE)]),
)


class Synth:
    """A receiver that tracks the sounding notes; it fails if a note starts or ends twice."""

    def __init__(self) -> None:
        self.sounding: set[tuple[int, int]] = set()
        self.heard: list[bytes] = []
        self.runs = False

    def hear(self, messages: list[bytes]) -> None:
        for message in messages:
            self.heard.append(message)
            key = message[0] & 15, message[1] if len(message) > 1 else 0
            if message[0] & 0xF0 == 0x90:
                assert key not in self.sounding, "a sounding note starts again"
                self.sounding.add(key)
            elif message[0] & 0xF0 == 0x80:
                assert key in self.sounding, "a silent note ends"
                self.sounding.remove(key)
            elif message in (b"\xfa", b"\xfc"):
                self.runs = message == b"\xfa"


@PROPERTY
@given(st.lists(st.tuples(items, st.integers(0, 40))))
def test_every_note_ends_and_none_twice(asked: list[tuple[Item, int]]) -> None:
    schedule, synth, now = Schedule(), Synth(), 0
    for item, wait in asked:
        synth.hear(schedule.put(item))
        if item.message in (RELEASE, SILENCE):
            assert not synth.sounding
            assert not synth.runs
            assert schedule.due_ns is None
        now += wait * MS
        synth.hear(schedule.take(now))
        assert schedule.due_ns is None or schedule.due_ns > now
    while schedule.due_ns is not None:
        synth.hear(schedule.take(schedule.due_ns))
    assert not synth.sounding


@PROPERTY
@given(st.lists(st.tuples(items, st.integers(0, 40))), st.booleans())
def test_the_end_of_the_show_ends_every_note(asked: list[tuple[Item, int]], hard: bool) -> None:
    schedule, synth, now = Schedule(), Synth(), 0
    for item, wait in asked:
        synth.hear(schedule.put(item))
        now += wait * MS
        synth.hear(schedule.take(now))
    used = {message[0] & 15 for message in synth.heard if message[0] < 0xF0}
    last = schedule.end_notes(sound_off=hard)
    synth.hear(last)
    assert not synth.sounding
    assert not synth.runs
    assert schedule.take(now + 10**12) == []
    for channel in used:
        assert bytes((0xB0 | channel, 123, 0)) in last
        assert (bytes((0xB0 | channel, 120, 0)) in last) == hard


@PROPERTY
@given(st.lists(items), st.integers(0, 12))
def test_items_may_be_cut_anywhere_in_the_pipe(asked: list[Item], cut: int) -> None:
    data = pack(asked)
    first, rest = unpack(data[: len(data) - cut])
    second, rest = unpack(rest + data[len(data) - cut :])
    assert (first + second, rest) == (asked, b"")


def test_a_note_plays_at_its_time_and_not_far_too_late() -> None:
    schedule = Schedule()
    schedule.put(Item(150 * MS, 50 * MS, b"\x90\x3c\x64"))
    assert schedule.take(149 * MS) == []
    assert schedule.take(150 * MS) == [b"\x90\x3c\x64"]
    assert schedule.due_ns == 200 * MS
    assert schedule.take(200 * MS) == [b"\x80\x3c\x40"]
    schedule.put(Item(300 * MS, 50 * MS, b"\x90\x3c\x64"))
    assert schedule.take(801 * MS) == []


def test_simultaneous_messages_keep_their_order() -> None:
    schedule = Schedule()
    messages = [b"\xb0\x4a\x10", b"\xd0\x20", b"\xe0\x00\x40"]
    for message in messages:
        schedule.put(Item(5, 0, message))
    schedule.put(Item(0, 0, b"\xb0\x07\x01"))
    assert schedule.take(5) == [b"\xb0\x07\x01", *messages]


class Cable:
    """A port that is absent from the first of the seconds ``gone`` to the other; records the messages that
    arrive. A program that returns does not hear whoever was connected to it before."""

    def __init__(self, gone: tuple[float, float]) -> None:
        self.gone, self.seconds, self.heard = gone, 0.0, [""]
        self.open = True
        self.opened_at = 0.0

    @property
    def is_listed(self) -> bool:
        return not self.gone[0] <= self.seconds < self.gone[1]

    @property
    def is_present(self) -> bool:
        return self.open and self.is_listed

    def reopen(self) -> bool:
        self.open, self.opened_at = self.is_listed, self.seconds
        return self.open

    def send(self, messages: Iterable[bytes]) -> None:
        is_connected = self.opened_at >= self.gone[1] or self.seconds < self.gone[0]
        if self.open and self.is_listed and is_connected:
            self.heard += [message.hex(" ") for message in messages]

    def close(self) -> None:
        self.open = False


def served(cable: Cable, monkeypatch: pytest.MonkeyPatch, *asked: tuple[float, Item]) -> list[str]:
    """Messages that arrive if each item is written at its second and the show ends at second 10."""
    waiting = [(at, pack([item])) for at, item in asked] + [(10.0, b"")]

    def wait_readable(timeout: float) -> bool:
        until = cable.seconds + max(timeout, 0.0) + 1e-6
        cable.seconds = min(until, waiting[0][0])
        return waiting[0][0] <= until

    clock = SimpleNamespace(monotonic_ns=lambda: round(cable.seconds * 1e9), sleep=lambda seconds: None)
    monkeypatch.setattr(midi_port, "time", clock)
    monkeypatch.setattr(midi_port, "wait_readable", wait_readable)
    monkeypatch.setattr(midi_port, "os", SimpleNamespace(read=lambda *_: waiting.pop(0)[1]))
    midi_port.serve(cable)  # type: ignore[arg-type]
    return cable.heard[1:]


def test_a_note_that_ended_without_a_port_ends_when_it_is_back(monkeypatch):
    # Half a second before the port goes, which the next check notices; the bend is on an MPE member channel.
    asked = (1.5, Item(0, 800 * MS, b"\x90\x3c\x64")), (1.6, Item(0, 0, b"\xe3\x00\x40"))
    received = served(Cable((2.0, 5.0)), monkeypatch, *asked)
    assert received[:5] == ["90 3c 64", "e3 00 40", "80 3c 40", "b0 7b 00", "b3 7b 00"]


def test_a_port_that_is_back_hears_no_tick_but_those_of_the_next_start(monkeypatch):
    def clock(start: float, ticks: int) -> list[tuple[float, Item]]:
        """A start, and ticks that are each written 60 ms before they are due."""
        due = [start + 0.01 + 0.02 * n for n in range(ticks)]
        queued = [(max(at - 0.06, start), Item(round(at * 1e9), 0, b"\xf8")) for at in due]
        return [(start, Item(round(start * 1e9), 0, b"\xfa")), *queued]

    # The port is there again from 5 s on, which the show learns at 6 s.
    before, after = clock(1.0, 252), clock(6.0, 100)
    received = served(Cable((2.0, 5.0)), monkeypatch, *before, *after)
    assert before[-1][0] < 6.0 < before[-1][1].due_ns / 1e9
    assert received == ["fa", *["f8"] * 50, "fa", *["f8"] * 100, "fc"]


def test_a_synth_that_is_restarted_within_a_fraction_of_a_second_is_played_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its port is listed under the same name, but nobody is connected to it."""
    before, after = (2.0, Item(0, 0, b"\xb0\x01\x01")), (8.0, Item(0, 0, b"\xb0\x01\x02"))
    assert "b0 01 02" in served(Cable((4.25, 4.6)), monkeypatch, before, after)


class LateDriver:
    """JACK with a program that connects from the second look at its port on, as another port vanishes."""

    def __init__(self) -> None:
        self.looks: list[list[str]] = [["old:in", "synth:in"], ["synth:in"]]
        self.connected = ""

    def get_ports(self) -> list[str]:
        return self.looks.pop(0)

    def open_port(self, index: int, name: str) -> None:
        self.connected = ["synth:in"][index] if not self.looks else ""


def test_a_port_is_connected_only_once_its_program_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = LateDriver()
    monkeypatch.setattr(midi_port, "_drivers", lambda direction: iter([driver]))
    assert midi_port.open_port("synth")[1] == driver.connected == "synth:in"


def test_the_end_of_the_show_resets_the_synth(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = (
        b"\xb0\x0b\x00",
        b"\xb2\x40\x7f",
        b"\xb2\x07\x00",
        b"\xb2\x0a\x7f",
        b"\xb2\x4a\x01",
        b"\xb2\x10\x01",
    )
    faded = [(1.0, Item(0, 0, message)) for message in messages]
    received = served(Cable((0.0, 0.0)), monkeypatch, *faded, (2.0, Item(0, 0, SILENCE)))
    stopped = ["b0 7b 00", "b0 78 00", "b2 7b 00", "b2 78 00"]
    # A panic leaves the controllers alone, the end resets them.
    assert received[6:10] == stopped
    assert received[10:] == [
        *stopped, "b0 79 00", "e0 00 40", "b0 0b 7f",
        "b2 79 00", "e2 00 40", "b2 07 64", "b2 0a 40", "b2 40 00", "b2 4a 40",
    ]  # fmt: skip


def test_the_end_of_the_show_dissolves_the_mpe_zone_and_restores_bend_ranges(monkeypatch) -> None:
    zone = [*registered_parameter(0, 6, 2), *registered_parameter(0, 0, 48), *registered_parameter(1, 0, 48)]
    # An ordinary controller of the number that selects parameters.
    items = [*zone, b"\xb3\x65\x40", b"\xb3\x64\x00"]
    received = served(Cable((0.0, 0.0)), monkeypatch, *((1.0, Item(0, 0, message)) for message in items))
    reset = received[received.index("b0 65 00", len(zone)) :]
    assert reset[:15] == [
        "b0 65 00", "b0 64 06", "b0 06 00", "b0 65 7f", "b0 64 7f",
        "b0 65 00", "b0 64 00", "b0 06 02", "b0 65 7f", "b0 64 7f",
        "b1 65 00", "b1 64 00", "b1 06 02", "b1 65 7f", "b1 64 7f",
    ]  # fmt: skip
    assert "b3 06 02" not in reset
