"""A project that several tests change."""

from pathlib import Path

import pytest
from support.clips import LEFT_ARM, swing

from pyanticip.teach.outputs import Output
from pyanticip.teach.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two outputs, two sounds of two takes each."""
    made = Project.create(
        tmp_path / "mine", (Output("brightness"), Output("cutoff", 200, 8000, "exponential"))
    )
    for i in range(2):
        made.add_take(f"right {i}", swing(2, seed=i), values={"brightness": 0.9, "cutoff": 6000})
        made.add_take(
            f"left {i}",
            swing(2, joint=LEFT_ARM, level=1.0, seed=i),
            values={"brightness": 0.1, "cutoff": 300},
        )
    return made
