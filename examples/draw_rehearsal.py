"""Plot the forecast's error over a show, at the first and the second performance of a dance.

The dancer is one of the validation people; the second performance is the same take, at a tempo that drifts.

python examples/draw_rehearsal.py --data TAKES docs/img/rehearsal.png
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip._core import Follower, Memory
from pyanticip.models import load_motion_model
from pyanticip.models.motion.transformer import MotionTransformer
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE
from training.data.augment import resample_at
from training.data.batches import HORIZONS
from training.data.examples import Piece, example_from_piece
from training.evaluate.baselines import Baselines, Twins, simple_forecasts
from training.evaluate.following_takes import load
from training.report.pages import png, pyplot, remove_spines
from training.tasks.motion.scores import run_model

TAKE = "more/g1-moves/bvh/Mitch_Chaiet/B_LongDance.bvh"
AHEAD = 10
"""Horizon of the forecast, frames (200 ms)."""
WINDOW = round(2 * RATE)
"""Length of the moving mean, frames."""


def vary_tempo(quats: NDArray[np.float32]) -> NDArray[np.float32]:
    """The take at .8 to 1.25 times its tempo, with a period of 7 s."""
    positions, position = [], 0.0
    while position < len(quats) - 1:
        positions.append(position)
        position += 1.25 ** np.sin(2.0 * np.pi * len(positions) / (7.0 * RATE))
    return resample_at(quats, np.zeros((len(quats), 3)), np.array(positions))[0].astype(np.float32)


def moving_error(forecast: NDArray[np.floating], actual: NDArray[np.floating]) -> NDArray[np.floating]:
    """Absolute error of the forecast made AHEAD frames before, summed over the parameters; a moving mean."""
    error = np.abs(forecast[:-AHEAD] - actual[AHEAD:]).sum(axis=1)
    sums = np.concatenate([[0.0], np.cumsum(error)])
    last = np.arange(1, len(error) + 1)
    first = np.maximum(last - WINDOW, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first))


def perform(
    model: MotionTransformer, quats: NDArray[np.float32], rehearsed: NDArray[np.float32] | None
) -> tuple[dict[str, NDArray[np.floating]], NDArray[np.floating]]:
    """The error of each system over a show, by name, and the trust in the forecast."""
    piece = Piece(
        "", "", quats, np.zeros((len(quats), 3), np.float32), np.ones(len(CANONICAL_JOINTS), dtype=bool), RATE
    )
    example = example_from_piece(piece)
    output = run_model(model, example).params
    memory, places = Memory(), None
    if rehearsed is not None:
        memory.rehearse("take", rehearsed)
        places = Follower([rehearsed]).push_many(quats)
    mixed, trust = memory.push_many(quats, output, places)
    column = HORIZONS.index(AHEAD)
    rivals = [baseline[:, :, 1] for baseline in simple_forecasts(Twins(quats), Baselines.load()).values()]
    best = min(rivals, key=lambda forecast: moving_error(forecast, example.params).mean())
    systems = {"best simple rival": best, "model": output[:, :, column], "live": mixed[:, :, column]}
    errors = {name: moving_error(forecast, example.params) for name, forecast in systems.items()}
    return errors, trust[:, :, 1].mean(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="the folder with cmu/ and more/")
    arguments = parser.parse_args()
    model, take = load_motion_model(None), load(arguments.data, TAKE)
    shows = {
        "first time: live remembers nothing yet": perform(model, take, None),
        "second time: rehearsed once, now at another tempo": perform(model, vary_tempo(take), take),
    }
    figure, axes = pyplot().subplots(
        2, 2, figsize=(10.5, 4.8), height_ratios=(2.4, 1.0), sharex="col", sharey="row"
    )
    colours = {"best simple rival": "0.65", "model": "#5fa3d3", "live": "#c03028"}
    for (upper, lower), (title, (errors, trust)) in zip(axes.T, shows.items(), strict=True):
        for name, error in errors.items():
            seconds = np.arange(len(error)) / RATE + AHEAD / RATE
            upper.plot(seconds, error, color=colours[name], lw=1.4, label=f"{name}: {error.mean():.3f}")
            print(f"{title}: {name} {error.mean():.3f}")
        lower.plot(np.arange(len(trust)) / RATE, trust, color="#e08214", lw=1.2)
        upper.set_title(title, fontsize=9)
        upper.legend(fontsize=8, frameon=False, loc="upper center", ncols=3, columnspacing=1.0)
        lower.set_xlabel("seconds of the show", fontsize=9)
        lower.set_ylim(0.0, 1.05)
        remove_spines(upper)
        remove_spines(lower)
    axes[0, 0].set_ylim(0.0, 2.0)
    axes[0, 0].set_ylabel("error 200 ms ahead", fontsize=9)
    axes[1, 0].set_ylabel("trust", fontsize=9)
    figure.tight_layout()
    arguments.out.write_bytes(png(figure))


if __name__ == "__main__":
    main()
