"""The commands of the studies of the model's parts on motion. Mounted by pyanticip.cli.training."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli.tools import JSON, ExampleCommand, typed
from pyanticip.cli_runs import OUT, PATH, RUNS, named, on_motion, say, seeds, tables, told

QUESTION = click.argument("question", type=click.Choice(["risk", "positions", "plan"]))


@click.command("study-parts", cls=ExampleCommand)
@QUESTION
@OUT
@seeds("0-2")
@click.option("--arms", default="all", show_default=True, help="Comma-separated; or all.")
@on_motion
@JSON
def train_study_parts(
    question: str,
    out: Path,
    seeds: str,
    arms: str,
    data: Path,
    cache: Path | None,
    steps: int,
    batch_frames: int,
    copies: int,
    lr: float,
    d_model: int,
    ff: int,
    device: str,
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
    report = parts.study(
        asked,
        out,
        parts.plan(asked, named(arms, {"all": tuple(asked.arms)}), numbers(seeds)),
        data,
        parts.Recipe(steps, batch_frames, lr, copies, {"d_model": d_model, "ff": ff}, device),
        cache=cache,
        say=say(as_json),
    )
    told(report, as_json, f"study-parts {question} {typed(out)}")


@click.command("study-parts", cls=ExampleCommand)
@QUESTION
@RUNS
@click.option("--report", type=PATH, help="Folder of the question's page and its figure.")
@JSON
def evaluate_study_parts(question: str, runs: Path, report: Path | None, as_json: bool) -> None:
    """Compare the arms of train study-parts, with intervals; from what is done.

    \b
    Example: pyanticip evaluate study-parts risk runs/risk --report docs/experiments
    """
    from training.study import arms_report
    from training.study.questions import question as find

    tables(arms_report.report(find(question), runs, report), as_json, report)
