"""The show itself: `pyanticip live` as a user runs it, in a folder of its own, with all that it has."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit
from pythonosc.osc_message import OscMessage
from pythonosc.osc_message_builder import OscMessageBuilder

from pyanticip.bench.machine import machine
from pyanticip.errors import DeviceError, OptionError
from pyanticip.models.checkpoint.manifest import MANIFEST, SHIPPED
from pyanticip.motion.atomic import write_file
from realtime.control.server import CONTROL
from realtime.soak.osc_recorder import OscRecorder
from realtime.soak.processes import alive, below, needs_proc
from realtime.soak.servers import Notes, Pulse, midi_port, pulse
from realtime.sockets import free_port

__all__ = [
    "MODEL",
    "REPORT",
    "RIG",
    "TAKES",
    "ShowEndedError",
    "ShowProcess",
    "SoakSetup",
    "has",
    "report",
    "soak_setup",
]

#: Of the show's folder: the rig, the model that plays, and where recordings go.
RIG, MODEL, TAKES = "rig.toml", "model", "takes"
# A show begins within so long, and ends.
_BEGINS_S, _ENDS_S = 60.0, 30.0
_ANSWERS_S = 1.0


class ShowEndedError(DeviceError):
    """The show is over, and nobody has told it to be."""


def has(module: str) -> bool:
    """Whether what a sink needs is installed."""
    return importlib.util.find_spec(module) is not None


class ShowProcess:
    """A folder with a rig, and the show that plays it, time and again.

    It has the voice, and where this machine has what they need the monitor, OSCQuery and MIDI (``midi``, a
    part of a port's name). ``more`` are further OSC receivers as a rig has them, ``environment`` what the
    show finds in its own beside ours. What it says goes to ``show.log``.
    """

    def __init__(
        self,
        folder: Path,
        ear: OscRecorder,
        more: Sequence[Mapping[str, Any]] = (),
        *,
        midi: str | None,
        environment: Mapping[str, str],
    ) -> None:
        (folder / TAKES).mkdir(parents=True)
        self.folder = folder
        self.ear = ear
        self.source, self._control = free_port(), free_port()
        self.takes = folder / TAKES
        rig: dict[str, Any] = {
            "source": {"kind": "mocopi", "port": self.source},
            "control": {"port": self._control},
            "osc": [{"port": ear.port}, *map(dict, more)],
            # By name: where its server has gone, no other device is as good.
            "synth": {"enabled": True, "device": "default"},
            "monitor": {"enabled": has("websockets"), "port": _free_tcp_port()},
            "oscquery": {"enabled": has("zeroconf") and has("websockets"), "port": _free_tcp_port()},
        }
        if midi is not None:
            rig["midi"] = {"port": midi}
        if (SHIPPED / MANIFEST).is_file():
            (folder / MODEL).mkdir()
            for file in SHIPPED.iterdir():
                write_file(folder / MODEL / file.name, file.read_bytes())
            rig["model"] = {"checkpoint": MODEL}
        else:
            rig["model"] = {"enabled": False}
        write_file(folder / RIG, tomlkit.dumps(rig).encode())
        self._environment = {**os.environ, **environment}
        self._log = (folder / "show.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self._hand = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._hand.bind(("127.0.0.1", 0))
        self._hand.settimeout(_ANSWERS_S)

    # -- its process -------------------------------------------------------------------------------

    def start(self, take: str) -> float:
        """Begin the show, recording; seconds until it said its first word."""
        begun, told = time.monotonic(), self.ear.told_ns
        record = str(Path(TAKES) / f"{take}.anticip")
        words = ["live", "--rig", RIG, "--record", record, "--json"]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pyanticip", *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        with contextlib.suppress(ShowEndedError):
            if self.until(lambda: self.ear.told_ns > told, _BEGINS_S):
                return time.monotonic() - begun
        raise DeviceError(f"soak: the show does not begin; {self.folder / 'show.log'} says why")

    @property
    def pid(self) -> int:
        """Its process. Raises ShowEndedError where it has none."""
        if self._process is None or self._process.poll() is not None:
            code = None if self._process is None else self._process.returncode
            raise ShowEndedError(f"the show has ended (code {code})")
        return self._process.pid

    def children(self, module: str) -> list[int]:
        """Processes of it that run a module."""
        return [pid for pid, runs in below(self.pid).items() if runs == module and alive(pid)]

    def until(self, condition: Callable[[], object], within: float) -> bool:
        """Wait until something is so; whether it was within so many seconds. Raises ShowEndedError."""
        begun = time.monotonic()
        while not condition():
            if self.pid and time.monotonic() - begun > within:
                return False
            time.sleep(0.02)
        return True

    def kill(self) -> int:
        """End it as no process can see coming; when (monotonic ns)."""
        now = time.monotonic_ns()
        os.kill(self.pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        return now

    def stop(self) -> int | None:
        """Ctrl-C, and wait for the end; its exit code, None where it had to be killed."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                return self._process.wait(_ENDS_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                return None
        return self._process.returncode

    def close(self) -> None:
        """End it whatever it takes, and what was opened for it."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._hand.close()
        self._log.close()

    # -- its remote control ------------------------------------------------------------------------

    def throw(self, datagram: bytes) -> None:
        """A datagram to the remote control, whatever it is."""
        self._hand.sendto(datagram, ("127.0.0.1", self._control))

    def command(self, name: str, *arguments: str | float) -> None:
        """Command something, and do not wait for the answer."""
        builder = OscMessageBuilder(CONTROL + name)
        for argument in arguments:
            builder.add_arg(argument)
        self.throw(builder.build().dgram)

    def ask(self, name: str, *arguments: str | float) -> tuple[str, str]:
        """Command something; ``ok`` or ``error`` and a text, or two empty ones where nothing is answered."""
        self._forget()
        self.command(name, *arguments)
        until = time.monotonic() + _ANSWERS_S
        while time.monotonic() < until:
            try:
                reply = OscMessage(self._hand.recv(65536))
            except TimeoutError:
                break
            if reply.address.endswith(f"/reply/{name}"):
                verdict, text = map(str, reply.params)
                return verdict, text
        return "", ""

    def _forget(self) -> None:
        """What was answered to others."""
        self._hand.setblocking(False)
        try:
            while True:
                self._hand.recv(65536)
        except BlockingIOError:
            self._hand.settimeout(_ANSWERS_S)

    # -- what it says of itself --------------------------------------------------------------------

    def says(self, beginning: str) -> bool:
        """Whether a word of the newest status begins so."""
        return any(word.startswith(beginning) for word in self.ear.words)


def _free_tcp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


REPORT = "soak.json"


class SoakSetup(NamedTuple):
    """The show, who hears it, and the servers that are there."""

    show: ShowProcess
    ear: OscRecorder
    pulse: Pulse | None
    notes: Notes | None


@contextlib.contextmanager
def soak_setup(out: Path, more: Sequence[Mapping[str, Any]] = ()) -> Iterator[SoakSetup]:
    """Everything but the suit, ready to begin; ``more`` are further OSC receivers as a rig has them.

    Raises
    ------
    OptionError
        There is something in the folder ``out``.
    DeviceError
        This system does not tell of its processes.
    """
    needs_proc()
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise OptionError(f"{out}: expected a new folder, or an empty one")
    out.mkdir(parents=True, exist_ok=True)
    with pulse() as server, midi_port() as notes, contextlib.closing(OscRecorder()) as ear:
        midi = None if notes is None else notes.name
        environment = {} if server is None else server.environment
        show = ShowProcess(out / "show", ear, more, midi=midi, environment=environment)
        with contextlib.closing(show):
            yield SoakSetup(show, ear, server, notes)


def report(out: Path, built: SoakSetup, seed: int, told: Mapping[str, Any]) -> dict[str, Any]:
    """Write what there is to tell, and of what machine, into ``out``; returns it."""
    there = {"sound": built.pulse is not None, "midi": built.notes is not None}
    result = {**told, "seed": seed, **there, **machine()}
    (out / REPORT).write_text(json.dumps(result, indent=1))
    return result
