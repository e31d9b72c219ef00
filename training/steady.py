"""Steadying a trained model: what it says is mixed with what the body's measures say by themselves.

A trunk that has learned from a few people is too sure of its corrections where it meets another one. Two
plain forecasts are not: a *filter*, linear in the measures of the last half second and fitted without the
trunk, and a *slow hold* (:mod:`training.shrink`). Each parameter's logit at each horizon becomes

    (1 - b) ((1 - a) what the model says + a what the filter says) + b what the hold says.

All three are linear in what the last layer of the control head reads, so the mixture is that layer with other
weights: nothing is added to the model, and it costs no time. Where the suit is poor the mixture is taken
back (:mod:`training.steady_suits`).

``a``, ``b`` and the hold's stretch are chosen, for every parameter at every horizon, on people whom the model
has not learned from: the validation subjects, and those that were left out of another training with the same
options, so that the choice rests on more people.

    python -m training.steady --data ../shared/data --checkpoint runs/second/checkpoint \\
        --fold runs/without=05,16 --out runs/steady
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.errors import MotionError, OptionError
from pyanticip.models import MotionTransformer, load_motion_model, save_checkpoint
from pyanticip.models.config import HORIZONS_MS
from pyanticip.models.motion.smoothed import STRETCHES
from training.data.batches import HORIZONS, TARGET_EDGE
from training.data.examples import SHORTEST, Example, Split
from training.shrink import draw_towards, slow_hold
from training.steady_suits import give_back
from training.tasks.motion.data import base_set
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.scores import measure, run_model
from training.teacher.descriptors import PARAMETERS
from training.teacher.filters import RATE

Array = NDArray[np.float64]
Table = dict[tuple[int, int, int], Array]

FILTER_SHARES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
HOLD_SHARES: Final = (0.0, 0.1, 0.2, 0.3)
UNMIXED: Final = (0, 0, 0)
CELLS: Final = (len(PARAMETERS), len(HORIZONS))

SIDES: Final[tuple[Split, ...]] = ("train", "validation")
STEPS: Final = 2000
FRAMES: Final = 4096
RATE_OF_LEARNING: Final = 3e-3
RIDGE: Final = 1e-3
"""Share of the inputs' power added to it for the start, so that the weights stay small."""


@dataclass(frozen=True)
class Filter:
    """A forecast that is linear in what the control head reads of the last frames."""

    weight: torch.Tensor
    """(40, numbers): of the logit of every parameter at every horizon."""
    bias: torch.Tensor
    """(40,)."""

    def logits(self, recent: torch.Tensor) -> torch.Tensor:
        """(T, 8, 5) of the numbers of the last frames (T, numbers)."""
        return (recent @ self.weight.T + self.bias).view(-1, *CELLS)


@dataclass(frozen=True)
class Case:
    """A model with a filter, both made without the subjects of ``examples``."""

    model: MotionTransformer
    filter: Filter
    examples: Sequence[Example]


@dataclass(frozen=True)
class Choice:
    """Arrays (8, 5)."""

    filter_share: Array
    hold_share: Array
    stretch: NDArray[np.int64]
    """Index into :data:`pyanticip.models.motion.smoothed.STRETCHES`."""

    def described(self) -> list[dict[str, Any]]:
        """What is mixed in, by parameter and horizon; what stays as it is, is left out."""
        found = []
        for k, name in enumerate(PARAMETERS):
            for i, ms in enumerate(HORIZONS_MS):
                line: dict[str, Any] = {"parameter": name, "horizon_ms": ms}
                if self.filter_share[k, i]:
                    line["filter"] = float(self.filter_share[k, i])
                if self.hold_share[k, i]:
                    frames = STRETCHES[int(self.stretch[k, i])]
                    line |= {
                        "hold": float(self.hold_share[k, i]),
                        "hold_ms": round(frames * 1000.0 / RATE),
                    }
                if len(line) > 2:
                    found.append(line)
        return found


def recent_of(model: MotionTransformer, example: Example) -> torch.Tensor:
    """What the control head reads of the last frames, (T, numbers), in every frame of a clip.

    Raises:
        OptionError: a model without kinematics, whose head reads nothing.
    """
    with torch.no_grad():
        _, _, recent = model.embed(torch.from_numpy(np.array(example.features))[None], None)
    if recent is None:
        raise OptionError("steadying needs a model with kinematics: the control head reads no measures")
    return recent[0]


