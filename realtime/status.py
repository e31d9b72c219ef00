"""Words of `/anticip/status` about the stream, the beat, the mapping and who is sent to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyanticip._core import LiveFront
from pyanticip.errors import one_line, printable
from pyanticip.motion.recording import Records
from pyanticip.vocabulary import PARAMETERS
from realtime.mapping.live_mapping import LiveMapping
from realtime.mapping.mixer import Mixer
from realtime.protocols import BEAT_TRUST, lost_of
from realtime.sinks.base import Sink, Tempo
from realtime.step.guard import GuardedModel

_LOUDNESS = PARAMETERS.index("loudness")

__all__ = [
    "BeatWatch",
    "LoadWatch",
    "SinkWatch",
    "count_words",
    "is_writing",
    "lead_word",
    "mapping_trouble",
    "model_words",
    "sink_counts",
    "sink_troubles",
    "sink_words",
    "stream_words",
    "tape_words",
    "taught_words",
    "tempo_words",
]

# A sender that was not heard for so long is not counted as ignored any more.
_RECENT_NS = 60_000_000_000
# A beat is told at the terminal when it has lasted for so many looks, a second apart, and is another than the
# last by this part.
_LASTS = 3
# That nothing is left out any more, after so many.
_KEEPS_UP = 10
_OTHER = 0.08


def count_words(received: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    """Of the front end's counters how many of the sender's frames came, how many never did, where that can be
    told, and what made no sense; of the pipeline's how many steps were late or failed, and how many frames
    were left out."""
    lost = lost_of(received)
    bad = sum(received.get(name, 0) for name in ("truncated", "malformed", "alien"))
    return [
        f"frames={received.get('frames', 0)}",
        *([] if lost is None else [f"lost={lost}"]),
        f"bad={bad}",
        f"late_steps={counts['late_steps']}",
        f"failed_steps={counts['failed_steps']}",
        *([f"skipped={skipped}"] if (skipped := counts["skipped"]) else []),
    ]


def model_words(model: GuardedModel, mixer: Mixer, now_ns: int) -> list[str]:
    """What steps, and whether it plays; why not, where it rests."""
    why = f": {model.error}" if model.error else ""
    rests = f" (model rests{why})" if model.rests(now_ns) else ""
    return [
        f"backend={'none' if model.backend is None else model.backend.description}",
        f"plays={'model' if mixer.by_model else 'scalars'}{rests}",
    ]


def lead_word(mixer: Mixer) -> str:
    """How far ahead loudness is read."""
    return f"lead_ms={mixer.lead.leads[_LOUDNESS]:.0f}" + (" (auto)" if mixer.lead_ms == "auto" else "")


def stream_words(front: LiveFront, buffer_ms: float | None, now_ns: int) -> list[str]:
    """How the stream keeps time, who plays, who does not."""
    rate, jitter_ms, _ = front.timing
    found = [] if rate is None else [f"rate={rate:.1f}", f"jitter_ms={jitter_ms:.1f}"]
    if buffer_ms is not None:
        found.append(f"buffer_ms={buffer_ms:.1f}")
    since = now_ns - _RECENT_NS
    senders = front.senders()
    found += [f"from={name}" for name, plays, *_ in senders if plays and name]
    found.append(f"ignored={sum(not plays and last >= since for _, plays, _, last in senders)}")
    if front.refusal:
        found.append(f"refused={front.refusal}")
    return found


def taught_words(taught: LiveMapping | None, error: str, lacking: Sequence[str]) -> list[str]:
    """The mapping that plays, how new to it is what it sees, and which joints it misses; or why it failed."""
    if taught is None:
        return [f"mapping=failed: {printable(error)}"] if error else []
    mapping = taught.mapping
    beyond = f" ({mapping.beyond}s)" if taught.is_beyond else ""
    found = [f"mapping={printable(mapping.name)}", f"novelty={taught.novelty:.1f}{beyond}"]
    return [*found, f"lacking={','.join(lacking)}"] if lacking else found


def mapping_trouble(taught: LiveMapping | None, error: str, lacking: Sequence[str]) -> str:
    """The line about the mapping that failed, or misses joints; empty where nothing is wrong."""
    if error:
        return f"the mapping failed, the model plays: {error}"
    if taught is None or not lacking:
        return ""
    return (
        f"mapping {taught.mapping.name} was taught with joints that this source does not have:"
        f" {', '.join(lacking)}; what it says may be far off: teach it with this suit"
    )


def tempo_words(tempo: Tempo) -> list[str]:
    """The beats a minute, while the body keeps a beat."""
    return [f"tempo={tempo[0]:.0f}"] if tempo[2] >= BEAT_TRUST else []


def sink_counts(sinks: Sequence[Sink]) -> dict[str, dict[str, int]]:
    """What each has sent, of those that count."""
    found = {}
    for sink in sinks:
        try:
            found[sink.name] = dict(sink.counters())
        except Exception:
            # It may be somebody else's; that it cannot count is no reason to stop, nor to say what it sent.
            found[sink.name] = {"uncounted": 1}
    return {name: counts for name, counts in found.items() if counts}


def sink_troubles(sinks: Sequence[Sink]) -> dict[str, str]:
    """Why each does not reach its receiver; empty where it does."""
    found = {}
    for sink in sinks:
        try:
            found[sink.name] = sink.trouble
        except Exception as error:
            # It may be somebody else's; the others are told of even so.
            found[sink.name] = one_line(error)
    return found


def sink_words(sinks: Sequence[Sink]) -> list[str]:
    """Who cannot be reached."""
    return [f"away={name}" for name, why in sink_troubles(sinks).items() if why]


def tape_words(tape: Records | None) -> Sequence[str]:
    """Whether what is played is written, and how the file is, where the recorder knows."""
    return ["recording=no"] if tape is None else tape.words


def is_writing(tape: Records | None) -> bool:
    """Whether what is played is written."""
    return tape_words(tape)[0] == "recording=yes"


class SinkWatch:
    """Looked through once a second, says at the terminal who cannot be reached, and who is there again."""

    def __init__(self) -> None:
        self._away: set[str] = set()

    def look(self, sinks: Sequence[Sink]) -> list[str]:
        """A line for each change."""
        trouble = sink_troubles(sinks)
        gone = [
            f"{name}: {why}; trying again" for name, why in trouble.items() if why and name not in self._away
        ]
        back = [f"{name} is there" for name, why in trouble.items() if not why and name in self._away]
        self._away = {name for name, why in trouble.items() if why}
        return gone + back


class LoadWatch:
    """Looked through once a second, says at the terminal that frames are left out, and when no more are."""

    def __init__(self) -> None:
        self._skipped = 0
        self._looks = 0
        self._is_behind = False

    def look(self, skipped: int) -> str | None:
        """A line where there is news; so many were left out so far."""
        is_behind, self._skipped = skipped > self._skipped, skipped
        self._looks = 0 if is_behind == self._is_behind else self._looks + 1
        if self._looks < (_LASTS if is_behind else _KEEPS_UP):
            return None
        self._is_behind, self._looks = is_behind, 0
        if not is_behind:
            return "every frame is played again"
        return (
            "one core cannot do all there is to do, or frames come several at once: of each performer's that"
            " wait the newest alone is played (skipped= in the status)"
        )


class BeatWatch:
    """Looked through once a second, says at the terminal when there is a beat, or another one."""

    def __init__(self) -> None:
        self._reported_bpm = 0.0
        self._looks = 0

    def look(self, tempo: Tempo, *, led: bool = False) -> str | None:
        """A line where there is news."""
        bpm, _, trust = tempo
        self._looks = self._looks + 1 if trust >= BEAT_TRUST else 0
        if self._looks < _LASTS or abs(bpm - self._reported_bpm) <= _OTHER * self._reported_bpm:
            return None
        self._reported_bpm = bpm
        return f"{'given' if led else 'body'} tempo: {bpm:.0f} bpm"
