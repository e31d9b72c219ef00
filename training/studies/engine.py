"""Arms times seeds: runs that are equal but for one thing, a line each in ``runs.jsonl``.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_text

RUNS: Final = "runs.jsonl"

Row = Mapping[str, Any]
"""The scores of one unit: of a held-out subject, or of everything where nothing is told apart."""
Rows = Sequence[Row]
Line = dict[str, Any]
"""One run: ``case``, ``arm``, ``seed`` (None: needs none), ``options`` that are not the study's own,
``source``, ``figures``, ``versions`` and what else its ground keeps."""

Options = TypeVar("Options")


@dataclass(frozen=True)
class Measure:
    """A number that runs are judged by: of some units' rows, and of the reference's rows of the same."""

    title: str
    value: Callable[[Rows, Rows], float]
    digits: int = 3


def mean_of(*names: str) -> Callable[[Rows, Rows], float]:
    """The mean of a figure, or of several, over the units that have it; not a number where none has."""

    def value(rows: Rows, held: Rows) -> float:
        found = [row[name] for row in rows for name in names if row.get(name) is not None]
        return float(np.mean(found)) if found else float("nan")

    return value


class Ground(Protocol):
    """What the runs of a case learn from and are judged on, made once."""

    @property
    def source(self) -> str:
        """Tells the data apart from other data."""
        ...

    @property
    def rivals(self) -> Mapping[str, Mapping[str, Any]]:
        """Figures of what needs no run, by name; the first is what errors are divided by."""
        ...

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """One run: its ``figures``, and what else is worth a place in its line."""
        ...


def whole(line: Line, view: str) -> dict[str, Row]:
    """Units of a study that shows case by case and tells nothing apart."""
    return {"": line["figures"]} if line["case"] == view else {}


@dataclass(frozen=True)
class Study(Generic[Options]):
    """A question: what is compared, and by what."""

    title: str
    options: type[Options]
    """A frozen dataclass: what all runs have in common. Its fields are options of the command line; those
    that do not decide the figures (paths, devices) are left out of comparisons, as dataclasses have it."""
    arms: Mapping[str, Any]
    pairs: tuple[tuple[str, str], ...]
    """Arms that are compared, the first with the second."""
    tables: tuple[tuple[str, tuple[Measure, ...]], ...]
    """Captions, and the columns under them; the first is also drawn."""
    ground: Callable[[Options, str, Path], Ground]
    """Of some options and a case, with a folder for what is made on the way."""
    cases: tuple[str, ...] = ("",)
    seeds: str = "0-2"
    views: tuple[str, ...] = ()
    """What is shown apart: sides of the data, or by default the cases."""
    units: Callable[[Line, str], dict[str, Row]] = whole
    """A run's rows of a view, by unit; none where it has no part in it."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The columns of all tables."""
        return tuple(measure for _, columns in self.tables for measure in columns)


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


def changed(options: Any) -> dict[str, Any]:
    """The options that decide figures and differ from the study's own, as JSON has them."""
    own = type(options)()
    found = {
        f.name: getattr(options, f.name)
        for f in dataclasses.fields(options)
        if f.compare and getattr(options, f.name) != getattr(own, f.name)
    }
    result: dict[str, Any] = json.loads(json.dumps(found))
    return result


def read(folder: Path, study: Study[Any]) -> list[Line]:
    """The lines of a folder's ``runs.jsonl``, none where there is no such file.

    Raises:
        FormatError: a line that is no run of the study.
    """
    file, found = folder / RUNS, []
    for number, text in enumerate(read_text(file).splitlines() if file.is_file() else (), 1):
        try:
            line = json.loads(text)
            known = line["seed"] is None or line["arm"] in study.arms
            if not known or line["case"] not in study.cases:
                raise ValueError(f"no case {line['case']!r} with arm {line['arm']!r}")
            found.append({"options": {}, "source": "", **line, "figures": line["figures"]})
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{file}, line {number}: not a run of {study.title!r}: {error}") from None
    return found


def perform(
    study: Study[Options],
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
        study: whose runs they are.
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
    names = chosen("case", cases, study.cases), chosen("arm", arms, study.arms)
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out}: is a file; give a folder")
    kept, own, new = read(out, study), changed(options), not out.exists()
    for line in kept:
        if line["case"] in names[0] and line["options"] != own:
            raise OptionError(f"{out / RUNS}: {_unequal(line['options'], own, options)}: use another folder")
    wanted = [(case, arm, seed) for seed in seeds for case in names[0] for arm in names[1]]
    there = {(line["case"], line["arm"], line["seed"]) for line in kept}
    waiting = [run for run in wanted if run not in there]
    grounds: dict[str, Ground] = {}
    torch.set_num_threads(1)
    try:
        for number, (case, arm, seed) in enumerate(waiting, len(wanted) - len(waiting) + 1):
            if case not in grounds:
                grounds[case] = ground = study.ground(options, case, out / "cache")
                if any(line["case"] == case and line["source"] != ground.source for line in kept):
                    raise OptionError(f"{out / RUNS}: runs learned from other data: use another folder")
                rivals = [name for name in ground.rivals if (case, name, None) not in there]
                for name in rivals:
                    _append(out, _line(case, name, None, own, ground, {"figures": ground.rivals[name]}))
            wall, cpu = time.perf_counter(), time.process_time()
            result = grounds[case].run(arm, seed)
            result["cpu_seconds"] = round(time.process_time() - cpu, 2)
            _append(out, _line(case, arm, seed, own, grounds[case], result))
            took = time.perf_counter() - wall
            say(f"{number}/{len(wanted)} {' '.join(filter(None, (case, arm)))} seed {seed}: {took:.1f} s")
    except KeyboardInterrupt:
        say("interrupted; runs that were finished are kept, and the same command goes on")
        raise
    finally:
        if new and not (out / RUNS).exists():
            shutil.rmtree(out, ignore_errors=True)
    return {"done": len(waiting), "kept": len(wanted) - len(waiting)}


def _line(
    case: str, arm: str, seed: int | None, options: dict[str, Any], ground: Ground, result: dict[str, Any]
) -> Line:
    versions = {"python": platform.python_version(), "torch": torch.__version__, "commit": commit()}
    head = {"case": case, "arm": arm, "seed": seed, "options": options, "source": ground.source}
    return {**head, **result, "versions": versions}


@functools.lru_cache
def commit() -> str:
    """Of this program, with a mark where files were changed since; empty outside a checkout."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _append(out: Path, line: Line) -> None:
    """One write, so that several commands, each with its seeds, may share a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / RUNS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _unequal(theirs: Mapping[str, Any], mine: Mapping[str, Any], options: Any) -> str:
    """Words for the first option that differs."""
    own = type(options)()
    name = next(n for n in {**theirs, **mine} if theirs.get(n) != mine.get(n))
    given, had = (some.get(name, getattr(own, name, None)) for some in (mine, theirs))
    return f"done with {name}={had!r}, not {given!r}"
