"""A tiny run: everything a run has, in a second."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from training.tasks.token.options import LanguageOptions

TINY: dict[str, Any] = {
    "steps": 12,
    "batch": 4,
    "seq_len": 16,
    "vocab": 50,
    "train_sequences": 24,
    "valid_windows": 8,
    "log_every": 5,
    "validate_every": 6,
    "save_every": 4,
    "own_scalars": 0.5,
    "device": "cpu",
    "threads": 1,
    "model": {
        "d_model": 32,
        "heads": 4,
        "ff": 32,
        "fast_layers": 1,
        "slow_layers": 1,
        "window": 8,
        "max_seq_len": 16,
    },
}


@pytest.fixture(scope="session")
def tiny() -> Callable[..., LanguageOptions]:
    """``tiny(**changes)`` gives the options of a tiny run; fields of ``model`` are merged."""

    def make(**changes: Any) -> LanguageOptions:
        return LanguageOptions(**TINY).but(**changes)

    return make


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
