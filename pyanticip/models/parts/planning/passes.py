"""Where a model's plans come from when it runs: its own anticipations, one step earlier.

Two ways, which differ in what they cost and in what a plan may know:

``"passes"`` (the paper, section 4.1). A first pass gives every step n - 1 a single code to look at, that of
step n; what the anticipator then says at n - 1 becomes the plan of step n in a second pass. All steps of a
sequence run at once. In a stream there are two states, the first one step behind the second. ``refine`` > 1
passes the anticipations back: the plan of step n in pass r + 1 is what pass r said at n - 1.

``"recurrent"``: the plan of step n is what the same pass said at n - 1. A stream costs one step per step; a
whole sequence has to be run step by step. It is what ever more passes would end in.

Either way nothing at step n depends on what comes after it.
"""

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
from pyanticip.models.parts.planning.signal import PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice


class Hidden(Protocol):
    """What a pass says about its steps."""

    @property
    def hidden(self) -> Tensor:
        """(B, L, D) after the final norm."""
        ...


Out = TypeVar("Out", bound=Hidden)
S = TypeVar("S", bound=State)


@dataclass
class StoredChoice(State):
    """A plan that waits for the next step: ``codes`` (B, K) int64 and ``weights`` (B, K), 0 where empty."""

    codes: Tensor
    weights: Tensor


@dataclass
class Lag(State):
    """The last step's input, for the pass that runs one step behind: ``embedded`` (B, D), its ``places``
    (B, D), ``given`` scalars (B, 7) and whether the model's own replace them (B,); (B, 0) for what a model
    does not have."""

    embedded: Tensor
    places: Tensor
    given: Tensor
    predicted: Tensor


@dataclass
class PlanState(State):
    """What plans need to remember: the ``choices`` that wait for the next step; for passes also the ``lag``
    (``frames`` (B,) says where there is one yet) and the states of all passes but the last."""

    frames: Tensor
    choices: tuple[StoredChoice, ...]
    lag: Lag | tuple[()]
    earlier: tuple[State, ...]


@dataclass(frozen=True)
class Steps:
    """The input of a chunk: ``embedded`` (B, L, D) with positions in it, ``codes`` (B, L) of the steps, -1
    for none; where the model has them ``places`` (B, L, D), the encodings within ``embedded``, ``given``
    scalars (B, L, 7) and ``predicted`` (B, L)."""

    embedded: Tensor
    codes: Tensor | None = None
    places: Tensor | None = None
    given: Tensor | None = None
    predicted: Tensor | None = None

    def chunk(self, first: int, last: int) -> "Steps":
        """The steps from ``first`` up to and without ``last``."""
        parts = (self.embedded, self.codes, self.places, self.given, self.predicted)
        embedded, *rest = (None if t is None else t[:, first:last] for t in parts)
        assert embedded is not None
        return Steps(embedded, *rest)

    def last(self, before: Lag) -> Lag:
        """The last step, as the next chunk needs it; what a step lacks has the shape of the one before."""
        pairs = (
            (self.embedded, before.embedded),
            (self.places, before.places),
            (self.given, before.given),
            (self.predicted, before.predicted),
        )
        return Lag(*(torch.zeros_like(old) if t is None else t[:, -1].clone() for t, old in pairs))


Run = Callable[[Steps, S | None, Plan | None], tuple[Out, S | None]]
"""One pass of a model over steps with plans to look at: outputs, and the state after a chunk that followed
one."""


@dataclass(frozen=True)
class Foresight(Generic[Out, S]):
    """What came of a chunk: the last pass's output, the plans it looked at and log-scores (B, L, V) of its
    anticipator, where the model plans, and the states after it."""

    out: Out
    choice: PlanChoice | None
    anticipation: Tensor | None
    state: S | None
    planning: PlanState | tuple[()]


