"""Writing what was calibrated into a rig file, and leaving the rest of it as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyanticip.errors import DeviceError, RigError
from pyanticip.motion.atomic import write_atomic
from realtime.rig.load import load_rig

__all__ = ["write_performer"]


def write_performer(path: Path, table: Mapping[str, Sequence[float]]) -> None:
    """Write these keys of ``[performer]`` into a rig file, made if it is not there; all else stays as it is.

    Raises :class:`RigError` where the file is no rig, or has the table in a form that cannot be edited.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text:
        load_rig(path)
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if re.match(r"\s*\[performer\]", line)), None)
    if begin is None:
        lines += ["", "[performer]"] if lines else ["[performer]"]
        begin = len(lines) - 1
    end = next((i for i in range(begin + 1, len(lines)) if re.match(r"\s*\[", lines[i])), len(lines))
    ours = re.compile(rf"\s*({'|'.join(table)})\s*=")
    kept = [line for line in lines[begin + 1 : end] if not ours.match(line)]
    last = next((i for i in range(len(kept), 0, -1) if kept[i - 1].strip()), 0)
    kept[last:last] = [f"{name} = {json.dumps(list(values))}" for name, values in table.items()]
    new = "\n".join([*lines[: begin + 1], *kept, *lines[end:]]) + "\n"
    try:
        read = tomllib.loads(new).get("performer", {})
    except tomllib.TOMLDecodeError:
        read = {}
    if any(read.get(name) != list(values) for name, values in table.items()):
        raise RigError(f"{path}: performer: expected a table [performer] with a line for each of its keys")
    try:
        write_atomic(path.absolute(), new.encode("utf-8"))
    except OSError as error:
        raise DeviceError(f"{path}: cannot be written ({(error.strerror or str(error)).lower()})") from None
