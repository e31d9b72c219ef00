import pytest
import torch

pytest.importorskip("lightning")
pytest.importorskip("matplotlib")

from training.run.train import train
from training.tasks.token.options import LanguageOptions
from training.tasks.token.task import LanguageTask

TINY = LanguageOptions(
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


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny():
    return TINY


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Folders of two anticipatory runs and a baseline, trained for a moment."""
    folder = tmp_path_factory.mktemp("runs")
    wanted = {
        "own-0": TINY,
        "own-1": TINY.but(seed=1, neighbours=3),
        "plain": TINY.but(kind="baseline", seed=2),
    }
    for name, options in wanted.items():
        train(LanguageTask(), options, folder / name)
    return {name: folder / name for name in wanted}
