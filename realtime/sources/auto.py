"""Whoever sends first is the source: listening at the usual ports of every kind."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from pyanticip.errors import DeviceError
from realtime.sockets import bind_udp
from realtime.sources.arrivals import suits, usual_ports
from realtime.sources.recognise import recognise, wrong_kind

__all__ = ["first_sender"]


def first_sender(host: str, say: Callable[[str], None], seconds: float | None = None) -> tuple[str, int]:
    """The kind of the first recognised sender and the port that it sends to; the sockets are closed again.

    Ports that another program has are told of and left out. ``seconds`` is how long to wait; None: for ever.
    Raises DeviceError where no port is free, or nobody came in time.
    """
    ports = usual_ports()
    sockets: dict[socket.socket, int] = {}
    taken = []
    try:
        for port in ports:
            try:
                sockets[bind_udp(host, port, "source auto")] = port
            except DeviceError as error:
                taken.append(f"{error}")
        for line in taken:
            say(line)
        if not sockets:
            raise DeviceError("source auto: no port is free to listen at")
        listed = ", ".join(str(port) for port in sockets.values())
        say(f"waiting for whoever sends to {host}, ports {listed}")
        end = None if seconds is None else time.monotonic() + seconds
        told: set[tuple[object, str | None]] = set()
        while True:
            wait = None if end is None else end - time.monotonic()
            if wait is not None and wait <= 0.0:
                raise DeviceError(
                    f"source auto: nobody known sent to {host}, ports {listed}, in {seconds:g} s"
                )
            for sock in select.select(list(sockets), [], [], wait)[0]:
                datagram, sender = sock.recvfrom(65536)
                kind = recognise(datagram)
                if kind is not None and kind in suits():
                    say(f"{sender[0]} sends {kind} to port {sockets[sock]}")
                    return kind, sockets[sock]
                if (sender, kind) not in told and len(told) < 16:
                    told.add((sender, kind))
                    why = wrong_kind("auto", datagram, sockets[sock]) or "nothing that is known"
                    say(f"{sender[0]}, port {sockets[sock]}: {why}")
    finally:
        for sock in sockets:
            sock.close()
