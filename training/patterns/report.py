"""The page of the study of patterns: losses, and what each variant gains on sinusoids, paired by seed."""

from pathlib import Path
from typing import Any, Final

from pyanticip.errors import FormatError
from training.patterns.generators import PATTERNS
from training.patterns.study import KIND, VARIANTS
from training.report.tables import interval, paired, place, spread, table
from training.study.runs import read

BEGIN: Final = "<!-- quality: written by `pyanticip evaluate patterns`, do not edit -->"
END: Final = "<!-- end of quality -->"
PAGE: Final = "trajectory-positions.md"

CLAIMS: Final = {
    "linear": "5 to 15",
    "convergent": "10 to 20",
    "circular": "15 to 25",
    "divergent": "8 to 18",
    "dialogue": "10 to 25",
    "code": "15 to 30",
    "random": "0 to 2",
}
"""Per cent that the paper promises, of a metric it does not name."""

STANDARD: Final = "sinusoidal"

Runs = dict[str, dict[str, dict[int, dict[str, Any]]]]
"""By pattern, variant and seed."""


def load(folder: Path) -> Runs:
    """The runs in a folder.

    Raises:
        FormatError: none, or runs by different recipes.
    """
    found: Runs = {}
    first: dict[str, Any] | None = None
    for file in sorted(folder.glob("*-seed*.json")):
        run = read(file)
        if run.get("kind") != KIND:
            raise FormatError(f"{file}: not a run of the patterns' study")
        first = run if first is None else first
        if run["recipe"] != first["recipe"]:
            raise FormatError(f"{file}: made by another recipe than the runs beside it")
        found.setdefault(run["pattern"], {}).setdefault(run["variant"], {})[run["seed"]] = run
    if not found:
        raise FormatError(f"{folder}: no runs of a study of patterns")
    return found


def gain(runs: Runs, kind: str, variant: str) -> dict[str, Any] | None:
    """How much lower a variant's loss is than with sinusoids, per cent of the latter, paired by seed.

    Returns:
        ``mean``, ``seeds``, and ``low`` and ``high`` of the 95 % interval by Student's t (None with fewer
        than two seeds); None without a seed that both have.
    """
    mine, theirs = runs[kind].get(variant, {}), runs[kind].get(STANDARD, {})
    common = sorted(set(mine) & set(theirs))
    if not common:
        return None
    return paired([100.0 * (1.0 - mine[seed]["loss"] / theirs[seed]["loss"]) for seed in common])


def report(folder: Path, out: Path | None = None) -> dict[str, Any]:
    """Tables of a folder of runs; with ``out`` also written into its page.

    Args:
        folder: of the runs.
        out: folder of ``trajectory-positions.md``, where the tables are replaced between two marks (a page
            that is missing is begun).

    Returns:
        ``tables``, Markdown; ``gains`` by pattern and variant; ``runs``, how many there are.
    """
    runs = load(folder)
    kinds = [kind for kind in PATTERNS if kind in runs]
    variants = [v for v in VARIANTS if any(v in runs[kind] for kind in kinds)]
    gains = {kind: {v: gain(runs, kind, v) for v in variants if v != STANDARD} for kind in kinds}
    every = [run for kind in kinds for by_seed in runs[kind].values() for run in by_seed.values()]
    text = "\n".join(
        (_recipe(every), _losses(runs, kinds, variants), _gains(gains, variants), _moved(runs, kinds))
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        place(out / PAGE, "Trajectory positions", text, BEGIN, END)
    return {"runs": len(every), "gains": gains, "tables": text}


def _recipe(every: list[dict[str, Any]]) -> str:
    first = every[0]
    recipe, seeds = first["recipe"], sorted({run["seed"] for run in every})
    seconds = sum(run["cpu_seconds"] for run in every)
    counts = {v: len({run["seed"] for run in every if run["variant"] == v}) for v in VARIANTS}
    fewer = [f"{v} {count}" for v, count in counts.items() if 0 < count < len(seeds)]
    shown = f"{len(seeds)} seeds" + (f" ({', '.join(fewer)})" if fewer else "")
    return (
        f"{len(every)} runs, {shown}: {recipe['layers']} layers of width "
        f"{recipe['d_model']}, {first['parameters']:,} parameters, {recipe['steps']} updates of "
        f"{recipe['batch']} x {recipe['length']} tokens, learning rate {recipe['lr']:g}; {recipe['tests']} "
        f"sequences held out. {seconds / 60.0:.0f} minutes of one thread of {first['processor']}, torch "
        f"{first['versions']['torch']}.\n"
    )


def _losses(runs: Runs, kinds: list[str], variants: list[str]) -> str:
    rows = []
    for kind in kinds:
        losses = ([run["loss"] for run in runs[kind].get(v, {}).values()] for v in variants)
        rows.append((kind, *(spread(each) if each else "-" for each in losses)))
    words = "Cross-entropy of the next token, nats, mean ± standard deviation over seeds:\n\n"
    return words + table(("pattern", *variants), rows)


def _gains(gains: dict[str, dict[str, Any]], variants: list[str]) -> str:
    others = [v for v in variants if v != STANDARD]
    rows = []
    for kind, found in gains.items():
        row = [kind, CLAIMS[kind]]
        for variant in others:
            gap = found[variant]
            row.append("-" if gap is None else f"{gap['mean']:+.1f} ({interval(gap['low'], gap['high'], 1)})")
        rows.append(row)
    words = (
        "Gain on sinusoids, per cent of their loss, paired by seed (95 % interval by Student's t); beside it "
        "what the paper promises:\n\n"
    )
    return words + table(("pattern", "promised", *others), rows)


def _moved(runs: Runs, kinds: list[str]) -> str:
    """What steps add to positions after training, as mean ± deviation over the steps of a test set."""
    variants = [
        v for v in VARIANTS if any("increment" in r for k in kinds for r in runs[k].get(v, {}).values())
    ]
    rows = []
    for kind in kinds:
        row = [kind]
        for variant in variants:
            each = [r["increment"] for r in runs[kind].get(variant, {}).values() if "increment" in r]
            means = [sum(values) / len(values) for values in zip(*each, strict=True)]
            row.append(f"{means[0]:.3f} ± {means[1]:.3f}" if means else "-")
        rows.append(row)
    words = (
        "What a step adds to the position after training, mean ± deviation over the steps of the test:\n\n"
    )
    return words + table(("pattern", *variants), rows)
