"""``pyanticip tasks evaluate``: exact matches over length, of the last weights and of those before them."""

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
from training.tasks.algorithmic.batches import TEST, all_right, samples
from training.tasks.algorithmic.runs import TaskRun, find_runs, newest

EVALUATION: Final = "evaluation.json"
FORMAT: Final = 1

FAR: Final = 3
"""Lengths beyond so many times the longest of training may be measured on fewer examples."""

TOKENS_AT_ONCE: Final = 1024
"""Rows are read in groups of this many tokens: larger ones wait for memory."""


def curve(
    run: TaskRun, weights: Path, counts: Mapping[int, int], seed: int, known: Mapping[str, float]
) -> dict[str, float]:
    """Share of fresh examples of each length that are right in every token and the end.

    Args:
        run: whose model.
        weights: of it.
        counts: examples of each length to measure at.
        seed: of the examples; the same for all models.
        known: figures from before, by length.

    Returns:
        Share by length (as text, for JSON).
    """
    task = TASKS[run.options.task]
    found = dict(known)
    for length, count in counts.items():
        if str(length) in found:
            continue
        model = run.load(weights, length)
        examples = samples(task, length, count, seed, TEST)
        group = max(1, TOKENS_AT_ONCE // model.cfg.max_seq_len)
        right = [all_right(model, examples[at : at + group]) for at in range(0, count, group)]
        found[str(length)] = float(torch.cat(right).float().mean())
    return found


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
    """Measure the curve over length of every run and write it beside the run; known figures are kept.

    Args:
        places: runs, or folders of runs.
        lengths: to measure at; none: the task's, up to 15 times the longest training length.
        count: fresh examples of each length.
        long_count: the same for lengths beyond :data:`FAR` times the longest of training; None: no other.
        checkpoints: how many weights, the last ones that were kept.
        seed: of the examples.
        say: told about every curve.

    Returns:
        By the name of each run what its ``evaluation.json`` holds.
    """
    found = {}
    for run in find_runs(places):
        run.report()
        task = TASKS[run.options.task]
        where = tuple(lengths) or task.lengths(run.options.top)
        for length in where:
            task.require(length)
        page = read(run) or {"format": FORMAT, "samples": {}, "seed": seed, "curves": {}}
        far = count if long_count is None else long_count
        counts = {length: count if length <= FAR * run.options.top else far for length in where}
        for length, wanted in counts.items():
            had = page["samples"].setdefault(str(length), wanted)
            if (had, page["seed"]) != (wanted, seed):
                raise OptionError(
                    f"{run.folder / EVALUATION}: length {length} has samples={had}, seed={page['seed']}, "
                    f"given {wanted} and {seed}; delete the file to measure anew"
                )
        for weights in newest(run, checkpoints):
            step = weights.stem.removeprefix("step-")
            begun = time.monotonic()
            known = page["curves"].get(step, {})
            page["curves"][step] = curve(run, weights, counts, seed, known)
            if page["curves"][step] != known:
                write_text(run.folder / EVALUATION, json.dumps(page, indent=1) + "\n")
                shares = " ".join(f"{n}:{page['curves'][step][str(n)]:.3f}" for n in where)
                say(f"{run.folder.name} update {int(step)}: {shares} ({time.monotonic() - begun:.0f} s)")
        name = run.folder.name
        found[str(run.folder) if name in found else name] = page
    return found


def read(run: TaskRun) -> dict[str, Any]:
    """What has been measured of a run; empty where nothing has.

    Raises:
        FormatError: a file that is something else.
    """
    path = run.folder / EVALUATION
    if not path.is_file():
        return {}
    page = read_json(path)
    if not isinstance(page, dict) or page.get("format") != FORMAT or not _whole(page):
        raise FormatError(f"{path}: not an evaluation of format {FORMAT}; delete it and evaluate again")
    return page


def _whole(page: dict[str, Any]) -> bool:
    return isinstance(page.get("curves"), dict) and isinstance(page.get("samples"), dict)


def last(page: dict[str, Any]) -> dict[int, float]:
    """Share by length of the last weights."""
    newest_step = max(page["curves"])
    return {int(n): share for n, share in page["curves"][newest_step].items()}


def top_three(page: dict[str, Any]) -> dict[int, float]:
    """Mean by length of the three best weights at it: the paper's figure, which the test chooses. Lengths
    at which fewer than three weights were measured are left out."""
    found: dict[int, list[float]] = {}
    for shares in page["curves"].values():
        for n, share in shares.items():
            found.setdefault(int(n), []).append(share)
    best = {n: sorted(shares)[-3:] for n, shares in found.items() if len(shares) >= 3}
    return {n: sum(shares) / len(shares) for n, shares in best.items()}


def parse_lengths(text: str | None) -> tuple[int, ...]:
    """Lengths from text such as ``10,20,50``; none where there is no text.

    Raises:
        OptionError: not whole numbers from 1.
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) >= 1 for part in parts):
        raise OptionError(f"--lengths: expected whole numbers from 1 such as 10,20,50, given {text!r}")
    return tuple(sorted({int(part) for part in parts}))
