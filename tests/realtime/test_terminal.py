"""Meters and keys in a real terminal: the display, the commands, and the restored terminal."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.pty_process import InTerminal
from support.stranger import Suit
from support.wire import console_text, port_of, run_here, udp

from pyanticip.motion.recording import Control, Output, Raw, read_recording
from realtime.monitor import keys
from realtime.monitor.keys import Keys, is_foreground
from realtime.monitor.screen import Meters, bar, bar_from_middle
from realtime.monitor.terminal import can_draw
from realtime.sockets import free_port

shown = partial(console_text, width=100, force_terminal=True)
FRAME: dict[str, Any] = {
    "seq": 7,
    "seconds": 1.25,
    "state": "playing",
    "scalars": [0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5],
    "params": [1.0] * 8,
    "extras": {},
    "events": [["onset", 0.8, 0.1], ["onset/cancel", 1.0, 0.1]],
    "tempo": [112.0, 0.5, 0.9],
    "trust": [0.25, 0.75] * 12,
    "way_ms": 0.6,
}
HEALTH: dict[str, Any] = {
    "state": "playing",
    "mode": "playing",
    "bypass": False,
    "recording": True,
    "lead_ms": 71.0,
    "source": "mocopi",
    "rate": 59.9,
    "lost": 3,
    "backend": "rust",
    "senders": [("10.0.0.1:4000", True, 9, 0), ("10.0.0.2:5000", False, 1, 0)],
    "away": [],
    "sinks": {
        "osc 127.0.0.1:9000": {"sent": 9, "refused": 0},
        "somebody's": {"sent": 9},
        "oscquery": {"sent": 9},
    },
}


def test_meters_show_the_newest_frame_sender_and_receivers() -> None:
    meters = Meters("pyanticip", keys=True)
    assert "waiting" in shown(meters)
    meters.set_frame(FRAME)
    meters.set_health(HEALTH)
    text = shown(meters)
    for words in (
        "playing", "1.2 s", "commitment", "pulse", "onset 0.80 at 1.2 s", "mocopi of 10.0.0.1:4000",
        "59.9 frames a second", "3 lost", "1 wait", "lead 71 ms", "tempo 112", "50 % foreseen",
        "model on rust", "recording", "osc 127.0.0.1:9000", "p Esc panic",
    ):  # fmt: skip
        assert words in text
    assert "cancel" not in text
    assert "of take" not in text
    assert "gone" not in text
    assert "meters" not in text
    assert "oscquery" not in text
    assert text.count("█" * 27) == 8
    assert max(map(len, text.splitlines())) < 200
    meters.set_health({**HEALTH, "rate": None, "senders": [("10.0.0.1:4000", True, 9, 5)]})
    assert "gone for 5 s" in shown(meters)
    assert "frames a second" not in shown(meters)
    # In a narrow terminal too, the newest event and how to end are not cut off.
    for second in range(3):
        meters.set_frame({**FRAME, "events": [["gesture/jump/enter", 0.5 + second / 10, 0.1]]})
    assert "enter 0.70 at 1.2 s" in shown(meters, width=60)
    for key in ("q quit", "r record"):
        assert key in shown(meters, width=60)


def test_meters_show_the_place_in_a_rehearsed_take() -> None:
    meters = Meters("pyanticip")
    meters.set_health(HEALTH)
    meters.set_frame({**FRAME, "place": [1, 61.52, 1.1, 0.9]})
    assert "at 61.5 s of take 1" in shown(meters)
    meters.set_frame({**FRAME, "place": [-1, 0.0, 1.0, 0.0]})
    assert "of take" not in shown(meters)


def test_meters_show_a_receiver_only_while_it_refuses() -> None:
    meters = Meters("pyanticip")
    refused = {"osc 127.0.0.1:9000": {"sent": 9, "refused": 9}}
    more = {"osc 127.0.0.1:9000": {"sent": 9, "refused": 12}}
    meters.set_health(HEALTH)
    meters.set_health({**HEALTH, "sinks": refused})
    assert "9000: nobody listens" in shown(meters)
    meters.set_health({**HEALTH, "sinks": more})
    assert "9000: nobody listens" in shown(meters)
    meters.set_health({**HEALTH, "sinks": more})
    assert "nobody" not in shown(meters)
    meters.set_health({**HEALTH, "away": ["osc 127.0.0.1:9000"]})
    assert "9000: cannot be reached" in shown(meters)
    # With many receivers, those in trouble are not cut off at the terminal's edge.
    many = {f"osc 127.0.0.1:{9000 + n}": {"sent": 9} for n in range(9)}
    meters.set_health({**HEALTH, "away": ["osc 127.0.0.1:9008"], "sinks": many})
    assert "9008: cannot be reached" in shown(meters, width=80)


@pytest.mark.parametrize("width", [20, 60, 80, 300])
def test_control_characters_in_names_are_removed(width: int) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\n"
    meters = Meters("pyanticip")
    meters.set_frame({**FRAME, "state": evil, "events": [[evil, 0.5, 0.1]]})
    sinks = {evil: {"sent": 1, "refused": 0}}
    meters.set_health(
        {**HEALTH, "source": evil, "senders": [(evil, True, 3, 0)], "backend": evil, "sinks": sinks}
    )
    text = shown(meters, width=width)
    assert "\x1b[2J" not in text
    assert not {"\x07", "\x9b", "\r"} & set(text)
    assert "\x1b]" not in text


@pytest.mark.parametrize(
    "broken", [{}, {**FRAME, "params": [1.0]}, {**FRAME, "seconds": "x"}, {"scalars": 3}]
)
def test_an_invalid_frame_leaves_the_meters_unchanged(broken: dict[str, Any]) -> None:
    meters = Meters("pyanticip")
    meters.set_frame(FRAME)
    with pytest.raises((LookupError, TypeError, ValueError)):
        meters.set_frame(broken)
    assert "1.2 s" in shown(meters)


@pytest.mark.parametrize(("value", "full"), [(0.0, 0), (1.0, 28), (2.0, 28), (-1.0, 0), (float("nan"), 0)])
def test_a_bar_is_as_long_as_its_value(value: float, full: int) -> None:
    assert str(bar(value, "red")).count("█") == full
    assert len(bar(value, "red")) == 28


@pytest.mark.parametrize(
    ("value", "drawn"),
    [
        (0.0, "    "),
        (0.5, "  █ "),
        (1.0, "  ██"),
        (-0.5, " █  "),
        (-0.75, "▐█  "),
        (-9.0, "██  "),
        (float("nan"), "    "),
    ],
)
def test_a_signed_bar_starts_in_the_middle(value: float, drawn: str) -> None:
    assert str(bar_from_middle(value, "red", 4)) == drawn


def test_zero_transition_pressure_has_no_bar() -> None:
    meters = Meters("pyanticip")
    meters.set_frame(FRAME)
    (line,) = (line for line in shown(meters).splitlines() if "transition pressure" in line)
    assert "█" not in line.split("0.00")[0]


def test_each_key_is_a_command(stage: Any) -> None:
    pipeline = stage().pipeline
    calls: list[tuple[object, ...]] = []
    actions: dict[str, Callable[..., object]] = {
        name: lambda *words, name=name: calls.append((name, *words))
        for name in ("panic", "start", "stop", "freeze", "bypass", "record/start", "record/stop")
    }
    pressed = Keys(pipeline, actions, lambda: calls.append(("quit",)), calls.append, lambda: None)  # type: ignore[arg-type]
    for key in "pPsxfbrq?\x1b":
        pressed._press(key.lower())
    assert [words[0] for words in calls] == [
        "panic", "panic", "start", "stop", "freeze", "bypass", "record/start", "quit", "panic",
    ]  # fmt: skip
    pipeline.mixer.set_mode("frozen")
    pipeline.mixer.bypass = True
    pipeline.tape = object()
    for key in "fbr":
        pressed._press(key)
    assert calls[-3:] == [("freeze", 0), ("bypass", 0), ("record/stop",)]


@pytest.mark.parametrize(
    ("pressed", "does"),
    [
        (b"\x1b", "panic"), (b"\x1b\x1b", "panic"), (b"\x1b[A", ""), (b"\x1bOP", ""), (b"\x1b[1;5C", ""),
        # F1 of the Linux console; an arrow with Alt; with Shift, and Home, in rxvt.
        (b"\x1b[[A", ""), (b"\x1b\x1b[A", ""), (b"\x1b[a", ""), (b"\x1b[7^", ""), (b"\x1b[[Bs", "start"),
        # Alt with a letter.
        (b"\x1bp", "panic"), (b"\x1bz", ""),
    ],
)  # fmt: skip
def test_esc_alone_is_a_panic(stage, monkeypatch, pressed, does):
    read, write = os.pipe()
    calls: list[str] = []
    actions = {name: lambda name=name: calls.append(name) for name in ("panic", "start")}
    monkeypatch.setattr(keys, "is_foreground", lambda stream: True)
    with os.fdopen(read, "rb", buffering=0) as there:
        monkeypatch.setattr(keys.sys, "stdin", there)
        os.write(write, pressed)
        os.close(write)
        Keys(stage().pipeline, actions, pytest.fail, calls.append, lambda: None)._on_readable()  # type: ignore[arg-type]
    assert calls == ([does] if does else [])


def test_keys_in_the_background_are_not_polled_busily(stage, monkeypatch):
    """In the background, while the foreground process reads nothing."""
    looks: list[bool] = []
    ours = True

    def front(stream: object) -> bool:
        looks.append(ours)
        return ours

    async def away() -> None:
        nonlocal ours
        pressed_keys.start(asyncio.get_running_loop())
        ours = False
        os.write(write, b"p")
        await asyncio.sleep(0.2)
        few = len(looks)
        ours = True
        async with asyncio.timeout(5):
            while not calls:
                await asyncio.sleep(0.01)
        ours = False
        pressed_keys.close()
        assert few < 5

    read, write = os.pipe()
    calls: list[str] = []
    with os.fdopen(read) as pipe, os.fdopen(write, "w"):
        monkeypatch.setattr(sys, "stdin", pipe)
        monkeypatch.setattr(keys, "is_foreground", front)
        monkeypatch.setattr(keys, "raw_keys", lambda descriptor: [])
        actions = {"panic": lambda: calls.append("panic")}
        pressed_keys = Keys(stage().pipeline, actions, pytest.fail, pytest.fail, lambda: None)  # type: ignore[arg-type]
        asyncio.run(away())
    assert calls == ["panic"]


def test_keys_are_polled_where_a_terminal_cannot_be_watched(stage, monkeypatch):
    """As on Windows."""
    typed, calls = iter(["", "P", ""]), []

    async def play() -> None:
        polled.start(asyncio.get_running_loop())
        async with asyncio.timeout(5):
            while not calls:
                await asyncio.sleep(0.01)
        polled.close()

    monkeypatch.setattr(keys, "is_foreground", lambda stream: True)
    monkeypatch.setattr(keys, "raw_keys", lambda descriptor: None)
    monkeypatch.setattr(keys, "cooked_keys", lambda descriptor, before: None)
    monkeypatch.setattr(keys, "pressed_keys", lambda: next(typed, ""))
    with Path("/dev/null").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        actions = {"panic": lambda: calls.append("panic")}
        polled = Keys(stage().pipeline, actions, pytest.fail, pytest.fail, lambda: None)  # type: ignore[arg-type]
        asyncio.run(play())
    assert calls == ["panic"]


def test_without_a_terminal_nothing_is_read_or_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/null").open() as nothing:
        assert not is_foreground(nothing)
        monkeypatch.setattr(keys.sys, "stdin", nothing)
        Keys(None, {}, print, print, print).start(None)  # type: ignore[arg-type]
    assert not can_draw()


class Live(Suit):
    """A mocopi of another program, and a socket for the show's output."""

    def __init__(self) -> None:
        super().__init__(free_port())
        self.control, self.ear = free_port(), udp()

    def options(self, folder: Path) -> list[str]:
        (folder / "rig.toml").write_text(f"[control]\nport = {self.control}\n")
        osc = f"127.0.0.1:{port_of(self.ear)}"
        return [
            "live", "--rig", "rig.toml", "--source", f"mocopi://127.0.0.1:{self.port}", "--osc", osc,
            "--no-model",
        ]  # fmt: skip


