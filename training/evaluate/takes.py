"""The clips of a data folder by split, for training and evaluating models.

Also: kinds of movement from the manifest's descriptions, repeated takes, and takes with an implausible rate.
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
from training.data.manifest import REPEATS, Manifests, path_key, read_repeats
from training.tasks.motion.data import base_set, check_finite
from training.tasks.motion.options import MotionTrainOptions
from training.teacher.kinematics import positions

FEET: Final = tuple(CANONICAL_JOINTS.index(name) for name in ("left_foot", "right_foot"))

MAX_RATES: Final[Mapping[str, tuple[float, float]]] = {
    "walking": (3.0, 8.0),
    "styled walk": (3.0, 8.0),
    "running": (5.0, 12.0),
    "dance, improvised": (4.0, 20.0),
    "dance, repeated": (4.0, 20.0),
}
"""Maximum plausible steps per second, and rad/s of the hips about the vertical, by kind of movement. In 461
takes with correct rates walks reach 2.3 and 5.3, runs 4.7 and 6.5, dances 2.7 and 15.6 (break dance)."""

OTHER_MAX_RATES: Final = (5.0, 20.0)
"""The same for all other kinds."""

STRIDE: Final = 0.1
"""Standard deviation of the feet's distance along the heading, metres, below which no steps are counted."""

MIN_STRIDE_HZ: Final = 0.3
"""Minimum stride frequency."""

SPAN_S: Final = 0.1
"""Time over which the turning rate is measured."""


def step_rate(quats: NDArray[np.floating], rate: float) -> float:
    """Steps per second: twice the frequency at which the left foot passes the right; 0 without steps.

    Args:
        quats: (T, 22, 4) canonical rotations.
        rate: frames per second.
    """
    place, yaw = positions(quats.astype(np.float64), upright=True), heading(quats)
    left, right = FEET
    difference = place[:, left] - place[:, right]
    along = np.sin(yaw) * difference[:, 0] + np.cos(yaw) * difference[:, 2]
    along -= along.mean()
    if along.std() < STRIDE:
        return 0.0
    size = 8 * len(along)
    power = np.abs(np.fft.rfft(along * np.hanning(len(along)), size)) ** 2
    frequency = np.fft.rfftfreq(size, 1.0 / rate)
    return 2.0 * float(frequency[np.argmax(np.where(frequency > MIN_STRIDE_HZ, power, 0.0))])


def turn_rate(quats: NDArray[np.floating], rate: float) -> float:
    """99th percentile of the hips' speed of rotation about the vertical, rad/s."""
    yaw, span = heading(quats), max(round(SPAN_S * rate), 1)
    if len(yaw) <= span:
        return 0.0
    return float(np.percentile(np.abs(yaw[span:] - yaw[:-span]) * rate / span, 99))


def heading(quats: NDArray[np.floating]) -> NDArray[np.float64]:
    """Heading of the hips (T,), radians: their rotation about the vertical, unwrapped."""
    hips = np.asarray(quats, dtype=np.float64)[:, 0]
    return np.asarray(np.unwrap(2.0 * np.arctan2(hips[:, 2], hips[:, 0])))


def implausible(quats: NDArray[np.floating], rate: float, kind: str) -> str:
    """Why the frame rate of a take is implausible; empty if it is plausible.

    A file that states 120 Hz but holds 60 plays at double speed, and AMC files state no rate. Nobody walks
    four steps per second.
    """
    steps, turns = MAX_RATES.get(kind, OTHER_MAX_RATES)
    if (measured := step_rate(quats, rate)) > steps:
        return f"{measured:.1f} steps a second, expected at most {steps:g} of {kind}: is its rate wrong?"
    if (measured := turn_rate(quats, rate)) > turns:
        return f"turns at {measured:.1f} rad/s, expected at most {turns:g} of {kind}: is its rate wrong?"
    return ""


NO_DESCRIPTIONS: Final = (
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
"""Kinds of movement, which are evaluated separately."""

# The first expression that is found in a take's description decides.
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
    """Kind of movement of a take by its description; ``WalkTurnLeft90`` is read as four words."""
    separated = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Za-z])|_", " ", words).lower()
    return next((kind for kind, rule in _RULES if re.search(rule, separated)), "other")


