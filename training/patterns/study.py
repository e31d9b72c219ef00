"""What do trajectory positions bring on each kind of pattern? Small runs that differ in positions alone.

A run is a kind of pattern, a variant and a seed. For a seed every variant starts from the same weights and
sees the same sequences in the same order, for as many updates. Runs come in the order of their seeds, so that
a study that was stopped early has treated all variants alike; a run whose file exists is not repeated.
"""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import ModelConfig
from pyanticip.models.parts.positions.trajectory.module import TrajectoryPositions, TrajectoryState
from pyanticip.models.parts.positions.trajectory.strength import auto_strength
from pyanticip.models.token.baseline import BaselineTransformer
from training.patterns.generators import PATTERNS, VOCAB, pattern
from training.run.settings import derived_seed
from training.study.runs import check_names, must_equal, perform, processor, read, versions, write

KIND: Final = "patterns"

VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "sinusoidal": {"positions": "sinusoidal"},
    "trajectory": {"positions": "trajectory"},
    "trajectory-rms": {
        "positions": "trajectory",
        "trajectory_scale": "rms",
        "trajectory_magnitude": 0.5,
    },
    "shuffled": {"positions": "trajectory"},
    "rope": {"positions": "rope"},
}
"""What is compared. ``trajectory`` is the paper's rule with its strength for the kind: none on random.
``trajectory-rms`` measures steps by their root mean square and stays where the hyperbolic tangent is steep.
``shuffled`` is ``trajectory`` with the displacements of the next sequence of the batch: positions are moved
as much, but by what has nothing to do with the content. These two have .2 on random as well."""

START, ORDER, TRAIN, TEST = range(4)
"""What seeds are derived for."""


class ShuffledPositions(TrajectoryPositions):
    """Trajectory positions whose rows have each other's displacements."""

    def displacements(self, embedded: Tensor, state: TrajectoryState | None = None) -> tuple[Tensor, Tensor]:
        """Those of the next row."""
        return super().displacements(embedded.roll(-1, 0), state)


@dataclass(frozen=True)
class Recipe:
    """What all runs of a study have in common.

    Raises:
        OptionError: sizes below one.
    """

    steps: int = 500
    batch: int = 16
    length: int = 32
    """Tokens predicted of each sequence."""
    sequences: int = 4096
    """Sequences learned from."""
    tests: int = 1024
    """Sequences tested on."""
    lr: float = 1e-2
    d_model: int = 32
    ff: int = 64
    layers: int = 2
    heads: int = 4
    embedding_std: float = 0.5
    """Deviation that token embeddings start with. At the models' own .02 they drown in the sinusoids, which
    have .7: in runs this short hardly any variant then learns an order."""

    def __post_init__(self) -> None:
        for name, given in asdict(self).items():
            if given <= 0:
                raise OptionError(f"option {name}: expected more than 0, given {given}")

    def config(self, kind: str, variant: str) -> ModelConfig:
        """A variant's model on a kind of pattern."""
        changes = dict(VARIANTS[variant])
        if changes["positions"] == "trajectory":
            own = auto_strength(kind)
            changes["trajectory_strength"] = own if variant == "trajectory" or own else 0.2
        return ModelConfig.small(
            d_model=self.d_model,
            ff=self.ff,
            heads=self.heads,
            fast_layers=self.layers,
            slow_layers=0,
            vocab=VOCAB,
            max_seq_len=self.length,
            dropout=0.0,
            **changes,
        )


@dataclass(frozen=True)
class Run:
    """One run of a study."""

    pattern: str
    variant: str
    seed: int

    @property
    def file(self) -> str:
        """Its file's name in the study's folder."""
        return f"{self.pattern}-{self.variant}-seed{self.seed}.json"


