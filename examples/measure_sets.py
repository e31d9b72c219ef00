"""Measure the time and memory of building a data set, from a folder of takes or from synthetic ones.

python examples/measure_sets.py --takes TAKES/cmu --workers 2
python examples/measure_sets.py --synthetic 10000 --workers 2
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pyanticip.motion.canonical import canonical_skeleton
from training.data.sets import MotionSet, build


def write_synthetic(folder: Path, number: int, frames: int = 100) -> None:
    """Write takes of 2 s at 50 Hz by 100 subjects: every joint sways at its own rate, about one axis."""
    rng = np.random.default_rng(0)
    body = canonical_skeleton()
    t = np.arange(frames)[:, None] / 50.0
    for index in range(number):
        angle = 0.5 * np.sin(2.0 * np.pi * rng.uniform(0.3, 1.5, 22) * t + rng.uniform(0.0, 6.0, 22))
        quats = np.zeros((frames, 22, 4), np.float32)
        quats[..., 0], quats[..., 1 + index % 3] = np.cos(angle / 2.0), np.sin(angle / 2.0)
        target = folder / f"s{index % 100:02d}"
        target.mkdir(parents=True, exist_ok=True)
        np.savez(
            target / f"{index:06d}.npz",
            quats=quats,
            root=np.tile(np.array([0.0, 0.95, 0.0], np.float32), (frames, 1)),
            rate=np.array(50.0),
            names=np.array(body.names),
            parents=body.parents,
            offsets=body.offsets,
        )


def peak_mb(who: int) -> float:
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(who).ru_maxrss * unit / 1e6


def measure(takes: Path, out: Path, workers: int) -> None:
    before = os.times()
    start_mb = peak_mb(resource.RUSAGE_SELF)
    report = build(takes, out, workers=workers)
    after = os.times()
    cpu = sum(after[:4]) - sum(before[:4])
    size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    print(f"{report.takes} takes, {report.clips} clips, {report.frames} frames, {size:.0f} MB")
    print(f"{workers} workers: {report.seconds:.1f} s, {report.frames / report.seconds:.0f} frames a second")
    print(f"processor time {cpu:.1f} s, {report.frames / cpu:.0f} frames a second; load {os.getloadavg()}")
    workers_peak = peak_mb(resource.RUSAGE_CHILDREN) if workers > 1 else 0.0
    print(
        f"peak memory {peak_mb(resource.RUSAGE_SELF):.0f} MB, {start_mb:.0f} of it before the build; "
        f"largest worker {workers_peak:.0f} MB"
    )
    opened_at = time.perf_counter()
    MotionSet.open(out)
    print(f"opened in {1e3 * (time.perf_counter() - opened_at):.0f} ms")
    again = build(takes, out, workers=workers)
    print(f"built again, nothing new: {again.seconds:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--takes", type=Path)
    parser.add_argument("--synthetic", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        takes = arguments.takes
        if takes is None:
            takes = Path(folder, "takes")
            write_synthetic(takes, arguments.synthetic)
        measure(takes, Path(folder, "set"), arguments.workers)


if __name__ == "__main__":
    main()
