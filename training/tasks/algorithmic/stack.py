"""Stack manipulation: a stack, what is done to it, and what is left."""

from typing import Final

import numpy as np

from training.tasks.algorithmic.problem import Example, Task, digits, wrong
from training.tasks.algorithmic.vocabulary import ASK, END

POP: Final = "2"
PUSH: Final = {"3": "0", "4": "1"}
STOP: Final = "2"


class Stack(Task):
    """Binary stack, bottom first, then actions; asked for is what is left, top first."""

    name, title, unit = "stack", "the stack after the actions, top first, 2, zeros", "cells and actions"
    shown = "0110422=11020000."
    longest = 40

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """1 to ``length`` cells, evenly; the rest are actions, evenly. To pop an empty stack does nothing."""
        self.require(length)
        cells = int(rng.integers(1, length + 1))
        bottom = digits(rng, cells, 2)
        actions = "".join("234"[value] for value in rng.integers(0, 3, length - cells))
        stack = list(bottom)
        for action in actions:
            if action != POP:
                stack.append(PUSH[action])
            elif stack:
                stack.pop()
        answer = "".join(reversed(stack)) + STOP
        return Example((*bottom, *actions, ASK), (*answer.ljust(length + 1, "0"), END))

    def tokens(self, length: int) -> int:
        """All of them have so many."""
        return 2 * length + 3

    def check(self, text: str) -> None:
        """Read from the end, every pop hides one cell or push before it; what is not hidden is left."""
        given, found = self.read(text)
        if not given or given[0] not in "01" or any(token not in "01234" for token in given):
            raise wrong(self.name, "left side", "cells 0 and 1, then actions 2, 3, 4", "".join(given))
        cells = next((at for at, token in enumerate(given) if token in "234"), len(given))
        if any(token in "01" for token in given[cells:]):
            raise wrong(self.name, "actions", "2, 3 and 4", "".join(given[cells:]))
        left, hidden = [], 0
        for token in reversed(_effective(given)):
            if token == POP:
                hidden += 1
            elif hidden:
                hidden -= 1
            else:
                left.append(PUSH.get(token, token))
        wanted = "".join(left) + STOP
        wanted += "0" * (len(given) + 1 - len(wanted))
        if "".join(found) != wanted:
            raise wrong(self.name, "stack that is left", wanted, "".join(found))


def _effective(given: list[str]) -> list[str]:
    """Without the pops that met an empty stack."""
    kept, depth = [], 0
    for token in given:
        if token != POP or depth:
            kept.append(token)
            depth += -1 if token == POP else 1
    return kept
