"""Work spread over processes: interrupted, ended, and without what it needs."""

import multiprocessing
import os
import subprocess
import sys

import pytest
from support.full_disk import no_more_files

from pyanticip.errors import DeviceError, FormatError
from pyanticip.workers import spread

_INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
from pyanticip.errors import FOREIGN
from pyanticip.workers import spread

def work(draft):
    print("began", flush=True)
    draft.touch()
    try:
        try:
            time.sleep(600 if draft.name == "long" else 1)
        except FOREIGN:  # as round a sink of another package
            time.sleep(600)
    finally:
        draft.unlink()

def interrupt(folder, signals):
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.01)
    for _ in range(signals):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, *names = map(Path, sys.argv[1:])
    threading.Thread(target=interrupt, args=(folder, 1 + (names[0].name == "long")), daemon=True).start()
    list(spread(work, [folder / name for name in names], 2, lambda: print("waiting", flush=True)))
"""


@pytest.mark.parametrize("first", ["short", "long"])
def test_ctrl_c_waits_for_begun_tasks_and_another_one_ends_them(tmp_path, first):
    (script := tmp_path / "script.py").write_text(_INTERRUPTED)
    (folder := tmp_path / "drafts").mkdir()
    command = [sys.executable, script, folder, first, "b", "queued"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["began", "began", "waiting"]
    assert done.stderr.endswith("\nKeyboardInterrupt\n")
    assert list(folder.iterdir()) == []


def test_no_process_is_left_when_a_worker_dies():
    with pytest.raises(FormatError, match="a worker process ended"):
        list(spread(os._exit, [1, 1, 1], 10**20))  # no more than there are tasks, and the system allows
    assert multiprocessing.active_children() == []
    # A worker's pipes and semaphores need a descriptor; none is left.
    message = r"worker processes cannot be started \(too many open files\)"
    with no_more_files(), pytest.raises(DeviceError, match=message):
        list(spread(os._exit, [1], 2))
