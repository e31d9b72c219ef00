"""The commands that look into files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyanticip.cli.generate import Command
from pyanticip.cli.terminal import print_json

if TYPE_CHECKING:
    from realtime.programs.options import ExportOptions, InfoOptions


@click.command(cls=Command, options="realtime.programs.options:InfoOptions")
def info(given: InfoOptions) -> None:
    """What a motion file or a recording holds.

    Example: pyanticip info dance.bvh --picture dance.png
             pyanticip info dance.bvh --joints > map.toml
    """
    from pyanticip.motion.recording import is_recording

    begins = b""
    if given.file.is_file():
        with given.file.open("rb") as opened:
            begins = opened.read(16)
    if is_recording(begins) and given.picture is None and given.joints is None:
        _recording(given.file, given.as_json)
        return
    from pyanticip.motion.describe import as_lines, describe

    if given.joints == "":
        from pyanticip.motion.joints import as_toml
        from pyanticip.motion.load import load_motion

        helped = given.model_copy(update={"joints": None}).reading()
        click.echo(as_toml(load_motion(given.file, **helped).skeleton), nl=False)
        return
    clip, found = describe(given.file, **given.reading())
    print_json(found) if given.as_json else click.echo("\n".join(as_lines(found)))
    if given.picture is not None:
        from pyanticip.motion.picture import draw

        draw(clip, given.picture)
        click.echo(f"wrote {given.picture}", err=given.as_json)


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


@click.command(cls=Command, options="realtime.programs.options:ExportOptions")
def export(given: ExportOptions) -> None:
    """Write a recording as npz, CSV and JSON.

    Example: pyanticip export take1.anticip --out take1
    """
    from realtime.recording.info import export_recording

    found = export_recording(given.file, given.out)
    if given.as_json:
        print_json(found)
        return
    for name in found["files"]:
        click.echo(f"wrote {name}")
