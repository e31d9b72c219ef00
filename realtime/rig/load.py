"""From TOML, a recording and the command line to a rig; every error is one line that names file and key."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pyanticip.errors import FormatError, OptionError, RigError
from pyanticip.models.checkpoint.manifest import WEIGHTS
from pyanticip.untrusted import open_file, parse_toml, read_file
from realtime.config import one_problem, problems_of
from realtime.rig.mapping import PerformerRig
from realtime.rig.monitor import monitor_table
from realtime.rig.paths import found_from, is_there
from realtime.rig.source import source_table
from realtime.rig.tree import OscQueryRig, Rig
from realtime.sinks.config import OscConfig
from realtime.sources.named_files import file_of, places_of, sum_of

__all__ = [
    "check_rig_overwrite",
    "load_rig",
    "monitors",
    "parse_rig",
    "recorded_as",
    "rig_for_performer",
    "template",
]

LARGEST = 1 << 20
"""No rig has more bytes."""
RECORDING = "the recording"
"""Where a rig comes from that is in no file."""
_SHAPING = (
    "model",
    "lead_ms",
    "gain",
    "smoothing",
    "shape",
    "events",
    "silence",
    "mapping",
    "performer",
    "memory",
    "cue",
)
"""What of a recording's rig shapes its sound."""


def _recorded(path: Path, over: Mapping[str, Any]) -> dict[str, Any]:
    """What shaped the sound of a recording, as a tree; empty for what is no recording.

    Raises a FormatError where its memory, mapping or model is not there, and none comes ``over`` it.
    """
    from pyanticip.motion.recording import is_recording, read_recording

    try:
        with open_file(path) as file:
            if not is_recording(file.read(16)):
                return {}
    except FormatError:
        # Told by whoever is going to read it.
        return {}
    header = read_recording(path).header
    rig, mapping, ran = header.get("rig"), header.get("mapping"), header.get("folder")
    if not isinstance(rig, dict):
        return {}
    tree = {key: rig[key] for key in _SHAPING if rig.get(key) is not None}
    if isinstance(mapping, dict) and isinstance(tree.get("mapping"), str):
        file, sha256 = tree["mapping"], str(mapping.get("sha256"))
        tree["mapping"] = found = file_of(file, sha256, path, ran)
        if not over.get("mapping") and not is_there(found):
            raise _gone(path, "mapping", file, sha256, ran)
    if isinstance(memory := tree.get("memory"), dict):
        tree["memory"] = _recorded_memory(path, memory, ran, "file" not in over.get("memory", {}))
    model, known = tree.get("model"), header.get("model")
    if isinstance(model, dict) and isinstance(known, dict) and isinstance(model.get("checkpoint"), str):
        tree["model"] = _recorded_model(path, model, known.get("sha256"), ran, over.get("model", {}))
    synth, source = rig.get("synth"), rig.get("source")
    if isinstance(synth, dict):
        tree["synth"] = {key: synth[key] for key in ("preset", "samples", "options") if synth.get(key)}
        if isinstance(samples := synth.get("samples"), str) and samples:
            folders = filter(os.path.isdir, places_of(samples, path, ran))
            tree["synth"]["samples"] = str(next(folders, samples))
    if isinstance(source, dict):
        kept = ("buffer_ms", "delay_ms", "from")
        tree["source"] = {key: source[key] for key in kept if source.get(key) is not None}
    return tree


def _recorded_memory(path: Path, table: dict[str, Any], ran: object, remembers: bool) -> dict[str, Any]:
    """The table with its file as it is found from here."""
    if not isinstance(file := table.get("file"), str):
        return dict(table)
    sha256 = str(table.get("sha256"))
    found = file_of(file, sha256, path, ran)
    known = remembers and table.get("sha256") is not None and table.get("enabled") is not False
    if known and sum_of(Path(found)) != sha256:
        raise _gone(path, "memory", file, sha256, ran)
    return {**table, "file": found}


