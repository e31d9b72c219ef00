"""Tasks on a string of digits: copy, reverse, odds first, copy from a given digit on, and a stack."""

from abc import abstractmethod
from typing import Final

import numpy as np

from training.tasks.algorithmic.problem import ASK, END, Example, Task, digits, wrong


def _example(question: str, answer: str) -> Example:
    return Example((*question, ASK), (*answer, END))


class Rearranged(Task):
    """Base class: the same digits in another order."""

    unit = "digits"

    @abstractmethod
    def answer(self, question: str) -> str:
        """The digits in that order."""

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """Draw ``length`` uniform digits."""
        self.require(length)
        question = digits(rng, length)
        return _example(question, self.answer(question))

    def tokens(self, length: int) -> int:
        """All examples have this many."""
        return 2 * length + 2

    def sides(self, text: str) -> tuple[list[str], list[str]]:
        """Both sides of ``=``, which must have as many digits each.

        Raises:
            FormatError: they do not.
        """
        question, answer_tokens = self.read(text)
        _digits_only(self.name, question)
        if len(answer_tokens) != len(question):
            raise wrong(self.name, "length of the answer", len(question), len(answer_tokens))
        return question, answer_tokens


class Copy(Rearranged):
    """The same digits again."""

    name, title = "copy", "the same digits again"
    shown = "8349216=8349216."
    longest = 10

    def answer(self, question: str) -> str:
        """The digits unchanged."""
        return question

    def check(self, text: str) -> None:
        """Compares every digit right of ``=`` with the one at the same place on the left."""
        question, answer_tokens = self.sides(text)
        for place, (expected, digit) in enumerate(zip(question, answer_tokens, strict=True), 1):
            if digit != expected:
                raise wrong(self.name, f"digit {place}", expected, digit)


class Reverse(Rearranged):
    """The digits backwards."""

    name, title = "reverse", "the digits backwards"
    shown = "8349216=6129438."
    longest = 40
    copies = True

    def answer(self, question: str) -> str:
        """The digits from the last to the first."""
        return question[::-1]

    def check(self, text: str) -> None:
        """Takes digits off the end of the left side, and compares them with the right side."""
        question, answer_tokens = self.sides(text)
        rest = list(question)
        for place, digit in enumerate(answer_tokens, 1):
            expected = rest.pop()
            if digit != expected:
                raise wrong(self.name, f"digit {place}", expected, digit)


class OddsFirst(Rearranged):
    """Every second digit, from the second on; then the others."""

    name, title = "odds-first", "digits 2, 4, 6, ..., then digits 1, 3, 5, ..."
    shown = "012345=135024."
    longest = 40

    def answer(self, question: str) -> str:
        """``x[1::2] x[::2]``, by the paper's example; its prose is ambiguous."""
        return question[1::2] + question[::2]

    def check(self, text: str) -> None:
        """Expects the digit at place i (from 0) of the left at place i // 2 of its half on the right."""
        question, answer_tokens = self.sides(text)
        half = len(question) // 2
        for place, expected in enumerate(question):
            at = place // 2 if place % 2 else half + place // 2
            if answer_tokens[at] != expected:
                raise wrong(self.name, f"digit {at + 1} of the answer", expected, answer_tokens[at])


class DynamicCopy(Task):
    """The end of a string from a given digit on, which occurs only once."""

    name, title, unit = "dyn-str-cpy", "the string from the one place where the digit stands", "digits"
    shown = "5839472,3=39472."
    longest = 10
    copies = True

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """Draw start and digit uniformly, and all other digits uniformly from the remaining ones."""
        self.require(length)
        start, mark = int(rng.integers(length)), int(rng.integers(10))
        others = rng.integers(0, 9, length)
        places = others + (others >= mark)
        places[start] = mark
        question = "".join(str(value) for value in places)
        return _example(f"{question},{mark}", question[start:])

    def tokens(self, length: int) -> int:
        """Reached if the answer is the whole string."""
        return 2 * length + 4

    def check(self, text: str) -> None:
        """Expects the end of the string from the given digit on, which occurs only once."""
        question, answer_tokens = self.read(text)
        if len(question) < 3 or question[-2] != ",":
            raise wrong(self.name, "left side", "digits,digit", "".join(question))
        string, mark = question[:-2], question[-1]
        _digits_only(self.name, [*string, mark])
        if string.count(mark) != 1:
            raise wrong(self.name, f"occurrences of {mark}", 1, string.count(mark))
        if not answer_tokens or answer_tokens[0] != mark:
            raise wrong(
                self.name, "first digit of the answer", mark, answer_tokens[0] if answer_tokens else "nothing"
            )
        before = len(string) - len(answer_tokens)
        if before < 0 or string[before:] != answer_tokens:
            raise wrong(self.name, "answer", "the end of the string from its mark on", "".join(answer_tokens))


def _digits_only(task: str, question: list[str]) -> None:
    invalid = [token for token in question if not token.isdigit()]
    if not question or invalid:
        raise wrong(task, "left side", "digits", invalid[0] if invalid else "nothing")


POP: Final = "2"
PUSH: Final = {"3": "0", "4": "1"}
STOP: Final = "2"


class Stack(Task):
    """A binary stack, bottom first, then actions; the answer is the remaining stack, top first."""

    name, title, unit = "stack", "the stack after the actions, top first, 2, zeros", "cells and actions"
    shown = "0110422=11020000."
    longest = 40

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """Draw 1 to ``length`` cells, then uniform actions. Popping an empty stack has no effect."""
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
        """All examples have this many."""
        return 2 * length + 3

    def check(self, text: str) -> None:
        """Reads from the end: every pop cancels one cell or push before it; the others remain."""
        question, answer_tokens = self.read(text)
        if not question or question[0] not in "01" or any(token not in "01234" for token in question):
            raise wrong(self.name, "left side", "cells 0 and 1, then actions 2, 3, 4", "".join(question))
        cells = next((at for at, token in enumerate(question) if token in "234"), len(question))
        if any(token in "01" for token in question[cells:]):
            raise wrong(self.name, "actions", "2, 3 and 4", "".join(question[cells:]))
        remaining, cancelled = [], 0
        for token in reversed(_effective(question)):
            if token == POP:
                cancelled += 1
            elif cancelled:
                cancelled -= 1
            else:
                remaining.append(PUSH.get(token, token))
        expected = "".join(remaining) + STOP
        expected += "0" * (len(question) + 1 - len(expected))
        if "".join(answer_tokens) != expected:
            raise wrong(self.name, "stack that is left", expected, "".join(answer_tokens))


def _effective(question: list[str]) -> list[str]:
    """Remove the pops of an empty stack."""
    tokens, depth = [], 0
    for token in question:
        if token != POP or depth:
            tokens.append(token)
            depth += -1 if token == POP else 1
    return tokens
