"""Loads a rig from TOML, a recording and the command line; errors are one line with the file and the key."""

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
from realtime.rig.paths import is_there, resolve_paths
from realtime.rig.source import source_table
from realtime.rig.tree import OscQueryRig, Rig, monitor_table
from realtime.sinks.config import OscConfig
from realtime.sources.named_files import candidate_paths, file_sha256, find_file

MAX_RIG_BYTES = 1 << 20
"""Maximum size of a rig file."""
RECORDING_ORIGIN = "the recording"
"""Name in errors for a rig that comes from a recording."""
_SOUND_TABLES = (
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
"""Keys of a recording's rig that affect its sound."""


def _rig_of_recording(path: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that affected the sound of a recording, as a tree; empty if the file is not a recording.

    Raises a FormatError if its memory, mapping or model is missing and not replaced by ``overrides``.
    """
    from pyanticip.motion.recording import is_recording, read_recording

    try:
        with open_file(path) as file:
            if not is_recording(file.read(16)):
                return {}
    except FormatError:
        # Reported by the code that reads it later.
        return {}
    header = read_recording(path).header
    rig, mapping, run_folder = header.get("rig"), header.get("mapping"), header.get("folder")
    if not isinstance(rig, dict):
        return {}
    tree = {key: rig[key] for key in _SOUND_TABLES if rig.get(key) is not None}
    if isinstance(mapping, dict) and isinstance(tree.get("mapping"), str):
        file, sha256 = tree["mapping"], str(mapping.get("sha256"))
        tree["mapping"] = found = find_file(file, sha256, path, run_folder)
        if not overrides.get("mapping") and not is_there(found):
            raise _missing_file(path, "mapping", file, sha256, run_folder)
    if isinstance(memory := tree.get("memory"), dict):
        tree["memory"] = _memory_of_recording(
            path, memory, run_folder, "file" not in overrides.get("memory", {})
        )
    model, model_header = tree.get("model"), header.get("model")
    if (
        isinstance(model, dict)
        and isinstance(model_header, dict)
        and isinstance(model.get("checkpoint"), str)
    ):
        tree["model"] = _model_of_recording(
            path, model, model_header.get("sha256"), run_folder, overrides.get("model", {})
        )
    synth, source = rig.get("synth"), rig.get("source")
    if isinstance(synth, dict):
        tree["synth"] = {key: synth[key] for key in ("preset", "samples", "options") if synth.get(key)}
        if isinstance(samples := synth.get("samples"), str) and samples:
            folders = filter(os.path.isdir, candidate_paths(samples, path, run_folder))
            tree["synth"]["samples"] = str(next(folders, samples))
    if isinstance(source, dict):
        source_keys = ("buffer_ms", "delay_ms", "from")
        tree["source"] = {key: source[key] for key in source_keys if source.get(key) is not None}
    return tree


def _memory_of_recording(
    path: Path, table: dict[str, Any], run_folder: object, is_used: bool
) -> dict[str, Any]:
    """The memory table with the file as found from here."""
    if not isinstance(file := table.get("file"), str):
        return dict(table)
    sha256 = str(table.get("sha256"))
    found = find_file(file, sha256, path, run_folder)
    is_checked = is_used and table.get("sha256") is not None and table.get("enabled") is not False
    if is_checked and file_sha256(Path(found)) != sha256:
        raise _missing_file(path, "memory", file, sha256, run_folder)
    return {**table, "file": found}


def _model_of_recording(
    path: Path, table: dict[str, Any], sha256_by_file: object, run_folder: object, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """The model table with the checkpoint as found from here; ``asked`` are the keys that override it."""
    file, weights = (
        table["checkpoint"],
        str(sha256_by_file.get(WEIGHTS) if isinstance(sha256_by_file, dict) else None),
    )
    found = find_file(file, weights, path, run_folder)
    is_needed = {**table, **asked}.get("enabled") is not False and "checkpoint" not in asked
    if is_needed and not is_there(found):
        raise _missing_file(path, "checkpoint", file, weights, run_folder)
    return {**table, "checkpoint": found}


def _missing_file(path: Path, what: str, file: str, sha256: str, run_folder: object) -> FormatError:
    """The error for a missing file of a recording; ``what`` is the option that names another one."""
    places = ", ".join(map(str, candidate_paths(file, path, run_folder)))
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
    """Load the rig of a TOML file (or the default one) with the command line's ``overrides`` on top.

    ``overrides`` is a tree like the rig's, whose source may be text (``mocopi://0.0.0.0:12351``). Tables are
    merged, other values replaced; a source of another kind does not inherit the file's port, nor another
    memory the file's sha256. If there is no rig file and ``played`` is a recording, its rig is used except
    for receivers, ports and devices. ``body`` are the source's reading options (up, rest, joints ...), None
    where not given.

    Raises:
        RigError: The rig is not valid.
        FormatError: The recording is damaged, or its memory, mapping or model is missing.
    """
    over = dict(overrides or {})
    tree: dict[str, Any] = {}
    where = "command line"
    if played is not None and path is None:
        tree = _rig_of_recording(played, over)
    if tree:
        where = RECORDING_ORIGIN
    if path is not None:
        where = str(path)
        tree = parse_toml(read_file(path, MAX_RIG_BYTES, RigError, "a rig"), path, RigError)
        tree = resolve_paths(tree, Path(path).parent)
    file_tree = copy.deepcopy(tree)
    if isinstance(over.get("source"), str):
        over["source"] = source_table(over["source"])
    if isinstance(over.get("monitor"), str):
        over["monitor"] = monitor_table(over["monitor"])
    if reading_options := {name: value for name, value in body.items() if value is not None}:
        over["source"] = {**over.get("source", {}), **reading_options}
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
        if where != RECORDING_ORIGIN:
            raise
        # It was played with something that is missing here, such as another package's voice.
        raise RigError(f"{error}; play it by another rig: --rig FILE") from None
    if path is not None:
        rig._file = Path(path)
        rig._as_loaded = None, rig.model_copy()
        # The file alone may be no valid rig without the command line.
        with contextlib.suppress(RigError):
            rig._as_loaded = parse_rig(file_tree, where), rig.model_copy()
    return rig


def parse_rig(tree: Mapping[str, Any], where: str) -> Rig:
    """Validate a tree; ``where`` names its origin in errors. Raises :class:`RigError` with one line."""
    try:
        return Rig.model_validate(tree)
    except ValidationError as error:
        rig_error = RigError(f"{where}: {one_problem(error, Rig)}")
        rig_error.problems = tuple(f"{where}: {line}" for line in problems_of(error, Rig))
        raise rig_error from None


def _merge(tree: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = dict(value) if isinstance(value, Mapping) else value


def check_rig_overwrite(path: Path) -> None:
    """Raise an OptionError if ``path`` exists and is not TOML, so must not be overwritten by a rig."""
    if not path.exists():
        return
    try:
        parse_toml(read_file(path, MAX_RIG_BYTES, RigError, "a rig"), path, RigError)
    except RigError as error:
        raise OptionError(f"{error}; only a rig is overwritten") from None


def template() -> str:
    """The commented rig that ``pyanticip rig init`` writes, with every key at its default."""
    return Path(__file__).with_name("template.toml").read_text(encoding="utf-8")


def rig_for_performer(rig: Rig, name: str) -> Rig:
    """The rig of one performer, as if nobody else played, except for the names in addresses.

    Parts that belong to no performer (MIDI without a channel, receivers of other kinds, the project of the
    whole rig) are the first one's. The remote control's table is kept, but it and OSCQuery serve the whole
    show. Each performer has a monitor at a port of its own (:func:`monitors`).
    """
    performer = next(one for one in rig.performers if one.name == name)
    is_first = performer is rig.performers[0]
    has_own_voices = any(one.preset for one in rig.performers)
    own_keys = {
        key: getattr(performer, key) for key in performer.model_fields_set & PerformerRig.model_fields.keys()
    }
    preset = performer.preset or rig.synth.preset
    update: dict[str, Any] = {
        "performers": (),
        "performer": rig.performer.model_copy(update=own_keys),
        "source": performer.source_for(rig.source),
        "mapping": performer.mapping or rig.mapping,
        "osc": tuple(_target_for(target, name) for target in rig.osc if target.performer in (None, name)),
        "record": None if rig.record is None else str(recording_path(Path(rig.record), name)),
        "synth": rig.synth.model_copy(
            update={
                "enabled": bool(performer.preset) if has_own_voices else rig.synth.enabled and is_first,
                "port": rig.synth.port if is_first else None,
                "preset": preset,
            }
        ),
        "monitor": rig.monitor.model_copy(update={"port": monitors(rig).get(name, rig.monitor.port)}),
        "oscquery": OscQueryRig(),
    }
    if not is_first:
        fields = type(rig).model_fields
        update |= {key: fields[key].default for key in ("midi", "sink", "teach")}
    if performer.channel is not None:
        update["midi"] = rig.midi.on(performer.channel, name, leads=is_first)
    if performer.teach is not None:
        update["teach"] = performer.teach
    if performer.memory is not None:
        # The rig's cues are places in the rig's memory, not in this one.
        memory_update = {"enabled": True, "file": performer.memory, "sha256": None}
        update |= {"memory": rig.memory.model_copy(update=memory_update), "cue": ()}
    if performer.cue is not None:
        update["cue"] = performer.cue
    performer_rig = rig.model_copy(update=update)
    performer_rig._performer_name = name
    return performer_rig


def monitors(rig: Rig) -> dict[str, int]:
    """The port of each performer's monitor: that of the rig and the following ones."""
    return {one.name: rig.monitor.port + n for n, one in enumerate(rig.performers)}


def recording_path(path: Path, name: str) -> Path:
    """The path of one performer's recording."""
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _target_for(target: OscConfig, name: str) -> OscConfig:
    """A receiver's table for one performer: the name is appended to the prefix and put before other
    addresses.

    A receiver of this performer alone is unchanged.
    """
    if target.performer is not None:
        return target.model_copy(update={"performer": None})
    addresses = {key: (f"/{name}{head}", *rest) for key, (head, *rest) in target.addresses.items()}
    prefixes = {key: f"{getattr(target, key).rstrip('/')}/{name}" for key in ("prefix", "taught_prefix")}
    return target.model_copy(update={**prefixes, "addresses": addresses})
