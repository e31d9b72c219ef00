"""Configuration of the model family. Does not import torch."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.core.config import Config, Count, PartConfig, PositionConfig, Share, without_removed
from pyanticip.models.parts.field.config import FieldConfig
from pyanticip.models.parts.planning.config import CODES, PlanConfig
from pyanticip.models.parts.registry import PARTS, build, nested, part_config
from pyanticip.vocabulary import FEATURE_WIDTHS, FEATURES, FEATURES_V1, SCALAR_COLUMNS

POSE_ORDER = 5
"""Degree of the polynomials that describe a joint's path in ``pose_window``: velocity, acceleration, ..."""

_SMALL: dict[str, Any] = {
    "d_model": 128, "heads": 4, "fast_layers": 2, "slow_layers": 2, "window": 32, "ff": 256,
    "vocab": 1000, "max_seq_len": 256,
}  # fmt: skip
_DEFAULT: dict[str, Any] = {
    "d_model": 512, "heads": 8, "fast_layers": 3, "slow_layers": 3, "window": 128, "ff": 2048,
    "vocab": 32_000, "max_seq_len": 2048,
}  # fmt: skip
_TOKENS: dict[str, Any] = {
    "positions": "sinusoidal", "slow_stride": 1, "dist_scale": 0.01, "dropout": 0.1, "kinematics": False,
    "ffn_dropout": False,
}  # fmt: skip
_MOTION_ONLY = ("taps", "control_hidden", "twin", "gated_events")
REMOVED_OPTIONS: Final[dict[str, Any]] = {
    "bias_start": "normal",
    "gate_gradient": True,
    "pose_horizons": [],
    "scalar_input": False,
}
"""Removed options that older checkpoints still list, with their defaults."""
_PAPER: dict[str, Any] = {"alpha": "raw", "gate_start": "normal"}


def _part(option: str) -> BeforeValidator:
    """A validator that builds the options of a part."""
    return BeforeValidator(partial(part_config, option))


