"""OSC out, one bundle per frame: python-osc lays out each bundle once, the core then writes its numbers.

With ``schedule`` each event is sent in its own bundle, time-tagged with the moment when it is due, and each
cancellation in a bundle tagged "immediately".
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence

from pyanticip._core import OscBundle
from pyanticip.controls import CANCEL, Event, Range
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.osc import Argument, message
from realtime.protocols import BEAT_TRUST
from realtime.sinks.base import STATE_EVENTS, ControlFrame, Extra, Pace, Prewarmed
from realtime.sinks.config import Address, OscConfig
from realtime.sinks.outputs import MESSAGES, extra_address
from realtime.sinks.tcp import TcpWire
from realtime.sinks.udp import UdpWire

HEADER = b"#bundle\0" + struct.pack(">Q", 1)
"""Head of a bundle with time tag 1: immediately."""
# A pending event overdue by more than this is dropped.
_MAX_OVERDUE_S = 0.1
# A cancellation matches an event announced for at most this long after the moment it names.
_CANCEL_TOLERANCE_NS = 30_000_000
# States in which no pending event may begin.
_QUIET_STATES = ("panic", "stopped", "frozen")
# Progress from which a gesture counts as completed.
_COMPLETED_PROGRESS = 0.9
# Most messages per second of the tempo alone, as each may make a program restretch its clips.
_BPM_RATE = 4.0
# Seconds from the NTP epoch (1900) to the Unix epoch (1970).
_NTP_OFFSET_S = 2_208_988_800
# Indices of the lists of numbers that `_pack` passes to a bundle; those of _OPTIONAL_PARTS follow.
_SECONDS, _SCALARS, _PARAMS, _TEMPO, _EXTRAS, _FIRST_OPTIONAL = range(6)
# Parts that only some frames have, with a varying number of floats.
_OPTIONAL_PARTS = ("field", "trust", "limbs")

_Element = tuple[bytes, Sequence[float]]
"""A bundle element, or its head and the floats that follow it."""


def time_tag(unix_ns: int) -> int:
    """The OSC time tag of a Unix time: 64 bits NTP, seconds since 1900 in units of 2**-32 s."""
    return ((unix_ns + _NTP_OFFSET_S * 1_000_000_000 << 32) // 1_000_000_000) & 0xFFFFFFFFFFFFFFFF


def element(where: Address, values: Sequence[Argument]) -> bytes:
    """Encode a message, after its length, as an element of a bundle. ``where`` is its address, and arguments
    that precede the ``values``."""
    address, *constants = where
    dgram = message(str(address), [*constants, *values])
    return struct.pack(">I", len(dgram)) + dgram


def zeros(types: str) -> list[Argument]:
    """Zeros of these OSC types (i, f), in the place of values that are written later."""
    return [0 if kind == "i" else 0.0 for kind in types]


class MessageWire:
    """Sends the messages of each bundle as packets of their own, for receivers that do not read bundles."""

    def __init__(self, wire: UdpWire | TcpWire) -> None:
        self._wire = wire
        self.counts, self.close = wire.counts, wire.close

    @property
    def trouble(self) -> str:
        """Why the receiver is not reached; empty while it is."""
        return self._wire.trouble

    def send(self, data: bytes | bytearray) -> None:
        """Send a bundle's messages, in order."""
        at = len(HEADER)
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4])
            self._wire.send(data[at + 4 : end])
            at = end


Wire = UdpWire | TcpWire | MessageWire
"""The transport to a receiver."""


def open_wire(config: OscConfig) -> Wire:
    """Open the transport to a receiver. Raises a DeviceError if its host cannot be resolved."""
    is_tcp, host, port = config.transport == "tcp", config.host, config.port
    wire = TcpWire(host, port, config.framing) if is_tcp else UdpWire(host, port)
    return wire if config.bundles else MessageWire(wire)


