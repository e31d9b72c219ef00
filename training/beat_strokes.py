"""What a model with a trunk as it is would do with arrivals if its hazards heard the strokes.

As :mod:`training.beat_probe`, with three things more: what the hazards read and how
(:mod:`training.strokes`), copies of the training clips that are played faster than they were (few people run
in them), and a rule that waits for the last moment. The linear prediction to compare with is the probe's.

    python -m training.beat_strokes --data ../shared/data --checkpoint runs/without/checkpoint --without 05,16
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import torch

from pyanticip.controls import EventTrigger
from pyanticip.errors import MotionError
from pyanticip.last_moment import LastMoment
from pyanticip.models import MotionTransformer, load_motion_model
from training import beat_probe
from training.beats import arrivals, ends_of, speed_of
from training.data.examples import SHORTEST, Example, Piece, plain, training_examples
from training.evaluate.categories import group_of, read_categories
from training.evaluate.events import Announcements
from training.evaluate.rules import live
from training.strokes import Heard, strokes_of, teach_beats
from training.tasks.motion.scores import Said

FASTER: Final = (1.15, 1.6)
"""How much faster the hurried copies are."""


def hurried(pieces: Iterable[Piece], copies: int, seed: int = 1) -> Iterator[Example]:
    """Copies of pieces, each as it would be if it had been done faster throughout; one at a time."""
    rng = np.random.default_rng(seed)
    for piece in pieces:
        for _ in range(copies):
            example = plain(replace(piece, rate=piece.rate * rng.uniform(*FASTER)))
            if len(example) >= SHORTEST:
                yield example


def listen(model: MotionTransformer, examples: Sequence[Example]) -> Heard:
    """Run the model over clips, as streams, and keep what a beat head reads: strokes and measures, then the
    control head's hidden layer."""
    heard = beat_probe.listen(model, examples, measures=True)
    units = model.control.first.out_features
    close = torch.cat((strokes_of(model, examples), heard.read[:, units:]), 1)
    return Heard(torch.cat((close, heard.read[:, :units]), 1), close.shape[1], heard.gate, heard.weight)


def with_arrivals(examples: Sequence[Example]) -> list[Example]:
    """The same clips with arrivals for onsets."""
    return [replace(e, onsets=arrivals(speed_of(ends_of(e.quats)))) for e in examples]


def study(
    data: Path,
    cache: Path | None,
    checkpoint: Path | None,
    without: Sequence[str],
    *,
    copies: int,
    faster: int,
    seeds: int,
) -> None:
    """See :func:`main`; without ``without`` the validation subjects are judged."""
    model = load_motion_model(checkpoint).eval()
    kept, left = beat_probe.sides(data, cache, without)
    taught = with_arrivals([*training_examples(kept, copies, 0), *hurried(kept, faster)])
    judged = with_arrivals(training_examples(left, 0, 0))
    categories = read_categories(data)
    groups = [group_of(example.name, categories) for example in judged]
    heard, other = listen(model, taught), listen(model, judged)
    bins, seen = beat_probe.asked([e.onsets for e in taught], [len(e) for e in taught])
    for seed in range(seeds):
        said = teach_beats(heard, bins, seen, seed=seed).said(other, judged)
        for name, trigger in (("reach", EventTrigger()), ("last-moment", LastMoment())):

            def announced(
                example: Example, ms: int, said: dict[str, Said] = said, rule: EventTrigger = trigger
            ) -> Announcements:
                return live(said[example.name], 0, rule, lead_ms=float(ms))

            cells = beat_probe.judge(judged, groups, announced)
            print(f"seed {seed}, {name}: {cells}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the third table of ``docs/experiments/beats.md``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of CMU takes, or its parent")
    parser.add_argument("--cache", type=Path, help="folder where retargeted motion is kept")
    parser.add_argument("--checkpoint", type=Path, help="a motion model; the packaged one by default")
    parser.add_argument("--without", default="", help="training subjects the checkpoint has not seen: judged")
    parser.add_argument("--copies", type=int, default=3, help="varied copies of each training clip")
    parser.add_argument("--faster", type=int, default=1, help="copies of each that are played faster")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        study(
            given.data,
            given.cache,
            given.checkpoint,
            tuple(filter(None, given.without.split(","))),
            copies=given.copies,
            faster=given.faster,
            seeds=given.seeds,
        )
    except MotionError as error:
        print(f"beat_strokes: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
