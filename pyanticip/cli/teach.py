"""The command line of `teach`: takes in, a mapping out."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli import tools
from pyanticip.cli.tools import CHECKPOINT, JSON, Group, SourceType
from pyanticip.errors import OptionError

if TYPE_CHECKING:
    from pyanticip.teach.project import Project

PROJECT = click.argument("project", type=click.Path(path_type=Path, file_okay=False))
VALUES = click.option(
    "--values",
    "values_text",
    metavar="NAME=X,...",
    help="What is wanted throughout, as brightness=.8,pitch=.2.",
)


@click.group(cls=Group)
def teach() -> None:
    """Teach by demonstration: show movements, say what they should sound like.

    A project is a folder of takes. From a few of them a small head is fitted in seconds; `live --mapping`
    plays it.

    \b
    Example: pyanticip teach new mine --outputs brightness,cutoff:200..8000:exponential
    """


@teach.command()
@PROJECT
@click.option("--outputs", default="", metavar="SPEC,...", help="NAME[:LOW..HIGH[:CURVE]][@/osc/address]")
def new(project: Path, outputs: str) -> None:
    """Begin a project in a new folder.

    An output is 0..1 unless a range stands behind it; without outputs, the first take's values make them.

    \b
    Example: pyanticip teach new mine --outputs brightness,cutoff:200..8000:exponential@/synth/cutoff
    """
    from pyanticip.teach.outputs import parse_output, unique_names
    from pyanticip.teach.project import Project

    made = unique_names(parse_output(text) for text in outputs.split(",") if text.strip())
    Project.create(project, made)
    names = ", ".join(output.describe() for output in made) or "none yet: the first take makes them"
    click.echo(f"{project}: outputs {names}")


@teach.command()
@PROJECT
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--take", "name", help="Name of the take; the file's name if not given.")
@VALUES
@click.option("--curve", type=click.Path(path_type=Path), help="CSV, npz or recording: values over time.")
@click.option("--start", type=click.FloatRange(0), default=0.0, help="Seconds into the file to begin at.")
@click.option("--end", type=click.FloatRange(0, min_open=True), help="Seconds into the file to end at.")
@click.option("--rate", type=float, help="Frames a second, where the file does not say (AMC: 120).")
@JSON
def add(
    project: Path,
    files: tuple[Path, ...],
    name: str | None,
    values_text: str | None,
    curve: Path | None,
    start: float,
    end: float | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Add takes from motion files.

    With --values the whole take wants these; with --curve values change over time (a header t,NAME,... and
    seconds from the file's first frame). What lies before --start leads in: the model sees it, nothing is
    learnt from it.

    \b
    Example: pyanticip teach add mine spin.bvh --start 2 --end 9 --values brightness=.8,cutoff=4000
    """
    from realtime.teaching.adding import add_file, ready_outputs

    if values_text is None and curve is None:
        raise click.UsageError("a take needs --values or --curve")
    if name is not None and len(files) > 1:
        raise click.UsageError("--take names one take; give one file, or no name")
    values = _values(values_text)
    with _for_a_take(project) as opened:
        made = ready_outputs(opened, values or (_columns(curve) if curve else {}))
        if made and not as_json:
            click.echo(f"outputs, each 0..1: {', '.join(made)}")
        told: list[dict[str, Any]] = []
        for file in files:
            take, warnings = add_file(
                opened, file, name=name, values=values, curve=curve, start=start, end=end, rate=rate
            )
            told.append({"take": take.name, "seconds": take.frames / 50, "warnings": warnings})
            if not as_json:  # one by one: should the next file be bad, this much is done
                click.echo(f"take {take.name}: {take.frames / 50:.2f} s")
                for line in warnings:
                    click.echo(f"  {line}", err=True)
    if as_json:
        tools.print_json({"project": str(project), "outputs_made": made, "takes": told})


