"""Options of a motion training run: tables, files, overrides, errors."""

import tomllib
from pathlib import Path

import pytest

from pyanticip.errors import OptionError
from training.data.batches import LENGTHS
from training.tasks.motion.options import MotionTrainOptions


def test_defaults_are_the_recipe():
    options = MotionTrainOptions()
    schedule = options.schedule
    assert (schedule.steps, schedule.batch_frames, schedule.ema) == (2400, 3072, 0.998)
    assert (schedule.peak_lr, schedule.final_lr, schedule.warm_up_steps) == (2e-3, 2e-5, 200)
    assert (options.huber_at(0), options.huber_at(2399)) == (0.02, pytest.approx(0.004))
    assert (options.sampled(0), options.sampled(2399)) == (0.0, 0.3)
    assert options.config().dropout == 0.1
    assert MotionTrainOptions(**options.to_dict()) == options


def test_the_rate_warms_up_and_ends_low():
    schedule = MotionTrainOptions(steps=1000, warm_up_steps=100, peak_lr=1e-3, final_lr=1e-5).schedule
    rates = [schedule.learning_rate(step) for step in range(1000)]
    assert rates[0] == 1e-5
    assert max(rates) == rates[100] == rates[99] == 1e-3
    assert rates[-1] < 1.1e-5
    # The rate also falls in a run that is shorter than the warm-up.
    short = MotionTrainOptions(steps=100, warm_up_steps=200, peak_lr=1e-3, final_lr=1e-5).schedule
    rates = [short.learning_rate(step) for step in range(100)]
    assert max(rates) == rates[50] == rates[49] == 1e-3
    assert rates[-1] < 1.2e-5
    # And it never rises above its peak, which may be lower than the default of the end.
    gentle = MotionTrainOptions(steps=10, warm_up_steps=2, peak_lr=1e-6).schedule
    assert {gentle.learning_rate(step) for step in range(1, 10)} == {1e-6}
    still = MotionTrainOptions(steps=10, peak_lr=0.0).schedule
    assert not any(still.learning_rate(step) for step in range(10))


def test_a_file_below_the_command_line(tmp_path):
    file = tmp_path / "run.toml"
    text = "[model]\r\nff = 64\r\n[schedule]\r\nsteps = 30\r\nseed = 2\r\n[data]\r\npath = 'takes'\r\n"
    file.write_text(text, encoding="utf-8-sig", newline="")  # as an editor of Windows may write it
    options = MotionTrainOptions.gather(
        file, MotionTrainOptions.assignments(["steps=40", "model.bias=none", "loss.huber=[0.1, 0.01]"])
    )
    assert (options.schedule.steps, options.schedule.seed, options.data.path) == (40, 2, "takes")
    assert options.model == {"ff": 64, "bias": "none"}
    assert options.loss.huber == (0.1, 0.01)


def test_a_run_from_a_checkpoint_is_gentler_unless_told():
    options = MotionTrainOptions.gather(
        None, {"run": {"init": "somewhere"}, "schedule": {"warm_up_steps": 7}}
    )
    assert (options.schedule.peak_lr, options.schedule.warm_up_steps) == (8e-4, 7)
    assert options.loss.huber == (0.01, 0.004)


def test_only_how_it_is_computed_may_differ():
    options = MotionTrainOptions()
    same = options.replace(run={"threads": 3, "workers": 2, "accumulate": 4}, data={"path": "moved"})
    assert options.differences(same) == {}
    other = options.replace(schedule={"seed": 1}, model={"ff": 8})
    assert other.differences(options) == {"schedule.seed": (1, 0), "model.ff": (8, None)}
    assert set(options.EXECUTION) <= set(options.flat())


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"schedule": {"step": 3}}, "unknown option schedule.'step'; did you mean steps?"),
        ({"steps": 3, "schedule": {"steps": 4}}, "option steps is given twice"),
        ({"modle": {}}, "unknown option 'modle'; did you mean model?"),
        ({"model": {"head": 3}}, "unknown model option 'head'; did you mean heads?"),
        ({"model": {"pose_horizons": [100]}}, r"model option pose_horizons is gone: .* \[\] is still read"),
        ({"loss": {"pose": 0.2}}, "option loss.pose is gone: only its default 0.1 is still read, got 0.2"),
        ({"loss": {"reset": 0.5}}, "option loss.reset is gone: only its default 0.0 is still read, got 0.5"),
        ({"schedule": {"steps": 0}}, "option schedule.steps: expected a whole number from 1, got 0"),
        ({"schedule": {"ema": 1}}, "option schedule.ema: expected a number from 0 to below 1, got 1"),
        ({"loss": {"distillation": 1.5}}, "option loss.distillation: expected a number from 0 to 1"),
        ({"run": {"ensemble": "one"}}, "option run.ensemble: expected an array of texts"),
        ({"run": {"ensemble": [3]}}, "option run.ensemble: expected an array of texts"),
        ({"loss": {"huber": [0.1]}}, "option loss.huber: expected two numbers above 0"),
        ({"loss": {"events": -1}}, "option loss.events: expected a number from 0 to 1000, got -1"),
        ({"run": {"precision": "8"}}, "option run.precision: expected one of 32, bf16, 16, got '8'"),
        ({"run": {"export": "yes"}}, "option run.export: expected true or false, got 'yes'"),
        ({"data": 3}, "data: expected a table of options, got 3"),
    ],
)
def test_what_is_wrong_is_said(tables, message):
    with pytest.raises(OptionError, match=message):
        MotionTrainOptions(**tables)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["steps"], "--set: expected NAME=VALUE, got 'steps'"),
        (["stepz=3"], "unknown option 'stepz'; did you mean steps?"),
        (["steps=3", "schedule.steps=4"], "option schedule.steps is given twice: 3 and 4"),
        (["schedule=3", "steps=4"], "option schedule: expected a table of options, got 3"),
        (["model=3", "model.ff=4"], "option model: expected a table of options, got 3"),
    ],
)
def test_assignments_that_are_wrong(given, message):
    with pytest.raises(OptionError, match=message):
        MotionTrainOptions.assignments(given)


def test_what_is_wrong_in_a_file_is_said_with_its_name(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[loss]\nevent = 1\n")
    with pytest.raises(OptionError, match=r"run\.toml: unknown option loss\.'event'; did you mean events"):
        MotionTrainOptions.gather(file)
    with pytest.raises(OptionError, match=r"nowhere\.toml: no such file"):
        MotionTrainOptions.gather(tmp_path / "nowhere.toml")


def test_files_that_name_what_is_gone_at_its_default_are_read(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[model]\npose_horizons = []\n[loss]\npose = 0.1\nreset = 0\n")
    assert MotionTrainOptions.gather(file).loss == MotionTrainOptions().loss
    assert MotionTrainOptions.gather(file).config() == MotionTrainOptions().config()


def test_the_page_names_every_option():
    page = (Path(__file__).parents[4] / "docs" / "train_motion.md").read_text()
    given = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    options = MotionTrainOptions(**{**given, "data": {**given["data"], "path": ""}, "model": {}})
    assert options == MotionTrainOptions()
    tables = options.to_dict()
    assert {table: set(content) for table, content in given.items() if table != "model"} == {
        table: set(content) for table, content in tables.items() if table != "model"
    }


def test_an_update_has_room_for_the_longest_window():
    assert MotionTrainOptions(batch_frames=LENGTHS[-1]).schedule.batch_frames == 640
    with pytest.raises(OptionError, match=r"batch_frames.* 640"):
        MotionTrainOptions(batch_frames=LENGTHS[-1] - 1)
