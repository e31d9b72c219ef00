"""Where a model's plans come from at inference: its own anticipations, one step earlier.

Two modes, which differ in cost and in what a plan is based on:

``"passes"`` (the paper, section 4.1). In a first pass every step n - 1 attends to a single code, that of step
n; the anticipator's output at n - 1 becomes the plan of step n in a second pass. All steps of a sequence run
at once. A stream has two states, the first one step behind the second. ``refine`` > 1 adds passes: the plan
of step n in pass r + 1 is the anticipation of pass r at n - 1.

``"recurrent"``: the plan of step n is the anticipation of the same pass at n - 1. A stream costs one step per
step; a whole sequence has to be run step by step. It is the limit of ever more passes.

In both modes nothing at step n depends on later steps.
"""

from __future__ import annotations  # PyTorch 2.7 traces no annotation of a nested function

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.core.inputs import can_read_values, check_tensor
from pyanticip.models.core.part import join
from pyanticip.models.core.plan import Plan
from pyanticip.models.core.streaming import State
from pyanticip.models.core.trunk import ScalarMode, Trunk, TrunkOutput, TrunkState
from pyanticip.models.parts.planning.signal import PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice


class Hidden(Protocol):
    """Output of a pass."""

    @property
    def hidden(self) -> Tensor:
        """(B, L, D) after the final norm."""
        ...


Out = TypeVar("Out", bound=Hidden)
S = TypeVar("S", bound=State)


@dataclass
class StoredChoice(State):
    """A plan stored for the next step: ``codes`` (B, K) int64 and ``weights`` (B, K), 0 where empty."""

    codes: Tensor
    weights: Tensor

    @property
    def choice(self) -> PlanChoice:
        """The plan, of one step (B, 1, K)."""
        return PlanChoice(self.codes[:, None], self.weights[:, None])


@dataclass
class Lag(State):
    """The last step's input, for the pass that runs one step behind: ``embedded`` (B, D), its position
    encodings ``places`` (B, D), ``external`` scalars (B, 7) and ``predicted`` (B,), whether the model's own
    replace them; (B, 0) for what a model does not have."""

    embedded: Tensor
    places: Tensor
    external: Tensor
    predicted: Tensor


@dataclass
class PlanState(State):
    """Streaming state of plans: the ``choices`` for the next step; with passes also the ``lag``, valid in
    rows whose ``frames`` (B,) are above 0, and the states ``earlier`` of all passes but the last."""

    frames: Tensor
    choices: tuple[StoredChoice, ...]
    lag: Lag | tuple[()]
    earlier: tuple[State, ...]


@dataclass(frozen=True)
class Steps:
    """The input of a chunk: ``embedded`` (B, L, D) including positions, ``codes`` (B, L) of the steps, -1 for
    none; if the model has them ``places`` (B, L, D), the position encodings in ``embedded``, ``external``
    scalars (B, L, 7) and ``predicted`` (B, L), where the model's own scalars replace them."""

    embedded: Tensor
    codes: Tensor | None = None
    places: Tensor | None = None
    external: Tensor | None = None
    predicted: Tensor | None = None

    def chunk(self, first: int, last: int) -> Steps:
        """The steps ``first`` to ``last`` (excluded)."""
        parts = (self.embedded, self.codes, self.places, self.external, self.predicted)
        embedded, *rest = (None if t is None else t[:, first:last] for t in parts)
        assert embedded is not None
        return Steps(embedded, *rest)

    def last(self, before: Lag) -> Lag:
        """The last step, as the next chunk needs it; fields that are ``None`` become zeros shaped as in
        ``before``."""
        pairs = (
            (self.embedded, before.embedded),
            (self.places, before.places),
            (self.external, before.external),
            (self.predicted, before.predicted),
        )
        return Lag(*(torch.zeros_like(old) if t is None else t[:, -1].clone() for t, old in pairs))


Run = Callable[[Steps, S | None, Plan | None], tuple[Out, S | None]]
"""One pass of a model over steps with plans: the output, and the state after the chunk if one was passed."""


