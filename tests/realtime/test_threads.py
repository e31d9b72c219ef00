"""One thread for every numerical library: a pool would spin beside the show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SCRIPT = """
import os
import realtime.programs.live
import numpy as np
np.ones((600, 600)) @ np.ones((600, 600))
print(len(os.listdir("/proc/self/task")), os.environ["OMP_NUM_THREADS"])
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are seen through /proc")
@pytest.mark.parametrize(("told", "found"), [({}, ["1", "1"]), ({"OMP_NUM_THREADS": "2"}, ["1", "2"])])
def test_whoever_imports_the_live_path_has_one_thread(told: dict[str, str], found: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in POOLS} | told
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == found
