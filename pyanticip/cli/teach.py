"""The commands ``pyanticip teach``: fit a mapping to takes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import Answer, say, shell_argument, tell
from pyanticip.errors import MotionError, OptionError, counted
from pyanticip.vocabulary import RATE

if TYPE_CHECKING:
    from pyanticip.teach.project import Project
    from pyanticip.teach.state import State, TakeEntry
    from realtime.teaching import options

OPTIONS = "realtime.teaching.options"


@click.group(cls=Group)
def teach() -> None:
    """Teach by demonstration.

    Show movements and say what they should sound like. A project is a folder of takes. From a few of them a
    small head is fitted in seconds; `live --mapping` plays it.

    Example: pyanticip teach new mine --outputs brightness,cutoff:200..8000:exponential
    """


@teach.command("new", options=f"{OPTIONS}:NewOptions")
def new(args: options.NewOptions) -> None:
    """Create a project in a new folder.

    An output is 0..1 unless a range stands behind it; without outputs, the first take's values make them.

    Example: pyanticip teach new mine --outputs brightness,cutoff:200..8000:exponential@/synth/cutoff
    """
    from pyanticip.teach.outputs import parse_output, unique_names
    from pyanticip.teach.project import Project

    outputs = unique_names(parse_output(text) for text in args.outputs.split(",") if text.strip())
    Project.create(args.project, outputs)
    names = ", ".join(output.describe() for output in outputs) or "none yet: the first take makes them"
    tell(f"{args.project}: outputs {names}")


@teach.command("add", options=f"{OPTIONS}:AddOptions")
def add(args: options.AddOptions) -> Answer:
    """Add takes from motion files, or all takes of other projects.

    With --values the whole take wants these; with --curve values change over time (a header t,NAME,... and
    seconds from the file's first frame); with --class it shows a label of a class, as pose=crouch. What lies
    before --start is context: the model sees it, but it is not trained on. Projects' takes come as they are.

    Example: pyanticip teach add mine spin.bvh --start 2 --end 9 --values brightness=.8,cutoff=4000
    """
    from pyanticip.motion.load import check_reading
    from realtime.teaching.adding import add_file, add_project

    are_projects = any(file.is_dir() for file in args.files)
    if are_projects and args.model_dump(exclude={"project", "files", "as_json"}, exclude_defaults=True):
        raise click.UsageError("a project's takes are added as they are: name its folder alone")
    if not are_projects:
        check_reading(args.files, args.reading(), rate_for_recordings=True)
    values, labels = _values(args.values), _labels(args.labels, args.gesture)
    if not (are_projects or values or labels or args.curve):
        raise click.UsageError("a take needs --values, --curve, --class or --gesture")
    if args.take is not None and len(args.files) > 1:
        raise click.UsageError("--take names one take; give one file, or no name")
    add_one = partial(
        add_file,
        name=args.take,
        values=values,
        curve=args.curve,
        labels=labels,
        start=args.start,
        end=args.end,
    )
    with _open_or_create(args.project) as opened:
        before = opened.state
        added: list[dict[str, Any]] = []
        for file in args.files:
            if are_projects:
                takes: Iterable[tuple[TakeEntry, list[str]]] = ((t, []) for t in add_project(opened, file))
            else:
                takes = [add_one(opened, file, **args.reading())]
            if not (are_projects or added):
                _report_new_labels(before, labels)
                if (made := _created_outputs(before, opened)) and not args.as_json:
                    tell(f"outputs, each 0..1: {', '.join(made)}")
            for take, warnings in takes:
                added.append({"take": take.name, "seconds": take.frames / RATE, "warnings": warnings})
                if not args.as_json:
                    tell(f"take {take.name}: {take.frames / RATE:.2f} s")
                    for line in warnings:
                        say(f"  {line}")
        made = _created_outputs(before, opened)
    # Without --json each take was reported as it was added: the next file may fail.
    return {"project": str(args.project), "outputs_made": made, "takes": added}, ()


@teach.command("record", options=f"{OPTIONS}:RecordOptions")
def record(args: options.RecordOptions) -> Answer:
    """Record a take from the suit.

    To teach while playing, and with values that move, see `live --teach` and /anticip/control/teach.

    Example: pyanticip teach record mine --source mocopi://0.0.0.0 --take high --values brightness=.8
    """
    from realtime.loop import run_loop
    from realtime.rig import load_rig
    from realtime.teaching.recording import record_take

    values, labels = _values(args.values), _labels(args.labels, args.gesture)
    if not (values or labels):
        raise click.UsageError("a take needs --values, --class or --gesture")
    with _open_or_create(args.project) as opened:
        before = opened.state
        _report_new_labels(before, labels)
        recording = record_take(
            opened,
            load_rig(args.rig_file, args.over).source,
            name=args.take,
            values=values,
            labels=labels,
            seconds=args.seconds,
            countdown=args.countdown,
            say=say,
        )
        take = run_loop(recording)
        if made := _created_outputs(before, opened):
            say(f"{args.project}: outputs, each 0..1: {', '.join(made)}")
    result = {"take": take.name, "seconds": take.frames / RATE, "lead_in_s": take.begin / RATE}
    return result, f"take {take.name}: {take.frames / RATE:.2f} s"


@teach.command("list", options=f"{OPTIONS}:ListOptions")
def list_(args: options.ListOptions) -> Answer:
    """Show outputs, takes and mappings.

    Example: pyanticip teach list mine
    """
    opened = _open(args.project)
    mappings = sorted(path.name for path in (args.project / "mappings").glob("*.safetensors"))
    outputs, takes = opened.state.outputs, opened.state.takes
    result = {
        "revision": opened.state.revision,
        "outputs": [output.to_dict() for output in outputs],
        "classes": opened.state.classes,
        "gestures": opened.state.gestures,
        "takes": [{**take.to_dict(), "frames": take.frames} for take in takes],
        "mappings": mappings,
    }
    lines = [f"output {output.describe()}" for output in outputs]
    lines += [f"class {name}: {', '.join(labels)}" for name, labels in opened.state.classes.items()]
    lines += [f"gesture {name}" for name in opened.state.gestures]
    for take in takes:
        targets = [f"{n}={v:g}" for n, v in take.values.items()] + [f"{n}: curve" for n in take.columns]
        targets += [f"{n}={label}" for n, label in take.labels.items()]
        lines.append(
            f"take {take.name}: {take.frames / RATE:.2f} s, {', '.join(targets) or 'teaches nothing'}"
        )
    return result, [*lines, f"mappings: {', '.join(mappings) or 'none yet'}"]


@teach.command("remove", options=f"{OPTIONS}:RemoveOptions")
def remove(args: options.RemoveOptions) -> None:
    """Remove takes; `teach undo` brings them back.

    Example: pyanticip teach remove mine spin
    """
    opened = _open(args.project)
    takes = dict.fromkeys(args.takes)
    for name in takes:
        opened.state.take(name)  # raises for an unknown name before any is removed
    for name in takes:
        opened.remove_take(name)
        click.echo(opened.state.description)


@teach.command("rename", options=f"{OPTIONS}:RenameOptions")
def rename(args: options.RenameOptions) -> None:
    """Give a take another name.

    Example: pyanticip teach rename mine spin turn-left
    """
    opened = _open(args.project)
    opened.rename_take(args.old, args.new)
    click.echo(opened.state.description)


@teach.command("set", options=f"{OPTIONS}:SetOptions")
def set_(args: options.SetOptions) -> None:
    """Change a take's target values or class labels.

    OUTPUT=none removes an output from the take, CLASS= a class; CLASS=none marks it as showing no label.

    Example: pyanticip teach set mine spin brightness=.9,cutoff=none,pose=stand
    """
    from realtime.teaching.adding import parse_changes

    opened = _open(args.project)
    before = opened.state
    values, labels = parse_changes(opened, args.values)
    opened.set_values(args.take, values, labels)
    _report_new_labels(before, labels)
    click.echo(opened.state.description)


@teach.command("outputs", options=f"{OPTIONS}:OutputsOptions")
def outputs(args: options.OutputsOptions) -> None:
    """Show, add, remove, rename or change outputs.

    Takes keep values in the outputs' own units; fit again after a change.

    Example: pyanticip teach outputs mine --add mix --rename cutoff=tone --change tone:100..5000:exponential
    """
    from pyanticip.teach.outputs import parse_fields, parse_output, parse_values

    opened = _open(args.project)
    changes: list[Callable[[], object]] = [partial(opened.add_output, parse_output(one)) for one in args.add]
    changes += [partial(opened.remove_output, name) for name in args.remove]
    for text in args.rename:
        old, mark, new_name = text.partition("=")
        if not mark:
            raise OptionError(f"--rename: expected OLD=NEW, got {text!r}")
        changes.append(partial(opened.rename_output, old, new_name))
    for text in args.change:
        fields = parse_fields(text)
        changes.append(partial(opened.change_output, fields.pop("name"), **fields))
    for text in args.neutral:
        values = parse_values(text).items()
        changes += [partial(opened.change_output, name, neutral=value) for name, value in values]
    before = opened.state.revision
    for done, change in enumerate(changes):
        try:
            change()
        except MotionError:
            # All changes or none; but not if another process changed the project in between.
            if opened.state.revision == before + done:
                for _ in range(done):
                    opened.undo()
            raise
    for output in opened.state.outputs:
        tell(output.describe())


@teach.command("fit", options=f"{OPTIONS}:FitCommandOptions")
def fit(args: options.FitCommandOptions) -> Answer:
    """Fit a mapping to all takes.

    Its error is reported on left-out takes. The previous mapping stays until the new one is complete, and is
    kept in `mappings` (`teach use`).

    Example: pyanticip teach fit mine
             pyanticip live --source mocopi://0.0.0.0 --mapping mine/mapping.safetensors
    """
    from pyanticip.teach.options import FitOptions
    from realtime.teaching.worker import fit_in_child

    _open(args.project)
    fit_options = args.model_dump(include=set(FitOptions.model_fields))
    report = fit_in_child(args.project, fit_options, checkpoint=args.checkpoint, model=args.model, say=say)
    if not args.as_json:
        for line in report["warnings"]:
            say(f"warning: {line}")
    lines = [text for part in report["parts"] for text in _part_lines(part, report["lead_ms"])]
    lines += [_gesture_line(gesture) for gesture in report["gestures"]]
    stages, mapping = report["stages_s"], report["mapping"]
    lines.append(
        f"fit took {report['seconds']:.1f} s (model {stages['model']:.1f}, takes {stages['observe']:.1f},"
        f" fit and cross-validation {stages['fit']:.1f}; {report['processor_seconds']:.1f} s of one core)"
    )
    own_model = args.checkpoint is not None and report["model"] is not None
    checkpoint = f" --checkpoint {shell_argument(args.checkpoint)}" if own_model else ""
    if report["page"]:
        lines.append(f"every take with its held-out predictions: {report['page']}")
    return report, [
        *lines,
        f"wrote {mapping}; play it: pyanticip live --source auto://0.0.0.0"
        f" --mapping {shell_argument(mapping)}{checkpoint}",
    ]


def _part_lines(part: dict[str, Any], lead_ms: int) -> list[str]:
    """The report of one part of a mapping, as text."""
    if "class" in part:
        return _class_lines(part)
    lines = [_head_line(part)]
    if part["error"] is None:
        lines.append("  not judged: nothing can be left out; record more takes")
        return lines
    whole_takes = [fold for fold in part["folds"] if fold["whole"]]
    lines.append("  cross-validated error, % of the range (of always saying the mean):")
    without_lead = part.get("error_without_lead")
    for name, error in part["error"].items():
        text = f"    {name}: {100 * error:.1f} ({100 * part['error_of_the_mean'][name]:.1f})"
        if without_lead:
            text += f"; without the lead of {lead_ms} ms {100 * without_lead[name]:.1f}"
        lines.append(text)
    if whole_takes:
        errors = ", ".join(f"{fold['takes'][0]} {100 * fold['error']:.1f}" for fold in whole_takes)
        lines.append(f"  left out whole, one at a time: {errors}")
    lines += _block_lines(part, "wants")
    if part["not_judged"]:
        lines.append(f"  too short to judge: {', '.join(part['not_judged'])}")
    return lines


def _head_line(part: dict[str, Any]) -> str:
    """The head of a part of a mapping, and what it was fitted to."""
    head = f"{part['kind']} on {'+'.join(part['inputs'])}"
    return f"{head}, {part['frames']} frames of {counted(len(part['takes']), 'take')}"


def _block_lines(part: dict[str, Any], verb: str) -> list[str]:
    """A line on the takes that were left out in blocks of time, if any."""
    takes = ", ".join(part["judged_by_blocks"])
    line = f"  left out in blocks of time, because no other take {verb} the same: {takes}"
    return [f"{line}; that is kinder than a second take would be"] if takes else []


def _verdict_line(name: str, verdict: dict[str, Any]) -> str:
    """How a gesture was recognised in one take, as text."""
    alarms = counted(verdict["alarms"], "false alarm")
    if not verdict["shows"]:
        return f"{alarms} of {name}"
    if verdict["at"] is None:
        return f"{name} missed, {alarms}"
    percent, error_ms = 100 * verdict["at"], verdict["end_ms"]
    return f"{name} found after {percent:.0f} % of it, its end predicted {error_ms:+.0f} ms off, {alarms}"


def _gesture_line(report: dict[str, Any]) -> str:
    """A gesture's report as text."""
    text = (
        f"gesture {report['gesture']}: found {len(report['found'])} of {len(report['takes'])} takes left out"
    )
    if report["at"] is not None:
        text += f", after {100 * report['at']:.0f} % of it, its end predicted within {report['end_ms']} ms"
    if report["missed"]:
        text += f" (missed {', '.join(report['missed'])})"
    alarms = (
        f"; {counted(report['alarms'], 'false alarm')} in {report['minutes']:.1f} minutes of what it is not"
    )
    return text + alarms + (f" ({', '.join(report['alarmed_by'])})" if report["alarms"] else "")


def _class_lines(part: dict[str, Any]) -> list[str]:
    """A class's report as text."""
    lines = [f"class {part['class']}: {', '.join(part['labels'])}; {_head_line(part)}"]
    if part["accuracy"] is None:
        return [*lines, "  not judged: nothing can be left out; record more takes"]
    lines.append(f"  right, of the frames left out: {100 * part['accuracy']:.0f} % (each label counts alike)")
    shares = list(zip(part["labels"], part["confusion"], strict=True))
    if unjudged := ", ".join(label for label, row in shares if not sum(row)):
        lines.append(f"    not judged, as no take of theirs was left out: {unjudged}")
    for label, row in shares:
        mistakes = [
            f"{other} {100 * share:.0f} %"
            for other, share in zip(part["labels"], row, strict=True)
            if other != label and share >= 0.005
        ]
        if mistakes:
            lines.append(f"    {label} taken for {', '.join(mistakes)}")
    return lines + _block_lines(part, "shows")


@teach.command("check", options=f"{OPTIONS}:CheckOptions")
def check(args: options.CheckOptions) -> Answer:
    """Check files, hashes and the mapping.

    The mapping is also played over its own takes.

    Example: pyanticip teach check mine
    """
    from realtime.teaching.checking import check_project

    found = check_project(
        args.project, mapping_file=args.mapping, checkpoint=args.checkpoint, model=args.model
    )
    lines = [f"broken: {line}" for line in found["problems"]]
    lines += [f"warning: {line}" for line in found["warnings"]]
    for row in found.get("played", []):
        results = [f"error of {name} {100 * e:.1f} %" for name, e in row["error"].items()]
        results += [f"{name} right {100 * r:.0f} %" for name, r in row["right"].items()]
        results += [_verdict_line(name, verdict) for name, verdict in row["gestures"].items()]
        caveat = "on its own takes: " if args.mapping is None else ""
        text = f"{caveat}{', '.join(results)}" if results else "the mapping has nothing that it shows"
        lines.append(f"take {row['take']}: {row['seconds']:.2f} s, {text}")
    if found["mapping"]:
        lines.append(f"mapping {found['mapping']}: {found['frame_us']:.0f} us a frame")
    fine = found["fine"]
    return found, [*lines, "fine" if fine else "not fine"], 0 if fine else 1


@teach.command("undo", options=f"{OPTIONS}:UndoOptions")
def undo(args: options.UndoOptions) -> None:
    """Undo the last change of takes or outputs.

    Repeat it to undo the one before.

    Example: pyanticip teach undo mine
    """
    from pyanticip.teach.project import Project

    if args.to is not None:
        Project.restored(args.project, args.to)
        tell(f"at revision {args.to} again")
    else:
        tell(f"undone: {_open(args.project).undo()}")


@teach.command("history", options=f"{OPTIONS}:ProjectOptions")
def history(args: options.ProjectOptions) -> None:
    """List every revision.

    Example: pyanticip teach history mine
    """
    for state in _open(args.project).history():
        tell(f"{state.revision:4d}  {state.timestamp}  {state.description}")


@teach.command("use", options=f"{OPTIONS}:UseOptions")
def use(args: options.UseOptions) -> None:
    """Go back to an earlier mapping.

    Example: pyanticip teach use mine r000003-001.safetensors
    """
    from realtime.teaching.fitting import use_mapping

    tell(f"{use_mapping(_open(args.project), args.mapping)} is {args.mapping} now")


def _open(folder: Path) -> Project:
    from pyanticip.teach.project import Project

    return Project.open(folder)


@contextmanager
def _open_or_create(folder: Path) -> Iterator[Project]:
    """The project, created if the folder does not exist; removed again if adding its first take fails."""
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


def _labels(text: str | None, gesture: str | None = None) -> dict[str, str]:
    from pyanticip.teach.labels import GESTURE, check_labels, parse_labels

    found = parse_labels(text) if text else {}
    if gesture is not None:
        if GESTURE in found:
            raise click.UsageError("a take shows one gesture; leave --gesture out, or the class")
        found[GESTURE] = gesture
        check_labels(found)
    return found


def _report_new_labels(before: State, labels: dict[str, str]) -> None:
    """Report labels and classes used for the first time, which may be typos, with the known ones."""
    from pyanticip.teach.labels import GESTURE, NONE

    for name, label in labels.items():
        known = before.gestures if name == GESTURE else before.classes.get(name, ())
        if known and label not in (*known, NONE):
            say(f"{name}={label} is new; so far: {', '.join(known)}")
        elif not known and name != GESTURE and before.classes:
            say(f"class {name} is new; so far: {', '.join(before.classes)}")


def _created_outputs(before: State, project: Project) -> list[str]:
    """Names of the outputs that the project did not have before."""
    known = {output.name for output in before.outputs}
    return [output.name for output in project.state.outputs if output.name not in known]
