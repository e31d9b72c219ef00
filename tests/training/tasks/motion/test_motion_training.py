"""Runs of the motion model: their files, resuming, several processes."""

import errno
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.takes import rows, same_weights

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import load_motion_model, save_checkpoint
from pyanticip.models.checkpoint.manifest import SHIPPED, read_manifest
from training.data.batches import event_targets
from training.run.files import BEST, LAST, REPORT, read_state, run_lock
from training.run.recorder import Recorder, read_metrics
from training.run.task import read_options
from training.tasks.motion.losses import event_nll, losses
from training.tasks.motion.module import MotionModule, new_model, widened
from training.tasks.motion.options import REMOVED, MotionTrainOptions
from training.tasks.motion.people import training_overlap_warnings, training_subjects
from training.tasks.motion.scores import Predictions
from training.tasks.motion.task import MotionTask, check_held_out, fit, load_run
from training.tasks.motion.validation import clip_figures
from training.tasks.motion.windows import Feed


def ends_alike(one, two):
    assert rows(one) == rows(two)
    for which in ("best", "last"):
        assert same_weights(load_run(one, which).state_dict(), load_run(two, which).state_dict()), which
    states = [read_state(folder)["optimizer_states"][0]["state"] for folder in (one, two)]
    for key, moments in states[0].items():
        assert same_weights(moments, states[1][key])


@pytest.fixture(scope="module")
def finished_run(tiny, data, tmp_path_factory):
    """A tiny uninterrupted run: (options, folder, report)."""
    options = tiny()
    folder = tmp_path_factory.mktemp("whole") / "run"
    return options, folder, fit(options, folder, data=data)


def test_the_default_loss_is_the_sum_that_losses_gives(tiny, data):
    options = tiny(model={"dropout": 0.0}, loss={"own_scalars": 0.9}, schedule={"batch_frames": 1280})
    assert options.loss == MotionTrainOptions().replace(loss={"own_scalars": 0.9}).loss
    model = new_model(options, torch.zeros(279), torch.ones(279))
    with torch.no_grad():  # some heads output zeros before the first update
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    module = MotionModule(model, torch.ones(8, 5), options)
    (part,) = feed_of(options, data).update(5)
    found = module.training_step(part)
    out = widened(model(part.batch.features, predicted=part.own))
    # Some windows are steered by the model's own scalars, others by the computed ones: results differ.
    own, given = part.own[:, 0], model(part.batch.features).params
    assert own.any()
    assert not own.all()
    assert torch.equal(part.own, own[:, None].expand(part.own.shape))
    assert [torch.equal(a, b) for a, b in zip(out.params, given, strict=True)] == (~own).tolist()
    whole_loss = losses(model, out, part.batch, torch.ones(8, 5), options.huber_at(5))
    total = sum(options.loss.model_dump().get(name, 1.0) * piece for name, piece in whole_loss.items())
    assert float(found["loss"].detach()) == pytest.approx(float(total.detach()), rel=1e-6)


def test_an_ensemble_stands_beside_the_labels(tiny, data, tmp_path):
    small = tiny()
    paths = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = new_model(small.replace(schedule={"seed": seed}), torch.zeros(279), torch.ones(279))
        with torch.no_grad():
            model.control.last.bias[: 8 * 5] = 0.2 * seed
        paths.append(str(save_checkpoint(tmp_path / str(seed), model)))
    (part,) = feed_of(small, data).update(0)

    def aim(share, *ensemble):
        options = small.replace(run={"ensemble": list(ensemble)}, loss={"distillation": share})
        module = MotionModule(
            new_model(options, torch.zeros(279), torch.ones(279)), torch.ones(8, 5), options
        )
        learned = {name for name, _ in module.named_parameters()}
        assert learned == {f"model.{name}" for name, _ in module.model.named_parameters()}
        module.train()
        return module.distilled(part.batch)

    labels = part.batch.params
    assert aim(1.0) is part.batch
    assert torch.equal(aim(0.0, *paths).params, labels)
    with torch.no_grad():
        each = [load_motion_model(path).eval()(part.batch.features).params for path in paths]
    assert not torch.allclose(*each, atol=1e-3)
    mixed = 0.25 * labels + 0.75 * sum(each) / 2
    torch.testing.assert_close(aim(0.75, *paths).params, mixed, atol=1e-6, rtol=0.0)
    assert torch.equal(aim(0.75, *paths).event_bin, part.batch.event_bin)
    with pytest.raises(CheckpointError, match="nobody"):
        fit(small.replace(run={"ensemble": [str(tmp_path / "nobody")]}), tmp_path / "run", data=data)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["init", "ensemble"])
