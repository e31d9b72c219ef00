"""The task ``language``: trains a token model on a text or on synthetic sequences."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import torch
from rich.console import Console

from pyanticip.errors import CheckpointError
from pyanticip.models import save_checkpoint
from pyanticip.models.token.transformer import LanguageModel
from training.run.files import CONFIG, write_text
from training.run.launch import Processes
from training.run.module import TrainModule
from training.run.recorder import Recorder, read_metrics
from training.run.task import (
    Run,
    Task,
    check_slow_pathway,
    load_weights,
    read_config,
    read_options,
    without_folders,
)
from training.tasks.token.corpus import Corpus, read_lines
from training.tasks.token.module import LOSS, LanguageModule, LanguageRecorder, new_model
from training.tasks.token.options import SYNTHETIC, LanguageOptions
from training.tasks.token.tokens import Tokenizer, learn
from training.tasks.token.windows import Batches, Prepared, Windows, synthetic_data, text_data

TOKENIZER: Final = "tokenizer.json"
DATA: Final = "data"
MODEL: Final = "model"
"""Folder of the checkpoint of a finished run: the best weights, with the tokenizer."""

SYNTHETIC_VOCAB: Final = 1000
"""Default vocabulary of synthetic data."""


LanguageRun = Run[LanguageOptions, Prepared]


class LanguageTask(Task[LanguageOptions, Prepared]):
    """See :class:`~training.run.task.Task`."""

    command: ClassVar = "train language"
    format_name: ClassVar = "pyanticip-language-run"
    version: ClassVar = 1
    options = LanguageOptions

    def check(self, options: LanguageOptions, world: int) -> None:
        """Check that the batch can be divided among the processes, and the slow pathway."""
        Batches.check(options, world)
        if options.kind == "anticipatory":
            check_slow_pathway(options.config(SYNTHETIC_VOCAB), options.data.seq_len)

    def prepare(self, options: LanguageOptions, draft: Path, console: Console) -> dict[str, Any]:
        """Write the tokenizer and the encoded texts."""
        return encode(draft, options)

    def open(
        self,
        options: LanguageOptions,
        folder: Path,
        config: Mapping[str, Any],
        processes: Processes,
        console: Console,
    ) -> Prepared:
        """Open the encoded texts; the original texts are not needed any more."""
        return open_run(folder, options)

    def module(self, run: LanguageRun, *, fresh: bool) -> LanguageModule:
        """Create the model; one that plans gets the frequencies of the tokens."""
        model, vocab = new_model(run.options, run.data.vocab), run.data.vocab
        if model.planning is not None and fresh:
            tokens = torch.as_tensor(run.data.data.train.rows.reshape(-1).astype("int64"))
            model.planning.set_frequencies(torch.bincount(tokens, minlength=vocab))
        return LanguageModule(model, run.options)

    def batches(self, run: LanguageRun, start: int) -> Batches:
        """Training windows, shuffled in every epoch."""
        processes = run.processes
        return Batches(
            run.data.data.train, run.options, start=start, rank=processes.rank, world=processes.world
        )

    def recorder(self, run: LanguageRun, module: TrainModule, batches: Any, start: int) -> LanguageRecorder:
        """Validates every term of the loss on the validation windows."""
        assert isinstance(module, LanguageModule)
        return LanguageRecorder(run.data, start, module)

    def idle_weights(self, run: LanguageRun, module: TrainModule) -> bool:
        """Whether the initial head is left without gradient: with given scalars, only its supervision gives
        it one."""
        return run.options.loss.supervise == "refined"

    def report(self, run: LanguageRun, record: Recorder, start: int, wall: float) -> dict[str, Any]:
        """Course of the loss, and throughput."""
        schedule = run.options.schedule
        rows = [row for row in read_metrics(run.folder) if LOSS in row] if run.processes.first else []
        late = [row[LOSS] for row in rows if row["step"] > schedule.steps - 10]
        tokens = (record.step - start) * schedule.batch * run.options.data.seq_len
        return {
            "vocab": run.data.vocab,
            "first_loss": rows[0][LOSS] if rows else None,
            "last_loss": sum(late) / len(late) if late else None,
            "last_ortho_excess": rows[-1]["ortho_excess"] if rows else None,
            "valid": {name: value for name, value in record.valid.items() if math.isfinite(value)},
            "best_perplexity": math.exp(min(record.best, 700.0)) if record.best_step else None,
            "tokens_per_second": round(tokens / max(wall, 1e-9)),
        }

    def finish(self, run: LanguageRun, report: Mapping[str, Any]) -> dict[str, Any]:
        """Export the best weights as the checkpoint ``model/``."""
        model, tokenizer, _ = load_run(run.folder)
        text = None if tokenizer is None else tokenizer.to_json()
        training = without_folders(report, "data.path", "data.valid")
        save_checkpoint(run.folder / MODEL, model, training=training, tokenizer=text)
        return {}

    def summary_lines(self, out: Path, report: Mapping[str, Any]) -> list[str]:
        """Result of the training."""
        losses = (report["first_loss"], report["last_loss"])  # None where the metrics were removed
        loss = " -> ".join(dict.fromkeys("?" if each is None else f"{each:.3f}" for each in losses))
        return [
            f"wrote {out}: {report['step']} steps, {report['parameters']} parameters, "
            f"{report['seconds']:.0f} s; training loss {loss}, best validation perplexity "
            f"{report['best_perplexity']:.2f} at step {report['best_step']}"
        ]


def encode(draft: Path, options: LanguageOptions) -> dict[str, Any]:
    """Write tokenizer and encoded texts of a new run to its folder.

    Returns:
        Entries for ``config.json``: size of the vocabulary, and the texts.

    Raises:
        OptionError: a text is shorter than a window, or options do not fit together.
        FormatError: a text cannot be read.
    """
    synthetic = options.data.path == SYNTHETIC
    config = {"vocab": options.data.vocab or SYNTHETIC_VOCAB} if synthetic else _encode(draft, options)
    # Creates the model for its own checks, before there is a run.
    with torch.device("meta"):
        new_model(options, config["vocab"])
    return config


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


def read_tokenizer(folder: Path | str) -> Tokenizer | None:
    """The tokenizer of a run; None for synthetic data."""
    return (
        None
        if read_options(LanguageTask, folder).data.path == SYNTHETIC
        else Tokenizer.load(Path(folder) / TOKENIZER)
    )


def _vocabulary(folder: Path) -> int:
    """The number of tokens of a run."""
    vocab = read_config(LanguageTask, folder).get("vocab")
    if not isinstance(vocab, int):
        raise CheckpointError(f"{folder / CONFIG}: vocab: expected a whole number, got {vocab!r}")
    return vocab


def open_run(folder: Path | str, options: LanguageOptions | None = None) -> Prepared:
    """Open the data that :func:`encode` wrote; the original texts are not needed any more.

    Args:
        folder: folder of the run.
        options: options to resume with, if they differ in execution; the run's by default.

    Raises:
        CheckpointError: there is no run, or files of it are missing.
    """
    folder = Path(folder)
    config, options = read_config(LanguageTask, folder), options or read_options(LanguageTask, folder)
    vocab = _vocabulary(folder)
    if options.data.path == SYNTHETIC:
        return Prepared(folder, options, vocab, None, synthetic_data(options, vocab))
    try:
        corpora = [
            Corpus.open(folder / text["file"], text["source"], text["sha256"])
            for text in (config["texts"]["train"], config["texts"]["valid"])
        ]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG}: lacks a valid {error}") from None
    return Prepared(
        folder, options, vocab, read_tokenizer(folder), text_data(options, corpora[0], corpora[1])
    )


def load_run(
    folder: Path | str, which: Literal["best", "last"] = "best"
) -> tuple[LanguageModel, Tokenizer | None, LanguageOptions]:
    """Load the model of a run in evaluation mode, its tokenizer (None for synthetic data) and its options.

    Args:
        folder: folder of the run, finished or not.
        which: the weights that were best on the validation data, or the last ones saved.

    Raises:
        CheckpointError: there is no run, or no such weights yet.
    """
    folder = Path(folder)
    options, tokenizer = read_options(LanguageTask, folder), read_tokenizer(folder)
    model = new_model(options, _vocabulary(folder))
    load_weights(model, folder, which)
    return model, tokenizer, options
