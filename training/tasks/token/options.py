"""Everything that decides the training of a token model."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from pyanticip.errors import OptionError, suggestion
from pyanticip.models.config import ModelConfig
from training.run.options import Options, ScheduleOptions, Text, TrainOptions, pair

SYNTHETIC: Final = "synthetic"
"""The value of ``data.path`` that stands for no file."""


class DataOptions(Options):
    """What a model learns from."""

    path: Text = SYNTHETIC
    """``"synthetic"``, or the text file to train on."""
    valid: Text = ""
    """The text file to validate on; needed where ``data`` is one."""
    tokenizer: Literal["char", "bpe"] = "char"
    """``"char"`` or ``"bpe"``; learned from the training text alone."""
    vocab: int = Field(default=0, ge=0)
    """Size of the vocabulary; 0: 1000 for synthetic data, every character of the text, 4096 for BPE."""
    seq_len: int = Field(default=128, ge=2)
    """Tokens the model sees at once; each predicts the next one."""
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
    """How often a motif of the synthetic data is repeated, both ends included."""
    valid_windows: int = Field(default=256, ge=1)
    """Windows of a validation: that many synthetic sequences, or evenly spaced windows of the text."""


class LossOptions(Options):
    """What is minimised: the cross-entropy of the next token, and these."""

    scalars: Literal["external", "self"] = "external"
    """What steers attention in training: scalars ``"external"`` from the bridge, or those the model predicts
    (``"self"``). Both heads learn from the bridge's either way."""
    supervise: Literal["both", "refined"] = "both"
    """Heads whose scalars are supervised: ``"both"``, or ``"refined"`` as in the paper."""
    scalar_weight: float = Field(default=1.0, ge=0, le=1000)
    """Weight of the squared error of the scalars."""
    neighbours: int = Field(default=8, ge=1)
    """Past states that uncertainty compares; see ``k`` of :class:`pyanticip.VectorStream`."""
    ortho_weight: float = Field(default=0.1, ge=0, le=1000)
    """Weight of the overlap of the bias heads' directions."""
    own_scalars: float = Field(default=0.0, ge=0, le=1)
    """Scheduled sampling: share of scalars that are the model's own at the last step, from 0, linearly."""
    sampling_unit: Literal["window", "position"] = "window"
    """What is replaced by the model's own: whole windows, or positions one by one."""


UNREAD: Final = (
    *("loss.scalars", "loss.supervise", "loss.scalar_weight", "loss.neighbours", "loss.ortho_weight"),
    *("loss.own_scalars", "loss.sampling_unit", "model.paper", "model.bias"),
    *("model.alpha", "model.dist_scale", "model.mixing", "model.slow_stride", "model.gate_start"),
)
"""Options that a baseline has no use for. Sizes are not among them: they come with those of other runs."""


class LanguageScheduleOptions(ScheduleOptions):
    """How the weights move."""

    batch: int = Field(default=16, ge=1)
    """Sequences per update, over all processes and all accumulated parts."""
    peak_lr: float = Field(default=1e-3, gt=0, le=10)
    """Learning rate after the warm-up."""


class LanguageOptions(TrainOptions):
    """One training run of a token model, from the data to the last step.

    ``model`` may also say ``paper=True``: start and kernel to the paper's letter.

    Raises:
        OptionError: a value outside its range or of the wrong type; the message names option and value.
    """

    kind: Literal["anticipatory", "baseline"] = "anticipatory"
    """``"anticipatory"`` or ``"baseline"`` (a plain transformer of as many parameters)."""
    size: Literal["small", "default"] = "small"
    """The preset of :class:`~pyanticip.models.ModelConfig` that the model starts from."""
    data: DataOptions = DataOptions()
    loss: LossOptions = LossOptions()
    schedule: LanguageScheduleOptions = LanguageScheduleOptions()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        data = self.data
        if data.vocab == 1:
            raise OptionError("option data.vocab: expected at least 2 tokens, given 1")
        if self.kind == "baseline":
            self._check_baseline()
        if data.path != SYNTHETIC and not data.valid:
            raise OptionError(
                f"option data.valid: a text file to validate on is needed beside data={data.path!r}"
            )
        if data.path == SYNTHETIC and data.valid:
            raise OptionError(f"option data.valid: {SYNTHETIC} data brings its own, given {data.valid!r}")
        if "vocab" in self.model:
            raise OptionError("option model.vocab: the vocabulary is the tokenizer's; use the option vocab")
        return self

    def _check_baseline(self) -> None:
        """Refuse what a plain transformer does not read: runs that differ in it would be the same run."""
        given = {"loss": self.loss.model_dump(), "model": self.model}
        usual = {"loss": LossOptions().model_dump(), "model": {**dict(ModelConfig.small()), "paper": False}}
        for name in UNREAD:
            table, option = name.split(".")
            value = given[table].get(option, usual[table][option])
            # As many parameters as a model without bias has are fewer.
            if value != usual[table][option] and (name, value) != ("model.bias", "none"):
                raise OptionError(
                    f"option {name}: {value!r} does nothing with kind='baseline': nothing steers a plain "
                    "transformer; choose kind='anticipatory', or leave it out"
                )

    def config(self, vocab: int) -> ModelConfig:
        """The configuration of the model for a vocabulary of this size.

        The longest sequence is the preset's, or ``seq_len`` where that is longer.

        Raises:
            OptionError: an unknown field in ``model``, or values that do not fit together.
        """
        preset = ModelConfig.small if self.size == "small" else ModelConfig.default
        base, length = preset(), self.data.seq_len
        config = preset(**{"max_seq_len": max(base.max_seq_len, length), **self.model, "vocab": vocab})
        if config.max_seq_len < length:
            raise OptionError(
                f"option data.seq_len: the model reads at most {config.max_seq_len} tokens, given {length}"
            )
        return config

    def sampled(self, step: int) -> float:
        """Share of the scalars that are the model's own in update ``step`` (from 0)."""
        return self.loss.own_scalars * step / max(self.schedule.steps - 1, 1)


def preset(name: str) -> Mapping[str, Any]:
    """A set of options by its name.

    Raises:
        OptionError: there is none.
    """
    if name not in PRESETS:
        raise OptionError(f"unknown preset {name!r}{suggestion(name, list(PRESETS))}")
    return PRESETS[name]


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    # The paper's smoke test (section 8.1). On sequences that never come again nothing is learned in 50 steps;
    # what falls is the loss on 160 of them, which come two or three times each.
    "smoke": {
        "schedule": {"steps": 50, "batch": 8, "peak_lr": 1e-3},
        "data": {"seq_len": 32, "vocab": 1000, "train_sequences": 160},
        "run": {"log_every": 1, "validate_every": 50, "save_every": 50},
    },
}
"""Sets of options under a name."""
