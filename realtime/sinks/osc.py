"""OSC, one bundle a frame: laid out once with python-osc, its numbers written by the core ever after.

Where the receiver schedules, each event leaves in a bundle of its own whose time tag says when it is due, and
what calls one off in one that says "immediately".
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence

from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip._core import OscBundle
from pyanticip.controls import CANCEL, Event, Range
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.sinks.base import ControlFrame, Extra, Prewarmed
from realtime.sinks.config import Address, Argument, OscConfig
from realtime.sinks.outputs import SENT, extra_address
from realtime.sinks.pace import Pace
from realtime.sinks.tcp import TcpWire
from realtime.sinks.udp import UdpWire

__all__ = ["OscSink", "message", "open_wire", "time_tag"]

_HEADER = b"#bundle\0" + struct.pack(">Q", 1)  # time tag 1: immediately
# What was held back longer than this beyond its moment is no event any more.
_LATE_S = 0.1
# What is called off was announced for a moment no later than this after the one that is said.
_NEAR_NS = 30_000_000
# A label or gesture that was entered or left is so still.
_LASTING = ("class/", "gesture/")
# Nothing begins that was announced before.
_STILL = ("panic", "stopped", "frozen")
# A gesture of which so much was done has reached its end.
_ENDED = 0.9
# Seconds from 1900, where NTP counts from, to 1970.
_NTP = 2_208_988_800
# The lists of a frame's numbers that a bundle is made of; behind them those of _SOMETIMES.
_SECONDS, _SCALARS, _PARAMS, _TEMPO, _EXTRAS, _REST = range(6)
# What is in a frame where there is something to tell: as many floats as there are.
_SOMETIMES = ("field", "trust", "limbs")

_Element = tuple[bytes, Sequence[float]]
"""An element of a bundle, or its head, and the floats behind it."""


def time_tag(unix_ns: int) -> int:
    """The OSC time tag (64 bits, NTP: seconds since 1900 and their 2**32nd parts) of a Unix time."""
    return ((unix_ns + _NTP * 1_000_000_000 << 32) // 1_000_000_000) & 0xFFFFFFFFFFFFFFFF


def message(address: str, arguments: Sequence[Argument], types: str | None = None) -> bytes:
    """One encoded OSC message; ``types`` as in OSC (i, f, s), guessed where not given."""
    builder = OscMessageBuilder(address)
    for i, argument in enumerate(arguments):
        builder.add_arg(argument, types[i] if types else None)
    dgram: bytes = builder.build().dgram
    return dgram


def open_wire(config: OscConfig) -> UdpWire | TcpWire:
    """What carries packets to a receiver. Raises a DeviceError where its host cannot be resolved."""
    if config.transport == "tcp":
        return TcpWire(config.host, config.port, config.framing)
    return UdpWire(config.host, config.port)


def _zeros(types: str) -> list[Argument]:
    return [0 if kind == "i" else 0.0 for kind in types]


class OscSink(Prewarmed):
    """One OSC receiver. Where it is not there yet, or gone, that is counted and tried again."""

    Config = OscConfig

    def __init__(self, config: OscConfig) -> None:
        self.name = f"osc {config.url}"
        self.config = config
        self._wire = open_wire(config)
        self._transmit = self._wire.send
        self._pace = Pace(config.max_rate)
        # Events that wait for the next bundle: when each is due, its name and strength.
        self._kept: list[tuple[int, str, float]] = []
        self._stale = 0
        # The newest frame, where it was not this receiver's turn.
        self._withheld: ControlFrame | None = None
        self._sent: ControlFrame | None = None
        self._extras: tuple[Extra, ...] = ()
        self._extra_maps: list[Callable[[float], float]] = []
        self.configure(config)

    def configure(self, config: OscConfig) -> None:
        """Send by another table from the next frame on, to the same receiver."""
        self.config = config
        self._prefix = config.prefix.rstrip("/")
        self._send = frozenset(config.send)
        self._addresses = config.addresses
        self._pace.limit(config.max_rate)
        self._schedules = config.schedule
        self._latency_ns = round(1e6 * config.latency_ms)
        self._offset_ns = round(1e6 * config.clock_offset_ms)
        linear = Range()
        maps = [config.ranges.get(name, linear) for name in PARAMETERS]
        self._maps: list[Callable[[float], float]] | None = (
            None if all(m == linear for m in maps) else list(maps)
        )
        self._build()

    def announce(self, extras: Sequence[Extra]) -> None:
        """Send these taught outputs as well, each at its own address and in its own range."""
        self._extras = tuple(extras)
        self._extra_maps = [extra.range for extra in extras]
        self._build()

    def _named(self, key: str, default: str) -> Address:
        return self._addresses.get(key, (f"{self._prefix}/{default}",))

    def _build(self) -> None:
        """What is made once for each frame that looks like it."""
        self._bundles: dict[tuple[int, ...], OscBundle] = {}
        self._heads: dict[tuple[str, int], tuple[bytes, str]] = {}
        self._labels: dict[tuple[str, str], bytes] = {}
        self._events: dict[str, tuple[bytes, int]] = {}
        for name in EVENTS:
            self._event(name)
        # What cannot be laid out is said now.
        for counts in ((0, 0, 0), (2, 24, 12)):
            self._bundle(counts)

    def _bundle(self, counts: tuple[int, ...]) -> OscBundle:
        """The bundle with so many numbers of each of _SOMETIMES, laid out once."""
        out = bytearray(_HEADER)
        # Of each float where it stands, which of the lists that `_packed` gives it is in, and where in that.
        places: list[tuple[int, int, int]] = []

        def element(where: Address, types: str, kind: int, first: int = 0) -> int:
            """Append one message; the position of the first of its values."""
            head, *before = where
            dgram = message(str(head), [*before, *_zeros(types)])
            out.extend(struct.pack(">I", len(dgram)) + dgram)
            at = len(out) - 4 * len(types)
            floats = [n for n, type_ in enumerate(types) if type_ == "f"]
            places.extend((at + 4 * n, kind, first + i) for i, n in enumerate(floats))
            return at

        count_at = None
        if "frame" in self._send:
            count_at = element(self._named("frame", "frame"), SENT["frame"].types, _SECONDS)
        if "scalars" in self._send:
            element(self._named("scalars", "scalars"), SENT["scalars"].types, _SCALARS)
        for i, name in enumerate(PARAMETERS):
            if {"param", name} & self._send:
                element(self._named(name, f"param/{name}"), SENT[f"param/{name}"].types, _PARAMS, i)
        for place, extra in enumerate(self._extras):
            part, address = extra_address(self._prefix, extra)
            if part in self._send:
                element((address,), "f", _EXTRAS, place)
        if "params" in self._send:
            element(self._named("params", "params"), SENT["params"].types, _PARAMS)
        if "tempo" in self._send:
            element(self._named("tempo", "tempo"), SENT["tempo"].types, _TEMPO)
        for place, (name, count) in enumerate(zip(_SOMETIMES, counts, strict=True), _REST):
            if count and name in self._send:
                element(self._named(name, name), "f" * count, place)
        self._bundles[counts] = bundle = OscBundle(bytes(out), count_at, places)
        return bundle

    def _event(self, name: str) -> tuple[bytes, int]:
        """The element of an event, a cue, a label or what calls one off, and where its numbers stand; made
        once."""
        count = 1 if name.endswith(CANCEL) else 2
        plain, _, label = name.partition(":")
        head, *before = self._named(plain, plain if "/" in plain.removesuffix(CANCEL) else f"event/{plain}")
        before += [label] if label else []
        dgram = message(str(head), [*before, *(0.0,) * count])
        self._events[name] = made = struct.pack(">I", len(dgram)) + dgram, len(dgram) + 4 - 4 * count
        return made

    def _event_element(self, event: Event) -> bytes:
        """The element that tells an event."""
        name, strength, ahead = event
        if name.startswith("gesture/") and name.endswith("/leave"):
            # Nothing is ahead any more: whether it reached its end.
            ahead = float(strength >= _ENDED)
        template, at = self._events.get(name) or self._event(name)
        numbers = (ahead,) if name.endswith(CANCEL) else (strength, ahead)
        return template[:at] + struct.pack(f">{len(numbers)}f", *numbers)

    def counters(self) -> dict[str, int]:
        """Bundles sent, dropped here (full buffer), refused (nobody listens), failed (network); events whose
        moment had passed before they could be sent."""
        return {**self._wire.counts, "stale_events": self._stale}

    @property
    def trouble(self) -> str:
        """Why there is no connection, where there should be one."""
        return self._wire.trouble

    def send(self, frame: ControlFrame) -> None:
        """Patch the bundle and send it. Never blocks, never raises."""
        if frame.seq < 0:
            if "status" in self._send:
                head, *before = self._named("status", "status")
                dgram = message(str(head), [*before, *frame.status])
                self._transmit(bytearray(_HEADER + struct.pack(">I", len(dgram)) + dgram))
            return
        events: Sequence[Event] = self._remaining(frame) if self._kept else frame.events
        if events:
            events = [event for event in events if self._wanted(event[0])]
        if not (events and self._schedules):
            self._send_frame(frame, events)
            return
        # That a gesture has begun is told now: what is ahead is its end.
        self._send_frame(frame, [event for event in events if event[0].startswith("gesture/")])
        # After the frame, which is for now.
        for event in events:
            if not event[0].startswith("gesture/"):
                self._schedule(frame.wall_ns, event)

    def _schedule(self, wall_ns: int, event: Event) -> None:
        """Send an event in a bundle of its own, or what calls one off while that has not come."""
        name, _, ahead = event
        head = _HEADER
        # The receiver begins so much earlier as it sounds late.
        until_ns = round(1e9 * ahead) - self._latency_ns
        if not name.endswith(CANCEL):
            due_ns = wall_ns + max(until_ns, 0) + self._offset_ns
            head = _HEADER[:8] + struct.pack(">Q", time_tag(due_ns))
        elif until_ns <= 0:
            self._stale += 1
            return
        self._transmit(bytearray(head + self._event_element(event)))

    def _remaining(self, frame: ControlFrame) -> list[Event]:
        """The frame's events but those that call off one that was kept, which goes with them."""
        if frame.state in _STILL:
            self._kept = [one for one in self._kept if one[1].startswith(_LASTING) or one[1].endswith(CANCEL)]
        found = []
        for event in frame.events:
            name, _, ahead = event
            latest = frame.t_ns + round(1e9 * ahead) + _NEAR_NS
            mine = [one for one in self._kept if one[1] + CANCEL == name and one[0] <= latest]
            if mine:
                self._kept.remove(max(mine))
            else:
                found.append(event)
        return found

    def _wanted(self, name: str) -> bool:
        """Whether this receiver is told: where an event has an address of its own, what calls it off needs
        one as well."""
        part = name.partition("/")[0]
        if part in ("class", "gesture"):
            return part in self._send
        plain = name.removesuffix(CANCEL)
        known = name == plain or name in self._addresses or plain not in self._addresses
        return known and bool({"event", plain} & self._send)

    def _send_frame(self, frame: ControlFrame, events: Sequence[Event]) -> None:
        if not (self._pace.is_due() or self._silences(frame)):
            self._kept += [(frame.t_ns + round(1e9 * ahead), name, s) for name, s, ahead in events]
            self._withheld = frame
            return
        self._withheld = None
        if self._kept:
            events = [*self._released(frame.t_ns), *events]
        self._deliver(frame, events)

    def _released(self, now_ns: int) -> list[Event]:
        """What was kept, so much nearer; what has passed is dropped and counted."""
        kept, self._kept = self._kept, []
        found = []
        for due_ns, name, strength in kept:
            ahead = (due_ns - now_ns) / 1e9
            if name.startswith(_LASTING) or ahead > (0.0 if name.endswith(CANCEL) else -_LATE_S):
                found.append((name, strength, max(ahead, 0.0)))
            else:
                self._stale += 1
        return found

    def _silences(self, frame: ControlFrame) -> bool:
        """Whether a slow receiver must not wait for it: all on the way of a panic, of a stop the end."""
        sent, before = self._sent, self._withheld or self._sent
        if frame.state not in ("panic", "stopped") or sent is None or before is None:
            return False
        now, was = (frame.params, frame.extras), (before.params, before.extras)
        return now != (sent.params, sent.extras) and (frame.state == "panic" or now == was)

    def _deliver(self, frame: ControlFrame, events: Sequence[Event]) -> None:
        data = self._packed(frame, events)
        if len(data) > len(_HEADER):
            self._transmit(data)
        # Behind it: the one before goes, with all that only it has.
        self._sent = frame

    def prewarm(self, frame: ControlFrame) -> None:
        """See :class:`realtime.sinks.base.Prewarmed`."""
        with contextlib.suppress(Exception):
            self._packed(frame, ())

    def _packed(self, frame: ControlFrame, events: Sequence[Event]) -> bytes:
        send, params, extras = self._send, frame.params, frame.extras
        if self._maps is not None:
            params = [m(v) for m, v in zip(self._maps, params, strict=True)]
        if extras:
            extras = [m(v) for m, v in zip(self._extra_maps, extras, strict=False)]
        tail: list[_Element] = [(self._event_element(event), ()) for event in events]
        if frame.classes and "class" in send:
            tail += (self._label(name, label, likely) for name, label, likely in frame.classes)
        if frame.gestures and "gesture" in send:
            tail += (self._element(f"gesture/{name}", numbers) for name, *numbers in frame.gestures)
        if frame.plan and "plan" in send:
            tail.append(self._element("plan", [number for pair in frame.plan for number in pair]))
        if frame.place is not None and "place" in send:
            tail.append(self._element("place", frame.place))
        field, trust, limbs = frame.field, frame.trust, frame.limbs
        counts = len(field), len(trust), len(limbs)
        bundle = self._bundles.get(counts) or self._bundle(counts)
        # In the order of _SECONDS and the others.
        lists = (frame.seconds,), frame.scalars, params, frame.tempo, extras, field, trust, limbs
        return bundle.pack(frame.seq & 0x7FFFFFFF, lists, tail)

    def _element(self, name: str, values: Sequence[float]) -> _Element:
        """An element with this many values, whose types repeat; its head is made once for each length."""
        known = self._heads.get((name, len(values)))
        if known is None:
            types = SENT[name].types if name in SENT else "f"
            kinds = types * (len(values) // len(types))
            address, *before = self._named(name, name)
            dgram = message(str(address), [*before, *_zeros(kinds)])
            element = struct.pack(">I", len(dgram)) + dgram
            known = self._heads[name, len(values)] = element[: len(element) - 4 * len(kinds)], kinds
        head, kinds = known
        if "i" in kinds:
            return head + struct.pack(">" + kinds, *values), ()
        return head, values

    def _label(self, name: str, label: str, likely: float) -> _Element:
        """The element that tells which label of a class is shown; its head is made once."""
        head = self._labels.get((name, label))
        if head is None:
            dgram = message(f"{self._prefix}/class/{name}", [label, 0.0])
            head = self._labels[name, label] = struct.pack(">I", len(dgram)) + dgram[:-4]
        return head, (likely,)

    def close(self) -> None:
        """Send what was withheld, for that is how the show ends, and close the socket."""
        if self._withheld is not None:
            # Without its events: they would sound in the silence.
            self._deliver(self._withheld, ())
        self._wire.close()
