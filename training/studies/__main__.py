"""``python -m training.studies NAME``: do a study's runs that are missing, and say what all of them say.

For a seed all arms learn from the same data in the same order. Runs come seed by seed, so that a study that
was stopped early has treated all arms alike. A run whose line is in ``runs.jsonl`` is not repeated: the same
command goes on where the last one stopped.
"""

import argparse
import functools
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from pydantic import BaseModel

from pyanticip.errors import FormatError, MotionError, OptionError, one_line
from pyanticip.untrusted import read_text
from training.report.tables import interval, paired, spread, table
from training.run.settings import seed_list
from training.studies.geometric_bias import ARMS, CASES, PAIRS, TITLE, Trial

RUNS: Final = "runs.jsonl"
MEASURES: Final[dict[str, tuple[Callable[[float], float], int]]] = {
    "perplexity": (math.exp, 3),
    "loss": (float, 4),
}
"""What runs are judged by, of their mean cross-entropy in nats, and with how many decimals."""


class Run(BaseModel):
    """A line of ``runs.jsonl``."""

    case: str
    arm: str
    seed: int
    source: str
    """Of the data."""
    figures: dict[str, float]
    """``full``: mean cross-entropy, nats."""
    parameters: int
    cpu_seconds: float
    versions: dict[str, str] = {}


def read(out: Path) -> list[Run]:
    """The runs in a folder, by seed; none where there is no ``runs.jsonl``.

    Raises:
        FormatError: a line that is no run of the study.
    """
    file, found = out / RUNS, []
    for number, text in enumerate(read_text(file).splitlines() if file.is_file() else (), 1):
        try:
            run = Run.model_validate_json(text)
            if run.case not in CASES or run.arm not in ARMS or "full" not in run.figures:
                raise ValueError(f"case {run.case}, arm {run.arm}, figures {sorted(run.figures)}")
        except ValueError as error:
            raise FormatError(f"{file}, line {number}: not a run of {TITLE!r}: {one_line(error)}") from None
        found.append(run)
    return sorted(found, key=lambda run: run.seed)


def perform(trial: Trial, out: Path, seeds: Sequence[int]) -> Iterator[str]:
    """Do the runs of a case that are missing in a folder; says of each that it is done.

    Raises:
        OptionError: runs in ``out`` of other data.
        FormatError: something else in ``out``.
    """
    out.mkdir(parents=True, exist_ok=True)
    kept = [run for run in read(out) if run.case == trial.case]
    if any(run.source != trial.source for run in kept):
        raise OptionError(f"{out / RUNS}: runs learned from other data: use another folder")
    there = {(run.seed, run.arm) for run in kept}
    wanted = [(seed, arm) for seed in seeds for arm in ARMS]
    waiting = [each for each in wanted if each not in there]
    torch.set_num_threads(1)
    for number, (seed, arm) in enumerate(waiting, len(wanted) - len(waiting) + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        loss, parameters = trial.run(arm, seed)
        run = Run(
            case=trial.case,
            arm=arm,
            seed=seed,
            source=trial.source,
            figures={"full": loss},
            parameters=parameters,
            cpu_seconds=round(time.process_time() - cpu, 2),
            versions=_versions(),
        )
        # One write, so that several commands, each with its seeds, may share a folder.
        with (out / RUNS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(run.model_dump()) + "\n")
        yield f"{number}/{len(wanted)} {trial.case} {arm} seed {seed}: {time.perf_counter() - wall:.1f} s"


@functools.lru_cache
def _versions() -> dict[str, str]:
    """With the commit of this program, marked where files were changed since; empty outside a checkout."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10)
        commit = done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        commit = ""
    return {"python": platform.python_version(), "torch": torch.__version__, "commit": commit}


def tables(runs: Sequence[Run]) -> str:
    """What runs say, as Markdown: each arm over its seeds, and pairs of arms seed by seed."""
    text = f"{len(runs)} runs.\n"
    for case in CASES:
        arms = {arm: {run.seed: run for run in runs if (run.case, run.arm) == (case, arm)} for arm in ARMS}
        rows = [
            (
                arm,
                str(len(found)),
                f"{next(iter(found.values())).parameters:,}",
                f"{np.median([run.cpu_seconds for run in found.values()]):.0f}",
                *(spread(list(_values(found, name).values()), MEASURES[name][1]) for name in MEASURES),
            )
            for arm, found in arms.items()
            if found
        ]
        gaps = [
            (f"{one} less {other}", *(_gap(arms[one], arms[other], name) for name in MEASURES))
            for one, other in PAIRS
            if arms[one].keys() & arms[other].keys()
        ]
        if rows:
            head = ["", "seeds", "parameters", "CPU s", *MEASURES]
            text += f"\n**{case.capitalize()}**, mean ± standard deviation over seeds.\n\n"
            text += f"Perplexity, and loss in nats:\n\n{table(head, rows)}"
        if gaps:
            text += "\nDifferences, paired by seed, 95 % interval by Student's t (bold: without zero):\n\n"
            text += table(["", *MEASURES], gaps)
    return text


def _values(runs: Mapping[int, Run], measure: str) -> dict[int, float]:
    """A number of every seed's run."""
    return {seed: MEASURES[measure][0](run.figures["full"]) for seed, run in runs.items()}


def _gap(one: Mapping[int, Run], other: Mapping[int, Run], measure: str) -> str:
    """A number of one arm less that of the other, over their common seeds."""
    first, second = _values(one, measure), _values(other, measure)
    gap = paired([first[seed] - second[seed] for seed in first if seed in second])
    shown, low, high = f"{gap['mean']:+.4f}", gap["low"], gap["high"]
    if low is not None and not round(low, 4) <= 0.0 <= round(high, 4):
        shown = f"**{shown}**"
    return f"{shown} ({interval(low, high)})"


def parser() -> argparse.ArgumentParser:
    """The command."""
    made = argparse.ArgumentParser(prog="python -m training.studies", description=TITLE)
    made.add_argument("study", choices=["geometric-bias"])
    made.add_argument(
        "--out", type=Path, required=True, help=f"folder of {RUNS}; the runs that are in it are kept"
    )
    made.add_argument("--seeds", default="0-4", help="such as 0-4 or 0,2,7 (default 0-4)")
    made.add_argument("--train", type=Path, help="a text to learn from; none: synthetic data")
    made.add_argument("--test", type=Path, help="a text to test on")
    return made


def main(words: Sequence[str]) -> None:
    """Run one command line.

    Raises:
        MotionError: bad input.
    """
    given = parser().parse_args(words or ["--help"])
    seeds = seed_list(given.seeds)
    for line in perform(Trial(given.train, given.test, given.out / "cache"), given.out, seeds):
        print(line, file=sys.stderr)
    print(tables(read(given.out)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (MotionError, OSError) as error:
        print(f"training.studies: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, OptionError) else 1)
    except KeyboardInterrupt:
        print("interrupted; runs that were finished are kept, and the same command goes on", file=sys.stderr)
        sys.exit(130)
