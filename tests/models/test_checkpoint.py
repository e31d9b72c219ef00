"""Checkpoints load bit for bit, contain their weights once, and foreign files are refused in one line."""

import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support.full_disk import full_disk
from support.takes import same_weights

from pyanticip.errors import CheckpointError, DeviceError, OptionError
from pyanticip.models import (
    ModelConfig,
    MotionTransformer,
    build_language_model,
    load_checkpoint,
    load_motion_model,
    save_checkpoint,
)
from pyanticip.models.checkpoint.manifest import read_language_manifest, read_manifest
from pyanticip.models.parts.positions.prism.module import PrismPositions
from realtime.step.open import open_backend


@pytest.fixture
def copied(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


def edit(folder, change):
    file = folder / "model.json"
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def rehash(folder, name):
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    edit(folder, lambda d: d["sha256"].update({name: digest}))


def test_manifest_describes_the_model(build, saved):
    manifest = read_manifest(saved)
    assert manifest.parameters == sum(p.numel() for p in build().parameters())
    assert manifest.training == {"command": "none", "steps": 0}
    data = json.loads((saved / "model.json").read_text())
    assert data["features_version"] == 3
    assert len(data["features"]) == 231


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_missing_file(copied, name):
    (copied / name).unlink()
    with pytest.raises(CheckpointError, match=rf"{name}: no such file"):
        everything(copied)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_damaged_weights(copied, damage):
    name = "model.safetensors"
    file = copied / name
    data = bytearray(file.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    file.write_bytes({"truncated": data[:-7], "flipped": data, "empty": b""}[damage])
    with pytest.raises(CheckpointError, match=rf"{name} is damaged") as caught:
        everything(copied)
    assert "\n" not in str(caught.value)
    with pytest.raises(CheckpointError, match=rf"^checkpoint [^:]*: {name} is damaged"):
        open_backend("rust", copied)


@pytest.mark.parametrize("size", [0, 7, 40, -4])
def test_truncated_safetensors_with_a_matching_hash(copied, size):
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    rehash(copied, "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model.safetensors cannot be read"):
        load_checkpoint(copied)
    with pytest.raises(CheckpointError, match=r"model.safetensors does not fit"):
        open_backend("rust", copied)


def test_pickle_is_never_unpickled(copied):
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("unpickled",)

    (copied / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    rehash(copied, "model.safetensors")
    with pytest.raises(CheckpointError):
        load_checkpoint(copied)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(version=7), "version 7 is newer"),
        (lambda d: d.update(version="1"), "whole number"),
        (lambda d: d.update(features_version=4), "features version 4"),
        (lambda d: d.update(features_version="3"), "features version '3'"),
        (lambda d: d["features"].reverse(), "features do not match"),
        (lambda d: d.update(horizons_ms=[0]), "horizons_ms do not match"),
        (lambda d: d.update(format="other"), "is of format 'other', expected that of a motion model"),
        (lambda d: d.update(format=[]), "is of format '\\[\\]'"),
        (lambda d: d["config"].update(heads=3), "heads"),
        (lambda d: d["config"].update(headz=4), "did you mean heads"),
        (lambda d: d["config"].update(pose_horizons=[100]), "checkpoint .* pose_horizons is gone"),
        (lambda d: d["config"].update(bias_start="fan-in"), "checkpoint .* bias_start is gone"),
        (lambda d: d["config"].update(gate_gradient=False), "checkpoint .* gate_gradient is gone"),
        (lambda d: d["config"].update(scalar_input=True), "checkpoint .* scalar_input is gone"),
        (lambda d: d["config"].update(d_model="16"), "d_model"),
        (lambda d: d.update(config=[]), "lacks a valid config"),
        (lambda d: d.pop("training"), "training"),
        (lambda d: d.update(training=None), "lacks a valid parameter_count, training"),
        (lambda d: d.update(sha256={}), "sha256"),
        (lambda d: d.update(sha256={"model.safetensors": 3}), "lacks a valid .* sha256"),
        (lambda d: d["config"].update(ff=32), "does not fit its configuration"),
        (lambda d: d["config"].update(fast_layers=3), "does not fit its configuration"),
        (lambda d: d["config"].update(d_model=65_536, ff=1_048_576), r"expected \(12, 65536\)"),
        (lambda d: d.update(parameter_count=1), "parameter_count is 1, its configuration has"),
    ],
)
def test_mismatched_description(copied, change, words):
    edit(copied, change)
    with pytest.raises(CheckpointError, match=words) as caught:
        load_checkpoint(copied)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [1, 2])
