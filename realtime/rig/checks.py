"""Checks of a rig: warnings on keys without effect, and conflicts of ports."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyanticip.controls import CANCEL, Shape
from pyanticip.errors import OptionError
from realtime.protocols import CUE
from realtime.sockets import host_and_port, reachable_host

if TYPE_CHECKING:
    from realtime.rig.performers import PerformerTable
    from realtime.rig.tree import Rig
    from realtime.sinks.config import OscConfig

_ANY = ("0.0.0.0", "::")
_LOOPBACK = ("127.0.0.1", "::1", *_ANY)


class _Endpoint(NamedTuple):
    """An address at which the show listens by the rig's table ``key``."""

    key: str
    udp: bool
    host: str
    port: int


def check_ports(rig: Rig) -> None:
    """Raise an OptionError if two tables would listen at the same port."""
    for one, other in itertools.combinations(_endpoints(rig), 2):
        overlaps = one.host == other.host or one.host in _ANY or other.host in _ANY
        if overlaps and (one.udp, one.port) == (other.udp, other.port):
            raise OptionError(f"{other.key}.port: {one.key} listens at {one.port} already; choose another")


def check_spare(rig: Rig) -> None:
    """Raise an OptionError if nothing can be written into the folder ``record_spare``."""
    spare = rig.record_spare
    # `Path.is_dir` raises an error below a folder that may not be read.
    if spare is not None and not os.access(f"{spare}/.", os.W_OK):
        raise OptionError(f"record_spare: {spare}: expected a folder that can be written into")


def _unknown_cues(rig: Rig, tables: Sequence[Rig | PerformerTable]) -> list[str]:
    """Lines on keys that name a cue which no ``[[cue]]`` sets; one may still be set while playing."""
    cues = {cue.name for one in tables for cue in one.cue or ()}
    uses = [("midi.note", note.event) for note in rig.midi.note if rig.midi.port is not None]
    for table in rig.osc:
        uses += [("osc.addresses", name.removesuffix(CANCEL)) for name in table.addresses]
        uses += [("osc.send", name) for name in table.send]
    return [
        f"{key}: there is no cue {name.removeprefix(CUE)!r}"
        for key, name in dict.fromkeys(uses)
        if name.startswith(CUE) and name.removeprefix(CUE) not in cues
    ]


def rig_warnings(rig: Rig) -> list[str]:
    """Lines on keys that have no effect in a live show, and on receivers that are the show itself."""
    sources = [one.source_for(rig.source) for one in rig.performers] or [rig.source]
    lines = list(dict.fromkeys(line for source in sources for line in source.warnings()))
    tables: tuple[Rig | PerformerTable, ...] = (rig, *rig.performers)
    if rig.midi.port is None:
        if any(one.channel is not None for one in rig.performers):
            lines.append("performer.channel: without midi.port nothing is sent there")
        elif "midi" in rig.model_fields_set and "port" not in rig.midi.model_fields_set:
            lines.append("midi: without midi.port nothing is sent")
    lines += _unknown_cues(rig, tables)
    if not any(one.mapping or one.teach for one in tables):
        lines += rig.untaught_output_lines(())
    for name, shape in rig.shape.items():
        if shape.hysteresis != Shape().hysteresis and shape.threshold is None and not shape.toggle:
            lines.append(f"shape.{name}.hysteresis: without threshold or toggle it does nothing")
    if not rig.memory.enabled and (rig.cue or any(one.cue and one.memory is None for one in rig.performers)):
        lines.append("cue: without the memory (memory.enabled = false) none is sent")
    return [*lines, *_control_unreachable(rig), *_sent_to_itself(rig), *_sent_twice(rig.osc)]


def _control_unreachable(rig: Rig) -> Iterator[str]:
    """A line if OSCQuery is open to the network but the remote control is not."""
    if rig.oscquery.enabled and rig.control.enabled and not rig.offers_control:
        yield (
            f"oscquery: offers no commands at {rig.oscquery.host}, for control.host is {rig.control.host}:"
            " expected one that the network reaches"
        )


def _sent_to_itself(rig: Rig) -> Iterator[str]:
    """Lines on OSC receivers that are the show's own source or remote control."""
    own_inputs = [endpoint for endpoint in _endpoints(rig) if endpoint.key in ("source", "control")]
    for target in rig.osc:
        host = _without_alias(target.host)
        for key, _, own_host, port in own_inputs:
            is_same_host = host in (own_host, reachable_host(own_host))
            is_same_host = is_same_host or (host in _LOOPBACK and own_host in _ANY)
            if target.transport == "udp" and target.port == port and is_same_host:
                address = host_and_port(target.host, port)
                yield f"osc: {address} is where {key} listens: no other program hears it"


def _sent_twice(targets: Sequence[OscConfig]) -> Iterator[str]:
    """Lines on OSC receivers to which two tables send the same."""

    def receiver(one: OscConfig) -> tuple[object, ...]:
        return one.transport, _without_alias(one.host), one.port, one.prefix.rstrip("/"), one.performer

    for one, other in itertools.combinations(targets, 2):
        # Parts with different addresses do not count as the same.
        common = [
            part
            for part in one.send
            if part in other.send and one.addresses.get(part) == other.addresses.get(part)
        ]
        if common and receiver(one) == receiver(other):
            parts = "the same" if len(common) == len(one.send) == len(other.send) else ", ".join(common)
            yield f"osc: two tables send {parts} to {one.url}"


def _without_alias(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host


def _endpoints(rig: Rig) -> Iterator[_Endpoint]:
    sources = [one.source_for(rig.source) for one in rig.performers] or [rig.source]
    # Several suits may share one port; the port of `auto` is not known yet.
    for host, port in dict.fromkeys(
        source.listen for source in sources if source.kind != "auto" or source.port
    ):
        yield _Endpoint("source", True, _without_alias(host), port)
    if rig.control.enabled:
        yield _Endpoint("control", True, _without_alias(rig.control.host), rig.control.port)
    if rig.synth.enabled and rig.synth.port is not None:
        yield _Endpoint("synth", True, "127.0.0.1", rig.synth.port)
    if rig.monitor.enabled:
        for n in range(len(sources)):
            yield _Endpoint("monitor", False, _without_alias(rig.monitor.host), rig.monitor.port + n)
    if rig.oscquery.enabled:
        yield _Endpoint("oscquery", False, _without_alias(rig.oscquery.host), rig.oscquery.port)
