"""A third-party package adds a source, a sink, a backend and a voice, and a show plays through them."""

import asyncio
import json
import re
import socket
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from click.testing import CliRunner
from support.other_package import METADATA, STRANGER
from support.sounds import read_wav

from pyanticip.cli import cli
from pyanticip.cli.play import _show_answer
from pyanticip.errors import MotionError, OptionError, RigError
from pyanticip.motion.load import load_motion
from pyanticip.motion.npz import save_npz
from pyanticip.motion.recording import Raw, read_recording
from realtime.clock import OfflineClock
from realtime.programs import doctor as doctor_module
from realtime.programs.demo import PERFORMANCE
from realtime.programs.live import replay
from realtime.programs.render import render
from realtime.programs.send import send
from realtime.rig import Rig, load_rig
from realtime.seams import SINKS, SOURCES, SlowCalls
from realtime.sinks.base import Sink
from realtime.sockets import free_port
from realtime.sources.arrivals import Arrivals, recognise, usual_ports
from realtime.sources.replay import open_show
from realtime.sources.udp import UdpSource
from realtime.stage import assemble
from realtime.step.open import open_backend
from realtime.voice.open import open_voice
from realtime.voice.synth import VoicePlayer


@pytest.fixture(autouse=True)
def _external_package(install: Callable[..., None]) -> None:
    install("stranger", STRANGER, METADATA)


def test_a_source_of_a_package_is_received_and_decoded() -> None:
    port = free_port()
    rig = load_rig(None, {"source": {"kind": "backwards", "port": port}})
    assert Rig.model_validate({"source": {"kind": "backwards"}}).source.listen == ("127.0.0.1", 40123)
    source = UdpSource(rig.source.kind, *rig.source.listen)
    received: list[tuple[bytes, str]] = []

    async def listen() -> None:
        source.start(
            asyncio.get_running_loop(), lambda data, arrival, sender: received.append((data, sender))
        )
        await asyncio.to_thread(send, PERFORMANCE, "backwards", "127.0.0.1", port, seconds=0.3)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"noise", ("127.0.0.1", port))
        end = time.monotonic() + 3.0
        while (not received or received[-1][0] != b"") and time.monotonic() < end:
            await asyncio.sleep(0.01)

    try:
        asyncio.run(listen())
    finally:
        source.close()
    _, items = open_show(PERFORMANCE)
    native = [item.data for item, _ in zip(items, received[:-1], strict=False)]  # type: ignore[union-attr]
    assert [data for data, _ in received[:-1]] == native
    assert len(native) > 10
    assert received[-1][0] == b"", "what cannot be decoded reaches the front as an alien datagram"


def test_a_decoder_that_accepts_anything_claims_only_motion() -> None:
    body = next(iter(open_show(PERFORMANCE)[1])).data  # type: ignore[union-attr]
    assert recognise(b"!" + body[::-1]) == "backwards"
    assert recognise(b"?" + body[::-1]) == "failing"
    assert recognise(b"hello") is None


def test_a_failing_or_slow_decoder_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlowCalls, "_SLOW_NS", -1)
    lines: list[str] = []
    received: list[bytes] = []
    with closing(UdpSource("failing", "127.0.0.1", 0, say=lines.append)) as source:
        receive = source._decoding(lambda data, arrival, sender: received.append(data))
        for datagram in (b"!one", b"?two", b"!one", b"!one"):
            receive(datagram, 0, "suit")
    assert received == [b"eno", b"", b"owt", b"owt", b"", b"eno", b"", b"eno", b""], "what was given is kept"
    assert [re.sub(r"\d+", "N", line) for line in lines] == [
        "failing cannot decode: RuntimeError: no more",
        "decoding failing takes N ms: all else waits for it",
    ]


@pytest.mark.parametrize(
    ("took_ms", "reports"), [([6, 6, 6], 1), ([6, 1, 1] * 9, 1), ([6, 1, 1, 1, 1] * 9, 0), ([1, 300, 300], 1)]
)
def test_slow_calls_are_reported_once(took_ms, reports, monkeypatch):
    calls, lines = SlowCalls(), list[str]()
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)
    for ms in took_ms:
        calls.record("sink", -1_000_000 * ms, "sink", lines.append)
    assert len(lines) == reports


