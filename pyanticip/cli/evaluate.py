"""The commands ``pyanticip evaluate``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import Answer, answer, say
from pyanticip.errors import MotionError

if TYPE_CHECKING:
    from training.evaluate import options

OPTIONS = "training.evaluate.options"


@click.group(cls=Group)
def evaluate() -> None:
    """Evaluate a model on held-out people.

    Example: pyanticip evaluate motion --data TAKES
    """


@contextlib.contextmanager
def _kept(found: dict[str, Any], text: str, as_json: bool) -> Iterator[None]:
    """Print figures, which took minutes, if the file that is written here cannot be."""
    try:
        yield
    except MotionError:
        answer(found, text, as_json)
        raise


@evaluate.command("motion", options=f"{OPTIONS}:MotionOptions", extra="train")
def evaluate_motion(args: options.MotionOptions) -> Answer:
    """Forecast error beside baselines.

    Also the lag profile and the share of clips harmed. Results are separate for each kind of movement.
    Learned baselines are trained on the training side of TAKES (some ten minutes, then cached). The report
    counts how often the test side was evaluated.

    Example: pyanticip evaluate motion --data TAKES --report report
             pyanticip evaluate motion --data TAKES --split test --report results.md
    """
    import shlex
    import sys
    from datetime import date

    from rich.console import Console

    from training.evaluate import motion
    from training.evaluate import report as page
    from training.report.tables import progress_bars

    earlier_looks = 0 if args.report is None else page.count_test_evaluations(args.report)
    console = Console(stderr=True, quiet=args.as_json)
    with progress_bars(console) as progress:
        if args.retune is not None:
            motion.retune(args.data, args.retune, cache=args.cache, say=progress)
        found = motion.evaluate(
            args.checkpoint,
            args.data,
            args.split,
            people=args.people,
            cache=args.cache,
            manifest=args.manifest,
            settings=args.retune,
            seeds=args.seeds,
            say=progress,
            tell=lambda line: None if console.is_terminal else console.print(line),  # a terminal shows bars
        )
    command = shlex.join(["pyanticip", *sys.argv[1:]])
    found |= {
        "date": date.today().isoformat(),
        "command": command,
        "looks": earlier_looks + bool(found["test_people"]),
    }
    text = page.markdown(found)
    with _kept(found, text, args.as_json):
        files = [] if args.report is None else page.write(found, args.report)
    return found, [text, *(f"wrote {name}" for name in files[:1])]


@evaluate.command("language", options=f"{OPTIONS}:LanguageOptions", extra="train")
def evaluate_language(args: options.LanguageOptions) -> Answer:
    """Evaluate runs of train language on held-out data.

    Runs that differ in their seed alone are averaged.

    Example: pyanticip evaluate language runs/text-0 runs/text-1 --report report
    """
    from training.report.pages import report_paths
    from training.tasks.token.evaluate import evaluate as judge
    from training.tasks.token.report import tables, write

    if args.report is not None:
        report_paths(args.report)
    found, sheets = judge(
        args.runs,
        sequences=args.sequences,
        steps=args.drift_steps,
        which=args.which,
        seed=args.seed,
    )
    text = tables(found)
    with _kept(found, text, args.as_json):
        files = [] if args.report is None else write(found, sheets, args.report)
    return found, [text, *(f"wrote {name}" for name in files[:1])]


@evaluate.command("forecast", options=f"{OPTIONS}:ForecastOptions", extra="train")
def evaluate_forecast(args: options.ForecastOptions) -> Answer:
    """The published benchmark of motion prediction.

    Beside the published rows.

    Example: pyanticip evaluate forecast --benchmark cmu --data TAKES/cmu-bench --split train
             pyanticip evaluate forecast --data TAKES/cmu-bench --checkpoint runs/forecast
             pyanticip evaluate forecast --folds runs/folds --report report
    """
    from training.report.pages import as_markdown, report_paths, write
    from training.tasks.forecast import evaluate as judge
    from training.tasks.forecast import report as writer

    if args.page is not None:
        report_paths(args.page)
    if args.folds is not None:
        from training.tasks.forecast.folds import judge_folds

        report = judge_folds(args.folds, without=args.without)
        parts_of = writer.fold_parts
    else:
        assert args.data is not None
        predictors, known = {}, []
        if args.checkpoint is not None:
            from training.tasks.forecast.evaluate import load_predictor, trained_on

            predictors["model"] = load_predictor(args.checkpoint)
            known = trained_on(args.checkpoint)
        report = judge.evaluate_forecast(args.data, split=args.split, predictors=predictors, known=known)
        parts_of = writer.split_parts
    text = as_markdown(parts_of(report, pictures=False))
    if args.page is not None:
        with _kept(report, text, args.as_json):
            files = write(parts_of(report), report, args.page, "Forecasts of motion")
        say(f"wrote {files[0]}")
    return report, text


@evaluate.command("following", options=f"{OPTIONS}:FollowingOptions", extra="train")
def evaluate_following(args: options.FollowingOptions) -> Answer:
    """Timing of cues when takes are performed again.

    At other tempi, in real repeats, and with people who do something else.

    Example: pyanticip evaluate following --data TAKES --picture following.png
    """
    from pyanticip.motion.atomic import check_out, write_file
    from training.evaluate import following

    if args.picture is not None:
        check_out(args.picture, (".png",))
    report = following.evaluate(args.data, args.side, args.copies, args.seed)
    text, wrote = following.markdown(report), []
    if args.picture is not None:
        with _kept(report, text, args.as_json):
            write_file(args.picture, following.picture(args.data))
        wrote.append(f"wrote {args.picture}")
    return report, [text, *wrote]


@evaluate.command("tempo", options=f"{OPTIONS}:TempoOptions", extra="train")
def evaluate_tempo(args: options.TempoOptions) -> Answer:
    """Accuracy of the body tempo.

    The live tracker beside two baselines. The reference is the steps of the feet.

    Example: pyanticip evaluate tempo --data TAKES --split test
    """
    from training.evaluate import tempo

    report = tempo.evaluate(args.data, args.split, args.cache)
    return report, tempo.markdown(report)


@evaluate.command("ghost", options=f"{OPTIONS}:GhostOptions", extra="train")
def evaluate_ghost(args: options.GhostOptions) -> Answer:
    """Accuracy of the monitor's ghost.

    In centimetres, beside baselines.

    Example: pyanticip evaluate ghost --data TAKES --split test
    """
    from training.evaluate import ghost

    report = ghost.evaluate(args.data, args.split, args.checkpoint, args.cache)
    return report, ghost.markdown(report)


@evaluate.command("sensors", options=f"{OPTIONS}:SensorsOptions", extra="train")
def evaluate_sensors(args: options.SensorsOptions) -> Answer:
    """Accuracy of bodies from six sensors, or one, beside baselines.

    Example: pyanticip evaluate sensors --data TAKES
    """
    from rich.console import Console

    from training.evaluate import sensors
    from training.report.tables import progress_bars

    with progress_bars(Console(stderr=True, quiet=args.as_json)) as progress:
        report = sensors.evaluate(args.data, args.split, args.cache, every=args.every, say=progress)
    return report, sensors.markdown(report)
