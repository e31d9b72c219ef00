"""Does geometry help on motion? The trajectory's bias beside a random one and none; where else it steers.

Small motion models that differ in one part, judged on held-out people. An arm is what it changes in the
options of :mod:`training.tasks.motion`. All arms have the same losses, optimiser and schedule, and as many
parameters as the first (within 1 %: feed-forward layers are made wider or narrower for it). The given scalars
steer throughout.
"""

import functools
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pyanticip.errors import OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.vocabulary import EVENT_BINS, EVENTS, HORIZONS_MS, RATE, SCALAR_COLUMNS
from training.data.batches import event_targets
from training.data.examples import Example, Split
from training.evaluate.events import score_clips, total
from training.evaluate.rules import THRESHOLDS, Choice, Rule, announce
from training.run.launch import resolve_device
from training.studies.engine import Line, Measure, Row, Rows, Study, mean_of
from training.tasks.motion import MotionTrainOptions, load_run
from training.tasks.motion import fit as train
from training.tasks.motion.baselines import RIVALS_FILE, Rivals, predict
from training.tasks.motion.data import base_set, training_data
from training.tasks.motion.losses import event_nll
from training.tasks.motion.scores import Errors, Predictions, measure, run_model
from training.tasks.motion.validation import in_memory
from training.teacher.handmade import EDGE

ARMS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "trajectory": {},
    "random": {"model": {"bias": "random"}},
    "none": {"model": {"bias": "none"}},
    "alibi": {"model": {"bias": "none", "positions": "alibi"}},
    "rope": {"model": {"bias": "none", "positions": "rope"}},
    "no-slow": {"model": {"slow_layers": 0, "fast_layers": 5}},
    "no-pathway-gate": {"model": {"mixing": "mean"}},
    "no-event-gate": {"model": {"gated_events": False}},
    "input": {"model": {"bias": "none", "scalar_input": True}},
    # The bias network as it starts by default hardly comes to heed the scalars in so short a run.
    "trajectory-alive": {"model": {"bias_start": "fan-in"}},
    "random-alive": {"model": {"bias": "random", "bias_start": "fan-in"}},
    "trajectory-rope": {"model": {"positions": "rope"}},
    "random-rope": {"model": {"bias": "random", "positions": "rope"}},
}
"""Options by table, as :class:`~training.tasks.motion.MotionTrainOptions` takes them. ``no-slow`` has its
slow layers in the fast pathway instead."""

SIZES: Final[dict[str, Any]] = {
    "heads": 4,
    "fast_layers": 2,
    "slow_layers": 3,
    "control_hidden": 128,
    "dropout": 0.1,
}
"""With the options' widths: half the shipped model's, and all of its layers."""

SIDES: Final[dict[str, tuple[Split, ...]]] = {
    "validation": ("validation",),
    "held out": ("validation", "test"),
}


