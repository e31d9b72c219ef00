"""Everything that decides the training of a token model."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig
from training.run.settings import (
    check_choice,
    check_flag,
    check_real,
    check_whole,
    hint,
    merge,
    read_fields,
    refuse_unknown,
    setting,
)

SYNTHETIC: Final = "synthetic"
"""The value of ``data`` that stands for no file."""

EXECUTION: Final = ("device", "threads", "accumulate")
"""Options that say how a run is computed, not what: the only ones that may change when it is resumed."""

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "kind": ("anticipatory", "baseline"),
    "size": ("small", "default"),
    "tokenizer": ("char", "bpe"),
    "precision": ("32", "bf16", "16"),
    "supervise": ("both", "refined"),
    "scalars": ("external", "self"),
    "sampling_unit": ("window", "position"),
    "gate_feed": ("own", "shuffled"),
    "device": ("auto", "cpu", "cuda"),
}


@dataclass(frozen=True)
class LanguageOptions:
    """One training run of a token model, from the data to the last step.

    Raises:
        OptionError: a value outside its range or of the wrong type; the message names option and value.
    """

    # The model
    kind: str = "anticipatory"
    """``"anticipatory"`` or ``"baseline"`` (a plain transformer of as many parameters)."""
    size: str = "small"
    """The preset of :class:`~pyanticip.models.ModelConfig` that the model starts from."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the model's configuration that differ from the preset."""

    # The data
    data: str = SYNTHETIC
    """``"synthetic"``, or the text file to train on."""
    valid: str | None = None
    """The text file to validate on; needed where ``data`` is a file."""
    tokenizer: str = "char"
    """``"char"`` or ``"bpe"``; learned from the training text alone."""
    vocab: int = 0
    """Size of the vocabulary; 0: 1000 for synthetic data, every character of the text, 4096 for BPE."""
    train_sequences: int = 16_384
    """Synthetic sequences to train on."""
    repeats: tuple[int, int] = (2, 4)
    """How often a motif of the synthetic data is repeated, both ends included."""
    chained: bool = False
    """Whether the three phases of the synthetic data begin again where they would end in random tokens."""
    valid_windows: int = 256
    """Windows of a validation: that many synthetic sequences, or evenly spaced windows of the text."""

    # The optimisation
    steps: int = 1000
    """Updates of the weights."""
    batch: int = 16
    """Sequences per update, over all processes and all accumulated parts."""
    seq_len: int = 128
    """Tokens the model sees at once; each predicts the next one."""
    lr: float = 1e-3
    final_lr: float = 0.1
    """The rate at the last step, as a share of ``lr``."""
    warmup: float = 0.1
    """Share of the steps over which the rate rises linearly from nothing."""
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.01
    """Of the matrices of linear layers; embeddings, biases and norms are never decayed."""
    clip: float = 1.0
    """Largest norm of the gradient; 0: not clipped."""
    seed: int = 0

    # The loss
    scalars: str = "external"
    """What steers attention in training: scalars ``"external"`` from the bridge, or those the model predicts
    (``"self"``). Both heads learn from the bridge's either way."""
    supervise: str = "both"
    """Heads whose scalars are supervised: ``"both"``, or ``"refined"`` as in the paper."""
    scalar_weight: float = 1.0
    scalar_balance: bool = False
    """Whether the error of each scalar counts as a share of its variance about its position's mean, so that
    those that vary little are not drowned by the others."""
    neighbours: int = 8
    """Past states that uncertainty compares; see ``k`` of :class:`pyanticip.VectorStream`."""
    ortho_weight: float = 0.1
    gate_weight: float = 0.0
    """Of the mean squared difference of gate and given commitment; 0: the gate learns from the tokens alone,
    as in the paper."""
    gate_feed: str = "own"
    """Which commitment the gate is fed: its position's own, or that of another one (``"shuffled"``, for
    comparison; what it is trained towards is shuffled alike)."""
    sampling_end: float = 0.0
    """Scheduled sampling: share of scalars that are the model's own at the last step, from 0, linearly."""
    sampling_unit: str = "window"
    """What is replaced by the model's own: whole windows, or positions one by one."""

    # How it is computed
    precision: str = "32"
    """``"32"``, or mixed with ``"bf16"`` or ``"16"`` (CUDA only)."""
    accumulate: int = 1
    """Parts that a process computes its share of a batch in, to save memory."""
    device: str = "auto"
    threads: int = 0
    """Torch threads; 0: as torch chooses."""

    # What is written when
    log_every: int = 10
    """Steps per row of the metrics, which are means over them."""
    eval_every: int = 200
    """Steps between validations; there is always one at the end."""
    save_every: int = 200
    """Steps between the states that a killed run goes on from; there is one at every validation too."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", _betas(self.betas))
        object.__setattr__(self, "repeats", _repeats(self.repeats))
        for name in ("chained", "scalar_balance"):
            check_flag(name, getattr(self, name))
        object.__setattr__(self, "data", str(self.data))
        object.__setattr__(self, "valid", None if self.valid is None else str(self.valid))
        for name, known in CHOICES.items():
            check_choice(name, getattr(self, name), known)
        for name, least in _WHOLE.items():
            check_whole(name, getattr(self, name), least)
        for name, (low, high) in _REAL.items():
            check_real(name, getattr(self, name), low, high)
        if not isinstance(self.model, Mapping):
            raise OptionError(
                f"option model: expected fields of the model's configuration, given {self.model!r}"
            )
        object.__setattr__(self, "model", dict(self.model))
        if self.lr <= 0.0:
            raise OptionError(f"option lr: expected a number above 0, given {self.lr!r}")
        if self.vocab == 1:
            raise OptionError("option vocab: expected at least 2 tokens, given 1")
        if self.kind == "baseline" and self.scalars != "external":
            raise OptionError(
                f"option scalars: {self.scalars!r} does nothing with kind='baseline': nothing steers a plain "
                "transformer; choose kind='anticipatory', or leave it out"
            )
        if self.data != SYNTHETIC and self.valid is None:
            raise OptionError(f"option valid: a text file to validate on is needed beside data={self.data!r}")
        if self.data == SYNTHETIC and self.valid is not None:
            raise OptionError(f"option valid: {SYNTHETIC} data brings its own, given {self.valid!r}")

    def config(self, vocab: int) -> ModelConfig:
        """The configuration of the model for a vocabulary of this size.

        ``model`` may also say ``paper=True``: start and kernel to the paper's letter. The longest sequence is
        the preset's, or ``seq_len`` where that is longer.

        Raises:
            OptionError: an unknown field in ``model``, or values that do not fit together.
        """
        if "vocab" in self.model:
            raise OptionError("option model.vocab: the vocabulary is the tokenizer's; use the option vocab")
        preset = ModelConfig.small if self.size == "small" else ModelConfig.default
        base = preset()
        fields = {"max_seq_len": max(base.max_seq_len, self.seq_len), **self.model, "vocab": vocab}
        config = preset(**fields)
        if config.max_seq_len < self.seq_len:
            raise OptionError(
                f"option seq_len: the model reads at most {config.max_seq_len} tokens, given {self.seq_len}"
            )
        return config

    def rate(self, step: int) -> float:
        """The learning rate of update ``step`` (from 0), as a share of ``lr``: linear warm-up, then a cosine.

        The warm-up always ends within the run and the cosine at its last step, whatever its length.
        """
        rise = min(max(1, round(self.warmup * self.steps)), self.steps)
        if step < rise:
            return (step + 1) / rise
        done = min((step + 1 - rise) / max(self.steps - rise, 1), 1.0)
        return self.final_lr + 0.5 * (1.0 - self.final_lr) * (1.0 + math.cos(math.pi * done))

    def sampled(self, step: int) -> float:
        """Share of the scalars that are the model's own in update ``step`` (from 0)."""
        return self.sampling_end * step / max(self.steps - 1, 1)

    def to_dict(self) -> dict[str, Any]:
        """All options as plain values that JSON can hold."""
        return {**dataclasses.asdict(self), "betas": list(self.betas), "repeats": list(self.repeats)}

    def but(self, **changes: Any) -> "LanguageOptions":
        """The same options but for these; fields of ``model`` are merged."""
        if "model" in changes:
            changes["model"] = {**self.model, **changes["model"]}
        return from_dict({**self.to_dict(), **changes})

    def differences(self, other: "LanguageOptions") -> dict[str, tuple[Any, Any]]:
        """Options that differ and decide what is computed: name, own value, other's value."""
        mine, theirs = self.to_dict(), other.to_dict()
        return {
            name: (mine[name], theirs[name])
            for name in mine
            if name not in EXECUTION and mine[name] != theirs[name]
        }


