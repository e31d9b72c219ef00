"""Tasks on a string of digits: copy, reverse, odds first, and the copy from a place that is named."""

import numpy as np

from training.tasks.algorithmic.problem import Example, Task, digits, wrong
from training.tasks.algorithmic.vocabulary import ASK, END


def _example(given: str, wanted: str) -> Example:
    return Example((*given, ASK), (*wanted, END))


class Copy(Task):
    """The same digits again."""

    name, title, unit = "copy", "the same digits again", "digits"
    shown = "8349216=8349216."
    longest = 10

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """``length`` even digits."""
        self.require(length)
        given = digits(rng, length)
        return _example(given, given)

    def tokens(self, length: int) -> int:
        """All of them have so many."""
        return 2 * length + 2

    def check(self, text: str) -> None:
        """Every digit right of ``=`` is the one at its place on the left."""
        given, found = self.read(text)
        _digits_only(self.name, given)
        if len(found) != len(given):
            raise wrong(self.name, "length of the copy", len(given), len(found))
        for place, (wanted, there) in enumerate(zip(given, found, strict=True), 1):
            if there != wanted:
                raise wrong(self.name, f"digit {place}", wanted, there)


class Reverse(Task):
    """The digits backwards."""

    name, title, unit = "reverse", "the digits backwards", "digits"
    shown = "8349216=6129438."
    longest = 40
    copies = True

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """``length`` even digits."""
        self.require(length)
        given = digits(rng, length)
        return _example(given, given[::-1])

    def tokens(self, length: int) -> int:
        """All of them have so many."""
        return 2 * length + 2

    def check(self, text: str) -> None:
        """Taking digits off the end of the left side gives the right side."""
        given, found = self.read(text)
        _digits_only(self.name, given)
        if len(found) != len(given):
            raise wrong(self.name, "length of the answer", len(given), len(found))
        rest = list(given)
        for place, there in enumerate(found, 1):
            wanted = rest.pop()
            if there != wanted:
                raise wrong(self.name, f"digit {place}", wanted, there)


class OddsFirst(Task):
    """Every second digit, from the second on; then the others."""

    name, title, unit = "odds-first", "digits 2, 4, 6, ..., then digits 1, 3, 5, ...", "digits"
    shown = "012345=135024."
    longest = 40

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """``length`` even digits; the paper's example says what its prose leaves open: ``x[1::2] x[::2]``."""
        self.require(length)
        given = digits(rng, length)
        return _example(given, given[1::2] + given[::2])

    def tokens(self, length: int) -> int:
        """All of them have so many."""
        return 2 * length + 2

    def check(self, text: str) -> None:
        """The digit at place i (from 0) of the left stands at place i // 2 of its half on the right."""
        given, found = self.read(text)
        _digits_only(self.name, given)
        if len(found) != len(given):
            raise wrong(self.name, "length of the answer", len(given), len(found))
        half = len(given) // 2
        for place, wanted in enumerate(given):
            at = place // 2 if place % 2 else half + place // 2
            if found[at] != wanted:
                raise wrong(self.name, f"digit {at + 1} of the answer", wanted, found[at])


class DynamicCopy(Task):
    """The end of a string, from a digit on that occurs once in it."""

    name, title, unit = "dyn-str-cpy", "the string from the one place where the digit stands", "digits"
    shown = "5839472,3=39472."
    longest = 10
    copies = True

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """Start and digit drawn evenly; all other digits evenly from those that are left."""
        self.require(length)
        start, mark = int(rng.integers(length)), int(rng.integers(10))
        others = rng.integers(0, 9, length)
        places = others + (others >= mark)
        places[start] = mark
        given = "".join(str(value) for value in places)
        return _example(f"{given},{mark}", given[start:])

    def tokens(self, length: int) -> int:
        """Where the whole string is asked for."""
        return 2 * length + 4

    def check(self, text: str) -> None:
        """The answer begins with the mark, ends the string, and the mark occurs nowhere else."""
        given, found = self.read(text)
        if len(given) < 3 or given[-2] != ",":
            raise wrong(self.name, "left side", "digits,digit", "".join(given))
        string, mark = given[:-2], given[-1]
        _digits_only(self.name, [*string, mark])
        if string.count(mark) != 1:
            raise wrong(self.name, f"occurrences of {mark}", 1, string.count(mark))
        if not found or found[0] != mark:
            raise wrong(self.name, "first digit of the answer", mark, found[0] if found else "nothing")
        before = len(string) - len(found)
        if before < 0 or string[before:] != found:
            raise wrong(self.name, "answer", "the end of the string from its mark on", "".join(found))


def _digits_only(task: str, given: list[str]) -> None:
    strange = [token for token in given if not token.isdigit()]
    if not given or strange:
        raise wrong(task, "left side", "digits", strange[0] if strange else "nothing")
