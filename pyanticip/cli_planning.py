"""The commands of the planning signal on text. Mounted by :mod:`pyanticip.cli.training`."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli.tools import JSON, ExampleCommand, print_json, typed
from pyanticip.cli_runs import OUT, PATH, RUNS, named, say, seeds, tables, told


@click.command("planning", cls=ExampleCommand)
@OUT
@click.option("--train", required=True, type=PATH, help="Text to learn from.")
@click.option("--test", required=True, type=PATH, help="Text to test on.")
@seeds("0-2")
@click.option("--arms", default="all", show_default=True, help="Comma-separated; or all.")
@click.option(
    "--backbone",
    default="small",
    show_default=True,
    help="small (trained here), or a GPT-2: gpt2, or a folder of transformers.",
)
@click.option("--vocab", default=1024, show_default=True, type=click.IntRange(257), help="Of the small one.")
@click.option("--horizon", default=50, show_default=True, type=click.IntRange(1), help="Tokens ahead, K.")
@click.option("--length", default=128, show_default=True, type=click.IntRange(2), help="Of a sequence.")
@click.option("--rows", default=8, show_default=True, type=click.IntRange(1), help="Sequences per update.")
@click.option(
    "--backbone-steps", default=1000, show_default=True, type=click.IntRange(1), help="Of the small one."
)
@click.option("--steps", default=600, show_default=True, type=click.IntRange(1), help="Updates of an arm.")
@click.option(
    "--lr", default=1e-3, show_default=True, type=click.FloatRange(0, 1, True, True), help="Of arms."
)
@click.option(
    "--planning-lr",
    default=1e-2,
    show_default=True,
    type=click.FloatRange(0, 1, True, True),
    help="Of the planning signal's own weights.",
)
@click.option("--windows", default=250, show_default=True, type=click.IntRange(1), help="Held out, at most.")
@JSON
def train_planning(
    out: Path,
    train: Path,
    test: Path,
    seeds: str,
    arms: str,
    backbone: str,
    vocab: int,
    horizon: int,
    length: int,
    rows: int,
    backbone_steps: int,
    steps: int,
    lr: float,
    planning_lr: float,
    windows: int,
    as_json: bool,
) -> None:
    """Train a backbone on in the four ways of the paper on the planning signal; go on where it stopped.

    \b
    Example: pyanticip train planning --out runs/planning --train learn.txt --test test.txt
             pyanticip train planning --out runs/gpt2 --train a.txt --test b.txt --backbone gpt2 --lr 5e-5
    """
    from training.planning import study
    from training.planning.arms import ARMS
    from training.study.runs import seeds as numbers

    recipe = study.Recipe(
        train,
        test,
        backbone=backbone,
        vocab=vocab,
        horizon=horizon,
        length=length,
        rows=rows,
        backbone_steps=backbone_steps,
        steps=steps,
        lr=lr,
        planning_lr=planning_lr,
        windows=windows,
    )
    runs = study.plan(named(arms, {"all": tuple(ARMS)}), numbers(seeds))
    told(study.study(out, runs, recipe, say=say(as_json)), as_json, f"planning {typed(out)}")


@click.command("planning", cls=ExampleCommand)
@RUNS
@click.option("--report", type=PATH, help="Folder of planning-signal.md.")
@JSON
def evaluate_planning(runs: Path, report: Path | None, as_json: bool) -> None:
    """Compare the arms of train planning: divergence of the plans, perplexity; from what is done.

    \b
    Example: pyanticip evaluate planning runs/planning --report docs/experiments
    """
    from training.planning.report import report as made

    tables(made(runs, report), as_json, report)


@click.command("writing", cls=ExampleCommand)
@click.argument("model")
@click.option(
    "--task",
    required=True,
    type=click.Choice(["rocstories", "commongen", "eli5"]),
    help="Whose file --data is.",
)
@click.option("--data", required=True, type=PATH, help="The file, as its authors publish it.")
@click.option("--judge", help="Model whose perplexity judges; by default MODEL itself.")
@click.option("--limit", type=click.IntRange(1), help="Only the first so many items.")
@click.option("--tokens", default=40, show_default=True, type=click.IntRange(1), help="Of a text.")
@click.option("--temperature", default=0.0, show_default=True, type=click.FloatRange(0), help="0: greedy.")
@click.option("--steer", is_flag=True, help="Wish the words of an item into the plans.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of every draw.")
@JSON
def evaluate_writing(
    model: str,
    task: str,
    data: Path,
    judge: str | None,
    limit: int | None,
    tokens: int,
    temperature: float,
    steer: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Let MODEL write, and score it: coverage of words, ROUGE-L, perplexity. MODEL is a checkpoint of a token
    model or a GPT-2 of transformers.

    \b
    Example: pyanticip evaluate writing runs/planning/models/full-seed0 --task commongen --data dev.jsonl
             pyanticip evaluate writing gpt2 --task rocstories --data stories.csv --judge gpt2-large
    """
    from training.planning.tasks_text import read_items
    from training.planning.writing import evaluate, load_writer

    items = read_items(task, data, limit)
    writer = load_writer(model)
    found = evaluate(
        writer,
        writer if judge is None else load_writer(judge),
        items,
        tokens=tokens,
        temperature=temperature,
        seed=seed,
        steer=steer,
    )
    if as_json:
        print_json(found)
        return
    for item, text in list(zip(items, found["texts"], strict=True))[:5]:
        click.echo(f"{item.prompt} -> {text}")
    for name in ("coverage", "rouge_l", "perplexity"):
        if found[name] is not None:
            click.echo(f"{name}: {found[name]:.4f}")
    click.echo(f"{found['items']} items, written by {found['writer']}, judged by {found['judge']}")
