"""The command that gets to know a performer. Mounted by :mod:`pyanticip.cli`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pyanticip.cli.tools import CHECKPOINT, JSON, RIG, SOURCE, ExampleCommand, print_json, typed


@click.command(cls=ExampleCommand)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@RIG
@SOURCE
@CHECKPOINT
@click.option("--still", type=click.FloatRange(2, 600), default=8.0, help="Seconds to stand still.")
@click.option("--move", type=click.FloatRange(2, 600), default=22.0, help="Seconds to move.")
@JSON
def calibrate(
    file: Path | None,
    rig_file: Path | None,
    source: dict[str, Any] | None,
    checkpoint: Path | None,
    still: float,
    move: float,
    as_json: bool,
) -> None:
    """Get to know a performer: stand still, then move as you will.

    Learns how much the suit trembles and how far the performer goes, and writes both into the rig as
    [performer]. With a FILE, a recording or any motion file stands in for the suit.

    \b
    Example: pyanticip calibrate --source mocopi://0.0.0.0:12351 --rig stage.toml
    """
    from realtime.control.calibrate import calibrate_from, calibrate_live, write_performer
    from realtime.rig import load_rig

    over: dict[str, Any] = {"source": source} if source else {}
    if checkpoint is not None:
        over["model"] = {"checkpoint": str(checkpoint)}
    found = load_rig(rig_file if rig_file and rig_file.exists() else None, over)
    if file is not None:
        from realtime.programs.live import open_show

        table = calibrate_from(*open_show(file), found)
    else:
        table = calibrate_live(found, still, move, lambda line: click.echo(line, err=True))
    if rig_file is not None:
        write_performer(rig_file, table)
    if as_json:
        print_json(table)
        return
    click.echo("\n".join(["[performer]", *(f"{name} = {values}" for name, values in table.items())]))
    if rig_file is not None:
        click.echo(f"written into {rig_file}; play with: pyanticip live --rig {typed(rig_file)}")
