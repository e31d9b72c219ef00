"""``python -m training.studies NAME``: run the missing runs of a study, and print its results.

For a given seed all arms are trained on the same data in the same order. Runs are done seed by seed, so that
a study that was stopped early has about equally many of each arm. A run that is in ``runs.jsonl`` is not
repeated: the same command resumes where the last one stopped.
"""

import argparse
import functools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from pydantic import BaseModel
from scipy import stats

from pyanticip.bench.machine import machine
from pyanticip.errors import FormatError, MotionError, OptionError, one_line
from pyanticip.untrusted import read_text
from training.report.tables import table
from training.run.settings import seed_list
from training.studies.geometric_bias import ARMS, CASES, PAIRS, TITLE, Trial

RUNS: Final = "runs.jsonl"
MEASURES: Final[dict[str, tuple[Callable[[float], float], int]]] = {
    "perplexity": (math.exp, 3),
    "loss": (float, 4),
}
"""Measures of a run as functions of its mean cross-entropy in nats, and their decimals."""


class Run(BaseModel):
    """A line of ``runs.jsonl``."""

    case: str
    arm: str
    seed: int
    source: str
    """Digest of the data."""
    figures: dict[str, float]
    """``full``: mean cross-entropy, nats."""
    parameters: int
    cpu_seconds: float
    versions: dict[str, str] = {}


def read(out: Path) -> list[Run]:
    """Read the runs in a folder, sorted by seed; none without ``runs.jsonl``.

    Raises:
        FormatError: a line that is not a run of the study.
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
    """Do the missing runs of a case, and yield a line after each.

    Raises:
        OptionError: runs in ``out`` with other data.
        FormatError: invalid lines in ``out``.
    """
    out.mkdir(parents=True, exist_ok=True)
    existing = [run for run in read(out) if run.case == trial.case]
    if any(run.source != trial.source for run in existing):
        raise OptionError(f"{out / RUNS}: runs learned from other data: use another folder")
    done_runs = {(run.seed, run.arm) for run in existing}
    planned = [(seed, arm) for seed in seeds for arm in ARMS]
    missing = [each for each in planned if each not in done_runs]
    torch.set_num_threads(1)
    for number, (seed, arm) in enumerate(missing, len(planned) - len(missing) + 1):
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
        # A single write, so that several commands with different seeds can share a folder.
        with (out / RUNS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(run.model_dump()) + "\n")
        yield f"{number}/{len(planned)} {trial.case} {arm} seed {seed}: {time.perf_counter() - wall:.1f} s"


@functools.lru_cache
def _versions() -> dict[str, str]:
    """Versions of Python, torch and this program: its commit, marked as dirty if files were changed, or empty
    outside a checkout."""
    found = machine()
    return {"python": found["python"], "torch": torch.__version__, "commit": found["commit"] or ""}


def tables(runs: Sequence[Run]) -> str:
    """Results as Markdown: each arm over its seeds, and differences of pairs of arms by seed."""
    text = f"{len(runs)} runs.\n"
    for case in CASES:
        arms = {arm: {run.seed: run for run in runs if (run.case, run.arm) == (case, arm)} for arm in ARMS}
        rows = [
            (
                arm,
                str(len(found)),
                f"{next(iter(found.values())).parameters:,}",
                f"{np.median([run.cpu_seconds for run in found.values()]):.0f}",
                *(_spread(list(_values(found, name).values()), MEASURES[name][1]) for name in MEASURES),
            )
            for arm, found in arms.items()
            if found
        ]
        differences = [
            (f"{one} less {other}", *(_difference(arms[one], arms[other], name) for name in MEASURES))
            for one, other in PAIRS
            if arms[one].keys() & arms[other].keys()
        ]
        if rows:
            head = ["", "seeds", "parameters", "CPU s", *MEASURES]
            text += f"\n**{case.capitalize()}**, mean ± standard deviation over seeds.\n\n"
            text += f"Perplexity, and loss in nats:\n\n{table(head, rows)}"
        if differences:
            text += "\nDifferences, paired by seed, 95 % interval by Student's t (bold: without zero):\n\n"
            text += table(["", *MEASURES], differences)
    return text


def _values(runs: Mapping[int, Run], measure: str) -> dict[int, float]:
    """A measure of each run, by seed."""
    return {seed: MEASURES[measure][0](run.figures["full"]) for seed, run in runs.items()}


def _spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation, the latter only for two or more values."""
    deviation = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{deviation}"


def _difference(one: Mapping[int, Run], other: Mapping[int, Run], measure: str) -> str:
    """The mean difference of a measure between two arms, over their common seeds, with its 95 % interval by
    Student's t from two seeds on."""
    first, second = _values(one, measure), _values(other, measure)
    differences = np.array([first[seed] - second[seed] for seed in first if seed in second])
    count, mean = len(differences), float(differences.mean())
    if count < 2:
        return f"{mean:+.4f} (-)"
    half = float(stats.t.ppf(0.975, count - 1) * differences.std(ddof=1) / math.sqrt(count))
    low, high = mean - half, mean + half
    shown = f"{mean:+.4f}" if round(low, 4) <= 0.0 <= round(high, 4) else f"**{mean:+.4f}**"
    return f"{shown} ({low:+.4f} to {high:+.4f})"


def parser() -> argparse.ArgumentParser:
    """The command's argument parser."""
    command_parser = argparse.ArgumentParser(prog="python -m training.studies", description=TITLE)
    command_parser.add_argument("study", choices=["geometric-bias"])
    command_parser.add_argument(
        "--out", type=Path, required=True, help=f"folder of {RUNS}; the runs that are in it are kept"
    )
    command_parser.add_argument("--seeds", default="0-4", help="such as 0-4 or 0,2,7 (default 0-4)")
    command_parser.add_argument("--train", type=Path, help="a text to learn from; none: synthetic data")
    command_parser.add_argument("--test", type=Path, help="a text to test on")
    return command_parser


def main(argv: Sequence[str]) -> None:
    """Run one command line.

    Raises:
        MotionError: bad input.
    """
    args = parser().parse_args(argv or ["--help"])
    seeds = seed_list(args.seeds)
    for line in perform(Trial(args.train, args.test, args.out / "cache"), args.out, seeds):
        print(line, file=sys.stderr)
    print(tables(read(args.out)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (MotionError, OSError) as error:
        print(f"training.studies: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, OptionError) else 1)
    except KeyboardInterrupt:
        print("interrupted; runs that were finished are kept, and the same command goes on", file=sys.stderr)
        sys.exit(130)
