"""Which frame leaves under which number, and when the next one is late."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from realtime.playout import FRAME_NS, Playout
from realtime.slots import FRAME, Slot, Slots

MS = 1_000_000


def frame(seq: int, *, reset: bool = False, late_ms: float = 30.0, local_ns: int = 0) -> Any:
    return SimpleNamespace(seq=seq, reset=reset, late_ns=round(late_ms * MS), t_local_ns=local_ns)


def begun(*frames: int) -> Slots:
    """Slots that have taken these frames, each at its time; the stream's first is its number 7."""
    slots = Slots(0, None)
    for n in frames:
        slots.take(frame(7 + n), n * FRAME_NS)
    return slots


def test_frames_are_counted_from_the_first_on() -> None:
    slots = Slots(5, None)
    assert (slots.due_ns, slots.newest, slots.away) == (5 + FRAME_NS, -1, 0)
    assert slots.take(frame(7), 1000) == Slot(0, FRAME, FRAME, 1000)
    assert slots.take(frame(8), 2000) == Slot(1, FRAME, FRAME, 2000)
    assert slots.take(frame(11), 3000) == Slot(4, 3 * FRAME, 3 * FRAME, 3000)
    assert slots.away == 0


def test_what_has_passed_without_a_datagram_counts_and_silence_is_not_heard() -> None:
    slots = begun(0)
    slots.skip(silent=False)
    assert slots.away == 1
    slots.skip(silent=True)
    slots.skip(silent=True)
    assert (slots.newest, slots.away) == (3, 3)
    assert slots.take(frame(11), 0) == Slot(4, 4 * FRAME, 3 * FRAME, 0)


def test_a_frame_that_comes_after_its_turn_is_none_until_they_keep_coming_so() -> None:
    slots = begun(0)
    for _ in range(10):
        slots.skip(silent=False)
    assert slots.is_newest(frame(17))
    assert not slots.is_newest(frame(16))
    for n in range(1, 4):
        assert slots.take(frame(7 + n), n * 100 * MS)[0::2] == (n, None)
    # For 300 ms: from here on they have a longer way.
    assert slots.take(frame(11), 400 * MS).dt is None
    assert slots.take(frame(11), 401 * MS) == Slot(11, 7 * FRAME, FRAME, 401 * MS)
    assert slots.take(frame(12), 420 * MS).number == 12
    # One in time begins the count anew.
    slots.skip(silent=False)
    assert slots.take(frame(13), 440 * MS).dt is None
    assert slots.take(frame(14), 460 * MS).dt == FRAME
    slots.skip(silent=False)
    assert slots.take(frame(15), 800 * MS).dt is None


def test_a_stream_that_begins_anew_goes_on_counting() -> None:
    slots = begun(0, 1, 2)
    assert slots.take(frame(3, reset=True), 0) == Slot(3, FRAME, FRAME, 0)
    assert slots.take(frame(4), 0).number == 4
    assert slots.take(frame(30, reset=True), 0).number == 30, "numbers that are ahead stay"


@pytest.mark.parametrize(("late_ms", "due_ms"), [(-5.0, 101.0), (130.0, 130.0), (900.0, 160.0)])
def test_the_next_frame_is_late_when_its_stream_says_so_within_reason(late_ms: float, due_ms: float) -> None:
    slots = begun(0)
    slots.take(frame(8, late_ms=late_ms), 100 * MS)
    assert slots.due_ns == due_ms * MS
    # What comes behind its turn says nothing of the next.
    slots.skip(silent=False)
    slots.take(frame(8, late_ms=150.0), 100 * MS)
    assert slots.due_ns == due_ms * MS


def test_a_buffer_holds_frames_back_and_the_next_is_due_a_frame_later() -> None:
    slots = Slots(0, Playout(30.0))
    assert slots.take(frame(7, local_ns=100 * MS), 105 * MS).release_ns == 130 * MS
    assert slots.due_ns == 150 * MS
    slots.skip(silent=False)
    slots.skip(silent=False)
    assert slots.take(frame(8, local_ns=120 * MS), 125 * MS) == Slot(1, FRAME, None, 150 * MS)
    assert slots.due_ns == 190 * MS, "two have left already"


def test_an_automatic_buffer_is_quick_at_first_and_then_changes_too_slowly_to_be_heard() -> None:
    playout = Playout("auto")
    assert playout.release_ns(0, 7 * MS) == 8 * MS, "a millisecond to spare"
    assert playout.release_ns(20 * MS, 15 * MS) == 28 * MS, "what comes early says no more"
    assert Playout("auto").release_ns(0, 900 * MS) == 101 * MS, "nobody waits for longer than 100 ms"
    for _ in range(22):
        playout.release_ns(0, 7 * MS)
    # In the 25th frame it is looked at again, and then once in 25.
    held = [playout.release_ns(0, delay * MS) for delay in [30] * 26 + [7] * 25]
    assert held[0] == 8_200_000
    assert {b - a for a, b in pairwise(held)} == {200_000}
    assert Playout(30.0).buffer_ms == 30.0
