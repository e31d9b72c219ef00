"""The one configuration of the model family. No torch."""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyanticip.errors import OptionError
from pyanticip.vocabulary import FEATURES, SCALAR_COLUMNS

_AVAILABLE: dict[str, tuple[object, ...]] = {
    "positions": ("none", "sinusoidal", "rope", "alibi", "trajectory", "prism"),
    "bias": ("trajectory", "none", "random"),
    "control_field": (False, True),
    "planning": (False, True),
    "field_input": (False, True),
    "plan_inference": ("recurrent", "passes"),
    "plan_paper": (False, True),
    "kinematics": (True, False),
    "alpha": ("softplus", "raw"),
    "bias_start": ("normal", "fan-in"),
    "gate_start": ("monotone", "normal"),
    "gate_gradient": (True, False),
    "ffn_dropout": (True, False),
    "mixing": ("gated", "mean"),
    "gated_events": (True, False),
    "strokes": (False, True),
    "scalar_input": (False, True),
    "trajectory_interpolation": ("exact", "linear", "cubic"),
    "trajectory_scale": ("none", "rms"),
    "prism_sharpen": (True, False),
    "prism_copy": (False, True),
    "prism_absolute": (False, True),
    "prism_norm": ("row", "fixed"),
    "prism_orthogonal": ("exact", "penalty", "none"),
}

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
_PARTS: dict[str, tuple[str, object]] = {
    "trajectory_": ("positions", "trajectory"),
    "prism_": ("positions", "prism"),
    "field_": ("control_field", True),
    "plan_": ("planning", True),
}
"""Beginning of the names of a part's own options -> the option that puts the part in, and its value."""
_PAPER: dict[str, Any] = {"alpha": "raw", "gate_start": "normal"}