class OscSink(Prewarmed):
    """One OSC receiver. While it is absent, packets are counted as refused or failed, and it is retried."""

    Config = OscConfig

    def __init__(self, config: OscConfig) -> None:
        self.name = f"osc {config.url}"
        self.config = config
        self._wire = open_wire(config)
        self._transmit = self._wire.send
        self._pace, self._bpm_pace = Pace(config.max_rate), Pace(_BPM_RATE)
        # Events that wait for the next bundle: due time (frame clock), name, strength.
        self._pending: list[tuple[int, str, float]] = []
        self._stale_events = 0
        # The newest frame, if max_rate did not allow to send it.
        self._withheld: ControlFrame | None = None
        self._last_sent: ControlFrame | None = None
        self._extras: tuple[Extra, ...] = ()
        self._extra_maps: list[Callable[[float], float]] = []
        self.configure(config)

    def configure(self, config: OscConfig) -> None:
        """Apply changed options from the next frame on; the receiver stays the same."""
        self.config = config
        self._prefix, self._taught_prefix = config.prefix.rstrip("/"), config.taught_prefix.rstrip("/")
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
        """Set the taught outputs to send, each at its own address and in its own range."""
        self._extras = tuple(extras)
        self._extra_maps = [extra.range for extra in extras]
        self._build()

    def _address(self, key: str, default: str) -> Address:
        return self._addresses.get(key, (f"{self._prefix}/{default}",))

    def _build(self) -> None:
        """Clear the layouts made on demand, and lay out the usual ones now, so that errors show up here."""
        self._bundles: dict[tuple[int, ...], OscBundle] = {}
        self._heads: dict[tuple[str, int], tuple[bytes, str]] = {}
        self._label_heads: dict[tuple[str, str], bytes] = {}
        self._event_templates: dict[str, tuple[bytes, int]] = {}
        for name in EVENTS:
            self._event_template(name)
        for counts in ((0, 0, 0), (2, 24, 12)):
            self._bundle(counts)

    def _bundle(self, counts: tuple[int, ...]) -> OscBundle:
        """Lay out (and cache) the bundle with this number of floats for each of _OPTIONAL_PARTS."""
        out = bytearray(HEADER)
        # For each float: byte offset, index of its list (see _SECONDS) and index in that list.
        slots: list[tuple[int, int, int]] = []

        def append(where: Address, types: str, source: int, first: int = 0) -> int:
            """Append one message; returns the byte offset of its first value."""
            out.extend(element(where, zeros(types)))
            offset = len(out) - 4 * len(types)
            floats = [n for n, type_ in enumerate(types) if type_ == "f"]
            slots.extend((offset + 4 * n, source, first + i) for i, n in enumerate(floats))
            return offset

        seq_offset = None
        if "frame" in self._send:
            seq_offset = append(self._address("frame", "frame"), MESSAGES["frame"].types, _SECONDS)
        if "scalars" in self._send:
            append(self._address("scalars", "scalars"), MESSAGES["scalars"].types, _SCALARS)
        for i, name in enumerate(PARAMETERS):
            if {"param", name} & self._send:
                append(self._address(name, f"param/{name}"), MESSAGES[f"param/{name}"].types, _PARAMS, i)
        for i, extra in enumerate(self._extras):
            part, extra_addr = extra_address(self._prefix, extra, self._taught_prefix)
            if part in self._send:
                append((extra_addr,), "f", _EXTRAS, i)
        if "params" in self._send:
            append(self._address("params", "params"), MESSAGES["params"].types, _PARAMS)
        if "tempo" in self._send:
            append(self._address("tempo", "tempo"), MESSAGES["tempo"].types, _TEMPO)
        for source, (name, count) in enumerate(zip(_OPTIONAL_PARTS, counts, strict=True), _FIRST_OPTIONAL):
            if count and name in self._send:
                append(self._address(name, name), "f" * count, source)
        self._bundles[counts] = bundle = OscBundle(bytes(out), seq_offset, slots)
        return bundle

    def _event_template(self, name: str) -> tuple[bytes, int]:
        """Make (and cache) the element of an event, cue, label change or cancellation; returns it with the
        byte offset of its numbers."""
        count = 1 if name.endswith(CANCEL) else 2
        plain, _, label = name.partition(":")
        default = plain if "/" in plain.removesuffix(CANCEL) else f"event/{plain}"
        data = element((*self._address(plain, default), *([label] if label else [])), (0.0,) * count)
        template = self._event_templates[name] = data, len(data) - 4 * count
        return template

    def _event_element(self, event: Event) -> bytes:
        """Encode an event as a bundle element."""
        name, strength, ahead = event
        if name.startswith("gesture/") and name.endswith("/leave"):
            # A gesture that is over sends whether it was completed in place of the time ahead.
            ahead = float(strength >= _COMPLETED_PROGRESS)
        template, offset = self._event_templates.get(name) or self._event_template(name)
        numbers = (ahead,) if name.endswith(CANCEL) else (strength, ahead)
        return template[:offset] + struct.pack(f">{len(numbers)}f", *numbers)

    def counters(self) -> dict[str, int]:
        """Packets sent, dropped (full send buffer), refused (nobody listens) and failed (network error);
        ``stale_events``: events that were overdue before they could be sent."""
        return {**self._wire.counts, "stale_events": self._stale_events}

    @property
    def trouble(self) -> str:
        """Why the receiver is not reached; empty while it is."""
        return self._wire.trouble

    def send(self, frame: ControlFrame) -> None:
        """Send the frame as one bundle, or keep it for later if ``max_rate`` says so."""
        if frame.seq < 0:
            if "status" in self._send:
                self._transmit(HEADER + element(self._address("status", "status"), frame.status))
            return
        events: Sequence[Event] = self._apply_cancels(frame) if self._pending else frame.events
        if events:
            events = [event for event in events if self._receives(event[0])]
        if not (events and self._schedules):
            self._send_frame(frame, events)
            return
        # A gesture's events apply now (the time ahead is its end), so they go with the frame.
        self._send_frame(frame, [event for event in events if event[0].startswith("gesture/")])
        for event in events:
            if not event[0].startswith("gesture/"):
                self._send_scheduled(frame.wall_ns, event)

    def _send_scheduled(self, wall_ns: int, event: Event) -> None:
        """Send an event in its own time-tagged bundle, or a cancellation while its event is still ahead."""
        name, _, ahead = event
        header = HEADER
        # Due earlier by the receiver's own latency, so that it sounds on time.
        until_ns = round(1e9 * ahead) - self._latency_ns
        if not name.endswith(CANCEL):
            due_ns = wall_ns + max(until_ns, 0) + self._offset_ns
            header = HEADER[:8] + struct.pack(">Q", time_tag(due_ns))
        elif until_ns <= 0:
            self._stale_events += 1
            return
        self._transmit(bytearray(header + self._event_element(event)))

    def _apply_cancels(self, frame: ControlFrame) -> list[Event]:
        """Remove pending events that the frame cancels; returns the frame's other events."""
        if frame.state in _QUIET_STATES:
            self._pending = [
                e for e in self._pending if e[1].startswith(STATE_EVENTS) or e[1].endswith(CANCEL)
            ]
        remaining = []
        for event in frame.events:
            name, _, ahead = event
            latest = frame.t_ns + round(1e9 * ahead) + _CANCEL_TOLERANCE_NS
            matches = [item for item in self._pending if item[1] + CANCEL == name and item[0] <= latest]
            if matches:
                self._pending.remove(max(matches))
            else:
                remaining.append(event)
        return remaining

    def _receives(self, name: str) -> bool:
        """Whether this receiver is sent the event. If an event is renamed, its cancellation is sent only if
        that is renamed too."""
        part = name.partition("/")[0]
        if part in ("class", "gesture"):
            return part in self._send
        plain = name.removesuffix(CANCEL)
        has_address = name == plain or name in self._addresses or plain not in self._addresses
        return has_address and bool({"event", plain} & self._send)

    def _send_frame(self, frame: ControlFrame, events: Sequence[Event]) -> None:
        if not (self._pace.is_due() or self._must_not_wait(frame)):
            self._pending += [(frame.t_ns + round(1e9 * ahead), name, s) for name, s, ahead in events]
            self._withheld = frame
            return
        self._withheld = None
        if self._pending:
            events = [*self._release_pending(frame.t_ns), *events]
        self._deliver(frame, events)

    def _release_pending(self, now_ns: int) -> list[Event]:
        """Take the pending events, with the time left until each; overdue ones are dropped and counted."""
        pending, self._pending = self._pending, []
        released = []
        for due_ns, name, strength in pending:
            ahead = (due_ns - now_ns) / 1e9
            if name.startswith(STATE_EVENTS) or ahead > (0.0 if name.endswith(CANCEL) else -_MAX_OVERDUE_S):
                released.append((name, strength, max(ahead, 0.0)))
            else:
                self._stale_events += 1
        return released

    def _must_not_wait(self, frame: ControlFrame) -> bool:
        """Whether to send despite ``max_rate``: every step of a panic, and the last one of a stop."""
        sent, previous = self._last_sent, self._withheld or self._last_sent
        if frame.state not in ("panic", "stopped") or sent is None or previous is None:
            return False
        now, before = (frame.params, frame.extras), (previous.params, previous.extras)
        return now != (sent.params, sent.extras) and (frame.state == "panic" or now == before)

    def _deliver(self, frame: ControlFrame, events: Sequence[Event]) -> None:
        bpm, _, trust = frame.tempo
        is_beat = "bpm" in self._send and trust >= BEAT_TRUST and bpm > 0.0
        beats = (bpm,) if is_beat and self._bpm_pace.is_due(frame.t_ns) else ()
        data = self._pack(frame, events, beats)
        if len(data) > len(HEADER):
            self._transmit(data)
        # After sending, because this frees the previous frame and all that only it holds.
        self._last_sent = frame

    def prewarm(self, frame: ControlFrame) -> None:
        """See :class:`realtime.sinks.base.Prewarmed`."""
        with contextlib.suppress(Exception):
            self._pack(frame, ())

    def _pack(self, frame: ControlFrame, events: Sequence[Event], beats: Sequence[float] = ()) -> bytes:
        send, params, extras = self._send, frame.params, frame.extras
        if self._maps is not None:
            params = [m(v) for m, v in zip(self._maps, params, strict=True)]
        if extras:
            extras = [m(v) for m, v in zip(self._extra_maps, extras, strict=False)]
        tail: list[_Element] = [self._element("bpm", beats)] if beats else []
        tail += [(self._event_element(event), ()) for event in events]
        if frame.classes and "class" in send:
            tail += (self._class_element(*current) for current in frame.classes)
        if frame.gestures and "gesture" in send:
            tail += (self._element(f"gesture/{name}", numbers) for name, *numbers in frame.gestures)
        if frame.plan and "plan" in send:
            tail.append(self._element("plan", [number for pair in frame.plan for number in pair]))
        if frame.place is not None and "place" in send:
            tail.append(self._element("place", frame.place))
        field, trust, limbs = frame.field, frame.trust, frame.limbs
        counts = len(field), len(trust), len(limbs)
        bundle = self._bundles.get(counts) or self._bundle(counts)
        # In the order of _SECONDS and the following.
        lists = (frame.seconds,), frame.scalars, params, frame.tempo, extras, field, trust, limbs
        return bundle.pack(frame.seq & 0x7FFFFFFF, lists, tail)

    def _element(self, name: str, values: Sequence[float]) -> _Element:
        """Encode an element whose types repeat over ``values``; its head is cached for each length."""
        cached = self._heads.get((name, len(values)))
        if cached is None:
            types = MESSAGES[name].types if name in MESSAGES else "f"
            types *= len(values) // len(types)
            data = element(self._address(name, name), zeros(types))
            cached = self._heads[name, len(values)] = data[: len(data) - 4 * len(types)], types
        head, types = cached
        if "i" in types:
            return head + struct.pack(">" + types, *values), ()
        return head, values

    def _class_element(self, name: str, label: str, probability: float) -> _Element:
        """Encode the current label of a class; its head is cached."""
        head = self._label_heads.get((name, label))
        if head is None:
            data = element((f"{self._prefix}/class/{name}",), [label, 0.0])
            head = self._label_heads[name, label] = data[:-4]
        return head, (probability,)

    def close(self) -> None:
        """Send the withheld frame, so that the receiver gets the last values, and close the socket."""
        if self._withheld is not None:
            # Without its events: they would sound in the silence.
            self._deliver(self._withheld, ())
        self._wire.close()
