"""A beat head that reads each end of the body by itself.

What decides an arrival is the sum of the ends' speeds; whether the ends' own curves tell more of what the sum
will do is the question of :mod:`training.beat_ends`. One small network, shared by hands, toes and head, reads
what each end did in the last 0.8 s, and what it says of the five is pooled. Beside it stand the strokes and
measures of the whole body, as in :mod:`training.strokes`, and the trunk's hidden layer, which is left out in
half of the training frames, so that the head does not lean on it alone. While it learns, it also forecasts
the curves of speed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import OptionError
from pyanticip.models import MotionTransformer
from pyanticip.models.config import EVENT_BINS
from pyanticip.models.motion.kinematics import MEASURES
from pyanticip.models.motion.smoothed import ENDS, VELOCITY_COLUMNS
from training import beat_probe
from training.beat_probe import octaves
from training.beats import ends_of
from training.data.examples import Example
from training.strokes import strokes
from training.tasks.motion.losses import event_nll
from training.teacher.descriptors import FAST_HZ, MOTION_HZ
from training.teacher.filters import derivative, smooth

LAGS: Final = (0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 40)
"""Frames before now at which the scalars of an end are read."""
FEW_LAGS: Final = (0, 2, 4, 7, 11, 16, 24)
"""Frames before now at which its vectors are read."""
SCALARS: Final = 4
"""Of an end: its speed in octaves, tangential and normal acceleration, how fast it rises."""
VECTORS: Final = 9
"""Its place, velocity and acceleration, seen from the hips, right ends mirrored."""
KINDS: Final = ((1.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
"""Hand, hand, toes, toes, head."""
MIRRORED: Final = (1.0, -1.0, 1.0, -1.0, 1.0)
READ: Final = SCALARS * len(LAGS) + VECTORS * len(FEW_LAGS)
"""Numbers of an end that the shared network reads."""
AHEAD: Final = (-4, -2, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
"""Frames from now of the curves that are forecast while the head learns."""

PLACE_COLUMNS: Final = tuple(3 + 3 * (joint - 1) + axis for axis in range(3) for joint in ENDS)
"""Where the ends' places stand among the kinematics; the first three columns say where up is."""

FLOOR: Final = 0.1
"""m/s added to the speed of an end."""
FIRST: Final = 48
SECOND: Final = 24
NARROW: Final = 16
UNITS: Final = 64
DROPPED: Final = 0.2
UNHEARD: Final = 0.5
"""Share of the training frames in which the trunk's hidden layer is left out."""
FORECAST: Final = 0.3
"""Weight of the forecast of the curves; three times that for the curve of the sum."""
STEPS: Final = 1500
FRAMES: Final = 1024
RATE_OF_LEARNING: Final = 2e-3
WEIGHT_DECAY: Final = 1e-2
WARM: Final = 100
KEPT: Final = 0.99
"""How much of the mean of the weights a step keeps, from half of the steps on."""
START: Final = 0.03
"""Hazard per bin before training."""


@dataclass(frozen=True)
class Clip:
    """What is read in the T frames of a clip, in half precision, and what it is asked for."""

    subject: str
    scalars: Tensor
    """(T, 5, :data:`SCALARS`)."""
    vectors: Tensor
    """(T, 5, :data:`VECTORS`)."""
    body: Tensor
    """(T, C): strokes, measures, and where up is."""
    units: Tensor
    """(T, H): the control head's hidden layer."""
    gate: Tensor
    """(T,) single precision."""
    curves: Tensor
    """(T, 6): octaves of the smoothed speed of each end, and of all; from both sides: only for learning."""
    onsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.gate)


def read_ends(kinematics: Tensor) -> tuple[Tensor, Tensor]:
    """Scalars and vectors of the ends in every frame, from it and the one before.

    Args:
        kinematics: (T, 177) of a clip.
    """
    mirror = torch.ones(len(ENDS), 3)
    mirror[:, 0] = torch.tensor(MIRRORED)
    place, velocity = (
        kinematics[:, list(columns)].view(-1, 3, len(ENDS)).transpose(1, 2)
        for columns in (PLACE_COLUMNS, VELOCITY_COLUMNS)
    )
    change = 5.0 * (velocity - torch.cat((velocity[:1], velocity[:-1])))  # of 10 m/s2
    speed = velocity.norm(dim=-1, keepdim=True)
    along = (change * velocity).sum(-1, keepdim=True) / (speed + FLOOR)
    across = (change.square().sum(-1, keepdim=True) - along.square()).clamp(min=0.0).sqrt()
    rises = 0.3 * (velocity * kinematics[:, None, :3]).sum(-1, keepdim=True)
    scalars = torch.cat((torch.log2(speed + FLOOR), along, across, rises), -1)
    vectors = torch.cat((0.5 * place * mirror, velocity * mirror, change * mirror), -1)
    return scalars.half(), vectors.half()


