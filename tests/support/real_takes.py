"""Takes of CMU read one by one, without what builds sets: an oracle of those."""

from pathlib import Path

import numpy as np

from pyanticip.motion.load import load_motion
from pyanticip.vocabulary import RATE
from training.data.examples import SHORTEST, Piece, Split, steady_runs
from training.data.sets.splits import known_people


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
    """All pieces of one side of the takes in a folder; of a take that is there as AMC and as BVH the AMC."""
    files = {path.stem: path for kind in ("bvh", "amc") for path in sorted(folder.glob(f"*_*.{kind}"))}
    chosen = [files[n] for n in sorted(files) if known_people().get(n.partition("_")[0], "train") == side]
    return [piece for path in chosen for piece in pieces_of(path)]
