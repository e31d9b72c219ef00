"""From control frames to MIDI messages. Pure: the same frames make the same bytes at the same times."""

from __future__ import annotations

from collections.abc import Sequence

from pyanticip.controls import CANCEL, Range
from pyanticip.vocabulary import PARAMETERS, SCALARS
from realtime.protocols import BEAT_TRUST
from realtime.sinks.base import ControlFrame, Extra, Tempo
from realtime.sinks.midi.config import MidiConfig, MidiControl, MidiNote
from realtime.sinks.midi.schedule import RELEASE, SILENCE, WITHDRAWN, Item
from realtime.sinks.pace import Pace

__all__ = ["Translator"]

_CLOCK, _START = b"\xf8", b"\xfa"
_TICKS = 24
# Ticks leave so long before they are due: frames may be late. After a longer gap the clock begins anew.
_AHEAD_NS, _GAP_NS = 60_000_000, 500_000_000
# A clock that is off the body's beat goes faster or slower by this part at most.
_PULL = 0.1
_QUIET = {"panic": SILENCE, "stopped": RELEASE}
_SIGNED = SCALARS.index("transition_pressure")


class _Follower:
    """One control: the number that an output stands for, and the bytes that say so."""

    def __init__(self, config: MidiControl, semitones: int) -> None:
        self.output, self.to, self.channel = config.output, config.to, config.channel
        self._range: Range = config
        self._fine = config.bits == 14
        self._scale, self._zero, self._most = 1.0, 0, 127
        if config.to == "bend":
            self._scale, self._zero, self._most = 8192 / semitones, 8192, 16383
        elif self._fine:
            self._scale, self._most = 16383 / 127, 16383

    def number(self, value: float) -> int:
        """What is sent for a value in 0..1."""
        return min(max(self._zero + round(self._scale * self._range(value)), 0), self._most)

    def messages(self, channel: int, number: int, before: int | None) -> list[bytes]:
        """``number`` on a channel (0..15), where ``before`` was sent last."""
        if self.to == "bend":
            return [bytes((0xE0 | channel, number & 127, number >> 7))]
        if self.to == "pressure":
            return [bytes((0xD0 | channel, number))]
        assert isinstance(self.to, int)
        if not self._fine:
            return [bytes((0xB0 | channel, self.to, number))]
        # The low half alone where the high one stands; a high one resets the low one at the receiver.
        low = bytes((0xB0 | channel, self.to + 32, number & 127))
        if before is not None and before >> 7 == number >> 7:
            return [low]
        return [bytes((0xB0 | channel, self.to, number >> 7)), low]


class _Voice:
    """The notes of one table: which one, how loud, how long."""

    def __init__(self, config: MidiNote) -> None:
        self.channel = config.channel - 1
        self.hold_ns = round(config.length_ms * 1e6)
        self.velocity = config.velocity
        self.output = config.output
        self.number = config.build()


