"""What a client is answered: the tree of nodes, their values, and one attribute or all of them. Pure."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

from pythonosc.osc_message_builder import OscMessageBuilder

from realtime.osc import read_message, split

__all__ = ["EXTENSIONS", "Space"]

_ATTRIBUTES = (
    "FULL_PATH", "CONTENTS", "TYPE", "ACCESS", "DESCRIPTION", "RANGE", "UNIT", "VALUE", "OVERLOADS",
)  # fmt: skip
#: What of the proposal's optional parts is there.
EXTENSIONS = {
    name: name in _ATTRIBUTES or name in ("LISTEN", "PATH_ADDED", "PATH_REMOVED")
    for name in (
        "ACCESS", "VALUE", "RANGE", "DESCRIPTION", "CLIPMODE", "UNIT", "TAGS", "CRITICAL", "EXTENDED_TYPE",
        "OVERLOADS", "HTML", "ECHO", "LISTEN", "PATH_CHANGED", "PATH_RENAMED", "PATH_ADDED", "PATH_REMOVED",
    )
}  # fmt: skip
# The messages of a bundle and the arguments of one, at most: far more than a show sends.
_MOST = 4096


class Space:
    """Addresses, what is known of them, and what was sent last.

    ``host`` is what HOST_INFO says.
    """

    def __init__(self, host: Mapping[str, Any]) -> None:
        self.host = {**host, "EXTENSIONS": EXTENSIONS}
        self._nodes: dict[str, dict[str, Any]] = {}
        self._sent: dict[str, bytes] = {}

    @property
    def addresses(self) -> set[str]:
        """Those that a client sees."""
        return {a for a, node in self._nodes.items() if "OPTIONAL" not in node or a in self._sent}

    def describe(self, nodes: Mapping[str, dict[str, Any]]) -> list[tuple[str, bytes]]:
        """From now on there are these nodes; addresses and messages of values that have changed."""
        before, self._nodes = self._nodes, dict(nodes)
        return [
            (address, _message(address, node))
            for address, node in nodes.items()
            if "VALUE" in node and address in before and before[address].get("VALUE") != node["VALUE"]
        ]

    def hear(self, bundle: bytes) -> list[tuple[str, bytes]]:
        """Keep what was sent; its addresses and messages, which are read where somebody asks for them."""
        try:
            found = [(one.partition(b"\0")[0].decode(), one) for one in split(bundle, _MOST)]
        except ValueError:
            return []
        self._sent.update(found)
        return found

    def answer(self, target: str) -> tuple[HTTPStatus, bytes]:
        """What a request for a path, and perhaps one attribute of it, is answered."""
        try:
            parts = urlsplit(target)
            path, asked = unquote(parts.path), unquote(parts.query).partition("&")[0].partition("=")[0]
        except ValueError:
            return HTTPStatus.BAD_REQUEST, b""
        # Some clients take it for a path.
        if asked == "HOST_INFO" or path == "/HOST_INFO":
            return HTTPStatus.OK, _json(self.host)
        if asked and asked not in EXTENSIONS and asked not in _ATTRIBUTES:
            return HTTPStatus.BAD_REQUEST, b""
        node = self._node("/" + path.strip("/"))
        if node is None:
            return HTTPStatus.NOT_FOUND, b""
        if not asked:
            return HTTPStatus.OK, _json(node)
        if asked not in node:
            return HTTPStatus.NO_CONTENT, b""
        return HTTPStatus.OK, _json({asked: node[asked]})

    def _node(self, path: str) -> dict[str, Any] | None:
        """A node and all below it; None where there is nothing."""
        begin = path.rstrip("/") + "/"
        below = {a for a in self.addresses if a == path or a.startswith(begin)}
        if not below and path != "/":
            return None
        root = self._attributes(path)
        for address in sorted(below - {path}):
            at, here = root, path.rstrip("/")
            for name in address.removeprefix(begin).split("/"):
                here = f"{here}/{name}"
                at = at.setdefault("CONTENTS", {}).setdefault(name, self._attributes(here))
        return root

    def _attributes(self, address: str) -> dict[str, Any]:
        """A node by itself; where there is no method it is a container."""
        node: dict[str, Any] = {"FULL_PATH": address}
        known = self._nodes.get(address)
        if known is None:
            return {**node, "ACCESS": 0}
        node |= {name: value for name, value in known.items() if name in _ATTRIBUTES}
        # Any program of this machine can send to the port.
        with contextlib.suppress(KeyError, ValueError):
            values = read_message(self._sent[address], _MOST).params
            node["VALUE"] = [_plain(value) for value in values]
            if "REPEATS" in known:
                times = max(len(values) // len(known["TYPE"]), 1)
                node["TYPE"] = known["TYPE"] * times
        return node


def _message(address: str, node: Mapping[str, Any]) -> bytes:
    """What a node's value is as OSC."""
    builder = OscMessageBuilder(address)
    for kind, value in zip(node["TYPE"], node["VALUE"], strict=True):
        builder.add_arg(value, "FT"[value] if isinstance(value, bool) else kind)
    return builder.build().dgram


def _plain(value: Any) -> Any:
    """A value of OSC as JSON has it; None where it has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float) else None


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
