"""``pyanticip evaluate motion``: a checkpoint on strangers, each kind of movement apart, beside rivals."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import CheckpointError, FormatError
from pyanticip.models import load_motion_model
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.options import can_hold
from pyanticip.vocabulary import PARAMETERS, RATE
from training.data.sets.vary import VARY_VERSION
from training.evaluate import learned
from training.evaluate.baselines import SETTINGS, Baselines, Twins, answer, simple, systems_of, tune
from training.evaluate.beat import beat_rows
from training.evaluate.learned import Learned
from training.evaluate.measures import (
    AHEAD_MS,
    HARM,
    LAGS_MS,
    SHORTEST,
    TINY,
    Answer,
    Tally,
    beyond,
    harm,
    interval,
    lag_profile,
    mean_error,
    mean_of_ratios,
    ratio,
    tally,
    verdict,
)
from training.evaluate.takes import KINDS, Clip, Takes, implausible
from training.report.tables import Say
from training.tasks.motion.data import cache_folder
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.people import not_strangers, training_subjects
from training.tasks.motion.scores import Predictions, run_model
from training.teacher.kinematic_targets import TEACHER_VERSION

MODEL: Final = "model"


@dataclass(frozen=True)
class Field:
    """Everybody who says something of the clips, in the order of the tallies."""

    names: Sequence[str]
    simple: Sequence[int]
    """The rivals that have learned nothing."""
    baselines: Sequence[int]
    """Those and the ones that have."""

    @property
    def judged(self) -> list[int]:
        """Who has a row in the tables: all but the simple rivals."""
        return [n for n in range(len(self.names)) if n not in self.simple]


def evaluate(
    checkpoint: Path | str | None,
    data_dir: Path | str,
    split: str = "validation",
    *,
    people: Sequence[str] = (),
    cache: Path | str | None = None,
    manifest: Path | str | None = None,
    settings: Path | str | None = None,
    seeds: int = 1,
    seed: int = 0,
    say: Say = lambda what, done, of: None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Judge a checkpoint.

    Args:
        checkpoint: its folder; the packaged one where it is None.
        data_dir: a set, or a folder of takes, which is built into one first as ``train motion`` does.
        split: which people: validation or test.
        people: judge these instead, say some that a run of training left out.
        cache: folder of sets and fitted rivals; the user's cache folder by default.
        manifest: what the takes show (``MANIFEST.csv`` or its folder); what the set says by default.
        settings: folder of tuned rivals; the package's own by default.
        seeds: how many recurrent rivals.
        seed: of every bootstrap.
        say: told how far it is.
        tell: told that the rivals that learn are fitted, which takes minutes, where none are kept.

    Returns:
        A dictionary of plain values.

    Raises:
        CheckpointError: no usable checkpoint, or one that another teacher taught.
        FormatError: no usable motion, or rivals for another teacher.
        OptionError: nobody of that name.
    """
    described = read_manifest(checkpoint)
    version = described.training.get("teacher_version", TEACHER_VERSION)
    if version != TEACHER_VERSION:
        raise CheckpointError(
            f"checkpoint {described.folder}: was taught by teacher {version}, expected {TEACHER_VERSION}"
        )
    model = load_motion_model(checkpoint)
    tuned = Baselines.load(SETTINGS if settings is None else Path(settings))
    takes = Takes(
        Path(data_dir), None if cache is None else Path(cache), None if manifest is None else Path(manifest)
    )
    strangers = takes.strangers(split, people)
    flagged = {
        clip.name: words for clip in strangers if (words := implausible(clip.example.quats, RATE, clip.kind))
    }
    clips = [c for c in strangers if len(c.example) >= SHORTEST and c.name not in flagged]
    if not clips:
        longest = max(len(clip.example) for clip in strangers)
        raise FormatError(
            f"{data_dir}: nothing to judge: the longest clip has {longest} frames, "
            f"expected at least {SHORTEST}, at a plausible rate"
        )
    judged = {clip.person for clip in clips}
    taught = [clip for clip in takes.clips if clip.side == "train" and clip.person not in judged]
    baselines = _learned(takes, taught, cache, seeds, say, tell)
    systems = systems_of(model)

    def answers(clip: Clip, shown: Sequence[Clip], output: Predictions) -> dict[str, Answer]:
        twins = Twins(clip.example.quats)
        found = simple(clip.example, twins, tuned)
        found |= baselines.answers(twins) if baselines is not None else {}
        found[MODEL] = answer(output.params)
        return found | {
            name: system(clip.example, output, [one.example for one in shown])
            for name, system in systems.items()
        }

    by_source: dict[str, list[Clip]] = {}
    for clip in takes.clips:
        by_source.setdefault(clip.source, []).append(clip)
    before = {second: by_source[first] for first, second in takes.pairs}
    alone, again, outputs = [], [], []
    names: list[str] = []
    for number, clip in enumerate(clips):
        outputs.append(run_model(model, clip.example))
        answered = answers(clip, (), outputs[-1])
        names = list(answered)
        alone.append(tally(clip.person, clip.example.params, list(answered.values())))
        if clip.source in before:
            answered = answers(clip, before[clip.source], outputs[-1])
            again.append((clip, tally(clip.person, clip.example.params, list(answered.values()))))
        say("clips", number + 1, len(clips))
    plain = len(simple(clips[0].example, Twins(clips[0].example.quats), tuned))
    learnt = len(baselines.recurrent) + 2 if baselines is not None else 0
    field = Field(names, range(plain), range(plain + learnt))
    kinds = [clip.kind for clip in clips]
    report: dict[str, Any] = {
        "format": "pyanticip-motion-report-3",
        "checkpoint": {
            "name": described.name,
            "parameters": described.parameters,
            "learned_from": sorted(training_subjects(described.training)),
        },
        "data": takes.digest,
        "split": "people" if people else split,
        "teacher_version": TEACHER_VERSION,
        "settings": "tuned on the packaged model's training subjects" if settings is None else str(settings),
        "horizons_ms": list(AHEAD_MS),
        "lags_ms": list(LAGS_MS),
        "taught": sorted({clip.person for clip in taught}),
        "simple": [names[n] for n in field.simple],
        "learned": [names[n] for n in field.baselines if n not in field.simple],
        "flagged": flagged,
        "warnings": [*takes.warnings, *_warnings(described.training, clips, baselines)],
        "kinds": {},
        "second_time": {},
    }
    for kind in KINDS:
        mine = [n for n, one in enumerate(kinds) if one == kind]
        if mine:
            report["kinds"][kind] = _kind([clips[n] for n in mine], [alone[n] for n in mine], field, seed)
        twice = [(clip, one) for clip, one in again if clip.kind == kind]
        if twice:
            report["second_time"][kind] = _kind([c for c, _ in twice], [t for _, t in twice], field, seed)
    say("events", 0, 1)
    report["events"] = beat_rows([clip.example for clip in clips], kinds, outputs, tuned.events.extrapolators)
    say("events", 1, 1)
    return report


