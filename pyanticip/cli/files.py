"""The commands that look into files, and the options that help a file which does not say what it means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pyanticip.cli.tools import JSON, print_json

UP = click.option(
    "--up", type=click.Choice(["y", "z", "x", "-y", "-z", "-x"]), help="The axis that is up in the file."
)
REST = click.option(
    "--rest",
    type=click.IntRange(0),
    metavar="FRAME",
    help="A frame in which it stands straight or in a T-pose.",
)
SKELETON = click.option("--skeleton", type=click.Path(path_type=Path), help="The ASF file of an AMC file.")
JOINTS = click.option(
    "--joints",
    type=click.Path(path_type=Path),
    metavar="MAP",
    help="Which joint is which (TOML; `info FILE --joints` writes it).",
)


def READING(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that reads motion files."""
    for option in (SKELETON, JOINTS, REST, UP):
        command = option(command)
    return command


def reading_of(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of :func:`READING` out of ``given``: those that were said, for ``load_motion``."""
    said = {name: given.pop(name, None) for name in ("up", "rest", "joints", "skeleton")}
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in said.items()
        if value is not None
    }


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    metavar="OUT.png",
    help="Draw it, beside what is made of it.",
)
@SKELETON
@click.option(
    "--joints",
    is_flag=False,
    flag_value="",
    metavar="[MAP]",
    help="Write which joint is taken for which, to edit; with a MAP: read the file by it.",
)
@REST
@UP
@JSON
def info(file: Path, picture: Path | None, joints: str | None, as_json: bool, **given: Any) -> None:
    """What a motion file or a recording holds.

    \b
    Example: pyanticip info dance.bvh --picture dance.png
             pyanticip info dance.bvh --joints > map.toml
    """
    from pyanticip.motion.recording import is_recording

    begins = b""
    if file.is_file():
        with file.open("rb") as opened:
            begins = opened.read(16)
    if is_recording(begins) and picture is None and joints is None:
        _recording(file, as_json)
        return
    from pyanticip.motion.describe import as_lines, describe

    if joints == "":
        from pyanticip.motion.joints import as_toml
        from pyanticip.motion.load import load_motion

        click.echo(as_toml(load_motion(file, **reading_of(given)).skeleton), nl=False)
        return
    clip, found = describe(file, **reading_of({**given, "joints": joints}))
    print_json(found) if as_json else click.echo("\n".join(as_lines(found)))
    if picture is not None:
        from pyanticip.motion.picture import draw

        draw(clip, picture)
        click.echo(f"wrote {picture}", err=as_json)


def _recording(file: Path, as_json: bool) -> None:
    from realtime.recording.info import recording_info

    found = recording_info(file)
    if as_json:
        print_json(found)
        return
    when = found["recorded"] or "at no known time"
    click.echo(f"{found['file']}: {found['duration_s']:.1f} s, recorded {when}")
    for name, source in found["sources"].items():
        rate = f", {source['rate']:.1f} a second" if source["rate"] else ""
        click.echo(f"  {source['datagrams']} datagrams of {name}{rate}")
    for kind, heard in found["heard"].items():
        if heard["rate"]:
            click.echo(f"  {kind}: {heard['rate']:.1f} frames a second, jitter {heard['jitter_ms']:.1f} ms")
    click.echo(f"  {found['frames']} frames, {found['lost']} lost; {found['outputs']} outputs")
    click.echo(f"  {found['events']} events, {found['notes']} notes")
    for line in found["warnings"]:
        click.echo(f"  warning: {line}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the files.")
@JSON
def export(file: Path, out: Path, as_json: bool) -> None:
    """Write a recording as npz, CSV and JSON.

    \b
    Example: pyanticip export take1.anticip --out take1
    """
    from realtime.recording.info import export_recording

    found = export_recording(file, out)
    if as_json:
        print_json(found)
        return
    for name in found["files"]:
        click.echo(f"wrote {name}")
