"""The commands ``pyanticip tasks``: algorithmic tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import Answer, say, shell_argument

if TYPE_CHECKING:
    from pyanticip.options import JsonOption
    from training.tasks import options

OPTIONS = "training.tasks.options"


@click.group("tasks", cls=Group)
def tasks() -> None:
    """Algorithmic tasks beyond the training length.

    Example: pyanticip tasks train --task copy --out runs/copy
    """


@tasks.command("list", options="pyanticip.options:JsonOption", extra="train")
def tasks_list(args: JsonOption) -> Answer:
    """The tasks, each with an example.

    Example: pyanticip tasks list
    """
    from training.tasks.algorithmic.command import task_table

    found = task_table()
    width = max(len(each["name"]) for each in found)
    lines = []
    for each in found:
        lines.append(
            f"{each['name']:<{width}}  {each['asks']} (trained up to {each['longest']} {each['unit']})"
        )
        lines.append(f"{'':<{width}}  {each['example']}")
    return {"tasks": found}, lines


@tasks.command("show", options=f"{OPTIONS}:TaskShowOptions", extra="train")
def tasks_show(args: options.TaskShowOptions) -> Answer:
    """Draw examples of a task and check them.

    Example: pyanticip tasks show addition --length 20 --count 3
    """
    from training.tasks.algorithmic.command import show

    found = show(args.task, args.length, args.count, args.seed, test=args.test)
    return {"task": args.task, "examples": found}, found


@tasks.command("check", options=f"{OPTIONS}:TaskCheckOptions", extra="train")
def tasks_check(args: options.TaskCheckOptions) -> Answer:
    """Check texts of a task, such as a model's.

    The exit code is 1 if one is wrong.

    Example: pyanticip tasks check addition "829+03=8008,2305,9009>859."
    """
    from training.tasks.algorithmic.command import check

    found = check(args.task, args.texts)
    lines = ["right" if each["right"] else each["reason"] for each in found]
    return {"task": args.task, "texts": found}, lines, 0 if all(each["right"] for each in found) else 1


@tasks.command("train", options=f"{OPTIONS}:TaskTrainOptions", extra="train")
def tasks_train(args: options.TaskTrainOptions) -> Answer:
    """Train models on a task, over positions and seeds.

    Repeat the command to continue after an interruption.

    Example: pyanticip tasks train --out runs/tasks --task copy --positions prism,rope --seeds 0-2
    """
    from training.tasks.algorithmic.command import run

    report = run(
        args.out,
        args.task,
        args.over,
        positions=args.positions,
        seeds=args.seeds,
        paper=args.paper,
        settings=args.settings,
        quiet=args.as_json,
        say=lambda line: click.echo(line, err=args.as_json),
    )
    if not report["finished"]:
        return report, (), 130
    return report, f"judge them with:\n  pyanticip tasks evaluate {shell_argument(args.out)}"


@tasks.command("evaluate", options=f"{OPTIONS}:TaskEvaluateOptions", extra="train")
def tasks_evaluate(args: options.TaskEvaluateOptions) -> Answer:
    """Exact matches over length by greedy decoding.

    For the last weights and the mean of the best three. RUN is a run of `tasks train`, or a folder of runs.
    Existing results are kept.

    Example: pyanticip tasks evaluate runs/tasks --checkpoints 3
    """
    from training.tasks.algorithmic.evaluate import evaluate, last_checkpoint_shares, parse_lengths, top_three

    found = evaluate(
        list(args.runs),
        lengths=parse_lengths(args.lengths),
        count=args.samples,
        long_count=args.long_samples,
        checkpoints=args.checkpoints,
        seed=args.seed,
        say=say,
    )
    lines = []
    for name, page in found.items():
        for what, shares in (("last", last_checkpoint_shares(page)), ("top three", top_three(page))):
            text = "  ".join(f"{length}: {share:.3f}" for length, share in sorted(shares.items()))
            if text:
                lines.append(f"{name:<28} {what:<10} {text}")
    return found, lines
