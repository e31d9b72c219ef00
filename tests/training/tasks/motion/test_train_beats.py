"""``pyanticip train beats``: trains only a checkpoint's event head, and leaves no partial result."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.takes import SMALL, set_of

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer, load_motion_model
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.models.config import ModelConfig
from training.data.sets import MotionSet
from training.data.sets.vary import _opened
from training.finish import beats, common, poses
from training.tasks.motion import people, task
from training.tasks.motion.module import initial_model
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.scores import run_model
from training.teacher.kinematic_targets import TEACHER_VERSION


@pytest.fixture(scope="module")
def checkpoint(checkpoint_of):
    return checkpoint_of()


@pytest.fixture
def cli(taught, checkpoint):
    return taught("beats", checkpoint=checkpoint, copies=1, steps=20)


@pytest.fixture
def saved(monkeypatch):
    """Capture the model instead of exporting it, which takes seconds."""
    found = {}

    def save(out, model, *, training):
        found[str(out)] = (model, training)

    monkeypatch.setattr(beats, "save_checkpoint", save)
    return found


def test_another_seed_makes_other_copies(checkpoint, lively, quick, tmp_path, monkeypatch):
    heard = []

    def listen(model, head_data, progress):
        heard.append([float(example.features.sum()) for example in head_data.clips])
        raise KeyboardInterrupt

    monkeypatch.setattr(beats, "frames_of", listen)
    for seed in (0, 0, 1):
        options = {"checkpoint": checkpoint, "copies": 1, "seed": seed, "cache": tmp_path / "cache"}
        with pytest.raises(KeyboardInterrupt):
            beats.train_event_head(lively, tmp_path / "out", **options)
    one, again, other = (set(each) for each in heard)
    assert one == again
    # The clips themselves, but no varied or faster copy.
    assert len(one & other) == sum(clip.split == "train" for clip in MotionSet.open(lively).clips)


def test_from_a_set_to_a_checkpoint_that_hears_the_same_twice(cli, lively, checkpoint, request):
    code, stdout, stderr = cli()
    assert code == 0, stderr
    assert "pyanticip live --source auto://0.0.0.0 --checkpoint out" in stdout
    assert "all (" in stdout
    before, after = load_motion_model(checkpoint), load_motion_model("out")
    assert after.cfg.strokes
    (clip,) = MotionSet.open(lively).examples("validation")
    was, now = run_model(before, clip), run_model(after, clip)
    for name in ("params", "scalars", "gate"):
        assert np.array_equal(getattr(was, name), getattr(now, name))
    assert np.array_equal(was.hazards[:, 1], now.hazards[:, 1])
    assert not np.allclose(was.hazards[:, 0], now.hazards[:, 0], atol=1e-3)
    saved = request.getfixturevalue("saved")
    code, stdout, stderr = cli("--json", out="again")
    report = json.loads(stdout)
    assert (code, stderr) == (0, "")
    assert (report["learned_from"], report["judged_on"]) == (["anna", "ben"], ["carl"])
    for when in ("before", "judged"):
        for rows in report[when].values():
            assert all(len(row) == 3 and 0.0 <= min(row) <= max(row) <= 1.0 for row in rows.values())
    model, noted = saved["again"]
    assert noted["beats"] == {k: v for k, v in report.items() if k not in ("checkpoint", "warnings")}
    assert noted["held_out"] == {"validation": ["carl"], "test": []}  # the head was trained on Ben
    assert noted == read_manifest("out").training
    again = model.state_dict()
    assert all(torch.equal(value, again[name]) for name, value in after.state_dict().items())


def test_a_folder_of_takes_and_a_head_that_heard_before(cli, saved, lively, monkeypatch):
    heard = MotionTransformer(ModelConfig(**SMALL, strokes=True)).eval()
    monkeypatch.setattr(people, "load_motion_model", lambda path: heard)
    # Anna and Ben are the only two, one on each side.
    for who in ("anna", "ben"):
        shutil.copytree(lively.parent / "takes" / who, f"takes/{who}")
    monkeypatch.setattr(beats, "MAX_FRAMES", 300)
    code, stdout, stderr = cli("--json", data="takes", faster=2)
    assert code == 0, stderr
    # Every third frame of 240, a copy, and two sped-up copies is used.
    assert 200 <= json.loads(stdout)["frames"] < 350
    assert saved["out"][0].cfg.strokes


def test_nothing_is_learned_from_who_is_left_out(cli, saved, lively, tmp_path):
    code, stdout, stderr = cli("--json", without="ben")
    assert code == 0, stderr
    report = json.loads(stdout)
    assert (report["learned_from"], report["judged_on"], report["without"]) == (["anna"], ["ben"], ["ben"])
    assert not any("held out" in line for line in report["warnings"])
    found = MotionSet.open(lively)
    (mine,) = _opened(lively, found.digest, ("ben",))[1]
    assert found.clips[mine].subject == "anna"
    (copies,) = tmp_path.glob("cache/copies-*")
    assert MotionSet.open(copies).subjects() == ["anna"]
    code, _, stderr = cli(without="anna", out="other")
    assert code == 0
    unsure = "not held out of this checkpoint's training as far as it says: subject anna"
    assert f"warning: {unsure}" in stderr


@pytest.mark.parametrize("train_head", [beats.train_event_head, poses.train_pose_head])
def test_nobody_is_judged_on_who_taught_the_checkpoint(train_head, lively, checkpoint, monkeypatch, tmp_path):
    heard = {"people": ["dora"], "beats": {"learned_from": ["carl", "ben"]}}
    found = replace(read_manifest(checkpoint), training=heard), load_motion_model(checkpoint)
    monkeypatch.setattr(common, "load_base_model", lambda *given, **changes: found)
    for without, who in (((), "carl"), (("ben", "anna"), "ben")):
        with pytest.raises(OptionError, match=f"learned from {who}, whom this judges; expected a v"):
            train_head(
                lively, tmp_path / "out", checkpoint=checkpoint, without=without, cache=tmp_path / "cache"
            )
    assert not list(tmp_path.iterdir())


def still(folder):
    return set_of(folder, {"anna": "train", "ben": "validation"}, size=0.02)


def alone(folder):
    return set_of(folder, {"anna": "train"})


def short(folder):
    return set_of(folder, {"anna": "train", "ben": "validation"}, frames=60, min_seconds=1.0)


def old(folder):
    path = set_of(folder, {"anna": "train", "ben": "validation"})
    index = json.loads((path / "set.json").read_text())
    (path / "set.json").write_text(json.dumps({**index, "teacher_version": TEACHER_VERSION - 1}))
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (still, "no beat in any training clip"),
        (alone, "holds one subject only (anna)"),
        (short, "clips is as long as 80 frames"),
        (
            old,
            f"targets of teacher {TEACHER_VERSION - 1}, expected {TEACHER_VERSION}; build the set again: py",
        ),
    ],
)
def test_sets_that_cannot_teach_are_refused_in_one_line(cli, tmp_path, make, message):
    code, stdout, stderr = cli(data=make(tmp_path / "made"))
    assert (code in (1, 2), stdout) == (True, "")
    assert stderr.count("\n") == 1, stderr
    line = stderr
    assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"without": "zoe"}, "no training motion of subject zoe; its training subjects are anna, ben"),
        ({"without": "anna,ben"}, "nobody is left to learn from without anna, ben"),
        ({"out": "full"}, "full: already exists; give a new folder"),
        ({"checkpoint": "full"}, "checkpoint full/model.json: no such file"),
        ({"data": "nowhere"}, "nowhere: no such folder; expected a set, or a folder of takes"),
    ],
)
def test_bad_words_are_refused_in_one_line(cli, tmp_path, given, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    code, _, stderr = cli(**given)
    assert code in (1, 2)
    assert stderr.count("\n") == 1, stderr
    line = stderr
    assert message in line
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["full"]


def test_models_that_cannot_be_taught_are_refused(cli, tmp_path, checkpoint, monkeypatch):
    shutil.copytree(checkpoint, tmp_path / "later")
    noted = json.loads((tmp_path / "later" / "model.json").read_text())
    noted["training"]["teacher_version"] = 99
    (tmp_path / "later" / "model.json").write_text(json.dumps(noted))
    code, _, stderr = cli(checkpoint="later")
    assert (code, "checkpoint later: was taught by teacher 99" in stderr) == (1, True)
    blind = MotionTransformer(ModelConfig(**SMALL, kinematics=False))
    monkeypatch.setattr(people, "load_motion_model", lambda path: blind)
    code, _, stderr = cli()
    assert code == 2
    assert "its head cannot hear strokes: strokes=True needs a motion model with kinematics" in stderr
    assert stderr.count("\n") == 1


def test_ctrl_c_leaves_nothing_behind(cli, tmp_path, monkeypatch):
    learn = beats.learn

    def interrupted(*given, on_step, **options):
        def step(done):
            if done == 5:
                raise KeyboardInterrupt
            on_step(done)

        return learn(*given, on_step=step, **options)

    monkeypatch.setattr(beats, "learn", interrupted)
    code, stdout, stderr = cli()
    assert (code, stdout) == (130, "")
    assert "interrupted; nothing was written to out" in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_a_run_says_how_its_head_learns_to_hear(tmp_path, checkpoint, monkeypatch):
    report = {"finished": True, "step": 1, "seconds": 1, "stopped_early": False, "best_step": 1}
    report |= {"validation": {"error": 0.1, "score": 1.0}, "export": "checkpoint"}
    report |= {"options": {"data": {"path": "takes"}}}
    out = tmp_path / "my run"
    shutil.copytree(checkpoint, out / "checkpoint")
    last = task.MotionTask().summary_lines(out, report)[-1].split("train beats ")[1]
    assert last == f"--data takes --checkpoint '{out}/checkpoint' --out '{out}/beats'"
    known = read_manifest(out / "checkpoint")
    assert "train poses" not in " ".join(task.MotionTask().summary_lines(out, report))
    twin = replace(known, config=known.config.replace(twin=True))
    with monkeypatch.context() as patch:
        patch.setattr(task, "read_manifest", lambda path: twin)
        line = next(line for line in task.MotionTask().summary_lines(out, report) if "train poses" in line)
        assert line.endswith(f"--data takes --checkpoint '{out}/checkpoint' --out '{out}/poses'")
    for change in ({"strokes": True}, {"kinematics": False}):
        other = replace(known, config=known.config.replace(**change))
        monkeypatch.setattr(task, "read_manifest", lambda path, other=other: other)
        assert "train beats" not in " ".join(task.MotionTask().summary_lines(out, report))


def test_a_run_does_not_make_a_head_hear_that_did_not(checkpoint):
    options = MotionTrainOptions().replace(run={"init": str(checkpoint)}, model={**SMALL, "strokes": True})
    with pytest.raises(OptionError, match=r"has False, got True; train beats adds them"):
        initial_model(options)
    with pytest.raises(OptionError, match=r"pose_window: 20 needs a model .* use train poses"):
        MotionTrainOptions().replace(model={"pose_window": 20})
