"""The process that answers OSCQuery clients: ``python -P -m realtime.oscquery.server OPTIONS``, as JSON.

It is one more OSC target: bundles come over loopback, and descriptions of all nodes through standard input, a
line of JSON each. When that ends, by whatever death of the show, so does the process. What the show should
know goes to standard output, a line each: ``ready``, ``error TEXT``, ``note TEXT``.
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

from pyanticip.errors import DeviceError, reason
from realtime.child import tell_parent
from realtime.loop import Datagrams, child_main, input_lines
from realtime.oscquery.space import Space
from realtime.sockets import bind_udp, host_of, is_loopback, resolve, served_at

__all__ = ["serve"]

# A description is a line of some tens of kilobytes; what a client says is short; one that does not read is
# not sent more than this.
_SAID, _UNREAD = 1 << 14, 1 << 18
# So many addresses that are not there yet a client may wait for, and what they look like.
_WISHES, _ADDRESS = 1024, re.compile(r"(?=.{2,255}$)(/[^\s#*,/?\[\]{}]+)+")


class Server:
    """Answers over HTTP, and streams over websockets what a client listens to.

    A ``local`` one answers only what was asked for by a name of this machine's own: neither a page of another
    site nor a name that was made to point here reads the show.
    """

    def __init__(self, space: Space, *, local: bool) -> None:
        self._space, self._local = space, local
        # The addresses that each client listens to.
        self._listening: dict[Any, set[str]] = {}

    def process(self, connection: Any, request: Any) -> Any:
        """Answer a request that is no websocket's."""
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
        return Response(status.value, status.phrase, headers, body)

    async def listen(self, client: Any) -> None:
        """One websocket: LISTEN and IGNORE an address."""
        from websockets.exceptions import ConnectionClosed

        wanted = self._listening[client] = set[str]()
        try:
            async for said in client:
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    told = json.loads(said)
                    command, address = told["COMMAND"], str(told["DATA"])
                    if command == "LISTEN" and self._may_come(address, wanted):
                        wanted.add(address)
                    elif command == "IGNORE":
                        wanted.discard(address)
        except ConnectionClosed:
            pass
        finally:
            del self._listening[client]

    def _may_come(self, address: str, wanted: set[str]) -> bool:
        """Whether an address is there, or may be later: with the first frame, a mapping, a cue."""
        known = self._space.addresses
        return address in known or (len(wanted - known) < _WISHES and _ADDRESS.fullmatch(address) is not None)

    def hear(self, bundle: bytes) -> None:
        """A bundle of the show: keep it, and send on what is listened to."""
        before = self._space.addresses
        self._stream(self._space.hear(bundle))
        self._tell(before)

    def describe(self, line: bytes) -> None:
        """Other nodes: who is connected is told which have come and gone, and what has another value."""
        before = self._space.addresses
        self._stream(self._space.describe(json.loads(line)))
        self._tell(before)

    def _stream(self, messages: Iterable[tuple[str, bytes]]) -> None:
        for address, message in messages:
            self._send([c for c, wanted in self._listening.items() if address in wanted], message)

    def _tell(self, before: set[str]) -> None:
        now = self._space.addresses
        for command, changed in (("PATH_ADDED", now - before), ("PATH_REMOVED", before - now)):
            for address in sorted(changed):
                self._send(list(self._listening), json.dumps({"COMMAND": command, "DATA": address}))

    @staticmethod
    def _send(clients: list[Any], message: bytes | str) -> None:
        from websockets.asyncio.server import broadcast

        broadcast([c for c in clients if c.transport.get_write_buffer_size() < _UNREAD], message)


async def announced(options: dict[str, Any]) -> tuple[Any, str]:
    """Tell of the services by mDNS, on loopback alone where nobody else could reach them; and by what name,
    which is another where somebody has it already."""
    import ifaddr
    from zeroconf import IPVersion
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    host = resolve(options["host"], options["port"], "OSCQuery", socket.SOCK_STREAM)[4][0]
    mine = [str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
    addresses = [ip for ip in mine if not ip.startswith("127.")] if host in ("0.0.0.0", "::") else [host]
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
    """Answer until standard input ends. Raises a DeviceError where the ports are not to be had."""
    from websockets.asyncio.server import serve as serve_websockets

    host: dict[str, Any] = {"NAME": options["name"]}
    if options["osc_port"]:
        host |= {"OSC_PORT": options["osc_port"], "OSC_TRANSPORT": "UDP"}
        if options["osc_ip"] not in ("0.0.0.0", "::"):
            host["OSC_IP"] = options["osc_ip"]
    space = Space(host)
    server = Server(space, local=is_loopback(options["host"]))
    loop = asyncio.get_running_loop()
    ear = bind_udp("127.0.0.1", options["ear"], "OSCQuery")
    await loop.create_datagram_endpoint(lambda: Datagrams(server.hear), sock=ear)
    lines = input_lines()
    try:
        # A page in a browser says where it comes from, and has no business here.
        answering = await serve_websockets(
            server.listen,
            served_at(options["host"]),
            options["port"],
            process_request=server.process,
            origins=[None],
            max_size=_SAID,
        )
    except OSError as error:
        where = f"{options['host']}:{options['port']}"
        raise DeviceError(f"OSCQuery: cannot listen at {where} ({reason(error)})") from None
    server.describe(await anext(lines))
    tell_parent("ready")
    zeroconf = None
    try:
        zeroconf, space.host["NAME"] = await announced(options)
    except Exception as error:
        tell_parent(f"note OSCQuery is not announced by mDNS: {type(error).__name__}: {error}")
    async for line in lines:
        server.describe(line)
    if zeroconf is not None:
        await zeroconf.async_close()
    answering.close()


if __name__ == "__main__":
    sys.exit(child_main(serve(json.loads(sys.argv[1])), 5))
