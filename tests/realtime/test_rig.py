import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import BaseModel, ValidationError
from support.full_disk import full_disk

from pyanticip.cli import cli
from pyanticip.controls import NEUTRAL
from pyanticip.errors import DeviceError, RigError
from pyanticip.vocabulary import PARAMETERS
from realtime.programs.check import check_show
from realtime.rig import Rig, load_rig, template
from realtime.rig.checks import rig_warnings
from realtime.rig.mapping import smoothings
from realtime.sinks.link import LinkConfig
from realtime.sinks.midi.clock import ClockConfig
from realtime.sources.osc import Address
from realtime.voice.audio import Audio


def write(folder: Path, text: str) -> Path:
    file = folder / "rig.toml"
    file.write_text(text)
    return file


def test_the_template_equals_the_defaults(tmp_path: Path) -> None:
    written = load_rig(write(tmp_path, template()))
    built_in = Rig()
    assert written.source.listen == built_in.source.listen
    same = {"source": built_in.source, "smoothing": {}}
    assert written.model_copy(update=same).model_dump() == built_in.model_dump()
    assert smoothings(written.smoothing) == smoothings(built_in.smoothing)


def uncommented() -> str:
    lines = [
        line.removeprefix("# ") if line.startswith("# ") else line
        for line in template().splitlines()
        if not line.startswith(("# A rig", "# spring", "# One"))
    ]
    return "\n".join(lines)


def test_on_a_full_disk_the_old_rig_stays(tmp_path: Path) -> None:
    (tmp_path / "stage.toml").write_text("lead_ms = 100\n")
    with full_disk():
        done = CliRunner().invoke(cli, ["rig", "init", str(tmp_path / "stage.toml"), "--force"])
    assert "stage.toml: cannot be written (file too large)" in str(done.exception)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["lead_ms = 100\n"]


def test_the_template_has_every_key() -> None:
    written = tomllib.loads(uncommented())
    # `performers` are [[performer]] tables in a file; docs/performers.md has their keys.
    assert set(Rig.model_fields) - {"performers"} <= set(written)
    for name, field in Rig.model_fields.items():
        table = field.annotation
        # docs/midi.md has the keys of [midi]; `calibrate` writes the noise of a suit.
        if name != "midi" and isinstance(table, type) and issubclass(table, BaseModel):
            keys = {inner.alias or key for key, inner in table.model_fields.items()}
            assert keys - {"noise"} <= set(written[name]), name


def test_every_commented_key_of_the_template_is_valid(tmp_path: Path) -> None:
    text = uncommented()
    full = load_rig(write(tmp_path, text.replace("folder", "x")))
    assert full.osc[0].ranges["pitch"].curve == "exponential"
    assert full.osc[0].addresses["loudness"] == ("/n_set", 1000, "amp")


