"""The page of the planning signal: the paper's first two tables, from whatever runs there are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import FormatError
from training.planning.arms import ARMS, BACKBONE
from training.planning.study import KIND
from training.report.tables import interval, paired, place, spread, table
from training.study.runs import read

BEGIN: Final = "<!-- tables: written by `pyanticip evaluate planning`, do not edit -->"
END: Final = "<!-- end of tables -->"
PAGE: Final = "planning-signal.md"

LABELS: Final = {
    "full": "ours",
    "without anticipator": "\\ anticipator",
    "without fine-tuning": "\\ fine-tune",
    "base + training": "base + train",
    BACKBONE: "the untouched backbone",
}
"""The paper's names of the arms."""

Runs = dict[str, dict[int, dict[str, Any]]]
"""By arm and seed."""


def load(folder: Path) -> Runs:
    """The runs in a folder.

    Raises:
        FormatError: a file that is no run, none at all, or runs of different recipes.
    """
    found: Runs = {}
    recipe: Any = None
    for file in sorted(folder.glob("*-seed*.json")):
        run = read(file)
        if run.get("kind") != KIND:
            raise FormatError(f"{file}: not a run of the planning study")
        recipe = run["recipe"] if recipe is None else recipe
        if run["recipe"] != recipe:
            raise FormatError(f"{file}: follows another recipe than the runs beside it")
        found.setdefault(run["arm"], {})[run["seed"]] = run
    if not found:
        raise FormatError(f"{folder}: no runs of the planning study")
    return found


def report(folder: Path, out: Path | None = None) -> dict[str, Any]:
    """The tables of a folder of runs; with ``out`` also written into its page.

    Args:
        folder: of the runs.
        out: folder of ``planning-signal.md``, whose tables are replaced between two marks.

    Returns:
        ``tables``, Markdown; ``runs``, how many; ``differences`` of the loss to ``base + training``.
    """
    runs = load(folder)
    differences = {arm: _difference(runs, arm, "base + training") for arm in ARMS if arm != "base + training"}
    text = "\n".join((_setting(runs), _first(runs), _second(runs, differences), _plans(runs)))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        place(out / PAGE, "The planning signal", text, BEGIN, END)
    return {
        "tables": text,
        "runs": sum(map(len, runs.values())),
        "differences": {arm: found for arm, found in differences.items() if found is not None},
    }


def _values(runs: Runs, arm: str, key: str) -> list[float]:
    return [run["test"][key] for _, run in sorted(runs.get(arm, {}).items()) if key in run["test"]]


def _difference(runs: Runs, one: str, other: str) -> dict[str, Any] | None:
    mine, theirs = runs.get(one, {}), runs.get(other, {})
    common = sorted(set(mine) & set(theirs))
    if not common:
        return None
    return paired([mine[s]["test"]["loss"] - theirs[s]["test"]["loss"] for s in common])


def _setting(runs: Runs) -> str:
    some = next(iter(next(iter(runs.values())).values()))
    recipe = some["recipe"]
    seeds = sorted({seed for found in runs.values() for seed in found})
    backbone = (
        f"a plain transformer of width {recipe['model']['d_model']}, trained for {recipe['backbone_steps']} "
        f"updates at a rate of {recipe['backbone_lr']:g}"
        if recipe["backbone"] == "small"
        else f"`{recipe['backbone']}`"
    )
    return (
        f"{sum(map(len, runs.values()))} runs, seeds {', '.join(map(str, seeds))}. Backbone: {backbone}; "
        f"vocabulary {some['vocab']}. Every arm goes on from it for {recipe['steps']} updates of "
        f"{recipe['rows']} x {recipe['length']} tokens, rate {recipe['lr']:g} (the planning signal's own "
        f"weights {recipe['planning_lr']:g}); K = {recipe['horizon']}. "
        f"Held out: {some['test']['predictions']:,} predictions. Mean ± standard deviation over seeds.\n"
    )


def _rows(runs: Runs, arms: tuple[str, ...], cells: Callable[[str], list[str]]) -> list[list[str]]:
    return [[LABELS[arm], str(len(runs[arm])), *cells(arm)] for arm in arms if arm in runs]


def _several(runs: Runs, arm: str, key: str, digits: int = 3) -> str:
    values = _values(runs, arm, key)
    return spread(values, digits) if values else "-"


def _first(runs: Runs) -> str:
    arms = ("full", "without fine-tuning", "without anticipator")
    rows = _rows(runs, arms, lambda arm: [_several(runs, arm, "divergence", 4)])
    unigram = next((v for arm in arms for v in _values(runs, arm, "divergence_unigram")), None)
    told = "" if unigram is None else (
        f"\nThe frequencies of the training text in the anticipator's place: {unigram:.4f}. The last row is "
        "not in the paper: its anticipator was trained without plans to look at.\n"
    )  # fmt: skip
    return (
        "**Table 1.** D_KL(P‖Q), nats: P the target score distribution, Q the anticipator's.\n\n"
        + table(("method", "seeds", "D_KL"), rows)
        + told
    )


def _second(runs: Runs, differences: dict[str, dict[str, Any] | None]) -> str:
    def cells(arm: str) -> list[str]:
        gap = differences.get(arm)
        apart = ["-", "-"]
        if gap is not None:
            apart = [f"{gap['mean']:+.4f}", interval(gap["low"], gap["high"])]
        # A backbone that was found and not trained anew took nothing.
        cpu = [run["cpu_seconds"] for run in runs[arm].values() if run["cpu_seconds"]]
        took = f"{sum(cpu) / len(cpu):.0f}" if cpu else "-"
        return [_several(runs, arm, "perplexity"), *apart, took]

    head = (
        "method", "seeds", "perplexity", "loss less base + train, nats", "95 % interval", "training, CPU s",
    )  # fmt: skip
    return (
        "\n**Table 2.** Perplexity of the next token, with each model's own plans (two passes).\n\n"
        + table(head, _rows(runs, (*ARMS, BACKBONE), cells))
        + "\nThe backbone's CPU seconds are those of its own training.\n"
    )


def _plans(runs: Runs) -> str:
    arms = tuple(arm for arm in ("full", "without fine-tuning") if arm in runs)
    if not arms:
        return ""
    rows = _rows(
        runs,
        arms,
        lambda arm: [
            *(
                _several(runs, arm, key)
                for key in ("perplexity", "perplexity_without", "perplexity_simulated")
            ),
            _several(runs, arm, "hits"),
            _several(runs, arm, "named", 1),
        ],
    )
    head = ("method", "seeds", "own plans", "empty plans", "simulated plans", "weight on codes that come",
            "codes named")  # fmt: skip
    return (
        "\n**What the plans do**: the same models' perplexity with their own plans, with none, and with "
        "simulated ones, which know the future by design and are what training sees.\n\n" + table(head, rows)
    )