@teach.command()
@PROJECT
@click.option("--source", type=SourceType(), default="mocopi", help="mocopi, vmc or msgpack[://HOST:PORT].")
@click.option("--take", "name", help="Name of the take; numbered if not given.")
@VALUES
@click.option("--seconds", type=click.FloatRange(0.5), help="Length; without it Ctrl-C ends the take.")
@click.option("--countdown", type=click.FloatRange(0, 60), default=3.0, help="Seconds to get ready.")
@JSON
def record(
    project: Path,
    source: Any,
    name: str | None,
    values_text: str | None,
    seconds: float | None,
    countdown: float,
    as_json: bool,
) -> None:
    """Record a take from the suit.

    To teach while playing, and with values that move, see `live --teach` and /anticip/control/teach.

    \b
    Example: pyanticip teach record mine --take arms-high --values brightness=.8 --seconds 5
    """
    from realtime.rig import SourceRig
    from realtime.teaching.adding import ready_outputs
    from realtime.teaching.recording import record_take

    values = _values(values_text)
    if not values:
        raise click.UsageError("a take needs --values")
    with _for_a_take(project) as opened:
        made = ready_outputs(opened, values)
        if made:
            click.echo(f"{project}: outputs, each 0..1: {', '.join(made)}", err=True)
        take = record_take(
            opened,
            SourceRig(**source),
            name=name,
            values=values,
            seconds=seconds,
            countdown=countdown,
            say=lambda line: click.echo(line, err=True),
        )
    if as_json:
        tools.print_json({"take": take.name, "seconds": take.frames / 50, "lead_in_s": take.begin / 50})
    else:
        click.echo(f"take {take.name}: {take.frames / 50:.2f} s")


@teach.command("list")
@PROJECT
@JSON
def list_(project: Path, as_json: bool) -> None:
    """Show outputs, takes and mappings.

    \b
    Example: pyanticip teach list mine
    """
    opened = _open(project)
    mappings = sorted(path.name for path in (project / "mappings").glob("*.safetensors"))
    if as_json:
        tools.print_json(
            {
                "revision": opened.state.revision,
                "outputs": [output.to_dict() for output in opened.state.outputs],
                "takes": [{**take.to_dict(), "frames": take.frames} for take in opened.state.takes],
                "mappings": mappings,
            }
        )
        return
    for output in opened.state.outputs:
        click.echo(f"output {output.describe()}")
    for take in opened.state.takes:
        wanted = [f"{n}={v:g}" for n, v in take.values.items()] + [f"{n}: curve" for n in take.columns]
        click.echo(f"take {take.name}: {take.frames / 50:.2f} s, {', '.join(wanted) or 'teaches nothing'}")
    click.echo(f"mappings: {', '.join(mappings) or 'none yet'}")


@teach.command()
@PROJECT
@click.argument("takes", nargs=-1, required=True)
def remove(project: Path, takes: tuple[str, ...]) -> None:
    """Remove takes; `teach undo` brings them back.

    \b
    Example: pyanticip teach remove mine spin
    """
    opened = _open(project)
    for name in takes:
        opened.state.take(name)  # all of them are there, or none is removed
    for name in takes:
        opened.remove_take(name)


@teach.command()
@PROJECT
@click.argument("old")
@click.argument("new_name", metavar="NEW")
def rename(project: Path, old: str, new_name: str) -> None:
    """Give a take another name.

    \b
    Example: pyanticip teach rename mine spin turn-left
    """
    _open(project).rename_take(old, new_name)


@teach.command("set")
@PROJECT
@click.argument("take")
@click.argument("values_text", metavar="NAME=X,...")
def set_(project: Path, take: str, values_text: str) -> None:
    """Change what a take wants; NAME=none takes an output out of it.

    \b
    Example: pyanticip teach set mine spin brightness=.9,cutoff=none
    """
    from pyanticip.teach.outputs import parse_values

    parts = [part for part in values_text.replace(",", " ").split() if part]
    gone: dict[str, float | None] = {p[: -len("=none")]: None for p in parts if p.endswith("=none")}
    kept = ",".join(p for p in parts if not p.endswith("=none"))
    _open(project).set_values(take, {**gone, **(parse_values(kept) if kept else {})})


