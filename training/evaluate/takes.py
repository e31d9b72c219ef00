"""The clips of a folder by side: who taught a model, and strangers to judge it on.

What each shows, by the manifest's words, which are the same once more, and which cannot have the rate that
they say.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from pyanticip.errors import FormatError, OptionError
from pyanticip.vocabulary import CANONICAL_JOINTS
from training.data.examples import Example, Piece, Split
from training.data.manifest import REPEATS, Manifests, bare, read_repeats
from training.tasks.motion.data import base_set
from training.tasks.motion.options import MotionTrainOptions
from training.teacher.kinematics import positions

FEET: Final = tuple(CANONICAL_JOINTS.index(name) for name in ("left_foot", "right_foot"))

MOST: Final[Mapping[str, tuple[float, float]]] = {
    "walking": (3.0, 8.0),
    "styled walk": (3.0, 8.0),
    "running": (5.0, 12.0),
    "dance, improvised": (4.0, 20.0),
    "dance, repeated": (4.0, 20.0),
}
"""Steps a second and rad/s of the hips about the vertical, by kind of movement. Of 461 takes with right rates
the walks have at most 2.3 and 5.3, the runs 4.7 and 6.5, the dances 2.7 and 15.6 (break dance)."""

OTHERWISE: Final = (5.0, 20.0)

STRIDE: Final = 0.1
"""Deviation of one foot from the other along the heading, metres, below which there are no steps to count."""

SLOWEST: Final = 0.3
"""Hz of strides that are looked for, at least."""

SPAN_S: Final = 0.1
"""Stretch over which the hips turn."""


def step_rate(quats: NDArray[np.floating], rate: float) -> float:
    """Steps a second: twice the frequency at which the left foot passes the right; 0 where nobody steps.

    Args:
        quats: (T, 22, 4) canonical rotations.
        rate: frames a second.
    """
    place, yaw = positions(quats.astype(np.float64), upright=True), heading(quats)
    left, right = FEET
    apart = place[:, left] - place[:, right]
    along = np.sin(yaw) * apart[:, 0] + np.cos(yaw) * apart[:, 2]
    along -= along.mean()
    if along.std() < STRIDE:
        return 0.0
    size = 8 * len(along)
    power = np.abs(np.fft.rfft(along * np.hanning(len(along)), size)) ** 2
    frequency = np.fft.rfftfreq(size, 1.0 / rate)
    return 2.0 * float(frequency[np.argmax(np.where(frequency > SLOWEST, power, 0.0))])


def turn_rate(quats: NDArray[np.floating], rate: float) -> float:
    """rad/s of the hips about the vertical that are exceeded in one frame of a hundred."""
    yaw, span = heading(quats), max(round(SPAN_S * rate), 1)
    if len(yaw) <= span:
        return 0.0
    return float(np.percentile(np.abs(yaw[span:] - yaw[:-span]) * rate / span, 99))


def heading(quats: NDArray[np.floating]) -> NDArray[np.float64]:
    """(T,) radians: the part of the hips' rotation that is about the vertical, without jumps."""
    hips = np.asarray(quats, dtype=np.float64)[:, 0]
    return np.asarray(np.unwrap(2.0 * np.arctan2(hips[:, 2], hips[:, 0])))


def implausible(quats: NDArray[np.floating], rate: float, kind: str) -> str:
    """Why a take cannot have been as fast as it says; empty where it can.

    A file that says 120 Hz and holds 60 plays at double speed; AMC files say nothing. Nobody walks four steps
    a second.
    """
    steps, turns = MOST.get(kind, OTHERWISE)
    if (found := step_rate(quats, rate)) > steps:
        return f"{found:.1f} steps a second, expected at most {steps:g} of {kind}: is its rate wrong?"
    if (found := turn_rate(quats, rate)) > turns:
        return f"turns at {found:.1f} rad/s, expected at most {turns:g} of {kind}: is its rate wrong?"
    return ""


UNSAID: Final = (
    "says nothing of what the takes show: all are 'other'; "
    "build the set again with a MANIFEST.csv beside them"
)

KINDS: Final = (
    "walking",
    "styled walk",
    "running",
    "gesture",
    "martial art",
    "dance, improvised",
    "dance, repeated",
    "idle",
    "other",
)
"""Kinds of movement, which are judged apart."""

