"""Training on files in the benchmark's layout, cross-validation, and reports."""

import json
import shutil
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from support.full_disk import full_disk
from support.takes import random_takes, same_weights

from pyanticip.errors import CheckpointError, FormatError, OptionError
from pyanticip.models.forecast.forecaster import PoseForecaster, load_forecaster, save_forecaster
from pyanticip.models.forecast.manifest import ForecastConfig
from training.report.pages import as_markdown
from training.run.files import load_best
from training.run.recorder import read_metrics
from training.run.train import train
from training.tasks.forecast import bank, cmu, folds, metrics
from training.tasks.forecast.evaluate import load_predictor, predictor
from training.tasks.forecast.folds import judge_folds
from training.tasks.forecast.options import ForecastOptions, Variation
from training.tasks.forecast.report import fold_parts
from training.tasks.forecast.task import ForecastTask

TINY = ForecastOptions(
    steps=4, batch=8, model={"width": 8, "blocks": 1}, validate_every=2, validation=2, tensorboard=False
)


@pytest.fixture(scope="module", autouse=True)
def few():
    """Fewer windows for the normalisation, and fewer bootstrap draws."""
    batch = bank.WindowBank.batch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bank.WindowBank, "batch", lambda self, size: batch(self, min(size, 64)))
        patch.setattr(folds, "DRAWS", 400)
        yield


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """A folder of files; read-only."""
    folder = tmp_path_factory.mktemp("clips")
    smooth_takes(folder)
    return folder


@pytest.fixture(scope="module")
def finished_run(clips, tmp_path_factory):
    """A tiny uninterrupted run: (options, folder, report)."""
    options, folder = TINY.replace(path=clips), tmp_path_factory.mktemp("whole") / "run"
    return options, folder, train(ForecastTask(), options, folder)


def stopping(at):
    """A task whose runs are interrupted after ``at`` updates."""

    class Stopping(ForecastTask):
        def recorder(self, *args):
            record = super().recorder(*args)
            follow = record.after_update

            def after_update(module, done, batch):
                follow(module, done, batch)
                if done == at:
                    record.stop = lambda: True

            record.after_update = after_update
            return record

    return Stopping()


def smooth_takes(folder, actions=("walking", "soccer"), numbers=(1, 2, 3), rows=110, split="train"):
    """Write files of slow swings with different speeds and sizes."""
    for a, action in enumerate(actions):
        for n in numbers:
            draw = np.random.default_rng(10 * a + n)
            t = np.arange(rows)[:, None] / 120.0
            angles = 0.4 * np.sin(2 * np.pi * (0.5 + 0.2 * n) * t + draw.uniform(0, 6, cmu.COLUMNS))
            path = folder / split / action / f"{action}_{n}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savetxt(path, angles, delimiter=",", fmt="%.6f")
    return cmu.load_split(folder, split)[0]


def test_unvaried_windows_are_pieces_of_the_takes(clips):
    takes, _ = cmu.load_split(clips, "train")
    drawn = (
        bank.WindowBank(takes, Variation(warp=1.0, mirror=0.0, swap=0.0, arms=0.0), seed=0).batch(64).numpy()
    )
    assert drawn.shape == (64, 35, 25, 3)
    rows = np.concatenate([bank.joint_positions(take.whole) for take in takes])
    for window in drawn[:8]:
        # Starts between two rows, and advances two rows per frame.
        at = np.abs(rows - window[0]).sum((1, 2)).argsort()[:4]
        errors = [
            np.abs(window - ((1 - part) * rows[k : k + 69 : 2] + part * rows[k + 1 : k + 70 : 2])).max()
            for k in at
            if k + 70 <= len(rows)
            for part in np.linspace(0, 1, 41)
        ]
        assert min(errors) < 0.8