def fit_filter(
    model: MotionTransformer, examples: Sequence[Example], *, steps: int = STEPS, seed: int = 0
) -> Filter:
    """The filter with the least absolute error on clips.

    Subjects count by the root of their frames, as in training; each parameter at each horizon is fitted by
    itself. Starts from the ridge regression of the logits.

    Args:
        model: for the measures; its weights do not matter.
        examples: of training subjects.
        steps: of Adam, each on 4,096 frames.
        seed: which frames.
    """
    frames: dict[str, int] = {}
    for example in examples:
        frames[example.subject] = frames.get(example.subject, 0) + len(example)
    inputs, targets, counts = [], [], []
    for example in examples:
        now = np.arange(len(example))
        ahead = now[:, None] + np.array(HORIZONS)
        inside = (ahead >= TARGET_EDGE) & (ahead < len(example) - TARGET_EDGE)
        # Before that the measures' own frames are padding.
        inside &= (now >= model.cfg.taps - 1)[:, None]
        said = np.asarray(example.params)[np.minimum(ahead, len(example) - 1)]
        inputs.append(recent_of(model, example))
        targets.append(torch.from_numpy(said.transpose(0, 2, 1).copy()))
        counts.append(torch.from_numpy(inside / np.sqrt(frames[example.subject])).float())
    x, y, count = torch.cat(inputs), torch.cat(targets), torch.cat(counts)
    mean, std = x.mean(0), x.std(0) + 1e-4
    x = torch.cat(((x - mean) / std, torch.ones(len(x), 1)), 1)
    known = count.mean(1, keepdim=True)
    power = x.T @ (x * known)
    power += RIDGE * power.diagonal().mean() * torch.eye(len(power))
    logits = torch.logit(y.clamp(0.01, 0.99)).flatten(1)
    found = torch.nn.Parameter(torch.linalg.solve(power, x.T @ (logits * known)))
    optimizer = torch.optim.Adam([found], lr=RATE_OF_LEARNING)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = RATE_OF_LEARNING * (1.0 - step / steps) + 1e-5
        rows = torch.randint(0, len(x), (FRAMES,), generator=draw)
        wrong = (torch.sigmoid(x[rows] @ found).view(-1, *CELLS) - y[rows]).abs()
        loss = (wrong * count[rows, None]).sum() / count[rows].sum().clamp(min=1e-9)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    fitted = found.detach()
    weight = (fitted[:-1] / std[:, None]).T.contiguous()
    return Filter(weight, fitted[-1] - weight @ mean)


def undrawn(model: MotionTransformer, slow_hold_done: Sequence[dict[str, Any]]) -> None:
    """Take back, in place, what :func:`training.shrink.shrink` did, as it is written down."""
    control = model.control
    assert control.recent is not None
    for one in slow_hold_done:
        k, i = PARAMETERS.index(one["parameter"]), HORIZONS_MS.index(one["horizon_ms"])
        stretch = STRETCHES.index(round(one["hold_ms"] * RATE / 1000.0))
        hold, row = slow_hold(PARAMETERS[k], stretch, model.cfg.taps), k * len(HORIZONS) + i
        assert hold is not None
        share = float(one["share"])
        with torch.no_grad():
            control.last.weight[row] /= 1.0 - share
            control.last.bias[row] /= 1.0 - share
            control.recent.weight[row] = (control.recent.weight[row] - share * hold) / (1.0 - share)


def _holds(taps: int) -> tuple[torch.Tensor, NDArray[np.bool_]]:
    """Weights (stretches, 8, numbers) of the holds, and which parameters (8,) have one."""
    rows = [[slow_hold(name, stretch, taps) for name in PARAMETERS] for stretch in range(len(STRETCHES))]
    has = np.array([row is not None for row in rows[0]])
    blank = torch.zeros_like(next(row for row in rows[0] if row is not None))
    return torch.stack([torch.stack([blank if r is None else r for r in row]) for row in rows]), has


def errors_of(case: Case) -> Table:
    """Mean absolute errors (8, 5) of every mixture that is tried, by the indices of filter share, hold share
    and stretch."""
    weights, _ = _holds(case.model.cfg.taps)
    parts: dict[int, tuple[torch.Tensor, ...]] = {}
    for example in case.examples:
        recent = recent_of(case.model, example)
        said = torch.from_numpy(run_model(case.model, example).params)
        parts[id(example)] = (
            torch.logit(said.clamp(1e-6, 1.0 - 1e-6)),
            case.filter.logits(recent),
            *((recent @ hold.T)[..., None] for hold in weights),
        )
    found = {}
    for a, share in enumerate(FILTER_SHARES):
        for b, held in enumerate(HOLD_SHARES):
            for stretch in range(len(STRETCHES) if b else 1):

                def mixed(
                    e: Example, a: float = share, b: float = held, s: int = stretch
                ) -> NDArray[np.float32]:
                    model, plain, *holds = parts[id(e)]
                    logits = (1.0 - b) * ((1.0 - a) * model + a * plain) + b * holds[s]
                    said: NDArray[np.float32] = torch.sigmoid(logits).numpy()
                    return said

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
    return Choice(np.array(FILTER_SHARES)[a], np.array(HOLD_SHARES)[b], stretch.astype(np.int64))


