"""Real receiver programs that play what `pyanticip replay` sends, and a recording of each on one clock."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pythonosc.osc_bundle import OscBundle
from pythonosc.osc_message_builder import OscMessageBuilder

from realtime.programs.demo import PERFORMANCE
from realtime.sockets import free_port
from support.wire import wait_for

RATE = 48_000
FOLDERS = Path(__file__).resolve().parents[2] / "examples" / "receivers"
#: Programs that each folder needs; the last one plays.
PROGRAMS = {
    "supercollider": ("scsynth", "sclang"),
    "scsynth": ("oscsend", "scsynth"),
    "puredata": ("pd",),
    "csound": ("csound",),
    "chuck": ("chuck",),
}
ENVIRONMENT = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_DISABLE_SANDBOX": "1"}
#: Messages of the programs on a machine without network, screen or real-time priority, or on a busy one.
HARMLESS = re.compile("(?i)zeroconf|webenginecontext|rtjack: xrun|realtime|real-time|scheduling")


def write_moving_part(path: Path) -> Path:
    """Write the part of the performance that moves a lot, from frame 425 on."""
    lines = PERFORMANCE.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Frames:"))
    frames = lines[at + 2 + 425 :]
    path.write_text("\n".join([*lines[:at], f"Frames: {len(frames)}", lines[at + 1], *frames]) + "\n")
    return path


def missing(name: str) -> list[str]:
    return [program for program in PROGRAMS[name] if shutil.which(program) is None]


@dataclass
class Recording:
    """Sound of one receiver, (samples, 2), and its output."""

    sound: NDArray[np.float32]
    log: str


@dataclass
class Concert:
    """Values sent and sound recorded; all times are in seconds of the recording."""

    recordings: dict[str, Recording] = field(default_factory=dict)
    #: Arrival time and the eight parameters.
    sent: list[tuple[float, list[float]]] = field(default_factory=list)
    #: Due time, kind, strength; without cancelled ones.
    events: list[tuple[float, str, float]] = field(default_factory=list)
    cancelled: list[tuple[float, str]] = field(default_factory=list)
    #: Whether each sample was recorded; a busy machine loses some.
    there: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    panic: float = 0.0
    resumed: float = 0.0
    killed: float = 0.0


class Listener(threading.Thread):
    """Stores all datagrams with their arrival times."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.datagrams: list[tuple[float, bytes]] = []
        self.start()

    def run(self) -> None:
        while data := self.sock.recv(65536):
            self.datagrams.append((time.time(), data))

    def notes(self) -> Iterator[tuple[float, float, str, list[float]]]:
        """Arrival time, due time, address and arguments of each message."""
        for now, data in self.datagrams:
            if data.startswith(b"#bundle"):  # not a reply to a command
                bundle = OscBundle(data)
                for m in bundle:
                    yield now, bundle.timestamp, m.address, list(m.params)


