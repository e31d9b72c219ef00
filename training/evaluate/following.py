"""Following and cues, judged: warped copies of takes, real repeats, and people who do something else."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.vocabulary import RATE
from training.data.manifest import read_repeats
from training.evaluate.following_baselines import align, warp_online
from training.evaluate.following_takes import (
    BLEND,
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
from training.report.pages import bare, png, pyplot
from training.report.tables import table

Side = Literal["chosen", "others"]

CHOSEN_ON: Final = frozenset(
    ("Jasmine_Coro", "accad_male1", "cmu01", "cmu02", "cmu06", "cmu14", "cmu16", "cmu35", "reactidle001")
)
"""People on whom the follower's constants were chosen; the others are judged."""

AHEAD: Final = 0.2
"""Seconds before its time that a cue is asked for."""
EVERY: Final = 2.0
"""Seconds between the cues of a take that is played again."""
NEAR: Final = 0.5
"""A cue said so close to a time at which one is due, seconds, is meant for it."""
SETTLED: Final = 1.5
"""Seconds after a beginning or a jump in which who is followed may not have been found yet."""
UNKNOWN: Final = BLEND / RATE + AHEAD
"""Seconds after it in which nobody could say a cue so long before: at first one is between two places."""
REHEARSED: Final = 24
"""Takes that stand in the memory beside each other."""
SPACED: Final = 0.5
"""Seconds between the cues of a real repeat."""
AnnouncedCue = tuple[int, float, float]
"""Which cue, when it was said, and when it is due: seconds of the performance."""


@dataclass(frozen=True)
class CueResult:
    """A time at which a cue is due, what became of it, and under which circumstances."""

    kind: str
    error: float
    """Seconds late; NaN where nothing was said."""
    lead: float
    """Seconds between its being said and its time."""


@dataclass
class Tally:
    """What was said of some performances."""

    cue_results: list[CueResult]
    announced: int = 0
    wrong: int = 0
    twice: int = 0

    def add(self, announced: Sequence[AnnouncedCue], due: Mapping[int, Sequence[tuple[float, str]]]) -> None:
        """Count what was said against when each cue is due, and the kind of that moment."""
        used: set[int] = set()
        for cue, times in due.items():
            for time, kind in times:
                meant = [n for n, one in enumerate(announced) if one[0] == cue and abs(one[2] - time) <= NEAR]
                used.update(meant)
                self.twice += max(len(meant) - 1, 0)
                if meant:
                    best = min((announced[n] for n in meant), key=lambda one: abs(one[2] - time))
                    self.cue_results.append(CueResult(kind, best[2] - time, best[2] - best[1]))
                else:
                    self.cue_results.append(CueResult(kind, np.nan, np.nan))
        self.announced += len(announced)
        self.wrong += len(announced) - len(used)

    def row(self, kind: str | None = None) -> dict[str, float]:
        """Shares: within 60 and 120 ms, missed, said 150 ms before; what was said wrongly, or twice."""
        chosen = [one for one in self.cue_results if kind in (None, one.kind)]
        error = np.abs([one.error for one in chosen])
        lead = np.array([one.lead for one in chosen])
        hit = ~np.isnan(error)
        return {
            "cues": len(chosen),
            "within_60_ms": _share(error[hit] <= 0.06, len(chosen)),
            "within_120_ms": _share(error[hit] <= 0.12, len(chosen)),
            "missed": _share(~hit, len(chosen)),
            "sent_150_ms_before": _share(lead[hit] >= 0.15, int(hit.sum())),
            "wrong": self.wrong / max(self.announced, 1),
            "twice": self.twice,
        }


def _share(hits: NDArray[np.bool_], count: int) -> float:
    return float(hits.sum()) / max(count, 1)


def announced_cues(rows: Array, cues: Sequence[tuple[int, float]]) -> list[AnnouncedCue]:
    """What is said of cues (take, seconds) along the places (T, 4) of a performance."""
    player = _core.Cues([(take, seconds, AHEAD) for take, seconds in cues])
    announced: list[AnnouncedCue] = []
    for frame, (take, seconds, tempo, trust) in enumerate(rows.tolist()):
        place = None if take < 0 else (int(take), seconds, tempo, trust)
        now = frame / RATE
        announced += [(cue, now, now + due) for cue, due in player.push(place)]
    return announced


