"""OSC over UDP: one bundle a frame, built once with python-osc, its floats patched in place ever after."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Sequence

from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip.controls import Event, Range
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.sinks.base import ControlFrame, Extra
from realtime.sinks.config import Address, Argument, OscConfig
from realtime.sockets import connect_udp

__all__ = ["OscSink", "message"]

_HEADER = b"#bundle\0" + struct.pack(">Q", 1)  # time tag 1: immediately
_RETRY_NS = 1_000_000_000


def message(address: str, arguments: Sequence[Argument], types: str | None = None) -> bytes:
    """One encoded OSC message; ``types`` as in OSC (i, f, s), guessed where not given."""
    builder = OscMessageBuilder(address)
    for i, argument in enumerate(arguments):
        builder.add_arg(argument, types[i] if types else None)
    dgram: bytes = builder.build().dgram
    return dgram


class OscSink:
    """One OSC receiver. Where it is not there yet, or gone, that is counted and tried again."""

    Config = OscConfig

    def __init__(self, config: OscConfig) -> None:
        host, port = config.host, config.port
        self.name = f"osc {host}:{port}"
        self._sock, self._address = connect_udp(host, port, f"OSC target {host}:{port}")
        self._sock.setblocking(False)
        # What cannot be sent now is superseded by the next frame: no queue on our side.
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
        self._prefix = config.prefix.rstrip("/")
        self._send = frozenset(config.send)
        self._addresses = config.addresses
        self._interval_ns = round(1e9 / config.max_rate) if config.max_rate else 0
        self._due_ns = 0
        self._retry_ns = 0
        self._kept: list[Event] = []
        self._status: tuple[str, ...] = ()
        self._counts = {"sent": 0, "dropped": 0, "refused": 0, "failed": 0}
        linear = Range()
        ranges = {name: r.build() for name, r in config.ranges.items()}
        maps = [ranges.get(name, linear) for name in PARAMETERS]
        self._maps: list[Callable[[float], float]] | None = (
            None if all(m == linear for m in maps) else list(maps)
        )
        self._extras: tuple[Extra, ...] = ()
        self._build()

    def announce(self, extras: Sequence[Extra]) -> None:
        """Send these taught outputs as well, each at its own address and in its own range."""
        self._extras = tuple(extras)
        self._build()

    def _named(self, key: str, default: str) -> Address:
        return self._addresses.get(key, (f"{self._prefix}/{default}",))

    def _build(self) -> None:
        """Lay the bundle out once and remember where each number stands."""
        out = bytearray(_HEADER)
        self._frame_at = self._scalars_at = self._params_at = 0
        self._param_at: list[int] = []

        def element(where: Address, values: Sequence[Argument], types: str) -> int:
            """Append one message; the position of the first of its values."""
            head, *before = where
            dgram = message(str(head), [*before, *values])
            out.extend(struct.pack(">I", len(dgram)) + dgram)
            return len(out) - 4 * len(types)

        if "frame" in self._send:
            self._frame_at = element(self._named("frame", "frame"), (0, 0.0), "if")
        if "scalars" in self._send:
            self._scalars_at = element(self._named("scalars", "scalars"), (0.0,) * 7, "f" * 7)
        if "param" in self._send:
            self._param_at = [element(self._named(n, f"param/{n}"), (0.0,), "f") for n in PARAMETERS]
        self._extra_at: list[tuple[int, Callable[[float], float]]] = []
        if "param" in self._send:
            for extra in self._extras:
                where = (extra.address or f"{self._prefix}/param/{extra.name}",)
                self._extra_at.append((element(where, (0.0,), "f"), extra.range))
        if "params" in self._send:
            count = len(PARAMETERS)
            self._params_at = element(self._named("params", "params"), (0.0,) * count, "f" * count)
        self._bundle = out
        self._lists: dict[tuple[str, int], tuple[bytes, struct.Struct]] = {}
        self._events: dict[str, tuple[bytes, int]] = {}
        for name in EVENTS:
            self._event(name)

    def _event(self, name: str) -> tuple[bytes, int]:
        """The element of an event or a cue, and where its strength stands; made once."""
        head, *before = self._named(name, name if name.startswith("cue/") else f"event/{name}")
        dgram = message(str(head), [*before, 0.0, 0.0])
        self._events[name] = made = struct.pack(">I", len(dgram)) + dgram, len(dgram) + 4 - 8
        return made

    def counters(self) -> dict[str, int]:
        """Bundles sent, dropped here (full buffer), refused (nobody listens), failed (network)."""
        return dict(self._counts)

    def send(self, frame: ControlFrame) -> None:
        """Patch the bundle and send it. Never blocks, never raises."""
        events: Sequence[Event] = frame.events
        status = frame.status
        if self._interval_ns:
            now = time.monotonic_ns()
            if now < self._due_ns:
                self._kept.extend(events)
                self._status = status or self._status
                return
            late = now - self._due_ns
            self._due_ns = (self._due_ns if late < self._interval_ns else now) + self._interval_ns
            if self._kept or self._status:
                events, self._kept = [*self._kept, *events], []
                status, self._status = status or self._status, ()
        # A negative number: nothing plays yet, only the status is told.
        data = self._patched(frame) if frame.seq >= 0 else bytearray(_HEADER)
        if events and "event" in self._send:
            data = bytearray(data)
            for name, strength, ahead in events:
                template, at = self._events.get(name) or self._event(name)
                data += template
                struct.pack_into(">ff", data, len(data) - len(template) + at, strength, ahead)
        if frame.field and "field" in self._send:
            data = data + self._list("field", "f", frame.field)
        if frame.plan and "plan" in self._send:
            data = data + self._list("plan", "if", [number for pair in frame.plan for number in pair])
        if frame.trust and "trust" in self._send:
            data = data + self._list("trust", "f", frame.trust)
        if frame.place is not None and "place" in self._send:
            data = data + self._list("place", "ifff", frame.place)
        if status and "status" in self._send:
            head, *before = self._named("status", "status")
            dgram = message(str(head), [*before, *status])
            data = data + struct.pack(">I", len(dgram)) + dgram
        if len(data) > len(_HEADER):
            self._transmit(data)

    def _list(self, name: str, types: str, values: Sequence[float]) -> bytes:
        """An element with this many values, whose types repeat; its head is made once for each length."""
        known = self._lists.get((name, len(values)))
        if known is None:
            kinds = types * (len(values) // len(types))
            head, *before = self._named(name, name)
            dgram = message(str(head), [*before, *(0 if kind == "i" else 0.0 for kind in kinds)])
            body = struct.Struct(">" + kinds)
            element = struct.pack(">I", len(dgram)) + dgram
            known = self._lists[name, len(values)] = (element[: len(element) - body.size], body)
        return known[0] + known[1].pack(*values)

    def _patched(self, frame: ControlFrame) -> bytearray:
        out = self._bundle
        pack = struct.pack_into
        if self._frame_at:
            pack(">if", out, self._frame_at, frame.seq & 0x7FFFFFFF, frame.seconds)
        if self._scalars_at:
            pack(">7f", out, self._scalars_at, *frame.scalars)
        params = frame.params
        if self._maps is not None:
            params = [m(v) for m, v in zip(self._maps, params, strict=True)]
        for at, value in zip(self._param_at, params, strict=False):
            pack(">f", out, at, value)
        if self._params_at:
            pack(">8f", out, self._params_at, *params)
        for (at, unit), value in zip(self._extra_at, frame.extras, strict=False):
            pack(">f", out, at, unit(value))
        return out

    def _transmit(self, data: bytearray) -> None:
        counts = self._counts
        for _ in range(2):
            try:
                self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                counts["dropped"] += 1
            except ConnectionRefusedError:
                # The answer to an earlier bundle: this one was not sent. Once more: it may be back.
                counts["refused"] += 1
                continue
            except OSError:
                counts["failed"] += 1
                self._reconnect()
            else:
                counts["sent"] += 1
            return

    def _reconnect(self) -> None:
        """The network changed under us: point the socket anew, at most once a second."""
        now = time.monotonic_ns()
        if now >= self._retry_ns:
            self._retry_ns = now + _RETRY_NS
            with contextlib.suppress(OSError):
                self._sock.connect(self._address)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
