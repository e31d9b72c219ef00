"""The commands of the study of patterns. Mounted by pyanticip.cli_training."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli_tools import JSON, ExampleCommand, print_json

PATH = click.Path(path_type=Path)


@click.command("patterns", cls=ExampleCommand)
@click.option("--out", required=True, type=PATH, help="Folder of the runs; what it holds is not repeated.")
@click.option("--seeds", default="0-2", show_default=True, help="Such as 0-4 or 0,2,7.")
@click.option("--patterns", default="all", show_default=True, help="Comma-separated; or all.")
@click.option("--variants", default="all", show_default=True, help="Comma-separated; or all.")
@click.option("--steps", default=500, show_default=True, type=click.IntRange(1), help="Updates of every run.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1), help="Runs at a time.")
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
        list(PATTERNS) if patterns == "all" else patterns.split(","),
        list(study.VARIANTS) if variants == "all" else variants.split(","),
        numbers(seeds),
    )
    report = study.study(
        out,
        runs,
        study.Recipe(steps=steps),
        processes=processes,
        say=lambda line: click.echo(line, err=as_json),
    )
    if as_json:
        print_json(report)
    else:
        click.echo(f"{report['done']} runs done, {report['kept']} kept; see them with:")
        click.echo(f"  pyanticip evaluate patterns {out}")


@click.command("patterns", cls=ExampleCommand)
@click.argument("runs", type=PATH)
@click.option("--report", type=PATH, help="Folder of trajectory-positions.md.")
@JSON
def evaluate_patterns(runs: Path, report: Path | None, as_json: bool) -> None:
    """Compare the positions of train patterns: losses, gains paired by seed; from whatever is done.

    \b
    Example: pyanticip evaluate patterns runs/patterns --report docs/experiments
    """
    from training.patterns.report import report as tables

    found = tables(runs, report)
    if as_json:
        print_json(found)
    else:
        click.echo(found["tables"], nl=False)
