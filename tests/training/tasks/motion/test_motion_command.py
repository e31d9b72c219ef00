"""``pyanticip train motion``: the command line, checkpoints to start from, interruptions, two processes."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from support.takes import same_weights

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer, save_checkpoint
from training.data.sets import build, merge
from training.run.recorder import read_metrics
from training.tasks.motion.module import new_model
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.task import MotionTask, _published, fit, load_run
from training.tasks.motion.windows import Feed


def write_config(target, options, **data):
    """Write options as a TOML file."""
    lines = []
    for table, content in options.to_dict().items():
        lines.append(f"[{table}]")
        content = {**content, **data} if table == "data" else content
        lines += [f"{name} = {json.dumps(value)}" for name, value in content.items()]
    target.write_text("\n".join(lines) + "\n")
    return target


@pytest.fixture(scope="module")
def config(tiny, takes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("config")
    return write_config(
        folder / "tiny.toml", tiny(), path=str(takes), cache=str(folder / "cache"), build_workers=1, copies=1
    )


@pytest.fixture(scope="module")
def finished_run(config, tmp_path_factory):
    """The folder of an uninterrupted run of the config."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    fit(MotionTrainOptions.gather(config), folder)
    return folder


@pytest.fixture
def cli(command):
    return partial(command, "train", "motion")


def test_a_checkpoint_names_no_folder_of_this_machine(tiny):
    data = {"path": "/data/me/set", "recipe": "/data/me/mild.toml", "cache": "/cache/me"}
    run = {"init": "/data/me/runs/old/checkpoint", "ensemble": ["/data/me/runs/one/checkpoint"]}
    warnings = ["/data/me/set: 1 of 2 training clips are shorter"]
    published = _published({"options": tiny(data=data, run=run).to_dict(), "warnings": warnings})
    assert "/me" not in json.dumps(published)
    assert published["warnings"] == ["set: 1 of 2 training clips are shorter"]
    options = published["options"]
    assert [options["data"][name] for name in ("path", "recipe", "cache")] == ["set", "mild.toml", ""]
    assert (options["run"]["init"], options["run"]["ensemble"]) == ("old/checkpoint", ["one/checkpoint"])
    # The folder that the command runs in has a name, too.
    report = {"options": tiny(data={"path": "."}).to_dict(), "warnings": [".: shorter than 0.64 s"]}
    published = _published(report)
    assert published["options"]["data"]["path"] == Path.cwd().name
    assert published["warnings"] == [f"{Path.cwd().name}: shorter than 0.64 s"]


