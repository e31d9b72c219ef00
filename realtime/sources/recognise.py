"""Who sends? A datagram's kind by its looks, and what to type to hear it."""

from __future__ import annotations

from pyanticip import _core
from realtime.seams import SOURCES
from realtime.sources.arrivals import suits

__all__ = ["recognise", "wrong_kind"]

#: What is known by its looks but has no body of its own to play: why, and what to do.
_BODILESS = {
    "vrchat": "VRChat trackers, which are solved into no body; if the sender speaks VMC too, use that",
    "wek": "inputs of Wekinator over OSC; map their numbers to joints with source.addresses and --source osc",
    "osc": "OSC of another program; map its numbers to joints with source.addresses and --source osc",
}


def recognise(datagram: bytes) -> str | None:
    """The kind of source that a datagram is from: one of ``SOURCES``, ``vrchat``, ``phone``, ``wek``, ``osc``
    (of somebody else's), or None where it is nothing known."""
    if datagram.startswith(b"{") and b'"sensordata"' in datagram:
        return "phone"
    return _core.recognise(datagram)


def wrong_kind(expected: str, datagram: bytes, port: int) -> str:
    """What came in place of an ``expected`` kind, with what to do; empty where that cannot be told."""
    kind = recognise(datagram)
    if kind is None:
        return ""
    if kind == expected:
        if kind not in _core.PROTOCOLS:
            return ""
        try:
            _core.Decoder(kind).feed(datagram)
        except ValueError as error:
            return f"this is {kind}, but: {error}"
        return ""
    if kind in suits():
        usual = SOURCES.load(kind)().port
        return f"this is {kind}: use --source {kind}://0.0.0.0{'' if port == usual else f':{port}'}"
    return f"this is {_BODILESS[kind]}"
