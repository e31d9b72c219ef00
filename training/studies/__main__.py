"""``python -m training.studies NAME``: do a study's runs that are missing, and say what all of them say."""

import argparse
import dataclasses
import importlib
import json
import pkgutil
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import training.studies
from pyanticip.errors import MotionError, OptionError, suggestion
from training.run.settings import seed_list
from training.studies.engine import Study, chosen, perform
from training.studies.page import report

SHARED = {"__main__", "engine", "page"}


def names() -> list[str]:
    """The studies: every module here that has one, by the name of its folder in ``docs/experiments``."""
    found = {module.name for module in pkgutil.iter_modules(training.studies.__path__)} - SHARED
    return sorted(name.replace("_", "-") for name in found)


def study_of(name: str) -> Study[Any]:
    """The study of this name.

    Raises:
        OptionError: there is none.
    """
    if name not in names():
        raise OptionError(f"no study {name!r}{suggestion(name, names())}; they are: {', '.join(names())}")
    found: Study[Any] = importlib.import_module(f"training.studies.{name.replace('-', '_')}").STUDY
    return found


def parser_of(name: str, study: Study[Any]) -> argparse.ArgumentParser:
    """The command of a study: what all have, and a flag for every simple option of its own."""
    parser = argparse.ArgumentParser(prog=f"python -m training.studies {name}", description=study.title)
    parser.add_argument("--list", action="store_true", help="say what is compared, and run nothing")
    parser.add_argument("--out", type=Path, help="folder of runs.jsonl, page.md and page.png; none: not kept")
    parser.add_argument("--report", action="store_true", help="run nothing: write OUT's page from its runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seeds", default=study.seeds, help=f"such as 0-4 or 0,2,7 (default {study.seeds})")
    parser.add_argument("--arms", default="", help="between commas; all by default")
    if len(study.cases) > 1:
        parser.add_argument("--cases", default="", help=f"between commas; of {', '.join(study.cases)}")
    hints = get_type_hints(study.options)
    for option in dataclasses.fields(study.options):
        kind = _simple(hints[option.name])
        if kind is not None:
            flag, default = f"--{option.name.replace('_', '-')}", option.default
            text = "" if default in (None, dataclasses.MISSING) else f"default {default}"
            parser.add_argument(flag, type=kind, default=default, help=text)
    return parser


def _simple(kind: Any) -> type | None:
    """The type of an option that a flag can hold."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    return kind if kind in (int, float, str, Path) else None


def main(words: Sequence[str]) -> None:
    """Run one command line.

    Raises:
        MotionError: bad input.
    """
    if not words or words[0].startswith("-"):
        print("python -m training.studies NAME [--list] [--help]")
        for name in names():
            print(f"  {name:22} {study_of(name).title}")
        return
    study = study_of(words[0])
    given = parser_of(words[0], study).parse_args(words[1:])
    if given.list:
        print(study.title)
        for arm, changes in study.arms.items():
            print(f"  {arm:20} {json.dumps(changes)}")
        return
    simple = {option.name for option in dataclasses.fields(study.options)} & set(vars(given))
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder) / "runs"
        if not given.report:
            parts = {key: getattr(given, key, "").replace(" ", "") for key in ("cases", "arms")}
            picked = {key: tuple(filter(None, text.split(","))) for key, text in parts.items()}
            perform(
                study,
                study.options(**{name: getattr(given, name) for name in simple}),
                out,
                seeds=seed_list(given.seeds),
                say=lambda line: print(line, file=sys.stderr),
                **{key: chosen(key, value, getattr(study, key)) for key, value in picked.items()},
            )
        found = report(study, out, page=given.out is not None)
    if given.json:
        # What a run does not have is no number, which JSON knows nothing of.
        found = json.loads(json.dumps(found), parse_constant=lambda name: None)
    print(json.dumps(found, indent=1) if given.json else found["tables"])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (MotionError, OSError) as error:
        print(f"training.studies: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, OptionError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
