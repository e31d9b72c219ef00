"""``pyanticip evaluate motion``: a checkpoint on people it never saw, beside its rivals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pyanticip.controls import BEAT_LEAD_MS
from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models import MotionTransformer, load_motion_model
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.vocabulary import EVENTS, HORIZONS_MS, RATE, SCALAR_COLUMNS, SCALARS
from training.data.examples import Example
from training.evaluate.beat import by_category, model_rows
from training.evaluate.calibration import calibration
from training.evaluate.events import Announcements
from training.evaluate.extrapolator import detect, extrapolate, places
from training.evaluate.fewer_joints import suit_rows
from training.evaluate.gating import gate_curves
from training.evaluate.rivals import SETTINGS, AllRivals, tune
from training.evaluate.rules import LEADS_MS, live
from training.evaluate.shares import compare
from training.evaluate.source import Held, Source
from training.tasks.motion.scores import Predictions, measure, run_model
from training.teacher.handmade import PARAMETERS_SINCE, TEACHER_VERSION

WORST: Final = 3
"""How many clips are drawn for being the worst."""

SHORT: Final = 50
"""Judged frames below which a clip is not drawn for being the worst."""

Note = Callable[[str], None]


@dataclass
class Drawn:
    """What the pictures need beside the numbers."""

    clips: list[tuple[Example, NDArray[np.float32], NDArray[np.float32], Announcements]] = field(
        default_factory=list
    )
    """Clip, what the model says (T, 8, 5), what holding says, and the onsets it announces; worst first."""


def evaluate(
    checkpoint: Path | str | None,
    data_dir: Path | str,
    split: str = "validation",
    *,
    cache: Path | str | None = None,
    manifest: Path | str | None = None,
    settings: Path | str | None = None,
    subjects: Sequence[str] = (),
    joints: Sequence[int] = (),
    clip: str | None = None,
    latency: Mapping[str, Any] | None = None,
    seed: int = 0,
    on_part: Note | None = None,
) -> tuple[dict[str, Any], Drawn]:
    """Judge a checkpoint.

    Args:
        checkpoint: its folder; the packaged one where it is None.
        data_dir: a set, or a folder of takes, which is built into one first as ``train motion`` does.
        split: which subjects: validation, test, or held-out: both.
        cache: folder of sets that are built on the way; the user's cache folder by default.
        manifest: what the takes show (``MANIFEST.csv`` or its folder); the one in ``data_dir`` by default.
        settings: folder of tuned rivals; the package's own by default.
        subjects: judge these instead of a split, say some that a run of training left out.
        joints: suits to judge besides, by how many joints they have.
        clip: a clip to draw instead of the worst ones, ``06_13/16`` for example.
        latency: result of ``pyanticip bench step``, to stand beside the quality.
        seed: of every bootstrap.
        on_part: called with what comes next.

    Returns:
        A dictionary of plain values, and what its pictures need.

    Raises:
        CheckpointError: no usable checkpoint, or one that another teacher taught.
        FormatError: no usable motion, or rivals for another teacher.
        OptionError: no such split, subject or clip.
    """
    say = on_part or (lambda part: None)
    say("checkpoint and motion")
    described = read_manifest(checkpoint)
    version = described.training.get("teacher_version", TEACHER_VERSION)
    if version not in range(PARAMETERS_SINCE, TEACHER_VERSION + 1):
        raise CheckpointError(
            f"checkpoint {described.folder}: was taught by teacher {version}, "
            f"expected {PARAMETERS_SINCE} to {TEACHER_VERSION}"
        )
    model: MotionTransformer = load_motion_model(checkpoint)
    rivals = AllRivals.load(SETTINGS if settings is None else Path(settings))
    source = Source(
        Path(data_dir),
        None if cache is None else Path(cache),
        None if manifest is None else Path(manifest),
        quiet=on_part is None,
    )
    held = source.judged(split, subjects)
    examples, groups = [one.example for one in held], [one.group for one in held]
    shown = [example for example in examples if clip in (None, example.name)]
    if not shown:
        raise OptionError(f"no clip {clip!r} among those judged")

    say("the model")
    said = [run_model(model, example) for example in examples]
    answers = {id(example): one for example, one in zip(examples, said, strict=True)}
    errors = {"model": measure(examples, lambda example: answers[id(example)].params)}
    for name, predict in rivals.predictors().items():
        say(f"rival: {name}")
        errors[name] = measure(examples, predict)
    report = {
        "format": "pyanticip-motion-report",
        "checkpoint": {"name": described.name, "parameters": described.parameters},
        "data": source.described(),
        "split": "subjects" if subjects else split,
        "teacher_version": TEACHER_VERSION,
        "settings": "tuned on the packaged model's training subjects" if settings is None else str(settings),
        "horizons_ms": list(HORIZONS_MS),
        "warnings": [*_warnings(described.training, examples), *_sounds(held)],
        **compare(errors, seed=seed),
    }
    say("events")
    report["events"] = _events(model, source, held, said, rivals, split, subjects, groups)
    say("calibration and gate")
    report["calibration"] = calibration(examples, said, seed=seed)
    report["gate"] = gate_report(examples, said) | {"curves": gate_curves(examples, said)}
    report["scalars_mae"] = scalar_report(examples, said)
    if joints:
        say("suits")
        report["suits"] = suit_rows(model, held, joints, seed=seed)
    if latency is not None:
        report["latency"] = dict(latency)
    worst = _worst(shown, answers)
    report["worst"] = [{"clip": example.name, "mean_error": round(wrong, 4)} for wrong, example in worst]
    drawn = Drawn()
    hold = rivals.predictors()["hold"]
    for _, example in worst:
        one = answers[id(example)]
        drawn.clips.append((example, one.params, hold(example), live(one, 0, lead_ms=BEAT_LEAD_MS)))
    return report, drawn


def _warnings(training: Mapping[str, Any], examples: Sequence[Example]) -> list[str]:
    """Whether one person says it all, another teacher taught it, and who is not known to have been held out
    of its training."""
    found = []
    if len({example.subject for example in examples}) == 1:
        found.append("one subject: the intervals say nothing about other people")
    version = training.get("teacher_version", TEACHER_VERSION)
    if version != TEACHER_VERSION:
        found.append(f"taught by teacher {version}; its events are judged by teacher {TEACHER_VERSION}")
    kept = training.get("held_out")
    if not isinstance(kept, Mapping):
        return [*found, "the checkpoint does not say which subjects it was not trained on"]
    out = {str(name) for names in kept.values() for name in names}
    if seen := sorted({example.subject for example in examples} - out):
        who = ", ".join(seen)
        found.append(f"not held out of this checkpoint's training as far as it says: subject {who}")
    return found


def _sounds(held: Sequence[Held]) -> list[str]:
    """That rivals do not hear what some clips are taught by."""
    count = sum(one.by_sound for one in held)
    if not count:
        return []
    return [
        f"{count} of {len(held)} clips are taught by their sound, not by the teacher of movement, whose "
        "causal twin the rivals play: there they are no measure"
    ]


def _events(
    model: MotionTransformer,
    source: Source,
    held: Sequence[Held],
    said: Sequence[Predictions],
    rivals: AllRivals,
    split: str,
    subjects: Sequence[str],
    groups: Sequence[str],
) -> list[dict[str, Any]]:
    """The table of events: the model by both rules, the extrapolator, and the detector that is late."""
    examples = [one.example for one in held]
    # Settings of announcements come from other subjects: of the validation side, or of those judged.
    if subjects or split == "validation":
        chosen_on = (examples, list(said))
    else:
        choosers = [one.example for one in source.load("validation")]
        chosen_on = (choosers, [run_model(model, example) for example in choosers])
    rows = model_rows(examples, said, groups, chosen_on)
    placed = [places(example.quats) for example in examples]
    for kind in range(len(EVENTS)):
        for lead_ms, one in zip(LEADS_MS, rivals.events.extrapolators[kind], strict=True):
            told = [extrapolate(place, kind, lead_ms * RATE / 1000.0, one) for place in placed]
            rows += by_category(examples, groups, told, who="extrapolator", kind=kind, lead_ms=lead_ms)
        found = [detect(place, kind, rivals.events.detectors[kind]) for place in placed]
        for who, reports in zip(
            ("detector", "detector, in hindsight"), zip(*found, strict=True), strict=True
        ):
            rows += by_category(examples, groups, reports, who=who, kind=kind, lead_ms=None)
    return rows


def _worst(
    examples: Sequence[Example], answers: Mapping[int, Predictions], count: int = WORST
) -> list[tuple[float, Example]]:
    """The clips with the largest mean error 200 ms ahead, and that error."""
    found: list[tuple[bool, float, int]] = []
    for number, example in enumerate(examples):
        errors = measure([example], lambda one: answers[id(one)].params)
        if len(errors.sums):
            short = bool(errors.counts[0, 3] < SHORT)
            found.append((short, -float(errors.mean()[:, 3].mean()), number))
    # Of clips with less than a second to judge, only where there are no others.
    return [(-wrong, examples[number]) for _, wrong, number in sorted(found)[:count]]


def gate_report(examples: Sequence[Example], said: Sequence[Predictions]) -> dict[str, float]:
    """Does the commitment gate follow commitment?"""
    gate = np.concatenate([s.gate for s in said]).astype(np.float64)
    given = np.concatenate([e.features[:, SCALAR_COLUMNS[0]] for e in examples]).astype(np.float64)
    spread = float(gate.std())
    related = float(np.corrcoef(gate, given)[0, 1]) if spread > 1e-9 else 0.0
    return {"std": round(spread, 4), "corr_commitment": round(related, 4)}


def scalar_report(examples: Sequence[Example], said: Sequence[Predictions]) -> dict[str, float]:
    """Mean absolute error of each scalar as the refined head predicts it."""
    low, high = SCALAR_COLUMNS
    wrong = np.concatenate(
        [np.abs(s.scalars - e.features[:, low:high]) for e, s in zip(examples, said, strict=True)]
    )
    return {name: round(float(value), 4) for name, value in zip(SCALARS, wrong.mean(axis=0), strict=True)}


def retune(
    data_dir: Path | str, folder: Path | str, *, cache: Path | str | None = None, on_part: Note | None = None
) -> AllRivals:
    """Tune all rivals on the training subjects and save their settings in a folder."""
    source = Source(Path(data_dir), None if cache is None else Path(cache), quiet=on_part is None)
    rivals = tune([one.example for one in source.load("train")], on_part)
    rivals.save(Path(folder))
    return rivals