def test_useless_settings_give_warnings(tmp_path: Path) -> None:
    unheard = "memory.enabled = false\n[[cue]]\nname = 'a'\ntake = 'b'\nat = 1.0\n"
    several = "[[performer]]\nname = 'a'\nport = 1\nchannel = 3\n"
    for text, says in (
        (
            "source.addresses.head = '/a'",
            ["source.addresses: mocopi has no use for them; phone, wek, osc have"],
        ),
        ("[source]\nkind = 'phone'\naddresses.head = '/a'", []),
        (
            "[source]\nfrom = '10.0.0.3'",
            ['source.from: 10.0.0.3 cannot send to 127.0.0.1; host = "0.0.0.0" hears the network'],
        ),
        ("[source]\nfrom = '10.0.0.3'\nhost = '0.0.0.0'", []),
        ("[source]\nfrom = '[::1]:4000'", []),
        ("source.skeleton = 'a.asf'", ["source.skeleton: a suit has no use for it; it is for files"]),
        ("source.units = 0.01", ["source.units: a suit has no use for it; it is for files"]),
        (several, ["performer.channel: without midi.port nothing is sent there"]),
        (several + "[midi]\nport = 'virtual'", []),
        ("[midi]", ["midi: without midi.port nothing is sent"]),
        ("[[osc]]\n[[osc]]\nhost = 'localhost'", ["osc: two tables send the same to 127.0.0.1:9000"]),
        (
            "[[osc]]\nsend = ['pan', 'onset']\n[[osc]]\nsend = ['onset', 'frame']\nschedule = true",
            ["osc: two tables send onset to 127.0.0.1:9000"],
        ),
        ("[[osc]]\nsend = ['pan']\n[[osc]]\nsend = ['pan']\naddresses.pan = '/n_set'", []),
        ("[[osc]]\n[[osc]]\nprefix = '/other'", []),
        (
            "[shape.pan]\nhysteresis = 0.2\n[shape.'taught/x']\nsteps = 3",
            [
                "taught/x: no mapping teaches it",
                "shape.pan.hysteresis: without threshold or toggle it does nothing",
            ],
        ),
        (unheard, ["cue: without the memory (memory.enabled = false) none is sent"]),
    ):
        file = write(tmp_path, text)
        assert rig_warnings(load_rig(file)) == says
        answer = CliRunner().invoke(cli, ["rig", "check", str(file)])
        assert all(f"  {line}" in answer.output.splitlines() for line in says)
        assert "says cues" not in answer.output


def test_options_of_a_disabled_model_or_voice_give_warnings() -> None:
    options = {
        "model": {"checkpoint": "x", "backend": "rust"},
        "synth": {"preset": "default"},
        "osc": ["9000"],
    }
    assert Rig.model_validate({"synth": {"enabled": True}}).ignored_options(options) == []
    off = Rig.model_validate({"model": {"enabled": False}})
    says = [f"--{name}: without the model it does nothing" for name in ("checkpoint", "backend")]
    assert off.ignored_options(options, voice=True) == says
    assert off.ignored_options(options) == [*says, "--preset: without the voice it does nothing"]


