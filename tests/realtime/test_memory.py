"""A memory in a show: rehearsed movement is known ahead, reported over OSC, and replayed bit for bit."""

import asyncio
import functools
import json
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.ear import Ear
from support.playing import outputs, replayed

from pyanticip._core import Memory, teacher_parameters
from pyanticip.cli import cli
from pyanticip.errors import DeviceError, FormatError, MotionError, OptionError
from pyanticip.memory import load_memory
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.control.memory import MemoryRemote
from realtime.control.rig_remote import RigRemote
from realtime.memory.live_memory import LiveMemory, open_memory
from realtime.pipeline import Pipeline
from realtime.programs.demo import PERFORMANCE as DANCE
from realtime.programs.live import replay
from realtime.programs.rehearse import rehearse
from realtime.rig import load_rig
from realtime.sinks.base import ControlFrame
from realtime.sources.replay import Command, open_show, play_offline
from realtime.stage import assemble

OFF = {"osc": [], "control": {"enabled": False}, "model": {"backend": "rust"}}


def show(
    over: dict[str, Any],
    meddle: Callable[[Pipeline, int], None] = lambda pipeline, n: None,
    most: int | None = None,
) -> tuple[Ear, Pipeline]:
    """The bundled dance on an offline clock, or its first datagrams."""
    kind, items = open_show(DANCE)
    clock, ear = OfflineClock(), Ear()
    pipeline = assemble(load_rig(None, {**OFF, **over}), clock, kind=kind, sinks=[ear])
    frames = 0

    def receive(data: bytes, t_ns: int, sender: str) -> None:
        nonlocal frames
        frames += pipeline.feed(data, t_ns, sender)
        meddle(pipeline, frames)

    play_offline(islice(items, most), clock, receive)
    pipeline.close()
    return ear, pipeline


@functools.cache
def _cached_show(over: str) -> tuple[Ear, Pipeline]:
    return show(json.loads(over))


def cached_show(over: dict[str, Any]) -> tuple[Ear, Pipeline]:
    """The same for tests that only read it."""
    return _cached_show(json.dumps(over))


def heard(ear: Ear) -> list[tuple[int, list[float]]]:
    return [(frame.seq, list(frame.params)) for frame in ear.frames]


def test_a_rehearsed_memory_forecasts_better(piece: Path) -> None:
    """200 ms ahead by the offline teacher: closer than the model alone, or a memory of this show only."""
    first, ahead, errors = 200, 10, {}
    for name, memory in (("none", {"enabled": False}), ("own", {}), ("rehearsed", {"file": str(piece)})):
        frames = [frame for frame in cached_show({"memory": memory})[0].frames if frame.pose is not None]
        truth = teacher_parameters(np.array([frame.pose for frame in frames]))[first + ahead :]
        lines = np.array([frame.forecast[:, 3] for frame in frames[first:-ahead]])
        errors[name] = float(np.abs(lines - truth).mean())
    assert errors["rehearsed"] < 0.8 * errors["none"]
    assert errors["rehearsed"] < 0.9 * errors["own"]
    assert errors["own"] < 1.02 * errors["none"]


def test_prewarming_changes_no_output(piece: Path) -> None:
    over = {"lead_ms": 200, "memory": {"file": str(piece)}}
    calm, _ = cached_show(over)

    def disturb(pipeline: Pipeline, n: int) -> None:
        pipeline.prewarm()

    restless, _ = show(over, disturb, 600)
    assert heard(restless)[:590] == heard(calm)[:590]


