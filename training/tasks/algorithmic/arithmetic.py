"""Addition with a chain of thought, and the expansion of a multiplication."""

import re
from typing import Final

import numpy as np

from training.tasks.algorithmic.problem import ARROW, ASK, END, Example, Task, digits, wrong


def _number(rng: np.random.Generator, count: int) -> str:
    """A number of ``count`` digits, most significant first, without leading zeros."""
    first = int(rng.integers(0 if count == 1 else 1, 10))
    return str(first) + digits(rng, count - 1)


class Addition(Task):
    """Adds two numbers, least significant digit first; every step has its digits, carry and sum."""

    name, title, unit = "addition", "chain of thought, then the sum; all numbers backwards", "digits"
    shown = "829+03=8008,2305,9009>859."
    longest = 10

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """One number has ``length`` digits, the other 1 to ``length``, uniformly, in random order."""
        self.require(length)
        sizes = [length, int(rng.integers(1, length + 1))]
        if rng.integers(2):
            sizes.reverse()
        a, b = (_number(rng, size)[::-1] for size in sizes)
        steps, total, carry = [], [], 0
        for x, y in zip(a.ljust(length, "0"), b.ljust(length, "0"), strict=True):
            carry, digit = divmod(int(x) + int(y) + carry, 10)
            steps.append(f"{x}{y}{carry}{digit}")
            total.append(str(digit))
        written = ",".join(steps) + ARROW + "".join(total) + ("1" if carry else "")
        return Example((*a, "+", *b, ASK), (*written, END))

    def tokens(self, length: int) -> int:
        """Reached by two numbers of this length whose sum has one digit more."""
        return 8 * length + 4

    def check(self, text: str) -> None:
        """Checks the sum with Python's integers, and carries with the sums of the numbers' low digits."""
        match = _ADDITION.fullmatch(text.replace(" ", ""))
        if match is None:
            raise wrong(self.name, "text", "a+b=abcs,...>sum.", text)
        a, b, thought, total = match.groups()
        for number in (a, b):
            if len(number) > 1 and number[-1] == "0":
                raise wrong(self.name, "last digit of a number", "no leading zero", number)
        x, y = int(a[::-1]), int(b[::-1])
        expected = str(x + y)[::-1].ljust(max(len(a), len(b)), "0")
        if total != expected:
            raise wrong(self.name, "sum", expected, total)
        steps = thought.split(",")
        if len(steps) != max(len(a), len(b)):
            raise wrong(self.name, "number of steps", max(len(a), len(b)), len(steps))
        for place, step in enumerate(steps):
            low = 10 ** (place + 1)
            # The carry is the overflow of the sum of both numbers, truncated after this place.
            carry, rest = divmod(x % low + y % low, low)
            expected_step = f"{x // (low // 10) % 10}{y // (low // 10) % 10}{carry}{rest // (low // 10)}"
            if step != expected_step:
                raise wrong(self.name, f"step {place + 1}", expected_step, step)


class Multiplication(Task):
    """Expands a product by the distributive law over the digits of the second factor, without multiplying."""

    name, title, unit = "multiplication", "a times the places of b, by the distributive law", "digits"
    shown = "675x1259=675x[1*(1>1)(2>0)(5>0)(9>0)+2*(2>1)(5>0)(9>0)+5*(5>1)(9>0)+9*(9>1)]."  # the paper's
    longest = 9

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """Both numbers have ``length`` digits, most significant first."""
        self.require(length)
        a, b = _number(rng, length), _number(rng, length)
        terms = [
            f"{b[at]}*" + "".join(f"({d}{ARROW}{int(at == place)})" for place, d in list(enumerate(b))[at:])
            for at in range(length)
        ]
        return Example((*f"{a}x{b}", ASK), (*f"{a}x[{'+'.join(terms)}]", END))

    def tokens(self, length: int) -> int:
        """All examples have this many: a term has five for each digit from its own on."""
        return 6 * length + 5 + 5 * length * (length + 1) // 2

    def check(self, text: str) -> None:
        """Checks that the terms are the digits of b in order, and that their values add up to b."""
        match = _MULTIPLICATION.fullmatch(text.replace(" ", ""))
        if match is None:
            raise wrong(self.name, "text", "axb=ax[d*(d>1)(e>0)...+...].", text)
        a, b, repeated, inside = match.groups()
        if repeated != a:
            raise wrong(self.name, "first factor of the answer", a, repeated)
        terms = inside.split("+")
        if len(terms) != len(b):
            raise wrong(self.name, "number of terms", len(b), len(terms))
        value = 0
        for place, term in enumerate(terms):
            head, _, rest = term.partition("*")
            pairs = _PAIR.findall(rest)
            if head != b[place] or "".join(f"({d}>{flag})" for d, flag in pairs) != rest:
                raise wrong(self.name, f"term {place + 1}", f"{b[place]}*(digit>flag)...", term)
            if "".join(d for d, _ in pairs) != b[place:]:
                raise wrong(self.name, f"digits of term {place + 1}", b[place:], "".join(d for d, _ in pairs))
            weight = int("".join(flag for _, flag in pairs))
            if weight != 10 ** (len(b) - place - 1):
                raise wrong(self.name, f"flags of term {place + 1}", 10 ** (len(b) - place - 1), weight)
            value += int(head) * weight
        if value != int(b):
            raise wrong(self.name, "value of the terms", int(b), value)


_ADDITION: Final = re.compile(r"(\d+)\+(\d+)=(\d{4}(?:,\d{4})*)>(\d+)\.")
_MULTIPLICATION: Final = re.compile(r"(\d+)x(\d+)=(\d+)x\[([^\]]*)\]\.")
_PAIR: Final = re.compile(r"\((\d)>([01])\)")
