"""Captures of another project's encoder (data/live): text, `d SECONDS BYTES` and hex for each datagram."""

import re
from pathlib import Path

HEX = re.compile(r"^ {2}((?:[0-9a-f]{2} ){0,15}[0-9a-f]{2}) ")


def packets(path: Path) -> list[tuple[int, bytes]]:
    """(arrival in ns, datagram) pairs in order."""
    found: list[tuple[int, bytearray, int]] = []
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("d "):
            _, seconds, size = line.split()
            found.append((round(float(seconds) * 1e9), bytearray(), int(size)))
        elif row := HEX.match(f"{line} "):
            found[-1][1].extend(bytes.fromhex(row[1]))
    assert all(len(data) == size for _, data, size in found), path.name
    return [(t_ns, bytes(data)) for t_ns, data, _ in found]
