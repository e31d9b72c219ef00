"""Teach a motion model's event head to hear strokes, with the trunk as it is.

The model gets ``strokes=True`` and the head of :mod:`training.strokes`, learned from the training clips,
varied copies and copies that are played faster (:mod:`training.beat_strokes`). What standardised the head's
inputs goes into its weights, and the hazards of onsets that the checkpoint had make room: its last layer says
nothing of them any more. Parameters, phrases, scalars and the gate stay what they were, bit for bit.

    python -m training.teach_beats --data ../shared/data --out runs/beats
    python -m training.teach_beats --data ../shared/data --checkpoint runs/without/checkpoint \\
        --without 05,16 --out runs/beats-without
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from pyanticip.controls import EventTrigger
from pyanticip.errors import MotionError, OptionError
from pyanticip.last_moment import LastMoment
from pyanticip.models import MotionTransformer, load_motion_model, save_checkpoint
from pyanticip.models.config import EVENT_BINS, HORIZONS_MS, PARAMETER_NAMES
from pyanticip.models.manifest import read_manifest
from pyanticip.models.strokes import STROKES
from training import beat_probe
from training.beat_strokes import hurried, listen
from training.data import Example, load_split, training_examples
from training.evaluation.categories import group_of, read_categories
from training.evaluation.events import Announcements
from training.evaluation.rules import live
from training.scores import run_model
from training.strokes import STEPS, Beats, teach_beats
from training.teacher import TEACHER_VERSION

RULES: Final[Mapping[str, EventTrigger]] = {"as it plays": EventTrigger(), "last moment": LastMoment()}


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


def judged(model: MotionTransformer, examples: Sequence[Example], groups: Sequence[str]) -> dict[str, Any]:
    """F1 of beats at 0, 100 and 200 ms by either rule, of what the model itself says."""
    said = {example.name: run_model(model, example) for example in examples}
    found = {}
    for name, rule in RULES.items():

        def announced(example: Example, ms: int, rule: EventTrigger = rule) -> Announcements:
            return live(said[example.name], 0, rule, lead_ms=float(ms))

        found[name] = beat_probe.judge(examples, groups, announced)
    return found


def teach_checkpoint(
    data: Path,
    out: Path,
    *,
    checkpoint: Path | None = None,
    cache: Path | None = None,
    without: Sequence[str] = (),
    copies: int = 3,
    faster: int = 1,
    steps: int = STEPS,
    seed: int = 0,
) -> dict[str, Any]:
    """Teach the head of a checkpoint and write it anew.

    Args:
        data: folder of takes, or its parent.
        out: folder of the new checkpoint.
        checkpoint: the packaged one by default.
        cache: folder where retargeted motion is kept.
        without: training subjects that the checkpoint has not seen; the head does not either, and is judged
            on them. Without any, it is judged on the validation subjects.
        copies: varied copies of each training clip.
        faster: copies of each that are played faster.
        steps: of the head's training.
        seed: of the head.

    Returns:
        What is noted in the checkpoint.

    Raises:
        OptionError: nobody to learn from or to judge on, or a model that cannot follow strokes.
    """
    manifest, model = read_manifest(checkpoint), load_motion_model(checkpoint).eval()
    replace(model.cfg, strokes=True)  # refuses what cannot follow strokes before anything is listened to
    pieces = load_split(data, "train", cache)
    left = [p for p in pieces if p.subject in without] if without else load_split(data, "validation", cache)
    kept = [p for p in pieces if p.subject not in without]
    if not left or not kept:
        raise OptionError(f"{data}: no training motion of, or none but of, subjects {', '.join(without)}")
    taught = [*training_examples(kept, copies, 0), *hurried(kept, faster)]
    heard = listen(model, taught)
    bins, seen = beat_probe.asked([e.onsets for e in taught], [len(e) for e in taught])
    hearing = with_strokes(model, teach_beats(heard, bins, seen, steps=steps, seed=seed))
    others, categories = training_examples(left, 0, 0), read_categories(data)
    report = {
        "teacher_version": TEACHER_VERSION,
        "copies": copies,
        "faster": faster,
        "steps": steps,
        "seed": seed,
        "frames": len(heard.seen),
        "without": list(without),
        "judged": judged(hearing, others, [group_of(example.name, categories) for example in others]),
    }
    noted = {**manifest.training, "teacher_version": TEACHER_VERSION, "beats": report}
    save_checkpoint(out, hearing, training=noted)
    return report


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
    try:
        report = teach_checkpoint(
            given.data,
            given.out,
            checkpoint=given.checkpoint,
            cache=given.cache,
            without=tuple(filter(None, given.without.split(","))),
            copies=given.copies,
            faster=given.faster,
            steps=given.steps,
            seed=given.seed,
        )
    except MotionError as error:
        print(f"teach_beats: {error}", file=sys.stderr)
        return 1
    for rule, cells in report["judged"].items():
        print(f"{rule}: {json.dumps(cells)}")
    print(f"wrote {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
