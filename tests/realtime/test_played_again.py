"""A replay of a recording sends what the show sent: bundles on the wire, bit for bit."""

import json
import shutil
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from support.models import another_checkpoint
from support.playing import Playing
from support.wire import DatagramReceiver, command, messages, paced, run_here, start, udp, wait_for

from pyanticip.errors import OptionError
from pyanticip.memory import load_memory
from pyanticip.motion.recording import Control, RecordingWriter, read_recording
from realtime.bench.performer import mocopi_datagrams
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.mapping.performer import PerformerRange
from realtime.pipeline import Pipeline
from realtime.programs.live import replay
from realtime.recording.info import recording_info
from realtime.rig import Rig, load_rig
from realtime.sockets import free_port
from realtime.sources.replay import Command, open_show
from realtime.stage import assemble, recording_header

Play = Callable[..., Playing]
SKELETON, FRAMES = mocopi_datagrams(700)


A, B = "10.0.0.1:7000", "10.0.0.2:5000"


def frame_bundles(ear: DatagramReceiver) -> list[dict[str, list[Any]]]:
    """Every bundle with a frame, without messages about the show itself."""
    found = [messages(data) for data in ear.close()]
    return [each for each in found if "/anticip/frame" in each]


def test_a_later_recording_starts_with_the_sender_and_the_calibration() -> None:
    def senders_of(pipeline: Pipeline, frames: range, *senders: str) -> list[str]:
        """The current sender after each frame."""
        found = []
        for n in frames:
            for sender in senders:
                if n % 50 == frames.start % 50:
                    pipeline.feed(SKELETON, n * 20_000_000, sender)
                pipeline.feed(FRAMES[n], n * 20_000_000, sender)
            found += [name for name, plays, *_ in pipeline.front.senders() if plays]
        return found

    rig = Rig.model_validate({"model": {"enabled": False}, "osc": [], "monitor": {"token": "stage-left"}})
    pipeline = assemble(rig, OfflineClock(0))
    commands = Commands(pipeline, rig=rig)
    assert senders_of(pipeline, range(50), A, B)[-1] == A
    for selected in (None, "10.0.0.2"):
        if selected is None:
            assert senders_of(pipeline, range(50, 230), B)[-1] == B, "A was silent"
        else:
            commands.obey("source", selected)
        performer = pipeline.mixer.performer
        commands.obey("calibrate/move")
        for level in (0.2, 0.4, 0.6) * 50:
            performer.listener([level] * 8, 1.0, 0.02)
        commands.obey("calibrate/save")
        header = recording_header(commands.live_rig.rig, pipeline)
        assert header["rig"]["performer"]["noise"] is not None
        assert "token" not in header["rig"]["monitor"]
        assert "skeleton" not in header, "the frames are of the canonical body, not of the suit's"
        again = assemble(Rig.model_validate({**header["rig"], "osc": []}), OfflineClock(0))
        assert again.mixer.performer.reaches() == performer.reaches()
        follower = Commands(again)
        for obeyed in commands.state_as_commands(230 * 20_000_000):
            follower.replay_command(obeyed)
        assert set(senders_of(again, range(230, 300), A, B)) == {B}
        # A sender that was not selected may be replaced by another.
        assert senders_of(again, range(300, 480), A)[-1] == (A if selected is None else B)
        again.close()
    pipeline.close()


