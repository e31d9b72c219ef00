"""The commands ``pyanticip info`` and ``pyanticip export``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli.generate import Command
from pyanticip.cli.terminal import Answer, say
from pyanticip.errors import OptionError, counted

if TYPE_CHECKING:
    from realtime.programs.options import ExportOptions, InfoOptions


@click.command(cls=Command, options="realtime.programs.options:InfoOptions")
def info(args: InfoOptions) -> Answer | None:
    """Describe a motion file, or any file of a show.

    That is a recording, memory, mapping or checkpoint.

    Example: pyanticip info dance.bvh --picture dance.png
             pyanticip info dance.bvh --joints > map.toml
    """
    from pyanticip.motion.atomic import check_out
    from pyanticip.motion.load import check_reading
    from pyanticip.motion.recording import is_recording
    from pyanticip.untrusted import open_file
    from realtime.programs.artifact_info import describe_artifact
    from realtime.recording.info import recording_info

    magic = b""
    if args.file.is_file():
        with open_file(args.file) as opened:
            magic = opened.read(16)
    if args.picture is not None:
        check_out(args.picture, (".png", ".svg", ".pdf"))
    as_motion = args.picture is not None or args.joints is not None
    if args.file.is_file():
        check_reading([args.file], args.reading(), rate_for_recordings=as_motion)
    if is_recording(magic) and not as_motion:
        found = recording_info(args.file)
        return found, _recording_lines(found)
    if not as_motion and (artifact := describe_artifact(args.file)) is not None:
        for name in args.reading():
            raise OptionError(f"--{name} is for motion files; {args.file} is none")
        return artifact
    from pyanticip.motion.describe import describe, format_summary

    if args.joints == "":
        from pyanticip.motion.joints import as_toml, guess_joints
        from pyanticip.motion.load import load_motion

        skeleton = load_motion(args.file, **args.reading()).skeleton
        if args.as_json:
            return {"joints": {joint: list(names) for joint, names in guess_joints(skeleton).items()}}, ()
        click.echo(as_toml(skeleton), nl=False)
        return None
    clip, found = describe(args.file, **args.reading())
    lines = format_summary(found)
    if args.picture is not None:
        from pyanticip.motion.picture import draw

        draw(clip, args.picture)
        lines = [*lines, f"wrote {args.picture}"]
    return found, lines, int(found["refused"] is not None)


def _recording_lines(found: dict[str, Any]) -> Iterator[str]:
    """Summary of a recording as text."""
    when = found["recorded"] or "at no known time"
    yield f"{found['file']}: {found['duration_s']:.1f} s, recorded {when}"
    for name, source in found["sources"].items():
        rate = f", {source['rate']:.1f} a second" if source["rate"] else ""
        yield f"  {counted(source['datagrams'], 'datagram')} of {name}{rate}"
    for kind, heard in found["heard"].items():
        if heard["rate"]:
            yield f"  {kind}: {heard['rate']:.1f} frames a second, jitter {heard['jitter_ms']:.1f} ms"
    received, doubled = (
        sum(heard["counters"].get(name, 0) for heard in found["heard"].values())
        for name in ("frames", "doubled")
    )
    lost = "" if found["lost"] is None else f", {received} received from the sender, {found['lost']} lost"
    lost += f", {doubled} doubled" if doubled else ""
    yield f"  {counted(found['frames'], 'frame')}{lost}; {counted(found['outputs'], 'output')}"
    yield f"  {counted(found['events'], 'event')}, {counted(found['notes'], 'note')}"
    for line in found["warnings"]:
        yield f"  warning: {line}"


@click.command(cls=Command, options="realtime.programs.options:ExportOptions")
def export(args: ExportOptions) -> Answer:
    """Write a recording as npz, CSV and JSON.

    Example: pyanticip export take1.anticip --out take1
    """
    from realtime.recording.info import export_recording

    found = export_recording(args.file, args.out)
    for line in found["warnings"]:
        say(line)
    return found, [f"wrote {name}" for name in found["files"]]
