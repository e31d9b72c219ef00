"""The commands that teach an event head to hear strokes, and that make the packaged model anew.

Mounted by :mod:`pyanticip.cli.training`.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from pyanticip.cli.generate import Command
from pyanticip.cli.terminal import CHECKPOINT, JSON, print_json, show

PATH = click.Path(path_type=Path)


@click.command("beats", cls=Command)
@click.option("--data", required=True, type=PATH, help="A set, or a folder of takes.")
@CHECKPOINT
@click.option("--out", required=True, type=PATH, help="Folder of the new checkpoint.")
@click.option("--without", default="", help="Judge on these training subjects, such as 05,16.")
@click.option(
    "--copies", default=3, show_default=True, type=click.IntRange(0), help="Variations of each clip."
)
@click.option("--faster", default=1, show_default=True, type=click.IntRange(0), help="Copies played faster.")
@click.option(
    "--steps", default=1200, show_default=True, type=click.IntRange(1), help="Of the head's training."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the head.")
@click.option("--cache", type=PATH, help="Folder of sets that are built on the way.")
@JSON
def train_beats(
    data: Path,
    checkpoint: Path | None,
    out: Path,
    without: str,
    copies: int,
    faster: int,
    steps: int,
    seed: int,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Teach a checkpoint's event head to hear strokes, for beats that are announced when they come.

    The head learns from the training side and is judged on the validation side, before and after. All else
    that the model says stays as it is. Nothing is written before the end.

    \b
    Example: pyanticip train beats --data takes --checkpoint runs/motion/checkpoint --out runs/beats
    """
    from pyanticip.options import can_hold
    from training.finish.beats import table, teach_beats

    can_hold(out.parent)
    try:
        report = teach_beats(
            data,
            out,
            checkpoint=checkpoint,
            without=tuple(dict.fromkeys(name.strip() for name in without.split(",") if name.strip())),
            copies=copies,
            faster=faster,
            steps=steps,
            seed=seed,
            cache=cache,
            quiet=as_json,
        )
    except KeyboardInterrupt:
        click.echo(f"interrupted; nothing was written to {out}", err=True)
        raise
    show(report, as_json, table)
    if not as_json:
        click.echo(f"wrote {out}; play it with:\n  pyanticip live --checkpoint {quote(str(out))}")


@click.command("packaged", cls=Command)
@click.option(
    "--data", required=True, type=PATH, envvar="PYANTICIP_DATA", show_envvar=True, help="The CMU takes."
)
@click.option(
    "--out", default="runs/packaged", show_default=True, type=PATH, help="Folder of the stages; goes on."
)
@click.option("--recipe", type=PATH, help="Another recipe (TOML) than that of the packaged model.")
@click.option("--cache", type=PATH, help="Folder of sets that are built on the way.")
@JSON
def train_packaged(data: Path, out: Path, recipe: Path | None, cache: Path | None, as_json: bool) -> None:
    """Make the packaged model anew, from takes to checkpoint; interrupted, the same command goes on.

    \b
    Example: pyanticip train packaged --data ../shared/data --out runs/packaged
    """
    from pyanticip.options import can_hold
    from training.recipes.make import lines, make

    can_hold(out.parent)
    report = make(data, out, recipe=recipe, cache=cache, quiet=as_json)
    if as_json:
        print_json(report)
    for line in () if as_json else lines(report):
        click.echo(line)
    if not report["finished"]:
        raise click.Abort
