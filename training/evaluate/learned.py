"""Learned baselines: ridge regression, a recurrent network, and autoregression of each parameter.

They are fitted on the training clips. Their inputs are positions and velocities of the joints with the
heading removed, and the causal twin at four delays and with two means.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pyanticip.motion.atomic import write_atomic
from pyanticip.untrusted import open_file
from pyanticip.vocabulary import PARAMETERS, RATE
from training.data.examples import Example, Piece, example_from_piece, vary
from training.evaluate.baselines import Twins
from training.evaluate.measures import AHEAD, Answer, Array
from training.evaluate.takes import heading
from training.report.tables import ProgressCallback
from training.teacher.kinematic_targets import EDGE
from training.teacher.kinematics import positions

T = TypeVar("T")

DELAYS_MS: Final = (0, 20, 60, 160)
MEANS_S: Final = (1, 4)
OUTPUTS: Final = len(PARAMETERS) * len(AHEAD)
VERSION: Final = 1
"""Version of the baselines; cached fits of other versions are not used."""
INPUTS: Final = 2 * 3 * 21 + 1 + len(PARAMETERS) * (len(DELAYS_MS) + len(MEANS_S))

PAST: Final = (0, 1, 2, 3, 4, 6, 8, 10, 15, 20, 25, 30, 40, 50)
"""Lags of the autoregression, frames."""

PENALTIES: Final = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Ridge penalties that are tried, as shares of the inputs' variance."""
FOLDS: Final = 4
"""Groups of people for the cross-validation of the penalty."""

UNITS: Final = 160
"""Width of the recurrent network."""
STEPS: Final = 1000
"""Training steps of the recurrent network."""
SAVE_EVERY: Final = 100
"""Steps between saves of the training state: about a minute."""
WINDOWS: Final = 32
"""Windows per step."""
WINDOW: Final = 150
"""Frames per window."""
COPIES: Final = 2
"""Augmented copies of each training clip."""


def inputs(twins: Twins) -> NDArray[np.float32]:
    """Inputs (T, INPUTS) of a clip; each row depends on frames up to its own."""
    quats = twins.quats.astype(np.float64)
    place = positions(quats, upright=True)[:, 1:]
    yaw = heading(quats)
    c, s = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
    x, y, z = np.moveaxis(place, -1, 0)
    flat = np.stack([c * x - s * z, y, s * x + c * z], axis=-1).reshape(len(place), -1)
    speed, turn = np.zeros_like(flat), np.zeros_like(yaw)
    # Differences over two frames, as in the twin.
    speed[2:], turn[2:] = (flat[2:] - flat[:-2]) * RATE / 2.0, (yaw[2:] - yaw[:-2]) * RATE / 2.0
    rows = [flat, speed / 3.0, turn[:, None] / 3.0]
    rows += [twins.at(ms) for ms in DELAYS_MS] + [twins.mean(seconds) for seconds in MEANS_S]
    return np.concatenate(rows, axis=1).astype(np.float32)


def past(twins: Twins) -> Array:
    """(8, T, lags): history of each parameter; before the clip, its first value."""
    rows = twins.at(0)
    index = np.maximum(np.arange(len(rows))[:, None] - np.array(PAST), 0)
    return np.ascontiguousarray(rows[index].transpose(2, 0, 1))


def ahead_of(params: NDArray[np.floating]) -> tuple[slice, Array]:
    """The frames to fit on, and their targets (n, 8, 3): the parameters at each horizon."""
    span = slice(EDGE, max(len(params) - EDGE - AHEAD[-1], EDGE))
    future = [params[span.start + h : span.stop + h] for h in AHEAD]
    return span, np.stack(future, axis=-1).astype(np.float64)


@dataclass(frozen=True)
class Ridge:
    """Ridge regression, applied to centred inputs."""

    centre: Array
    weights: Array
    """(inputs, outputs)."""
    offset: Array

    @classmethod
    def fit(cls, rows: Sequence[Array], targets: Sequence[Array], people: Sequence[str]) -> "Ridge":
        """Fit with the penalty that is best in cross-validation over people.

        Args:
            rows: (n, inputs) of each clip.
            targets: (n, outputs) of each clip.
            people: person of each clip.
        """
        order = sorted(set(people))
        fold = np.array([order.index(person) % FOLDS for person in people])
        sums = [_products(x, y) for x, y in zip(rows, targets, strict=True)]
        error = np.zeros(len(PENALTIES))
        for held_out in sorted(set(fold)) if len(order) > 1 else ():
            fold_sums = _total([sums[n] for n in np.flatnonzero(fold != held_out).tolist()])
            for number, penalty in enumerate(PENALTIES):
                one = cls._solve(fold_sums, penalty)
                for n in np.flatnonzero(fold == held_out).tolist():
                    error[number] += np.abs(one(rows[n]) - targets[n]).sum()
        return cls._solve(_total(sums), PENALTIES[int(error.argmin())])

    @classmethod
    def _solve(cls, sums: tuple[Array, Array], penalty: float) -> "Ridge":
        square, cross = sums
        count, total, out = square[-1, -1], square[-1, :-1], cross[-1]
        centre = total / count
        spread = square[:-1, :-1] / count - np.outer(centre, centre)
        covariance = cross[:-1] / count - np.outer(centre, out / count)
        scale = np.diag(spread) + 1e-9
        weights = np.linalg.solve(spread + penalty * np.diag(scale), covariance)
        return cls(centre, weights, out / count)

    def __call__(self, rows: Array) -> Array:
        """Predict (n, outputs) from inputs (n, inputs)."""
        return (rows - self.centre) @ self.weights + self.offset


