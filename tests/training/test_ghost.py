"""The monitor's ghost: training against drawing, invariance to position and heading, and learning."""

import dataclasses
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.takes import pieces_of_side, same_weights

from pyanticip.errors import CheckpointError, FormatError, OptionError
from pyanticip.models.checkpoint.manifest import SHIPPED
from pyanticip.models.forecast.forecaster import PoseForecaster, load_forecaster, save_forecaster
from pyanticip.models.forecast.manifest import GHOST, ForecastConfig
from pyanticip.motion.rotations import multiply
from realtime.monitor.ghost import STRIDE, Ghost
from training.data.examples import at_rate
from training.evaluate import ghost as judge
from training.tasks import ghost as bank
from training.tasks.ghost import OBSERVED, TARGET, Windows, all_windows, fit, mirrored, world_positions


@pytest.fixture(scope="module")
def clips(data_dir):
    return [at_rate(piece) for piece in pieces_of_side(data_dir / "cmu", "validation")[:3]]


def played(piece, frames=120):
    """Forecasts of the ghost after every second frame (T / 2, 10, 22, 3)."""
    ghost = Ghost()
    return np.stack([ghost.forecast(n, piece.quats[n], piece.root[n]) for n in range(0, frames, STRIDE)])


def test_what_is_trained_is_what_is_drawn(clips) -> None:
    model, ghost = load_forecaster(GHOST), Ghost()
    seen = all_windows(clips[0])[::9, :OBSERVED]
    with torch.no_grad():
        wanted = model.predict(seen).numpy()
    assert np.abs(np.stack([ghost.predict(one.numpy()) for one in seen]) - wanted).max() < 1e-5


def test_the_frames_of_a_suit_at_60_hz_are_enough(clips) -> None:
    """Two of five frames have no pose, and the monitor gets every second or third frame."""
    piece, ghost, other = clips[0], Ghost(), Ghost()
    places = world_positions(piece)[0].numpy()
    off = []
    for n in range(0, 120):
        told = ghost.forecast(n, piece.quats[n], piece.root[n]) if n % 5 in (0, 2) else None
        complete = other.forecast(n, piece.quats[n], piece.root[n])
        if told is not None and n >= 30:
            there = places[n + 2 * STRIDE * np.arange(1, 6)]
            off.append([np.linalg.norm(said[1::2] - there, axis=-1).mean() for said in (told, complete)])
    sparse, dense = np.mean(off, axis=0)
    assert sparse < 1.2 * dense


def test_it_is_nearer_than_where_the_body_stands_and_its_bones_are_kept(clips) -> None:
    piece = clips[0]
    places = world_positions(piece)[0].numpy()
    said = played(piece)
    for step in (4, 9):
        at = np.arange(OBSERVED, len(said) - TARGET)
        there = places[STRIDE * (at + step + 1)]
        off = np.linalg.norm(said[at, step] - there, axis=-1).mean()
        assert off < 0.5 * np.linalg.norm(places[STRIDE * at] - there, axis=-1).mean()
    ghost = Ghost()
    for joint, parent in enumerate(ghost._parents):
        if parent >= 0:
            bones = np.linalg.norm(said[..., joint, :] - said[..., parent, :], axis=-1)
            assert bones == pytest.approx(ghost._bone_lengths[joint], abs=1e-4)


def test_somewhere_else_and_turned_it_says_the_same_there(clips) -> None:
    piece, angle = clips[0], 2.1
    turn = np.array([np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0])
    spin = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    quats = np.array(piece.quats)
    quats[:, 0] = multiply(np.broadcast_to(turn, quats[:, 0].shape), quats[:, 0])
    away = np.array([3.0, 0.0, -5.0])
    moved = dataclasses.replace(piece, quats=quats, root=(piece.root @ spin.T + away).astype(np.float32))
    assert np.abs(played(moved) - (played(piece) @ spin.T + away)).max() < 2e-4


def test_who_walks_in_place_or_slides_is_foreseen_as_well(clips) -> None:
    """Suits guess the position of the hips, and some leave them in place."""
    model, shown = load_forecaster(GHOST), all_windows(clips[0])
    plain = judge.errors([("a", shown)], model.predict)
    flat = torch.tensor([1.0, 0.0, 1.0])
    carried = 0.02 * torch.arange(1 - OBSERVED, 1 + TARGET)[:, None, None] * torch.tensor([1.0, 0.0, 0.0])
    for windows in (shown - shown[:, :, :1] * flat, shown + carried):
        assert (judge.errors([("a", windows)], model.predict) < 1.5 * plain).all()


def test_after_a_gap_it_begins_anew(clips) -> None:
    piece, ghost, other = clips[0], Ghost(), Ghost()
    for n in range(0, 60, STRIDE):
        ghost.forecast(n, piece.quats[n], piece.root[n])
    said = ghost.forecast(80, piece.quats[80], piece.root[80])
    assert (said == other.forecast(80, piece.quats[80], piece.root[80])).all()
    # After a single observed pose, the forecast is to stand still.
    assert np.abs(said[4] - world_positions(piece)[0][80].numpy()).max() < 0.25


def test_windows_are_what_they_are_drawn_from(clips, monkeypatch) -> None:
    for name, value in {"WARP": 1.0, "SWAP_SHARE": 0.0, "SLIDE_SHARE": 0.0}.items():
        monkeypatch.setattr(bank, name, value)
    drawn = Windows(clips[:1], ["somebody"], 0).batch(64)
    own = all_windows(clips[0])
    own = torch.cat((own, mirrored(own)))
    nearest = torch.cdist(drawn.flatten(1), own.flatten(1)).amin(1) / drawn.flatten(1).norm(dim=1)
    assert nearest.max() < 0.02
    here = drawn[:, OBSERVED - 1, 0, [0, 2]]
    assert here.abs().max() < 1e-5


