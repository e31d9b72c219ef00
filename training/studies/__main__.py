"""``python -m training.studies NAME``: do a study's runs that are missing, and say what all of them say."""

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyanticip.errors import MotionError, OptionError
from training.run.settings import seed_list
from training.studies.geometric_bias import ARMS, CASES, SEEDS, TITLE, Options
from training.studies.runs import perform, report


def parser() -> argparse.ArgumentParser:
    """The command, with a flag for every option that the study's runs have in common."""
    made = argparse.ArgumentParser(prog="python -m training.studies", description=TITLE)
    made.add_argument("study", choices=["geometric-bias"])
    made.add_argument("--list", action="store_true", help="say what is compared, and run nothing")
    made.add_argument("--out", type=Path, help="folder of runs.jsonl, page.md and page.png; none: not kept")
    made.add_argument("--report", action="store_true", help="run nothing: write OUT's page from its runs")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.add_argument("--seeds", default=SEEDS, help=f"such as 0-4 or 0,2,7 (default {SEEDS})")
    made.add_argument("--arms", default="", help="between commas; all by default")
    made.add_argument("--cases", default="", help=f"between commas; of {', '.join(CASES)}")
    for option in dataclasses.fields(Options):
        flag, own = f"--{option.name.replace('_', '-')}", option.default
        kind, text = (Path, "") if own is None else (type(own), f"default {own}")
        made.add_argument(flag, type=kind, default=own, help=text)
    return made


def main(words: Sequence[str]) -> None:
    """Run one command line.

    Raises:
        MotionError: bad input.
    """
    given = parser().parse_args(words or ["--help"])
    if given.list:
        print(TITLE)
        for arm, changes in ARMS.items():
            print(f"  {arm:20} {json.dumps(changes)}")
        return
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder) / "runs"
        if not given.report:
            perform(
                Options(**{name: getattr(given, name) for name in Options.__dataclass_fields__}),
                out,
                cases=_names(given.cases),
                arms=_names(given.arms),
                seeds=seed_list(given.seeds),
                say=lambda line: print(line, file=sys.stderr),
            )
        found = report(out, page=given.out is not None)
    if given.json:
        # What a run does not have is no number, which JSON knows nothing of.
        found = json.loads(json.dumps(found), parse_constant=lambda name: None)
    print(json.dumps(found, indent=1) if given.json else found["tables"])


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.replace(" ", "").split(",")))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (MotionError, OSError) as error:
        print(f"training.studies: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, OptionError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