def test_a_decoder_that_fails_to_open_is_reported_once_and_retried() -> None:
    lines: list[str] = []
    received: list[bytes] = []
    with closing(UdpSource("flaky", "127.0.0.1", 0, say=lines.append)) as source:
        receive = source._decoding(lambda data, arrival, sender: received.append(data))
        for arrival in (0, 0, 10**10, 10**10):
            receive(b"!one", arrival, "suit")
    assert received == [b"", b"eno"] * 2
    reason = "source 'flaky': stranger:Flaky cannot be opened (RuntimeError: no mood)"
    assert (lines, source.trouble) == ([f"flaky cannot decode: OptionError: {reason}"], "")


def test_a_source_that_cannot_send_is_one_line() -> None:
    for kind, says in (
        ("noencode", "AttributeError: 'NoEncode' object has no attribute 'encode'"),
        ("failing", "RuntimeError: no body"),
    ):
        with pytest.raises(OptionError, match=rf"source '{kind}' cannot send \({says}\)"):
            send(PERFORMANCE, kind, "127.0.0.1", free_port(), seconds=0.1)


def test_a_sink_gets_every_frame_and_its_table_is_checked(tmp_path: Path) -> None:
    table = {"kind": "lines", "path": str(tmp_path / "pitch"), "every": 2}
    alone = {"model": {"backend": "flat"}, "memory": {"enabled": False}}
    tree = {"osc": [], "sink": [table], **alone, "control": {"enabled": False}}
    rig = load_rig(None, {**tree, "record": str(tmp_path / "take.anticip")})
    kind, items = open_show(PERFORMANCE)
    report = replay(items, kind, rig, speed=None, seconds=2.0, say=print)
    written = (tmp_path / "pitch").read_text().splitlines()
    assert report["sinks"][f"lines {table['path']}"]["sent"] == len(written) > 45
    json.dumps(report["sinks"])  # as the monitor gets them
    assert float(written[40]) == pytest.approx(0.625, abs=1e-3), "the flat model's pitch"
    recording = read_recording(tmp_path / "take.anticip")
    assert recording.header["rig"]["sink"] == [table]
    assert any(isinstance(record, Raw) for record in recording)
    for wrong, says in (
        ({"kind": "lines"}, "command line: sink.0.path: field required"),
        ({"kind": "lines", "path": "x", "every": "often"}, "sink.0.every: input should be a valid integer"),
        ({"kind": "lines", "path": "x", "evry": 2}, "sink.0.evry: unknown key; did you mean every?"),
        ({"kind": "nooptions", "path": "x"}, "sink.0.path: unknown key; expected none$"),
        ({"kind": "fax"}, "sink.0.kind: expected one of osc, midi, midi-clock, link, bare, .*, got 'fax'"),
    ):
        with pytest.raises(RigError, match=says):
            load_rig(None, {"sink": [wrong]})


def test_a_failing_or_slow_sink_is_reported_once_and_others_continue(tmp_path, monkeypatch):
    monkeypatch.setattr(SlowCalls, "_SLOW_NS", -1)
    tables = [{"kind": kind, "path": str(tmp_path / kind)} for kind in ("failingsink", "lines")]
    tree = {"osc": [], "sink": tables, "model": {"enabled": False}, "memory": {"enabled": False}}
    kind, items = open_show(PERFORMANCE)
    lines: list[str] = []
    report = replay(items, kind, load_rig(None, tree), speed=None, seconds=2.0, say=lines.append)
    written = (tmp_path / "lines").read_text().splitlines()
    assert report["sinks"][f"lines {tmp_path / 'lines'}"]["sent"] == len(written) > 90
    assert report["counters"]["errors"] > 90
    assert report["sinks"]["failingsink"] == {"uncounted": 1}
    assert "failingsink: 1 uncounted" in _show_answer(report)[1]
    assert [re.sub(r"\d+ ms", "N ms", line) for line in lines if "failed" in line or "takes" in line] == [
        "failingsink failed, continuing: RuntimeError: not now",
        f"lines {tmp_path / 'lines'} takes N ms: all else waits for it",
    ]


def test_a_backend_steps_by_its_name() -> None:
    backend = open_backend("flat")
    assert (backend.name, backend.hidden, backend.codes, backend.manifest) == ("flat", 0, 0, None)
    backend.prewarm()
    with pytest.raises(OptionError, match="no plans"):
        backend.steer(np.zeros(3, np.float32))
    with pytest.raises(OptionError, match="cuda-graph, badcore, bare, failingmodel, flat, got 'sharp'"):
        open_backend("sharp")
    with pytest.raises(RigError, match=r"command line: model\.backend: .*got 'sharp'"):
        load_rig(None, {"model": {"backend": "sharp"}})


