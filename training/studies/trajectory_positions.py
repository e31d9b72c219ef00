"""What do trajectory positions bring on each kind of pattern? Small plain models that differ in positions.

For a seed every arm starts from the same weights and sees the same sequences in the same order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models import ModelConfig
from pyanticip.models.parts.positions.trajectory.module import TrajectoryPositions, TrajectoryState
from pyanticip.models.parts.positions.trajectory.strength import auto_strength
from pyanticip.models.token.baseline import BaselineTransformer
from training.run.settings import derived_seed
from training.studies.engine import Measure, Study, mean_of
from training.studies.on_patterns import PATTERNS, VOCAB, pattern
from training.studies.on_tokens import descend

ARMS: Final[dict[str, dict[str, Any]]] = {
    "sinusoidal": {"positions": "sinusoidal"},
    "trajectory": {"positions": "trajectory"},
    "trajectory-rms": {"positions": "trajectory", "trajectory_scale": "rms", "trajectory_magnitude": 0.5},
    "shuffled": {"positions": "trajectory"},
    "rope": {"positions": "rope"},
}
"""``trajectory`` is the paper's rule with its strength for the kind: none on random. ``trajectory-rms``
measures steps by their root mean square and stays where the hyperbolic tangent is steep. ``shuffled`` is
``trajectory`` with the displacements of the next sequence of the batch: positions are moved as much, but by
what has nothing to do with the content. These two have .2 on random as well."""

START, ORDER, TRAIN, TEST = range(4)
"""What seeds are derived for."""


class ShuffledPositions(TrajectoryPositions):
    """Trajectory positions whose rows have each other's displacements."""

    def displacements(self, embedded: Tensor, state: TrajectoryState | None = None) -> tuple[Tensor, Tensor]:
        """Those of the next row."""
        return super().displacements(embedded.roll(-1, 0), state)


@dataclass(frozen=True)
class PatternOptions:
    """What all runs have in common."""

    steps: int = 500
    batch: int = 16
    length: int = 32
    sequences: int = 4096
    """Sequences learned from."""
    tests: int = 1024
    lr: float = 1e-2
    d_model: int = 32
    ff: int = 64
    embedding_std: float = 0.5
    """Deviation that token embeddings start with: at the models' own .02 they drown in the sinusoids."""


class PatternGround:
    """One kind of pattern, drawn anew for every seed."""

    rivals: Mapping[str, Mapping[str, Any]] = {}

    def __init__(self, given: PatternOptions, kind: str, folder: Path) -> None:
        self.given, self.kind, self.source = given, kind, kind

    def model(self, arm: str, seed: int) -> BaselineTransformer:
        """The model of a run at its start: a plain transformer, the same weights for every arm."""
        given, changes = self.given, dict(ARMS[arm])
        if changes["positions"] == "trajectory":
            own = auto_strength(self.kind)
            changes["trajectory_strength"] = own if arm == "trajectory" or own else 0.2
        cfg = ModelConfig.small(
            d_model=given.d_model,
            ff=given.ff,
            heads=4,
            fast_layers=2,
            slow_layers=0,
            vocab=VOCAB,
            max_seq_len=given.length,
            dropout=0.0,
            **changes,
        )
        torch.manual_seed(derived_seed(seed, START))
        model = BaselineTransformer(cfg, matched=False)
        nn.init.normal_(model.token.weight, 0.0, given.embedding_std)
        if arm == "shuffled":
            model.positions = ShuffledPositions.of(cfg)
        return model

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """Train and test one model: ``loss`` in nats; with trajectory positions also ``increment`` and
        ``spread``, mean and deviation of what a step adds to the position."""
        given, model = self.given, self.model(arm, seed)
        ids = self._drawn(given.sequences, derived_seed(seed, TRAIN))
        order = torch.Generator().manual_seed(derived_seed(seed, ORDER))

        def loss(step: int) -> Tensor:
            some = ids[torch.randint(len(ids), (given.batch,), generator=order)]
            return F.cross_entropy(model(some[:, :-1]).logits.flatten(0, 1), some[:, 1:].flatten())

        def rate(step: int) -> float:
            rise = min(1.0, (step + 1) / max(1, given.steps // 20))
            return rise * 0.5 * (1.0 + math.cos(math.pi * step / given.steps))

        optimiser = torch.optim.AdamW(model.parameters(), lr=given.lr, betas=(0.9, 0.95), weight_decay=0.01)
        descend(optimiser, given.steps, rate, loss)
        return {"figures": self.judge(model, seed), "parameters": sum(p.numel() for p in model.parameters())}

    @torch.no_grad()
    def judge(self, model: BaselineTransformer, seed: int) -> dict[str, float]:
        """The figures of a model, on sequences never seen."""
        ids = self._drawn(self.given.tests, derived_seed(seed, TEST))
        logits = model.eval()(ids[:, :-1]).logits
        found = {"loss": float(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))}
        moved = model.positions
        if isinstance(moved, TrajectoryPositions) and moved.strength:
            added = moved.displacements(model.token(ids[:, :-1]))[0].diff(dim=1)
            found |= {"increment": float(added.mean()), "spread": float(added.std())}
        return {name: round(value, 6) for name, value in found.items()}

    def _drawn(self, count: int, seed: int) -> Tensor:
        return torch.from_numpy(pattern(self.kind, count, self.given.length + 1, seed))


STUDY: Final = Study(
    title="Trajectory positions",
    options=PatternOptions,
    arms=ARMS,
    pairs=tuple((arm, "sinusoidal") for arm in ARMS if arm != "sinusoidal"),
    tables=(
        ("Cross-entropy of the next token, nats", (Measure("loss", mean_of("loss")),)),
        (
            "What a step adds to the position after training",
            (Measure("mean", mean_of("increment")), Measure("deviation", mean_of("spread"))),
        ),
    ),
    ground=PatternGround,
    cases=tuple(PATTERNS),
    relative=True,
)
