"""Token models on disk."""

import json

import pytest
import torch

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import (
    ModelConfig,
    MotionTransformer,
    build_language_model,
    load_checkpoint,
    load_motion_model,
    save_checkpoint,
)
from pyanticip.models.checkpoint.files import load_tokenizer_text

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


def test_the_tokenizer_travels_along_and_is_verified(folder):
    assert load_tokenizer_text(folder) == '{"a": "é"}'
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer.json is damaged"):
        load_tokenizer_text(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 3}, "newer than"),
        ({"format": "other"}, "does not describe"),
        ({"kind": "rnn"}, "not describe a token model"),
        ({"config": {**CFG.to_dict(), "d_model": 24}}, "does not fit"),
        ({"config": {**CFG.to_dict(), "vocab": 0, "max_seq_len": 0}}, "not describe a token model"),
        ({"config": {"wibble": 1}}, "unknown model option"),
        ({"sha256": {"model.safetensors": 3}}, "garbles sha256"),
        ({"training": None}, "garbles parameter_count, training"),
    ],
)
def test_a_damaged_description_is_one_clear_error(folder, change, words):
    file = folder / "model.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(CheckpointError, match=words) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


def test_each_loader_takes_its_own(folder):
    with pytest.raises(CheckpointError, match="anticip-motion"):
        load_motion_model(folder)
    with pytest.raises(OptionError, match="no tokenizer"):
        save_checkpoint(folder.parent / "x", MotionTransformer(), tokenizer="{}")
