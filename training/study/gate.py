"""``pyanticip evaluate gate``: can the gate follow the given commitment, and does that buy something?

Small models on chained synthetic phases, five seeds an arm, one folder a run. A run that is complete is not
computed again, one that was interrupted goes on; the numbers come from the saved weights.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from pyanticip.errors import OptionError
from pyanticip.models import AnticipatoryTransformer
from pyanticip.vocabulary import SCALARS
from training.run.files import CONFIG, REPORT, write_text
from training.run.task import check_same
from training.run.train import train
from training.study.foretelling import foretelling
from training.tasks.token.evaluate import bridge, held_out
from training.tasks.token.gate import commitment_report, gate_report, shuffled_loss, shuffling_report
from training.tasks.token.listen import listen
from training.tasks.token.metrics import heads, perplexity, scalar_errors, spread
from training.tasks.token.module import new_model
from training.tasks.token.options import LanguageOptions
from training.tasks.token.task import LanguageTask, load_run, open_run

RESULT: Final = "gate.json"

BASE: Final = LanguageOptions().but(
    model={
        "d_model": 64,
        "ff": 128,
        "heads": 4,
        "dropout": 0.0,
        "positions": "rope",
        "dist_scale": 0.1,
        "max_seq_len": 256,
        "gate_gradient": False,
    },
    vocab=32,
    train_sequences=16_384,
    valid_windows=256,
    chained=True,
    repeats=(4, 9),
    neighbours=2,
    steps=2000,
    batch=16,
    seq_len=64,
    peak_lr=3e-3,
    warm_up_steps=100,
    final_lr=0.0,
    scalar_balance=True,
    scalar_weight=2.5,
    gate_weight=20.0,
    log_every=20,
    validate_every=1000,
    save_every=500,
    threads=1,
    device="cpu",
)
"""What all arms have in common but for what :data:`ARMS` says."""

_PAPER: Final[dict[str, Any]] = {"gate_weight": 0.0, "scalar_balance": False, "scalar_weight": 1.0}

ARMS: Final[dict[str, dict[str, Any]]] = {
    "monotone": {"model": {"gate_start": "monotone"}},
    "normal": {"model": {"gate_start": "normal"}},
    "shuffled": {"model": {"gate_start": "monotone"}, "gate_feed": "shuffled"},
    "unsupervised": {"model": {"gate_start": "monotone"}, "gate_weight": 0.0},
    "letter": {"model": {"gate_start": "monotone", "gate_gradient": True}, **_PAPER},
    "letter-normal": {"model": {"gate_start": "normal", "gate_gradient": True}, **_PAPER},
}
"""The gate trained towards the given commitment, from either start; the same with commitment shuffled;
without that term; and the paper's loss, where the gate's gradient reaches the refined head, from either
start."""

BARS: Final[dict[str, tuple[str, float]]] = {
    "corr(given commitment, gate)": ("least", 0.93),
    "std of the gate": ("least", 0.05),
    "different dominant scalars": ("least", 4.0),
    "corr(given commitment, loss)": ("most", -0.1),
    "largest scalar error, share of the position mean's": ("most", 0.5),
}
"""What is to be reached, by every seed."""


def options_of(arm: str, seed: int, steps: int | None = None) -> LanguageOptions:
    """The options of one run."""
    changes = {**ARMS[arm], "seed": seed}
    if steps is not None:
        every = max(1, steps // 4)
        changes |= {
            "steps": steps,
            "warm_up_steps": round(0.05 * steps),
            "validate_every": steps,
            "save_every": every,
            "log_every": min(20, steps),
        }
    return BASE.but(**changes)


def study(
    out: Path | str,
    *,
    arms: Sequence[str] = tuple(ARMS),
    seeds: int = 5,
    steps: int | None = None,
    on_run: Callable[[str], None] = lambda name: None,
    quiet: bool = True,
) -> dict[str, Any]:
    """Train and judge what is missing in ``out``, and gather everything that is there.

    Args:
        out: folder of the runs, ``ARM-SEED`` each; ``study.json`` is written beside them.
        arms: which.
        seeds: how many of each, from 0.
        steps: updates of a run, for a quick look; the study's own by default.
        on_run: is told the name of each run before it begins.
        quiet: without a bar of each run's progress.

    Raises:
        OptionError: no such arm; runs in ``out`` that were begun with other options.
        KeyboardInterrupt: a signal ended the training of a run, whose state is kept.
    """
    for arm in arms:
        if arm not in ARMS:
            raise OptionError(f"unknown arm {arm!r}: choose from {', '.join(ARMS)}")
    folder = Path(out)
    results = []
    for seed in range(seeds):
        for arm in arms:
            run = folder / f"{arm}-{seed}"
            on_run(run.name)
            options = options_of(arm, seed, steps)
            if (run / REPORT).is_file():
                check_same(LanguageTask, run, options)
            else:
                trained = train(LanguageTask(), options, run, resume=(run / CONFIG).is_file(), quiet=quiet)
                if not trained["finished"]:
                    raise KeyboardInterrupt
            if not (run / RESULT).is_file():
                text = json.dumps(judge(run) | {"arm": arm}, indent=1)
                write_text(run / RESULT, text + "\n")
            results.append(json.loads((run / RESULT).read_text(encoding="utf-8")))
    report = {
        "base": BASE.to_dict(),
        "arms": ARMS,
        "runs": results,
        "summary": summarise(results),
        "foretelling": foretelling(),
    }
    write_text(folder / "study.json", json.dumps(report, indent=1) + "\n")
    return report


def judge(folder: Path) -> dict[str, Any]:
    """One run on its held-out sequences, with the weights of its last step."""
    run = open_run(folder)
    model, _, options = load_run(folder, "last")
    start = new_model(options, run.vocab)
    assert isinstance(model, AnticipatoryTransformer)
    assert isinstance(start, AnticipatoryTransformer)
    k = options.loss.neighbours
    held = held_out(run, model, options.data.valid_windows, k)
    scalars_of = bridge(model, k)
    said = listen(model, held, scalars_of)
    assert held.mean is not None
    found: dict[str, Any] = {
        "seed": options.schedule.seed,
        "steps": options.schedule.steps,
        "fed": options.loss.gate_feed,
        "perplexity": perplexity(said.loss, said.mask).to_dict(),
        "gate": gate_report(said),
        "step0": gate_report(listen(start.eval(), held, bridge(start, k))),
        "commitment": commitment_report(said),
        "shuffled": shuffling_report(said, *shuffled_loss(model, held, scalars_of)),
    }
    other_gate, _ = shuffled_loss(model, held, scalars_of, whole=True)
    found["loss_with_other_gate"] = round(float(other_gate[said.mask].mean()), 6)
    for mode in ("external", "initial", "refined_prev"):
        heard = said if mode == "external" else listen(model, held, scalars_of, mode)
        assert heard.scalars is not None
        assert heard.given is not None
        found[f"scalars_{mode}"] = scalar_errors(heard.scalars, heard.given, heard.mask, held.mean)
        found[f"loss_{mode}"] = round(float(heard.loss[heard.mask].mean()), 6)
    if model.trunk.bias is not None:
        weight = model.trunk.bias.first.weight.detach().double().numpy()
        found["heads"] = heads(weight, model.cfg.heads)
    return found


def numbers(result: Mapping[str, Any]) -> dict[str, float | None]:
    """The numbers of one run that are compared."""
    fed = result["shuffled"]["loss_shuffled"] if result["fed"] == "shuffled" else result["shuffled"]["loss"]
    worst = max(result["scalars_external"][name]["ratio"]["value"] for name in SCALARS)
    return {
        "corr(given commitment, gate)": result["gate"]["with_given"]["value"],
        "the same at step 0": result["step0"]["with_given"]["value"],
        "std of the gate": result["gate"]["std"],
        "the same std at step 0": result["step0"]["std"],
        "corr(predicted commitment, gate)": result["gate"]["with_predicted"]["value"],
        "corr(predicted, given commitment)": result["commitment"]["predicted_with_given"]["value"],
        "corr(given commitment, loss)": result["commitment"]["given"]["value"],
        "corr(predicted commitment, loss)": result["commitment"]["predicted"]["value"],
        "corr(gate, loss)": result["gate"]["with_loss"]["value"],
        "loss as trained, nats": fed,
        "loss added by shuffling what the gate is fed": result["shuffled"]["gain"],
        "loss added by shuffling the gate": result["loss_with_other_gate"] - result["shuffled"]["loss"],
        "lower loss on the half with the highest gate": result["gate"]["selective_gain"],
        "the same, gate fed shuffled commitment": result["shuffled"]["selective_gain_shuffled"],
        "the same, half with the most probable first choice": result["gate"]["selective_gain_confidence"],
        "calibration error": result["gate"]["calibration_error"],
        "largest scalar error, share of the position mean's": worst,
        "different dominant scalars": float(result["heads"]["different"]),
        "head overlap above its floor": result["heads"]["excess"],
    }


def summarise(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Per arm mean, deviation and range of every number, and which bars all seeds clear."""
    summary: dict[str, Any] = {}
    for arm in dict.fromkeys(result["arm"] for result in results):
        mine = [numbers(result) for result in results if result["arm"] == arm]
        rows = {label: spread([each[label] for each in mine]) for label in mine[0]}
        met = {}
        for label, (side, bar) in BARS.items():
            worst = rows[label]["min" if side == "least" else "max"]
            met[label] = worst is not None and (worst >= bar if side == "least" else worst <= bar)
        summary[arm] = {"numbers": rows, "met_by_all": met}
    control = {r["seed"]: numbers(r)["loss as trained, nats"] for r in results if r["arm"] == "shuffled"}
    for arm, part in summary.items():
        pairs = [
            control[r["seed"]] - numbers(r)["loss as trained, nats"]  # type: ignore[operator]
            for r in results
            if r["arm"] == arm and r["seed"] in control
        ]
        part["numbers"]["loss below the arm trained with shuffled commitment"] = spread(pairs)
    return summary


