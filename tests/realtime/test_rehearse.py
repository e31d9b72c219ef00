"""Takes become a memory: how they are named, what is left out, what is never overwritten."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pyanticip.cli import cli
from pyanticip.errors import DeviceError, FormatError, OptionError
from pyanticip.memory import Memory, load_memory
from pyanticip.memory import rehearse as remember
from pyanticip.memory.files import load_rehearsal
from pyanticip.motion.load import load_motion
from pyanticip.motion.npz import save_npz
from pyanticip.motion.recording import RecordingWriter
from realtime.bench.performer import mocopi_datagrams
from realtime.programs import rehearse as program
from realtime.programs.artifact_info import describe_artifact
from realtime.programs.calibrate import calibrate_from
from realtime.programs.check import check_show
from realtime.programs.demo import PERFORMANCE as DANCE
from realtime.programs.rehearse import Poses, rehearse
from realtime.rig import load_rig

SKELETON, FRAMES = mocopi_datagrams(900)
A, B = "10.0.0.1:7000", "10.0.0.2:5000"


def recorded(path: Path, *frame_ranges: range) -> Path:
    """A recording of a suit of which these frames came."""
    with RecordingWriter(path, {}) as tape:
        tape.raw(0, "mocopi", SKELETON)
        for n in (n for frames in frame_ranges for n in frames):
            tape.raw((n + 1) * 20_000_000, "mocopi", FRAMES[n])
    return path


def test_takes_that_are_too_short_or_doubled_are_refused(tmp_path: Path) -> None:
    save_npz(load_motion(DANCE)[:100], tmp_path / "short.npz")
    with pytest.raises(FormatError, match="at least 3 s"):
        rehearse([tmp_path / "short.npz"], tmp_path / "x.memory")
    # Told before anything is read.
    with pytest.raises(OptionError, match=r"performance\.bvh: is given twice$"):
        rehearse([tmp_path / "short.npz", DANCE, DANCE], tmp_path / "x.memory", say=pytest.fail)


def test_takes_that_do_not_fit_into_a_memory_are_refused_before_the_work(tmp_path, monkeypatch):
    assert program._MAX_SECONDS == 3600.0
    monkeypatch.setattr(program, "_MAX_SECONDS", 7.0)
    for name in "ab":
        save_npz(load_motion(DANCE)[:200], tmp_path / f"{name}.npz")
    with pytest.raises(OptionError, match=r"b\.npz: up to it the takes last 8 s; a memory holds 7 s"):
        rehearse([tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path / "x.memory")
    assert not (tmp_path / "x.memory").exists()


def test_a_short_take_is_left_out_and_equal_names_get_their_folder(tmp_path):
    takes = {"monday/take1": 200, "friday/take1": 250, "friday/bow": 100}
    for name, frames in takes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_npz(load_motion(DANCE)[:frames], tmp_path / f"{name}.npz")
    lines: list[str] = []
    files = [tmp_path / f"{name}.npz" for name in takes]
    found = rehearse(files, tmp_path / "x.memory", say=lines.append)
    assert list(found["takes"]) == ["monday/take1", "friday/take1"]
    assert any(line.startswith(f"{files[2]}: a piece of ") and "left out" in line for line in lines)
    cue = [{"name": "turn", "take": "monday/take1", "at": 2.0}]
    check_show(load_rig(None, {"memory": {"file": str(tmp_path / "x.memory")}, "cue": cue}))


def test_equal_take_names_are_made_distinct(tmp_path: Path) -> None:
    clip = load_motion(DANCE)[:200]
    # Names that are no text, which differ in what is none.
    odd = tuple(os.fsdecode(name) for name in (b"day/r\xff.npz", b"day/r\xfe.npz"))
    for name in ("day/gaps 1.npz", "day/bow.npz", "a/day/hop.npz", "b/day/hop.npz", *odd):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        save_npz(clip, tmp_path / name)
    shutil.copy(DANCE, tmp_path / "day" / "bow.bvh")
    recorded(tmp_path / "gaps.anticip", range(200), range(300, 500))
    names = ("gaps.anticip", "day/gaps 1.npz", "day/bow.npz", "day/bow.bvh", "a/day/hop.npz", "b/day/hop.npz")
    found = rehearse([tmp_path / name for name in (*names, *odd)], tmp_path / "x.memory")
    assert list(found["takes"]) == [
        "gaps 2", "gaps 3", "gaps 1", "day/bow.npz", "day/bow.bvh", "day/hop.npz", "day/hop.npz 2",
        "day/r?.npz", "day/r?.npz 2",
    ]  # fmt: skip


def test_an_empty_recording_is_left_out(tmp_path: Path) -> None:
    empty = tmp_path / "empty.anticip"
    RecordingWriter(empty, {}).close()
    lines: list[str] = []
    found = rehearse([empty, DANCE], tmp_path / "x.memory", say=lines.append)
    assert list(found["takes"]) == ["performance"]
    assert f"{empty}: holds no datagrams to replay; it is left out" in lines
    with pytest.raises(FormatError, match=r"empty\.anticip: expected at least 3 s"):
        rehearse([empty], tmp_path / "y.memory")
    (tmp_path / "cut.anticip").write_bytes(empty.read_bytes()[:12])
    with pytest.raises(FormatError):
        rehearse([tmp_path / "cut.anticip", DANCE], tmp_path / "y.memory")


def test_short_pieces_are_reported_and_the_folder_is_checked_first(tmp_path: Path) -> None:
    gaps = recorded(tmp_path / "gaps.anticip", range(200), range(300, 430))
    holes = recorded(tmp_path / "holes.anticip", range(200), range(300, 330), range(430, 460))
    lines: list[str] = []
    rehearse([holes], tmp_path / "y.memory", say=lines.append)
    assert lines[0].endswith("holes.anticip: 2 pieces, 1.20 s in all, are left out; a take has at least 3 s")
    lines.clear()
    found = rehearse([gaps], tmp_path / "x.memory", say=lines.append)
    assert found["takes"] == {"gaps": 4.0}
    assert found["left_out"] == [2.6]
    assert lines[0].endswith("gaps.anticip: a piece of 2.60 s is left out; a take has at least 3 s")
    with pytest.raises(DeviceError, match=r"x\.memory: the folder \S+/none does not exist$"):
        rehearse([tmp_path / "nothing.anticip"], tmp_path / "none" / "x.memory")


def test_a_memory_is_overwritten_only_with_force(piece: Path, tmp_path: Path) -> None:
    old = Path(shutil.copy(piece, tmp_path / "old.memory"))
    with pytest.raises(OptionError, match=r"already exists; name all takes again .* or --force$"):
        rehearse([DANCE], old)
    rehearse([DANCE], old, force=True)
    assert len(load_memory(old)) == len(load_memory(piece))


def test_a_memory_written_by_another_program_meanwhile_is_kept(tmp_path, monkeypatch):
    out = tmp_path / "piece.memory"

    def late(takes: Iterable[tuple[str, Poses]]) -> Memory:
        out.write_bytes(b"another's")
        return remember(takes)

    monkeypatch.setattr("realtime.programs.rehearse.remember", late)
    with pytest.raises(DeviceError, match=r"piece\.memory: cannot be written \(file exists\)$"):
        rehearse([DANCE], out)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"another's"]


def test_nothing_but_a_memory_is_ever_overwritten(tmp_path: Path) -> None:
    take = Path(shutil.copy(DANCE, tmp_path / "take.bvh"))
    other = Path(shutil.copy(DANCE, tmp_path / "other.bvh"))
    (tmp_path / "link").symlink_to(take)
    for out, says in ((take, "one of the takes"), (tmp_path / "link", "one of"), (other, "is not a memory")):
        for force in (False, True):
            with pytest.raises(OptionError, match=f"{says}.*; expected another --out$"):
                rehearse([take], out, force=force)
    assert take.read_bytes() == other.read_bytes() == DANCE.read_bytes()


def test_info_describes_a_memory(piece: Path, tmp_path: Path) -> None:
    described = describe_artifact(piece)
    found, lines = described
    assert [take["take"] for take in found["takes"]] == ["performance"]
    assert found["seconds"] == pytest.approx(28, abs=0.5)
    assert found["moments"] == found["takes"][0]["moments"] == len(load_memory(piece))
    assert "a memory of 1 take," in lines[0]
    # Where a cue can be at most.
    assert lines[1].startswith(f"  performance: {found['seconds']:.2f} s, ")
    assert describe_artifact(DANCE) is None
    (tmp_path / "cut.memory").write_bytes(piece.read_bytes()[:-10])
    with pytest.raises(FormatError, match="is a damaged memory"):
        describe_artifact(tmp_path / "cut.memory")
    helped = CliRunner().invoke(cli, ["info", str(piece), "--rate", "60"])
    assert str(helped.exception) == f"--rate is for motion files; {piece} is none"


@pytest.mark.parametrize(
    ("sender", "command", "expected"),
    [
        (None, None, {"both": ("a", 0)}),
        (B, None, {"both": ("b", 0)}),
        ("10.0.0.2", None, {"both": ("b", 0)}),
        (None, (0, "player", B), {"both": ("b", 0)}),
        (None, (5, "source", B), {"both 1": ("a", 0), "both 2": ("b", 250)}),
        (B, (5, "source", ""), {"both": ("b", 0)}),
        (B, (5, "source", A), {"both 1": ("b", 0), "both 2": ("a", 250)}),
    ],
)
def test_the_selected_suit_of_a_recording_is_rehearsed_and_calibrated(
    tmp_path: Path, sender: str | None, command: tuple[int, str, str] | None, expected: dict[str, Any]
) -> None:
    suits = {"a": (A, FRAMES[:450]), "b": (B, FRAMES[450:900])}

    def record(name: str, *playing: str, first: int = 0) -> Path:
        file = tmp_path / f"{name}.anticip"
        header = {"rig": {"source": {"from": sender}}} if name == "both" else {}
        with RecordingWriter(file, header) as tape:
            for each in playing:
                tape.raw(0, f"mocopi@{suits[each][0]}", SKELETON)
            for n in range(450):
                t_ns = (n + 1) * 20_000_000
                if name == "both" and command is not None and n == 50 * command[0]:
                    tape.control(t_ns, command[1], command[2:])
                for each in playing:
                    if n >= first:
                        tape.raw(t_ns + 1, f"mocopi@{suits[each][0]}", suits[each][1][n])
        return file

    both = record("both", "a", "b")
    rehearse([both], tmp_path / "both.memory")
    found = load_rehearsal(tmp_path / "both.memory").takes
    assert list(found) == list(expected)
    for name, (suit, first) in expected.items():
        alone = record("alone", suit, first=first)
        rehearse([alone], tmp_path / "alone.memory", force=True)
        (poses,) = load_rehearsal(tmp_path / "alone.memory").takes.values()
        count = len(found[name])
        assert count >= 150
        # The noise gate knew the second suit before it took over.
        np.testing.assert_allclose(found[name], poses[:count], atol=0.02)
        alone.unlink()
    if len(expected) == 1:
        ((suit, _),) = expected.values()
        rig = load_rig(None, {"source": {"from": "10.9.9.9"}, "model": {"backend": "rust"}})
        assert calibrate_from(both, rig) == calibrate_from(record("alone", suit), rig)
