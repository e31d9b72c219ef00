"""Ten thousand clips: the builder's memory does not grow with the set."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from training.data.sets import MotionSet

FILES, CLIPS, FRAMES = 1000, 10, 10

SCRIPT = """
import json, resource, sys
from training.data.sets import build

def peaks():
    unit = 1 if sys.platform == "darwin" else 1024
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return [resource.getrusage(who).ru_maxrss * unit for who in whose]

few, many, out, seconds = sys.argv[1:]
if __name__ == "__main__":
    build(few, out + "-few", workers=2, min_seconds=float(seconds))
    before = peaks()
    report = build(many, out, workers=2, min_seconds=float(seconds))
    print(json.dumps({"clips": report.clips, "frames": report.frames, "seconds": report.seconds,
                      "refused": len(report.refused), "grown": [b - a for a, b in zip(before, peaks())]}))
"""


def write_takes(folder: Path, files: int, body: dict[str, np.ndarray]) -> None:
    """Takes that jump by ten metres after every clip; each with other bytes."""
    folder.mkdir()
    for number in range(files):
        quats = body["quats"].copy()
        quats[:, 0] = (np.cos(number), 0.0, np.sin(number), 0.0)
        buffer = io.BytesIO()
        np.savez(buffer, **{**body, "quats": quats})
        (folder / f"s{number % 50:02d}_{number:04d}.npz").write_bytes(buffer.getvalue())


@pytest.mark.slow
def test_ten_thousand_clips_in_bounded_memory(clip, tmp_path, environment):
    from pyanticip.motion.canonical import canonical_skeleton

    body = canonical_skeleton()
    frames = CLIPS * (FRAMES + 1)
    quats, root = clip(frames)
    root = root + 10.0 * (np.arange(frames) // (FRAMES + 1))[:, None].astype(np.float32)
    take = {
        "quats": np.array(quats),
        "root": root,
        "rate": np.array(50.0),
        "names": np.array(body.names),
        "parents": body.parents,
        "offsets": body.offsets,
    }
    write_takes(tmp_path / "few", 20, take)
    write_takes(tmp_path / "many", FILES, take)
    script = tmp_path / "build.py"
    script.write_text(SCRIPT)
    arguments = [tmp_path / "few", tmp_path / "many", tmp_path / "set", FRAMES / 50]
    done = subprocess.run(
        [sys.executable, "-P", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["refused"] == 0
    assert found["clips"] == FILES * CLIPS
    made = MotionSet.open(tmp_path / "set", verify=True)
    assert len(made) == 10_000
    assert made.frames == found["frames"] >= 10_000 * FRAMES
    size = sum(path.stat().st_size for path in (tmp_path / "set").iterdir())
    assert size > 100e6
    # Beyond what a small build takes: the entries of the index (about 2 kB a clip), none of the arrays.
    parent, worker = found["grown"]
    assert parent < 60e6, found
    assert worker < 30e6, found