def curves_of(example: Example) -> Tensor:
    """Octaves of the smoothed speed of each end and of all (T, 6), as the teacher smooths it."""
    power = (derivative(smooth(ends_of(example.quats), MOTION_HZ)) ** 2).sum(axis=-1)
    each = smooth(np.column_stack([power, power.mean(axis=1)]), FAST_HZ)
    return torch.from_numpy(octaves(np.sqrt(np.maximum(each, 0.0)))).half()


def hear(model: MotionTransformer, examples: Iterable[Example]) -> list[Clip]:
    """Run the model over clips, as streams, and keep what the head reads; one example at a time is held.

    Args:
        model: in evaluation mode, with kinematics.
        examples: the clips.

    Raises:
        OptionError: a model without kinematics.
    """
    if model.kinematics is None:
        raise OptionError("each end is read from a model's kinematics, and this one has none")
    found = []
    for example in examples:
        with torch.no_grad():
            moved = model.kinematics(torch.from_numpy(np.array(example.features))[None])[0]
        scalars, vectors = read_ends(moved)
        told = torch.from_numpy(strokes(moved[:, list(VELOCITY_COLUMNS)].double().numpy())).half()
        heard = beat_probe.listen(model, [example])
        body = torch.cat((told, moved[:, -MEASURES:].half(), moved[:, :3].half()), 1)
        found.append(
            Clip(
                example.subject,
                scalars,
                vectors,
                body,
                heard.read,
                heard.gate,
                curves_of(example),
                example.onsets,
            )
        )
    return found


class Frames:
    """The N frames of some clips, one clip behind the other.

    Args:
        clips: at least one.
        told: frames of the future that the head is told exactly: what is asked of a frame is then asked so
            many frames later, and the trunk, which was not told, is left out.
    """

    def __init__(self, clips: Sequence[Clip], told: int = 0) -> None:
        lengths = [len(clip) for clip in clips]
        stops = np.cumsum(lengths)
        self.scalars, self.vectors, self.body, self.units, self.gate, self.curves = (
            torch.cat([getattr(clip, name) for clip in clips])
            for name in ("scalars", "vectors", "body", "units", "gate", "curves")
        )
        if told:
            self.units = self.units[:, :0]
        self.first = torch.from_numpy(np.repeat(stops - lengths, lengths))
        self.last = torch.from_numpy(np.repeat(stops - 1, lengths))
        bins, seen = beat_probe.asked([clip.onsets for clip in clips], lengths)
        before = torch.arange(len(bins)) - told
        asked = before >= self.first
        self.bins = bins[before.clamp(min=0)]
        self.seen = seen[before.clamp(min=0)] * asked
        of_subject: dict[str, int] = {}
        for clip in clips:
            of_subject[clip.subject] = of_subject.get(clip.subject, 0) + len(clip)
        shares = [of_subject[clip.subject] ** -0.5 for clip in clips]
        self.chances = torch.from_numpy(np.cumsum(np.repeat(shares, lengths)))

    def __len__(self) -> int:
        return len(self.gate)

    def ends(self, rows: Tensor) -> Tensor:
        """What each end did up to these frames (n,), (n, 5, :data:`READ`); before a clip its first frame."""
        parts = []
        for values, lags in ((self.scalars, LAGS), (self.vectors, FEW_LAGS)):
            where = torch.maximum(rows[:, None] - torch.tensor(lags), self.first[rows][:, None])
            parts.append(values[where].float().transpose(1, 2).flatten(2))
        return torch.cat(parts, -1)

    def drawn(self, frames: int) -> Tensor:
        """So many frames; subjects count by the root of theirs."""
        where = torch.rand(frames, dtype=torch.float64) * self.chances[-1]
        return torch.searchsorted(self.chances, where).clamp(max=len(self) - 1)


