"""The process that serves the monitor's page: ``python -P -m realtime.monitor.server``.

Frames come over loopback (:mod:`realtime.monitor.feed`). Lines of JSON come through standard input: first the
options (not as arguments, because every user of the machine could read the token there), then the show's
health, once a second. When the input ends, however the show died, the process exits. Commands from the page
are sent to the show's remote control as OSC, and its replies go back to the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import sys
from collections import deque
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgpack
import numpy as np
from pythonosc.osc_message import OscMessage
from pythonosc.osc_message_builder import BuildError

from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS, RATE, SCALARS
from realtime.child import tell_parent
from realtime.control.folder import listing
from realtime.loop import Datagrams, child_main, input_lines, refuse_malformed
from realtime.monitor.ghost import STRIDE, Ghost
from realtime.monitor.suit import Suit
from realtime.osc import message
from realtime.sockets import bind_udp, host_of, is_loopback, listen_error, tcp_server_host

# Most bytes of a page's message.
_MAX_MESSAGE = 1 << 14
# Bytes that a browser may leave unread before frames to it are skipped.
_MAX_UNREAD = 1 << 17
# Time for the pages' closing handshakes at the end.
_CLOSE_TIMEOUT_S = 0.2
# Past frames that a new page receives.
_MAX_PAST = 200
_CONTENT_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_SHAPES = {"pose": (-1, 4), "root": (3,), "forecast": (-1, len(HORIZONS_MS))}
# Indices of the ghosts 200 and 400 ms ahead.
_GHOSTS = [round(ms / 1000.0 * RATE / STRIDE) - 1 for ms in (200, 400)]
_REPLY = "/anticip/reply/"
# Where to send on this machine to a socket that is bound to every interface.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Page:
    """The page's files, and access to them.

    Without a token it is for this machine only: requests must be addressed to a loopback host name, and a
    page that opens the websocket must be ours, so that neither pages of other sites nor DNS names rebound to
    this machine have access. With a token, requests must contain it.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._token: str = options["token"]
        self._local = not self._token
        self._files = {
            f"/{file.name}": (file.read_bytes(), _CONTENT_TYPES[file.name.rpartition(".")[2]])
            for file in resources.files("realtime.monitor").joinpath("page").iterdir()
            if file.name.rpartition(".")[2] in _CONTENT_TYPES
        }
        self._files["/"] = self._files["/index.html"]

    def refusal(self, target: str, headers: Any) -> str | None:
        """Why a request for the page or a websocket is refused; None if it is allowed."""
        host = headers.get("Host", "")
        if self._local and not is_loopback(host_of(host)):
            return "this monitor is for the machine it runs on"
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "pages of other sites have no access"
        if self._token:
            token = parse_qs(urlsplit(target).query).get("token", [""])[-1]
            if not hmac.compare_digest(token.encode(errors="replace"), self._token.encode()):
                return "open the address, with its token, that `pyanticip live` has printed"
        return None

    def answer(self, connection: Any, request: Any) -> Any:
        """Answer a plain HTTP request; returns None for an allowed websocket request."""
        path = urlsplit(request.path).path
        is_http = "websocket" not in request.headers.get("Upgrade", "").lower()
        # Scripts and styles hold no data, and the page requests them without the token.
        is_public = is_http and path in self._files and path not in ("/", "/index.html")
        if (refusal := None if is_public else self.refusal(request.path, request.headers)) is not None:
            return connection.respond(403, refusal + "\n")
        if not is_http:
            return None if path == "/live" else connection.respond(404, "no such page\n")
        if path not in self._files:
            return connection.respond(404, "no such page\n")
        body, content_type = self._files[path]
        response = connection.respond(200, "")
        response.body = body
        del response.headers["Content-Type"], response.headers["Content-Length"]
        response.headers["Content-Type"] = f"{content_type}; charset=utf-8"
        response.headers["Content-Length"] = str(len(body))
        response.headers["Cache-Control"] = "no-store"
        response.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self';"
            " frame-ancestors 'none'"
        )
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response


