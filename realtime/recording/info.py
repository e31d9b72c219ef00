"""Summary of a recording, and its export to plain files, for the commands ``info`` and ``export``."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from pyanticip import _core
from pyanticip.errors import DeviceError, OptionError, reason
from pyanticip.motion.atomic import write_file
from pyanticip.motion.recording import Control, Frame, Note, Output, Raw, Record, Recording, read_recording
from pyanticip.vocabulary import CANONICAL_JOINTS, EVENTS, PARAMETERS, RATE, SCALARS
from realtime.protocols import FIRST_SENDER_TIMEOUT_NS, lost_frames
from realtime.sources.base import NATIVE
from realtime.sources.replay import sender_of

_MAX_LISTED = 100


@dataclass
class _Source:
    datagrams: int = 0
    bytes: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def add(self, raw: Raw) -> None:
        if not self.datagrams:
            self.first_ns = raw.t_ns
        self.datagrams += 1
        self.bytes += len(raw.data)
        self.last_ns = raw.t_ns

    def summary(self) -> dict[str, Any]:
        seconds = (self.last_ns - self.first_ns) / 1e9
        rate = (self.datagrams - 1) / seconds if seconds > 0 else None
        return {"datagrams": self.datagrams, "bytes": self.bytes, "seconds": seconds, "rate": rate}


class _Survey:
    """Counts a recording record by record."""

    def __init__(self, recording: Recording) -> None:
        self.start_ns = self.last_ns = recording.start_ns
        self.counts = {"datagrams": 0, "frames": 0, "outputs": 0, "events": 0, "notes": 0, "commands": 0}
        self.sources: dict[str, _Source] = {}
        self.gaps: list[dict[str, Any]] = []
        self.gap_count = 0
        self.missing = 0
        self.notes: list[dict[str, Any]] = []
        self._fronts: dict[str, _core.LiveFront] = {}
        self._seq: int | None = None
        # The only sender to listen to (None: any), and the only one until its first frame.
        self._selected_sender = sender_of(recording.header)
        self._first_sender: str | None = None

    def add(self, record: Record) -> None:
        if self.start_ns is None:
            self.start_ns = record.t_ns
        self.last_ns = record.t_ns if self.last_ns is None else max(self.last_ns, record.t_ns)
        seconds = (record.t_ns - self.start_ns) / 1e9
        if isinstance(record, Raw):
            self.counts["datagrams"] += 1
            self.sources.setdefault(record.source, _Source()).add(record)
            self._count_reception(record)
        elif isinstance(record, Control):
            self.counts["commands"] += 1
            if record.name == "source":
                self._selected_sender = str(record.arguments[0]) or None if record.arguments else None
                for front in self._fronts.values():
                    front.listen_to(self._selected_sender)
            elif record.name == "player" and record.arguments:
                self._first_sender = str(record.arguments[0])
        elif isinstance(record, Frame):
            self.counts["frames"] += 1
            self._check_sequence(record.seq, seconds)
        elif isinstance(record, Output):
            self.counts["outputs"] += 1
            self.counts["events"] += len(record.events)
        elif isinstance(record, Note):
            self.counts["notes"] += 1
            if len(self.notes) < _MAX_LISTED:
                self.notes.append({"seconds": seconds, "text": record.text})

    def _count_reception(self, raw: Raw) -> None:
        """Count the datagram by the same code as in a show."""
        kind, _, sender = raw.source.partition("@")
        if kind in NATIVE:
            front = self._fronts.get(kind)
            if front is None:
                front = self._fronts[kind] = _core.LiveFront(kind)
                front.listen_to(self._first_sender or self._selected_sender)
            frame = front.feed(raw.data, raw.t_ns, sender)
            if self._first_sender is not None and (
                frame is not None or raw.t_ns - (self.start_ns or 0) > FIRST_SENDER_TIMEOUT_NS
            ):
                self._first_sender = None
                front.listen_to(self._selected_sender)

    def _reception(self) -> dict[str, dict[str, Any]]:
        receptions = {}
        for kind, front in self._fronts.items():
            rate, jitter_ms, _ = front.timing
            counts = {name: n for name, n in front.counters().items() if n}
            players = [name for name, plays, *_ in front.senders() if plays]
            receptions[kind] = {"rate": rate, "jitter_ms": jitter_ms, "from": players[:1], "counters": counts}
        return receptions

    def _lost(self) -> int | None:
        lost = [lost_frames(front.counters()) for front in self._fronts.values()]
        counts = [count for count in lost if count is not None]
        return sum(counts) if counts or not lost else None

    def _check_sequence(self, seq: int, seconds: float) -> None:
        if self._seq is not None and seq != self._seq + 1:
            missing = seq - self._seq - 1
            self.gap_count += 1
            self.missing += max(missing, 0)
            if len(self.gaps) < _MAX_LISTED:
                self.gaps.append({"seconds": seconds, "seq": seq, "missing": missing})
        self._seq = seq

    def summary(self, recording: Recording) -> dict[str, Any]:
        start_unix_ns = recording.header.get("unix_ns")
        date = None
        if isinstance(start_unix_ns, int) and 0 <= start_unix_ns < 1 << 62:
            date = datetime.fromtimestamp(start_unix_ns / 1e9, UTC).isoformat(timespec="seconds")
        duration = 0.0
        if self.start_ns is not None and self.last_ns is not None:
            duration = (self.last_ns - self.start_ns) / 1e9
        return {
            "file": str(recording.path),
            "bytes": recording.path.stat().st_size,
            "version": ".".join(map(str, recording.version)),
            "recorded": date,
            "duration_s": duration,
            **self.counts,
            "sources": {name: source.summary() for name, source in self.sources.items()},
            "heard": self._reception(),
            "lost": self._lost(),
            "gaps": self.gaps,
            "gap_count": self.gap_count,
            "missing_frames": self.missing,
            "notes_text": self.notes,
            "skipped_records": recording.skipped,
            "header": _plain(recording.header),
            "warnings": list(recording.warnings),
        }


def _plain(value: Any) -> Any:
    """``value`` converted to what JSON can represent."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def recording_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Summarise a recording in one pass over it.

    Returns:
        dict: Ready for JSON: file, bytes, version, recorded (ISO time or None), duration_s, datagrams,
        frames, outputs, events, notes (counts); sources: {name: {datagrams, bytes, seconds, rate}}; heard:
        {protocol: {rate, jitter_ms, from, counters}} as ``live`` counted it, and lost: frames that never
        arrived, None if they have no numbers; gaps: the first 100 places where the frame number does not
        increase by one ({seconds, seq, missing}), gap_count, missing_frames; notes_text: the first 100
        ({seconds, text}); skipped_records (unknown types), header, warnings.

    Raises:
        FormatError: Not a recording, or one of a newer major version.
    """
    recording = read_recording(path)
    survey = _Survey(recording)
    for record in recording:
        survey.add(record)
    return survey.summary(recording)


def _motion(frames: Sequence[Frame]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of the poses of a recording, readable by ``load_motion``."""
    masks = [np.ones(len(CANONICAL_JOINTS)) if frame.mask is None else frame.mask for frame in frames]
    return {
        "quats": np.array([frame.quats for frame in frames]),
        "root": np.array([frame.root for frame in frames]),
        "rate": np.array(RATE),
        "seq": np.array([frame.seq for frame in frames], np.int64),
        "t_ns": np.array([frame.t_ns for frame in frames], np.int64),
        "t_source_ns": np.array([frame.t_source_ns for frame in frames], np.int64),
        "names": np.array(CANONICAL_JOINTS),
        "parents": np.asarray(_core.CANONICAL_PARENTS, np.int32),
        "offsets": np.asarray(_core.CANONICAL_OFFSETS, np.float32),
        "mask": np.sum(masks, axis=0) > len(frames) / 2,
    }


