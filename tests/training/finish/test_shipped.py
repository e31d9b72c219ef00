"""Minimum accuracy of the packaged model on held-out people, with the default rule."""

from dataclasses import replace

import numpy as np
import pytest
from support.takes import pieces_of_side

from pyanticip import _core
from pyanticip._core import motion_features
from pyanticip.models import load_motion_model
from training.data.corrupt import SUITS, dropped_joints
from training.data.examples import example_from_piece
from training.data.manifest import Manifests
from training.evaluate.events import announce, score_clips, total
from training.evaluate.takes import kind_of
from training.tasks.motion.scores import measure, run_model

AHEAD = slice(2, None)


@pytest.fixture(scope="module")
def model():
    return load_motion_model(None)


@pytest.fixture(scope="module")
def pieces(data_dir):
    return pieces_of_side(data_dir / "cmu", "validation")


def test_beats_of_walking_are_announced_100_ms_ahead(model, pieces, data_dir):
    manifests = Manifests(data_dir / "cmu")
    output = [manifests.words(piece.name.partition("/")[0]) for piece in pieces]
    walks = [
        example_from_piece(piece)
        for piece, words in zip(pieces, output, strict=True)
        if kind_of(words) == "walking"
    ]
    output = [announce(run_model(model, example), 0) for example in walks]
    score = total(score_clips(walks, output, 0, lead=5.0)[0])
    assert score.true > 50
    assert score.f1 >= 0.8


def test_six_sensors_are_enough_for_most_of_it(model, pieces):
    chosen = pieces[::3]
    whole = [example_from_piece(piece) for piece in chosen]
    mask = np.isin(np.arange(22), SUITS["six"])
    poor = []
    for example in whole:
        seen, left = dropped_joints(example.quats, np.ones(22, np.bool_), np.flatnonzero(~mask).tolist())
        quats, _ = _core.complete_body(seen.astype(np.float32), left)
        rows = motion_features(quats, np.zeros((len(quats), 3), np.float32), np.ones(22, np.bool_))
        poor.append(replace(example, features=rows))
    error = measure(whole, lambda example: run_model(model, example).params).mean()[:, AHEAD].mean()
    worse = measure(poor, lambda example: run_model(model, example).params).mean()[:, AHEAD].mean()
    assert error < 0.08
    assert worse < 0.11
