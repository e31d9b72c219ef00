"""Cues in a show: set, moved and removed while it plays, and kept when the memory or the rig changes."""

import tomllib
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from support.playing import Playing

from pyanticip import _core
from pyanticip.errors import OptionError, RigError
from pyanticip.memory import rehearse as rehearse_takes
from pyanticip.memory import save_memory
from pyanticip.memory.cues import Cue
from pyanticip.motion.load import load_motion
from pyanticip.motion.npz import save_npz
from realtime.clock import OfflineClock
from realtime.control.commands import Commands
from realtime.mapping.mixer import Mixer
from realtime.memory.live_memory import Following, open_memory
from realtime.programs.rehearse import rehearse
from realtime.rig import Rig, load_rig
from realtime.sources.replay import Command
from realtime.stage import assemble, recording_header

DANCE = Path(__file__).parents[2] / "realtime" / "data" / "performance.bvh"
OFF = "control.enabled = false\nmodel.enabled = false\nosc = []\n"
A = Cue(name="a", take="performance", at=8.0, ahead_ms=1500.0)
B = Cue(name="b", take='"b"', at=4.0, ahead_ms=300.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``two.memory`` holds the dance, and the dance from its third second on; ``one.memory`` the dance."""
    made = tmp_path_factory.mktemp("cues")
    clip = load_motion(DANCE)
    save_npz(clip[round(2 * clip.rate) :], made / '"b".npz')
    rehearse([DANCE, made / '"b".npz'], made / "two.memory")
    rehearse([DANCE], made / "one.memory")
    return made


def table(cue: Cue) -> str:
    return f"[[cue]]\nname = '{cue.name}'\ntake = '{cue.take}'\nat = {cue.at}\nahead_ms = {cue.ahead_ms}\n"


class Show(Playing):
    """A show of a rig file without a dancer."""

    def __init__(self, folder: Path, text: str, name: str = "rig.toml") -> None:
        (folder / name).write_text(OFF + text)
        super().__init__(load_rig(folder / name), folder, pytest.fail, sinks=[])

    def stands(self) -> tuple[object, ...]:
        live = self.pipeline.memory
        return live.sha256, live.memory.learning, live.following.cues, sorted(live.following._shared)


@pytest.mark.parametrize("takes", [1, 2])
def test_no_cue_fires_twice_after_a_gap(takes: int) -> None:
    """The suit is away for 0.7 s between a cue's announcement and its time; the dance begins standing."""
    time = np.arange(1500)[:, None] / 50.0
    moving = np.clip(time - 1.6, 0.0, 1.0) * np.clip(np.abs(time - 18.5) - 1.0, 0.0, 1.0)
    half = moving * (0.6 * np.sin(time * [1.7, 2.9]) + 0.2 * np.sin(0.31 * time))
    quats = np.zeros((1500, 22, 4), np.float32)
    quats[..., 0] = 1.0
    quats[:, [8, 12], 0], quats[:, [8, 12], 3] = np.cos(half), np.sin(half)
    follower = _core.Follower([quats] * takes)
    also = [(cue, take, seconds) for take in range(1, takes) for cue, seconds in enumerate((0.6, 20.0))]
    follower.arm(_core.Cues([(0, 0.6, 0.2), (0, 20.0, 2.0)], also))
    engine = _core.Engine(_core.LiveFront("msgpack"), Mixer().core, Mixer().core, 0, None)
    engine.set_memory(_core.Memory(5000), follower, list(range(takes)))
    lines, places = [], {}
    for frame in (*range(905), *range(940, 1400)):
        ns = 10**9 + frame * 20_000_000
        datagram = _core.encode_native_frame(frame, frame / 50.0, quats[frame], None)
        received = engine.feed(datagram, ns, "suit:1", ns, False, False)
        if received is not None and received.remembered is not None:
            _, places[frame], due = received.remembered
            lines += [(cue, frame / 50.0 + seconds) for cue, _, seconds in due]
    assert [cue for cue, _ in lines] == [0, 1]
    assert lines[1][1] == pytest.approx(20.0, abs=0.1)
    assert all(place[1] > 17.0 or place[3] < 0.3 for frame, place in places.items() if place and frame > 939)
    assert places[1100][1] == pytest.approx(22.0, abs=0.1)


def test_a_loaded_memory_keeps_its_cues_and_the_learning_mode(folder: Path) -> None:
    text = f"[memory]\nfile = '{folder / 'two.memory'}'\nlearn = false\n{table(A)}{table(B)}"
    show = Show(folder, text)
    again = Show(folder, text, "again.toml")
    assert show.do("memory/load", "two.memory") == "memory two.memory"
    assert show.stands()[1:] == (False, (A, B), [('"b"', "performance"), ("performance", '"b"')])
    show.do("memory/learn")
    assert show.do("memory/load", "one.memory") == "memory one.memory; not in it: cue b"
    assert show.stands()[1:3] == (True, (A,))
    again.replays(show.recorded)
    assert again.stands() == show.stands()
    show.do("rig/save")
    assert load_rig(folder / "rig.toml").cue == (A,)


@pytest.mark.parametrize("frames", [300, 301])
def test_a_cue_at_the_end_of_a_take_is_valid_after_loading(tmp_path, frames: int) -> None:
    quats = np.tile(np.float32([1, 0, 0, 0]), (frames, 22, 1))
    cue = Cue(name="end", take="stand", at=frames / 50, ahead_ms=0.0)
    following = Following({"stand": quats}, [cue])
    save_memory(rehearse_takes([("stand", quats)]), tmp_path / "stand.memory", following.takes)
    loaded = open_memory(tmp_path / "stand.memory", cues=[cue]).following
    assert loaded is not None
    assert loaded.seconds == following.seconds
    with pytest.raises(OptionError, match=r"take stand is 6\.0\d s long, got at = 6.06"):
        loaded.set(cue.model_copy(update={"at": 6.06}))


def test_cues_that_stay_keep_their_comments(folder: Path) -> None:
    first, last = f"# First.\n{table(A)}".replace("at = 8.0", "at = 8.0  # light"), f"# Last.\n{table(B)}"
    show = Show(folder, f"[memory]\nfile = '{folder / 'two.memory'}'\n{first}{last}")

    def saved() -> str:
        show.do("rig/save")
        assert load_rig(folder / "rig.toml").cue == show.commands.cues
        return (folder / "rig.toml").read_text()

    show.do("cue/set", "c", '"b"', 5.5)
    assert first + last in saved()
    show.do("cue/set", "a", "performance", 7.0)
    assert "at = 7.0  # light\n" in saved()
    show.do("cue/remove", "c")
    assert "at = 7.0  # light\n" in saved()


def test_cues_of_a_loaded_rig_fire_in_all_takes_with_the_movement(folder: Path) -> None:
    text = f"[memory]\nfile = '{folder / 'two.memory'}'\n"
    show, again = (Show(folder, text + table(A), name) for name in ("rig.toml", "again.toml"))
    (folder / "next.toml").write_text(OFF + text + table(B))
    lines = show.do("rig/load", "next.toml")
    assert lines.endswith("cues b")
    assert show.stands()[2:] == ((B,), [('"b"', "performance")])
    again.replays(show.recorded)
    assert again.stands() == show.stands()
    show.do("cue/remove", "b")
    show.do("rig/save")
    assert load_rig(folder / "next.toml").cue == ()
    # A recording that begins now starts with the current cues.
    later = Rig.model_validate(recording_header(show.rig, show.pipeline)["rig"])
    later_commands = Commands(assemble(later, OfflineClock(0), sinks=[]), pytest.fail, later)
    for command in show.commands.state_as_commands(0):
        later_commands.replay_command(command)
    assert later_commands.cues == ()


def test_a_cue_is_set_and_moved_and_removed(folder: Path) -> None:
    show = Show(folder, f"[memory]\nfile = '{folder / 'two.memory'}'\n{table(B)}")
    # As far ahead as before, and the reply is TOML.
    reply = tomllib.loads(show.do("cue/set", "b", '"b"', 5.5))
    assert reply == {"cue": [{"name": "b", "take": '"b"', "at": 5.5, "ahead_ms": 300}]}
    assert show.commands.cues == (B.model_copy(update={"at": 5.5}),)
    with pytest.raises(OptionError, match="cue/remove: no cue 'c'; there are b"):
        show.do("cue/remove", "c")
    assert show.do("cue/remove", "b") == "b is removed"
    with pytest.raises(OptionError, match="cue/remove: no cue 'b'; there are none"):
        show.do("cue/remove", "b")


def test_a_replay_sets_tapped_cues_at_the_recorded_place(folder: Path) -> None:
    text = f"[memory]\nfile = '{folder / 'two.memory'}'\n{table(B)}"
    show, again = Show(folder, text), Show(folder, text)
    following, other = show.commands.following, again.commands.following
    following.place = 0, 3.141, 1.0, 1.0
    show.do("cue/set", "tap")
    show.do("cue/set", "b", '"b"', 5.5)
    (tap, b), setting = show.commands.cues, Mock(wraps=other.set)
    other.set = setting  # type: ignore[method-assign]
    again.replays(show.recorded)
    assert again.commands.cues == (tap, b)
    assert [(*call.args, call.kwargs["here"]) for call in setting.call_args_list] == [(tap, True), (b, False)]
    assert again.recorded == show.recorded
    lines: list[str] = []
    for wrong in ((), ("tap",) * 9, ("tap", "nobody", 1.0, 0.0, 1), ("tap", "performance", "x", 0.0, 1)):
        Commands(show.pipeline, lines.append, show.rig).replay_command(Command(0, "cue/set", wrong))
    assert len(lines) == 4


def test_two_cues_of_one_name_are_refused(folder: Path) -> None:
    (folder / "twice.toml").write_text(table(A) + table(A))
    with pytest.raises(RigError, match=r"twice\.toml: cue: two are called 'a'; expected a name of its own"):
        load_rig(folder / "twice.toml")
