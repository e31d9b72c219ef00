"""The commands that judge: ``pyanticip evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import Answer, say

if TYPE_CHECKING:
    from training.evaluate import options

OPTIONS = "training.evaluate.options"


@click.group(cls=Group)
def evaluate() -> None:
    """Evaluate a model on held-out people.

    Example: pyanticip evaluate motion --data TAKES
    """


@evaluate.command("motion", options=f"{OPTIONS}:MotionOptions", extra="train")
def evaluate_motion(given: options.MotionOptions) -> Answer:
    """Forecast error beside baselines, lag profile, share of clips harmed.

    Results are separate for each kind of movement. Learned baselines are trained on the training side of
    TAKES (some ten minutes, then cached). The report counts how often the test side was evaluated.

    Example: pyanticip evaluate motion --data data --report report
             pyanticip evaluate motion --data data --split test --report docs/results.md
    """
    import shlex
    import sys
    from datetime import date

    from rich.console import Console

    from training.evaluate import motion
    from training.evaluate import report as page
    from training.report.tables import bars

    seen = 0 if given.report is None else page.looks(given.report)
    console = Console(stderr=True, quiet=given.as_json)
    with bars(console) as told:
        if given.retune is not None:
            motion.retune(given.data, given.retune, cache=given.cache, say=told)
        found = motion.evaluate(
            given.checkpoint,
            given.data,
            given.split,
            people=tuple(name.strip() for name in (given.subjects or "").split(",") if name.strip()),
            cache=given.cache,
            manifest=given.manifest,
            settings=given.retune,
            seeds=given.seeds,
            say=told,
            tell=lambda line: None if console.is_terminal else console.print(line),  # there bars say it
        )
    command = shlex.join(["pyanticip", *sys.argv[1:]])
    found |= {
        "date": date.today().isoformat(),
        "command": command,
        "looks": seen + (found["split"] == "test"),
    }
    files = [] if given.report is None else page.write(found, given.report)
    return found, [page.markdown(found), *(f"wrote {name}" for name in files[:1])]


@evaluate.command("language", options=f"{OPTIONS}:LanguageOptions", extra="train")
def evaluate_language(given: options.LanguageOptions) -> Answer:
    """Evaluate runs of train language on held-out data.

    Runs that differ in their seed alone are averaged.

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


@evaluate.command("forecast", options=f"{OPTIONS}:ForecastOptions", extra="train")
def evaluate_forecast(given: options.ForecastOptions) -> Answer:
    """The published benchmark of motion prediction, beside the published rows.

    Example: pyanticip evaluate forecast --benchmark cmu --data TAKES/cmu-bench --split train
             pyanticip evaluate forecast --data TAKES/cmu-bench --checkpoint runs/forecast
             pyanticip evaluate forecast --folds runs/folds --report report
    """
    from training.report.pages import as_markdown, report_paths, write
    from training.tasks.forecast import evaluate as judge
    from training.tasks.forecast import report as writer

    if given.page is not None:
        report_paths(given.page)
    if given.folds is not None:
        from training.tasks.forecast.folds import judge_folds

        report = judge_folds(given.folds, without=given.without)
        parts_of = writer.fold_parts
    else:
        assert given.data is not None
        predictors, known = {}, []
        if given.checkpoint is not None:
            from training.tasks.forecast.evaluate import load_predictor, trained_on

            predictors["model"] = load_predictor(given.checkpoint)
            known = trained_on(given.checkpoint)
        report = judge.evaluate_forecast(given.data, split=given.split, predictors=predictors, known=known)
        parts_of = writer.split_parts
    if given.page is not None:
        files = write(parts_of(report), report, given.page, "Forecasts of motion")
        say(f"wrote {files[0]}")
    return report, as_markdown(parts_of(report, pictures=False))


@evaluate.command("following", options=f"{OPTIONS}:FollowingOptions", extra="train")
def evaluate_following(given: options.FollowingOptions) -> Answer:
    """Timing of cues when takes are performed again.

    At other tempi, in real repeats, and with people who do something else.

    Example: pyanticip evaluate following --data TAKES --picture following.png
    """
    from pyanticip.motion.atomic import check_out, write_file
    from training.evaluate import following

    if given.picture is not None:
        check_out(given.picture, (".png",))
    report = following.evaluate(given.data, given.side, given.copies, given.seed)
    wrote = []
    if given.picture is not None:
        write_file(given.picture, following.picture(given.data))
        wrote.append(f"wrote {given.picture}")
    return report, [following.markdown(report), *wrote]


@evaluate.command("tempo", options=f"{OPTIONS}:TempoOptions", extra="train")
def evaluate_tempo(given: options.TempoOptions) -> Answer:
    """Accuracy of the body tempo: the live tracker beside two baselines.

    The reference is the steps of the feet.

    Example: pyanticip evaluate tempo --data TAKES --split test
    """
    from training.evaluate import tempo

    report = tempo.evaluate(given.data, given.split, given.cache)
    return report, tempo.markdown(report)


@evaluate.command("ghost", options=f"{OPTIONS}:GhostOptions", extra="train")
def evaluate_ghost(given: options.GhostOptions) -> Answer:
    """Accuracy of the monitor's ghost in centimetres, beside baselines.

    Example: pyanticip evaluate ghost --data TAKES --split test
    """
    from training.evaluate import ghost

    report = ghost.evaluate(given.data, given.split, given.checkpoint, given.cache)
    return report, ghost.markdown(report)


@evaluate.command("sensors", options=f"{OPTIONS}:SensorsOptions", extra="train")
def evaluate_sensors(given: options.SensorsOptions) -> Answer:
    """Accuracy of bodies from six sensors, or one, beside baselines.

    Example: pyanticip evaluate sensors --data TAKES
    """
    from rich.console import Console

    from training.evaluate import sensors
    from training.report.tables import bars

    with bars(Console(stderr=True, quiet=given.as_json)) as told:
        report = sensors.evaluate(given.data, given.split, given.cache, every=given.every, say=told)
    return report, sensors.markdown(report)