def test_variations_do_what_they_say(clips):
    takes, _ = cmu.load_split(clips, "train")
    plain = bank.WindowBank(takes, Variation(warp=1.0, mirror=0.0, swap=0.0, arms=0.0), seed=1).batch(16)

    def varied(**how):
        return bank.WindowBank(
            takes, Variation(**{"warp": 1.0, "mirror": 0.0, "swap": 0.0, "arms": 0.0, **how}), seed=1
        ).batch(16)

    assert torch.equal(varied(), plain)
    assert torch.equal(varied(mirror=1.0), bank.mirrored(plain))
    swapped, legs = varied(swap=1.0), [j < 13 for j in cmu.PREDICTED]
    assert torch.equal(swapped[:, :, [not leg for leg in legs]], plain[:, :, [not leg for leg in legs]])
    assert not torch.equal(swapped[:, :, legs], plain[:, :, legs])
    swapped, spine = varied(arms=1.0), bank.SPINE
    arms = [joint >= 20 for joint in cmu.PREDICTED]
    assert torch.equal(swapped[:, :, [not arm for arm in arms]], plain[:, :, [not arm for arm in arms]])
    hanging = [(w - w[:, :, spine : spine + 1])[:, 0, cmu.PREDICTED.index(23)] for w in (swapped, plain)]
    assert not torch.equal(*hanging)
    # Each arm is that of one of the windows.
    assert torch.cdist(*hanging).amin(1).max() < 1e-3
    fast = bank.WindowBank(takes, Variation(warp=1.5, mirror=0.0), seed=1).batch(64)
    assert torch.isfinite(fast).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"warp": 0.5}, "option data.warp: expected a number from 1 to 2"),
        ({"swap": 2.0}, "option data.swap: expected a number from 0 to 1"),
        ({"swap": -1.0}, "option data.swap: expected a number from 0 to 1"),
    ],
)
def test_variations_out_of_range(change, words):
    with pytest.raises(OptionError, match=words):
        ForecastOptions(**change)


def test_takes_too_short_to_learn_from(tmp_path):
    smooth_takes(tmp_path, rows=60)
    with pytest.raises(OptionError, match="at least 69 rows"):
        train(ForecastTask(), TINY.replace(path=tmp_path, validation=0), tmp_path / "run")


def test_a_clip_to_judge_on_that_has_no_window_is_refused_before_anything_is_written(tmp_path):
    smooth_takes(tmp_path)
    smooth_takes(tmp_path, actions=("walking",), numbers=(2,), rows=68)
    with pytest.raises(OptionError, match=r"walking_2.*68 rows.*needs 69"):
        train(ForecastTask(), TINY.replace(path=tmp_path), tmp_path / "run")
    with pytest.raises(OptionError, match=r"folds.*walking_2.*68 rows"):
        folds.study(TINY.replace(path=tmp_path), tmp_path / "study", 3)
    assert not {"run", "study"} & {path.name for path in tmp_path.iterdir()}


def test_folds_do_not_take_clips_that_are_left_out_already(clips, tmp_path):
    with pytest.raises(OptionError, match="leave_out"):
        folds.study(TINY.replace(path=clips, leave_out=["walking_1"]), tmp_path / "study", 3)
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"peak_lr": 0.0},
        {"lr": 0.1},
        {"data": {"turn": 0.1}},
        {"model": {"joints": 3, "mirror": []}},
    ],
)
def test_options_out_of_range(change):
    with pytest.raises(OptionError):
        TINY.replace(**change)


def test_a_single_clip_to_leave_out_is_still_a_list():
    with pytest.raises(OptionError, match=r"data.leave_out: expected an array of texts, got 'walking_1'"):
        TINY.replace(leave_out="walking_1")


def test_training_learns_and_goes_on_to_the_bit(clips, tmp_path):
    learning = {"steps": 30, "batch": 16, "validate_every": 15, "ema": 0.8, "peak_lr": 0.03, "refit": False}
    options = TINY.replace(path=clips, **learning)
    uninterrupted = train(ForecastTask(), options, tmp_path / "whole")
    curve = {
        row["step"]: row["valid_ratio"] for row in read_metrics(tmp_path / "whole") if "valid_ratio" in row
    }
    assert curve[30] < 0.8
    assert uninterrupted["best_step"] == min(curve, key=curve.get)

    assert not train(stopping(19), options, tmp_path / "run")["finished"]
    report = train(ForecastTask(), None, tmp_path / "run", resume=True)
    assert (report["resumed_at"], report["best_step"]) == (19, uninterrupted["best_step"])
    assert same_weights(load_best(tmp_path / "whole"), load_best(tmp_path / "run"))


