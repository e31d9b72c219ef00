"""The show, `pyanticip live` as a user runs it with all that it has, and who hears it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import tomlkit

from pyanticip.errors import DeviceError, OptionError
from pyanticip.models.checkpoint.manifest import SHIPPED
from pyanticip.motion.atomic import write_file
from pyanticip.system import ALONE
from realtime.control.server import CONTROL
from realtime.sinks.osc import message
from realtime.soak.suit import Suit
from realtime.sockets import bind_udp, free_port
from realtime.voice.audio import quiet_stderr

__all__ = ["MODEL", "RIG", "OscReceiver", "Server", "Show", "alive", "below", "open_show", "pulse"]

#: Of the show's folder: the rig, and the model that plays.
RIG, MODEL = "rig.toml", "model"
# A show begins within so long, hears the suit, and ends; a command is answered; a server begins.
_BEGINS_S, _HEARS_S, _ENDS_S, _ANSWERS_S, _SERVES_S = 60.0, 20.0, 30.0, 1.0, 10.0
_LOOK_S = 0.2
_PORT = "listener"
_PROC, _ALSA = Path("/proc"), Path("/usr/share/alsa/alsa.conf")
# What Linux calls it; Python does from 3.12 on.
_TIMESTAMPNS = 35
_FRAME, _STATUS = b"/anticip/frame\0\0,if\0", b"/anticip/status\0"


class OscReceiver:
    """Hears bundles at a port of its own over UDP, each stamped by the kernel, or TCP; may leave for a while.

    ``heard`` has of UDP when each frame came (monotonic ns) and its number, one after the other; ``recent``
    the frames of the last ten seconds, as they came; ``words`` the newest status, of ``status_ns``.
    ``is_receiving``: something has come since it did.
    """

    def __init__(self, transport: str) -> None:
        self.transport, self.port = transport, free_port()
        self.heard = array("q")
        self.recent: deque[tuple[int, bytes]] = deque(maxlen=500)
        self.words: list[str] = []
        self.status_ns = 0
        self.come()

    def come(self) -> None:
        """Be there, and hear anew."""
        self.is_receiving, self._leaves = False, threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def go(self) -> None:
        """Not be there any more."""
        self._leaves.set()
        self._thread.join()

    def _listen(self) -> None:
        # Somebody else may have the port for a moment.
        while not self._leaves.is_set():
            with contextlib.suppress(OSError, DeviceError):
                if self.transport == "udp":
                    self._listen_udp()
                else:
                    self._listen_tcp()
            self._leaves.wait(_LOOK_S)

    def _listen_udp(self) -> None:
        with bind_udp("127.0.0.1", self.port, "soak") as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
            self._hear(sock)

    def _listen_tcp(self) -> None:
        with socket.create_server(("127.0.0.1", self.port)) as server:
            server.settimeout(_LOOK_S)
            while not self._leaves.is_set():
                with contextlib.suppress(OSError), server.accept()[0] as sock:
                    self._hear(sock)

    def _hear(self, sock: socket.socket) -> None:
        sock.settimeout(_LOOK_S)
        while not self._leaves.is_set():
            with contextlib.suppress(TimeoutError):
                data, stamps, *_ = sock.recvmsg(65536, 128)
                if not data:
                    return
                self.is_receiving = True
                if not stamps:
                    continue
                seconds, nanos = struct.unpack_from("@qq", stamps[0][2])
                t_ns = time.monotonic_ns() - time.time_ns() + seconds * 1_000_000_000 + nanos
                if data[20:].startswith(_FRAME):
                    self.recent.append((t_ns, data))
                    self.heard.extend((t_ns, int.from_bytes(data[40:44], "big")))
                elif data[20:].startswith(_STATUS):
                    self.words, self.status_ns = data.decode(errors="replace").split("\0"), t_ns


class Server:
    """A program beside, which says nothing."""

    def __init__(self, words: str, **environment: str) -> None:
        self._words, self.environment = shlex.split(words), environment
        self.start()

    def start(self) -> None:
        """Begin, again."""
        quiet, told = subprocess.DEVNULL, {**os.environ, **self.environment}
        self._process = subprocess.Popen(
            self._words, env=told, stdin=quiet, stdout=quiet, stderr=quiet, **ALONE
        )

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it."""
        self._process.send_signal(number)
        self._process.wait()


