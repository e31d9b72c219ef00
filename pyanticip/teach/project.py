"""A teaching project: a folder of takes and the outputs they demonstrate, with a history of every change.

::

    PROJECT/
      project.json          the manifest: outputs and takes at the newest revision
      history/000012.json   the manifest of every revision
      takes/<sha>.npz       motion, one file per take; `pyanticip replay` plays it
      curves/<sha>.safetensors
      mapping.safetensors   what `pyanticip live --mapping` plays; replaced only by a complete one
      report.html           evaluation of the newest fit, take by take
      mappings/             every mapping that was ever fitted
      cache/                the model's hidden states over the takes; may be deleted

Motion and curve files are named by their content and never rewritten. An operation writes the files it needs,
then the new manifest into ``history``, then replaces ``project.json``: whenever it is interrupted, the
project is whole, at the revision before or after it. Writers take turns by a lock on the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from pyanticip.errors import DeviceError, FormatError, MotionError, OptionError
from pyanticip.motion.atomic import draft_folder, write_atomic, write_file, writing
from pyanticip.motion.clip import Clip
from pyanticip.motion.load import parse_motion
from pyanticip.motion.npz import save_npz
from pyanticip.system import try_lock
from pyanticip.teach.outputs import Output, check_outputs, find_output
from pyanticip.teach.state import MAX_TAKE_FRAMES, State, TakeEntry, check_take_name, read_state
from pyanticip.untrusted import read_file
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE

MANIFEST, MAPPING, MAPPINGS, CACHE = "project.json", "mapping.safetensors", "mappings", "cache"
_HISTORY, _TAKES, _CURVES, _LOCK = "history", "takes", "curves", ".lock"
_LOCK_TIMEOUT_S = 5.0
_MAX_FILE_BYTES = 1 << 28

F64 = npt.NDArray[np.float64]


def check_new_project(path: Path) -> None:
    """Raise an OptionError if no project can begin there: it is not a new or an empty folder, or the folder
    for it does not exist."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise OptionError(f"{path}: already exists; a project begins in a new or an empty folder")
    if not (parent := path.absolute().parent).is_dir():
        raise OptionError(f"{path}: the folder {parent} does not exist")


