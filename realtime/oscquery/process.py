"""OSCQuery beside a show: its process, what that is told, and its second life."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable

from pyanticip.errors import DeviceError
from realtime.oscquery.offer import Offer
from realtime.rig.tree import OscQueryRig
from realtime.sockets import free_port

__all__ = ["OscQueryProcess"]

_OPENING_S = 20.0
_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


class OscQueryProcess:
    """Runs :mod:`realtime.oscquery.server` and keeps it running; its bundles go to ``port`` of loopback.

    ``obeys`` is where the remote control listens, None where there is none. :meth:`poll`, called now and
    then, never blocks. Raises a DeviceError where it cannot begin.
    """

    def __init__(
        self, rig: OscQueryRig, obeys: tuple[str, int] | None, offer: Offer, say: Callable[[str], None]
    ) -> None:
        missing = [name for name in ("websockets", "zeroconf") if importlib.util.find_spec(name) is None]
        if missing:
            raise DeviceError(f"OSCQuery needs {missing[0]}: pip install 'pyanticip[oscquery]'")
        self.port = free_port()
        self.where = f"{rig.host}:{rig.port}"
        host, port = obeys or ("", 0)
        told = {"host": rig.host, "port": rig.port, "name": rig.name}
        told |= {"ear": self.port, "osc_ip": host, "osc_port": port}
        self._command = [sys.executable, "-P", "-m", "realtime.oscquery.server", json.dumps(told)]
        self._offer, self._say = offer, say
        self._told: object = None
        self._waiting = b""
        self._heard = b""
        self._again, self._pause = 0.0, _PAUSE
        self._process: subprocess.Popen[bytes] | None = None
        self._start()
        self._await()

    def _start(self) -> None:
        """In a session of its own, so that Ctrl-C reaches the show alone."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        for end in (self._process.stdin, self._process.stdout):
            assert end is not None
            os.set_blocking(end.fileno(), False)
        self._told, self._waiting, self._heard = None, b"", b""

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return None if self._process is None else self._process.pid

    def _await(self) -> None:
        deadline = time.monotonic() + _OPENING_S
        said: list[str] = []
        while not said and self._process is not None and time.monotonic() < deadline:
            self._write()
            assert self._process.stdout is not None
            select.select([self._process.stdout], [], [], 0.05)
            said = self._listen()
            if self._process.poll() is not None:
                break
        if "ready" not in said:
            self.close()
            failed = [line.removeprefix("error ") for line in said if line.startswith("error ")]
            raise DeviceError(failed[0] if failed else "OSCQuery: its process does not answer")

    def poll(self) -> None:
        """See whether it lives, tell it what has changed, and start it again where it has died."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._again:
                self._start()
            return
        for line in self._listen():
            word, _, text = line.partition(" ")
            if word in ("note", "error"):
                self._say(text)
        code = self._process.poll()
        if code is None:
            self._write()
            return
        self._release()
        self._say(f"OSCQuery ended (code {code}); starting it again in {self._pause:g} s")
        self._again = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _write(self) -> None:
        if (version := self._offer.version()) != self._told:
            self._told = version
            self._waiting += json.dumps(self._offer.nodes()).encode() + b"\n"
        if self._waiting and self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._waiting = self._waiting[os.write(self._process.stdin.fileno(), self._waiting) :]

    def _listen(self) -> list[str]:
        if self._process is None or self._process.stdout is None:
            return []
        self._heard += self._process.stdout.read() or b""
        *lines, self._heard = self._heard.split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def _release(self) -> subprocess.Popen[bytes] | None:
        process, self._process = self._process, None
        for pipe in (process.stdin, process.stdout) if process is not None else ():
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return process

    def close(self) -> None:
        """End the process: let it finish by itself, then make it."""
        process = self._release()
        if process is None:
            return
        for wait in (2.0, 1.0):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait)
                return
            process.terminate()
        process.kill()
        process.wait()
