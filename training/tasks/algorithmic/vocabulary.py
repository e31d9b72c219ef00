"""The one vocabulary of all tasks: 64 tokens, of which every task uses some."""

from collections.abc import Iterable, Sequence
from typing import Final

from pyanticip.errors import FormatError

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


def decode(numbers: Sequence[int]) -> list[str]:
    """The tokens of numbers; a number that is kept free reads ``?``."""
    return [TOKENS[number] if number < len(TOKENS) else "?" for number in numbers]