_WHOLE: Final = {
    "vocab": 0,
    "train_sequences": 1,
    "valid_windows": 1,
    "neighbours": 1,
    "steps": 1,
    "batch": 1,
    "seq_len": 2,
    "seed": 0,
    "accumulate": 1,
    "threads": 0,
    "log_every": 1,
    "eval_every": 1,
    "save_every": 1,
}

_REAL: Final = {
    "lr": (0.0, 10.0),
    "final_lr": (0.0, 1.0),
    "warmup": (0.0, 1.0),
    "weight_decay": (0.0, 10.0),
    "clip": (0.0, 1e9),
    "scalar_weight": (0.0, 1e3),
    "ortho_weight": (0.0, 1e3),
    "gate_weight": (0.0, 1e3),
    "sampling_end": (0.0, 1.0),
}


def from_dict(fields: Mapping[str, Any]) -> LanguageOptions:
    """Options from plain values; what is not named stays at its default.

    Raises:
        OptionError: an unknown name (with the nearest known one), or a value out of range.

    >>> from_dict({"steps": 50, "step": 1})
    Traceback (most recent call last):
        ...
    pyanticip.errors.OptionError: unknown option 'step'; did you mean 'steps'?
    """
    refuse_unknown(fields, LanguageOptions)
    return LanguageOptions(**fields)


