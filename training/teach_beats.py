"""Teach a motion model's event head to hear strokes, with the trunk as it is.

The model gets ``strokes=True`` and the head of :mod:`training.strokes`, learned from the training clips,
varied copies and copies that are played faster (:mod:`training.beat_strokes`). What standardised the head's
inputs goes into its weights, and the hazards of onsets that the checkpoint had make room: its last layer says
nothing of them any more. Parameters, phrases, scalars and the gate stay what they were, bit for bit.

``pyanticip train beats`` (:mod:`training.beats_command`) does this with a set. The packaged head was taught
by this module, which reads the CMU takes as they were recorded:

    python -m training.teach_beats --data ../shared/data --out runs/beats
    python -m training.teach_beats --data ../shared/data --checkpoint runs/without/checkpoint \\
        --without 05,16 --out runs/beats-without
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from pyanticip.controls import EventTrigger
from pyanticip.errors import CheckpointError, MotionError, OptionError
from pyanticip.last_moment import LastMoment
from pyanticip.models import MotionTransformer, load_motion_model, save_checkpoint
from pyanticip.models.checkpoint.manifest import Manifest, read_manifest
from pyanticip.models.config import EVENT_BINS, HORIZONS_MS, PARAMETER_NAMES
from pyanticip.models.motion.strokes import STROKES
from training import beat_probe
from training.beat_strokes import hurried, listen
from training.data.examples import Example, training_examples
from training.evaluate.categories import group_of, read_categories
from training.evaluate.events import Announcements
from training.evaluate.rules import live
from training.strokes import STEPS, Beats, Heard, teach_beats
from training.tasks.motion.scores import run_model
from training.teacher.handmade import PARAMETERS_SINCE, TEACHER_VERSION

RULES: Final[Mapping[str, EventTrigger]] = {"reach": EventTrigger(), "last-moment": LastMoment()}
"""By the names that a rig has for them."""

MOST: Final = 600_000
"""Frames about which a head learns from; of more, every second or third is kept, so that memory suffices."""

Progress = Callable[[str, int, int], None]
"""Told what is done, how much of it, and how much there is."""


@dataclass(frozen=True)
class Lesson:
    """What a head learns from and is judged on."""

    clips: Iterable[Example]
    """Clips and copies, gone through once."""
    count: int
    """How many they are."""
    frames: int
    """How many frames they have, about."""
    judged: Sequence[Example]
    groups: Sequence[str]
    """Categories of those that are judged."""


def with_strokes(model: MotionTransformer, beats: Beats) -> MotionTransformer:
    """A copy of a model whose hazards of onsets are those of a head that has learned.

    Raises:
        OptionError: a model that cannot follow strokes.
    """
    heard = MotionTransformer(replace(model.cfg, strokes=True))
    heard.load_state_dict(model.state_dict(), strict=False)
    control, head = heard.control, beats.head
    assert control.beats is not None
    close, start = head.close, len(PARAMETER_NAMES) * len(HORIZONS_MS)
    if beats.mean.shape != (close + control.first.out_features,) or close < STROKES:
        raise OptionError(f"a head of {len(beats.mean)} numbers does not fit the model's control head")
    # Of z = (x - mean) / std the layers become those of x.
    mean, scale = beats.mean.double(), 1.0 / beats.std.double()
    narrow, first, skip = (layer.weight.double() for layer in (head.narrow, head.first, head.skip))
    narrow = narrow * scale[close:]
    offset = first[:, :close] @ (scale * mean)[:close] + first[:, close:] @ (narrow @ mean[close:])
    skip = skip * scale
    with torch.no_grad():
        control.beats.narrow.weight.copy_(narrow)
        control.beats.first.weight.copy_(torch.cat((first[:, :close] * scale[:close], first[:, close:]), 1))
        control.beats.first.bias.copy_(head.first.bias.double() - offset)
        control.beats.last.weight.copy_(head.last.weight)
        control.beats.last.bias.copy_(head.last.bias.double() - skip @ mean)
        control.beats.skip.weight.copy_(skip)
        control.last.weight[start : start + EVENT_BINS] = 0.0
        control.last.bias[start : start + EVENT_BINS] = 0.0
        control.base[:EVENT_BINS] = 0.0
    return heard.eval()


def able(checkpoint: Path | None) -> tuple[Manifest, MotionTransformer]:
    """A checkpoint whose head can be taught.

    Raises:
        CheckpointError: no motion model, or one that another teacher has taught its parameters.
        OptionError: a model that cannot follow strokes.
    """
    manifest, model = read_manifest(checkpoint), load_motion_model(checkpoint).eval()
    version = manifest.training.get("teacher_version", TEACHER_VERSION)
    if version not in range(PARAMETERS_SINCE, TEACHER_VERSION + 1):
        raise CheckpointError(
            f"checkpoint {manifest.folder}: was taught by teacher {version}, "
            f"expected {PARAMETERS_SINCE} to {TEACHER_VERSION}"
        )
    try:
        replace(model.cfg, strokes=True)
    except OptionError as error:
        raise OptionError(f"checkpoint {manifest.folder}: its head cannot hear strokes: {error}") from None
    return manifest, model


def hear(model: MotionTransformer, lesson: Lesson, progress: Progress) -> tuple[Heard, Tensor, Tensor]:
    """What a head learns from, and the bins of the next beat and how many are seen, (N,) each.

    Raises:
        OptionError: no beat in any clip.
    """
    every = max(-(-lesson.frames // MOST), 1)
    parts, subjects, frames, beats = [], [], dict[str, int](), 0
    for number, example in enumerate(lesson.clips, start=1):
        heard = listen(model, [example])
        asked = beat_probe.asked([example.onsets], [len(example)])
        parts.append([column[::every].clone() for column in (heard.seen, heard.gate, *asked)])
        subjects.append(example.subject)
        frames[example.subject] = frames.get(example.subject, 0) + len(example)
        beats += len(example.onsets)
        progress("listening", number, lesson.count)
    if not beats:
        raise OptionError(
            f"no beat in the {len(parts)} clips and copies to learn from: no hand, foot or head was fast "
            "enough and then slower; record livelier takes"
        )
    progress("listening", len(parts), len(parts))  # some copies may have been too short
    # Subjects count by the root of their frames, as in training.
    weights = [torch.full((len(p[1]),), frames[s] ** -0.5) for p, s in zip(parts, subjects, strict=True)]
    seen, gate, bins, known = (torch.cat(column) for column in zip(*parts, strict=True))
    return Heard(seen, heard.close, gate, torch.cat(weights)), bins, known


def judged(model: MotionTransformer, examples: Sequence[Example], groups: Sequence[str]) -> dict[str, Any]:
    """F1 of beats at 0, 100 and 200 ms by either rule, of what the model itself says."""
    said = {example.name: run_model(model, example) for example in examples}
    found = {}
    for name, rule in RULES.items():

        def announced(example: Example, ms: int, rule: EventTrigger = rule) -> Announcements:
            return live(said[example.name], 0, rule, lead_ms=float(ms))

        found[name] = beat_probe.judge(examples, groups, announced)
    return found


def teach(
    checkpoint: Path | None,
    out: Path,
    lesson: Lesson,
    *,
    steps: int = STEPS,
    seed: int = 0,
    noted: Mapping[str, Any],
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Teach the head of a checkpoint and write it anew.

    Args:
        checkpoint: the packaged one where it is None.
        out: folder of the new checkpoint; it is there whole or, after an error or Ctrl-C, not at all.
        lesson: what to learn from and what to judge on.
        steps: of the head's training.
        seed: of the head.
        noted: what else to note in the checkpoint.
        progress: told what is done.

    Returns:
        What is noted in the checkpoint.

    Raises:
        CheckpointError: see :func:`able`.
        OptionError: no beat to learn from, or a model that cannot follow strokes.
    """
    manifest, model = able(checkpoint)
    heard, bins, known = hear(model, lesson, progress)
    beats = teach_beats(
        heard, bins, known, steps=steps, seed=seed, on_step=lambda done: progress("learning", done, steps)
    )
    hearing, figures = with_strokes(model, beats), {}
    for number, (name, one) in enumerate({"before": model, "judged": hearing}.items()):
        progress("judging", number, 2)
        figures[name] = judged(one, lesson.judged, lesson.groups)
    progress("judging", 2, 2)
    report = {
        "teacher_version": TEACHER_VERSION,
        **noted,
        "steps": steps,
        "seed": seed,
        "frames": len(heard.seen),
        **figures,
    }
    training = {**manifest.training, "teacher_version": TEACHER_VERSION, "beats": report}
    progress("writing", 0, 1)
    save_checkpoint(out, hearing, training=training)
    progress("writing", 1, 1)
    return report


