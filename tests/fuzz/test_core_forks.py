"""A forked process, as ``multiprocessing`` and data loaders make, computes what its parent does."""

import subprocess
import sys

# In a process of its own, since the suite's has threads.
FORKED = """
import os
import signal

import numpy as np

from pyanticip import _core, pose_scalars, vector_scalars

rng = np.random.default_rng(0)


def room(*shape):
    return np.zeros(shape)


def noise(*shape):
    return rng.random(shape)


# Large enough that each call uses several threads.
scan = [noise(2, 3, 80, 5), noise(2, 3, 80), None, None]
into = [room(2, 3, 80, 5), room(2, 3, 80), None, None]
gru = [noise(9, 4), noise(12, 4), noise(12)]
laid = [(noise(2 * 9 * 2 * width), (18 * width, 2 * width, width)) for width in (3, 3, 3, 3, 3, 3, 1)]
codes = [rng.integers(0, 30, (130, 3)), rng.integers(0, 4, (130, 3))]
plan = [*codes, noise(4, 2), -noise(30), np.sort(-noise(9))]
CALLS = {
    "prism_scan": [*scan, room(2, 3, 80, 80)],
    "prism_places": [*scan, noise(80, 4), room(2, 3, 80, 4), room(2, 3, 80), None],
    "prism_places_backward": [*scan, noise(80, 4), noise(2, 3, 5, 80), noise(2, 3, 80, 4), None, *into],
    "prism_gru": [noise(9, 9, 12), *gru, room(9, 9, 4), None],
    "prism_gru_backward": [
        *gru, noise(9, 9, 4), noise(9, 9, 16), noise(9, 9, 4), room(9, 9, 12), room(9, 9, 4), room(9, 4)
    ],
    "field_gates": [2, 3, 0.5, laid, noise(2, 9), True, room(2, 9)],
    "plan_draw": [*plan, 8.0, 1, np.zeros((130, 2), np.int64), room(130, 2)],
}
poses, vectors = noise(3, 40, 5, 4), noise(3, 40, 5)


def results():
    yield "pose_scalars", pose_scalars(poses).tobytes()
    yield "vector_scalars", vector_scalars(vectors).tobytes()
    for name, args in CALLS.items():
        getattr(_core, name)(*args)
        yield name, b"".join(x.tobytes() for x in args if isinstance(x, np.ndarray))


def forked(inside):
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a process that waits for threads it does not have
        print(inside(), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "the forked process waits for ever"


expected = dict(results())


def same():
    for name, found in results():
        print(name, "began", flush=True)
        assert found == expected[name], name
    return "ok"


forked(lambda: [same(), forked(same)][0])  # and one forked by a forked one
print(same())
"""


def test_a_forked_process_does_not_wait_for_threads_that_it_lacks() -> None:
    command = [sys.executable, "-P", "-W", "ignore::DeprecationWarning", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-1] == "ok"