class EndsHead(nn.Module):
    """Hazard logits of what the ends did, of the whole body and of hidden units.

    Args:
        body: numbers of the whole body.
        units: hidden units of the trunk; 0: there is no trunk.
    """

    kinds: Tensor

    def __init__(self, body: int, units: int) -> None:
        super().__init__()
        for name, size in (("ends", READ), ("body", body), ("units", units)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))
        self.register_buffer("kinds", torch.tensor(KINDS))
        self.first = nn.Linear(READ + len(KINDS[0]), FIRST)
        self.second = nn.Linear(FIRST, SECOND)
        self.narrow = nn.Linear(units, NARROW, bias=False) if units else None
        self.joint = nn.Linear(body + 3 * SECOND + (NARROW if units else 0), UNITS)
        self.last = nn.Linear(UNITS, EVENT_BINS)
        self.skip = nn.Linear(body, EVENT_BINS, bias=False)
        self.each_curve = nn.Linear(SECOND, len(AHEAD))
        self.sum_curve = nn.Linear(UNITS, len(AHEAD))
        nn.init.zeros_(self.skip.weight)
        nn.init.constant_(self.last.bias, math.log(START / (1.0 - START)))

    def standardise(self, frames: Frames) -> None:
        """Take means and deviations from some 20,000 of the frames."""
        rows = torch.arange(0, len(frames), max(len(frames) // 20_000, 1))
        given = {
            "ends": frames.ends(rows).flatten(0, 1),
            "body": frames.body[rows],
            "units": frames.units[rows],
        }
        for name, values in given.items():
            if values.shape[1]:
                getattr(self, f"{name}_mean").copy_(values.float().mean(0))
                getattr(self, f"{name}_std").copy_(values.float().std(0) + 1e-2)

    def _standard(self, name: str, values: Tensor) -> Tensor:
        mean: Tensor = getattr(self, f"{name}_mean")
        std: Tensor = getattr(self, f"{name}_std")
        return ((values.float() - mean) / std).clamp(-8.0, 8.0)

    def forward(self, ends: Tensor, body: Tensor, units: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (N, 25) and forecast curves of each end (N, 5, 13) and of all (N, 13), relative to now.

        Args:
            ends: (N, 5, :data:`READ`).
            body: (N, C).
            units: (N, H).
        """
        share = torch.exp2(2.0 * ends[..., :1])
        share = share / share.sum(1, keepdim=True)
        kinds = self.kinds.expand(len(ends), -1, -1)
        inner = F.gelu(self.first(torch.cat((self._standard("ends", ends), kinds), -1)))
        said = F.gelu(self.second(inner))
        pooled = torch.cat(((said * share).sum(1), said.mean(1), said.amax(1)), 1)
        body = self._standard("body", body)
        read = [body, F.dropout(pooled, DROPPED, self.training)]
        if self.narrow is not None:
            units = F.dropout(self._standard("units", units), DROPPED, self.training)
            if self.training:
                units = units * (torch.rand(len(units), 1) >= UNHEARD)
            read.append(self.narrow(units))
        joint = F.dropout(F.gelu(self.joint(torch.cat(read, 1))), DROPPED, self.training)
        logits: Tensor = self.last(joint) + self.skip(body)
        return logits, self.each_curve(said), self.sum_curve(joint)

    def logits(self, frames: Frames, span: slice) -> Tensor:
        """Hazard logits (n, 25) of some of the frames."""
        rows = torch.arange(span.start, span.stop)
        with torch.no_grad():
            logits, _, _ = self(frames.ends(rows), frames.body[rows], frames.units[rows])
        return torch.as_tensor(logits)


def teach_ends(frames: Frames, *, steps: int = STEPS, seed: int = 0) -> EndsHead:
    """Learn hazards of onsets by their negative log-likelihood, and to forecast the curves beside.

    Args:
        frames: of training subjects.
        steps: of AdamW, each on :data:`FRAMES` frames; the head has the mean of the weights of the last half.
        seed: weights, and which frames.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = EndsHead(frames.body.shape[1], frames.units.shape[1])
        head.standardise(frames)
        optimizer = torch.optim.AdamW(
            head.parameters(), lr=RATE_OF_LEARNING, weight_decay=WEIGHT_DECAY, betas=(0.9, 0.98)
        )
        mean: dict[str, Tensor] = {}
        for step in range(steps):
            pace = min((step + 1) / WARM, 1.0) * 0.5 * (1.0 + math.cos(math.pi * step / steps))
            for group in optimizer.param_groups:
                group["lr"] = RATE_OF_LEARNING * pace + 1e-6
            loss = sum(losses(head, frames, frames.drawn(FRAMES)), torch.zeros(()))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimizer.step()
            if step >= steps // 2:
                for name, value in head.state_dict().items():
                    mean.setdefault(name, value.clone()).lerp_(value, 1.0 - KEPT)
    head.load_state_dict(mean)
    return head.eval()


def losses(head: EndsHead, frames: Frames, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood of the next event in some frames (n,), and the weighted error of forecasts."""
    logits, each, whole = head(frames.ends(rows), frames.body[rows], frames.units[rows])
    events = event_nll(logits[:, None], frames.bins[rows, None], frames.seen[rows, None]).mean()
    then = rows[:, None] + torch.tensor(AHEAD)
    inside = (then >= frames.first[rows][:, None]) & (then <= frames.last[rows][:, None])
    curves = frames.curves[then.clamp(0, len(frames) - 1)].float()
    now = frames.body[rows, :1].float()
    wrong = F.smooth_l1_loss(whole, curves[..., 5] - now, reduction="none", beta=0.2)
    apart = F.smooth_l1_loss(each, curves[..., :5].transpose(1, 2), reduction="none", beta=0.3).mean(1)
    error = ((3.0 * wrong + apart) * inside).sum() / inside.sum()
    return events, FORECAST * error
