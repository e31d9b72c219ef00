"""Beats of training subjects, by a model that was made without them.

Nobody who is held out for good runs for long enough to be judged, and the only dancer among them stands. So
what a model makes of running and dance is shown on people of the training side, by another model of the same
options. Beside it stands what the exact movement to come would allow: somebody is told so much of it, applies
the teacher's definition to the clip that ends there, and guesses nothing of what follows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import OptionError
from pyanticip.models import load_motion_model
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.vocabulary import RATE
from training.evaluate.beat import by_category
from training.evaluate.events import Announcements
from training.evaluate.extrapolator import extrapolate, places
from training.evaluate.oracle import cut_short, ends_of, foreseen, known_at, speed_of
from training.evaluate.rivals import SETTINGS, AllRivals
from training.evaluate.rules import LEADS_MS, live
from training.evaluate.source import Source
from training.tasks.motion.scores import run_model

KNOWN_MS: Final = (100, 200, 300)
"""How much of the movement to come is told."""
OURS: Final = "model, as it plays"


def parse(text: str) -> tuple[Path, tuple[str, ...]]:
    """A checkpoint and the training subjects that it was made without, of ``CHECKPOINT=SUBJECTS``.

    Raises:
        OptionError: anything else.
    """
    folder, _, names = text.partition("=")
    subjects = tuple(filter(None, names.split(",")))
    if not folder or not subjects:
        raise OptionError(f"--fold: expected CHECKPOINT=SUBJECTS, given {text!r}")
    return Path(folder), subjects


def judge(folder: Path, subjects: Sequence[str], data: Path, *, cache: Path | None = None) -> dict[str, Any]:
    """What a checkpoint announces of subjects it was made without.

    Args:
        folder: the checkpoint.
        subjects: they.
        data: a set, or a folder of takes.
        cache: folder of sets that are built on the way.

    Returns:
        Its name, the subjects, and rows as those of :func:`training.evaluate.beat.by_category`, of onsets.

    Raises:
        CheckpointError: no usable checkpoint.
        OptionError: a subject that is not there, or that the checkpoint does not say it was made without.
    """
    described = read_manifest(folder)
    out = {str(name) for names in dict(described.training.get("held_out", {})).values() for name in names}
    if seen := sorted(set(subjects) - out):
        raise OptionError(f"{folder}: as far as it says, it was trained on subject {', '.join(seen)}")
    model = load_motion_model(folder)
    held = Source(data, cache).judged("held-out", subjects)
    examples, groups = [one.example for one in held], [one.group for one in held]
    said = [run_model(model, example) for example in examples]
    placed = [places(example.quats) for example in examples]
    ends = [ends_of(example.quats) for example in examples]
    known = [known_at(speed_of(e), cut_short(e)) for e in ends]
    extrapolators = AllRivals.load(SETTINGS).events.extrapolators[0]
    rows: list[dict[str, Any]] = []
    for lead_ms, settings in zip(LEADS_MS, extrapolators, strict=True):
        lead = round(lead_ms * RATE / 1000.0)
        told: dict[str, list[Announcements]] = {
            OURS: [live(one, 0, lead_ms=float(lead_ms)) for one in said],
            "extrapolator": [extrapolate(place, 0, float(lead), settings) for place in placed],
        }
        for ms in KNOWN_MS:
            told[_knowing(ms)] = [foreseen(one, round(ms * RATE / 1000.0), lead) for one in known]
        for who, reports in told.items():
            rows += by_category(examples, groups, reports, who=who, kind=0, lead_ms=lead_ms)
    return {"checkpoint": described.name, "subjects": sorted(set(subjects)), "rows": rows}


def _knowing(ms: int) -> str:
    return f"who knows the next {ms} ms"


def section(report: Mapping[str, Any], bar: float) -> str:
    """The report as Markdown: what it is about, and F1 by category and lead.

    Args:
        report: of :func:`judge`.
        bar: F1 that is asked of walking, running and dance 100 ms before.
    """
    rows = [row for row in report["rows"] if row["category"] != "all"]
    kinds = list(dict.fromkeys((row["category"], row["true"]) for row in rows)) or [
        (row["category"], row["true"]) for row in report["rows"][:1]
    ]
    rows = rows or list(report["rows"])
    cells = {(row["who"], row["category"], row["lead_ms"]): f"{row['f1']:.2f}" for row in rows}
    lines = [
        "## Running and dance, by people left out of training",
        "",
        "Nobody held out above runs for long enough to be judged, and 49 dances so slowly that no stroke is "
        f"a beat. So here subjects {' and '.join(report['subjects'])} of the training side are judged, by "
        "another model that was made without them "
        f"({report['checkpoint']}; how: [steadying](experiments/steadying/page.md)). "
        "They are not as blind as the test subjects: they chose the step whose weights were kept, the rule's "
        "settings were chosen with them in view, and the extrapolator was tuned on them too. F1 of onsets at "
        f"leads of {', '.join(map(str, LEADS_MS))} ms; at 100 ms at least {bar:.2f} is asked of walking, "
        "running and dance.",
        "",
        "The last rows are no rivals but the most that a forecast of the pose could give: somebody is told "
        "the exact movement of so many milliseconds to come, and applies the teacher's definition to it. "
        "Where movement repeats, as in walking, the model announces what only 200 to 300 ms would tell. In "
        "dance it would have to forecast 200 ms of a dancer when no other has shown it how. What else a "
        "beat could be, and what it would bring, is in [beats](experiments/beats/page.md).",
        "",
        "| | " + " | ".join(f"{name} ({count})" for name, count in kinds) + " |",
        "|---" * (len(kinds) + 1) + "|",
    ]
    for who in dict.fromkeys(row["who"] for row in rows):
        told = [" ".join(cells.get((who, name, ms), "-") for ms in LEADS_MS) for name, _ in kinds]
        lines.append(f"| {who} | " + " | ".join(told) + " |")
    return "\n".join(lines)


def summary(report: Mapping[str, Any], categories: Sequence[str], bar: float) -> str:
    """What it comes to, in a line."""
    found = {row["category"]: row for row in report["rows"] if row["who"] == OURS and row["lead_ms"] == 100}
    cells = [
        f"{name} {found[name]['f1']:.2f} ({found[name]['true']} events, "
        f"{'met' if found[name]['f1'] >= bar else 'missed'})"
        for name in categories
        if name in found
    ]
    who = ", ".join(report["subjects"])
    told = "; ".join(cells) or "no events"
    return f"Subjects left out of another model's training ({who}), the same F1: {told}."