# The first whose expression is found in a take's words decides.
_RULES: Final = (
    ("idle", r"\bidle\b|(?<!to )\bstand$"),
    ("martial art", r"\b(karate|punch|strike|swordplay|fence|chop)\b"),
    ("dance, improvised", r"\b(dance|pirouette|arabesque)\b"),
    ("running", r"\b(run|jog)\b"),
    ("styled walk", r"\bwalk\b.*\b(back|backwards?|hop|leap|box|crouch|skip|uneven|exaggerated)\b"),
    ("styled walk", r"\b(back|backwards?|hop|leap|box|crouch|skip|exaggerated)\b.*\bwalk\b"),
    ("styled walk", r"\bside step\b|\bskipping\b|\bskip to stand\b|\bstand to skip\b"),
    ("walking", r"\b(walk|stride)\b"),
    ("gesture", r"\b(sway|swing arms|look around|hands up|pick up|pickup|lift box)\b"),
    ("gesture", r"\b(drink|laugh|wave|wash|mop|scoop)\b"),
)


def kind_of(words: str) -> str:
    """The kind of a take that is described so; ``WalkTurnLeft90`` is read as four words."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])|_", " ", words).lower()
    return next((kind for kind, rule in _RULES if re.search(rule, apart)), "other")


@dataclass(frozen=True)
class Clip:
    """A clip with what is known of it."""

    example: Example
    piece: Piece
    """Its motion alone."""
    kind: str
    """One of ``KINDS``."""
    side: Split
    source: str
    """The file it is of, relative to the data, without suffix."""
    by_sound: bool = False
    """Whether its parameters are those of a sound beside it."""

    @property
    def name(self) -> str:
        """As it stands in reports."""
        return self.example.name

    @property
    def person(self) -> str:
        """Whose it is."""
        return self.example.subject


class Takes:
    """The clips of a set, or of a folder of takes.

    Everybody is on the side that ``train motion`` puts them on.

    Args:
        data: folder of either.
        cache: where folders of takes are built into sets; the user's cache folder by default.
        manifest: folder or file that says what the takes show; by default the set does, by the manifests that
            it was built with.
        quiet: neither progress nor what cannot be used is told, on standard error, while a set is built.

    Raises:
        FormatError: no motion there, or no such manifest.
    """

    def __init__(
        self, data: Path, cache: Path | None = None, manifest: Path | None = None, *, quiet: bool = False
    ) -> None:
        if manifest is not None and not manifest.exists():
            raise FormatError(f"{manifest}: no such manifest")
        self.data = data
        options = MotionTrainOptions().but(data={"path": data, "cache": cache or ""})
        found = base_set(options, None if quiet else Console(stderr=True))
        self.digest = found.digest
        manifests = None if manifest is None else Manifests(manifest)
        said = [manifests.words(clip.source) if manifests else clip.words for clip in found.clips]
        self.warnings = [] if any(said) else [f"{manifest or data}: {UNSAID}"]
        alike = read_repeats(data) if (data / REPEATS).is_file() else []
        pairs = [(bare(a), bare(b)) for _, a, b in alike]
        again = {take for pair in pairs for take in pair}
        self.clips: list[Clip] = []
        for number, entry in enumerate(found.clips):
            if entry.of:
                continue
            source, kind = bare(entry.source), kind_of(said[number])
            if kind == "dance, improvised" and source in again:
                kind = "dance, repeated"
            what = found.example(number), found.piece(number), kind, entry.split, source
            self.clips.append(Clip(*what, by_sound=entry.targets == "audio"))
        self.pairs = _twice(self.clips, pairs)

    def training_clips(self) -> list[Clip]:
        """What ``train motion`` learns from.

        Raises:
            FormatError: no clip on that side.
        """
        return self._side("train", "learn from")

    def strangers(self, split: str, people: Sequence[str] = ()) -> list[Clip]:
        """The clips to judge: of one side, or of some people of any side.

        Raises:
            OptionError: nobody there.
            FormatError: no clip on that side.
        """
        if people:
            found = [clip for clip in self.clips if clip.person in people]
            missing = sorted(set(people) - {clip.person for clip in found})
            if missing:
                raise OptionError(f"{self.data}: no motion of subject {', '.join(missing)}")
            return found
        return self._side(split, "judge on")

    def _side(self, split: str, use: str) -> list[Clip]:
        found = [clip for clip in self.clips if clip.side == split]
        if not found:
            raise FormatError(f"{self.data}: no {split} clip; expected a set with a side to {use}")
        return found


def _twice(clips: Sequence[Clip], pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """For every take the one most like it that was there before; only of takes that are here."""
    here = {clip.source for clip in clips}
    found: dict[str, str] = {}
    for first, second in pairs:
        if {first, second} <= here:
            found.setdefault(second, first)
    return [(first, second) for second, first in found.items()]
