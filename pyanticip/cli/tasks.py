"""The commands of the algorithmic tasks. Mounted by pyanticip.cli."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli.generate import Group
from pyanticip.cli.terminal import JSON, print_json, typed

PATH = click.Path(path_type=Path)


@click.group("tasks", cls=Group)
def tasks() -> None:
    """Algorithmic tasks that ask for more than the training length: data, training, curves over length.

    \b
    Example: pyanticip tasks train --task copy --out runs/copy
    """


@tasks.command("list")
@JSON
def tasks_list(as_json: bool) -> None:
    """The tasks, each with an example.

    \b
    Example: pyanticip tasks list
    """
    from training.tasks.algorithmic.command import described

    found = described()
    if as_json:
        print_json({"tasks": found})
        return
    width = max(len(each["name"]) for each in found)
    for each in found:
        click.echo(
            f"{each['name']:<{width}}  {each['asks']} (trained up to {each['longest']} {each['unit']})"
        )
        click.echo(f"{'':<{width}}  {each['example']}")


@tasks.command("show")
@click.argument("task")
@click.option("--length", type=click.IntRange(1), help="Of the examples; else up to the training length.")
@click.option("--count", default=5, show_default=True, type=click.IntRange(1, 100_000), help="Examples.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the examples.")
@click.option("--test", is_flag=True, help="From the test's source, where that is another.")
@JSON
def tasks_show(task: str, length: int | None, count: int, seed: int, test: bool, as_json: bool) -> None:
    """Draw examples of a task and check them.

    \b
    Example: pyanticip tasks show addition --length 20 --count 3
    """
    from training.tasks.algorithmic.command import show

    found = show(task, length, count, seed, test=test)
    if as_json:
        print_json({"task": task, "examples": found})
    else:
        click.echo("\n".join(found))


@tasks.command("check")
@click.argument("task")
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@JSON
def tasks_check(task: str, texts: tuple[str, ...], as_json: bool) -> None:
    """Judge texts of a task, such as a model's; exit code 1 where one is wrong.

    \b
    Example: pyanticip tasks check addition "829+03=8008,2305,9009>859."
    """
    from training.tasks.algorithmic.command import check

    found = check(task, texts)
    if as_json:
        print_json({"task": task, "texts": found})
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

    \b
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


@tasks.command("evaluate")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUNS...")
@click.option("--lengths", help="Such as 10,20,50.  [default: up to 15 times the longest training length]")
@click.option("--samples", default=1000, show_default=True, type=click.IntRange(1), help="Of every length.")
@click.option("--long-samples", type=click.IntRange(1), help="The same beyond 3 times the training length.")
@click.option(
    "--checkpoints", default=5, show_default=True, type=click.IntRange(1), help="The last ones of each run."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the samples.")
@click.option(
    "--whole", is_flag=True, help="One pass over whole sequences: quicker than streaming, same figures."
)
@JSON
def tasks_evaluate(
    runs: tuple[Path, ...],
    lengths: str | None,
    samples: int,
    long_samples: int | None,
    checkpoints: int,
    seed: int,
    whole: bool,
    as_json: bool,
) -> None:
    """Exact matches over length by greedy decoding; of the last weights and the mean of the best three.

    RUNS are runs of `tasks train` or folders of them. Figures that are there already are kept.

    \b
    Example: pyanticip tasks evaluate runs/tasks --checkpoints 3
    """
    from training.tasks.algorithmic.evaluate import evaluate, last, parse_lengths, top_three

    found = evaluate(
        list(runs),
        lengths=parse_lengths(lengths),
        count=samples,
        long_count=long_samples,
        checkpoints=checkpoints,
        seed=seed,
        whole=whole,
        say=lambda line: click.echo(line, err=True),
    )
    if as_json:
        print_json(found)
        return
    for name, page in found.items():
        for what, shares in (("last", last(page)), ("top three", top_three(page))):
            text = "  ".join(f"{length}: {share:.3f}" for length, share in sorted(shares.items()))
            if text:
                click.echo(f"{name:<28} {what:<10} {text}")


@tasks.command("report")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUNS...")
@click.option("--out", type=PATH, help="Folder of prism-tasks.md and its pictures.")
@click.option("--counters/--no-counters", default=True, help="Draw the cursors before and after training.")
@click.option("--brief", default="", help="Tasks that share one table, without pictures; with commas.")
@JSON
def tasks_report(runs: tuple[Path, ...], out: Path | None, counters: bool, brief: str, as_json: bool) -> None:
    """Tables and curves of evaluated runs: accuracy over length, cost, and what the cursors do.

    \b
    Example: pyanticip tasks report runs/tasks --out docs/experiments
    """
    from training.tasks.algorithmic.report import report

    found = report(list(runs), out, counters=counters, brief=[name for name in brief.split(",") if name])
    if as_json:
        print_json(found)
    else:
        click.echo(found["tables"], nl=False)