def test_what_was_taught_by_earlier_rows_loads(copied, version):
    edit(copied, lambda d: d.update(features_version=version))
    everything(copied)


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "[" * 100_000])
def test_malformed_description(copied, text):
    (copied / "model.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"model.json"):
        load_checkpoint(copied)


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, lambda model: torch.compile(model, backend="eager")])
def test_what_is_wrapped_is_saved_as_itself(build, tmp_path, wrap):
    model = build(torch.float32)
    loaded = load_checkpoint(save_checkpoint(tmp_path / "wrapped", wrap(model)))
    assert same_weights(loaded.state_dict(), model.state_dict())


def test_refuses_to_save_other_types_and_notes_that_are_no_json(build, tmp_path):
    with pytest.raises(CheckpointError, match=r"bfloat16: save a float32 model \(model\.float\(\)\)"):
        save_checkpoint(tmp_path / "half", build(torch.bfloat16))
    for notes in ({"loss": torch.ones(2)}, {"loss": float("nan")}):
        with pytest.raises(OptionError, match="training must be what JSON can hold"):
            save_checkpoint(tmp_path / "notes", build(torch.float32), training=notes)
    assert not list(tmp_path.iterdir())


def test_on_a_full_disk_the_checkpoint_is_named_and_the_old_one_stays(build, copied):
    with full_disk(), pytest.raises(DeviceError, match=rf"{copied}: cannot be written \(file too large\)$"):
        save_checkpoint(copied, build(torch.float32))
    read_manifest(copied)
    assert [path.name for path in copied.parent.iterdir()] == [copied.name]


def test_refuses_to_save_weights_that_are_not_finite(build, tmp_path):
    model = build(torch.float32)
    with torch.no_grad():
        model.front.weight[0, 0] = float("nan")
    with pytest.raises(CheckpointError, match=r"front.weight is not finite"):
        save_checkpoint(tmp_path / "bad", model)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda place: place.write_text("mine"), "it is a file"),
        (lambda place: (place / "sub").mkdir(parents=True), "it holds sub, which does not belong"),
        (lambda place: (place.mkdir(), (place / "model.json").write_text("{}")), "it holds model.json"),
        (lambda place: (place.mkdir(), os.chdir(place)), "it is the current folder"),
    ],
)
def test_nothing_but_a_checkpoint_is_replaced(build, tmp_path, monkeypatch, make, words):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "here")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointError, match=rf"cannot save .*: {words}"):
        save_checkpoint(tmp_path / "here", build(torch.float32))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_checkpoint_is_replaced_and_its_neighbours_stay(build, copied):
    beside = [copied.with_name("copy.new"), copied.with_name("copy.old")]
    for folder in beside:
        folder.mkdir()
    (copied / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"it holds notes\.txt, which does not belong to a checkpoint"):
        save_checkpoint(copied, build(torch.float32))
    (copied / "notes.txt").unlink()
    save_checkpoint(copied, build(torch.float32), training={"again": 1})
    assert read_manifest(copied).training == {"again": 1}
    assert sorted(copied.parent.iterdir()) == [copied, *beside]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("moves", [0, 1])
def test_a_checkpoint_that_was_about_to_be_replaced_stays(build, copied, monkeypatch, moves, error):
    kept, rename, moved = read_manifest(copied), Path.rename, []

    def interrupted(self, target):
        if len(moved) == moves:
            moved.append("no")
            raise error
        moved.append(self)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises((CheckpointError, error)):
        save_checkpoint(copied, build(torch.float32), training={"again": 1})
    assert read_manifest(copied) == kept
    assert list(copied.parent.iterdir()) == [copied]