def test_missing_cues_and_outputs_give_warnings() -> None:
    table = {
        "port": "virtual",
        "note": [{"event": "cue/drop"}, {"event": "cue/lift"}],
        "control": [{"from": "taught/x", "to": 7}],
    }
    osc = [{"send": ["cue/lift", "cue/lfit"], "addresses": {"cue/drop/cancel": "/a", "cue/lift": "/b"}}]
    cue = {"name": "lift", "take": "a", "at": 1.0}
    rig = Rig.model_validate({"midi": table, "osc": osc, "cue": [cue]})
    missing = ["midi.note: there is no cue 'drop'"]
    missing += ["osc.addresses: there is no cue 'drop'", "osc.send: there is no cue 'lfit'"]
    assert rig_warnings(rig) == [*missing, "taught/x: no mapping teaches it"]
    assert rig_warnings(rig.model_copy(update={"mapping": "a.safetensors"})) == missing
    assert rig.untaught_output_lines({"x"}) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[model]\ncheckpoint = 'nowhere'", "nowhere/model.json: no such file"),
        ("[memory]\nfile = 'no.memory'", "no.memory"),
        (
            "[[cue]]\nname = 'a'\ntake = 'b'\nat = 1.0",
            "followed; expected [memory] file in the rig, or --memory",
        ),
        ("[source]\nport = 9010", "control.port: source listens at 9010 already"),
        ("[synth]\nenabled = true\nport = 9010", "synth.port: control listens at 9010 already"),
        ("[monitor]\nenabled = true\n[oscquery]\nenabled = true\nport = 8765", "oscquery.port: monitor"),
        ("[[osc]]\nhost = 'nowhere.invalid'", "cannot resolve host 'nowhere.invalid'"),
        ("record = 'none/a.anticip'", "none does not exist"),
        ("[source]\nhost = '192.0.2.1'", "source mocopi: cannot listen at 192.0.2.1 ("),
        ("[source]\njoints = 'none.toml'", "none.toml: no such file"),
        ("[source]\nkind = 'auto'\njoints = 'none.toml'", "none.toml: no such file"),
        ("[source]\nkind = 'xsens'\nup = 'z'", "not xsens's"),
        ("[source]\nfrom = '10.0.0.3:abc'", "source.from: expected host or host:port, got '10.0.0.3:abc'"),
        ("[[performer]]\nname = 'a'\nfrom = '10.0.0.3:'", "from: expected host or host:port"),
        (
            "[source]\nkind = 'osc'\naddresses.head = 'x'",
            "head.address: expected an OSC address, which begins",
        ),
        ("[source]\nbuffer_ms = -5", "source.buffer_ms: expected auto, or 0 to 100 ms, got -5"),
        ("record_spare = 'none'", "none: expected a folder that can be written into"),
        ("[synth]\npreset = 'granular'", "preset granular: it needs a folder of sounds"),
        ("[synth]\nsamples = 'none'", "none: no folder that can be read (no such file or directory)"),
        ("[synth]\noptions.samples = 'rig.toml'", "rig.toml: no folder that can be read"),
        ("[control]\nhost = 'nowhere.invalid'", "control.host: cannot resolve host 'nowhere.invalid'"),
        ("[monitor]\nenabled = true\nhost = '192.0.2.1'", "monitor.host: cannot listen at 192.0.2.1 ("),
        ("[oscquery]\nenabled = true\nhost = 'nowhere.invalid'", "oscquery.host: cannot resolve host"),
        ("[[performer]]\nname = 'record'", "performer.record: /anticip/control/record is a command"),
        ("teach = '.'", "is not a teaching project"),
        ("teach = 'none/mine'", "none/mine: the folder "),
    ],
)
def test_rig_check_finds_what_live_would_refuse(tmp_path: Path, text: str, says: str) -> None:
    answer = CliRunner().invoke(cli, ["rig", "check", str(write(tmp_path, text))])
    assert answer.exit_code != 0
    assert says in str(answer.exception)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[monitor]\nenabled = true", "the monitor needs websockets"),
        ("[oscquery]\nenabled = true", "OSCQuery needs websockets"),
        ("[[sink]]\nkind = 'midi-clock'", "sink midi-clock needs python-rtmidi"),
        ("[[sink]]\nkind = 'link'", "sink link needs link"),
        ("[midi]\nport = 'virtual'", "MIDI needs python-rtmidi"),
    ],
)
def test_a_missing_extra_is_found(tmp_path, monkeypatch, text, says):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=f"^{says}: pip install 'pyanticip"):
        check_show(load_rig(write(tmp_path, text)))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"kind": "link", "latency_ms": 20.0}, LinkConfig(latency_ms=20.0)),
        ({"kind": "midi-clock", "port": "virtual:daw"}, ClockConfig(port="virtual:daw")),
    ],
)
def test_settings_of_a_sink_reach_its_configuration(table: dict[str, Any], expected: Any) -> None:
    assert Rig.model_validate({"sink": [table]}).sink[0].config() == expected


def test_a_folder_without_a_sound_is_found(tmp_path: Path) -> None:
    (sounds := tmp_path / "sounds").mkdir()
    file = write(tmp_path, "[synth]\npreset = 'granular'\nsamples = 'sounds'")
    (sounds / "song.m4a").touch()
    answer = CliRunner().invoke(cli, ["rig", "check", str(file)])
    assert answer.exit_code != 0
    assert "sounds: holds no sound that is read" in str(answer.exception)
    assert "the preset default would play" in str(answer.exception)
    (sounds / "song.wav").touch()
    assert CliRunner().invoke(cli, ["rig", "check", str(file)]).exit_code == 0


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("enabled = true", None),
        ("device = 'Focusrite'", "Focusrite"),
        ("", "nothing"),
        ("[[performer]]\nname = 'ann'\npreset = 'bells'", None),
    ],
)
def test_an_audio_device_that_cannot_be_used_is_a_warning(tmp_path, monkeypatch, text, asked):
    probed = []

    def probe(device):
        probed.append(device)
        return Audio("V19", ("Built-in",), None, "not there")

    monkeypatch.setattr("realtime.programs.check.probe", probe)
    answer = CliRunner().invoke(cli, ["rig", "check", str(write(tmp_path, f"[synth]\n{text}"))])
    assert answer.exit_code == 0
    assert probed == ([] if asked == "nothing" else [asked])
    assert ("cannot be used now (not there)" in answer.output) == bool(probed)


