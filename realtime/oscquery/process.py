"""The OSCQuery server as a child process of the show."""

from __future__ import annotations

import json
from collections.abc import Callable

from realtime.child import Child, check_installed
from realtime.oscquery.offer import Offer, Offers
from realtime.rig.tree import OscQueryRig
from realtime.sockets import free_port, host_and_port, reachable_host

NEEDS = "OSCQuery", "oscquery", "websockets", "zeroconf"
"""See :func:`realtime.child.check_installed`."""


class OscQueryProcess(Child):
    """Runs :mod:`realtime.oscquery.server`, which receives the show's bundles at ``port`` of loopback.

    ``control_address`` is where the remote control listens; None: it is off. Raises a DeviceError if the
    server cannot start.
    """

    def __init__(
        self,
        rig: OscQueryRig,
        control_address: tuple[str, int] | None,
        offer: Offer | Offers,
        say: Callable[[str], None],
    ) -> None:
        check_installed(*NEEDS)
        self.port = free_port()
        host, port = control_address or ("", 0)
        options = {"host": rig.host, "port": rig.port, "name": rig.name}
        options |= {"bundle_port": self.port, "osc_ip": host, "osc_port": port}
        self._offer = offer
        self._sent_version: object = None
        super().__init__("OSCQuery", "realtime.oscquery.server", [json.dumps(options)], say)
        self.wait_until_ready()
        address = host_and_port(reachable_host(rig.host), rig.port)
        say(f"describing everything to OSCQuery clients at http://{address}")

    def poll(self) -> list[str]:
        """See :meth:`Child.poll`; also reports the server's notes and sends it changed nodes."""
        lines = super().poll()
        for line in lines:
            word, _, text = line.partition(" ")
            if word in ("note", "error"):
                self._say(text)
        if self._offer.version() != self._sent_version:
            self._on_start()
        return lines

    def _on_start(self) -> None:
        self._sent_version = self._offer.version()
        self.write(json.dumps(self._offer.nodes()).encode() + b"\n")
