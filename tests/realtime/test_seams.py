"""Somebody else's package adds a source, a receiver, a backend and a voice, and a show plays through them."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pyanticip.errors import OptionError, RigError
from pyanticip.motion.load import load_motion
from pyanticip.motion.recording import Raw, read_recording
from realtime.programs.demo import PERFORMANCE
from realtime.programs.live import replay
from realtime.programs.render import render
from realtime.programs.send import send
from realtime.rig import Rig, load_rig
from realtime.seams import SOURCES
from realtime.sockets import free_port
from realtime.sources.replay import open_show
from realtime.sources.udp import UdpSource
from realtime.step.open import open_backend

STRANGER = '''
import numpy as np
from pydantic import BaseModel
from pyanticip.motion.datagrams import datagrams
from realtime.sinks.base import ControlFrame
from realtime.step.base import StepBackend, StepResult


class Backwards:
    """A suit whose datagrams are msgpack, read from behind, in pairs."""

    port, wire, native = 40123, "msgpack", False

    def decode(self, datagram):
        if not datagram.startswith(b"!"):
            raise ValueError("not ours")
        return [datagram[:0:-1]]

    def encode(self, clip, *, rate, loop, unix_time):
        for t_ns, datagram in datagrams(clip, "msgpack", rate=rate, loop=loop):
            yield t_ns, b"!" + datagram[::-1]


class Lines:
    """Writes the pitch of every frame into a file."""

    class Config(BaseModel):
        path: str
        every: int = 1

    def __init__(self, config):
        self.name = f"lines {config.path}"
        self.config, self.sent, self.file = config, 0, open(config.path, "w")

    def announce(self, extras): ...

    def send(self, frame: ControlFrame):
        if frame.seq >= 0 and frame.seq % self.config.every == 0:
            self.sent += 1
            self.file.write(f"{frame.params[0]}\\n")

    def counters(self):
        return {"sent": self.sent}

    def close(self):
        self.file.close()


class Flat(StepBackend):
    """A model that says the same for ever."""

    name = "flat"

    def __init__(self, checkpoint):
        self.resets = 0

    def step(self, rows):
        params = np.full((8, 5), 0.625, np.float32)
        return StepResult(params, np.zeros((2, 25), np.float32), np.zeros(7, np.float32), 1.0, True)

    def reset(self):
        self.resets += 1


class Tone:
    """Half the parameter pitch, as a constant."""

    class Config(BaseModel):
        level: float = 0.5

    sample_rate, latency = 48_000.0, 0

    def __init__(self, sample_rate, config):
        self.level, self.position, self.pitch = config.level, 0, 0.0

    def set(self, index, value):
        self.pitch = value if index == 0 else self.pitch

    def params(self, values):
        self.pitch = float(values[0])

    def event(self, index, strength, seconds): ...

    def fade(self, value, seconds): ...

    def render(self, samples):
        self.position += samples
        return np.full((samples, 2), self.level * self.pitch, np.float32)
'''
METADATA = """
[pyanticip.sources]
backwards = stranger:Backwards
broken = stranger:NotThere
mocopi = stranger:Backwards

[pyanticip.sinks]
lines = stranger:Lines

[pyanticip.backends]
flat = stranger:Flat

