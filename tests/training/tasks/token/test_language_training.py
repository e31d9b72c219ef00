"""Runs of token models: their files, resuming, and the command line."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from support.takes import rows, same_weights
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import load_checkpoint
from training.run.files import LAST, read_state
from training.run.recorder import read_metrics
from training.run.train import train
from training.tasks.token.losses import losses
from training.tasks.token.module import LanguageRecorder, forward_losses
from training.tasks.token.task import LanguageTask, load_run, open_run
from training.tasks.token.windows import Batches, synthetic_data

TEXT = "".join(f"{n} green bottles hanging on the wall, {n * 7 % 13} fall.\n" for n in range(120))


def weights(folder, which="last"):
    return load_run(folder, which)[0].state_dict()


@pytest.fixture(scope="module")
def finished_run(tiny, tmp_path_factory):
    """A tiny uninterrupted run: (options, folder, report)."""
    options = tiny()
    folder = tmp_path_factory.mktemp("whole") / "run"
    return options, folder, train(LanguageTask(), options, folder)


def test_a_run_keeps_what_it_says(finished_run):
    options, folder, report = finished_run
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoints",
        "config.json",
        "metrics.csv",
        "model",
        "report.json",
        "tensorboard",
    ]
    assert not list(folder.parent.glob(".run*"))
    assert [row["step"] for row in read_metrics(folder)] == [5, 6, 10, 12]
    assert ["valid_ce" in row for row in read_metrics(folder)] == [False, True, False, True]
    assert json.loads((folder / "report.json").read_text()) == report
    assert report["finished"]
    assert report["step"] == 12
    model, tokenizer, found = load_run(folder)
    assert tokenizer is None
    assert found == options
    assert not model.training
    assert same_weights(load_checkpoint(folder / "model").state_dict(), model.state_dict())
    # The best weights are those with the recorded validation loss.
    data = synthetic_data(options, 50)
    ids = torch.from_numpy(data.valid.take(data.valid.spread(8)))
    with torch.no_grad():
        ce = float(forward_losses(model, ids, options).ce)
    best = min(row["valid_ce"] for row in read_metrics(folder) if "valid_ce" in row)
    assert ce == pytest.approx(best, abs=1e-5)
    assert report["best_perplexity"] == pytest.approx(2.718281828**best, rel=1e-5)


def test_the_model_learns_something(tiny, tmp_path):
    report = train(
        LanguageTask(),
        tiny(steps=24, peak_lr=1e-2, train_sequences=4, log_every=4, validate_every=24, own_scalars=0.0),
        tmp_path / "run",
    )
    assert report["last_loss"] < report["first_loss"] - 0.5


KILLED = """
import os, signal, sys
from training.tasks.token.windows import Batches, LanguageOptions
from training.run.train import train
from training.tasks.token.task import LanguageTask
take = Batches.update
def update(self, step):
    if step == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return take(self, step)
Batches.update = update
import json
train(LanguageTask(), LanguageOptions(**json.loads(sys.argv[1])), sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_end(finished_run, tmp_path, environment):
    options, folder, _ = finished_run
    killed = tmp_path / "run"
    arguments = [sys.executable, "-c", KILLED, json.dumps(options.to_dict()), str(killed)]
    child = subprocess.run(arguments, check=False, env=environment, timeout=300)
    assert child.returncode == -signal.SIGKILL
    # Killed after the row and the validation of step 6; the last state is also that of step 6.
    assert read_state(killed)["global_step"] == 6
    assert [row["step"] for row in read_metrics(killed)] == [5, 6]
    with (killed / "metrics.csv").open("a") as file:
        file.write("7" + "," * 22 + "\n")  # as if a row had been written after that state
    report = train(LanguageTask(), None, killed, resume=True)
    assert report["resumed_at"] == 6
    assert same_weights(weights(killed), weights(folder))
    assert same_weights(weights(killed, "best"), weights(folder, "best"))
    assert rows(killed) == rows(folder)
    events = EventAccumulator(str(killed / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [5, 10, 12]
    assert [event.step for event in events.Scalars("valid/ce")] == [6, 12]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "baseline", "own_scalars": 0.0, "model": {"positions": "rope"}},
        {"scalars": "self", "supervise": "refined"},
        {"model": {"bias": "random"}, "sampling_unit": "position"},
        {"model": {"bias": "none", "positions": "alibi"}},
        {"model": {"paper": True, "slow_stride": 4}, "clip_norm": 0.0},
        {"precision": "bf16"},
        {"precision": "bf16", "model": {"planning": True, "plan_inference": "recurrent"}},
    ],
)
def test_every_kind_of_run_comes_to_its_end(tiny, tmp_path, changes):
    report = train(LanguageTask(), tiny(steps=2, **changes), tmp_path / "run")
    assert report["finished"]
    model, _, _ = load_run(tmp_path / "run")
    assert type(model).__name__ == ("BaselineTransformer" if "kind" in changes else "AnticipatoryTransformer")