class Player:
    """One receiver's program, from a copy of its folder that listens at a free port."""

    def __init__(self, name: str, folder: Path, server: str) -> None:
        self.name, self.port = name, free_port()
        self.folder = shutil.copytree(FOLDERS / name, folder / name)
        self.rig = (self.folder / "rig.toml").read_text()
        known = re.search(r"^port = (\d+)$", self.rig, re.M)
        assert known
        # Environment variables in the rig's comment.
        settings = dict(re.findall(r"\b(SC_\w+)=(\S+)", self.rig))
        settings |= {"JACK_DEFAULT_SERVER": server, "XDG_RUNTIME_DIR": str(self.folder)}
        self.rig = self.rig.replace(known[0], f"port = {self.port}")
        file = next(path for path in self.folder.iterdir() if path.suffix in {".scd", ".pd", ".csd", ".ck"})
        if name in ("puredata", "csound", "chuck"):
            text = file.read_text()
            assert text.count(known[1]) == 1
            file.write_text(text.replace(known[1], str(self.port)))
        if name == "supercollider":  # its server is a client of this JACK server
            start = self.folder / "start.scd"
            start.write_text(
                f's.addr = NetAddr("127.0.0.1", {free_port()}); s.options.device = "{server}:{name}";\n'
                f's.options.maxLogins = 1; "{file}".load;\n'
            )
        self.command, self.ready = {
            "supercollider": (["sclang", "-u", str(self.port), "start.scd"], "anticip: ready"),
            "scsynth": (["scsynth", "-u", str(self.port), "-H", f"{server}:{name}"], "server ready"),
            "puredata": (
                ["pd", "-nogui", "-jack", "-jackname", name, "-channels", "2", "-stderr", file.name],
                "",
            ),
            "csound": (
                ["csound", "-odac:system:playback_", "-+rtaudio=jack", "-+jack_client=csound", file.name],
                "",
            ),
            "chuck": (["chuck", "--bufsize:256", file.name], ""),
        }[name]
        first = ["chrt", "--rr", "5"]  # the others request real-time priority themselves
        if (
            name == "csound"
            and subprocess.run([*first, "true"], capture_output=True, check=False).returncode == 0
        ):
            self.command = [*first, *self.command]
        self.log = self.folder / "log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**ENVIRONMENT, **settings},
                stdin=subprocess.PIPE,  # sclang exits without one
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self) -> None:
        wait_for(lambda: self.ready in self.output(), 30.0, f"{self.name}: {self.output()[-2000:]}")
        if self.name == "scsynth":
            subprocess.run(
                ["oscsend", "127.0.0.1", str(self.port), "/s_new", "siii", "anticip", "1000", "0", "0"],
                check=True,
            )

    def close(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):  # after SIGTERM no shared memory is left behind
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self.process.pid, number)
                self.process.wait(3)
        self.process.stdin.close()


