"""Several performers in one rig: the tables that tell them apart."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from pyanticip.memory.cues import Cue
from pyanticip.options import PathText
from realtime.config import Port, Sender, registered
from realtime.rig.mapping import PerformerRig
from realtime.rig.source import SourceRig
from realtime.seams import VOICES
from realtime.sinks.config import OscConfig
from realtime.sockets import is_from
from realtime.sources.osc import PRESETS

__all__ = ["PerformerTable", "check_performers"]

_TAKEN = ("control", "ensemble", "reply")


class PerformerTable(PerformerRig):
    """One ``[[performer]]``: a name, which becomes part of the addresses, a suit, and what is their own.

    The suit is who is heard ``from`` a host or host:port, a ``port`` beside that of ``[source]``, or a whole
    ``source`` like it, which has the ``addresses`` of ``[source]`` (and ``up``) where it has none and is
    ``osc``, or of that kind. Whoever names a ``preset`` is heard in a built-in voice of their own, who names
    a ``channel``, on that one by ``[midi]``; a ``teach`` project is theirs alone, and so are a ``memory`` and
    its cues. The keys of ``[performer]`` are theirs where they are given.
    """

    model_config = ConfigDict(populate_by_name=True)

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_-]+$", max_length=40)]
    sender: Sender | None = Field(default=None, alias="from")
    port: Port | None = None
    source: SourceRig | None = None
    preset: Annotated[str, registered(VOICES)] | None = None
    channel: Annotated[int, Field(ge=1, le=16)] | None = None
    mapping: PathText | None = None
    teach: PathText | None = None
    memory: PathText | None = None
    cue: tuple[Cue, ...] | None = None

    def source_for(self, shared: SourceRig) -> SourceRig:
        """Where their motion comes from; ``shared`` is the rig's ``[source]``."""
        source = self.source or shared
        same = source.kind in PRESETS and source.kind in ("osc", shared.kind)
        if same and shared.addresses and not source.addresses:
            told = {"addresses": shared.addresses, "up": source.up or shared.up}
            source = source.model_copy(update=told)
        own = {"port": self.port, "sender": self.sender}
        return source.model_copy(update={name: value for name, value in own.items() if value is not None})


def check_performers(
    performers: Sequence[PerformerTable], shared: SourceRig, osc: Sequence[OscConfig]
) -> None:
    """Raises a ValueError where two performers could not be told apart, or a receiver hears none there is."""
    names = [one.name for one in performers]
    for target in osc:
        if target.performer is not None and target.performer not in names:
            known = ", ".join(names) or "there are no [[performer]] tables"
            raise ValueError(f"osc.performer: no performer {target.performer!r}; {known}")
    for name in names:
        if name in _TAKEN:
            raise ValueError(f"performer: {name} is no name for one: it is an address of the whole show")
        if names.count(name) > 1:
            raise ValueError(f"performer: two are called {name!r}")
    for one in performers:
        cues = [cue.name for cue in one.cue or ()]
        if twice := next((name for name in cues if cues.count(name) > 1), None):
            raise ValueError(f"performer.{one.name}.cue: two are called {twice!r}")
    taught = [Path(one.teach).absolute() for one in performers if one.teach is not None]
    if len(set(taught)) < len(taught):
        raise ValueError("performer.teach: two are taught by one project; each needs their own")
    heard: dict[tuple[str, int], list[tuple[str, SourceRig]]] = {}
    for one in performers:
        source = one.source_for(shared)
        if source.kind == "auto":
            raise ValueError(f"performer.{one.name}: with several performers a source needs a kind, not auto")
        heard.setdefault(source.listen, []).append((one.name, source))
    for (_, port), those in heard.items():
        for (name, source), (other, its) in itertools.pairwise(those):
            both = f"performer: {name} and {other} listen at port {port}"
            if source.sender is None or its.sender is None:
                raise ValueError(f"{both}: each needs `from`, or a port of their own")
            if source.model_copy(update={"sender": None}) != its.model_copy(update={"sender": None}):
                raise ValueError(f"{both}: what comes there can only be of one kind and be heard in one way")
        for i, (name, source) in enumerate(those):
            for other, its in those[:i]:
                if _overlap(source.sender or "", its.sender or ""):
                    same = f"`from` and `port` are the same: {its.sender}, {port}"
                    raise ValueError(f"performer: of {other} and {name} {same}")


def _overlap(one: str, other: str) -> bool:
    """Whether a sender could be both: host, or host:port."""
    return is_from(one, other) or is_from(other, one)