def test_a_rig_with_source_auto_is_valid(tmp_path: Path) -> None:
    text = "[source]\nkind = 'auto'\n[monitor]\nenabled = true\nport = 9010\n"
    answer = CliRunner().invoke(cli, ["rig", "check", str(write(tmp_path, text))])
    assert "listens for auto at 127.0.0.1" in answer.output


@pytest.mark.parametrize(
    ("target", "ear"),
    [
        ("localhost:12351", "source"),
        ("127.0.0.1:9010", "control"),
        ("tcp://127.0.0.1:9010", ""),
        ("192.0.2.1:9010", ""),
    ],
)
def test_a_receiver_that_is_the_show_itself_gives_a_warning(target: str, ear: str) -> None:
    says = [f"osc: {target} is where {ear} listens: no other program hears it"] if ear else []
    for host in ("127.0.0.1", "0.0.0.0"):
        rig = Rig.model_validate({"osc": [target], "control": {"host": host}, "source": {"host": host}})
        assert rig_warnings(rig) == says


def test_the_sender_s_host_name_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def sender(address: str | None) -> str | None:
        return Rig.model_validate({"source": {"from": address}}).resolved().source.sender

    assert sender(None) is None
    assert sender("localhost") == "127.0.0.1"
    assert sender("localhost:5000") == "127.0.0.1:5000"
    for as_it_is in ("10.0.0.2:5000", "fe80::1", "fe80::1:5000"):
        assert sender(as_it_is) == as_it_is
    with pytest.raises(DeviceError, match=r"^source\.from: cannot resolve host 'nowhere\.invalid'"):
        sender("nowhere.invalid:5000")
    way = socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("fd00::5", 0, 0, 0)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: [way])
    assert (sender("motive"), sender("motive:5000")) == ("fd00::5", "[fd00::5]:5000")


