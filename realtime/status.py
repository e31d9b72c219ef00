"""Words of `/anticip/status` on the stream, the tempo, the mapping and the sinks, and lines for the
terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyanticip._core import LiveFront
from pyanticip.errors import FOREIGN, one_line, printable
from pyanticip.motion.recording import Records
from pyanticip.vocabulary import PARAMETERS
from realtime.mapping.live_mapping import LiveMapping
from realtime.mapping.mixer import Mixer
from realtime.protocols import BEAT_TRUST, lost_frames
from realtime.sinks.base import Sink, Tempo
from realtime.step.guard import GuardedModel

_LOUDNESS = PARAMETERS.index("loudness")

# A sender that was not heard for this long is no longer counted as ignored.
_SENDER_TIMEOUT_NS = 60_000_000_000
# Number of looks, a second apart, for which a tempo or an overload must last before it is reported.
_MIN_LOOKS = 3
# Number of looks without skipped frames after which the end of an overload is reported.
_CAUGHT_UP_LOOKS = 10
# Relative difference from the tempo reported last from which a new one is reported.
_TEMPO_CHANGE = 0.08


def count_words(received: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    """Words on the sender's frames (received, lost if known, bad) from the front end's counters, and on late
    and failed steps and skipped frames from the pipeline's."""
    lost = lost_frames(received)
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
    """Words on the backend, whether model or scalars play, and why the model is suspended."""
    reason = f": {model.error}" if model.error else ""
    rests = f" (model rests{reason})" if model.is_suspended(now_ns) else ""
    return [
        f"backend={'none' if model.backend is None else model.backend.description}",
        f"plays={'model' if mixer.by_model else 'scalars'}{rests}",
    ]


def lead_word(mixer: Mixer) -> str:
    """Word on how far ahead loudness is read."""
    return f"lead_ms={mixer.lead.leads[_LOUDNESS]:.0f}" + (" (auto)" if mixer.lead_ms == "auto" else "")


def stream_words(front: LiveFront, buffer_ms: float | None, now_ns: int) -> list[str]:
    """Words on the stream's timing and its senders."""
    rate, jitter_ms, _ = front.timing
    words = [] if rate is None else [f"rate={rate:.1f}", f"jitter_ms={jitter_ms:.1f}"]
    if buffer_ms is not None:
        words.append(f"buffer_ms={buffer_ms:.1f}")
    since = now_ns - _SENDER_TIMEOUT_NS
    senders = front.senders()
    words += [f"from={name}" for name, plays, *_ in senders if plays and name]
    words.append(f"ignored={sum(not plays and last >= since for _, plays, _, last in senders)}")
    if front.refusal:
        words.append(f"refused={front.refusal}")
    return words


def taught_words(live_mapping: LiveMapping | None, error: str, missing_joints: Sequence[str]) -> list[str]:
    """Words on the mapping, the novelty of its input and missing joints; or why it failed."""
    if live_mapping is None:
        return [f"mapping=failed: {printable(error)}"] if error else []
    mapping = live_mapping.mapping
    beyond = f" ({mapping.beyond}s)" if live_mapping.is_beyond else ""
    words = [f"mapping={printable(mapping.name)}", f"novelty={live_mapping.novelty:.1f}{beyond}"]
    return [*words, f"lacking={','.join(missing_joints)}"] if missing_joints else words


def mapping_trouble(live_mapping: LiveMapping | None, error: str, missing_joints: Sequence[str]) -> str:
    """Line for the terminal if the mapping failed or misses joints, else empty."""
    if error:
        return f"the mapping failed, the model plays: {error}"
    if live_mapping is None or not missing_joints:
        return ""
    return (
        f"mapping {live_mapping.mapping.name} was taught with joints that this source does not have:"
        f" {', '.join(missing_joints)}; what it says may be far off: teach it with this suit"
    )


def tempo_words(tempo: Tempo) -> list[str]:
    """Word on the tempo in beats per minute, while it is trusted."""
    return [f"tempo={tempo[0]:.0f}"] if tempo[2] >= BEAT_TRUST else []


def sink_counts(sinks: Sequence[Sink]) -> dict[str, dict[str, int]]:
    """Counters of each sink, by its name, of those that have any."""
    counters = {}
    for sink in sinks:
        try:
            # Plain numbers: the monitor's are sent as JSON.
            counters[sink.name] = {name: int(count) for name, count in sink.counters().items()}
        except FOREIGN:
            # A third-party sink whose counters fail must not stop the show.
            counters[sink.name] = {"uncounted": 1}
    return {name: counts for name, counts in counters.items() if counts}


def sink_troubles(sinks: Sequence[Sink]) -> dict[str, str]:
    """Why each sink does not reach its receiver, by its name; empty if it does."""
    troubles = {}
    for sink in sinks:
        try:
            troubles[sink.name] = sink.trouble
        except FOREIGN as error:
            # A third-party sink that fails must not hide the others.
            troubles[sink.name] = one_line(error)
    return troubles


def sink_words(sinks: Sequence[Sink]) -> list[str]:
    """Words on sinks whose receiver cannot be reached."""
    return [f"away={name}" for name, reason in sink_troubles(sinks).items() if reason]


def tape_words(tape: Records | None) -> Sequence[str]:
    """Words on the recording, if any."""
    return ["recording=no"] if tape is None else tape.status_words


def is_writing(tape: Records | None) -> bool:
    """Whether a recording is being written."""
    return tape_words(tape)[0] == "recording=yes"


class SinkWatch:
    """Reports sinks that become unreachable or reachable; called once a second."""

    def __init__(self) -> None:
        self._away: set[str] = set()

    def look(self, sinks: Sequence[Sink]) -> list[str]:
        """Lines for the terminal, one for each change."""
        trouble = sink_troubles(sinks)
        lost = [
            f"{name}: {reason}; trying again"
            for name, reason in trouble.items()
            if reason and name not in self._away
        ]
        restored = [
            f"{name} is there" for name, reason in trouble.items() if not reason and name in self._away
        ]
        self._away = {name for name, reason in trouble.items() if reason}
        return lost + restored


class LoadWatch:
    """Reports when frames are being skipped, and when no more are; called once a second."""

    def __init__(self) -> None:
        self._skipped = 0
        self._looks = 0
        self._is_behind = False

    def look(self, skipped: int) -> str | None:
        """A line for the terminal if there is news. ``skipped`` is the total number of skipped frames so
        far."""
        is_behind, self._skipped = skipped > self._skipped, skipped
        self._looks = 0 if is_behind == self._is_behind else self._looks + 1
        if self._looks < (_MIN_LOOKS if is_behind else _CAUGHT_UP_LOOKS):
            return None
        self._is_behind, self._looks = is_behind, 0
        if not is_behind:
            return "every frame is played again"
        return (
            "one core cannot keep up, or frames arrive several at once: of each performer only the newest"
            " waiting frame is played (skipped= in the status)"
        )


class BeatWatch:
    """Reports a new tempo; called once a second."""

    def __init__(self) -> None:
        self._reported_bpm = 0.0
        self._looks = 0

    def look(self, tempo: Tempo, *, led: bool = False) -> str | None:
        """A line for the terminal if there is news. ``led``: the tempo is an external one."""
        bpm, _, trust = tempo
        self._looks = self._looks + 1 if trust >= BEAT_TRUST else 0
        if self._looks < _MIN_LOOKS or abs(bpm - self._reported_bpm) <= _TEMPO_CHANGE * self._reported_bpm:
            return None
        self._reported_bpm = bpm
        return f"{'given' if led else 'body'} tempo: {bpm:.0f} bpm"
