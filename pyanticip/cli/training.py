"""The commands that train and judge. Mounted by :mod:`pyanticip.cli`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pyanticip.cli.beats import train_beats, train_packaged
from pyanticip.cli.data import data
from pyanticip.cli.forecast import train_forecast
from pyanticip.cli.generate import Group
from pyanticip.cli.motion import train_motion
from pyanticip.cli.terminal import JSON, print_json


@click.group(cls=Group)
def train() -> None:
    """Train a model on a folder of motion, or on text.

    \b
    Example: pyanticip train motion --data data/cmu --out runs/motion
    """


@train.command("language")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the run.")
@click.option("--data", help="A UTF-8 text file, or: synthetic (the default).")
@click.option("--valid", help="The text file to validate on.")
@click.option("--tokenizer", type=click.Choice(["char", "bpe"]), help="Learned from the training text.")
@click.option("--vocab", type=click.IntRange(0), help="Size of the vocabulary; 0 chooses.")
@click.option("--kind", type=click.Choice(["anticipatory", "baseline"]), help="Or a plain transformer.")
@click.option("--size", type=click.Choice(["small", "default"]), help="Preset of the model.")
@click.option("--steps", type=click.IntRange(1), help="Updates.")
@click.option("--batch", type=click.IntRange(1), help="Sequences per update, over all processes.")
@click.option("--seq-len", type=click.IntRange(2), help="Tokens of a sequence.")
@click.option("--lr", type=click.FloatRange(0, min_open=True), help="Peak learning rate.")
@click.option("--seed", type=click.IntRange(0), help="Of every random choice.")
@click.option("--scalars", type=click.Choice(["external", "self"]), help="Whose scalars steer.")
@click.option("--precision", type=click.Choice(["32", "bf16", "16"]), help="32, or mixed.")
@click.option("--accumulate", type=click.IntRange(1), help="Parts a batch is computed in.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Where to compute.")
@click.option("--threads", type=click.IntRange(0), help="Torch threads; 0 lets torch choose.")
@click.option("--preset", type=click.Choice(["smoke"]), help="Options of the paper's smoke test.")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file of options.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any option; model.NAME too.")
@click.option("--resume", is_flag=True, help="Go on with the interrupted run in --out.")
@JSON
def train_language(
    out: Path,
    preset: str | None,
    config: Path | None,
    settings: tuple[str, ...],
    resume: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Train a token model and keep the run in OUT. Under torchrun all its processes share the work.

    \b
    Example: pyanticip train language --data train.txt --valid valid.txt --steps 2000 --out runs/text
             pyanticip train language --preset smoke --seed 1 --out runs/smoke-1
             pyanticip train language --out runs/text --resume
    """
    from training.run.train import train_as_given
    from training.tasks.token.options import preset as named
    from training.tasks.token.task import LanguageTask

    under = None if preset is None else named(preset)
    report, lines = train_as_given(
        LanguageTask(),
        out,
        given,
        config=config,
        settings=settings,
        under=under,
        resume=resume,
        quiet=as_json,
    )
    if as_json and lines:
        print_json(report)
    for line in () if as_json else lines:
        click.echo(line)
    if not report["finished"]:
        raise click.Abort


train.add_command(data)
train.add_command(train_motion)
train.add_command(train_beats)
train.add_command(train_packaged)
train.add_command(train_forecast)
