"""The show under test: `pyanticip live` with every output, its receivers, and servers for sound and MIDI."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
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
from pyanticip.system import OWN_PROCESS_GROUP
from realtime.control.server import CONTROL
from realtime.osc import message
from realtime.soak.suit import Suit
from realtime.sockets import LINUX_TIMESTAMPNS, age_ns, bind_udp, free_port
from realtime.voice.audio import quiet_stderr

#: Rig file and model folder in the show's folder.
RIG, MODEL = "rig.toml", "model"
# Timeouts: until the show's first status, until the first bundle after the suit starts, until the show has
# ended after Ctrl-C, of a command's reply, and of the start of a server.
_START_TIMEOUT_S, _BUNDLE_TIMEOUT_S, _STOP_TIMEOUT_S = 60.0, 20.0, 30.0
_REPLY_TIMEOUT_S, _SERVER_TIMEOUT_S = 1.0, 10.0
_POLL_S = 0.2
_MIDI_PORT = "listener"
_PROC, _ALSA = Path("/proc"), Path("/usr/share/alsa/alsa.conf")
_FRAME, _STATUS = b"/anticip/frame\0\0,if\0", b"/anticip/status\0"


class OscReceiver:
    """Receives bundles on a free port over UDP, with kernel timestamps, or TCP; can be closed and reopened.

    Attributes:
        received: over UDP, arrival time (monotonic ns) and number of each frame, alternating.
        recent: arrival times and bundles of the last ten seconds' frames.
        words: the newest status, received at ``status_ns``.
        is_receiving: whether anything arrived since it was opened.
    """

    def __init__(self, transport: str) -> None:
        self.transport, self.port = transport, free_port()
        self.received = array("q")
        self.recent: deque[tuple[int, bytes]] = deque(maxlen=500)
        self.words: list[str] = []
        self.status_ns = 0
        self.open()

    def open(self) -> None:
        """Start receiving."""
        self.is_receiving, self._closing = False, threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop receiving, and close the port."""
        self._closing.set()
        self._thread.join()

    def _listen(self) -> None:
        # Another process may use the port for a moment: try again.
        while not self._closing.is_set():
            with contextlib.suppress(OSError, DeviceError):
                if self.transport == "udp":
                    self._listen_udp()
                else:
                    self._listen_tcp()
            self._closing.wait(_POLL_S)

    def _listen_udp(self) -> None:
        with bind_udp("127.0.0.1", self.port, "soak") as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            sock.setsockopt(socket.SOL_SOCKET, LINUX_TIMESTAMPNS, 1)
            self._receive(sock)

    def _listen_tcp(self) -> None:
        with socket.create_server(("127.0.0.1", self.port)) as server:
            server.settimeout(_POLL_S)
            while not self._closing.is_set():
                with contextlib.suppress(OSError), server.accept()[0] as sock:
                    self._receive(sock)

    def _receive(self, sock: socket.socket) -> None:
        sock.settimeout(_POLL_S)
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                data, stamps, *_ = sock.recvmsg(65536, 128)
                if not data:
                    return
                self.is_receiving = True
                if not stamps:
                    continue
                age = age_ns(stamps[0][2])
                t_ns = time.monotonic_ns() - age
                if data[20:].startswith(_FRAME):
                    self.recent.append((t_ns, data))
                    self.received.extend((t_ns, int.from_bytes(data[40:44], "big")))
                elif data[20:].startswith(_STATUS):
                    self.words, self.status_ns = data.decode(errors="replace").split("\0"), t_ns


