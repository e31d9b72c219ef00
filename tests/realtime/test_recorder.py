"""The recorder's child process: records reach the disk whatever dies, and nothing stalls the show."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.wire import wait_for

from pyanticip.errors import DeviceError, MotionError, OptionError
from pyanticip.motion.recording import Control, Note, Raw, pack_control, read_recording
from realtime.recording import writer
from realtime.recording.recorder import Recorder
from realtime.soak.show import alive
from realtime.status import is_writing

QUATS = np.tile(np.float32([1, 0, 0, 0]), (22, 1))


def open_recorder(path: Path, lines: list[str] | None = None, **options) -> Recorder:
    tape = Recorder([].append if lines is None else lines.append, **options)
    tape.open(path, lambda: (0, {"rig": {"a": 1}, "model": "sha"}, [(1, "gain", (0.5,))]))
    try:
        tape.wait()
    except MotionError:
        tape.close()
        raise
    return tape


def feed(tape: Recorder, frames: int, size: int = 1500, start: int = 0) -> None:
    for i in range(start, start + frames):
        tape.raw(i, "mocopi", bytes([i % 256]) * size)
        tape.frame(i, i, i, QUATS, np.zeros(3, np.float32))
        tape.output(i, i, np.zeros(8), np.zeros(7), [])


def test_all_records_are_written(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    lines: list[str] = []
    tape = open_recorder(path, lines)
    feed(tape, 200)
    tape.note(500, "done")
    assert tape.close() == 0
    assert lines == [f"recording to {path}", f"recorded {path}"]
    assert tape.complete
    recording = read_recording(path, strict=True)
    assert recording.header["model"] == "sha"
    records = list(recording)
    assert len(records) == 602
    assert records[0] == Control(1, "gain", (0.5,))
    assert records[-1] == Note(500, "done")
    assert records[4] == Raw(1, "mocopi", b"\x01" * 1500)


def test_the_free_disk_space_is_reported_once_known(tmp_path: Path) -> None:
    tape = open_recorder(tmp_path / "s\udce9.anticip")
    assert not [word for word in tape.status_words if word.startswith("disk_gb")]
    feed(tape, 1)
    (lines,) = wait_for(
        lambda: (tape.poll(), [word for word in tape.status_words if word.startswith("disk_gb")])[1]
    )
    assert float(lines.partition("=")[2]) > 0.0
    tape.close()


def test_one_process_writes_one_file_after_the_other(tmp_path: Path) -> None:
    """Records before a change are in the first file, later ones in the second; no file is overwritten."""
    first, second = tmp_path / "a.anticip", tmp_path / "b.anticip"
    lines: list[str] = []
    tape = open_recorder(first, lines)
    pid = tape.pid
    tape.note(1, "first")
    tape.open(second, lambda: (0, {}, []))
    tape.note(2, "second")
    tape.wait()
    tape.open(first, lambda: (0, {}, [(9, "gain", (1.0,))]))
    tape.note(3, "second too")
    with pytest.raises(OptionError, match="never overwritten"):
        tape.wait()
    assert (tape.path, tape.pid) == (second, pid)
    assert tape.finish() == second
    tape.note(4, "nowhere")
    wait_for(lambda: (tape.poll(), not tape.busy)[1])
    assert tape.status_words == ["recording=no"]
    assert tape.close() == 0
    assert list(read_recording(first, strict=True))[1:] == [Note(1, "first")]
    assert list(read_recording(second, strict=True)) == [Note(2, "second"), Note(3, "second too")]
    assert lines == [
        f"recording to {first}",
        f"recorded {first}",
        f"recording to {second}",
        f"recorded {second}",
    ]


def test_a_file_that_exists_or_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    path.write_bytes(b"precious")
    with pytest.raises(OptionError, match="already exists"):
        open_recorder(path)
    assert path.read_bytes() == b"precious"
    with pytest.raises(DeviceError, match=r"x\.anticip: cannot be written \(no such file or directory\)"):
        open_recorder(tmp_path / "none" / "x.anticip")


@pytest.mark.slow
def test_the_recording_continues_in_another_file_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    lines: list[str] = []
    tape = open_recorder(path, lines)
    for i in range(80):
        tape.raw(time.monotonic_ns(), "mocopi", bytes(1500))
        time.sleep(0.02)
        if i == 79:
            killed = time.monotonic_ns()
            os.kill(tape.pid, signal.SIGKILL)
    wait_for(lambda: (tape.poll(), tape.pid is None)[1])
    assert tape.status_words[0].startswith("recording=no")
    for i in range(50):
        tape.raw(i, "mocopi", b"after")
    wait_for(lambda: (tape.poll(), is_writing(tape))[1])
    assert tape.path == tmp_path / "show.2.anticip"
    assert tape.close() == 0
    recording = read_recording(path)
    times = [t_ns for t_ns, _, _ in recording.datagrams()]
    assert killed - times[-1] < 1_000_000_000
    assert len(recording.warnings) <= 1
    # Records from while it was dead are there, and so is the state.
    records = list(read_recording(tmp_path / "show.2.anticip", strict=True))
    assert records == [Control(1, "gain", (0.5,)), *(Raw(i, "mocopi", b"after") for i in range(50))]
    assert [line.split()[0] for line in lines] == ["recording", "the", "recording", "recorded"]
    assert lines[1].startswith("the recorder ended (code -9); restarting it")


def test_records_in_the_pipe_of_a_killed_recorder_are_counted(tmp_path: Path) -> None:
    path, lines = tmp_path / "show.anticip", []
    tape = open_recorder(path, lines)
    feed(tape, 10)
    wait_for(lambda: (tape.poll(), tape._synced_bytes)[1] > 1500 * 10)
    feed(tape, 10, start=10)
    wait_for(lambda: (tape.poll(), path.stat().st_size)[1] > 1500 * 20)
    os.kill(tape.pid, signal.SIGSTOP)
    feed(tape, 20, start=20)
    tape.poll()
    assert not tape._queue, "all of it was handed over"
    os.kill(tape.pid, signal.SIGKILL)
    wait_for(lambda: (tape.poll(), tape.pid is None)[1])
    # Kill the next one too, before it has opened its file.
    wait_for(lambda: (tape.poll(), tape.pid is not None)[1])
    os.kill(tape.pid, signal.SIGKILL)
    feed(tape, 5, start=40)
    wait_for(lambda: (tape.poll(), is_writing(tape))[1])
    feed(tape, 5, start=45)
    other = tape.path
    assert tape.close() == 0
    # Each part begins with the current state.
    written = sum(len([*read_recording(part)]) - 1 for part in (path, other))
    assert written + tape.dropped == 50 * 3
    assert tape.dropped >= 60
    assert lines[-1] == f"recorded {other}, which goes on from {path}, {tape.dropped} records dropped"


def test_the_last_report_of_a_killed_recorder_is_read(tmp_path, monkeypatch) -> None:
    path, said = tmp_path / "show.anticip", []
    tape = open_recorder(path, said)
    feed(tape, 10)
    assert tape.finish() == path
    lines: list[str] = []
    wait_for(lambda: (lines.extend(tape._read_lines()), any("closed" in line for line in lines))[1])
    os.kill(tape.pid, signal.SIGKILL)
    tape._process.wait()
    # Nothing was read from it until now.
    monkeypatch.setattr(tape, "_read_lines", lambda: [lines.pop(0) for _ in range(len(lines))])
    tape.poll()
    tape.check_end(path)
    assert said[1] == f"recorded {path}"
    tape.close()


def test_lost_records_are_counted_if_a_killed_recorder_is_not_restarted(tmp_path: Path) -> None:
    path, lines = tmp_path / "show.anticip", []
    tape = open_recorder(path, lines)
    os.kill(tape.pid, signal.SIGSTOP)
    feed(tape, 10)
    os.kill(tape.pid, signal.SIGKILL)
    wait_for(lambda: (tape.poll(), tape.pid is None)[1])
    feed(tape, 10, start=10)
    tape.close()
    written = len([*read_recording(path)]) - 1
    assert tape.dropped == 60 - written
    assert lines[-1] == f"{path} ends early: the recorder's process has died, {60 - written} records dropped"


@pytest.mark.slow
def test_a_missing_folder_is_reported_and_the_recording_continues_when_it_is_back(tmp_path, monkeypatch):
    monkeypatch.setattr("realtime.recording.recorder._ATTEMPT_INTERVAL_S", 0.2)
    (folder := tmp_path / "takes").mkdir()
    lines: list[str] = []
    tape = open_recorder(folder / "show.anticip", lines)
    folder.rename(tmp_path / "away")
    os.kill(tape.pid, signal.SIGKILL)
    wait_for(lambda: (tape.poll(), len(lines) == 3)[1])
    assert lines[2] == f"nothing is recorded: {folder}: No such file or directory; trying again"
    (tmp_path / "away").rename(folder)
    wait_for(lambda: (tape.poll(), is_writing(tape))[1])
    assert tape.path == folder / "show.2.anticip"
    assert tape.close() == 0


@pytest.mark.slow
def test_a_deleted_file_is_reported_and_the_recording_continues_in_another(tmp_path, monkeypatch):
    monkeypatch.setattr("realtime.recording.recorder._ATTEMPT_INTERVAL_S", 0.2)
    lines: list[str] = []
    tape = open_recorder(file := tmp_path / "show.anticip", lines)
    feed(tape, 5)
    file.unlink()
    wait_for(lambda: (feed(tape, 1), tape.poll(), len(lines) == 3)[2])
    assert lines[1] == f"nothing is recorded: {file}: has been deleted; trying again"
    assert tape.dropped >= 15
    assert lines[2] == f"recording to {tmp_path / 'show.2.anticip'}"
    (tmp_path / "show.2.anticip").unlink()
    tape.close()
    assert "has been deleted" in lines[-1], "at the end, too"


def test_a_file_in_a_folder_that_counts_no_links_is_not_taken_for_deleted(tmp_path, monkeypatch):
    said: list[tuple[object, ...]] = []
    linkless = SimpleNamespace(**{**vars(os), "fstat": lambda file: SimpleNamespace(st_nlink=0)})
    monkeypatch.setattr(writer, "os", linkless)
    recorder = writer.Writer()
    monkeypatch.setattr(recorder, "_send", lambda number, *values: said.append(values))
    for name in ("one.anticip", "two.anticip"):
        begin = os.fsencode(tmp_path / name), False, b"", 0, (b"", 0, 0)
        recorder.process(pack_control(1, writer.OPEN, begin))
        if name == "two.anticip":
            (tmp_path / name).unlink()
        assert recorder.close() is (name == "one.anticip")
    assert [word for word, *_ in said] == ["opened", "closed", "opened", "failed"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="another process's limits cannot be set")
def test_an_unwritable_part_is_not_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("realtime.recording.recorder._ATTEMPT_INTERVAL_S", 0.2)
    lines: list[str] = []
    tape = open_recorder(tmp_path / "show.anticip", lines)
    _, hard = resource.prlimit(tape.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(tape.pid, resource.RLIMIT_FSIZE, (100, hard))
    wait_for(lambda: (feed(tape, 1), tape.poll(), len(lines) > 3)[2])
    assert any("show.2.anticip: File too large" in line for line in lines)
    resource.prlimit(tape.pid, resource.RLIMIT_FSIZE, (hard, hard))
    wait_for(lambda: (tape.poll(), is_writing(tape))[1])
    feed(tape, 5)
    assert tape.close() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["show.2.anticip", "show.anticip"]
    assert read_recording(tmp_path / "show.2.anticip", strict=True).header


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="another process's limits cannot be set")
@pytest.mark.parametrize("attempts", [0, 1])
def test_what_a_recorder_lost_before_it_was_killed_is_counted(tmp_path, monkeypatch, attempts):
    """Its disk failed first, and then it refused a further part."""
    monkeypatch.setattr("realtime.recording.recorder._ATTEMPT_INTERVAL_S", 1e9)
    path, lines = tmp_path / "show.anticip", []
    tape = open_recorder(path, lines)
    feed(tape, 10)
    wait_for(lambda: (tape.poll(), tape._synced_bytes)[1] > 1500 * 10)
    _, hard = resource.prlimit(tape.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(tape.pid, resource.RLIMIT_FSIZE, (100, hard))
    feed(tape, 10, start=10)
    # It is at the first poll after the failure that the recorder tries again.
    tape._next_attempt_at = 0.0 if attempts else 1e18
    wait_for(lambda: (tape.poll(), len(lines) > 1 + attempts and not tape.is_opening)[1])
    feed(tape, 10, start=20)
    assert f"dropped_records={20 * 3}" in tape.status_words
    os.kill(tape.pid, signal.SIGKILL)
    wait_for(lambda: (tape.poll(), is_writing(tape))[1])
    feed(tape, 10, start=30)
    other = tape.path
    assert tape.close() == 0
    kept = sum(len([*read_recording(part)]) - 1 for part in (path, other))
    assert (kept, tape.dropped) == (20 * 3, 20 * 3)


PARENT = """
import sys, time, os, signal
from pathlib import Path
from realtime.recording.recorder import Recorder
tape = Recorder()
tape.open(Path(sys.argv[1]), lambda: (0, {}, []))
tape.wait()
for i in range(100):
    tape.raw(time.monotonic_ns(), "mocopi", bytes(1500))
    time.sleep(0.01)