def test_a_model_failure_offline_is_reported_once_and_counted(tmp_path: Path) -> None:
    rig = tmp_path / "rig.toml"
    rig.write_text('osc = []\nmodel.backend = "failingmodel"\nmemory.enabled = false\n')
    (tmp_path / "takes").mkdir()
    for name in "ab":
        save_npz(load_motion(PERFORMANCE)[:60], tmp_path / "takes" / f"{name}.npz")
    take, done = str(tmp_path / "takes" / "a.npz"), ", 60 frames without the model"
    for command, says in (
        (["render", take, "--out", str(tmp_path / "a.csv")], done),
        (["render", str(tmp_path / "takes"), "--out", str(tmp_path / "made"), "--workers", "1"], ", 120 fr"),
        (["replay", take, "--speed", "max"], done),
    ):
        answer = CliRunner().invoke(cli, [*command, "--rig", str(rig)])
        assert answer.exit_code == 0, answer.stderr
        assert says in answer.stdout
        lines = [line for line in answer.stderr.splitlines() if "failed" in line]
        assert lines == ["the model failed, the scalars play: RuntimeError: no grip"], command


def test_sys_exit_in_a_package_does_not_end_the_show(tmp_path, monkeypatch):
    import stranger

    def leave(*args: object) -> NoReturn:
        sys.exit(3)

    for name in ("send", "announce", "counters", "close"):
        monkeypatch.setattr(stranger.FailingSink, name, leave)
    monkeypatch.setattr(stranger.FailingModel, "step", leave)
    monkeypatch.setattr(stranger.Failing, "decode", leave)
    sinks = [{"kind": "failingsink", "path": "x"}, {"kind": "lines", "path": str(tmp_path / "lines")}]
    tree = {"osc": [], "sink": sinks, "model": {"backend": "failingmodel"}, "memory": {"enabled": False}}
    kind, items = open_show(PERFORMANCE)
    lines: list[str] = []
    replay(items, kind, load_rig(None, tree), speed=None, seconds=1.0, say=lines.append)
    assert [line for line in lines if "failed" in line] == [
        "failingsink failed, continuing: SystemExit: 3",
        "the model failed, the scalars play: SystemExit: 3",
    ]
    assert len((tmp_path / "lines").read_text().splitlines()) > 40
    with closing(UdpSource("failing", "127.0.0.1", 0, say=lines.append)) as source:
        source._decoding(lambda data, arrival, sender: None)(b"!one", 0, "suit")
    assert lines[-1] == "failing cannot decode: SystemExit: 3"
    assert recognise(b"!of nobody") is None


def test_a_voice_of_a_package_renders(tmp_path: Path) -> None:
    synth = {"preset": "tone", "options": {"level": 0.4}}
    rig = load_rig(None, {"synth": synth, "model": {"backend": "flat"}, "memory": {"enabled": False}})
    render(PERFORMANCE, tmp_path / "out.wav", rig=rig, seconds=1.0)
    assert read_wav(tmp_path / "out.wav").max() == pytest.approx(0.4 * 0.625, abs=0.01)
    with pytest.raises(RigError, match=r"synth\.options\.level: input should be a valid number"):
        load_rig(None, {"synth": {"preset": "tone", "options": {"level": "loud"}}})
    with pytest.raises(RigError, match=r"synth\.options\.lvel: unknown key; did you mean level\?"):
        load_rig(None, {"synth": {"preset": "tone", "options": {"lvel": 0.5}}})
    void = {"preset": "nanvoice", "options": {"lvel": 0.5}}
    assert load_rig(None, {"synth": void}).synth.config().model_extra == {"lvel": 0.5}
    with pytest.raises(
        RigError, match=r"synth\.preset: expected one of default, .*, tone, zerorate, got 'harp'"
    ):
        load_rig(None, {"synth": {"preset": "harp"}})