@teach.command()
@PROJECT
@click.option("--add", "added", multiple=True, metavar="SPEC", help="NAME[:LOW..HIGH[:CURVE]][@/osc/address]")
@click.option("--remove", "removed", multiple=True, metavar="NAME", help="And what the takes say about it.")
@click.option("--rename", "renamed", multiple=True, metavar="OLD=NEW", help="Here and in every take.")
@click.option(
    "--change",
    "changed",
    multiple=True,
    metavar="SPEC",
    help="Another range, curve or address; the rest stays.",
)
@click.option("--neutral", "neutral", multiple=True, metavar="NAME=X", help="Where it goes in silence.")
def outputs(
    project: Path,
    added: tuple[str, ...],
    removed: tuple[str, ...],
    renamed: tuple[str, ...],
    changed: tuple[str, ...],
    neutral: tuple[str, ...],
) -> None:
    """Show, add, remove, rename or change outputs.

    What the takes say is kept in the outputs' own units; fit anew after a change.

    \b
    Example: pyanticip teach outputs mine --add mix --rename cutoff=tone --change tone:100..5000:exponential
    """
    from pyanticip.teach.outputs import parse_fields, parse_output, parse_values

    opened = _open(project)
    for text in added:
        opened.add_output(parse_output(text))
    for name in removed:
        opened.remove_output(name)
    for text in renamed:
        old, mark, new_name = text.partition("=")
        if not mark:
            raise OptionError(f"--rename: expected OLD=NEW, got {text!r}")
        opened.rename_output(old, new_name)
    for text in changed:
        fields = parse_fields(text)
        opened.change_output(fields.pop("name"), **fields)
    for text in neutral:
        for name, value in parse_values(text).items():
            opened.change_output(name, neutral=value)
    for output in opened.state.outputs:
        click.echo(output.describe())


@teach.command()
@PROJECT
@click.option("--kind", default="auto", show_default=True, help="ridge, knn, mlp; auto: the best of them.")
@click.option("--lead-ms", default=0, show_default=True, help="Learn so far ahead, 0..400 in steps of 20.")
@click.option(
    "--inputs", metavar="body,hidden", help="What heads see; the best by cross-validation if not given."
)
@click.option("--beyond", default="play", show_default=True, help="play, hold, neutral: far from all shown.")
@click.option(
    "--novelty", default=2.0, show_default=True, help="How far; 1: as new as a take left out can be."
)
@click.option("--model/--no-model", default=True, help="Without: heads see the body alone.")
@CHECKPOINT
@JSON
def fit(
    project: Path,
    kind: str,
    lead_ms: int,
    inputs: str | None,
    beyond: str,
    novelty: float,
    model: bool,
    checkpoint: Path | None,
    as_json: bool,
) -> None:
    """Fit a mapping to all takes, and say how well it does on what it was not shown.

    The previous mapping stays until the new one is complete, and in `mappings` for ever (`teach use`).

    \b
    Example: pyanticip teach fit mine && pyanticip live --mapping mine/mapping.safetensors
    """
    from pyanticip.teach.fit import FitOptions
    from realtime.teaching.worker import fit_in_child

    options = {"kind": kind, "lead_ms": lead_ms, "beyond": beyond, "novelty": novelty}
    given = None if inputs is None else [block.strip() for block in inputs.split(",")]
    # Wrong options are told before a process is started.
    FitOptions(**options, inputs=None if given is None else tuple(given))  # type: ignore[arg-type]
    _open(project)
    report = fit_in_child(
        project,
        {**options, "inputs": given},
        checkpoint=checkpoint,
        model=model,
        say=lambda line: click.echo(line, err=True),
    )
    if as_json:
        tools.print_json(report)
        return
    for line in report["warnings"]:
        click.echo(f"warning: {line}", err=True)
    for part in report["parts"]:
        for text in _told(part, report["lead_ms"]):
            click.echo(text)
    stages = report["stages_s"]
    click.echo(
        f"fit took {report['seconds']:.1f} s (model {stages['model']:.1f}, takes {stages['observe']:.1f},"
        f" fit and cross-validation {stages['fit']:.1f}; {report['processor_seconds']:.1f} s of one core)"
    )
    on = (
        f" --checkpoint {tools.typed(checkpoint)}"
        if checkpoint is not None and report["model"] is not None
        else ""
    )
    made = report["mapping"]
    click.echo(f"wrote {made}; play it: pyanticip live --mapping {tools.typed(made)}{on}")


