"""Translates control frames to MIDI messages. Pure: the same frames give the same bytes at the same times."""

from __future__ import annotations

from collections.abc import Sequence

from pyanticip.controls import CANCEL, Range
from pyanticip.vocabulary import PARAMETERS, SCALARS
from realtime.protocols import BEAT_TRUST
from realtime.sinks.base import ControlFrame, Extra, Pace, Tempo
from realtime.sinks.midi.config import MidiConfig, MidiControl, MidiNote
from realtime.sinks.midi.schedule import (
    BEND_RANGE,
    MPE_MEMBERS,
    RELEASE,
    SILENCE,
    WITHDRAWN,
    Item,
    registered_parameter,
)

_CLOCK, _START = b"\xf8", b"\xfa"
_TICKS_PER_BEAT = 24
# Ticks are scheduled this long before they are due, because frames may be late.
_LOOKAHEAD_NS = 60_000_000
# The start is sent this long before the first tick, which is the beat, for the receiver to get ready. One
# millisecond is customary, but a driver that sends in cycles would put both into one.
_START_LEAD_NS = 10_000_000
# After a gap longer than this the clock restarts.
_MAX_GAP_NS = 500_000_000
# Most that the clock speeds up or slows down, relatively, to correct its phase against the performer's beat.
_MAX_PULL = 0.1
_QUIET_STATES = {"panic": SILENCE, "stopped": RELEASE}
# The one scalar in -2..2; the others are in 0..1.
_SIGNED_SCALAR = SCALARS.index("transition_pressure")


class _Control:
    """One control: converts an output's value to a MIDI number, and that to messages."""

    def __init__(self, config: MidiControl, semitones: int) -> None:
        self.output, self.to, self.channel = config.output, config.to, config.channel
        self._range: Range = config
        self._is_14_bit = config.bits == 14
        self._scale, self._zero, self._max = 1.0, 0, 127
        if config.to == "bend":
            self._scale, self._zero, self._max = 8192 / semitones, 8192, 16383
        elif self._is_14_bit:
            self._scale, self._max = 16383 / 127, 16383

    def number(self, value: float) -> int:
        """The MIDI number for a value in 0..1."""
        return min(max(self._zero + round(self._scale * self._range(value)), 0), self._max)

    def messages(self, channel: int, number: int, last_sent: int | None) -> list[bytes]:
        """Messages that set ``number`` on a channel (0..15)."""
        if self.to == "bend":
            return [bytes((0xE0 | channel, number & 127, number >> 7))]
        if self.to == "pressure":
            return [bytes((0xD0 | channel, number))]
        assert isinstance(self.to, int)
        if not self._is_14_bit:
            return [bytes((0xB0 | channel, self.to, number))]
        # The low half alone if the high half is unchanged; a high half resets the low one at the receiver.
        low = bytes((0xB0 | channel, self.to + 32, number & 127))
        if last_sent is not None and last_sent >> 7 == number >> 7:
            return [low]
        return [bytes((0xB0 | channel, self.to, number >> 7)), low]


class _Note:
    """Pitch, velocity and length of the notes of one ``note`` table."""

    def __init__(self, config: MidiNote) -> None:
        self.channel = config.channel - 1
        self.hold_ns = round(config.length_ms * 1e6)
        self.velocity = config.velocity
        self.output = config.output
        self.number = config.build()


