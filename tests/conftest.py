"""Fixtures shared by all tests, and how tests are distributed over workers."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Child processes buffer their output as they do for users.
os.environ.pop("PYTHONUNBUFFERED", None)
# A shell makes background processes ignore Ctrl-C, and their children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Before NumPy is imported: on a busy machine a pool of BLAS threads makes small problems a hundred times
# slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # torch's threads spin while they wait for each other: several workers would take each other's cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Processes that write the same files of librosa's compiled code at the same time may crash.
    numba_cache = Path(__file__).resolve().parents[1] / ".pytest_cache" / "numba" / worker
    os.environ.setdefault("NUMBA_CACHE_DIR", str(numba_cache))
    os.environ.setdefault("NUMBA_OPT", "0")  # compiles faster, and the code is fast enough

# No deadline, since the machine may be busy. CI always draws the same examples, a quarter as many, so that a
# failure is caused by the change; other runs draw new ones.
CI = bool(os.environ.get("CI"))
hypothesis.settings.register_profile("patient", deadline=None, derandomize=CI, max_examples=25 if CI else 100)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real motion and packets; tests that need it are skipped where it is missing."""
    path = os.environ.get("PYANTICIP_DATA")
    folder = Path(path) if path else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real motion data not found: set PYANTICIP_DATA to its folder")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--full-product``: tests of the model family try every combination in place of a covering set, with
    every compiler."""
    parser.addoption("--full-product", action="store_true", help="every combination, every compiler")


LIVE = "tests/realtime/"
"""Folder of tests that wait for processes, sockets and devices."""
COMPUTES = ("test_engine", "test_ensemble", "test_presets", "test_render", "test_voice")
"""Files there that only compute."""
PATIENT = (
    "test_bad_input",
    "test_benches",
    "test_calibrate",
    "test_memory",
    "test_oscquery",
    "test_played_again",
    "test_recorder",
    "test_setup",
    "test_soak",
)
"""Files there that take long, and tolerate a busy machine."""

SOUNDS = ("data/test_audio_targets.py", "data/test_sets_sound.py")
"""Files whose tests use librosa."""


def among(nodeid: str, names: Iterable[str]) -> bool:
    """Whether a test is in one of these files."""
    return any(f"/{name}.py" in nodeid for name in names)


def plays_live(nodeid: str) -> bool:
    """Whether a test plays in real time."""
    return LIVE in nodeid and not among(nodeid, COMPUTES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest tests first, so that no worker is left alone with them at the end."""
    slowest = (LIVE, "tests/training/", "tests/models/")

    def order(item: pytest.Item) -> int:
        if plays_live(item.nodeid):
            return -1
        return next((n for n, folder in enumerate(slowest) if folder in item.nodeid), len(slowest))

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers more than cores, up to six: the two with the live tests mostly wait."""
    return min(os.cpu_count() or 1, 4) + 2


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Lower the priority of workers that compute below that of those that play live."""
    if worker and not plays_live(item.nodeid) and os.nice(0) < 5:
        os.nice(5)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Assign tests to workers.

    Tests of a file share a worker, and so its fixtures. Live tests share one, since they would disturb each
    other (the patient ones another), and tests that use librosa, for its compiled code. (xdist's own groups
    need node ids that pytest 9.2 does not let it change.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if plays_live(nodeid):
                return "patient" if among(nodeid, PATIENT) else "live"
            return "sounds" if file.endswith(SOUNDS) else file

    return Groups(config, log) if config.getvalue("dist") == "loadgroup" else None
