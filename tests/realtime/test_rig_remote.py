"""Loading another rig into a show: what is saved afterwards, and the part of one performer of several."""

import asyncio
import contextlib
import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.models import another_checkpoint
from support.playing import Playing

from pyanticip.errors import MotionError, OptionError, RigError
from realtime.clock import MonotonicClock
from realtime.loop import run_loop
from realtime.memory.live_memory import open_memory
from realtime.rig import Rig, load_rig
from realtime.rig.load import rig_for_performer
from realtime.sockets import free_port
from realtime.sources.udp import UdpSource
from realtime.stage import assemble, stage
from realtime.step.base import StepBackend

Play = Callable[..., Playing]
QUIET = "[model]\nenabled = false\n[memory]\nenabled = false\n"


def test_settings_that_need_a_restart_are_saved_unchanged(tmp_path, play):
    (tmp_path / "a.toml").write_text(QUIET + "[[osc]]\nport = 29096\n")
    big = tmp_path / "b.toml"
    text = (
        "# Big.\n[model]\nenabled = false\nbudget_ms = 10\n[memory]\nenabled = false\n"
        "[[osc]]\nhost = '192.0.2.50'\nport = 57110\naddresses.loudness = ['/n_set', 1000, 'amp']\n"
        "[[osc]]\nport = 9001\nmax_rate = 20\n[synth]\ndevice = 'Scarlett'\noptions = {root = 'D2'}\n"
    )
    big.write_text(text)
    show = play(load_rig(tmp_path / "a.toml"))
    assert show.do("rig/load", "b.toml").endswith("needs a restart: osc, model, synth")
    show.do("rig/save")
    assert big.read_text() == text
    show.commands.obey("rig/smoothing/pan/half_life", 0.1)
    show.commands.obey("preset", "choir")
    show.do("rig/save")
    was = load_rig(big)
    assert (was.smoothing["pan"].half_life, was.synth.preset, was.synth.device) == (0.1, "choir", "Scarlett")
    assert [table.port for table in was.osc] == [57110, 9001]
    # The receiver that was set is none of the file's two.
    show.commands.obey("rig/osc/0/ranges/pan/high", 2.0)
    before = big.read_text()
    with pytest.raises(RigError, match=r"b\.toml: osc: expected 1 of them, as the show has, got 2; nothing"):
        show.do("rig/save")
    assert big.read_text() == before


@pytest.mark.parametrize("lacks", ["mapping = 'gone.safetensors'", "memory.file = 'gone.memory'"])
def test_an_unusable_rig_changes_nothing(tmp_path: Path, play: Play, lacks: str) -> None:
    text = QUIET + "[[osc]]\nport = 29096\n"
    (tmp_path / "a.toml").write_text(text)
    memory = "" if "memory" in lacks else "memory.enabled = false\n"
    (tmp_path / "b.toml").write_text(
        f"{lacks}\ngain = 2.5\nlead_ms = 120\n{memory}model.enabled = false\nsynth.preset = 'choir'\n"
        "osc = [{port = 29096}]\n[shape.pan]\nin = [0.3, 0.6]\n"
    )
    show = play(load_rig(tmp_path / "a.toml"))
    before = show.rig
    with pytest.raises(MotionError, match=r"gone\."):
        show.do("rig/load", "b.toml")
    assert (show.rig, show.commands.preset) == (before, "")
    show.do("rig/save")
    assert (tmp_path / "a.toml").read_text() == text


def test_saving_right_after_loading_saves_the_loaded_rig(tmp_path: Path, play: Play) -> None:
    (tmp_path / "a.toml").write_text(QUIET)
    (tmp_path / "b.toml").write_text("gain = 2.5\n" + QUIET)
    show = play(load_rig(tmp_path / "a.toml"))

    async def both() -> list[str]:
        acts = show.remote.actions
        return await asyncio.gather(acts["rig/load"]("b.toml"), acts["rig/save"]("c"))  # type: ignore[call-overload]

    asyncio.run(both())
    assert load_rig(tmp_path / "c.toml").gain == 2.5
    assert show.commands.live_rig.file == tmp_path / "c.toml"


def test_a_refused_preset_leaves_the_rest_of_a_loaded_rig(tmp_path, play, monkeypatch):
    closed: list[StepBackend] = []
    monkeypatch.setattr(StepBackend, "close", lambda backend: closed.append(backend))
    (tmp_path / "sounds").mkdir()
    (tmp_path / "a.toml").write_text(QUIET)
    another_checkpoint(tmp_path / "model")
    text = "gain = 2.5\n[memory]\nenabled = false\n[synth]\npreset = 'granular'\nsamples = 'sounds'\n"
    (tmp_path / "b.toml").write_text(text + "[model]\nbackend = 'rust'\ncheckpoint = 'model'\n")
    show = play(load_rig(tmp_path / "a.toml", {"model": {"enabled": True, "backend": "rust"}}))

    class Voice:
        def preset(self, name: str) -> None:
            raise OptionError(f"preset {name}: no sounds")

    show.commands._voice = Voice()
    lines = show.do("rig/load", "b.toml")
    assert "preset granular: no sounds; model model-" in lines
    assert lines.endswith("; needs a restart: synth")
    assert (show.rig.gain, show.rig.model.checkpoint) == (2.5, str(tmp_path / "model"))
    assert show.pipeline.backend not in closed