class ObservingEar(Ear):
    """Calls a function when it receives a frame."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act

    def send(self, frame: ControlFrame) -> None:
        if frame.body is not None:
            self._act()


def test_a_frame_is_learned_after_it_was_sent() -> None:
    """A frame is not learned yet when the sinks get it, but is once the datagram is processed."""
    waiting = []

    def watch(pipeline: Pipeline, n: int) -> None:
        core = pipeline.mixer.core
        if n == 1 and not waiting:
            pipeline.sinks.append(ObservingEar(lambda: waiting.append(core.range_sample is not None)))
        assert core.range_sample is None

    show({"lead_ms": 200}, watch)
    assert len(waiting) > 1000
    assert all(waiting)


@pytest.mark.parametrize("lead_ms", [0, 200])
def test_the_memory_changes_the_output_and_reports_its_trust(piece: Path, lead_ms: float) -> None:
    without, _ = cached_show({"lead_ms": lead_ms, "memory": {"enabled": False}})
    with_, pipeline = cached_show({"lead_ms": lead_ms, "memory": {"file": str(piece)}})
    assert heard(without) != heard(with_)
    assert all(len(frame.trust) == 24 for frame in with_.frames[:1000])
    assert all(0.0 <= min(frame.trust) <= max(frame.trust) <= 1.0 for frame in with_.frames[:1000])
    assert not any(frame.trust for frame in without.frames)
    assert any(word.startswith("memory=piece.memory ") for word in pipeline.status())
    # A file name that is not UTF-8.
    pipeline.memory.name = "pi\udce8ce.memory"
    assert any(word.startswith("memory=pi?ce.memory ") for word in pipeline.status())


def test_memory_commands_have_the_same_effect_in_a_replay(piece: Path, tmp_path: Path) -> None:
    kind, items = open_show(DANCE)
    file = tmp_path / "piece.memory"
    shutil.copy(piece, file)
    memory = {"memory": {"file": str(file)}, "lead_ms": 200}
    rig = load_rig(None, {**OFF, **memory, "record": str(tmp_path / "a.anticip")})
    at = {0: "memory/freeze", 200: "memory/learn", 600: "memory/clear", 800: "memory/freeze"}
    shown = list(items)[:900]
    commands = [Command(shown[n].t_ns, name) for n, name in at.items()]
    replay(sorted([*shown, *commands], key=lambda item: item.t_ns), kind, rig, speed=None, say=pytest.fail)
    assert replayed(tmp_path / "a.anticip") == outputs(tmp_path / "a.anticip")
    # The file is found beside the recording; a different or missing file is one line.
    away = tmp_path / "away"
    away.mkdir()
    for name in ("a.anticip", "piece.memory"):
        shutil.move(tmp_path / name, away / name)
    over = {"osc": [], "control": {"enabled": False}}
    assert assemble(load_rig(None, over, away / "a.anticip"), OfflineClock(), sinks=[]).memory is not None
    rehearse([DANCE], away / "piece.memory", force=True, rest=0)
    lost = rf"^{away / 'a.anticip'}: the memory .* none of {file}, {away / file.name}, .* --memory FILE$"
    with pytest.raises(FormatError, match=lost):
        load_rig(None, over, away / "a.anticip")
    (away / "piece.memory").unlink()
    with pytest.raises(FormatError, match=lost):
        load_rig(None, over, away / "a.anticip")
    # A memory on the command line takes precedence.
    chosen = load_rig(None, {**over, "memory": {"file": str(piece)}}, away / "a.anticip")
    assert assemble(chosen, OfflineClock(), sinks=[]).memory is not None


def test_a_loaded_memory_has_the_same_effect_in_a_replay(piece: Path, tmp_path: Path) -> None:
    kind, items = open_show(DANCE)
    shown = list(items)[:900]
    loaded = Command(shown[400].t_ns, "memory", (str(piece), open_memory(piece).sha256))
    found = []
    for name, played in (("plain", shown), ("loaded", sorted([*shown, loaded], key=lambda item: item.t_ns))):
        rig = load_rig(None, {**OFF, "lead_ms": 200, "record": str(tmp_path / f"{name}.anticip")})
        replay(played, kind, rig, speed=None, say=pytest.fail)
        found.append(outputs(tmp_path / f"{name}.anticip"))
    assert found[0][:390] == found[1][:390]
    assert found[0][-400:] != found[1][-400:]
    assert replayed(tmp_path / "loaded.anticip") == found[1]


def test_the_place_is_reported_and_a_cue_fires_once_ahead(piece: Path) -> None:
    cues = [{"name": "turn", "take": "performance", "at": 12.0, "ahead_ms": 300}]
    ear, _ = show({"memory": {"file": str(piece)}, "cue": cues})
    found = [frame for frame in ear.frames if frame.place is not None and frame.place[0] == 0]
    assert len(found) > 1000
    away = [abs(frame.place[1] - frame.seconds) for frame in found if frame.place is not None]
    assert np.median(away) < 0.05
    lines = [
        (frame.seconds, name, strength, ahead)
        for frame in ear.frames
        for name, strength, ahead in frame.events
        if name.startswith("cue/")
    ]
    ((at, name, trust, ahead),) = lines
    assert name == "cue/turn"
    assert 0.2 < ahead <= 0.3
    assert at + ahead == pytest.approx(12.0, abs=0.1)
    assert 0.5 < trust <= 1.0


def test_a_tapped_cue_fires_in_the_next_pass_and_in_a_replay(piece: Path, tmp_path: Path) -> None:
    kind, items = open_show(DANCE)
    shown = list(items)[:800]
    # Its first half twice, with a second without the suit between: the cue is set in the first pass.
    length = shown[-1].t_ns + 1_000_000_000
    again = [item._replace(t_ns=item.t_ns + length) for item in shown]
    over = {"memory": {"file": str(piece)}, "record": str(tmp_path / "a.anticip")}
    tapped = Command(shown[600].t_ns, "cue/set", ("here",))
    items = sorted([*shown, tapped, *again], key=lambda item: item.t_ns)
    replay(items, kind, load_rig(None, {**OFF, **over}), speed=None, say=pytest.fail)
    played = outputs(tmp_path / "a.anticip")
    cues = [event for *_, events in played for event in events if event[0] == "cue/here"]
    assert len(cues) == 1
    assert 0.1 < cues[0][2] <= 0.2
    assert replayed(tmp_path / "a.anticip") == played


def test_invalid_cues_are_refused(piece: Path, tmp_path: Path) -> None:
    cue = {"name": "turn", "take": "performance", "at": 12.0}
    for wrong, says in (
        ({"take": "performanse"}, "no take 'performanse' was rehearsed; did you mean performance"),
        ({"name": "a/b"}, "cue.0.name"),
        ({"at": -1.0}, "cue.0.at"),
        ({"at": 99.0}, r"cue turn: take performance is 2\d\.\d\d s long, got at = 99"),
    ):
        with pytest.raises(MotionError, match=says):
            show({"memory": {"file": str(piece)}, "cue": [{**cue, **wrong}]})
    with pytest.raises(OptionError, match="no take was rehearsed that can be followed"):
        show({"cue": [cue]})
    rig = tmp_path / "rig.toml"
    checked = {}
    for take in ("performance", "other"):
        table = f"[[cue]]\nname = 'turn'\ntake = '{take}'\nat = 12.0\n"
        rig.write_text(f"{table}[memory]\nfile = '{piece}'\n")
        checked[take] = CliRunner().invoke(cli, ["rig", "check", str(rig)])
    assert "says cues turn" in checked["performance"].output
    assert "cue turn: no take 'other' was rehearsed" in str(checked["other"].exception)
    _, pipeline = cached_show({"memory": {}})
    with pytest.raises(OptionError, match="no take was rehearsed"):
        Commands(pipeline).obey("cue/set", "x")
    _, pipeline = cached_show({"memory": {"file": str(piece)}})
    for words, says in ((("a b", "performance", 1.0), "name"), (("x", "none", 1.0), "no take 'none'")):
        with pytest.raises(OptionError, match=says):
            Commands(pipeline).obey("cue/set", *words)


def test_commands_without_a_memory_are_refused() -> None:
    _, pipeline = cached_show({"memory": {"enabled": False}})
    with pytest.raises(OptionError, match="plays without"):
        Commands(pipeline).obey("memory/clear")


def assert_saved(file: Path, moments: Any) -> None:
    """Check that a file holds the memory's content, with the names of its takes."""
    takes, *saved = load_memory(file).moments()
    assert takes == moments[0]
    for one, other in zip(saved, moments[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_saving_writes_the_memory_and_overwrites_nothing(tmp_path: Path) -> None:
    _, pipeline = cached_show({"memory": {}})
    remote = MemoryRemote(lambda: pipeline.memory, tmp_path)
    save = remote.actions["memory/save"]
    assert asyncio.run(save("show")) == str(tmp_path / "show.memory")  # type: ignore[arg-type]
    assert_saved(tmp_path / "show.memory", pipeline.memory.memory.moments())
    for name, says in (("show", "overwritten"), ("../x", "plain file name"), (".x", "plain file name")):
        with pytest.raises(OptionError, match=says):
            asyncio.run(save(name))  # type: ignore[arg-type]
    away = MemoryRemote(lambda: pipeline.memory, tmp_path / "away")
    with pytest.raises(DeviceError, match=r"show\.memory: the folder \S+away does not exist$"):
        asyncio.run(away.actions["memory/save"]("show"))  # type: ignore[arg-type]
    away.close()
    with pytest.raises(OptionError, match="nothing is remembered"):
        asyncio.run(MemoryRemote(lambda: LiveMemory(Memory()), tmp_path).actions["memory/save"]("empty"))  # type: ignore[arg-type]
    remote.close()


def test_a_save_is_a_snapshot_and_blocks_clearing(piece, tmp_path, monkeypatch):
    _, pipeline = show({"memory": {"file": str(piece)}})
    known = pipeline.memory.memory.moments()
    rig = tmp_path / "rig.toml"
    rig.touch()
    commands = Commands(pipeline, rig=load_rig(rig))
    files = RigRemote(pipeline, commands, tmp_path)
    shutil.copy(piece, tmp_path / "piece.memory")
    monkeypatch.setattr("realtime.control.memory._CHUNK_MOMENTS", 50)
    remote = MemoryRemote(lambda: pipeline.memory, tmp_path)

    async def play() -> None:
        saving = asyncio.ensure_future(remote.actions["memory/save"]("show"))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        with pytest.raises(OptionError, match=r"^memory/clear: a save is under way$"):
            commands.obey("memory/clear")
        for name, file in (("memory/load", "piece.memory"), ("rig/load", "rig.toml")):
            with pytest.raises(OptionError, match=rf"^{name}: a save is under way$"):
                await files.actions[name](file)  # type: ignore[misc]
        await saving
        commands.obey("memory/clear")

    asyncio.run(play())
    remote.close()
    files.close()
    assert_saved(tmp_path / "show.memory", known)


def test_a_pending_save_is_finished_when_the_show_ends(piece, tmp_path, monkeypatch):
    live = open_memory(piece)
    known = live.memory.moments()
    monkeypatch.setattr("realtime.control.memory._CHUNK_MOMENTS", 100)
    lines: list[str] = []

    async def play(folder: Path) -> None:
        remote = MemoryRemote(lambda: live, folder, say=lines.append)
        saving = asyncio.ensure_future(remote.actions["memory/save"]("show"))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        saving.cancel()
        remote.close()

    asyncio.run(play(tmp_path))
    assert_saved(tmp_path / "show.memory", known)
    asyncio.run(play(tmp_path / "away"))
    assert lines[0] == f"memory saved: {tmp_path / 'show.memory'}"
    assert lines[1].startswith(f"memory/save: {tmp_path / 'away' / 'show.memory'}: ")


def test_a_full_memory_that_forgets_during_a_save_is_saved_unchanged(piece, tmp_path, monkeypatch):
    """Whole takes of the show are forgotten meanwhile, so that later ones are renumbered."""
    rehearsed = load_memory(piece)
    memory = Memory(len(rehearsed) + 400)
    memory.restore(*rehearsed.moments())
    poses = np.array(
        [frame.pose for frame in cached_show({"memory": {}})[0].frames if frame.pose is not None]
    )
    for n in range(20):
        memory.reset()
        memory.push_many(poses[10 * n :][:180])
    assert memory.forgotten
    known = memory.moments()
    monkeypatch.setattr("realtime.control.memory._CHUNK_MOMENTS", 100)
    live = LiveMemory(memory)
    remote = MemoryRemote(lambda: live, tmp_path)

    async def play() -> None:
        saving = asyncio.ensure_future(remote.actions["memory/save"]("show"))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        memory.push_many(poses[400:560])
        await saving

    asyncio.run(play())
    remote.close()
    assert memory.moments()[0] != known[0]
    assert_saved(tmp_path / "show.memory", known)
