"""OSCQuery beside a show: its process, and what that is told."""

from __future__ import annotations

import json
from collections.abc import Callable

from realtime.child import Child, check_installed
from realtime.oscquery.offer import Offer, Offers
from realtime.rig.tree import OscQueryRig
from realtime.sockets import free_port, host_and_port, known_as

__all__ = ["NEEDS", "OscQueryProcess"]

NEEDS = "OSCQuery", "oscquery", "websockets", "zeroconf"
"""See :func:`realtime.child.check_installed`."""


class OscQueryProcess(Child):
    """Runs :mod:`realtime.oscquery.server`; its bundles go to ``port`` of loopback.

    ``obeys`` is where the remote control listens, None where there is none. Raises a DeviceError where it
    cannot begin.
    """

    def __init__(
        self,
        rig: OscQueryRig,
        obeys: tuple[str, int] | None,
        offer: Offer | Offers,
        say: Callable[[str], None],
    ) -> None:
        check_installed(*NEEDS)
        self.port = free_port()
        host, port = obeys or ("", 0)
        told = {"host": rig.host, "port": rig.port, "name": rig.name}
        told |= {"ear": self.port, "osc_ip": host, "osc_port": port}
        self._offer = offer
        self._sent_version: object = None
        super().__init__("OSCQuery", "realtime.oscquery.server", [json.dumps(told)], say)
        self.opened()
        where = host_and_port(known_as(rig.host), rig.port)
        say(f"describing everything to OSCQuery clients at http://{where}")

    def poll(self) -> list[str]:
        """See whether it lives, hear its notes, and tell it what has changed."""
        lines = super().poll()
        for line in lines:
            word, _, text = line.partition(" ")
            if word in ("note", "error"):
                self._say(text)
        if self._offer.version() != self._sent_version:
            self._greet()
        return lines

    def _greet(self) -> None:
        self._sent_version = self._offer.version()
        self.write(json.dumps(self._offer.nodes()).encode() + b"\n")
