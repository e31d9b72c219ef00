"""What ``pyanticip train language`` does with what it is given."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from training.run.settings import merge
from training.tasks.token.folder import read_options
from training.tasks.token.options import LanguageOptions, preset
from training.tasks.token.train import train


def run(
    out: Path,
    given: Mapping[str, Any],
    *,
    start: str | None = None,
    config: Path | None = None,
    settings: Sequence[str] = (),
    resume: bool = False,
    quiet: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """Train with the options of a command line.

    Args:
        out: folder of the run.
        given: options by name; None stands for an option that is not given.
        start: name of a preset to start from.
        config: TOML file of options, which win over the preset's.
        settings: ``name=value`` of further options; these and ``given`` win over the file's.
        resume: go on with the run in ``out``; its options are its own, and given ones must agree.
        quiet: no progress bar.

    Returns:
        The report of the run and the lines to tell about it; none in processes other than the first.
    """
    over = LanguageOptions.assignments(settings, given)
    under = {} if start is None else preset(start)
    begun = read_options(out).to_dict() if resume else {}
    options = LanguageOptions.gather(config, over, under=merge(begun, under))
    report = train(options, out, resume=resume, quiet=quiet)
    if int(os.environ.get("RANK", "0")):
        return report, []
    return report, _lines(out, report)


def _lines(out: Path, report: Mapping[str, Any]) -> list[str]:
    if not report["finished"]:
        return [
            f"interrupted after step {report['step']}; everything is kept. Go on with:",
            f"  pyanticip train language --out {quote(str(out))} --resume",
        ]
    return [
        f"wrote {out}: {report['step']} steps, {report['parameters']} parameters, {report['seconds']:.0f} s; "
        f"training loss {report['first_loss']:.3f} -> {report['last_loss']:.3f}, best validation perplexity "
        f"{report['best_perplexity']:.2f} at step {report['best_step']}"
    ]
