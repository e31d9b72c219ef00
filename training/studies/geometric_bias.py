"""Does the geometric bias help on tokens? Small models that differ in what biases their attention."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.bridge import bridge_scalars
from pyanticip.errors import OptionError
from pyanticip.models import AnticipatoryTransformer, ModelConfig, build_language_model
from pyanticip.models.core.bias import TrajectoryBias
from pyanticip.models.token.transformer import LanguageModel
from training.run.settings import derived_seed
from training.tasks.token.corpus import Corpus, digest, read_lines
from training.tasks.token.losses import losses
from training.tasks.token.options import LanguageOptions
from training.tasks.token.synthetic import CONVERGE, MOTIF, synthetic
from training.tasks.token.tokens import learn
from training.tasks.token.windows import INITIAL, TRAIN_DATA, VALID_DATA, Batches, Windows

TITLE: Final = "Does the geometric bias help?"
CASES: Final = ("text", "synthetic")
SEEDS: Final = "0-4"

_GEOMETRIC: Final = {"model": {"bias": "trajectory"}}
_ROPE: Final = {"positions": "rope"}
ARMS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"kind": "baseline", "model": {"positions": "sinusoidal"}},
    "alibi": {"kind": "baseline", "model": {"positions": "alibi"}},
    "rope": {"kind": "baseline", "model": _ROPE},
    "random": {"model": {"bias": "random"}},
    "geometric-external": _GEOMETRIC,
    "geometric-self": {**_GEOMETRIC, "scalars": "self"},
    "none": {"model": {"bias": "none"}},
    "random-rope": {"model": {"bias": "random", **_ROPE}},
    "geometric-rope": {"model": {"bias": "trajectory", **_ROPE}},
}
"""Sinusoidal positions where the name does not say otherwise. ``external``: steered by the scalars of the
embeddings; ``self``: by those that the initial head predicts."""
PAIRS: Final = (
    # What the meaning of the scalars adds first, then everything else.
    ("geometric-external", "random"),
    ("geometric-self", "random"),
    ("none", "random"),
    ("geometric-rope", "random-rope"),
    *(
        (name, "plain")
        for name in ("geometric-external", "geometric-self", "random", "none", "alibi", "rope")
    ),
    ("random-rope", "rope"),
    ("geometric-rope", "rope"),
)
"""Arms that are compared, the first with the second."""
MEASURES: Final[dict[str, Callable[[float], float]]] = {"perplexity": math.exp, "loss": float}
"""What runs are judged by, of their mean cross-entropy in nats."""


@dataclass(frozen=True)
class Options:
    """What all runs have in common, options of the command line; paths, which decide no figures, are left
    out of comparisons."""

    train: Path | None = field(default=None, compare=False)
    """Text to learn from, and one to test on, for the case ``text``."""
    test: Path | None = field(default=None, compare=False)
    tokens: int = 1_000_000
    """Tokens each run learns from."""
    lr: float = 6e-3
    d_model: int = 64
    ff: int = 128
    embedding_std: float = 0.2
    """Deviation that token embeddings start with. At the models' own .02 they drown in the sinusoids, which
    have .7: a run this short would then measure little but how soon a variant gets over that."""
    batch_tokens: int = 1024
    windows: int = 0
    """Sequences tested on; 0: 256 of text, 1024 of the synthetic data."""


class Trial:
    """What the runs of a case learn from and are judged on: text, or synthetic phases over 64 symbols.

    Raises:
        OptionError: a text that is missing or too short.
        FormatError: one that cannot be read.
    """

    def __init__(self, given: Options, case: str, folder: Path) -> None:
        self.given, self.case = given, case
        self.length = 256 if case == "text" else 64
        self.batch = max(1, given.batch_tokens // self.length)
        self.steps = max(1, given.tokens // (self.batch * self.length))
        self.source, self.vocab = "synthetic", 64
        rows = given.windows or (256 if case == "text" else 1024)
        if case == "text":
            if given.train is None or given.test is None:
                raise OptionError("text needs a file to learn from and one to test on: give train and test")
            tokenizer = learn("char", read_lines(given.train))
            self.source, self.vocab = f"{digest(given.train)} {digest(given.test)}", tokenizer.vocab
            self.text, test = (
                Windows(Corpus.encode(path, tokenizer, folder, name).tokens, self.length, str(path))
                for name, path in (("train", given.train), ("test", given.test))
            )
            self.held_out = test.take(test.spread(rows))
            self.mask = np.ones((len(self.held_out), self.length), dtype=np.bool_)
        else:
            # The test is the same for every seed, as a file is.
            drawn = synthetic(self.vocab, self.length + 1, rows, derived_seed(0, VALID_DATA))
            self.held_out = drawn.ids
            self.mask = np.isin(drawn.phases[:, 1:], (MOTIF, CONVERGE))

    def options(self, arm: str, seed: int) -> LanguageOptions:
        """How a run trains; feed-forward layers make up for the parameters of a bias that is not there."""
        sizes = {"d_model": self.given.d_model, "ff": self.given.ff, "dropout": 0.0}
        model = {**sizes, **ARMS[arm]["model"], "max_seq_len": self.length}
        if model.get("bias") == "none":
            bare = ModelConfig.small(**model)
            missing = sum(p.numel() for p in TrajectoryBias(bare.heads, bare.dist_scale).parameters())
            model["ff"] += round(missing / ((bare.fast_layers + bare.slow_layers) * (2 * bare.d_model + 1)))
        return (
            LanguageOptions()
            .but(
                steps=self.steps,
                batch=self.batch,
                seq_len=self.length,
                vocab=self.vocab,
                peak_lr=self.given.lr,
                seed=seed,
            )
            .but(**{**ARMS[arm], "model": model})
        )

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """Train and test one model."""
        options = self.options(arm, seed)
        torch.manual_seed(derived_seed(seed, INITIAL))
        kind: Literal["anticipatory", "baseline"] = ARMS[arm].get("kind", "anticipatory")
        model = build_language_model(options.config(self.vocab), kind)
        nn.init.normal_(model.token.weight, 0.0, self.given.embedding_std)
        decayed = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
        rest = [p for p in model.parameters() if all(p is not weight for weight in decayed)]
        groups: list[dict[str, Any]] = [
            {"params": decayed, "weight_decay": options.schedule.weight_decay},
            {"params": rest, "weight_decay": 0.0},
        ]
        model.train()
        schedule = options.schedule
        optimiser = torch.optim.AdamW(groups, lr=1.0, betas=schedule.betas)
        for batch in Batches(self._windows(seed), options):
            for group in optimiser.param_groups:
                group["lr"] = schedule.learning_rate(batch.step)
            out, given = hear(model, batch.ids[:, :-1], options.loss.scalars)
            total = losses(model, out, batch.ids[:, 1:], given, options).total
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(total)
            nn.utils.clip_grad_norm_([*decayed, *rest], schedule.clip_norm)
            optimiser.step()
        surprised = surprise(model.eval(), self.held_out, options.loss.scalars)
        return {
            "figures": {"full": round(float(surprised[self.mask].mean()), 6)},
            "parameters": sum(p.numel() for p in model.parameters()),
        }

    def _windows(self, seed: int) -> Windows:
        if self.case == "text":
            return self.text
        seed, count = derived_seed(seed, TRAIN_DATA), self.batch * self.steps
        return Windows(synthetic(self.vocab, self.length + 1, count, seed).ids, self.length)


def hear(model: LanguageModel, ids: Tensor, scalars: str) -> tuple[Any, Tensor | None]:
    """A model on ids (B, L), steered as its arm says, and the given scalars."""
    if not isinstance(model, AnticipatoryTransformer):
        return model(ids), None
    given = bridge_scalars(model.embed(ids).detach()).float()
    return (model(ids, mode="initial") if scalars == "self" else model(ids, given)), given


@torch.no_grad()
def surprise(model: LanguageModel, ids: NDArray[np.int64], scalars: str) -> NDArray[np.float64]:
    """Cross-entropy (N, L) of the tokens that follow each of sequences (N, L + 1), some at a time."""
    rows, parts = max(1, 4096 // ids.shape[1]), []
    for at in range(0, len(ids), rows):
        some = torch.from_numpy(ids[at : at + rows])
        logits = hear(model, some[:, :-1], scalars)[0].logits.float()
        parts.append(F.cross_entropy(logits.mT, some[:, 1:], reduction="none"))
    return torch.cat(parts).double().numpy()
