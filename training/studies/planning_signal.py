"""Does a planning signal help on text? A small backbone, trained on in four ways by equal steps and batches.

The first two tables of the paper, which it left empty.
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import OptionError
from pyanticip.models import BaselineTransformer, ModelConfig
from pyanticip.models.parts.planning.heads import SIMULATOR_LR
from pyanticip.models.parts.planning.targets import PlanChoice, divergence, look_ahead
from training.run.settings import derived_seed
from training.studies.engine import Measure, Study, mean_of
from training.studies.on_tokens import descend, perplexity
from training.tasks.token.corpus import Corpus, digest, read_lines
from training.tasks.token.tokens import byte_pairs

ARMS: Final[dict[str, dict[str, bool]]] = {
    "full": {"anticipator": True, "plans": True, "tuned": True},
    "without anticipator": {"anticipator": True, "plans": False, "tuned": True},
    "without fine-tuning": {"anticipator": True, "plans": True, "tuned": False},
    "base + training": {"anticipator": False, "plans": False, "tuned": True},
    "backbone": {"anticipator": False, "plans": False, "tuned": False},
}
"""Whether the anticipator is trained; whether the first attention layer looks at plans (simulated while it
learns, the model's own when judged); whether the backbone's own weights are trained. ``without anticipator``
keeps it in training, for what it does to the hidden states, and drops it and its plans afterwards."""

INITIAL, DROPOUT = 1, 2
"""What seeds are derived for."""
ROWS: Final = 8
"""Sequences of an update."""


@dataclass(frozen=True)
class PlanningOptions:
    """What all runs have in common."""

    train: Path | None = field(default=None, compare=False)
    """Text to learn from, and one to test on."""
    test: Path | None = field(default=None, compare=False)
    vocab: int = 1024
    """Tokens of the byte-pair encoding."""
    horizon: int = 50
    length: int = 128
    backbone_steps: int = 1000
    steps: int = 600
    backbone_lr: float = 3e-3
    lr: float = 1e-3
    planning_lr: float = 1e-2
    """Of the planning signal's own weights, which start from next to nothing."""
    windows: int = 250
    """Held-out windows, at most."""
    d_model: int = 64


class PlanningGround:
    """Two texts in windows that reach beyond what is read: plans and targets need to know what comes.

    Raises:
        OptionError: a text that is missing or shorter than a window.
        FormatError: one that cannot be read.
    """

    rivals: Mapping[str, Mapping[str, Any]] = {}

    def __init__(self, given: PlanningOptions, case: str, folder: Path) -> None:
        if given.train is None or given.test is None:
            raise OptionError("give a text to learn from and one to test on: train and test")
        self.given, self.backbones = given, dict[int, BaselineTransformer]()
        self.source = f"{digest(given.train)} {digest(given.test)}"
        tokenizer = byte_pairs(read_lines(given.train), given.vocab)
        self.vocab, wide, every = tokenizer.vocab, given.length + 1 + given.horizon, []
        for name, path in (("train", given.train), ("test", given.test)):
            every.append(Corpus.encode(path, tokenizer, folder, name).tokens)
            if len(every[-1]) < wide:
                raise OptionError(f"{path}: has {len(every[-1])} tokens, a window needs {wide}")
        self.counts = np.bincount(every[0], minlength=self.vocab)
        # They overlap by what lies beyond the tokens that are read.
        self.text, test = (
            np.lib.stride_tricks.sliding_window_view(tokens, wide)[:: given.length] for tokens in every
        )
        count = min(given.windows, len(test))
        self.held_out = np.asarray(test[(np.arange(count) * len(test)) // count], dtype=np.int64)

    def batch(self, seed: int, step: int) -> Tensor:
        """The windows of an update: drawn from an order that seed and epoch decide."""
        epoch, number = divmod(step, max(1, len(self.text) // ROWS))
        order = np.random.default_rng([seed, epoch]).permutation(len(self.text))
        some = np.resize(order, ROWS) if len(order) < ROWS else order[number * ROWS :][:ROWS]
        return torch.from_numpy(np.asarray(self.text[some], dtype=np.int64))

    def backbone(self, seed: int) -> BaselineTransformer:
        """The backbone of a seed, from which all its arms go on."""
        given = self.given
        if seed not in self.backbones:
            torch.manual_seed(derived_seed(seed, INITIAL, 0))
            cfg = ModelConfig.small(
                d_model=given.d_model,
                heads=4,
                fast_layers=2,
                slow_layers=2,
                ff=4 * given.d_model,
                dropout=0.0,
                vocab=self.vocab,
                max_seq_len=given.length,
            )
            model = BaselineTransformer(cfg)
            # At the models' own .02 they drown in the sinusoids for most of so short a training.
            nn.init.normal_(model.token.weight, 0.0, 0.2)
            self.fit(model, ARMS["base + training"], seed, given.backbone_steps, given.backbone_lr)
            self.backbones = {seed: model}
        return copy.deepcopy(self.backbones[seed])

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """Go on from the backbone in one way."""
        given, way, model = self.given, ARMS[arm], self.backbone(seed)
        torch.manual_seed(derived_seed(seed, INITIAL, 1))
        if way["anticipator"]:
            model = with_plans(model, given.horizon, torch.from_numpy(self.counts))
        if arm != "backbone":
            self.fit(model, way, seed, given.steps, given.lr)
        figures = judge(model, way, self.held_out, given.length)
        return {"figures": figures, "parameters": sum(p.numel() for p in model.parameters())}

    def fit(
        self, model: BaselineTransformer, way: Mapping[str, bool], seed: int, steps: int, lr: float
    ) -> None:
        """Train, whatever of the model a way trains."""
        signal, own, apart = model.planning, [], None
        if signal is not None:
            own = [p for name, p in signal.named_parameters() if "simulator" not in name]
            apart = torch.optim.Adam(signal.simulator.parameters(), lr=SIMULATOR_LR)
        planning = set() if signal is None else set(signal.parameters())
        groups: list[dict[str, Any]] = [{"params": own, "lr": self.given.planning_lr}] if own else []
        rest = [p for p in model.parameters() if p not in planning]
        if way["tuned"]:
            groups.insert(0, {"params": rest, "lr": lr})
        for parameter in rest:
            parameter.requires_grad_(way["tuned"])
        warm = max(1, steps // 10)

        def rate(step: int) -> float:
            cosine = 0.55 + 0.45 * math.cos(math.pi * max(0.0, step - warm) / max(1, steps - warm))
            return min(1.0, (step + 1) / warm) * cosine

        torch.manual_seed(derived_seed(seed, DROPOUT))
        optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=0.01)
        model.train()
        descend(
            optimiser,
            steps,
            rate,
            lambda k: loss(model, way, self.batch(seed, k), self.given.length),
            apart=apart,
        )


def with_plans(backbone: BaselineTransformer, horizon: int, counts: Tensor) -> BaselineTransformer:
    """A model with the backbone's weights and a fresh planning signal."""
    fields = {"planning": True, "plan_inference": "passes", "plan_tokens": horizon}
    made = BaselineTransformer(ModelConfig.from_dict({**backbone.cfg.to_dict(), **fields}), matched=False)
    made.load_state_dict(backbone.state_dict(), strict=False)
    assert made.planning is not None
    made.planning.anticipator.start_from(made.token.weight)
    made.planning.set_frequencies(counts)
    return made


def empty(model: BaselineTransformer, rows: int, length: int) -> PlanChoice | None:
    """Plans that name nothing; ``None`` for a model that takes none."""
    if model.planning is None:
        return None
    shape = (rows, length, model.planning.slots)
    return PlanChoice(torch.zeros(shape, dtype=torch.int64), torch.zeros(shape))


def loss(model: BaselineTransformer, way: Mapping[str, bool], ids: Tensor, length: int) -> Tensor:
    """What is minimised on windows of which the first ``length`` tokens are read."""
    signal = model.planning
    plan = (
        signal.simulate(ids, length)
        if signal is not None and way["plans"]
        else empty(model, len(ids), length)
    )
    out = model(ids[:, :length], plan=plan)
    total = F.cross_entropy(out.logits.float().flatten(0, 1), ids[:, 1 : length + 1].flatten())
    if signal is None:
        return total
    parts = signal.judged(out.anticipation, ids)
    return total + parts.ce + parts.unlikelihood + parts.simulator


@torch.no_grad()
def judge(
    model: BaselineTransformer, way: Mapping[str, bool], windows: NDArray[np.int64], length: int
) -> dict[str, float]:
    """Means over held-out windows (N, length + 1 + K): ``loss`` of the next token in nats; with plans also
    ``without`` them and with ``simulated`` ones, which know the future by design; with an anticipator
    ``divergence`` and, of the training text's frequencies in its place, ``unigram``."""
    model.eval()
    sums: dict[str, list[Tensor]] = {}
    torch.manual_seed(0)  # simulated plans are drawn
    for start in range(0, len(windows), 8):
        ids = torch.from_numpy(windows[start : start + 8])
        nothing, signal = empty(model, len(ids), length), model.planning
        plans = {"loss": nothing}
        if signal is not None and way["plans"]:
            plans = {"loss": None, "without": nothing, "simulated": signal.simulate(ids, length)}
        for name, plan in plans.items():
            out = model(ids[:, :length], plan=plan)
            found = F.cross_entropy(out.logits.float().mT, ids[:, 1 : length + 1], reduction="none")
            sums.setdefault(name, []).append(found.flatten())
            if name == "loss" and signal is not None:
                ahead = look_ahead(ids, signal.horizon, length)
                usual = signal.log_frequency.expand(*found.shape, -1).log_softmax(-1)
                for key, scores in (("divergence", out.anticipation), ("unigram", usual)):
                    sums.setdefault(key, []).append(divergence(scores, ahead)[ahead.whole])
    return {name: round(float(torch.cat(parts).double().mean()), 6) for name, parts in sums.items()}


STUDY: Final = Study(
    title="The planning signal",
    options=PlanningOptions,
    arms=ARMS,
    pairs=tuple((arm, "base + training") for arm in ARMS if arm != "base + training"),
    tables=(
        (
            "Divergence of the anticipator's scores from what comes, nats; loss of the next token, nats",
            (
                Measure("D_KL", mean_of("divergence"), 4),
                Measure("D_KL of frequencies", mean_of("unigram"), 4),
                Measure("loss", mean_of("loss"), 4),
            ),
        ),
        (
            "Perplexity with a model's own plans, with none, and with simulated ones",
            (perplexity("own", "loss"), perplexity("empty", "without"), perplexity("simulated", "simulated")),
        ),
    ),
    ground=PlanningGround,
)
