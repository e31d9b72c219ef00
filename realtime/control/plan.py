"""The hand on the plan of a model that plans: codes that it is to expect, or not to."""

from __future__ import annotations

import numpy as np

from pyanticip.errors import OptionError
from realtime.control.server import number
from realtime.step.base import StepBackend

__all__ = ["PlanControl"]

_LARGEST = 1e6


class PlanControl:
    """The remote control's ``plan`` command: boosts of codes, kept until they are taken back.

    A boost is added to the code's contrast (the logarithm of how much likelier than usual it is): 1 is a
    nudge, 10 all but puts the code into every plan, -10 all but keeps it out.
    """

    def __init__(self, backend: StepBackend | None) -> None:
        self._backend = backend
        self._boosts: dict[int, float] = {}

    def boost(self, *arguments: object) -> str:
        """``code, boost``: from the next frame on; a boost of 0 takes it back, and no arguments all of them.

        :raises OptionError: a model that makes no plans, no such code, or not a number.
        """
        backend = self._backend
        if backend is None or not backend.codes:
            raise OptionError("plan: this model makes no plans that could be steered")
        if len(arguments) not in (0, 2):
            raise OptionError(
                f"plan: expected a code and a boost, or nothing, got {len(arguments)} arguments"
            )
        boosts = dict(self._boosts) if arguments else {}
        if arguments:
            code, boost = number("plan", arguments[0]), number("plan", arguments[1])
            if not code.is_integer() or not 0 <= code < backend.codes:
                raise OptionError(f"plan: codes are 0 to {backend.codes - 1}, got {code:g}")
            if abs(boost) > _LARGEST:
                raise OptionError(f"plan: a boost is from -{_LARGEST:g} to {_LARGEST:g}, got {boost:g}")
            boosts[int(code)] = boost
            boosts = {known: value for known, value in boosts.items() if value}
        vector = np.zeros(backend.codes, np.float32)
        for known, value in boosts.items():
            vector[known] = value
        backend.steer(vector)
        self._boosts = boosts
        return ", ".join(f"{known}: {value:+g}" for known, value in sorted(boosts.items())) or "no wishes"
