"""Takes and texts that the studies are tried on."""

from pathlib import Path

import numpy as np
import pytest

import pyanticip as pa
import training
from pyanticip.motion.bvh_write import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.rotations import from_euler

SOURCE = str(Path(__file__).resolve().parents[3] / "training")
if SOURCE not in training.__path__:  # the suite runs on the wheel, which has no studies
    training.__path__.append(SOURCE)


@pytest.fixture(scope="session")
def takes(tmp_path_factory):
    """A folder of short takes of five subjects, two of them for training."""
    folder = tmp_path_factory.mktemp("takes")
    t = np.arange(240)[:, None] / 60.0
    for number, name in enumerate(("01_01", "02_01", "06_01", "35_01", "07_01")):
        swing = 0.4 * np.stack(
            [np.sin(2 * np.pi * t * f * (1 + 0.1 * number) + np.arange(22)) for f in (0.5, 0.8, 1.1)], -1
        )
        quats = from_euler(swing, (2, 1, 0)).astype(np.float32)
        root = np.concatenate((0.3 * t, 0.95 + 0.02 * np.sin(6 * t), 0.8 * t), 1).astype(np.float32)
        save_bvh(pa.Clip(quats, root, 60.0, canonical_skeleton(), name=name), folder / f"{name}.bvh")
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
