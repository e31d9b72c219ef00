"""``pyanticip evaluate motion``: a checkpoint against both rivals on held-out subjects."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer, load_motion_model
from pyanticip.models.config import HORIZONS_MS, SCALAR_NAMES
from training.baselines import Rivals, predict, tune
from training.data import Example, Split, load_split, plain, split_of
from training.descriptors import PARAMETERS
from training.evaluation.beat import model_rows
from training.evaluation.categories import group_of, read_categories
from training.scores import Errors, Said, bootstrap, measure, run_model
from training.teacher import TEACHER_VERSION

RIVALS_FILE: Final = Path(__file__).with_name("rivals.json")
"""The rivals as tuned on the training subjects."""

DRAWS: Final = 2000

_SIDES: Final[dict[str, tuple[Split, ...]]] = {
    "validation": ("validation",),
    "test": ("test",),
    "held-out": ("validation", "test"),
}


def _table(values: NDArray[np.float64]) -> list[list[float]]:
    return [[round(float(value), 6) for value in row] for row in np.atleast_2d(values)]


def gate_report(examples: Sequence[Example], said: Sequence[Said]) -> dict[str, float]:
    """Does the commitment gate follow commitment, and does it open when an announcement holds?"""
    from pyanticip.models.config import SCALAR_COLUMNS

    gate = np.concatenate([s.gate for s in said]).astype(np.float64)
    given = np.concatenate([e.features[:, SCALAR_COLUMNS[0]] for e in examples]).astype(np.float64)
    spread = float(gate.std())
    related = float(np.corrcoef(gate, given)[0, 1]) if spread > 1e-9 else 0.0
    return {"gate_std": round(spread, 4), "corr_gate_commitment": round(related, 4)}


def scalar_report(examples: Sequence[Example], said: Sequence[Said]) -> dict[str, float]:
    """Mean absolute error of each scalar as the refined head predicts it."""
    from pyanticip.models.config import SCALAR_COLUMNS

    low, high = SCALAR_COLUMNS
    wrong = np.concatenate(
        [np.abs(s.scalars - e.features[:, low:high]) for e, s in zip(examples, said, strict=True)]
    )
    return {
        name: round(float(value), 4) for name, value in zip(SCALAR_NAMES, wrong.mean(axis=0), strict=True)
    }


def compare(model: Errors, hold: Errors, linear: Errors, *, seed: int = 0) -> dict[str, Any]:
    """Mean errors of the three, their intervals, and where the model does not win at 100 ms and beyond."""
    means = [errors.mean() for errors in (model, hold, linear)]

    def average(found: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        ours, one, other = (table.mean(axis=0) for table in found)
        return np.stack([ours, one, other, np.minimum(one, other) - ours])

    low, high = bootstrap((model, hold, linear), average, draws=DRAWS, seed=seed)
    best = np.minimum(means[1], means[2])
    lost = [
        f"{name} at {ms} ms"
        for k, name in enumerate(PARAMETERS)
        for i, ms in enumerate(HORIZONS_MS)
        if ms >= 100 and not means[0][k, i] < best[k, i]
    ]
    return {
        "mean": {
            who: _table(table)[0]
            for who, table in zip(
                ("model", "hold", "linear"), (m.mean(axis=0)[None] for m in means), strict=True
            )
        },
        "interval": {
            who: {"low": _table(low)[row], "high": _table(high)[row]}
            for row, who in enumerate(("model", "hold", "linear", "margin"))
        },
        "per_parameter": {
            who: dict(zip(PARAMETERS, _table(table), strict=True))
            for who, table in zip(("model", "hold", "linear"), means, strict=True)
        },
        "not_beaten": lost,
        "subjects": sorted(set(model.subjects.tolist())),
        "clips": len(model.subjects),
        "frames": int(model.counts[:, 0].sum()),
    }


def retune(data_dir: Path | str, target: Path | str, *, cache: Path | str | None = None) -> Rivals:
    """Tune both rivals on the training subjects and save their settings in ``target`` (JSON)."""
    pieces = load_split(Path(data_dir), "train", None if cache is None else Path(cache))
    rivals = tune([plain(piece) for piece in pieces])
    rivals.save(Path(target))
    return rivals


def evaluate(
    checkpoint: Path | str | None,
    data_dir: Path | str,
    split: str = "validation",
    *,
    cache: Path | str | None = None,
    rivals: Path | str | None = None,
    figure: Path | str | None = None,
    clip: str | None = None,
    subjects: Sequence[str] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Mean absolute error of a checkpoint and of both rivals, at every horizon, on subjects it never saw.

    Args:
        checkpoint: folder of the checkpoint; the packaged one where it is None.
        data_dir: folder of CMU takes, or its parent.
        split: which subjects: validation (06, 43, 35), test (07, 49), or both.
        cache: folder for the retargeted motion.
        rivals: file of tuned rivals; the package's own by default.
        figure: PNG to draw one clip's parameters into.
        clip: which one, ``06_13/16`` for example; the longest by default.
        subjects: judge these instead of a split, say some that a run of training left out.
        seed: of the bootstrap.

    Returns:
        A dictionary of plain values; :func:`markdown` makes tables of it.

    Raises:
        CheckpointError: no usable checkpoint.
        FormatError: no usable motion, or rivals for another teacher.
        OptionError: no such split.
    """
    if split not in _SIDES:
        raise OptionError(f"split is one of {', '.join(_SIDES)}, given {split!r}")
    model: MotionTransformer = load_motion_model(checkpoint)
    tuned = Rivals.load(RIVALS_FILE if rivals is None else Path(rivals))
    cache_dir = None if cache is None else Path(cache)

    def examples_of(sides: Sequence[Split]) -> list[Example]:
        return [plain(piece) for side in sides for piece in load_split(Path(data_dir), side, cache_dir)]

    if subjects:
        sides: tuple[Split, ...] = ("train", "validation", "test")
        chosen = [side for side in sides if any(split_of(s) == side for s in subjects)]
        examples = [example for example in examples_of(chosen) if example.subject in subjects]
        if missing := sorted(set(subjects) - {example.subject for example in examples}):
            raise OptionError(f"{data_dir}: no motion of subject {', '.join(missing)}")
        split = "subjects"
    else:
        examples = examples_of(_SIDES[split])
    said = {id(example): run_model(model, example) for example in examples}
    errors = measure(examples, lambda example: said[id(example)].params)
    hold = measure(examples, lambda example: predict(example, tuned.hold))
    linear = measure(examples, lambda example: predict(example, tuned.linear))
    answers = [said[id(example)] for example in examples]
    if figure is not None:
        from training.figures import draw_clip

        named = [example for example in examples if clip in (None, example.name)]
        if not named:
            raise OptionError(f"no clip {clip!r} among the {split} subjects")
        shown = max(named, key=len)
        draw_clip(shown, said[id(shown)].params, predict(shown, tuned.hold), Path(figure))
    # Settings of announcements come from other subjects: of the validation side, or of those judged.
    if split in ("validation", "subjects"):
        chosen_on = (examples, answers)
    else:
        choosers = examples_of(("validation",))
        chosen_on = (choosers, [run_model(model, example) for example in choosers])
    categories = read_categories(Path(data_dir))
    groups = [group_of(example.name, categories) for example in examples]
    return {
        "split": split,
        "teacher_version": TEACHER_VERSION,
        "horizons_ms": list(HORIZONS_MS),
        **compare(errors, hold, linear, seed=seed),
        "events": model_rows(examples, answers, groups, chosen_on),
        "scalars_mae": scalar_report(examples, answers),
        **gate_report(examples, answers),
    }


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown tables."""
    horizons = [f"{ms} ms" for ms in report["horizons_ms"]]
    lines = [
        f"{report['split']}: subjects {', '.join(report['subjects'])}; {report['clips']} clips, "
        f"{report['frames']} judged frames.",
        "",
        "| mean over the eight | " + " | ".join(horizons) + " |",
        "|---|" + "---|" * len(horizons),
    ]
    titles = {"model": "model", "hold": "hold the twin", "linear": "extrapolate the twin"}
    for who, title in titles.items():
        low, high = report["interval"][who]["low"], report["interval"][who]["high"]
        cells = [
            f"{m:.4f} [{a:.4f}, {b:.4f}]" for m, a, b in zip(report["mean"][who], low, high, strict=True)
        ]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    margin = report["interval"]["margin"]
    cells = [f"[{a:+.4f}, {b:+.4f}]" for a, b in zip(margin["low"], margin["high"], strict=True)]
    lines.append("| better rival - model | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| parameter (model / hold / extrapolate) | " + " | ".join(horizons) + " |",
        "|---|" + "---|" * len(horizons),
    ]
    tables = report["per_parameter"]
    for name in PARAMETERS:
        cells = []
        for i in range(len(horizons)):
            ours, one, other = (tables[who][name][i] for who in titles)
            mark = "**" if ours < min(one, other) else ""
            cells.append(f"{mark}{ours:.4f}{mark} / {one:.4f} / {other:.4f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| event | lead | movement (events) | who | precision | recall | F1 | median lead |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in report["events"]:
        median = "-" if row["median_lead_ms"] is None else f"{row['median_lead_ms']:.0f} ms"
        interval = f" [{row['f1_low']:.2f}, {row['f1_high']:.2f}]" if "f1_low" in row else ""
        lines.append(
            f"| {row['event']} | {row['lead_ms']} ms | {row['category']} ({row['true']}) | {row['who']} "
            f"| {row['precision']:.2f} | {row['recall']:.2f} | {row['f1']:.2f}{interval} | {median} |"
        )
    scalars = ", ".join(f"{name} {value:.3f}" for name, value in report["scalars_mae"].items())
    lines += [
        "",
        f"Scalars as predicted, mean absolute error: {scalars}.",
        f"Commitment gate: standard deviation {report['gate_std']:.3f}, "
        f"correlation with the given commitment {report['corr_gate_commitment']:+.2f}.",
    ]
    beaten = report["not_beaten"]
    lines += ["", "Not beaten at 100 ms or beyond: " + (", ".join(beaten) if beaten else "none") + "."]
    return "\n".join(lines) + "\n"


def write_report(report: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write ``SPLIT.json`` and ``SPLIT.md`` into a folder; returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    as_json, as_text = folder / f"{report['split']}.json", folder / f"{report['split']}.md"
    as_json.write_text(json.dumps(report, indent=1) + "\n")
    as_text.write_text(markdown(report))
    return as_json, as_text
