"""Fixtures every test package shares."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# What tests start writes as at a user's: in lines, and what is left at its end.
os.environ.pop("PYTHONUNBUFFERED", None)
# A shell ignores Ctrl-C in what it runs in the background, and what that starts inherits it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Before NumPy is imported: on a busy machine a pool of BLAS threads makes small problems a hundred times
# slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # torch's threads wait for each other by spinning: two workers on two cores do it on each other's.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # What librosa compiles is kept in files. Processes that write the same ones at a time may crash.
    kept = Path(__file__).resolve().parents[1] / ".pytest_cache" / "numba" / worker
    os.environ.setdefault("NUMBA_CACHE_DIR", str(kept))
    os.environ.setdefault("NUMBA_OPT", "0")  # what is compiled in haste is quick enough

# How long an example takes says something of the machine, which may be busy. CI draws the same examples every
# time: a red run is then a change's own. A quarter as many: what is drawn anew is drawn elsewhere.
CI = bool(os.environ.get("CI"))
hypothesis.settings.register_profile("patient", deadline=None, derandomize=CI, max_examples=25 if CI else 100)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real motion and packets; tests that need it are skipped where it is missing."""
    given = os.environ.get("PYANTICIP_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real motion data not found: set PYANTICIP_DATA to its folder")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--full-product``: tests of the family try every combination in place of a covering set, and what is
    compiled is compiled to the end."""
    parser.addoption("--full-product", action="store_true", help="every combination, every compiler")


LIVE = "tests/realtime/"
"""Where tests wait for processes, sockets and devices."""
COMPUTES = ("test_engine", "test_ensemble", "test_presets", "test_render", "test_voice")
"""Files there that wait for nobody."""
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
"""Files there that take long, and do not mind a busy machine."""

SOUNDS = ("data/test_audio_targets.py", "data/test_sets_sound.py")
"""Files that teach by sounds."""


def among(nodeid: str, names: Iterable[str]) -> bool:
    """Whether a test is in one of these files."""
    return any(f"/{name}.py" in nodeid for name in names)


def plays_live(nodeid: str) -> bool:
    """Whether a test plays in real time."""
    return LIVE in nodeid and not among(nodeid, COMPUTES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first: of several processes, none is left alone with it at the end."""
    longest = (LIVE, "tests/training/", "tests/models/")

    def place(item: pytest.Item) -> int:
        if plays_live(item.nodeid):
            return -1
        return next((n for n, room in enumerate(longest) if room in item.nodeid), len(longest))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are cores, up to six: the two with the live tests mostly wait."""
    return min(os.cpu_count() or 1, 4) + 2


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A worker that computes steps back behind the one that plays live."""
    if worker and not plays_live(item.nodeid) and os.nice(0) < 5:
        os.nice(5)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where tests run in several processes, those of a file share one, and so what the file's fixtures made;
    those that play live share one as well, for they would disturb each other (the patient ones another), and
    those that hear sounds, for what librosa compiles. (xdist's own groups need node ids that pytest 9.2 does
    not let it change.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if plays_live(nodeid):
                return "patient" if among(nodeid, PATIENT) else "live"
            return "sounds" if file.endswith(SOUNDS) else file

    return Groups(config, log) if config.getvalue("dist") == "loadgroup" else None
