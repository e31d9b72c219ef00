"""The OSCQuery address space: the tree of nodes with their values, and the answers to requests. Pure."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

from realtime.osc import message, read_message, split

_ATTRIBUTES = (
    "FULL_PATH", "CONTENTS", "TYPE", "ACCESS", "DESCRIPTION", "RANGE", "UNIT", "VALUE", "OVERLOADS",
)  # fmt: skip
#: The optional parts of the proposal, and whether they are supported.
EXTENSIONS = {
    name: name in _ATTRIBUTES or name in ("LISTEN", "PATH_ADDED", "PATH_REMOVED")
    for name in (
        "ACCESS", "VALUE", "RANGE", "DESCRIPTION", "CLIPMODE", "UNIT", "TAGS", "CRITICAL", "EXTENDED_TYPE",
        "OVERLOADS", "HTML", "ECHO", "LISTEN", "PATH_CHANGED", "PATH_RENAMED", "PATH_ADDED", "PATH_REMOVED",
    )
}  # fmt: skip
# Most messages in a bundle and arguments in a message: far more than a show sends.
_MAX_ELEMENTS = 4096


class Space:
    """The nodes by address, and the last message sent to each.

    ``host`` is the answer to HOST_INFO.
    """

    def __init__(self, host: Mapping[str, Any]) -> None:
        self.host = {**host, "EXTENSIONS": EXTENSIONS}
        self._nodes: dict[str, dict[str, Any]] = {}
        self._sent: dict[str, bytes] = {}

    @property
    def addresses(self) -> set[str]:
        """The addresses that clients see."""
        return {a for a, node in self._nodes.items() if "OPTIONAL" not in node or a in self._sent}

    def describe(self, nodes: Mapping[str, dict[str, Any]]) -> list[tuple[str, bytes]]:
        """Replace the nodes; returns the addresses of changed values, with their OSC messages."""
        before, self._nodes = self._nodes, dict(nodes)
        return [
            (address, _encode_value(address, node))
            for address, node in nodes.items()
            if "VALUE" in node and address in before and before[address].get("VALUE") != node["VALUE"]
        ]

    def store(self, bundle: bytes) -> list[tuple[str, bytes]]:
        """Store the messages of a bundle, to be decoded on request; returns them with their addresses."""
        try:
            messages = [(data.partition(b"\0")[0].decode(), data) for data in split(bundle, _MAX_ELEMENTS)]
        except ValueError:
            return []
        self._sent.update(messages)
        return messages

    def answer(self, target: str) -> tuple[HTTPStatus, bytes]:
        """Status and body for a request target: a path, optionally with an attribute as query."""
        try:
            parts = urlsplit(target)
            path, attribute = unquote(parts.path), unquote(parts.query).partition("&")[0].partition("=")[0]
        except ValueError:
            return HTTPStatus.BAD_REQUEST, b""
        # Some clients request HOST_INFO as a path.
        if attribute == "HOST_INFO" or path == "/HOST_INFO":
            return HTTPStatus.OK, _json(self.host)
        if attribute and attribute not in EXTENSIONS and attribute not in _ATTRIBUTES:
            return HTTPStatus.BAD_REQUEST, b""
        node = self._node("/" + path.strip("/"))
        if node is None:
            return HTTPStatus.NOT_FOUND, b""
        if not attribute:
            return HTTPStatus.OK, _json(node)
        if attribute not in node:
            return HTTPStatus.NO_CONTENT, b""
        return HTTPStatus.OK, _json({attribute: node[attribute]})

    def _node(self, path: str) -> dict[str, Any] | None:
        """A node with its descendants; None if there is no node."""
        prefix = path.rstrip("/") + "/"
        below = {a for a in self.addresses if a == path or a.startswith(prefix)}
        if not below and path != "/":
            return None
        root = self._attributes(path)
        for address in sorted(below - {path}):
            node, node_path = root, path.rstrip("/")
            for name in address.removeprefix(prefix).split("/"):
                node_path = f"{node_path}/{name}"
                node = node.setdefault("CONTENTS", {}).setdefault(name, self._attributes(node_path))
        return root

    def _attributes(self, address: str) -> dict[str, Any]:
        """A node without its descendants; an address without a method is a container."""
        node: dict[str, Any] = {"FULL_PATH": address}
        description = self._nodes.get(address)
        if description is None:
            return {**node, "ACCESS": 0}
        node |= {name: value for name, value in description.items() if name in _ATTRIBUTES}
        # ValueError: any program on this machine can send to the port.
        with contextlib.suppress(KeyError, ValueError):
            values = read_message(self._sent[address], _MAX_ELEMENTS).params
            node["VALUE"] = [_json_value(value) for value in values]
            if "REPEATS" in description:
                times = max(len(values) // len(description["TYPE"]), 1)
                node["TYPE"] = description["TYPE"] * times
        return node


def _encode_value(address: str, node: Mapping[str, Any]) -> bytes:
    """A node's value as an OSC message."""
    values = node["VALUE"]
    types = ["FT"[v] if isinstance(v, bool) else t for t, v in zip(node["TYPE"], values, strict=True)]
    return message(address, values, "".join(types))


def _json_value(value: Any) -> Any:
    """An OSC value as JSON; None if JSON has no equivalent."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float) else None


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
