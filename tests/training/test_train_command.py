"""From takes to a checkpoint that loads and can be judged, on synthetic takes; the command line around it."""

import csv
import dataclasses

import pytest
import torch

from pyanticip.cli_tools import run
from pyanticip.errors import FormatError, OptionError
from pyanticip.models import ModelConfig, load_motion_model
from training import train_motion
from training.teacher import TEACHER_VERSION
from training.trainer import TrainOptions

TINY = ModelConfig(d_model=28, heads=4, fast_layers=1, slow_layers=1, ff=32, control_hidden=32, pools=4)


@pytest.fixture
def takes(piece_of, monkeypatch):
    """Synthetic pieces in place of a folder of takes."""
    sides = {
        "train": [piece_of(200, seed=s, subject=f"0{1 + s}") for s in range(2)],
        "validation": [piece_of(200, seed=7, subject="06"), piece_of(220, seed=8, subject="35")],
        "test": [piece_of(200, seed=9, subject="07")],
    }

    def load(data_dir, split, cache=None):
        return sides[split]

    monkeypatch.setattr(train_motion, "load_split", load)
    return sides


@pytest.mark.slow
def test_training_writes_a_checkpoint_that_can_be_judged(takes, tmp_path, monkeypatch):
    options = TrainOptions(batch_frames=320, warm_up_steps=1)
    report = train_motion.train(
        tmp_path,
        tmp_path / "run",
        steps=3,
        copies=1,
        threads=1,
        options=options,
        config=TINY,
        interval=2,
        quiet=True,
    )
    assert report["teacher_version"] == TEACHER_VERSION
    assert report["held_out"] == {"validation": ["06", "43", "35"], "test": ["07", "49"]}
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["checkpoint", "metrics.csv"]
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["2", "3"]
    assert all(float(row["validation"]) > 0.0 for row in rows)
    model = load_motion_model(tmp_path / "run" / "checkpoint")
    assert model.cfg == TINY
    train_motion.ship(tmp_path / "run", tmp_path / "shipped")
    # Refined from there: the same sizes, and the weights it starts from are those.
    kept = []
    monkeypatch.setattr(train_motion, "shrink", lambda model, examples: [])
    monkeypatch.setattr(train_motion, "save_checkpoint", lambda path, model, training: kept.append(model))
    again = tmp_path / "run" / "checkpoint"
    still = dataclasses.replace(options, peak_lr=0.0, final_lr=0.0, weight_decay=0.0, ema=0.0)
    train_motion.train(
        tmp_path, tmp_path / "two", steps=1, copies=0, threads=1, options=still, init=again, quiet=True
    )
    assert kept[0].cfg == TINY
    for name, value in model.state_dict().items():
        assert torch.allclose(value, kept[0].state_dict()[name], atol=1e-6), name
    assert len(list((tmp_path / "shipped").iterdir())) == 4


def test_an_interrupted_run_is_not_overwritten(takes, tmp_path):
    (tmp_path / "training.state").write_bytes(b"x")
    with pytest.raises(OptionError, match="interrupted"):
        train_motion.train(tmp_path, tmp_path)


def test_bad_input_is_one_line(tmp_path, capsys):
    from pyanticip.cli import cli

    with pytest.raises(FormatError, match="no such folder"):
        train_motion.train(tmp_path / "nowhere", tmp_path / "run", quiet=True)
    for arguments in (["train", "motion", "--help"], ["evaluate", "motion", "--help"]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["pyanticip", *arguments])
            assert run(cli) == 0
        assert "Example:" in capsys.readouterr().out
