"""OSC from anybody: a datagram split into its messages, and each read; what is none is one ValueError."""

from __future__ import annotations

from collections.abc import Iterator

from pythonosc.osc_message import OscMessage

__all__ = ["read_message", "read_messages", "split"]

_BUNDLE = b"#bundle\0"
_DEPTH = 4
# The types of arguments that are read, and as what OSC's symbols and impulses are.
_TYPES, _MEANT = b"ifdhsbrmtTFNSI[]", bytes.maketrans(b"SI", b"sN")


def split(datagram: bytes, most: int) -> Iterator[bytes]:
    """The first ``most`` messages of a datagram, whatever the time tags of its bundles.

    Not python-osc's own bundles, which step back for ever at an element of negative size.

    Raises:
        ValueError: A bundle that is none.
    """
    parts = [(datagram, 0)]
    while parts and most > 0:
        data, depth = parts.pop()
        if not data.startswith(_BUNDLE):
            yield data
            most -= 1
            continue
        if depth >= _DEPTH:
            raise ValueError("bundles in bundles in bundles")
        inside: list[tuple[bytes, int]] = []
        at = 16
        while at < len(data) and len(inside) < most:
            size = int.from_bytes(data[at : at + 4], "big")
            if not 0 < size <= len(data) - at - 4:
                raise ValueError("an element longer than its bundle")
            inside.append((data[at + 4 : at + 4 + size], depth + 1))
            at += 4 + size
        parts.extend(reversed(inside))


def read_message(data: bytes, most: int) -> OscMessage:
    """A message of ``most`` arguments at most; a symbol is a string, an impulse nil.

    Raises:
        ValueError: It is none, or has types that python-osc would complain of at the terminal and pass over,
            so that what stands behind them is misread.
    """
    begin = (data.find(b"\0") // 4 + 1) * 4
    tags = data[begin:].partition(b"\0")[0]
    if len(tags) - 1 > most or tags.lstrip(b",").translate(None, _TYPES):
        raise ValueError("more arguments than are read, or of unknown types")
    if not data.startswith(b"/"):
        raise ValueError("no address")
    try:
        return OscMessage(data[:begin] + tags.translate(_MEANT) + data[begin + len(tags) :])
    except Exception as error:
        # python-osc raises several kinds for bytes that are not OSC.
        raise ValueError(str(error)) from None


def read_messages(datagram: bytes, most: int, most_arguments: int) -> list[OscMessage]:
    """The messages of a datagram that can be read, as by :func:`split` and :func:`read_message`.

    Raises:
        ValueError: A bundle that is none, or no message that can be read.
    """
    found, refused = [], None
    for one in split(datagram, most):
        try:
            found.append(read_message(one, most_arguments))
        except ValueError as error:
            refused = error
    if refused is not None and not found:
        raise refused
    return found