def chosen_errors(table: Table, choice: Choice) -> Array:
    """The errors (8, 5) of a choice, out of the table of all mixtures."""
    found = np.zeros(CELLS)
    for cell in np.ndindex(*CELLS):
        a = FILTER_SHARES.index(float(choice.filter_share[cell]))
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
            line["ratio_chosen_on_others"] = (
                (chosen_errors(table, crossed) / before).mean(axis=0).round(4).tolist()
            )
        found.append(line)
    return found


def apply(model: MotionTransformer, plain: Filter, choice: Choice) -> None:
    """Put a mixture into the weights of the control head, in place."""
    control = model.control
    assert control.recent is not None
    for k, name in enumerate(PARAMETERS):
        for i in range(len(HORIZONS)):
            row, share = k * len(HORIZONS) + i, float(choice.filter_share[k, i])
            draw_towards(model, row, share, plain.weight[row])
            with torch.no_grad():
                control.last.bias[row] += share * plain.bias[row]
            if choice.hold_share[k, i]:
                hold = slow_hold(name, int(choice.stretch[k, i]), model.cfg.taps)
                assert hold is not None
                draw_towards(model, row, float(choice.hold_share[k, i]), hold)


def _read(folder: Path) -> tuple[MotionTransformer, dict[str, Any]]:
    model = load_motion_model(folder)
    training = json.loads((folder / "model.json").read_text(encoding="utf-8"))["training"]
    if "steadied" in training:
        raise OptionError(f"{folder}: was steadied already; give the checkpoint that it was made from")
    undrawn(model, training.get("slow_hold", ()))
    return model.eval(), training


def steady(
    data: Path, checkpoint: Path, out: Path, folds: Sequence[tuple[Path, Sequence[str]]] = ()
) -> dict[str, Any]:
    """Steady a checkpoint and write it anew.

    Args:
        data: a set or a folder of takes, as in training.
        checkpoint: of a run; what its own shrinking did is taken back first.
        out: folder of the new checkpoint.
        folds: checkpoints of other runs, and the training subjects that each was made without.

    Returns:
        What was mixed in, and the errors before and after.
    """
    model, training = _read(checkpoint)
    others = [(_read(folder)[0], subjects) for folder, subjects in folds]
    takes = base_set(MotionTrainOptions().but(data={"path": str(data)}))
    long = {s: [n for n in takes.indices(s) if takes.clips[n].frames >= SHORTEST] for s in SIDES}
    examples = {side: [takes.example(n) for n in long[side]] for side in SIDES}
    fitted = fit_filter(model, examples["train"])
    cases = [Case(model, fitted, examples["validation"])]
    for other, subjects in others:
        kept = [e for e in examples["train"] if e.subject not in subjects]
        left = [e for e in examples["train"] if e.subject in subjects]
        if not left:
            raise OptionError(f"{data}: no training motion of subject {', '.join(subjects)}")
        cases.append(Case(other, fit_filter(other, kept), left))
    tables = [errors_of(case) for case in cases]
    choice = choose(cases, tables)
    chosen_on = judged_choices(cases, tables, choice)
    apply(model, fitted, choice)
    distance = give_back(model, load_motion_model(checkpoint).eval(), takes, long["train"])
    report = {
        "mixed": choice.described(),
        "poor_suits_distance": round(distance, 5),
        "chosen_on": chosen_on,
    }
    training = {
        key: value for key, value in training.items() if key not in ("slow_hold", "validation_shrunk")
    }
    save_checkpoint(out, model, training={**training, "steadied": report})
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a set, or a folder of takes")
    parser.add_argument("--checkpoint", type=Path, required=True, help="what is steadied")
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
        folds = []
        for fold in given.fold:
            folder, equals, names = fold.partition("=")
            if not equals or not names:
                raise OptionError(f"--fold: expected CHECKPOINT=SUBJECTS, given {fold!r}")
            folds.append((Path(folder), tuple(names.split(","))))
        report = steady(given.data, given.checkpoint, given.out, folds)
    except MotionError as error:
        print(f"steady: {error}", file=sys.stderr)
        return 1
    for case in report["chosen_on"]:
        print(f"subjects {', '.join(case['subjects'])}, at 0, 40, 100, 200, 400 ms:")
        for name in ("before", "after", "ratio", "ratio_chosen_on_others"):
            print(f"  {name}: {case.get(name, '-')}")
    print(f"wrote {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