def everything(folder):
    """Open a checkpoint in every way there is."""
    manifest = read_manifest(folder)
    load_checkpoint(folder)
    assert np.isfinite(manifest.parameters)


def test_the_folder_of_a_run_is_told_from_its_checkpoint(saved, tmp_path):
    for inside in ("checkpoint", "model"):
        shutil.copytree(saved, tmp_path / inside / inside)
        with pytest.raises(CheckpointError, match=rf"has no model\.json; did you mean .*{inside}/{inside}\?"):
            read_manifest(tmp_path / inside)
    with pytest.raises(CheckpointError, match=r"model\.json: is a file; give its folder"):
        load_checkpoint(saved / "model.json")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "last.ckpt").touch()
    with pytest.raises(CheckpointError, match="the run is not finished; continue it"):
        read_manifest(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"no such file$"):
        read_manifest(tmp_path)


CFG = ModelConfig.small(d_model=16, ff=24, vocab=30, max_seq_len=32, positions="rope", bias="random")


@pytest.fixture(name="folder")
def saved(tmp_path):
    model = build_language_model(CFG)
    return save_checkpoint(tmp_path / "run", model, training={"steps": 3}, tokenizer='{"a": "é"}')


@pytest.mark.parametrize("kind", ["anticipatory", "baseline"])
@torch.no_grad()
def test_a_token_model_comes_back_as_it_was(tmp_path, kind):
    torch.manual_seed(3)
    model = build_language_model(CFG, kind).eval()
    save_checkpoint(tmp_path / "m", model)
    again = load_checkpoint(tmp_path / "m")
    assert type(again) is type(model)
    assert again.cfg == model.cfg
    ids = torch.randint(30, (2, 20))
    assert torch.equal(again(ids).logits, model(ids).logits)
    assert not again.training


@pytest.mark.parametrize("kind", ["anticipatory", "baseline"])
@torch.no_grad()
def test_places_that_cursors_were_given_later_are_saved(tmp_path, kind):
    model = build_language_model(CFG.replace(positions="prism", prism_places=8, prism_cursors=2), kind).eval()
    cursors = next(part for part in model.parts() if isinstance(part, PrismPositions))
    cursors.set_places(24)
    again = load_checkpoint(save_checkpoint(tmp_path / "m", model))
    assert again.cfg.positions.places == 24
    ids = torch.randint(30, (2, 20))
    assert torch.equal(again(ids).logits, model(ids).logits)


def test_a_model_that_its_configuration_cannot_describe_replaces_nothing(tmp_path):
    cfg = CFG.replace(positions="prism", prism_places=8, prism_again=2, fast_layers=2)
    model = build_language_model(cfg, "baseline")
    save_checkpoint(tmp_path / "m", model)
    model.positions.set_places(24)  # not the second scheme
    with pytest.raises(CheckpointError, match=r"cannot save .* again\.table is \(8, 32\), expected \(24"):
        save_checkpoint(tmp_path / "m", model)
    assert load_checkpoint(tmp_path / "m").positions.cfg.places == 8


def test_the_tokenizer_travels_along_and_is_verified(folder):
    assert read_language_manifest(folder).read("tokenizer.json").decode() == '{"a": "é"}'
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer.json is damaged"):
        read_language_manifest(folder).read("tokenizer.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 3}, "newer than"),
        ({"kind": "rnn"}, "not describe a token model"),
        ({"config": {**CFG.to_dict(), "d_model": 24}}, "does not fit"),
        ({"config": {**CFG.to_dict(), "vocab": 0, "max_seq_len": 0}}, "not describe a token model"),
    ],
)
def test_a_description_of_no_token_model_is_one_clear_error(folder, change, words):
    edit(folder, lambda d: d.update(change))
    with pytest.raises(CheckpointError, match=words) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


def test_each_loader_takes_its_own(folder):
    with pytest.raises(CheckpointError, match="anticip-motion"):
        load_motion_model(folder)
    with pytest.raises(OptionError, match="no tokenizer"):
        save_checkpoint(folder.parent / "x", MotionTransformer(), tokenizer="{}")
