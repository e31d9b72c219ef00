"""The rivals that learn: ridge, a recurrent network, and the parameters' own autoregression.

They learn from the training side of the data, and see what it can see: positions and speeds of
the joints with the heading taken away, and the causal twin at four delays and two means.
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
from training.data.examples import Example, Piece, plain, vary
from training.evaluate.baselines import Twins
from training.evaluate.measures import AHEAD, Answer, Array
from training.evaluate.takes import heading
from training.report.tables import Say
from training.teacher.kinematic_targets import EDGE
from training.teacher.kinematics import positions

T = TypeVar("T")

DELAYS_MS: Final = (0, 20, 60, 160)
MEANS_S: Final = (1, 4)
OUTPUTS: Final = len(PARAMETERS) * len(AHEAD)
VERSION: Final = 1
"""Counts up when what is fitted changes: what was kept of others is not read then."""
INPUTS: Final = 2 * 3 * 21 + 1 + len(PARAMETERS) * (len(DELAYS_MS) + len(MEANS_S))

PAST: Final = (0, 1, 2, 3, 4, 6, 8, 10, 15, 20, 25, 30, 40, 50)
"""Frames back that the autoregression looks."""

PENALTIES: Final = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Of ridge, as shares of the inputs' variance."""
FOLDS: Final = 4
"""Groups of people, each left out once to choose the penalty."""

UNITS: Final = 160
STEPS: Final = 1000
KEEP: Final = 100
"""Steps after which the state of training is kept, for a run that is interrupted: about a minute."""
WINDOWS: Final = 32
WINDOW: Final = 150
COPIES: Final = 2
"""Varied copies of each clip that is learned from."""


def inputs(twins: Twins) -> NDArray[np.float32]:
    """(T, INPUTS) of a clip, each row from frames up to its own."""
    quats = twins.quats.astype(np.float64)
    place = positions(quats, upright=True)[:, 1:]
    yaw = heading(quats)
    c, s = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
    x, y, z = np.moveaxis(place, -1, 0)
    flat = np.stack([c * x - s * z, y, s * x + c * z], axis=-1).reshape(len(place), -1)
    speed, turn = np.zeros_like(flat), np.zeros_like(yaw)
    # Over two frames, as the twin's.
    speed[2:], turn[2:] = (flat[2:] - flat[:-2]) * RATE / 2.0, (yaw[2:] - yaw[:-2]) * RATE / 2.0
    rows = [flat, speed / 3.0, turn[:, None] / 3.0]
    rows += [twins.at(ms) for ms in DELAYS_MS] + [twins.mean(seconds) for seconds in MEANS_S]
    return np.concatenate(rows, axis=1).astype(np.float32)


def past(twins: Twins) -> Array:
    """(8, T, lags): the history of each parameter by itself; the first value stands for what was before."""
    rows = twins.at(0)
    index = np.maximum(np.arange(len(rows))[:, None] - np.array(PAST), 0)
    return np.ascontiguousarray(rows[index].transpose(2, 0, 1))


def ahead_of(params: NDArray[np.floating]) -> tuple[slice, Array]:
    """The frames that are learned from, and what comes after them (n, 8, 3)."""
    span = slice(EDGE, max(len(params) - EDGE - AHEAD[-1], EDGE))
    came = [params[span.start + h : span.stop + h] for h in AHEAD]
    return span, np.stack(came, axis=-1).astype(np.float64)


@dataclass(frozen=True)
class Ridge:
    """Linear least squares with a penalty; weights for inputs less their mean."""

    centre: Array
    weights: Array
    """(inputs, outputs)."""
    offset: Array

    @classmethod
    def fit(cls, rows: Sequence[Array], came: Sequence[Array], people: Sequence[str]) -> "Ridge":
        """The penalty is the one that does best on people left out.

        Args:
            rows: (n, inputs) of each clip.
            came: (n, outputs) of each clip.
            people: whose each is.
        """
        order = sorted(set(people))
        fold = np.array([order.index(person) % FOLDS for person in people])
        sums = [_products(x, y) for x, y in zip(rows, came, strict=True)]
        error = np.zeros(len(PENALTIES))
        for left in sorted(set(fold)) if len(order) > 1 else ():
            kept = _total([sums[n] for n in np.flatnonzero(fold != left).tolist()])
            for number, penalty in enumerate(PENALTIES):
                one = cls._solve(kept, penalty)
                for n in np.flatnonzero(fold == left).tolist():
                    error[number] += np.abs(one(rows[n]) - came[n]).sum()
        return cls._solve(_total(sums), PENALTIES[int(error.argmin())])

    @classmethod
    def _solve(cls, sums: tuple[Array, Array], penalty: float) -> "Ridge":
        square, cross = sums
        count, total, out = square[-1, -1], square[-1, :-1], cross[-1]
        centre = total / count
        spread = square[:-1, :-1] / count - np.outer(centre, centre)
        both = cross[:-1] / count - np.outer(centre, out / count)
        scale = np.diag(spread) + 1e-9
        weights = np.linalg.solve(spread + penalty * np.diag(scale), both)
        return cls(centre, weights, out / count)

    def __call__(self, rows: Array) -> Array:
        """(n, outputs)."""
        return (rows - self.centre) @ self.weights + self.offset


