"""``pyanticip evaluate ghost``: errors of the monitor's forecast body, beside simple baselines and ridge."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyanticip.errors import CheckpointError, FormatError, counted
from pyanticip.models.forecast.forecaster import load_forecaster
from pyanticip.models.forecast.manifest import GHOST, read_forecast_manifest
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE
from training.evaluate.takes import KINDS, Takes
from training.report.tables import table
from training.tasks.ghost import LENGTH, OBSERVED, STRIDE, TARGET, Windows, all_windows
from training.tasks.motion.people import training_overlap_warnings

AHEAD_MS: Final = (120, 200, 400)
_AT: Final = [round(ms * RATE / 1000.0 / STRIDE) - 1 for ms in AHEAD_MS]
FADE_S: Final = 0.15
"""Time constant of the decaying extrapolation, which the monitor drew before there was a forecaster."""
PENALTIES: Final = (1e-4, 1e-3, 1e-2, 1e-1)
"""Penalties of the ridge, relative to the mean square of its inputs; the best is chosen in hindsight."""
_RIDGE_WINDOWS: Final = 40_000
"""Windows that the ridge is fitted on."""
_STEP_S: Final = STRIDE / RATE

Forecast = Callable[[Tensor], Tensor]
"""Maps observed frames (N, 10, 22, 3) to the following ones (N, 10, 22, 3)."""


def hold(observed: Tensor) -> Tensor:
    """Repeat the last pose."""
    return observed[:, -1:].expand(-1, TARGET, -1, -1)


def constant_velocity(observed: Tensor) -> Tensor:
    """Extrapolate every joint with its velocity over the last 80 ms."""
    times = torch.arange(1, TARGET + 1)[None, :, None, None]
    return observed[:, -1:] + 0.5 * (observed[:, -1:] - observed[:, -3:-2]) * times


def decaying_velocity(observed: Tensor) -> Tensor:
    """Extrapolate with a velocity that decays exponentially."""
    times = _STEP_S * torch.arange(1, TARGET + 1)[None, :, None, None]
    speed = (observed[:, -1:] - observed[:, -3:-2]) / (2.0 * _STEP_S)
    return observed[:, -1:] + speed * FADE_S * (1.0 - torch.exp(-times / FADE_S))


class Ridge:
    """Ridge regression from the last pose and the preceding displacements of every joint."""

    def __init__(self, windows: Tensor, penalty: float) -> None:
        x, y = self._inputs(windows[:, :OBSERVED]), self._displacements(windows)
        square = x.T @ x
        square += penalty * square.trace() / len(square) * torch.eye(len(square), dtype=x.dtype)
        self._weights = torch.linalg.solve(square, x.T @ y)

    def __call__(self, observed: Tensor) -> Tensor:
        """See :data:`Forecast`."""
        moves = (
            (self._inputs(observed) @ self._weights).float().view(len(observed), TARGET, *observed.shape[2:])
        )
        result: Tensor = observed[:, -1:] + moves
        return result

    @staticmethod
    def _inputs(observed: Tensor) -> Tensor:
        features = torch.cat((observed[:, -1:], observed[:, 1:] - observed[:, :-1]), 1).flatten(1).double()
        return torch.cat((features, torch.ones(len(features), 1, dtype=features.dtype)), 1)

    @staticmethod
    def _displacements(windows: Tensor) -> Tensor:
        return (windows[:, OBSERVED:] - windows[:, OBSERVED - 1 : OBSERVED]).flatten(1).double()


def errors(samples: Sequence[tuple[str, Tensor]], forecast: Forecast) -> NDArray[np.float64]:
    """Mean joint error in cm at each of :data:`AHEAD_MS`: over frames within a person, then over people.

    Args:
        samples: person, and windows (N, 20, 22, 3), of each clip.
        forecast: the forecast to evaluate.
    """
    people: dict[str, list[Tensor]] = {}
    for person, windows in samples:
        with torch.inference_mode():
            distance = (forecast(windows[:, :OBSERVED]) - windows[:, OBSERVED:])[:, _AT].norm(dim=-1).mean(-1)
        people.setdefault(person, []).append(distance)
    means = [torch.cat(distances).mean(0).numpy() for distances in people.values()]
    return np.asarray(100.0 * np.mean(means, axis=0), dtype=np.float64)


def evaluate(
    data: Path, split: str, checkpoint: Path | None = None, cache: Path | None = None
) -> dict[str, Any]:
    """Compute the errors in cm by kind of movement and system.

    Args:
        data: a set, or a folder of takes.
        split: the split to evaluate.
        checkpoint: checkpoint of a forecaster; the packaged one by default.
        cache: cache folder for sets.

    Raises:
        FormatError: there is no motion, or no clip of the split is long enough.
        OptionError: no training clip is long enough.
        CheckpointError: not a readable forecaster of the canonical body.
    """
    folder = GHOST if checkpoint is None else checkpoint
    model = load_forecaster(folder)
    actual = (model.cfg.observed, model.cfg.target, model.cfg.joints)
    expected = (OBSERVED, TARGET, len(CANONICAL_JOINTS))
    if actual != expected:
        raise CheckpointError(
            "checkpoint {}: forecasts from {} frames the next {} of {} joints, expected {}, {} and {}: "
            "one of train ghost".format(folder, *actual, *expected)
        )
    takes = Takes(data, cache)
    held_out, training = takes.held_out_clips(split), takes.training_clips()
    windows = Windows([clip.piece for clip in training], [clip.person for clip in training], 0).batch(
        _RIDGE_WINDOWS
    )
    ridges = [Ridge(windows, penalty) for penalty in PENALTIES]
    report: dict[str, Any] = {"split": split, "ahead_ms": list(AHEAD_MS), "clips": 0, "kinds": {}}
    judged: set[str] = set()
    for kind in KINDS:
        samples = [(clip.person, all_windows(clip.piece)) for clip in held_out if clip.kind == kind]
        samples = [(person, windows) for person, windows in samples if len(windows)]
        if not samples:
            continue
        report["clips"] += len(samples)
        judged.update(person for person, _ in samples)
        rows = {
            "stands still": errors(samples, hold),
            "constant velocity": errors(samples, constant_velocity),
        }
        rows["carried on"] = errors(samples, decaying_velocity)
        rows["ridge"] = np.min([errors(samples, ridge) for ridge in ridges], axis=0)
        rows["ghost"] = errors(samples, model.predict)
        report["kinds"][kind] = {name: row.round(2).tolist() for name, row in rows.items()}
    if not report["kinds"]:
        frames = STRIDE * (LENGTH - 1) + 1
        raise FormatError(
            f"{data}: no {split} clip is as long as {frames} frames ({frames / RATE:g} s), which a forecast "
            "and its judgement take"
        )
    report["people"] = sorted(judged)
    known = training_overlap_warnings(read_forecast_manifest(folder).training, report["people"])
    report["warnings"] = [*takes.warnings, *known]
    return report


def markdown(report: dict[str, Any]) -> str:
    """The report as a Markdown table."""
    systems = list(next(iter(report["kinds"].values())))
    rows = [
        [kind, *(" ".join(f"{cm:.1f}" for cm in row[name]) for name in systems)]
        for kind, row in report["kinds"].items()
    ]
    ahead = ", ".join(str(ms) for ms in report["ahead_ms"])
    about = f"Side: {report['split']}. People: {', '.join(report['people'])}. "
    about += f"{counted(report['clips'], 'clip')}.\n\n"
    about += "".join(f"Warning: {line}.\n\n" for line in report["warnings"])
    return about + table((f"cm, {ahead} ms ahead", *systems), rows)