@contextlib.contextmanager
def jack_server(rate: int = RATE) -> Iterator[str]:
    """The name of a private server with periods of 256 samples, at real-time priority where allowed."""
    name = f"receivers{os.getpid()}"
    environment = {**os.environ, "JACK_DEFAULT_SERVER": name}
    process = subprocess.Popen(
        ["jackd", "-n", name, "-d", "dummy", "-r", str(rate), "-p", "256"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: run_jack_tool(environment, "jack_lsp").returncode == 0, 30.0, "JACK")
        yield name
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_jack_tool(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """The output of a JACK tool; exit code 1 if it hangs while connecting, as they rarely do."""
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=10.0
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "")


class Recorder:
    """Two ports of each receiver, recorded by ``jack_recorder.py``."""

    def __init__(self, server: str, names: list[str], folder: Path) -> None:
        self._file = folder / "recorded.npz"
        self._environment = {**os.environ, "JACK_DEFAULT_SERVER": server}
        script = str(Path(__file__).with_name("jack_recorder.py"))
        ports = [f"{name}_{side}" for name in names for side in "lr"]
        self.process = subprocess.Popen(
            [sys.executable, script, server, str(self._file), *ports], stdin=subprocess.PIPE
        )

    def connect(self, name: str) -> None:
        """Connect the first two outputs of that program; one that does not play yet refuses."""

        def connected() -> bool:
            listed = run_jack_tool(self._environment, "jack_lsp", "-p").stdout
            found = re.findall(r"^(\S.*)\n\s+properties: output", listed, re.M)
            found = [port for port in found if port.lower().startswith(name)][:2]
            for port, side in zip(found, "lr", strict=False):
                run_jack_tool(self._environment, "jack_connect", port, f"recorder:{name}_{side}")
            listed = run_jack_tool(self._environment, "jack_lsp", "-c").stdout
            return len(re.findall(rf"^ +recorder:{name}_[lr]$", listed, re.M)) == 2

        wait_for(connected, 30.0, f"the ports of {name}")

    def close(self) -> tuple[Callable[[float], float], NDArray[np.float32], NDArray[np.bool_]]:
        """A function from Unix time to seconds of the recording; (2 * receivers, samples); valid samples."""
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        data = np.load(self._file)
        # The callback is a little late, sometimes more. The offset changes when the server stalls.
        offsets = data["times"] - data["frames"] / RATE
        offsets = np.array([np.min(offsets[max(i - 100, 0) : i + 101]) for i in range(len(offsets))])

        def place(unix: float) -> float:
            return float(unix - np.interp(unix, data["times"], offsets))

        return place, data["sound"], data["there"]


def play(folder: Path, file: Path, names: list[str], *, panic: float, resume: float, kill: float) -> Concert:
    """Play a motion file to these receivers at once: with a panic, a restart and the kill of the sender."""
    concert, plain, tagged = Concert(), Listener(), Listener()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(jack_server())
        # Csound first: 6.18 may crash where it finds other programs' ports.
        names = sorted(names, key=lambda name: name != "csound")
        recorder = Recorder(server, names, folder)
        stack.callback(recorder.process.kill)
        players = []
        for first in (True, False):
            started = [Player(name, folder, server) for name in names if (name == names[0]) is first]
            players += started
            for player in started:
                stack.callback(player.close)
            for player in started:
                player.wait()
                recorder.connect(player.name)
        control = free_port()
        rig = "\n".join(
            [
                *(player.rig for player in players),
                f'[[osc]]\nport = {plain.port}\nsend = ["params"]',
                f'[[osc]]\nport = {tagged.port}\nsend = ["event"]\nschedule = true',
                f"[control]\nport = {control}",
            ]
        )
        (folder / "rig.toml").write_text(rig)
        command = [sys.executable, "-P", "-m", "pyanticip", "replay", str(file), "--rig"]
        with (folder / "replay.log").open("w") as log:
            sender = subprocess.Popen(
                [*command, str(folder / "rig.toml")], stdout=log, stderr=subprocess.STDOUT
            )
        stack.callback(sender.wait)
        stack.callback(sender.kill)
        wait_for(lambda: plain.datagrams, 30.0, "the first frame: " + (folder / "replay.log").read_text())
        start_s = time.time()

        def until(seconds: float) -> float:
            time.sleep(max(start_s + seconds - time.time(), 0.0))
            return time.time()

        def command_to(name: str) -> None:
            dgram = OscMessageBuilder(f"/anticip/control/{name}").build().dgram
            plain.sock.sendto(dgram, ("127.0.0.1", control))

        concert.panic = until(panic)
        command_to("panic")
        concert.resumed = until(resume)
        command_to("start")
        concert.killed = until(kill)
        # As if the machine failed; otherwise the guard would fade out (tests/realtime/test_deaths.py).
        subprocess.run(["pkill", "-KILL", "-P", str(sender.pid), "-f", "realtime.sinks.guard"], check=True)
        sender.kill()
        until(kill + 3.5)
        place, sound, concert.there = recorder.close()
        logs = [player.output() for player in players]
    for i, name in enumerate(names):
        concert.recordings[name] = Recording(sound[2 * i : 2 * i + 2].T, logs[i])
    concert.sent = [(place(at), p) for at, _, address, p in plain.notes() if address == "/anticip/params"]
    for at, due, address, values in tagged.notes():
        kind = address.removeprefix("/anticip/event/")
        if kind.endswith("/cancel"):
            kind, off = kind.removesuffix("/cancel"), place(at + values[0])
            event = min((e for e in concert.events if e[1] == kind), key=lambda e: abs(e[0] - off))
            concert.events.remove(event)
            concert.cancelled.append(event[:2])
        else:
            concert.events.append((place(due), kind, values[0]))
    concert.panic, concert.resumed, concert.killed = map(
        place, (concert.panic, concert.resumed, concert.killed)
    )
    return concert
