"""Tiny runs of token models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


JUDGED = LanguageOptions(
    model={"d_model": 16, "ff": 16, "heads": 4, "fast_layers": 1, "slow_layers": 1, "window": 8},
    vocab=24,
    train_sequences=64,
    valid_windows=12,
    steps=12,
    batch=8,
    seq_len=40,
    peak_lr=3e-3,
    log_every=3,
    validate_every=6,
    save_every=6,
    threads=1,
    device="cpu",
)


@pytest.fixture(scope="session")
def tiny() -> Callable[..., LanguageOptions]:
    """``tiny(**changes)`` gives the options of a tiny run; fields of ``model`` are merged."""

    def make(**changes: Any) -> LanguageOptions:
        return LanguageOptions(**TINY).replace(**changes)

    return make


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of two anticipatory runs and a baseline, trained for a few steps."""
    pytest.importorskip("matplotlib")
    from training.run.train import train
    from training.tasks.token.task import LanguageTask

    folder = tmp_path_factory.mktemp("runs")
    wanted = {
        "own-0": JUDGED.replace(neighbours=3),
        "own-1": JUDGED.replace(seed=1, neighbours=3),
        "plain": JUDGED.replace(kind="baseline", seed=2),
    }
    for name, options in wanted.items():
        train(LanguageTask(), options, folder / name)
    return {name: folder / name for name in wanted}
