"""The commands of the study of patterns. Mounted by pyanticip.cli.training."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli.tools import JSON, ExampleCommand, typed
from pyanticip.cli_runs import OUT, PATH, PROCESSES, RUNS, named, say, seeds, tables, told


@click.command("patterns", cls=ExampleCommand)
@OUT
@seeds("0-2")
@click.option("--patterns", default="all", show_default=True, help="Comma-separated; or all.")
@click.option("--variants", default="all", show_default=True, help="Comma-separated; or all.")
@click.option("--steps", default=500, show_default=True, type=click.IntRange(1), help="Updates of every run.")
@PROCESSES
@JSON
def train_patterns(
    out: Path, seeds: str, patterns: str, variants: str, steps: int, processes: int, as_json: bool
) -> None:
    """Train small models that differ in their positions on seven kinds of patterns; go on where it stopped.

    \b
    Example: pyanticip train patterns --out runs/patterns --seeds 0-2
    """
    from training.patterns import study
    from training.patterns.generators import PATTERNS
    from training.study.runs import seeds as numbers

    runs = study.plan(
        named(patterns, {"all": tuple(PATTERNS)}),
        named(variants, {"all": tuple(study.VARIANTS)}),
        numbers(seeds),
    )
    report = study.study(out, runs, study.Recipe(steps=steps), processes=processes, say=say(as_json))
    told(report, as_json, f"patterns {typed(out)}")


@click.command("patterns", cls=ExampleCommand)
@RUNS
@click.option("--report", type=PATH, help="Folder of trajectory-positions.md.")
@JSON
def evaluate_patterns(runs: Path, report: Path | None, as_json: bool) -> None:
    """Compare the positions of train patterns: losses, gains paired by seed; from what is done.

    \b
    Example: pyanticip evaluate patterns runs/patterns --report docs/experiments
    """
    from training.patterns.report import report as made

    tables(made(runs, report), as_json, report)