@pytest.mark.parametrize("address", ["fd00:1::5", "[fd00:1::5]", "[fd00:1::5]:1511"])
def test_an_ipv6_server_is_passed_without_brackets(address: str) -> None:
    rig = Rig.model_validate({"source": {"kind": "natnet", "host": "::", "from": address}})
    assert rig.resolved().source.udp_options() == {"server": "fd00:1::5"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[source]\nprot = 1", "source.prot: unknown key; did you mean port?"),
        ("[source]\nfrm = 'a'", "source.frm: unknown key; did you mean from?"),
        ("[shape.pan]\nrange = [0, 1]", "shape.pan.range: unknown key; expected one of in, invert, "),
        ("[sorce]", "sorce: unknown key; did you mean source?"),
        ("[[osc]]\nprefx = '/a'", "osc.0.prefx: unknown key; did you mean prefix?"),
        ("[[osc]]\nranges.pich = {low = 1}", "osc.0.ranges.pich: unknown name; did you mean pitch?"),
        ("[[osc]]\nsend = ['frame', 'pich']", "osc.0.send.1.pich: unknown name; did you mean pitch?"),
        ("[[osc]]\nranges.pitch = {lo = 1}", "osc.0.ranges.pitch.lo: unknown key; did you mean low?"),
        ("[osc]\nport = 9001", "osc: there may be several: expected [[osc]], got [osc]"),
        ("[shape.pan]\nin = {}", "shape.pan.in: expected a list, got {}"),
        ("[smoothing]\nkind = 'none'", "smoothing.kind: unknown name; expected one of pitch, "),
        ("[shape]\ninvert = true", "shape.invert: unknown name; expected one of pitch, "),
        ("[performer]\nloudness = [0.5, 0.2, 0.1]", "performer.loudness: expected 0 <= still <= low"),
        ("[[osc]]\nprefix = 'a'", "starts with '/'"),
        ("[[osc]]\naddresses.pitch = 'a'", "starts with '/'"),
        ("[[osc]]\naddresses.pitch = '/a b*{x}'", "has none of ' #*,?[]{}' in it, got ('/a b*{x}',)"),
        (
            "[[osc]]\naddresses.pan = ['/a', 99999999999]",
            "expected numbers of 32 bits, got ('/a', 99999999999)",
        ),
        ("[[osc]]\naddresses.pan = ['/a', 1e39]", "addresses.pan: expected numbers of 32 bits"),
        ("[[osc]]\nranges.pitch = {low = 0, curve = 'exponential'}", "both ends > 0"),
        ("smoothing.pich.half_life = 1", "smoothing.pich: unknown name; did you mean pitch?"),
        ("events.threshold.onst = 1", "did you mean onset?"),
        ("shape.pich.steps = 3", "shape.pich: unknown name; did you mean pitch?"),
        ("shape.pitch.threshold = 0.0", "shape.pitch.threshold: expected 0 to 1"),
        (
            "shape.pitch = {threshold = 0.1, hysteresis = 0.2}",
            "shape.pitch.hysteresis: expected 0 to less than the threshold (0.1), got 0.2",
        ),
        ("shape.pitch.in = [0.5, 0.5]", "shape.pitch.in: expected 0 <= low < high <= 1, got 0.5, 0.5"),
        ("shape.pitch.steps = 1", "shape.pitch.steps: expected 2 to 1024, got 1"),
        ("[source]\nkind = 'phone'\naddresses.haed = '/q'", "did you mean head"),
        ("[source]\nkind = 'phone'\naddresses.head = {address = '/q', order = 'zyx'}", "order"),
        ("silence.neutral.loud = 1", "did you mean loudness?"),
        ("lead_ms = 401", "lead_ms: expected auto, or 0 to 400 ms, got 401"),
        ("lead_ms = 'fast'", "lead_ms: expected auto, or 0 to 400 ms, got 'fast'"),
        ("lead_ms = true", "lead_ms: expected auto, or 0 to 400 ms, got True"),
        ("lead_ms = ", "not valid TOML"),
        (
            "[[osc]]\nclock_offset_ms = 500",
            "clock_offset_ms: it moves time tags, which are sent with schedule",
        ),
        ("[[osc]]\nframing = 'length'", 'framing: length is for a stream; expected transport = "tcp"'),
        ("source = 'mocpi'", "source: expected auto, mocopi, "),
        ("osc = ['nohost']", "osc.0: expected HOST:PORT"),
        ("[source]\nkind = 'osc'", "source.addresses: an osc source needs them"),
        ("[[performer]]\nname = 'a'\nsource = 'osc'", "performer.a.addresses: an osc source needs them"),
        ("gain = true", "gain: expected a number, got True"),
        ("[[osc]]\nport = true", "osc.0.port: expected a number, got True"),
        (
            "performer.loudness = [0.1, true, 0.3]",
            "performer.loudness: expected a number, got [0.1, True, 0.3]",
        ),
        ("silence.neutral.pitch = false", "silence.neutral: expected a number, got {'pitch': False}"),
        ("monitor = true", "monitor: expected [monitor], got True"),
        ("[source]\naddresses = 'x'", "source.addresses: expected [source.addresses], got 'x'"),
        ("osc = '127.0.0.1:9000'", "osc: expected [[osc]], got '127.0.0.1:9000'"),
        ("osc = [1]", "osc.0: expected a table, got 1"),
        ("[[osc]]\nsend = 'pitch'", "osc.0.send: expected a list, got 'pitch'"),
        ("[source]\nkind = 'mocpi'", "got 'mocpi'; did you mean mocopi?"),
        ("[synth]\npreset = 'pluckt'", "got 'pluckt'; did you mean plucked?"),
        ("[source]\nkind = 'kinect'", "msgpack, vrchat, phone, wek, osc, got"),
    ],
)
def test_every_mistake_is_one_line_with_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(RigError) as caught:
        load_rig(file)
    message = str(caught.value)
    assert says in message
    assert message.startswith(str(file))
    assert "\n" not in message


