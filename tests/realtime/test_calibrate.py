"""Calibration: the rig that is written, the commands, a real performance, a real suit's datagrams."""

import asyncio
import contextlib
import json
import shutil
import socket
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.stranger import Suit, refused_skeleton

from pyanticip.cli import cli
from pyanticip.errors import DeviceError, OptionError, RigError, SkeletonError
from pyanticip.motion.load import load_motion
from pyanticip.untrusted import read_file
from realtime.bench.offline_listener import integrated
from realtime.bench.stillness import jitter, perform, stopped, with_performer
from realtime.control.calibration import Calibration
from realtime.mapping.performer import PerformerRange, Reach
from realtime.programs.calibrate import calibrate_from, calibrate_live
from realtime.rig import load_rig, template
from realtime.rig.edit import edit_rig
from realtime.sockets import free_port

TABLE = {"noise": [0.5] * 22, "loudness": [0.02, 0.1, 0.6], "brightness": [0.02, 0.2, 0.7]}
NOW = [0.5, 0.4, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gain = 2.0  # mine\n",
        template(),
        "[performer]\nfrozen = true  # mine\nloudness = [0.0, 0.1, 0.2]\n\n[control]\nport = 9011\n",
        "gain = 2.0\n[[osc]]\nport = 9001",
        "performer.frozen = true\n",
        "performer = { frozen = true }\n",
    ],
)
def test_an_edited_rig_keeps_everything_else(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rig.toml"
    if text:
        file.write_text(text)
    edit_rig(file, {}, {"performer": TABLE})
    file.write_text(file.read_text(), encoding="utf-8-sig")  # some editors begin every file with this mark
    edit_rig(file, {}, {"performer": TABLE})
    new = file.read_text()
    before, after = tomllib.loads(text), tomllib.loads(new)
    assert after["performer"] == {**before.pop("performer", {}), **TABLE}
    after.pop("performer")
    assert after == before
    ours = ("noise", "loudness", "brightness")
    other_lines = [
        line for line in text.splitlines() if line.strip() and not line.startswith((*ours, "performer ="))
    ]
    assert [line for line in new.splitlines() if line in other_lines] == other_lines
    assert load_rig(file).performer.loudness == (0.02, 0.1, 0.6)


def test_an_edited_rig_keeps_the_line_ends_of_windows(tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    file.write_bytes(b"# mine\r\n[source]\r\nkind = 'vmc'\r\n")
    edit_rig(file, {}, {"gain": 2.0, "performer": TABLE})
    text = file.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n") > 5
    assert text.count(b"\r") == text.count(b"\n")


def test_a_changed_inline_table_keeps_the_comments_of_its_list(tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    file.write_text("cue = [\n  {name = 'a', take = 't', at = 1.0},  # first\n]\n")
    before = {"cue": [{"name": "a", "take": "t", "at": 1.0}]}
    edit_rig(file, before, {"cue": [{"name": "a", "take": "t", "at": 5.0}]})
    assert "at = 5.0},  # first\n" in file.read_text()


def test_a_comment_above_a_table_belongs_to_it(tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    names = ("one", "two", "three")
    parts = {n: f"# Of {n},\n# long.\n[[cue]]  # {n}\nname = '{n}'\ntake = 't'\nat = 1.0\n\n" for n in names}
    begin, end = "# All.\n[silence]\nhold = 2.0\n\n", "# The suit.\n[source]\nkind = 'vmc'\n"

    def rig(*cues: str) -> dict[str, Any]:
        return {"cue": [{"name": name, "take": "t", "at": 1.0} for name in cues]}

    for kept in (("two", "three"), ("one", "three"), ("one", "two"), ("three", "one")):
        file.write_text(begin + "".join(parts.values()) + end)
        edit_rig(file, rig(*names), rig(*kept))
        assert file.read_text() == begin + "".join(parts[name] for name in kept) + end
    edit_rig(file, rig("three", "one"), rig("three", "one", "four"))
    text = file.read_text()
    assert text.startswith(begin + parts["three"] + parts["one"] + '[[cue]]\nname = "four"\n')
    assert text.endswith(end)
    edit_rig(file, {**rig("three", "one", "four"), "silence": {"hold": 2.0}}, {})
    assert file.read_text() == "# All.\n" + end


def test_concurrent_edits_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "rig.toml").touch()
    both = threading.Barrier(2, timeout=0.2)

    def read(*args: Any) -> bytes:
        data = read_file(*args)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait()
        return data

    monkeypatch.setattr("realtime.rig.edit.read_file", read)
    with ThreadPoolExecutor(2) as threads:
        for new in ({"performer": TABLE}, {"gain": 1.5}):
            threads.submit(edit_rig, file, {}, new)
    assert (load_rig(file).gain, load_rig(file).performer.loudness) == (1.5, (0.02, 0.1, 0.6))


@pytest.mark.parametrize("text", ["performer = 3\n", "gain = [\n", "gain = 9.0\n"])
def test_an_invalid_rig_is_not_edited(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rig.toml"
    file.write_text(text)
    with pytest.raises(RigError, match=r"rig\.toml: (gain|performer|not valid TOML)"):
        edit_rig(file, {}, {"performer": {"frozen": 3}})
    assert file.read_text() == text


class Front:
    noise = np.radians(np.full(22, 0.5))


class Playing:
    """A pipeline as seen by a calibration."""

    def __init__(self, performer: PerformerRange | None) -> None:
        self.front = Front()
        self.mixer = type("Mixer", (), {"performer": performer})()

    def learn(self, now: list[float], activity: float, seconds: float) -> None:
        performer = self.mixer.performer
        for _ in range(round(seconds * 50)):
            if performer.listener is not None:
                performer.listener(now, activity, 0.02)
            performer.core.learn(now, activity, 0.02)


MOVED = r"calibrate/still: you moved while .* stood still; .*\(\w+ 0\.\d+, expected below 0\.\d+\)"


def test_still_move_save_clear_freeze(tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    file.touch()
    playing = Playing(PerformerRange())
    act = {n.removeprefix("calibrate/"): a for n, a in Calibration(playing, lambda: file).actions.items()}  # type: ignore[arg-type]
    act["still"]()
    playing.learn([0.9] * 8, 1.0, 0.5)  # settling
    playing.learn([0.01] * 8, 0.0, 3.0)
    act["move"]()
    playing.learn([0.0] * 8, 0.0, 1.0)  # standing does not count as moving
    for level in np.linspace(0.1, 0.6, 11):
        playing.learn([float(level)] * 8, 1.0, 1.0)
    assert asyncio.run(act["save"]()) == f"playing, and written into {file}"
    assert tomllib.loads(file.read_text())["performer"]["noise"] == [0.5] * 22
    loudness = playing.mixer.performer.reaches()["loudness"]
    assert loudness == Reach(0.02, 0.1, 0.6)
    assert load_rig(file).performer.reaches()["loudness"] == loudness
    # A rig file that is gone is not replaced by one with this table alone.
    file.unlink()
    act["still"]()
    playing.learn([0.01] * 8, 0.0, 3.0)
    act["move"]()
    playing.learn([0.3] * 8, 1.0, 3.0)
    assert act["save"]() == f"playing, but not written: {file} is gone; rig/save writes the whole rig into it"
    assert not file.exists()
    assert act["clear"]() == "learning while playing"
    assert playing.mixer.performer.reaches()["loudness"] != loudness
    assert act["freeze"](1) == "frozen"
    assert playing.mixer.performer.frozen
    assert act["freeze"](0) == "learning"


def test_a_calibration_needs_two_seconds_of_each_phase() -> None:
    playing = Playing(PerformerRange())
    calibration = Calibration(playing)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match=r"calibrate/move: expected at least 2 s of it, got 0\.0"):
        calibration.save()
    calibration.still()
    # An error before the dance; a performer who stands longer may then continue.
    for received, seconds in ((0.0, 0.7), (0.7, 0.9), (1.6, 0.5)):
        with pytest.raises(
            DeviceError, match=f"calibrate/still: expected at least 2 s of it, got {received}"
        ):
            calibration.move()
        playing.learn([0.01] * 8, 0.0, seconds)
    assert calibration.move() == "move as you will"
    calibration.still()
    playing.learn(NOW, 1.0, 3.0)
    with pytest.raises(DeviceError, match=MOVED):
        calibration.move()
    with pytest.raises(OptionError, match="plays without it"):
        Calibration(Playing(None)).still()  # type: ignore[arg-type]


@pytest.mark.parametrize("then", ["moves", "stood still", "nothing"])
def test_calibrate_prompts_until_the_performer_moves(monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    monkeypatch.setattr("realtime.programs.calibrate._TIMEOUT_S", 2.0)
    rig = load_rig(None, {"source": {"kind": "msgpack", "port": (port := free_port())}})
    suit = Suit(port, "msgpack")
    suit.moves = False
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if line == "move as you will: 2 s":
            suit.moves = then == "moves"
            if then == "nothing":
                suit.over.set()

    with suit:
        if then == "moves":
            assert set(calibrate_live(rig, 2.0, 2.0, say)) >= {"loudness", "noise"}
        else:
            with pytest.raises(DeviceError, match=f"to move as you will, .*{then} for 2 s"):
                calibrate_live(rig, 2.0, 2.0, say)
    assert lines[-1] == "move as you will: 2 s"


def test_a_refused_body_is_reported_by_calibrate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime.programs.calibrate._TIMEOUT_S", 1.0)
    rig = load_rig(None, {"source": {"kind": "msgpack", "port": (port := free_port())}})
    with (
        Suit(port, "msgpack", skeleton=refused_skeleton()),
        pytest.raises(SkeletonError, match=r"the body of this msgpack cannot be played: .* lies"),
    ):
        calibrate_live(rig, 4.0, 2.0, str)


def test_a_recorded_performance_and_its_command(data_dir: Path, tmp_path: Path) -> None:
    rig = tmp_path / "new.toml"
    take = data_dir / "cmu" / "49_10.amc"
    found = CliRunner().invoke(cli, ["calibrate", str(take), "--rig", str(rig), "--json"])
    assert found.exit_code == 0, found.output
    table = json.loads(found.stdout)
    assert table == calibrate_from(take, with_performer())
    assert tomllib.loads(rig.read_text())["performer"] == table
    still, low, high = table["loudness"]
    assert still == 0.02 <= low < 0.05 < high < 0.25


def test_calibrate_reads_a_file_with_the_skeleton_of_rig_or_option(data_dir: Path, tmp_path: Path) -> None:
    cmu, alone, rig = data_dir / "cmu", tmp_path / "take.amc", tmp_path / "rig.toml"
    shutil.copy(cmu / "49_10.amc", alone)
    rig.write_text(f"[source]\nskeleton = '{cmu / '49.asf'}'\n")
    as_the_rig = CliRunner().invoke(cli, ["calibrate", str(alone), "--rig", str(rig)])
    by_option = CliRunner().invoke(cli, ["calibrate", str(alone), "--skeleton", str(cmu / "49.asf")])
    for found in (as_the_rig, by_option):
        assert found.exit_code == 0, found.output
        assert f"{alone}: AMC files have no rate" in found.stderr


def test_a_slow_dance_is_audible_and_stillness_is_silent(data_dir: Path) -> None:
    cmu = data_dir / "cmu"
    clip = load_motion(cmu / "49_09.amc")
    table = calibrate_from(cmu / "49_10.amc", with_performer())
    rig = with_performer(**table)
    loudness = np.array(perform(clip, rig, sound=False).params)[:, 1]
    assert np.subtract(*np.quantile(loudness, (0.95, 0.05))) > 0.5
    for slow in (False, True):
        held = perform(jitter(clip, 6.0, 1.0, slow, 0, length=5.0), rig)
        assert integrated(held.sound) < -50.0
        assert held.events == []
        stop = stopped(load_motion(cmu / "05_09.bvh"), 0.2, slow, 0)
        assert max(p[1] for p in perform(stop, with_performer(), sound=False).params[-125:]) < 1e-3


@pytest.mark.parametrize(
    ("junk", "why"),
    [(b"", "no frame of xsens came to"), (b"MXTP01" + bytes(754), "MXTP01 .*choose Position")],
)
def test_calibrate_without_a_playable_suit_is_one_line(monkeypatch, junk, why):
    monkeypatch.setattr("realtime.programs.calibrate._TIMEOUT_S", 0.3)
    rig = load_rig(None, {"source": {"kind": "xsens", "port": (port := free_port())}})

    def send_junk(line: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            if junk:
                sock.sendto(junk, ("127.0.0.1", port))

    began = time.monotonic()
    with pytest.raises(DeviceError, match=why):
        calibrate_live(rig, 2.0, 2.0, send_junk)
    assert time.monotonic() - began < 20.0
