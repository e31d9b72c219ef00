"""What ``pyanticip train motion`` does with what it is given."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from pyanticip.errors import OptionError
from pyanticip.models.checkpoint.manifest import read_manifest
from training.tasks.motion.folder import CHECKPOINT, read_options
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.train import fit


def run(
    out: Path,
    given: Mapping[str, Any],
    *,
    config: Path | None = None,
    settings: Sequence[str] = (),
    resume: bool = False,
    quiet: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """Train with the options of a command line.

    Args:
        out: folder of the run.
        given: options by the names of :data:`FLAGS`; None stands for one that is not given.
        config: TOML file of options.
        settings: ``name=value`` of further options; these and ``given`` win over the file's.
        resume: go on with the run in ``out``; its options are its own, and given ones must agree.
        quiet: no progress bar.

    Returns:
        The report of the run and the lines to tell about it; none in processes other than the first.
    """
    over = MotionTrainOptions.assignments(settings, given)
    options = MotionTrainOptions.gather(config, over, under=read_options(out).to_dict() if resume else {})
    report = fit(options, out, resume=resume, quiet=quiet)
    if int(os.environ.get("RANK", "0")):
        return report, []
    return report, _lines(out, report, options.data.path)


def _lines(out: Path, report: Mapping[str, Any], data: str) -> list[str]:
    if not report["finished"]:
        return [
            f"interrupted after step {report['step']}; everything is kept. Go on with:",
            f"  pyanticip train motion --out {quote(str(out))} --resume",
        ]
    early = ", early: no better score came" if report["stopped_early"] else ""
    lines = [
        f"{report['step']} steps in {report['seconds']:.0f} s{early}; best at step {report['best_step']}: "
        f"error {report['validation']['error']:.4f} from 100 ms on, score {report['validation']['score']:.4f}"
    ]
    if "frames_per_second" in report:
        lines.append(
            f"{report['frames_per_second']:.0f} frames a second; the model waited for them "
            f"{100 * report['loader_wait']:.1f} % of the time"
        )
    if report["export"] == CHECKPOINT:
        lines += [
            f"wrote {out / CHECKPOINT}; judge it with:",
            f"  pyanticip evaluate motion --data {quote(data)} --checkpoint {quote(str(out / CHECKPOINT))}",
        ]
        if _might_hear(out / CHECKPOINT):
            lines += [
                "its beats may get better once its event head hears strokes; a minute tells by how much:",
                f"  pyanticip train beats --data {quote(data)} --checkpoint {quote(str(out / CHECKPOINT))} "
                f"--out {quote(str(out / 'beats'))}",
            ]
    return lines


def _might_hear(checkpoint: Path) -> bool:
    """Whether a checkpoint's model does not follow strokes, and could."""
    config = read_manifest(checkpoint).config
    try:
        return not config.strokes and replace(config, strokes=True).strokes
    except OptionError:
        return False
