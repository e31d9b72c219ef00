"""What the commands of all studies share: options, names with commas, and what is said at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pyanticip.cli.tools import print_json

PATH = click.Path(path_type=Path)
OUT = click.option(
    "--out", required=True, type=PATH, help="Folder of the runs; what it holds is not repeated."
)
PROCESSES = click.option(
    "--processes", default=1, show_default=True, type=click.IntRange(1), help="Runs at a time."
)
DEVICE = click.option(
    "--device",
    default="cpu",
    show_default=True,
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="Where to compute.",
)
RUNS = click.argument("runs", type=PATH)


def seeds(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option for the seeds, with the study's own default."""
    return click.option("--seeds", default=default, show_default=True, help="Such as 0-4 or 0,2,7.")


def on_motion(command: Callable[..., None]) -> Callable[..., None]:
    """Options of the studies on motion: what they learn from, how long and how large."""
    for option in reversed(
        [
            click.option("--data", required=True, type=PATH, help="A set, or a folder of takes."),
            click.option(
                "--cache", type=PATH, help="Folder for what is made of the takes; OUT/cache by default."
            ),
            click.option(
                "--steps",
                default=300,
                show_default=True,
                type=click.IntRange(1),
                help="Updates of every run.",
            ),
            click.option(
                "--batch-frames",
                default=1536,
                show_default=True,
                type=click.IntRange(1),
                help="Frames of an update.",
            ),
            click.option(
                "--copies", default=4, show_default=True, type=click.IntRange(0), help="Variations of a take."
            ),
            click.option(
                "--lr",
                default=2e-3,
                show_default=True,
                type=click.FloatRange(0, min_open=True),
                help="Peak learning rate.",
            ),
            click.option(
                "--d-model",
                default=64,
                show_default=True,
                type=click.IntRange(2),
                help="Width of the models.",
            ),
            click.option(
                "--ff", default=256, show_default=True, type=click.IntRange(1), help="Feed-forward width."
            ),
            DEVICE,
        ]
    ):
        command = option(command)
    return command


def named(text: str, groups: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Names between commas, each once; or those of a group.

    >>> named("all", {"all": ["a", "b"]}), named("b, a,b", {})
    (('a', 'b'), ('b', 'a'))
    """
    if text in groups:
        return tuple(groups[text])
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def say(as_json: bool) -> Callable[[str], None]:
    """Tells about runs as they are finished; beside JSON on standard error."""
    return lambda line: click.echo(line, err=as_json)


def told(report: dict[str, Any], as_json: bool, see: str) -> None:
    """What a study did, and the command that shows it."""
    if as_json:
        print_json(report)
        return
    click.echo(f"{report['done']} runs done, {report['kept']} kept; see them with:")
    click.echo(f"  pyanticip evaluate {see}")


def tables(found: dict[str, Any], as_json: bool, report: Path | None = None, *names: str) -> None:
    """The tables of a study: those of these names, ``tables`` by default."""
    if as_json:
        print_json(found)
        return
    click.echo("\n".join(found[name] for name in names or ("tables",)), nl=False)
    if report is not None:
        click.echo(f"wrote into {report}")