def test_clips_that_are_too_short_are_named(clips, monkeypatch) -> None:
    short = dataclasses.replace(clips[0], quats=clips[0].quats[:40], root=clips[0].root[:40])
    with pytest.raises(OptionError, match=r"none of the 1 clips .* longer than 50 frames \(1 s\)"):
        Windows([short], ["a"], 0)
    shorter = dataclasses.replace(clips[0], quats=clips[0].quats[:30], root=clips[0].root[:30])

    class Takes:
        warnings = ()

        def __init__(self, data, cache) -> None:
            self.long, self.short = (
                [SimpleNamespace(piece=piece, person=who, kind="walking")]
                for who, piece in (("a", clips[0]), ("b", shorter))
            )

        def training_clips(self):
            return self.long

        def held_out_clips(self, split):
            return self.short if split == "test" else self.long + self.short

    monkeypatch.setattr(judge, "Takes", Takes)
    monkeypatch.setattr(judge, "_RIDGE_WINDOWS", 500)
    with pytest.raises(FormatError, match=r"set: no test clip is as long as 39 frames \(0.78 s\)"):
        judge.evaluate(Path("set"), "test")
    report = judge.evaluate(Path("set"), "validation")
    assert (report["clips"], report["people"]) == (1, ["a"]), (
        "who has no clip that is long enough is not judged"
    )


def test_it_learns_and_rivals_are_judged_beside_it(clips, tmp_path, monkeypatch) -> None:
    batch = Windows.batch
    monkeypatch.setattr(Windows, "batch", lambda self, size: batch(self, size // 8))
    people = ["a", "b", "c"]
    said: list[int] = []
    model = fit(clips, people, steps=25, seed=1, say=lambda what, done, of: said.append(done))
    assert said == list(range(1, 26))
    shown = [(who, all_windows(clip)[::8]) for who, clip in zip(people, clips, strict=True)]
    learned = judge.errors(shown, model.predict)
    assert same_weights(*(fit(clips, people, steps=2, seed=1).state_dict() for _ in range(2)))
    assert (learned < 0.6 * judge.errors(shown, judge.hold)).all()
    save_forecaster(tmp_path / "ghost", model)
    ridge = judge.Ridge(Windows(clips, people, 0).batch(8000), 1e-3)
    assert (judge.errors(shown, ridge) < judge.errors(shown, judge.constant_velocity)).all()
    assert np.isfinite(Ghost(tmp_path / "ghost").forecast(0, clips[0].quats[0], clips[0].root[0])).all()


def test_the_command_says_all_of_it_by_kind_of_movement(data_dir, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("training.tasks.motion.data.cores", lambda: 1)
    monkeypatch.setattr(judge, "_RIDGE_WINDOWS", 4000)
    takes = tmp_path / "takes"
    takes.mkdir()
    walks = ("02_01.bvh", "08_01.bvh", "06_01.bvh", "35.asf", "35_01.amc", "35_08.amc")
    for name in ("MANIFEST.csv", "06_06.bvh", *walks):
        shutil.copy(data_dir / "cmu" / name, takes)
    report = judge.evaluate(takes, "validation", cache=tmp_path)
    assert (report["people"], set(report["kinds"])) == (["06", "35"], {"walking", "other"})
    for rows in report["kinds"].values():
        assert list(rows) == ["stands still", "constant velocity", "carried on", "ridge", "ghost"]
    text = judge.markdown(report)
    assert "Warning" not in text
    save_forecaster(tmp_path / "other", PoseForecaster(ForecastConfig(width=8, blocks=1)), training={})
    with pytest.raises(CheckpointError, match="the next 25 of 25 joints, expected 10, 10 and 22: one of"):
        judge.evaluate(takes, "validation", tmp_path / "other", tmp_path)
    save_forecaster(tmp_path / "ghost", load_forecaster(GHOST), training={"people": ["02", "35"]})
    seen = judge.markdown(judge.evaluate(takes, "validation", tmp_path / "ghost", tmp_path))
    assert "Warning: this checkpoint learned from subject 35, who is judged here.\n" in seen
    assert "| cm, 120, 200, 400 ms ahead | stands still |" in text
    walking = report["kinds"]["walking"]
    assert all(
        walking["ghost"][k] < min(walking[name][k] for name in walking if name != "ghost") for k in range(3)
    )
    # The limits are the errors of a ridge fitted on all takes, cm.
    assert (np.array(walking["ghost"]) < (1.5, 2.4, 4.6)).all()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("name", ["ghost", "completion", "beats", "poses"])
def test_what_writes_at_its_end_alone_says_so_where_it_is_stopped(
    tmp_path, command, capsys, monkeypatch, name, number, code
) -> None:
    def stopped(*given, **options):
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.raise_signal(number)

    for work in ("evaluate.takes.Takes", "finish.beats.train_event_head", "finish.poses.train_pose_head"):
        monkeypatch.setattr(f"training.{work}", stopped)
    (tmp_path / "a.bvh").touch()
    out = tmp_path / "new.safetensors"
    try:
        ended, _, told = command("train", name, "--data", tmp_path, "--out", out)
    except SystemExit as error:
        ended, told = error.code, capsys.readouterr().err
    assert (ended, told.strip()) == (code, f"interrupted; nothing was written to {out}")


def test_it_is_trained_over_nothing(tmp_path, command) -> None:
    (tmp_path / "a.bvh").touch()
    shutil.copytree(SHIPPED, tmp_path / "motion")
    code, _, stderr = command("train", "ghost", "--data", tmp_path, "--out", tmp_path / "motion")
    assert (code, "already exists; give a new folder" in stderr) == (2, True)