def test_a_slow_pathway_that_no_window_would_run_is_refused(tiny, tmp_path):
    options = tiny(steps=1, model={"slow_stride": 17})
    with pytest.raises(OptionError, match="at most the 16 steps of a window, got 17: the slow"):
        train(LanguageTask(), options, tmp_path / "run")
    assert not list(tmp_path.iterdir())
    for fine in (options.replace(model={"slow_stride": 16}), options.replace(model={"slow_layers": 0})):
        LanguageTask().check(fine, 1)


def test_the_losses_of_parts_have_columns_and_older_runs_go_on_without(tiny, tmp_path, monkeypatch):
    model = {"planning": {"tokens": 4}, "control_field": True}
    options = tiny(steps=4, log_every=2, validate_every=4, save_every=2, model=model)
    pieces = ("plan", "simulator", "field")
    train(LanguageTask(), options, tmp_path / "new")
    last = read_metrics(tmp_path / "new")[-1]
    assert all(last[f"{group}{name}"] != 0.0 for name in pieces for group in ("", "valid_"))
    # A run of an older version without such columns, stopped in the middle of a row.
    save, take = LanguageRecorder.state_dict, Batches.update
    monkeypatch.setattr(LanguageRecorder, "state_dict", lambda self: without(save(self), "pieces"))
    with monkeypatch.context() as older:
        older.setattr("training.tasks.token.module.piece_names", lambda module, ids: ())
        older.setattr(Batches, "update", lambda self, step: (step == 2 and interrupt(), take(self, step))[1])
        assert train(LanguageTask(), options, tmp_path / "old")["step"] == 3
    assert train(LanguageTask(), None, tmp_path / "old", resume=True)["finished"]
    found = read_metrics(tmp_path / "old")[-1]
    assert found == {name: last[name] for name in found} | {"seconds": found["seconds"]}
    assert not set(found) & set(pieces)


def without(state, name):
    return {key: value for key, value in state.items() if key != name}


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def infinite(*arguments):
    """Losses with an infinite total that has a finite gradient."""
    found = losses(*arguments)
    return dataclasses.replace(found, total=found.total + float("inf"))


