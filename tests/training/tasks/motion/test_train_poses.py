"""``pyanticip train poses``: trains a perceptron beside a checkpoint's trunk and nothing else."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.takes import small_model

from pyanticip.errors import OptionError
from pyanticip.models import load_motion_model, save_checkpoint
from pyanticip.models.checkpoint.manifest import read_manifest
from training.data.batches import HORIZONS
from training.data.sets import MotionSet
from training.finish import poses
from training.finish.common import load_base_model
from training.tasks.motion.scores import measure, run_model


@pytest.fixture(scope="module")
def checkpoint(checkpoint_of):
    return checkpoint_of(twin=True)


@pytest.fixture
def cli(taught, checkpoint):
    return taught("poses", checkpoint=checkpoint, copies=0, steps=5)


def test_what_it_learns_is_noted_and_the_same_twice_and_all_else_stays(cli, lively, checkpoint, monkeypatch):
    code, stdout, stderr = cli(steps=30)
    assert code == 0, stderr
    assert "pyanticip live --source auto://0.0.0.0 --checkpoint out" in stdout
    before, after = load_motion_model(checkpoint), load_motion_model("out")
    assert after.cfg == before.cfg.replace(pose_window=poses.FRAMES)
    taught = MotionSet.open(lively).examples("train")
    was, now = run_model(before, taught[0]), run_model(after, taught[0])
    for name in ("hazards", "scalars", "gate"):
        assert np.array_equal(getattr(was, name), getattr(now, name))
    errors = [
        measure(taught, lambda clip, model=model: run_model(model, clip).params).mean().sum()
        for model in (before, after)
    ]
    assert errors[1] < 0.97 * errors[0]

    noted, models = read_manifest("out").training, {}
    held_out: list[dict[str, list[str]]] = []

    def save(out: Path, model: Any, *, training: dict[str, Any]) -> None:
        """Captured instead of exported, which takes seconds."""
        models[str(out)] = model
        held_out.append(training["held_out"])

    monkeypatch.setattr(poses, "save_checkpoint", save)
    code, stdout, stderr = cli("--json", steps=30, out="again")
    report = json.loads(stdout)
    assert (code, stderr) == (0, "")
    assert (report["learned_from"], report["judged_on"]) == (["anna", "ben"], ["carl"])
    assert noted["poses"] == {k: v for k, v in report.items() if k not in ("checkpoint", "warnings")}
    assert noted["held_out"] == {"validation": ["carl"], "test": []}
    again = models["again"].state_dict()
    assert all(torch.equal(value, again[name]) for name, value in after.state_dict().items())
    # A checkpoint that already has one is trained again.
    code, _, stderr = cli("--json", checkpoint="out", out="other seed", seed=1)
    assert code == 0, stderr
    other = models["other seed"].state_dict()
    assert {name.split(".")[0] for name in other if not torch.equal(other[name], again[name])} == {"poses"}
    code, stdout, stderr = cli("--json", out="without", without="ben", steps=1)
    assert code == 0, stderr
    report = json.loads(stdout)
    assert (report["learned_from"], report["without"]) == (["anna"], ["ben"])
    assert held_out[-1]["validation"] == ["ben", "carl"]


def test_frames_are_those_of_the_clips_and_streams_begin_in_some(lively):
    model = small_model(twin=True, pose_window=poses.FRAMES)
    clips = MotionSet.open(lively).examples("train")
    known_rows = [np.column_stack((c.features[:, 220:227], c.features[:, 231:])) for c in clips]
    joined, scalars, rows, wanted = poses.Frames(model, clips, seed=0).batch(200)
    begun = 0
    for row, given, told, params in zip(joined, scalars, rows, wanted, strict=True):
        wanted_row = np.concatenate((given[0], told[0, 231:]))
        clip, at = next(
            (clip, t)
            for clip, known in zip(clips, known_rows, strict=True)
            for t in np.flatnonzero((known == wanted_row).all(1))
        )
        np.testing.assert_array_equal(params, clip.params[at + np.array(HORIZONS)].T)
        seen = int(row[:, -1].sum())
        begun += seen < min(at + 1, poses.FRAMES)
        places = model.normalised(torch.from_numpy(np.array(clip.features[at + 1 - seen : at + 1])))
        torch.testing.assert_close(row[-seen:, :-1], places[:, 279 : 279 + 66], atol=1e-5, rtol=1e-5)
        assert not row[: poses.FRAMES - seen].any()
    assert 5 <= begun <= 40


def test_models_without_the_twin_are_refused(cli, tmp_path):
    plain = save_checkpoint(tmp_path / "plain", small_model())
    with pytest.raises(OptionError, match="no poses can be read beside it: pose_window needs a motion model"):
        load_base_model(plain, "no poses can be read beside it", pose_window=poses.FRAMES)
    code, _, stderr = cli(checkpoint=plain)
    assert (code, stderr.count("\n")) == (2, 1)
