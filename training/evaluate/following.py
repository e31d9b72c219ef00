"""``pyanticip evaluate following``: following and cues on warped takes, real repeats, and other people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.errors import FormatError
from pyanticip.vocabulary import RATE
from training.data.manifest import read_repeats
from training.evaluate.following_baselines import align, warp_online
from training.evaluate.following_takes import (
    BLEND,
    MIN_TAKE_S,
    SUITS,
    Array,
    Performance,
    Take,
    as_suit_sees,
    load,
    names,
    perform,
    takes,
)
from training.report.pages import png, pyplot, remove_spines
from training.report.tables import table

Side = Literal["chosen", "others"]

CHOSEN_ON: Final = frozenset(
    ("Jasmine_Coro", "accad_male1", "cmu01", "cmu02", "cmu06", "cmu14", "cmu16", "cmu35", "reactidle001")
)
"""People on whom the follower's constants were tuned; the evaluation is on the others."""

LEAD_S: Final = 0.2
"""Time before a cue at which it is to be sent."""
CUE_INTERVAL_S: Final = 2.0
"""Time between the cues of a warped take."""
TOLERANCE_S: Final = 0.5
"""A cue announced for a time this close to one at which it is due counts for that one."""
SETTLING_S: Final = 1.5
"""Time after the start or a jump in which the follower may not have found the performer's place yet."""
BLIND_S: Final = BLEND / RATE + LEAD_S
"""Time after the start or a jump in which no follower could send a cue in time: the pose still blends."""
REHEARSED: Final = 24
"""Number of takes in the memory."""
REPEAT_CUE_INTERVAL_S: Final = 0.5
"""Time between the cues of a real repeat."""
AnnouncedCue = tuple[int, float, float]
"""Index of the cue, time of the announcement and time it was announced for, in seconds of the performance."""


@dataclass(frozen=True)
class CueResult:
    """Outcome of one due cue, and its circumstances or person."""

    kind: str
    error: float
    """Delay of the announced time, seconds; NaN if the cue was missed."""
    lead: float
    """Time from the announcement to the announced time, seconds."""


@dataclass
class Tally:
    """Counts over some performances."""

    cue_results: list[CueResult]
    announced: int = 0
    wrong: int = 0
    twice: int = 0

    def add(self, announced: Sequence[AnnouncedCue], due: Mapping[int, Sequence[tuple[float, str]]]) -> None:
        """Count announced cues against the times, with their kinds, at which each cue is due."""
        used: set[int] = set()
        for cue, times in due.items():
            for time, kind in times:
                matches = [
                    n
                    for n, one in enumerate(announced)
                    if one[0] == cue and abs(one[2] - time) <= TOLERANCE_S
                ]
                used.update(matches)
                self.twice += max(len(matches) - 1, 0)
                if matches:
                    best = min((announced[n] for n in matches), key=lambda one: abs(one[2] - time))
                    self.cue_results.append(CueResult(kind, best[2] - time, best[2] - best[1]))
                else:
                    self.cue_results.append(CueResult(kind, np.nan, np.nan))
        self.announced += len(announced)
        self.wrong += len(announced) - len(used)

    def row(self, kind: str | None = None) -> dict[str, float]:
        """Row of the table: number of cues, shares of outcomes, and wrong and repeated announcements."""
        results = [one for one in self.cue_results if kind in (None, one.kind)]
        error = np.abs([one.error for one in results])
        lead = np.array([one.lead for one in results])
        hit = ~np.isnan(error)
        return {
            "cues": len(results),
            "within_60_ms": _share(error[hit] <= 0.06, len(results)),
            "within_120_ms": _share(error[hit] <= 0.12, len(results)),
            "missed": _share(~hit, len(results)),
            "sent_150_ms_before": _share(lead[hit] >= 0.15, int(hit.sum())),
            "wrong": self.wrong / max(self.announced, 1),
            "twice": self.twice,
        }


def _share(hits: NDArray[np.bool_], count: int) -> float:
    return float(hits.sum()) / max(count, 1)