def _covering_pools(fields: dict[str, Any]) -> int:
    """Context of the slow pathway, in pools, that covers the longest sequence."""
    length, stride = fields["max_seq_len"], fields["slow_stride"]
    valid = isinstance(length, int) and isinstance(stride, int) and stride > 0
    return max(2, -(-length // stride)) if valid else 2  # invalid values are refused by their own fields


class ModelConfig(Config):
    """Configuration of a model's architecture and behaviour.

    The defaults are the motion model at 50 Hz; :meth:`small` and :meth:`default` are the token models.
    Options of parts are nested: ``positions={"kind": "prism", "cursors": 4}``; the flat form of older
    checkpoints, ``positions="prism", prism_cursors=4``, is accepted as well.

    Raises:
        OptionError: an unknown option, an invalid value, or sizes that do not fit together.
    """

    positions: Annotated[SerializeAsAny[PositionConfig] | None, _part("positions")] = None
    """Position scheme: ``"sinusoidal"`` encodings added to the embedding, ``"rope"`` rotated queries and
    keys, ``"alibi"`` a linear bias, ``"trajectory"`` sinusoids at positions that follow the embeddings' path,
    ``"prism"`` learned cursors with probabilities over positions, or another scheme of the registry; with
    ``"none"`` only the trajectory bias carries distance."""
    bias: Literal["trajectory", "none", "random"] = "trajectory"
    """Additive attention bias: ``"trajectory"`` (from the scalars), ``"random"`` (the same, from fixed random
    scalars: the ablation of the geometry) or ``"none"``."""
    control_field: Annotated[SerializeAsAny[PartConfig] | None, _part("control_field")] = None
    """Whether every block estimates a risk of its steps and weighs risky ones less (``True``, or options);
    see :mod:`pyanticip.models.parts.field.control_field`."""
    planning: Annotated[SerializeAsAny[PlanConfig] | None, _part("planning")] = None
    """Whether an anticipator predicts the next steps and the first attention layer attends to the prediction
    (``True``, or options); see :mod:`pyanticip.models.parts.planning.targets`."""
    slow_stride: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Steps per pool of the slow pathway; 1 runs it on every step."""

    d_model: Annotated[int, Field(ge=2, le=65_536)] = 128
    heads: Annotated[int, Field(ge=1, le=56)] = 4
    fast_layers: Annotated[int, Field(ge=1, le=256)] = 2
    slow_layers: Annotated[int, Field(ge=0, le=256)] = 3
    """Layers of the slow pathway; 0 for a model with the fast pathway only."""
    ff: Count = 512
    window: Annotated[int, Field(ge=2, le=1_048_576)] = 128
    """Local attention reaches ``window // 2`` past steps and the step itself."""
    pools: Annotated[int, Field(ge=2, le=1_048_576)] = 64
    """Context of the slow pathway in pools, the newest one included."""
    dropout: Share = 0.1
    dist_scale: Annotated[float, Field(ge=0.0, lt=1e6)] = 0.02
    """Distance between neighbouring steps in the bias kernel: seconds for motion, 0.01 for tokens."""
    taps: Annotated[int, Field(ge=2, le=1024)] = 25
    """Length in steps of the motion front-end's causal filter."""
    kinematics: bool = True
    """Whether the motion front-end adds joint positions, heights and velocities computed from the rotations,
    and hides the heading of the hips; see :mod:`pyanticip.models.motion.kinematics`."""
    control_hidden: Count = 256
    """Width of the hidden layer of the control heads."""
    vocab: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Size of a token model's vocabulary; 0 for the motion model."""
    max_seq_len: Annotated[int, Field(ge=0, le=1_048_576)] = 0
    """Longest sequence of a token model; 0 for the motion model, whose streams are unbounded."""
    alpha: Literal["softplus", "raw"] = "softplus"
    """How the bias kernel's decay is computed from its parameter; the paper uses ``"raw"``."""
    gate_start: Literal["monotone", "normal"] = "monotone"
    """Initialisation of the commitment gate: ``"monotone"`` rises with the commitment, ``"normal"`` is
    N(0, .02) as in the paper."""
    ffn_dropout: bool = True
    """Whether dropout also follows the feed-forward layers."""
    mixing: Literal["gated", "mean"] = "gated"
    """How the pathways are mixed: ``"gated"`` by a share from scalars and step, ``"mean"`` equally."""
    gated_events: bool = True
    """Whether the commitment gate scales the motion model's event logits. With False the gate is a prediction
    that nothing else uses."""
    strokes: bool = False
    """Whether the motion model detects beats from strokes: see :mod:`pyanticip.models.motion.strokes`."""
    twin: bool = False
    """Whether the motion model reads the last columns of a row, the teacher's causal twin: its parameters are
    then a mix of those columns, held and smoothed, plus a correction by the trunk."""
    scaled: bool = False
    """With the twin, whether the trunk's correction is scaled by how far the parameters moved recently."""
    pose_window: Annotated[int, Field(ge=0, le=1024)] = 0
    """Frames of poses from which an MLP beside the trunk also estimates the parameters; the motion model
    returns the mean of both, see :mod:`pyanticip.models.motion.pose_window`. 0 for none."""
    theta: Share = 0.8
    """Commitment threshold of the inference rule, lowered while waiting."""
    max_buffer: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Steps after which the inference rule always emits."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**nested(without_removed(options, REMOVED_OPTIONS, "model option ")))

    def replace(self, **changes: Any) -> "ModelConfig":
        """Return a copy with some options changed.

        Selecting a part that the model already has keeps its options. If ``pools`` just covers the longest
        sequence, it is adjusted to keep doing so.
        """
        current = self.to_dict()
        if self.vocab and current["pools"] == _covering_pools(current):
            changes = {"pools": _covering_pools({**current, **changes}), **changes}
        for name in PARTS:
            part = current[name]
            if part is not None and changes.get(name) in (True, part.get("kind")):
                changes.pop(name, None)
        return ModelConfig(**{**current, **changes})

    @model_validator(mode="after")
    def _check(self) -> "ModelConfig":
        if self.d_model % self.heads or self.d_model % 2:
            raise OptionError(
                f"d_model must be even and a multiple of heads={self.heads}, got {self.d_model}"
            )
        if self.bias != "none" and 56 % self.heads:
            raise OptionError(f"heads must divide 56 for the trajectory bias, got {self.heads}")
        if self.strokes and (self.vocab or not self.kinematics or not self.plain):
            raise OptionError(
                "strokes=True needs a motion model with kinematics, of the kind that the Rust core steps"
            )
        if self.scaled and not self.twin:
            raise OptionError("scaled=True needs twin=True: it scales what is added to the twin")
        if self.pose_window and (self.vocab or not (self.twin and self.kinematics and self.plain)):
            raise OptionError(
                "pose_window needs a motion model with twin=True and kinematics, of the kind that the Rust "
                "core steps"
            )
        if 0 < self.pose_window <= POSE_ORDER:
            raise OptionError(f"pose_window must be over {POSE_ORDER} frames, or 0, got {self.pose_window}")
        fields = type(self).model_fields
        for name in _MOTION_ONLY if self.vocab else ():
            if getattr(self, name) != fields[name].default:
                raise OptionError(f"{name} is an option of the motion model: a token model has no use for it")
        if self.vocab and self.holds_frames:
            raise OptionError("field_input=True does nothing in a token model: its frames are tokens")
        if self.vocab and self.planning is not None and self.planning.codes != CODES:
            raise OptionError(
                f"plan_codes={self.planning.codes} does nothing in a token model: it plans with its tokens"
            )
        if (self.vocab > 0) != (self.max_seq_len > 0):
            raise OptionError(
                "a token model needs vocab and max_seq_len, both at least 1, "
                f"got {self.vocab} and {self.max_seq_len}"
            )
        return self

    @classmethod
    def small(cls, *, paper: bool = False, **changes: Any) -> "ModelConfig":
        """The paper's small token model: d 128, 4 heads, 2 + 2 layers, vocabulary 1000, length 256.

        Args:
            paper: use the paper's exact initialisation and kernel, which the defaults correct.
            changes: any field; the slow pathway's context follows ``max_seq_len`` and ``slow_stride``.
        """
        return cls._token({**_SMALL, **(_PAPER if paper else {}), **changes})

    @classmethod
    def default(cls, *, paper: bool = False, **changes: Any) -> "ModelConfig":
        """The paper's default token model: d 512, 8 heads, 3 + 3 layers, vocabulary 32,000, length 2048; see
        :meth:`small`."""
        return cls._token({**_DEFAULT, **(_PAPER if paper else {}), **changes})

    @classmethod
    def _token(cls, fields: dict[str, Any]) -> "ModelConfig":
        fields = nested({**_TOKENS, **fields})
        if isinstance(fields["planning"], Mapping):
            fields["planning"] = {"inference": "passes", **fields["planning"]}
        # Global attention.
        fields.setdefault("pools", _covering_pools(fields))
        return cls(**fields)

    @property
    def columns(self) -> int:
        """Number of leading columns of a feature row that the motion model reads."""
        return FEATURES if self.twin else FEATURES_V1

    @property
    def fast_past(self) -> int:
        """Past steps that local attention reaches, not counting the step itself."""
        return self.window // 2

    @property
    def slow_past(self) -> int:
        """Past pools that the slow pathway reaches, not counting the newest one."""
        return self.pools - 1

    @property
    def plain(self) -> bool:
        """Whether the Rust core can step the motion model, as it does the packaged one; torch steps all
        others."""
        parts = (self.positions, self.control_field, self.planning)
        return parts == (None, None, None) and self.bias != "random" and self.slow_layers > 0

    @property
    def holds_frames(self) -> bool:
        """Whether the motion model replaces risky frames with the last trusted ones."""
        return isinstance(self.control_field, FieldConfig) and self.control_field.input

    def build(self, option: str, *args: Any) -> Any:
        """Build the part selected by an option, see :data:`~pyanticip.models.parts.registry.PARTS`;
        ``None`` without it.

        Args:
            args: arguments of its class after this configuration.
        """
        return build(option, getattr(self, option), self, *args)


def visible_columns(config: ModelConfig) -> list[bool]:
    """For each column of a feature row that the motion model reads, whether its first layer sees it.

    The scalars, which only steer, are hidden, and with kinematics the rotation of the hips.
    """
    first, last = SCALAR_COLUMNS
    return [
        not (first <= column < last) and not (column < 6 and config.kinematics)
        for column in range(config.columns)
    ]


def row_widths(columns: int) -> tuple[int, ...]:
    """Accepted widths of feature rows for a model that reads the first ``columns`` of them."""
    return tuple(width for width in FEATURE_WIDTHS if width >= columns)
