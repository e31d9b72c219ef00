"""Drawing parameters towards a slow hold: that the hold is one, and that only what gains is drawn."""

import numpy as np
import pytest
import torch

from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.vocabulary import PARAMETERS
from training.data.examples import plain
from training.tasks.motion.scores import measure, run_model
from training.tasks.motion.shrink import FIRST_HORIZON, SHARES, draw_towards, shrink, slow_hold

CONFIG = ModelConfig(d_model=32, heads=4, fast_layers=1, slow_layers=1, ff=32, control_hidden=32, dropout=0.0)


def model_of(seed=0):
    torch.manual_seed(seed)
    return MotionTransformer(CONFIG)


@pytest.mark.parametrize("name", [p for p in PARAMETERS if p != "pulse"])
def test_the_whole_hold_follows_the_teacher(piece_of, name):
    examples = [plain(piece_of(400, seed=seed)) for seed in range(3)]
    model, k = model_of(), PARAMETERS.index(name)
    draw_towards(model, k * 5, 1.0, slow_hold(name, 2, CONFIG.taps))
    found = [run_model(model, e).params[30:-30, k, 0] for e in examples]
    # A mean over the past lags behind: some of the teacher's words a few frames ago are what it holds.
    related = [
        np.corrcoef(
            np.concatenate(found),
            np.concatenate([e.params[30 - lag : len(e) - 30 - lag, k] for e in examples]),
        )[0, 1]
        for lag in range(12)
    ]
    assert max(related) > 0.5


def test_nothing_holds_the_pulse():
    assert slow_hold("pulse", 0, 25) is None


def test_only_what_gains_is_drawn(example_of):
    examples = [example_of(300, seed=seed, subject=str(seed)) for seed in range(3)]
    model = model_of(1)
    before = measure(examples, lambda e: run_model(model, e).params).mean()
    done = shrink(model, examples)
    after = measure(examples, lambda e: run_model(model, e).params).mean()
    assert done
    drawn = np.zeros((8, 5), dtype=bool)
    for entry in done:
        assert entry["share"] in SHARES
        drawn[PARAMETERS.index(entry["parameter"]), FIRST_HORIZON] = True
    assert (after[drawn] < before[drawn]).all()
    np.testing.assert_array_equal(after[~drawn], before[~drawn])


def test_without_a_direct_path_nothing_is_done(example_of):
    torch.manual_seed(0)
    model = MotionTransformer(ModelConfig(**{**CONFIG.to_dict(), "kinematics": False}))
    assert shrink(model, [example_of(200)]) == []