def test_a_frozen_range_is_not_recorded_as_calibrated() -> None:
    rig = Rig.model_validate({"model": {"enabled": False}, "osc": [], "performer": {"frozen": True}})
    for seconds in (0.0, 10.0):
        first = assemble(rig, OfflineClock(0))
        performer = first.mixer.performer
        performer.frozen = False
        for _ in range(round(50 * seconds)):
            performer.core.learn([0.9] * 8, 1.0, 0.02)
        commands = Commands(first, rig=rig)
        commands.obey("calibrate/freeze")
        header = recording_header(commands.live_rig.rig, first)
        again = assemble(Rig.model_validate({**header["rig"], "osc": []}), OfflineClock(0))
        follower = Commands(again, pytest.fail)
        for obeyed in commands.state_as_commands(0):
            follower.replay_command(obeyed)
        assert follower.state_as_commands(0) == commands.state_as_commands(0)
        assert [one.name for one in commands.state_as_commands(0)].count("range") == (2 if seconds else 0)
        same = again.mixer.performer
        assert same.frozen
        assert same.reaches() == performer.reaches()
        assert (performer.reaches() == PerformerRange().reaches()) == (seconds == 0.0)
        for each in (commands, follower):
            each.obey("calibrate/clear")
        assert same.reaches() == performer.reaches()
        for each in (commands, follower):
            each.obey("calibrate/freeze", 0)
        for one in (performer, same):
            for _ in range(500):
                one.core.learn([0.5] * 8, 1.0, 0.02)
        assert same.reaches() != PerformerRange().reaches(), "it is learned again"
        assert (same.reaches() == performer.reaches()) == (seconds == 0.0)
        first.close()
        again.close()


def test_a_recording_started_during_a_calibration_replays_its_result(play: Play, paper_model: Any) -> None:
    rig = Rig.model_validate({"osc": []})
    models = [paper_model(), paper_model()]
    for model in models:
        model.codes, model.steer = 8, Mock()
    first, again = (play(rig, say=pytest.fail, backend=model) for model in models)
    first.do("plan", 3, 10.0)
    first.do("calibrate/move")
    performer = first.pipeline.mixer.performer
    for level in (0.2, 0.4, 0.6) * 50:
        performer.listener([level] * 8, 1.0, 0.02)
    initial = first.commands.state_as_commands(0)
    first.recorded.clear()
    first.do("calibrate/save")
    again.replays([*initial, *first.recorded])
    same = again.pipeline.mixer.performer
    assert same.reaches() == performer.reaches()
    assert again.rig.performer == first.rig.performer
    for model in models:
        assert model.steer.call_args.args[0].tolist() == [0, 0, 0, 10, 0, 0, 0, 0]
    assert Command(0, "plan", (3, 10.0)) in again.commands.state_as_commands(0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("range", ("loudness", 0.02, 0.06, 0.5)),
        *(("calibrate/save", wrong) for wrong in (('{"loudness": [0.1, 0.2]}',), ("[]",), ("{",), ())),
        *(("rig/merge", (wrong,)) for wrong in ('{"osc": [1], "gain": 9}', '{"osc": 1}', "[]")),
        *(
            ("resume", wrong)
            for wrong in ((2.0,) * 8, (float("nan"),) * 8, (0.5,), ("x",) * 8, (None,) * 8, ())
        ),
        *(("hold", wrong) for wrong in ((), ("x",), (1, 2), (-1,), (512,), (2**62,))),
        ("shape", ("cutoff", 1, 1)),
    ],
)
def test_an_invalid_recorded_command_is_one_line_and_changes_nothing(name, arguments):
    tree = {"model": {"enabled": False}, "osc": [], "performer": {"enabled": name != "range"}}
    rig = Rig.model_validate(tree)
    pipeline, lines = assemble(rig, OfflineClock(0)), list[str]()
    commands = Commands(pipeline, lines.append, rig)
    before = commands.state_as_commands(0)
    commands.replay_command(Command(0, name, arguments))
    assert [line.startswith(f"{name}: cannot be done again as it was recorded: ") for line in lines] == [True]
    assert (commands.state_as_commands(0), commands.live_rig.rig) == (before, rig)
    assert pipeline._datagrams_to_hold == 0
    pipeline.close()