class Server:
    """A server process without output; ``environment`` are the variables by which clients find it."""

    def __init__(self, command: str, **environment: str) -> None:
        self._command, self.environment = shlex.split(command), environment
        self.start()

    def start(self) -> None:
        """Start the process, or start it again."""
        null, environment = subprocess.DEVNULL, {**os.environ, **self.environment}
        self._process = subprocess.Popen(
            self._command, env=environment, stdin=null, stdout=null, stderr=null, **OWN_PROCESS_GROUP
        )

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def stop(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, and wait for the process to end."""
        self._process.send_signal(number)
        self._process.wait()


@contextlib.contextmanager
def pulse() -> Iterator[Server | None]:
    """A PulseAudio server with a null sink, reached by its environment; None where it is not available."""
    if shutil.which("pulseaudio") is None or not (_ALSA.parent / "alsa.conf.d" / "pulse.conf").is_file():
        yield None
        return
    # In a temporary directory, since paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="soak") as name:
        config, socket_path = Path(name, "asound.conf"), Path(name, "pulse", "native")
        config.write_text("pcm.!default { type pulse }\nctl.!default { type pulse }\n", encoding="utf-8")
        server = Server(
            "pulseaudio -n --daemonize=no --exit-idle-time=-1 -L module-native-protocol-unix"
            " -L 'module-null-sink sink_name=null rate=48000'",
            XDG_RUNTIME_DIR=name,
            PULSE_SERVER=f"unix:{socket_path}",
            PULSE_COOKIE=str(Path(name, "cookie")),
            ALSA_CONFIG_PATH=f"{_ALSA}:{config}",
        )
        try:
            deadline = time.monotonic() + _SERVER_TIMEOUT_S
            while not socket_path.exists() and server.is_running and time.monotonic() < deadline:
                time.sleep(0.05)
            yield server if socket_path.exists() else None
        finally:
            server.stop()


@contextlib.contextmanager
def _midi_port() -> Iterator[set[tuple[int, int]] | None]:
    """A MIDI port on its own JACK server: the sounding notes as (channel, key); None where not available."""
    if find_spec("rtmidi") is None or shutil.which("jackd") is None:
        yield None
        return
    rtmidi: Any = import_module("rtmidi")
    sounding: set[tuple[int, int]] = set()

    def on_event(event: tuple[list[int], float], data: object) -> None:
        status, key, value = (*event[0], 0, 0)[:3]
        kind, channel = status & 0xF0, status & 0x0F
        if kind == 0x90 and value:
            sounding.add((channel, key))
        elif kind in (0x80, 0x90):
            sounding.discard((channel, key))
        elif kind == 0xB0 and key in (120, 123):
            sounding.difference_update([note for note in sounding if note[0] == channel])

    old_environment, jack = dict(os.environ), f"soak{os.getpid()}"
    # For this process and for the show, which inherits it.
    os.environ.update({"JACK_DEFAULT_SERVER": jack, "JACK_NO_START_SERVER": "1"})
    server = Server(f"jackd --no-realtime -n {jack} -d dummy -r 48000 -p 1024")
    port, deadline = None, time.monotonic() + _SERVER_TIMEOUT_S
    try:
        while port is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            with quiet_stderr(), contextlib.suppress(rtmidi.RtMidiError):
                # Creating an output fails until the server runs; an input would be created but not visible.
                rtmidi.MidiOut(rtmidi.API_UNIX_JACK).delete()
                port = rtmidi.MidiIn(rtmidi.API_UNIX_JACK, name=_MIDI_PORT)
                port.set_callback(on_event)
                port.open_virtual_port(_MIDI_PORT)
        yield None if port is None else sounding
    finally:
        if port is not None:
            port.delete()
        # Not killed: its shared memory would remain.
        server.stop(signal.SIGTERM)
        os.environ.clear()
        os.environ.update(old_environment)


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def descendants(pid: int) -> Iterator[int]:
    """All child processes of a process, and theirs."""
    for listed in _PROC.glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listed.read_text().split()):
                yield child
                yield from descendants(child)


def _memory(pid: int) -> int:
    """Resident memory of a process in bytes; memory shared with others counts fully."""
    with contextlib.suppress(OSError):
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class Show:
    """A suit and the show that plays it, which can be started repeatedly, in a folder with a rig.

    The show has the voice and, where this machine can run them, the monitor, OSCQuery and MIDI. Its output
    goes to ``show.log``.

    Attributes:
        receiver: the OSC receiver that is always open.
        guests: OSC receivers that faults close for a while.
        pulse: the sound server, or None.
        notes: MIDI notes that sound, or None without MIDI.
        random: decides about faults.
        fault_s: duration of the current fault, seconds.
        over: when set, all waits end.
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
        for subfolder in (self.takes, folder / MODEL):
            subfolder.mkdir(parents=True)
        for file in SHIPPED.iterdir():
            write_file(folder / MODEL / file.name, file.read_bytes())
        self.source, self._control = free_port(), ("127.0.0.1", free_port())
        self.receiver, *self.guests = map(OscReceiver, ("udp", *guests))
        self.suit, self.over = Suit(self.source, seed), threading.Event()
        self.random, self.fault_s = Random(seed), 0.0
        self._process: subprocess.Popen[bytes] | None = None
        has_websockets = find_spec("websockets") is not None
        rig: dict[str, Any] = {
            "source": {"kind": "mocopi", "port": self.source},
            "control": {"port": self._control[1]},
            "model": {"checkpoint": MODEL},
            "osc": [{"port": one.port, "transport": one.transport} for one in (self.receiver, *self.guests)],
            # By name, so that no other device is used when its server is gone.
            "synth": {"enabled": True, "device": "default"},
            "monitor": {"enabled": has_websockets, "port": free_port()},
            "oscquery": {
                "enabled": has_websockets and find_spec("zeroconf") is not None,
                "port": free_port(),
            },
            **({} if notes is None else {"midi": {"port": _MIDI_PORT}}),
        }
        write_file(folder / RIG, tomlkit.dumps(rig).encode())

    def start(self, take: str) -> float:
        """Start the show, recording to ``take``, and wait for the first bundle of the suit's motion.

        Returns:
            Seconds until the first status.

        Raises:
            DeviceError: it does not start.
        """
        started, started_ns, received = time.monotonic(), time.monotonic_ns(), len(self.receiver.received)
        words = ["live", "--rig", RIG, "--record", f"takes/{take}.anticip", "--json"]
        environment = {**os.environ, **(self.pulse.environment if self.pulse else {})}
        with (self.folder / "show.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pyanticip", *words],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                **OWN_PROCESS_GROUP,
            )  # fmt: skip
        if self.until(lambda: self.receiver.status_ns > started_ns, _START_TIMEOUT_S):
            status_time = time.monotonic()
            self.suit.set_mode("clean")
            if self.until(lambda: len(self.receiver.received) > received, _BUNDLE_TIMEOUT_S):
                return status_time - started
        raise DeviceError(f"soak: the show does not begin; {self.folder / 'show.log'} says why")

    @property
    def pid(self) -> int:
        """The show's process id; 0 when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    def children(self, module: str) -> list[int]:
        """Descendant processes that run a module."""
        pids = []
        for pid in descendants(self.pid):
            with contextlib.suppress(OSError):
                if module.encode() in (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0"):
                    pids.append(pid)
        return pids

    def usage(self) -> tuple[int, int, int, int, int]:
        """Time (monotonic ns), memory of the show and of its children (bytes), the show's open descriptors,
        and the number of processes.

        Raises:
            OSError: the show does not run.
        """
        pid, children = self.pid, list(descendants(self.pid))
        descriptors = sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
        memory = sum(map(_memory, children))
        return time.monotonic_ns(), _memory(pid), memory, descriptors, 1 + len(children)

    def until(self, condition: Callable[[], object], within: float) -> bool:
        """Wait up to ``within`` seconds, while the show runs, for a condition; whether it became true."""
        return any(condition() for _ in self.every(0.02, within))

    def wait(self, seconds: float | None = None) -> None:
        """Wait for ``seconds``, by default the duration of the fault; less if the show ends."""
        for _ in self.every(0.1, seconds):
            pass

    def every(self, period: float, seconds: float | None = None) -> Iterator[None]:
        """Yield every ``period`` seconds for ``seconds``, by default the duration of the fault."""
        deadline = time.monotonic() + (self.fault_s if seconds is None else seconds)
        while (remaining := deadline - time.monotonic()) > 0.0 and self.pid and not self.over.is_set():
            yield
            self.over.wait(min(period, remaining))

    def kill(self) -> int:
        """Kill the show, and return the time (monotonic ns)."""
        now = time.monotonic_ns()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        return now

    def stop(self) -> int | None:
        """Interrupt the show as Ctrl-C does; its exit code, None if it does not end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_STOP_TIMEOUT_S)
        return None

    def close(self) -> None:
        """Kill the show and the suit, and close the receivers."""
        self.kill()
        self.suit.close()
        for receiver in (self.receiver, *self.guests):
            receiver.close()

    def send_control(self, datagram: bytes) -> None:
        """Send a datagram, valid or not, to the control port."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(datagram, self._control)

    def command(self, name: str, *arguments: str | float) -> None:
        """Send a command without waiting for the reply."""
        self.send_control(message(CONTROL + name, arguments))

    def ask(self, name: str, *arguments: str | float) -> bool:
        """Send a command; whether the reply, within a second, is ok."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(TimeoutError):
            sock.settimeout(_REPLY_TIMEOUT_S)
            sock.sendto(message(CONTROL + name, arguments), self._control)
            return b"\0ok\0" in sock.recv(65536)
        return False


@contextlib.contextmanager
def open_show(out: Path, seed: int, guests: Sequence[str] = ()) -> Iterator[Show]:
    """A show that is ready to start, with guests over these transports.

    Raises:
        OptionError: the folder ``out`` is not empty.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise OptionError(f"{out}: expected a new folder, or an empty one")
    with (
        pulse() as server,
        _midi_port() as notes,
        contextlib.closing(Show(out / "show", seed, guests, server, notes)) as show,
    ):
        yield show
