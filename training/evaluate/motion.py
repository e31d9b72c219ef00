"""``pyanticip evaluate motion``: a checkpoint on held-out people, by kind of movement, beside baselines."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import FormatError
from pyanticip.options import check_writable_folder
from pyanticip.vocabulary import PARAMETERS, RATE
from training.data.sets.vary import VARY_VERSION
from training.evaluate import learned
from training.evaluate.baselines import SETTINGS, Baselines, Twins, answer, simple_forecasts, systems_of, tune
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
from training.report.tables import ProgressCallback
from training.tasks.motion.data import cache_folder
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.people import load_taught, training_overlap_warnings, training_subjects
from training.tasks.motion.scores import Predictions, run_model
from training.teacher.kinematic_targets import TEACHER_VERSION

MODEL: Final = "model"


@dataclass(frozen=True)
class Forecasters:
    """All forecasters that are evaluated, in the order of the tallies."""

    names: Sequence[str]
    simple: Sequence[int]
    """Indices of the baselines without learning."""
    baselines: Sequence[int]
    """Indices of all baselines."""

    @property
    def in_tables(self) -> list[int]:
        """Indices of those with a row in the tables: all but the simple baselines."""
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
    say: ProgressCallback = lambda what, done, of: None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Evaluate a checkpoint.

    Args:
        checkpoint: folder of the checkpoint; None for the packaged one.
        data_dir: a set, or a folder of takes, which is built into a set as in ``train motion``.
        split: validation or test.
        people: evaluate these people instead, e.g. some that a training run left out.
        cache: cache folder of sets and fitted baselines; the user's cache folder by default.
        manifest: descriptions of the takes (``MANIFEST.csv`` or its folder); those in the set by default.
        settings: folder of tuned baselines; the package's own by default.
        seeds: number of recurrent baselines.
        seed: seed of the bootstraps.
        say: progress callback.
        tell: called with a notice if the learned baselines have to be fitted, which takes minutes.

    Returns:
        The report as JSON values.

    Raises:
        CheckpointError: the checkpoint is unusable, or was trained with another teacher.
        FormatError: there is no usable motion, or the baselines are for another teacher.
        OptionError: nobody of that name.
    """
    description, model = load_taught(checkpoint)
    tuned = Baselines.load(SETTINGS if settings is None else Path(settings))
    takes = Takes(
        Path(data_dir), None if cache is None else Path(cache), None if manifest is None else Path(manifest)
    )
    held_out = takes.held_out_clips(split, people)
    flagged = {
        clip.name: words for clip in held_out if (words := implausible(clip.example.quats, RATE, clip.kind))
    }
    clips = [c for c in held_out if len(c.example) >= SHORTEST and c.name not in flagged]
    if not clips:
        longest = max(len(clip.example) for clip in held_out)
        raise FormatError(
            f"{data_dir}: nothing to evaluate: the longest clip has {longest} frames, "
            f"expected at least {SHORTEST}, at a plausible rate"
        )
    test_people = {clip.person for clip in clips}
    training = takes.checked(
        [clip for clip in takes.clips if clip.side == "train" and clip.person not in test_people]
    )
    baselines = _learned(takes, training, cache, seeds, say, tell)
    systems = systems_of(model)

    def answers(clip: Clip, earlier: Sequence[Clip], output: Predictions) -> dict[str, Answer]:
        twins = Twins(clip.example.quats)
        forecasts = simple_forecasts(twins, tuned)
        forecasts |= baselines.answers(twins) if baselines is not None else {}
        forecasts[MODEL] = answer(output.params)
        return forecasts | {
            name: system(clip.example, output, [one.example for one in earlier])
            for name, system in systems.items()
        }

    by_source: dict[str, list[Clip]] = {}
    for clip in takes.clips:
        by_source.setdefault(clip.source, []).append(clip)
    earlier_take = {second: by_source[first] for first, second in takes.pairs}
    first_tallies, second_tallies, outputs = [], [], []
    names: list[str] = []
    for number, clip in enumerate(clips):
        outputs.append(run_model(model, clip.example))
        forecasts = answers(clip, (), outputs[-1])
        names = list(forecasts)
        first_tallies.append(tally(clip.person, clip.example.params, list(forecasts.values())))
        if clip.source in earlier_take:
            forecasts = answers(clip, earlier_take[clip.source], outputs[-1])
            second_tallies.append((clip, tally(clip.person, clip.example.params, list(forecasts.values()))))
        say("clips", number + 1, len(clips))
    simple_count = len(simple_forecasts(Twins(clips[0].example.quats), tuned))
    learned_count = len(baselines.recurrent) + 2 if baselines is not None else 0
    forecasters = Forecasters(names, range(simple_count), range(simple_count + learned_count))
    kinds = [clip.kind for clip in clips]
    report: dict[str, Any] = {
        "format": "pyanticip-motion-report-3",
        "checkpoint": {
            "name": description.name,
            "parameters": description.parameters,
            "learned_from": sorted(training_subjects(description.training)),
        },
        "data": takes.digest,
        "split": "people" if people else split,
        "test_people": sorted({clip.person for clip in clips if clip.side == "test"}),
        "teacher_version": TEACHER_VERSION,
        "settings": "tuned on the packaged model's training subjects" if settings is None else str(settings),
        "horizons_ms": list(AHEAD_MS),
        "lags_ms": list(LAGS_MS),
        "taught": sorted({clip.person for clip in training}),
        "simple": [names[n] for n in forecasters.simple],
        "learned": [names[n] for n in forecasters.baselines if n not in forecasters.simple],
        "flagged": flagged,
        "warnings": [*takes.warnings, *_warnings(description.training, clips, baselines)],
        "kinds": {},
        "second_time": {},
    }
    for kind in KINDS:
        members = [n for n, one in enumerate(kinds) if one == kind]
        if members:
            report["kinds"][kind] = _kind(
                [clips[n] for n in members], [first_tallies[n] for n in members], forecasters, seed
            )
        repeats = [(clip, one) for clip, one in second_tallies if clip.kind == kind]
        if repeats:
            report["second_time"][kind] = _kind(
                [c for c, _ in repeats], [t for _, t in repeats], forecasters, seed
            )
    say("events", 0, 1)
    report["events"] = beat_rows([clip.example for clip in clips], kinds, outputs, tuned.events.extrapolators)
    say("events", 1, 1)
    return report


