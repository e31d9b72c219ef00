"""What a trained model knows about beats of another definition, and what the curve of speed alone tells.

For each definition of :mod:`training.beats` hazards are learned anew on a model's trunk as it is: from what
the control head's hidden layer says in every frame, scaled by the gate, as the model makes its own. That is a
logistic regression, so it has one answer. Judged is the rule that plays, on people whom the model has not
learned from, and beside it a linear prediction of the causal curve of speed. How exactly the layer knows the
speed is said as well. With ``--measures`` the hazards also read the measures of the last frames, which the
model gives to its parameters alone.

    python -m training.beat_probe --data ../shared/data --checkpoint runs/without/checkpoint --without 05,16
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pyanticip.errors import MotionError, OptionError
from pyanticip.models import MotionTransformer, load_motion_model
from pyanticip.models.config import EVENT_BINS
from training.beats import Beats, arrivals, ends_of, middles, speed_of
from training.data.batches import event_targets
from training.data.examples import Example, Piece, load_split, training_examples
from training.evaluate.categories import CATEGORIES, group_of, read_categories
from training.evaluate.event_tuning import DELAYS_S, MOTION_DELAYS_S, fit
from training.evaluate.events import Announcements, score_clips, total
from training.evaluate.extrapolator import BEHIND, fire, places, predicted, speed_curve
from training.evaluate.rules import LEADS_MS, live
from training.steady import recent_of
from training.tasks.motion.losses import event_nll
from training.tasks.motion.scores import CHUNK, Said
from training.teacher.filters import RATE
from training.teacher.handmade import ONSET_FLOOR, ONSET_GAP
from training.teacher.kinematics import Array

DEFINITIONS: Final[Mapping[str, Beats]] = {"middle of a trough": middles, "arrival": arrivals}
STEPS: Final = 1500
FRAMES: Final = 4096
RATE_OF_LEARNING: Final = 3e-3
WEIGHT_DECAY: Final = 1e-4
START: Final = 0.03
"""Hazard per bin that the base rates start at."""
RIDGE: Final = 1e-3
ASKED_MS: Final = (-60, 0, 100)
"""When the speed is asked for that the trunk is to know."""
FALLS: Final = (0.05, 0.1, 0.15, 0.2, 0.3)
AIMS: Final = (1.0, 2.0, 4.0)
STROKE: Final = 20
"""Frames in which the highest speed of a predicted stroke is looked for."""


@dataclass(frozen=True)
class Heard:
    """What hazards are learned from in the N frames of some clips."""

    read: Tensor
    """(N, H) half precision: the control head's hidden layer, and the measures if they were asked for."""
    gate: Tensor
    """(N,) what the evidence is scaled by."""
    weight: Tensor
    """(N,) subjects count by the root of their frames, as in training."""


def listen(model: MotionTransformer, examples: Sequence[Example], measures: bool = False) -> Heard:
    """Run the model over clips, as streams, and keep what hazards can be learned from.

    Args:
        model: in evaluation mode.
        examples: the clips.
        measures: also what the control head reads of the last frames.
    """
    frames: dict[str, int] = {}
    for example in examples:
        frames[example.subject] = frames.get(example.subject, 0) + len(example)
    parts: list[tuple[Tensor, ...]] = []
    for example in examples:
        state = model.initial_state(1)
        recent = recent_of(model, example) if measures else torch.zeros(len(example), 0)
        for start in range(0, len(example), CHUNK):
            rows = torch.from_numpy(np.array(example.features[start : start + CHUNK]))[None]
            with torch.no_grad():
                out, state = model(rows, state)
                read = torch.cat(
                    (F.gelu(model.control.first(out.hidden))[0], recent[start : start + CHUNK]), 1
                )
            gate = out.gate[0] if model.control.gated else torch.ones_like(out.gate[0])
            parts.append((read.half(), gate, torch.full_like(gate, frames[example.subject] ** -0.5)))
    return Heard(*(torch.cat(column) for column in zip(*parts, strict=True)))


