"""The paper's first two tables, which it left empty: small backbones, trained on in four ways, over seeds.

For a seed there is one backbone; every arm goes on from it for as many updates on the same batches. A run is
an arm (or the backbone itself) and a seed, kept in a file of its own; one whose file exists is not repeated.
"""

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, build_language_model, load_language_model, save_checkpoint
from pyanticip.models.checkpoint.manifest import read_description
from training.planning.arms import ARMS, BACKBONE, Arm, Optimisers, Planner, losses, planning_copy
from training.planning.gpt2 import PlanningGPT2, load_gpt2
from training.planning.judge import judge
from training.planning.text import Text, read_texts
from training.run.settings import derived_seed
from training.study.runs import check_names, must_equal, perform, processor, read, versions, write
from training.tasks.token.corpus import digest

KIND: Final = "planning"
SMALL: Final = "small"
"""The name of the backbone that the study trains itself."""
INITIAL: Final = 1
DROPOUT: Final = 2
CURVE: Final = 20
"""Points of a learning curve."""

PLAIN: Final = Arm(anticipator=False, plans=False, tuned=True)


@dataclass(frozen=True)
class Recipe:
    """What all runs of a study have in common.

    Raises:
        OptionError: sizes below one.
    """

    train: Path
    test: Path
    backbone: str = SMALL
    """``"small"``, or a GPT-2: a folder of ``transformers`` or a name such as ``gpt2``."""
    vocab: int = 1024
    """Tokens of the byte-pair encoding; a GPT-2 brings its own."""
    horizon: int = 50
    length: int = 128
    rows: int = 8
    """Sequences of an update."""
    backbone_steps: int = 1000
    steps: int = 600
    """Updates of an arm."""
    backbone_lr: float = 3e-3
    lr: float = 1e-3
    """Of the backbone's weights in an arm."""
    planning_lr: float = 1e-2
    """Of the planning signal's own weights."""
    windows: int = 250
    """Held-out windows, at most."""
    model: Mapping[str, Any] = field(
        default_factory=lambda: {
            "d_model": 64,
            "heads": 4,
            "fast_layers": 2,
            "slow_layers": 2,
            "ff": 256,
            "dropout": 0.0,
        }
    )
    embedding_std: float = 0.2
    """Deviation that token embeddings of the small backbone start with: at the models' own .02 they drown in
    the sinusoids for most of so short a training."""

    def __post_init__(self) -> None:
        for name in ("vocab", "horizon", "length", "rows", "backbone_steps", "steps", "windows"):
            if getattr(self, name) < 1:
                raise OptionError(f"option {name}: expected at least 1, given {getattr(self, name)}")
        for name in ("backbone_lr", "lr", "planning_lr"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise OptionError(f"option {name}: expected above 0 and below 1, given {getattr(self, name)}")

    def compared(self) -> dict[str, Any]:
        """What must be equal in all runs of a folder."""
        fields = {n: v for n, v in asdict(self).items() if n not in ("train", "test", "model")}
        return {**fields, "model": dict(self.model), "texts": [digest(self.train), digest(self.test)]}

    def of_backbone(self) -> dict[str, Any]:
        """What decides the small backbone."""
        names = ("vocab", "horizon", "length", "rows", "backbone_steps", "backbone_lr", "embedding_std")
        return {name: value for name, value in self.compared().items() if name in (*names, "model", "texts")}


@dataclass(frozen=True)
class Run:
    """One run of a study."""

    arm: str
    seed: int

    @property
    def file(self) -> str:
        """Its file's name in the study's folder."""
        return f"{slug(self.arm)}-seed{self.seed}.json"


def slug(arm: str) -> str:
    """An arm's name as part of a file's.

    >>> slug("base + training")
    'base-training'
    """
    return "-".join(word for word in arm.split() if word != "+")


def plan(arms: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """All runs, seed by seed, the backbone first.

    Raises:
        OptionError: an unknown arm.
    """
    check_names("arm", arms, ARMS)
    return [Run(arm, seed) for seed in seeds for arm in (BACKBONE, *arms)]


def study(
    out: Path, runs: Sequence[Run], recipe: Recipe, *, say: Callable[[str], None] = lambda text: None
) -> dict[str, int]:
    """Do the runs of a study that have not been done yet.

    Args:
        out: folder of the runs' files, of the texts' tokens and of the models: ``models/ARM-seedN``.
        runs: which, in this order.
        recipe: what they have in common; runs of another recipe in ``out`` are refused.
        say: told about every run that is finished.

    Returns:
        ``done`` in this call, ``kept`` from earlier ones.

    Raises:
        OptionError: a text that is too short, or a kept run that followed another recipe.
        FormatError: a text that cannot be read.
    """
    wanted = recipe.compared()

    def kept(run: Run) -> bool:
        file = out / run.file
        if not file.is_file():
            return False
        must_equal(file, read(file)["recipe"], wanted)
        return True

    return perform(out, runs, functools.partial(do, out, recipe=recipe), kept=kept, line=_line, say=say)


def do(out: Path, run: Run, recipe: Recipe) -> dict[str, Any]:
    """Train and judge one model, and write its file and its checkpoint."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    made = _backbone(out, recipe, run.seed)
    text, test, tokenizer = made.texts
    arm = None
    model, took, curve = made.model, made.took, made.curve
    if run.arm != BACKBONE:
        arm = ARMS[run.arm]
        torch.manual_seed(derived_seed(run.seed, INITIAL, 1))
        if arm.anticipator:
            options = {"plan_tokens": recipe.horizon}
            model = planning_copy(made.model, options, text.counts(made.model.cfg.vocab))
        curve, took = fit(model, arm, text, recipe, recipe.steps, (recipe.lr, recipe.planning_lr), run.seed)
        _save(out / "models" / run.file.removesuffix(".json"), model, tokenizer, run)
    began_test = time.perf_counter()
    result = {
        "kind": KIND,
        **asdict(run),
        "recipe": recipe.compared(),
        "vocab": model.cfg.vocab,
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,
        "test": judge(model, arm, test.spread(recipe.windows), recipe.length),
        **took,
        "test_seconds": round(time.perf_counter() - began_test, 2),
        "all_seconds": round(time.perf_counter() - began, 2),
        "threads": 1,
        "versions": versions(),
        "processor": processor(),
    }
    write(out / run.file, result)
    return result


@dataclass(frozen=True)
class _Backbone:
    model: Planner
    texts: tuple[Text, Text, Any]
    curve: list[list[float]]
    took: dict[str, Any]


def _backbone(out: Path, recipe: Recipe, seed: int) -> _Backbone:
    """The backbone of a seed: loaded, or trained and kept. A GPT-2 is what it is."""
    beyond = 1 + recipe.horizon
    if recipe.backbone != SMALL:
        gpt2, tokenizer = load_gpt2(recipe.backbone, planning=False)
        texts = [
            Text(_gpt2_tokens(path, tokenizer), recipe.length, beyond, str(path))
            for path in (recipe.train, recipe.test)
        ]
        return _Backbone(gpt2, (texts[0], texts[1], tokenizer), [], {"cpu_seconds": 0.0})
    text, test, small = read_texts(
        recipe.train, recipe.test, recipe.vocab, out / "tokens", recipe.length, beyond
    )
    folder = out / "models" / f"{BACKBONE}-seed{seed}"
    if folder.is_dir():
        # Trained by a call that ended before its file was written, perhaps with another recipe.
        theirs = read_description(folder).get("training", {}).get("recipe", recipe.of_backbone())
        must_equal(folder, theirs, recipe.of_backbone())
        return _Backbone(load_language_model(folder), (text, test, small), [], {"cpu_seconds": 0.0})
    torch.manual_seed(derived_seed(seed, INITIAL, 0))
    cfg = ModelConfig.small(**{**recipe.model, "vocab": small.vocab, "max_seq_len": recipe.length})
    model = build_language_model(cfg, "baseline")
    with torch.no_grad():
        nn.init.normal_(model.token.weight, 0.0, recipe.embedding_std)
    curve, took = fit(model, PLAIN, text, recipe, recipe.backbone_steps, (recipe.backbone_lr, 0.0), seed)
    _save(folder, model, small, Run(BACKBONE, seed), recipe=recipe.of_backbone())
    return _Backbone(model, (text, test, small), curve, took)


def _gpt2_tokens(path: Path, tokenizer: Any) -> Any:
    """The tokens of a text by a tokenizer of ``transformers``."""
    import numpy as np

    from training.tasks.token.corpus import read_lines

    pieces = tokenizer(list(read_lines(path)), add_special_tokens=False, verbose=False)["input_ids"]
    return np.concatenate([np.asarray(piece, dtype=np.int64) for piece in pieces if piece])


def _save(folder: Path, model: Planner, tokenizer: Any, run: Run, **more: Any) -> None:
    if isinstance(model, PlanningGPT2):
        folder.mkdir(parents=True, exist_ok=True)
        model.save(folder)
        tokenizer.save_pretrained(folder)
        return
    training = {"study": KIND, "arm": run.arm, "seed": run.seed, **more}
    save_checkpoint(folder, model, training=training, tokenizer=tokenizer.to_json())


def fit(
    model: Planner, arm: Arm, text: Text, recipe: Recipe, steps: int, peaks: tuple[float, float], seed: int
) -> tuple[list[list[float]], dict[str, Any]]:
    """Train at these peak rates (of the backbone, of the planning signal).

    Returns:
        The curve (updates; means since the last point of the next token's cross-entropy and, with an
        anticipator, of its divergence and its simulator's loss), and what it took.
    """
    optimisers = Optimisers(model, arm, *peaks)
    torch.manual_seed(derived_seed(seed, DROPOUT))
    model.train()
    warm, every = max(1, steps // 10), max(1, steps // CURVE)
    curve: list[list[float]] = []
    sums: list[float] = []
    wall, cpu = time.perf_counter(), time.process_time()
    for step in range(steps):
        ids = torch.from_numpy(text.batch(seed, step, recipe.rows))
        found = losses(model, arm, ids, recipe.length)
        falling = 0.55 + 0.45 * math.cos(math.pi * max(0.0, step - warm) / max(1, steps - warm))
        optimisers.step(found.total, min(1.0, (step + 1) / warm) * falling)
        parts = [float(found.ce.detach())]
        if found.planning is not None:
            parts += [float(found.planning.divergence), float(found.planning.simulator.detach())]
        sums = [a + b for a, b in zip(sums, parts, strict=True)] if sums else parts
        if (step + 1) % every == 0:
            curve.append([step + 1, *(round(value / every, 5) for value in sums)])
            sums = []
    return curve, {
        "seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "tokens": steps * recipe.rows * recipe.length,
    }


def _line(result: dict[str, Any], number: int | None, count: int) -> str:
    test = result["test"]
    told = f", divergence {test['divergence']:.4f}" if "divergence" in test else ""
    return (
        f"{number}/{count} {result['arm']} seed {result['seed']}: perplexity {test['perplexity']:.3f}{told}, "
        f"{result['all_seconds']:.0f} s"
    )