def announced_cues(rows: Array, cues: Sequence[tuple[int, float]]) -> list[AnnouncedCue]:
    """Cues (take, seconds) announced along the follower's output (T, 4): take, seconds, tempo, trust."""
    player = _core.Cues([(take, seconds, LEAD_S) for take, seconds in cues])
    announced: list[AnnouncedCue] = []
    for frame, (take, seconds, tempo, trust) in enumerate(rows.tolist()):
        place = None if take < 0 else (int(take), seconds, tempo, trust)
        now = frame / RATE
        announced += [(cue, now, now + due) for cue, due in player.push(place)]
    return announced


def crossed(place: Array, jumps: Iterable[float], cue: float) -> list[float]:
    """Times at which a performance at positions ``place`` passes a moment of the take, except by jumping."""
    frames = np.flatnonzero((place[:-1] < cue) & (place[1:] >= cue))
    jump_frames = {round(jump * RATE) for jump in jumps}
    return [
        float(i + (cue - place[i]) / (place[i + 1] - place[i])) / RATE
        for i in frames.tolist()
        if i + 1 not in jump_frames
    ]


def circumstances(time: float, performance: Performance) -> str:
    """Whether the performer has just begun or jumped, or stops at about this time."""
    since = [time - jump for jump in (0.0, *performance.jumps) if jump <= time]
    if min(since) < BLIND_S:
        return "just begun or jumped"
    if min(since) < SETTLING_S:
        return "begun or jumped"
    if any(
        start - 0.05 <= time + LEAD_S and time - LEAD_S <= stop + TOLERANCE_S
        for start, stop in performance.stops
    ):
        return "at a stop"
    return "under way"


def warped(rehearsed: Sequence[Take], count: int, seed: int) -> dict[str, Tally]:
    """Evaluate warped performances of takes, each among other takes of the same people, by suit."""
    rng = np.random.default_rng(seed)
    tallies = {suit: Tally([]) for suit in SUITS}
    for number in range(count):
        suit = SUITS[number % len(SUITS)]
        target = int(rng.integers(len(rehearsed)))
        others = rng.permutation([n for n in range(len(rehearsed)) if n != target])[: REHEARSED - 1].tolist()
        follower = _core.Follower([rehearsed[n].quats for n in (target, *others)])
        performance = perform(rehearsed[target].quats, rng)
        rows = follower.push_many(as_suit_sees(performance.quats, suit, rng))
        end = float(performance.place.max())
        moments = np.arange(rng.uniform(0.5, CUE_INTERVAL_S), end, CUE_INTERVAL_S).tolist()
        due = {
            cue: [
                (t, circumstances(t, performance))
                for t in crossed(performance.place, performance.jumps, moment)
            ]
            for cue, moment in enumerate(moments)
        }
        tallies[suit].add(announced_cues(rows, [(0, moment) for moment in moments]), due)
    return tallies


@dataclass(frozen=True)
class Repeat:
    """A take and its repetition by the same person."""

    person: str
    names: tuple[str, str]
    rehearsed: NDArray[np.float32]
    played: NDArray[np.float32]
    place: Array
    """(T,) position in the rehearsal at each frame of the performance, seconds, by offline alignment."""

    @property
    def together(self) -> "Repeat":
        """The same, with the rehearsal cut to begin where the performance does."""
        begin = max(0, int(self.place[0] * RATE))
        return replace(self, rehearsed=self.rehearsed[begin:], place=self.place - begin / RATE)


def repeats(data: Path, people: Iterable[str]) -> list[Repeat]:
    """Load the real repeats of some people: the longer take is the rehearsal, the shorter the performance.

    Args:
        data: folder with repeats.csv.
        people: the people.
    """
    selected, read = set(people), cache(partial(load, data))
    found = []
    for person, *names_of in read_repeats(data):
        if person in selected:
            both = sorted(names_of, key=lambda name: -len(read(name)))
            longer, shorter = map(read, both)
            found.append(Repeat(person, (both[0], both[1]), longer, shorter, align(longer, shorter)))
    return found


