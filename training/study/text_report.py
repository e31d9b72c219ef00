"""The tables and figures of the study of the geometric bias, from whatever runs there are."""

import json
import math
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import FormatError
from training.report.tables import interval, paired, place, spread, table
from training.study.runs import read
from training.study.text import DATA, MAIN, STRIDES, VARIANTS
from training.tasks.token.metrics import CONTEXTS
from training.tasks.token.options import LanguageOptions

BEGIN: Final = "<!-- tables: written by `pyanticip evaluate study`, do not edit -->"
END: Final = "<!-- end of tables -->"
SEEDS: Final = 5
"""Seeds of a whole study."""

PAIRS: Final = (
    ("geometric-external", "random"),
    ("geometric-self", "random"),
    ("none", "random"),
    ("geometric-rope", "random-rope"),
    ("geometric-external", "plain"),
    ("geometric-self", "plain"),
    ("random", "plain"),
    ("none", "plain"),
    ("alibi", "plain"),
    ("rope", "plain"),
    ("random-rope", "rope"),
    ("geometric-rope", "rope"),
)
"""What is compared with what: first what the meaning of the scalars adds, then everything else."""

Runs = dict[str, dict[int, dict[str, Any]]]
"""By variant and seed."""


def load(folder: Path) -> dict[str, Runs]:
    """The runs in a folder, by data set.

    Raises:
        FormatError: a file that is no run, none at all, or runs that learned from unequal numbers of tokens.
    """
    found: dict[str, Runs] = {name: {} for name in DATA}
    tokens: dict[str, int] = {}
    for file in sorted(folder.glob("*-seed*.json")):
        run = read(file)
        if run.get("data") not in DATA or "tokens" not in run or "variant" not in run:
            raise FormatError(f"{file}: not a run of the study of geometry on text")
        if tokens.setdefault(run["data"], run["tokens"]) != run["tokens"]:
            raise FormatError(f"{file}: {run['tokens']} tokens, others {tokens[run['data']]}")
        found[run["data"]].setdefault(run["variant"], {})[run["seed"]] = run
    if not tokens:
        raise FormatError(f"{folder}: no runs of a study")
    return found


def difference(runs: Runs, one: str, other: str, measure: str = "full") -> dict[str, Any] | None:
    """Loss of one variant less that of another, in nats, paired by seed.

    Returns:
        ``mean``, ``seeds``, and ``low`` and ``high`` of the 95 % interval by Student's t (None with fewer
        than two seeds); None without a seed that both have.
    """
    mine, theirs = runs.get(one, {}), runs.get(other, {})
    common = sorted(set(mine) & set(theirs))
    if not common:
        return None
    return paired([mine[s]["test"]["loss"][measure] - theirs[s]["test"]["loss"][measure] for s in common])


