"""Made-up files in the layout of the benchmark."""

import numpy as np

from training.tasks.forecast import cmu


def random_takes(folder, split="test", actions=("walking", "soccer"), rows=200, seed=0):
    draw = np.random.default_rng(seed)
    for action in actions:
        steps = 0.02 * draw.standard_normal((rows, cmu.COLUMNS))
        path = folder / split / action / f"{action}_1.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, np.cumsum(steps, 0), delimiter=",", fmt="%.6f")