class Project:
    """An open project; ``state`` is its manifest as it was last read or written by this object."""

    def __init__(self, folder: str | os.PathLike[str], state: State) -> None:
        self.folder = Path(folder)
        self.state = state
        self._read_stamp: tuple[int, int] | None = None

    @classmethod
    def create(cls, folder: str | os.PathLike[str], outputs: tuple[Output, ...] = ()) -> Project:
        """Make a new project in a folder that does not exist, or is empty.

        Raises:
            OptionError: as :func:`check_new_project`, or an output's address or name is taken.
            DeviceError: it cannot be written; at most an empty folder is left.
        """
        check_outputs(outputs)
        path = Path(folder)
        check_new_project(path)
        names, folders = ", ".join(one.name for one in outputs), (_HISTORY, _TAKES, _CURVES, MAPPINGS, CACHE)
        try:
            for name in folders:
                (path / name).mkdir(parents=True, exist_ok=True)
            project = cls(path, State(0, -1, "", ""))
            with project._locked():
                new = State(0, -1, "", "", outputs)
                project._write(new, 0, -1, f"begin with outputs {names}" if names else "begin")
        except BaseException:
            # A half-made project would neither open nor leave the folder free for the next attempt.
            for name in folders:
                shutil.rmtree(path / name, ignore_errors=True)
            with contextlib.suppress(OSError):
                (path / _LOCK).unlink()
            raise
        return project

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Project:
        """Open a project.

        Raises:
            FormatError: no project, or a damaged manifest; the message has the command that restores it.
        """
        path = Path(folder)
        if not (path / MANIFEST).is_file():
            raise FormatError(
                f"{path}: is not a teaching project (no {MANIFEST}); make one: pyanticip teach new"
            )
        try:
            return cls(path, read_state(path / MANIFEST))
        except FormatError as error:
            revisions = sorted((path / _HISTORY).glob("*.json"))
            hint = (
                f"; go back: pyanticip teach undo {quote(str(path))} --to {int(revisions[-1].stem)}"
                if revisions
                else ""
            )
            raise FormatError(f"{error}{hint}") from None

    def refresh(self) -> None:
        """Reload the manifest if another program changed it; keep the old state if it cannot be read."""
        with contextlib.suppress(OSError, MotionError):
            stamp = self._stamp()
            if stamp != self._read_stamp:
                self.state = read_state(self.folder / MANIFEST)
                # Set after the state here, and before it in _write: a race only causes one more read.
                self._read_stamp = stamp

    # -- outputs -----------------------------------------------------------------------------------

    def add_output(self, output: Output) -> None:
        """Add an output; takes without values for it do not teach it."""
        self._change(f"add output {output.name}", lambda s: replace(s, outputs=(*s.outputs, output)))

    def remove_output(self, name: str) -> None:
        """Remove an output and its values in all takes; its curves stay on disk for an undo."""

        def edit(s: State) -> State:
            find_output(s.outputs, name)
            takes = tuple(_without(take, name) for take in s.takes)
            return replace(s, outputs=tuple(o for o in s.outputs if o.name != name), takes=takes)

        self._change(f"remove output {name}", edit)

    def rename_output(self, old: str, new: str) -> None:
        """Rename an output, here and in every take."""

        def edit(s: State) -> State:
            renamed = replace(find_output(s.outputs, old), name=new)
            outputs = tuple(renamed if o.name == old else o for o in s.outputs)
            return replace(s, outputs=outputs, takes=tuple(_renamed(take, old, new) for take in s.takes))

        self._change(f"rename output {old} to {new}", edit)

    def change_output(self, name: str, **fields: Any) -> None:
        """Change an output's range, curve, address or neutral value. The takes keep their values as given.

        Raises:
            OptionError: nothing to change, an unknown output, or an invalid result.
        """
        if not fields:
            raise OptionError(f"output {name}: expected a range or an address to change it to")

        def edit(s: State) -> State:
            changed = replace(find_output(s.outputs, name), **fields)
            return replace(s, outputs=tuple(changed if o.name == name else o for o in s.outputs))

        self._change(f"change output {name}: {', '.join(f'{k}={v}' for k, v in fields.items())}", edit)

    # -- takes -------------------------------------------------------------------------------------

    def add_take(
        self,
        name: str,
        clip: Clip,
        *,
        begin: int = 0,
        values: Mapping[str, float] | None = None,
        columns: Mapping[str, F64] | None = None,
        labels: Mapping[str, str] | None = None,
        source: str = "",
    ) -> TakeEntry:
        """Add a demonstration. In a project without outputs it creates those that it names, each 0..1.

        Args:
            clip: motion on the canonical body at 50 Hz; the first ``begin`` frames lead in.
            values: constants, in the outputs' own units.
            columns: curves (frames after ``begin``,), in the outputs' own units.
            labels: the label it shows, by class.

        Raises:
            OptionError: a name in use, unknown outputs, values outside their ranges.
        """
        check_take_name(name)
        values, columns = dict(values or {}), dict(columns or {})
        if clip.rate != RATE or clip.quats.shape[1] != len(CANONICAL_JOINTS):
            raise OptionError(f"take {name}: expected 22 canonical joints at 50 Hz, got {clip!r}")
        if len(clip) > MAX_TAKE_FRAMES:
            raise OptionError(f"take {name}: at most {MAX_TAKE_FRAMES} frames (30 minutes), got {len(clip)}")
        for output, column in columns.items():
            if column.shape != (len(clip) - begin,) or not np.isfinite(column).all():
                raise OptionError(
                    f"take {name}: the curve of {output} must be {len(clip) - begin} finite numbers"
                )
        entry = TakeEntry(
            name=name,
            motion=self._store_motion(clip),
            total=len(clip),
            begin=begin,
            mask="".join("1" if present else "0" for present in clip.mask),
            source=source,
            added=_now(),
            values=values,
            curve=self._store_curves(columns) if columns else None,
            columns={output: output for output in columns},
            labels=dict(labels or {}),
        )
        extremes = {output: (float(column.min()), float(column.max())) for output, column in columns.items()}
        self._change(f"add take {name}", lambda s: _with_take(s, entry, extremes))
        return entry

    def check_new_take(self, name: str, values: Mapping[str, float], labels: Mapping[str, str]) -> None:
        """Check that such a take can be added, before it is played. Raises as :meth:`add_take`."""
        mask = "1" * len(CANONICAL_JOINTS)
        entry = TakeEntry(name, "0" * 64, 1, 0, mask, values=dict(values), labels=dict(labels))
        _with_take(self.state, entry, {})

    def remove_take(self, name: str) -> None:
        """Remove a demonstration; its files stay on disk for an undo."""

        def edit(s: State) -> State:
            s.take(name)
            return replace(s, takes=tuple(take for take in s.takes if take.name != name))

        self._change(f"remove take {name}", edit)

    def rename_take(self, old: str, new: str) -> None:
        """Rename a take."""
        check_take_name(new)

        def edit(s: State) -> State:
            if new != old and any(take.name == new for take in s.takes):
                raise OptionError(f"take {new!r} already exists: choose another name")
            take = replace(s.take(old), name=new)
            return replace(s, takes=tuple(take if t.name == old else t for t in s.takes))

        self._change(f"rename take {old} to {new}", edit)

    def set_values(
        self, name: str, values: Mapping[str, float | None], labels: Mapping[str, str] | None = None
    ) -> None:
        """Change constants and labels of a take; None removes an output or a class from it."""
        labels = labels or {}

        def edit(s: State) -> State:
            take = s.take(name)
            removed_classes = {n for n, v in values.items() if v is None and n in take.labels}
            for output in values.keys() - removed_classes:
                find_output(s.outputs, output)
                take = _without(take, output)
            new_values = {output: float(v) for output, v in values.items() if v is not None}
            old_labels = {n: label for n, label in take.labels.items() if n not in removed_classes}
            take = replace(take, values={**take.values, **new_values}, labels={**old_labels, **labels})
            _check_taught(s.outputs, take, {})
            return replace(s, takes=tuple(take if t.name == name else t for t in s.takes))

        outputs = {output.name for output in self.state.outputs}
        changes = ",".join(
            [
                *(f"{k}={'none' if v is None else f'{v:g}'}" for k, v in values.items() if k in outputs),
                *(f"{k}=" for k in values if k not in outputs),
                *(f"{k}={label}" for k, label in labels.items()),
            ]
        )
        self._change(f"set {changes} in take {name}", edit)

    # -- history -----------------------------------------------------------------------------------

    def history(self) -> list[State]:
        """Every readable revision, oldest first."""
        states = []
        for path in sorted((self.folder / _HISTORY).glob("[0-9]*.json")):
            with contextlib.suppress(FormatError):
                states.append(read_state(path))
        return states

    def undo(self) -> str:
        """Undo the last operation that is not undone yet, and return its description.

        Raises:
            OptionError: nothing is left to undo.
        """
        with self._locked():
            current = self.state = read_state(self.folder / MANIFEST)
            if current.parent < 0:
                raise OptionError("nothing to undo")
            # The new revision has the content and the parent of the older one: a further undo goes on there.
            target = self._revision(current.parent)
            undone = current.description.partition(" (undone:")[0]
            description = f"{target.description.partition(' (undone:')[0]} (undone: {undone})"
            self._write(target, current.revision + 1, target.parent, description)
        return undone

    def restore(self, revision: int) -> None:
        """Restore any revision of the history, even if the manifest itself is damaged."""
        with self._locked():
            target = self._revision(revision)
            newest = max(state.revision for state in self.history())
            self._write(target, newest + 1, newest, f"go back to revision {revision}")

    @classmethod
    def restored(cls, folder: str | os.PathLike[str], revision: int) -> Project:
        """Open a project after restoring an older revision; its manifest may be damaged."""
        path = Path(folder)
        if not (path / _HISTORY).is_dir():
            raise FormatError(f"{path}: is not a teaching project (no {_HISTORY})")
        project = cls(path, State(0, -1, "", ""))
        project.restore(revision)
        return project

    def _revision(self, revision: int) -> State:
        path = self.folder / _HISTORY / f"{revision:06d}.json"
        if not path.is_file():
            raise OptionError(f"{self.folder}: no revision {revision} in its history")
        return read_state(path)

    # -- files -------------------------------------------------------------------------------------

    def motion(self, take: TakeEntry) -> Clip:
        """A take's motion: canonical, 50 Hz.

        Raises:
            FormatError: the file is missing, or not the one recorded.
        """
        path = self.motion_path(take)
        with self._naming(take):
            clip = parse_motion(path, _verified(path, take.motion))
            if len(clip) != take.total or clip.rate != RATE or clip.quats.shape[1] != len(CANONICAL_JOINTS):
                raise FormatError(f"{path}: expected {take.total} canonical frames at 50 Hz, got {clip!r}")
        return clip

    def motion_path(self, take: TakeEntry) -> Path:
        """Path of a take's motion file."""
        return self.folder / _TAKES / f"{take.motion[:24]}.npz"

    def targets(self, take: TakeEntry) -> dict[str, F64]:
        """A take's target values (frames,) of each output that it teaches, in the output's own unit.

        Raises:
            FormatError: the file of its curves is missing, or not the one recorded.
        """
        targets = {name: np.full(take.frames, float(value)) for name, value in take.values.items()}
        if not take.columns or take.curve is None:
            return targets
        path = self.folder / _CURVES / f"{take.curve[:24]}.safetensors"
        with self._naming(take):
            try:
                table = safetensors.numpy.load(_verified(path, take.curve))
            except SafetensorError as error:
                raise FormatError(f"{path}: {error}") from None
            for name, key in take.columns.items():
                column = table.get(key)
                if column is None or column.shape != (take.frames,) or not np.isfinite(column).all():
                    raise FormatError(f"{path}: column {key!r} is missing or not {take.frames} numbers")
                targets[name] = column.astype(np.float64)
        return targets

    def problems(self) -> list[str]:
        """A line for each take whose files are missing or damaged; empty for a sound project."""
        problems = []
        for take in self.state.takes:
            try:
                self.motion(take)
                self.targets(take)
            except MotionError as error:
                problems.append(str(error))
        return problems

    @contextlib.contextmanager
    def _naming(self, take: TakeEntry) -> Iterator[None]:
        """Within, errors name the take and the command that removes it."""
        try:
            yield
        except MotionError as error:
            remove = f"pyanticip teach remove {quote(str(self.folder))} {quote(take.name)}"
            raise FormatError(f"take {take.name}: {error}; without it: {remove}") from None

    def _store_motion(self, clip: Clip) -> str:
        folder = self.folder / _TAKES
        with writing(folder):
            with draft_folder(folder, ".new-") as place:
                save_npz(clip, place / "take.npz")
                data = (place / "take.npz").read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            # Also if it exists: it may be damaged.
            write_atomic(folder / f"{digest[:24]}.npz", data, durable=True)
        return digest

    def _store_curves(self, columns: Mapping[str, F64]) -> str:
        data = safetensors.numpy.save({name: np.ascontiguousarray(c) for name, c in columns.items()})
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / _CURVES / f"{digest[:24]}.safetensors"
        write_file(path, data, durable=True)
        return digest

    # -- revisions ---------------------------------------------------------------------------------

    def _change(self, description: str, edit: Callable[[State], State]) -> None:
        """Apply ``edit`` to the state on disk, and write the result as the next revision."""
        with self._locked():
            before = self.state = read_state(self.folder / MANIFEST)
            after = edit(before)
            check_outputs(after.outputs, before.outputs)
            self._write(after, before.revision + 1, before.revision, description)

    def _write(self, state: State, revision: int, parent: int, description: str) -> None:
        """Write the content of a state as a new revision, now."""
        state = replace(state, revision=revision, parent=parent, description=description, timestamp=_now())
        data = state.to_json()
        with writing(self.folder):
            write_atomic(self.folder / _HISTORY / f"{state.revision:06d}.json", data, durable=True)
            write_atomic(self.folder / MANIFEST, data, durable=True)
            self._read_stamp = self._stamp()
        self.state = state

    def _stamp(self) -> tuple[int, int]:
        stat = (self.folder / MANIFEST).stat()
        return stat.st_ino, stat.st_mtime_ns

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock; the kernel releases it even if this process dies."""
        with writing(self.folder):
            handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            deadline = time.monotonic() + _LOCK_TIMEOUT_S
            while try_lock(handle) is False:
                if time.monotonic() > deadline:
                    raise DeviceError(f"{self.folder}: another program is changing it; try again")
                time.sleep(0.02)
            yield
        finally:
            os.close(handle)


def _with_take(s: State, entry: TakeEntry, extremes: Mapping[str, Sequence[float]]) -> State:
    """The state with one more take; ``extremes`` as for :func:`_check_taught`."""
    if any(take.name == entry.name for take in s.takes):
        raise OptionError(f"take {entry.name!r} already exists: choose another name, or remove it first")
    outputs = s.outputs or tuple(Output(output) for output in (*entry.values, *entry.columns))
    _check_taught(outputs, entry, extremes)
    return replace(s, outputs=outputs, takes=(*s.takes, entry))


def _check_taught(
    outputs: Sequence[Output], take: TakeEntry, extremes: Mapping[str, Sequence[float]]
) -> None:
    """Check that a take teaches known outputs within their ranges.

    ``extremes`` are the least and the greatest value of each new curve.
    """
    if not (take.taught or take.labels):
        raise OptionError(f"take {take.name}: teaches nothing; give values, a curve, a class or a gesture")
    for name in take.taught:
        output = find_output(outputs, name)
        for value in extremes.get(name, (take.values[name],) if name in take.values else ()):
            if not output.contains(value):
                raise OptionError(
                    f"take {take.name}: {name} must be within {output.low:g}..{output.high:g}, got {value:g}"
                )


def _without(take: TakeEntry, name: str) -> TakeEntry:
    values = {n: v for n, v in take.values.items() if n != name}
    columns = {n: c for n, c in take.columns.items() if n != name}
    return replace(take, values=values, columns=columns, curve=take.curve if columns else None)


def _renamed(take: TakeEntry, old: str, new: str) -> TakeEntry:
    values = {new if n == old else n: v for n, v in take.values.items()}
    columns = {new if n == old else n: c for n, c in take.columns.items()}
    return replace(take, values=values, columns=columns)


def _verified(path: Path, digest: str) -> bytes:
    data = read_file(path, _MAX_FILE_BYTES, what="a take")
    if hashlib.sha256(data).hexdigest() != digest:
        raise FormatError(f"{path}: is damaged: its content is not what the project recorded")
    return data


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