def test_what_to_do_next_names_the_cache_where_one_was_given(tiny, tmp_path, monkeypatch):
    options = tiny(data={"path": "takes", "cache": "my cache"}).to_dict()
    report = {"stopped_early": False, "step": 1, "seconds": 1.0, "best_step": 1, "options": options}
    report |= {"validation": {"error": 0.1, "score": 1.0}, "export": "checkpoint"}
    monkeypatch.setattr("training.tasks.motion.task._can_gain", lambda checkpoint, **change: True)
    lines = [line for line in MotionTask().summary_lines(tmp_path, report) if line.startswith("  pyanticip")]
    assert len(lines) == 3
    assert all("--data takes --cache 'my cache' --checkpoint" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--steps", "3", "--set", "steps=4"], "option schedule.steps is given twice: 4 and 3", 2),
        (["--data", "nowhere"], "nowhere: no such folder; expected a set, or a folder of takes", 1),
        (["--accumulate", "3"], "1 processes in 3 parts need at least 1920", 2),
        (["--init", "nowhere"], "checkpoint nowhere/model.json: no such file", 1),
        (["--precision", "16"], "option precision: 16 needs CUDA", 2),
        (["--resume"], "not a run of train motion", 1),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(cli, config, tmp_path, monkeypatch, words, message, code):
    monkeypatch.chdir(tmp_path)
    got, _, complaint = cli("--config", config, *words, "--out", "run")
    last = complaint.strip().splitlines()[-1]
    assert (got, message in last) == (code, True), complaint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "full"], "full: is not empty; give a new folder"),
        (["--out", "run", "--init", "nowhere"], "checkpoint nowhere/model.json: no such file"),
        (["--out", "run", "--set", "model.d_model=16"], "d_model must be over 21, the channels that"),
        (["--out", "run", "--set", "data.recipe=glitchd"], "did you mean glitched?"),
        (["--out", "run", "--data", "full/a.txt"], "full/a.txt: is a file; expected a set"),
    ],
)
def test_nothing_is_built_for_a_run_that_cannot_begin(
    cli, config, takes, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("x")
    _, _, complaint = cli("--config", config, "--cache", "cache", *words)
    assert message in complaint
    assert [path.name for path in tmp_path.iterdir() if path.name == "run"] == []
    assert not list((tmp_path / "cache").glob("copies-*"))


def test_from_takes_to_a_report_with_ctrl_c_on_the_way(cli, config, finished_run, tmp_path, monkeypatch):
    update = Feed.update

    def interrupted(self, step):
        if step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(Feed, "update", interrupted)
        code, stdout, _ = cli("--config", config, "--out", tmp_path / "my run")
    assert code == 130
    assert "interrupted after step" in stdout
    assert f"pyanticip train motion --out '{tmp_path / 'my run'}' --resume" in stdout
    code, stdout, _ = cli("--out", tmp_path / "my run", "--resume")
    assert code == 0
    assert "8 steps in" in stdout
    assert "the model waited for them" in stdout
    for which in ("best", "last"):
        one, two = (load_run(run, which).state_dict() for run in (tmp_path / "my run", finished_run))
        assert same_weights(one, two), which
    code, stdout, _ = cli("--out", tmp_path / "my run", "--resume", "--json")
    assert code == 0
    report = json.loads(stdout)
    assert report["step"] == 8
    assert report["frames_with_copies"] > report["frames"]


@pytest.mark.slow
def test_two_processes_make_the_curve_of_one(tiny, takes, tmp_path, in_two_processes):
    """Each process reads its share of a set that was built in shards."""
    options = tiny(model={"dropout": 0.0}, run={"log_every": 1}, schedule={"batch_frames": 1280})
    shards = [tmp_path / "first", tmp_path / "second"]
    for number, shard in enumerate(shards, start=1):
        build(takes, shard, shard=f"{number}/2")
    merge(shards, tmp_path / "set")
    config = write_config(
        tmp_path / "tiny.toml",
        options,
        path=str(tmp_path / "set"),
        cache=str(tmp_path / "cache"),
        build_workers=1,
        copies=1,
    )
    words = ("train", "motion", "--config", config, "--out", tmp_path / "two")
    assert in_two_processes(*words)["processes"] == 2
    fit(MotionTrainOptions.gather(config), tmp_path / "one")
    one, two = (read_metrics(tmp_path / name) for name in ("one", "two"))
    assert [row["step"] for row in two] == list(range(1, 9))
    for name in ("total", "params", "events", "scalars", "gate", "grad_norm"):
        assert [row[name] for row in two] == pytest.approx([row[name] for row in one], rel=2e-4), name
    for name in ("valid_score", "valid_events", "valid_scalars"):
        assert two[-1][name] == pytest.approx(one[-1][name], rel=2e-4), name


def test_patience_ends_a_run_that_no_longer_gets_better(tiny, data, tmp_path):
    still = {"peak_lr": 0.0, "final_lr": 0.0, "steps": 50, "patience": 2}
    report = fit(tiny(schedule=still, run={"validate_every": 2}), tmp_path / "run", data=data)
    # The first validation is the best; they are two steps apart.
    assert (report["step"], report["best_step"], report["stopped_early"]) == (6, 2, True)
    assert report["finished"]
    (tmp_path / "run" / "report.json").unlink()
    again = fit(None, tmp_path / "run", data=data, resume=True)
    assert (again["step"], again["best_step"], again["stopped_early"]) == (6, 2, True)


@pytest.fixture(scope="module")
def checkpoint(tiny, tmp_path_factory):
    torch.manual_seed(0)
    model = MotionTransformer(tiny().config())
    return save_checkpoint(tmp_path_factory.mktemp("init") / "checkpoint", model), model


def still(tiny, init, **model):
    return tiny(
        model=model,
        run={"init": str(init)},
        schedule={"steps": 4, "peak_lr": 0.0, "final_lr": 0.0, "ema": 0.0},
    )


@pytest.mark.slow
def test_a_checkpoint_to_start_from(tiny, data, tmp_path, checkpoint):
    path, model = checkpoint
    made = fit(still(tiny, path).replace(run={"export": True}), tmp_path / "run", data=data)
    assert made["export"] == "checkpoint"
    kept = load_run(tmp_path / "run", "last").state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    with pytest.raises(OptionError, match=r"option model.ff: the checkpoint .* has 32, got 64"):
        new_model(still(tiny, path, ff=64), torch.zeros(279), torch.ones(279))
