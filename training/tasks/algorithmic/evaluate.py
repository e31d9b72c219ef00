"""``pyanticip tasks evaluate``: share of exact matches by length, of the last checkpoints of each run."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_json
from training.run.files import write_text
from training.tasks.algorithmic import TASKS
from training.tasks.algorithmic.batches import TEST, exact_matches, samples
from training.tasks.algorithmic.runs import TaskRun, find_runs, newest

EVALUATION: Final = "evaluation.json"
FORMAT: Final = 1

LONG_FACTOR: Final = 3
"""Lengths beyond this multiple of the longest training length may have fewer examples."""

TOKENS_PER_CALL: Final = 1024
"""Tokens per call of the model; larger calls are limited by memory."""


def curve(
    run: TaskRun, weights: Path, counts: Mapping[int, int], seed: int, known: Mapping[str, float]
) -> dict[str, float]:
    """Measure the share of exact matches on new examples, by length.

    Args:
        run: the run.
        weights: file of its weights.
        counts: number of examples by length.
        seed: seed of the examples, the same for all models.
        known: results of earlier measurements by length.

    Returns:
        Share by length (as text, for JSON).
    """
    task = TASKS[run.options.task]
    shares = dict(known)
    for length, count in counts.items():
        if str(length) in shares:
            continue
        model = run.load(weights, length)
        examples = samples(task, length, count, seed, TEST)
        group = max(1, TOKENS_PER_CALL // model.cfg.max_seq_len)
        right = [exact_matches(model, examples[at : at + group]) for at in range(0, count, group)]
        shares[str(length)] = float(torch.cat(right).float().mean())
    return shares


def evaluate(
    places: list[Path],
    *,
    lengths: Sequence[int] = (),
    count: int = 1000,
    long_count: int | None = None,
    checkpoints: int = 5,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure exact matches by length for every run; results are added to its ``evaluation.json``.

    Args:
        places: runs, or folders of runs.
        lengths: lengths to measure; by default the task's, up to 15 times the longest training length.
        count: examples per length.
        long_count: examples per length beyond :data:`LONG_FACTOR` times the longest training length; None:
            ``count``.
        checkpoints: number of last checkpoints.
        seed: seed of the examples.
        say: called with a line about every checkpoint.

    Returns:
        Content of ``evaluation.json`` by name of the run.
    """
    pages = {}
    for run in find_runs(places):
        run.report()
        task = TASKS[run.options.task]
        run_lengths = tuple(lengths) or task.lengths(run.options.top)
        for length in run_lengths:
            task.require(length)
        page = read(run) or {"format": FORMAT, "samples": {}, "seed": seed, "curves": {}}
        long_examples = count if long_count is None else long_count
        counts = {
            length: count if length <= LONG_FACTOR * run.options.top else long_examples
            for length in run_lengths
        }
        for length, examples in counts.items():
            measured = page["samples"].setdefault(str(length), examples)
            if (measured, page["seed"]) != (examples, seed):
                raise OptionError(
                    f"{run.folder / EVALUATION}: length {length} has samples={measured}, "
                    f"seed={page['seed']}, got {examples} and {seed}; delete the file to measure again"
                )
        for weights in newest(run, checkpoints):
            step = weights.stem.removeprefix("step-")
            start = time.monotonic()
            known = page["curves"].get(step, {})
            page["curves"][step] = curve(run, weights, counts, seed, known)
            if page["curves"][step] != known:
                write_text(run.folder / EVALUATION, json.dumps(page, indent=1) + "\n")
                shares = " ".join(f"{n}:{page['curves'][step][str(n)]:.3f}" for n in run_lengths)
                say(f"{run.folder.name} update {int(step)}: {shares} ({time.monotonic() - start:.0f} s)")
        name = run.folder.name
        pages[str(run.folder) if name in pages else name] = page
    return pages


def read(run: TaskRun) -> dict[str, Any]:
    """Read the results of a run; empty if there are none.

    Raises:
        FormatError: the file is something else.
    """
    path = run.folder / EVALUATION
    if not path.is_file():
        return {}
    page = read_json(path)
    if not isinstance(page, dict) or page.get("format") != FORMAT or not _is_valid(page):
        raise FormatError(f"{path}: not an evaluation of format {FORMAT}; delete it and evaluate again")
    return page


def _is_valid(page: dict[str, Any]) -> bool:
    curves = page.get("curves")
    return (
        isinstance(curves, dict) and all(map(str.isdecimal, curves)) and isinstance(page.get("samples"), dict)
    )


def last_checkpoint_shares(page: dict[str, Any]) -> dict[int, float]:
    """Share by length of the last checkpoint."""
    newest_step = max(page["curves"], key=int)
    return {int(n): share for n, share in page["curves"][newest_step].items()}


def top_three(page: dict[str, Any]) -> dict[int, float]:
    """Mean of the three best checkpoints at each length: the paper's figure, which is selected on the test.

    Lengths with fewer than three measured checkpoints are left out."""
    by_length: dict[int, list[float]] = {}
    for shares in page["curves"].values():
        for n, share in shares.items():
            by_length.setdefault(int(n), []).append(share)
    best = {n: sorted(shares)[-3:] for n, shares in by_length.items() if len(shares) >= 3}
    return {n: sum(shares) / len(shares) for n, shares in best.items()}


def parse_lengths(text: str | None) -> tuple[int, ...]:
    """Parse lengths such as ``10,20,50``; empty for None.

    Raises:
        OptionError: not positive whole numbers.
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) >= 1 for part in parts):
        raise OptionError(f"--lengths: expected whole numbers from 1 such as 10,20,50, got {text!r}")
    return tuple(sorted({int(part) for part in parts}))
