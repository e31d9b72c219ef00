"""The commands of the studies of geometry, on text and on motion. Mounted by pyanticip.cli.training."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli.tools import JSON, ExampleCommand, typed
from pyanticip.cli_runs import DEVICE, OUT, PATH, PROCESSES, RUNS, named, on_motion, say, seeds, tables, told


@click.command("study", cls=ExampleCommand)
@OUT
@seeds("0-4")
@click.option("--variants", default="main", show_default=True, help="Comma-separated; or main, strides.")
@click.option("--data", default="text,synthetic", show_default=True, help="Either or both.")
@click.option("--train", type=PATH, help="Text to learn from.")
@click.option("--test", type=PATH, help="Text to test on.")
@click.option("--tokens", default=1_000_000, show_default=True, type=click.IntRange(1), help="Of every run.")
@click.option(
    "--lr",
    default=6e-3,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Peak learning rate.",
)
@click.option("--d-model", default=64, show_default=True, type=click.IntRange(2), help="Width of the models.")
@click.option("--ff", default=128, show_default=True, type=click.IntRange(1), help="Feed-forward width.")
@PROCESSES
@DEVICE
@JSON
def train_study(
    out: Path,
    seeds: str,
    variants: str,
    data: str,
    train: Path | None,
    test: Path | None,
    tokens: int,
    lr: float,
    d_model: int,
    ff: int,
    processes: int,
    device: str,
    as_json: bool,
) -> None:
    """Train variants of the model that differ in one thing, over seeds and data; go on where it stopped.

    \b
    Example: pyanticip train study --out runs/study --train learn.txt --test test.txt --seeds 0-4
    """
    from training.study import text as study
    from training.study.runs import seeds as numbers

    names = named(variants, {"main": study.MAIN, "strides": tuple(study.STRIDES.values())})
    recipe = study.Recipe(
        train,
        test,
        tokens=tokens,
        lr=lr,
        model={"d_model": d_model, "ff": ff, "dropout": 0.0},
        device=device,
    )
    runs = study.plan(named(data, {}), names, numbers(seeds))
    report = study.study(out, runs, recipe, processes=processes, say=say(as_json))
    told(report, as_json, f"study {typed(out)}")


@click.command("study", cls=ExampleCommand)
@RUNS
@click.option("--report", type=PATH, help="Folder of geometric-bias.md and slow-stride.md.")
@click.option("--measure", is_flag=True, help="Time the strides of the slow pathway anew, in RUNS.")
@JSON
def evaluate_study(runs: Path, report: Path | None, measure: bool, as_json: bool) -> None:
    """Compare the variants of train study: perplexity, paired differences, cost; from what is done.

    \b
    Example: pyanticip evaluate study runs/study --report docs/experiments
    """
    from training.study import stride_cost
    from training.study import text_report as study_report

    if measure:
        study_report.load(runs)  # tells what is not a study before minutes of timing
        stride_cost.measure(runs)
    tables(study_report.report(runs, report), as_json, report, "bias", "strides")


@click.command("study-motion", cls=ExampleCommand)
@OUT
@seeds("0-4")
@click.option("--variants", default="all", show_default=True, help="Comma-separated; or all, main.")
@on_motion
@PROCESSES
@JSON
def train_study_motion(
    out: Path,
    seeds: str,
    variants: str,
    data: Path,
    cache: Path | None,
    steps: int,
    batch_frames: int,
    copies: int,
    lr: float,
    d_model: int,
    ff: int,
    device: str,
    processes: int,
    as_json: bool,
) -> None:
    """Train motion models that differ in one thing, over seeds; go on where it stopped.

    \b
    Example: pyanticip train study-motion --out runs/geometry --data data/cmu --processes 2
    """
    from training.study import motion
    from training.study.runs import seeds as numbers

    names = named(variants, {"all": tuple(motion.VARIANTS), "main": motion.MAIN})
    report = motion.study(
        out,
        motion.plan(names, numbers(seeds)),
        data,
        motion.Recipe(steps, batch_frames, lr, copies, {"d_model": d_model, "ff": ff}, device),
        cache=cache,
        processes=processes,
        say=say(as_json),
    )
    told(report, as_json, f"study-motion {typed(out)}")


@click.command("study-motion", cls=ExampleCommand)
@RUNS
@click.option("--report", type=PATH, help="Folder of geometry-motion.md and its figure.")
@JSON
def evaluate_study_motion(runs: Path, report: Path | None, as_json: bool) -> None:
    """Compare the variants of train study-motion: errors against hold, events, scalars; from what is done.

    \b
    Example: pyanticip evaluate study-motion runs/geometry --report docs/experiments
    """
    from training.study import motion_report

    tables(motion_report.report(runs, report), as_json, report)