def _recorded_model(
    path: Path, table: dict[str, Any], sums: object, ran: object, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """The table with its checkpoint as it is found from here; ``asked`` comes over it."""
    file, weights = table["checkpoint"], str(sums.get(WEIGHTS) if isinstance(sums, dict) else None)
    found = file_of(file, weights, path, ran)
    steps = {**table, **asked}.get("enabled") is not False and "checkpoint" not in asked
    if steps and not is_there(found):
        raise _gone(path, "checkpoint", file, weights, ran)
    return {**table, "checkpoint": found}


def _gone(path: Path, what: str, file: str, sha256: str, ran: object) -> FormatError:
    """What a recording was played with is nowhere; ``what`` is the option that names another."""
    places = ", ".join(map(str, places_of(file, path, ran)))
    renamed = "" if what == "checkpoint" else ", nor under another name beside the recording"
    return FormatError(
        f"{path}: the {what} that it was played with ({file}, sha256 {sha256[:12]}) is in none of"
        f" {places}{renamed}; expected --{what} {'FOLDER' if what == 'checkpoint' else 'FILE'}"
    )


def load_rig(
    path: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    played: Path | None = None,
    **body: Any,
) -> Rig:
    """The rig of a TOML file (or the built-in one) with the command line's ``overrides`` on top.

    ``overrides`` is a tree like the rig's, whose source may be typed (``mocopi://0.0.0.0:12351``); tables are
    merged, everything else replaces. A source of another kind on the command line does not inherit the
    file's port, nor another memory the sum of the file's. Where there is no rig file and a recording is
    ``played``, what shaped its sound stands in: all of its rig but receivers, ports and devices. ``body`` is
    what is said of how it is read (up, rest, joints ...), None where nothing is. Raises
    :class:`RigError`, FormatError for a damaged recording, or one that lacks its memory, mapping or model.
    """
    over = dict(overrides or {})
    tree: dict[str, Any] = {}
    where = "command line"
    if played is not None and path is None:
        tree = _recorded(played, over)
    if tree:
        where = RECORDING
    if path is not None:
        where = str(path)
        tree = parse_toml(read_file(path, LARGEST, RigError, "a rig"), path, RigError)
        tree = found_from(tree, Path(path).parent)
    alone = copy.deepcopy(tree)
    if isinstance(over.get("source"), str):
        over["source"] = source_table(over["source"])
    if isinstance(over.get("monitor"), str):
        over["monitor"] = monitor_table(over["monitor"])
    if told := {name: value for name, value in body.items() if value is not None}:
        over["source"] = {**over.get("source", {}), **told}
    if "file" in over.get("memory", {}) and isinstance(tree.get("memory"), dict):
        tree["memory"].pop("sha256", None)
    new = over.get("source")
    old = tree.get("source")
    if new and isinstance(old, dict) and new.get("kind", old.get("kind")) != old.get("kind", "mocopi"):
        old.pop("port", None)
    _merge(tree, over)
    try:
        rig = parse_rig(tree, where)
    except RigError as error:
        if where != RECORDING:
            raise
        # It was played with what is not here, such as another package's voice.
        raise RigError(f"{error}; play it by another rig: --rig FILE") from None
    if path is not None:
        rig._file = Path(path)
        rig._begun = None, rig.model_copy()
        # Only the command line may make it a rig.
        with contextlib.suppress(RigError):
            rig._begun = parse_rig(alone, where), rig.model_copy()
    return rig


def parse_rig(tree: Mapping[str, Any], where: str) -> Rig:
    """The rig of a tree that came from ``where``. Raises :class:`RigError`, one line."""
    try:
        return Rig.model_validate(tree)
    except ValidationError as error:
        told = RigError(f"{where}: {one_problem(error, Rig)}")
        told.problems = tuple(f"{where}: {line}" for line in problems_of(error, Rig))
        raise told from None


def _merge(tree: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = dict(value) if isinstance(value, Mapping) else value


def check_rig_overwrite(path: Path) -> None:
    """Before a rig is written over ``path``: an OptionError where something lies there that is not TOML."""
    if not path.exists():
        return
    try:
        parse_toml(read_file(path, LARGEST, RigError, "a rig"), path, RigError)
    except RigError as error:
        raise OptionError(f"{error}; only a rig is overwritten") from None


def template() -> str:
    """The commented rig that ``pyanticip rig init`` writes: every key at its built-in value."""
    return Path(__file__).with_name("template.toml").read_text(encoding="utf-8")


def rig_for_performer(rig: Rig, name: str) -> Rig:
    """The rig of one performer: what it would be if nobody else played, but for the names in addresses.

    What is of nobody in particular (MIDI without a channel, receivers of other kinds, the project of the
    whole rig) is the first performer's; the remote control (told as the rig's) and OSCQuery are the whole
    show's. Each has a monitor, at a port of its own (:func:`monitors`).
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
        "source": performer.source_for(rig.source),
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
        "oscquery": OscQueryRig(),
    }
    if not first:
        fields = type(rig).model_fields
        update |= {key: fields[key].default for key in ("midi", "sink", "teach")}
    if performer.channel is not None:
        update["midi"] = rig.midi.on(performer.channel, name, leads=first)
    if performer.teach is not None:
        update["teach"] = performer.teach
    if performer.memory is not None:
        # The rig's cues are moments of the rig's memory.
        told = {"enabled": True, "file": performer.memory, "sha256": None}
        update |= {"memory": rig.memory.model_copy(update=told), "cue": ()}
    if performer.cue is not None:
        update["cue"] = performer.cue
    found = rig.model_copy(update=update)
    found._one = name
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