@dataclass(frozen=True)
class Clip:
    """A clip with its metadata."""

    example: Example
    piece: Piece
    """Its motion."""
    kind: str
    """One of ``KINDS``."""
    side: Split
    source: str
    """Source file, relative to the data, without suffix."""
    by_sound: bool = False
    """Whether its targets come from a sound."""

    @property
    def name(self) -> str:
        """Name in reports."""
        return self.example.name

    @property
    def person(self) -> str:
        """The performer."""
        return self.example.subject


class Takes:
    """The clips of a set, or of a folder of takes.

    Splits are the same as in ``train motion``.

    Args:
        data: folder of the set or of the takes.
        cache: cache folder for sets; the user's cache folder by default.
        manifest: manifest, or folder with manifests, that describes the takes; by default the descriptions
            stored in the set.
        quiet: do not print progress and unusable files to standard error while a set is built.

    Raises:
        FormatError: there is no motion, or no such manifest.
    """

    def __init__(
        self, data: Path, cache: Path | None = None, manifest: Path | None = None, *, quiet: bool = False
    ) -> None:
        if manifest is not None and not manifest.exists():
            raise FormatError(f"{manifest}: no such manifest")
        self.data = data
        options = MotionTrainOptions().replace(data={"path": data, "cache": cache or ""})
        motion_set = base_set(options, None if quiet else Console(stderr=True))
        self.digest = motion_set.digest
        manifests = None if manifest is None else Manifests(manifest)
        words = [manifests.words(clip.source) if manifests else clip.words for clip in motion_set.clips]
        self.warnings = [] if any(words) else [f"{manifest or data}: {NO_DESCRIPTIONS}"]
        repeats = read_repeats(data) if (data / REPEATS).is_file() else []
        pairs = [(path_key(a), path_key(b)) for _, a, b in repeats]
        repeated_takes = {take for pair in pairs for take in pair}
        self.clips: list[Clip] = []
        for number, entry in enumerate(motion_set.clips):
            if entry.of:
                continue
            source, kind = path_key(entry.source), kind_of(words[number])
            if kind == "dance, improvised" and source in repeated_takes:
                kind = "dance, repeated"
            example, piece = motion_set.example(number), motion_set.piece(number)
            by_sound = entry.targets == "audio"
            self.clips.append(Clip(example, piece, kind, entry.split, source, by_sound=by_sound))
        self.pairs = _first_and_second(self.clips, pairs)
        """Pairs of sources: a take, and a later repetition of it."""

    def training_clips(self) -> list[Clip]:
        """The training clips, as in ``train motion``.

        Raises:
            FormatError: there is none, or a value of one is not finite.
        """
        return self.checked(self._side("train", "learn from"))

    def held_out_clips(self, split: str, people: Sequence[str] = ()) -> list[Clip]:
        """The clips to evaluate on: of one split, or of some people of any split.

        Raises:
            OptionError: there is no clip of one of these people.
            FormatError: there is no clip of the split, or a value of one is not finite.
        """
        if missing := sorted(set(people) - {clip.person for clip in self.clips}):
            raise OptionError(f"{self.data}: no motion of subject {', '.join(missing)}")
        return self.checked(
            [clip for clip in self.clips if clip.person in people] or self._side(split, "judge on")
        )

    def checked(self, clips: list[Clip]) -> list[Clip]:
        """These clips.

        Raises:
            FormatError: a value of one is not finite.
        """
        for clip in clips:
            example, piece = clip.example, clip.piece
            check_finite(
                str(self.data),
                clip.name,
                features=example.features,
                params=example.params,
                rotations=piece.quats,
                positions=piece.root,
            )
        return clips

    def _side(self, split: str, use: str) -> list[Clip]:
        clips = [clip for clip in self.clips if clip.side == split]
        if not clips:
            raise FormatError(f"{self.data}: no {split} clip; expected a set with a side to {use}")
        return clips


def _first_and_second(clips: Sequence[Clip], pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """For every repeated take of these clips, the pair with the most similar other take, (first, second)."""
    present = {clip.source for clip in clips}
    first_of: dict[str, str] = {}
    for first, second in pairs:
        if {first, second} <= present:
            first_of.setdefault(second, first)
    return [(first, second) for second, first in first_of.items()]
