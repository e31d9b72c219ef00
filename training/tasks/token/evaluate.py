"""``pyanticip evaluate language``: runs of token models on held-out data."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pyanticip.bridge import bridge_scalars
from pyanticip.errors import OptionError
from pyanticip.models import AnticipatoryTransformer
from training.run.recorder import read_metrics
from training.tasks.token.gate import commitment_report, gate_report, shuffled_loss, shuffling_report
from training.tasks.token.listen import HeldOut, ScalarsOf, by_context, drift, predict
from training.tasks.token.metrics import (
    CONTEXTS,
    Predictions,
    heads,
    perplexity,
    scalar_errors,
)
from training.tasks.token.module import new_model
from training.tasks.token.options import LanguageOptions
from training.tasks.token.report import MODES, Sheet, summarise
from training.tasks.token.task import load_run, open_run
from training.tasks.token.windows import Prepared

MEAN_WINDOWS: Final = 1024
"""Maximum number of training windows for the mean scalars of each position."""

Which = Literal["best", "last"]


def bridge(model: nn.Module, neighbours: int = 8) -> ScalarsOf:
    """Return a function that computes the scalars of a model's token embeddings, as in training.

    For a baseline the function returns None.
    """

    def scalars_of(ids: Tensor) -> Tensor | None:
        if not isinstance(model, AnticipatoryTransformer):
            return None
        with torch.no_grad():
            return bridge_scalars(model.embed(ids), k=neighbours).to(ids.device, torch.float32)

    return scalars_of


def held_out(run: Prepared, model: nn.Module, sequences: int, neighbours: int = 8) -> HeldOut:
    """Evenly spaced held-out windows of a run, and the mean training scalars at each position.

    The windows were not used by validations, as these select the weights; if a text has too few of them, any
    windows are used. The unpredictable random tokens at the end of synthetic sequences count as well.
    """
    train, (windows, fresh) = run.data.train, run.unvalidated(sequences)
    ids, mean = torch.from_numpy(windows), None
    if isinstance(model, AnticipatoryTransformer):
        inputs = torch.from_numpy(train.take(train.spread(MEAN_WINDOWS)))[:, :-1]
        scalars = bridge(model, neighbours)(inputs)
        assert scalars is not None
        mean = scalars.double().numpy().mean(0)
    return HeldOut(ids, np.ones((len(ids), ids.shape[1] - 1), dtype=bool), mean, fresh)


def curves_of(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Columns of a run's metrics; NaN where a row has no value."""
    rows = read_metrics(folder)
    names = sorted({name for row in rows for name in row})
    return {n: np.array([row.get(n, math.nan) for row in rows], dtype=np.float64) for n in names}


def _settings(options: LanguageOptions) -> dict[str, Any]:
    """The options of a run, without its seed, its model and how it was computed; files by name."""
    tables = ("data.", "loss.", "schedule.")
    settings = {name: value for name, value in options.flat().items() if name.startswith(tables)}
    settings |= {name: Path(settings[name]).name for name in ("data.path", "data.valid")}
    del settings["schedule.seed"]
    return {**settings, "run.precision": options.run.precision}


