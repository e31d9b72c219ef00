"""The motion transformer: feature rows in, sound parameters and events ahead of time out."""

from __future__ import annotations  # PyTorch 2.7 traces no annotation of a nested function

import math
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, overload

import torch
from torch import Tensor, nn

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.config import ModelConfig, row_widths, visible_columns
from pyanticip.models.core.bias import Orthogonality
from pyanticip.models.core.block import first_gate
from pyanticip.models.core.inputs import (
    add_step_axis,
    check_batch,
    check_finite,
    check_state,
    check_steering,
    check_tensor,
)
from pyanticip.models.core.layouts import exact
from pyanticip.models.core.part import GateTrace, Part, embed_fits, present
from pyanticip.models.core.streaming import State, part_of
from pyanticip.models.core.trunk import ScalarMode, Trunk, TrunkOutput, TrunkState
from pyanticip.models.motion.frame_hold import FrameHold
from pyanticip.models.motion.heads import ControlHead
from pyanticip.models.motion.kinematics import KINEMATICS, MEASURES, BodyKinematics
from pyanticip.models.motion.pose_window import PLACES, PoseWindow
from pyanticip.models.motion.smoothed import (
    CARRIED,
    JERK,
    QUANTITIES,
    SMOOTHED,
    SPEED,
    STRETCHES,
    VELOCITY_COLUMNS,
    SmoothedMeasures,
)
from pyanticip.models.motion.strokes import Strokes, StrokeState
from pyanticip.models.parts.planning.codebook import PlanCodebook
from pyanticip.models.parts.planning.passes import Passes, PlanState, Steps, trunk_passes
from pyanticip.models.parts.planning.signal import PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.vocabulary import FEATURES_V1, PARAMETERS, SCALAR_COLUMNS

CLIP = 10.0
"""Normalised features are clipped to this many standard deviations, so that one glitch cannot dominate a
window."""

_MEASURED = (("pitch", 1), ("loudness", 1), ("brightness", 1), ("density", 1), ("space", 1), ("pan", -1))
"""The parameter that each measure corresponds to, and the sign."""


@dataclass(frozen=True)
class MotionOutput:
    """Output of the model at every step (B batch, L steps).

    ``params`` (B, L, 8, 5) sound parameters, linear 0..1, at the horizons; ``events`` (B, L, 2, 25) hazard
    logits per 20 ms bin ahead; ``scalars`` (B, L, 7) of the refined head and ``initial`` (B, L, 7) of the
    initial head, native units; ``gate`` (B, L) commitment; ``share`` (B, L) of the fast pathway; ``hidden``
    (B, L, D). Of optional parts: ``field`` the trace of the blocks' control fields, ``plan`` the plans (codes
    of motion frames and weights) that each step attended to, ``anticipation`` (B, L, C) log-scores of all
    codes for the next steps, and ``distrust`` (B, L) the risk of the input frames.
    """

    params: Tensor
    events: Tensor
    scalars: Tensor
    initial: Tensor
    gate: Tensor
    share: Tensor
    hidden: Tensor
    field: GateTrace | None = None
    plan: PlanChoice | None = None
    anticipation: Tensor | None = None
    distrust: Tensor | None = None


@dataclass
class MotionState(State):
    """The trunk's state and the last ``taps - 1`` embedded frames (B, taps - 1, D), oldest first; of optional
    parts the states of positions, plans and strokes, the last ``taps - 1`` trusted frames (B, taps - 1, D),
    and the last poses (B, pose_window - 1, 67)."""

    trunk: TrunkState
    taps: Tensor
    positions: State | tuple[()] = ()
    planning: PlanState | tuple[()] = ()
    trusted: Tensor | tuple[()] = ()
    strokes: StrokeState | tuple[()] = ()
    poses: Tensor | tuple[()] = ()


class MotionForwardOptions(TypedDict, total=False):
    """Keyword arguments of :meth:`MotionTransformer.forward`."""

    mode: ScalarMode
    scalars: Tensor | None
    predicted: Tensor | None
    due: bool | None
    plan: PlanChoice | None
    boost: Tensor | None


