"""Does the geometric bias help? Many small runs, equal but for one thing, each kept in a file of its own.

A run is a variant of the model, a data set and a seed. For a seed every variant sees the same tokens in the
same order, has as many parameters (within 1 %), the same optimiser and the same learning rate. Runs come in
the order of their seeds, so that a study that was stopped early has treated all variants alike; a run whose
file exists is not repeated.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pyanticip.bridge import bridge_scalars
from pyanticip.errors import OptionError
from pyanticip.models import AnticipatoryTransformer, ModelConfig, build_language_model
from pyanticip.models.core.bias import TrajectoryBias
from pyanticip.models.token.transformer import LanguageModel
from training.run.launch import resolve_device
from training.run.settings import derived_seed
from training.study.held_out import Test, score
from training.study.runs import check_names, must_equal, perform, processor, read, versions, write
from training.tasks.token.corpus import Corpus, digest, read_lines
from training.tasks.token.data import INITIAL, TRAIN_DATA, VALID_DATA, Batches, Windows
from training.tasks.token.losses import losses
from training.tasks.token.options import SYNTHETIC, LanguageOptions
from training.tasks.token.synthetic import CONVERGE, MOTIF, synthetic
from training.tasks.token.tokens import learn

CURVE: Final = 50
"""Points of a loss curve."""


@dataclass(frozen=True)
class Variant:
    """One of the models compared."""

    kind: Literal["anticipatory", "baseline"]
    model: Mapping[str, Any]
    """Fields of the model's configuration."""
    scalars: Literal["external", "self"] = "external"
    """What steers: the scalars of the embeddings, or those that the initial head predicts."""


def _geometric(**model: Any) -> Variant:
    return Variant("anticipatory", {"bias": "trajectory", **model})


VARIANTS: Final[dict[str, Variant]] = {
    "plain": Variant("baseline", {"positions": "sinusoidal"}),
    "alibi": Variant("baseline", {"positions": "alibi"}),
    "rope": Variant("baseline", {"positions": "rope"}),
    "random": Variant("anticipatory", {"bias": "random"}),
    "geometric-external": _geometric(),
    "geometric-self": dataclasses.replace(_geometric(), scalars="self"),
    "none": Variant("anticipatory", {"bias": "none"}),
    "random-rope": Variant("anticipatory", {"bias": "random", "positions": "rope"}),
    "geometric-rope": _geometric(positions="rope"),
    "stride-2": _geometric(positions="rope", slow_stride=2),
    "stride-4": _geometric(positions="rope", slow_stride=4),
    "stride-10": _geometric(positions="rope", slow_stride=10),
}
"""What can be compared. The anticipatory ones have sinusoidal positions, as in the paper, where the name does
not say otherwise. ``stride-N`` is ``geometric-rope`` with a slow pathway on every N-th step."""

MAIN: Final = tuple(name for name in VARIANTS if not name.startswith("stride-"))
"""The variants of the question; the strides are a second one."""

STRIDES: Final = {1: "geometric-rope", 2: "stride-2", 4: "stride-4", 10: "stride-10"}
"""Variant of each stride of the slow pathway."""

DATA: Final = ("text", "synthetic")


