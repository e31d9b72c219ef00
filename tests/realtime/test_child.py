"""Child processes of the show: input, output, restarts, and that they are never waited for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.full_disk import no_more_files
from support.wire import wait_for

from pyanticip.errors import DeviceError
from realtime.child import Child

ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)\n"
DEAF = "import time\ntime.sleep(60)\n"
LAST_WORD = "import sys, time\nsys.stdin.read()\ntime.sleep(0.2)\nprint('goodbye', flush=True)\n"
REFUSES = "raise SystemExit(2)\n"


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[Child] = []

    def make(program: str, final_codes: tuple[int, ...] = ()) -> tuple[Child, list[str]]:
        (tmp_path / "somebody.py").write_text(program)
        # `python -P` leaves out the working folder, so it is named.
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        lines: list[str] = []
        made.append(Child("somebody", "somebody", [], lines.append, final_codes))
        return made[-1], lines

    yield make
    for one in made:
        one.close()
        assert one.pid is None


def test_lines_reach_the_child_and_come_back(child):
    one, lines = child(ECHO)
    one.write(b"first\n")
    one.write(b"second\n")
    received: list[str] = []
    wait_for(lambda: received.extend(one.poll()) or len(received) == 2)
    assert received == ["first", "second"]
    assert lines == []


def test_a_dead_child_is_restarted_and_gets_whole_lines_only(child):
    one, lines = child(ECHO)
    one._retry_delay_s = 0.01
    one.write(b"half a li")
    os.kill(one.pid, signal.SIGKILL)
    wait_for(lambda: one.poll() or one.restarts == 1)
    assert lines == ["somebody ended (code -9); restarting it in 0.01 s"]
    one.write(b"whole\n")
    received: list[str] = []
    wait_for(lambda: received.extend(one.poll()) or received)
    assert received == ["whole"]


def test_a_child_may_print_while_it_ends(child, capfd):
    one, _ = child(LAST_WORD)
    assert one.close() == 0
    assert capfd.readouterr().err == ""


def test_a_child_of_a_dead_parent_prints_no_error():
    """Unread output in Python's buffer would be reported as an error at exit."""
    speaks = (
        "import sys; from realtime.child import tell_parent\nsys.stdin.read(); tell_parent('how it is')\n"
    )
    process = subprocess.Popen([sys.executable, "-P", "-c", speaks], stdin=-1, stdout=-1, stderr=-1)
    process.stdout.close()
    assert process.communicate()[1] == b""
    assert process.returncode == 0


def test_a_child_that_exits_with_a_final_code_is_given_up(child):
    one, lines = child(REFUSES, (2,))
    wait_for(lambda: one.poll() or one.given_up)
    one.poll()
    assert (one.pid, one.restarts, lines) == (None, 0, ["continuing without somebody"])


def test_a_child_that_does_not_read_costs_no_time_and_bounded_memory(child, monkeypatch):
    monkeypatch.setattr(Child, "close_timeouts_s", (0.1,))
    one, _ = child(DEAF)
    for _ in range(500):
        one.write(b"x" * 9_999 + b"\n")
    assert len(one._unsent) <= 1 << 20


def test_a_stuck_child_is_restarted(child, monkeypatch):
    monkeypatch.setattr("realtime.child._STUCK_TIMEOUT_S", 0.2)
    monkeypatch.setattr(Child, "close_timeouts_s", (0.1,))
    one, lines = child(DEAF)
    one._retry_delay_s = 0.01
    assert one.state == "yes"
    one.write(b"x" * 200_000 + b"\n")
    wait_for(lambda: one.poll() or one.restarts == 1)
    assert lines == ["somebody is not responding", "somebody ended (code -9); restarting it in 0.01 s"]


def test_a_failed_start_is_retried(child):
    one, lines = child(ECHO)
    one._retry_delay_s = 0.01
    os.kill(one.pid, signal.SIGKILL)
    command, one._command = one._command, ["/nowhere/python"]
    wait_for(lambda: one.poll() or len(lines) == 2)
    assert lines[1].startswith("somebody cannot be started (No such file or directory); restarting it")
    assert one.state.startswith("no (cannot be started")
    one._command = command
    wait_for(lambda: one.poll() or one.pid is not None)


@pytest.mark.parametrize("module", ["realtime.sinks.guard", "realtime.recording.writer"])
def test_the_guard_and_the_recorder_load_no_numpy(module: str) -> None:
    code = f"import sys, {module}\nassert 'numpy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_killed_child_that_has_not_exited_in_time_is_reaped_later(child, monkeypatch):
    """As on a busy machine, or in a driver; dropped unreaped, it would stay a zombie with a warning."""
    (slow, _), (other, _) = child(DEAF), child(ECHO)
    process = slow._process
    patience = subprocess.Popen.wait
    monkeypatch.setattr(Child, "close_timeouts_s", (0.0, 0.0))
    monkeypatch.setattr(process, "wait", lambda timeout: patience(process, 0.0))
    monkeypatch.setattr(process, "kill", lambda: None)
    monkeypatch.setattr(process, "terminate", lambda: None)
    assert slow.close() is None
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.undo()
    other.close()
    assert process.returncode == -signal.SIGKILL


def test_a_child_that_cannot_be_started_is_named(child) -> None:
    message = r"^somebody cannot be started \(too many open files\)$"
    with no_more_files(), pytest.raises(DeviceError, match=message):
        Child("somebody", "somebody", [], str)