def markdown(report: Mapping[str, Any]) -> str:
    """The arms side by side, mean and deviation over seeds with the range behind."""
    summary = report["summary"]
    arms = list(summary)
    lines = [f"| | {' | '.join(arms)} |", "|" + "---|" * (len(arms) + 1)]
    for label in summary[arms[0]]["numbers"]:
        cells = []
        for arm in arms:
            found = summary[arm]["numbers"][label]
            if found["mean"] is None:
                cells.append("-")
                continue
            cell = f"{found['mean']:.4g}"
            if found["std"] is not None:
                cell += f" ± {found['std']:.2g} ({found['min']:.3g} to {found['max']:.3g})"
            cells.append(("**" + cell + "**") if summary[arm]["met_by_all"].get(label) else cell)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    seeds = [len([r for r in report["runs"] if r["arm"] == arm]) for arm in arms]
    lines.append(f"| seeds | {' | '.join(str(n) for n in seeds)} |")
    lines += ["", "| scalar error, share of the position mean's | " + " | ".join(arms) + " |"]
    lines.append("|" + "---|" * (len(arms) + 1))
    for name in SCALARS:
        cells = []
        for arm in arms:
            mine = [r["scalars_external"][name]["ratio"]["value"] for r in report["runs"] if r["arm"] == arm]
            found = spread(mine)
            own = spread(
                [r["scalars_refined_prev"][name]["ratio"]["value"] for r in report["runs"] if r["arm"] == arm]
            )
            cells.append(f"{found['mean']:.3f} (at most {found['max']:.3f}); {own['mean']:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| corr(given commitment, miss of copying) | " + " | ".join(_neighbours(report)) + " |"]
    lines.append("|" + "---|" * (len(_neighbours(report)) + 1))
    for name in dict.fromkeys(row["data"] for row in report["foretelling"]):
        found = [row["commitment"] for row in report["foretelling"] if row["data"] == name]
        cells = [f"{c['value']:+.3f} [{c['low']:+.3f}, {c['high']:+.3f}]" for c in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _neighbours(report: Mapping[str, Any]) -> list[str]:
    return [f"{k} neighbours" for k in dict.fromkeys(row["neighbours"] for row in report["foretelling"])]


def single_thread() -> None:
    """One thread, so that several studies share a machine."""
    torch.set_num_threads(1)