def _told(part: dict[str, Any], lead_ms: int) -> list[str]:
    """What a part's report says, for people."""
    lines = [
        f"{part['kind']} on {'+'.join(part['inputs'])}, {part['frames']} frames of {len(part['takes'])} takes"
    ]
    if part["error"] is None:
        lines.append("  not judged: nothing can be left out of one short take; record another")
        return lines
    whole = [fold for fold in part["folds"] if fold["whole"]]
    lines.append("  cross-validated error, % of the range (of always saying the mean):")
    held = part.get("error_without_lead")
    for name, error in part["error"].items():
        text = f"    {name}: {100 * error:.1f} ({100 * part['error_of_the_mean'][name]:.1f})"
        if held:
            text += f"; without the lead of {lead_ms} ms {100 * held[name]:.1f}"
        lines.append(text)
    if whole:
        told = ", ".join(f"{fold['takes'][0]} {100 * fold['error']:.1f}" for fold in whole)
        lines.append(f"  left out whole, one at a time: {told}")
    if part["judged_by_blocks"]:
        lines.append(
            f"  left out in blocks of time, because no other take wants the same: "
            f"{', '.join(part['judged_by_blocks'])}; that is kinder than a second take would be"
        )
    if part["not_judged"]:
        lines.append(f"  too short to judge: {', '.join(part['not_judged'])}")
    return lines


@teach.command()
@PROJECT
@click.option("--mapping", type=click.Path(path_type=Path), help="Another mapping than the project's own.")
@click.option("--model/--no-model", default=True, help="Without: for mappings that see the body alone.")
@CHECKPOINT
@JSON
def check(project: Path, mapping: Path | None, model: bool, checkpoint: Path | None, as_json: bool) -> None:
    """Check files, hashes and the mapping, and play it over its own takes.

    \b
    Example: pyanticip teach check mine
    """
    from realtime.teaching.checking import check_project

    found = check_project(project, mapping_file=mapping, checkpoint=checkpoint, model=model)
    if as_json:
        tools.print_json(found)
    else:
        for line in found["problems"]:
            click.echo(f"broken: {line}")
        for line in found["warnings"]:
            click.echo(f"warning: {line}")
        for row in found.get("played", []):
            errors = ", ".join(f"{name} {100 * e:.1f} %" for name, e in row["error"].items())
            click.echo(f"take {row['take']}: {row['seconds']:.2f} s, error on what was learnt: {errors}")
        if found["mapping"]:
            click.echo(f"mapping {found['mapping']}: {found['frame_us']:.0f} us a frame")
        click.echo("fine" if found["fine"] else "not fine")
    sys.exit(0 if found["fine"] else 1)


@teach.command()
@PROJECT
@click.option("--to", "revision", type=click.IntRange(0), help="Go to this revision, whatever came after it.")
def undo(project: Path, revision: int | None) -> None:
    """Undo the last change of takes or outputs; again for the one before.

    \b
    Example: pyanticip teach undo mine
    """
    from pyanticip.teach.project import Project

    if revision is not None:
        Project.restored(project, revision)
        click.echo(f"at revision {revision} again")
    else:
        click.echo(f"undone: {_open(project).undo()}")


@teach.command()
@PROJECT
def history(project: Path) -> None:
    """List every revision.

    \b
    Example: pyanticip teach history mine
    """
    for state in _open(project).history():
        click.echo(f"{state.revision:4d}  {state.at}  {state.did}")


@teach.command()
@PROJECT
@click.argument("mapping")
def use(project: Path, mapping: str) -> None:
    """Put an earlier mapping in place again.

    \b
    Example: pyanticip teach use mine r000003-001.safetensors
    """
    from realtime.teaching.fitting import use_mapping

    click.echo(f"{use_mapping(_open(project), mapping)} is {mapping} now")


def _open(folder: Path) -> Project:
    from pyanticip.teach.project import Project

    return Project.open(folder)


@contextmanager
def _for_a_take(folder: Path) -> Iterator[Project]:
    """The project, or a new one where there is nothing yet; without its first take that goes again."""
    from pyanticip.teach.project import Project

    new = not folder.exists()
    opened = Project.create(folder) if new else Project.open(folder)
    try:
        yield opened
    except BaseException:
        if new and not opened.state.takes:
            shutil.rmtree(folder)
        raise


def _values(text: str | None) -> dict[str, float]:
    from pyanticip.teach.outputs import parse_values

    return parse_values(text) if text else {}


def _columns(curve: Path) -> dict[str, None]:
    from pyanticip.teach.curves import load_curves

    return dict.fromkeys(load_curves(curve))
