"""Recipes: the packaged one, and a tiny one from takes to a checkpoint, with interruptions."""

import json
import shutil
import signal
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import load_motion_model
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_manifest
from pyanticip.models.core.config import without_removed
from pyanticip.models.motion.pose_window import FRAMES
from training.data.sets import MotionSet
from training.recipes import make as maker
from training.recipes.make import make
from training.recipes.stages import PACKAGED, Train, read_stages
from training.run.files import CONFIG
from training.tasks.motion.options import REMOVED
from training.tasks.motion.task import MotionTask

TINY = """
[[stage]]
name = "first"
kind = "train"
options.model = { d_model = 32, heads = 2, fast_layers = 1, slow_layers = 1, ff = 32, control_hidden = 48 }
options.data = { copies = 1 }
options.schedule = { steps = 6, batch_frames = 640 }
options.run = { threads = 1, save_every = 2, tensorboard = false }

[[stage]]
name = "refined"
kind = "train"
from = "first"
ensemble = ["first"]
options.data = { copies = 0 }
options.schedule = { steps = 1, batch_frames = 640 }
options.run = { threads = 1, tensorboard = false }

[[stage]]
name = "last"
kind = "beats"
from = "refined"
options = { copies = 0, steps = 5 }

[[stage]]
name = "reading"
kind = "poses"
from = "last"
options = { copies = 0, steps = 5 }
"""


def test_the_packaged_recipe_says_what_the_packaged_checkpoint_notes():
    noted = read_manifest(None)
    *_, distilled, beats, poses = read_stages(PACKAGED)
    config = distilled.run_options().config()
    assert config.replace(strokes=True, pose_window=FRAMES) == noted.config
    told = noted.training["options"]
    assert told["data"].pop("path") == "data"
    assert told["run"].pop("init") == f"{distilled.start}/checkpoint"
    assert told["run"].pop("ensemble") == [f"{name}/checkpoint" for name in distilled.ensemble]
    told["loss"] = without_removed(told["loss"], REMOVED, "")
    mine = distilled.run_options().to_dict()
    assert {table: {name: mine[table][name] for name in names} for table, names in told.items()} == told
    assert beats.start == distilled.name
    assert poses.start == beats.name
    for stage in (beats, poses):
        options = stage.options.model_dump()
        assert options == {name: noted.training[stage.kind][name] for name in options}


