"""A task of another package: one class and one registry entry are enough for the trainer."""

import json
import signal
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest
import safetensors.torch
import torch
from torch import nn

import training.tasks
from pyanticip.errors import CheckpointError, DeviceError, OptionError
from training.run.files import BEST, LAST, METRICS, REPORT, load_best, new_folder, read_state
from training.run.launch import Processes, process_group
from training.run.module import TrainModule
from training.run.options import Options, TrainOptions
from training.run.recorder import Recorder, read_metrics
from training.run.task import Task, load_weights, read_options
from training.run.train import train, train_from_command_line


class Slope(Options):
    """The model: a straight line."""

    slope: float = 2.0
    """Of the line."""


class LineOptions(TrainOptions):
    """Options of the task."""

    data: Slope = Slope()


class Batch(NamedTuple):
    x: torch.Tensor
    step: int
    part: int = 0


class Points:
    def __init__(self, options, start):
        self.options, self.start = options, start

    def __iter__(self):
        for step in range(self.start, self.options.schedule.steps):
            yield Batch(torch.linspace(-1.0, 1.0, 8)[:, None] * (step % 3 + 1), step)


class LineModule(TrainModule):
    def training_step(self, batch):
        loss = (self.model(batch.x) - self.options.data.slope * batch.x).square().mean()
        return {"loss": loss, "parts": loss.detach()[None]}

    def groups(self):
        return [{"params": list(self.model.parameters()), "weight_decay": 0.0}]


class LineRecorder(Recorder):
    columns = ("step", "lr", "total", "grad_norm", "valid_error", "seconds")
    loss_names = ("total",)
    displayed_loss = "total"
    selection_metric = "valid_error"

    def validate(self, module, done):
        return {"valid_error": abs(float(module.model.weight.detach()) - self.options.data.slope)}


class LineTask(Task):
    command, format_name, version, options = "train line", "test-line-run", 1, LineOptions

    def open(self, options, folder, config, here, console):
        return None

    def module(self, run, *, fresh):
        torch.manual_seed(run.options.schedule.seed)
        return LineModule(nn.Linear(1, 1), run.options)

    def batches(self, run, start):
        return Points(run.options, start)

    def recorder(self, run, module, batches, start):
        return LineRecorder(run.folder, run.options, start)

    def finish(self, run, report):
        return {"slope": run.options.data.slope}


QUICK = {
    "steps": 40,
    "peak_lr": 0.3,
    "validate_every": 10,
    "save_every": 10,
    "tensorboard": False,
    "threads": 1,
}


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setitem(training.tasks.TASKS, "line", f"{__name__}:LineTask")
    monkeypatch.setattr(training.tasks, "import_module", lambda name: __import__("sys").modules[__name__])
    return training.tasks.find("line")


def test_more_threads_than_there_can_be_are_refused():
    with pytest.raises(OptionError, match="threads: expected a whole number from 0 to 1000, got 1000000"):
        LineOptions(**{**QUICK, "threads": 10**20})


def test_a_run_that_ends_early_does_so_at_a_validation_though_it_was_interrupted_before(
    known, tmp_path, monkeypatch
):
    monkeypatch.setattr(LineRecorder, "should_stop", lambda record: record.step >= 15)
    options, updated = LineOptions(**QUICK), Mock(side_effect=[False] * 16 + [True] + [False] * 9)
    monkeypatch.setattr("training.run.loop.Interrupt.__call__", lambda interrupt: updated())
    assert train(known(), options, tmp_path / "run")["step"] == 17
    report = train(known(), None, tmp_path / "run", resume=True)
    assert (report["resumed_at"], report["step"]) == (17, 20)


def test_a_task_is_found_trained_judged_and_loaded(known, tmp_path, monkeypatch):
    out = tmp_path / "run"
    report, lines = train_from_command_line(known(), out, QUICK, settings=["slope=-1.5"], quiet=True)
    assert (report["finished"], report["slope"], report["step"]) == (True, -1.5, 40)
    assert lines == [f"wrote {out}"]
    assert read_options(known, out).data.slope == -1.5
    model = nn.Linear(1, 1)
    load_weights(model, out, "best")
    assert float(model.weight.detach()) == pytest.approx(-1.5, abs=0.1)
    assert [row["step"] for row in read_metrics(out)] == [10, 20, 30, 40]
    with pytest.raises(OptionError, match="unknown task 'lime'; did you mean line"):
        training.tasks.find("lime")
    for at, says in ((f"{__name__}:None", "AttributeError"), (f"{__name__}:Slope", "it is not a subclass")):
        other = EntryPoint("other", at, "pyanticip.tasks")
        monkeypatch.setattr(training.tasks, "entry_points", lambda group, point=other: [point])
        with pytest.raises(OptionError, match=f"task 'other': {at} cannot be used .*{says}"):
            training.tasks.find("other")
    for error, says in (
        (SystemExit("no home"), "SystemExit: no home"),
        (OptionError("no"), "OptionError: no"),
    ):
        monkeypatch.setattr(training.tasks, "import_module", Mock(side_effect=error))
        with pytest.raises(OptionError, match=rf"^task 'other': .* cannot be used \({says}\)$"):
            training.tasks.find("other")
    monkeypatch.setattr(training.tasks, "entry_points", lambda group: [other, other])
    with pytest.raises(OptionError, match=f"task 'other' is claimed more than once: {at}, {at}"):
        training.tasks.find("other")


