"""The commands of the algorithmic tasks: ``pyanticip tasks``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import JSON, print_json, say, typed

if TYPE_CHECKING:
    from pyanticip.options import JsonOption
    from training.tasks import options as told

PATH = click.Path(path_type=Path)
OPTIONS = "training.tasks.options"


@click.group("tasks", cls=Group)
def tasks() -> None:
    """Algorithmic tasks that ask for more than the training length: data, training, curves over length.

    Example: pyanticip tasks train --task copy --out runs/copy
    """


@tasks.command("list", options="pyanticip.options:JsonOption", extra="train")
def tasks_list(given: JsonOption) -> None:
    """The tasks, each with an example.

    Example: pyanticip tasks list
    """
    from training.tasks.algorithmic.command import described

    found = described()
    if given.as_json:
        print_json({"tasks": found})
        return
    width = max(len(each["name"]) for each in found)
    for each in found:
        click.echo(
            f"{each['name']:<{width}}  {each['asks']} (trained up to {each['longest']} {each['unit']})"
        )
        click.echo(f"{'':<{width}}  {each['example']}")


@tasks.command("show", options=f"{OPTIONS}:TaskShowOptions", extra="train")
def tasks_show(given: told.TaskShowOptions) -> None:
    """Draw examples of a task and check them.

    Example: pyanticip tasks show addition --length 20 --count 3
    """
    from training.tasks.algorithmic.command import show

    found = show(given.task, given.length, given.count, given.seed, test=given.test)
    if given.as_json:
        print_json({"task": given.task, "examples": found})
    else:
        click.echo("\n".join(found))


@tasks.command("check", options=f"{OPTIONS}:TaskCheckOptions", extra="train")
def tasks_check(given: told.TaskCheckOptions) -> None:
    """Judge texts of a task, such as a model's; exit code 1 where one is wrong.

    Example: pyanticip tasks check addition "829+03=8008,2305,9009>859."
    """
    from training.tasks.algorithmic.command import check

    found = check(given.task, given.texts)
    if given.as_json:
        print_json({"task": given.task, "texts": found})
    else:
        for each in found:
            click.echo("right" if each["right"] else each["reason"])
    if not all(each["right"] for each in found):
        raise click.exceptions.Exit(1)


@tasks.command("train")
@click.option("--out", required=True, type=PATH, help="Folder of the runs; what it holds is not repeated.")
@click.option("--task", required=True, help="Its name, see: pyanticip tasks list.")
@click.option(
    "--positions",
    default="prism",
    show_default=True,
    help="prism, sinusoidal (randomly shifted), rope, alibi, none; several with commas; or all.",
)
@click.option("--seeds", default="0", show_default=True, help="Such as 0-4 or 0,2,7.")
@click.option("--longest", type=click.IntRange(1), help="Longest training length.  [default: the paper's]")
@click.option("--steps", type=click.IntRange(1), help="Updates of every run.  [default: 800]")
@click.option("--batch", type=click.IntRange(1), help="Examples of an update.  [default: 64]")
@click.option("--lr", type=click.FloatRange(0, min_open=True), help="Highest rate.  [default: 0.003]")
@click.option("--paper", is_flag=True, help="Begin from the paper's sizes, rates and updates (for a GPU).")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Where.  [default: auto]")
@click.option("--threads", type=click.IntRange(0), help="Of torch.  [default: as torch chooses]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any other option; repeatable.")
@JSON
def tasks_train(
    out: Path,
    task: str,
    positions: str,
    seeds: str,
    longest: int | None,
    steps: int | None,
    batch: int | None,
    lr: float | None,
    paper: bool,
    device: str | None,
    threads: int | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Train models on a task, over positions and seeds; after Ctrl-C the same command goes on.

    Example: pyanticip tasks train --out runs/tasks --task copy --positions prism,rope --seeds 0-2
    """
    from training.tasks.algorithmic.command import run

    given = {
        "longest": longest,
        "steps": steps,
        "batch": batch,
        "lr": lr,
        "device": device,
        "threads": threads,
    }
    report = run(
        out,
        task,
        given,
        positions=positions,
        seeds=seeds,
        paper=paper,
        settings=settings,
        quiet=as_json,
        say=lambda line: click.echo(line, err=as_json),
    )
    if as_json:
        print_json(report)
    elif report["finished"]:
        click.echo(f"judge them with:\n  pyanticip tasks evaluate {typed(out)}")
    if not report["finished"]:
        raise click.exceptions.Exit(130)


@tasks.command("evaluate", options=f"{OPTIONS}:TaskEvaluateOptions", extra="train")
def tasks_evaluate(given: told.TaskEvaluateOptions) -> None:
    """Exact matches over length by greedy decoding; of the last weights and the mean of the best three.

    RUNS are runs of `tasks train` or folders of them. Figures that are there already are kept.

    Example: pyanticip tasks evaluate runs/tasks --checkpoints 3
    """
    from training.tasks.algorithmic.evaluate import evaluate, last, parse_lengths, top_three

    found = evaluate(
        list(given.runs),
        lengths=parse_lengths(given.lengths),
        count=given.samples,
        long_count=given.long_samples,
        checkpoints=given.checkpoints,
        seed=given.seed,
        whole=given.whole,
        say=say,
    )
    if given.as_json:
        print_json(found)
        return
    for name, page in found.items():
        for what, shares in (("last", last(page)), ("top three", top_three(page))):
            text = "  ".join(f"{length}: {share:.3f}" for length, share in sorted(shares.items()))
            if text:
                click.echo(f"{name:<28} {what:<10} {text}")


@tasks.command("report", options=f"{OPTIONS}:TaskReportOptions", extra="train")
def tasks_report(given: told.TaskReportOptions) -> None:
    """Tables and curves of evaluated runs: accuracy over length, cost, and what the cursors do.

    Example: pyanticip tasks report runs/tasks --out docs/experiments/prism-tasks
    """
    from training.tasks.algorithmic.report import report

    brief = [name for name in given.brief.split(",") if name]
    found = report(list(given.runs), given.out, counters=given.counters, brief=brief)
    if given.as_json:
        print_json(found)
    else:
        click.echo(found["tables"], nl=False)
