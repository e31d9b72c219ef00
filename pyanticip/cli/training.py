"""The commands that train and judge. Mounted by :mod:`pyanticip.cli`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import click

from pyanticip.cli.beats import train_beats, train_packaged
from pyanticip.cli.data import data
from pyanticip.cli.forecast import evaluate_forecast, train_forecast
from pyanticip.cli.generate import Group
from pyanticip.cli.motion import train_motion
from pyanticip.cli.terminal import JSON, can_hold, print_json
from pyanticip.errors import FormatError, OptionError, reason


@click.group(cls=Group)
def train() -> None:
    """Train a model on a folder of motion, or on text.

    \b
    Example: pyanticip train motion --data data/cmu --out runs/motion
    """


@train.command("language")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the run.")
@click.option("--data", help="A UTF-8 text file, or: synthetic (the default).")
@click.option("--valid", help="The text file to validate on.")
@click.option("--tokenizer", type=click.Choice(["char", "bpe"]), help="Learned from the training text.")
@click.option("--vocab", type=click.IntRange(0), help="Size of the vocabulary; 0 chooses.")
@click.option("--kind", type=click.Choice(["anticipatory", "baseline"]), help="Or a plain transformer.")
@click.option("--size", type=click.Choice(["small", "default"]), help="Preset of the model.")
@click.option("--steps", type=click.IntRange(1), help="Updates.")
@click.option("--batch", type=click.IntRange(1), help="Sequences per update, over all processes.")
@click.option("--seq-len", type=click.IntRange(2), help="Tokens of a sequence.")
@click.option("--lr", type=click.FloatRange(0, min_open=True), help="Peak learning rate.")
@click.option("--seed", type=click.IntRange(0), help="Of every random choice.")
@click.option("--scalars", type=click.Choice(["external", "self"]), help="Whose scalars steer.")
@click.option("--precision", type=click.Choice(["32", "bf16", "16"]), help="32, or mixed.")
@click.option("--accumulate", type=click.IntRange(1), help="Parts a batch is computed in.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Where to compute.")
@click.option("--threads", type=click.IntRange(0), help="Torch threads; 0 lets torch choose.")
@click.option("--preset", type=click.Choice(["smoke"]), help="Options of the paper's smoke test.")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file of options.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any option; model.NAME too.")
@click.option("--resume", is_flag=True, help="Go on with the interrupted run in --out.")
@JSON
def train_language(
    out: Path,
    preset: str | None,
    config: Path | None,
    settings: tuple[str, ...],
    resume: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Train a token model and keep the run in OUT. Under torchrun all its processes share the work.

    \b
    Example: pyanticip train language --data train.txt --valid valid.txt --steps 2000 --out runs/text
             pyanticip train language --preset smoke --seed 1 --out runs/smoke-1
             pyanticip train language --out runs/text --resume
    """
    from training.tasks.token.command import run

    report, lines = run(
        out, given, start=preset, config=config, settings=settings, resume=resume, quiet=as_json
    )
    if as_json and lines:
        print_json(report)
    for line in () if as_json else lines:
        click.echo(line)
    if not report["finished"]:
        raise click.Abort


@click.group(cls=Group)
def evaluate() -> None:
    """Judge a model on people it never saw.

    \b
    Example: pyanticip evaluate motion --data data/cmu
    """


@evaluate.command("motion")
@click.option("--data", required=True, type=click.Path(path_type=Path), help="A set, or a folder of takes.")
@click.option(
    "--checkpoint", type=click.Path(path_type=Path), help="Its folder; the packaged one by default."
)
@click.option(
    "--split",
    default="validation",
    show_default=True,
    type=click.Choice(["validation", "test", "held-out"]),
    help="Which subjects.",
)
@click.option("--subjects", help="Judge these instead, such as 02,05,09 left out of a run's training.")
@click.option("--joints", help="Suits to judge besides: some of 22,10,6,1.")
@click.option("--report", type=click.Path(path_type=Path), help="Folder, or page NAME.html, for the report.")
@click.option("--manifest", type=click.Path(path_type=Path), help="MANIFEST.csv: what the takes show.")
@click.option("--bench", type=click.Path(path_type=Path), help="Output of: bench step --json. Its latency.")
@click.option("--latency", type=click.FloatRange(1, 3600), help="Measure it for so many seconds.")
@click.option("--cache", type=click.Path(path_type=Path), help="Folder of sets that are built on the way.")
@click.option("--clip", help="Which clip to draw; the worst by default.")
@click.option("--retune", type=click.Path(path_type=Path), help="Tune the rivals anew, into this folder.")
@JSON
def evaluate_motion(
    data: Path,
    checkpoint: Path | None,
    split: str,
    subjects: str | None,
    joints: str | None,
    report: Path | None,
    manifest: Path | None,
    bench: Path | None,
    latency: float | None,
    cache: Path | None,
    clip: str | None,
    retune: Path | None,
    as_json: bool,
) -> None:
    """Errors of the model and of three rivals, events on the beat, calibration, suits, latency.

    The rivals hold, extrapolate or track the parameters' causal twin. They are tuned on the training subjects
    of the packaged model; with --retune, on those of DATA.

    \b
    Example: pyanticip evaluate motion --data data/cmu --split test --joints 22,10,6,1 --report report
    """
    from training.evaluate import command, worn
    from training.evaluate import report as page

    def say(part: str) -> None:
        if not as_json:
            click.echo(part, err=True)

    suits = worn.parse(joints) if joints else ()
    if report is not None:
        can_hold(report.parent if page.check(report) else report)
    measured = _latency(checkpoint, bench, latency)
    if retune is not None:
        command.retune(data, retune, cache=cache, on_part=say)
    found, drawn = command.evaluate(
        checkpoint,
        data,
        split,
        cache=cache,
        manifest=manifest,
        settings=retune,
        subjects=tuple(name.strip() for name in (subjects or "").split(",") if name.strip()),
        joints=suits,
        clip=clip,
        latency=measured,
        on_part=say,
    )
    files = [] if report is None else page.write(found, drawn, report)
    if as_json:
        print_json(found)
    else:
        click.echo(page.markdown(found), nl=False)
    if files and not as_json:
        click.echo(f"wrote {files[0]}")


