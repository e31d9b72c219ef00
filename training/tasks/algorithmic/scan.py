"""SCAN with a chain of thought: a command, its clauses written out, then every clause with its actions.

Commands and actions are those of the length split (Lake and Baroni 2018).
"""

import os
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_text
from training.tasks.algorithmic.problem import ACTIONS, ARROW, ASK, END, Example, Task, wrong

FILES: Final = {"train": "tasks_train_length.txt", "test": "tasks_test_length.txt"}
TIMES: Final = {"twice": 2, "thrice": 3}


def scan_folder() -> Path:
    """Folder of the length split: ``scan`` in ``$PYANTICIP_DATA``, else in ``../shared/data``."""
    data = os.environ.get("PYANTICIP_DATA")
    return (Path(data) if data else Path(__file__).parents[3].parent / "shared" / "data") / "scan"


@cache
def corpus(part: str) -> dict[int, tuple[tuple[str, str], ...]]:
    """Read pairs of command and actions of ``"train"`` or ``"test"``, by number of actions.

    Raises:
        FormatError: the file is missing, or a line is invalid.
    """
    path = scan_folder() / FILES[part]
    try:
        lines = read_text(path).splitlines()
    except FormatError as error:
        needs = "task scan-cot needs the length split of SCAN in $PYANTICIP_DATA/scan"
        raise FormatError(f"{error}: {needs}") from None
    by_length: dict[int, list[tuple[str, str]]] = {}
    for number, line in enumerate(lines, 1):
        command, mark, actions = line.removeprefix("IN: ").partition(" OUT: ")
        if not mark or not line.startswith("IN: "):
            raise FormatError(f"{path}: line {number}: expected 'IN: ... OUT: ...', found {line[:60]!r}")
        by_length.setdefault(len(actions.split()), []).append((command, actions))
    return {length: tuple(pairs) for length, pairs in sorted(by_length.items())}


def convert(command: str) -> Example:
    """Convert a command to an example. The first step has the clauses in written order, the second in the
    order of execution: ``x after y`` does y first."""
    clauses, joint = _clauses(command)
    rolled = [" + ".join([body] * times) for body, times in clauses]
    first = f" {joint} ".join(rolled)
    ordered = clauses[::-1] if joint == "after" else clauses
    second = [f"{body} : {_actions(body)}" for body, times in ordered for _ in range(times)]
    answer = f"{first} {ARROW} {' '.join(second)} {END}"
    return Example((*command.split(), ASK), tuple(answer.split()))


def _clauses(command: str) -> tuple[list[tuple[str, int]], str]:
    """The clauses with their repetitions, and the word between them (empty for a single clause)."""
    joint = next((word for word in ("and", "after") if word in command.split()), "")
    clauses = []
    for part in command.split(f" {joint} ") if joint else [command]:
        body, _, last = part.rpartition(" ")
        clauses.append((body, TIMES[last]) if last in TIMES else (part, 1))
    return clauses, joint


def _actions(body: str) -> str:
    """The actions of a clause without ``twice`` and ``thrice``."""
    verb, *rest = body.split()
    act = [] if verb == "turn" else [f"I_{verb.upper()}"]
    if not rest:
        return " ".join(act)
    turn = [f"I_TURN_{rest[-1].upper()}"]
    if rest[0] == "around":
        return " ".join((turn + act) * 4)
    return " ".join(turn * (2 if rest[0] == "opposite" else 1) + act)


