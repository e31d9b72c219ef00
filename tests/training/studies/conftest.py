"""Takes and texts that the studies are tried on."""

from pathlib import Path

import pytest
from support.clips import walking_clip

import training
from pyanticip.motion.bvh_write import save_bvh

SOURCE = str(Path(__file__).resolve().parents[3] / "training")
if SOURCE not in training.__path__:  # the suite runs on the wheel, which has no studies
    training.__path__.append(SOURCE)


@pytest.fixture(scope="session")
def takes(tmp_path_factory):
    """A folder of short takes of five subjects, two of them for training."""
    folder = tmp_path_factory.mktemp("takes")
    for number, name in enumerate(("01_01", "02_01", "06_01", "35_01", "07_01")):
        save_bvh(walking_clip(4.0, 60.0, 1.0 + 0.1 * number), folder / f"{name}.bvh")
    return folder


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """A text to learn from and one to test on."""
    lines = (
        "the quick brown fox jumps over the lazy dog and runs to the river\n"
        "a child throws the ball and the dog catches it near the old tree\n"
        "foxes come back again as foxes do when the night is quiet and cold\n"
    )
    folder = tmp_path_factory.mktemp("texts")
    for name, repeats in (("learn.txt", 16), ("test.txt", 6)):
        (folder / name).write_text(lines * repeats)
    return folder / "learn.txt", folder / "test.txt"
