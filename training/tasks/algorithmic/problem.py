"""Base class of the tasks, which draw examples of a length and check texts; and their common vocabulary."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from pyanticip.errors import FormatError, OptionError

SIZE: Final = 64

PAD: Final = "_"
"""Padding; never part of an example."""

ASK: Final = "="
"""End of the prompt; only what follows is learned and evaluated."""

END: Final = "."
"""End of sequence: the last token of every answer, which must be produced as well."""

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
"""Tokens by number; the other numbers below :data:`SIZE` are unused, as in the paper."""

NUMBERS: Final = {token: number for number, token in enumerate(TOKENS)}

PAD_ID: Final = NUMBERS[PAD]


def split(text: str, *, words: bool = False) -> list[str]:
    """Split a text into tokens: characters, or words separated by blanks.

    Raises:
        FormatError: a token is not in the vocabulary.
    """
    tokens = text.split() if words else [each for each in text if not each.isspace()]
    for place, token in enumerate(tokens):
        if token not in NUMBERS or token == PAD:
            raise FormatError(f"token {place + 1}: {token!r} is not in the vocabulary of the tasks")
    return tokens


def join(tokens: Iterable[str], *, words: bool = False) -> str:
    """Inverse of :func:`split`."""
    return (" " if words else "").join(tokens)


def encode(tokens: Iterable[str]) -> list[int]:
    """Convert tokens to numbers."""
    return [NUMBERS[token] for token in tokens]


FACTORS: Final = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0)
"""Evaluated lengths as multiples of the longest training length."""


@dataclass(frozen=True)
class Example:
    """Tokens of the prompt, including ``=``, and of the answer, including ``.``."""

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
    """Description of the answer, in a line."""
    unit: ClassVar[str]
    """Unit of the length."""
    shown: ClassVar[str]
    """The paper's example, in this package's notation."""
    longest: ClassVar[int]
    """The paper's longest training length; the first if it has two."""
    least: ClassVar[int] = 1
    """Shortest possible length."""
    words: ClassVar[bool] = False
    """Whether tokens are words separated by blanks, rather than characters."""
    copies: ClassVar[bool] = False
    """Whether the paper uses the copy branch for some cursors in this task."""

    @abstractmethod
    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """Draw an example of this length.

        Raises:
            OptionError: the length is below :attr:`least`.
        """

    def draw_test(self, length: int, rng: np.random.Generator) -> Example:
        """Draw a test example; the same distribution as in training by default."""
        return self.draw(length, rng)

    @abstractmethod
    def check(self, text: str) -> None:
        """Check a complete text, independently of how examples are drawn.

        Raises:
            FormatError: the text is wrong; the message says why.
        """

    def lengths(self, longest: int) -> tuple[int, ...]:
        """Evaluated lengths after training up to ``longest``."""
        return tuple(sorted({max(self.least, round(factor * longest)) for factor in FACTORS}))

    def longer(self, longest: int) -> int:
        """The first evaluated length that is at least twice the longest training length."""
        return next((n for n in self.lengths(longest) if n >= 2 * longest), 2 * longest)

    @abstractmethod
    def tokens(self, length: int) -> int:
        """Maximum number of tokens of an example of this length."""

    def require(self, length: int) -> None:
        """Refuse a length below the shortest.

        Raises:
            OptionError: it is.
        """
        if length < self.least:
            raise OptionError(f"task {self.name}: the shortest length is {self.least}, got {length}")

    def read(self, text: str) -> tuple[list[str], list[str]]:
        """Split a text into the tokens before ``=``, and those after it without the final ``.``.

        Raises:
            FormatError: the text does not have exactly one ``=`` and one ``.``, at the end.
        """
        tokens = split(text, words=self.words)
        if tokens.count(ASK) != 1:
            raise FormatError(f"{self.name}: expected one {ASK!r}, found {tokens.count(ASK)}")
        if tokens.count(END) != 1 or tokens[-1] != END:
            raise FormatError(f"{self.name}: expected one {END!r}, at the end")
        at = tokens.index(ASK)
        return tokens[:at], tokens[at + 1 : -1]

    def text(self, example: Example) -> str:
        """Format an example as text."""
        return join(example.tokens, words=self.words)


def wrong(task: str, what: str, expected: object, found: object) -> FormatError:
    """The error for a text that is wrong."""
    return FormatError(f"{task}: {what} must be {expected!r}, found {found!r}")


def digits(rng: np.random.Generator, count: int, base: int = 10) -> str:
    """Draw ``count`` uniform digits below ``base``."""
    return "".join("0123456789"[value] for value in rng.integers(0, base, count))
