"""Fixtures every test package shares."""

import os
from pathlib import Path

import pytest

# Before NumPy is imported: on a busy machine a pool of BLAS threads makes small problems a hundred times
# slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # What librosa compiles is kept in files. Processes that write the same ones at a time may crash.
    kept = Path(__file__).resolve().parents[1] / ".pytest_cache" / "numba" / worker
    os.environ.setdefault("NUMBA_CACHE_DIR", str(kept))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real motion and packets; tests that need it are skipped where it is missing."""
    given = os.environ.get("PYANTICIP_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real motion data not found: set PYANTICIP_DATA to its folder")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--full-product``: tests of the family try every combination in place of a covering set."""
    parser.addoption("--full-product", action="store_true", help="every combination of the family's parts")


LIVE = frozenset({"recording", "realtime", "synth"})
"""Folders of tests that wait for processes, sockets and devices."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, those of a file share one, and so what the file's fixtures made;
    those that play live share one as well: they would disturb each other."""
    here = Path(__file__).resolve().parent
    for item in items:
        file = item.path.relative_to(here)
        item.add_marker(pytest.mark.xdist_group("live" if file.parts[0] in LIVE else str(file)))