def test_who_is_held_out_must_have_been_held_out(tiny, data, tmp_path, option):
    options = tiny()
    paths = {}
    for people in (["00", "02"], ["08", "00"], ["09"]):
        model = new_model(options, torch.zeros(279), torch.ones(279))
        paths[people[0]] = str(save_checkpoint(tmp_path / people[0], model, training={"people": people}))
    known = replace(data, test_subjects=("09",))

    def run(who, out):
        given = paths[who] if option == "init" else [paths[who]]
        once = options.replace(run={option: given}, schedule={"steps": 1})
        return fit(once, tmp_path / out, data=known)

    for who in ("08", "09"):
        with pytest.raises(
            OptionError, match=rf"run\.{option}: .* learned from {who}, whom this run holds out"
        ):
            run(who, "refused")
    assert run("00", "run")["people"] == ["00", "01", "02"]  # 02 through the other


def test_the_packaged_model_says_whom_it_learned_from(tiny, data):
    assert training_subjects(read_manifest(SHIPPED).training) >= {"01", "Jasmine_Coro", "reactidle008"}
    options = tiny().replace(run={"ensemble": [str(SHIPPED)]})
    with pytest.raises(OptionError, match=r"run\.ensemble: .* learned from 05, 08, whom this run holds out"):
        check_held_out(options, replace(data, test_subjects=("05",)))


def test_who_taught_a_checkpoint_is_no_stranger_to_it():
    run = {"people": ["anna"], "held_out": {"validation": ["ben"], "test": ["cleo"]}}
    assert training_overlap_warnings(run, ["ben", "cleo", "somebody new"]) == []
    heard = {**run, "beats": {"learned_from": ["ben"]}}
    told = "this checkpoint learned from subject anna, ben, who is judged here"
    assert training_overlap_warnings(heard, ["ben", "anna", "dora"]) == [told]
    # A checkpoint without a list of people, as from older versions.
    del heard["people"]
    assert training_overlap_warnings(heard, ["ben", "cleo", "dora"]) == [
        "this checkpoint learned from subject ben, who is judged here",
        "not held out of this checkpoint's training as far as it says: subject dora",
    ]


def test_a_clip_is_judged_by_what_the_losses_ask_for(example_of):
    example, hazards = example_of(120, 1), np.random.default_rng(0).uniform(0.01, 0.6, (120, 2, 25))
    off = np.where(np.arange(7) % 2, 0.5, -0.3)
    scalars = (example.features[:, 220:227] + off).astype(np.float32)
    nothing = np.zeros((120, 8, 5), np.float32)
    said = Predictions(nothing, hazards.astype(np.float32), scalars, np.zeros(120, np.float32))
    nll, wrong, frames = clip_figures(said, example)
    assert frames == 120
    assert wrong == pytest.approx(120 * np.mean(off**2), rel=1e-5)
    targets = [event_targets(events, 120) for events in (example.onsets, example.phrases)]
    bins, seen = (torch.from_numpy(np.stack(rows, axis=-1))[None] for rows in zip(*targets, strict=True))
    asked = event_nll(torch.logit(torch.from_numpy(hazards))[None], bins, seen).sum()
    assert nll == pytest.approx(float(asked), rel=1e-5)


def test_a_parameter_that_never_moves_does_not_decide(tiny, data, tmp_path):
    """A constant parameter, as drums have no pitch, is learned beside the others."""

    def still(examples):
        return [replace(e, params=np.where(np.arange(8) == 0, np.float32(0.5), e.params)) for e in examples]

    quiet = replace(
        data, train=still(data.train), originals=still(data.originals), validation=still(data.validation)
    )
    report = fit(tiny(schedule={"steps": 4}), tmp_path / "run", data=quiet)
    assert report["best_step"] > 0
    assert 0.0 < report["validation"]["score"] < 100.0
    assert report["device"] == "cpu"


def feed_of(options, data, **where):
    from training.data.batches import Windows

    return Feed(Windows(data.train), options, options.config(), **where)