@pytest.fixture
def suit() -> Iterator[Live]:
    made = Live()
    yield made
    made.over.set()
    made.ear.close()


@pytest.mark.slow
def test_a_show_in_a_terminal_draws_meters_and_handles_keys(suit: Live, tmp_path: Path) -> None:
    words = (*suit.options(tmp_path), "--record", "take.anticip")
    with closing(InTerminal(*words, folder=tmp_path)) as show:
        show.wait_for("no mocopi yet")
        assert termios.tcgetattr(show.slave) != show.before, "keys come one by one"
        suit.start()
        place = show.wait_for("mocopi of 127.0.0.1:")
        show.wait_for("frames a second", after=place)
        assert "receiving mocopi" in show.text
        show.press("p")
        place = show.wait_for("pyanticip   panic", after=place)
        time.sleep(0.3)
        show.press("s")
        place = show.wait_for("pyanticip   playing", after=place)
        show.press("\x1b[A")  # an arrow is not Esc
        show.press("f")
        place = show.wait_for("pyanticip   frozen", after=place)
        show.press("r")
        place = show.wait_for("recorded take.anticip", after=place)
        show.press("r")
        place = show.wait_for("recording to take-", after=place)
        show.process.send_signal(signal.SIGINT)
        assert show.end() == 0
        assert show.restored()
        assert " frames in" in show.text.splitlines()[-3]
    assert len(list(tmp_path.glob("take-*.anticip"))) == 1
    take = tmp_path / "take.anticip"
    commands = [r.name for r in read_recording(take) if isinstance(r, Control)]
    assert [name for name in commands if name in ("panic", "start", "freeze")] == ["panic", "start", "freeze"]
    played = ("replay", str(take), "--speed", "max", "--no-model", "--osc", f"127.0.0.1:{port_of(suit.ear)}")
    said = run_here(*played, "--record", "again.anticip", "--json", cwd=tmp_path)
    assert json.loads(said)["counters"]["frames"] > 10
    first, again = (
        [(r.t_ns, r.seq, tuple(r.params)) for r in read_recording(path) if isinstance(r, Output)]
        for path in (take, tmp_path / "again.anticip")
    )
    # The recording was stopped during the show: what followed its last datagram is unknown.
    last = max(r.t_ns for r in read_recording(take) if isinstance(r, Raw))
    first = [output for output in first if output[0] <= last]
    assert len(first) > 20
    assert first == again[: len(first)], "a key has the same effect in a replay as in the show"