def plan(patterns: Sequence[str], variants: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """All runs, seed by seed.

    Raises:
        OptionError: an unknown kind or variant.
    """
    check_names("pattern", patterns, PATTERNS)
    check_names("variant", variants, VARIANTS)
    return [Run(kind, variant, seed) for seed in seeds for kind in patterns for variant in variants]


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
        OptionError: a kept run followed another recipe.
    """
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
    wall, cpu = time.perf_counter(), time.process_time()
    model = build(run, recipe)
    curve = fit(model, run, recipe)
    result = {
        "kind": KIND,
        **asdict(run),
        "recipe": asdict(recipe),
        "model": model.cfg.to_dict(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,
        **judge(model, run, recipe),
        "seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "versions": versions(),
        "processor": processor(),
    }
    write(out / run.file, result)
    return result


def build(run: Run, recipe: Recipe) -> BaselineTransformer:
    """The model of a run at its start: a plain transformer, the same weights for every variant."""
    torch.manual_seed(derived_seed(run.seed, START))
    cfg = recipe.config(run.pattern, run.variant)
    model = BaselineTransformer(cfg, matched=False)
    with torch.no_grad():
        nn.init.normal_(model.token.weight, 0.0, recipe.embedding_std)
    if run.variant == "shuffled":
        model.moved = ShuffledPositions.of(cfg)
    return model


def fit(model: BaselineTransformer, run: Run, recipe: Recipe) -> list[float]:
    """Train; the mean loss of each twentieth of the updates."""
    seed = derived_seed(run.seed, TRAIN)
    ids = torch.from_numpy(pattern(run.pattern, recipe.sequences, recipe.length + 1, seed))
    order = torch.Generator().manual_seed(derived_seed(run.seed, ORDER))
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.lr, betas=(0.9, 0.95), weight_decay=0.01)
    warm = max(1, recipe.steps // 20)
    losses: list[float] = []
    model.train()
    for step in range(recipe.steps):
        rate = min(1.0, (step + 1) / warm) * 0.5 * (1.0 + math.cos(math.pi * step / recipe.steps))
        for group in optimiser.param_groups:
            group["lr"] = recipe.lr * rate
        some = ids[torch.randint(len(ids), (recipe.batch,), generator=order)]
        loss = F.cross_entropy(model(some[:, :-1]).logits.flatten(0, 1), some[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    size = max(1, recipe.steps // 20)
    return [
        round(sum(part) / len(part), 5)
        for part in (losses[i : i + size] for i in range(0, len(losses), size))
    ]


@torch.no_grad()
def judge(model: BaselineTransformer, run: Run, recipe: Recipe) -> dict[str, Any]:
    """``loss``, the cross-entropy of the next token of sequences never seen, in nats; with trajectory
    positions also ``increment``, mean and deviation of what a step adds to the position."""
    seed = derived_seed(run.seed, TEST)
    ids = torch.from_numpy(pattern(run.pattern, recipe.tests, recipe.length + 1, seed))
    model.eval()
    logits = model(ids[:, :-1]).logits
    found: dict[str, Any] = {
        "loss": round(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).item(), 6)
    }
    if model.moved is not None and model.moved.strength:
        added = model.moved.displacements(model.token(ids[:, :-1]))[0].diff(dim=1)
        found["increment"] = [round(float(added.mean()), 5), round(float(added.std()), 5)]
    return found


def _kept(out: Path, run: Run, recipe: Recipe) -> bool:
    """Whether a run has been done, by this recipe."""
    file = out / run.file
    if not file.is_file():
        return False
    found = read(file)
    try:
        theirs = {**ModelConfig.from_dict(found["model"]).to_dict(), **found["recipe"]}
    except (KeyError, TypeError) as error:
        raise FormatError(f"{file}: not a run of the patterns' study: {error}") from None
    must_equal(file, theirs, {**recipe.config(run.pattern, run.variant).to_dict(), **asdict(recipe)})
    return True


def _line(result: dict[str, Any], number: int | None, count: int) -> str:
    at = f"{number}/{count} " if number is not None else ""
    return (
        f"{at}{result['pattern']} {result['variant']} seed {result['seed']}: "
        f"loss {result['loss']:.4f}, {result['cpu_seconds']:.1f} s of CPU"
    )