@pytest.mark.parametrize("option", ["init", "ensemble"])
def test_a_run_does_not_go_on_with_another_checkpoint_than_it_began_with(tiny, data, tmp_path, option):
    small, given = tiny(schedule={"steps": 2}), tmp_path / "given"

    def save(seed):
        options = small.replace(schedule={"seed": seed})
        save_checkpoint(given, new_model(options, torch.zeros(279), torch.ones(279)))

    save(1)
    fit(
        small.replace(run={option: str(given) if option == "init" else [str(given)]}),
        tmp_path / "run",
        data=data,
    )
    (tmp_path / "run" / REPORT).unlink()  # as if killed before its end
    assert fit(None, tmp_path / "run", data=data, resume=True)["finished"]
    (tmp_path / "run" / REPORT).unlink()
    moved, flag = (
        given.rename(tmp_path / "moved"),
        {"init": "--init", "ensemble": "--set run.ensemble"}[option],
    )
    with pytest.raises(OptionError, match=rf"option run.{option}: .*/given: no such .* with {flag} where"):
        fit(None, tmp_path / "run", data=data, resume=True)
    save(2)
    with pytest.raises(OptionError, match=rf"option run.{option}: .* begun with other weights; delete"):
        fit(None, tmp_path / "run", data=data, resume=True)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    del config["weights"]  # as older ones
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    elsewhere = read_options(MotionTask, tmp_path / "run").replace(
        run={option: str(moved) if option == "init" else [str(moved)]}
    )
    with pytest.raises(OptionError, match=r"begun with .*/given, and kept no hash to know it by elsewhere"):
        fit(elsewhere, tmp_path / "run", data=data, resume=True)


