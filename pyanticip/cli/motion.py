"""The command that trains the motion model. Mounted by :mod:`pyanticip.cli.training`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pyanticip.cli.generate import Command
from pyanticip.cli.terminal import JSON, print_json

PATH = click.Path(path_type=Path)


@click.command("motion", cls=Command)
@click.option("--out", required=True, type=PATH, help="Folder of the run.")
@click.option("--data", type=PATH, help="A set, or a folder of takes.")
@click.option("--config", type=PATH, help="TOML file: [model] [data] [loss] [schedule] [run].")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any option; model.NAME too.")
@click.option("--steps", type=click.IntRange(1), help="Updates.")
@click.option("--batch-frames", type=click.IntRange(1), help="Frames of an update, over all processes.")
@click.option("--lr", type=click.FloatRange(0), help="Peak learning rate.")
@click.option(
    "--patience", type=click.IntRange(0), help="Validations without gain that end the run; 0: none."
)
@click.option("--seed", type=click.IntRange(0), help="Of first weights, windows and dropout.")
@click.option("--copies", type=click.IntRange(0), help="Variations of each clip.")
@click.option("--init", type=PATH, help="Checkpoint to refine, at a lower rate.")
@click.option("--precision", type=click.Choice(["32", "bf16", "16"]), help="32, or mixed.")
@click.option("--accumulate", type=click.IntRange(1), help="Parts an update is computed in.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Where to compute.")
@click.option("--threads", type=click.IntRange(0), help="Torch threads; 0 lets torch choose.")
@click.option("--workers", type=click.IntRange(0), help="Processes that gather windows ahead.")
@click.option("--cache", type=PATH, help="Folder of sets that are built on the way.")
@click.option("--resume", is_flag=True, help="Go on with the interrupted run in --out.")
@JSON
def train_motion(
    out: Path,
    config: Path | None,
    settings: tuple[str, ...],
    resume: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Train the motion model; its best checkpoint goes to OUT/checkpoint. Under torchrun all its processes
    share the work.

    \b
    Example: pyanticip train motion --data takes --out runs/motion
             pyanticip train motion --config motion.toml --set ema=0.999 --seed 1 --out runs/one
             pyanticip train motion --out runs/one --resume
    """
    from training.run.train import train_as_given
    from training.tasks.motion.task import MotionTask

    report, lines = train_as_given(
        MotionTask(), out, given, config=config, settings=settings, resume=resume, quiet=as_json
    )
    if as_json and lines:
        print_json(report)
    for line in () if as_json else lines:
        click.echo(line)
    if not report["finished"]:
        raise click.Abort