def test_built_in_names_are_kept_and_broken_plug_ins_are_reported() -> None:
    assert SOURCES.names() == (
        "mocopi", "vmc", "xsens", "rokoko", "axis", "natnet", "msgpack", "vrchat", "phone", "wek", "osc",
        "backwards", "badport", "badwire", "bare", "broken", "failing", "flaky", "noencode", "turning",
    )  # fmt: skip
    assert SOURCES.load("mocopi")().native
    with pytest.raises(OptionError, match=r"source 'broken': stranger:NotThere cannot be imported \(Attr"):
        SOURCES.load("broken")
    assert "backwards" in usual_ports().values(), "the others are left out"
    with closing(Arrivals({free_port(): "auto"}, print, "127.0.0.1")) as arrivals:
        assert not arrivals.ports_in_use, "a port of any kind is listened at nevertheless"
    check = doctor_module._plug_ins()
    assert check["status"] == "warn"
    assert "source 'broken': stranger:NotThere cannot be imported" in check["found"]
    for lacks in (
        "source 'bare': stranger:Bare cannot be used (it has no decode)",
        "source 'mocopi': stranger:Backwards is not used (what is built in has that name)",
        "source 'noencode' has no encode: pyanticip send cannot play it",
        "source 'badport': stranger:BadPort cannot be used (its port is '40123', expected 1 to 65535)",
        "source 'badwire': stranger:BadWire cannot be used (its wire is 'json', expected one of mocopi, vmc",
        "sink 'bare': stranger:Bare cannot be used (it has no announce, send, counters, close)",
        "backend 'bare': stranger:Bare cannot be used (it has no step, imagine, reset, prew",
        "voice 'bare': stranger:Bare cannot be used (it has no set, params, event, fade, render)",
    ):
        assert lacks in check["found"]
    ports = doctor_module._ports()["found"]
    assert "backwards in" in ports
    assert "badport" not in ports
    clip = load_motion(PERFORMANCE)
    assert len(list(SOURCES.load("vmc")().encode(clip, rate=None, loop=False, unix_time=None))) > 100


SINKS_BY_OTHERS = """
from pydantic import BaseModel
from realtime.sinks.base import Sink

class Derived(Sink):
    class Config(BaseModel): ...
    name = "derived"

    def __init__(self, config):
        self.trouble = "its own"

    def announce(self, extras): ...
    def send(self, frame): ...
    def counters(self): return {}
    def close(self): ...

class Slots:
    __slots__ = ("inner",)
    Config = Derived.Config

    def __init__(self, config):
        self.inner = Derived(config)

    name = "slots"
    announce = send = counters = close = lambda self, *_: None

class Passing:
    Config = Derived.Config

    def __init__(self, config):
        self.inner = Derived(config)

    announce = send = counters = close = lambda self, *_: None

    def __getattr__(self, name):
        return getattr(self.inner, name)

class Forgetful(Slots):
    trouble = property(lambda self: self.socket)
"""


def test_the_trouble_attribute_of_a_sink_is_optional(install: Callable[..., None]) -> None:
    names = ("Derived", "Slots", "Passing", "Forgetful")
    lines = [f"{name.lower()} = sinks_by_others:{name}" for name in names]
    install("sinks_by_others", SINKS_BY_OTHERS, "\n".join(("[pyanticip.sinks]", *lines)))

    def opened(name: str) -> Sink:
        sink = SINKS.load(name)
        return sink(sink.Config())

    assert [opened(name).trouble for name in ("derived", "slots", "passing")] == ["its own", "", "its own"]
    assert opened("slots").name == "slots"
    with pytest.raises(OptionError, match=r"^sink 'forgetful': .* cannot be used \(it has no trouble\)$"):
        opened("forgetful")


WRONG_VALUES = """
import numpy as np
from pydantic import BaseModel
from stranger import Backwards, Flat, Lines
from realtime.step.base import StepPlan, StepResult

class Ask(Backwards): ask = "who"
class Greet(Backwards): greet = (b"hello", 3)
class Group(Backwards): group = 239
class Flag(Backwards): port = True

class Table(BaseModel): ...
class Made(Lines): Config = Table()

class Planning(Flat):
    plan = 3

    def step(self, rows):
        params, hazards = np.full((8, 5), 0.5), np.zeros((2, 25))
        return StepResult(params, hazards, np.zeros(7), 1.0, plan=self.plan)

class Uneven(Planning):
    plan = StepPlan(np.zeros(2, np.int64), np.zeros(3, np.float32))

class Large(Planning):
    plan = StepPlan(np.array([1 << 40]), np.ones(1, np.float32))
"""


