"""The error with fewer joints: the same people in smaller suits.

A joint that a suit lacks holds the identity with a mask of 0, and its children take its rotation over, so
that every joint that is left keeps its rotation in the room: what retargeting gives for such a suit.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE
from training.data.corrupt import SUITS, dropped_joints
from training.data.examples import Example, Piece, plain
from training.evaluate.shares import table
from training.evaluate.source import Held
from training.tasks.motion.scores import Array, bootstrap, measure, run_model

DRAWS: Final = 1000

JOINTS_OF: Final[dict[int, tuple[int, ...]]] = {22: tuple(range(len(CANONICAL_JOINTS)))} | {
    len(kept): kept for kept in SUITS.values()
}
"""Joints of each suit, by how many they are."""


def parse(text: str) -> tuple[int, ...]:
    """The suits of ``22,10,6,1``.

    Raises:
        OptionError: not numbers of suits.
    """
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = (0,)
    for count in found:
        if count not in JOINTS_OF:
            raise OptionError(f"joints: expected some of {','.join(map(str, JOINTS_OF))}, given {text!r}")
    return found


def in_suit(held: Held, kept: Sequence[int], *, placed: bool = True) -> tuple[Example, Example]:
    """A clip as a smaller suit gives it: with what the full body's teacher says, and with its own.

    Args:
        held: the clip.
        kept: joints of the suit.
        placed: whether the suit knows where the hips are; if not, the root stays at the origin.
    """
    example = held.example
    quats, mask = dropped_joints(example.quats, held.mask, set(range(len(CANONICAL_JOINTS))) - set(kept))
    root: NDArray[np.float32] = held.root if placed else np.zeros_like(held.root)
    turns = np.ascontiguousarray(quats, dtype=np.float32)
    own = plain(Piece(example.name, example.subject, turns, np.asarray(root), mask, RATE))
    full = Example(
        own.name,
        own.subject,
        own.quats,
        own.features,
        example.params,
        example.onsets,
        example.phrases,
    )
    return full, own


def suit_rows(
    model: MotionTransformer,
    held: Sequence[Held],
    suits: Sequence[int],
    *,
    seed: int = 0,
    on_suit: Callable[[], None] | None = None,
) -> list[dict[str, Any]]:
    """Mean errors in each suit, beside the full body's teacher and beside the suit's own.

    The suit of one joint is judged twice: with the hips' place in the room, and without, as of a phone.

    Args:
        model: what is judged.
        held: the clips, as their sources have them.
        suits: how many joints, of :data:`JOINTS_OF`.
        seed: of the intervals.
        on_suit: called after each.
    """
    rows = []
    for count, placed in [(c, p) for c in suits for p in ((True, False) if c == 1 else (True,))]:
        pairs = [in_suit(one, JOINTS_OF[count], placed=placed) for one in held]
        found: dict[str, Any] = {
            "joints": count,
            "names": [CANONICAL_JOINTS[joint] for joint in JOINTS_OF[count]],
            "place_known": placed,
        }
        # Both are the same motion and features: the model speaks once.
        said = [run_model(model, own).params for _, own in pairs]
        for who, examples in (("full_body", [f for f, _ in pairs]), ("own_body", [o for _, o in pairs])):
            answer = {id(example): params for example, params in zip(examples, said, strict=True)}
            errors = measure(examples, _Answers(answer))
            low, high = bootstrap([errors], _mean, draws=DRAWS, seed=seed)
            found[who] = {
                "mean": table(errors.mean().mean(axis=0))[0],
                "low": table(low)[0],
                "high": table(high)[0],
            }
        rows.append(found)
        if on_suit is not None:
            on_suit()
    return rows


class _Answers:
    """What was said about each clip."""

    def __init__(self, by_clip: dict[int, NDArray[np.float32]]) -> None:
        self.by_clip = by_clip

    def __call__(self, example: Example) -> NDArray[np.float32]:
        return self.by_clip[id(example)]


def _mean(means: list[Array]) -> Array:
    return np.asarray(means[0].mean(axis=0), dtype=np.float64)