def crossed(place: Array, jumps: Iterable[float], cue: float) -> list[float]:
    """When a performance that is at ``place`` passes a moment of the take, jumps left out."""
    frames = np.flatnonzero((place[:-1] < cue) & (place[1:] >= cue))
    leapt = {round(jump * RATE) for jump in jumps}
    return [
        float(i + (cue - place[i]) / (place[i + 1] - place[i])) / RATE
        for i in frames.tolist()
        if i + 1 not in leapt
    ]


def circumstances(time: float, performance: Performance) -> str:
    """Whether the performer began or jumped just before, or stops about then."""
    since = [time - jump for jump in (0.0, *performance.jumps) if jump <= time]
    if min(since) < UNKNOWN:
        return "just begun or jumped"
    if min(since) < SETTLED:
        return "begun or jumped"
    if any(start - 0.05 <= time + AHEAD and time - AHEAD <= stop + NEAR for start, stop in performance.stops):
        return "at a stop"
    return "under way"


def warped(among: Sequence[Take], count: int, seed: int) -> dict[str, Tally]:
    """Takes played again, each among others of the same people, by suit."""
    rng = np.random.default_rng(seed)
    tallies = {suit: Tally([]) for suit in SUITS}
    for number in range(count):
        suit = SUITS[number % len(SUITS)]
        mine = int(rng.integers(len(among)))
        others = rng.permutation([n for n in range(len(among)) if n != mine])[: REHEARSED - 1].tolist()
        follower = _core.Follower([among[n].quats for n in (mine, *others)])
        performance = perform(among[mine].quats, rng)
        rows = follower.push_many(as_suit_sees(performance.quats, suit, rng))
        end = float(performance.place.max())
        moments = np.arange(rng.uniform(0.5, EVERY), end, EVERY).tolist()
        due = {
            cue: [
                (t, circumstances(t, performance)) for t in crossed(performance.place, performance.jumps, at)
            ]
            for cue, at in enumerate(moments)
        }
        tallies[suit].add(announced_cues(rows, [(0, at) for at in moments]), due)
    return tallies


@dataclass(frozen=True)
class Repeat:
    """A take that somebody did again."""

    person: str
    names: tuple[str, str]
    rehearsed: NDArray[np.float32]
    played: NDArray[np.float32]
    place: Array
    """(T,) seconds in the rehearsal at each frame of the performance, by the offline alignment."""

    @property
    def together(self) -> "Repeat":
        """The same with a rehearsal that begins where the performance does, as a piece does."""
        begin = max(0, int(self.place[0] * RATE))
        return replace(self, rehearsed=self.rehearsed[begin:], place=self.place - begin / RATE)


def repeats(data: Path, wanted: Iterable[str]) -> list[Repeat]:
    """The real repeats of some people: the longer take is the rehearsal, the shorter one the performance,
    which begins somewhere in it.

    Args:
        data: the folder with repeats.csv.
        wanted: people.
    """
    people, read = set(wanted), cache(partial(load, data))
    found = []
    for person, *names_of in read_repeats(data):
        if person in people:
            both = sorted(names_of, key=lambda name: -len(read(name)))
            longer, shorter = map(read, both)
            found.append(Repeat(person, (both[0], both[1]), longer, shorter, align(longer, shorter)))
    return found


def again(pairs: Sequence[Repeat], *, naive: bool = True) -> dict[str, Tally]:
    """Real repeats: followed, and by the naive online time warping, which says a cue where it passes it."""
    tallies = {"follower": Tally([])} | ({"naive": Tally([])} if naive else {})
    for pair in pairs:
        moments = np.arange(pair.place[0] + 0.8, pair.place[-1] - 0.1, SPACED).tolist()
        frames = np.arange(len(pair.place)) / RATE
        due = {
            cue: [(float(np.interp(at, pair.place, frames)), pair.person)] for cue, at in enumerate(moments)
        }
        follower = _core.Follower([pair.rehearsed])
        cues = [(0, at) for at in moments]
        tallies["follower"].add(announced_cues(follower.push_many(pair.played), cues), due)
        if naive:
            place = warp_online(pair.rehearsed, pair.played)
            tallies["naive"].add(naive_cues(place, moments), due)
    return tallies


def naive_cues(place: Array, moments: Sequence[float]) -> list[AnnouncedCue]:
    """Each cue once, as soon as it is no more than ``AHEAD`` away at the rehearsal's own tempo."""
    announced: list[AnnouncedCue] = []
    for cue, at in enumerate(moments):
        soon = np.flatnonzero((at - place <= AHEAD) & (at - place >= -0.3))
        if len(soon):
            now = int(soon[0]) / RATE
            announced.append((cue, now, now + max(0.0, at - float(place[soon[0]]))))
    return announced


