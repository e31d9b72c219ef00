"""Arms times seeds: runs that are equal but for one thing, a line each in ``runs.jsonl``, and their page.

For a seed all arms learn from the same data in the same order. Runs come seed by seed, so that a study that
was stopped early has treated all arms alike. A run whose line is there is not repeated: the same command goes
on where the last one stopped.
"""

import dataclasses
import functools
import json
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_text
from training.report.pages import png, pyplot
from training.report.tables import interval, paired, place, spread, table
from training.studies.geometric_bias import ARMS, CASES, MEASURES, PAIRS, TITLE, Options, Trial

RUNS: Final = "runs.jsonl"
BEGIN: Final = "<!-- tables: written by the study, do not edit -->"
END: Final = "<!-- end of tables -->"

Line = dict[str, Any]
"""One run: ``case``, ``arm``, ``seed``, ``options`` that are not the study's own, ``source`` of the data,
``figures``, ``parameters``, ``cpu_seconds``, ``versions``."""
Case = dict[str, dict[int, Line]]
"""A case's runs by arm, in the order of the arms, and by seed, in theirs."""


def chosen(what: str, given: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """The given names, each once, or all known ones where none is given.

    Raises:
        OptionError: a name that is not known.
    """
    names = tuple(known)
    for name in given:
        if name not in names:
            raise OptionError(f"{what}: expected one of {', '.join(names)}, given {name!r}")
    return tuple(dict.fromkeys(given)) or names


def changed(options: Options) -> dict[str, Any]:
    """The options that decide figures and differ from the study's own."""
    given = {f.name: getattr(options, f.name) for f in dataclasses.fields(options) if f.compare}
    return {name: value for name, value in given.items() if value != getattr(Options(), name)}


def read(folder: Path) -> list[Line]:
    """The lines of a folder's ``runs.jsonl``, none where there is no such file.

    Raises:
        FormatError: a line that is no run of the study.
    """
    file, found = folder / RUNS, []
    for number, text in enumerate(read_text(file).splitlines() if file.is_file() else (), 1):
        try:
            line = json.loads(text)
            if line["arm"] not in ARMS or line["case"] not in CASES:
                raise ValueError(f"no case {line['case']!r} with arm {line['arm']!r}")
            line["seed"], line["parameters"] = int(line["seed"]), int(line["parameters"])
            line["cpu_seconds"], line["figures"]["full"] = (
                float(line["cpu_seconds"]),
                float(line["figures"]["full"]),
            )
            found.append({"options": {}, "source": "", **line})
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{file}, line {number}: not a run of {TITLE!r}: {error}") from None
    return found


def perform(
    options: Options,
    out: Path,
    *,
    cases: Sequence[str] = (),
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, int]:
    """Do the runs that have not been done yet.

    Args:
        options: what they have in common.
        out: folder of ``runs.jsonl`` and ``cache``, made if need be; without a run it goes again.
        cases: all by default.
        arms: all by default.
        seeds: of each arm.
        say: told about every run that is finished.

    Returns:
        ``done`` in this call, ``kept`` from earlier ones.

    Raises:
        OptionError: an unknown name, or runs in ``out`` with other options or of other data.
        FormatError: something else in ``out``.
    """
    cases, arms = chosen("case", cases, CASES), chosen("arm", arms, ARMS)
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out}: is a file; give a folder")
    kept, own, new = read(out), changed(options), not out.exists()
    for line in kept:
        if line["case"] in cases and line["options"] != own:
            raise OptionError(f"{out / RUNS}: {_unequal(line['options'], own)}: use another folder")
    wanted = [(case, arm, seed) for seed in seeds for case in cases for arm in arms]
    there = {(line["case"], line["arm"], line["seed"]) for line in kept}
    waiting = [run for run in wanted if run not in there]
    trials: dict[str, Trial] = {}
    torch.set_num_threads(1)
    try:
        for number, (case, arm, seed) in enumerate(waiting, len(wanted) - len(waiting) + 1):
            if case not in trials:
                trials[case] = Trial(options, case, out / "cache")
                if any(line["case"] == case and line["source"] != trials[case].source for line in kept):
                    raise OptionError(f"{out / RUNS}: runs learned from other data: use another folder")
            wall, cpu = time.perf_counter(), time.process_time()
            result = trials[case].run(arm, seed)
            result["cpu_seconds"] = round(time.process_time() - cpu, 2)
            head = {"case": case, "arm": arm, "seed": seed, "options": own, "source": trials[case].source}
            _append(out, {**head, **result, "versions": _versions()})
            say(f"{number}/{len(wanted)} {case} {arm} seed {seed}: {time.perf_counter() - wall:.1f} s")
    except KeyboardInterrupt:
        say("interrupted; runs that were finished are kept, and the same command goes on")
        raise
    finally:
        if new and not (out / RUNS).exists():
            shutil.rmtree(out, ignore_errors=True)
    return {"done": len(waiting), "kept": len(wanted) - len(waiting)}


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


