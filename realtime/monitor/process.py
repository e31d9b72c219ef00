"""The monitor's server as a child process of the show, which receives the show's health once a second."""

from __future__ import annotations

import importlib.util
import io
import json
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from realtime.child import Child, check_installed
from realtime.control.live_rig import LiveRig
from realtime.control.rig_keys import CONTROLS
from realtime.monitor.health import settable
from realtime.rig.tree import MonitorRig
from realtime.sockets import free_port, host_and_port, reachable_host

NEEDS = "the monitor", "monitor", "websockets"
"""See :func:`realtime.child.check_installed`."""


class MonitorProcess(Child):
    """Runs :mod:`realtime.monitor.server`, which receives frames at ``port`` of loopback.

    Args:
        control_address: Address that the remote control listens at; None: it is off.
        health: See :func:`realtime.monitor.health.health`; called once a second.
        live_rig: The rig whose keys can be set from the page.
        folder: The folder whose files the page lists.
        kind: Wire format of the suits.
        monitor_ports: Ports of all performers' monitors by name, if there are several.

    Raises:
        DeviceError: The server cannot start.
    """

    def __init__(
        self,
        rig: MonitorRig,
        control_address: tuple[str, int] | None,
        health: Callable[[], Mapping[str, Any]],
        say: Callable[[str], None],
        live_rig: LiveRig | None = None,
        folder: Path = Path(),
        kind: str = "mocopi",
        monitor_ports: Mapping[str, int] | None = None,
    ) -> None:
        check_installed(*NEEDS)
        self.port = free_port()
        token = rig.token or ("" if rig.is_local else secrets.token_urlsafe(9))
        options = {
            "host": rig.host,
            "port": rig.port,
            "token": token,
            "feed": self.port,
            "obeys": control_address,
        }
        options |= {"folder": str(folder.absolute()), "kind": kind, "everybody": dict(monitor_ports or {})}
        # Types of the commands with string arguments, so that the page sends "2026" as a string there.
        options["takes"] = {name: control.types for name, control in CONTROLS.items() if "s" in control.types}
        address = host_and_port(reachable_host(rig.host), rig.port)
        #: URL of the page.
        self.url = f"http://{address}/{f'?token={token}' if token else ''}"
        self._health = health
        self._live_rig = live_rig
        self._sent_version: object = None
        self._options = json.dumps(options)
        super().__init__("the monitor", "realtime.monitor.server", [], say)
        self.wait_until_ready()
        say(f"monitor at {self.url}")
        if not rig.is_local and sys.stderr.isatty() and importlib.util.find_spec("segno") is not None:
            for line in qr_code(self.url):
                say(line)

    def _on_start(self) -> None:
        self.write(self._options.encode() + b"\n")

    def poll(self) -> list[str]:
        """See :meth:`Child.poll`; also sends the health, and the rig if it changed. Call it once a second."""
        lines = super().poll()
        message = {"health": self._health()}
        if self._live_rig is not None and (self.restarts, self._live_rig.version()) != self._sent_version:
            self._sent_version = self.restarts, self._live_rig.version()
            message["rig"] = settable(self._live_rig)
        self.write(json.dumps(message).encode() + b"\n")
        return lines


def qr_code(text: str) -> list[str]:
    """The lines of a QR code for the terminal. Needs segno."""
    import segno

    out = io.StringIO()
    segno.make(text, micro=False).terminal(out, compact=True)
    return out.getvalue().splitlines()
