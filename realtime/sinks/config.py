"""Options of an OSC receiver."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from pyanticip.controls import CANCEL, Range
from pyanticip.options import Options, host_port
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.config import Port, known_keys, known_name
from realtime.osc import Argument
from realtime.protocols import CUE
from realtime.sinks.tcp import Framing
from realtime.sockets import host_and_port

#: The parts of an OSC bundle, in order.
PARTS = (
    "frame",
    "scalars",
    "param",
    "params",
    "tempo",
    "bpm",
    "event",
    "class",
    "gesture",
    "field",
    "plan",
    "trust",
    "place",
    "limbs",
    "status",
)
#: The part that describes several performers together.
ENSEMBLE = "ensemble"
#: Names allowed in ``send``: parts, or single parameters and events.
_SENDABLE = (*PARTS, ENSEMBLE, *PARAMETERS, *EVENTS)
_CANCELS = tuple(name + CANCEL for name in EVENTS)
#: Names allowed in ``addresses``.
RENAMED = ("frame", "scalars", "params", "tempo", "bpm", "status", *PARAMETERS, *EVENTS, *_CANCELS)


Sendable = Annotated[str, known_name(*_SENDABLE, also=CUE)]


_FLOAT32_MAX = float.fromhex("0x1.fffffep127")
# Characters that OSC 1.0 does not allow in an address.
_RESERVED = set(" #*,?[]{}")
_EXPECTED_ADDRESS = "expected an address that starts with '/' and has none of ' #*,?[]{}' in it"


def _is_address(value: Argument) -> bool:
    """Whether ``value`` is a valid OSC address: no pattern and no reserved characters."""
    if not (isinstance(value, str) and value.startswith("/") and value.isprintable()):
        return False
    return not set(value) & _RESERVED


def _fits_osc_type(value: Argument) -> bool:
    """Whether a number fits OSC's `i` or `f`; strings always do."""
    if isinstance(value, int):
        return -(2**31) <= value < 2**31
    return isinstance(value, str) or abs(value) <= _FLOAT32_MAX


def _as_address(value: object) -> object:
    """Wrap a plain address string; a list is an address and arguments to send before the value."""
    return (value,) if isinstance(value, str) else value


Address = Annotated[tuple[Argument, ...], BeforeValidator(_as_address)]


class OscConfig(Options):
    """One OSC receiver. ``addresses`` renames parts, ``ranges`` maps parameters, ``send`` selects parts,
    or single parameters, events and cues (``cue/NAME``), by name.

    ``framing`` of packets in a TCP stream: ``slip`` (OSC 1.1) or ``length`` (an int32, OSC 1.0).

    Without ``bundles`` each message is a packet of its own, for receivers that do not read bundles.

    ``max_rate`` limits the bundles per second, of each performer and of the ensemble: a slow receiver gets
    the newest values, never a queue (events still ahead wait for the next bundle), and the last values when
    the show ends.

    With ``schedule`` every event is sent at once in its own bundle, time-tagged ``latency_ms`` (the
    receiver's output latency) before it is due, but never before now, on a clock that is ``clock_offset_ms``
    ahead of this machine's. Cancellations are sent at once as well.

    ``taught_prefix`` precedes the addresses that a mapping gives its outputs; with several performers their
    name is added to it, as to ``prefix``. ``performer`` limits the receiver to one of them, without a name in
    the addresses.

    The string ``HOST:PORT`` or ``tcp://HOST:PORT`` is a receiver with defaults for everything else.
    """

    host: str = "127.0.0.1"
    port: Port = 9000
    transport: Literal["udp", "tcp"] = "udp"
    framing: Framing = "slip"
    bundles: bool = True
    prefix: str = "/anticip"
    taught_prefix: str = ""
    send: tuple[Sendable, ...] = (*PARTS, ENSEMBLE)
    addresses: Annotated[dict[str, Address], known_keys(*RENAMED, also=CUE)] = {}
    ranges: Annotated[dict[str, Range], known_keys(*PARAMETERS)] = {}
    max_rate: Annotated[float, Field(ge=0.01, le=1000.0)] | None = None
    schedule: bool = False
    latency_ms: Annotated[float, Field(ge=0.0, le=1000.0)] = 0.0
    clock_offset_ms: Annotated[float, Field(ge=-1e9, le=1e9)] = 0.0
    performer: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_url(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        transport, _, where = value.rpartition("://")
        host, port = host_port(where)
        return {"transport": transport or "udp", "host": host, "port": port}

    @property
    def url(self) -> str:
        """The receiver as written on the command line."""
        return f"{'tcp://' if self.transport == 'tcp' else ''}{host_and_port(self.host, self.port)}"

    @model_validator(mode="after")
    def _check_dependent_options(self) -> OscConfig:
        if self.clock_offset_ms and not self.schedule:
            raise ValueError("clock_offset_ms: it moves time tags, which are sent with schedule = true")
        if self.schedule and not self.bundles:
            raise ValueError("schedule: time tags are those of bundles; expected bundles = true with it")
        if self.framing != "slip" and self.transport != "tcp":
            raise ValueError(f'framing: {self.framing} is for a stream; expected transport = "tcp" with it')
        return self

    @model_validator(mode="after")
    def _check_addresses(self) -> OscConfig:
        for name, prefix in (("prefix", self.prefix), ("taught_prefix", self.taught_prefix)):
            if prefix and not _is_address(prefix):
                raise ValueError(f"{name}: {_EXPECTED_ADDRESS}, got {prefix!r}")
        for name, address in self.addresses.items():
            if not (address and _is_address(address[0]) and all(str(part).isprintable() for part in address)):
                raise ValueError(f"addresses.{name}: {_EXPECTED_ADDRESS}, got {address}")
            if not all(_fits_osc_type(part) for part in address):
                raise ValueError(f"addresses.{name}: expected numbers of 32 bits, got {address}")
        return self
