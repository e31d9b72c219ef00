"""All options of the training of a token model."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from training.run.options import Options, ScheduleOptions, Text, TrainOptions, pair

SYNTHETIC: Final = "synthetic"
"""Value of ``data.path`` for synthetic data instead of a file."""


class DataOptions(Options):
    """Training data."""

    path: Text = SYNTHETIC
    """``"synthetic"``, or the text file to train on."""
    valid: Text = ""
    """The text file to validate on; required if the training data are one."""
    tokenizer: Literal["char", "bpe"] = "char"
    """Kind of tokenizer, learned from the training text only."""
    vocab: int = Field(default=0, ge=0)
    """Size of the vocabulary; 0: 1000 for synthetic data, all characters of the text, or 4096 for BPE."""
    seq_len: int = Field(default=128, ge=2)
    """Tokens per window; each predicts the next one."""
    train_sequences: int = Field(default=16_384, ge=1)
    """Synthetic sequences to train on."""
    repeats: Annotated[
        tuple[int, int],
        pair(
            "two whole numbers, 1 <= least <= most",
            lambda count: isinstance(count, int) and count >= 1,
            ascending=True,
        ),
    ] = (2, 4)
    """Minimum and maximum number of repetitions of a motif in synthetic data, inclusive."""
    valid_windows: int = Field(default=256, ge=1)
    """Windows per validation: synthetic sequences, or evenly spaced windows of the text."""


class LossOptions(Options):
    """Weights and settings of the loss, to which the cross-entropy contributes with weight 1."""

    scalars: Literal["external", "self"] = "external"
    """Scalars that steer attention in training: ``"external"``, computed from the embeddings, or ``"self"``,
    predicted by the model. Both heads learn the computed ones either way."""
    supervise: Literal["both", "refined"] = "both"
    """Supervised heads: ``"both"``, or ``"refined"`` as in the paper."""
    scalar_weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of the squared error of the scalars."""
    neighbours: int = Field(default=8, ge=1)
    """Past states that uncertainty is computed from; see ``k`` of :class:`pyanticip.VectorStream`."""
    ortho_weight: float = Field(default=0.1, ge=0, le=1000)
    """Weight of the overlap of the bias heads' directions."""
    own_scalars: float = Field(default=0.0, ge=0, le=1)
    """Scheduled sampling: share of the model's own scalars at the last step, rising linearly from 0."""
    sampling_unit: Literal["window", "position"] = "window"
    """Unit of scheduled sampling: whole windows, or single positions."""


NOT_FOR_BASELINE: Final = (
    *("loss.scalars", "loss.supervise", "loss.scalar_weight", "loss.neighbours", "loss.ortho_weight"),
    *("loss.own_scalars", "loss.sampling_unit", "model.paper", "model.bias"),
    *("model.alpha", "model.dist_scale", "model.mixing", "model.slow_stride", "model.gate_start"),
)
"""Options without effect on a baseline. Sizes are not included: they may be shared with other runs."""


class LanguageScheduleOptions(ScheduleOptions):
    """Optimiser and learning-rate schedule."""

    batch: int = Field(default=16, ge=1)
    """Sequences per update, over all processes and all accumulated parts."""
    peak_lr: float = Field(default=1e-3, gt=0, le=10)
    """Learning rate after the warm-up."""


class LanguageOptions(TrainOptions):
    """One training run of a token model, from the data to the last step.

    ``model`` may also have ``paper=True``: initialisation and kernel exactly as in the paper.

    Raises:
        OptionError: a value is out of range or of the wrong type; the message names option and value.
    """

    kind: Literal["anticipatory", "baseline"] = "anticipatory"
    """``"anticipatory"``, or ``"baseline"``, a plain transformer with as many parameters."""
    size: Literal["small", "default"] = "small"
    """The preset of :class:`~pyanticip.models.ModelConfig` that the model starts from."""
    data: DataOptions = DataOptions()
    loss: LossOptions = LossOptions()
    schedule: LanguageScheduleOptions = LanguageScheduleOptions()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        data = self.data
        if data.vocab == 1:
            raise OptionError("option data.vocab: expected at least 2 tokens, got 1")
        if self.kind == "baseline":
            self._check_baseline()
        if data.path != SYNTHETIC and not data.valid:
            raise OptionError(
                f"option data.valid: a text file to validate on is needed beside data={data.path!r} (--valid)"
            )
        if data.path == SYNTHETIC and data.valid:
            raise OptionError(f"option data.valid: {SYNTHETIC} data brings its own, got {data.valid!r}")
        if "vocab" in self.model:
            raise OptionError("option model.vocab: the vocabulary is the tokenizer's; use the option vocab")
        return self

    def _check_baseline(self) -> None:
        """Refuse options without effect on a plain transformer: runs that differ in them are the same."""
        values = {"loss": self.loss.model_dump(), "model": self.model}
        defaults = {
            "loss": LossOptions().model_dump(),
            "model": {**dict(ModelConfig.small()), "paper": False},
        }
        for name in NOT_FOR_BASELINE:
            table, option = name.split(".")
            value = values[table].get(option, defaults[table][option])
            # model.bias="none" is allowed: it changes the number of parameters to match.
            if value != defaults[table][option] and (name, value) != ("model.bias", "none"):
                raise OptionError(
                    f"option {name}: {value!r} does nothing with kind='baseline': nothing steers a plain "
                    "transformer; choose kind='anticipatory', or leave it out"
                )

    def config(self, vocab: int) -> ModelConfig:
        """The configuration of the model for a vocabulary of this size.

        The maximum sequence length is the preset's, or ``seq_len`` if that is longer.

        Raises:
            OptionError: an unknown field in ``model``, or values that do not fit together.
        """
        preset = ModelConfig.small if self.size == "small" else ModelConfig.default
        base, length = preset(), self.data.seq_len
        config = preset(**{"max_seq_len": max(base.max_seq_len, length), **self.model, "vocab": vocab})
        if config.max_seq_len < length:
            raise OptionError(
                f"option data.seq_len: the model reads at most {config.max_seq_len} tokens, got {length}"
            )
        return config

    def sampled(self, step: int) -> float:
        """Share of the model's own scalars in update ``step`` (from 0)."""
        return self.loss.own_scalars * step / max(self.schedule.steps - 1, 1)


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    # The paper's smoke test (section 8.1). Nothing is learned in 50 steps on sequences that are never
    # repeated; with 160 sequences, each seen two or three times, the loss falls.
    "smoke": {
        "schedule": {"steps": 50, "batch": 8, "peak_lr": 1e-3},
        "data": {"seq_len": 32, "vocab": 1000, "train_sequences": 160},
        "run": {"log_every": 1, "validate_every": 50, "save_every": 50},
    },
}
"""Presets of options by name."""
