"""OSC messages: encodes them, and parses untrusted datagrams; anything malformed is a ValueError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pythonosc.osc_message import OscMessage
from pythonosc.osc_message_builder import OscMessageBuilder

Argument = str | int | float

_BUNDLE = b"#bundle\0"
_MAX_DEPTH = 4
# Supported argument types, and the table that reads symbols as strings and impulses as nil.
_TYPES, _NORMALIZED = b"ifdhsbrmtTFNSI[]", bytes.maketrans(b"SI", b"sN")


def message(address: str, arguments: Iterable[Argument], types: str | None = None) -> bytes:
    """Encode one OSC message; ``types`` are OSC type tags (i, f, s ...), by default those of the arguments.

    Raises:
        BuildError, OverflowError, UnicodeError: An argument cannot be encoded.
    """
    builder = OscMessageBuilder(address)
    for i, argument in enumerate(arguments):
        builder.add_arg(argument, types[i] if types else None)
    dgram: bytes = builder.build().dgram
    return dgram


def split(datagram: bytes, max_messages: int) -> Iterator[bytes]:
    """Yield the first ``max_messages`` messages of a datagram, ignoring the time tags of bundles.

    python-osc's own bundle parser loops forever at an element of negative size.

    Raises:
        ValueError: A malformed bundle.
    """
    parts = [(datagram, 0)]
    while parts and max_messages > 0:
        data, depth = parts.pop()
        if not data.startswith(_BUNDLE):
            yield data
            max_messages -= 1
            continue
        if depth >= _MAX_DEPTH:
            raise ValueError("bundles in bundles in bundles")
        elements: list[tuple[bytes, int]] = []
        offset = 16
        while offset < len(data) and len(elements) < max_messages:
            size = int.from_bytes(data[offset : offset + 4], "big")
            if not 0 < size <= len(data) - offset - 4:
                raise ValueError("an element longer than its bundle")
            elements.append((data[offset + 4 : offset + 4 + size], depth + 1))
            offset += 4 + size
        parts.extend(reversed(elements))


def read_message(data: bytes, max_arguments: int) -> OscMessage:
    """Read a message of at most ``max_arguments`` arguments; a symbol becomes a string, an impulse nil.

    Raises:
        ValueError: It is malformed, or has argument types that python-osc would only log and skip, and then
            misread the arguments after them.
    """
    tags_start = (data.find(b"\0") // 4 + 1) * 4
    tags = data[tags_start:].partition(b"\0")[0]
    if len(tags) - 1 > max_arguments or tags.lstrip(b",").translate(None, _TYPES):
        raise ValueError("more arguments than are read, or of unknown types")
    if not data.startswith(b"/"):
        raise ValueError("no address")
    try:
        return OscMessage(data[:tags_start] + tags.translate(_NORMALIZED) + data[tags_start + len(tags) :])
    except Exception as error:
        # python-osc raises several kinds of errors for bytes that are not OSC.
        raise ValueError(str(error)) from None


def read_messages(datagram: bytes, max_messages: int, max_arguments: int) -> list[OscMessage]:
    """The readable messages of a datagram, by :func:`split` and :func:`read_message`.

    Raises:
        ValueError: A malformed bundle, or no message that can be read.
    """
    messages, last_error = [], None
    for data in split(datagram, max_messages):
        try:
            messages.append(read_message(data, max_arguments))
        except ValueError as error:
            last_error = error
    if last_error is not None and not messages:
        raise last_error
    return messages