print(tape.pid, time.monotonic_ns(), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_recorder_ends_with_its_parent_and_loses_a_frame_or_two(tmp_path, how):
    path = tmp_path / "show.anticip"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(path)], stdout=subprocess.PIPE) as parent:
        pid, last = (int(word) for word in parent.stdout.readline().split())
        parent.send_signal(how)
        parent.wait(20)
    wait_for(lambda: not alive(pid))
    recording = read_recording(path, strict=True)
    times = [t_ns for t_ns, _, _ in recording.datagrams()]
    assert last - times[-1] < 60_000_000
    assert len(times) >= 94


GROUP = """
import signal, sys, time
from pathlib import Path
from realtime.recording.recorder import Recorder
tape = Recorder()
tape.open(Path(sys.argv[1]), lambda: (0, {}, []))
tape.wait()
for i in range(50):
    tape.raw(i, "mocopi", bytes(1500))
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    tape.note(99, "fading out")
    print(tape.close(), tape.dropped, flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_in_the_terminal_does_not_reach_the_recorder(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    command = [sys.executable, "-c", GROUP, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout.readline() == b"ready\n"
        # As from the terminal: to the whole process group.
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout.readline() == b"0 0\n"
        assert parent.wait(20) == 0
    records = list(read_recording(path, strict=True))
    assert len(records) == 51
    assert records[-1] == Note(99, "fading out")


@pytest.mark.slow
def test_a_stalled_recorder_costs_records_not_time(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    tape = open_recorder(path)
    feed(tape, 1)
    os.kill(tape.pid, signal.SIGSTOP)
    try:
        # More than the pipe and the queue can hold.
        feed(tape, 200, size=60_000, start=1)
        dropped = tape.dropped
        assert dropped > 0
        tape._synced_at -= 60
        assert tape.status_words[0] == "recording=no (nothing written for 60 s)"
    finally:
        os.kill(tape.pid, signal.SIGCONT)
    assert tape.close(30) == 0
    recording = read_recording(path, strict=True)
    assert len(list(recording)) == 201 * 3 + 1 - tape.dropped


def test_a_stuck_recorder_is_reported_and_its_files_as_unfinished(tmp_path, monkeypatch):
    monkeypatch.setattr(Recorder, "close_timeouts_s", (0.1, 0.1))
    lines: list[str] = []
    path, other = tmp_path / "show.anticip", tmp_path / "other.anticip"
    tape = open_recorder(path, lines)
    os.kill(tape.pid, signal.SIGSTOP)
    assert tape.finish() == path
    with pytest.raises(DeviceError, match=rf"^the recorder does not answer: {path} is not finished$"):
        asyncio.run(tape.settled(0.1))
    tape.open(other, lambda: (0, {}, []))
    with pytest.raises(DeviceError, match=r"^the recorder does not answer: \S+other.anticip is not made"):
        asyncio.run(tape.settled(0.1))
    assert tape.close() != 0
    assert not other.exists()
    why = "the recorder has failed"
    assert lines[1:] == [f"{path} ends early: {why}", f"{other} is not recorded: {why}"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 12 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small disk")
@pytest.mark.parametrize("has_spare", [False, True])
def test_a_full_disk_is_reported_and_the_recording_continues_elsewhere(small_disk, tmp_path, has_spare):
    (tmp_path / "spare").mkdir()
    lines: list[str] = []
    (small_disk / "ballast").write_bytes(bytes(11 << 20))
    path = small_disk / "show.anticip"
    tape = open_recorder(path, lines, spare=tmp_path / "spare" if has_spare else None)
    count = 0

    def fill() -> None:
        nonlocal count
        feed(tape, 1, size=50_000, start=count)
        count += 1
        tape.poll()

    wait_for(lambda: (fill(), len(lines) > 1)[1])
    assert lines[1] == f"nothing is recorded: {path}: No space left on device; trying again"
    if has_spare:
        wait_for(lambda: (fill(), is_writing(tape))[1])
        assert tape.path == tmp_path / "spare" / "show.2.anticip"
    else:
        wait_for(lambda: (fill(), len(lines) > 2)[1])
        assert lines[2] == f"nothing is recorded: {small_disk}: less than 8 MB are free; trying again"
        assert tape.status_words[0] == f"recording=no ({small_disk}: less than 8 MB are free)"
        (small_disk / "ballast").unlink()
        tape._next_attempt_at = 0.0
        wait_for(lambda: (fill(), is_writing(tape))[1])
        assert tape.path == small_disk / "show.2.anticip"
    feed(tape, 1, start=count)
    assert tape.close() == 0
    assert tape.status_words == ["recording=no"]
    # No incomplete record in either file, and the second begins with the current state.
    assert list(read_recording(path, strict=True))
    name, after, dropped = lines[-1].removeprefix("recorded ").split(", ")
    assert after == f"which goes on from {path}"
    second = list(read_recording(name, strict=True))
    assert second[0] == Control(1, "gain", (0.5,))
    assert second[-3] == Raw(count, "mocopi", bytes([count % 256]) * 1500)
    assert dropped == f"{tape.dropped} records dropped"
    assert not tape.complete