def evaluate_repeats(pairs: Sequence[Repeat], *, naive: bool = True) -> dict[str, Tally]:
    """Evaluate real repeats with the follower and, if ``naive``, with naive online time warping."""
    tallies = {"follower": Tally([])} | ({"naive": Tally([])} if naive else {})
    for pair in pairs:
        moments = np.arange(pair.place[0] + 0.8, pair.place[-1] - 0.1, REPEAT_CUE_INTERVAL_S).tolist()
        frames = np.arange(len(pair.place)) / RATE
        due = {
            cue: [(float(np.interp(moment, pair.place, frames)), pair.person)]
            for cue, moment in enumerate(moments)
        }
        follower = _core.Follower([pair.rehearsed])
        cues = [(0, moment) for moment in moments]
        tallies["follower"].add(announced_cues(follower.push_many(pair.played), cues), due)
        if naive:
            place = warp_online(pair.rehearsed, pair.played)
            tallies["naive"].add(naive_cues(place, moments), due)
    return tallies


def naive_cues(place: Array, moments: Sequence[float]) -> list[AnnouncedCue]:
    """Announce each cue once, as soon as it is at most ``LEAD_S`` away at the rehearsal's tempo."""
    announced: list[AnnouncedCue] = []
    for cue, moment in enumerate(moments):
        soon = np.flatnonzero((moment - place <= LEAD_S) & (moment - place >= -0.3))
        if len(soon):
            now = int(soon[0]) / RATE
            announced.append((cue, now, now + max(0.0, moment - float(place[soon[0]]))))
    return announced


