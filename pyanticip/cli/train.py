"""The commands ``pyanticip train``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli.data import data
from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import Answer, answer, say, shell_argument, unwound
from pyanticip.errors import Terminated, counted

if TYPE_CHECKING:
    from pathlib import Path

    from training.finish import options as finish
    from training.run.task import Task
    from training.tasks import options

OPTIONS = "training.tasks.options"
FINISH = "training.finish.options"


@click.group(cls=Group)
def train() -> None:
    """Train a model on a folder of motion, or on text.

    Example: pyanticip train motion --data TAKES --out runs/motion
    """


train.add_command(data)


def _train(
    task: Task[Any, Any], args: options.TrainOptions, under: Mapping[str, Any] | None = None
) -> Answer | None:
    """Run a training task; in a distributed run only the first process returns an answer."""
    from training.run.train import train_from_command_line

    report, lines = train_from_command_line(
        task,
        args.out,
        args.overrides(),
        config=args.config,
        settings=args.settings,
        under=under,
        resume=args.resume,
        quiet=args.as_json,
    )
    if lines:
        return report, lines, 0 if report["finished"] else 130
    if not report["finished"]:
        raise click.Abort
    return None


def _writes_at_end(work: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """Decorate a command that writes only at its end: when Ctrl-C or SIGTERM stops it, it says so."""

    @wraps(work)
    def wrapped(args: Any) -> Answer:
        try:
            with unwound():
                return work(args)
        except (KeyboardInterrupt, Terminated):
            if not args.out.exists():
                say(f"interrupted; nothing was written to {args.out}")
            raise

    return wrapped


@train.command("motion", options=f"{OPTIONS}:MotionOptions", extra="train")
def train_motion(args: options.MotionOptions) -> Answer | None:
    """Train the motion model.

    Its best checkpoint goes to OUT/checkpoint. Under torchrun all its processes share the work.

    Example: pyanticip train motion --data TAKES --out runs/motion
             pyanticip train motion --config motion.toml --set ema=0.999 --seed 1 --out runs/one
             pyanticip train motion --out runs/one --resume
    """
    from training.tasks.motion.task import MotionTask

    return _train(MotionTask(), args)


@train.command("language", options=f"{OPTIONS}:LanguageTrainOptions", extra="train")
def train_language(args: options.LanguageTrainOptions) -> Answer | None:
    """Train a token model and keep the run in OUT. Under torchrun all its processes share the work.

    Example: pyanticip train language --data train.txt --valid valid.txt --steps 2000 --out runs/text
             pyanticip train language --preset smoke --seed 1 --out runs/smoke-1
             pyanticip train language --out runs/text --resume
    """
    from training.tasks.token.options import PRESETS
    from training.tasks.token.task import LanguageTask

    return _train(LanguageTask(), args, None if args.preset is None else PRESETS[args.preset])


@train.command("completion", options=f"{OPTIONS}:CompletionOptions", extra="train")
@_writes_at_end
def train_completion(args: options.CompletionOptions) -> Answer:
    """Train the completion of bodies from few sensors.

    It takes about an hour of one core. The weights are compiled into the core from
    rust/anticip-motion/data/completion.safetensors: copy them there and rebuild to play or evaluate them.
    Nothing is written before the end.

    Example: pyanticip train completion --data TAKES --out completion.safetensors
    """
    import torch
    from rich.console import Console

    from training.evaluate.takes import Takes
    from training.report.tables import progress_bars
    from training.run.files import save_weights
    from training.tasks.completion.fit import fit
    from training.tasks.completion.net import check_new

    check_new(args.out)
    torch.set_num_threads(args.threads)
    clips = Takes(args.data, args.cache, quiet=args.as_json).training_clips()
    with progress_bars(Console(stderr=True, quiet=args.as_json)) as progress:
        net = fit(
            [clip.example.quats for clip in clips],
            [clip.person for clip in clips],
            [clip.piece.mask for clip in clips],
            steps=args.steps,
            seed=args.seed,
            say=progress,
        )
    save_weights(args.out, net.state_dict())
    return _wrote(args.out, len(clips), len({clip.person for clip in clips}))


def _wrote(out: Path, clips: int, people: int) -> Answer:
    report = {"out": str(out), "clips": clips, "people": people}
    return report, f"wrote {out}: {counted(clips, 'clip')} of {counted(people, 'person', 'people')}"


@train.command("ghost", options=f"{OPTIONS}:GhostOptions", extra="train")
@_writes_at_end
def train_ghost(args: options.GhostOptions) -> Answer:
    """Train the forecaster of the monitor's ghost.

    It takes two minutes of one core. Nothing is written before the end.

    Example: pyanticip train ghost --data TAKES --out ghost
    """
    import torch
    from rich.console import Console

    from pyanticip.models.checkpoint.folder import check_checkpoint_folder
    from pyanticip.models.forecast.forecaster import save_forecaster
    from training.evaluate.takes import Takes
    from training.finish.common import check_new
    from training.report.tables import progress_bars
    from training.tasks.ghost import fit

    check_new(args.out)
    check_checkpoint_folder(args.out)
    torch.set_num_threads(args.threads)
    takes = Takes(args.data, args.cache, quiet=args.as_json)
    clips = takes.training_clips()
    people = sorted({clip.person for clip in clips})
    with progress_bars(Console(stderr=True, quiet=args.as_json)) as progress:
        model = fit(
            [clip.piece for clip in clips],
            [clip.person for clip in clips],
            steps=args.steps,
            seed=args.seed,
            say=progress,
        )
    provenance = {"command": "train ghost", "data": takes.digest, "people": people}
    save_forecaster(args.out, model, training={**provenance, "steps": args.steps, "seed": args.seed})
    return _wrote(args.out, len(clips), len(people))


@train.command("forecast", options=f"{OPTIONS}:ForecastOptions", extra="train")
def train_forecast(args: options.ForecastOptions) -> Answer | None:
    """Train a forecaster of poses on the benchmark's training files.

    With --folds, cross-validate on left-out clips of these.

    Example: pyanticip train forecast --data TAKES/cmu-bench --out runs/forecast
             pyanticip train forecast --data TAKES/cmu-bench --out runs/folds --folds 5
             pyanticip train forecast --out runs/forecast --resume
    """
    from training.tasks.forecast.folds import study
    from training.tasks.forecast.task import ForecastTask

    if not args.folds:
        return _train(ForecastTask(), args)
    quiet = args.as_json
    say = partial(click.echo, err=quiet)
    try:
        report = study(args.resolved_options(), args.out, args.folds, say=say, quiet=quiet)
    except KeyboardInterrupt:  # outside of the updates of a fold
        report = {"finished": False}
    if not report["finished"]:
        return report, "interrupted; what was saved is kept, the same command goes on", 130
    return report, [
        f"wrote {args.out}; evaluate it with:",
        f"  pyanticip evaluate forecast --folds {shell_argument(args.out)}",
    ]


@train.command("beats", options=f"{FINISH}:BeatsOptions", extra="train")
@_writes_at_end
def train_beats(args: finish.BeatsOptions) -> Answer:
    """Train a checkpoint's event head on strokes of the limbs.

    It then announces beats on time. The head is trained on the training side and evaluated on the validation
    side, before and after. All other outputs stay the same. Nothing is written before the end.

    Example: pyanticip train beats --data TAKES --checkpoint runs/motion/checkpoint --out runs/beats
    """
    from training.finish.beats import table, train_event_head

    return _train_head(args, partial(train_event_head, copies=args.copies, faster=args.faster), table)


@train.command("poses", options=f"{FINISH}:PosesOptions", extra="train")
@_writes_at_end
def train_poses(args: finish.PosesOptions) -> Answer:
    """Train a perceptron on the last poses.

    It stands beside a checkpoint's trunk. It predicts the parameters from these poses, and the model then
    outputs the mean of both predictions, whose error is below either's. It is trained on the training side
    and evaluated on the validation side, before and after. Nothing is written before the end.

    Example: pyanticip train poses --data TAKES --checkpoint runs/motion/checkpoint --out runs/poses
    """
    from training.finish.poses import table, train_pose_head

    return _train_head(args, partial(train_pose_head, copies=args.copies), table)


def _train_head(
    args: finish.BeatsOptions | finish.PosesOptions,
    train_head: Callable[..., dict[str, Any]],
    table: Callable[[Mapping[str, Any]], Any],
) -> Answer:
    """Train another head of a checkpoint, and print its evaluation."""
    report = train_head(
        args.data,
        args.out,
        checkpoint=args.checkpoint,
        without=args.subjects(),
        steps=args.steps,
        seed=args.seed,
        cache=args.cache,
        quiet=args.as_json,
    )
    if not args.as_json:
        answer(report, table, as_json=False)
    return (
        report,
        f"wrote {args.out}; play it with:\n"
        f"  pyanticip live --source auto://0.0.0.0 --checkpoint {shell_argument(args.out)}",
    )


@train.command("packaged", options=f"{FINISH}:PackagedOptions", extra="train")
@unwound()
def train_packaged(args: finish.PackagedOptions) -> Answer:
    """Reproduce the packaged model, from takes to checkpoint.

    Repeat the command to continue after an interruption.

    Example: pyanticip train packaged --data TAKES --out runs/packaged
    """
    from training.recipes.make import lines, make

    report = make(args.data, args.out, recipe=args.recipe, cache=args.cache, quiet=args.as_json)
    return report, lines(report), 0 if report["finished"] else 130
