"""The tables of what comes in: the suit, and the model that steps."""

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

__all__ = ["AddressRig", "BackendKind", "ModelRig", "SentKind", "SourceKind", "SourceRig", "source_table"]

#: What can be sent (of `osc` nobody knows what to send where); and what can be listened to.
SentKind = Annotated[str, registered(SOURCES, but="osc")]
SourceKind = Annotated[str, registered(SOURCES, "auto")]
BackendKind = Annotated[str, registered(BACKENDS, "auto")]


def _an_address(address: str) -> str:
    if not address.startswith(("/", "*", "?", "[")):
        raise PydanticCustomError("address", 'expected an OSC address, which begins with "/"')
    return address


class AddressRig(Options):
    """Where a joint's rotation is in OSC; see :class:`realtime.sources.osc.Address`."""

    address: Annotated[str, AfterValidator(_an_address)]
    order: Order = "xyzw"
    first: Annotated[int, Field(ge=0, le=1000)] = 0

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, value: object) -> object:
        return {"address": value} if isinstance(value, str) else value


class SourceRig(ReadingOptions):
    """Where motion comes from. Loopback unless ``host`` says otherwise (0.0.0.0: every interface).

    ``from`` names the one sender that is heard (``host`` or ``host:port``), which is asked to send where a
    kind has to be (natnet); ``buffer_ms`` trades latency for a regular pace: frames leave so much later
    than they could, or (auto) as much as covers 98 % of the delays of the last ten seconds. ``delay_ms`` is
    how late the suit tells of a movement, which no datagram says. ``addresses`` are those of the kinds
    ``osc``, ``phone`` and ``wek``, by joint; the others need none.
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
    def _typed(cls, value: object) -> object:
        return source_table(value) if isinstance(value, str) else value

    def resolved(self) -> SourceRig:
        """With the address of the sender in place of its name. Raises a DeviceError."""
        host, mark, port = (self.sender or "").partition(":")
        if not host or ":" in port:
            # Nobody in particular, or an IPv6 address.
            return self
        address = resolve(host, 0, "source.from", SOCK_DGRAM)[4][0]
        who = host_and_port(address, int(port)) if mark else address
        return self.model_copy(update={"sender": who})

    def warnings(self) -> Iterator[str]:
        """Lines about keys that a live show has no use for."""
        if self.addresses and self.kind not in (*PRESETS, "auto"):
            yield f"source.addresses: {self.kind} has no use for them; {', '.join(PRESETS)} have"
        for name in (n for n in self.reading() if n not in self.body()):
            yield f"source.{name}: a suit has no use for it; it is for files"
        with contextlib.suppress(ValueError):
            remote = not ip_address(who := host_of(self.sender or "")).is_loopback
            if remote and (self.host.startswith("127.") or self.host in ("::1", "localhost")):
                yield f'source.from: {who} cannot send to {self.host}; host = "0.0.0.0" hears the network'

    @property
    def wire(self) -> str:
        """The format in which datagrams reach the front end."""
        return "msgpack" if self.body() else SOURCES.load(self._decided)().wire

    @property
    def listen(self) -> tuple[str, int]:
        """The address to bind, with the kind's usual port where none is given."""
        return self.host, self.port or SOURCES.load(self._decided)().port

    @property
    def _decided(self) -> str:
        if self.kind == "auto":
            raise OptionError("source auto: whoever sends decides while `live` listens; say a kind here")
        return self.kind

    def opened(self) -> dict[str, Any]:
        """What opens the source beside its address, as :class:`realtime.sources.udp.UdpSource` takes it."""
        if self.kind not in PRESETS:
            server = {} if self.sender is None else {"server": host_of(self.sender)}
            return {**self.body(), **server}
        up = {} if self.up is None else {"up": self.up}
        return {"addresses": self.mapped or PRESETS[self.kind], **up}

    @property
    def mapped(self) -> dict[str, Address]:
        """Where each joint's rotation is, as :class:`realtime.sources.osc.OscSource` takes it."""
        return {joint: Address(a.address, a.order, a.first) for joint, a in self.addresses.items()}


class ModelRig(Options):
    """The checkpoint that steps. ``enabled = false`` plays the scalars alone."""

    enabled: bool = option("Run the model; --no-model: the seven scalars play instead.", True)
    checkpoint: PathText | None = option(
        "Checkpoint folder; the built-in model by default.", None, metavar="PATH", exists=True
    )
    backend: BackendKind = option("Step backend: auto, rust, torch, cuda-graph ...", "auto")
    budget_ms: Annotated[float, Field(gt=0.0, le=1000.0)] = 15.0


def source_table(text: str) -> dict[str, Any]:
    """The ``source`` table of ``KIND[://HOST[:PORT]]``.

    Raises:
        ValueError: An unknown kind, or no address.
    """
    kind, mark, where = text.partition("://")
    if kind not in SOURCES and kind != "auto":
        known = ("auto", *SOURCES.names())
        raise ValueError(f"expected {', '.join(known)}, got {kind!r}{suggestion(kind, known)}")
    if mark and (where.endswith("]") or not (":" in where or where.isdigit() or not where)):
        return {"kind": kind, "host": where.strip("[]")}
    return {"kind": kind, **(dict(zip(("host", "port"), host_port(where), strict=True)) if mark else {})}