def test_a_loss_that_explodes_is_said(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("training.tasks.token.module.losses", infinite)
    with pytest.raises(
        OptionError, match="the loss became inf at step 5 or shortly before; try a lower learning rate"
    ):
        train(LanguageTask(), tiny(clip_norm=0.0), tmp_path / "run")


@pytest.fixture
def cli(command):
    return partial(command, "train", "language")


@pytest.fixture
def texts(tmp_path):
    for name in ("train", "valid"):
        (tmp_path / f"{name}.txt").write_text(TEXT, encoding="utf-8")
    config = tmp_path / "tiny.toml"
    config.write_text(
        "steps = 3\nbatch = 4\nseq_len = 16\nthreads = 1\nvalid_windows = 4\n"
        "[model]\nd_model = 32\nff = 32\nwindow = 8\nfast_layers = 1\nslow_layers = 1\nmax_seq_len = 16\n"
    )
    return tmp_path


def test_an_interrupt_outside_of_the_updates_says_how_it_goes_on(texts, cli, monkeypatch):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    out = texts / "run"
    for where in ("encode", "open_run", "save_checkpoint"):
        with monkeypatch.context() as patch:
            patch.setattr(f"training.tasks.token.task.{where}", interrupted)
            begin = ("--resume",) if out.exists() else ("--config", texts / "tiny.toml")
            code, stdout, _ = cli("--out", out, *begin)
        assert code == 130
        assert (f"pyanticip train language --out {out} --resume" in stdout) == out.exists()
        assert out.exists() == (where != "encode")
    assert cli("--out", out, "--resume")[0] == 0


@pytest.mark.parametrize("tokenizer", ["char", "bpe"])
def test_text_from_the_command_line(texts, cli, tokenizer):
    given = ["--data", texts / "train.txt", "--valid", texts / "valid.txt", "--tokenizer", tokenizer]
    vocab = ["--vocab", 300] if tokenizer == "bpe" else []
    out = texts / "runs" / "text"
    code, stdout, _ = cli(*given, *vocab, "--config", texts / "tiny.toml", "--out", out, "--json")
    assert code == 0
    report = json.loads(stdout)
    assert report["step"] == 3
    model, tokens, options = load_run(out)
    assert tokens.decode(tokens.encode("green wall")) == "green wall"
    assert tokens.vocab == model.cfg.vocab == report["vocab"]
    assert options.schedule.steps == 3
    assert str(texts) not in (out / "model" / "model.json").read_text()
    # Resuming does not need the texts, reports a finished run, and refuses other options.
    (texts / "train.txt").unlink()
    code, stdout, _ = cli("--out", out, "--resume")
    assert (code, stdout.count("\n")) == (0, 1)
    assert "3 steps" in stdout
    code, _, stderr = cli("--out", out, "--resume", "--steps", 4)
    assert code == 2
    assert "option schedule.steps: the run in" in stderr
    assert "begun with 3, got 4" in stderr
    code, _, stderr = cli("--out", out, "--resume", "--set", "model.positions=rope")
    assert "option model.positions: the run in" in stderr
    assert "begun with the default, got 'rope'" in stderr


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--data", "nowhere.txt", "--valid", "valid.txt"], "nowhere.txt: no such file", 1),
        (["--data", "train.txt"], "option data.valid: a text file to validate on is needed", 2),
        (["--data", "empty.txt", "--valid", "valid.txt"], "empty.txt: empty", 1),
        (["--data", "train.txt", "--valid", "short.txt"], "short.txt: has 4 tokens, a window needs 17", 2),
        (["--data", "latin.txt", "--valid", "valid.txt"], "latin.txt: not UTF-8 at byte 3", 1),
        (
            ["--data", "train.txt", "--valid", "valid.txt", "--tokenizer", "bpe", "--vocab", "99"],
            "got 99",
            2,
        ),
        (["--vocab", "1"], "option data.vocab: expected at least 2 tokens", 2),
        (["--set", "stepz=3"], "unknown option 'stepz'; did you mean steps?", 2),
        (["--set", "model.head=3"], "unknown model option 'head'; did you mean heads?", 2),
        (["--set", "model.heads=5"], "d_model must be even and a multiple of heads=5", 2),
        (["--set", "batch=3", "--accumulate", "2"], "multiple of processes times accumulate = 2, got 3", 2),
        (["--set", "model.vocab=3"], "option model.vocab: the vocabulary is the tokenizer's", 2),
        (["--config", "nowhere.toml"], "nowhere.toml: no such file", 1),
        (["--set", "model.positions={kind='prism', again=2}"], "option again=2 is for layers in a row", 2),
        (["--seq-len", "17"], "option data.seq_len: the model reads at most 16 tokens, got 17", 2),
        (["--resume"], "not a run of train language", 1),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(texts, cli, monkeypatch, words, message, code):
    monkeypatch.chdir(texts)
    Path("empty.txt").write_text("")
    Path("short.txt").write_text("wall")
    Path("latin.txt").write_bytes(b"abc\xe9\n" * 9)
    before = sorted(texts.rglob("*"))
    config = [] if "--config" in words else ["--config", "tiny.toml"]
    got, _, complaint = cli(*config, *words, "--out", "run")
    assert (got, complaint.count("\n")) == (code, 1), complaint
    assert message in complaint
    assert sorted(texts.rglob("*")) == before


def test_a_folder_with_something_in_it_is_left_alone(finished_run, texts, cli):
    _, folder, _ = finished_run
    code, _, stderr = cli("--preset", "smoke", "--out", folder)
    assert code == 2
    assert "holds a run already; go on with --resume" in stderr
    code, _, stderr = cli("--preset", "smoke", "--out", texts)
    assert code == 2
    assert "is not empty" in stderr


def test_damaged_states_are_said(finished_run, tmp_path):
    _, folder, _ = finished_run
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(
        CheckpointError, match=r"best\.safetensors: no such file: no validation .* or it was removed"
    ):
        load_run(run)
    with pytest.raises(CheckpointError, match="nothing was saved yet"):
        load_run(run, "last")
    (run / LAST).write_bytes(b"nonsense")
    with pytest.raises(
        CheckpointError, match=r"last\.ckpt: not a saved state, or one that was cut short: copy the run"
    ):
        train(LanguageTask(), None, run, resume=True)


@pytest.mark.parametrize("vocab", ["abc", None, 40.5])
def test_a_vocabulary_that_is_no_number_is_said(finished_run, tmp_path, vocab):
    run = shutil.copytree(finished_run[1], tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "vocab": vocab}))
    with pytest.raises(CheckpointError, match=r"config\.json: vocab: expected a whole number, got"):
        load_run(run)
    with pytest.raises(CheckpointError, match=r"config\.json: vocab: expected a whole number, got"):
        open_run(run)


def test_a_run_whose_metrics_were_removed_at_its_end_is_finished(finished_run, tmp_path):
    run = shutil.copytree(finished_run[1], tmp_path / "run")
    for name in ("metrics.csv", "report.json"):
        (run / name).unlink()
    report = train(LanguageTask(), None, run, resume=True)
    assert "training loss ?, best" in LanguageTask().summary_lines(run, report)[0]
