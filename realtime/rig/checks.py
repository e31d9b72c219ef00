"""What a rig does in vain, and the ports at which a show listens, none twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyanticip.controls import Shape
from pyanticip.errors import OptionError
from realtime.sockets import host_and_port, known_as

if TYPE_CHECKING:
    from realtime.rig.performers import PerformerTable
    from realtime.rig.tree import Rig
    from realtime.sinks.config import OscConfig

__all__ = ["check_ports", "rig_warnings"]

_ANY = ("0.0.0.0", "::")
_LOOPBACK = ("127.0.0.1", "::1", *_ANY)


class _Endpoint(NamedTuple):
    """Where the tables of a rig called ``key`` listen."""

    key: str
    udp: bool
    host: str
    port: int


def check_ports(rig: Rig) -> None:
    """Raises an OptionError where two would listen at one port."""
    for one, other in itertools.combinations(_endpoints(rig), 2):
        same = one.host == other.host or one.host in _ANY or other.host in _ANY
        if same and (one.udp, one.port) == (other.udp, other.port):
            raise OptionError(f"{other.key}.port: {one.key} listens at {one.port} already; choose another")


def rig_warnings(rig: Rig) -> list[str]:
    """Lines about keys that a live show has no use for, and receivers that are its own."""
    sources = [one.source_for(rig.source) for one in rig.performers] or [rig.source]
    found = list(dict.fromkeys(line for source in sources for line in source.warnings()))
    everybody: tuple[Rig | PerformerTable, ...] = (rig, *rig.performers)
    if rig.midi.port is None:
        if any(one.channel is not None for one in rig.performers):
            found.append("performer.channel: without midi.port nothing is sent there")
        elif "midi" in rig.model_fields_set and "port" not in rig.midi.model_fields_set:
            found.append("midi: without midi.port nothing is sent")
    else:
        cues = {"", *(cue.name for one in everybody for cue in one.cue or ())}
        names = dict.fromkeys(note.event.partition("/")[2] for note in rig.midi.note)
        found += [f"midi.note: there is no cue {name!r}" for name in names if name not in cues]
    if not any(one.mapping or one.teach for one in everybody):
        found += rig.untaught(())
    for name, shape in rig.shape.items():
        if shape.hysteresis != Shape().hysteresis and shape.threshold is None and not shape.toggle:
            found.append(f"shape.{name}.hysteresis: without threshold or toggle it does nothing")
    if not rig.memory.enabled and (rig.cue or any(one.cue and one.memory is None for one in rig.performers)):
        found.append("cue: without the memory (memory.enabled = false) none is sent")
    return [*found, *_out_of_reach(rig), *_sent_to_itself(rig), *_sent_twice(rig.osc)]


def _out_of_reach(rig: Rig) -> Iterator[str]:
    """A line where those on the network who ask by OSCQuery cannot reach the remote control."""
    if rig.oscquery.enabled and rig.control.enabled and not rig.offers_control:
        yield (
            f"oscquery: offers no commands at {rig.oscquery.host}, for control.host is {rig.control.host}:"
            " expected one that the network reaches"
        )


def _sent_to_itself(rig: Rig) -> Iterator[str]:
    """Lines about OSC receivers that are the show's own suit or remote control."""
    ears = [place for place in _endpoints(rig) if place.key in ("source", "control")]
    for target in rig.osc:
        host = _without_alias(target.host)
        for key, _, ear, port in ears:
            there = host in (ear, known_as(ear)) or (host in _LOOPBACK and ear in _ANY)
            if target.transport == "udp" and target.port == port and there:
                where = host_and_port(target.host, port)
                yield f"osc: {where} is where {key} listens: no other program hears it"


def _sent_twice(targets: Sequence[OscConfig]) -> Iterator[str]:
    """Lines about OSC receivers that two tables send the same to."""

    def whom(one: OscConfig) -> tuple[object, ...]:
        return one.transport, _without_alias(one.host), one.port, one.prefix.rstrip("/"), one.performer

    for one, other in itertools.combinations(targets, 2):
        # What has another address there is something else.
        both = [
            part
            for part in one.send
            if part in other.send and one.addresses.get(part) == other.addresses.get(part)
        ]
        if both and whom(one) == whom(other):
            what = "the same" if len(both) == len(one.send) == len(other.send) else ", ".join(both)
            yield f"osc: two tables send {what} to {one.url}"


def _without_alias(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host


def _endpoints(rig: Rig) -> Iterator[_Endpoint]:
    sources = [one.source_for(rig.source) for one in rig.performers] or [rig.source]
    # Several suits may come to one port; which one `auto` finds is not known yet.
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
