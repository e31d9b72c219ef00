"""The folder of a run: what is in it, how it comes to be, how a model is loaded from it."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import save_checkpoint
from pyanticip.models.language import LanguageModel
from training.language.corpus import Corpus, read_lines
from training.language.data import LanguageData, Windows, synthetic_data, text_data
from training.language.options import SYNTHETIC, LanguageOptions, from_dict
from training.language.tokens import Tokenizer, learn

FORMAT: Final = "pyanticip-language-run"
VERSION: Final = 1

CONFIG: Final = "config.json"
TOKENIZER: Final = "tokenizer.json"
METRICS: Final = "metrics.csv"
REPORT: Final = "report.json"
DATA: Final = "data"
MODEL: Final = "model"
"""Checkpoint of a finished run: the best weights, with the tokenizer."""
TENSORBOARD: Final = "tensorboard"
BEST: Final = Path("checkpoints") / "best.safetensors"
"""The weights that were best on the validation data so far."""
LAST: Final = Path("checkpoints") / "last.ckpt"
"""Everything a killed run goes on from."""

SYNTHETIC_VOCAB: Final = 1000


@dataclass(frozen=True)
class Run:
    """A run that is prepared: its options, its vocabulary, its data."""

    folder: Path
    options: LanguageOptions
    vocab: int
    tokenizer: Tokenizer | None
    """None for synthetic data, whose tokens are numbers."""
    data: LanguageData


def create(out: Path | str, options: LanguageOptions) -> Path:
    """Make the folder of a new run, whole or not at all: options, tokenizer, encoded texts.

    Raises:
        OptionError: something is there already, a text is shorter than a window, options that do not fit.
        FormatError: a text that cannot be read.
    """
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()):
        if (folder / CONFIG).is_file():
            raise OptionError(f"{folder}: holds a run already; go on with --resume, or give another folder")
        raise OptionError(f"{folder}: is not empty; give a new folder")
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder}: is a file; give a new folder")
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    try:
        draft.chmod(0o755)
        config: dict[str, Any] = {"format": FORMAT, "version": VERSION, "options": options.to_dict()}
        if options.data == SYNTHETIC:
            config["vocab"] = options.vocab or SYNTHETIC_VOCAB
        else:
            config |= _encode(draft, options)
        options.config(config["vocab"])
        write_text(draft / CONFIG, json.dumps(config, indent=1) + "\n")
        with suppress(FileNotFoundError):
            folder.rmdir()
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder


def _encode(draft: Path, options: LanguageOptions) -> dict[str, Any]:
    assert options.valid is not None
    tokenizer = learn(options.tokenizer, read_lines(options.data), options.vocab)
    texts = {}
    for name, source in (("train", options.data), ("valid", options.valid)):
        corpus = Corpus.encode(source, tokenizer, draft / DATA, name)
        Windows(corpus.tokens, options.seq_len, source)
        texts[name] = {
            "source": source,
            "sha256": corpus.sha256,
            "tokens": len(corpus),
            "file": f"{DATA}/{corpus.file.name}",
        }
    write_text(draft / TOKENIZER, tokenizer.to_json())
    return {"vocab": tokenizer.vocab, "texts": texts}


def read_config(folder: Path | str) -> dict[str, Any]:
    """``config.json`` of a run.

    Raises:
        CheckpointError: no run, or one made by a newer version.
    """
    path = Path(folder) / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{folder}: not a run of train language ({CONFIG}: {error.strerror})") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: is not JSON: {error}") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT or "vocab" not in config:
        raise CheckpointError(f"{path}: does not describe a run of train language")
    if config.get("version") != VERSION:
        raise CheckpointError(f"{path}: version {config.get('version')!r}, this program reads {VERSION}")
    return config


def read_options(folder: Path | str) -> LanguageOptions:
    """The options a run was begun with.

    Raises:
        CheckpointError: no run in this folder.
    """
    try:
        return from_dict(read_config(folder)["options"])
    except (OptionError, KeyError, TypeError) as error:
        raise CheckpointError(f"{Path(folder) / CONFIG}: {error}") from None


def read_tokenizer(folder: Path | str) -> Tokenizer | None:
    """The tokenizer of a run; None for synthetic data."""
    return None if read_options(folder).data == SYNTHETIC else Tokenizer.load(Path(folder) / TOKENIZER)


def open_run(folder: Path | str, options: LanguageOptions | None = None) -> Run:
    """Read back what :func:`create` made; the texts themselves are not needed any more.

    Args:
        folder: of the run.
        options: those to go on with where they differ in how things are computed; the run's by default.

    Raises:
        CheckpointError: no run, or its files are missing.
    """
    folder = Path(folder)
    config, options = read_config(folder), options or read_options(folder)
    vocab = int(config["vocab"])
    if options.data == SYNTHETIC:
        return Run(folder, options, vocab, None, synthetic_data(options, vocab))
    try:
        corpora = [
            Corpus.open(folder / text["file"], text["source"], text["sha256"])
            for text in (config["texts"]["train"], config["texts"]["valid"])
        ]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: lacks or garbles {error}") from None
    return Run(folder, options, vocab, read_tokenizer(folder), text_data(options, corpora[0], corpora[1]))


def load_run(
    folder: Path | str, which: Literal["best", "last"] = "best", *, device: str = "cpu"
) -> tuple[LanguageModel, Tokenizer | None, LanguageOptions]:
    """The model of a run in evaluation mode, its tokenizer (None for synthetic data) and its options.

    Args:
        folder: of the run, finished or not.
        which: the weights that were best on the validation data, or the last that were saved.
        device: where the model goes.

    Raises:
        CheckpointError: no run, or no such weights yet.
    """
    from training.language.module import new_model

    if which not in ("best", "last"):
        raise OptionError(f"which must be 'best' or 'last', got {which!r}")
    folder = Path(folder)
    options, tokenizer = read_options(folder), read_tokenizer(folder)
    model = new_model(options, int(read_config(folder)["vocab"]))
    if which == "best":
        weights = _read_best(folder)
    else:
        state = read_state(folder)["state_dict"]
        weights = {name.removeprefix("model."): value for name, value in state.items()}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder}: the weights do not fit {CONFIG}: {_line(error)}") from None
    return model.to(device).eval(), tokenizer, options


def _read_best(folder: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(folder / BEST)
    except FileNotFoundError:
        raise CheckpointError(f"{folder}: no weights yet, no validation has come to its end") from None
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{folder / BEST}: cannot be read: {_line(error)}") from None


def save_best(folder: Path, model: LanguageModel) -> None:
    """Replace the best weights of a run, at once."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    write_bytes(folder / BEST, safetensors.torch.save(tensors))


def read_state(folder: Path) -> dict[str, Any]:
    """What the run was last saved with.

    Raises:
        CheckpointError: nothing was saved yet, or the file is damaged.
    """
    path = folder / LAST
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        int(state["global_step"])
    except FileNotFoundError:
        raise CheckpointError(f"{folder}: nothing was saved yet; begin anew in another folder") from None
    except Exception as error:  # torch raises many kinds for damaged files
        raise CheckpointError(f"{path}: not a saved state ({_line(error)})") from None
    return state


def export(folder: Path, training: Mapping[str, Any]) -> Path:
    """Write the best weights of a run as a checkpoint, ``model/``, with what is said about its training."""
    model, tokenizer, _ = load_run(folder)
    text = None if tokenizer is None else tokenizer.to_json()
    return save_checkpoint(folder / MODEL, model, training=training, tokenizer=text)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def write_text(path: Path, text: str) -> None:
    """See :func:`write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that is there whole or as it was before, even if the machine stops."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
