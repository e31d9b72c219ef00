"""Small takes of synthetic movement, written in every file format."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.synthetic_motion import swinging

import pyanticip as pa
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.npz import save_npz
from pyanticip.motion.recording import RecordingWriter
from training.data.sets import build


def moving(frames: int = 200, seed: int = 0, rate: float = 50.0, amount: float = 0.4) -> pa.Clip:
    """A canonical body whose joints swing at 0.3 to 1.5 Hz while it walks in a circle."""
    where = 0.5 * np.arange(frames) / rate
    root = np.column_stack([np.cos(where), np.full(frames, 0.95), np.sin(where)])
    quats = swinging(frames, seed, amount, rate)
    return pa.Clip(quats.astype(np.float32), root.astype(np.float32), rate, canonical_skeleton())


def amass(path: Path, clip: pa.Clip) -> None:
    """Write as AMASS does: rotation vectors of 52 joints, z up; the body's first three joints sway."""
    quats = clip.quats.astype(np.float64)
    angle = 2.0 * np.arccos(np.clip(quats[..., :1], -1.0, 1.0))
    vector = quats[..., 1:] / np.maximum(np.linalg.norm(quats[..., 1:], axis=-1, keepdims=True), 1e-9) * angle
    poses = np.zeros((len(clip), 52, 3))
    poses[:, 3:22] = 0.3 * vector[:, 3:22]
    np.savez(
        path,
        poses=poses.reshape(len(clip), -1),
        trans=clip.root[:, [0, 2, 1]],
        mocap_framerate=np.array(clip.rate),
        gender=np.array("neutral"),
        betas=np.zeros(16),
    )


def write(path: Path, clip: pa.Clip) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith("_poses.npz"):
        amass(path, clip)
    elif path.suffix == ".bvh":
        save_bvh(clip, path)
    elif path.suffix == ".npz":
        save_npz(clip, path)
    else:
        with RecordingWriter(path, {"source": "mocopi"}) as writer:
            for n in range(len(clip)):
                writer.frame(n, n, n * 20_000_000, clip.quats[n], clip.root[n])
    return path


@pytest.fixture(scope="session")
def take() -> Callable[..., Path]:
    """``take(path, frames, seed, rate)`` writes a take in the format of the suffix."""

    def make(path: Path, frames: int = 200, seed: int = 0, rate: float = 50.0) -> Path:
        return write(path, moving(frames, seed, rate))

    return make


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, take: Callable[..., Path]) -> Path:
    """A folder of five takes by three people, in three formats; read-only."""
    folder = tmp_path_factory.mktemp("written") / "takes"
    take(folder / "anna" / "walk.bvh", 200, 1)
    take(folder / "anna" / "run.npz", 300, 2, 60.0)
    take(folder / "ben" / "show.anticip", 150, 3)
    take(folder / "cleo" / "deep" / "a.bvh", 120, 4)
    take(folder / "cleo" / "deep" / "b.npz", 500, 5, 120.0)
    return folder


@pytest.fixture
def takes(written: Path, tmp_path: Path) -> Path:
    """A copy of the folder, which a test may change."""
    return Path(shutil.copytree(written, tmp_path / "takes"))


@pytest.fixture(scope="session")
def whole(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set of these takes; read-only."""
    out = tmp_path_factory.mktemp("whole") / "set"
    build(written, out)
    return out


@pytest.fixture(scope="session")
def clip() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """``clip(frames, seed)`` gives rotations (T, 22, 4) and the root (T, 3), float32, at 50 Hz."""

    def make(frames: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        found = moving(frames, seed)
        return found.quats, found.root

    return make