def loss_of(logits: Tensor, bins: Tensor, seen: Tensor) -> Tensor:
    """Mean negative log-likelihood of the next event under hazard logits (N, 25)."""
    return event_nll(logits[:, None], bins[:, None], seen[:, None]).mean()


def asked(events: Sequence[np.ndarray], lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Bins of the next event and how many are seen, (N,) each, in all frames of clips."""
    pairs = [event_targets(one, frames) for one, frames in zip(events, lengths, strict=True)]
    return tuple(torch.from_numpy(np.concatenate(column)) for column in zip(*pairs, strict=True))  # type: ignore[return-value]


@dataclass(frozen=True)
class Hazards:
    """Hazards of onsets that are linear in what is heard, standardised, and in the gate."""

    mean: Tensor
    std: Tensor
    weight: Tensor
    """(H + 1, 25), the last row a bias."""
    base: Tensor
    """(25,)."""

    def logits(self, read: Tensor, gate: Tensor) -> Tensor:
        """(N, 25) of rows (N, H) and gates (N,)."""
        evidence = ((read.float() - self.mean) / self.std) @ self.weight[:-1] + self.weight[-1]
        return self.base + gate[:, None] * evidence

    def said(self, heard: Heard, examples: Sequence[Example]) -> dict[str, Said]:
        """What a model with these hazards would say about clips, by name; of parameters nothing."""
        return said_of(examples, heard.gate, lambda span: self.logits(heard.read[span], heard.gate[span]))


def said_of(examples: Sequence[Example], gate: Tensor, logits: Callable[[slice], Tensor]) -> dict[str, Said]:
    """What a model would say of clips that lie one behind the other, by name; of parameters nothing.

    Args:
        examples: clips, N frames in all.
        gate: (N,) commitment.
        logits: of the hazards of onsets (n, 25), for some of the frames.
    """
    found, start = {}, 0
    for example in examples:
        span = slice(start, start + len(example))
        start = span.stop
        chances = torch.sigmoid(logits(span))
        both = torch.stack((chances, torch.zeros_like(chances)), 1)
        nothing = np.zeros((len(example), 0), dtype=np.float32)
        found[example.name] = Said(nothing, both.numpy(), nothing, gate[span].numpy())
    return found


def teach_hazards(heard: Heard, bins: Tensor, seen: Tensor, *, steps: int = STEPS, seed: int = 0) -> Hazards:
    """Learn hazards of onsets by their negative log-likelihood.

    Args:
        heard: of training subjects.
        bins: (N,) of the next event.
        seen: (N,) how many bins ahead lie inside the clip.
        steps: of AdamW, each on 4,096 frames.
        seed: which frames.
    """
    weight = torch.nn.Parameter(torch.zeros(heard.read.shape[1] + 1, EVENT_BINS))
    base = torch.nn.Parameter(torch.full((EVENT_BINS,), math.log(START / (1.0 - START))))
    learned = Hazards(*_moments(heard.read), weight, base)
    decays = ({"params": [weight], "weight_decay": WEIGHT_DECAY}, {"params": [base], "weight_decay": 0.0})
    optimizer = torch.optim.AdamW(decays)
    chances = torch.cumsum(heard.weight.double(), 0)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE_OF_LEARNING * (1.0 - step / steps) + 1e-5
        where = torch.rand(FRAMES, generator=draw, dtype=torch.float64) * chances[-1]
        rows = torch.searchsorted(chances, where).clamp(max=len(chances) - 1)
        loss = loss_of(learned.logits(heard.read[rows], heard.gate[rows]), bins[rows], seen[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return replace(learned, weight=weight.detach(), base=base.detach())


def _moments(read: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation (H,) over some 100,000 of the frames."""
    sample = read[:: max(len(read) // 100_000, 1)].float()
    return sample.mean(0), sample.std(0) + 1e-3


def octaves(speed: Array) -> Array:
    """Speed in m/s on the teacher's scale."""
    return np.log2(speed + ONSET_FLOOR)


def knowledge(
    taught: Heard, speeds: Sequence[Array], judged: Heard, others: Sequence[Array], ahead: int
) -> float:
    """Root of the mean squared error, in octaves, with which what is heard says the speed by
    ridge regression.

    Args:
        taught: of training subjects.
        speeds: of their clips, m/s.
        judged: of the clips to judge.
        others: their speeds.
        ahead: frames; negative: in the past.
    """
    (mean, std), sides = _moments(taught.read), []
    for heard, given in ((taught, speeds), (judged, others)):
        y = [octaves(s)[np.clip(np.arange(len(s)) + ahead, 0, len(s) - 1)] for s in given]
        x = torch.cat(((heard.read.float() - mean) / std, torch.ones(len(heard.read), 1)), 1)
        sides.append((x, torch.from_numpy(np.concatenate(y)).float()))
    (x, wanted), (seen, true) = sides
    power = x.T @ x + RIDGE * len(x) * torch.eye(x.shape[1])
    found = torch.linalg.solve(power, x.T @ wanted)
    return float((seen @ found - true).square().mean().sqrt())


def next_arrival(path: Array, fall: float, lead: float, lag: float, aim: float) -> Array:
    """When the next arrival at least ``lead`` frames ahead comes (T,), in what is predicted; inf: not known.

    Args:
        path: of :func:`training.evaluate.extrapolator.predicted`.
        fall: octaves from the highest of the frames before.
        lead: frames.
        lag: frames that the causal curve is late.
        aim: frames beyond the lead that are looked at.
    """
    out = np.full(len(path), np.inf)
    first = math.ceil(BEHIND - 1 + lead + lag - 0.5)
    fallen = np.zeros(len(path), dtype=np.bool_)
    for j in range(first - 1, min(int(first + aim) + 1, path.shape[1] - 1) + 1):
        before, fallen = fallen, path[:, j] < path[:, j - STROKE : j].max(axis=1) - fall
        new = fallen & ~before & np.isinf(out)
        if j >= first:
            out[new] = np.flatnonzero(new) + j - (BEHIND - 1) - lag
    return out


class Line:
    """Linear prediction of the causal curve of speed, which announces arrivals in what it predicts.

    Args:
        examples: of training subjects; ``onsets`` are what is to be foreseen.
        lead: frames.
    """

    def __init__(self, examples: Sequence[Example], lead: int) -> None:
        self.lead, best = lead, -1.0
        ends = [places(example.quats) for example in examples]
        for delay, motion in product(DELAYS_S[0], MOTION_DELAYS_S):
            curves = [speed_curve(place, 0, delay, motion) for place in ends]
            weights = np.array(fit(curves, 0))
            lag = self._lateness(curves, examples)
            paths = [predicted(curve, 0, weights) for curve in curves]
            for fall, aim in product(FALLS, AIMS):
                told = [self._fired(path, fall, lag, aim) for path in paths]
                f1 = total(score_clips(examples, told, 0, lead)[0]).f1
                if f1 > best:
                    best, self.kept = f1, (delay, motion, weights, fall, lag, aim)

    @staticmethod
    def _lateness(curves: Sequence[Array], examples: Sequence[Example]) -> float:
        """Median frames from an arrival to where the causal curve has it."""
        late = [np.zeros(0)]
        for curve, example in zip(curves, examples, strict=True):
            found = arrivals(2.0**curve - ONSET_FLOOR)
            if len(found) and len(example.onsets):
                apart = found[:, None] - example.onsets[None, :]
                late.append(apart[np.arange(len(found)), np.abs(apart).argmin(axis=1)].astype(np.float64))
        gaps = np.concatenate(late)
        return float(np.median(gaps)) if len(gaps) else 0.0

    def _fired(self, path: Array, fall: float, lag: float, aim: float) -> Announcements:
        return fire(next_arrival(path, fall, self.lead, lag, AIMS[-1]), self.lead, aim, ONSET_GAP)

    def announced(self, example: Example) -> Announcements:
        """What it announces in a clip."""
        delay, motion, weights, fall, lag, aim = self.kept
        curve = speed_curve(places(example.quats), 0, delay, motion)
        return self._fired(predicted(curve, 0, weights), fall, lag, aim)


def judge(
    examples: Sequence[Example], groups: Sequence[str], announced: Callable[[Example, int], Announcements]
) -> dict[str, list[float]]:
    """F1 at each lead to two digits, by category, with the number of events."""
    found: dict[str, list[float]] = {}
    for ms in LEADS_MS:
        lead = round(ms * RATE / 1000.0)
        told = [announced(example, ms) for example in examples]
        for category in CATEGORIES:
            mine = [i for i, group in enumerate(groups) if group == category]
            score = total(
                score_clips([examples[i] for i in mine], [told[i] for i in mine], 0, float(lead))[0]
            )
            if score.true:
                found.setdefault(f"{category} ({score.true})", []).append(round(score.f1, 2))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the second table of ``docs/experiments/beats.md``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of CMU takes, or its parent")
    parser.add_argument("--cache", type=Path, help="folder where retargeted motion is kept")
    parser.add_argument("--checkpoint", type=Path, help="a motion model; the packaged one by default")
    parser.add_argument("--without", default="", help="training subjects the checkpoint has not seen: judged")
    parser.add_argument("--measures", action="store_true", help="hazards read the last frames' measures too")
    parser.add_argument("--copies", type=int, default=3, help="varied copies of each training clip")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        without = tuple(filter(None, given.without.split(",")))
        probe(given.data, given.cache, given.checkpoint, without, given.copies, given.measures)
    except MotionError as error:
        print(f"beat_probe: {error}", file=sys.stderr)
        return 1
    return 0


def sides(data: Path, cache: Path | None, without: Sequence[str]) -> tuple[list[Piece], list[Piece]]:
    """Motion to learn from and to judge: training subjects but ``without``, and those; or the validation
    subjects where there is nobody to leave out.

    Raises:
        OptionError: nobody to learn from or to judge.
    """
    pieces = load_split(data, "train", cache)
    left = [p for p in pieces if p.subject in without] if without else load_split(data, "validation", cache)
    kept = [p for p in pieces if p.subject not in without]
    if not left or not kept:
        raise OptionError(f"{data}: no training motion of, or none but of, subjects {', '.join(without)}")
    return kept, left


def probe(
    data: Path,
    cache: Path | None,
    checkpoint: Path | None,
    without: Sequence[str],
    copies: int,
    measures: bool,
) -> None:
    """See :func:`main`; without ``without`` the validation subjects are judged."""
    model = load_motion_model(checkpoint).eval()
    kept, left = sides(data, cache, without)
    taught, judged = training_examples(kept, copies, 0), training_examples(left, 0, 0)
    categories = read_categories(data)
    groups = [group_of(example.name, categories) for example in judged]
    heard, other = listen(model, taught, measures), listen(model, judged, measures)
    speeds, others = ([speed_of(ends_of(e.quats)) for e in side] for side in (taught, judged))
    wrong = [knowledge(heard, speeds, other, others, round(ms * RATE / 1000.0)) for ms in ASKED_MS]
    cells = ", ".join(f"{ms} ms {value:.2f}" for ms, value in zip(ASKED_MS, wrong, strict=True))
    print(f"what the hazards read says the speed with an error of octaves: {cells}", flush=True)
    for name, beats in DEFINITIONS.items():
        events = [beats(speed) for speed in speeds]
        bins, seen = asked(events, [len(example) for example in taught])
        hazards = teach_hazards(heard, bins, seen)
        true = [replace(e, onsets=beats(s)) for e, s in zip(judged, others, strict=True)]
        said = hazards.said(other, true)
        rows = judge(true, groups, lambda e, ms: live(said[e.name], 0, lead_ms=float(ms)))  # noqa: B023
        print(f"{name}, model: {rows}", flush=True)
        if beats is arrivals and not measures:
            bare = training_examples(kept, 0, 0)
            bare = [replace(e, onsets=beats(speed_of(ends_of(e.quats)))) for e in bare]
            lines = {ms: Line(bare, round(ms * RATE / 1000.0)) for ms in LEADS_MS}
            rows = judge(true, groups, lambda e, ms: lines[ms].announced(e))  # noqa: B023
            print(f"{name}, linear prediction of the speed: {rows}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