def _learned(
    takes: Takes,
    taught: Sequence[Clip],
    cache: Path | str | None,
    seeds: int,
    say: Say,
    tell: Callable[[str], None],
) -> Learned | None:
    """The rivals that learn, from the training side; none where nobody is on it."""
    if not taught:
        return None
    who = sorted({clip.person for clip in taught})
    of = (takes.digest, who, TEACHER_VERSION, VARY_VERSION, learned.VERSION)
    key = hashlib.sha256(repr(of).encode()).hexdigest()
    options = MotionTrainOptions().but(data={"cache": cache or ""})
    folder = cache_folder(options) / f"rivals-{key[:16]}"
    examples, pieces = [clip.example for clip in taught], [clip.piece for clip in taught]
    return learned.fit(examples, pieces, folder, seeds=seeds, say=say, tell=tell)


def _kind(clips: Sequence[Clip], tallies: Sequence[Tally], field: Field, seed: int) -> dict[str, Any]:
    """What is said of one kind of movement."""
    error = mean_error(tallies)
    best = error[list(field.baselines)].argmin(axis=0)
    return {
        "people": sorted({clip.person for clip in clips}),
        "clips": len(clips),
        "seconds": round(sum(len(clip.example) for clip in clips) / RATE, 1),
        "best_rivals": {
            name: [field.names[field.baselines[r]] for r in row]
            for name, row in zip(PARAMETERS, best.tolist(), strict=True)
        },
        "errors": {field.names[n]: _rounded(error[n].mean(axis=0), 5) for n in range(len(field.names))},
        "rows": {field.names[n]: _row(clips, tallies, error, n, field, seed) for n in field.judged},
        "profile": [_rounded(row) for row in lag_profile(tallies, field.names.index(MODEL))],
    }