def test_a_full_disk_is_named_and_nothing_goes_elsewhere(finished_run, tiny, data, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    def step(self):
        # The folder of temporary files, which does not exist here, is not used for the state.
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        monkeypatch.setattr(os, "fsync", full if self.step == 4 else lambda handle: None)

    all_sums = Recorder._all_sums
    monkeypatch.setattr(Recorder, "_all_sums", lambda self: (step(self), all_sums(self))[1])
    with pytest.raises(OSError, match="No space left") as caught:
        fit(tiny(), tmp_path / "run", data=data)
    assert Path(caught.value.filename).parent == tmp_path / "run" / "checkpoints"
    monkeypatch.undo()
    names = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert names == {BEST.name, LAST.name}
    assert int(read_state(tmp_path / "run")["global_step"]) == 2
    fit(None, tmp_path / "run", data=data, resume=True)
    ends_alike(finished_run[1], tmp_path / "run")


def test_other_data_is_not_gone_on_with(finished_run, data, tmp_path):
    run = shutil.copytree(finished_run[1], tmp_path / "run")
    (run / REPORT).unlink()
    with pytest.raises(OptionError, match="was begun with other data"):
        fit(None, run, data=replace(data, digest="other"), resume=True)


def test_a_run_of_an_older_version_is_gone_on_with(finished_run, data, tmp_path, monkeypatch):
    """Its options have losses that were removed, and so has its last unfinished row."""

    def killed(*given, **named):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("training.tasks.motion.task.validate", killed)
        with pytest.raises(RuntimeError, match="killed"):
            fit(finished_run[0], tmp_path / "run", data=data)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["options"]["loss"] |= REMOVED
    config["model"] |= {"pose_horizons": []}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    state = read_state(tmp_path / "run")
    (kept,) = state["callbacks"].values()
    kept["sums"] = torch.cat((kept["sums"], torch.zeros(len(REMOVED))))
    torch.save(state, tmp_path / "run" / LAST)
    assert fit(None, tmp_path / "run", data=data, resume=True)["finished"]
    for which in ("best", "last"):
        one, two = (load_run(folder, which).state_dict() for folder in (finished_run[1], tmp_path / "run"))
        assert same_weights(one, two), which


def test_a_run_is_gone_on_with_by_one_command_at_a_time(finished_run):
    folder = finished_run[1]
    with run_lock(folder):
        taken = pytest.raises(OptionError, match="another process is training this run")
        with taken, run_lock(folder, patience=0.0):
            pass
        with run_lock(folder, first=False, patience=0.0):  # another process of the same command
            pass
    with run_lock(folder, patience=0.0):
        pass


def test_a_checkpoint_that_cannot_be_written_is_told_and_the_weights_stay(tiny, data, tmp_path, monkeypatch):
    def differs(*arguments, **named):
        raise CheckpointError("front.weight is not finite float32")

    options = tiny(schedule={"steps": 2}, run={"export": True, "tensorboard": False})
    with monkeypatch.context() as patch:
        patch.setattr("training.tasks.motion.task.save_checkpoint", differs)
        with pytest.raises(CheckpointError, match=r"not exported: front.weight is .*best\.safetensors"):
            fit(options, tmp_path / "run", data=data)
    load_run(tmp_path / "run")
    # As after a kill, only missing results are computed.
    assert fit(None, tmp_path / "run", data=data, resume=True)["export"] == "checkpoint"
    made = load_motion_model(tmp_path / "run" / "checkpoint")
    assert made.cfg == options.config()
    assert same_weights(made.state_dict(), load_run(tmp_path / "run").state_dict())
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_parts_make_the_curve_of_the_whole(tiny, data, tmp_path):
    for name, parts in (("one", 1), ("two", 2)):
        run, schedule = {"accumulate": parts, "log_every": 2}, {"steps": 4, "batch_frames": 1280}
        options = tiny(model={"dropout": 0.0}, run=run, schedule=schedule)
        fit(options, tmp_path / name, data=data)
    one, two = (read_metrics(tmp_path / name) for name in ("one", "two"))
    for name in ("total", "params", "events", "gate", "grad_norm", "valid_score"):
        given = [[row[name] for row in found if name in row] for found in (one, two)]
        assert given[1] == pytest.approx(given[0], rel=2e-4), name


def test_mixed_precision_stays_near(finished_run, tiny, data, tmp_path):
    _, folder, _ = finished_run
    # The first row covers three steps, which do not depend on the total number.
    fit(tiny(run={"precision": "bf16"}, schedule={"steps": 3}), tmp_path / "run", data=data)
    one, two = (read_metrics(path) for path in (folder, tmp_path / "run"))
    assert two[0]["params"] != one[0]["params"]
    for name in ("params", "events", "scalars", "gate"):
        assert two[0][name] == pytest.approx(one[0][name], rel=0.02), name
    # Saved in single precision, though computed in mixed precision.
    assert {v.dtype for v in load_run(tmp_path / "run").state_dict().values()} == {torch.float32}


def test_a_slow_pathway_that_no_window_would_run_is_refused_and_short_windows_may_leave_it_out(
    tiny, data, tmp_path
):
    with pytest.raises(OptionError, match="at most the 640 steps of a window, got 641: the slow"):
        fit(tiny(model={"slow_stride": 641}), tmp_path / "run", data=data)
    assert not list(tmp_path.iterdir())
    choices = [({"slow_stride": 160}, False), ({"slow_stride": 161}, True)]
    choices += [
        ({"slow_stride": 161, "slow_layers": 0}, False),
        ({"bias": "none", "gated_events": False}, False),
    ]
    for model, left_out in choices:
        options = tiny(model=model)
        module = MotionModule(
            new_model(options, torch.zeros(279), torch.ones(279)), torch.ones(8, 5), options
        )
        feed = feed_of(options, data)
        short = next(p for step in range(20) for p in feed.update(step) if p.batch.weight.shape[1] == 160)
        module.training_step(short)["loss"].backward()
        idle = any(p.requires_grad and p.grad is None for p in module.parameters())
        assert idle == left_out == MotionTask().idle_weights(None, module)


def test_what_is_said_is_said_exactly(tiny, data):
    model = new_model(tiny(), torch.zeros(279), torch.ones(279)).eval()
    (part,) = feed_of(tiny(), data).update(0)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(part.batch.features)
    assert (out.params.dtype, out.events.dtype) == (torch.float32, torch.float32)


def test_workers_gather_the_same_windows(tiny, data):
    options = tiny(run={"accumulate": 2}, schedule={"batch_frames": 1280})
    plain = feed_of(options, data, start=3)
    served = feed_of(options.replace(run={"workers": 2}), data, start=3)
    for one, two in zip(plain, served, strict=True):
        assert (one.step, one.part) == (two.step, two.part)
        assert torch.equal(one.batch.features, two.batch.features)
    assert served.waited > 0.0