def test_a_key_that_is_no_text_is_refused_as_unknown() -> None:
    with pytest.raises(ValidationError, match="7: unknown name; expected one of pitch"):
        Rig.model_validate({"silence": {"neutral": {7: 0.5}}})


def test_rig_check_reports_every_problem(tmp_path: Path) -> None:
    """Each problem on a line of its own, with the file and the key."""
    file = write(
        tmp_path, "gian = 1\nmonitor = true\n[source]\nport = 0\n[[midi.control]]\nfrom = 'pan'\nto = 'bent'"
    )
    answer = CliRunner().invoke(cli, ["rig", "check", str(file)])
    lines = [*answer.stderr.splitlines(), str(answer.exception)]
    assert {line.split(": ")[1] for line in lines} == {"gian", "monitor", "source.port", "midi.control.0.to"}
    assert {line.split(": ")[0] for line in lines} == {str(file)}


def test_errors_of_union_types_name_the_key_once(tmp_path: Path) -> None:
    text = "synth.device = nan\n[[osc]]\naddresses.pitch = ['/n_set', nan]\n"
    with pytest.raises(RigError) as caught:
        load_rig(write(tmp_path, text))
    lines = caught.value.problems
    assert {line.split(": ")[1] for line in lines} == {"synth.device", "osc.0.addresses.pitch.1"}
    assert len(set(lines)) == len(lines)


def test_precedence_command_line_then_file_then_built_in(tmp_path: Path) -> None:
    file = write(tmp_path, "lead_ms = 100\n[source]\nkind = 'vmc'\nport = 40000\nhost = '0.0.0.0'\n")
    assert load_rig(file).source.listen == ("0.0.0.0", 40000)
    assert load_rig(file, {"lead_ms": 200}).lead_ms == 200
    assert load_rig(file, {"source": {"kind": "vmc"}}).source.listen == ("0.0.0.0", 40000)
    assert load_rig(file, {"source": {"kind": "mocopi"}}).source.listen == ("0.0.0.0", 12351)
    assert load_rig().lead_ms == "auto"
    assert load_rig(file, {"osc": [{"port": 1}]}).osc[0].port == 1
    with pytest.raises(RigError, match="command line: lead_ms"):
        load_rig(None, {"lead_ms": 500})


@pytest.mark.parametrize("typed", ["osc", "osc://127.0.0.1", "osc://127.0.0.1:4000", "phone", "wek://:4000"])
def test_a_source_option_keeps_the_addresses_of_the_rig(tmp_path: Path, typed: str) -> None:
    mapped = "[source]\nkind = 'osc'\nport = 7000\nup = 'y'\naddresses.right_hand = '/rotationvector'\n"
    source = load_rig(write(tmp_path, mapped), {"source": typed}).source
    assert source.udp_options() == {"addresses": {"right_hand": Address("/rotationvector")}, "up": "y"}
    # It also applies to a performer's osc source without addresses, not to one of another kind.
    others = "[[performer]]\nname = 'c'\nsource = 'vmc'\n[[performer]]\nname = 'b'\n"
    others += "source = {kind = 'osc', port = 1, addresses = {head = '/head'}}\n"
    rig = load_rig(write(tmp_path, f"{mapped}[[performer]]\nname = 'a'\nsource = '{typed}'\n{others}"))
    a, c, b = (one.source_for(rig.source).udp_options() for one in rig.performers)
    assert (a == source.udp_options()) is ("osc" in typed)
    assert (c, b["addresses"]) == ({}, {"head": Address("/head")})
    assert rig_warnings(rig) == []