class Remote(asyncio.DatagramProtocol):
    """Client of the show's remote control. ``address`` is where that listens; None: it is off."""

    def __init__(self, address: tuple[str, int] | None, on_reply: Any) -> None:
        #: Where to send commands.
        self.address = address and (_LOOPBACK.get(address[0], address[0]), address[1])
        self._on_reply = on_reply
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Called by asyncio when the socket is ready."""
        self._transport = transport

    def send_command(self, command: dict[str, Any]) -> str | None:
        """Send a page's command, ``{"do": name, "with": arguments}``; returns an error, or None if sent."""
        name, arguments = command.get("do"), command.get("with", [])
        if self.address is None:
            return "the remote control is off"
        if not isinstance(name, str) or not name.isascii() or not 0 < len(name) <= 100:
            return "no such command"
        if not isinstance(arguments, list) or len(arguments) > 128:
            return f"{name}: invalid arguments"
        if not all(isinstance(argument, (str, bool, int, float)) for argument in arguments):
            return f"{name}: invalid arguments"
        # A NUL ends an OSC string: the rest of the text would be read as something else.
        if any("\0" in text for text in (name, *arguments) if isinstance(text, str)):
            return "text with a NUL character cannot be sent"

        def without_integer(argument: Any) -> Any:
            if isinstance(argument, bool) or not isinstance(argument, int):
                return argument
            # JavaScript does not distinguish integers; only constants of an address may be integers.
            return argument if name.startswith("rig/") and abs(argument) < 1 << 31 else float(argument)

        # Raises for numbers beyond 32 bits and lone surrogates.
        try:
            dgram = message("/anticip/control/" + name, map(without_integer, arguments))
        except (BuildError, OverflowError, UnicodeError):
            return f"{name}: these arguments cannot be sent as OSC"
        self._transport.sendto(dgram)
        return None

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Called by asyncio with a reply of the remote control."""
        with contextlib.suppress(Exception):
            reply = OscMessage(data)
            if reply.address.startswith(_REPLY):
                verdict, text = (*reply.params, "", "")[:2]
                name = reply.address.removeprefix(_REPLY)
                self._on_reply({"reply": name, "ok": verdict == "ok", "text": str(text)})


class Server:
    """The connected pages, and the state that they show."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.page = Page(options)
        self._folder = Path(options["folder"])
        self._suit = Suit(options["kind"])
        self._ghost = Ghost()
        self._parents: list[int] | None = None
        self.remote: Remote | None = None
        self._clients: set[Any] = set()
        self._past: deque[dict[str, Any]] = deque(maxlen=_MAX_PAST)
        # The newest message of each kind that a new page receives.
        self._latest: dict[str, str] = {"hello": _json(_hello(options))}

    async def serve_page(self, client: Any) -> None:
        """Serve one page's websocket until it closes."""
        from websockets.exceptions import ConnectionClosed

        try:
            await client.send(self._latest["hello"])
            # From here on the page receives broadcasts too.
            self._clients.add(client)
            for kind in [*self._latest][1:]:
                await client.send(self._latest[kind])
            await client.send(_json({"past": list(self._past)}))
            async for text in client:
                problem: str | None = "not a command"
                with contextlib.suppress(ValueError, RecursionError):
                    command = json.loads(text)
                    if command == {"ask": "alive"}:
                        await client.send(_json({"alive": True}))
                        continue
                    if command == {"ask": "files"}:
                        await client.send(_json({"files": await asyncio.to_thread(listing, self._folder)}))
                        continue
                    if isinstance(command, dict) and self.remote is not None:
                        problem = self.remote.send_command(command)
                if problem is not None:
                    await client.send(_json({"reply": "", "ok": False, "text": problem}))
        except ConnectionClosed:
            pass
        finally:
            self._clients.discard(client)

    def broadcast(self, message: dict[str, Any], kind: str | None = None) -> None:
        """Send a message to every page that keeps up; with a ``kind``, also to pages that connect later."""
        text = _json(message)
        if kind is not None:
            self._latest[kind] = text
        from websockets.asyncio.server import broadcast

        broadcast([c for c in self._clients if c.transport.get_write_buffer_size() < _MAX_UNREAD], text)

    def on_datagram(self, datagram: bytes) -> None:
        """Take a frame or a status of the show."""
        try:
            frame = msgpack.unpackb(datagram)
            if "status" in frame:
                self.broadcast({"status": frame["status"]}, "status")
                return
            for name, shape in _SHAPES.items():
                values = np.frombuffer(frame[name], np.float32)
                frame[name] = values.reshape(shape).astype(float).round(4).tolist() if values.size else None
            for name in ("scalars", "params"):
                frame[name] = [round(value, 4) for value in frame[name]]
            self._suit.decode(frame.pop("heard"))
        except Exception:
            # A datagram of another program.
            return
        self._past.append({name: frame[name] for name in ("seq", "scalars", "params", "extras")})
        if self._clients:
            self._add_bodies(frame)
            self.broadcast({"frame": frame})

    def _add_bodies(self, frame: dict[str, Any]) -> None:
        """Replace the pose by joint positions: ``places``, their forecast ``ghosts`` and the ``suit``'s."""
        pose, root = frame.pop("pose"), frame.pop("root")
        frame["places"] = None
        if pose is not None and root is not None:
            ghosts = self._ghost.forecast(frame["seq"], pose, root, _GHOSTS)
            frame["places"] = self._ghost.joint_positions.astype(float).round(3).tolist()
            frame["ghosts"] = ghosts.astype(float).round(3).tolist()
        body = self._suit.body if frame["places"] else None
        frame["suit"] = None if body is None else body["places"]
        if body is not None and body["parents"] != self._parents:
            self._parents = body["parents"]
            self.broadcast({"suit": self._parents}, "suit")


