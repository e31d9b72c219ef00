"""The commands of the studies of the model's parts on motion. Mounted by pyanticip.cli_training."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli_tools import JSON, ExampleCommand, print_json

PATH = click.Path(path_type=Path)
QUESTION = click.argument("question", metavar="{risk|positions|plan}")


@click.command("study-parts", cls=ExampleCommand)
@QUESTION
@click.option("--out", required=True, type=PATH, help="Folder of the runs; what it holds is not repeated.")
@click.option("--data", required=True, type=PATH, help="A set, or a folder of takes.")
@click.option("--cache", type=PATH, help="Folder for what is made of the takes; OUT/cache by default.")
@click.option("--seeds", default="0-2", show_default=True, help="Such as 0-4 or 0,2,7.")
@click.option("--arms", default="all", show_default=True, help="Comma-separated; or all.")
@click.option("--steps", default=300, show_default=True, type=click.IntRange(1), help="Updates of every run.")
@click.option("--batch-frames", default=1536, show_default=True, type=click.IntRange(1), help="Of an update.")
@click.option("--copies", default=4, show_default=True, type=click.IntRange(0), help="Variations of a take.")
@click.option("--lr", default=2e-3, show_default=True, type=click.FloatRange(0, min_open=True), help="Rate.")
@click.option("--d-model", default=64, show_default=True, type=click.IntRange(2), help="Width of the models.")
@JSON
def train_study_parts(
    question: str,
    out: Path,
    data: Path,
    cache: Path | None,
    seeds: str,
    arms: str,
    steps: int,
    batch_frames: int,
    copies: int,
    lr: float,
    d_model: int,
    as_json: bool,
) -> None:
    """Train motion models that differ in one part, over seeds; go on where it stopped.

    \b
    risk: does a control field that is told about bad frames keep forecasts?
    positions: which way of saying where a frame is forecasts best?
    plan: does a plan of the next second help to forecast it?

    \b
    Example: pyanticip train study-parts risk --out runs/risk --data data/cmu
    """
    from training.study import arms as parts
    from training.study.questions import question as find
    from training.study.runs import seeds as numbers

    asked = find(question)
    names = tuple(asked.arms) if arms == "all" else tuple(arms.split(","))
    recipe = parts.Recipe(steps, batch_frames, lr, copies, {"d_model": d_model})
    report = parts.study(
        asked,
        out,
        parts.plan(asked, names, numbers(seeds)),
        data,
        recipe,
        cache=cache,
        say=lambda line: click.echo(line, err=as_json),
    )
    if as_json:
        print_json(report)
    else:
        click.echo(f"{report['done']} runs done, {report['kept']} kept; see them with:")
        click.echo(f"  pyanticip evaluate study-parts {question} {out}")


@click.command("study-parts", cls=ExampleCommand)
@QUESTION
@click.argument("runs", type=PATH)
@click.option("--report", type=PATH, help="Folder of the question's page and its figure.")
@JSON
def evaluate_study_parts(question: str, runs: Path, report: Path | None, as_json: bool) -> None:
    """Compare the arms of train study-parts, with intervals; from what is done.

    \b
    Example: pyanticip evaluate study-parts risk runs/risk --report docs/experiments
    """
    from training.study import arms_report
    from training.study.questions import question as find

    found = arms_report.report(find(question), runs, report)
    if as_json:
        print_json(found)
    else:
        click.echo(found["tables"], nl=False)