def test_it_goes_on_to_the_bit_and_with_its_own_options_alone(known, tmp_path):
    options, before = known.options(**QUICK), signal.getsignal(signal.SIGINT)
    train(known(), options, tmp_path / "whole")
    assert signal.getsignal(signal.SIGINT) is before

    class Stopped(LineTask):
        def recorder(self, run, module, batches, start):
            record = super().recorder(run, module, batches, start)
            record.after_update = lambda module, done, batch: setattr(record, "stop", lambda: done == 17)
            return record

    assert not train(Stopped(), options, tmp_path / "run")["finished"]
    assert int(read_state(tmp_path / "run")["global_step"]) == 17
    with pytest.raises(OptionError, match=r"data\.slope: the run in .* was begun with 2\.0, got 3\.0"):
        train(known(), options.replace(slope=3.0), tmp_path / "run", resume=True)
    assert train(known(), None, tmp_path / "run", resume=True)["resumed_at"] == 17
    states = [read_state(tmp_path / name)["state_dict"] for name in ("whole", "run")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    (tmp_path / "run" / REPORT).write_text('{"finished": tr')
    with pytest.raises(
        CheckpointError, match=r"report\.json is not valid JSON; delete it and resume the run"
    ):
        train(known(), None, tmp_path / "run", resume=True)
    for file in (LAST, REPORT):  # as if killed before its first state
        (tmp_path / "run" / file).unlink()
    assert train(known(), None, tmp_path / "run", resume=True)["resumed_at"] is None


def test_an_interrupt_before_there_is_a_run_keeps_nothing_and_says_so(known, tmp_path, monkeypatch):
    monkeypatch.setattr("training.run.train.train", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train_from_command_line(known(), tmp_path, QUICK, quiet=True)
    (tmp_path / "config.json").write_text("{}")
    report, lines = train_from_command_line(known(), tmp_path, QUICK, quiet=True)
    assert not report["finished"]
    assert lines[0] == "interrupted; what was saved is kept. Go on with:"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"valid_error": float("nan")}, "valid_error became nan at step 10 or shortly before; try a lower"),
        ({"valid_eror": 0.5}, "a validation gives valid_eror, expected valid_error"),
    ],
)
def test_a_validation_that_judges_nothing_ends_the_run(known, tmp_path, monkeypatch, found, says):
    monkeypatch.setattr(LineRecorder, "validate", lambda self, module, done: found)
    with pytest.raises(OptionError, match=says):
        train(known(), known.options(**QUICK), tmp_path / "run")
    monkeypatch.setattr(LineRecorder, "validate", lambda self, module, done: {})
    assert train(known(), known.options(**QUICK), tmp_path / "held out nothing")["best_step"] == 40


@pytest.mark.parametrize(
    "changes",
    [
        {"state_dict": {"model.slope": torch.zeros(1)}},
        {"state_dict": [1]},
        {"optimizer_states": []},
        {"callbacks": []},
        {"callbacks": {}},
        {"callbacks": {"Record": {}}},
        {"global_step": 41},
    ],
    ids=str,
)
def test_a_state_of_another_model_is_refused_in_one_line(known, tmp_path, changes):
    folder = tmp_path / "run"
    train(known(), known.options(**QUICK), folder)
    (folder / "report.json").unlink()
    torch.save({**read_state(folder), "global_step": 10, **changes}, folder / LAST)
    with pytest.raises(CheckpointError, match=r"run: begun by a version whose state does not fit \("):
        train(known(), None, folder, resume=True)


@pytest.mark.parametrize("step", [-3, 0, "x"])
def test_a_state_of_before_the_first_update_is_none(tmp_path, step):
    (tmp_path / LAST).parent.mkdir()
    torch.save({"global_step": step}, tmp_path / LAST)
    with pytest.raises(CheckpointError, match="not a saved state"):
        read_state(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"finished": true}'])
