"""The command that trains a forecaster of poses. Mounted by :mod:`pyanticip.cli.training`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyanticip.cli.generate import Command
from pyanticip.cli.terminal import print_json, typed

if TYPE_CHECKING:
    from training.tasks.options import ForecastOptions


@click.command("forecast", cls=Command, options="training.tasks.options:ForecastOptions", extra="train")
def train_forecast(given: ForecastOptions) -> None:
    """Train a forecaster of poses on the benchmark's training files, or study it on clips left out.

    Example: pyanticip train forecast --data data/cmu-bench --out runs/forecast
             pyanticip train forecast --data data/cmu-bench --out runs/folds --folds 5
    """
    from training.tasks.forecast import folds as leave_out
    from training.tasks.forecast import train as trainer

    options = trainer.options_from(given.chosen())

    def say(line: str) -> None:
        click.echo(line, err=given.as_json)

    if given.folds:
        report = leave_out.study(given.data, given.out, options, given.folds, say=say)
        hint = f"pyanticip evaluate forecast --folds {typed(given.out)}"
    else:
        report = trainer.train(
            given.data, given.out, options, validation=given.validation, refit=given.refit, say=say
        )
        hint = f"pyanticip evaluate forecast --data {typed(given.data)} --checkpoint {typed(given.out)}"
    if given.as_json:
        print_json(report)
    else:
        click.echo(f"wrote {given.out}; judge it with:\n  {hint}")