@pytest.mark.parametrize("here", [(), ("tcp://127.0.0.1:9100",), ("localhost:9100", "localhost:9101")])
def test_a_loaded_rig_is_replayed_with_other_receivers(play, tmp_path, here):
    there = "[[osc]]\nport = 9000\nlatency_ms = 20\n[[osc]]\nhost = '127.0.0.2'\n"
    off = "[model]\nenabled = false\n[memory]\nenabled = false\n"
    (tmp_path / "rig.toml").write_text(there + off)
    (tmp_path / "other.toml").write_text(
        "gain = 0.5\nshape.pan.steps = 3\n" + there.replace("20", "30") + "max_rate = 10\n" + off
    )
    rig = load_rig(tmp_path / "rig.toml")
    first = play(rig, sinks=[])
    initial = first.commands.state_as_commands(0)
    first.do("rig/load", "other.toml")
    listening = rig.model_copy(update={"osc": Rig.model_validate({"osc": here}).osc})
    again = play(listening, say=pytest.fail, sinks=[])
    again.replays([*initial, *first.recorded])
    now = again.rig
    assert (now.gain, now.shape) == (0.5, first.rig.shape)
    assert [one.url for one in now.osc] == [one.url for one in listening.osc]
    assert [(one.latency_ms, one.max_rate) for one in now.osc] == [(30.0, None), (0.0, 10.0)][: len(here)]
    assert first.pipeline.mixer.sound_ms == again.pipeline.mixer.sound_ms == 30.0
    lines: list[str] = []
    again.commands = Commands(again.pipeline, lines.append, now)
    sound = ("sound_ms", 90, 90.0), ("sound_ms", "auto", 30.0), ("rig/osc/0/latency_ms", 70.0, 70.0)
    for name, value, sounds in sound:
        first.recorded.clear()
        first.do(name, value)
        again.replays(first.recorded)
        assert first.pipeline.mixer.sound_ms == again.pipeline.mixer.sound_ms == sounds
    assert len(lines) == (not here), "there is no receiver of this number"


def test_an_unknown_sender_can_be_selected_by_address_not_by_name() -> None:
    pipeline = assemble(Rig.model_validate({"model": {"enabled": False}, "osc": []}), OfflineClock(0))
    commands = Commands(pipeline)
    for n, sender in enumerate((A, B)):
        pipeline.feed(SKELETON, n, sender)
        assert pipeline.feed(FRAMES[n], n, sender) == (sender == A)
    for wrong in ("lapTop", "10.0.0.300", "10.0.0.3:x", "10.0.0.3:1:2"):
        with pytest.raises(OptionError, match=rf"heard \({A}, {B}\), got '{wrong}'"):
            commands.obey("source", wrong)
    for sender in ("10.0.0.3", "10.0.0.3:5000", "[fd00::3]:5000", "fd00::3"):
        assert commands.obey("source", sender) == f"{sender}, not heard yet"
    assert commands.obey("source", "10.0.0.3") == "10.0.0.3, not heard yet"
    for n in range(2, 50):
        assert not pipeline.feed(FRAMES[n], n * 20_000_000, A)
    pipeline.feed(SKELETON, 10**9, "10.0.0.3:7")
    assert pipeline.feed(FRAMES[0], 10**9, "10.0.0.3:7")
    pipeline.close()


def test_a_selected_host_keeps_all_its_ports_in_a_later_recording() -> None:
    rig = Rig.model_validate({"model": {"enabled": False}, "osc": [], "source": {"from": "10.0.0.1"}})
    pipeline = assemble(rig, OfflineClock(0))
    commands = Commands(pipeline, rig=rig)
    again = assemble(rig, OfflineClock(0))
    follower = Commands(again, rig=rig)
    received: dict[Pipeline, int] = {pipeline: 0, again: 0}
    for n in range(100):
        if n == 50:
            for obeyed in commands.state_as_commands(n * 20_000_000):
                follower.replay_command(obeyed)
        for each in (pipeline, again) if n >= 50 else (pipeline,):
            if n % 50 == 0:
                each.feed(SKELETON, n * 20_000_000, f"10.0.0.1:{6000 + n}")
            received[each] += each.feed(FRAMES[n], n * 20_000_000, f"10.0.0.1:{5000 + n}")
    assert received == {pipeline: 100, again: 50}
    for each in received:
        each.close()