@pytest.fixture
def tiny(quick, tmp_path):
    """A recipe of few updates."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.mark.slow
def test_from_takes_to_a_checkpoint_interrupted_in_a_run_and_between_stages(
    tiny, lively, tmp_path, monkeypatch
):
    out, cache = tmp_path / "out", tmp_path / "cache"
    again = partial(make, lively, out, recipe=tiny, cache=cache)

    class Interrupted(Exception):
        pass

    def fails(*given, **options):
        raise Interrupted

    from training.tasks.motion.module import MotionModule

    step = MotionModule.training_step

    def stops(self, batch):
        if batch.step == 4:
            raise Interrupted
        return step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(MotionModule, "training_step", stops)
        with pytest.raises(Interrupted):
            again()
    assert json.loads((out / "recipe.json").read_text())["stages"] == {}
    with monkeypatch.context() as patch:
        patch.setattr(maker, "train_event_head", fails)
        with pytest.raises(Interrupted):
            again()
    assert json.loads((out / "first" / "report.json").read_text())["resumed_at"] == 4
    assert set(json.loads((out / "recipe.json").read_text())["stages"]) == {"first", "refined"}
    opened, plain = [], MotionSet.open
    with monkeypatch.context() as patch:
        patch.setattr(MotionSet, "open", lambda path: opened.append(path) or plain(path))
        report = again()
    assert opened == [lively], "what was hashed is what is learned from"
    assert [one["state"] for one in report["stages"]] == ["kept", "kept", "made", "made"]
    assert [one["state"] for one in again()["stages"]] == ["kept"] * 4
    assert report["checkpoint"] == str(out / "reading" / "checkpoint")
    made = read_manifest(out / "reading" / "checkpoint")
    model = load_motion_model(out / "reading" / "checkpoint")
    assert (model.cfg.strokes, model.cfg.pose_window) == (True, FRAMES)
    assert made.training["poses"]["steps"] == 5
    assert made.training["beats"]["learned_from"] == ["anna", "ben"]
    refined = json.loads((out / "refined" / "config.json").read_text())["options"]["run"]
    assert refined["ensemble"] == [str(out / "first" / "checkpoint")]
    told = read_manifest(out / "refined" / "checkpoint").training["options"]["run"]
    assert told["ensemble"] == ["first/checkpoint"]
    # An unfinished stage, in a folder that was moved and is given by another path.
    record = json.loads((out / "recipe.json").read_text())
    del record["stages"]["refined"]
    (out / "recipe.json").write_text(json.dumps(record))
    out.rename("moved")
    moved = make(lively, Path("moved"), recipe=tiny, cache=cache)
    assert [one["state"] for one in moved["stages"]] == ["kept", "made", "kept", "kept"]
    Path("moved").rename(out)
    # An unfinished stage must have been started with the current weights of the previous one.
    (out / "recipe.json").write_text(json.dumps(record))
    config = json.loads((out / "refined" / "config.json").read_text())
    config["weights"][str(out / "first" / "checkpoint")] = "another"
    (out / "refined" / "config.json").write_text(json.dumps(config))
    with pytest.raises(OptionError, match=r"the run in .*refined was begun with other weights; delete it"):
        again()
    shutil.rmtree(out / "refined")
    assert [one["state"] for one in again()["stages"]] == ["kept", "made", "kept", "kept"]
    # A stage that is damaged, partly deleted or replaced by another is not kept.
    weights = out / "first" / "checkpoint" / WEIGHTS
    good = weights.read_bytes()
    for wrong, told in ((good[:-1] + b"x", "is damaged or not its own"), (None, f"{WEIGHTS}: ")):
        weights.unlink() if wrong is None else weights.write_bytes(wrong)
        with pytest.raises(CheckpointError, match=rf"{told}.*; delete .*first to make it again"):
            again()
    shutil.copytree(out / "refined" / "checkpoint", weights.parent, dirs_exist_ok=True)
    with pytest.raises(CheckpointError, match=r"has other weights than were made; delete .*first"):
        again()
    record = json.loads((out / "recipe.json").read_text())
    for stage in record["stages"].values():
        del stage["weights"]  # as older ones
    (out / "recipe.json").write_text(json.dumps(record))
    assert [one["state"] for one in again()["stages"]] == ["kept"] * 4
    # Another recipe does not reuse the stages.
    tiny.write_text(TINY.replace("steps = 1,", "steps = 2,"))
    with pytest.raises(OptionError, match=r"refined: was made with other options, data or earlier stages"):
        again()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 6", "step = 6", "stage first: unknown option schedule.'step'; did you mean steps?"),
        ("{ copies = 1 }", '{ path = "x" }', "stage first: option data.path follows from the stage"),
        ('kind = "beats"', 'kind = "beat"', "stage last: kind: expected one of train, beats, poses, got"),
        (
            'from = "refined"',
            'from = "refine"',
            "stage last: no stage 'refine' before it; did you mean refined?",
        ),
        ('from = "refined"', "", "stage last: lacks the key 'from'"),
        ("copies = 0, steps = 5", "faster = -1", "stage last: options.faster: input should be greater than"),
        (
            "save_every = 2",
            "export = false",
            "stage first: option run.export: the checkpoint is what",
        ),
        ('["first"]', '["frist"]', "stage refined: no stage 'frist' before it; did you mean first?"),
        ('["first"]', '["refined"]', "stage refined: no stage 'refined' before it"),
        ('from = "first"', 'form = "first"', "stage refined: unknown key 'form'; did you mean from?"),
        ('name = "last"', 'name = "../last"', "stage ../last: name: string should match pattern"),
        ('name = "refined"', 'name = "first"', "stage first: there is another stage of that name"),
        ("[[stage]]", "[[stages]]", "expected tables [[stage]] alone, got stages"),
        (TINY, "stage = []", "expected tables [[stage]] alone, got stage"),
        (TINY, "stage = [3]", "expected tables [[stage]] alone, got stage"),
    ],
)
def test_a_wrong_recipe_is_one_line_before_anything_is_made(
    tiny, lively, tmp_path, command, old, new, message
):
    tiny.write_text(TINY.replace(old, new))
    words = ("--data", lively, "--recipe", tiny, "--out", tmp_path / "out")
    code, _, stderr = command("train", "packaged", *words)
    assert (code, stderr.count("\n"), message in stderr) == (2, 1, True), stderr
    assert not (tmp_path / "out").exists()


def test_a_stage_is_another_where_what_it_needs_is_another(monkeypatch):
    keys = {"one": "1", "two": "2"}

    def key(start, *ensemble):
        return maker._key(Train(name="x", kind="train", **{"from": start}, ensemble=ensemble), "data", keys)

    made = [key("one", "two"), key("two", "one"), key("", "one", "two"), key("", "two", "one"), key("one")]
    assert len(set(made)) == 5
    assert key("one", "two") == made[0]
    monkeypatch.setattr(maker, "VARY_VERSION", 0)
    assert key("one", "two") not in made, "other copies"


def test_other_options_of_a_stage_under_way_are_refused_before_its_copies_are_made(
    tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(maker, "training_data", None)
    stage, folder = read_stages(tiny)[0], tmp_path / "first"
    folder.mkdir()
    begun = stage.run_options().replace(steps=7).to_dict()
    config = {
        "format": MotionTask.format_name,
        "version": MotionTask.version,
        "options": begun,
        "weights": {},
    }
    (folder / CONFIG).write_text(json.dumps(config))
    with pytest.raises(OptionError, match=r"steps.*: the run in .*first was begun with 7, got 6"):
        maker._make(stage, tmp_path, tmp_path, None, None, Console(quiet=True))


def test_a_folder_of_something_else_is_left_alone(tiny, lively, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(OptionError, match=r"out: holds something else; give a new folder"):
        make(lively, tmp_path / "out", recipe=tiny)


@pytest.mark.parametrize(
    ("text", "told"),
    [('{"format": "pyan', "recipe.json is not valid JSON"), ("{}", "recipe.json: does not say which stages")],
)
def test_a_damaged_record_is_named(tiny, lively, tmp_path, text, told):
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(OptionError, match=told):
        make(lively, tmp_path, recipe=tiny)


def test_what_another_command_finishes_meanwhile_is_kept(tiny, lively, tmp_path, monkeypatch):
    tiny.write_text("[[stage]]".join(TINY.split("[[stage]]")[:2]))
    command, lock = partial(make, lively, tmp_path / "out", recipe=tiny, cache=tmp_path), maker.run_lock

    @contextmanager
    def waited_for(folder):
        monkeypatch.setattr(maker, "run_lock", lock)
        assert [stage["state"] for stage in command()["stages"]] == ["made"]
        with lock(folder):
            yield

    monkeypatch.setattr(maker, "run_lock", waited_for)
    assert [stage["state"] for stage in command()["stages"]] == ["kept"]


def test_a_stage_made_from_other_weights_is_not_kept(tiny, lively, tmp_path):
    tiny.write_text("[[stage]]".join(TINY.split("[[stage]]")[:3]))
    command, record = partial(make, lively, tmp_path / "out", recipe=tiny), tmp_path / "out" / "recipe.json"
    command(cache=tmp_path)
    noted = json.loads(record.read_text())
    assert noted["stages"]["refined"]["from"] == {"first": noted["stages"]["first"]["weights"]}
    noted["stages"]["refined"]["from"]["first"] = "other"  # as if first had been made again, differently
    record.write_text(json.dumps(noted))
    with pytest.raises(OptionError, match="refined: was made from other weights of first; delete it"):
        command(cache=tmp_path)
    for unknown in ({"first": None}, {}):  # refined made now from a first of an older version, or both then
        noted["stages"]["refined"]["from"] = unknown
        record.write_text(json.dumps(noted))
        assert [stage["state"] for stage in command(cache=tmp_path)["stages"]] == ["kept", "kept"]


def test_an_interrupted_run_says_how_it_goes_on(tiny, lively, command, monkeypatch):
    words = ("--data", lively, "--recipe", tiny, "--out", "out", "--cache", "cache")
    for stopped in (lambda: {"finished": False}, lambda: signal.raise_signal(signal.SIGTERM)):
        monkeypatch.setattr(maker, "fit", lambda *given, stopped=stopped, **options: stopped())
        code, stdout, _ = command("train", "packaged", *words)
        assert (code, "the same command goes on" in stdout) == (130, True), stdout
    monkeypatch.setattr(maker, "fit", lambda *given, **options: {"finished": True})
    code, _, stderr = command("train", "packaged", *words)
    assert (code, "first: ended without a checkpoint; delete it to make" in stderr) == (1, True), stderr
