"""What a task is: a way to draw examples of a length, a judge of texts of its own, and the one vocabulary."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from pyanticip.errors import FormatError, OptionError

SIZE: Final = 64

PAD: Final = "_"
"""Fills rows of a batch up to a common length; never asked for."""

ASK: Final = "="
"""Ends what is given. Only what stands right of it is learned and judged."""

END: Final = "."
"""End of sequence; the last token of every answer, which must be produced too."""

ARROW: Final = ">"
"""The paper's arrow."""

ACTIONS: Final = ("I_WALK", "I_LOOK", "I_RUN", "I_JUMP", "I_TURN_LEFT", "I_TURN_RIGHT")

TOKENS: Final = (
    PAD,
    END,
    ASK,
    *"0123456789",
    *("+", ",", ARROW, "*", "x", "[", "]", "(", ")", ":"),
    *("walk", "look", "run", "jump", "turn", "left", "right", "around", "opposite", "twice", "thrice"),
    *("and", "after"),
    *ACTIONS,
)
"""Token of every number that is in use; the numbers up to :data:`SIZE` are kept free, as in the paper."""

NUMBERS: Final = {token: number for number, token in enumerate(TOKENS)}

PAD_ID: Final = NUMBERS[PAD]


def split(text: str, *, words: bool = False) -> list[str]:
    """The tokens of a text: characters, or words between blanks.

    Raises:
        FormatError: something that is not in the vocabulary.
    """
    tokens = text.split() if words else [each for each in text if not each.isspace()]
    for place, token in enumerate(tokens):
        if token not in NUMBERS or token == PAD:
            raise FormatError(f"token {place + 1}: {token!r} is not in the vocabulary of the tasks")
    return tokens


def join(tokens: Iterable[str], *, words: bool = False) -> str:
    """The text of tokens, see :func:`split`."""
    return (" " if words else "").join(tokens)


def encode(tokens: Iterable[str]) -> list[int]:
    """The numbers of tokens."""
    return [NUMBERS[token] for token in tokens]


FACTORS: Final = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0)
"""Where the curve over length is measured, in multiples of the longest training length."""


@dataclass(frozen=True)
class Example:
    """What is given, up to and with ``=``, and what must follow, up to and with ``.``, as tokens."""

    prompt: tuple[str, ...]
    answer: tuple[str, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """Prompt and answer."""
        return self.prompt + self.answer


class Task(ABC):
    """One of the eight tasks."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What is asked for, in a line."""
    unit: ClassVar[str]
    """What the length counts."""
    shown: ClassVar[str]
    """The paper's example, in our notation."""
    longest: ClassVar[int]
    """The paper's longest training length; where it has two, the first."""
    least: ClassVar[int] = 1
    """The shortest length there is."""
    words: ClassVar[bool] = False
    """Whether tokens are words between blanks, not characters."""
    copies: ClassVar[bool] = False
    """Whether the paper gives some of its cursors the copy branch in this task."""

    @abstractmethod
    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """An example of this length.

        Raises:
            OptionError: a length below :attr:`least`.
        """

    def draw_test(self, length: int, rng: np.random.Generator) -> Example:
        """An example to test on; where training and test share no source, this is the test's."""
        return self.draw(length, rng)

    @abstractmethod
    def check(self, text: str) -> None:
        """Judge a complete text, without knowing how it was made.

        Raises:
            FormatError: what is wrong with it.
        """

    def lengths(self, longest: int) -> tuple[int, ...]:
        """Where the curve over length is measured after training up to ``longest``."""
        return tuple(sorted({max(self.least, round(factor * longest)) for factor in FACTORS}))

    def longer(self, longest: int) -> int:
        """The first length of that curve that is at least twice the longest training length."""
        return next((n for n in self.lengths(longest) if n >= 2 * longest), 2 * longest)

    def trained(self, longest: int) -> range:
        """The lengths of training up to ``longest``."""
        return range(self.least, longest + 1)

    @abstractmethod
    def tokens(self, length: int) -> int:
        """The most tokens that an example of this length has."""

    def require(self, length: int) -> None:
        """Refuse a length that does not exist."""
        if length < self.least:
            raise OptionError(f"task {self.name}: the shortest length is {self.least}, given {length}")

    def read(self, text: str) -> tuple[list[str], list[str]]:
        """A text's tokens left of ``=``, and right of it without the closing ``.``.

        Raises:
            FormatError: not one ``=`` and one ``.``, the latter at the end.
        """
        tokens = split(text, words=self.words)
        if tokens.count(ASK) != 1:
            raise FormatError(f"{self.name}: expected one {ASK!r}, found {tokens.count(ASK)}")
        if tokens.count(END) != 1 or tokens[-1] != END:
            raise FormatError(f"{self.name}: expected one {END!r}, at the end")
        at = tokens.index(ASK)
        return tokens[:at], tokens[at + 1 : -1]

    def text(self, example: Example) -> str:
        """An example as text."""
        return join(example.tokens, words=self.words)


def wrong(task: str, what: str, wanted: object, found: object) -> FormatError:
    """The error of a checker."""
    return FormatError(f"{task}: {what} must be {wanted!r}, found {found!r}")


def digits(rng: np.random.Generator, count: int, base: int = 10) -> str:
    """``count`` digits below ``base``, drawn evenly."""
    return "".join("0123456789"[value] for value in rng.integers(0, base, count))