def test_the_recorded_sender_is_not_awaited_for_ever() -> None:
    pipeline = assemble(Rig.model_validate({"model": {"enabled": False}, "osc": []}), OfflineClock(0))
    Commands(pipeline).replay_command(Command(0, "player", (A,)))
    pipeline.feed(SKELETON, 0, B)
    received = [pipeline.feed(FRAMES[n], n * 20_000_000, B) for n in range(110)]
    assert received == [False] * 102 + [True] * 8
    pipeline.close()


def test_a_recording_without_a_model_is_replayed_with_the_rig_s_model() -> None:
    rig = Rig.model_validate({"lead_ms": 120.0, "mapping": "mine.safetensors", "synth": {"enabled": True}})
    listens = rig.for_recording()
    pipeline = assemble(listens, OfflineClock(0))
    assert (pipeline.backend, list(pipeline.sinks), listens.synth.enabled) == (None, [], False)
    recorded = recording_header(listens.resolved(), pipeline)["rig"]
    assert recorded["model"]["enabled"]
    assert (recorded["lead_ms"], recorded["mapping"]) == (120.0, "mine.safetensors")
    pipeline.close()


@pytest.mark.parametrize("speed", [None, 20.0])
def test_the_recording_of_a_replay_has_the_original_times(tmp_path, speed):
    first, again = tmp_path / "m.anticip", tmp_path / "r.anticip"
    with RecordingWriter(first, t_ns=7_000_000_000) as tape:
        for n, datagram in enumerate([SKELETON, *FRAMES[:100]]):
            tape.raw(8_000_000_000 + n * 20_000_000, "mocopi", datagram)
    kind, items = open_show(first)
    tree = {"record": str(again), "model": {"enabled": False}, "control": {"enabled": False}}
    tree["osc"] = [{"latency_ms": 50.0}]
    replay(items, kind, Rig.model_validate(tree), speed=speed, say=str)
    recording = read_recording(again)
    controls = [record for record in recording if isinstance(record, Control)]
    assert ("sound_ms", (50.0,)) in [(one.name, tuple(one.arguments)) for one in controls], "of its receiver"
    (end,) = [one.t_ns for one in controls if one.name == "end"]
    assert end == 10_000_000_000 or (end > 10_000_000_000 and speed is not None)
    assert recording.start_ns == 8_000_000_000
    times = [record.t_ns for record in recording]
    assert 8_000_000_000 <= min(times) <= max(times) < 11_000_000_000
    assert 2.0 <= recording_info(again)["duration_s"] < 3.0


