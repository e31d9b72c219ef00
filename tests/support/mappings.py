"""Manipulated mapping files."""

import json
import struct
from collections.abc import Callable
from typing import Any

from pyanticip.teach.mapping import FORMAT


def rebuilt(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A mapping file with a changed description, which its checksum (of the arrays) does not cover."""
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    tree = json.loads(header["__metadata__"][FORMAT])
    change(tree)
    header["__metadata__"][FORMAT] = json.dumps(tree)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size :]