def test_mixed_precision_stays_near(finished_run, tmp_path):
    options, folder, _ = finished_run
    train(ForecastTask(), options.replace(precision="bf16", refit=False), tmp_path / "run")
    one, two = (read_metrics(path)[-1] for path in (folder, tmp_path / "run"))
    assert two["total"] != one["total"]
    for name in ("total", "valid_ratio"):
        assert two[name] == pytest.approx(one[name], rel=0.02), name
    assert {weight.dtype for weight in load_best(tmp_path / "run").values()} == {torch.float32}


def test_a_run_ends_early_on_a_schedule_that_is_longer(clips, tmp_path):
    options = TINY.replace(path=clips, validation=0, stop=2, log_every=1)
    report = train(ForecastTask(), options, tmp_path / "run")
    rates = [row["lr"] for row in read_metrics(tmp_path / "run")]
    assert rates == pytest.approx([options.schedule.learning_rate(step) for step in range(2)])
    assert (report["step"], report["best_step"], report["stopped_early"]) == (2, 2, True)


def test_the_predictor_scores_as_the_model_says(clips):
    take = cmu.load_split(clips, "train")[0][0]
    torch.manual_seed(0)
    model = PoseForecaster(TINY.config()).eval()
    windows = torch.from_numpy(take.joint_positions[:35][None]).float()
    said = predictor(model)(take.joint_positions[None, :10])
    chosen = list(cmu.PREDICTED)
    with torch.no_grad():
        own = model.predict(windows[:, :10, chosen])
    assert np.allclose(said[:, :, chosen], own.numpy(), atol=1e-3)
    # It predicts the last pose, so it scores the same as zero velocity.
    assert np.allclose(
        metrics.error_curve(take, predictor(model)), metrics.error_curve(take, metrics.hold), atol=1e-3
    )


