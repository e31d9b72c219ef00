"""The commands of the forecast benchmark. Mounted by :mod:`pyanticip.cli.training`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pyanticip.cli.generate import Command
from pyanticip.cli.terminal import JSON, can_hold, print_json, typed

PATH = click.Path(path_type=Path)
BENCHMARK = click.option(
    "--benchmark", default="cmu", show_default=True, type=click.Choice(["cmu"]), help="Which one."
)


@click.command("forecast", cls=Command)
@BENCHMARK
@click.option("--data", required=True, type=PATH, help="Folder with train/.")
@click.option("--out", required=True, type=PATH, help="Folder of the run.")
@click.option("--folds", type=click.IntRange(2), help="Leave clips out in so many folds; complete ones stay.")
@click.option(
    "--validation",
    default=4,
    show_default=True,
    type=click.IntRange(0, 5),
    help="Number of the clip of every action that tells when to stop; 0: none.",
)
@click.option("--refit/--no-refit", default=True, help="Then train on all files up to that step.")
@click.option("--steps", type=click.IntRange(1), help="Updates of the schedule.")
@click.option("--every", type=click.IntRange(1), help="Updates between looks at the clip that stops it.")
@click.option("--batch", type=click.IntRange(1), help="Windows per update.")
@click.option("--lr", type=click.FloatRange(0, min_open=True), help="Peak learning rate.")
@click.option("--width", type=click.IntRange(1), help="Width of the network.")
@click.option("--blocks", type=click.IntRange(1), help="Depth of the network.")
@click.option("--swap", type=click.FloatRange(0, 1), help="Share of windows with another window's legs.")
@click.option("--turn", type=click.FloatRange(0), help="Spread of the body's random turns, rad.")
@click.option("--noise", type=click.FloatRange(0), help='Spread of the observed positions, "mm".')
@click.option("--warp", type=click.FloatRange(1, 2), help="Largest factor of speed.")
@click.option(
    "--precision", type=click.Choice(["32", "bf16"]), help="bf16: fast where there is AVX-512 BF16."
)
@click.option("--seed", type=click.IntRange(0), help="Of every random choice.")
@click.option("--threads", type=click.IntRange(1), help="Torch threads.")
@JSON
def train_forecast(
    benchmark: str,
    data: Path,
    out: Path,
    folds: int | None,
    validation: int,
    refit: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Train a forecaster of poses on the benchmark's training files, or study it on clips left out.

    \b
    Example: pyanticip train forecast --data data/cmu-bench --out runs/forecast
             pyanticip train forecast --data data/cmu-bench --out runs/folds --folds 5
    """
    from training.tasks.forecast import folds as leave_out
    from training.tasks.forecast import train as trainer

    options = trainer.options_from(given)
    can_hold(out.parent)

    def say(line: str) -> None:
        click.echo(line, err=as_json)

    if folds:
        report = leave_out.study(data, out, options, folds, say=say)
        hint = f"pyanticip evaluate forecast --folds {typed(out)}"
    else:
        report = trainer.train(data, out, options, validation=validation, refit=refit, say=say)
        hint = f"pyanticip evaluate forecast --data {typed(data)} --checkpoint {typed(out)}"
    if as_json:
        print_json(report)
    else:
        click.echo(f"wrote {out}; judge it with:\n  {hint}")


@click.command("forecast", cls=Command)
@BENCHMARK
@click.option("--data", type=PATH, help="Folder with train/ and test/.")
@click.option(
    "--split", default="test", show_default=True, type=click.Choice(["train", "test"]), help="Which files."
)
@click.option("--checkpoint", type=PATH, help="Run or checkpoint folder of train forecast: adds its row.")
@click.option("--folds", type=PATH, help="Folder of train forecast --folds: judge the clips left out.")
@click.option("--without", multiple=True, type=click.IntRange(1), help="Leave this fold aside; repeatable.")
@click.option("--report", "page", type=PATH, help="Folder for report.html, .md, .json and the picture.")
@JSON
def evaluate_forecast(
    benchmark: str,
    data: Path | None,
    split: str,
    checkpoint: Path | None,
    folds: Path | None,
    without: tuple[int, ...],
    page: Path | None,
    as_json: bool,
) -> None:
    """The published benchmark of motion prediction: both metrics, exactly, beside the published rows.

    \b
    Example: pyanticip evaluate forecast --benchmark cmu --data data/cmu-bench --split train
             pyanticip evaluate forecast --data data/cmu-bench --checkpoint runs/forecast
             pyanticip evaluate forecast --folds runs/folds --report report
    """
    from training.tasks.forecast import evaluate as judge
    from training.tasks.forecast import report as writer

    if page is not None:
        can_hold(page)

    if folds is not None:
        if data is not None or checkpoint is not None:
            raise click.UsageError("--folds stands alone: its scores are in its folder")
        from training.report.pages import as_markdown
        from training.tasks.forecast.judge_folds import judge_folds

        report = judge_folds(folds, without=without)
        parts = writer.fold_parts(report, pictures=page is not None)
        text = as_markdown(writer.fold_parts(report, pictures=False))
    else:
        if data is None:
            raise click.UsageError("expected --data, or --folds")
        if without:
            raise click.UsageError("--without goes with --folds")
        predictors, known = {}, []
        if checkpoint is not None:
            from training.tasks.forecast.predict import load_predictor, trained_on

            predictors["model"] = load_predictor(checkpoint)
            known = trained_on(checkpoint)
        report = judge.evaluate_forecast(data, split=split, predictors=predictors, known=known)
        text = judge.markdown(report)
        parts = writer.split_parts(report, text) if page is not None else []
    if as_json:
        print_json(report)
    else:
        click.echo(text, nl=False)
    if page is not None:
        click.echo(f"wrote {writer.write(parts, report, page)}", err=True)