@dataclass(frozen=True)
class ModelConfig:
    """Everything that decides a model's shape and behaviour.

    The defaults are the motion model at 50 Hz; :meth:`small` and :meth:`default` are the token models.

    :raises OptionError: a value that does not exist (yet), or sizes that do not fit together.
    """

    positions: str = "none"
    """Where a step is: ``"sinusoidal"`` encodings added to the embedding, ``"rope"`` rotated queries and
    keys, ``"alibi"`` a linear bias, ``"trajectory"`` sinusoids at positions that the embeddings' path moves,
    ``"prism"`` probabilities over places that learned cursors keep;
    with ``"none"`` the trajectory bias alone carries distance."""
    bias: str = "trajectory"
    """Additive attention bias: ``"trajectory"`` (from the scalars), ``"random"`` (the same, from fixed random
    scalars: the ablation of the geometry) or ``"none"``."""
    control_field: bool = False
    """Whether every block reads a risk off its steps and trusts risky stretches less; see
    :mod:`pyanticip.models.parts.field.control_field`."""
    planning: bool = False
    """Whether an anticipator says what comes in the next steps, and the first attention layer looks at it;
    see :mod:`pyanticip.models.parts.planning.targets`."""
    slow_stride: int = 10
    """Steps per pool of the slow pathway; 1 runs it on every step."""

    d_model: int = 128
    heads: int = 4
    fast_layers: int = 2
    slow_layers: int = 3
    """Layers of the slow pathway; 0 leaves it out, and the fast pathway is all there is."""
    ff: int = 512
    window: int = 128
    """Local attention reaches ``window // 2`` past steps and the step itself."""
    pools: int = 64
    """Context of the slow pathway in pools, the newest one included."""
    dropout: float = 0.1
    dist_scale: float = 0.02
    """Distance of neighbouring steps in the bias kernel: seconds for motion, 0.01 for tokens."""
    taps: int = 25
    """Length in steps of the motion front-end's causal filter."""
    kinematics: bool = True
    """Whether the motion front-end adds joint positions, heights and velocities computed from the rotations,
    and hides the direction the hips face; see :mod:`pyanticip.models.motion.kinematics`."""
    control_hidden: int = 256
    """Width of the hidden layer of the control heads."""
    vocab: int = 0
    """Size of a token model's vocabulary; 0 for the motion model."""
    max_seq_len: int = 0
    """Longest sequence of a token model; 0 for the motion model, whose streams are endless."""
    alpha: str = "softplus"
    """How the bias kernel's decay follows from its parameter; ``"raw"`` is the paper's."""
    bias_start: str = "normal"
    """Where the bias network starts: ``"normal"`` is N(0, .02) as in the paper, and what the scalars do to
    the bias then has to grow through three layers of that from next to nothing; with ``"fan-in"`` weights of
    variance 1 / width they matter from the start."""
    gate_start: str = "monotone"
    """Where the commitment gate starts: ``"monotone"`` rises with the commitment, ``"normal"`` is N(0, .02)
    as in the paper."""
    gate_gradient: bool = True
    """Whether the loss of the tokens trains the refined head through the gate. It then bends the predicted
    commitment into a confidence that the given one is not; False leaves that head to the scalars alone."""
    ffn_dropout: bool = True
    """Whether dropout also follows the feed-forward layers."""
    mixing: str = "gated"
    """How the pathways mix: ``"gated"`` by a share that scalars and step decide, ``"mean"`` by halves."""
    gated_events: bool = True
    """Whether the commitment gate scales the motion model's evidence for events. False leaves the gate as a
    prediction that nothing else uses."""
    strokes: bool = False
    """Whether the motion model hears beats in its strokes: see :mod:`pyanticip.models.motion.strokes`."""
    scalar_input: bool = False
    """Whether the seven scalars of a feature row also enter the motion model's embedding. Otherwise they
    only steer, through bias and pathway gate."""
    pose_horizons: tuple[int, ...] = ()
    """Milliseconds ahead at which training also asks the motion model for the pose; empty for no such head.
    Nothing live computes it, and no graph contains it."""
    trajectory_strength: float | str = "auto"
    """Of trajectory positions: the most that a step adds to the position, 0 to 1; ``"auto"`` by content."""
    trajectory_content: str = "text"
    """What ``"auto"`` goes by: ``code`` .25, ``dialogue`` .15, ``random`` 0, anything else .2; see
    :func:`pyanticip.models.parts.positions.trajectory.strength.content_type`."""
    trajectory_magnitude: float = 2.0
    """Factor of the embedding's step inside the hyperbolic tangent."""
    trajectory_interpolation: str = "exact"
    """``"exact"`` encodes the position itself, ``"linear"`` (the paper's) and ``"cubic"`` look between whole
    ones."""
    trajectory_scale: str = "none"
    """``"rms"`` measures a step by the root mean square of all steps so far."""
    trajectory_cache: int = 0
    """Sequences whose displacements are kept; the paper's 10,000 cost more than they save, see
    docs/experiments/trajectory-positions/page.md."""
    theta: float = 0.8
    """Commitment threshold of the inference rule, lowered while waiting."""
    max_buffer: int = 5
    """Steps after which the inference rule emits in any case."""

    prism_cursors: int = 8
    """Query cursors of PRISM positions, and as many key cursors; all layers and heads share them."""
    prism_width: int = 32
    """Numbers in the place of one cursor, even."""
    prism_places: int = 256
    """PositionVectors that a cursor can be at; it stays at the last one when it would go further."""
    prism_hidden: int = 100
    """Width of the recurrent network that decides how cursors move."""
    prism_sharpen: bool = True
    """Whether histograms are raised to a learned power above 1 after every step."""
    prism_copy: bool = False
    """Whether one query cursor in five can jump to where an earlier key stands; the keys' cursors that belong
    to those only count steps."""
    prism_copy_width: int = 32
    """Width of the attention that says where to."""
    prism_absolute: bool = False
    """Whether the number of the step stands beside the cursors, as one more."""
    prism_norm: str = "row"
    """Vectors of a step are brought to one length: ``"row"`` each by its own, ``"fixed"`` by the constant
    that does so where cursors are at one place each."""
    prism_orthogonal: str = "exact"
    """Recurrence of each gate: ``"exact"`` stays orthogonal, ``"penalty"`` starts so and asks the trainer to
    add a penalty, ``"none"`` neither."""
    prism_reset: float = 0.5
    """Chance of a reset before training."""
    prism_spread: float = 0.0
    """Standard deviation, in logits, by which cursors differ in their habits before training."""
    prism_alpha: float = 1.0
    """Where the weights of cursors in attention start, on average; spread over half of that and one and a
    half times that."""
    prism_base: float = 10_000.0
    """Longest wave of the sinusoids, over two pi."""
    prism_again: int = 0
    """Layer of a plain transformer, counted from 1, before which new places are made from what the stream is
    there; 0 for none."""

    field_width: int = 8
    """Width of the control field's fibre."""
    field_hidden: int = 16
    """Width of the hidden layer that reads the risk."""
    field_momentum: float = 0.9
    """How much of the held risk is left one step later."""
    field_half_life: float = 0.0
    """Steps after which half of the held risk is left, in place of ``field_momentum``; 0 for the latter."""
    field_gate: float = 1.0
    """Where lambda starts, the learned scale of the attention gate."""
    field_curvature: float = 0.1
    """Lambda_k, the scale of the curvature in the feed-forward gate."""
    field_input: bool = False
    """Whether the motion model also reads a risk off every frame before its filter, and goes on with the last
    trusted frames in place of risky ones; see :mod:`pyanticip.models.motion.frame_hold`."""

    plan_tokens: int = 50
    """How many steps ahead the anticipator looks, and how many codes a plan names at most."""
    plan_codes: int = 512
    """Size of the codebook of motion frames; token models plan with their tokens."""
    plan_inference: str = "recurrent"
    """Where plans come from when the model runs: ``"recurrent"`` what the same stream anticipated one step
    before; ``"passes"`` what a pass before this one did (:mod:`pyanticip.models.parts.planning.passes`)."""
    plan_refine: int = 1
    """How often anticipations are passed back, with ``"passes"``."""
    plan_paper: bool = False
    """Plan attention to the paper's letter: scores over d, weights after the softmax."""
    plan_floor: float = 1e-5
    """Codes rarer than this count as this frequent when plans are selected."""
    plan_hidden: int = 32
    """Hidden width of the anticipation simulator."""

    def __post_init__(self) -> None:
        for name, values in _AVAILABLE.items():
            given = getattr(self, name)
            if not any(given is v or (isinstance(v, str) and given == v) for v in values):
                raise OptionError(
                    f"model option {name}={given!r} is not available: choose from "
                    + ", ".join(repr(v) for v in values)
                )
        for name, low, high in (
            ("slow_stride", 1, 10_000),
            ("d_model", 2, 65_536),
            ("heads", 1, 56),
            ("fast_layers", 1, 256),
            ("slow_layers", 0, 256),
            ("ff", 1, 1_048_576),
            ("window", 2, 1_048_576),
            ("pools", 2, 1_048_576),
            ("taps", 2, 1024),
            ("control_hidden", 1, 65_536),
            ("max_buffer", 1, 10_000),
            ("prism_cursors", 1, 4096),
            ("prism_width", 2, 65_536),
            ("prism_places", 3, 1_048_576),
            ("prism_hidden", 1, 65_536),
            ("prism_copy_width", 1, 65_536),
            ("prism_again", 0, 256),
            ("field_width", 1, 65_536),
            ("field_hidden", 1, 65_536),
            ("plan_tokens", 1, 4096),
            ("plan_codes", 2, 65_536),
            ("plan_refine", 1, 16),
            ("plan_hidden", 1, 4096),
            ("vocab", 0, 10_000_000),
            ("max_seq_len", 0, 1_048_576),
            ("trajectory_cache", 0, 10_000_000),
        ):
            given = getattr(self, name)
            if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
                raise OptionError(
                    f"model option {name} must be a whole number from {low} to {high}, got {given!r}"
                )
        for name, below in (
            ("dropout", 1.0),
            ("theta", 1.0),
            ("dist_scale", 1e6),
            ("field_momentum", 1.0),
            ("field_half_life", 1e6),
            ("field_gate", 100.0),
            ("field_curvature", 100.0),
            ("plan_floor", 1.0),
            ("prism_reset", 1.0),
            ("prism_spread", 100.0),
            ("prism_alpha", 1e6),
            ("prism_base", 1e12),
        ):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0.0 <= given < below:
                raise OptionError(f"model option {name} must be from 0 to below {below:g}, got {given!r}")
        object.__setattr__(self, "pose_horizons", _pose_horizons(self.pose_horizons))
        if self.d_model % self.heads or self.d_model % 2:
            raise OptionError(
                f"d_model must be even and a multiple of heads={self.heads}, got {self.d_model}"
            )
        if self.bias != "none" and 56 % self.heads:
            raise OptionError(f"heads must divide 56 for the trajectory bias, got {self.heads}")
        if self.positions == "rope" and self.d_model // self.heads % 2:
            raise OptionError(f"rope needs d_model / heads to be even, got {self.d_model} / {self.heads}")
        self._check_parts()
        self._check_trajectory()
        self._check_planning()
        self._check_prism()
        if (self.vocab > 0) != (self.max_seq_len > 0):
            raise OptionError(
                "a token model needs vocab and max_seq_len, both at least 1, "
                f"got {self.vocab} and {self.max_seq_len}"
            )

    def _check_trajectory(self) -> None:
        strength, magnitude = self.trajectory_strength, self.trajectory_magnitude
        number = isinstance(strength, (int, float)) and not isinstance(strength, bool)
        if strength != "auto" and not (number and 0.0 <= float(strength) <= 1.0):
            raise OptionError(f"trajectory_strength must be 'auto' or a number from 0 to 1, got {strength!r}")
        if isinstance(magnitude, bool) or not isinstance(magnitude, (int, float)) or not 0 < magnitude < 1e6:
            raise OptionError(f"trajectory_magnitude must be above 0 and below 1e6, got {magnitude!r}")
        if not isinstance(self.trajectory_content, str) or not self.trajectory_content:
            raise OptionError(f"trajectory_content must be a word, got {self.trajectory_content!r}")
        if self.trajectory_strength != "auto" and self.trajectory_content != "text":
            raise OptionError(
                f"trajectory_content={self.trajectory_content!r} decides trajectory_strength='auto', "
                f"but the strength is given: {strength!r}"
            )

    def _check_prism(self) -> None:
        for name, least in (("prism_reset", 0.0), ("prism_alpha", 0.0), ("prism_base", 1.0)):
            given = getattr(self, name)
            if not given > least:
                raise OptionError(f"model option {name} must be above {least:g}, got {given!r}")
        if self.prism_width % 2:
            raise OptionError(f"prism_width must be even, got {self.prism_width}")
        if not self.prism_copy and self.prism_copy_width != ModelConfig.prism_copy_width:
            raise OptionError(
                f"model option prism_copy_width={self.prism_copy_width!r} does nothing with "
                "prism_copy=False: choose prism_copy=True, or leave it out"
            )

    def _check_parts(self) -> None:
        """Refuse options of parts that are not there, and a control field that contradicts itself."""
        for field in dataclasses.fields(self):
            for prefix, (switch, on) in _PARTS.items():
                given = getattr(self, field.name)
                if field.name.startswith(prefix) and given != field.default and getattr(self, switch) != on:
                    raise OptionError(
                        f"model option {field.name}={given!r} does nothing with {switch}="
                        f"{getattr(self, switch)!r}: choose {switch}={on!r}, or leave it out"
                    )
        if self.strokes and (self.vocab or not self.kinematics or self.graphs != "parts"):
            raise OptionError("strokes=True needs a motion model with kinematics, graphs of its blocks alone")
        if self.field_input and self.vocab:
            raise OptionError("field_input=True does nothing in a token model: its frames are tokens")
        if self.field_half_life and self.field_momentum != ModelConfig.field_momentum:
            raise OptionError(
                "field_half_life and field_momentum say the same thing twice: give one of them, got "
                f"{self.field_half_life!r} and {self.field_momentum!r}"
            )
        if not self.field_momentum or not self.field_gate:
            name = "field_gate" if self.field_momentum else "field_momentum"
            raise OptionError(f"model option {name} must be above 0, got {getattr(self, name)!r}")
        if 0 < self.field_half_life < 0.01:
            raise OptionError(f"field_half_life must be at least 0.01 steps, got {self.field_half_life!r}")

    def _check_planning(self) -> None:
        """Refuse what planning cannot mean."""
        if self.plan_refine > 1 and self.plan_inference == "recurrent":
            raise OptionError(
                f"plan_refine={self.plan_refine} needs plan_inference='passes': recurrent plans go back "
                "at every step already"
            )
        if self.vocab and self.plan_codes != ModelConfig.plan_codes:
            raise OptionError(
                f"plan_codes={self.plan_codes} does nothing in a token model: it plans with its tokens"
            )
        if not self.plan_floor:
            raise OptionError(f"model option plan_floor must be above 0, got {self.plan_floor!r}")

    @classmethod
    def small(cls, *, paper: bool = False, **changes: Any) -> "ModelConfig":
        """The paper's small token model: d 128, 4 heads, 2 + 2 layers, vocabulary 1000, length 256.

        :param paper: start and kernel to the paper's letter, where the defaults are corrected.
        :param changes: any field; the slow pathway's context follows ``max_seq_len`` and ``slow_stride``.
        """
        return cls._token({**_SMALL, **(_PAPER if paper else {}), **changes})

    @classmethod
    def default(cls, *, paper: bool = False, **changes: Any) -> "ModelConfig":
        """The paper's default token model: d 512, 8 heads, 3 + 3 layers, vocabulary 32,000, length 2048; see
        :meth:`small`."""
        return cls._token({**_DEFAULT, **(_PAPER if paper else {}), **changes})

    @classmethod
    def _token(cls, fields: dict[str, Any]) -> "ModelConfig":
        fields = {**_TOKENS, **fields}
        if fields.get("planning"):
            fields.setdefault("plan_inference", "passes")
        length, stride = fields["max_seq_len"], fields["slow_stride"]
        if isinstance(length, int) and isinstance(stride, int) and stride > 0:
            # Global attention: the context covers the longest sequence.
            fields.setdefault("pools", max(2, -(-length // stride)))
        return cls.from_dict(fields)

    @property
    def fast_past(self) -> int:
        """Past steps that local attention reaches, the step itself not counted."""
        return self.window // 2

    @property
    def slow_past(self) -> int:
        """Past pools that the slow pathway reaches, the newest one not counted."""
        return self.pools - 1

    @property
    def field_decay(self) -> float:
        """How much of the control field's held risk is left one step later."""
        return math.exp2(-1.0 / self.field_half_life) if self.field_half_life else self.field_momentum

    @property
    def pooled(self) -> bool:
        """Whether there is a slow pathway that runs on some steps only."""
        return self.slow_layers > 0 and self.slow_stride > 1

    @property
    def graphs(self) -> str:
        """How a motion model goes live: ``"parts"``, the blocks as graphs and the rest in the Rust core, for
        the kind of model that comes with the package; ``"whole"``, each frame a graph, for all others."""
        plain = self.positions == "none" and self.bias != "random" and self.slow_layers > 0
        return "parts" if plain and not self.control_field and not self.planning else "whole"

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, for a checkpoint's JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ModelConfig":
        """Rebuild a configuration from :meth:`to_dict`.

        :raises OptionError: an unknown field (with the nearest known one), or a value out of range.
        """
        refuse_unknown(cls, fields, "model")
        return cls(**fields)


def refuse_unknown(config: type, fields: Mapping[str, Any], what: str) -> None:
    """Check the names of saved fields against those of a configuration's dataclass.

    :param what: whose options they are, for the message.
    :raises OptionError: one that it does not have, with the nearest that it has.
    """
    known = [f.name for f in dataclasses.fields(config)]
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise OptionError(f"unknown {what} option {name!r}{hint}")


def _pose_horizons(given: Any) -> tuple[int, ...]:
    """Whole frames at 50 Hz, ascending, at most two seconds."""
    found = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    whole = all(isinstance(ms, int) and not isinstance(ms, bool) for ms in found)
    if not whole or any(ms % 20 or not 0 < ms <= 2000 for ms in found) or sorted(set(found)) != list(found):
        raise OptionError(
            f"model option pose_horizons must be ascending multiples of 20 ms up to 2000, got {given!r}"
        )
    return found


def visible_columns(config: ModelConfig) -> list[bool]:
    """For every column of a feature row whether the motion model's first layer sees it.

    Hidden are the scalars, unless they are an input, and with kinematics the rotation of the hips.
    """
    first, last = SCALAR_COLUMNS
    return [
        not (first <= column < last and not config.scalar_input) and not (column < 6 and config.kinematics)
        for column in range(FEATURES)
    ]
