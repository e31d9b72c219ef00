"""Is the monitor's ghost where the body will be? Errors beside simple rivals, one of which learns."""

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
from training.tasks.ghost.windows import LENGTH, OBSERVED, STRIDE, TARGET, Windows, every
from training.tasks.motion.people import not_strangers

AHEAD_MS: Final = (120, 200, 400)
_AT: Final = [round(ms * RATE / 1000.0 / STRIDE) - 1 for ms in AHEAD_MS]
FADE_S: Final = 0.15
"""With which a speed that is carried on dies away: what the monitor drew before there was a forecaster."""
PENALTIES: Final = (1e-4, 1e-3, 1e-2, 1e-1)
"""Of the ridge, over the mean square of its inputs; the best for each kind and time, in hindsight."""
_LEARNED: Final = 40_000
_STEP_S: Final = STRIDE / RATE

Forecast = Callable[[Tensor], Tensor]
"""Windows observed (N, 10, 22, 3) to what follows (N, 10, 22, 3)."""


def hold(seen: Tensor) -> Tensor:
    """The last pose stays."""
    return seen[:, -1:].expand(-1, TARGET, -1, -1)


def constant_velocity(seen: Tensor) -> Tensor:
    """Every joint goes on as it went in the last 80 ms."""
    times = torch.arange(1, TARGET + 1)[None, :, None, None]
    return seen[:, -1:] + 0.5 * (seen[:, -1:] - seen[:, -3:-2]) * times


def carried_on(seen: Tensor) -> Tensor:
    """The same, and its speed dies away."""
    times = _STEP_S * torch.arange(1, TARGET + 1)[None, :, None, None]
    speed = (seen[:, -1:] - seen[:, -3:-2]) / (2.0 * _STEP_S)
    return seen[:, -1:] + speed * FADE_S * (1.0 - torch.exp(-times / FADE_S))


class Ridge:
    """From the last pose and how every joint came there, by least squares."""

    def __init__(self, windows: Tensor, penalty: float) -> None:
        x, y = self._inputs(windows[:, :OBSERVED]), self._moves(windows)
        square = x.T @ x
        square += penalty * square.trace() / len(square) * torch.eye(len(square), dtype=x.dtype)
        self._weights = torch.linalg.solve(square, x.T @ y)

    def __call__(self, seen: Tensor) -> Tensor:
        """See :data:`Forecast`."""
        moves = (self._inputs(seen) @ self._weights).float().view(len(seen), TARGET, *seen.shape[2:])
        result: Tensor = seen[:, -1:] + moves
        return result

    @staticmethod
    def _inputs(seen: Tensor) -> Tensor:
        apart = torch.cat((seen[:, -1:], seen[:, 1:] - seen[:, :-1]), 1).flatten(1).double()
        return torch.cat((apart, torch.ones(len(apart), 1, dtype=apart.dtype)), 1)

    @staticmethod
    def _moves(windows: Tensor) -> Tensor:
        return (windows[:, OBSERVED:] - windows[:, OBSERVED - 1 : OBSERVED]).flatten(1).double()


def errors(shown: Sequence[tuple[str, Tensor]], forecast: Forecast) -> NDArray[np.float64]:
    """Mean distance of a joint from where it was to be, cm, at :data:`AHEAD_MS`: over frames within a person,
    then over people. ``shown``: windows (N, 20, 22, 3), and whose they are."""
    people: dict[str, list[Tensor]] = {}
    for person, windows in shown:
        with torch.inference_mode():
            apart = (forecast(windows[:, :OBSERVED]) - windows[:, OBSERVED:])[:, _AT].norm(dim=-1).mean(-1)
        people.setdefault(person, []).append(apart)
    means = [torch.cat(found).mean(0).numpy() for found in people.values()]
    return np.asarray(100.0 * np.mean(means, axis=0), dtype=np.float64)


def evaluate(
    data: Path, split: str, checkpoint: Path | None = None, cache: Path | None = None
) -> dict[str, Any]:
    """Errors in cm by kind of movement and system.

    Args:
        data: a set, or a folder of takes.
        split: the side whose people are judged.
        checkpoint: of a forecaster; the one that comes with the package by default.
        cache: folder of sets that are made on the way.

    Raises:
        FormatError: no motion, or no clip on that side that is long enough.
        OptionError: none to learn from that is.
        CheckpointError: no forecaster, one of other bodies, or one that cannot be read.
    """
    folder = GHOST if checkpoint is None else checkpoint
    model = load_forecaster(folder)
    said = (model.cfg.observed, model.cfg.target, model.cfg.joints)
    wanted = (OBSERVED, TARGET, len(CANONICAL_JOINTS))
    if said != wanted:
        raise CheckpointError(
            "checkpoint {}: forecasts from {} frames the next {} of {} joints, expected {}, {} and {}: "
            "one of train ghost".format(folder, *said, *wanted)
        )
    takes = Takes(data, cache)
    strangers, taught = takes.strangers(split), takes.training_clips()
    drawn = Windows([clip.piece for clip in taught], [clip.person for clip in taught], 0).batch(_LEARNED)
    ridges = [Ridge(drawn, penalty) for penalty in PENALTIES]
    found: dict[str, Any] = {"split": split, "ahead_ms": list(AHEAD_MS), "clips": 0, "kinds": {}}
    for kind in KINDS:
        shown = [(clip.person, every(clip.piece)) for clip in strangers if clip.kind == kind]
        shown = [(person, windows) for person, windows in shown if len(windows)]
        if not shown:
            continue
        found["clips"] += len(shown)
        rows = {"stands still": errors(shown, hold), "constant velocity": errors(shown, constant_velocity)}
        rows["carried on"] = errors(shown, carried_on)
        rows["ridge"] = np.min([errors(shown, ridge) for ridge in ridges], axis=0)
        rows["ghost"] = errors(shown, model.predict)
        found["kinds"][kind] = {name: row.round(2).tolist() for name, row in rows.items()}
    if not found["kinds"]:
        frames = STRIDE * (LENGTH - 1) + 1
        raise FormatError(
            f"{data}: no {split} clip is as long as {frames} frames ({frames / RATE:g} s), which a forecast "
            "and its judgement take"
        )
    found["people"] = sorted({clip.person for clip in strangers})
    known = not_strangers(read_forecast_manifest(folder).training, found["people"])
    found["warnings"] = [*takes.warnings, *known]
    return found


def markdown(report: dict[str, Any]) -> str:
    """The report as a table."""
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
