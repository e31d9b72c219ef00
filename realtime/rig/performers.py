"""The ``[[performer]]`` tables of a rig."""

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

_RESERVED_NAMES = ("control", "ensemble", "reply")


class PerformerTable(PerformerRig):
    """One ``[[performer]]``: a name, which becomes part of the OSC addresses, a suit, and settings of their
    own.

    The suit is given by its sender ``from`` (host or host:port), by a ``port`` other than that of
    ``[source]``, or by a whole ``source``. That inherits ``addresses`` and ``up`` of ``[source]`` if it has
    no addresses and is of the kind ``osc`` or of the same one. ``preset`` gives the performer a built-in
    voice, ``channel`` a MIDI channel. A ``teach`` project is theirs alone, as are a ``memory`` and its cues.
    Keys of ``[performer]`` override the rig's.
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
        """The performer's source; ``shared`` is the rig's ``[source]``."""
        source = self.source or shared
        same = source.kind in PRESETS and source.kind in ("osc", shared.kind)
        if same and shared.addresses and not source.addresses:
            inherited = {"addresses": shared.addresses, "up": source.up or shared.up}
            source = source.model_copy(update=inherited)
        overrides = {"port": self.port, "sender": self.sender}
        return source.model_copy(
            update={name: value for name, value in overrides.items() if value is not None}
        )


def check_performers(
    performers: Sequence[PerformerTable], shared: SourceRig, osc: Sequence[OscConfig]
) -> None:
    """Raise a ValueError if two performers cannot be told apart, or a receiver names an unknown one."""
    names = [performer.name for performer in performers]
    for target in osc:
        if target.performer is not None and target.performer not in names:
            known = ", ".join(names) or "there are no [[performer]] tables"
            raise ValueError(f"osc.performer: no performer {target.performer!r}; {known}")
    for name in names:
        if name in _RESERVED_NAMES:
            raise ValueError(f"performer: {name} cannot be a name: it is an address of the whole show")
        if names.count(name) > 1:
            raise ValueError(f"performer: two are called {name!r}")
    for performer in performers:
        if twice := repeated_cue(performer.cue or ()):
            raise ValueError(f"performer.{performer.name}.cue: two are called {twice!r}")
    projects = [Path(performer.teach).absolute() for performer in performers if performer.teach is not None]
    if len(set(projects)) < len(projects):
        raise ValueError("performer.teach: two are taught by one project; each needs their own")
    by_address: dict[tuple[str, int], list[tuple[str, SourceRig]]] = {}
    for performer in performers:
        source = performer.source_for(shared)
        if source.kind == "auto":
            raise ValueError(
                f"performer.{performer.name}: with several performers a source needs a kind, not auto"
            )
        by_address.setdefault(source.listen, []).append((performer.name, source))
    for (_, port), group in by_address.items():
        for (name, source), (other, other_source) in itertools.pairwise(group):
            both = f"performer: {name} and {other} listen at port {port}"
            if source.sender is None or other_source.sender is None:
                raise ValueError(f"{both}: each needs `from`, or a port of their own")
            if source.model_copy(update={"sender": None}) != other_source.model_copy(update={"sender": None}):
                raise ValueError(f"{both}: both need the same kind and settings")
        for i, (name, source) in enumerate(group):
            for other, other_source in group[:i]:
                if _overlap(source.sender or "", other_source.sender or ""):
                    same = f"`from` and `port` are the same: {other_source.sender}, {port}"
                    raise ValueError(f"performer: of {other} and {name} {same}")


def repeated_cue(cues: Sequence[Cue]) -> str:
    """The first name that several cues have; empty if there is none."""
    names = [cue.name for cue in cues]
    return next((name for name in names if names.count(name) > 1), "")


def _overlap(one: str, other: str) -> bool:
    """Whether a sender could match both, each a host or host:port."""
    return is_from(one, other) or is_from(other, one)