@contextlib.contextmanager
def pulse() -> Iterator[Server | None]:
    """A PulseAudio server with a sink that nobody hears, reached by its environment; None where there can be
    none."""
    if shutil.which("pulseaudio") is None or not (_ALSA.parent / "alsa.conf.d" / "pulse.conf").is_file():
        yield None
        return
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="soak") as name:
        config, listens = Path(name, "asound.conf"), Path(name, "pulse", "native")
        config.write_text("pcm.!default { type pulse }\nctl.!default { type pulse }\n", encoding="utf-8")
        server = Server(
            "pulseaudio -n --daemonize=no --exit-idle-time=-1 -L module-native-protocol-unix"
            " -L 'module-null-sink sink_name=null rate=48000'",
            XDG_RUNTIME_DIR=name,
            PULSE_SERVER=f"unix:{listens}",
            PULSE_COOKIE=str(Path(name, "cookie")),
            ALSA_CONFIG_PATH=f"{_ALSA}:{config}",
        )
        try:
            until = time.monotonic() + _SERVES_S
            while not listens.exists() and server.runs and time.monotonic() < until:
                time.sleep(0.05)
            yield server if listens.exists() else None
        finally:
            server.stop()


@contextlib.contextmanager
def _midi_port() -> Iterator[set[tuple[int, int]] | None]:
    """A MIDI port on a JACK server of our own: the notes that sound, each its channel and key; None where
    there can be none."""
    if find_spec("rtmidi") is None or shutil.which("jackd") is None:
        yield None
        return
    rtmidi: Any = import_module("rtmidi")
    sounding: set[tuple[int, int]] = set()

    def hear(event: tuple[list[int], float], data: object) -> None:
        status, key, value = (*event[0], 0, 0)[:3]
        kind, channel = status & 0xF0, status & 0x0F
        if kind == 0x90 and value:
            sounding.add((channel, key))
        elif kind in (0x80, 0x90):
            sounding.discard((channel, key))
        elif kind == 0xB0 and key in (120, 123):
            sounding.difference_update([note for note in sounding if note[0] == channel])

    before, jack = dict(os.environ), f"soak{os.getpid()}"
    # Ours and the show's: it inherits what we have.
    os.environ.update({"JACK_DEFAULT_SERVER": jack, "JACK_NO_START_SERVER": "1"})
    server = Server(f"jackd --no-realtime -n {jack} -d dummy -r 48000 -p 1024")
    port, until = None, time.monotonic() + _SERVES_S
    try:
        while port is None and time.monotonic() < until:
            time.sleep(_LOOK_S)
            with quiet_stderr(), contextlib.suppress(rtmidi.RtMidiError):
                # Without a server an output cannot be made; an input can, and nobody sees it.
                rtmidi.MidiOut(rtmidi.API_UNIX_JACK).delete()
                port = rtmidi.MidiIn(rtmidi.API_UNIX_JACK, name=_PORT)
                port.set_callback(hear)
                port.open_virtual_port(_PORT)
        yield None if port is None else sounding
    finally:
        if port is not None:
            port.delete()
        # What it shares with its clients would be left of one that was killed.
        server.stop(signal.SIGTERM)
        os.environ.clear()
        os.environ.update(before)


