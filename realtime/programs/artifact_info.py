"""``pyanticip info`` for memories, mappings and checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyanticip.errors import OptionError, counted
from pyanticip.memory.files import is_memory, load_rehearsal
from pyanticip.models.checkpoint.manifest import (
    FORMAT,
    KINDS,
    LANGUAGE_FORMAT,
    MANIFEST,
    WEIGHTS,
    Manifest,
    read_description,
    read_language_manifest,
    read_manifest,
    read_verified,
)
from pyanticip.models.forecast.manifest import FORECAST_FORMAT, ForecastManifest, read_forecast_manifest
from pyanticip.teach.mapping import FORMAT as MAPPING
from pyanticip.teach.mapping import load_mapping
from pyanticip.untrusted import open_file, safetensors_header
from pyanticip.vocabulary import CANONICAL_JOINTS, EVENTS, HORIZONS_MS, PARAMETERS, RATE

_MAX_HEADER_BYTES = 8 << 20

_OTHER_FOLDERS = (
    ("set.json", "data set", "train data inspect"),
    ("project.json", "teach project", "teach list"),
)
"""Manifest of a folder, its kind, and the command that describes it."""

_READERS: dict[str, Callable[[Path], Manifest | ForecastManifest]] = {
    LANGUAGE_FORMAT: read_language_manifest,
    FORECAST_FORMAT: read_forecast_manifest,
}
"""Reads the manifest of a checkpoint, by its format; that of any other is a motion model's."""

Description = tuple[dict[str, Any], list[str]]
"""The description as a dict (for --json), and as lines of text."""


def describe_artifact(file: Path) -> Description | None:
    """Describe a memory, a mapping or a checkpoint (its folder, or a file in it); None: it is none of these.

    Raises:
        MotionError: it is damaged or of another version.
        OptionError: another command describes it.
    """
    folder = file.parent if file.name in (MANIFEST, WEIGHTS) else file
    if any((folder / subfolder / MANIFEST).is_file() for subfolder in ("", "checkpoint", "model")):
        return _checkpoint(folder)
    for name, kind, command in _OTHER_FOLDERS:
        if (file / name).is_file():
            raise OptionError(f"{file}: is a {kind}; see it with: pyanticip {command} {file}")
    if file.suffix == ".toml":
        raise OptionError(f"{file}: is not motion data; for a rig, see it with: pyanticip rig check {file}")
    if is_memory(file):
        return _memory(file)
    return _mapping(file) if MAPPING in _metadata(file) else None


def _metadata(file: Path) -> dict[str, Any]:
    """The metadata of a safetensors file; empty for any other file."""
    if not file.is_file():
        return {}
    with open_file(file) as opened:
        header = safetensors_header(opened.read(8 + _MAX_HEADER_BYTES), _MAX_HEADER_BYTES)
    metadata = header.get("__metadata__")
    return metadata if isinstance(metadata, dict) else {}


def _memory(file: Path) -> Description:
    memory, poses, _ = load_rehearsal(file)
    names, _, _, origins = memory.moments()
    lengths = {name: len(quats) / RATE for name, quats in poses.items()}
    moments = Counter(origins[:, 0].tolist())
    takes: list[dict[str, Any]] = [
        {
            "take": name,
            "seconds": round(lengths[name], 2) if name in lengths else None,
            "moments": moments[i],
        }
        for i, name in enumerate(names)
    ]
    seconds = round(sum(lengths.values()), 2)
    found = {"file": str(file), "kind": "memory", "takes": takes, "seconds": seconds, "moments": len(memory)}
    content = f"{counted(len(takes), 'take')}, {seconds:.2f} s, {counted(len(memory), 'moment')}"
    lines = [f"{file}: a memory of {content}"]
    for take in takes:
        length = "not followed" if take["seconds"] is None else f"{take['seconds']:.2f} s"
        lines.append(f"  {take['take']}: {length}, {counted(take['moments'], 'moment')}")
    return found, lines


def _mapping(file: Path) -> Description:
    mapping = load_mapping(file)
    missing = [name for name, present in zip(CANONICAL_JOINTS, mapping.mask, strict=True) if not present]
    found = {
        "file": str(file),
        "kind": "mapping",
        "name": mapping.name,
        "made": mapping.origin.get("made"),
        "outputs": [output.to_dict() for output in mapping.outputs],
        "classes": {name: list(labels) for name, labels in mapping.classes.items()},
        "gestures": {gesture.name: len(gesture.takes) for gesture in mapping.gestures},
        "model": (mapping.model or {}).get("name") if mapping.needs_model else None,
        "lacking": missing,
        "lead_ms": mapping.lead_ms,
        "beyond": mapping.beyond,
        "novelty": mapping.novelty_limit,
    }
    lines = [f"{file}: mapping {mapping.name}, made {found['made'] or 'at no known time'}"]
    lines += [f"  output {output.describe()}" for output in mapping.outputs]
    lines += [f"  class {name}: {', '.join(labels)}" for name, labels in mapping.classes.items()]
    lines += [
        f"  gesture {gesture.name}: {counted(len(gesture.takes), 'take')}" for gesture in mapping.gestures
    ]
    lines.append(f"  plays with {found['model'] or 'every model, and without one'}")
    lines.append(f"  taught without {', '.join(missing)}" if missing else "  taught with all joints")
    limit = "" if mapping.beyond == "play" else f" above a novelty of {mapping.novelty_limit:g}"
    return found, [*lines, f"  {mapping.lead_ms} ms ahead; far from all shown: {mapping.beyond}{limit}"]


def _checkpoint(folder: Path) -> Description:
    data = read_description(folder)
    manifest = _READERS.get(str(data.get("format")), read_manifest)(folder)
    for name in manifest.sha256:
        read_verified(folder, name, manifest.sha256)
    kind, count = KINDS[data["format"]], data["parameter_count"]
    name = f"{folder.resolve().name}-{manifest.sha256[WEIGHTS][:8]}"
    found = {"file": str(folder), "kind": kind, "name": name, "parameters": count, "model": data}
    lines = [f"{folder}: a {kind}, {name}, {count:,} parameters; its files are whole"]
    if data["format"] == FORMAT:
        lines.append(f"  plays {', '.join(PARAMETERS)}; events {', '.join(EVENTS)}")
        lines.append(f"  {', '.join(map(str, HORIZONS_MS))} ms ahead")
    held_out = manifest.training.get("held_out")
    for side, people in held_out.items() if isinstance(held_out, dict) else ():
        if isinstance(people, list):
            lines.append(f"  kept apart for {side}: {', '.join(map(str, people)) or 'nobody'}")
    return found, lines
