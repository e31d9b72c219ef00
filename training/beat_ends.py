"""Whether arrivals are foreseen better by a head that reads each end of the body by itself.

As :mod:`training.beat_strokes`, judged by the rule that waits for the last moment, with the head of
:mod:`training.end_curves` and more copies of the training clips: eight varied ones, of which most are also
slower or faster throughout, and two hurried ones. With ``--told`` the head is told so much of the future
exactly, and no trunk: what a forecast of the pose could give it at most. With ``--half`` it has also learned
from half of the dances of those who were left out, and is judged on the other half.

    python -m training.beat_ends --data ../shared/data --checkpoint runs/without/checkpoint --without 05,16
"""

import argparse
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch

from pyanticip.errors import MotionError, OptionError
from pyanticip.last_moment import LastMoment
from pyanticip.models import MotionTransformer, load_motion_model
from training import beat_probe
from training.beat_strokes import hurried
from training.data.examples import SHORTEST, Example, Piece, plain, varied
from training.end_curves import Frames, hear, teach_ends
from training.evaluate.categories import group_of, read_categories
from training.evaluate.events import Announcements
from training.evaluate.rules import LEADS_MS, live
from training.tasks.motion.scores import Said
from training.teacher.filters import RATE

PACES: Final = (0.65, 1.6)
"""How fast varied copies are played."""
PACED: Final = 0.7
"""Share of them that are."""


@dataclass(frozen=True)
class Settings:
    """What is asked of the study."""

    without: tuple[str, ...]
    copies: int
    faster: int
    seeds: int
    told: int
    """Frames."""
    half: bool


def paced(pieces: Sequence[Piece], copies: int, seed: int = 5) -> Iterator[Example]:
    """Every piece as it is, and varied copies of each, most of them slower or faster throughout."""
    slowest, fastest = np.log(PACES)
    for number, piece in enumerate(pieces):
        made = [plain(piece)]
        for copy in range(copies):
            rng = np.random.default_rng((seed, number, copy))
            partner = pieces[int(rng.integers(len(pieces)))]
            pace = float(np.exp(rng.uniform(slowest, fastest))) if rng.random() < PACED else 1.0
            made.append(varied(replace(piece, rate=piece.rate * pace), rng, partner))
        yield from (example for example in made if len(example) >= SHORTEST)


def half_of(name: str) -> int:
    """In which half of the takes a piece is, 0 or 1."""
    return zlib.crc32(name.split("/")[0].encode()) % 2


def later(example: Example, frames: int) -> Example:
    """The clip with its onsets so many frames later, where they are still inside."""
    onsets = example.onsets + frames
    return replace(example, onsets=onsets[onsets < len(example)])


def study(model: MotionTransformer, data: Path, cache: Path | None, given: Settings) -> None:
    """Print F1 at each lead of every seed and their mean; without ``without`` the validation subjects'."""
    kept, left = beat_probe.sides(data, cache, given.without)
    categories = read_categories(data)
    if given.half:
        left = [piece for piece in left if group_of(piece.name, categories) == "dance"]
        if {half_of(piece.name) for piece in left} != {0, 1}:
            raise OptionError(
                "--half needs dances among those who are left out with --without, two takes or more"
            )
    judged = list(paced(left, 0))
    groups = [group_of(example.name, categories) for example in judged]
    heard = hear(model, judged)
    taught = hear(model, paced(kept, given.copies))
    taught += hear(model, hurried(kept, given.faster))
    folds = [(Frames(taught, given.told), list(range(len(judged))))]
    if given.half:
        folds = []
        for number in (0, 1):
            mine = [piece for piece in left if half_of(piece.name) == number]
            known = hear(model, paced(mine, given.copies)) + hear(model, hurried(mine, given.faster))
            others = [i for i, example in enumerate(judged) if half_of(example.name) != number]
            folds.append((Frames(taught + known, given.told), others))
    true = [later(example, given.told) for example in judged]
    rows = []
    for seed in range(given.seeds):
        said: dict[str, Said] = {}
        for frames, chosen in folds:
            asked = Frames([heard[i] for i in chosen], given.told)
            logits = partial(teach_ends(frames, seed=seed).logits, asked)
            said |= beat_probe.said_of([true[i] for i in chosen], asked.gate, logits)

        def announced(example: Example, ms: int, said: Mapping[str, Said] = said) -> Announcements:
            return live(said[example.name], 0, LastMoment(), lead_ms=float(ms))

        rows.append(beat_probe.judge(true, groups, announced))
        print(f"seed {seed}: {rows[-1]}", flush=True)
    for group, cell in summary(rows).items():
        print(f"{group}: {cell}")


def summary(rows: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, str]:
    """Mean F1 at each lead over seeds, and the range at the middle one, by group."""
    found = {}
    for group in rows[0]:
        table = np.array([row[group] for row in rows])
        middle = table[:, len(LEADS_MS) // 2]
        means = " ".join(f"{value:.2f}" for value in table.mean(axis=0))
        found[group] = f"{means} ({middle.min():.2f}-{middle.max():.2f})"
    return found


def settings(given: argparse.Namespace) -> Settings:
    """What was given, if it makes sense.

    Raises:
        OptionError: it does not.
    """
    without = tuple(filter(None, given.without.split(",")))
    told = given.told * RATE / 1000.0
    if given.seeds < 1:
        raise OptionError(f"--seeds must be at least 1, given {given.seeds}")
    if given.copies < 0 or given.faster < 0:
        raise OptionError("--copies and --faster must be at least 0")
    if told < 0 or told != round(told) or told > 25:
        raise OptionError(f"--told must be a multiple of 20 ms from 0 to 500, given {given.told}")
    if given.half and not without:
        raise OptionError("--half needs --without: whose dances are halved")
    return Settings(without, given.copies, given.faster, given.seeds, round(told), given.half)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row of the table "Each end by itself" of ``docs/experiments/beats.md``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of CMU takes, or its parent")
    parser.add_argument("--cache", type=Path, help="folder where retargeted motion is kept")
    parser.add_argument("--checkpoint", type=Path, help="a motion model; the packaged one by default")
    parser.add_argument("--without", default="", help="training subjects the checkpoint has not seen: judged")
    parser.add_argument("--copies", type=int, default=8, help="varied copies of each training clip")
    parser.add_argument("--faster", type=int, default=2, help="copies of each that are played faster")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--told", type=int, default=0, help="ms of the future that the head is told")
    parser.add_argument(
        "--half", action="store_true", help="also learn from half of the left dances, judge the other half"
    )
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        asked = settings(given)
        study(load_motion_model(given.checkpoint).eval(), given.data, given.cache, asked)
    except MotionError as error:
        print(f"beat_ends: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