@dataclass(frozen=True)
class Recipe:
    """What all runs of a study have in common.

    Raises:
        OptionError: sizes below one, or text to train on without text to test on.
    """

    train: Path | None = None
    test: Path | None = None
    tokens: int = 1_000_000
    """Tokens each run learns from."""
    lr: float = 6e-3
    model: Mapping[str, Any] = field(default_factory=lambda: {"d_model": 64, "ff": 128, "dropout": 0.0})
    """What differs from the preset ``size``, in all variants."""
    size: str = "small"
    embedding_std: float = 0.2
    """Deviation that token embeddings start with. At the models' own .02 they drown in the sinusoids, which
    have .7: a run this short would then measure little but how soon a variant gets over that."""
    vocab: int = 64
    """Of the synthetic data."""
    lengths: Mapping[str, int] = field(default_factory=lambda: {"text": 256, "synthetic": 64})
    """Tokens of a sequence."""
    batch_tokens: int = 1024
    """Tokens of an update."""
    test_windows: Mapping[str, int] = field(default_factory=lambda: {"text": 256, "synthetic": 1024})
    """Sequences tested on."""
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("tokens", "batch_tokens", "vocab"):
            if getattr(self, name) < 1:
                raise OptionError(f"option {name}: expected at least 1, given {getattr(self, name)}")
        if (self.train is None) != (self.test is None):
            raise OptionError("text needs a file to train on and one to test on: give both or none")

    def options(self, data: str, variant: str, seed: int) -> LanguageOptions:
        """All options of one run."""
        chosen = VARIANTS[variant]
        length = self.lengths[data]
        batch = max(1, self.batch_tokens // length)
        model = {**self.model, **chosen.model, "max_seq_len": length}
        if model.get("bias") == "none":
            model["ff"] = self._widened(model)
        return LanguageOptions().but(
            kind=chosen.kind,
            size=self.size,
            model=model,
            data=SYNTHETIC if data == "synthetic" else Path(str(self.train)).name,
            valid="" if data == "synthetic" else Path(str(self.test)).name,
            vocab=self.vocab if data == "synthetic" else 0,
            steps=max(1, self.tokens // (batch * length)),
            batch=batch,
            seq_len=length,
            valid_windows=self.test_windows[data],
            train_sequences=batch * max(1, self.tokens // (batch * length)),
            peak_lr=self.lr,
            seed=seed,
            scalars=chosen.scalars,
            device=self.device,
        )

    def _widened(self, model: Mapping[str, Any]) -> int:
        """The feed-forward width that makes up for the parameters of a bias that is not there."""
        preset = ModelConfig.small if self.size == "small" else ModelConfig.default
        bare = preset(**model)
        bias = TrajectoryBias(bare.heads, bare.dist_scale)
        missing = sum(p.numel() for p in bias.parameters())
        return bare.ff + round(missing / ((bare.fast_layers + bare.slow_layers) * (2 * bare.d_model + 1)))


@dataclass(frozen=True)
class Run:
    """One run of a study."""

    data: str
    variant: str
    seed: int

    @property
    def file(self) -> str:
        """Its file's name in the study's folder."""
        return f"{self.data}-{self.variant}-seed{self.seed}.json"


def plan(data: Sequence[str], variants: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """All runs, seed by seed.

    Raises:
        OptionError: an unknown variant or data set.
    """
    check_names("variant", variants, VARIANTS)
    check_names("data", data, DATA)
    return [Run(d, v, seed) for seed in seeds for d in data for v in variants]


def study(
    out: Path,
    runs: Sequence[Run],
    recipe: Recipe,
    *,
    processes: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, int]:
    """Do the runs of a study that have not been done yet.

    Args:
        out: folder of the runs' files.
        runs: which, in this order.
        recipe: what they have in common; runs of another recipe in ``out`` are refused.
        processes: runs at a time, each on one thread.
        say: told about every run that is finished.

    Returns:
        ``done`` in this call, ``kept`` from earlier ones.

    Raises:
        OptionError: text to learn from is missing, or a kept run followed another recipe.
    """
    if recipe.train is None and any(run.data == "text" for run in runs):
        raise OptionError("text runs need a file to train on and one to test on")
    return perform(
        out,
        runs,
        functools.partial(do, out, recipe=recipe),
        kept=lambda run: _kept(out, run, recipe),
        line=_line,
        processes=processes,
        say=say,
    )


def do(out: Path, run: Run, recipe: Recipe) -> dict[str, Any]:
    """Train and test one model, and write its file."""
    torch.set_num_threads(1)
    options = recipe.options(run.data, run.variant, run.seed)
    windows, test, vocab = _data(out, run, recipe, options)
    device = torch.device(resolve_device(recipe.device, options.run.precision))
    torch.manual_seed(derived_seed(run.seed, INITIAL))
    kind: Literal["anticipatory", "baseline"] = VARIANTS[run.variant].kind
    model = build_language_model(options.config(vocab), kind).to(device)
    with torch.no_grad():
        nn.init.normal_(model.token.weight, 0.0, recipe.embedding_std)
    curve, took = fit(model, Batches(windows, options), options, device)
    began = time.perf_counter()
    tested = score(model, test, options.loss.scalars, device)
    result = {
        **dataclasses.asdict(run),
        "options": options.to_dict(),
        "embedding_std": recipe.embedding_std,
        "vocab": vocab,
        "sources": _sources(recipe, run),
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": options.schedule.steps * options.schedule.batch * options.data.seq_len,
        "epochs": round(options.schedule.steps * options.schedule.batch / len(windows), 3),
        "curve": curve,
        "test": tested,
        **took,
        "test_seconds": round(time.perf_counter() - began, 2),
        "threads": 1,
        "versions": versions(),
        "processor": processor() if device.type == "cpu" else torch.cuda.get_device_name(device),
    }
    write(out / run.file, result)
    return result


def fit(
    model: LanguageModel, batches: Batches, options: LanguageOptions, device: torch.device
) -> tuple[list[list[float]], dict[str, float]]:
    """Train; the loss curve (tokens, mean cross-entropy since the last point), and what it took."""
    decayed = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    rest = [p for p in model.parameters() if all(p is not weight for weight in decayed)]
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": options.schedule.weight_decay},
            {"params": rest, "weight_decay": 0.0},
        ],
        lr=options.schedule.peak_lr,
        betas=options.schedule.betas,
    )
    model.train()
    every = max(1, options.schedule.steps // CURVE)
    curve: list[list[float]] = []
    sums = torch.zeros(2, device=device)
    bridge = 0.0
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        began = time.process_time()
        ids = batch.ids.to(device)
        given = None
        if isinstance(model, AnticipatoryTransformer):
            given = bridge_scalars(model.embed(ids[:, :-1]).detach()).float()
        bridge += time.process_time() - began
        inputs = ids[:, :-1]
        if not isinstance(model, AnticipatoryTransformer):
            parts = losses(model, model(inputs), ids[:, 1:], None, options)
        elif options.loss.scalars == "self":
            parts = losses(model, model(inputs, mode="initial"), ids[:, 1:], given, options)
        else:
            parts = losses(model, model(inputs, given), ids[:, 1:], given, options)
        for group in optimizer.param_groups:
            group["lr"] = options.schedule.learning_rate(batch.step)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(parts.total)
        if options.schedule.clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), options.schedule.clip_norm)
        optimizer.step()
        sums += torch.stack((parts.ce.detach(), torch.ones_like(parts.ce)))
        if (batch.step + 1) % every == 0 or batch.step + 1 == options.schedule.steps:
            mean = float(sums[0] / sums[1])
            curve.append([(batch.step + 1) * options.schedule.batch * options.data.seq_len, round(mean, 5)])
            sums.zero_()
    took = time.process_time() - cpu
    tokens = options.schedule.steps * options.schedule.batch * options.data.seq_len
    return curve, {
        "seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(took, 2),
        "bridge_cpu_seconds": round(bridge, 2),
        "tokens_per_cpu_second": round(tokens / max(took, 1e-9), 1),
    }


def _data(out: Path, run: Run, recipe: Recipe, options: LanguageOptions) -> tuple[Windows, Test, int]:
    """What a run learns from, what it is tested on, and the size of the vocabulary."""
    length, rows = options.data.seq_len, options.data.valid_windows
    if run.data == "text":
        assert recipe.train is not None
        assert recipe.test is not None
        tokenizer = learn("char", read_lines(recipe.train))
        cache = out / "tokens"
        train = Windows(Corpus.encode(recipe.train, tokenizer, cache, "train").tokens, length, "train")
        held = Windows(Corpus.encode(recipe.test, tokenizer, cache, "test").tokens, length, "test")
        ids = held.take(held.spread(rows))
        return train, Test(ids, np.ones((len(ids), length), dtype=np.bool_)), tokenizer.vocab
    drawn = synthetic(
        options.data.vocab, length + 1, options.data.train_sequences, derived_seed(run.seed, TRAIN_DATA)
    ).ids
    # The test is the same for every seed, as a file is.
    held_out = synthetic(options.data.vocab, length + 1, rows, derived_seed(0, VALID_DATA))
    phases: NDArray[np.int8] = held_out.phases[:, 1:]
    return (
        Windows(drawn, length),
        Test(held_out.ids, np.isin(phases, (MOTIF, CONVERGE)), 1),
        options.data.vocab,
    )


def _kept(out: Path, run: Run, recipe: Recipe) -> bool:
    """Whether a run has been done, by this recipe."""
    file = out / run.file
    if not file.is_file():
        return False
    mine = recipe.options(run.data, run.variant, run.seed)
    found = read(file)
    # An option that came later has the default which stands for what was done before.
    theirs = {**LanguageOptions.of_run(found["options"]).flat(), "embedding_std": found["embedding_std"]}
    wanted = {**mine.flat(), "embedding_std": recipe.embedding_std}
    must_equal(file, theirs, {name: value for name, value in wanted.items() if name != "run.device"})
    return True


def _line(result: dict[str, Any], number: int | None, count: int) -> str:
    at = f"{number}/{count} " if number is not None else ""
    shown = result["test"]["perplexity"]["full"]
    return (
        f"{at}{result['data']} {result['variant']} seed {result['seed']}: perplexity {shown:.4f}, "
        f"{result['seconds']:.0f} s, {result['tokens_per_cpu_second']:.0f} tokens per CPU second"
    )


def _sources(recipe: Recipe, run: Run) -> dict[str, str]:
    files: Iterable[tuple[str, Path | None]] = (("train", recipe.train), ("test", recipe.test))
    return {n: digest(f) for n, f in files if f is not None and run.data == "text"}
