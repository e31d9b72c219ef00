"""What ``pyanticip train language`` does with what it is given."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from pyanticip.errors import OptionError
from training.tasks.token.folder import read_options
from training.tasks.token.options import LanguageOptions, assignments, from_dict, merged
from training.tasks.token.train import train


def run(
    out: Path,
    given: Mapping[str, Any],
    *,
    preset: str | None = None,
    config: Path | None = None,
    settings: Sequence[str] = (),
    resume: bool = False,
    quiet: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """Train with the options of a command line.

    Args:
        out: folder of the run.
        given: options by name; None stands for an option that is not given.
        preset: options to start from.
        config: TOML file of options, which win over the preset's.
        settings: ``name=value`` of further options; these and ``given`` win over the file's.
        resume: go on with the run in ``out``; its options are its own, and given ones must agree.
        quiet: no progress bar.

    Returns:
        The report of the run and the lines to tell about it; none in processes other than the first.
    """
    overrides = assignments(settings)
    for name, value in given.items():
        if value is not None:
            if name in overrides:
                raise OptionError(f"option {name} is given twice: {overrides[name]!r} and {value!r}")
            overrides[name] = value
    fields = merged(preset, config, overrides)
    options: LanguageOptions = read_options(out).but(**fields) if resume else from_dict(fields)
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