def _row(
    clips: Sequence[Clip], tallies: Sequence[Tally], error: Any, one: int, field: Field, seed: int
) -> dict[str, Any]:
    """One forecaster in one kind of movement, at the three horizons."""
    others = [n for n in field.baselines if n != one]
    plain = _rounded(ratio(error, one, field.simple))
    spread = interval(tallies, one, field.simple, seed=seed)
    low, high = (None, None) if spread is None else map(_rounded, spread)
    lags = [LAGS_MS[n] for n in lag_profile(tallies, one).argmax(axis=-1)]
    explained = _rounded(beyond(tallies, one, others))
    hurt = harm(tallies, one, others)
    worst = hurt.argmax(axis=0)
    return {
        "ratio": plain,
        "low": low,
        "high": high,
        "mean_of_ratios": _rounded(mean_of_ratios(error, one, field.simple)),
        "ratio_with_learned": _rounded(ratio(error, one, others)),
        "parameters": {
            name: _rounded(row)
            for name, row in zip(
                PARAMETERS, error[one] / (error[list(field.simple)].min(axis=0) + TINY), strict=True
            )
        },
        "lag_ms": lags,
        "beyond": explained,
        "beyond_simple": _rounded(beyond(tallies, one, field.simple)),
        "verdict": [
            verdict(*each)
            for each in zip(
                lags, explained, plain, low or (None,) * 3, high or (None,) * 3, AHEAD_MS, strict=True
            )
        ],
        "harmed": (hurt > HARM).sum(axis=0).tolist(),
        "worst": [
            {"clip": clips[n].name, "ratio": round(float(hurt[n, i]), 2)}
            for i, n in enumerate(worst.tolist())
        ],
    }


def _rounded(values: Any, digits: int = 3) -> list[float]:
    return [round(float(value), digits) for value in values]


def _warnings(training: Mapping[str, Any], clips: Sequence[Clip], baselines: Learned | None) -> list[str]:
    """Who is no stranger to the checkpoint, and what is no measure."""
    found = []
    if baselines is None:
        found.append("nobody on the training side: no rival has learned")
    if sounds := sum(clip.by_sound for clip in clips):
        found.append(
            f"{sounds} of {len(clips)} clips are taught by their sound, not by the teacher of movement, "
            "whose causal twin the rivals play: there they are no measure"
        )
    return found + not_strangers(training, {clip.person for clip in clips})


def retune(
    data_dir: Path | str, folder: Path | str, *, cache: Path | str | None = None, say: Say
) -> Baselines:
    """Tune the simple rivals on the training side and save their settings in a folder."""
    can_hold(Path(folder))
    takes = Takes(Path(data_dir), None if cache is None else Path(cache))
    baselines = tune([clip.example for clip in takes.training_clips()], lambda part: say(part, 0, 1))
    baselines.save(Path(folder))
    return baselines
