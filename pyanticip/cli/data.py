"""The commands that prepare motion for training. Mounted by :mod:`pyanticip.cli.training`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli.files import READING
from pyanticip.cli.tools import JSON, Group, print_json

if TYPE_CHECKING:
    from training.data.sets.builder import Step

PATH = click.Path(path_type=Path)
WORKERS = click.option(
    "--workers", type=click.IntRange(1), help="Processes; as many as there are cores if not given."
)


@click.group("data", cls=Group)
def data() -> None:
    """Prepare a folder of motion for training, and look at what is in it.

    \b
    Example: pyanticip train data build takes --out sets/mine
    """


def _cores(workers: int | None) -> int:
    import os

    if workers is not None:
        return workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _unit(given: str | None) -> str | float | None:
    """A name of a unit, or metres."""
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


def _progress(what: str, quiet: bool) -> AbstractContextManager[Callable[[Step], None]]:
    """A bar on the terminal, and a line for every file that cannot be used, on standard error."""
    from rich.console import Console

    from training.data.sets.progress import shown

    return shown(what, Console(stderr=True), bar=not quiet and sys.stderr.isatty())


@data.command("build")
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("--out", required=True, type=PATH, help="Folder of the set.")
@WORKERS
@click.option(
    "--subject-from",
    default="auto",
    show_default=True,
    metavar="RULE",
    help="Who performs: auto, folder, top, file, or a regular expression for the path.",
)
@click.option("--split-file", type=PATH, help="Subjects and their sides: TOML or CSV.")
@click.option(
    "--min-seconds",
    default=1.6,
    show_default=True,
    type=click.FloatRange(0.1),
    help="Shorter stretches are left out.",
)
@click.option("--rate", type=click.FloatRange(1, 1000), help="Frames a second of all files.")
@click.option("--units", help="Unit of length of all files: m, cm, mm, in, cmu or metres.")
@READING
@click.option(
    "--sound",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "none"]),
    help="Whether a .wav or .flac beside a take teaches it.",
)
@click.option("--manifest", type=PATH, help="Takes, their sounds and offsets: TOML or CSV.")
@JSON
def data_build(
    folder: Path, out: Path, workers: int | None, units: str | None, as_json: bool, **given: Any
) -> None:
    """Make a set of all takes in DIR: BVH, AMC with ASF, AMASS npz, recordings, in any folders.

    A sound beside a take (walk.wav, walk.bvh), or given in a manifest, teaches it in the teacher's place.
    Interrupted, or with new takes in DIR, the same command goes on with what is finished.

    \b
    Example: pyanticip train data build takes --out sets/mine --workers 8
             pyanticip train data build takes --out sets/mine --split-file who.toml
             pyanticip train data build amass --out sets/amass --subject-from top
    """
    from training.data.sets import build

    with _progress("takes", as_json) as say:
        unit = _unit(units)
        report = build(folder, out, workers=_cores(workers), units=unit, on_progress=say, **given)
    if as_json:
        print_json(report.plain())
        return
    for line in report.warnings:
        click.echo(f"warning: {line}", err=True)
    earlier = f" ({report.found + report.kept} of them done before)" if report.found + report.kept else ""
    click.echo(
        f"{out}: {report.clips} clips, {report.frames} frames ({report.frames / 3000.0:.1f} min) of "
        f"{report.takes} takes{earlier} in {report.seconds:.1f} s"
    )
    for split, subjects in report.subjects.items():
        names = ", ".join(subjects[:12]) + (f" and {len(subjects) - 12} more" if len(subjects) > 12 else "")
        click.echo(f"  {split}: {names or 'nobody'}")


@data.command("augment")
@click.argument("folder", type=PATH, metavar="SET")
@click.option("--out", required=True, type=PATH, help="Folder of the new set.")
@click.option(
    "--copies", default=4, show_default=True, type=click.IntRange(1), help="Variations of each clip."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of every random choice.")
@click.option("--recipe", type=PATH, help="What is done to them: TOML. Everything by default.")
@WORKERS
@JSON
def data_augment(
    folder: Path, out: Path, copies: int, seed: int, recipe: Path | None, workers: int | None, as_json: bool
) -> None:
    """Make a set of variations of the training clips of SET.

    Mirrored, turned, warped in time and more, and seen through poor suits and networks: sensor noise, few
    sensors, frozen frames, lost packets.

    \b
    Example: pyanticip train data augment sets/mine --out sets/mine-varied --copies 16
    """
    from training.data.sets import augment, read_recipe

    how = None if recipe is None else read_recipe(recipe)
    with _progress("clips", as_json) as say:
        made = augment(
            folder, out, copies=copies, seed=seed, recipe=how, workers=_cores(workers), on_progress=say
        )
    if as_json:
        print_json({"out": str(out), "digest": made.digest, "clips": len(made), "frames": made.frames})
        return
    click.echo(f"{out}: {len(made)} variations, {made.frames} frames ({made.frames / 3000.0:.1f} min)")
    for warning in made.index["warnings"]:
        click.echo(f"warning: {warning}", err=True)


@data.command("inspect")
@click.argument("folder", type=PATH, metavar="SET")
@click.option("--out", type=PATH, help="A page.html, or a folder for page, pictures and numbers.")
@click.option("--verify", is_flag=True, help="Read everything and compare its sha256.")
@JSON
def data_inspect(folder: Path, out: Path | None, verify: bool, as_json: bool) -> None:
    """Show what is in a set: totals, poses, scalars, parameters, warnings.

    \b
    Example: pyanticip train data inspect sets/mine --out mine.html
    """
    from training.data.sets.page import inspect, totals_rows

    found = inspect(folder, out, verify=verify)
    if as_json:
        print_json(found)
        return
    head, rows = totals_rows(found)
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        click.echo(f"{row[0].ljust(widths[0])}  {'  '.join(cells)}")
    seconds = found["clip_seconds"]
    click.echo("clips of {shortest} to {longest} s, half of them above {median} s".format(**seconds))
    for line in found["warnings"]:
        click.echo(f"warning: {line}", err=True)
    if verify:
        click.echo("every array is what was written")
    for name in found["files"][:1]:
        click.echo(f"wrote {name}")