@pytest.mark.slow
def test_an_internal_error_restores_the_terminal(suit: Live, tmp_path: Path) -> None:
    broken = (
        "from realtime.show import Show\n"
        "async def fails(self):\n    import asyncio\n    await asyncio.sleep(1)\n"
        "    self.pipeline.close = None\n"
        "    self._ended.set()\n"
        "Show._watch = fails\n"
        "from pyanticip.cli import main\nmain()\n"
    )
    with closing(InTerminal(*suit.options(tmp_path), folder=tmp_path, program=("-c", broken))) as show:
        assert show.end() == 1
        assert "TypeError" in show.text
        assert show.restored()


@pytest.mark.slow
def test_killed_meters_are_restarted(suit: Live, tmp_path: Path) -> None:
    suit.start()
    with closing(InTerminal(*suit.options(tmp_path), folder=tmp_path)) as show:
        place = show.wait_for("mocopi of 127.0.0.1:")
        children = Path(f"/proc/{show.process.pid}/task/{show.process.pid}/children")
        if not children.exists():
            pytest.skip("children are found through /proc")
        (child,) = (
            pid
            for pid in children.read_text().split()
            if b"realtime.monitor.screen" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        subprocess.run(["kill", "-9", child], check=True)
        place = show.wait_for("the meters ended (code -9); restarting it", after=place)
        show.wait_for("mocopi of 127.0.0.1:", after=place)
        show.process.send_signal(signal.SIGTERM)
        assert show.end() == 0
        assert show.restored()
        assert " frames in" in show.text.splitlines()[-3]


@pytest.mark.slow
def test_no_terminal_no_escape_sequences(suit: Live, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pyanticip", *suit.options(tmp_path), "--seconds", "1"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr.startswith("listening for mocopi at 127.0.0.1:")
    words = [*suit.options(tmp_path), "--seconds", "1", "--json"]
    with closing(InTerminal(*words, folder=tmp_path)) as terminal:
        assert terminal.end() == 0
        assert "\x1b" not in terminal.raw
