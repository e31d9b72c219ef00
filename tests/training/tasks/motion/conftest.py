"""A tiny run on synthetic motion."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.takes import set_of, small_model

import pyanticip as pa
from pyanticip.models import save_checkpoint
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from training.data.examples import Example
from training.finish import event_head, poses
from training.run.settings import merge
from training.tasks.motion.data import TrainingData
from training.tasks.motion.options import MotionTrainOptions
from training.teacher.kinematic_targets import TEACHER_VERSION

TINY: dict[str, Any] = {
    "model": {
        "d_model": 28,
        "heads": 4,
        "fast_layers": 1,
        "slow_layers": 1,
        "ff": 32,
        "window": 16,
        "pools": 4,
        "control_hidden": 32,
    },
    "data": {"copies": 0},
    "schedule": {"steps": 8, "batch_frames": 640, "warm_up_steps": 2, "seed": 3},
    "run": {"device": "cpu", "threads": 1, "log_every": 3, "validate_every": 4, "save_every": 2},
}


@pytest.fixture(scope="session")
def tiny() -> Callable[..., MotionTrainOptions]:
    """``tiny(schedule={"steps": 4})`` gives the options of a tiny run, without exporting."""

    def make(**tables: Any) -> MotionTrainOptions:
        return MotionTrainOptions(**merge(TINY, {"run": {"export": False}}, tables))

    return make


def _example(frames: int, seed: int, subject: str) -> Example:
    """Swinging joints with parameters and events derived from them, which is faster than the teacher."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames + 40) / 50.0
    wave = np.sin(2.0 * np.pi * rng.uniform(0.4, 1.2, (22, 1)) * t + rng.uniform(0.0, 6.0, (22, 1))).T
    angle = 0.4 * wave[:frames]
    quats = np.zeros((frames, 22, 4), dtype=np.float32)
    quats[..., 0], quats[..., 1] = np.cos(angle / 2.0), np.sin(angle / 2.0)
    features = np.zeros((frames, 279), dtype=np.float32)
    features[:, 0:132:6] = 1.0
    features[:, 4:132:6], features[:, 5:132:6] = np.cos(angle), np.sin(angle)
    features[:, 132:198:3] = np.gradient(angle, axis=0) * 50.0
    features[:, 198:220] = 1.0
    features[:, 220:227] = 0.5 + 0.4 * wave[:frames, :7]
    params = (0.5 + 0.4 * wave[:frames, :8]).astype(np.float32)
    onsets = np.flatnonzero(np.diff(np.sign(wave[:frames, 0])) > 0)
    return Example(f"m{seed}", subject, quats, features, params, onsets, onsets[::3])


@pytest.fixture(scope="session")
def example_of() -> Callable[..., Example]:
    """``example_of(frames, seed, subject)`` gives a synthetic clip."""

    def make(frames: int = 300, seed: int = 0, subject: str = "01") -> Example:
        return _example(frames, seed, subject)

    return make


@pytest.fixture(scope="session")
def data() -> TrainingData:
    """Two training subjects and a validation subject."""
    train = [_example(n, i, f"0{i % 2}") for i, n in enumerate((130, 200, 660, 120))]
    return TrainingData("made up", train, train, [_example(130, 9, "07"), _example(100, 10, "08")], "digest")


@pytest.fixture(scope="session")
def takes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of takes of three people, two each."""
    folder = tmp_path_factory.mktemp("takes")
    for number, who in enumerate(("anna", "ben", "carl")):
        (folder / who).mkdir()
        for take in range(2):
            example = _example(190, 10 * number + take, who)
            root = np.tile(np.array([0.0, 0.95, 0.0], dtype=np.float32), (190, 1))
            save_bvh(
                pa.Clip(example.quats, root, 50.0, canonical_skeleton()), folder / who / f"take{take}.bvh"
            )
    return folder


@pytest.fixture(scope="session")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of three moving people: two for training, one for validation."""
    people = {"anna": "train", "ben": "train", "carl": "validation"}
    return set_of(tmp_path_factory.mktemp("lively"), people)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Later training stages use few frames, in a temporary folder."""
    monkeypatch.setattr("training.tasks.motion.data.cores", lambda: 1)
    monkeypatch.setattr(event_head, "BATCH_FRAMES", 64)
    batch = poses.Frames.batch
    monkeypatch.setattr(poses.Frames, "batch", lambda self, size: batch(self, min(size, 32)))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``checkpoint_of(twin=True)`` gives the checkpoint of a small model that held Ben and Carl out."""

    def make(**changes: Any) -> Path:
        training = {
            "teacher_version": TEACHER_VERSION,
            "held_out": {"validation": ["ben", "carl"], "test": []},
        }
        folder = tmp_path_factory.mktemp("before") / "checkpoint"
        return save_checkpoint(folder, small_model(**changes), training=training)

    return make


@pytest.fixture
def taught(
    quick: None, command: Callable[..., tuple[int, str, str]], lively: Path
) -> Callable[..., Callable[..., tuple[int, str, str]]]:
    """``taught("beats", checkpoint=..., steps=20)`` gives a function that runs ``train beats`` on ``lively``
    with these defaults; it takes flags, and other options by name."""

    def make(what: str, **defaults: Any) -> Callable[..., tuple[int, str, str]]:
        def call(*flags: str, **given: Any) -> tuple[int, str, str]:
            words = {"data": lively, "out": "out", "cache": "cache", **defaults, **given}
            line = [str(word) for name, value in words.items() for word in (f"--{name}", value)]
            return command("train", what, *line, *flags)

        return call

    return make
