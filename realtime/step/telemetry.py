"""What a model tells of its inner state beside the controls: whom it trusts, and what it expects."""

from __future__ import annotations

from collections.abc import Sequence

from realtime.step.base import StepResult

__all__ = ["Telemetry", "telemetry_of"]

Telemetry = tuple[Sequence[float], Sequence[tuple[int, float]]]
"""Trust 0..1 and curvature, or nothing; codes expected within the next second and their weights, heaviest
first, or nothing."""

NOTHING: Telemetry = ((), ())


def telemetry_of(step: StepResult | None) -> Telemetry:
    """Of one model step: the mean over the blocks of the control field, and the plan's filled slots.

    Models without these parts, and fallbacks that play in a model's place, tell nothing.
    """
    if step is None or (step.field is None and step.plan is None):
        return NOTHING
    field: tuple[float, ...] = ()
    if step.field is not None and len(step.field):
        # Lists, not arrays: cold, they cost a fraction.
        pairs = step.field.tolist()
        field = (sum(p[0] for p in pairs) / len(pairs), sum(p[1] for p in pairs) / len(pairs))
    plan: list[tuple[int, float]] = []
    if step.plan is not None:
        pairs = zip(step.plan.codes.tolist(), step.plan.weights.tolist(), strict=True)
        plan = sorted((p for p in pairs if p[1] > 0.0), key=lambda p: -p[1])
    return field, plan