@dataclass(frozen=True)
class Foresight(Generic[Out, S]):
    """Result of a chunk: the last pass's output, the plans it attended to and the log-scores (B, L, V) of its
    anticipator, if the model plans, and the states after it."""

    out: Out
    choice: PlanChoice | None
    anticipation: Tensor | None
    state: S | None
    planning: PlanState | tuple[()]


@dataclass(frozen=True, eq=False)  # PyTorch 2.7 would trace the hash of its fields
class Passes(Generic[Out, S]):
    """Runs a model with its own plans.

    ``signal`` is the model's planning signal, ``None`` for a model without planning, which runs in one pass;
    ``run`` executes one pass, ``fresh`` makes a model's initial state.
    """

    signal: PlanningSignal | None
    run: Run[S, Out]
    fresh: Callable[[int], S]

    def initial_state(self, batch: int, *, external: bool) -> PlanState | tuple[()]:
        """The state before the first step: empty plans.

        Args:
            external: whether the model's steps may come with external scalars.
        """
        signal = self.signal
        if signal is None:
            return ()
        like = signal.log_frequency
        stored = tuple(
            StoredChoice(
                torch.zeros(batch, signal.slots, dtype=torch.int64, device=like.device),
                like.new_zeros(batch, signal.slots),
            )
            for _ in range(1 if signal.recurrent else signal.refine - 1)
        )
        frames = torch.zeros(batch, dtype=torch.int64, device=like.device)
        if signal.recurrent:
            return PlanState(frames, stored, (), ())
        width = signal.width
        lag = Lag(
            like.new_zeros(batch, width),
            like.new_zeros(batch, width if signal.absolute else 0),
            like.new_zeros(batch, 7 if external else 0),
            torch.zeros(batch, dtype=torch.bool, device=like.device),
        )
        return PlanState(frames, stored, lag, tuple(self.fresh(batch) for _ in range(signal.refine)))

    def fits(self, planning: PlanState | tuple[()]) -> bool:
        """Whether a state matches the planning options, or neither exists."""
        signal = self.signal
        if signal is None or not isinstance(planning, PlanState):
            return signal is None and not planning
        passes = 0 if signal.recurrent else signal.refine
        slots = all(choice.codes.shape[1] == signal.slots for choice in planning.choices)
        return slots and len(planning.earlier) == passes and bool(planning.lag) != signal.recurrent

    def __call__(
        self,
        steps: Steps,
        state: S | None,
        planning: PlanState | None,
        *,
        plan: PlanChoice | None = None,
        boost: Tensor | None = None,
    ) -> Foresight[Out, S]:
        """Run a chunk.

        Args:
            steps: the input.
            state: the model's state, with the state ``planning`` of its plans; both ``None`` at a sequence's
                start.
            plan: plans (B, L, K) to use in place of the model's own.
            boost: added to the contrasts by which plans are selected, (V,) or (B or 1, 1, V).

        Raises:
            OptionError: plans or boosts for a model that does not plan.
            ShapeError: as :func:`check_plan`.
        """
        check_plan(self.signal, (steps.embedded.shape[0], steps.embedded.shape[1]), plan, boost)
        if self.signal is None:
            out, after = self.run(steps, state, None)
            return Foresight(out, None, None, after, ())
        if plan is not None and planning is None:
            out, after = self.run(steps, state, self._plan(steps, plan))
            return Foresight(out, plan, self.own.anticipator(out.hidden), after, ())
        if self.signal.recurrent:
            return self._recurrent(steps, state, planning, plan, boost)
        return self._in_passes(steps, state, planning, plan, boost)

    @property
    def own(self) -> PlanningSignal:
        """The signal of a model that plans."""
        assert self.signal is not None
        return self.signal

    def _plan(self, steps: Steps, choice: PlanChoice) -> Plan:
        return self.own.embed(choice, steps.places)

    def _choose(self, out: Out, boost: Tensor | None) -> tuple[PlanChoice, Tensor]:
        """Plans for the following steps from the anticipator, and its log-scores."""
        anticipation = self.own.anticipator(out.hidden)
        return self.own.select(anticipation.detach(), boost), anticipation

    def _recurrent(
        self,
        steps: Steps,
        state: S | None,
        planning: PlanState | None,
        plan: PlanChoice | None,
        boost: Tensor | None,
    ) -> Foresight[Out, S]:
        rows, length = steps.embedded.shape[:2]
        streaming = planning is not None
        running = self.fresh(rows) if state is None else state
        memory = self.initial_state(rows, external=False) if planning is None else planning
        assert isinstance(memory, PlanState)
        stored = memory.choices[0]
        choices, outs, anticipations = [], [], []
        for i in range(length):
            step = steps.chunk(i, i + 1)
            choice = stored.choice if plan is None else plan[:, i : i + 1]
            out, after = self.run(step, running, self._plan(step, choice))
            assert after is not None
            running = after
            following, scores = self._choose(out, boost)
            stored = StoredChoice(following.codes[:, 0], following.weights[:, 0])
            choices.append(choice)
            outs.append(out)
            anticipations.append(scores)
        new = PlanState(memory.frames + length, (stored,), (), ()) if streaming else ()
        joined = outs[0] if length == 1 else join(outs)
        anticipation = torch.cat(anticipations, 1)
        return Foresight(joined, _concatenate(choices), anticipation, running if streaming else None, new)

    def _in_passes(
        self,
        steps: Steps,
        state: S | None,
        planning: PlanState | None,
        plan: PlanChoice | None,
        boost: Tensor | None,
    ) -> Foresight[Out, S]:
        refine = self.own.refine
        choice, lag_state = self._first(steps, planning, boost)
        earlier: list[State] = [] if lag_state is None else [lag_state]
        stored: list[StoredChoice] = []
        for number in range(1, refine):
            before = None if planning is None else cast(S, planning.earlier[number])
            out, after = self.run(steps, before, self._plan(steps, choice))
            following, _ = self._choose(out, boost)
            if planning is None or after is None:
                first_choice = self._empty_choice(steps.embedded)
            else:
                first_choice = planning.choices[number - 1].choice
                earlier.append(after)
                stored.append(StoredChoice(following.codes[:, -1].clone(), following.weights[:, -1].clone()))
            choice = _concatenate([first_choice, following[:, :-1]])
        choice = choice if plan is None else plan
        out, after = self.run(steps, state, self._plan(steps, choice))
        anticipation = self.own.anticipator(out.hidden)
        new: PlanState | tuple[()] = ()
        if planning is not None:
            frames = planning.frames + steps.embedded.shape[1]
            assert isinstance(planning.lag, Lag)
            new = PlanState(frames, tuple(stored), steps.last(planning.lag), tuple(earlier))
        return Foresight(out, choice, anticipation, after, new)

    def _first(
        self, steps: Steps, planning: PlanState | None, boost: Tensor | None
    ) -> tuple[PlanChoice, S | None]:
        """The first pass: plans for all steps of the chunk, each from the step before it with its code as a
        hint; and the state of that pass."""
        length = steps.embedded.shape[1]
        assert steps.codes is not None
        lag_state: S | None = None
        if planning is None:
            choices = [self._empty_choice(steps.embedded)]
        else:
            lag = planning.lag
            assert isinstance(lag, Lag)
            has_places, has_external = lag.places.shape[1] > 0, steps.external is not None
            last = Steps(
                lag.embedded[:, None],
                None,
                lag.places[:, None] if has_places else None,
                lag.external[:, None] if has_external else None,
                None if steps.predicted is None else lag.predicted[:, None],
            )
            hint = self._plan(last, self.own.hint(steps.codes[:, :1]))
            out, after = self.run(last, cast(S, planning.earlier[0]), hint)
            assert after is not None
            # Rows at their first step have no step before it: what was just run for them is discarded.
            first = planning.frames == 0
            lag_state = _reset_rows(after, first)
            choice, _ = self._choose(out, boost)
            choices = [PlanChoice(choice.codes, choice.weights * ~first[:, None, None])]
        if length > 1:
            front = steps.chunk(0, length - 1)
            hint = self._plan(front, self.own.hint(steps.codes[:, 1:]))
            out, after = self.run(front, lag_state, hint)
            lag_state = after if planning is not None else None
            choices.append(self._choose(out, boost)[0])
        return _concatenate(choices), lag_state

    def _empty_choice(self, like: Tensor) -> PlanChoice:
        shape = (like.shape[0], 1, self.own.slots)
        return PlanChoice(
            torch.zeros(shape, dtype=torch.int64, device=like.device),
            torch.zeros(shape, dtype=self.own.log_frequency.dtype, device=like.device),
        )


