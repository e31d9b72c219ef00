"""The motion transformer: feature rows in, sound parameters and events ahead of time out."""

import math
from dataclasses import dataclass, replace
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
from pyanticip.models.core.plan import Plan
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
from pyanticip.models.parts.planning.passes import Passes, PlanState, Steps
from pyanticip.models.parts.planning.signal import PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.vocabulary import FEATURES_V1, PARAMETERS, SCALAR_COLUMNS

CLIP = 10.0
"""Normalised features are clipped to this many standard deviations, so that one glitch cannot flood a
window."""

_MEASURED = (("pitch", 1), ("loudness", 1), ("brightness", 1), ("density", 1), ("space", 1), ("pan", -1))


@dataclass(frozen=True)
class MotionOutput:
    """What the model says at every step (B batch, L steps).

    ``params`` (B, L, 8, 5) sound parameters, linear 0..1, at the horizons; ``events`` (B, L, 2, 25) hazard
    logits per 20 ms bin ahead; ``scalars`` (B, L, 7) of the refined head and ``initial`` (B, L, 7) of the
    initial head, native units; ``gate`` (B, L) commitment; ``share`` (B, L) of the fast pathway; ``hidden``
    (B, L, D); ``field`` what the blocks' control fields say, ``plan`` the codes of motion frames (and their
    weights) that each step was told to expect, and ``anticipation`` (B, L, C) log-scores of all codes for the
    steps after it, and ``distrust`` (B, L) the risk of the frames as they came, where there are such.
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
    """The trunk's state and the last ``taps - 1`` embedded frames (B, taps - 1, D), oldest first; where there
    are such, what positions and plans need to remember, the last ``taps - 1`` trusted frames (B, taps - 1,
    D), the strokes and the last poses (B, pose_window - 1, 67)."""

    trunk: TrunkState
    taps: Tensor
    positions: State | tuple[()] = ()
    planning: PlanState | tuple[()] = ()
    trusted: Tensor | tuple[()] = ()
    strokes: StrokeState | tuple[()] = ()
    poses: Tensor | tuple[()] = ()


class MotionHow(TypedDict, total=False):
    """What :meth:`MotionTransformer.forward` may be told besides."""

    mode: ScalarMode
    scalars: Tensor | None
    predicted: Tensor | None
    due: bool | None
    plan: PlanChoice | None
    boost: Tensor | None


@dataclass(frozen=True)
class Front:
    """What the front-end makes of a chunk: ``embedded`` steps (B, L, D), the frames that the filter needs
    next in ``taps``, what the control head is told about the last ones in ``recent``; where there are such,
    how the strokes stand in ``beats`` (B, L, 37), ``distrust`` (B, L), and the states of both; the last
    ``poses`` (B, pose_window - 1 + L, 67)."""

    embedded: Tensor
    taps: Tensor
    recent: Tensor | None
    beats: Tensor | None = None
    strokes: StrokeState | tuple[()] = ()
    distrust: Tensor | None = None
    trusted: Tensor | tuple[()] = ()
    poses: Tensor | None = None


class MotionTransformer(nn.Module):
    """Feature rows -> normalise, body kinematics -> linear -> short causal filter -> dual-pathway trunk ->
    control heads.

    With ``cfg.kinematics`` the model sees where the joints are and how fast they go (computed from the rows,
    see :mod:`pyanticip.models.motion.kinematics`), and the rotation of the hips only as the direction of
    gravity: what it says does not depend on where the performer faces.

    The measures among the kinematics also go straight to the control head: there a linear filter over the
    last frames, and of what they are when smoothed first (:mod:`pyanticip.models.motion.smoothed`), holds or
    extrapolates them, and the trunk says what must be corrected.

    The seven scalar columns of the features never enter the embedding: they reach the trunk only as given
    scalars, through bias and gates. So the anticipation heads, supervised to those scalars, must infer them
    from movement, and the model can run on its own predictions (``mode``).

    Args:
        cfg: sizes and options; the default is the shipped model's.

    Raises:
        OptionError: with kinematics, a ``d_model`` that leaves no room beside the body's own channels.
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
        # One causal filter per channel, oldest tap first; it starts as the identity.
        filters = torch.zeros(cfg.taps, cfg.d_model)
        filters[-1] = 1.0
        self.filters = nn.Parameter(filters)
        self.trusted = FrameHold(cfg.d_model) if cfg.holds_frames else None
        self.dropout = nn.Dropout(cfg.dropout)
        self.trunk = Trunk(cfg)
        told = cfg.taps * MEASURES + SMOOTHED if cfg.kinematics else 0
        self.control = ControlHead(
            cfg.d_model,
            cfg.control_hidden,
            told,
            gated=cfg.gated_events,
            strokes=cfg.strokes,
            twin=cfg.twin,
            scaled=cfg.scaled,
        )
        self.strokes = Strokes() if cfg.strokes else None
        self.poses = PoseWindow(cfg.pose_window) if cfg.pose_window else None
        for linear in (self.front, self.control.first, self.control.last):
            nn.init.normal_(linear.weight, 0.0, linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)
        if cfg.twin:
            # What the trunk adds begins as nothing.
            nn.init.zeros_(self.control.last.weight[: math.prod(self.control.params)])
        if self.control.recent is not None:
            # Start as what holds the mean of the last 80 ms, for the parameters that a measure stands for.
            weight = torch.zeros(*self.control.params, MEASURES, cfg.taps)
            for measure, (name, sign) in enumerate(_MEASURED):
                weight[PARAMETERS.index(name), :, measure, -4:] = sign / min(cfg.taps, 4)
            # No measure of a frame stands for the roughness: jerk over speed, the mean of all stretches.
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
        """The parts that there are."""
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
        state.planning = self._passes("external", None, None).initial_state(batch, given=True)
        return state

    def observe(self, x: Tensor) -> Tensor:
        """Embedded frames (..., D) of raw feature rows (..., n), before the causal filter."""
        return self.condense(self.normalised(x))

    def normalised(self, x: Tensor) -> Tensor:
        """Rows (..., columns and kinematics) of roughly unit scale of raw feature rows (..., n); of wider
        rows than it reads the first ``cfg.columns``."""
        if x.shape[-1] > self.cfg.columns:
            x = x[..., : self.cfg.columns]
        seen = ((x - self.mean) * (self.visible / self.std)).clamp(-CLIP, CLIP)
        if self.kinematics is not None:
            seen = torch.cat((seen, self.kinematics(x).clamp(-CLIP, CLIP)), -1)
        return seen

    def condense(self, seen: Tensor) -> Tensor:
        """Embedded frames (..., D) of normalised rows (..., columns and kinematics): a projection, and in
        the last channels the velocities of the body's ends and the measures as they are."""
        raw: Tensor = self.front(seen)
        if self.direct:
            raw = torch.cat((raw, seen[..., self.velocities], seen[..., -MEASURES:]), -1)
        return raw

    def recent(self, joined: Tensor) -> Tensor:
        """What the control head is told about the last frames, (..., L, taps * MEASURES + SMOOTHED), of
        embedded frames (..., taps - 1 + L, D): the measures, oldest first within each, and smoothed ones."""
        assert self.smoothed is not None
        windows = joined[..., -self.direct :].unfold(-2, self.cfg.taps, 1)  # (..., L, CARRIED, taps)
        measures = windows[..., -MEASURES:, :].flatten(-2)
        return torch.cat((measures, self.smoothed(windows.transpose(-1, -2))), -1)

    def embed(self, x: Tensor, state: MotionState | None = None) -> Front:
        """What the front-end makes of raw features (B, L, n) that follow ``state``."""
        seen, length = self.normalised(x), x.shape[1]
        raw = self.condense(seen)
        joined = self._after(None if state is None else state.taps, raw)
        taps = joined[:, length:]
        if self.trusted is None:
            recent = self.recent(joined) if self.direct else None
            embedded = self._filter(joined)
            front = Front(embedded, taps, recent)
            if self.strokes is not None:
                speeds = joined[:, -length:, -self.direct : -MEASURES]
                front = Front(embedded, taps, recent, *self.strokes(speeds, part_of(state, "strokes")))
            if self.poses is not None:
                places = seen[..., self.cfg.columns : self.cfg.columns + PLACES]
                before = None if state is None else state.poses
                assert not isinstance(before, tuple)
                front = replace(front, poses=self.poses.joined(places, before))
            return front
        before = None if state is None else state.trusted
        assert not isinstance(before, tuple)
        last = raw.new_zeros(raw.shape[0], raw.shape[2]) if before is None else before[:, -1]
        frames, distrust = self.trusted(raw, self._filter(joined), last)
        kept = self._after(before, frames)
        recent = self.recent(kept) if self.direct else None
        return Front(self._filter(kept), taps, recent, distrust=distrust, trusted=kept[:, length:])

    def _after(self, before: Tensor | None, frames: Tensor) -> Tensor:
        """Frames (B, L, D) with the ``taps - 1`` before them in front, zeros at a start."""
        if before is None:
            before = frames.new_zeros(frames.shape[0], self.cfg.taps - 1, frames.shape[2])
        return torch.cat((before, frames), 1)

    def _filter(self, joined: Tensor) -> Tensor:
        """Filtered frames (B, L, D) of embedded ones (B, taps - 1 + L, D)."""
        if joined.shape[1] == self.cfg.taps:
            return (joined * self.filters).sum(1, keepdim=True)
        return torch.einsum("bldt,td->bld", joined.unfold(1, self.cfg.taps, 1), self.filters)

    @overload
    def forward(self, x: Tensor, state: None = None, **how: Unpack[MotionHow]) -> MotionOutput: ...

    @overload
    def forward(
        self, x: Tensor, state: MotionState, **how: Unpack[MotionHow]
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
            state: what came before; ``None`` starts afresh and returns the output alone. Without gradients
                the rings of this state are written in place: go on with the state that comes back.
            mode: which scalars steer the model: ``external`` those in the features, ``initial`` the initial
                head's, ``refined_prev`` the refined head's of the step before.
            scalars: (B, L, 7) scalars in place of those in the features.
            predicted: (B, L) bool, steps where the initial head's scalars replace the given ones.
            due: whether a slow pool closes in this chunk, where the caller knows.
            plan: what each step is told to expect, (B, L, K) codes and weights, in place of the model's own
                plans: those drawn for training, or some that were made elsewhere.
            boost: (C,) or (B, 1, C), added to the contrasts by which the model's own plans are selected:
                positive ones favour, -inf forbids a code.

        Raises:
            ShapeError: x is not (B, L, n) with B, L >= 1 and as many columns as are read, not of the weights'
                type or not finite; scalars, ``predicted``, ``plan``, ``boost`` or the state do not fit.
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
        given = x[..., slice(*SCALAR_COLUMNS)] if scalars is None else scalars
        codes = None
        if self.codebook is not None and self.planning is not None and not self.planning.recurrent:
            codes = self.codebook(x)
        foreseen = self._passes(mode, before, due, x.shape[1])(
            Steps(embedded, codes, added, given, predicted),
            before,
            part_of(state, "planning"),
            plan=plan,
            boost=boost,
        )
        trunk = foreseen.out
        with exact(x):
            hidden, gate = trunk.hidden.to(x.dtype), trunk.gate.to(x.dtype)
            twin = x[..., FEATURES_V1:] if self.cfg.twin else None
            params, events = self.control(hidden, gate, front.recent, front.beats, twin)
            if self.poses is not None and front.poses is not None:
                params = 0.5 * (params + self.poses(front.poses, given.to(x.dtype), x))
        out = MotionOutput(
            params,
            events,
            trunk.scalars,
            trunk.initial,
            trunk.gate[..., 0],
            trunk.share,
            trunk.hidden,
            trunk.field,
            foreseen.choice,
            foreseen.anticipation,
            front.distrust,
        )
        if state is None:
            return out
        assert foreseen.state is not None
        poses = () if front.poses is None else front.poses[:, x.shape[1] :]
        parts = (positions, foreseen.planning, front.trusted, front.strokes, poses)
        return out, MotionState(foreseen.state, front.taps, *parts)

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
        wide = " or ".join(map(str, widths))
        check_tensor(x, "features", f"(B, L, {wide})")
        if x.ndim != 3 or x.shape[2] not in widths or not x.numel():
            shape = tuple(x.shape)
            raise ShapeError(f"features must be (B, L, {wide}) with B >= 1 and L >= 1, got {shape}")
        if x.dtype != self.filters.dtype:
            raise ShapeError(f"features must be {self.filters.dtype} as the weights are, got {x.dtype}")
        check_finite(x, "features")

    def _passes(
        self, mode: ScalarMode, own: TrunkState | None, due: bool | None, length: int = 1
    ) -> Passes[TrunkOutput, TrunkState]:
        """How the trunk runs, with plans where the model makes some; ``due`` is known of its ``own`` state
        and whole chunks, not of states that lag."""

        def run(
            steps: Steps, state: TrunkState | None, plan: Plan | None
        ) -> tuple[TrunkOutput, TrunkState | None]:
            out: tuple[TrunkOutput, TrunkState | None] = self.trunk(
                steps.embedded,
                steps.given,
                state,
                mode=mode,
                predicted=steps.predicted,
                due=due if state is own and steps.embedded.shape[1] == length else None,
                plan=plan,
            )
            return out

        return Passes(self.planning, run, self.trunk.initial_state)

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
        """One frame (B, n) or (B, 1, n), its boost (B, C) with or without its L axis (1): ``forward`` with a
        state. Outputs keep theirs."""
        check_tensor(x, "features", "(B, n) or (B, 1, n)")
        return self.forward(
            add_step_axis(x), state, mode=mode, due=due, plan=plan, boost=add_step_axis(boost)
        )

    def orthogonality(self) -> Orthogonality | None:
        """The overlap of the bias heads' directions, ``None`` without a trajectory bias."""
        return None if self.trunk.bias is None else self.trunk.bias.orthogonality()
