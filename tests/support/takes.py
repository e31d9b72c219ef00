"""Takes and runs for the tests of training: synthetic people who swing their limbs, and real takes read one
by one, as a reference for the builder of sets."""

import csv
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import pyanticip as pa
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.load import load_motion
from pyanticip.vocabulary import RATE
from training.data.examples import SHORTEST, Piece, Split, steady_runs
from training.data.sets import build
from training.data.sets.splits import known_people
from training.tasks.forecast import cmu
from training.teacher import kinematic_targets as teacher


def write_take(path, frames, seed, size=1.2):
    """Write a take of limbs that swing and rest, each with its own frequency."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames) / 50.0
    angle = size * np.sin(2.0 * np.pi * rng.uniform(0.7, 1.3, (1, 22)) * t[:, None])
    angle *= 0.5 + 0.5 * np.sin(2.0 * np.pi * 0.2 * t)[:, None]
    angle[:, :2] = 0.0
    quats = np.zeros((frames, 22, 4), dtype=np.float32)
    quats[..., 0], quats[..., 1] = np.cos(angle / 2.0), np.sin(angle / 2.0)
    root = np.tile(np.array([0.0, 0.95, 0.0], dtype=np.float32), (frames, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    save_bvh(pa.Clip(quats, root, 50.0, canonical_skeleton()), path)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a set."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def set_of(folder, people, *, frames=240, size=1.2, min_seconds=1.6):
    """A set with one take of each of ``people``, a dict from names to sides."""
    for number, who in enumerate(people):
        write_take(folder / "takes" / who / "take.bvh", frames, number, size)
    sides = "".join(f'{who} = "{side}"\n' for who, side in people.items())
    (folder / "sides.toml").write_text(sides)
    build(folder / "takes", folder / "set", split_file=folder / "sides.toml", min_seconds=min_seconds)
    return folder / "set"


SMALL = {"d_model": 32, "heads": 2, "fast_layers": 1, "slow_layers": 1, "ff": 32, "control_hidden": 48}


def small_model(**changes):
    """A tiny motion model with a non-zero control head."""
    torch.manual_seed(0)
    model = MotionTransformer(ModelConfig(**SMALL, **changes)).eval()
    with torch.no_grad():
        for parameter in model.control.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def arrivals(speed: NDArray[np.floating]) -> NDArray[np.int64]:
    """Frames of the beats in the smoothed speed (T,) of the ends of the body, m/s."""
    curve = np.log2(speed + teacher.ONSET_FLOOR)
    found = teacher.arrivals(curve, teacher.ONSET_FALL, teacher.ONSET_SPEED, teacher.ONSET_GAP)
    return np.array([frame for frame, _ in found], dtype=np.int64)


def random_takes(folder, split="test", actions=("walking", "soccer"), rows=200, seed=0):
    draw = np.random.default_rng(seed)
    for action in actions:
        steps = 0.02 * draw.standard_normal((rows, cmu.COLUMNS))
        path = folder / split / action / f"{action}_1.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, np.cumsum(steps, 0), delimiter=",", fmt="%.6f")


CLOCK = ("seconds", "frames_per_second", "loader_wait")


def same_weights(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def rows(folder):
    """The metrics of a run as written, without those that depend on a clock."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [{name: v for name, v in row.items() if name not in CLOCK} for row in csv.DictReader(file)]


def pieces_of(path: Path) -> list[Piece]:
    """The pieces of SUBJECT_TRIAL.amc or .bvh between tracking jumps."""
    clip = load_motion(path).retarget("humanoid")
    rate, mask = float(clip.rate), np.asarray(clip.mask, dtype=np.bool_)
    runs = steady_runs(clip.quats, clip.root, rate)
    subject = path.stem.partition("_")[0]
    return [
        Piece(
            path.stem if len(runs) == 1 else f"{path.stem}/{number}",
            subject,
            clip.quats[start:stop],
            clip.root[start:stop],
            mask,
            rate,
        )
        for number, (start, stop) in enumerate(runs)
        if (stop - start) * RATE / rate >= SHORTEST
    ]


def pieces_of_side(folder: Path, side: Split) -> list[Piece]:
    """All pieces of one side of the takes in a folder; AMC is preferred to BVH of the same take."""
    files = {path.stem: path for kind in ("bvh", "amc") for path in sorted(folder.glob(f"*_*.{kind}"))}
    chosen = [files[n] for n in sorted(files) if known_people().get(n.partition("_")[0], "train") == side]
    return [piece for path in chosen for piece in pieces_of(path)]
