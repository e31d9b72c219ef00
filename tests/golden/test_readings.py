"""What is made of other people's files: map, world, rest, and what the body says 50 times a second."""

from pathlib import Path

import numpy as np
from support.golden import hold

from pyanticip.errors import MotionError
from pyanticip.motion.describe import describe

FILES = (
    "makers/**/*.bvh",
    "more/accad-male1/*A[1-4]_*.bvh",
    "more/cmu-85/**/85_0[1-3].bvh",
    "more/g1-moves/**/*Dance1_*.bvh",
    "more/movin-sample/**/*.bvh",
    "more/reactidle/p00[01]/*.bvh",
    "cmu/0[1-9]_01.bvh",
    "cmu/09_1[12].amc",
)
SECONDS = 8
LEFT_OUT = ("file", "joints", "parents", "frames", "duration_s")


def read(path: Path) -> dict[str, object]:
    """What `info` says, and the middle and spread of groups of features."""
    try:
        clip, told = describe(path)
    except MotionError as error:
        return {"error": str(error).replace(str(path), path.name)}
    told = {name: value for name, value in told.items() if name not in LEFT_OUT}
    told["map"] = " ".join(f"{joint}={'>'.join(names)}" for joint, names in told["map"].items())
    if told["refused"] is None:
        begun = clip.seconds(0.0, min(SECONDS, clip.duration))
        rows = begun.retarget("humanoid").resample(50.0).features()[: SECONDS * 50]
        groups = rows.reshape(len(rows), 31, 9)
        told["mean"], told["spread"] = groups.mean((0, 2)), np.abs(np.diff(groups, axis=0)).mean((0, 2))
    else:
        told["refused"] = str(told["refused"]).replace(str(path), path.name)
    return told


def test_files_of_other_people_are_read_as_they_were(data_dir: Path) -> None:
    paths = sorted({path for pattern in FILES for path in data_dir.glob(pattern)})
    assert len(paths) > 20
    hold("readings", {path.relative_to(data_dir).as_posix(): read(path) for path in paths})