class Translator:
    """Translates frames as one rig table says; times are those of the frames."""

    def __init__(self, config: MidiConfig) -> None:
        self._config = config
        self._notes: dict[str, list[_Note]] = {}
        for note in config.note:
            self._notes.setdefault(note.event, []).append(_Note(note))
        controls = [_Control(control, config.semitones) for control in config.controls]
        self._channel_controls = [control for control in controls if control.channel != "note"]
        self._note_controls = [control for control in controls if control.channel == "note"]
        self._latency_ns = round(config.latency_ms * 1e6)
        self._tick_ns = round(60e9 / config.clock / _TICKS_PER_BEAT) if isinstance(config.clock, float) else 0
        self._taught_names: tuple[str, ...] = ()
        self.forget()

    def announce(self, extras: Sequence[Extra]) -> None:
        """Set the taught outputs that ``ControlFrame.extras`` holds from the next frame on."""
        self._taught_names = tuple(extra.name for extra in extras)

    def forget(self) -> None:
        """Forget what was sent, because it was not received: the next frame sends everything again."""
        self._is_configured = False
        self._state = ""
        self._last_sent: dict[tuple[int, int | str], int] = {}
        # Start and end of the newest note on each member channel.
        self._members = [(0, 0)] * self._config.mpe
        self._next_tick_ns: int | None = None
        # Ticks since the start of the clock.
        self._tick_count = 0
        # Notes that are still ahead: event, due time, note-on.
        self._pending: list[tuple[str, int, bytes]] = []
        self._pace = Pace(self._config.max_rate)

    def frame(self, frame: ControlFrame) -> list[Item]:
        """The messages of one frame."""
        if frame.seq < 0:
            return []
        now = frame.t_ns
        out = self._change_state(frame.state)
        if not self._is_configured:
            self._is_configured = True
            out += (Item(0, 0, message) for message in _mpe_zone(self._config.mpe, self._config.semitones))
        if frame.state not in _QUIET_STATES:
            out += self._ticks(now, frame.tempo)
            self._pending = [note for note in self._pending if note[1] > now]
            for name, strength, ahead in frame.events:
                if name.endswith(CANCEL):
                    out += self._cancel(name.removesuffix(CANCEL), now + round(ahead * 1e9))
                for note in self._notes.get(name, ()):
                    out += self._play(frame, name, note, strength, ahead)
        if self._pace.is_due(now):
            for control in self._channel_controls:
                assert isinstance(control.channel, int)
                out += self._update(frame, control, control.channel - 1, 0)
            for member, (begin, end) in enumerate(self._members, 1):
                if begin <= now < end:
                    for control in self._note_controls:
                        out += self._update(frame, control, member, 0)
        return out

    def _change_state(self, state: str) -> list[Item]:
        """Enter a state; returns the item that silences the notes when a quiet state begins."""
        previous, self._state = self._state, state
        if previous in _QUIET_STATES and state not in _QUIET_STATES:
            # Nothing sounds, and a new receiver may have connected: send everything again.
            self._is_configured = False
            self._last_sent.clear()
            self._pace = Pace(self._config.max_rate)
        if state == previous or state not in _QUIET_STATES:
            return []
        self._members = [(0, 0)] * len(self._members)
        self._next_tick_ns = None
        self._pending = []
        return [Item(0, 0, _QUIET_STATES[state])]

    def _cancel(self, name: str, due: int) -> list[Item]:
        """Withdraw the notes of the event ``name`` that was announced for about the time ``due``."""
        times = {when for event, when, _ in self._pending if event == name}
        if not times:
            return []
        nearest = min(times, key=lambda when: abs(when - due + self._latency_ns))
        cancelled = [note for note in self._pending if note[:2] == (name, nearest)]
        self._pending = [note for note in self._pending if note not in cancelled]
        return [Item(0, WITHDRAWN, message, when) for _, when, message in cancelled]

    def _ticks(self, now: int, tempo: Tempo) -> list[Item]:
        step, begin = self._tick_ns, now
        if self._config.clock == "body":
            step, begin = self._body_tick(now, tempo)
        if not step:
            return []
        out = []
        if self._next_tick_ns is None or self._next_tick_ns < now - _MAX_GAP_NS:
            begin = max(begin, now + _START_LEAD_NS)
            out.append(Item(begin - _START_LEAD_NS, 0, _START))
            self._next_tick_ns, self._tick_count = begin, 0
        while self._next_tick_ns <= now + _LOOKAHEAD_NS:
            out.append(Item(self._next_tick_ns, 0, _CLOCK))
            self._next_tick_ns += step
            self._tick_count += 1
        return out

    def _body_tick(self, now: int, tempo: Tempo) -> tuple[int, int]:
        """The tick interval (ns) that brings every 24th tick onto the performer's beat, and the time of the
        next beat.

        Without a beat the last tempo goes on; before the first there is no clock (interval 0).
        """
        bpm, phase, trust = tempo
        if trust < BEAT_TRUST or bpm <= 0.0:
            return self._tick_ns, now
        beat = 60e9 / bpm
        # What the clock plays sounds late, as notes do.
        phase = (phase + self._latency_ns / beat) % 1.0
        self._tick_ns = round(beat / _TICKS_PER_BEAT)
        error = 0.0
        if self._next_tick_ns is not None:
            phase_at_tick = phase + (self._next_tick_ns - now) / beat
            error = (phase_at_tick - self._tick_count / _TICKS_PER_BEAT + 0.5) % 1.0 - 0.5
        pull = min(max(error, -_MAX_PULL), _MAX_PULL)
        return round(self._tick_ns * (1.0 - pull)), now + round((1.0 - phase) * beat)

    def _value(self, frame: ControlFrame, name: str) -> float | None:
        """The value of an output, 0..1; None if there is no output of this name."""
        kind, _, taught = name.partition("/")
        if taught:
            i = self._taught_names.index(taught) if taught in self._taught_names else len(frame.extras)
            value = frame.extras[i] if i < len(frame.extras) else None
        elif kind in PARAMETERS:
            value = frame.params[PARAMETERS.index(kind)]
        else:
            i = SCALARS.index(kind)
            value = frame.scalars[i]
            value = (value + 2.0) / 4.0 if i == _SIGNED_SCALAR else value
        return value if value is not None and abs(value) < 1e30 else None

    def _update(self, frame: ControlFrame, control: _Control, channel: int, due: int) -> list[Item]:
        """Messages of a control, if its number has changed."""
        value = self._value(frame, control.output)
        if value is None:
            return []
        number, key = control.number(value), (channel, control.to)
        last_sent = self._last_sent.get(key)
        if number == last_sent:
            return []
        self._last_sent[key] = number
        return [Item(due, 0, message) for message in control.messages(channel, number, last_sent)]

    def _play(self, frame: ControlFrame, name: str, note: _Note, strength: float, ahead: float) -> list[Item]:
        """A note at the time of its event, preceded by the controls of its channel (with MPE)."""
        value = self._value(frame, note.output)
        if value is None:
            return []
        number, velocity = note.number(value), round(note.velocity(strength))
        due = frame.t_ns + max(round(ahead * 1e9) - self._latency_ns, 0)
        out: list[Item] = []
        channel, hold = note.channel, note.hold_ns
        if self._members:
            # The member whose note ends first: with enough of them, a tail is never bent by the next note.
            channel = min(range(len(self._members)), key=lambda member: self._members[member][::-1]) + 1
            self._members[channel - 1] = (due, due + hold)
            for control in self._note_controls:
                self._last_sent.pop((channel, control.to), None)
                out += self._update(frame, control, channel, due)
        message = bytes((0x90 | channel, number, velocity))
        # The frame time is the mark that a cancellation refers to, because the sink's clock offset changes.
        out.append(Item(due, hold, message, due))
        if due > frame.t_ns:
            self._pending.append((name, due, message))
        return out


def _mpe_zone(members: int, semitones: int) -> list[bytes]:
    """The MPE Configuration Message of the lower zone, and the bend range of its members and of its master
    channel, which would be 2 by default (MPE 1.0, 2.1, 2.4)."""
    if not members:
        return []
    out = registered_parameter(0, MPE_MEMBERS, members)
    for channel in range(members + 1):
        out += registered_parameter(channel, BEND_RANGE, semitones)
    return out
