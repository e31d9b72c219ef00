"""The beat that a MIDI clock gives."""

import sys
from copy import deepcopy

import pytest

from pyanticip.errors import DeviceError
from realtime.sinks.midi.clock import ClockConfig, ClockSink, Ticks

SECOND = 1_000_000_000
# Monotonic time of a machine that has been up for two weeks.
NOW = 1_200_000 * SECOND


def send_ticks(ticks: Ticks, count: int, bpm: float, begin_ns: int) -> int:
    """Send ``count`` ticks with jitter; returns when the next one is due."""
    for n in range(count):
        ticks.on_message([0xF8], begin_ns + round(n * 60e9 / bpm / 24) + (n * 7919 % 3 - 1) * 1_000_000)
    return begin_ns + round(count * 60e9 / bpm / 24)


def phase(ticks: Ticks, t_ns: int) -> float:
    beat = ticks.beat(t_ns)
    assert beat is not None
    return (beat[1] + t_ns * beat[0] / 60e9) % 1.0


def phase_error(phase: float, expected: float) -> float:
    return abs((phase - expected + 0.5) % 1.0 - 0.5)


@pytest.mark.parametrize("bpm", [40.0, 123.4, 300.0])
def test_tempo_and_phase_count_from_the_start_or_the_position(bpm: float) -> None:
    ticks = Ticks()
    send_ticks(ticks, 5, bpm, NOW - SECOND)
    ticks.on_message([0xFA], NOW)
    send_ticks(ticks, 11, bpm, NOW)
    assert ticks.beat(NOW) is None, "too few ticks: those before the start do not count"
    now = send_ticks(ticks, 110, bpm, NOW + round(11 * 60e9 / bpm / 24))
    beat = ticks.beat(now)
    assert beat is not None
    assert beat[0] == pytest.approx(bpm, rel=0.002)
    assert phase_error(phase(ticks, now), 121 / 24) < 0.01
    # Three sixteenths into the song.
    ticks.on_message([0xF2, 3, 0], now)
    later = send_ticks(ticks, 30, bpm, now)
    assert phase_error(phase(ticks, later), 0.75 + 30 / 24) < 0.01
    assert ticks.beat(later + SECOND) is None, "it has stopped"
    # It ticks while stopped, and continues where it stopped or at a new position.
    for put, expected in ([], 0.75 + 30 / 24), ([[0xF2, 8, 0]], 2.0):
        copied = deepcopy(ticks)
        for message in ([0xFC], *put):
            copied.on_message(message, later)
        standing = send_ticks(copied, 31, bpm, later)
        copied.on_message([0xFB], standing)
        assert phase_error(phase(copied, send_ticks(copied, 24, bpm, standing)), expected) < 0.01
    # It continues where it was, at another tempo.
    again = send_ticks(ticks, 48, 90.0, later + 2 * SECOND)
    assert phase_error(phase(ticks, again), 0.75 + 78 / 24) < 0.01


def test_simultaneous_ticks_give_no_beat() -> None:
    ticks = Ticks()
    for _ in range(24):
        ticks.on_message([0xF8], NOW)
    assert ticks.beat(NOW) is None


def test_a_missing_package_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rtmidi", None)
    with pytest.raises(DeviceError, match=r"pip install 'pyanticip\[midi\]'"):
        ClockSink(ClockConfig())