def _append(out: Path, line: Line) -> None:
    """One write, so that several commands, each with its seeds, may share a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / RUNS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _unequal(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """Words for the first option that differs."""
    name = next(n for n in {**theirs, **mine} if theirs.get(n) != mine.get(n))
    given, had = (some.get(name, getattr(Options(), name, None)) for some in (mine, theirs))
    return f"done with {name}={had!r}, not {given!r}"


def report(folder: Path, *, page: bool = True) -> dict[str, Any]:
    """What a folder of runs says; with ``page`` also written into its ``page.md`` and drawn beside it.

    Returns:
        ``tables``, Markdown; ``differences`` by case, pair and measure; ``runs``, how many.

    Raises:
        FormatError: no runs.
    """
    lines = read(folder)
    if not lines:
        raise FormatError(f"{folder / RUNS}: no runs of {TITLE!r}")
    cases = {case: found for case in CASES if (found := _case(lines, case))}
    differences = {
        case: {
            f"{one} less {other}": {name: paired(_apart(found, one, other, name)) for name in MEASURES}
            for one, other in PAIRS
            if found.get(one, {}).keys() & found.get(other, {}).keys()
        }
        for case, found in cases.items()
    }
    options = ", ".join(f"{name} {value}" for name, value in lines[0]["options"].items())
    text = f"{len(lines)} runs{f'; {options}' if options else ''}.\n"
    text += "".join(_tables(case, found, differences[case]) for case, found in cases.items())
    if page:
        place(folder / "page.md", TITLE, text, BEGIN, END)
        (folder / "page.png").write_bytes(draw(*next(iter(cases.items())), differences))
    return {"tables": text, "differences": differences, "runs": len(lines)}


def _case(lines: Sequence[Line], case: str) -> Case:
    runs = sorted((line for line in lines if line["case"] == case), key=lambda line: line["seed"])
    by = {arm: {line["seed"]: line for line in runs if line["arm"] == arm} for arm in ARMS}
    return {arm: found for arm, found in by.items() if found}


def _values(runs: Mapping[int, Line], measure: str) -> dict[int, float]:
    """A number of every seed's run."""
    return {seed: MEASURES[measure](line["figures"]["full"]) for seed, line in runs.items()}


def _apart(found: Case, one: str, other: str, measure: str) -> list[float]:
    """A number of one arm less that of the other, for every common seed."""
    first, second = _values(found[one], measure), _values(found[other], measure)
    return [first[seed] - second[seed] for seed in first if seed in second]


def _tables(case: str, found: Case, differences: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (
            arm,
            str(len(runs)),
            f"{next(iter(runs.values()))['parameters']:,}",
            f"{np.median([line['cpu_seconds'] for line in runs.values()]):.0f}",
            spread(list(_values(runs, "perplexity").values()), 3),
            spread(list(_values(runs, "loss").values()), 4),
        )
        for arm, runs in found.items()
    ]
    parts = [f"\n**{case.capitalize()}**, mean ± standard deviation over seeds.\n"]
    head = ["", "seeds", "parameters", "CPU s", *MEASURES]
    parts.append("Perplexity, and loss in nats:\n\n" + table(head, rows))
    if differences:
        gaps = [(pair, *(_gap(gap) for gap in each.values())) for pair, each in differences.items()]
        parts.append("Differences, paired by seed, 95 % interval by Student's t (bold: without zero):\n")
        parts.append(table(["", *MEASURES], gaps))
    return "\n".join(parts)


def _gap(gap: Mapping[str, Any]) -> str:
    shown, low, high = f"{gap['mean']:+.4f}", gap["low"], gap["high"]
    if low is not None and not round(low, 4) <= 0.0 <= round(high, 4):
        shown = f"**{shown}**"
    return f"{shown} ({interval(low, high)})"


def draw(case: str, found: Case, differences: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> bytes:
    """A column a measure: every seed, and the paired differences with their intervals, as PNG."""
    pairs = differences[case]
    figure, axes = pyplot().subplots(2, len(MEASURES), figsize=(2.6 * len(MEASURES) + 1.5, 6.5))
    for (top, bottom), measure in zip(axes.T, MEASURES, strict=True):
        for number, runs in enumerate(found.values()):
            values = list(_values(runs, measure).values())
            top.plot([number] * len(values), values, ".", color=f"C{number}", ms=7, alpha=0.6)
            top.plot([number - 0.3, number + 0.3], [np.mean(values)] * 2, color=f"C{number}", lw=2)
        top.set_xticks(range(len(found)), list(found), rotation=60, ha="right", fontsize=8)
        top.set_title(measure, fontsize=10)
        for row, each in enumerate(pairs.values()):
            gap = each[measure]
            if gap["low"] is not None:
                bottom.plot([gap["low"], gap["high"]], [-row, -row], color="C0", lw=1.4)
            bottom.plot(gap["mean"], -row, "o", color="C0", ms=4)
        bottom.set_ylim(0.5 - max(len(pairs), 1), 0.5)
        bottom.axvline(0.0, color="black", lw=0.8)
        bottom.set_yticks([])
    axes[1, 0].set_yticks(range(0, -len(pairs), -1), list(pairs), fontsize=8)
    figure.suptitle(f"{case}: every seed and their mean; paired differences", fontsize=11)
    figure.tight_layout()
    return png(figure)