@pytest.mark.slow
def test_a_show_with_every_command_replays_to_the_same_bits(piece: Path, tmp_path: Path) -> None:
    shutil.copy(piece, tmp_path)
    ear, again, out = DatagramReceiver(), DatagramReceiver(), udp()
    port, control = free_port(), free_port()
    shapes = "shape.pan = {threshold = 0.5, toggle = true}\nshape.pitch = {invert = true, steps = 9}\n"
    (tmp_path / "rig.toml").write_text(f"lead_ms = 'auto'\n{shapes}[control]\nport = {control}\n")
    another_checkpoint(tmp_path / "other")
    live = start(
        "live", "--rig", "rig.toml", "--json", "--record", "take.anticip", "--source",
        f"mocopi://127.0.0.1:{port}", "--osc", f"127.0.0.1:{ear.port}", "--memory", "piece.memory",
        cwd=tmp_path,
    )  # fmt: skip
    commands: dict[int, tuple[Any, ...]] = {
        45: ("sound_ms", 60.0),
        50: ("learn/density", True),
        55: ("rig/smoothing/roughness/half_life", 0.3),
        75: ("rig/shape/brightness/invert", True),
        100: ("rig/osc/0/ranges/space/high", 50.0),
        130: ("learn/density", False),
        135: ("rig/shape/pitch/steps",),
        225: ("rig/merge", '{"shape": {"pan": null, "loudness": {"in": [0.0, 0.5]}}}'),
        60: ("gain", 0.5),
        70: ("memory/freeze",),
        140: ("memory/learn",),
        340: ("memory/save", "tonight"),
        90: ("freeze", 1),
        120: ("freeze", 0),
        150: ("lead_ms", 200.0),
        160: ("tempo", 133.0, 0.25),
        430: ("tempo",),
        180: ("smoothing", 3.0),
        190: ("model/load", "other"),
        210: ("bypass", 1),
        240: ("bypass", 0),
        270: ("panic",),
        300: ("start",),
        330: ("lead_ms", "auto"),
        379: ("model/load",),
        480: ("stop",),
        510: ("start",),
    }
    rng = np.random.default_rng(2)
    lost = set(rng.choice(500, 25, replace=False).tolist()) | set(range(350, 362))
    wait_for(
        lambda: live.poll() is not None or any(b"/anticip/status" in data for data in ear.datagrams), 30.0
    )
    for n in paced(560):
        if n % 100 == 0:
            out.sendto(SKELETON, ("127.0.0.1", port))
        if n in commands:
            out.sendto(command(*commands[n]), ("127.0.0.1", control))
        # A gap of a quarter of a second, one of a second and a half, and single frames.
        if n not in lost and not 400 <= n < 475:
            out.sendto(FRAMES[n], ("127.0.0.1", port))
    time.sleep(0.7)
    live.send_signal(2)
    lines, errors = live.communicate(timeout=20)
    assert live.returncode == 0, errors
    counts = json.loads(lines)["counters"]
    played = frame_bundles(ear)
    words = [word for data in ear.datagrams for word in messages(data).get("/anticip/status", ())]
    for state in ("frozen", "learns"):
        assert any(word.startswith("memory=piece.memory ") and word.endswith(f" {state}") for word in words)
    assert sum(len(m.get("/anticip/trust", ())) == 24 for m in played) > 300
    assert len(load_memory(tmp_path / "tonight.memory").takes) == 2
    assert len(played) + counts["superseded"] > 580
    assert counts["bridged"] > 30
    assert counts["ticks"] > 60

    out.close()
    osc = f"127.0.0.1:{again.port}"
    run_here("replay", "take.anticip", "--speed", "max", "--osc", osc, "--json", cwd=tmp_path)
    received = frame_bundles(again)
    # A machine under load may have left out bundles that were too late to be worth sending.
    found = {m["/anticip/frame"][0]: m for m in received}
    assert len(found) == len(received) == len(played) + counts["superseded"]
    assert counts["superseded"] or [m["/anticip/frame"] for m in received] == [
        m["/anticip/frame"] for m in played
    ]
    # Counted in the replay, which has the superseded bundles too.
    assert sum(m["/anticip/tempo"][::2] == [133.0, 1.0] for m in received) > 240, "also while nobody plays"
    different = []
    for before, m in pairwise([{"/anticip/frame": [-1]}, *played]):
        number = m["/anticip/frame"][0]
        other = found[number]
        if number - before["/anticip/frame"][0] > 1:
            # With it came the events of bundles that were left out.
            m, other = ({k: v for k, v in x.items() if "/event/" not in k} for x in (m, other))
        different += [m["/anticip/frame"]] if m != other else []
    assert different == []
    assert {0.0, 1.0} <= {m["/anticip/param/pan"][0] for m in played[50:200]}
    # The file has the counts of the show.
    info = run_here("info", "take.anticip", "--json", cwd=tmp_path)
    assert json.loads(info)["lost"] == counts["lost"] > 0