def _products(rows: Array, targets: Array) -> tuple[Array, Array]:
    one = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    return one.T @ one, one.T @ targets


def _total(sums: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.sum([a for a, _ in sums], axis=0), np.sum([b for _, b in sums], axis=0)


class Recurrent(nn.Module):
    """A GRU that predicts a correction of the average of the current value and the mean over 4 s."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(INPUTS))
        self.register_buffer("std", torch.ones(INPUTS))
        self.drop = nn.Dropout(0.3)
        self.gru = nn.GRU(INPUTS, UNITS, batch_first=True)
        self.head = nn.Linear(UNITS, OUTPUTS)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """(B, L, INPUTS) to (B, L, 8, 3)."""
        hidden, _ = self.gru(self.drop((rows - self.mean) / self.std))
        held, mean = (rows[..., -8 * at : INPUTS - 8 * at + 8] for at in (5, 1))
        skip = 0.5 * (held + mean)[..., None]
        out: torch.Tensor = skip + self.head(self.drop(hidden)).unflatten(-1, (8, 3))
        return out


def fit_recurrent(
    rows: Sequence[NDArray[np.float32]],
    params: Sequence[NDArray[np.floating]],
    seed: int,
    say: ProgressCallback,
    draft: Path | None = None,
) -> Recurrent:
    """Train on windows of clips, with the mean absolute error that is evaluated.

    Args:
        rows: (T, INPUTS) of each clip.
        params: (T, 8) of each clip.
        seed: seed of weights and windows.
        say: called after every step.
        draft: file for the training state; if it exists, training resumes with the same result.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = Recurrent()
    all_rows = torch.from_numpy(np.concatenate(rows))
    model.mean.copy_(all_rows.mean(0))
    model.std.copy_(all_rows.std(0) + 1e-3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=STEPS)
    weights = np.array([len(one) for one in rows], dtype=np.float64)
    parts: dict[str, Any] = {"model": model, "optimiser": optimiser, "schedule": schedule}
    done = 0
    if draft is not None and draft.is_file():
        with suppress(Exception), open_file(draft) as file:  # a damaged file: start over
            saved = torch.load(file, weights_only=True)
            for name, part in parts.items():
                part.load_state_dict(saved[name])
            rng.bit_generator.state = saved["windows"]
            torch.set_rng_state(saved["dropout"])
            done = saved["done"]
    for step in range(done, STEPS):
        batch = np.zeros((WINDOWS, WINDOW, INPUTS), np.float32)
        target = np.zeros((WINDOWS, WINDOW, 8, len(AHEAD)), np.float32)
        known = np.zeros((WINDOWS, WINDOW), np.float32)
        for n, clip in enumerate(rng.choice(len(rows), WINDOWS, p=weights / weights.sum())):
            first = int(rng.integers(max(len(rows[clip]) - WINDOW, 0) + 1))
            piece = rows[clip][first : first + WINDOW]
            batch[n, : len(piece)] = piece
            span, targets = ahead_of(params[clip])
            frames = np.arange(first, first + len(piece))
            fits = (frames >= span.start) & (frames < span.stop)
            target[n, : len(piece)][fits] = targets[frames[fits] - span.start]
            known[n, : len(piece)] = fits
        predicted = model(torch.from_numpy(batch))
        error = (predicted - torch.from_numpy(target)).abs().mean((-1, -2)) * torch.from_numpy(known)
        optimiser.zero_grad()
        (error.sum() / max(float(known.sum()), 1.0)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        say("GRU", step + 1, STEPS)
        if draft is not None and (step + 1) % SAVE_EVERY == 0:
            state = {name: part.state_dict() for name, part in parts.items()}
            random = {"windows": rng.bit_generator.state, "dropout": torch.get_rng_state()}
            torch.save(state | random | {"done": step + 1}, buffer := io.BytesIO())
            write_atomic(draft, buffer.getbuffer())
    return model.eval()


@dataclass(frozen=True)
class Learned:
    """The fitted baselines."""

    ridge: Ridge
    own: tuple[Ridge, ...]
    """Autoregression of each parameter."""
    recurrent: tuple[Recurrent, ...]
    """Recurrent networks, one per seed."""

    def answers(self, twins: Twins) -> dict[str, Answer]:
        """Forecasts of each baseline for a clip, by name."""
        rows, shape = inputs(twins), (-1, len(PARAMETERS), len(AHEAD))
        forecasts = {"ridge": self.ridge(rows.astype(np.float64)).reshape(shape)}
        forecasts["autoregression"] = np.stack(
            [one(x) for one, x in zip(self.own, past(twins), strict=True)], 1
        )
        with torch.no_grad():
            for seed, one in enumerate(self.recurrent):
                name = "GRU" if len(self.recurrent) == 1 else f"GRU, seed {seed}"
                forecasts[name] = one(torch.from_numpy(rows)[None])[0].numpy()
        return {name: np.clip(one, 0.0, 1.0).astype(np.float32) for name, one in forecasts.items()}


class _BaselineTrainingData:
    """Training data of the baselines, computed on first use: clips and their augmented copies."""

    def __init__(
        self,
        examples: Sequence[Example],
        pieces: Sequence[Piece],
        say: ProgressCallback,
        tell: Callable[[str], None],
    ) -> None:
        self._arguments = (list(examples), list(pieces), say, tell)

    @cached_property
    def clips(self) -> list[Example]:
        """Clips and copies that are long enough."""
        originals, pieces, say, tell = self._arguments
        tell("fitting the rivals that learn: some ten minutes, once for this set")
        rng = np.random.default_rng(0)
        examples = list(originals)
        for number, piece in enumerate(pieces * COPIES):
            examples.append(example_from_piece(vary(piece, rng)))
            say("varied copies", number + 1, len(pieces) * COPIES)
        return [one for one in examples if len(one) > 2 * EDGE + AHEAD[-1]]

    @cached_property
    def twins(self) -> list[Twins]:
        """Causal twins of each clip."""
        return [Twins(one.quats) for one in self.clips]

    @cached_property
    def rows(self) -> list[NDArray[np.float32]]:
        """Inputs (T, INPUTS) of each clip."""
        return [inputs(one) for one in self.twins]

    def linear(self, rows: Iterable[NDArray[np.floating]], parameters: slice) -> Ridge:
        """Fit a ridge regression from rows of each clip (T, inputs) to some of the parameters."""
        spans, targets = zip(*(ahead_of(one.params) for one in self.clips), strict=True)
        selected = [row[span].astype(np.float64) for row, span in zip(rows, spans, strict=True)]
        outputs = [one[:, parameters].reshape(len(one), -1) for one in targets]
        return Ridge.fit(selected, outputs, [one.subject for one in self.clips])


def fit(
    examples: Sequence[Example],
    pieces: Sequence[Piece],
    folder: Path,
    *,
    seeds: int = 1,
    say: ProgressCallback,
    tell: Callable[[str], None] = lambda line: None,
) -> Learned:
    """Fit the baselines, or load them from ``folder``; an interrupted call resumes the next time.

    Args:
        examples: the training clips.
        pieces: the motion of those whose targets come from the teacher, for augmented copies.
        folder: cache of the fitted baselines; a damaged file is fitted again.
        seeds: number of recurrent networks.
        say: progress callback.
        tell: called with a notice that fitting takes a while, unless all are cached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    training_data = _BaselineTrainingData(examples, pieces, say, tell)
    linear = partial(_cached, read=_read_ridge, write=_write_ridge)
    ridge = linear(folder / "ridge.npz", lambda: training_data.linear(training_data.rows, slice(None)))
    own = tuple(
        linear(
            folder / f"own-{k}.npz",
            partial(
                lambda k: training_data.linear(
                    (past(one)[k] for one in training_data.twins), slice(k, k + 1)
                ),
                k,
            ),
        )
        for k in range(len(PARAMETERS))
    )
    network = partial(_cached, read=_read_recurrent, write=_write_recurrent)

    def trained(seed: int) -> Recurrent:
        params = [one.params for one in training_data.clips]
        return fit_recurrent(training_data.rows, params, seed, say, folder / f"gru-{seed}.draft")

    recurrent = tuple(network(folder / f"gru-{seed}.pt", partial(trained, seed)) for seed in range(seeds))
    for seed in range(seeds):
        (folder / f"gru-{seed}.draft").unlink(missing_ok=True)
    return Learned(ridge, own, recurrent)


def _cached(
    path: Path, make: Callable[[], T], read: Callable[[IO[bytes]], T], write: Callable[[T, IO[bytes]], None]
) -> T:
    """Read a file; if it is missing or damaged, call ``make`` and write the result to it."""
    if path.is_file():
        try:
            with open_file(path) as file:
                return read(file)
        except Exception:  # numpy and torch raise many types for damaged files
            pass
    made, buffer = make(), io.BytesIO()
    write(made, buffer)
    write_atomic(path, buffer.getbuffer())
    return made


def _read_ridge(file: IO[bytes]) -> Ridge:
    with np.load(file) as arrays:
        return Ridge(arrays["centre"], arrays["weights"], arrays["offset"])


def _write_ridge(one: Ridge, file: IO[bytes]) -> None:
    np.savez(file, centre=one.centre, weights=one.weights, offset=one.offset)


def _read_recurrent(file: IO[bytes]) -> Recurrent:
    model = Recurrent()
    model.load_state_dict(torch.load(file, weights_only=True))
    return model.eval()


def _write_recurrent(model: Recurrent, file: IO[bytes]) -> None:
    torch.save(model.state_dict(), file)
