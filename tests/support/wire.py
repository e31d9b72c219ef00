"""Helpers to run the program as a process, for loopback sockets and OSC, and for waiting."""

import contextlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from pythonosc.osc_bundle import OscBundle
from pythonosc.osc_message import OscMessage
from pythonosc.osc_message_builder import OscMessageBuilder
from rich.console import Console

from pyanticip.cli import cli
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.osc import OscSink


def start(*words: str, cwd: Path, **more: Any) -> subprocess.Popen[str]:
    """Start ``pyanticip WORDS`` with piped output."""
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
    return subprocess.Popen([sys.executable, "-P", "-m", "pyanticip", *words], cwd=cwd, **piped)


def run(*words: str, cwd: Path, timeout: float = 120.0) -> str:
    """The output of ``pyanticip WORDS``, which must succeed."""
    process = start(*words, cwd=cwd)
    try:
        output, errors = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return output


def run_here(*words: str, cwd: Path) -> str:
    """As :func:`run`, but in this process."""
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def console_text(renderable: Any, width: int = 140, **options: Any) -> str:
    """A renderable of rich as text."""
    console = Console(width=width, **options)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def udp(timeout: float = 0.0) -> socket.socket:
    """A socket bound to a free port; non-blocking without a timeout."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(timeout)
    return sock


class DatagramReceiver(threading.Thread):
    """A socket that is read continuously, since the system's buffer may hold only a few bundles."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.sock, self.datagrams = udp(0.3), list[bytes]()
        self.port = port_of(self.sock)
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        while True:
            try:
                self.datagrams.append(self.sock.recv(65536))
            except TimeoutError:
                if self._over.is_set():
                    return

    def close(self) -> list[bytes]:
        """All datagrams, once none has arrived for a while: some may still be on the way."""
        self._over.set()
        self.join()
        self.sock.close()
        return self.datagrams


def tcp_port() -> int:
    """A server port outside the ephemeral range: a client that connects too early could get it as its own."""
    while True:
        port = random.randrange(20_000, 30_000)
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("127.0.0.1", port))
            return port


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def message(address: str, *values: object) -> bytes:
    """An OSC message."""
    builder = OscMessageBuilder(address)
    for value in values:
        builder.add_arg(value)
    return bytes(builder.build().dgram)


def bundle(*parts: bytes, when: int = 1) -> bytes:
    """A bundle of messages and bundles with a time tag, by default "immediately"."""
    return b"#bundle\0" + when.to_bytes(8) + b"".join(len(part).to_bytes(4) + part for part in parts)


def command(name: str, *values: object) -> bytes:
    """A command of the remote control."""
    return message(f"/anticip/control/{name}", *values)


def messages(bundle: bytes) -> dict[str, list[Any]]:
    """Arguments by address."""
    return {m.address: list(m.params) for m in OscBundle(bundle) if isinstance(m, OscMessage)}


def heard_of(
    frame: ControlFrame, extras: Sequence[Any] = (), before: Sequence[Any] = (), **options: Any
) -> dict[str, list[Any]]:
    """What a receiver with these options gets of a frame; ``extras`` are announced after ``before``."""
    with udp(2) as ear:
        sink = OscSink(OscConfig(port=port_of(ear), **options))
        sink.announce(before)
        sink.announce(extras)
        sink.send(frame)
        sink.close()
        return messages(ear.recv(65536))


def arrived(sock: socket.socket) -> Iterator[bytes]:
    """Every datagram that has arrived at a non-blocking socket."""
    while True:
        try:
            yield sock.recv(65536)
        except BlockingIOError:
            return


def paced(count: int, rate: float = 50.0) -> Iterator[int]:
    """Numbers from 0, ``rate`` of them per second."""
    begun = time.monotonic()
    for n in range(count):
        yield n
        time.sleep(max(begun + (n + 1) / rate - time.monotonic(), 0.0))


def wait_for(condition: Callable[[], Any], seconds: float = 60.0, what: str = "it") -> Any:
    """Wait until a condition is true; returns its value. A busy machine starts a process in 20 s."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.02)
    return found
