"""What an OSC receiver can be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pyanticip.controls import CANCEL, Range
from pyanticip.options import Options, host_port
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.config import Port, known_keys, unknown
from realtime.sinks.tcp import Framing
from realtime.sockets import host_and_port

__all__ = ["ENSEMBLE", "PARTS", "RENAMED", "Address", "Argument", "OscConfig", "Sendable"]

Argument = str | int | float
#: What an OSC bundle is made of, in order.
PARTS = (
    "frame",
    "scalars",
    "param",
    "params",
    "tempo",
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
#: What is sent of several performers together.
ENSEMBLE = "ensemble"
#: What a receiver may be sent: parts, or single ones of the parameters and events.
_SENT = (*PARTS, ENSEMBLE, *PARAMETERS, *EVENTS)
_CALLED_OFF = tuple(name + CANCEL for name in EVENTS)
#: What may have another address.
RENAMED = ("frame", "scalars", "params", "tempo", "status", *PARAMETERS, *EVENTS, *_CALLED_OFF)


def _known(name: str) -> str:
    if name not in _SENT:
        raise ValueError(f"{name}: unknown name{unknown(name, _SENT)}")
    return name


Sendable = Annotated[str, AfterValidator(_known)]


# The largest of a float32.
_MOST = float.fromhex("0x1.fffffep127")
_KEPT = set(" #*,?[]{}")
_EXPECTED = "expected an address that starts with '/' and has none of ' #*,?[]{}' in it"


def _is_address(value: Argument) -> bool:
    """Whether OSC can have it: no pattern, and none of what OSC keeps for itself."""
    return isinstance(value, str) and value.startswith("/") and value.isprintable() and not set(value) & _KEPT


def _fits(value: Argument) -> bool:
    """Whether OSC's `i` or `f` has room for it, if it is a number."""
    if isinstance(value, int):
        return -(2**31) <= value < 2**31
    return isinstance(value, str) or abs(value) <= _MOST


def _as_address(value: object) -> object:
    """An address is a string, or a list of an address and what stands before the value."""
    return (value,) if isinstance(value, str) else value


Address = Annotated[tuple[Argument, ...], BeforeValidator(_as_address)]


class OscConfig(Options):
    """One OSC receiver. ``addresses`` renames parts, ``ranges`` maps parameters, ``send`` chooses parts,
    or single parameters and events by their names.

    ``framing`` is how packets stand in a TCP stream: ``slip`` as OSC 1.1 has it, ``length`` (an int32) as
    OSC 1.0 does.

    ``max_rate`` bundles a second at most, of each performer and of all together: a slow receiver gets the
    newest values, never a queue (events that still come wait for the next bundle), and the last ones at the
    end.

    With ``schedule`` every event leaves at once in a bundle of its own, whose time tag says when it is due:
    ``latency_ms`` before its moment, for so late does the receiver sound, but never before now; on a clock
    that is ``clock_offset_ms`` ahead of this machine's. What calls one off leaves at once as well.

    ``performer`` is the only one heard there, of several, and then no name stands in the addresses.

    ``HOST:PORT`` or ``tcp://HOST:PORT`` stands for a receiver with everything else built in.
    """

    host: str = "127.0.0.1"
    port: Port = 9000
    transport: Literal["udp", "tcp"] = "udp"
    framing: Framing = "slip"
    prefix: str = "/anticip"
    send: tuple[Sendable, ...] = (*PARTS, ENSEMBLE)
    addresses: Annotated[dict[str, Address], known_keys(*RENAMED)] = {}
    ranges: Annotated[dict[str, Range], known_keys(*PARAMETERS)] = {}
    max_rate: Annotated[float, Field(ge=0.01, le=1000.0)] | None = None
    schedule: bool = False
    latency_ms: Annotated[float, Field(ge=0.0, le=1000.0)] = 0.0
    clock_offset_ms: Annotated[float, Field(ge=-1e9, le=1e9)] = 0.0
    performer: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        transport, _, where = value.rpartition("://")
        host, port = host_port(where)
        return {"transport": transport or "udp", "host": host, "port": port}

    @property
    def url(self) -> str:
        """As the command line has it."""
        return f"{'tcp://' if self.transport == 'tcp' else ''}{host_and_port(self.host, self.port)}"

    @model_validator(mode="after")
    def _does_something(self) -> OscConfig:
        if self.clock_offset_ms and not self.schedule:
            raise ValueError("clock_offset_ms: it moves time tags, which are sent with schedule = true")
        if self.framing != "slip" and self.transport != "tcp":
            raise ValueError(f'framing: {self.framing} is for a stream; expected transport = "tcp" with it')
        return self

    @model_validator(mode="after")
    def _are_addresses(self) -> OscConfig:
        if self.prefix and not _is_address(self.prefix):
            raise ValueError(f"prefix: {_EXPECTED}, got {self.prefix!r}")
        for name, address in self.addresses.items():
            if not (address and _is_address(address[0]) and all(str(part).isprintable() for part in address)):
                raise ValueError(f"addresses.{name}: {_EXPECTED}, got {address}")
            if not all(_fits(part) for part in address):
                raise ValueError(f"addresses.{name}: expected numbers of 32 bits, got {address}")
        return self