[pyanticip.voices]
tone = stranger:Tone
"""


@pytest.fixture(autouse=True)
def stranger(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as pip leaves it: a module, and its metadata."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "stranger.py").write_text(STRANGER)
    about = folder / "stranger-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(METADATA)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    return folder


def frames_of(items: object) -> int:
    return sum(1 for _ in items)  # type: ignore[attr-defined]


def test_a_source_is_heard_decoded_and_recorded_as_native(tmp_path: Path) -> None:
    port = free_port()
    rig = load_rig(None, {"source": {"kind": "backwards", "port": port}})
    assert Rig.model_validate({"source": {"kind": "backwards"}}).source.listen == ("127.0.0.1", 40123)
    source = UdpSource(rig.source.kind, *rig.source.listen)
    heard: list[tuple[bytes, str]] = []

    async def listen() -> None:
        source.start(asyncio.get_running_loop(), lambda data, arrival, sender: heard.append((data, sender)))
        await asyncio.to_thread(send, PERFORMANCE, "backwards", "127.0.0.1", port, seconds=0.3)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"noise", ("127.0.0.1", port))
        end = time.monotonic() + 3.0
        while (not heard or heard[-1][0] != b"") and time.monotonic() < end:
            await asyncio.sleep(0.01)

    try:
        asyncio.run(listen())
    finally:
        source.close()
    _, items = open_show(PERFORMANCE)
    native = [item.data for item, _ in zip(items, heard[:-1], strict=False)]  # type: ignore[union-attr]
    assert [data for data, _ in heard[:-1]] == native
    assert len(native) > 10
    assert heard[-1][0] == b"", "what cannot be decoded reaches the front as a malformed datagram"


def test_a_sink_gets_every_frame_and_its_table_is_checked(tmp_path: Path) -> None:
    table = {"kind": "lines", "path": str(tmp_path / "pitch"), "every": 2}
    alone = {"model": {"backend": "flat"}, "memory": {"enabled": False}}
    tree = {"osc": [], "sink": [table], **alone, "control": {"enabled": False}}
    rig = load_rig(None, {**tree, "record": str(tmp_path / "take.anticip")})
    kind, items = open_show(PERFORMANCE)
    report = replay(items, kind, rig, speed=None, seconds=2.0, say=print)
    written = (tmp_path / "pitch").read_text().splitlines()
    assert report["sinks"][f"lines {table['path']}"]["sent"] == len(written) > 45
    assert float(written[40]) == pytest.approx(0.625, abs=1e-3), "the flat model's pitch"
    recording = read_recording(tmp_path / "take.anticip")
    assert recording.header["rig"]["sink"] == [table]
    assert any(isinstance(record, Raw) for record in recording)
    for wrong, says in (
        ({"kind": "lines"}, "command line: sink.0.path: field required"),
        ({"kind": "lines", "path": "x", "every": "often"}, "sink.0.every: input should be a valid integer"),
        ({"kind": "fax"}, "sink.0.kind: expected one of osc, midi, link, lines, got 'fax'"),
    ):
        with pytest.raises(RigError, match=says):
            load_rig(None, {"sink": [wrong]})


def test_a_backend_steps_by_its_name() -> None:
    backend = open_backend("flat")
    assert (backend.name, backend.hidden, backend.codes, backend.manifest) == ("flat", 0, 0, None)
    backend.prewarm()
    backend.close()
    with pytest.raises(OptionError, match="no plans"):
        backend.steer(np.zeros(3, np.float32))
    with pytest.raises(OptionError, match="one of auto, rust, torch, cuda-graph, flat, got 'sharp'"):
        open_backend("sharp")
    with pytest.raises(RigError, match=r"command line: model\.backend: .*got 'sharp'"):
        load_rig(None, {"model": {"backend": "sharp"}})


def test_a_voice_plays_what_is_rendered(tmp_path: Path) -> None:
    import wave

    synth = {"preset": "tone", "options": {"level": 0.4}}
    rig = load_rig(None, {"synth": synth, "model": {"backend": "flat"}, "memory": {"enabled": False}})
    render(PERFORMANCE, tmp_path / "out.wav", rig=rig, seconds=1.0, bits=16)
    with wave.open(str(tmp_path / "out.wav")) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32767
    assert sound.max() == pytest.approx(0.4 * 0.625, abs=0.01)
    with pytest.raises(RigError, match=r"synth\.options\.level: input should be a valid number"):
        load_rig(None, {"synth": {"preset": "tone", "options": {"level": "loud"}}})
    with pytest.raises(RigError, match=r"synth\.preset: expected one of default, .*, tone, got 'harp'"):
        load_rig(None, {"synth": {"preset": "harp"}})


def test_built_in_names_cannot_be_taken_and_a_broken_package_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert SOURCES.names() == (
        "mocopi",
        "vmc",
        "xsens",
        "rokoko",
        "axis",
        "natnet",
        "msgpack",
        "vrchat",
        "phone",
        "wek",
        "osc",
        "backwards",
        "broken",
    )
    assert SOURCES.load("mocopi")().native
    with pytest.raises(OptionError, match=r"source 'broken': stranger:NotThere cannot be imported \(Attr"):
        SOURCES.load("broken")
    clip = load_motion(PERFORMANCE)
    assert frames_of(SOURCES.load("vmc")().encode(clip, rate=None, loop=False, unix_time=None)) > 100