def report(folder: Path, out: Path | None = None, seeds: int = SEEDS) -> dict[str, Any]:
    """Tables of a folder of runs; with ``out`` also written into its pages.

    Args:
        folder: of the runs, and of ``stride-cost.json`` if there is one.
        out: folder of ``geometric-bias.md`` and ``slow-stride.md``, whose tables are replaced between two
            marks (pages that are missing are begun), and of ``geometric-bias.png``.
        seeds: of the whole study, to say how much of it is there.

    Returns:
        ``bias`` and ``strides``, Markdown; ``differences`` by data set; ``runs`` and ``planned``.
    """
    runs = load(folder)
    done = sum(len(found.get(name, {})) for found in runs.values() for name in MAIN)
    planned = len(MAIN) * len(DATA) * seeds
    differences = {
        data: {f"{one} - {other}": difference(found, one, other) for one, other in PAIRS}
        for data, found in runs.items()
        if found
    }
    cost = folder / "stride-cost.json"
    result: dict[str, Any] = {
        "runs": done,
        "planned": planned,
        "differences": differences,
        "bias": _bias(runs, done, planned, seeds),
        "strides": _strides(runs["text"], json.loads(cost.read_text()) if cost.is_file() else None),
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        place(out / "geometric-bias.md", "Does the geometric bias help?", result["bias"], BEGIN, END)
        place(out / "slow-stride.md", "The stride of the slow pathway", result["strides"], BEGIN, END)
        draw(runs, out / "geometric-bias.png")
    return result


def _several(runs: dict[int, dict[str, Any]], measure: str) -> str:
    return spread([run["test"]["perplexity"][measure] for run in runs.values()])


def _bias(runs: dict[str, Runs], done: int, planned: int, seeds: int) -> str:
    parts = [f"{done} of {planned} runs are in (seeds 0 to {seeds - 1}).\n"]
    for data, found in runs.items():
        some = [found[name] for name in MAIN if name in found]
        if not some:
            continue
        first = next(iter(some[0].values()))
        parts.append(
            f"**{data}**: {first['tokens']:,} tokens a run ({first['epochs']:g} epochs), learning rate "
            f"{LanguageOptions.of_run(first['options']).schedule.peak_lr:g}, "
            f"{first['test']['predictions']:,} held-out predictions, "
            f"{first['test']['places']:,} of them with their context cut. Perplexity, mean ± standard "
            f"deviation over seeds:\n"
        )
        head = ("variant", "seeds", "parameters", "full", *(f"context {c}" for c in CONTEXTS),
                "the same, full", "CPU s", "wall s", "tokens / CPU s")  # fmt: skip
        rows = []
        for name in MAIN:
            mine = found.get(name)
            if mine is None:
                continue
            each = list(mine.values())
            measures = ("full", *map(str, CONTEXTS), "places")
            rows.append((
                name, str(len(each)), f"{each[0]['parameters']:,}", *(_several(mine, m) for m in measures),
                *(f"{np.median([r[k] for r in each]):.0f}"
                  for k in ("cpu_seconds", "seconds", "tokens_per_cpu_second")),
            ))  # fmt: skip
        parts.append(table(head, rows))
        parts.append("Differences of the loss in nats, paired by seed, 95 % interval by Student's t:\n")
        parts.append(table(("", "seeds", "full", "interval", "perplexity"), _compared(found)))
    return "\n".join(parts)


def _compared(found: Runs) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one, other in PAIRS:
        gap = difference(found, one, other)
        if gap is None:
            continue
        shown = f"{100 * math.expm1(gap['mean']):+.2f} %"
        rows.append(
            (
                f"{one} less {other}",
                str(gap["seeds"]),
                f"{gap['mean']:+.4f}",
                interval(gap["low"], gap["high"]),
                shown,
            )
        )
    return rows


def _strides(found: Runs, cost: dict[str, Any] | None) -> str:
    head = ["slow_stride", "seeds", "perplexity", "less stride 1, nats", "interval", "training, CPU s"]
    measured = cost["strides"] if cost is not None else None
    if measured is not None:
        head += ["forward and backward, ms", "ratio", "one step, us", "ratio"]
    rows = []
    for stride, name in STRIDES.items():
        mine = found.get(name)
        if mine is None:
            continue
        gap = difference(found, name, STRIDES[1])
        told = ("-", "-")
        if stride != 1 and gap is not None:
            told = (f"{gap['mean']:+.4f}", interval(gap["low"], gap["high"]))
        row = [str(stride), str(len(mine)), _several(mine, "full"), *told]
        row.append(f"{np.median([run['cpu_seconds'] for run in mine.values()]):.0f}")
        if measured is not None:
            for key in ("train_ms", "step_us"):
                row += [f"{measured[str(stride)][key]:.4g}", f"{measured[str(stride)][key + '_ratio']:.3f}"]
        rows.append(row)
    words = ""
    if cost is not None:
        words = (
            f"\nTimes: CPU time, medians of {cost['pairs']} turns taken in turn, one thread of "
            f"{cost['processor']}, torch {cost['torch']}; training step of {cost['batch']} x "
            f"{cost['length']} tokens, bridge left out; a token of decoding, mean over {cost['length']}.\n"
        )
    return table(head, rows) + words


def draw(runs: dict[str, Runs], path: Path) -> None:
    """Loss curves and losses by context: means over the seeds that all variants drawn have."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [name for name in runs if any(v in runs[name] for v in MAIN)]
    figure, axes = plt.subplots(len(shown), 2, figsize=(12.0, 4.0 * len(shown)), squeeze=False)
    for (left, right), data in zip(axes, shown, strict=True):
        there = [runs[data][name] for name in MAIN if name in runs[data]]
        common = set.intersection(*(set(mine) for mine in there)) or set.union(*map(set, there))
        for number, name in enumerate(MAIN):
            mine = {seed: run for seed, run in runs[data].get(name, {}).items() if seed in common}
            if not mine:
                continue
            look = {
                "color": f"C{number}",
                "ls": "--" if VARIANTS[name].kind == "baseline" else "-",
                "lw": 1.3,
            }
            curves: NDArray[np.float64] = np.array([run["curve"] for run in mine.values()])
            mean = curves.mean(0)
            mean = mean[len(mean) // 10 :]  # the fall from the start would hide the rest
            left.plot(mean[:, 0] / 1e6, mean[:, 1], label=name, **look)
            measures = [*map(str, CONTEXTS), "places"]
            losses = [np.mean([run["test"]["loss"][m] for run in mine.values()]) for m in measures]
            right.plot(range(len(measures)), losses, marker="o", ms=3, label=name, **look)
        left.set_title(f"{data}: training loss, mean of {len(common)} seed{'s' * (len(common) > 1)}")
        left.set_xlabel("million tokens")
        left.set_ylabel("nats a token")
        right.set_title(f"{data}: held-out loss by context")
        right.set_xticks(range(len(CONTEXTS) + 1), [*map(str, CONTEXTS), "full"])
        right.set_xlabel("tokens seen")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", fontsize=8, ncols=len(MAIN))
    figure.tight_layout(rect=(0.0, 0.05, 1.0, 1.0))
    figure.savefig(path, dpi=80)
    plt.close(figure)
