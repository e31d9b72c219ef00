"""The folder of a run: what is in it, how it comes to be, how a model is loaded from it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import save_checkpoint
from pyanticip.models.token.transformer import LanguageModel
from training.run.files import (
    CONFIG,
    load_best,
    new_folder,
    one_line,
    read_description,
    read_state,
    write_text,
)
from training.tasks.token.corpus import Corpus, read_lines
from training.tasks.token.data import LanguageData, Windows, synthetic_data, text_data
from training.tasks.token.options import SYNTHETIC, LanguageOptions
from training.tasks.token.tokens import Tokenizer, learn

FORMAT: Final = "pyanticip-language-run"
VERSION: Final = 1

TOKENIZER: Final = "tokenizer.json"
DATA: Final = "data"
MODEL: Final = "model"
"""Checkpoint of a finished run: the best weights, with the tokenizer."""

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
    with new_folder(folder) as draft:
        config: dict[str, Any] = {"format": FORMAT, "version": VERSION, "options": options.to_dict()}
        if options.data.path == SYNTHETIC:
            config["vocab"] = options.data.vocab or SYNTHETIC_VOCAB
        else:
            config |= _encode(draft, options)
        options.config(config["vocab"])
        write_text(draft / CONFIG, json.dumps(config, indent=1) + "\n")
    return folder


def _encode(draft: Path, options: LanguageOptions) -> dict[str, Any]:
    tokenizer = learn(options.data.tokenizer, read_lines(options.data.path), options.data.vocab)
    texts = {}
    for name, source in (("train", options.data.path), ("valid", options.data.valid)):
        corpus = Corpus.encode(source, tokenizer, draft / DATA, name)
        Windows(corpus.tokens, options.data.seq_len, source)
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
    return read_description(folder, "train language", FORMAT, VERSION, needs=("vocab",))


def read_options(folder: Path | str) -> LanguageOptions:
    """The options a run was begun with.

    Raises:
        CheckpointError: no run in this folder.
    """
    try:
        return LanguageOptions.of_run(read_config(folder)["options"])
    except (OptionError, KeyError, TypeError) as error:
        raise CheckpointError(f"{Path(folder) / CONFIG}: {error}") from None


def read_tokenizer(folder: Path | str) -> Tokenizer | None:
    """The tokenizer of a run; None for synthetic data."""
    return None if read_options(folder).data.path == SYNTHETIC else Tokenizer.load(Path(folder) / TOKENIZER)


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
    if options.data.path == SYNTHETIC:
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
    from training.tasks.token.module import new_model

    if which not in ("best", "last"):
        raise OptionError(f"which must be 'best' or 'last', got {which!r}")
    folder = Path(folder)
    options, tokenizer = read_options(folder), read_tokenizer(folder)
    model = new_model(options, int(read_config(folder)["vocab"]))
    if which == "best":
        weights = load_best(folder)
    else:
        state = read_state(folder)["state_dict"]
        weights = {name.removeprefix("model."): value for name, value in state.items()}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder}: the weights do not fit {CONFIG}: {one_line(error)}") from None
    return model.to(device).eval(), tokenizer, options


def export(folder: Path, training: Mapping[str, Any]) -> Path:
    """Write the best weights of a run as a checkpoint, ``model/``, with what is said about its training."""
    model, tokenizer, _ = load_run(folder)
    text = None if tokenizer is None else tokenizer.to_json()
    return save_checkpoint(folder / MODEL, model, training=training, tokenizer=text)
