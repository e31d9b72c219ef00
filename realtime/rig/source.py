"""The tables of the source and of the model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from ipaddress import ip_address
from socket import SOCK_DGRAM
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from pyanticip.errors import OptionError, suggestion
from pyanticip.motion.options import ReadingOptions
from pyanticip.options import Options, PathText, host_port, option
from pyanticip.vocabulary import CANONICAL_JOINTS
from realtime.config import BufferMs, Port, Sender, known_keys, registered
from realtime.seams import BACKENDS, SOURCES
from realtime.sockets import host_and_port, host_of, resolve
from realtime.sources.osc import PRESETS, Address, Order

#: Kinds that can be sent; for `osc` the addresses are unknown.
SentKind = Annotated[str, registered(SOURCES, but="osc")]
#: Kinds that can be received.
SourceKind = Annotated[str, registered(SOURCES, "auto")]
BackendKind = Annotated[str, registered(BACKENDS, "auto")]


def _check_address(address: str) -> str:
    if not address.startswith(("/", "*", "?", "[")):
        raise PydanticCustomError("address", 'expected an OSC address, which begins with "/"')
    return address


class AddressRig(Options):
    """OSC address of a joint's rotation; see :class:`realtime.sources.osc.Address`."""

    address: Annotated[str, AfterValidator(_check_address)]
    order: Order = "xyzw"
    first: Annotated[int, Field(ge=0, le=1000)] = 0

    @model_validator(mode="before")
    @classmethod
    def _parse_text(cls, value: object) -> object:
        return {"address": value} if isinstance(value, str) else value


class SourceRig(ReadingOptions):
    """The motion source. It listens on loopback unless ``host`` says otherwise (0.0.0.0: every interface).

    ``from`` is the only sender to listen to (``host`` or ``host:port``); kinds that have to be asked (natnet)
    are requested from it. ``buffer_ms`` trades latency for a regular pace: frames are sent this much later,
    or (auto) as much as covers 98 % of the delays of the last ten seconds. ``delay_ms`` is the latency of the
    suit itself, which its packets do not tell. ``addresses``, by joint, are for the kinds ``osc``, ``phone``
    and ``wek``.
    """

    model_config = ConfigDict(populate_by_name=True)

    kind: SourceKind = "mocopi"
    host: str = "127.0.0.1"
    port: Port | None = None
    sender: Sender | None = Field(default=None, alias="from")
    buffer_ms: BufferMs = 0.0
    delay_ms: Annotated[float, Field(ge=0.0, le=300.0)] = 0.0
    addresses: Annotated[dict[str, AddressRig], known_keys(*CANONICAL_JOINTS)] = {}

    @model_validator(mode="before")
    @classmethod
    def _parse_text(cls, value: object) -> object:
        return source_table(value) if isinstance(value, str) else value

    def resolved(self) -> SourceRig:
        """A copy with the sender's address in place of its host name. Raises a DeviceError."""
        host, separator, port = (self.sender or "").partition(":")
        if not host or ":" in port:
            # No sender, or an IPv6 address.
            return self
        address = resolve(host, 0, "source.from", SOCK_DGRAM)[4][0]
        sender = host_and_port(address, int(port)) if separator else address
        return self.model_copy(update={"sender": sender})

    def warnings(self) -> Iterator[str]:
        """Lines on keys that have no effect in a live show."""
        if self.addresses and self.kind not in (*PRESETS, "auto"):
            yield f"source.addresses: {self.kind} has no use for them; {', '.join(PRESETS)} have"
        for name in (n for n in self.reading() if n not in self.body()):
            yield f"source.{name}: a suit has no use for it; it is for files"
        with contextlib.suppress(ValueError):
            remote = not ip_address(sender := host_of(self.sender or "")).is_loopback
            if remote and (self.host.startswith("127.") or self.host in ("::1", "localhost")):
                yield f'source.from: {sender} cannot send to {self.host}; host = "0.0.0.0" hears the network'

    @property
    def wire(self) -> str:
        """The format in which datagrams reach the front end."""
        return "msgpack" if self.body() else SOURCES.load(self._known_kind)().wire

    @property
    def listen(self) -> tuple[str, int]:
        """The address to bind, by default at the kind's usual port."""
        return self.host, self.port or SOURCES.load(self._known_kind)().port

    @property
    def _known_kind(self) -> str:
        if self.kind == "auto":
            raise OptionError("source auto: the kind is found only while `live` listens; name a kind here")
        return self.kind

    def udp_options(self) -> dict[str, Any]:
        """Keyword arguments of :class:`realtime.sources.udp.UdpSource` other than the address."""
        if self.kind not in PRESETS:
            server = {} if self.sender is None else {"server": host_of(self.sender)}
            return {**self.body(), **server}
        up = {} if self.up is None else {"up": self.up}
        return {"addresses": self.mapped or PRESETS[self.kind], **up}

    @property
    def mapped(self) -> dict[str, Address]:
        """OSC address of each joint's rotation, for :class:`realtime.sources.osc.OscSource`."""
        return {joint: Address(a.address, a.order, a.first) for joint, a in self.addresses.items()}


class ModelRig(Options):
    """The model. ``enabled = false`` plays the scalars only."""

    enabled: bool = option("Run the model; --no-model: the seven scalars play instead.", True)
    checkpoint: PathText | None = option(
        "Checkpoint folder; the packaged model by default.", None, metavar="PATH", exists=True
    )
    backend: BackendKind = option(
        "Step backend: auto, rust, torch, cuda-graph ...", "auto", names="realtime.seams:BACKENDS"
    )
    budget_ms: Annotated[float, Field(gt=0.0, le=1000.0)] = 15.0


def source_table(text: str) -> dict[str, Any]:
    """The ``source`` table of the text ``KIND[://HOST[:PORT]]``.

    Raises:
        ValueError: An unknown kind, or not an address.
    """
    kind, separator, address = text.partition("://")
    if kind not in SOURCES and kind != "auto":
        known = ("auto", *SOURCES.names())
        raise ValueError(f"expected {', '.join(known)}, got {kind!r}{suggestion(kind, known)}")
    if separator and (address.endswith("]") or not (":" in address or address.isdigit() or not address)):
        return {"kind": kind, "host": address.strip("[]")}
    return {
        "kind": kind,
        **(dict(zip(("host", "port"), host_port(address), strict=True)) if separator else {}),
    }
