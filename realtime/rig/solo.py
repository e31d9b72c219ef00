"""The rig that each of several performers plays."""

from pathlib import Path
from typing import Any

from realtime.rig.mapping import PerformerRig
from realtime.rig.tree import Rig
from realtime.sinks.config import OscConfig

__all__ = ["monitors", "recorded_as", "solo"]


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