def takes_lesson(data: Path, cache: Path | None, without: Sequence[str], copies: int, faster: int) -> Lesson:
    """The CMU takes as they were recorded.

    Args:
        data: folder of takes, or its parent.
        cache: folder where retargeted motion is kept.
        without: training subjects that the checkpoint has not seen; the head does not either, and is judged
            on them. Without any, it is judged on the validation subjects.
        copies: varied copies of each training clip.
        faster: copies of each that are played faster.

    Raises:
        OptionError: nobody to learn from or to judge on.
    """
    kept, left = beat_probe.sides(data, cache, without)
    clips = [*training_examples(kept, copies, 0), *hurried(kept, faster)]
    others, categories = training_examples(left, 0, 0), read_categories(data)
    groups = [group_of(example.name, categories) for example in others]
    return Lesson(clips, len(clips), sum(map(len, clips)), others, groups)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of CMU takes, or its parent")
    parser.add_argument("--checkpoint", type=Path, help="a motion model; the packaged one by default")
    parser.add_argument("--out", type=Path, required=True, help="folder of the new checkpoint")
    parser.add_argument("--cache", type=Path, help="folder where retargeted motion is kept")
    parser.add_argument("--without", default="", help="training subjects the checkpoint has not seen: judged")
    parser.add_argument("--copies", type=int, default=3, help="varied copies of each training clip")
    parser.add_argument("--faster", type=int, default=1, help="copies of each that are played faster")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the head's training")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    noted: dict[str, Any] = {
        "copies": given.copies,
        "faster": given.faster,
        "without": list(filter(None, given.without.split(","))),
    }
    try:
        able(given.checkpoint)  # before anything is read
        lesson = takes_lesson(given.data, given.cache, noted["without"], given.copies, given.faster)
        report = teach(given.checkpoint, given.out, lesson, steps=given.steps, seed=given.seed, noted=noted)
    except MotionError as error:
        print(f"teach_beats: {error}", file=sys.stderr)
        return 1
    for rule, cells in report["judged"].items():
        print(f"{rule}: {json.dumps(cells)}")
    print(f"wrote {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