def test_neutral_and_smoothing_fall_back() -> None:
    rig = Rig.model_validate(
        {
            "silence": {"neutral": {"pan": 0.25}},
            "smoothing": {"default": {"kind": "none"}, "pan": {"kind": "one-euro", "beta": 9.0}},
        }
    )
    expected = [0.25 if name == "pan" else value for name, value in zip(PARAMETERS, NEUTRAL, strict=True)]
    assert list(rig.silence.neutral_vector()) == expected
    kinds = {name: s.kind for name, s in zip(PARAMETERS, smoothings(rig.smoothing), strict=True)}
    assert kinds.pop("pan") == "one-euro"
    assert set(kinds.values()) == {"none"}


@pytest.mark.parametrize(
    ("typed", "listen"),
    [
        ("mocopi://0.0.0.0", ("0.0.0.0", 12351)),
        ("vmc://stage.local", ("stage.local", 39539)),
        ("vmc://[::1]", ("::1", 39539)),
        ("vmc://[::1]:4000", ("::1", 4000)),
        ("mocopi://:4000", ("127.0.0.1", 4000)),
        ("mocopi://4000", ("127.0.0.1", 4000)),
        ("mocopi", ("127.0.0.1", 12351)),
    ],
)
def test_a_source_without_a_port_has_its_kinds_usual_one(typed: str, listen: tuple[str, int]) -> None:
    assert load_rig(None, {"source": typed}).source.listen == listen


@pytest.mark.parametrize(
    "typed", ["mocopi://", "mocopi://0.0.0.0:", "mocopi://0.0.0.0:99999", "mocopi://0.0.0.0:x"]
)
def test_an_invalid_source_address_is_refused(typed: str) -> None:
    with pytest.raises((RigError, ValueError), match="expected HOST:PORT"):
        load_rig(None, {"source": typed})


def test_paths_are_relative_to_the_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("shows/models/m", "shows/sounds", "old", "shows/takes"):
        Path(folder).mkdir(parents=True)
    rig = Path("shows/stage.toml")
    rig.write_text(
        "record = 'takes/one.anticip'\nmapping = 'new.safetensors'\nteach = 'old'\n"
        "[model]\ncheckpoint = 'models/m'\n[synth]\nsamples = 'sounds'\n"
        "[[performer]]\nname = 'a'\nmapping = '/there/m'\nport = 1\n"
        "[[performer]]\nname = 'b'\nteach = 'b'\nport = 2\n"
    )
    for where, path, found in ((".", "shows/stage.toml", "shows"), ("shows", "stage.toml", "")):
        monkeypatch.chdir(tmp_path / where)
        loaded = load_rig(path, {"memory": {"file": "x.memory"}})
        files = "takes/one.anticip", "new.safetensors", "models/m", "sounds"
        at = [str(Path(found, name)) for name in files]
        assert [loaded.record, loaded.mapping, loaded.model.checkpoint, loaded.synth.samples] == at
        assert [loaded.performers[0].mapping, loaded.performers[1].teach] == [
            "/there/m",
            str(Path(found, "b")),
        ]
        assert loaded.memory.file == "x.memory", "on the command line it is from where that runs"
        assert loaded.teach == "old", "it is there alone, or nowhere"


def test_a_path_may_begin_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, "/home/ada")
    rig = tmp_path / "stage.toml"
    rig.write_text(
        "record = '~/takes/one.anticip'\nrecord_spare = 'a~/b'\n[memory]\nfile = '~/piece.memory'\n"
        "[[performer]]\nname = 'a'\nmapping = '~/m'\nport = 1\n[[performer]]\nname = 'b'\nport = 2\n"
    )
    loaded = load_rig(rig)
    assert (loaded.record, loaded.memory.file) == ("/home/ada/takes/one.anticip", "/home/ada/piece.memory")
    assert (loaded.performers[0].mapping, loaded.record_spare) == ("/home/ada/m", str(tmp_path / "a~/b"))