def read_toml(path: Path | str) -> dict[str, Any]:
    """The options in a TOML file: one key an option, and a table ``[model]``.

    Raises:
        OptionError: no such file, not TOML, or an unknown key; the message names the file.
    """
    fields = read_fields(path)
    try:
        from_dict({"valid": None, **fields} if "data" not in fields else {"valid": "-", **fields})
    except OptionError as error:
        # Completeness is judged when all sources are merged; unknown keys and bad values here, by file.
        if not str(error).startswith("option valid:"):
            raise OptionError(f"{path}: {error}") from None
    return fields


def assignments(given: Sequence[str]) -> dict[str, Any]:
    """Options from ``name=value`` and ``model.name=value``; values as in TOML, or plain words.

    Raises:
        OptionError: no ``=``, or the same name twice.

    >>> assignments(["steps=50", "model.bias=random", "betas=[0.9, 0.99]"])
    {'steps': 50, 'model': {'bias': 'random'}, 'betas': [0.9, 0.99]}
    """
    fields: dict[str, Any] = {}
    for each in given:
        table, name, value = setting(each)
        if table not in ("", "model"):
            raise OptionError(f"--set: only model has options of its own, given {each!r}")
        into = fields if not table else fields.setdefault("model", {})
        if name in into:
            raise OptionError(f"--set: {table + '.' if table else ''}{name} is given twice")
        into[name] = value
    return fields


def merged(preset: str | None, config: Path | str | None, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given: of a preset, then of a TOML file, then others; later ones win.

    Fields of ``model`` are merged one by one.

    Raises:
        OptionError: an unknown preset, or a file that cannot be used.
    """
    if preset is not None and preset not in PRESETS:
        raise OptionError(f"unknown preset {preset!r}{hint(preset, list(PRESETS))}")
    base = LanguageOptions()
    found: dict[str, Any] = (
        {} if preset is None else {name: new for name, (new, _) in PRESETS[preset].differences(base).items()}
    )
    return merge(found, {} if config is None else read_toml(config), overrides)


def _repeats(given: Any) -> tuple[int, int]:
    try:
        low, high = given
    except (TypeError, ValueError):
        low = high = 0
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (low, high))
    if not whole or not 1 <= low <= high:
        raise OptionError(f"option repeats: expected two whole numbers, 1 <= least <= most, given {given!r}")
    return low, high


def _betas(given: Any) -> tuple[float, float]:
    try:
        first, second = (float(value) for value in given)
    except (TypeError, ValueError):
        first = second = -1.0
    if not (0.0 <= first < 1.0 and 0.0 <= second < 1.0):
        raise OptionError(f"option betas: expected two numbers from 0 to below 1, given {given!r}")
    return first, second


PRESETS: Final[dict[str, LanguageOptions]] = {
    # The paper's smoke test (section 8.1). On sequences that never come again nothing is learned in 50 steps;
    # what falls is the loss on 160 of them, which come two or three times each.
    "smoke": LanguageOptions(
        steps=50,
        batch=8,
        lr=1e-3,
        seq_len=32,
        vocab=1000,
        train_sequences=160,
        log_every=1,
        eval_every=50,
        save_every=50,
    ),
}
"""Sets of options under a name."""
