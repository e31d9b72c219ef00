"""The OSCQuery server process: ``python -P -m realtime.oscquery.server OPTIONS``, with the options as JSON.

It is an OSC target of the show: bundles come over loopback. Descriptions of all nodes come through standard
input, one line of JSON each; when that ends, however the show died, the process exits. Lines on standard
output: ``ready``, ``error TEXT``, ``note TEXT``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import sys
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from realtime.child import tell_parent
from realtime.loop import Datagrams, child_main, input_lines, refuse_malformed
from realtime.oscquery.space import Space
from realtime.sockets import bind_udp, host_of, is_loopback, listen_error, resolve, tcp_server_host

# Most bytes of a client's message.
_MAX_MESSAGE = 1 << 14
# Bytes that a client may leave unread before messages to it are skipped.
_MAX_UNREAD = 1 << 18
# Most addresses that do not exist yet that a client may listen to.
_MAX_FUTURE_ADDRESSES = 1024
_ADDRESS = re.compile(r"(?=.{2,255}$)(/[^\s#*,/?\[\]{}]+)+")


class Server:
    """Answers HTTP requests, and streams the addresses that a client listens to over websockets.

    With ``local`` it only answers requests addressed to a loopback host name, so that neither pages of other
    sites nor DNS names rebound to this machine can read the show.
    """

    def __init__(self, space: Space, *, local: bool) -> None:
        self._space, self._local = space, local
        # The addresses that each client listens to.
        self._listening: dict[Any, set[str]] = {}

    def process(self, connection: Any, request: Any) -> Any:
        """Answer a plain HTTP request; returns None for a websocket request."""
        from websockets.datastructures import Headers
        from websockets.http11 import Response

        if self._local and not is_loopback(host_of(request.headers.get("Host", "localhost"))):
            return connection.respond(HTTPStatus.FORBIDDEN, "OSCQuery is for the machine it runs on\n")
        if "websocket" in request.headers.get("Upgrade", "").lower():
            return None
        status, body = self._space.answer(request.path)
        headers = Headers({"Content-Type": "application/json; charset=utf-8", "Connection": "close"})
        if status != HTTPStatus.NO_CONTENT:
            headers["Content-Length"] = str(len(body))
        # websockets before 17 refuses other methods than GET, and has no name for them.
        if getattr(request, "method", "GET") == "HEAD":
            body = b""
        return Response(status.value, status.phrase, headers, body)

    async def listen(self, client: Any) -> None:
        """Serve one websocket: the commands LISTEN and IGNORE."""
        from websockets.exceptions import ConnectionClosed

        addresses = self._listening[client] = set[str]()
        try:
            async for message in client:
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    request = json.loads(message)
                    command, address = request["COMMAND"], str(request["DATA"])
                    if command == "LISTEN" and self._may_listen(address, addresses):
                        addresses.add(address)
                    elif command == "IGNORE":
                        addresses.discard(address)
        except ConnectionClosed:
            pass
        finally:
            del self._listening[client]

    def _may_listen(self, address: str, addresses: set[str]) -> bool:
        """Whether an address exists, or may exist later: with the first frame, a mapping, a cue."""
        existing = self._space.addresses
        if address in existing:
            return True
        return len(addresses - existing) < _MAX_FUTURE_ADDRESSES and _ADDRESS.fullmatch(address) is not None

    def on_bundle(self, bundle: bytes) -> None:
        """Store a bundle of the show, and stream its messages to the clients that listen to them."""
        before = self._space.addresses
        self._stream(self._space.store(bundle))
        self._announce_changes(before)

    def describe(self, line: bytes) -> None:
        """Replace the nodes; streams changed values, and announces new and removed addresses."""
        before = self._space.addresses
        self._stream(self._space.describe(json.loads(line)))
        self._announce_changes(before)

    def _stream(self, messages: Iterable[tuple[str, bytes]]) -> None:
        for address, message in messages:
            self._send([c for c, addresses in self._listening.items() if address in addresses], message)

    def _announce_changes(self, before: set[str]) -> None:
        now = self._space.addresses
        for command, changed in (("PATH_ADDED", now - before), ("PATH_REMOVED", before - now)):
            for address in sorted(changed):
                self._send(list(self._listening), json.dumps({"COMMAND": command, "DATA": address}))

    @staticmethod
    def _send(clients: list[Any], message: bytes | str) -> None:
        from websockets.asyncio.server import broadcast

        broadcast([c for c in clients if c.transport.get_write_buffer_size() < _MAX_UNREAD], message)


async def announce(options: dict[str, Any]) -> tuple[Any, str]:
    """Announce the services by mDNS, on loopback only if others cannot reach them.

    Returns the AsyncZeroconf instance, and the announced name, which differs from the requested one if that
    is taken.
    """
    import ifaddr
    from zeroconf import IPVersion
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    host = resolve(options["host"], options["port"], "OSCQuery", socket.SOCK_STREAM)[4][0]
    ips = [str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
    addresses = [ip for ip in ips if not ip.startswith("127.")] if host in ("0.0.0.0", "::") else [host]
    version = IPVersion.V6Only if any(":" in ip for ip in addresses) else IPVersion.V4Only
    zeroconf = AsyncZeroconf(interfaces=addresses, ip_version=version)
    services = [("_oscjson._tcp", options["port"])]
    if options["osc_port"]:
        services.append(("_osc._udp", options["osc_port"]))
    name = options["name"]
    for kind, port in services:
        info = AsyncServiceInfo(
            f"{kind}.local.",
            f"{name}.{kind}.local.",
            port=port,
            parsed_addresses=addresses,
            server=f"{socket.gethostname().partition('.')[0]}.local.",
        )
        await zeroconf.async_register_service(info, allow_name_change=True)
        if kind == "_oscjson._tcp":
            name = info.name.removesuffix(f".{kind}.local.")
    return zeroconf, name


async def serve(options: dict[str, Any]) -> None:
    """Serve until standard input ends. Raises a DeviceError if a port cannot be bound."""
    from websockets.asyncio.server import serve as serve_websockets

    host: dict[str, Any] = {"NAME": options["name"]}
    if options["osc_port"]:
        host |= {"OSC_PORT": options["osc_port"], "OSC_TRANSPORT": "UDP"}
        if options["osc_ip"] not in ("0.0.0.0", "::"):
            host["OSC_IP"] = options["osc_ip"]
    space = Space(host)
    server = Server(space, local=is_loopback(options["host"]))
    loop = asyncio.get_running_loop()
    bundle_socket = bind_udp("127.0.0.1", options["bundle_port"], "OSCQuery")
    await loop.create_datagram_endpoint(lambda: Datagrams(server.on_bundle), sock=bundle_socket)
    lines = input_lines()
    try:
        # Only clients without an Origin header: web pages, which browsers mark with one, are refused.
        websocket_server = await serve_websockets(
            server.listen,
            tcp_server_host(options["host"]),
            options["port"],
            process_request=refuse_malformed(server.process),
            origins=[None],
            max_size=_MAX_MESSAGE,
        )
    except OSError as error:
        raise listen_error(options["host"], options["port"], "OSCQuery", error) from None
    server.describe(await anext(lines))
    tell_parent("ready")
    zeroconf = None
    try:
        zeroconf, space.host["NAME"] = await announce(options)
    except Exception as error:
        tell_parent(f"note OSCQuery is not announced by mDNS: {type(error).__name__}: {error}")
    async for line in lines:
        server.describe(line)
    if zeroconf is not None:
        await zeroconf.async_close()
    websocket_server.close()


if __name__ == "__main__":
    sys.exit(child_main(serve(json.loads(sys.argv[1])), 5))