@dataclass(frozen=True)
class Passes(Generic[Out, S]):
    """How a model runs with plans of its own.

    ``signal`` is the model's, ``None`` where it does not plan and one pass is all; ``run`` does one pass,
    ``fresh`` makes a model's initial state.
    """

    signal: PlanningSignal | None
    run: Run[S, Out]
    fresh: Callable[[int], S]

    def initial_state(self, batch: int, *, given: bool) -> PlanState | tuple[()]:
        """The state before the first step: nothing planned.

        Args:
            given: whether scalars may be given to the model's steps.
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
            like.new_zeros(batch, 7 if given else 0),
            torch.zeros(batch, dtype=torch.bool, device=like.device),
        )
        return PlanState(frames, stored, lag, tuple(self.fresh(batch) for _ in range(signal.refine)))

    def fits(self, planning: PlanState | tuple[()]) -> bool:
        """Whether a state is that of such plans, or there are none of either."""
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
            state: of the model, with ``planning`` of its plans; both ``None`` for a sequence's start.
            plan: plans to look at in place of the model's own, (B, L, K).
            boost: added to the contrasts that plans are selected by, (V,) or (B or 1, 1, V).

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
        """What the anticipator makes of a pass: plans for the steps that follow, and its log-scores."""
        said = self.own.anticipator(out.hidden)
        return self.own.select(said.detach(), boost), said

    def _recurrent(
        self,
        steps: Steps,
        state: S | None,
        planning: PlanState | None,
        plan: PlanChoice | None,
        boost: Tensor | None,
    ) -> Foresight[Out, S]:
        rows, length = steps.embedded.shape[:2]
        kept = planning is not None
        running = self.fresh(rows) if state is None else state
        memory = self.initial_state(rows, given=False) if planning is None else planning
        assert isinstance(memory, PlanState)
        waiting = memory.choices[0]
        looked, outs, said = [], [], []
        for i in range(length):
            now = steps.chunk(i, i + 1)
            choice = PlanChoice(waiting.codes[:, None], waiting.weights[:, None])
            if plan is not None:
                choice = PlanChoice(plan.codes[:, i : i + 1], plan.weights[:, i : i + 1])
            out, after = self.run(now, running, self._plan(now, choice))
            assert after is not None
            running = after
            following, scores = self._choose(out, boost)
            waiting = StoredChoice(following.codes[:, 0], following.weights[:, 0])
            looked.append(choice)
            outs.append(out)
            said.append(scores)
        new = PlanState(memory.frames + length, (waiting,), (), ()) if kept else ()
        joined = outs[0] if length == 1 else join(outs)
        return Foresight(joined, _side_by_side(looked), torch.cat(said, 1), running if kept else None, new)

    def _in_passes(
        self,
        steps: Steps,
        state: S | None,
        planning: PlanState | None,
        plan: PlanChoice | None,
        boost: Tensor | None,
    ) -> Foresight[Out, S]:
        refine = self.own.refine
        choice, behind = self._first(steps, planning, boost)
        earlier: list[State] = [] if behind is None else [behind]
        stored: list[StoredChoice] = []
        for number in range(1, refine):
            before = None if planning is None else cast(S, planning.earlier[number])
            out, after = self.run(steps, before, self._plan(steps, choice))
            following, _ = self._choose(out, boost)
            if planning is None or after is None:
                begin = self._nothing(steps.embedded)
            else:
                kept = planning.choices[number - 1]
                begin = PlanChoice(kept.codes[:, None], kept.weights[:, None])
                earlier.append(after)
                stored.append(StoredChoice(following.codes[:, -1].clone(), following.weights[:, -1].clone()))
            choice = _side_by_side([begin, PlanChoice(following.codes[:, :-1], following.weights[:, :-1])])
        choice = choice if plan is None else plan
        out, own = self.run(steps, state, self._plan(steps, choice))
        said = self.own.anticipator(out.hidden)
        new: PlanState | tuple[()] = ()
        if planning is not None:
            frames = planning.frames + steps.embedded.shape[1]
            assert isinstance(planning.lag, Lag)
            new = PlanState(frames, tuple(stored), steps.last(planning.lag), tuple(earlier))
        return Foresight(out, choice, said, own, new)

    def _first(
        self, steps: Steps, planning: PlanState | None, boost: Tensor | None
    ) -> tuple[PlanChoice, S | None]:
        """The first pass: plans for all steps of the chunk, from the steps before them with one code to look
        at; and the state of that pass."""
        length = steps.embedded.shape[1]
        assert steps.codes is not None
        behind: S | None = None
        if planning is None:
            found = [self._nothing(steps.embedded)]
        else:
            lag = planning.lag
            assert isinstance(lag, Lag)
            some = lag.places.shape[1] > 0, steps.given is not None
            last = Steps(
                lag.embedded[:, None],
                None,
                lag.places[:, None] if some[0] else None,
                lag.given[:, None] if some[1] else None,
                None if steps.predicted is None else lag.predicted[:, None],
            )
            hint = self._plan(last, self.own.hint(steps.codes[:, :1]))
            out, after = self.run(last, cast(S, planning.earlier[0]), hint)
            assert after is not None
            # Rows at their first step have none before it: what was just run for them is forgotten.
            first = planning.frames == 0
            behind = _forget(after, first)
            choice, _ = self._choose(out, boost)
            found = [PlanChoice(choice.codes, choice.weights * ~first[:, None, None])]
        if length > 1:
            front = steps.chunk(0, length - 1)
            hint = self._plan(front, self.own.hint(steps.codes[:, 1:]))
            out, after = self.run(front, behind, hint)
            behind = after if planning is not None else None
            found.append(self._choose(out, boost)[0])
        return _side_by_side(found), behind

    def _nothing(self, like: Tensor) -> PlanChoice:
        shape = (like.shape[0], 1, self.own.slots)
        return PlanChoice(
            torch.zeros(shape, dtype=torch.int64, device=like.device),
            torch.zeros(shape, dtype=self.own.log_frequency.dtype, device=like.device),
        )


def _side_by_side(choices: Sequence[PlanChoice]) -> PlanChoice:
    """Plans of steps that follow each other."""
    return PlanChoice(torch.cat([c.codes for c in choices], 1), torch.cat([c.weights for c in choices], 1))


def _forget(state: S, rows: Tensor) -> S:
    """The state with these rows at their start."""
    if can_read_values(rows) and not bool(rows.any()):
        return state
    return state.map(lambda t: torch.where(rows.view(-1, *(1,) * (t.ndim - 1)), torch.zeros_like(t), t))


def check_plan(
    signal: PlanningSignal | None, shape: tuple[int, int], plan: PlanChoice | None, boost: Tensor | None
) -> None:
    """Refuse plans and boosts that a model cannot use.

    Args:
        signal: the model's, ``None`` without planning.
        shape: rows and steps of the input.

    Raises:
        OptionError: a model without planning.
        ShapeError: shapes that do not fit, codes that do not exist, weights below 0, and weights or boosts
            that are NaN or infinite.
    """
    if plan is None and boost is None:
        return
    if signal is None:
        raise OptionError("plan and boost need a model with planning=True")
    if boost is not None:
        every, each = f"({signal.vocab},)", f"({shape[0]}, 1, {signal.vocab})"
        check_tensor(boost, "boost", f"{every} or {each}")
        *rows, codes = (1, *boost.shape) if boost.ndim < 2 else boost.shape
        if codes != signal.vocab or rows not in ([1], [1, 1], [shape[0], 1]):
            raise ShapeError(f"boost must be {every} or {each}, got {tuple(boost.shape)}")
        if can_read_values(boost) and not bool((boost < torch.inf).all()):
            wanted = "boost must be finite, or -inf for codes that are forbidden"
            raise ShapeError(f"{wanted}, got NaN or infinity")
    if plan is None:
        return
    for name, found in (("codes", plan.codes), ("weights", plan.weights)):
        if found.ndim != 3 or found.shape[:2] != shape or found.shape != plan.codes.shape:
            raise ShapeError(
                f"plan {name} must be {shape} and K, the same for both, got {tuple(found.shape)}"
            )
    if not can_read_values(plan.codes):
        return
    # Read together: each reading waits for the device.
    weighed = ((plan.weights >= 0.0) & (plan.weights < torch.inf)).all()
    low, high, fine = torch.stack((*plan.codes.aminmax(), weighed.to(plan.codes))).tolist()
    if low < 0 or high >= signal.vocab:
        raise ShapeError(f"plan codes must be 0 to {signal.vocab - 1}, got {low} to {high}")
    if not fine:
        raise ShapeError("plan weights must be finite and 0 or more, got others")