def test_values_of_wrong_types_are_one_line_and_the_show_goes_on(install: Callable[..., None]) -> None:
    groups = {"sources": "Ask Greet Group Flag", "sinks": "Made", "backends": "Planning Uneven Large"}
    points = [
        f"[pyanticip.{group}]\n" + "".join(f"{name.lower()} = wrong:{name}\n" for name in names.split())
        for group, names in groups.items()
    ]
    install("wrong", WRONG_VALUES, "".join(points))
    for kind, says in (
        ("ask", "its ask is 'who', expected a datagram of bytes and a port, or None"),
        ("greet", "its greet is (b'hello', 3), expected two datagrams of bytes, or None"),
        ("group", "its group is 239, expected an address or None"),
        ("flag", "its port is True, expected 1 to 65535"),
    ):
        with pytest.raises(OptionError, match=re.escape(says)):
            SOURCES.load(kind)()
    with pytest.raises(RigError, match=r"wrong:Made cannot be used \(TypeError: its Config is not a"):
        load_rig(None, {"sink": [{"kind": "made"}]})
    for backend in ("planning", "uneven", "large"):
        kind, items = open_show(PERFORMANCE)
        lines: list[str] = []
        rig = load_rig(None, {"osc": [], "model": {"backend": backend}, "memory": {"enabled": False}})
        report = replay(items, kind, rig, speed=None, seconds=1.0, say=lines.append)
        assert report["counters"]["failed_steps"] > 0
        (line,) = lines
        assert line.startswith("the model failed, the scalars play: ShapeError: plan: expected arrays codes")


def test_a_package_that_ends_the_process_when_imported_is_one_line(install: Callable[..., None]) -> None:
    install("leaver", "import sys\nsys.exit('no\\nhome')", "[pyanticip.sources]\nleaver = leaver:Suit")
    says = "source 'leaver': leaver:Suit cannot be imported (SystemExit: no home)"
    with pytest.raises(OptionError, match=re.escape(says)):
        SOURCES.load("leaver")
    assert says in doctor_module._plug_ins()["found"]


def test_a_plug_in_that_breaks_its_contract_is_one_line(tmp_path: Path) -> None:
    alone = {"osc": [], "model": {"enabled": False}, "memory": {"enabled": False}}

    def opened(**tree: object) -> None:
        assemble(load_rig(None, {**alone, **tree}), OfflineClock(0)).close()

    def rendered(preset: str) -> None:
        rig = load_rig(None, {**alone, "synth": {"preset": preset}})
        render(PERFORMANCE, tmp_path / "out.wav", rig=rig, seconds=0.5)

    for act, says in (
        (
            lambda: opened(sink=[{"kind": "bare"}]),
            "sink 'bare': stranger:Bare cannot be used (it has no annou",
        ),
        (
            lambda: opened(sink=[{"kind": "failingstart", "path": "x"}]),
            "sink 'failingstart': stranger:FailingStart cannot be opened (RuntimeError: no paper)",
        ),
        (lambda: open_backend("bare"), "backend 'bare': stranger:Bare cannot be used (it has no step"),
        (
            lambda: open_backend("badcore"),
            "backend 'badcore': stranger:BadCore cannot be used (its core is 5, expected a MotionStream or N",
        ),
        *(
            (lambda preset=preset: rendered(preset), f"voice '{preset}': stranger:{says}")
            for preset, says in (
                ("zerorate", "ZeroRate cannot be used (its sample_rate is 0, expected 8000 to 192000)"),
                ("textrate", "TextRate cannot be used (its sample_rate is 'x', expected 8000 to 192000)"),
                (
                    "longlatency",
                    "LongLatency cannot be used (its latency is 10000000, expected 0 to 48000 samples, a se",
                ),
                ("failinglatency", "FailingLatency cannot be used (RuntimeError: no key)"),
            )
        ),
        (
            lambda: Rig.model_validate({"source": {"kind": "bare"}}).source.listen,
            "stranger:Bare cannot be used",
        ),
        (lambda: rendered("bare"), "voice 'bare': stranger:Bare cannot be used (it has no set"),
        (
            lambda: rendered("nanvoice"),
            "voice stranger:NanVoice: expected samples within -1..1, got NaN or infinity",
        ),
        (lambda: rendered("mono"), "voice stranger:Mono: expected samples of shape (960, 2), got (960,)"),
        (lambda: rendered("failingparams"), "voice stranger:FailingParams failed (RuntimeError: no hands)"),
        (
            lambda: rendered("noposition"),
            "voice stranger:NoPosition: expected position 960 after 960 samples more, got 0",
        ),
        (
            lambda: rendered("failingrender"),
            "voice stranger:FailingRender: cannot be rendered (RuntimeError: no breath)",
        ),
        (
            lambda: VoicePlayer(open_voice("failingfade", {}, 48_000)),
            "voice stranger:FailingFade failed (RuntimeError: no breath)",
        ),
        (lambda: VoicePlayer(open_voice("mono", {}, 48_000)), "of shape (960, 2), got (960,)"),
    ):
        with pytest.raises(MotionError) as error:
            act()
        assert says in str(error.value)
        assert "\n" not in str(error.value)