def alive(pid: int) -> bool:
    """Whether a process runs or could; one that waits to be buried does not."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def below(pid: int) -> Iterator[int]:
    """All processes that a process has begun, and those that these have."""
    for listed in _PROC.glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listed.read_text().split()):
                yield child
                yield from below(child)


def _memory(pid: int) -> int:
    """Bytes of a process that are in memory; what it shares with others counts for each of them."""
    with contextlib.suppress(OSError):
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class Show:
    """A suit, and the show that plays it, time and again, in a folder with a rig.

    It sends to ``ear``, which is always there, and to ``guests``; it has the voice, and where this machine
    has what they need the monitor, OSCQuery and MIDI, of which ``notes`` sound. What it says goes to
    ``show.log``. Faults happen by ``chance`` and last for ``lasts`` seconds; when all is ``over``, nobody
    waits any longer.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        guests: Sequence[str],
        server: Server | None,
        notes: set[tuple[int, int]] | None,
    ) -> None:
        self.folder, self.takes, self.pulse, self.notes = folder, folder / "takes", server, notes
        for made in (self.takes, folder / MODEL):
            made.mkdir(parents=True)
        for file in SHIPPED.iterdir():
            write_file(folder / MODEL / file.name, file.read_bytes())
        self.source, self._control = free_port(), ("127.0.0.1", free_port())
        self.ear, *self.guests = map(OscReceiver, ("udp", *guests))
        self.suit, self.over = Suit(self.source, seed), threading.Event()
        self.chance, self.lasts = Random(seed), 0.0
        self._process: subprocess.Popen[bytes] | None = None
        served = find_spec("websockets") is not None
        rig: dict[str, Any] = {
            "source": {"kind": "mocopi", "port": self.source},
            "control": {"port": self._control[1]},
            "model": {"checkpoint": MODEL},
            "osc": [{"port": ear.port, "transport": ear.transport} for ear in (self.ear, *self.guests)],
            # By name: where its server has gone, no other device is as good.
            "synth": {"enabled": True, "device": "default"},
            "monitor": {"enabled": served, "port": free_port()},
            "oscquery": {"enabled": served and find_spec("zeroconf") is not None, "port": free_port()},
            **({} if notes is None else {"midi": {"port": _PORT}}),
        }
        write_file(folder / RIG, tomlkit.dumps(rig).encode())

    def start(self, take: str) -> float:
        """Begin, recording; returns when the suit is heard, seconds until the first status."""
        begun, begun_ns, heard = time.monotonic(), time.monotonic_ns(), len(self.ear.heard)
        words = ["live", "--rig", RIG, "--record", f"takes/{take}.anticip", "--json"]
        environment = {**os.environ, **(self.pulse.environment if self.pulse else {})}
        with (self.folder / "show.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pyanticip", *words],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **ALONE
            )  # fmt: skip
        if self.until(lambda: self.ear.status_ns > begun_ns, _BEGINS_S):
            told = time.monotonic()
            self.suit.tell("clean")
            if self.until(lambda: len(self.ear.heard) > heard, _HEARS_S):
                return told - begun
        raise DeviceError(f"soak: the show does not begin; {self.folder / 'show.log'} says why")

    @property
    def pid(self) -> int:
        """Its process; 0 when it has none."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    def children(self, module: str) -> list[int]:
        """Processes of it that run a module."""
        found = []
        for pid in below(self.pid):
            with contextlib.suppress(OSError):
                if module.encode() in (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0"):
                    found.append(pid)
        return found

    def taken(self) -> tuple[int, int, int, int, int]:
        """Now (monotonic ns), the memory of the show and of its children (bytes), the descriptors that the
        show has open, and how many processes there are with it. Raises an OSError where it is gone."""
        pid, children = self.pid, list(below(self.pid))
        descriptors = sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
        memory = sum(map(_memory, children))
        return time.monotonic_ns(), _memory(pid), memory, descriptors, 1 + len(children)

    def until(self, condition: Callable[[], object], within: float) -> bool:
        """Wait while it plays until something is so; whether it was within so many seconds."""
        return any(condition() for _ in self.every(0.02, within))

    def wait(self, seconds: float | None = None) -> None:
        """Let it play for so long, or as long as a fault lasts."""
        for _ in self.every(0.1, seconds):
            pass

    def every(self, period: float, seconds: float | None = None) -> Iterator[None]:
        """Time and again, so many seconds apart, for so long, or as long as a fault lasts."""
        until = time.monotonic() + (self.lasts if seconds is None else seconds)
        while (left := until - time.monotonic()) > 0.0 and self.pid and not self.over.is_set():
            yield
            self.over.wait(min(period, left))

    def kill(self) -> int:
        """End it as no process can see coming; when (monotonic ns)."""
        now = time.monotonic_ns()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        return now

    def stop(self) -> int | None:
        """Ctrl-C, and wait for the end; its exit code, None where it does not come."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_ENDS_S)
        return None

    def close(self) -> None:
        """End everything, whatever it takes."""
        self.kill()
        self.suit.close()
        for receiver in (self.ear, *self.guests):
            receiver.go()

    def throw(self, datagram: bytes) -> None:
        """A datagram to the remote control, whatever it is."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(datagram, self._control)

    def command(self, name: str, *arguments: str | float) -> None:
        """Command something, and do not wait for the answer."""
        self.throw(message(CONTROL + name, arguments))

    def ask(self, name: str, *arguments: str | float) -> bool:
        """Command something; whether the answer, within a second, is ok."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(TimeoutError):
            sock.settimeout(_ANSWERS_S)
            sock.sendto(message(CONTROL + name, arguments), self._control)
            return b"\0ok\0" in sock.recv(65536)
        return False


@contextlib.contextmanager
def open_show(out: Path, seed: int, guests: Sequence[str] = ()) -> Iterator[Show]:
    """A show ready to begin, with guests over these transports. Raises an OptionError where there is
    something in the folder ``out``."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise OptionError(f"{out}: expected a new folder, or an empty one")
    with (
        pulse() as server,
        _midi_port() as notes,
        contextlib.closing(Show(out / "show", seed, guests, server, notes)) as show,
    ):
        yield show
