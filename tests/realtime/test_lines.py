"""A terminal that does not read: the show plays on, and prints the lines once it does."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from support.stranger import Suit
from support.wire import arrived, port_of, udp, wait_for

from realtime.lines import threaded_say
from realtime.sockets import free_port


def test_lines_are_printed_in_order_and_completely() -> None:
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if line == "1":
            raise OSError("the terminal has gone")

    with threaded_say(say) as say_later:
        for n in range(500):
            say_later(str(n))
    assert lines == [str(n) for n in range(500)]


def test_printing_never_waits_and_dropped_lines_are_counted() -> None:
    lines: list[str] = []
    stuck, reads = threading.Event(), threading.Event()

    def say(line: str) -> None:
        stuck.set()
        if not reads.wait(5.0):
            reads.set()
        lines.append(line)

    with threaded_say(say) as say_later:
        say_later("first")
        assert stuck.wait(30.0)
        for n in range(1500):
            say_later(str(n))
        assert not lines
        reads.set()
        wait_for(lambda: len(lines) == 1001, 30.0, "what waits")
        say_later("last")
    assert lines == [
        "first",
        *map(str, range(1000)),
        "500 lines were dropped: the terminal did not read them",
        "last",
    ]


@contextlib.contextmanager
def full_pipe() -> Iterator[tuple[int, IO[bytes]]]:
    """A full pipe to write to, and its other end."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as other, os.fdopen(write, "wb", buffering=0):
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write, b"." * 4096)
        os.set_blocking(write, True)
        yield write, other


def read_until_exit(program: subprocess.Popen[bytes], pipe: IO[bytes]) -> str:
    """Everything read from the pipe until the program has exited successfully."""
    found: list[bytes] = []
    os.set_blocking(pipe.fileno(), False)

    def is_over() -> bool:
        found.append(pipe.read() or b"")
        return program.poll() is not None

    wait_for(is_over, 40.0, "its end")
    is_over()
    assert program.returncode == 0
    return b"".join(found).decode()


UNREAD = """
import sys
from realtime import lines
lines._CLOSE_TIMEOUT_S = 0.0
with lines.threaded_say(lambda line: print(line, file=sys.stderr, flush=True)) as say:
    for line in "abc":
        say(line)
"""


def test_a_program_exits_once_everything_is_read() -> None:
    with (
        full_pipe() as (pipe, other),
        subprocess.Popen([sys.executable, "-c", UNREAD], stderr=pipe) as program,
    ):
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                program.wait(1.0)
            assert read_until_exit(program, other).endswith("a\nb\nc\n")
        finally:
            program.kill()


@pytest.mark.slow
def test_a_show_plays_while_nobody_reads_its_output(tmp_path: Path) -> None:
    suit, ear = Suit(free_port()), udp()
    (tmp_path / "rig.toml").write_text(f"[control]\nport = {free_port()}\n")
    words = [
        *("live", "--rig", "rig.toml", "--source", f"mocopi://127.0.0.1:{suit.port}", "--no-model"),
        *("--osc", f"127.0.0.1:{port_of(ear)}"),
    ]
    with full_pipe() as (pipe, other), suit, ear:
        show = subprocess.Popen([sys.executable, "-m", "pyanticip", *words], stderr=pipe, cwd=tmp_path)
        try:
            received: list[bytes] = []
            wait_for(
                lambda: received.extend(arrived(ear)) or len(received) > 100, 40.0, "two seconds of bundles"
            )
            show.terminate()
            assert "receiving mocopi" in read_until_exit(show, other)
        finally:
            show.kill()


@pytest.mark.slow
def test_the_voice_plays_while_nobody_reads_its_output(tmp_path: Path) -> None:
    words = f"-m realtime.voice.synth --port {free_port()} --wav a.wav --device none --seconds 1"
    command = [sys.executable, *words.split(), "--options", '{"samples": "nowhere"}']
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        full_pipe() as (pipe, other),
        subprocess.Popen(command, **piped, stderr=pipe, cwd=tmp_path) as voice,
    ):
        try:
            wait_for((tmp_path / "a.wav").exists, 40.0, "the sound")
            lines = read_until_exit(voice, other)
            assert lines.index("reading samples") < lines.index("no sound")
        finally:
            voice.kill()
