import os
import sys

import pytest
from support.synthetic_motion import example_of, move, one_thread, piece_of

__all__ = ["environment", "example_of", "move", "one_thread", "piece_of"]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """A child finds what is under test where this process found it."""
    paths = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
