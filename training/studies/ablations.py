"""What each part of the packaged model brings: models trained without one, and the same played without one.

Every model is trained as the first stage of the packaged recipe, with half as large updates, and judged on
the validation people as ``evaluate motion`` does.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.models import MotionTransformer
from training.evaluate.measures import AHEAD_MS, SHORTEST, Tally, mean_error, tally
from training.evaluate.rivals import PLAYED, SETTINGS, AllRivals, Twins, answer, simple, systems_of
from training.evaluate.takes import Clip, Takes
from training.studies.engine import Line, Measure, Row, Rows, Study
from training.tasks.motion import MotionTrainOptions, load_run
from training.tasks.motion import fit as train
from training.tasks.motion.data import TrainingData, training_data
from training.tasks.motion.scores import run_model

FULL: Final = "full"
ARMS: Final[dict[str, dict[str, Any]]] = {
    FULL: {},
    "no memory": {"played": "mixed live, no memory"},
    "no mixing": {"played": None},
    "no scalars": {"model": {"bias": "none", "mixing": "mean", "gated_events": False}},
    "one pathway": {"model": {"slow_layers": 0, "fast_layers": 5}},
    "fewer people": {"people": "numbered"},
}
"""What is different. Scalars steer nothing without a bias and gates; the slow layers become fast ones; the
people with a number are the students of CMU's walks, without the dancer and those who stand about."""
ALL: Final = "all kinds"


@dataclass(frozen=True)
class AblationOptions:
    """How long all runs are."""

    data: Path = field(default=Path("data"), compare=False)
    """A folder of takes."""
    steps: int = 1600
    batch_frames: int = 1536


class AblationGround:
    """The takes, and the errors of a model that was trained on them; see :meth:`run`."""

    def __init__(self, options: AblationOptions, folder: Path) -> None:
        self.plain = MotionTrainOptions(
            data={"path": options.data, "copies": 12, "cache": folder, "build_workers": 1},
            model={"dropout": 0.3},
            loss={"events": 0.05},
            schedule={"steps": options.steps, "batch_frames": options.batch_frames},
            run={
                "device": "cpu", "threads": 1, "tensorboard": False, "export": False,
                "validate_every": options.steps, "save_every": options.steps,
            },
        )  # fmt: skip
        self.training = training_data(self.plain)
        takes = Takes(options.data, folder)
        self.clips = [clip for clip in takes.strangers("validation") if len(clip.example) >= SHORTEST]
        self.source = self.training.digest
        self._trained: dict[tuple[int, str], MotionTransformer] = {}

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """Train one model, or take that of the arm which differs only in how it is played; judge it."""
        changes = ARMS[arm]
        model = self._model(FULL if "played" in changes else arm, seed)
        system = systems_of(model).get(changes.get("played", PLAYED) or "")
        found = []
        for clip in self.clips:
            said = run_model(model, clip.example)
            told = answer(said.params) if system is None else system(clip.example, said, ())
            found.append(tally(clip.person, clip.example.params, [told]))
        return {"figures": by_person(self.clips, found, lambda kind: np.zeros((8, 3), int)),
                "parameters": sum(p.numel() for p in model.parameters())}  # fmt: skip

    def _model(self, arm: str, seed: int) -> MotionTransformer:
        if (seed, arm) not in self._trained:
            people = "people" in ARMS[arm]
            data = numbered(self.training) if people else self.training
            options = self.plain.but(model=ARMS[arm].get("model", {}), schedule={"seed": seed})
            with tempfile.TemporaryDirectory() as place:
                if not train(options, Path(place) / "run", data=data)["finished"]:
                    raise KeyboardInterrupt
                self._trained = {(seed, arm): load_run(Path(place) / "run")} | {
                    known: model for known, model in self._trained.items() if known == (seed, FULL)
                }
        return self._trained[seed, arm]

    @cached_property
    def rivals(self) -> dict[str, dict[str, Any]]:
        """The best of the rivals that learn nothing, known in hindsight for each kind of movement,
        parameter and horizon."""
        tuned, tallies = AllRivals.load(SETTINGS), []
        for clip in self.clips:
            told = simple(clip.example, Twins(clip.example.quats), tuned)
            tallies.append(tally(clip.person, clip.example.params, list(told.values())))

        def best(kind: str) -> NDArray[np.int64]:
            mine = [t for clip, t in zip(self.clips, tallies, strict=True) if clip.kind == kind]
            return np.asarray(mean_error(mine).argmin(axis=0))

        return {"best rival": by_person(self.clips, tallies, best)}


def numbered(data: TrainingData) -> TrainingData:
    """The same with the training clips of people who have a number instead of a name alone."""
    train, bare = ([e for e in side if e.subject.isdigit()] for side in (data.train, data.bare))
    return replace(data, train=train, bare=bare)


def by_person(
    clips: list[Clip], tallies: list[Tally], best: Callable[[str], NDArray[np.int64]]
) -> dict[str, Any]:
    """By person and kind of movement the frames and the errors (8 x 3), summed over them, of the forecaster
    that ``best`` says for each parameter and horizon (8, 3)."""
    found: dict[str, Any] = {}
    choices = {kind: best(kind)[None] for kind in {clip.kind for clip in clips}}
    for clip, one in zip(clips, tallies, strict=True):
        wrong = np.take_along_axis(one.wrong, choices[clip.kind], axis=0)[0]
        mine = found.setdefault(clip.person, {})
        row = mine.setdefault(clip.kind, {"frames": 0, "error": np.zeros((8, 3))})
        row["frames"] += one.frames
        row["error"] += wrong
    for kinds in found.values():
        for row in kinds.values():
            row["error"] = np.round(row["error"], 4).tolist()
    return found


def units(line: Line, view: str) -> dict[str, Row]:
    """The people who show a kind of movement, and their mean errors (8 x 3)."""
    found: dict[str, Row] = {}
    for person, kinds in line["figures"].items():
        rows = [row for kind, row in kinds.items() if view in (ALL, kind)]
        if rows:
            frames = sum(row["frames"] for row in rows)
            found[person] = {"error": np.sum([row["error"] for row in rows], axis=0) / frames}
    return found


def _ratio(horizon: int) -> Callable[[Rows, Rows], float]:
    def value(rows: Rows, held: Rows) -> float:
        mine, theirs = (np.mean([row["error"] for row in each], axis=0)[:, horizon] for each in (rows, held))
        return float(mine.sum() / theirs.sum())

    return value


STUDY: Final = Study(
    title="What each part brings",
    options=AblationOptions,
    arms=ARMS,
    pairs=tuple((arm, FULL) for arm in ARMS if arm != FULL),
    tables=(
        (
            "Errors as a ratio to the best rival's",
            tuple(Measure(f"{ms} ms", _ratio(i)) for i, ms in enumerate(AHEAD_MS)),
        ),
    ),
    ground=lambda options, case, folder: AblationGround(options, folder),
    seeds="0-4",
    views=(ALL, "walking", "dance, improvised", "martial art", "gesture", "idle", "other"),
    units=units,
)