@dataclass
class Front:
    """Output of the front-end for a chunk: ``embedded`` steps (B, L, D), the frames ``taps`` that the filter
    needs next, and features of the last frames ``recent`` for the control head. Of optional parts: ``beats``
    (B, L, 37) the output of the strokes, ``distrust`` (B, L), the states ``strokes`` and ``trusted`` of both,
    and ``poses`` (B, pose_window - 1 + L, 67)."""

    embedded: Tensor
    taps: Tensor
    recent: Tensor | None = None
    beats: Tensor | None = None
    strokes: StrokeState | tuple[()] = ()
    distrust: Tensor | None = None
    trusted: Tensor | tuple[()] = ()
    poses: Tensor | None = None


class MotionTransformer(nn.Module):
    """Feature rows -> normalise, body kinematics -> linear -> short causal filter -> dual-pathway trunk ->
    control heads.

    With ``cfg.kinematics`` the model sees the joints' positions and velocities (computed from the rows, see
    :mod:`pyanticip.models.motion.kinematics`), and of the rotation of the hips only the direction of gravity:
    its output does not depend on the performer's heading.

    The measures among the kinematics also go directly to the control head, where a linear filter over the
    last frames, and over their averages (:mod:`pyanticip.models.motion.smoothed`), holds or extrapolates
    them; the trunk adds a correction.

    The seven scalar columns of the features never enter the embedding: they reach the trunk only as external
    scalars, through bias and gates. So the anticipation heads, which are trained on those scalars, must infer
    them from movement, and the model can run on its own predictions (``mode``).

    Args:
        cfg: sizes and options; ``None`` for the defaults of :class:`~pyanticip.models.config.ModelConfig`.

    Raises:
        OptionError: with kinematics, a ``d_model`` that is not larger than the body's own channels.
    """

    mean: Tensor
    std: Tensor
    visible: Tensor
    velocities: Tensor

    def __init__(self, cfg: ModelConfig | None = None) -> None:
        super().__init__()
        cfg = cfg or ModelConfig()
        if cfg.vocab:
            raise OptionError(f"the motion model reads no tokens: vocab must be 0, got {cfg.vocab}")
        self.cfg = cfg
        self.register_buffer("mean", torch.zeros(cfg.columns))
        self.register_buffer("std", torch.ones(cfg.columns))
        self.register_buffer("visible", torch.tensor(visible_columns(cfg)).to(self.mean), persistent=False)
        self.kinematics = BodyKinematics() if cfg.kinematics else None
        self.smoothed = SmoothedMeasures(cfg.taps) if cfg.kinematics else None
        self.direct = CARRIED if cfg.kinematics else 0
        if cfg.d_model <= self.direct:
            raise OptionError(
                f"d_model must be over {CARRIED}, the channels that the kinematics fill, got {cfg.d_model}"
            )
        columns = cfg.columns + torch.tensor(VELOCITY_COLUMNS)
        self.register_buffer("velocities", columns, persistent=False)
        self.front = nn.Linear(cfg.columns + (KINEMATICS if cfg.kinematics else 0), cfg.d_model - self.direct)
        # One causal filter per channel, oldest tap first, initially the identity.
        filters = torch.zeros(cfg.taps, cfg.d_model)
        filters[-1] = 1.0
        self.filters = nn.Parameter(filters)
        self.trusted = FrameHold(cfg.d_model) if cfg.holds_frames else None
        self.dropout = nn.Dropout(cfg.dropout)
        self.trunk = Trunk(cfg)
        recent = cfg.taps * MEASURES + SMOOTHED if cfg.kinematics else 0
        self.control = ControlHead(cfg, recent)
        self.strokes = Strokes() if cfg.strokes else None
        self.poses = PoseWindow(cfg.pose_window) if cfg.pose_window else None
        for linear in (self.front, self.control.first, self.control.last):
            nn.init.normal_(linear.weight, 0.0, linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)
        if cfg.twin:
            # The trunk's correction is initially 0.
            nn.init.zeros_(self.control.last.weight[: math.prod(self.control.params)])
        if self.control.recent is not None:
            # Initially hold the mean of the last 80 ms, for the parameters that a measure corresponds to.
            weight = torch.zeros(*self.control.params, MEASURES, cfg.taps)
            for measure, (name, sign) in enumerate(_MEASURED):
                weight[PARAMETERS.index(name), :, measure, -4:] = sign / min(cfg.taps, 4)
            # No single frame's measure corresponds to roughness: it is jerk over speed, averaged over all
            # windows.
            smoothed = torch.zeros(*self.control.params, len(STRETCHES), QUANTITIES)
            smoothed[PARAMETERS.index("roughness"), ..., JERK] = 1.0 / len(STRETCHES)
            smoothed[PARAMETERS.index("roughness"), ..., SPEED] = -1.0 / len(STRETCHES)
            start = torch.cat((weight.flatten(2), smoothed.flatten(2)), 2)
            with torch.no_grad():
                self.control.recent.weight.copy_(start.flatten(0, 1))

        self.codebook = None if cfg.planning is None else PlanCodebook(cfg.planning.codes)
        codes = 0 if cfg.planning is None else cfg.planning.codes
        self.planning: PlanningSignal | None = cfg.build(
            "planning", codes, self.trunk.fast, self.trunk.positions
        )

    def parts(self) -> list[Part]:
        """The model's parts."""
        return present(first_gate(self.trunk.fast), self.trusted, self.planning, self.trunk.positions)

    def set_normalisation(self, mean: Tensor, std: Tensor) -> None:
        """Set the statistics (cfg.columns,) of the training subjects' features; constant ones keep scale 1.

        Raises:
            ShapeError: other shapes, or values that are not finite.
        """
        columns = self.cfg.columns
        for name, value in (("mean", mean), ("std", std)):
            if value.shape != (columns,) or not bool(torch.isfinite(value).all()):
                raise ShapeError(f"{name} must be {columns} finite values, got shape {tuple(value.shape)}")
        with torch.no_grad():
            self.mean.copy_(mean)
            self.std.copy_(torch.where(std > 1e-6, std, torch.ones_like(std)))

    def initial_state(self, batch: int) -> MotionState:
        """The state before the first frame, for ``batch`` independent rows."""
        check_batch(batch)
        taps = self.filters.new_zeros(batch, self.cfg.taps - 1, self.cfg.d_model)
        state = MotionState(self.trunk.initial_state(batch), taps)
        state.positions = self.trunk.positions.embed_state(batch, self.filters)
        if self.trusted is not None:
            state.trusted = torch.zeros_like(taps)
        if self.strokes is not None:
            state.strokes = self.strokes.initial_state(batch)
        if self.poses is not None:
            state.poses = self.poses.initial_state(batch, self.filters)
        state.planning = self._passes("external", None, None).initial_state(batch, external=True)
        return state

    def observe(self, x: Tensor) -> Tensor:
        """Embedded frames (..., D) of raw feature rows (..., n), before the causal filter."""
        return self.condense(self.normalised(x))

    def normalised(self, x: Tensor) -> Tensor:
        """Rows (..., columns and kinematics) of roughly unit scale from raw feature rows (..., n), of which
        the first ``cfg.columns`` are read."""
        if x.shape[-1] > self.cfg.columns:
            x = x[..., : self.cfg.columns]
        normalised_rows = ((x - self.mean) * (self.visible / self.std)).clamp(-CLIP, CLIP)
        if self.kinematics is not None:
            normalised_rows = torch.cat((normalised_rows, self.kinematics(x).clamp(-CLIP, CLIP)), -1)
        return normalised_rows

    def condense(self, normalised_rows: Tensor) -> Tensor:
        """Embedded frames (..., D) of normalised rows (..., columns and kinematics): a projection, and in
        the last channels the velocities of the body's ends and the measures, unchanged."""
        raw: Tensor = self.front(normalised_rows)
        if self.direct:
            raw = torch.cat(
                (raw, normalised_rows[..., self.velocities], normalised_rows[..., -MEASURES:]), -1
            )
        return raw

    def recent(self, joined: Tensor) -> Tensor:
        """Features of the last frames for the control head, (..., L, taps * MEASURES + SMOOTHED), from
        embedded frames (..., taps - 1 + L, D): the measures, each oldest first, and the averaged ones."""
        assert self.smoothed is not None
        windows = joined[..., -self.direct :].unfold(-2, self.cfg.taps, 1)  # (..., L, CARRIED, taps)
        measures = windows[..., -MEASURES:, :].flatten(-2)
        return torch.cat((measures, self.smoothed(windows.transpose(-1, -2))), -1)

    def embed(self, x: Tensor, state: MotionState | None = None) -> Front:
        """Run the front-end on raw features (B, L, n) that follow ``state``."""
        normalised_rows, length = self.normalised(x), x.shape[1]
        raw = self.condense(normalised_rows)
        frames = self._after(None if state is None else state.taps, raw)
        front = Front(raw, frames[:, length:])
        if self.trusted is not None:
            before = None if state is None else state.trusted
            assert not isinstance(before, tuple)
            last = raw.new_zeros(raw.shape[0], raw.shape[2]) if before is None else before[:, -1]
            held, front.distrust = self.trusted(raw, self._filter(frames), last)
            frames = self._after(before, held)
            front.trusted = frames[:, length:]
        front.embedded = self._filter(frames)
        if self.direct:
            front.recent = self.recent(frames)
        if self.strokes is not None:
            speeds = frames[:, -length:, -self.direct : -MEASURES]
            front.beats, front.strokes = self.strokes(speeds, part_of(state, "strokes"))
        if self.poses is not None:
            before = None if state is None else state.poses
            assert not isinstance(before, tuple)
            places = normalised_rows[..., self.cfg.columns : self.cfg.columns + PLACES]
            front.poses = self.poses.joined(places, before)
        return front

    def _after(self, before: Tensor | None, frames: Tensor) -> Tensor:
        """Frames (B, L, D) preceded by the ``taps - 1`` frames ``before``, zeros at a stream's start."""
        if before is None:
            before = frames.new_zeros(frames.shape[0], self.cfg.taps - 1, frames.shape[2])
        return torch.cat((before, frames), 1)

    def _filter(self, joined: Tensor) -> Tensor:
        """Filtered frames (B, L, D) of embedded ones (B, taps - 1 + L, D)."""
        if joined.shape[1] == self.cfg.taps:
            return (joined * self.filters).sum(1, keepdim=True)
        return torch.einsum("bldt,td->bld", joined.unfold(1, self.cfg.taps, 1), self.filters)

    @overload
    def forward(
        self, x: Tensor, state: None = None, **options: Unpack[MotionForwardOptions]
    ) -> MotionOutput: ...

    @overload
    def forward(
        self, x: Tensor, state: MotionState, **options: Unpack[MotionForwardOptions]
    ) -> tuple[MotionOutput, MotionState]: ...

    def forward(
        self,
        x: Tensor,
        state: MotionState | None = None,
        *,
        mode: ScalarMode = "external",
        scalars: Tensor | None = None,
        predicted: Tensor | None = None,
        due: bool | None = None,
        plan: PlanChoice | None = None,
        boost: Tensor | None = None,
    ) -> MotionOutput | tuple[MotionOutput, MotionState]:
        """Run whole sequences from their start, or a chunk of any length that follows ``state``.

        Args:
            x: (B, L, n) raw feature rows at 50 Hz of version 1 (231) or 2 (279), of which ``cfg.columns`` are
                read.
            state: the state before these frames; ``None`` for sequences from their start, then the output is
                returned alone. Without gradients the rings of this state are written in place: continue with
                the returned state.
            mode: which scalars steer the model: ``external`` those in the features, ``initial`` the initial
                head's, ``refined_prev`` the refined head's of the previous step.
            scalars: (B, L, 7) scalars in place of those in the features.
            predicted: (B, L) bool, steps where the initial head's scalars replace the external ones.
            due: whether a slow pool closes in this chunk, if the caller knows.
            plan: plans (B, L, K) to use in place of the model's own, such as those drawn for training.
            boost: (C,) or (B, 1, C), added to the contrasts by which the model's own plans are selected:
                positive values favour a code, -inf forbids it.

        Raises:
            OptionError: an unknown ``mode``, or ``plan`` or ``boost`` for a model without planning.
            ShapeError: x is not (B, L, n) with B, L >= 1 and an accepted width, not of the weights' dtype or
                not finite; scalars, ``predicted``, ``plan``, ``boost`` or the state do not fit.
        """
        self._check(x)
        check_steering(scalars, predicted, *x.shape[:2])
        if state is not None and not torch.compiler.is_compiling():
            check_state(self._fits(state))
        if state is not None and state.taps.shape[0] != x.shape[0]:
            raise ShapeError(f"the state has {state.taps.shape[0]} rows, the features have {x.shape[0]}")
        if mode not in ("external", "initial", "refined_prev"):
            raise OptionError(f"mode must be external, initial or refined_prev, got {mode!r}")
        with exact(x):
            front = self.embed(x, state)
        before = None if state is None else state.trunk
        added, positions = self.trunk.positions.embed(
            front.embedded, None if before is None else before.frames, part_of(state, "positions")
        )
        embedded = self.dropout(front.embedded if added is None else front.embedded + added)
        external = x[..., slice(*SCALAR_COLUMNS)] if scalars is None else scalars.to(x.dtype)
        codes = None
        if self.codebook is not None and self.planning is not None and not self.planning.recurrent:
            codes = self.codebook(x)
        result = self._passes(mode, before, due, x.shape[1])(
            Steps(embedded, codes, added, external, predicted),
            before,
            part_of(state, "planning"),
            plan=plan,
            boost=boost,
        )
        trunk = result.out
        with exact(x):
            hidden, gate = trunk.hidden.to(x.dtype), trunk.gate.to(x.dtype)
            twin = x[..., FEATURES_V1:] if self.cfg.twin else None
            params, events = self.control(hidden, gate, front.recent, front.beats, twin)
            if self.poses is not None and front.poses is not None:
                params = 0.5 * (params + self.poses(front.poses, external, x))
        out = MotionOutput(
            params,
            events,
            trunk.scalars,
            trunk.initial,
            trunk.gate[..., 0],
            trunk.share,
            trunk.hidden,
            trunk.field,
            result.choice,
            result.anticipation,
            front.distrust,
        )
        if state is None:
            return out
        assert result.state is not None
        poses = () if front.poses is None else front.poses[:, x.shape[1] :]
        parts = (positions, result.planning, front.trusted, front.strokes, poses)
        return out, MotionState(result.state, front.taps, *parts)

    def _fits(self, state: Any) -> bool:
        """Whether a state is one of this configuration."""
        shape = (self.cfg.taps - 1, self.cfg.d_model)
        if not isinstance(state, MotionState) or state.taps.shape[1:] != shape:
            return False
        parts = (self.trusted, state.trusted), (self.strokes, state.strokes), (self.poses, state.poses)
        return (
            all((part is None) == isinstance(own, tuple) for part, own in parts)
            and self.trunk.fits(state.trunk)
            and embed_fits(self.trunk.positions, state.positions, self.filters)
            and self._passes("external", None, None).fits(state.planning)
        )

    def _check(self, x: Tensor) -> None:
        widths = row_widths(self.cfg.columns)
        expected = " or ".join(map(str, widths))
        check_tensor(x, "features", f"(B, L, {expected})")
        if x.ndim != 3 or x.shape[2] not in widths or not x.numel():
            shape = tuple(x.shape)
            raise ShapeError(f"features must be (B, L, {expected}) with B >= 1 and L >= 1, got {shape}")
        if x.dtype != self.filters.dtype:
            raise ShapeError(f"features must be {self.filters.dtype} as the weights are, got {x.dtype}")
        check_finite(x, "features")

    def _passes(
        self, mode: ScalarMode, current: TrunkState | None, due: bool | None, length: int = 1
    ) -> Passes[TrunkOutput, TrunkState]:
        """Runs the trunk, with plans if the model makes them; ``due`` applies to the ``current`` state and
        whole chunks, not to states that lag."""

        def due_for(steps: Steps, state: TrunkState | None) -> bool | None:
            return due if state is current and steps.embedded.shape[1] == length else None

        return trunk_passes(self.trunk, self.planning, mode, due_for)

    def step(
        self,
        x: Tensor,
        state: MotionState,
        *,
        mode: ScalarMode = "external",
        due: bool | None = None,
        plan: PlanChoice | None = None,
        boost: Tensor | None = None,
    ) -> tuple[MotionOutput, MotionState]:
        """Run :meth:`forward` on one frame (B, n) or (B, 1, n), with ``boost`` (B, C) or (B, 1, C). Outputs
        have an L axis of length 1."""
        check_tensor(x, "features", "(B, n) or (B, 1, n)")
        return self.forward(
            add_step_axis(x), state, mode=mode, due=due, plan=plan, boost=add_step_axis(boost)
        )

    def orthogonality(self) -> Orthogonality | None:
        """Overlap of the bias heads' directions, ``None`` without a trajectory bias."""
        return None if self.trunk.bias is None else self.trunk.bias.orthogonality()
