"""The commands that judge: ``pyanticip evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import Answer, say
from pyanticip.errors import FormatError, OptionError, reason

if TYPE_CHECKING:
    from training.evaluate import options

OPTIONS = "training.evaluate.options"


@click.group(cls=Group)
def evaluate() -> None:
    """Judge a model on people it never saw.

    Example: pyanticip evaluate motion --data data/cmu
    """


@evaluate.command("motion", options=f"{OPTIONS}:MotionOptions", extra="train")
def evaluate_motion(given: options.MotionOptions) -> Answer:
    """Errors of the model and of three rivals, events on the beat, calibration, suits, latency.

    The rivals hold, extrapolate or track the parameters' causal twin. They are tuned on the training subjects
    of the packaged model; with --retune, on those of DATA.

    Example: pyanticip evaluate motion --data data/cmu --split test --joints 22,10,6,1 --report report
    """
    from training.evaluate import fewer_joints, motion
    from training.evaluate import report as page
    from training.report.pages import one_page

    def part(line: str) -> None:
        if not given.as_json:
            say(line)

    suits = fewer_joints.parse(given.joints) if given.joints else ()
    if given.report is not None:
        one_page(given.report)
    measured = _latency(given.checkpoint, given.bench, given.latency)
    if given.retune is not None:
        motion.retune(given.data, given.retune, cache=given.cache, on_part=part)
    found, drawn = motion.evaluate(
        given.checkpoint,
        given.data,
        given.split,
        cache=given.cache,
        manifest=given.manifest,
        settings=given.retune,
        subjects=tuple(name.strip() for name in (given.subjects or "").split(",") if name.strip()),
        joints=suits,
        clip=given.clip,
        latency=measured,
        on_part=part,
    )
    files = [] if given.report is None else page.write(found, drawn, given.report)
    return found, [page.markdown(found), *(f"wrote {name}" for name in files[:1])]


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


@evaluate.command("language", options=f"{OPTIONS}:LanguageOptions", extra="train")
def evaluate_language(given: options.LanguageOptions) -> Answer:
    """Judge runs of train language on held-out data; runs that differ in their seed alone are averaged.

    Example: pyanticip evaluate language runs/text-0 runs/text-1 --report report
    """
    from training.tasks.token.evaluate import evaluate as judge
    from training.tasks.token.report import tables

    found = judge(
        given.runs,
        report=given.report,
        sequences=given.sequences,
        steps=given.drift_steps,
        which=given.which,
        seed=given.seed,
    )
    wrote = [] if given.report is None else [f"wrote {given.report / 'report.html'}"]
    return found, [tables(found), *wrote]


@evaluate.command("generation", options=f"{OPTIONS}:GenerationOptions", extra="train")
def evaluate_generation(given: options.GenerationOptions) -> Answer:
    """Does waiting for commitment help? Gated against ungated generation at equal compute.

    Example: pyanticip evaluate generation runs/text-0 --judge runs/plain-1 --theta 0.8 --theta 0.5
    """
    from training.tasks.token import generation

    options = {**given.but_json(), "thetas": given.thetas or generation.THETAS}
    report = generation.compare(options.pop("run"), options.pop("judge"), **options)
    return report, generation.markdown(report)


@evaluate.command("forecast", options=f"{OPTIONS}:ForecastOptions", extra="train")
def evaluate_forecast(given: options.ForecastOptions) -> Answer:
    """The published benchmark of motion prediction: both metrics, exactly, beside the published rows.

    Example: pyanticip evaluate forecast --benchmark cmu --data data/cmu-bench --split train
             pyanticip evaluate forecast --data data/cmu-bench --checkpoint runs/forecast
             pyanticip evaluate forecast --folds runs/folds --report report
    """
    from training.report.pages import as_markdown, write
    from training.tasks.forecast import evaluate as judge
    from training.tasks.forecast import report as writer

    if given.folds is not None:
        from training.tasks.forecast.judge_folds import judge_folds

        report = judge_folds(given.folds, without=given.without)
        parts_of = writer.fold_parts
    else:
        assert given.data is not None
        predictors, known = {}, []
        if given.checkpoint is not None:
            from training.tasks.forecast.predict import load_predictor, trained_on

            predictors["model"] = load_predictor(given.checkpoint)
            known = trained_on(given.checkpoint)
        report = judge.evaluate_forecast(given.data, split=given.split, predictors=predictors, known=known)
        parts_of = writer.split_parts
    if given.page is not None:
        files = write(parts_of(report), report, given.page, "Forecasts of motion")
        say(f"wrote {files[0]}")
    return report, as_markdown(parts_of(report, pictures=False))
