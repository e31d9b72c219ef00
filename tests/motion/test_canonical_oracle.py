"""The same takes as BVH and as AMC, two formats with other rest poses: one canonical motion."""

from pathlib import Path

import numpy as np
import pytest

import pyanticip as pa


# The BVH of 02_01 is another fit to the markers, see test_pairs.py.
@pytest.mark.parametrize("take", ["05_01", "05_02", "05_06"])
def test_both_files_of_a_take_give_the_same_canonical_rotations(data_dir: Path, take: str) -> None:
    bvh = pa.load_motion(data_dir / "cmu" / f"{take}.bvh", keep_tpose=True).retarget("humanoid")
    amc = pa.load_motion(data_dir / "cmu" / f"{take}.amc").retarget("humanoid")
    frames = min(len(bvh) - 1, len(amc))
    assert frames > 200
    # Frame 0 of the BVH is the exporter's T-pose.
    dots = np.abs((bvh.quats[1 : frames + 1] * amc.quats[:frames]).sum(-1).astype(np.float64))
    degrees = np.degrees(2.0 * np.arccos(np.clip(dots, 0.0, 1.0)))
    assert degrees.max() < 0.1
