"""Does the geometric bias help on tokens? Small models that differ in what biases their attention."""

from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

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
from training.run.module import decay_groups, linear_weights
from training.run.settings import derived_seed
from training.tasks.token.corpus import Corpus, digest, read_lines
from training.tasks.token.losses import losses
from training.tasks.token.options import LanguageOptions
from training.tasks.token.synthetic import CONVERGE, MOTIF, synthetic
from training.tasks.token.tokens import learn
from training.tasks.token.windows import INITIAL, TRAIN_DATA, VALID_DATA, Batches, Windows

TITLE: Final = "Does the geometric bias help?"

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
"""Positions are sinusoidal unless the name says otherwise. ``external``: steered by the scalars of the
embeddings; ``self``: by those that the initial head predicts."""
PAIRS: Final = (
    # First the contribution of the scalars' information, then everything else.
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
"""Pairs of arms to compare: the first minus the second."""


class Case(NamedTuple):
    """Sizes of a case's training and test data."""

    length: int
    """Tokens per sequence."""
    tokens: int
    """Training tokens per run."""
    rows: int
    """Test sequences."""


CASES: Final = {"text": Case(256, 1_000_000, 256), "synthetic": Case(64, 2_000_000, 1024)}
SIZES: Final = {"d_model": 64, "ff": 128, "dropout": 0.0}
BATCH_TOKENS: Final = 1024
RATE: Final = 6e-3
EMBEDDING_STD: Final = 0.2
"""Initial standard deviation of token embeddings. At the models' default of .02 they are small next to the
sinusoids, which have .7: so short a run would mostly measure how soon a variant overcomes that."""


class Trial:
    """Data shared by all runs of a case: texts, or by default synthetic phases over 64 symbols.

    Raises:
        OptionError: only one text, or a text that is too short.
        FormatError: a text that cannot be read.
    """

    def __init__(self, train: Path | None, test: Path | None, cache: Path) -> None:
        self.case = "text" if train or test else "synthetic"
        self.length, tokens, rows = CASES[self.case]
        self.batch = BATCH_TOKENS // self.length
        self.steps = max(1, tokens // BATCH_TOKENS)
        self.source, self.vocab = "synthetic", 64
        if self.case == "text":
            if train is None or test is None:
                raise OptionError("text to learn from and to test on: give --train and --test")
            tokenizer = learn("char", read_lines(train))
            self.source, self.vocab = f"{digest(train)} {digest(test)}", tokenizer.vocab
            self.text, held_out = (
                Windows(Corpus.encode(path, tokenizer, cache, name).tokens, self.length, str(path))
                for name, path in (("train", train), ("test", test))
            )
            self.held_out = held_out.take(held_out.spread(rows))
            self.mask = np.ones((len(self.held_out), self.length), dtype=np.bool_)
        else:
            # The test data are the same for every seed, as those of a file.
            sample = synthetic(self.vocab, self.length + 1, rows, derived_seed(0, VALID_DATA))
            self.held_out = sample.ids
            self.mask = np.isin(sample.phases[:, 1:], (MOTIF, CONVERGE))

    def options(self, arm: str, seed: int) -> LanguageOptions:
        """A run's training options; without a bias, wider feed-forward layers make up for its parameters."""
        model = {**SIZES, **ARMS[arm]["model"], "max_seq_len": self.length}
        if model.get("bias") == "none":
            bare = ModelConfig.small(**model)
            missing = sum(p.numel() for p in TrajectoryBias(bare.heads, bare.dist_scale).parameters())
            model["ff"] += round(missing / ((bare.fast_layers + bare.slow_layers) * (2 * bare.d_model + 1)))
        return (
            LanguageOptions()
            .replace(
                steps=self.steps,
                batch=self.batch,
                seq_len=self.length,
                vocab=self.vocab,
                peak_lr=RATE,
                seed=seed,
            )
            .replace(**{**ARMS[arm], "model": model})
        )

    def run(self, arm: str, seed: int) -> tuple[float, int]:
        """Train and test one model; returns its mean cross-entropy in nats and its number of parameters."""
        options = self.options(arm, seed)
        torch.manual_seed(derived_seed(seed, INITIAL))
        kind: Literal["anticipatory", "baseline"] = ARMS[arm].get("kind", "anticipatory")
        model = build_language_model(options.config(self.vocab), kind)
        nn.init.normal_(model.token.weight, 0.0, EMBEDDING_STD)
        model.train()
        schedule = options.schedule
        groups = decay_groups(model.parameters(), schedule.weight_decay, linear_weights(model))
        weights = [weight for group in groups for weight in group["params"]]
        optimiser = torch.optim.AdamW(groups, lr=1.0, betas=schedule.betas)
        for batch in Batches(self._windows(seed), options):
            for group in optimiser.param_groups:
                group["lr"] = schedule.learning_rate(batch.step)
            out, external = run_model(model, batch.ids[:, :-1], options.loss.scalars)
            total = losses(model, out, batch.ids[:, 1:], external, options).total
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(total)
            nn.utils.clip_grad_norm_(weights, schedule.clip_norm)
            optimiser.step()
        cross_entropies = cross_entropy(model.eval(), self.held_out, options.loss.scalars)
        return round(float(cross_entropies[self.mask].mean()), 6), sum(p.numel() for p in model.parameters())

    def _windows(self, seed: int) -> Windows:
        if self.case == "text":
            return self.text
        seed, count = derived_seed(seed, TRAIN_DATA), self.batch * self.steps
        return Windows(synthetic(self.vocab, self.length + 1, count, seed).ids, self.length)


def run_model(model: LanguageModel, ids: Tensor, scalars: str) -> tuple[Any, Tensor | None]:
    """Run a model on ids (B, L) with its arm's steering; returns its output and the external scalars."""
    if not isinstance(model, AnticipatoryTransformer):
        return model(ids), None
    external = bridge_scalars(model.embed(ids).detach()).float()
    return (model(ids, mode="initial") if scalars == "self" else model(ids, external)), external


@torch.no_grad()
def cross_entropy(model: LanguageModel, ids: NDArray[np.int64], scalars: str) -> NDArray[np.float64]:
    """Cross-entropy (N, L) of the next tokens in sequences (N, L + 1), computed in chunks of rows."""
    rows, parts = max(1, 4096 // ids.shape[1]), []
    for start in range(0, len(ids), rows):
        chunk = torch.from_numpy(ids[start : start + rows])
        logits = run_model(model, chunk[:, :-1], scalars)[0].logits.float()
        parts.append(F.cross_entropy(logits.mT, chunk[:, 1:], reduction="none"))
    return torch.cat(parts).double().numpy()