def test_command_line_options_are_saved_except_record(tmp_path: Path, play: Play) -> None:
    file = tmp_path / "a.toml"
    table = "[source]\nport = 21000\nfrom = 'localhost'\n[[osc]]\nport = 29096\n"
    file.write_text("lead_ms = 50.0\n" + QUIET + table)
    over = {
        "lead_ms": 200.0, "synth": {"preset": "choir"}, "source": "mocopi://0.0.0.0:21001", "spin": True,
        "osc": [{"port": 29097}, {"port": 29098}], "record": "x.anticip",
    }  # fmt: skip
    show = play(load_rig(file, over).resolved())
    show.commands.obey("gain", 0.7)
    show.do("rig/save")
    was = load_rig(file)
    assert (was.lead_ms, was.synth.preset, was.spin, was.gain, was.record) == (
        200.0,
        "choir",
        True,
        0.7,
        None,
    )
    assert ([table.port for table in was.osc], was.source.port, was.source.sender) == (
        [29097, 29098],
        21001,
        "localhost",
    )


def test_a_calibration_is_written_into_the_current_rig(tmp_path: Path, play: Play) -> None:
    (tmp_path / "a.toml").write_text(QUIET)
    show = play(load_rig(tmp_path / "a.toml"))
    show.do("rig/save", "night2")
    show.commands.obey("calibrate/move")
    performer = show.pipeline.mixer.performer
    for level in (0.2, 0.4, 0.6) * 50:
        performer.listener([level] * 8, 1.0, 0.02)

    async def save() -> object:
        return await show.commands.obey("calibrate/save")  # type: ignore[misc]

    assert asyncio.run(save()) == f"playing, and written into {tmp_path / 'night2.toml'}"
    show.commands.obey("gain", 1.2)
    show.do("rig/save")
    was = load_rig(tmp_path / "night2.toml")
    assert (was.gain, was.performer.loudness) == (1.2, show.rig.performer.loudness)
    assert was.performer.loudness is not None
    assert (tmp_path / "a.toml").read_text() == QUIET


def test_what_a_loaded_rig_cannot_change_is_told_if_its_file_has_it(tmp_path: Path, play: Play) -> None:
    begun = QUIET + "[control]\nport = 29010\n[monitor]\nport = 29011\n"
    (tmp_path / "begun.toml").write_text(begun)
    (tmp_path / "plain.toml").write_text(QUIET)
    (tmp_path / "told.toml").write_text(
        f'record = "take.anticip"\n{begun.replace("29010", "29012")}[[performer]]\nname = "alice"\n'
    )
    show = play(load_rig(tmp_path / "begun.toml"))
    assert "needs a restart" not in show.do("rig/load", "plain")
    assert show.do("rig/load", "told").endswith("needs a restart: performer, control, record")
    (tmp_path / "calibrated.toml").write_text(f"{begun}[performer]\nloudness = [0.02, 0.1, 0.6]\n")
    show = play(load_rig(tmp_path / "calibrated.toml"))
    assert show.do("rig/load", "told").endswith("needs a restart: performer, control, record")


def test_one_of_several_performers_loads_a_rig_and_keeps_their_name(tmp_path: Path, play: Play) -> None:
    many = (
        QUIET + "[[osc]]\nport = 29040\n[[performer]]\nname = 'alice'\nport = 22361\n"
        "[[performer]]\nname = 'bob'\nport = 22362\n"
    )
    softer = "[smoothing.default]\nhalf_life = 0.3\n"
    (tmp_path / "begun.toml").write_text(many)
    (tmp_path / "many.toml").write_text(many + softer)
    (tmp_path / "one.toml").write_text(QUIET + softer.replace("3", "4") + "[[osc]]\nport = 29040\n")
    (tmp_path / "less.toml").write_text(many.replace("port = 29040", "port = 29040\nsend = ['param']"))
    show = play(rig_for_performer(load_rig(tmp_path / "begun.toml"), "alice"))
    live = show.commands.live_rig
    for name, half_life, restart in (("many", 0.3, ""), ("one", 0.4, "source"), ("less", None, "osc")):
        lines = show.do("rig/load", f"{name}.toml")
        assert lines.partition("needs a restart: ")[2] == restart
        assert live.rig.osc[0].prefix == "/anticip/alice"
        assert "default" not in live.rig.smoothing or live.rig.smoothing["default"].half_life == half_life
    for send in ((0,), ()):
        with pytest.raises(OptionError, match=r"osc\.0\.send\.ensemble: needs a restart"):
            show.commands.obey("rig/osc/0/send" + "/ensemble" * len(send), *(send or ("param", "event")))
    # Her saved rig is hers only, and needs a name.
    with pytest.raises(OptionError, match="what alice alone saves is another rig: expected a name"):
        show.do("rig/save")
    assert show.do("rig/save", "hers") == str(tmp_path / "hers.toml")
    assert load_rig(tmp_path / "hers.toml").osc == live.rig.osc
    assert (tmp_path / "many.toml").read_text() == many + softer


