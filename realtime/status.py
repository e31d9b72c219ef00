"""Words of `/anticip/status` about the stream and about the mapping."""

from __future__ import annotations

from collections.abc import Sequence

from realtime.mapping.live_mapping import LiveMapping
from realtime.playout import Playout
from realtime.protocols import Front

__all__ = ["stream_words", "taught_words"]

# A sender that was not heard for so long is not counted as ignored any more.
_RECENT_NS = 60_000_000_000


def stream_words(front: Front, playout: Playout | None, now_ns: int) -> list[str]:
    """How the stream keeps time, who plays, who does not."""
    rate, jitter_ms, _ = front.timing
    found = [] if rate is None else [f"rate={rate:.1f}", f"jitter_ms={jitter_ms:.1f}"]
    if playout is not None:
        found.append(f"buffer_ms={playout.buffer_ms:.1f}")
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
        return [f"mapping=failed: {error}"] if error else []
    mapping = taught.mapping
    beyond = f" ({mapping.beyond}s)" if taught.is_beyond else ""
    found = [f"mapping={mapping.name}", f"novelty={taught.novelty:.1f}{beyond}"]
    return [*found, f"lacking={','.join(lacking)}"] if lacking else found