@dataclass(frozen=True)
class MotionOptions:
    """How large and how long all runs are.

    Raises:
        OptionError: sizes below one.
    """

    data: Path | None = field(default=None, compare=False)
    """A set, or a folder of takes."""
    device: str = field(default="cpu", compare=False)
    steps: int = 300
    batch_frames: int = 1536
    lr: float = 2e-3
    copies: int = 4
    """Varied copies of every training piece, the same for all seeds."""
    d_model: int = 64
    ff: int = 256

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch_frames", 1), ("copies", 0), ("d_model", 2), ("ff", 1)):
            if getattr(self, name) < least:
                raise OptionError(f"option {name}: expected at least {least}, given {getattr(self, name)}")
        resolve_device(self.device, "32")

    def plain(self, folder: Path) -> MotionTrainOptions:
        """How the shipped kind of model trains in a run: judged once, after the last update.

        Raises:
            OptionError: no data.
        """
        if self.data is None:
            raise OptionError("option data: give a set, or a folder of takes")
        return MotionTrainOptions(
            data={"path": self.data, "copies": self.copies, "cache": folder, "build_workers": 1},
            model={**SIZES, "d_model": self.d_model, "ff": self.ff},
            loss={"own_scalars": 0.0},
            schedule={
                "steps": self.steps,
                "batch_frames": self.batch_frames,
                "peak_lr": self.lr,
                "final_lr": self.lr / 100.0,
                "warm_up_steps": min(100, max(1, self.steps // 5)),
            },
            run={
                "device": self.device,
                "threads": 1,
                "log_every": max(1, self.steps // 20),
                "validate_every": self.steps,
                "save_every": self.steps,
                "tensorboard": False,
                "export": False,
            },
        )


@functools.lru_cache
def parameters(cfg: ModelConfig) -> int:
    """Parameters of a configuration's model."""
    return sum(p.numel() for p in MotionTransformer(cfg).parameters())


class MotionGround:
    """The takes of a study, and scores by split and subject; see :meth:`judge`.

    Args:
        options: what all runs have in common.
        folder: for what is made of the takes.

    Raises:
        FormatError: no usable motion of a side of the split.
        OptionError: motion that nothing can be learned from.
    """

    def __init__(self, options: MotionOptions, folder: Path) -> None:
        self.plain = options.plain(folder)
        self.training = training_data(self.plain)
        base = base_set(self.plain)
        self.held_out: dict[Split, list[Example]] = {
            "validation": [in_memory(example) for example in self.training.validation],
            "test": [in_memory(example) for example in base.examples("test")],
        }
        clips = [example for side in self.held_out.values() for example in side]
        self.source = digest([*self.training.train, *clips])

    def options(self, arm: str, seed: int) -> MotionTrainOptions:
        """How a run trains."""
        mine = self.plain.but(**ARMS[arm])
        cfg, first = mine.config(), self.plain.but(**next(iter(ARMS.values()))).config()
        column = (cfg.fast_layers + cfg.slow_layers) * (2 * cfg.d_model + 1)
        ff = max(cfg.ff + round((parameters(first) - parameters(cfg)) / column), 1)
        return mine.but(model={"ff": ff}, seed=seed)

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """Train and judge one model."""
        options = self.options(arm, seed)
        with tempfile.TemporaryDirectory() as place:
            if not train(options, Path(place) / "run", data=self.training)["finished"]:
                raise KeyboardInterrupt
            # There is one validation, after the last update: the best weights are the last.
            model = load_run(Path(place) / "run")
        return {"figures": self.judge(model), "parameters": parameters(model.cfg)}

    @cached_property
    def rivals(self) -> dict[str, dict[str, Any]]:
        """``hold``: the held causal twin, a constant rate of events and the training mean of the scalars."""
        hold = Rivals.load(RIVALS_FILE).hold
        low, high = SCALAR_COLUMNS
        mean = np.concatenate([example.features[:, low:high] for example in self.training.bare]).mean(axis=0)
        rates = base_rates(self.training.bare)

        def said(example: Example) -> Predictions:
            frames = len(example)
            return Predictions(
                predict(example, hold),
                np.broadcast_to(rates[:, None], (frames, len(EVENTS), EVENT_BINS)).astype(np.float32),
                np.broadcast_to(mean, (frames, high - low)).astype(np.float32),
                np.ones(frames, dtype=np.float32),
            )

        return {
            "hold": {
                split: by_subject(clips, [said(e) for e in clips], measure(clips, lambda e: predict(e, hold)))
                for split, clips in self.held_out.items()
            }
        }

    def judge(self, model: MotionTransformer) -> dict[str, Any]:
        """Scores by split and subject: see :func:`by_subject`, and ``onset``, the hits, announcements and
        events, of onsets announced at least 100 ms before.

        The threshold of announcements is chosen on the validation clips; for a validation subject on those of
        the others.
        """
        said = {split: [run_model(model, e) for e in clips] for split, clips in self.held_out.items()}
        answers = {
            id(e): s for side, clips in self.held_out.items() for e, s in zip(clips, said[side], strict=True)
        }
        lead = round(0.1 * RATE)
        rules = tuple(Rule("window", threshold, aim) for threshold in THRESHOLDS for aim in (0, 1))
        told = [[announce(s, 0, lead, rule) for s in said["validation"]] for rule in rules]
        choice = Choice(rules, self.held_out["validation"], told, 0, lead)
        scores: dict[str, Any] = {}
        for split, clips in self.held_out.items():
            scores[split] = by_subject(clips, said[split], measure(clips, lambda e: answers[id(e)].params))
            for subject, row in scores[split].items():
                rule = choice.without(subject)
                mine = [example for example in clips if example.subject == subject]
                reports = [announce(answers[id(e)], 0, lead, rule) for e in mine]
                counted = total(score_clips(mine, reports, 0, lead)[0])
                row["onset"] = [counted.hits, counted.reported, counted.true]
        return scores


def digest(examples: Iterable[Example]) -> str:
    """SHA-256 over what is seen and taught."""
    found = hashlib.sha256()
    for example in examples:
        found.update(example.name.encode())
        for array in (example.features, example.params, example.onsets, example.phrases):
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def base_rates(examples: Sequence[Example]) -> NDArray[np.float64]:
    """The constant hazard of each kind of event that fits the examples best: hits over bins at risk."""
    hits, risked = np.zeros(len(EVENTS)), np.zeros(len(EVENTS))
    for example in examples:
        for kind, events in enumerate((example.onsets, example.phrases)):
            bins, seen = event_targets(events, len(example))
            hits[kind] += (bins < seen).sum()
            risked[kind] += np.minimum(bins + 1, seen).sum()
    return np.asarray(hits / np.maximum(risked, 1.0))


def by_subject(clips: Sequence[Example], said: Sequence[Predictions], errors: Errors) -> dict[str, Any]:
    """Per subject: ``error`` (8 x 5) of the parameters, ``event_nll`` in nats a frame over both kinds of
    event, ``scalar_error``, the mean over the seven, and ``frames``."""
    low, high = SCALAR_COLUMNS
    found: dict[str, Any] = {}
    for subject in sorted({example.subject for example in clips}):
        judged = np.flatnonzero(errors.subjects == subject)
        if not len(judged):
            continue  # all clips too short to be judged at the longest horizon
        mine = [(e, s) for e, s in zip(clips, said, strict=True) if e.subject == subject]
        surprise = np.concatenate([event_surprise(e, s.hazards) for e, s in mine])
        wrong = np.concatenate([np.abs(s.scalars - e.features[:, low:high]) for e, s in mine])
        found[subject] = {
            "error": [[round(float(value), 6) for value in row] for row in errors.mean(judged)],
            "event_nll": round(float(surprise.mean()), 6),
            "scalar_error": round(float(wrong.mean()), 6),
            "frames": len(surprise),
        }
    return found


def event_surprise(example: Example, hazards: NDArray[np.floating]) -> NDArray[np.float64]:
    """Negative log-likelihood (T',) of the next event of either kind, nats, away from the clip's ends.

    As in training: a clip's end, and nothing within the bins, count as nothing having come so far.
    """
    events = [event_targets(events, len(example)) for events in (example.onsets, example.phrases)]
    bins, seen = (torch.from_numpy(np.stack(each, -1))[None] for each in zip(*events, strict=True))
    logits = torch.logit(torch.from_numpy(hazards.astype(np.float64)), 1e-9)[None]
    found: NDArray[np.float64] = event_nll(logits, bins, seen).sum(-1)[0].numpy()
    return found[EDGE : max(len(example) - EDGE, EDGE)]


def units(line: Line, view: str) -> dict[str, Row]:
    """The subjects of a side, and their scores."""
    return {subject: row for split in SIDES[view] for subject, row in line["figures"].get(split, {}).items()}


def ratio(horizon: int) -> Callable[[Rows, Rows], float]:
    """Error of the parameters (8 x 5) at a horizon as a ratio to the reference's, mean over all; subjects
    count alike."""

    def value(rows: Rows, held: Rows) -> float:
        mine, theirs = (np.mean([row["error"] for row in each], axis=0)[:, horizon] for each in (rows, held))
        return float(np.mean(mine / theirs))

    return value


def _f1(rows: Rows, held: Rows) -> float:
    if not all("onset" in row for row in rows):
        return float("nan")
    hits, reported, true = np.sum([row["onset"] for row in rows], axis=0)
    return float(2.0 * hits / max(reported + true, 1))


MEASURES: Final = (
    *(Measure(f"{ms} ms", ratio(i)) for i, ms in enumerate(HORIZONS_MS) if ms >= 100),
    Measure("event NLL", mean_of("event_nll")),
    Measure("onset F1", _f1),
    Measure("scalars", mean_of("scalar_error"), 4),
)
"""Errors of the parameters as a ratio to hold's, mean over the eight; nats a frame; F1 of onsets announced
at least 100 ms before; mean absolute error of the scalars. Less is better, but for F1."""

STUDY: Final = Study(
    title="Does geometry help on motion?",
    options=MotionOptions,
    arms=ARMS,
    # What geometry adds first, then where scalars enter, then the other parts.
    pairs=(
        ("trajectory", "random"),
        ("trajectory-alive", "random-alive"),
        ("trajectory-alive", "trajectory"),
        ("trajectory-alive", "none"),
        *(("trajectory", other) for other in ("none", "alibi", "rope", "input")),
        *((one, "none") for one in ("input", "random", "random-alive", "alibi", "rope")),
        *(("trajectory", other) for other in ("no-slow", "no-pathway-gate", "no-event-gate")),
        ("trajectory-rope", "random-rope"),
        ("trajectory-rope", "rope"),
    ),
    tables=(("Errors as a ratio to hold's, events and scalars", MEASURES),),
    ground=lambda options, case, folder: MotionGround(options, folder),
    seeds="0-4",
    views=tuple(SIDES),
    units=units,
)
