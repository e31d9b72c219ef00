"""Atomic files: complete or absent, and the drafts of killed programs are removed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.full_disk import full_disk

from pyanticip.errors import DeviceError
from pyanticip.motion import atomic
from pyanticip.motion.atomic import (
    check_folder,
    draft_file,
    draft_folder,
    write_atomic,
    write_file,
    write_files,
)

KILLED = """
import os, signal, sys
from pathlib import Path
from pyanticip.motion.atomic import draft_file, draft_folder
folder = Path(sys.argv[1])
draft_file(folder / "take.json")
with draft_folder(folder, ".fit-") as draft:
    (draft / "weights").write_text("many")
    if len(sys.argv) > 2:
        print("ready", flush=True)
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_LOCK_GRACE_S", 0.0)
    monkeypatch.setattr(atomic, "_swept_folders", set())


def test_the_next_start_removes_what_a_killed_program_left(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    write_atomic(tmp_path / "take.json", b"{}")
    with draft_folder(tmp_path, ".fit-") as draft:
        assert sorted(path.name for path in tmp_path.iterdir()) == [draft.name, "take.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["take.json"]


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stage.toml"
    path.write_text("gain = 1.0\n")
    path.chmod(0o444)
    # As for anyone but root, who may run the tests.
    monkeypatch.setattr(os, "access", lambda file, mode: bool(Path(file).stat().st_mode & 0o200))
    with pytest.raises(DeviceError, match=r"stage\.toml: cannot be written \(it is read-only\)"):
        write_file(path, b"gain = 2.0\n")
    assert path.read_text() == "gain = 1.0\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_draft_in_use_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        theirs = {path.name for path in tmp_path.iterdir()}
        write_atomic(tmp_path / "take.json", b"{}")
        with draft_folder(tmp_path, ".fit-"):
            pass
        assert {path.name for path in tmp_path.iterdir()} == {*theirs, "take.json"}
        other.kill()


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    others = [".take.json.original", ".take.json.part-1", "x.json.part-abcdefgh", ".fit-", "x.fit-abcdefgh"]
    for name in others:
        (tmp_path / name).touch()
    write_atomic(tmp_path / "take.json", b"{}")
    with draft_folder(tmp_path, ".fit-"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {*others, "take.json"}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "take.json").write_bytes(b"old")
    with pytest.raises(TypeError):
        write_atomic(tmp_path / "take.json", "text")  # type: ignore[arg-type]
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_on_a_full_disk_the_old_file_stays_and_a_new_one_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "take.json").write_bytes(b"old")
    for name in ("take.json", "new.json"):
        # Little enough to stay in the buffer until the file is closed.
        with full_disk(), pytest.raises(DeviceError, match=rf"{name}: cannot be written \(file too large\)"):
            write_file(tmp_path / name, b"{}")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_several_files_are_written_only_if_there_is_room_for_all(tmp_path: Path) -> None:
    files = {tmp_path / name: name.encode() for name in ("page", "figures")}
    write_files(files)
    with full_disk(10), pytest.raises(DeviceError, match=r"figures: cannot be written \(file too large\)"):
        write_files({tmp_path / "page": b"new", tmp_path / "figures": bytes(20)})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_file_that_came_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, links in (("new", True), ("there", True), ("without", False)):
        if not links:  # as on a file system without hard links
            monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(PermissionError()))
        (tmp_path / "there").write_bytes(b"old")
        if name == "there":
            with pytest.raises(DeviceError, match=r"there: cannot be written \(file exists\)"):
                write_file(tmp_path / name, b"mine", new=True)
        else:
            write_file(tmp_path / name, b"mine", new=True)
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"mine", b"mine", b"old"]


def test_a_new_file_has_the_ordinary_mode(tmp_path: Path) -> None:
    write_atomic(tmp_path / "ours", b"")
    (tmp_path / "plain").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_and_so_does_the_mode_of_a_file(tmp_path: Path) -> None:
    there = tmp_path / "away" / "stage.toml"
    there.parent.mkdir()
    there.touch()
    there.chmod(0o640)
    (tmp_path / "link").symlink_to(there)
    (tmp_path / "new").symlink_to(there.with_name("new.toml"))
    for name, found in (("link", there), ("new", there.with_name("new.toml"))):
        write_file(tmp_path / name, b"gain = 1.0")
        assert (tmp_path / name).is_symlink()
        assert found.read_bytes() == b"gain = 1.0"
    assert there.stat().st_mode & 0o777 == 0o640
    assert {path.name for path in there.parent.iterdir()} == {"stage.toml", "new.toml"}


def test_a_renamed_folder_stays(tmp_path: Path) -> None:
    with draft_folder(tmp_path, ".new-") as draft:
        draft.rename(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_draft_is_locked_while_its_handle_is_open(tmp_path: Path) -> None:
    handle, first = draft_file(tmp_path / "a")
    other, second = draft_file(tmp_path / "a")
    os.close(handle)
    atomic._swept_folders.clear()
    write_atomic(tmp_path / "a", b"")
    assert not first.exists()
    assert second.exists()
    os.close(other)


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", Path(os.devnull)):
        with pytest.raises(OSError, match=r"a directory|a device lies there"):
            write_atomic(path, b"x")
        # Known before the work whose result would go there.
        with pytest.raises(DeviceError, match=r"cannot be written \((is a directory|a device lies there)"):
            check_folder(path)
    assert [left.name for left in tmp_path.iterdir()] == ["folder"]