def _learned(
    takes: Takes,
    training: Sequence[Clip],
    cache: Path | str | None,
    seeds: int,
    say: ProgressCallback,
    tell: Callable[[str], None],
) -> Learned | None:
    """Fit the learned baselines on the training clips, or load them; None without training clips."""
    if not training:
        return None
    people = sorted({clip.person for clip in training})
    inputs: tuple[object, ...] = (takes.digest, people, TEACHER_VERSION, VARY_VERSION, learned.VERSION)
    # The teacher would label the copies of a clip whose targets come from a sound: there are none of it.
    pieces = [clip.piece for clip in training if not clip.by_sound]
    if len(pieces) < len(training):
        inputs = (*inputs, "no copies of sounds")
    key = hashlib.sha256(repr(inputs).encode()).hexdigest()
    options = MotionTrainOptions().replace(data={"cache": cache or ""})
    folder = cache_folder(options) / f"rivals-{key[:16]}"
    return learned.fit([clip.example for clip in training], pieces, folder, seeds=seeds, say=say, tell=tell)


def _kind(
    clips: Sequence[Clip], tallies: Sequence[Tally], forecasters: Forecasters, seed: int
) -> dict[str, Any]:
    """Section of the report for one kind of movement."""
    error = mean_error(tallies)
    best = error[list(forecasters.baselines)].argmin(axis=0)
    return {
        "people": sorted({clip.person for clip in clips}),
        "clips": len(clips),
        "seconds": round(sum(len(clip.example) for clip in clips) / RATE, 1),
        "best_rivals": {
            name: [forecasters.names[forecasters.baselines[r]] for r in row]
            for name, row in zip(PARAMETERS, best.tolist(), strict=True)
        },
        "errors": {
            forecasters.names[n]: _rounded(error[n].mean(axis=0), 5) for n in range(len(forecasters.names))
        },
        "rows": {
            forecasters.names[n]: _row(clips, tallies, error, n, forecasters, seed)
            for n in forecasters.in_tables
        },
        "profile": [_rounded(row) for row in lag_profile(tallies, forecasters.names.index(MODEL))],
    }


def _row(
    clips: Sequence[Clip],
    tallies: Sequence[Tally],
    error: Any,
    index: int,
    forecasters: Forecasters,
    seed: int,
) -> dict[str, Any]:
    """Measures of one forecaster in one kind of movement, at the three horizons."""
    others = [n for n in forecasters.baselines if n != index]
    ratios = _rounded(ratio(error, index, forecasters.simple))
    spread = interval(tallies, index, forecasters.simple, seed=seed)
    low, high = (None, None) if spread is None else map(_rounded, spread)
    lags = [LAGS_MS[n] for n in lag_profile(tallies, index).argmax(axis=-1)]
    explained = _rounded(beyond(tallies, index, others))
    harm_ratios = harm(tallies, index, others)
    worst = harm_ratios.argmax(axis=0)
    return {
        "ratio": ratios,
        "low": low,
        "high": high,
        "mean_of_ratios": _rounded(mean_of_ratios(error, index, forecasters.simple)),
        "ratio_with_learned": _rounded(ratio(error, index, others)),
        "parameters": {
            name: _rounded(row)
            for name, row in zip(
                PARAMETERS, error[index] / (error[list(forecasters.simple)].min(axis=0) + TINY), strict=True
            )
        },
        "lag_ms": lags,
        "beyond": explained,
        "beyond_simple": _rounded(beyond(tallies, index, forecasters.simple)),
        "verdict": [
            verdict(*each)
            for each in zip(
                lags, explained, ratios, low or (None,) * 3, high or (None,) * 3, AHEAD_MS, strict=True
            )
        ],
        "harmed": (harm_ratios > HARM).sum(axis=0).tolist(),
        "worst": [
            {"clip": clips[n].name, "ratio": round(float(harm_ratios[n, i]), 2)}
            for i, n in enumerate(worst.tolist())
        ],
    }


def _rounded(values: Any, digits: int = 3) -> list[float]:
    return [round(float(value), digits) for value in values]


def _warnings(training: Mapping[str, Any], clips: Sequence[Clip], baselines: Learned | None) -> list[str]:
    """Warn about people the checkpoint was trained on, and about figures that are not meaningful."""
    warnings = []
    if baselines is None:
        warnings.append("nobody on the training side: no rival has learned")
    if sounds := sum(clip.by_sound for clip in clips):
        warnings.append(
            f"the targets of {sounds} of {len(clips)} clips come from their sound, not from "
            "the teacher of movement, whose causal twin the rivals use: comparisons mean nothing there"
        )
    return warnings + training_overlap_warnings(training, {clip.person for clip in clips})


def retune(
    data_dir: Path | str, folder: Path | str, *, cache: Path | str | None = None, say: ProgressCallback
) -> Baselines:
    """Tune the simple baselines on the training clips and save their settings in a folder."""
    check_writable_folder(Path(folder))
    takes = Takes(Path(data_dir), None if cache is None else Path(cache))
    baselines = tune([clip.example for clip in takes.training_clips()], lambda part: say(part, 0, 1))
    baselines.save(Path(folder))
    return baselines
