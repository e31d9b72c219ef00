"""Tunes the settings of the event baselines on the training subjects."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.vocabulary import EVENTS, RATE
from training.data.examples import Example
from training.evaluate.events import LEADS_MS, Announcements, Array, events_of, score_clips, total
from training.evaluate.extrapolator import (
    AHEAD,
    GAPS,
    Extrapolator,
    best_lag,
    fire,
    inputs,
    joint_positions,
    next_by_line,
    next_by_period,
    past_events,
    predicted,
    speed_curve,
)
from training.tasks.motion.baselines import Table, read_tuned, rows_of, table_of, write_tuned

# Values that are tried; pairs are for the two kinds of event.
MOTION_DELAYS_S: Final = (0.02, 0.04)
DELAYS_S: Final = ((0.02, 0.04), (0.15, 0.3))
WINDOWS: Final = (30, 60)
AGREEMENTS: Final = (0.4, 0.6, 0.8)
DEPTHS: Final = ((0.3, 0.2), (0.3, 0.5))
FALLS: Final = ((0.05, 0.1, 0.15, 0.2, 0.3), (0.2, 0.4, 0.7))
FITTED_RISES: Final = ((0.0,), (0.02, 0.06, 0.12, 0.2))
AIMS: Final = (1.0, 2.0, 4.0)
RIDGE: Final = 1e-3
"""Ridge penalty, as a share of the inputs' power."""
TOP: Final = 4
"""Number of best settings of each method that are tried in combination."""

Curves = dict[tuple[float, float], list[Array]]
Periods = dict[int, list[tuple[NDArray[np.int64], Array]]]


@dataclass(frozen=True)
class EventBaselines:
    """Tuned settings: ``extrapolators[kind][lead]`` over ``LEADS_MS``."""

    extrapolators: Table[Extrapolator]

    def save(self, path: Path) -> None:
        """Write as JSON."""
        write_tuned(path, events=EVENTS, leads_ms=LEADS_MS, extrapolators=rows_of(self.extrapolators))

    @classmethod
    def load(cls, path: Path) -> "EventBaselines":
        """Read what :meth:`save` wrote.

        Raises:
            FormatError: the file is invalid, or tuned for another teacher.
        """
        return read_tuned(
            path, "event rivals", lambda content: cls(table_of(_extrapolator_of, content["extrapolators"]))
        )


def tune(examples: Sequence[Example]) -> EventBaselines:
    """Find the settings with the highest F1 over ``examples``."""
    positions = [joint_positions(example.quats) for example in examples]
    extrapolators = []
    for kind in range(len(EVENTS)):
        curves = {
            (delay, motion): [speed_curve(joints, kind, delay, motion) for joints in positions]
            for delay in DELAYS_S[kind]
            for motion in MOTION_DELAYS_S
        }
        leads = [lead_ms * RATE / 1000.0 for lead_ms in LEADS_MS]
        extrapolators.append(tuple(_extrapolator(examples, kind, lead, curves) for lead in leads))
    return EventBaselines(tuple(extrapolators))


def _lateness(examples: Sequence[Example], kind: int, detected: Sequence[Array]) -> float:
    """Median delay of the found frames after the nearest event, frames, of those within half a second."""
    delays = []
    for example, frames in zip(examples, detected, strict=True):
        true = events_of(example, kind)
        if len(true) and len(frames):
            delay = frames[:, None] - true[None, :]
            delays.append(delay[np.arange(len(frames)), np.abs(delay).argmin(axis=1)])
    near = np.concatenate([*delays, np.zeros(0)])
    near = near[np.abs(near) <= RATE / 2.0]
    return float(np.median(near)) if len(near) else 0.0


def _f1(examples: Sequence[Example], announced: Sequence[Announcements], kind: int, lead: float) -> float:
    return total(score_clips(examples, announced, kind, lead)[0]).f1


def _extrapolator(examples: Sequence[Example], kind: int, lead: float, curves: Curves) -> Extrapolator:
    """Tune each method by itself, then combinations of the best few of both on the same curve."""
    gap = GAPS[kind]
    tried: list[tuple[float, Extrapolator]] = []
    for (delay, motion), clips in curves.items():
        detected = [past_events(curve, kind, DEPTHS[kind][0])[0] for curve in clips]
        base = Extrapolator(delay, motion, _lateness(examples, kind, detected))
        periods = {window: [best_lag(curve, window) for curve in clips] for window in WINDOWS}

        weights = fit(clips, kind)
        paths = [predicted(curve, kind, np.array(weights)) for curve in clips] if weights else []

        def by_period(
            one: Extrapolator, clips: list[Array] = clips, periods: Periods = periods
        ) -> list[Array]:
            known = periods[one.window]
            return [
                next_by_period(curve, *lags, one, lead, kind)
                for curve, lags in zip(clips, known, strict=True)
            ]

        def by_line(one: Extrapolator, paths: list[Array] = paths) -> list[Array]:
            # With the widest aim; :func:`fire` applies narrower ones.
            wide = replace(one, aim_frames=AIMS[-1])
            return [next_by_line(path, wide, lead, kind) for path in paths]

        def judge(one: Extrapolator, expected: list[Array]) -> list[tuple[float, Extrapolator]]:
            out = []
            for aim in AIMS:
                announced = [fire(e, lead, aim, gap) for e in expected]
                out.append((_f1(examples, announced, kind, lead), replace(one, aim_frames=aim)))
            return out

        periodic, linear = [], []
        for window, agreement, depth in product(WINDOWS, AGREEMENTS, DEPTHS[kind]):
            one = replace(base, window=window, agreement=agreement, depth=depth)
            periodic += judge(one, by_period(one))
        for fall, rise in product(FALLS[kind], FITTED_RISES[kind]) if weights else ():
            one = replace(base, fall=fall, rise=rise, weights=weights)
            linear += judge(one, by_line(one))
        tried += periodic + linear
        for (_, one), (_, other) in product(_best(periodic), _best(linear)):
            both = replace(one, fall=other.fall, rise=other.rise, weights=weights)
            pairs = zip(by_period(both), by_line(both), strict=True)
            tried += judge(both, [np.where(np.isfinite(p), p, line) for p, line in pairs])
    return _best(tried)[0][1]


def fit(clips: Sequence[Array], kind: int) -> tuple[tuple[float, ...], ...]:
    """Fit the weights of the linear prediction of curves by ridge regression, for every frame ahead."""
    ahead = AHEAD[kind]
    long = [curve for curve in clips if len(curve) > 2 * ahead]
    if not long:
        return ()
    x = np.concatenate([inputs(curve, kind)[:-ahead] for curve in long])
    y = np.concatenate(
        [
            np.stack([curve[n : len(curve) - ahead + n] for n in range(1, ahead + 1)], axis=1)
            - curve[:-ahead, None]
            for curve in long
        ]
    )
    power = x.T @ x
    power += RIDGE * np.diag(np.diag(power))
    weights = np.linalg.solve(power, x.T @ y)
    return tuple(tuple(round(float(value), 5) for value in row) for row in weights)


def _extrapolator_of(*, weights: Any, **settings: Any) -> Extrapolator:
    return Extrapolator(**settings, weights=tuple(tuple(row) for row in weights))


def _best(tried: list[tuple[float, Extrapolator]]) -> list[tuple[float, Extrapolator]]:
    return sorted(tried, key=lambda pair: -pair[0])[:TOP]
