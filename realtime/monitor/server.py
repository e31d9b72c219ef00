"""The process that has the monitor's page: ``python -P -m realtime.monitor.server``.

Frames come over loopback (:mod:`realtime.monitor.feed`). Through standard input come lines of JSON: first the
options, for arguments can be read by every user of the machine and the token must not, then how things stand,
one a second; when it ends, by whatever death of the show, so does the process. What somebody does at the
page goes to the show's remote control like anybody's OSC, and its answers come back to the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import sys
from collections import deque
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgpack
import numpy as np
from pythonosc.osc_message import OscMessage
from pythonosc.osc_message_builder import BuildError, OscMessageBuilder

from pyanticip.errors import DeviceError, reason
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS, RATE, SCALARS
from realtime.child import tell_parent
from realtime.control.folder import listing
from realtime.loop import Datagrams, child_main, input_lines
from realtime.monitor.ghost import STRIDE, Ghost
from realtime.monitor.suit import Suit
from realtime.sockets import bind_udp, host_of, is_loopback, served_at

__all__ = ["serve"]

# msgpack has no types.
_unpackb: Callable[..., Any] = msgpack.unpackb  # type: ignore[attr-defined]
_SAID = 1 << 14
# A browser that does not keep up is not sent what it has not read: it misses frames, and nobody waits.
_UNREAD = 1 << 17
# Seconds in which pages may say goodbye.
_PARTING = 0.2
# Frames that a newcomer sees at once.
_PAST = 200
_KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_SHAPES = {"pose": (-1, 4), "root": (3,), "forecast": (-1, len(HORIZONS_MS))}
_GHOSTS = [round(ms / 1000.0 * RATE / STRIDE) - 1 for ms in (200, 400)]
_REPLY = "/anticip/reply/"
# From this machine, what is bound to every interface is here.
_NEAR = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Page:
    """The files, and who may have them.

    On this machine alone, only what was asked for by one of its own names is answered, and only a page of
    ours may speak (neither another site's page nor a name that was made to point here); beyond it, whoever
    knows the token.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._token: str = options["token"]
        self._local = not self._token
        self._files = {
            f"/{file.name}": (file.read_bytes(), _KINDS[file.name.rpartition(".")[2]])
            for file in resources.files("realtime.monitor").joinpath("page").iterdir()
            if file.name.rpartition(".")[2] in _KINDS
        }
        self._files["/"] = self._files["/index.html"]

    def refuses(self, target: str, headers: Any) -> str | None:
        """Why this request for a page or a websocket is not answered."""
        host = headers.get("Host", "")
        if self._local and not is_loopback(host_of(host)):
            return "this monitor is for the machine it runs on"
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "a page of another site may not"
        if self._token:
            given = parse_qs(urlsplit(target).query).get("token", [""])[-1]
            if not hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
                return "open the address, with its token, that `pyanticip live` has printed"
        return None

    def answer(self, connection: Any, request: Any) -> Any:
        """Answer what is no websocket's; let that pass."""
        path = urlsplit(request.path).path
        asks_for_files = "websocket" not in request.headers.get("Upgrade", "").lower()
        # Scripts and styles hold nothing; the page that loads them does not repeat the token.
        free = asks_for_files and path in self._files and path not in ("/", "/index.html")
        if (why := None if free else self.refuses(request.path, request.headers)) is not None:
            return connection.respond(403, why + "\n")
        if not asks_for_files:
            return None if path == "/live" else connection.respond(404, "no such page\n")
        if path not in self._files:
            return connection.respond(404, "no such page\n")
        body, kind = self._files[path]
        response = connection.respond(200, "")
        response.body = body
        del response.headers["Content-Type"], response.headers["Content-Length"]
        response.headers["Content-Type"] = f"{kind}; charset=utf-8"
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
    """Speaks to the show's remote control and hears its answers."""

    def __init__(self, obeys: tuple[str, int] | None, heard: Any) -> None:
        #: Where it is, from here; what others send to the socket is not heard.
        self.obeys = obeys and (_NEAR.get(obeys[0], obeys[0]), obeys[1])
        self._on_reply = heard
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """The socket is there."""
        self._transport = transport

    def say(self, told: dict[str, Any]) -> str | None:
        """Send one command; why not, where it makes no sense."""
        name, arguments = told.get("do"), told.get("with", [])
        if self.obeys is None:
            return "the remote control is off"
        if not isinstance(name, str) or not name.isascii() or not 0 < len(name) <= 100:
            return "no such command"
        if not isinstance(arguments, list) or len(arguments) > 128:
            return f"{name}: what it is told makes no sense"
        if not all(isinstance(argument, (str, bool, int, float)) for argument in arguments):
            return f"{name}: what it is told makes no sense"
        # In OSC a NUL ends a text: what stands behind it would be taken for something else.
        if any("\0" in text for text in (name, *arguments) if isinstance(text, str)):
            return "what has a NUL in it cannot be sent"
        builder = OscMessageBuilder("/anticip/control/" + name)
        # Numbers beyond 32 bits and half of a character cannot be sent.
        try:
            for argument in arguments:
                if isinstance(argument, int) and not isinstance(argument, bool):
                    # JavaScript has one kind of number. What an address has before its value may be whole.
                    whole = name.startswith("rig/") and abs(argument) < 1 << 31
                    argument = argument if whole else float(argument)
                builder.add_arg(argument)
            dgram = builder.build().dgram
        except (BuildError, OverflowError, UnicodeError):
            return f"{name}: what it is told cannot be sent"
        self._transport.sendto(dgram)
        return None

    def datagram_received(self, data: bytes, addr: object) -> None:
        """An answer."""
        with contextlib.suppress(Exception):
            message = OscMessage(data)
            if message.address.startswith(_REPLY):
                verdict, text = (*message.params, "", "")[:2]
                name = message.address.removeprefix(_REPLY)
                self._on_reply({"reply": name, "ok": verdict == "ok", "text": str(text)})


class Server:
    """Everybody who looks, and what they are shown."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.page = Page(options)
        self._folder = Path(options["folder"])
        self._suit = Suit(options["kind"])
        self._ghost = Ghost()
        self._parents: list[int] | None = None
        self.remote: Remote | None = None
        self._clients: set[Any] = set()
        self._past: deque[dict[str, Any]] = deque(maxlen=_PAST)
        # What newcomers have to know, by kind, in its newest form.
        self._known: dict[str, str] = {"hello": _json(_hello(options))}

    async def look(self, client: Any) -> None:
        """One browser."""
        from websockets.exceptions import ConnectionClosed

        try:
            await client.send(self._known["hello"])
            # From here on it hears of changes, and of the rest as each is by then.
            self._clients.add(client)
            for kind in [*self._known][1:]:
                await client.send(self._known[kind])
            await client.send(_json({"past": list(self._past)}))
            async for said in client:
                problem: str | None = "what was said makes no sense"
                with contextlib.suppress(ValueError, RecursionError):
                    told = json.loads(said)
                    if told == {"ask": "files"}:
                        await client.send(_json({"files": await asyncio.to_thread(listing, self._folder)}))
                        continue
                    if isinstance(told, dict) and self.remote is not None:
                        problem = self.remote.say(told)
                if problem is not None:
                    await client.send(_json({"reply": "", "ok": False, "text": problem}))
        except ConnectionClosed:
            pass
        finally:
            self._clients.discard(client)

    def tell(self, what: dict[str, Any], known_as: str | None = None) -> None:
        """Tell everybody who keeps up, and newcomers where it is known as something."""
        text = _json(what)
        if known_as is not None:
            self._known[known_as] = text
        from websockets.asyncio.server import broadcast

        broadcast([c for c in self._clients if c.transport.get_write_buffer_size() < _UNREAD], text)

    def hear(self, datagram: bytes) -> None:
        """A frame or a status of the show."""
        try:
            told = _unpackb(datagram)
            if "status" in told:
                self.tell({"status": told["status"]}, "status")
                return
            for name, shape in _SHAPES.items():
                values = np.frombuffer(told[name], np.float32)
                told[name] = values.reshape(shape).astype(float).round(4).tolist() if values.size else None
            for name in ("scalars", "params"):
                told[name] = [round(value, 4) for value in told[name]]
            self._suit.hear(told.pop("heard"))
        except Exception:
            # Somebody else's datagram.
            return
        self._past.append({name: told[name] for name in ("seq", "scalars", "params", "extras")})
        if self._clients:
            self._dress(told)
            self.tell({"frame": told})

    def _dress(self, told: dict[str, Any]) -> None:
        """Where the joints of the body are and will be, not how they are turned; where the suit's own are."""
        pose, root = told.pop("pose"), told.pop("root")
        told["places"] = None
        if pose is not None and root is not None:
            will_be = self._ghost.hear(told["seq"], pose, root, _GHOSTS)
            told["places"] = self._ghost.joint_positions.astype(float).round(3).tolist()
            told["ghosts"] = will_be.astype(float).round(3).tolist()
        body = self._suit.body if told["places"] else None
        told["suit"] = None if body is None else body["places"]
        if body is not None and body["parents"] != self._parents:
            self._parents = body["parents"]
            self.tell({"suit": self._parents}, "suit")


def _hello(options: dict[str, Any]) -> dict[str, Any]:
    """What the page has to know to draw and to command, and where the other performers' pages are."""
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


def _json(what: dict[str, Any]) -> str:
    """Strict JSON: numbers that are none become null."""
    try:
        return json.dumps(what, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(json.loads(json.dumps(what), parse_constant=lambda _: None), separators=(",", ":"))


async def serve() -> None:
    """Serve until standard input ends. Raises a DeviceError where the port is not to be had."""
    from websockets.asyncio.server import serve as serve_websockets

    lines = input_lines()
    options: dict[str, Any] = json.loads(await anext(lines))
    server = Server(options)
    loop = asyncio.get_running_loop()
    feed = bind_udp("127.0.0.1", options["feed"], "monitor")
    await loop.create_datagram_endpoint(lambda: Datagrams(server.hear), sock=feed)
    obeys = None if options["obeys"] is None else (options["obeys"][0], options["obeys"][1])
    server.remote = remote = Remote(obeys, server.tell)
    if remote.obeys is not None:
        await loop.create_datagram_endpoint(lambda: remote, remote_addr=remote.obeys)
    try:
        listening = await serve_websockets(
            server.look,
            served_at(options["host"]),
            options["port"],
            process_request=server.page.answer,
            max_size=_SAID,
        )
    except OSError as error:
        where = f"{options['host']}:{options['port']}"
        raise DeviceError(f"monitor: cannot listen at {where} ({reason(error)})") from None
    tell_parent("ready")
    async for line in lines:
        with contextlib.suppress(ValueError):
            for kind, told in json.loads(line).items():
                server.tell({kind: told}, kind)
    # Pages hear that the show has ended (1001), which is another thing than no connection; briefly.
    listening.close()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(listening.wait_closed(), _PARTING)


if __name__ == "__main__":
    sys.exit(child_main(serve(), 10))
