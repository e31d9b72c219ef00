"""Several performers in one rig: the tables that tell them apart, and the rig that each of them plays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field

from realtime.config import Port, registered
from realtime.rig.mapping import PerformerRig
from realtime.rig.source import SourceRig
from realtime.seams import VOICES
from realtime.sinks.config import OscConfig

if TYPE_CHECKING:
    from realtime.rig.tree import Rig

__all__ = ["OneOfManyRig", "check", "monitors", "recorded_as", "solo"]

_TAKEN = ("control", "ensemble", "reply")


class OneOfManyRig(PerformerRig):
    """One ``[[performer]]``: a name, which becomes part of the addresses, a suit, and what is their own.

    The suit is who is heard ``from`` a host or host:port, a ``port`` beside that of ``[source]``, or a whole
    ``source`` like it. Whoever names a ``preset`` is heard in a built-in voice of their own, who names a
    ``channel``, on that one by ``[midi]``; a ``teach`` project is theirs alone. The keys of ``[performer]``
    are theirs where they are given.
    """

    model_config = ConfigDict(populate_by_name=True)

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_-]+$", max_length=40)]
    sender: str | None = Field(default=None, alias="from", min_length=1)
    port: Port | None = None
    source: SourceRig | None = None
    preset: Annotated[str, registered(VOICES)] | None = None
    channel: Annotated[int, Field(ge=1, le=16)] | None = None
    mapping: str | None = None
    teach: str | None = None

    def hears(self, shared: SourceRig) -> SourceRig:
        """Where their motion comes from; ``shared`` is the rig's ``[source]``."""
        source = self.source or shared
        told = {"port": self.port, "sender": self.sender}
        return source.model_copy(update={name: value for name, value in told.items() if value is not None})


def check(performers: Sequence[OneOfManyRig], shared: SourceRig, osc: Sequence[OscConfig]) -> None:
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
    taught = [Path(one.teach).absolute() for one in performers if one.teach is not None]
    if len(set(taught)) < len(taught):
        raise ValueError("performer.teach: two are taught by one project; each needs their own")
    heard: dict[tuple[str, int], list[tuple[str, SourceRig]]] = {}
    for one in performers:
        source = one.hears(shared)
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
    return one == other or one == _host(other) or other == _host(one)


def _host(sender: str) -> str:
    return sender.rpartition(":")[0] or sender


def solo(rig: Rig, name: str) -> Rig:
    """The rig of one performer: what it would be if nobody else played, but for the names in addresses.

    What is of nobody in particular (MIDI without a channel, receivers of other kinds, the project of the
    whole rig) is the first performer's; the remote control and OSCQuery are the whole show's. Each has a
    monitor, at a port of its own (:func:`monitors`).
    """
    performer = next(one for one in rig.performers if one.name == name)
    first = performer is rig.performers[0]
    asked = any(one.preset for one in rig.performers)
    own = {
        key: getattr(performer, key) for key in performer.model_fields_set & PerformerRig.model_fields.keys()
    }
    preset = performer.preset or rig.synth.preset
    update: dict[str, Any] = {
        "performers": (),
        "performer": rig.performer.model_copy(update=own),
        "source": performer.hears(rig.source),
        "mapping": performer.mapping or rig.mapping,
        "osc": tuple(_for(target, name) for target in rig.osc if target.performer in (None, name)),
        "record": None if rig.record is None else str(recorded_as(Path(rig.record), name)),
        "synth": rig.synth.model_copy(
            update={
                "enabled": bool(performer.preset) if asked else rig.synth.enabled and first,
                "port": rig.synth.port if first else None,
                "preset": preset,
            }
        ),
        "monitor": rig.monitor.model_copy(update={"port": monitors(rig).get(name, rig.monitor.port)}),
        "control": rig.control.model_copy(update={"enabled": False}),
        "oscquery": rig.oscquery.model_copy(update={"enabled": False}),
    }
    if not first:
        fields = type(rig).model_fields
        update |= {key: fields[key].default for key in ("midi", "sink", "teach")}
    if performer.channel is not None:
        update["midi"] = rig.midi.on(performer.channel, name, leads=first)
    if performer.teach is not None:
        update["teach"] = performer.teach
    found = rig.model_copy(update=update)
    # What is saved is one performer's: it must not replace the rig of all.
    found._file = None
    return found


def monitors(rig: Rig) -> dict[str, int]:
    """The port of each performer's monitor: the rig's, and those that follow."""
    return {one.name: rig.monitor.port + n for n, one in enumerate(rig.performers)}


def recorded_as(path: Path, name: str) -> Path:
    """The file of one performer's recording."""
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _for(target: OscConfig, name: str) -> OscConfig:
    """A receiver as one performer sends to it: the name behind the prefix, and before an address of its own.

    Who hears this performer alone is sent to as if nobody else played.
    """
    if target.performer is not None:
        return target.model_copy(update={"performer": None})
    addresses = {key: (f"/{name}{head}", *rest) for key, (head, *rest) in target.addresses.items()}
    return target.model_copy(update={"prefix": f"{target.prefix.rstrip('/')}/{name}", "addresses": addresses})
