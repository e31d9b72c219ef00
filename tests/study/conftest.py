"""Takes that the studies on motion are tried on."""

import numpy as np
import pytest

import pyanticip as pa
from pyanticip.motion.bvh_write import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.rotations import from_euler


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