def _latency(checkpoint: Path | None, bench: Path | None, seconds: float | None) -> dict[str, Any] | None:
    """The paced step, from an earlier bench or measured now."""
    if bench is not None:
        from pyanticip.models.checkpoint.manifest import read_manifest

        try:
            found = json.loads(bench.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FormatError(f"{bench}: cannot be read: {reason(error)}") from None
        if not isinstance(found, dict) or "steps_us" not in found:
            raise FormatError(f"{bench}: is not the output of: pyanticip bench step --json")
        given, name = str(found.get("checkpoint")), read_manifest(checkpoint).name
        if given.rpartition("-")[2] != name.rpartition("-")[2]:  # the folder's name may be another
            raise OptionError(f"{bench}: measured checkpoint {given}; this is {name}: measure it as well")
        return found
    if seconds is None:
        return None
    from realtime.bench.step import run

    return run(seconds, None, checkpoint)


@evaluate.command("language")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--report", type=click.Path(path_type=Path), help="Folder for report.html, .md and .json.")
@click.option(
    "--sequences", default=256, show_default=True, type=click.IntRange(1), help="Held-out sequences, at most."
)
@click.option(
    "--drift-steps",
    default=5000,
    show_default=True,
    type=click.IntRange(0),
    help="Self-predicted steps; 0: none.",
)
@click.option(
    "--which", default="best", show_default=True, type=click.Choice(["best", "last"]), help="Weights."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the intervals.")
@JSON
def evaluate_language(
    runs: tuple[Path, ...],
    report: Path | None,
    sequences: int,
    drift_steps: int,
    which: Literal["best", "last"],
    seed: int,
    as_json: bool,
) -> None:
    """Judge runs of train language on held-out data; runs that differ in their seed alone are averaged.

    \b
    Example: pyanticip evaluate language runs/text-0 runs/text-1 --report report
    """
    from training.tasks.token.evaluate import evaluate as judge
    from training.tasks.token.report import tables

    found = judge(runs, report=report, sequences=sequences, steps=drift_steps, which=which, seed=seed)
    if as_json:
        print_json(found)
    else:
        click.echo(tables(found), nl=False)
    if report is not None and not as_json:
        click.echo(f"wrote {report / 'report.html'}")


@evaluate.command("generation")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--judge", required=True, type=click.Path(path_type=Path), help="Run of the model that judges.")
@click.option("--theta", "thetas", multiple=True, type=click.FloatRange(0, 1), help="Threshold; repeatable.")
@click.option("--prompts", default=64, show_default=True, type=click.IntRange(1), help="Held-out prompts.")
@click.option("--prompt", default=16, show_default=True, type=click.IntRange(1), help="Tokens of a prompt.")
@click.option("--tokens", default=32, show_default=True, type=click.IntRange(1), help="Tokens to generate.")
@click.option("--temperature", default=1.0, show_default=True, type=click.FloatRange(0), help="0: greedy.")
@click.option(
    "--scalars",
    default="external",
    show_default=True,
    type=click.Choice(["external", "initial", "refined_prev"]),
    help="What steers.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of every random choice.")
@JSON
def evaluate_generation(
    run: Path,
    judge: Path,
    thetas: tuple[float, ...],
    prompts: int,
    prompt: int,
    tokens: int,
    temperature: float,
    scalars: Literal["external", "initial", "refined_prev"],
    seed: int,
    as_json: bool,
) -> None:
    """Does waiting for commitment help? Gated against ungated generation at equal compute.

    \b
    Example: pyanticip evaluate generation runs/text-0 --judge runs/plain-1 --theta 0.8 --theta 0.5
    """
    from training.tasks.token import generation

    report = generation.compare(
        run,
        judge,
        thetas=thetas or generation.THETAS,
        prompts=prompts,
        prompt=prompt,
        tokens=tokens,
        temperature=temperature,
        scalars=scalars,
        seed=seed,
    )
    if as_json:
        print_json(report)
    else:
        click.echo(generation.markdown(report), nl=False)


train.add_command(data)
train.add_command(train_motion)
train.add_command(train_beats)
train.add_command(train_packaged)
train.add_command(train_forecast)
evaluate.add_command(evaluate_forecast)
