"""The recorder's child process: what it is given is on the disk, whoever dies, and it stalls nobody."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pyanticip.errors import OptionError
from pyanticip.motion.recording import Note, Raw, read_recording
from realtime.recording.recorder import Recorder

QUATS = np.tile(np.float32([1, 0, 0, 0]), (22, 1))


def feed(tape: Recorder, frames: int, size: int = 1500, start: int = 0) -> None:
    for i in range(start, start + frames):
        tape.raw(i, "mocopi", bytes([i % 256]) * size)
        tape.frame(i, i, i, QUATS, np.zeros(3, np.float32))
        tape.output(i, i, np.zeros(8), np.zeros(7), [])


def wait_for(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_everything_handed_over_is_written(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    tape = Recorder.start(path, {"rig": {"a": 1}, "model": "sha"})
    feed(tape, 200)
    tape.note(500, "done")
    tape.close()
    assert (tape.dropped, tape.failed) == (0, False)
    recording = read_recording(path, strict=True)
    assert recording.header["model"] == "sha"
    records = list(recording)
    assert len(records) == 601
    assert records[-1] == Note(500, "done")
    assert records[3] == Raw(1, "mocopi", b"\x01" * 1500)


def test_an_existing_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    path.write_bytes(b"precious")
    with pytest.raises(OptionError, match="exists already"):
        Recorder.start(path, {})
    assert path.read_bytes() == b"precious"


@pytest.mark.slow
def test_a_killed_recorder_loses_at_most_the_last_second(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    tape = Recorder.start(path, {})
    for i in range(150):
        tape.raw(time.monotonic_ns(), "mocopi", bytes(1500))
        time.sleep(0.02)
        if i == 149:
            killed = time.monotonic_ns()
            os.kill(tape.pid, signal.SIGKILL)
    recording = read_recording(path)
    times = [t_ns for t_ns, _, _ in recording.datagrams()]
    assert killed - times[-1] < 1_000_000_000
    assert len(recording.warnings) <= 1
    # The show goes on, and it is said what is lost.
    wait_for(lambda: (feed(tape, 10), tape.failed)[1])
    dropped = tape.dropped
    feed(tape, 10)
    assert tape.dropped == dropped + 30
    tape.close()
    assert tape.failed


PARENT = """
import sys, time, os, signal
from realtime.recording.recorder import Recorder
tape = Recorder.start(sys.argv[1], {})
for i in range(100):
    tape.raw(time.monotonic_ns(), "mocopi", bytes(1500))
    time.sleep(0.01)
print(tape.pid, time.monotonic_ns(), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_parent_that_dies_takes_the_recorder_along_and_loses_at_most_a_second(
    tmp_path: Path, how: signal.Signals
) -> None:
    path = tmp_path / "show.anticip"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid, last = (int(word) for word in parent.stdout.readline().split())
        parent.send_signal(how)
        parent.wait(20)
    wait_for(lambda: not alive(pid))
    recording = read_recording(path, strict=True)
    times = [t_ns for t_ns, _, _ in recording.datagrams()]
    assert last - times[-1] < 1_000_000_000
    assert len(times) >= 50


def alive(pid: int) -> bool:
    """Whether the process runs; one that waits for its parent to collect it does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


GROUP = """
import signal, sys, time
from realtime.recording.recorder import Recorder
tape = Recorder.start(sys.argv[1], {})
for i in range(50):
    tape.raw(i, "mocopi", bytes(1500))
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    tape.note(99, "fading out")
    tape.close()
    print(tape.dropped, tape.failed, flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_in_the_terminal_does_not_reach_the_recorder(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    command = [sys.executable, "-c", GROUP, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        # As the terminal does: to the whole process group.
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout.readline() == b"0 False\n"
        assert parent.wait(20) == 0
    records = list(read_recording(path, strict=True))
    assert len(records) == 51
    assert records[-1] == Note(99, "fading out")


@pytest.mark.slow
def test_a_stalled_recorder_costs_records_not_time(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    tape = Recorder.start(path, {})
    feed(tape, 1)
    os.kill(tape.pid, signal.SIGSTOP)
    try:
        # More than the socket and the queue can hold.
        feed(tape, 200, size=60_000, start=1)
        dropped = tape.dropped
        assert dropped > 0
        assert not tape.failed
    finally:
        os.kill(tape.pid, signal.SIGCONT)
    tape.close(30)
    recording = read_recording(path, strict=True)
    assert len(list(recording)) == 201 * 3 - tape.dropped
    assert not tape.failed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_ends_the_recording_and_nothing_else(
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = (
        "import os, socket, sys; from realtime.recording import recorder\n"
        "from pyanticip.motion.recording import pack_note\n"
        "a, b = socket.socketpair(); f = os.open('/dev/full', os.O_WRONLY)\n"
        "a.send(pack_note(1, 'x')); a.close()\n"
        "sys.exit(recorder.main([str(b.detach()), str(f), 'show.anticip']))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    assert result.returncode == 1
    assert capfd.readouterr().err == "show.anticip: recording stopped: No space left on device\n"
