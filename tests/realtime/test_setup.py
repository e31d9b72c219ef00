"""`pyanticip setup` with real datagrams: what is reported, asked and written, and when nothing is written."""

import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from support.pty_process import InTerminal
from support.stranger import Suit, axis_frame, packets, refused_skeleton

from pyanticip.cli import cli
from pyanticip.errors import DeviceError, OptionError
from realtime.programs import setup as module
from realtime.programs.options import SetupOptions
from realtime.programs.setup import setup
from realtime.rig import load_rig
from realtime.seams import SOURCES
from realtime.sinks.midi.config import MidiConfig
from realtime.sockets import free_port
from realtime.sources.arrivals import Arrivals, DetectedSender, usual_ports


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Free ports in place of the usual ones."""
    found = {kind: free_port() for kind in ("mocopi", "vmc", "msgpack")}
    while len(set(found.values())) < 3:
        found = {kind: free_port() for kind in found}
    monkeypatch.setattr(module, "usual_ports", lambda: {port: kind for kind, port in found.items()})
    return found


@pytest.fixture
def send() -> Iterator[Any]:
    """``send(port, ...)`` starts a suit that sends until the test ends."""
    with ExitStack() as suits:
        yield lambda *args, **options: suits.enter_context(Suit(*args, **options))


def guided(
    folder: Path, answers: Sequence[str] = (), **options: Any
) -> tuple[dict[str, Any], list[str], list[str]]:
    """The result, the questions and the printed lines."""
    lines: list[str] = []
    asked: list[str] = []
    left = list(answers)

    def ask(question: str, default: str, choices: Sequence[str]) -> str:
        asked.append(question)
        answer = left.pop(0) if left else default
        assert not choices or answer in choices
        return answer

    usual = {"seconds": 0.0, "wait": 20.0, "calibrate": False, "out": folder / "stage.toml"}
    return setup(SetupOptions(**{**usual, **options}), ask, lines.append), asked, lines


@pytest.mark.parametrize("kind", ["mocopi", "vmc", "msgpack"])
def test_a_detected_suit_is_named_and_written_to_the_rig(kind, ports, send, tmp_path):
    send(ports[kind], kind=kind)
    found, asked, lines = guided(tmp_path, suit="unknown", osc="127.0.0.1:9555")
    assert asked == []
    assert any(f"sends {kind} to port {ports[kind]}" in line for line in lines)
    rig = load_rig(tmp_path / "stage.toml")
    assert rig.source.kind == kind
    assert rig.source.listen == ("127.0.0.1", ports[kind]), "it came from this machine"
    assert [target.url for target in rig.osc] == ["127.0.0.1:9555"]
    assert not rig.synth.enabled
    assert 40 < found["rate"] < 60
    assert found["command"] == f"pyanticip live --rig {tmp_path / 'stage.toml'}"


def test_captures_are_recognised(data_dir: Path) -> None:
    captures = [
        path for path in (data_dir / "live").glob("*/*packets") if not path.stem.startswith("malformed")
    ]
    assert len(captures) > 8
    for capture in captures:
        sender = DetectedSender(1, "10.0.0.1:1")
        for t_ns, datagram in itertools.islice(packets(capture), 200):
            sender.decode(datagram, t_ns)
        assert sender.kind == capture.suffix[1:].removesuffix("packets"), capture.name
        assert bool(sender.refusal) == (capture.stem == "extended-form"), capture.name


def test_another_protocol_at_the_port_is_named_with_the_right_command(ports, send, tmp_path):
    send(ports["mocopi"], kind="vmc")
    found, _, lines = guided(tmp_path, suit=f"mocopi://0.0.0.0:{ports['mocopi']}", osc="127.0.0.1:9555")
    right = f"sends vmc, not mocopi, to port {ports['mocopi']}: it is heard with --source vmc://0.0.0.0:{ports['mocopi']}"
    assert any(right in line for line in lines)
    assert found["source"] == {"kind": "vmc", "host": "127.0.0.1", "port": ports["mocopi"]}


def test_another_kind_than_the_chosen_one_plays_only_by_consent(ports, send, tmp_path):
    send(ports["vmc"], kind="vmc")
    options = {"suit": f"mocopi://0.0.0.0:{ports['mocopi']}", "osc": "127.0.0.1:9555"}
    lines: list[str] = []
    asked: list[str] = []

    def ask(question: str, *_: Any) -> str:
        asked.append(question)
        send(ports["mocopi"])
        return "no"

    out = tmp_path / "stage.toml"
    found = setup(SetupOptions(**options, out=out, calibrate=False, seconds=0.0), ask, lines.append)
    assert found["source"] == {"kind": "mocopi", "host": "127.0.0.1", "port": ports["mocopi"]}
    assert len(asked) == 1
    assert asked[0].endswith(", though it sends vmc and not mocopi?")
    _, questions, _ = guided(tmp_path, force=True, **{**options, "suit": "unknown"})
    assert not questions


@pytest.mark.parametrize(
    ("datagram", "words"),
    [
        (b"/muse/eeg\0\0\0,f\0\0\0\0\0\0", "OSC messages such as /muse/eeg"),
        (b"#bundle\0" + bytes(7) + b"\x01\0\0\0\x10/gyro\0\0\0,f\0\0\0\0\0\0", "OSC messages such as /gyro"),
        (b"{}", "datagrams that begin with {}"),
        (b"/1/fader1\0\0\0,f\0\0\0\0\0\0", "OSC messages such as /1/fader1; this is OSC of another program"),
        (b"\x1b[2J\x07evil", "datagrams that begin with 1b 5b 32 4a 07 65 76 69"),
        (b"/\x1b[2J\0", "OSC messages such as /?[2J"),
        (b"", "datagrams that begin with"),
    ],
)
def test_unknown_datagrams_are_described(datagram: bytes, words: str) -> None:
    sender = DetectedSender(1, "10.0.0.1:1")
    for n in range(5):
        sender.decode(datagram, n * 20_000_000)
    assert not sender.is_playable
    if not sender.kind:  # a kind that an installed package adds may speak it
        assert words in sender.describe()
        assert sender.describe().isprintable()


@pytest.mark.parametrize(
    ("kind", "datagram"), [("xsens", b"MXTP01" + bytes(18)), ("rokoko", b'{"scene":{},"version":2}')]
)
def test_a_sender_in_the_wrong_mode_is_recognised_with_a_hint(kind: str, datagram: bytes) -> None:
    sender = DetectedSender(1, "10.0.0.1:1")
    for n in range(40):
        sender.decode(datagram, n * 20_000_000)
    assert sender.kind == kind
    assert not sender.is_playable
    assert sender.describe().startswith(f"this is {kind}, but: ")


@pytest.mark.parametrize(
    ("frames", "interval_ns", "is_playable"), [(40, 20_000_000, True), (40, 0, False), (300, 0, True)]
)
def test_a_frame_in_two_datagrams_is_decoded(frames: int, interval_ns: int, is_playable: bool) -> None:
    sender = DetectedSender(1, "10.0.0.1:1")
    for n in range(frames):
        whole = axis_frame(n, n / 50, 0.01 * n)
        for part in (whole[:1024], whole[1024:]):
            sender.decode(part, n * interval_ns)
    assert (sender.kind, sender.frames) == ("axis", frames)
    # Of frames that all come at once the rate is not known: it is waited for, but not for ever.
    assert (sender.rate is not None) == (interval_ns > 0)
    assert sender.is_playable == is_playable


def test_the_metadata_of_packages_is_not_read_for_every_datagram(monkeypatch: pytest.MonkeyPatch) -> None:
    sender, searches = DetectedSender(1, "10.0.0.1:1"), list[dict[str, Any]]()
    search = metadata.entry_points
    monkeypatch.setattr(metadata, "entry_points", lambda **group: searches.append(group) or search(**group))
    for n in range(40):
        for datagram in (axis_frame(n, n / 50, 0.01 * n), b"/muse/eeg\0\0\0,f\0\0\0\0\0\0", b"\xff\xfe"):
            sender.decode(datagram, n * 20_000_000)
    assert sender.kind == "axis"
    assert len(searches) < 5


def test_no_playable_suit_is_one_line_and_no_file(ports, send, tmp_path):
    send(ports["vmc"], data=b"\xff\xfe\x00noise")
    with pytest.raises(
        DeviceError, match=r"nothing that can be played came in 1 s: 127.0.0.1:\d+ sends to port"
    ):
        guided(tmp_path, suit="unknown", synth=True, wait=1.0)
    assert list(tmp_path.iterdir()) == []


def _nobody(*_: Any) -> str:
    raise AssertionError("asked")


def test_noise_does_not_fill_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    suit = DetectedSender(39539, "10.0.0.1:1")
    arrivals: Any = SimpleNamespace(senders={1: suit}, listen=lambda s: suit.decode(b"%d" % next(clock), 0))
    lines: list[str] = []
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.2 * next(clock)))
    with pytest.raises(DeviceError, match="nothing that can be played came in 300 s"):
        module._first_playable(arrivals, {39539: "vmc"}, None, 300.0, _nobody, lines.append)
    assert lines[1].startswith("10.0.0.1:1 sends to port 39539 what cannot be played: datagrams that begin")
    assert 20 < len(lines) < 100


def test_noise_does_not_keep_a_suit_from_being_described(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, noise, suit = itertools.count(), DetectedSender(1, "10.0.0.1:1"), DetectedSender(1, "10.0.0.2:1")
    arrivals: Any = SimpleNamespace(senders={1: noise, 2: suit})

    def listen(seconds: float) -> None:
        noise.decode(b"%d" % (now := next(clock)), 0)
        if now > 300:
            suit.decode(b"MXTP01" + bytes(18), 0)

    arrivals.listen, lines = listen, list[str]()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.1 * next(clock)))
    with pytest.raises(DeviceError, match="nothing that can be played came in 60 s"):
        module._first_playable(arrivals, {1: "xsens"}, None, 60.0, _nobody, lines.append)
    assert any("this is xsens, but: " in line for line in lines)


def test_ports_in_use_are_reported(ports: dict[str, int], send: Any, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("0.0.0.0", ports["vmc"]))
        send(ports["mocopi"])
        _, _, lines = guided(tmp_path, suit="unknown", synth=True)
        assert (
            f"port {ports['vmc']} (vmc) belongs to another program: what is sent there is not received"
            in lines
        )
        with pytest.raises(DeviceError, match=f"port {ports['vmc']} is in use by another program: end it"):
            guided(tmp_path, suit=f"vmc://0.0.0.0:{ports['vmc']}", synth=True, force=True)
        with pytest.raises(DeviceError, match="in use by another program; close it"):
            Arrivals({ports["vmc"]: "vmc"}, str)


def midi_ports(*there: str) -> Any:
    def check(config: MidiConfig) -> None:
        if config.port not in there:
            raise DeviceError(f"no MIDI port {config.port!r}")

    return check


def test_questions_and_their_answers(ports, send, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "check_port", midi_ports("Volca"))
    send(ports["mocopi"])
    (tmp_path / "stage.toml").write_text("gain = 1.0\n")
    answers = ["yes", "unknown", "osc", "127.0.0.1:9555", "no"]
    found, asked, lines = guided(tmp_path, answers, calibrate=None)
    assert [re.sub(r".*/stage", "stage", question)[:12] for question in asked] == [
        "stage.toml e", "Suit", "Plays", "Its address,", "Get to know ",
    ]  # fmt: skip
    assert "nobody listens at 127.0.0.1:9555 yet: start the synth" in lines
    assert found["osc"] == [{"host": "127.0.0.1", "port": 9555}]
    guided(tmp_path, ["midi", "Volca"], suit="unknown", force=True)
    assert load_rig(tmp_path / "stage.toml").midi.port == "Volca"
    assert load_rig(tmp_path / "stage.toml").osc == ()
    with pytest.raises(DeviceError, match="no MIDI port 'nosuch'"):  # before anybody has to send
        guided(tmp_path, suit="unknown", midi="nosuch", force=True, wait=0.1)


def test_an_invalid_answer_is_asked_again(ports, send, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "check_port", midi_ports())
    send(ports["mocopi"])
    answers = ["osc", "localhost", "osc", "127.0.0.1:900000", "midi", "nosuch", "osc", "127.0.0.1:9555"]
    found, _, lines = guided(tmp_path, answers, suit="unknown")
    assert found["osc"] == [{"host": "127.0.0.1", "port": 9555}]
    refusals = [line for line in lines if line.startswith(("expected HOST:PORT", "no MIDI"))]
    assert [line.rpartition(" ")[2] for line in refusals] == ["'localhost'", "'127.0.0.1:900000'", "'nosuch'"]


def test_the_beginning_of_an_answer_is_enough(monkeypatch):
    answers: list[str] = []

    def guide(options: Any, ask: Any, *_: Any) -> dict[str, Any]:
        answers.extend(ask("?", "no", ("yes", "no")) for _ in range(4))
        answers.extend(ask("?", "Any", ()) for _ in range(2))
        return {"rig": "", "command": ""}

    monkeypatch.setattr(module, "setup", guide)
    said = CliRunner().invoke(cli, ["setup"], input="y\nYES\nyess\nn\n\nY\n\n", catch_exceptions=False)
    assert answers == ["yes", "yes", "no", "no", "Y", "Any"]
    assert said.output.count("'yess' is not one of 'yes', 'no'") == 1


def test_the_question_for_the_suit_takes_what_its_option_takes(ports, send, tmp_path):
    send(port := free_port())
    answers = ["moccopi", "osc", "mocopi://0.0.0.0:x", f"mocopi://0.0.0.0:{port}"]
    found, asked, lines = guided(tmp_path, answers, synth=True)
    assert found["source"]["port"] == port
    assert asked == ["Suit"] * 4
    known = f"expected {', '.join(module.playable_kinds())}, unknown, got"
    refusals = [line for line in lines if line.startswith("expected ")]
    assert refusals[:2] == [f"{known} 'moccopi'; did you mean mocopi?", f"{known} 'osc'"]
    assert refusals[2].startswith("expected HOST:PORT")


def test_a_failed_calibration_is_reported_with_the_command(ports, send, tmp_path, monkeypatch):
    def fails(*_: Any) -> None:
        raise OptionError("you moved")

    monkeypatch.setattr(module, "calibrate_live", fails)
    send(ports["mocopi"])
    found, _, lines = guided(tmp_path, suit="unknown", synth=True, calibrate=True)
    assert "not calibrated: you moved" in lines
    assert lines[-1] == f"calibrate later: pyanticip calibrate --rig {tmp_path / 'stage.toml'}"
    assert "performer" not in found


@pytest.mark.parametrize("options", [{"seconds": 3.0}, {"calibrate": True}])
def test_no_rig_is_written_for_a_refused_body(options, ports, send, tmp_path, monkeypatch):
    monkeypatch.setattr("realtime.programs.calibrate._TIMEOUT_S", 1.0)
    send(ports["msgpack"], kind="msgpack", skeleton=refused_skeleton())
    with pytest.raises(DeviceError, match="not written, for the body of this msgpack cannot be played"):
        guided(tmp_path, suit="unknown", osc="127.0.0.1:9555", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_address_is_printed_large(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(module, "address_of_this_machine", lambda: "10.0.0.21")
    module._show_address("mocopi", 12351, {}, lines.append)
    rows = lines[2:7]
    assert len({len(row) for row in rows}) == 1
    assert rows[0] == "   █  ███     ███     ███     ███  █ "
    assert lines[8] == "address 10.0.0.21, port 12351"
    assert all(line.isprintable() for line in lines)
    assert any("▄▄" in line for line in lines), "a QR code"
    assert module._banner("fe80::1") == ["fe80::1"]


def test_the_usual_ports_are_those_of_all_kinds() -> None:
    # Where sound control goes is VRChat's too: it is listened to when asked for.
    assert set(usual_ports()) == {SOURCES.load(kind)().port for kind in SOURCES.names()} - {9000}


@pytest.fixture
def alone() -> None:
    """Nobody has the usual ports, and no other test sends to them."""
    for port in usual_ports():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            try:
                sock.bind(("0.0.0.0", port))
            except OSError:
                pytest.skip(f"port {port} is in use")


@pytest.mark.slow
def test_setup_with_options_writes_a_playable_rig(alone: None, send: Any, tmp_path: Path) -> None:
    port = free_port()
    send(port)
    osc = f"127.0.0.1:{free_port()}"
    words = ["--suit", f"mocopi://0.0.0.0:{port}", "--osc", osc, "--yes", "--still", "2", "--move", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "pyanticip", "setup", *words, "--seconds", "2", "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["frames"] > 50
    assert found["command"] == "pyanticip live --rig stage.toml"
    assert "\x1b" not in done.stderr
    # This suit never stands still.
    assert "not calibrated: calibrate/still" in done.stderr or "performer" in found
    assert load_rig(tmp_path / "stage.toml").source.listen == ("127.0.0.1", port)


@pytest.mark.slow
def test_setup_in_a_terminal_with_enter_and_with_ctrl_c(alone: None, send: Any, tmp_path: Path) -> None:
    send(12351)
    osc = f"127.0.0.1:{free_port()}"
    with closing(InTerminal("setup", "--no-calibrate", "--osc", osc, folder=tmp_path)) as show:
        show.wait_for("Suit [")
        show.press("\n")
        show.wait_for("address ")
        place = show.wait_for("sends mocopi to port 12351")
        show.wait_for("mocopi of 127.0.0.1:", after=place)
        assert not (tmp_path / "stage.toml").exists(), "written in the end"
        show.press("q")
        assert show.end() == 0
        assert "from now on: pyanticip live --rig stage.toml" in show.text
        assert show.restored()
    assert load_rig(tmp_path / "stage.toml").source.kind == "mocopi"
    words = ("setup", "--suit", "vmc", "--synth", "--out", "b.toml")
    with closing(InTerminal(*words, folder=tmp_path)) as show:
        show.wait_for("waiting for it")
        time.sleep(0.3)
        show.process.send_signal(signal.SIGINT)
        assert show.end() == 130
        assert show.restored()
    assert {path.name for path in tmp_path.iterdir()} == {"stage.toml"}