def _products(rows: Array, came: Array) -> tuple[Array, Array]:
    one = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    return one.T @ one, one.T @ came


def _total(sums: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.sum([a for a, _ in sums], axis=0), np.sum([b for _, b in sums], axis=0)


class Recurrent(nn.Module):
    """A GRU over the inputs whose answer is added to half hold, half mean over 4 s."""

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
    say: Say,
    draft: Path | None = None,
) -> Recurrent:
    """Train on windows of clips, by the error that is judged.

    Args:
        rows: (T, INPUTS) of each clip.
        params: (T, 8) of each clip.
        seed: of weights and windows.
        say: told of every step.
        draft: file in which the state is kept, and from which it goes on to the same end.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = Recurrent()
    every = torch.from_numpy(np.concatenate(rows))
    model.mean.copy_(every.mean(0))
    model.std.copy_(every.std(0) + 1e-3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=STEPS)
    weights = np.array([len(one) for one in rows], dtype=np.float64)
    parts: dict[str, Any] = {"model": model, "optimiser": optimiser, "schedule": schedule}
    done = 0
    if draft is not None and draft.is_file():
        with suppress(Exception), open_file(draft) as file:  # a damaged one: anew
            kept = torch.load(file, weights_only=True)
            for name, part in parts.items():
                part.load_state_dict(kept[name])
            rng.bit_generator.state = kept["windows"]
            torch.set_rng_state(kept["dropout"])
            done = kept["done"]
    for step in range(done, STEPS):
        batch = np.zeros((WINDOWS, WINDOW, INPUTS), np.float32)
        came = np.zeros((WINDOWS, WINDOW, 8, len(AHEAD)), np.float32)
        known = np.zeros((WINDOWS, WINDOW), np.float32)
        for n, clip in enumerate(rng.choice(len(rows), WINDOWS, p=weights / weights.sum())):
            first = int(rng.integers(max(len(rows[clip]) - WINDOW, 0) + 1))
            piece = rows[clip][first : first + WINDOW]
            batch[n, : len(piece)] = piece
            span, targets = ahead_of(params[clip])
            at = np.arange(first, first + len(piece))
            fits = (at >= span.start) & (at < span.stop)
            came[n, : len(piece)][fits] = targets[at[fits] - span.start]
            known[n, : len(piece)] = fits
        predicted = model(torch.from_numpy(batch))
        wrong = (predicted - torch.from_numpy(came)).abs().mean((-1, -2)) * torch.from_numpy(known)
        optimiser.zero_grad()
        (wrong.sum() / max(float(known.sum()), 1.0)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        say("GRU", step + 1, STEPS)
        if draft is not None and (step + 1) % KEEP == 0:
            state = {name: part.state_dict() for name, part in parts.items()}
            random = {"windows": rng.bit_generator.state, "dropout": torch.get_rng_state()}
            torch.save(state | random | {"done": step + 1}, buffer := io.BytesIO())
            write_atomic(draft, buffer.getbuffer())
    return model.eval()


@dataclass(frozen=True)
class Learned:
    """The fitted rivals."""

    ridge: Ridge
    own: tuple[Ridge, ...]
    """Of each parameter."""
    recurrent: tuple[Recurrent, ...]
    """One a seed."""

    def answers(self, twins: Twins) -> dict[str, Answer]:
        """What each says about a clip."""
        rows, shape = inputs(twins), (-1, len(PARAMETERS), len(AHEAD))
        found = {"ridge": self.ridge(rows.astype(np.float64)).reshape(shape)}
        found["autoregression"] = np.stack([one(x) for one, x in zip(self.own, past(twins), strict=True)], 1)
        with torch.no_grad():
            for seed, one in enumerate(self.recurrent):
                name = "GRU" if len(self.recurrent) == 1 else f"GRU, seed {seed}"
                found[name] = one(torch.from_numpy(rows)[None])[0].numpy()
        return {name: np.clip(one, 0.0, 1.0).astype(np.float32) for name, one in found.items()}


class _BaselineTrainingData:
    """What is learned from, made when first asked for: clips and their varied copies."""

    def __init__(
        self, examples: Sequence[Example], pieces: Sequence[Piece], say: Say, tell: Callable[[str], None]
    ) -> None:
        self._given = (list(examples), list(pieces), say, tell)

    @cached_property
    def clips(self) -> list[Example]:
        """Those that are long enough."""
        examples, pieces, say, tell = self._given
        tell("fitting the rivals that learn: some ten minutes, once for this set")
        rng = np.random.default_rng(0)
        found = list(examples)
        for number, piece in enumerate(pieces * COPIES):
            found.append(plain(vary(piece, rng)))
            say("varied copies", number + 1, len(pieces) * COPIES)
        return [one for one in found if len(one) > 2 * EDGE + AHEAD[-1]]

    @cached_property
    def twins(self) -> list[Twins]:
        """Of each clip."""
        return [Twins(one.quats) for one in self.clips]

    @cached_property
    def rows(self) -> list[NDArray[np.float32]]:
        """What is seen in each clip."""
        return [inputs(one) for one in self.twins]

    def linear(self, rows: Iterable[NDArray[np.floating]], parameters: slice) -> Ridge:
        """Ridge from some rows of each clip (T, inputs) to some parameters."""
        spans, came = zip(*(ahead_of(one.params) for one in self.clips), strict=True)
        kept = [row[span].astype(np.float64) for row, span in zip(rows, spans, strict=True)]
        wanted = [one[:, parameters].reshape(len(one), -1) for one in came]
        return Ridge.fit(kept, wanted, [one.subject for one in self.clips])


def fit(
    examples: Sequence[Example],
    pieces: Sequence[Piece],
    folder: Path,
    *,
    seeds: int = 1,
    say: Say,
    tell: Callable[[str], None] = lambda line: None,
) -> Learned:
    """Fit the rivals on the training side; interrupted, it goes on from where it was the next time.

    Args:
        examples: its clips.
        pieces: the motion of the same clips, of which varied copies are made.
        folder: where each rival is kept once it is fitted, and read from the next time; a damaged file is
            fitted anew.
        seeds: how many recurrent networks.
        say: told how far it is.
        tell: told, where one is not kept, that it takes a while.
    """
    folder.mkdir(parents=True, exist_ok=True)
    training_data = _BaselineTrainingData(examples, pieces, say, tell)
    linear = partial(_kept, read=_read_ridge, write=_write_ridge)
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
    network = partial(_kept, read=_read_recurrent, write=_write_recurrent)

    def trained(seed: int) -> Recurrent:
        params = [one.params for one in training_data.clips]
        return fit_recurrent(training_data.rows, params, seed, say, folder / f"gru-{seed}.draft")

    recurrent = tuple(network(folder / f"gru-{seed}.pt", partial(trained, seed)) for seed in range(seeds))
    for seed in range(seeds):
        (folder / f"gru-{seed}.draft").unlink(missing_ok=True)
    return Learned(ridge, own, recurrent)


def _kept(
    path: Path, make: Callable[[], T], read: Callable[[IO[bytes]], T], write: Callable[[T, IO[bytes]], None]
) -> T:
    """What is kept in a file; made and kept where there is no such file, or a damaged one."""
    if path.is_file():
        try:
            with open_file(path) as file:
                return read(file)
        except Exception:  # numpy and torch raise many kinds for damaged files
            pass
    made, buffer = make(), io.BytesIO()
    write(made, buffer)
    write_atomic(path, buffer.getbuffer())
    return made


def _read_ridge(file: IO[bytes]) -> Ridge:
    with np.load(file) as found:
        return Ridge(found["centre"], found["weights"], found["offset"])


def _write_ridge(one: Ridge, file: IO[bytes]) -> None:
    np.savez(file, centre=one.centre, weights=one.weights, offset=one.offset)


def _read_recurrent(file: IO[bytes]) -> Recurrent:
    model = Recurrent()
    model.load_state_dict(torch.load(file, weights_only=True))
    return model.eval()


def _write_recurrent(model: Recurrent, file: IO[bytes]) -> None:
    torch.save(model.state_dict(), file)