def _hello(options: dict[str, Any]) -> dict[str, Any]:
    """The first message to a page: what it needs to draw and to send commands, and the other performers'
    ports."""
    body = canonical_skeleton()
    return {
        "hello": {
            "joints": list(body.names),
            "parents": body.parents.tolist(),
            "scalars": list(SCALARS),
            "params": list(PARAMETERS),
            "horizons_ms": list(HORIZONS_MS),
            "everybody": options["everybody"],
            "obeys": options["obeys"] is not None,
            "takes": options["takes"],
        }
    }


def _json(message: dict[str, Any]) -> str:
    """Strict JSON: NaN and infinity become null."""
    try:
        return json.dumps(message, allow_nan=False, separators=(",", ":"))
    except ValueError:
        strict = json.loads(json.dumps(message), parse_constant=lambda _: None)
        return json.dumps(strict, separators=(",", ":"))


async def serve() -> None:
    """Serve until standard input ends. Raises a DeviceError if the port cannot be bound."""
    from websockets.asyncio.server import serve as serve_websockets

    lines = input_lines()
    options: dict[str, Any] = json.loads(await anext(lines))
    server = Server(options)
    loop = asyncio.get_running_loop()
    feed = bind_udp("127.0.0.1", options["feed"], "monitor")
    await loop.create_datagram_endpoint(lambda: Datagrams(server.on_datagram), sock=feed)
    control = None if options["obeys"] is None else (options["obeys"][0], options["obeys"][1])
    server.remote = remote = Remote(control, server.broadcast)
    if remote.address is not None:
        await loop.create_datagram_endpoint(lambda: remote, remote_addr=remote.address)
    try:
        websocket_server = await serve_websockets(
            server.serve_page,
            tcp_server_host(options["host"]),
            options["port"],
            process_request=refuse_malformed(server.page.answer),
            max_size=_MAX_MESSAGE,
        )
    except OSError as error:
        raise listen_error(options["host"], options["port"], "monitor", error) from None
    tell_parent("ready")
    async for line in lines:
        with contextlib.suppress(ValueError):
            for kind, content in json.loads(line).items():
                server.broadcast({kind: content}, kind)
    # The close code 1001 tells the pages that the show has ended, as opposed to a lost connection.
    websocket_server.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(websocket_server.wait_closed(), _CLOSE_TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(child_main(serve(), 10))