def judge(
    folder: Path | str,
    *,
    sequences: int = 256,
    steps: int = 5000,
    which: Which = "best",
    seed: int = 0,
) -> Sheet:
    """Evaluate one run.

    Args:
        folder: folder of the run.
        sequences: maximum number of held-out sequences.
        steps: self-predicted steps of the drift measurement; 0: none.
        which: the weights that were best on the validation data, or the last ones.
        seed: seed of resampling and shuffling.

    Raises:
        CheckpointError: there is no run, or it has no weights.
    """
    run = open_run(folder)
    model, _, options = load_run(folder, which)
    held = held_out(run, model, sequences, options.loss.neighbours)
    length = held.ids.shape[1] - 1
    usable_contexts = [c for c in CONTEXTS if c <= length]
    report: dict[str, Any] = {
        "run": Path(folder).name,
        "kind": options.kind,
        "seed": options.schedule.seed,
        "steps": options.schedule.steps,
        "data": Path(options.data.path).name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "model": model.cfg.to_dict(),
        "options": _settings(options),
        "held_out": {
            "sequences": len(held.ids),
            "tokens": int(held.mask.sum()),
            "length": length,
            "chose_weights": which == "best" and not held.fresh,
        },
    }
    curves = curves_of(Path(folder))
    scalars_of = bridge(model, options.loss.neighbours)
    if not isinstance(model, AnticipatoryTransformer):
        output = predict(model, held, scalars_of, None)
        report["perplexity"] = {"plain": perplexity(output.loss, output.mask, seed=seed).to_dict()}
        if usable_contexts:
            found = by_context(model, held, scalars_of, None, contexts=usable_contexts)
            report["contexts"] = {"plain": {name: v.to_dict() for name, v in found.items()}}
        return Sheet(report, curves, {"plain": output})
    outputs: dict[str, Predictions] = {name: predict(model, held, scalars_of, name) for name in MODES}
    assert held.mean is not None
    report |= {key: {} for key in ("perplexity", "contexts", "scalars", "commitment_loss", "gate")}
    for name in MODES:
        output = outputs[name]
        assert output.given is not None
        assert output.scalars is not None
        report["perplexity"][name] = perplexity(output.loss, output.mask, seed=seed).to_dict()
        report["scalars"][name] = scalar_errors(
            output.scalars, output.given, output.mask, held.mean, seed=seed
        )
        report["commitment_loss"][name] = commitment_report(output, seed=seed)
        report["gate"][name] = gate_report(output, seed=seed)
        if usable_contexts and name != "refined_prev":
            found = by_context(model, held, scalars_of, name, contexts=usable_contexts)
            report["contexts"][name] = {c: v.to_dict() for c, v in found.items()}
    external = outputs["external"]
    assert external.initial is not None
    assert external.given is not None
    report["scalars"]["initial_head"] = scalar_errors(
        external.initial, external.given, external.mask, held.mean, seed=seed
    )
    report["gate"]["shuffled"] = shuffling_report(
        external, *shuffled_loss(model, held, scalars_of, seed=seed), seed=seed
    )
    before_model = new_model(options, run.vocab)
    assert isinstance(before_model, AnticipatoryTransformer)
    before = predict(before_model, held, bridge(before_model, options.loss.neighbours))
    report["gate"]["step0"] = gate_report(before, seed=seed)
    drift_result = drift(model, held.ids, steps=steps) if steps else None
    if drift_result is not None:
        report["drift"] = drift_result.report()
    amplitude = kernel = None
    if model.trunk.bias is not None:
        weight = model.trunk.bias.first.weight.detach().double().cpu().numpy()
        report["heads"] = heads(weight, model.cfg.heads)
        with torch.no_grad():
            given = torch.from_numpy(external.given[:1]).float()
            amplitude = model.trunk.bias(given)[0].double().numpy()
            kernel = model.trunk.bias.kernel(length).double().numpy()
    return Sheet(report, curves, outputs, before, drift_result, amplitude, kernel, model.cfg.slow_past)


def evaluate(
    folders: Sequence[Path | str],
    *,
    sequences: int = 256,
    steps: int = 5000,
    which: Which = "best",
    seed: int = 0,
) -> tuple[dict[str, Any], list[Sheet]]:
    """Evaluate runs.

    Args:
        folders: folders of the runs.
        sequences: maximum number of held-out sequences of each run.
        steps: self-predicted steps of the drift measurement; 0: none.
        which: the weights that were best on the validation data, or the last ones.
        seed: seed of resampling and shuffling.

    Returns:
        ``runs``, a report of each, and ``summary``, mean and spread over runs that differ only in their seed;
        and what :func:`training.tasks.token.report.write` makes a report with pictures from.

    Raises:
        OptionError: no run is given, or one twice.
        CheckpointError: a folder has no trained run.
    """
    if not folders:
        raise OptionError("evaluate language: name at least one run")
    resolved = [Path(folder).resolve() for folder in folders]
    if len(set(resolved)) < len(resolved):
        raise OptionError("evaluate language: a run is named twice")
    for folder in folders:
        load_run(folder, which)  # a folder without a run is found before minutes are spent on the others
    sheets = [judge(folder, sequences=sequences, steps=steps, which=which, seed=seed) for folder in folders]
    names = [sheet.report["run"] for sheet in sheets]
    if len(set(names)) < len(names):
        for sheet, folder in zip(sheets, resolved, strict=True):
            sheet.report["run"] = f"{folder.parent.name}/{folder.name}"
    reports = [sheet.report for sheet in sheets]
    return {"runs": reports, "summary": summarise(reports)}, sheets