def test_a_run_holds_out_a_clip_to_stop_and_learns_from_all(finished_run, tmp_path):
    options, folder, report = finished_run
    assert report["validation"] == ["soccer_2", "walking_2"]
    assert report["refit"]
    assert len(report["trained_on"]) == 6
    assert report["best_step"] in (2, 4)
    assert "train/running/running_1.txt" in report["missing"]
    load_predictor(folder)
    assert options.data.path not in (folder / "checkpoint" / "model.json").read_text()
    alone = train(ForecastTask(), options.replace(refit=False), tmp_path / "alone")
    assert "walking_2" not in alone["trained_on"]
    with pytest.raises(OptionError, match=r"data\.validation: expected"):
        train(ForecastTask(), options.replace(validation=5), tmp_path / "none")
    with pytest.raises(OptionError, match=r"data\.leave_out: .* has no clip 'walking_7'"):
        train(ForecastTask(), options.replace(leave_out=["walking_1", "walking_7"]), tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(OptionError, match="holds a run already"):
        train(ForecastTask(), options, folder)
    with pytest.raises(OptionError, match="holds a run already"):
        folds.study(options, folder, 3)


def test_a_run_killed_in_its_second_training_goes_on_there(finished_run, clips, tmp_path, monkeypatch):
    options, folder, report = finished_run
    shutil.copytree(clips, tmp_path / "clips")
    monkeypatch.chdir(tmp_path)
    options = options.replace(path="clips")
    monkeypatch.setattr("training.tasks.forecast.task.ForecastTask", lambda: stopping(1))
    killed = train(ForecastTask(), options, tmp_path / "run")
    assert not killed["finished"]
    assert not (tmp_path / "run" / "report.json").exists()
    monkeypatch.undo()
    with pytest.raises(OptionError, match=r"data\.path: clips: no such folder; say with --data where"):
        train(ForecastTask(), None, tmp_path / "run", resume=True)
    monkeypatch.chdir(tmp_path)
    # The files must be those that the run was started with.
    file = tmp_path / "clips" / "train" / "soccer" / "soccer_3.txt"
    file.rename(tmp_path / "aside")
    with pytest.raises(OptionError, match="begun with other files"):
        train(ForecastTask(), None, tmp_path / "run", resume=True)
    shutil.copy(file.with_name("soccer_2.txt"), file)
    with pytest.raises(OptionError, match="begun with other files"):
        train(ForecastTask(), None, tmp_path / "run", resume=True)
    (tmp_path / "aside").rename(file)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    del config["sha256"]  # as older ones
    config["options"]["data"] |= {"turn": 0.0, "noise": 0.0}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    again = train(ForecastTask(), None, tmp_path / "run", resume=True)
    assert again["best_step"] == report["best_step"]
    made = [load_forecaster(at / "checkpoint").state_dict() for at in (folder, tmp_path / "run")]
    assert same_weights(*made)


def test_folds_leave_out_every_clip_once():
    takes = [cmu.Take("walking", f"walking_{n}", np.zeros((1, 117))) for n in (1, 2, 4, 5)]
    assert folds.split_folds(takes, 5) == [["walking_1"], ["walking_2"], ["walking_4"], ["walking_5"]]
    assert folds.split_folds(takes, 4) == [[take.name] for take in takes]
    assert folds.split_folds(takes, 2) == [["walking_1", "walking_5"], ["walking_2", "walking_4"]]
    with pytest.raises(OptionError, match="folds must be"):
        folds.split_folds(takes, 6)


def test_an_interrupted_study_goes_on_where_it_stopped(clips, tmp_path, monkeypatch):
    options = TINY.replace(path=clips)
    first = folds.study(options, tmp_path / "study", 3)
    assert (first["done"], first["kept"], first["finished"]) == (3, 0, True)
    report = judge_folds(tmp_path / "study")
    kept = (tmp_path / "study" / "fold-1" / "scores.json").stat().st_mtime_ns
    shutil.rmtree(tmp_path / "study" / "fold-2")
    assert judge_folds(tmp_path / "study")["complete"] == [1, 3]
    monkeypatch.setattr(folds, "ForecastTask", lambda: stopping(1))
    stopped = folds.study(options, tmp_path / "study", 3)
    assert (stopped["done"], stopped["kept"], stopped["finished"]) == (0, 1, False)
    monkeypatch.undo()
    assert folds.study(options, tmp_path / "study", 3)["done"] == 1
    assert judge_folds(tmp_path / "study") == report
    assert (tmp_path / "study" / "fold-1" / "scores.json").stat().st_mtime_ns == kept
    plan = json.loads((tmp_path / "study" / "study.json").read_text())
    plan["options"]["data"] |= {"turn": 0.0, "noise": 0.0}  # as older ones
    (tmp_path / "study" / "study.json").write_text(json.dumps(plan))
    assert folds.study(options, tmp_path / "study", 3)["kept"] == 3
    with pytest.raises(OptionError, match="other options or files"):
        folds.study(options.replace(seed=1), tmp_path / "study", 3)
    changed = shutil.copytree(clips, tmp_path / "changed")
    shutil.copy(changed / "train/soccer/soccer_2.txt", changed / "train/soccer/soccer_3.txt")
    with pytest.raises(OptionError, match="other options or files"):
        folds.study(options.replace(path=changed), tmp_path / "study", 3)
    left = load_forecaster(tmp_path / "study" / "fold-2" / "checkpoint")
    take = cmu.load_take(clips / "train" / "soccer" / "soccer_2.txt", "soccer")
    found = metrics.error_curve(take, predictor(left))
    zero = metrics.error_curve(take, metrics.hold)
    assert report["ratio_by_clip"]["soccer_2"] == pytest.approx((found / zero)[list(cmu.HORIZONS)], abs=1e-4)


def hand_study(folder):
    """Two folds of three clips with known errors."""
    rows = {
        "walking_1": (1.0, 4.0),
        "soccer_1": (4.0, 4.0),
        "walking_2": (3.0, 4.0),
        "basketball_signal_2": (400.0, 4.0),
    }
    plan = {"folds": [["walking_1", "soccer_1"], ["walking_2", "basketball_signal_2"]], "missing": []}
    (folder / "study.json").write_text(json.dumps({**plan, "options": {}}))
    for number, names in enumerate(plan["folds"], 1):
        scores = {
            name: {
                folds.MODEL: [rows[name][0]] * 25,
                folds.ZERO: [rows[name][1]] * 25,
                folds.CONSTANT: [8.0] * 25,
            }
            for name in names
        }
        (folder / f"fold-{number}").mkdir()
        (folder / f"fold-{number}" / "scores.json").write_text(json.dumps({"scores": scores}))


def test_left_out_clips_are_averaged_by_action_without_the_uncounted_one(tmp_path):
    hand_study(tmp_path)
    report = judge_folds(tmp_path)
    assert report["mpjpe"]["model"]["walking"] == [2.0] * 6
    assert report["ratio"]["average"] == [0.75] * 6
    assert report["ratio"]["basketball_signal"] == [100.0] * 6
    low, high = np.array(report["interval_clips"])
    # Only walking varies, between 1/4 and 3/4; soccer is 4/4.
    assert low[0] == pytest.approx(0.625)
    assert high[0] == pytest.approx(0.875)
    low, high = np.array(report["interval_actions"])
    assert low[0] < 0.625
    assert high[0] == pytest.approx(1.0)
    assert judge_folds(tmp_path, without=[2])["ratio"]["average"] == [0.625] * 6
    with pytest.raises(OptionError, match="some of the folds"):
        judge_folds(tmp_path, without=[3])
    with pytest.raises(OptionError, match="at least one"):
        judge_folds(tmp_path, without=[1, 2])
    with pytest.raises(FormatError, match=r"study\.json: no such file"):
        judge_folds(tmp_path / "fold-1")
    scores = tmp_path / "fold-1" / "scores.json"
    text = scores.read_text()
    for damage in (
        "{}",
        text.replace("walking_1", "walking_9"),
        text.replace("4.0]", "NaN]"),
        text.replace("4.0, ", ""),
    ):
        scores.write_text(damage)
        with pytest.raises(FormatError, match=r"fold-1.scores\.json: lacks the error of a take"):
            judge_folds(tmp_path)
    scores.unlink()
    alone = judge_folds(tmp_path)
    assert (alone["complete"], alone["judged"]) == ([2], [2])
    assert "(folds 2 of 2; not complete: 1)" in as_markdown(fold_parts(alone, pictures=False))


def test_the_uncounted_action_alone_is_still_judged(tmp_path):
    hand_study(tmp_path)
    plan = json.loads((tmp_path / "study.json").read_text())
    plan["folds"] = [["basketball_signal_2"]]
    (tmp_path / "study.json").write_text(json.dumps(plan))
    (tmp_path / "fold-1" / "scores.json").write_bytes((tmp_path / "fold-2" / "scores.json").read_bytes())
    report = judge_folds(tmp_path)
    assert report["ratio"]["average"] == [100.0] * 6
    assert report["interval_actions"] == [[100.0] * 25] * 2


def test_folds_interrupted_while_one_is_judged_go_on(clips, tmp_path, command, monkeypatch):
    small = ("--folds", 2, "--steps", 2, "--batch", 4, "--width", 8)
    words = ("train", "forecast", "--data", clips, "--out", tmp_path / "study", *small)
    with monkeypatch.context() as patch:
        patch.setattr(folds, "load_predictor", Mock(side_effect=KeyboardInterrupt))
        code, out, _ = command(*words)
    assert (code, out.split("; ")[-1]) == (130, "what was saved is kept, the same command goes on\n")
    assert command(*words)[0] == 0


def test_a_checkpoint_of_another_skeleton(tmp_path):
    save_forecaster(tmp_path / "run", PoseForecaster(ForecastConfig(joints=3)))
    with pytest.raises(CheckpointError, match="expected 25 joints"):
        load_predictor(tmp_path / "run")


def test_the_commands(tmp_path, command):
    smooth_takes(tmp_path)
    random_takes(tmp_path)
    quick, data = ("--steps", "2", "--batch", "4", "--width", "8"), ("--data", tmp_path)
    (tmp_path / "file").touch()
    # Checked before anything is read.
    for words in (
        ("train", "forecast", "--data", tmp_path, "--out", tmp_path / "file" / "run"),
        ("evaluate", "forecast", "--data", tmp_path, "--report", tmp_path / "file" / "in"),
    ):
        code, out, err = command(*words)
        assert (code, err) == (1, f"pyanticip: {tmp_path / 'file'}: not a directory\n")
    run = ("--out", tmp_path / "run", "--validation", 2)
    code, out, err = command("train", "forecast", *data, *run, *quick)
    assert code == 0, err
    assert "pyanticip evaluate forecast" in out
    (tmp_path / "test").rename(tmp_path / "aside")
    code, out, err = command("train", "forecast", "--out", tmp_path / "run", "--resume")
    assert f"pyanticip train forecast --data {tmp_path} --folds 5 --out FOLDER" in out, err
    study = ("--out", tmp_path / "study", "--folds", 2)
    (tmp_path / "folds.toml").write_text("[data]\nvalidation = 2\n")
    for wrong in (("--set", "data.validation=2"), ("--config", tmp_path / "folds.toml")):
        code, _, err = command("train", "forecast", *data, *study, *quick, *wrong)
        assert (code, err) == (2, "pyanticip: --folds: leaves every clip out once, without --validation\n")
    (tmp_path / "aside").rename(tmp_path / "test")
    assert (tmp_path / "run" / "checkpoint" / "model.safetensors").is_file()
    code, out, err = command(
        *("evaluate", "forecast", "--data", tmp_path, "--checkpoint", tmp_path / "run"),
        *("--report", tmp_path / "page"),
    )
    assert code == 0, err
    assert "| model |" in out
    page = (tmp_path / "page" / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert "src=" not in page.replace('src="data:', "")
    code, out, err = command(
        *("evaluate", "forecast", "--data", tmp_path, "--checkpoint", tmp_path / "run", "--split", "train")
    )
    assert "was trained on 6 of these 6 files" in out
    with full_disk():
        code, out, err = command(
            *("evaluate", "forecast", "--data", tmp_path, "--checkpoint", tmp_path / "run"),
            *("--report", tmp_path / "full"),
        )
    assert (code, "| model |" in out) == (1, True), err
    assert err.startswith("pyanticip: ")
    code, out, err = command("evaluate", "forecast", "--benchmark", "cmu", "--data", tmp_path, "--json")
    assert json.loads(out)["files"] == 2, err
    code, out, err = command(
        *("train", "forecast", "--data", tmp_path, "--out", tmp_path / "study", "--folds", 2, "--json"),
        *quick,
    )
    assert code == 0, err
    assert json.loads(out)["done"] == 2
    code, out, err = command(
        "evaluate", "forecast", "--folds", tmp_path / "study", "--report", tmp_path / "folds"
    )
    assert code == 0, err
    assert "model, clips left out" in out
    assert (tmp_path / "folds" / "horizon.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "folds" / "report.json").read_text())["clips"] == 6
    for wrong in (
        ("evaluate", "forecast"),
        ("evaluate", "forecast", "--folds", tmp_path / "study", "--data", tmp_path),
        ("evaluate", "forecast", "--data", tmp_path, "--without", 1),
    ):
        code, out, err = command(*wrong)
        assert code == 2
        assert "Traceback" not in err