def test_a_report_that_is_none_is_written_again(known, tmp_path, text):
    folder = tmp_path / "run"
    report = train(known(), known.options(**QUICK), folder)
    (folder / "report.json").write_text(text)
    with pytest.raises(
        CheckpointError, match=r"report\.json: is not the report of a run; delete it and resume"
    ):
        train(known(), None, folder, resume=True)
    (folder / "report.json").unlink()
    assert train(known(), None, folder, resume=True)["step"] == report["step"]


@pytest.mark.parametrize("options", [[], None, "x", {"schedule": 3}])
def test_options_that_are_no_tables_are_named(known, tmp_path, options):
    folder = tmp_path / "run"
    train(known(), known.options(**QUICK), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "options": options}))
    with pytest.raises(
        CheckpointError, match=r"config\.json: option(s|.*): expected (a table|tables) of options"
    ):
        read_options(known, folder)


def test_a_save_keeps_the_sums_of_every_process(known, tmp_path, monkeypatch):
    """Averaging them at a save changed the ninth digit of the rows after an interrupted run."""
    options = known.options(**QUICK)

    def of_process(rank):
        record = LineRecorder(tmp_path, options, 0)
        record.world, record.rank = 2, rank
        return record

    records = of_process(0), of_process(1)
    for record, sums in zip(records, ([0.1, 0.2], [0.7, 0.4]), strict=True):
        record.sums, record.count = torch.tensor(sums), 3

    def all_gather(rows, own):
        for row, record in zip(rows, records, strict=True):
            row.copy_(record.sums)

    monkeypatch.setattr("training.run.recorder.all_gather", all_gather)
    records[0].saved_sums = records[0]._all_sums()
    assert records[0].sums.tolist() == torch.tensor([0.1, 0.2]).tolist()
    state = records[0].state_dict()
    for record in records:
        resumed = of_process(record.rank)
        resumed.load_state_dict(state)
        assert torch.equal(resumed.sums, record.sums)
        assert resumed.count == 3
    alone = LineRecorder(tmp_path, options, 0)
    alone.load_state_dict(state)
    assert torch.equal(alone.sums, torch.stack([record.sums for record in records]).mean(0))


def test_a_run_that_another_command_began_meanwhile_is_left_alone(tmp_path):
    def begin():
        with new_folder(tmp_path / "run") as draft:
            (draft / "config.json").write_text("{}")
            (tmp_path / "run").mkdir()
            (tmp_path / "run" / "config.json").write_text("[]")

    with pytest.raises(OptionError, match="run: holds a run already; go on with --resume"):
        begin()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (tmp_path / "run" / "config.json").read_text() == "[]"


def test_a_process_whose_others_ended_says_so_in_one_line(monkeypatch):
    def closed():
        raise RuntimeError("[gloo]\nConnection closed by peer")

    monkeypatch.setattr("training.run.launch.dist.barrier", closed)
    Processes().barrier()  # alone it waits for nobody
    with pytest.raises(DeviceError, match=r"another process of this command ended \(\[gloo\] Connection"):
        Processes(1, 2, 2).barrier()
    monkeypatch.setattr("training.run.launch.dist.init_process_group", lambda *_, **__: closed())
    for name, value in (("TORCHELASTIC_RUN_ID", "one"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    with pytest.raises(DeviceError, match=r"cannot meet \(\[gloo\] Connection"), process_group("cpu"):
        pass


def test_a_row_that_was_not_written_whole_is_none(tmp_path):
    metrics = tmp_path / METRICS
    for torn in ("10", "20,0.", "20,0.5,", "x", "20,0.5\r"):
        metrics.write_bytes(b"step,lr\r\n10,0.25\r\n" + torn.encode())
        assert read_metrics(tmp_path) == [{"step": 10, "lr": 0.25}]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_full_disk_names_the_file_of_the_row(known, tmp_path):
    (tmp_path / METRICS).symlink_to("/dev/full")
    with pytest.raises(DeviceError, match=rf"{METRICS}: cannot be written \(no space left on device"):
        LineRecorder(tmp_path, known.options(**QUICK), 0)._write({"step": 10})


def test_weights_of_runs_from_before_positions_had_one_name_are_read(tmp_path):
    (tmp_path / BEST).parent.mkdir()
    old = {"trunk.prism.gru.weight": torch.ones(2), "layer.places.alpha": torch.zeros(1)}
    safetensors.torch.save_file({**old, "head.bias": torch.ones(1)}, tmp_path / BEST)
    assert set(load_best(tmp_path)) == {"trunk.positions.gru.weight", "layer.mix.alpha", "head.bias"}
