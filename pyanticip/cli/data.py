"""The commands ``pyanticip train data``: preparing motion for training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import Answer, say, unwound
from pyanticip.errors import Terminated, counted

if TYPE_CHECKING:
    from training.data import options
    from training.data.sets.builder import BuildReport, Step

OPTIONS = "training.data.options"


@click.group("data", cls=Group)
def data() -> None:
    """Prepare and inspect data sets of motion.

    Example: pyanticip train data build TAKES --out sets/mine
    """


@contextmanager
def _progress(what: str, quiet: bool) -> Iterator[Callable[[Step], None]]:
    """Show progress on standard error: a bar, a line for every unusable file, and a hint when interrupted."""
    from rich.console import Console

    from training.data.sets.progress import build_progress

    try:
        with (
            unwound(),
            build_progress(what, Console(stderr=True), bar=not quiet and sys.stderr.isatty()) as progress,
        ):
            yield progress
    except (KeyboardInterrupt, Terminated):
        say(f"interrupted; finished {what} are kept, and the same command goes on with them")
        raise


@data.command("build", options=f"{OPTIONS}:BuildOptions")
def data_build(args: options.BuildOptions) -> Answer:
    """Build a data set of all takes in TAKES and its subfolders.

    BVH, AMC with ASF, C3D, MVNX, AMASS npz, recordings. A sound beside a take (walk.wav, walk.bvh), or given
    in a manifest, replaces the teacher. After an interruption, or with new files, repeat the command:
    finished takes are kept.

    Example: pyanticip train data build TAKES --out sets/mine --workers 8
             pyanticip train data build TAKES --out sets/mine --split-file who.toml
             pyanticip train data build amass --out sets/amass --subject-from top
             pyanticip train data build amass --out shards/2 --shard 2/8
    """
    from training.data.sets import build

    with _progress("takes", args.as_json) as progress:
        report = build(
            args.folder,
            args.out,
            workers=args.cores(),
            subject_from=args.subject_from,
            split_file=args.split_file,
            min_seconds=args.min_seconds,
            sound=args.sound,
            manifest=args.manifest,
            shard=args.shard,
            on_progress=progress,
            **args.reading(),
        )
    return _build_answer(args.as_json, report)


@data.command("merge", options=f"{OPTIONS}:MergeOptions")
def data_merge(args: options.MergeOptions) -> Answer:
    """Merge the shards of a build into one set.

    It is the set that one machine would have built.

    Example: pyanticip train data merge shards/1 shards/2 shards/3 --out sets/amass
    """
    from training.data.sets import merge

    return _build_answer(args.as_json, merge(args.shards, args.out))


def _build_answer(as_json: bool, report: BuildReport) -> Answer:
    if not as_json:
        _warn(report.warnings)
    earlier = f" ({report.found + report.kept} of them done before)" if report.found + report.kept else ""
    lines = [
        f"{report.out}: {counted(report.clips, 'clip')}, {counted(report.frames, 'frame')} "
        f"({report.frames / 3000.0:.1f} min) of {counted(report.takes, 'take')}{earlier} "
        f"in {report.seconds:.1f} s"
    ]
    for split, subjects in report.subjects.items():
        names = ", ".join(subjects[:12]) + (f" and {len(subjects) - 12} more" if len(subjects) > 12 else "")
        lines.append(f"  {split}: {names or 'nobody'}")
    return report.to_dict(), lines


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        say(f"warning: {line}")


@data.command("augment", options=f"{OPTIONS}:AugmentOptions")
def data_augment(args: options.AugmentOptions) -> Answer:
    """Build a set of augmented training clips of SET.

    Mirrored, turned, warped in time and more, and seen through poor suits and networks: sensor noise, few
    sensors, frozen frames, lost packets.

    Example: pyanticip train data augment sets/mine --out sets/mine-varied --copies 16
    """
    from training.data.sets import augment, read_recipe

    recipe = None if args.recipe is None else read_recipe(args.recipe)
    with _progress("clips", args.as_json) as progress:
        made = augment(
            args.folder,
            args.out,
            copies=args.copies,
            seed=args.seed,
            recipe=recipe,
            workers=args.cores(),
            on_progress=progress,
        )
    if not args.as_json:
        _warn(made.index["warnings"])
    result = {"out": str(args.out), "digest": made.digest, "clips": len(made), "frames": made.frames}
    return (
        result,
        f"{args.out}: {counted(len(made), 'variation')}, {made.frames} frames "
        f"({made.frames / 3000.0:.1f} min)",
    )


@data.command("inspect", options=f"{OPTIONS}:InspectOptions")
def data_inspect(args: options.InspectOptions) -> Answer:
    """Describe a set: totals, poses, scalars, parameters, warnings.

    Example: pyanticip train data inspect sets/mine --out mine.html
    """
    from training.data.sets.page import inspect, totals_rows

    found = inspect(args.folder, args.out, verify=args.verify)
    head, rows = totals_rows(found)
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append(f"{row[0].ljust(widths[0])}  {'  '.join(cells)}")
    lines.append(
        "clips of {shortest} to {longest} s, half of them above {median} s".format(**found["clip_seconds"])
    )
    if not args.as_json:
        _warn(found["warnings"])
    if args.verify:
        lines.append("every array is what was written")
    return found, [*lines, *(f"wrote {name}" for name in found["files"][:1])]