def test_a_saved_rig_plays_from_its_own_folder(tmp_path, play, monkeypatch):
    monkeypatch.chdir(tmp_path)
    another_checkpoint(tmp_path / "shows" / "models" / "m")
    shutil.copytree("shows/models/m", "shows/acts/models/m")
    quiet = "[memory]\nenabled = false\n[[osc]]\nport = 29096\n"
    Path("shows/stage.toml").write_text(quiet)
    for folder in ("shows", "shows/acts"):
        Path(folder, "other.toml").write_text(quiet + "[model]\ncheckpoint = 'models/m'\n")
    for path in ("shows/stage.toml", tmp_path / "shows" / "stage.toml"):
        Path("shows/stage.toml").write_text(quiet)
        show = play(load_rig(path))
        assert show.do("rig/load", "other.toml").startswith("gain, lead_ms; model")
        show.do("model/load", "models/m")
        assert Path(show.do("rig/save", f"as{len(str(path))}")).parent == Path(path).parent
        assert load_rig("shows/stage.toml").model.checkpoint is None
    # As named in a subfolder.
    assert "model" in show.do("rig/load", "acts/other.toml")
    show.do("rig/save", "third")
    models = {
        rig.name[:2]: tomllib.loads(rig.read_text())["model"] for rig in Path("shows").glob("[at]*.toml")
    }
    assert models == {"as": {"checkpoint": "models/m"}, "th": {"checkpoint": "acts/models/m"}}
    monkeypatch.chdir("shows")
    assert load_rig("third.toml").model.checkpoint == "acts/models/m"


def test_replies_repeat_the_arguments(play: Play) -> None:
    show = play(Rig.model_validate({"model": {"enabled": False}, "memory": {"enabled": False}}))
    assert show.commands.obey("rig/osc/0/prefix", "") == '""'
    assert show.commands.obey("rig/osc/0/prefix") == "as built in"
    with pytest.raises(OptionError, match=r"preset: expected one of .*, got \['bells'\]"):
        show.commands.obey("preset", ["bells"])


@pytest.mark.parametrize("spare", ["spare", "missing", "hidden/missing"])
def test_a_show_begins_without_its_spare_folder_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: str
) -> None:
    (tmp_path / "spare").mkdir()
    stat = Path.stat

    def forbidden(self: Path, **how: bool) -> os.stat_result:
        if "hidden" in self.parts:
            raise PermissionError(13, "Permission denied")
        return stat(self, **how)

    # As for anyone but root, who may run the tests.
    monkeypatch.setattr(Path, "stat", forbidden)
    file = tmp_path / "rig.toml"
    file.write_text(f"record_spare = '{spare}'\nosc = []\ncontrol.enabled = false\n{QUIET}")
    rig, lines = load_rig(file), []
    with contextlib.closing(UdpSource("mocopi", "127.0.0.1", free_port())) as source:
        show = stage(rig, assemble(rig, MonotonicClock()), source, say=lines.append)
        run_loop(show.run(0.0))
    said = [line for line in lines if line.startswith("record_spare")]
    assert len(said) == (spare != "spare")
    assert all("missing: expected a folder that can be written into; without it" in line for line in said)


@pytest.mark.parametrize("where", ["show/memories", "show"])
def test_a_saved_memory_is_loaded_by_name(piece, tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "show" / "memories").mkdir(parents=True)
    shutil.copy(piece, tmp_path / "show" / "memories")
    file = tmp_path / "show" / "rig.toml"
    file.write_text("osc = []\nmodel.enabled = false\ncontrol.enabled = false\n")
    rig = load_rig(file, {"memory": {"file": f"{where}/piece.memory"}} if where != "show" else None)
    pipeline = assemble(rig, MonotonicClock())
    # A memory without a file in the rig, as if all of it had been learned in this show.
    pipeline.memory = open_memory(piece)
    source = UdpSource("mocopi", "127.0.0.1", free_port())
    show = stage(rig, pipeline, source, say=print)
    act: dict[str, Any] = show.actions()

    async def play() -> None:
        assert await act["memory/save"]("tonight") == str(tmp_path / where / "tonight.memory")
        # Also as listed by the monitor.
        for name in ("tonight.memory", "memories/piece.memory"):
            assert await act["memory/load"](name) == f"memory {Path(name).name}"
        with pytest.raises(OptionError, match=f"no 'none' in {tmp_path / where}$"):
            await act["memory/load"]("none")

    run_loop(play())
    run_loop(show.run(0.0))
    source.close()
