"""Blending: what a trained model says is mixed with what the body's measures say by themselves.

A trunk that has learned from a few people is too sure of its corrections where it meets another one. Two
plain forecasts are not: one that is linear in the measures of the last half second and fitted without the
trunk (:mod:`training.finish.linear_forecast`), and a slow hold (:mod:`training.tasks.motion.shrink`). Each
parameter's logit at each horizon becomes

    (1 - b) ((1 - a) what the model says + a what the linear forecast says) + b what the hold says.

All three are linear in what the last layer of the control head reads, so the mixture is that layer with other
weights: nothing is added to the model, and it costs no time. Where the suit is poor the mixture is taken
back (:mod:`training.finish.poor_suits`).

``a``, ``b`` and the hold's stretch are chosen, for every parameter at every horizon, on people whom the model
has not learned from: the validation subjects, and those that were left out of another training with the same
options (``--fold``), so that the choice rests on more people.

    python -m training.finish.blend --data sets/mine --checkpoint runs/mine/checkpoint --out runs/blended
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.errors import MotionError, OptionError
from pyanticip.models import MotionTransformer, load_motion_model, save_checkpoint
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.models.motion.smoothed import STRETCHES
from pyanticip.vocabulary import HORIZONS_MS, PARAMETERS, RATE
from training.data.batches import HORIZONS
from training.data.examples import SHORTEST, Example, Split
from training.finish.linear_forecast import CELLS, LinearForecast, fit_forecast, recent_of
from training.finish.poor_suits import distil
from training.tasks.motion.data import base_set
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.scores import measure, run_model
from training.tasks.motion.shrink import draw_towards, slow_hold, take_back

Array = NDArray[np.float64]
Table = dict[tuple[int, int, int], Array]

LINEAR_SHARES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
HOLD_SHARES: Final = (0.0, 0.1, 0.2, 0.3)
UNMIXED: Final = (0, 0, 0)

NOTE: Final = "steadied"
"""Under which a checkpoint notes what was done."""

SIDES: Final[tuple[Split, ...]] = ("train", "validation")


@dataclass(frozen=True)
class Case:
    """A model with a linear forecast, both made without the subjects of ``examples``."""

    model: MotionTransformer
    linear: LinearForecast
    examples: Sequence[Example]


@dataclass(frozen=True)
class Choice:
    """Arrays (8, 5)."""

    linear_share: Array
    hold_share: Array
    stretch: NDArray[np.int64]
    """Index into :data:`pyanticip.models.motion.smoothed.STRETCHES`."""

    def described(self) -> list[dict[str, Any]]:
        """What is mixed in, by parameter and horizon; what stays as it is, is left out."""
        found = []
        for k, name in enumerate(PARAMETERS):
            for i, ms in enumerate(HORIZONS_MS):
                line: dict[str, Any] = {"parameter": name, "horizon_ms": ms}
                if self.linear_share[k, i]:
                    line["filter"] = float(self.linear_share[k, i])
                if self.hold_share[k, i]:
                    frames = STRETCHES[int(self.stretch[k, i])]
                    line["hold"] = float(self.hold_share[k, i])
                    line["hold_ms"] = round(frames * 1000.0 / RATE)
                if len(line) > 2:
                    found.append(line)
        return found


def _holds(taps: int) -> tuple[Tensor, NDArray[np.bool_]]:
    """Weights (stretches, 8, numbers) of the holds, and which parameters (8,) have one."""
    rows = [[slow_hold(name, stretch, taps) for name in PARAMETERS] for stretch in range(len(STRETCHES))]
    has = np.array([row is not None for row in rows[0]])
    blank = torch.zeros_like(next(row for row in rows[0] if row is not None))
    return torch.stack([torch.stack([blank if r is None else r for r in row]) for row in rows]), has


def errors_of(case: Case) -> Table:
    """Mean absolute errors (8, 5) of every mixture that is tried, by the indices of linear share, hold share
    and stretch."""
    weights, _ = _holds(case.model.cfg.taps)
    parts: dict[int, tuple[Tensor, ...]] = {}
    for example in case.examples:
        recent = recent_of(case.model, example)
        params = torch.from_numpy(run_model(case.model, example).params)
        parts[id(example)] = (
            torch.logit(params.clamp(1e-6, 1.0 - 1e-6)),
            case.linear.logits(recent),
            *((recent @ hold.T)[..., None] for hold in weights),
        )
    found = {}
    for a, share in enumerate(LINEAR_SHARES):
        for b, held in enumerate(HOLD_SHARES):
            for stretch in range(len(STRETCHES) if b else 1):

                def mixed(
                    e: Example, a: float = share, b: float = held, s: int = stretch
                ) -> NDArray[np.float32]:
                    model, linear, *holds = parts[id(e)]
                    logits = (1.0 - b) * ((1.0 - a) * model + a * linear) + b * holds[s]
                    params: NDArray[np.float32] = torch.sigmoid(logits).numpy()
                    return params

                found[a, b, stretch] = measure(case.examples, mixed).mean()
    return found


def choose(cases: Sequence[Case], tables: Sequence[Table]) -> Choice:
    """The mixture with the least error on people left out, for every parameter at every horizon by itself.

    Errors are taken as shares of what the case's model has unmixed; a case counts by its subjects.

    Args:
        cases: at least one.
        tables: :func:`errors_of` each.
    """
    _, has = _holds(cases[0].model.cfg.taps)
    keys = list(tables[0])
    total = np.zeros((len(keys), *CELLS))
    for case, table in zip(cases, tables, strict=True):
        plain = np.maximum(table[UNMIXED], 1e-9)
        total += len({e.subject for e in case.examples}) * np.stack([table[key] / plain for key in keys])
    held = np.array([key[1] > 0 for key in keys])
    total[np.ix_(held, ~has)] = np.inf
    best = total.argmin(axis=0)
    a, b, stretch = (np.array([key[n] for key in keys])[best] for n in range(3))
    return Choice(np.array(LINEAR_SHARES)[a], np.array(HOLD_SHARES)[b], stretch.astype(np.int64))


def chosen_errors(table: Table, choice: Choice) -> Array:
    """The errors (8, 5) of a choice, out of the table of all mixtures."""
    found = np.zeros(CELLS)
    for cell in np.ndindex(*CELLS):
        a = LINEAR_SHARES.index(float(choice.linear_share[cell]))
        b = HOLD_SHARES.index(float(choice.hold_share[cell]))
        found[cell] = table[a, b, int(choice.stretch[cell]) if b else 0][cell]
    return found


def judged_choices(cases: Sequence[Case], tables: Sequence[Table], choice: Choice) -> list[dict[str, Any]]:
    """What a choice does to each case, by horizon: mean absolute errors before and after, the mean over the
    parameters of after / before, and the same with shares that were chosen on the other cases alone."""
    found = []
    for n, (case, table) in enumerate(zip(cases, tables, strict=True)):
        before, after = table[UNMIXED], chosen_errors(table, choice)
        line = {
            "subjects": sorted({example.subject for example in case.examples}),
            "before": before.mean(axis=0).round(5).tolist(),
            "after": after.mean(axis=0).round(5).tolist(),
            "ratio": (after / before).mean(axis=0).round(4).tolist(),
        }
        if len(cases) > 1:
            rest = [m for m in range(len(cases)) if m != n]
            crossed = choose([cases[m] for m in rest], [tables[m] for m in rest])
            ratio = (chosen_errors(table, crossed) / before).mean(axis=0)
            line["ratio_chosen_on_others"] = ratio.round(4).tolist()
        found.append(line)
    return found


def apply(model: MotionTransformer, linear: LinearForecast, choice: Choice) -> None:
    """Put a mixture into the weights of the control head, in place."""
    control = model.control
    for k, name in enumerate(PARAMETERS):
        for i in range(len(HORIZONS)):
            row, share = k * len(HORIZONS) + i, float(choice.linear_share[k, i])
            draw_towards(model, row, share, linear.weight[row])
            with torch.no_grad():
                control.last.bias[row] += share * linear.bias[row]
            if choice.hold_share[k, i]:
                hold = slow_hold(name, int(choice.stretch[k, i]), model.cfg.taps)
                assert hold is not None
                draw_towards(model, row, float(choice.hold_share[k, i]), hold)


def _read(folder: Path) -> tuple[MotionTransformer, dict[str, Any]]:
    model, training = load_motion_model(folder), dict(read_manifest(folder).training)
    if NOTE in training:
        raise OptionError(f"{folder}: was blended already; give the checkpoint that it was made from")
    take_back(model, training.get("slow_hold", ()))
    return model.eval(), training


def blend(
    data: Path,
    checkpoint: Path,
    out: Path,
    folds: Sequence[tuple[Path, Sequence[str]]] = (),
    *,
    cache: Path | None = None,
) -> dict[str, Any]:
    """Blend a checkpoint and write it anew.

    Args:
        data: a set or a folder of takes, as in training.
        checkpoint: of a run; what its own shrinking did is taken back first.
        out: folder of the new checkpoint.
        folds: checkpoints of other runs, and the training subjects that each was made without.
        cache: folder of sets that are built on the way; the user's cache folder by default.

    Returns:
        What was mixed in, and the errors before and after.

    Raises:
        CheckpointError: no motion model in a folder.
        OptionError: one that was blended already, or reads no measures; a subject who is no training subject.
        FormatError: no motion in ``data``.
    """
    torch.set_num_threads(1)  # the same figures everywhere
    model, training = _read(checkpoint)
    others = [(_read(folder)[0], subjects) for folder, subjects in folds]
    given = {"path": data, "cache": "" if cache is None else cache}
    takes = base_set(MotionTrainOptions().but(data=given))
    long = {s: [n for n in takes.indices(s) if takes.clips[n].frames >= SHORTEST] for s in SIDES}
    examples = {side: [takes.example(n) for n in long[side]] for side in SIDES}
    linear = fit_forecast(model, examples["train"])
    cases = [Case(model, linear, examples["validation"])]
    for other, subjects in others:
        takes.training(subjects)  # refuses who is not there
        kept = [e for e in examples["train"] if e.subject not in subjects]
        left = [e for e in examples["train"] if e.subject in subjects]
        cases.append(Case(other, fit_forecast(other, kept), left))
    tables = [errors_of(case) for case in cases]
    choice = choose(cases, tables)
    chosen_on = judged_choices(cases, tables, choice)
    apply(model, linear, choice)
    distance = distil(model, load_motion_model(checkpoint).eval(), takes, long["train"])
    report = {
        "mixed": choice.described(),
        "poor_suits_distance": round(distance, 5),
        "chosen_on": chosen_on,
    }
    for taken_back in ("slow_hold", "validation_shrunk"):
        training.pop(taken_back, None)
    save_checkpoint(out, model, training={**training, NOTE: report})
    return report


def parse(text: str) -> tuple[Path, tuple[str, ...]]:
    """A checkpoint and the training subjects that it was made without, of ``CHECKPOINT=SUBJECTS``.

    Raises:
        OptionError: anything else.
    """
    folder, _, names = text.partition("=")
    subjects = tuple(filter(None, names.split(",")))
    if not folder or not subjects:
        raise OptionError(f"--fold: expected CHECKPOINT=SUBJECTS, given {text!r}")
    return Path(folder), subjects


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a set, or a folder of takes")
    parser.add_argument("--checkpoint", type=Path, required=True, help="what is blended")
    parser.add_argument(
        "--fold",
        action="append",
        default=[],
        metavar="CHECKPOINT=SUBJECTS",
        help="a checkpoint made without these training subjects (comma-separated); may be given again",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the new checkpoint")
    given = parser.parse_args(arguments)
    try:
        report = blend(given.data, given.checkpoint, given.out, [parse(fold) for fold in given.fold])
    except MotionError as error:
        print(f"blend: {error}", file=sys.stderr)
        return 1
    for case in report["chosen_on"]:
        print(f"subjects {', '.join(case['subjects'])}, at 0, 40, 100, 200, 400 ms:")
        for name in ("before", "after", "ratio", "ratio_chosen_on_others"):
            print(f"  {name}: {case.get(name, '-')}")
    print(f"wrote {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
