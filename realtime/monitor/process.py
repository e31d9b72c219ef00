"""The monitor's process beside a show: begun, told once a second how things stand, and kept alive."""

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
from realtime.rig.monitor import MonitorRig
from realtime.sockets import free_port, host_and_port, known_as

__all__ = ["NEEDS", "MonitorProcess", "qr_code"]

NEEDS = "the monitor", "monitor", "websockets"
"""See :func:`realtime.child.check_installed`."""


class MonitorProcess(Child):
    """Runs :mod:`realtime.monitor.server`; its frames go to ``port`` of loopback.

    ``obeys`` is where the remote control listens, None where there is none; ``health`` says how things stand,
    ``live_rig`` what of the rig can be set; what is in ``folder`` is listed; ``kind`` is what suits send;
    ``everybody`` has the ports of all performers' monitors by name, where there are several.
    Raises a DeviceError where it cannot begin.
    """

    def __init__(
        self,
        rig: MonitorRig,
        obeys: tuple[str, int] | None,
        health: Callable[[], Mapping[str, Any]],
        say: Callable[[str], None],
        live_rig: LiveRig | None = None,
        folder: Path = Path(),
        kind: str = "mocopi",
        everybody: Mapping[str, int] | None = None,
    ) -> None:
        check_installed(*NEEDS)
        self.port = free_port()
        token = rig.token or ("" if rig.is_local else secrets.token_urlsafe(9))
        told = {"host": rig.host, "port": rig.port, "token": token, "feed": self.port, "obeys": obeys}
        told |= {"folder": str(folder.absolute()), "kind": kind, "everybody": dict(everybody or {})}
        # Commands that take text: "2026" is a name there.
        told["takes"] = {name: each.types for name, each in CONTROLS.items() if "s" in each.types}
        #: What to open in a browser.
        where = host_and_port(known_as(rig.host), rig.port)
        self.url = f"http://{where}/{f'?token={token}' if token else ''}"
        self._health = health
        self._live_rig = live_rig
        self._sent_version: object = None
        self._options = json.dumps(told)
        super().__init__("the monitor", "realtime.monitor.server", [], say)
        self.opened()
        say(f"monitor at {self.url}")
        if not rig.is_local and sys.stderr.isatty() and importlib.util.find_spec("segno") is not None:
            for line in qr_code(self.url):
                say(line)

    def _greet(self) -> None:
        self.write(self._options.encode() + b"\n")

    def poll(self) -> list[str]:
        """See whether it lives, and tell it how things stand: once a second."""
        lines = super().poll()
        told = {"health": self._health()}
        if self._live_rig is not None and (self.restarts, self._live_rig.version()) != self._sent_version:
            self._sent_version = self.restarts, self._live_rig.version()
            told["rig"] = settable(self._live_rig)
        self.write(json.dumps(told).encode() + b"\n")
        return lines


def qr_code(text: str) -> list[str]:
    """A QR code for a terminal, to be photographed from the screen. Needs segno."""
    import segno

    drawn = io.StringIO()
    segno.make(text, micro=False).terminal(drawn, compact=True)
    return drawn.getvalue().splitlines()