def trunk_passes(
    trunk: Trunk,
    signal: PlanningSignal | None,
    mode: ScalarMode,
    due: Callable[[Steps, TrunkState | None], bool | None] = lambda steps, state: None,
) -> Passes[TrunkOutput, TrunkState]:
    """Runs a trunk, with plans if there is a signal; ``mode`` and ``due`` (of a pass over these steps, after
    this state) are arguments of :meth:`~pyanticip.models.core.trunk.Trunk.forward`."""

    def run(
        steps: Steps, state: TrunkState | None, plan: Plan | None
    ) -> tuple[TrunkOutput, TrunkState | None]:
        out: tuple[TrunkOutput, TrunkState | None] = trunk(
            steps.embedded,
            steps.external,
            state,
            mode=mode,
            predicted=steps.predicted,
            due=due(steps, state),
            plan=plan,
        )
        return out

    return Passes(signal, run, trunk.initial_state)


def _concatenate(choices: Sequence[PlanChoice]) -> PlanChoice:
    """Concatenate plans along the steps."""
    return PlanChoice(torch.cat([c.codes for c in choices], 1), torch.cat([c.weights for c in choices], 1))


def _reset_rows(state: S, rows: Tensor) -> S:
    """The state with these rows reset."""
    if can_read_values(rows) and not bool(rows.any()):
        return state
    return state.map(lambda t: torch.where(rows.view(-1, *(1,) * (t.ndim - 1)), torch.zeros_like(t), t))