class Translator:
    """What one table of the rig makes of frames; times are those of the frames."""

    def __init__(self, config: MidiConfig) -> None:
        self._config = config
        self._notes: dict[str, list[_Voice]] = {}
        for note in config.note:
            self._notes.setdefault(note.event, []).append(_Voice(note))
        followers = [_Follower(control, config.semitones) for control in config.controls]
        self._steady = [each for each in followers if each.channel != "note"]
        self._each = [each for each in followers if each.channel == "note"]
        self._latency_ns = round(config.latency_ms * 1e6)
        self._tick_ns = round(60e9 / config.clock / _TICKS) if isinstance(config.clock, float) else 0
        self._names: tuple[str, ...] = ()
        self.forget()

    def announce(self, extras: Sequence[Extra]) -> None:
        """From the next frame on these taught outputs come beside the eight."""
        self._names = tuple(extra.name for extra in extras)

    def forget(self) -> None:
        """What was sent was not heard: the next frame says everything."""
        self._is_configured = False
        self._state = ""
        self._sent: dict[tuple[int, int | str], int] = {}
        # Of each member channel, from when to when its newest note sounds.
        self._members = [(0, 0)] * self._config.mpe
        self._next_ns: int | None = None
        # Ticks since the start.
        self._ticked = 0
        # What was announced and has not come: event, time, note-on.
        self._waiting: list[tuple[str, int, bytes]] = []
        self._pace = Pace(self._config.max_rate)

    def frame(self, frame: ControlFrame) -> list[Item]:
        """What one frame says."""
        if frame.seq < 0:
            return []
        now = frame.t_ns
        out = self._mode(frame.state)
        if not self._is_configured:
            self._is_configured = True
            out += (Item(0, 0, message) for message in _zone(self._config.mpe, self._config.semitones))
        quiet = frame.state in _QUIET
        if not quiet:
            out += self._ticks(now, frame.tempo)
            self._waiting = [each for each in self._waiting if each[1] > now]
            for name, strength, ahead in frame.events:
                if name.endswith(CANCEL):
                    out += self._call_off(name.removesuffix(CANCEL), now + round(ahead * 1e9))
                for voice in self._notes.get(name, ()):
                    out += self._sound(frame, name, voice, strength, ahead)
        if self._pace.is_due(now):
            for follower in self._steady:
                assert isinstance(follower.channel, int)
                out += self._follow(frame, follower, follower.channel - 1, 0)
            for member, (begin, end) in enumerate(self._members, 1):
                if begin <= now < end:
                    for follower in self._each:
                        out += self._follow(frame, follower, member, 0)
        return out

    def _mode(self, state: str) -> list[Item]:
        """What a change of mode says at once."""
        before, self._state = self._state, state
        if before in _QUIET and state not in _QUIET:
            # Nothing sounds, and who listens may have come since: all is said again.
            self._is_configured = False
            self._sent.clear()
            self._pace = Pace(self._config.max_rate)
        if state == before or state not in _QUIET:
            return []
        self._members = [(0, 0)] * len(self._members)
        self._next_ns = None
        self._waiting = []
        return [Item(0, 0, _QUIET[state])]

    def _call_off(self, name: str, due: int) -> list[Item]:
        """Take back the notes of the event of that name that was announced for about that time."""
        mine = {when for event, when, _ in self._waiting if event == name}
        if not mine:
            return []
        nearest = min(mine, key=lambda when: abs(when - due + self._latency_ns))
        gone = [each for each in self._waiting if each[:2] == (name, nearest)]
        self._waiting = [each for each in self._waiting if each not in gone]
        return [Item(0, WITHDRAWN, message, when) for _, when, message in gone]

    def _ticks(self, now: int, tempo: Tempo) -> list[Item]:
        step, begin = self._tick_ns, now
        if self._config.clock == "body":
            step, begin = self._body_tick(now, tempo)
        if not step:
            return []
        out = []
        if self._next_ns is None or self._next_ns < now - _GAP_NS:
            out.append(Item(begin, 0, _START))
            self._next_ns, self._ticked = begin, 0
        while self._next_ns <= now + _AHEAD_NS:
            out.append(Item(self._next_ns, 0, _CLOCK))
            self._next_ns += step
            self._ticked += 1
        return out

    def _body_tick(self, now: int, tempo: Tempo) -> tuple[int, int]:
        """How far ticks are apart, so that the 24th comes to lie on the body's beat; when its next beat is.

        While the body keeps no beat the last tempo goes on; before the first there is no clock (0).
        """
        bpm, phase, trust = tempo
        if trust < BEAT_TRUST or bpm <= 0.0:
            return self._tick_ns, now
        beat = 60e9 / bpm
        self._tick_ns = round(beat / _TICKS)
        off = 0.0
        if self._next_ns is not None:
            there = phase + (self._next_ns - now) / beat
            off = (there - self._ticked / _TICKS + 0.5) % 1.0 - 0.5
        return round(self._tick_ns * (1.0 - min(max(off, -_PULL), _PULL))), now + round((1.0 - phase) * beat)

    def _value(self, frame: ControlFrame, name: str) -> float | None:
        """An output in 0..1; None where there is none of that name."""
        kind, _, taught = name.partition("/")
        if taught:
            at = self._names.index(taught) if taught in self._names else len(frame.extras)
            value = frame.extras[at] if at < len(frame.extras) else None
        elif kind in PARAMETERS:
            value = frame.params[PARAMETERS.index(kind)]
        else:
            at = SCALARS.index(kind)
            value = frame.scalars[at]
            value = (value + 2.0) / 4.0 if at == _SIGNED else value
        return value if value is not None and abs(value) < 1e30 else None

    def _follow(self, frame: ControlFrame, follower: _Follower, channel: int, due: int) -> list[Item]:
        value = self._value(frame, follower.output)
        if value is None:
            return []
        number, key = follower.number(value), (channel, follower.to)
        before = self._sent.get(key)
        if number == before:
            return []
        self._sent[key] = number
        return [Item(due, 0, message) for message in follower.messages(channel, number, before)]

    def _sound(
        self, frame: ControlFrame, name: str, voice: _Voice, strength: float, ahead: float
    ) -> list[Item]:
        """A note at the time of its event, and before it what its channel begins with."""
        value = self._value(frame, voice.output)
        if value is None:
            return []
        number, velocity = voice.number(value), round(voice.velocity(strength))
        due = frame.t_ns + max(round(ahead * 1e9) - self._latency_ns, 0)
        out: list[Item] = []
        channel, hold = voice.channel, voice.hold_ns
        if self._members:
            # The member whose note ends first: with enough of them, a tail is never bent by the next note.
            channel = min(range(len(self._members)), key=lambda member: self._members[member][::-1]) + 1
            self._members[channel - 1] = (due, due + hold)
            for follower in self._each:
                self._sent.pop((channel, follower.to), None)
                out += self._follow(frame, follower, channel, due)
        message = bytes((0x90 | channel, number, velocity))
        # The sink's clock moves: what is called off is known by the frames' time.
        out.append(Item(due, hold, message, due))
        if due > frame.t_ns:
            self._waiting.append((name, due, message))
        return out


def _zone(members: int, semitones: int) -> list[bytes]:
    """The lower zone: the MPE Configuration Message, and the bend range of its members and of the zone as a
    whole, which would be 2 (MPE 1.0, 2.1, 2.4)."""
    if not members:
        return []
    out = _registered(0, 6, members)
    for channel in range(members + 1):
        out += _registered(channel, 0, semitones)
    return out


def _registered(channel: int, parameter: int, value: int) -> list[bytes]:
    """A registered parameter, left again so that no later data entry reaches it."""
    numbers = ((101, 0), (100, parameter), (6, value), (101, 127), (100, 127))
    return [bytes((0xB0 | channel, controller, number)) for controller, number in numbers]