def strangers(among: Sequence[Take], others: Sequence[Take], count: int, seed: int) -> dict[str, float]:
    """What is said while other people do something else: a share of the cues that following would pass."""
    rng = np.random.default_rng(seed)
    announced, seconds = 0, 0.0
    for _ in range(count):
        rehearsed = [among[n] for n in rng.permutation(len(among))[: REHEARSED // 2].tolist()]
        played = others[int(rng.integers(len(others)))].quats
        follower = _core.Follower([take.quats for take in rehearsed])
        cues = [
            (n, at)
            for n, take in enumerate(rehearsed)
            for at in np.arange(1.0, len(take.quats) / RATE, EVERY).tolist()
        ]
        announced += len(announced_cues(follower.push_many(played), cues))
        seconds += len(played) / RATE
    return {"said": announced, "seconds": seconds, "share": announced * EVERY / seconds}


def evaluate(data: Path, side: Side, count: int, seed: int) -> dict[str, Any]:
    """All of it, on the people the constants were chosen on or on the others.

    Args:
        data: folder with cmu/, more/ and repeats.csv.
        side: which people.
        count: warped copies, and half as many strangers.
        seed: what the warps are drawn from.
    """

    def mine(person: str) -> bool:
        return (person in CHOSEN_ON) == (side == "chosen")

    among = [take for take in takes(data, mine) if "idle" not in take.name]
    others = takes(data, lambda person: not mine(person))
    tallies = warped(among, count, seed)
    everything = Tally(
        [one for tally in tallies.values() for one in tally.cue_results],
        sum(tally.announced for tally in tallies.values()),
        sum(tally.wrong for tally in tallies.values()),
        sum(tally.twice for tally in tallies.values()),
    )
    people = {person for person in names(data).values() if mine(person)}
    report: dict[str, Any] = {"side": side, "people": sorted({take.person for take in among}), "warped": {}}
    report["warped"]["all"] = everything.row()
    for kind in sorted({one.kind for one in everything.cue_results}):
        report["warped"][kind] = {**everything.row(kind), "wrong": None, "twice": None}
    for suit, tally in tallies.items():
        report["warped"][f"under way, {suit}"] = tally.row("under way")
    report["repeats"] = {}
    pairs = repeats(data, people)
    for who, tally in again([pair.together for pair in pairs]).items():
        report["repeats"][who] = tally.row()
        for person in sorted({pair.person for pair in pairs}):
            report["repeats"][f"{who}, {person}"] = {**tally.row(person), "wrong": None, "twice": None}
    alone = again(pairs, naive=False)["follower"]
    report["repeats"]["follower, not told where it begins"] = alone.row()
    report["strangers"] = strangers(among, others, count // 2, seed)
    return report


HEAD: Final = ("", "cues", "within 60 ms", "120 ms", "missed", "sent 150 ms before", "wrong", "twice")


def markdown(report: Mapping[str, Any]) -> str:
    """The report as tables."""

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
    """A take played again: where it is and where it is said to be, its cues, tempo and trust, as PNG."""
    rng = np.random.default_rng(seed)
    quats = load(data, name)
    performance = perform(quats, rng)
    rows = _core.Follower([quats]).push_many(as_suit_sees(performance.quats, "noise", rng))
    moments = np.arange(1.0, len(quats) / RATE, EVERY).tolist()
    announced = announced_cues(rows, [(0, at) for at in moments])
    time = np.arange(len(rows)) / RATE
    plt = pyplot()
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(10.5, 5.4), height_ratios=(2.4, 1.0), sharex=True)
    upper.plot(time, performance.place, color="0.75", lw=5.0, label="where the performer is")
    sure = np.where(rows[:, 3] > 0.5, rows[:, 1], np.nan)
    upper.plot(time, sure, color="#0a6fb5", lw=1.4, label="where the follower says so")
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
    lower.plot(time, np.gradient(performance.place) * RATE, color="0.75", lw=4.0)
    lower.plot(time, rows[:, 2], color="#0a6fb5", lw=1.2, label="tempo")
    lower.plot(time, rows[:, 3], color="#e08214", lw=1.0, label="trust")
    lower.set_ylim(0.0, 1.6)
    lower.set_xlabel("seconds of the performance", fontsize=9)
    lower.legend(fontsize=8, frameon=False, loc="lower left", ncols=2)
    for axis in (upper, lower):
        bare(axis)
    figure.tight_layout()
    return png(figure)