def other_people(among: Sequence[Take], others: Sequence[Take], count: int, seed: int) -> dict[str, float]:
    """Count cues sent while other people do something else, also as a share of what following would pass."""
    rng = np.random.default_rng(seed)
    announced, seconds = 0, 0.0
    for _ in range(count):
        rehearsed = [among[n] for n in rng.permutation(len(among))[: REHEARSED // 2].tolist()]
        played = others[int(rng.integers(len(others)))].quats
        follower = _core.Follower([take.quats for take in rehearsed])
        cues = [
            (n, at)
            for n, take in enumerate(rehearsed)
            for at in np.arange(1.0, len(take.quats) / RATE, CUE_INTERVAL_S).tolist()
        ]
        announced += len(announced_cues(follower.push_many(played), cues))
        seconds += len(played) / RATE
    return {"said": announced, "seconds": seconds, "share": announced * CUE_INTERVAL_S / seconds}


def evaluate(data: Path, side: Side, count: int, seed: int) -> dict[str, Any]:
    """Run the whole evaluation, on the people the constants were tuned on or on the others.

    Args:
        data: folder with cmu/, more/ and repeats.csv.
        side: ``chosen`` for the people the constants were tuned on, or ``others``.
        count: number of warped performances; half as many of other people.
        seed: seed of the warps.

    Raises:
        FormatError: a table is missing or invalid, or a side has no long enough take.
    """

    def is_selected(person: str) -> bool:
        return (person in CHOSEN_ON) == (side == "chosen")

    among = [take for take in takes(data, is_selected) if "idle" not in take.name]
    others = takes(data, lambda person: not is_selected(person))
    if not (among and others):
        chosen, rest = (among, others) if side == "chosen" else (others, among)
        raise FormatError(
            f"{data}: expected takes of at least {MIN_TAKE_S:g} s of sides chosen and others, "
            f"found {len(chosen)} and {len(rest)}"
        )
    people = {person for person in names(data).values() if is_selected(person)}
    pairs = repeats(data, people)
    tallies = warped(among, count, seed)
    overall = Tally(
        [one for tally in tallies.values() for one in tally.cue_results],
        sum(tally.announced for tally in tallies.values()),
        sum(tally.wrong for tally in tallies.values()),
        sum(tally.twice for tally in tallies.values()),
    )
    report: dict[str, Any] = {"side": side, "people": sorted({take.person for take in among}), "warped": {}}
    report["warped"]["all"] = overall.row()
    for kind in sorted({one.kind for one in overall.cue_results}):
        report["warped"][kind] = {**overall.row(kind), "wrong": None, "twice": None}
    for suit, tally in tallies.items():
        report["warped"][f"under way, {suit}"] = tally.row("under way")
    report["repeats"] = {}
    for system, tally in evaluate_repeats([pair.together for pair in pairs]).items():
        report["repeats"][system] = tally.row()
        for person in sorted({pair.person for pair in pairs}):
            report["repeats"][f"{system}, {person}"] = {**tally.row(person), "wrong": None, "twice": None}
    uncut = evaluate_repeats(pairs, naive=False)["follower"]
    report["repeats"]["follower, not told where it begins"] = uncut.row()
    report["strangers"] = other_people(among, others, count // 2, seed)
    return report


HEAD: Final = ("", "cues", "within 60 ms", "120 ms", "missed", "sent 150 ms before", "wrong", "twice")


def markdown(report: Mapping[str, Any]) -> str:
    """The report as Markdown tables."""

    def rows(part: Mapping[str, Mapping[str, float | None]]) -> list[list[str]]:
        return [
            [
                name,
                *(
                    "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
                    for value in row.values()
                ),
            ]
            for name, row in part.items()
        ]

    stranger = report["strangers"]
    return "\n".join(
        [
            f"People: {', '.join(report['people'])}.\n",
            table(("warped copies", *HEAD[1:]), rows(report["warped"])),
            table(("real repeats", *HEAD[1:]), rows(report["repeats"])),
            f"Other people who do something else: {stranger['said']} cues sent in"
            f" {stranger['seconds']:.0f} s, {stranger['share']:.3f} of what following would pass.\n",
        ]
    )


DRAWN: Final = "more/g1-moves/bvh/Mitch_Chaiet/B_SpiralDance.bvh"


def picture(data: Path, name: str = DRAWN, seed: int = 4) -> bytes:
    """Plot a warped performance as PNG: true and followed position, cues, tempo and trust."""
    rng = np.random.default_rng(seed)
    quats = load(data, name)
    performance = perform(quats, rng)
    rows = _core.Follower([quats]).push_many(as_suit_sees(performance.quats, "noise", rng))
    moments = np.arange(1.0, len(quats) / RATE, CUE_INTERVAL_S).tolist()
    announced = announced_cues(rows, [(0, at) for at in moments])
    time = np.arange(len(rows)) / RATE
    plt = pyplot()
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(10.5, 5.4), height_ratios=(2.4, 1.0), sharex=True)
    upper.plot(time, performance.place, color="0.75", lw=5.0, label="where the performer is")
    trusted = np.where(rows[:, 3] > 0.5, rows[:, 1], np.nan)
    upper.plot(time, trusted, color="#0a6fb5", lw=1.4, label="where the follower says so")
    upper.plot(
        [due for _, _, due in announced],
        [moments[cue] for cue, _, _ in announced],
        "|",
        color="#c03028",
        ms=13,
        mew=2.0,
        label="cues, at the time they were announced for",
    )
    upper.set_ylabel("seconds of the rehearsal", fontsize=9)
    upper.legend(fontsize=8, frameon=False, loc="upper left")
    lower.plot(
        time, np.gradient(performance.place) * RATE, color="0.75", lw=4.0, label="tempo of the performer"
    )
    lower.plot(time, rows[:, 2], color="#0a6fb5", lw=1.2, label="tempo, followed")
    lower.plot(time, rows[:, 3], color="#e08214", lw=1.0, label="trust")
    lower.set_ylim(0.0, 2.1)
    lower.set_ylabel("tempo, trust", fontsize=9)
    lower.set_xlabel("seconds of the performance", fontsize=9)
    lower.legend(fontsize=8, frameon=False, loc="upper left", ncols=3)
    for axis in (upper, lower):
        remove_spines(axis)
    figure.tight_layout()
    return png(figure)