def _names(known: Sequence[str], prefix: str, count: int) -> list[str]:
    """Names of ``count`` columns: the known ones, then numbered ones (taught outputs); all are numbered if
    there are fewer than known."""
    if count < len(known):
        return [f"{prefix}_{i}" for i in range(count)]
    return [*known, *(f"{prefix}_{i}" for i in range(len(known), count))]


def _folder(out: Path, names: Sequence[str]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise DeviceError(f"{out}: cannot be written to ({reason(error)})") from None
    for name in names:
        if (out / name).exists():
            raise OptionError(f"{out / name}: already exists; an export never overwrites")


def _taught(header: Mapping[str, Any]) -> list[str]:
    """Outputs of the mapping that played, whose values follow the parameters."""
    mapping = header.get("mapping")
    names = mapping.get("outputs") if isinstance(mapping, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def _table(path: Path, outputs: Sequence[Output], start_ns: int, taught: Sequence[str]) -> None:
    """Write one line per output: seconds, frame number, scalars, parameters, events, and the model's
    telemetry if there is any."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    scalars = max((len(output.scalars) for output in outputs), default=len(SCALARS))
    params = max((len(output.params) for output in outputs), default=len(PARAMETERS))
    columns = [
        "seconds",
        "seq",
        *_names(SCALARS, "scalar", scalars),
        *_names((*PARAMETERS, *taught[: max(params - len(PARAMETERS), 0)]), "param", params),
    ]
    columns += [f"{name}{suffix}" for name in EVENTS for suffix in ("", "_ahead_s")]
    field, plan = any(len(output.field) for output in outputs), any(output.plan for output in outputs)
    columns += ["other_events", *(["trust", "curvature"] if field else []), *(["plan"] if plan else [])]
    writer.writerow(columns)

    def cells(values: Sequence[float], count: int) -> list[str]:
        return [f"{value:.7g}" for value in values] + [""] * (count - len(values))

    for output in outputs:
        events = {name: (strength, ahead) for name, strength, ahead in output.events}
        row = [f"{(output.t_ns - start_ns) / 1e9:.6f}", str(output.seq)]
        row += cells(output.scalars.tolist(), scalars) + cells(output.params.tolist(), params)
        for name in EVENTS:
            row += cells(events.pop(name, ()), 2)
        row.append(
            ";".join(f"{name}={strength:.7g}@{ahead:.7g}" for name, (strength, ahead) in events.items())
        )
        if field:
            row += cells(list(output.field), 2)
        if plan:
            row.append(";".join(f"{code}={weight:.7g}" for code, weight in output.plan))
        writer.writerow(row)
    write_file(path, buffer.getvalue().encode(), new=True)


def export_recording(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> dict[str, Any]:
    """Write a recording's poses, outputs and header as plain files into the folder ``out``.

    ``frames.npz`` if there are frames (quats (T, 22, 4) float32 w x y z local, root (T, 3) m, rate, seq,
    t_ns, t_source_ns, names, parents, offsets, mask: ``load_motion`` reads it), ``outputs.csv`` (one line per
    output) and ``header.json`` (what :func:`recording_info` returns). Each file is written atomically; the
    header comes last.

    Returns:
        dict: What :func:`recording_info` returns, and ``files``: the paths written.

    Raises:
        FormatError: Not a recording, or one of a newer major version.
        OptionError: One of the files already exists.
        DeviceError: The folder cannot be written to.
    """
    recording = read_recording(path)
    folder = Path(out)
    names = ["frames.npz", "outputs.csv", "header.json"]
    _folder(folder, names)
    survey, frames, outputs = _Survey(recording), [], []
    for record in recording:
        survey.add(record)
        if isinstance(record, Frame):
            frames.append(record)
        elif isinstance(record, Output):
            outputs.append(record)
    info = survey.summary(recording)
    if frames:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **_motion(frames))  # type: ignore[arg-type]
        write_file(folder / "frames.npz", buffer.getvalue(), new=True)
    else:
        info["warnings"].append(f"{recording.path}: holds no frame of motion: no frames.npz is written")
        names.remove("frames.npz")
    _table(folder / "outputs.csv", outputs, survey.start_ns or 0, _taught(recording.header))
    text = json.dumps(info, indent=2, ensure_ascii=False)
    write_file(folder / "header.json", text.encode() + b"\n", new=True)
    return {**info, "files": [str(folder / name) for name in names]}
