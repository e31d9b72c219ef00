"""The files of a run's folder."""

import safetensors.torch
import torch

from training.run.files import BEST, load_best


def test_weights_of_runs_from_before_positions_had_one_name_are_read(tmp_path):
    (tmp_path / BEST).parent.mkdir()
    old = {"trunk.prism.gru.weight": torch.ones(2), "layer.places.alpha": torch.zeros(1)}
    safetensors.torch.save_file({**old, "head.bias": torch.ones(1)}, tmp_path / BEST)
    assert set(load_best(tmp_path)) == {"trunk.positions.gru.weight", "layer.mix.alpha", "head.bias"}
