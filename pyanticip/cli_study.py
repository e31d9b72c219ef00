"""The commands of the studies of geometry, on text and on motion. Mounted by pyanticip.cli_training."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli_tools import JSON, ExampleCommand, print_json

PATH = click.Path(path_type=Path)


@click.command("study", cls=ExampleCommand)
@click.option("--out", required=True, type=PATH, help="Folder of the runs; what it holds is not repeated.")
@click.option("--seeds", default="0-4", show_default=True, help="Such as 0-4 or 0,2,7.")
@click.option("--variants", default="main", show_default=True, help="Comma-separated; or main, strides.")
@click.option("--data", default="text,synthetic", show_default=True, help="Either or both.")
@click.option("--train", type=PATH, help="Text to learn from.")
@click.option("--test", type=PATH, help="Text to test on.")
@click.option("--tokens", default=1_000_000, show_default=True, type=click.IntRange(1), help="Of every run.")
@click.option("--lr", default=6e-3, show_default=True, type=click.FloatRange(0, min_open=True), help="Rate.")
@click.option("--d-model", default=64, show_default=True, type=click.IntRange(2), help="Width of the models.")
@click.option("--ff", default=128, show_default=True, type=click.IntRange(1), help="Feed-forward width.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1), help="Runs at a time.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
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
    from training.language import study
    from training.study.runs import seeds as numbers

    names = {"main": study.MAIN, "strides": tuple(study.STRIDES.values())}.get(variants)
    recipe = study.Recipe(
        train,
        test,
        tokens=tokens,
        lr=lr,
        model={"d_model": d_model, "ff": ff, "dropout": 0.0},
        device=device,
    )
    runs = study.plan(data.split(","), names or variants.split(","), numbers(seeds))
    report = study.study(
        out, runs, recipe, processes=processes, say=lambda line: click.echo(line, err=as_json)
    )
    if as_json:
        print_json(report)
    else:
        click.echo(f"{report['done']} runs done, {report['kept']} kept; see them with:")
        click.echo(f"  pyanticip evaluate study {out}")


@click.command("study", cls=ExampleCommand)
@click.argument("runs", type=PATH)
@click.option("--report", type=PATH, help="Folder of geometric-bias.md and slow-stride.md.")
@click.option("--measure", is_flag=True, help="Time the strides of the slow pathway anew, in RUNS.")
@JSON
def evaluate_study(runs: Path, report: Path | None, measure: bool, as_json: bool) -> None:
    """Compare the variants of train study: perplexity, paired differences, cost; from whatever is done.

    \b
    Example: pyanticip evaluate study runs/study --report docs/experiments
    """
    from training.language import stride_cost, study_report

    if measure:
        stride_cost.measure(runs)
    found = study_report.report(runs, report)
    if as_json:
        print_json(found)
    else:
        click.echo(f"{found['bias']}\n{found['strides']}", nl=False)


@click.command("study-motion", cls=ExampleCommand)
@click.option("--out", required=True, type=PATH, help="Folder of the runs; what it holds is not repeated.")
@click.option("--data", required=True, type=PATH, help="A set, or a folder of CMU takes.")
@click.option("--cache", type=PATH, help="Folder for what is made of the takes; OUT/cache by default.")
@click.option("--seeds", default="0-4", show_default=True, help="Such as 0-4 or 0,2,7.")
@click.option("--variants", default="all", show_default=True, help="Comma-separated; or all, main.")
@click.option("--steps", default=300, show_default=True, type=click.IntRange(1), help="Updates of every run.")
@click.option("--batch-frames", default=1536, show_default=True, type=click.IntRange(1), help="Of an update.")
@click.option("--copies", default=4, show_default=True, type=click.IntRange(0), help="Variations of a take.")
@click.option("--lr", default=2e-3, show_default=True, type=click.FloatRange(0, min_open=True), help="Rate.")
@click.option("--d-model", default=64, show_default=True, type=click.IntRange(2), help="Width of the models.")
@click.option("--ff", default=256, show_default=True, type=click.IntRange(1), help="Feed-forward width.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1), help="Runs at a time.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@JSON
def train_study_motion(
    out: Path,
    data: Path,
    cache: Path | None,
    seeds: str,
    variants: str,
    steps: int,
    batch_frames: int,
    copies: int,
    lr: float,
    d_model: int,
    ff: int,
    processes: int,
    device: str,
    as_json: bool,
) -> None:
    """Train motion models that differ in one thing, over seeds; go on where it stopped.

    \b
    Example: pyanticip train study-motion --out runs/geometry --data data/cmu --processes 2
    """
    from training.study import motion
    from training.study.runs import seeds as numbers

    names = {"all": tuple(motion.VARIANTS), "main": motion.MAIN}.get(variants)
    recipe = motion.Recipe(steps, batch_frames, lr, copies, {"d_model": d_model, "ff": ff}, device)
    report = motion.study(
        out,
        motion.plan(names or variants.split(","), numbers(seeds)),
        data,
        recipe,
        cache=cache,
        processes=processes,
        say=lambda line: click.echo(line, err=as_json),
    )
    if as_json:
        print_json(report)
    else:
        click.echo(f"{report['done']} runs done, {report['kept']} kept; see them with:")
        click.echo(f"  pyanticip evaluate study-motion {out}")


@click.command("study-motion", cls=ExampleCommand)
@click.argument("runs", type=PATH)
@click.option("--report", type=PATH, help="Folder of geometry-motion.md and its figure.")
@JSON
def evaluate_study_motion(runs: Path, report: Path | None, as_json: bool) -> None:
    """Compare the variants of train study-motion: errors against hold, events, scalars; from what is done.

    \b
    Example: pyanticip evaluate study-motion runs/geometry --report docs/experiments
    """
    from training.study import motion_report

    found = motion_report.report(runs, report)
    if as_json:
        print_json(found)
    else:
        click.echo(found["tables"], nl=False)