class Scan(Task):
    """Navigation commands and their actions."""

    name, title, unit = "scan-cot", "the clauses of a command, then the actions of each", "actions"
    shown = (
        "walk around left twice and look opposite right = walk around left + walk around left and look "
        "opposite right > walk around left : I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK "
        "I_TURN_LEFT I_WALK walk around left : I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK I_TURN_LEFT I_WALK "
        "I_TURN_LEFT I_WALK look opposite right : I_TURN_RIGHT I_TURN_RIGHT I_LOOK ."
    )
    longest = 22
    words: ClassVar[bool] = True
    copies = True

    def draw(self, length: int, rng: np.random.Generator) -> Example:
        """Draw one of the training commands with this many actions."""
        return self._pick("train", length, rng)

    def draw_test(self, length: int, rng: np.random.Generator) -> Example:
        """Draw one of the test commands, or of the training commands if the test has none this short."""
        return self._pick("train" if length < min(corpus("test")) else "test", length, rng)

    def lengths(self, longest: int) -> tuple[int, ...]:
        """Two lengths of training, and the longer ones of the test."""
        return (*(n for n in (10, 22) if n <= longest), *(n for n in corpus("test") if n > longest))

    def tokens(self, length: int) -> int:
        """Number of tokens of the longest example of the corpus with at most this many actions."""
        return max(
            len(convert(command).tokens)
            for part in FILES
            for count, pairs in corpus(part).items()
            if count <= length
            for command, _ in pairs
        )

    def _pick(self, part: str, length: int, rng: np.random.Generator) -> Example:
        self.require(length)
        pairs = corpus(part).get(length)
        if pairs is None:
            have = [str(count) for count in corpus(part)]
            raise OptionError(
                f"task scan-cot: no {part} command has {length} actions; there are those of {', '.join(have)}"
            )
        return convert(pairs[int(rng.integers(len(pairs)))][0])

    def check(self, text: str) -> None:
        """Interprets the command word by word, and compares both steps with the result."""
        prompt, answer = self.read(text)
        if answer.count(ARROW) != 1:
            raise wrong(self.name, f"number of {ARROW!r}", 1, answer.count(ARROW))
        at = answer.index(ARROW)
        first, second = answer[:at], answer[at + 1 :]
        parts, joint = _parts(self.name, prompt)
        expected: list[str] = []
        for number, part in enumerate(parts):
            expected += [joint] if number else []
            body = part[:-1] if part[-1] in TIMES else part
            for turn in range(TIMES.get(part[-1], 1)):
                expected += (["+"] if turn else []) + body
        if first != expected:
            raise wrong(self.name, "first step", " ".join(expected), " ".join(first))
        found_actions, found_words = [], []
        for token in second:
            if token in ACTIONS:
                found_actions.append(token)
            elif token != ":":
                found_words.append(token)
        ordered = list(reversed(parts)) if joint == "after" else parts
        actions = [action for part in ordered for action in interpret(part)]
        if found_actions != actions:
            raise wrong(self.name, "actions", " ".join(actions), " ".join(found_actions))
        blocks = " ".join(second).split(" : ")
        words = [w for p in ordered for _ in range(TIMES.get(p[-1], 1)) for w in p if w not in TIMES]
        if found_words != words or len(blocks) - 1 != sum(TIMES.get(p[-1], 1) for p in ordered):
            raise wrong(self.name, "clauses of the second step", " ".join(words), " ".join(found_words))
        for block in blocks[1:]:
            if not block.startswith("I_"):
                raise wrong(self.name, "what follows a colon", "an action", block.split(" ")[0])


def _parts(task: str, words: list[str]) -> tuple[list[list[str]], str]:
    """The clauses of a command as words, and the word between them."""
    joints = [word for word in words if word in ("and", "after")]
    if len(joints) > 1:
        raise wrong(task, "number of 'and' and 'after'", "at most 1", len(joints))
    if not joints:
        return [words], ""
    at = words.index(joints[0])
    return [words[:at], words[at + 1 :]], joints[0]


def interpret(words: list[str]) -> list[str]:
    """The actions of a clause by the rules of the grammar, from its end to its start.

    Raises:
        FormatError: not a clause of SCAN.
    """
    if words and words[-1] in TIMES:
        return interpret(words[:-1]) * TIMES[words[-1]]
    if len(words) == 1 and words[0] in ("walk", "look", "run", "jump"):
        return [f"I_{words[0].upper()}"]
    if len(words) >= 2 and words[-1] in ("left", "right"):
        turn = [f"I_TURN_{words[-1].upper()}"]
        how = words[-2] if words[-2] in ("around", "opposite") else ""
        verb = words[: -2 if how else -1]
        act = [] if verb == ["turn"] else interpret(verb)
        if len(act) <= 1 and len(verb) == 1:
            return (turn + act) * 4 if how == "around" else turn * (2 if how else 1) + act
    raise FormatError(f"scan-cot: not a clause of SCAN: {' '.join(words)!r}")