def check_plan(
    signal: PlanningSignal | None, shape: tuple[int, int], plan: PlanChoice | None, boost: Tensor | None
) -> None:
    """Refuse plans and boosts that a model cannot use.

    Args:
        signal: the model's planning signal, ``None`` without planning.
        shape: rows and steps of the input.

    Raises:
        OptionError: a model without planning.
        ShapeError: shapes that do not fit, codes out of range, weights that are negative, NaN or infinite,
            boosts that are NaN or +inf.
    """
    if plan is None and boost is None:
        return
    if signal is None:
        raise OptionError("plan and boost need a model with planning=True")
    if boost is not None:
        shared, per_row = f"({signal.vocab},)", f"({shape[0]}, 1, {signal.vocab})"
        check_tensor(boost, "boost", f"{shared} or {per_row}")
        *rows, codes = (1, *boost.shape) if boost.ndim < 2 else boost.shape
        if codes != signal.vocab or rows not in ([1], [1, 1], [shape[0], 1]):
            raise ShapeError(f"boost must be {shared} or {per_row}, got {tuple(boost.shape)}")
        if can_read_values(boost) and not bool((boost < torch.inf).all()):
            expected = "boost must be finite, or -inf for codes that are forbidden"
            raise ShapeError(f"{expected}, got NaN or infinity")
    if plan is None:
        return
    if plan.codes.dtype != torch.int64:
        raise ShapeError(f"plan codes must be torch.int64, got {plan.codes.dtype}")
    for name, values in (("codes", plan.codes), ("weights", plan.weights)):
        fits = values.shape[:2] == shape and values.shape == plan.codes.shape and values.numel()
        if values.ndim != 3 or not fits:
            raise ShapeError(
                f"plan {name} must be {shape} and K >= 1, the same for both, got {tuple(values.shape)}"
            )
    if not can_read_values(plan.codes):
        return
    # Read in one go: each read waits for the device.
    weights_ok = ((plan.weights >= 0.0) & (plan.weights < torch.inf)).all()
    low, high, weights_valid = torch.stack((*plan.codes.aminmax(), weights_ok.to(plan.codes))).tolist()
    if low < 0 or high >= signal.vocab:
        raise ShapeError(f"plan codes must be 0 to {signal.vocab - 1}, got {low} to {high}")
    if not weights_valid:
        raise ShapeError("plan weights must be finite and 0 or more, got others")
