"""A teaching project: a folder of takes and the outputs they demonstrate, changed without ever losing work.

::

    PROJECT/
      project.json          the manifest: outputs and takes at the newest revision
      history/000012.json   the manifest of every revision
      takes/<sha>.npz       motion, one file per take; `pyanticip replay` plays it
      curves/<sha>.safetensors
      mapping.safetensors   what `pyanticip live --mapping` plays; replaced only by a complete one
      report.html           how well the newest fit does, take by take
      mappings/             every mapping that was ever fitted
      cache/                what the model said about the takes; may be deleted

Motion and curve files are named by their content and never rewritten. An operation writes the files it needs,
then the new manifest into ``history``, then moves it over ``project.json``: whenever it is interrupted, the
project is at the revision before or after it, whole. Writers take turns by a lock on the folder.
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
from pyanticip.teach.outputs import Output, check_addresses, known_output
from pyanticip.teach.state import LONGEST, State, TakeEntry, check_take_name, read_state
from pyanticip.untrusted import read_file
from pyanticip.vocabulary import CANONICAL_JOINTS, RATE

__all__ = ["CACHE", "MANIFEST", "MAPPING", "MAPPINGS", "Project"]

MANIFEST, MAPPING, MAPPINGS, CACHE = "project.json", "mapping.safetensors", "mappings", "cache"
_HISTORY, _TAKES, _CURVES, _LOCK = "history", "takes", "curves", ".lock"
_PATIENCE_S = 5.0
_LARGEST_CURVE = 1 << 28

F64 = npt.NDArray[np.float64]


class Project:
    """An open project; ``state`` is what its manifest said when it was last read or changed here."""

    def __init__(self, folder: str | os.PathLike[str], state: State) -> None:
        self.folder = Path(folder)
        self.state = state
        self._seen: tuple[int, int] | None = None

    @classmethod
    def create(cls, folder: str | os.PathLike[str], outputs: tuple[Output, ...] = ()) -> Project:
        """Make a new project in a folder that does not exist, or is empty.

        Raises:
            OptionError: there is something, or an output is sent where the instrument's own values are.
            DeviceError: it cannot be written; nothing but an empty folder is left of it.
        """
        check_addresses(outputs)
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise OptionError(f"{path}: exists already; a project begins in a new or an empty folder")
        names, folders = ", ".join(one.name for one in outputs), (_HISTORY, _TAKES, _CURVES, MAPPINGS, CACHE)
        try:
            for name in folders:
                (path / name).mkdir(parents=True, exist_ok=True)
            project = cls(path, State(0, -1, "", ""))
            with project._locked():
                project._write(
                    State(0, -1, f"begin with outputs {names}" if names else "begin", _now(), outputs)
                )
        except BaseException:
            # Neither a project nor free, it would stand in the way of the next try.
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
            FormatError: no project, or a damaged manifest; the line names the revision to go back to.
        """
        path = Path(folder)
        if not (path / MANIFEST).is_file():
            raise FormatError(
                f"{path}: is no teaching project (no {MANIFEST}); make one: pyanticip teach new"
            )
        try:
            return cls(path, read_state(path / MANIFEST))
        except FormatError as error:
            past = sorted((path / _HISTORY).glob("*.json"))
            hint = (
                f"; go back: pyanticip teach undo {quote(str(path))} --to {int(past[-1].stem)}"
                if past
                else ""
            )
            raise FormatError(f"{error}{hint}") from None

    def refresh(self) -> None:
        """See what another program changed; a manifest that cannot be read now is left for later."""
        with contextlib.suppress(OSError, MotionError):
            seen = self._stamp()
            if seen != self._seen:
                self.state = read_state(self.folder / MANIFEST)
                self._seen = seen  # after the state, and :meth:`_write` before it: a race reads once more

    # -- outputs -----------------------------------------------------------------------------------

    def add_output(self, output: Output) -> None:
        """One more output; takes that say nothing about it do not teach it."""
        self._change(f"add output {output.name}", lambda s: replace(s, outputs=(*s.outputs, output)))

    def remove_output(self, name: str) -> None:
        """Take an output away, and what the takes say about it; its curves stay on disk for an undo."""

        def edit(s: State) -> State:
            known_output(s.outputs, name)
            takes = tuple(_without(take, name) for take in s.takes)
            return replace(s, outputs=tuple(o for o in s.outputs if o.name != name), takes=takes)

        self._change(f"remove output {name}", edit)

    def rename_output(self, old: str, new: str) -> None:
        """Give an output another name, here and in every take."""

        def edit(s: State) -> State:
            renamed = replace(known_output(s.outputs, old), name=new)
            outputs = tuple(renamed if o.name == old else o for o in s.outputs)
            return replace(s, outputs=outputs, takes=tuple(_renamed(take, old, new) for take in s.takes))

        self._change(f"rename output {old} to {new}", edit)

    def change_output(self, name: str, **fields: Any) -> None:
        """Another range, curve, address or neutral value. What the takes say stays as it was said.

        Raises:
            OptionError: none of these, an unknown output, or one that makes no sense.
        """
        if not fields:
            raise OptionError(f"output {name}: expected a range or an address to change it to")

        def edit(s: State) -> State:
            changed = replace(known_output(s.outputs, name), **fields)
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
        """One more demonstration. In a project without outputs it makes those that it names, each 0..1.

        Args:
            clip: motion on the canonical body at 50 Hz; the first ``begin`` frames lead in.
            values: constants, in the outputs' own units.
            columns: curves (frames after ``begin``,), in the outputs' own units.
            labels: which label of a class it shows.

        Raises:
            OptionError: a name that is there already, unknown outputs, values outside their ranges.
        """
        check_take_name(name)
        values, columns = dict(values or {}), dict(columns or {})
        if clip.rate != RATE or clip.quats.shape[1] != len(CANONICAL_JOINTS):
            raise OptionError(f"take {name}: expected 22 canonical joints at 50 Hz, got {clip!r}")
        if len(clip) > LONGEST:
            raise OptionError(f"take {name}: at most {LONGEST} frames (30 minutes), got {len(clip)}")
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
            mask="".join("1" if there else "0" for there in clip.mask),
            source=source,
            added=_now(),
            values=values,
            curve=self._store_curves(columns) if columns else None,
            columns={output: output for output in columns},
            labels=dict(labels or {}),
        )
        ends = {output: (float(column.min()), float(column.max())) for output, column in columns.items()}

        def edit(s: State) -> State:
            if any(take.name == name for take in s.takes):
                raise OptionError(f"take {name!r} is there already: choose another name, or remove it first")
            outputs = s.outputs or tuple(Output(output) for output in (*values, *columns))
            _check_taught(outputs, entry, ends)
            return replace(s, outputs=outputs, takes=(*s.takes, entry))

        self._change(f"add take {name}", edit)
        return entry

    def remove_take(self, name: str) -> None:
        """Take a demonstration away; its files stay on disk for an undo."""

        def edit(s: State) -> State:
            s.take(name)
            return replace(s, takes=tuple(take for take in s.takes if take.name != name))

        self._change(f"remove take {name}", edit)

    def rename_take(self, old: str, new: str) -> None:
        """Give a take another name."""
        check_take_name(new)

        def edit(s: State) -> State:
            if new != old and any(take.name == new for take in s.takes):
                raise OptionError(f"take {new!r} is there already: choose another name")
            take = replace(s.take(old), name=new)
            return replace(s, takes=tuple(take if t.name == old else t for t in s.takes))

        self._change(f"rename take {old} to {new}", edit)

    def set_values(
        self, name: str, values: Mapping[str, float | None], labels: Mapping[str, str] | None = None
    ) -> None:
        """Other constants and labels for a take; ``None`` takes an output or a class out of what it
        teaches."""
        labels = labels or {}

        def edit(s: State) -> State:
            take = s.take(name)
            gone = {n for n, v in values.items() if v is None and n in take.labels}
            for output in values.keys() - gone:
                known_output(s.outputs, output)
                take = _without(take, output)
            given = {output: float(v) for output, v in values.items() if v is not None}
            kept = {n: label for n, label in take.labels.items() if n not in gone}
            take = replace(take, values={**take.values, **given}, labels={**kept, **labels})
            _check_taught(s.outputs, take, {})
            return replace(s, takes=tuple(take if t.name == name else t for t in s.takes))

        outputs = {output.name for output in self.state.outputs}
        said = ",".join(
            [
                *(f"{k}={'none' if v is None else f'{v:g}'}" for k, v in values.items() if k in outputs),
                *(f"{k}=" for k in values if k not in outputs),
                *(f"{k}={label}" for k, label in labels.items()),
            ]
        )
        self._change(f"set {said} in take {name}", edit)

    # -- history -----------------------------------------------------------------------------------

    def history(self) -> list[State]:
        """Every revision that can be read, oldest first."""
        found = []
        for path in sorted((self.folder / _HISTORY).glob("[0-9]*.json")):
            with contextlib.suppress(FormatError):
                found.append(read_state(path))
        return found

    def undo(self) -> str:
        """Go back before the last operation that is not undone yet; what was undone.

        Raises:
            OptionError: nothing is left to undo.
        """
        with self._locked():
            now = self.state = read_state(self.folder / MANIFEST)
            if now.parent < 0:
                raise OptionError("nothing to undo")
            # An undo's own content is that of an older revision: its parent leads on from there.
            target = self._past(now.parent)
            did = now.did.partition(" (undone:")[0]
            undone = f"{target.did.partition(' (undone:')[0]} (undone: {did})"
            new = replace(target, revision=now.revision + 1, parent=target.parent, did=undone, at=_now())
            self._write(new)
        return did

    def restore(self, revision: int) -> None:
        """Go to any revision of the history, even when the manifest itself is damaged."""
        with self._locked():
            target = self._past(revision)
            newest = max(state.revision for state in self.history())
            did = f"go back to revision {revision}"
            self._write(replace(target, revision=newest + 1, parent=newest, did=did, at=_now()))

    @classmethod
    def restored(cls, folder: str | os.PathLike[str], revision: int) -> Project:
        """Open a project at an older revision, whatever its manifest looks like."""
        path = Path(folder)
        if not (path / _HISTORY).is_dir():
            raise FormatError(f"{path}: is no teaching project (no {_HISTORY})")
        project = cls(path, State(0, -1, "", ""))
        project.restore(revision)
        return project

    def _past(self, revision: int) -> State:
        path = self.folder / _HISTORY / f"{revision:06d}.json"
        if not path.is_file():
            raise OptionError(f"{self.folder}: no revision {revision} in its history")
        return read_state(path)

    # -- files -------------------------------------------------------------------------------------

    def motion(self, take: TakeEntry) -> Clip:
        """A take's motion: canonical, 50 Hz. Raises FormatError where the file is missing or another one."""
        path = self.motion_path(take)
        with self._named(take):
            clip = parse_motion(path, _verified(path, take.motion))
            if len(clip) != take.total or clip.rate != RATE or clip.quats.shape[1] != len(CANONICAL_JOINTS):
                raise FormatError(f"{path}: expected {take.total} canonical frames at 50 Hz, got {clip!r}")
        return clip

    def motion_path(self, take: TakeEntry) -> Path:
        """Where a take's motion lies."""
        return self.folder / _TAKES / f"{take.motion[:24]}.npz"

    def wanted(self, take: TakeEntry) -> dict[str, F64]:
        """What a take wants of the outputs that it teaches: (frames,) each, in their own units.

        Raises:
            FormatError: the file of its curves is missing or another one.
        """
        with self._named(take):
            return self._wanted(take)

    def _wanted(self, take: TakeEntry) -> dict[str, F64]:
        found = {name: np.full(take.frames, float(value)) for name, value in take.values.items()}
        if take.columns and take.curve is not None:
            path = self.folder / _CURVES / f"{take.curve[:24]}.safetensors"
            try:
                table = safetensors.numpy.load(_verified(path, take.curve))
            except SafetensorError as error:
                raise FormatError(f"{path}: {error}") from None
            for name, key in take.columns.items():
                column = table.get(key)
                if column is None or column.shape != (take.frames,) or not np.isfinite(column).all():
                    raise FormatError(f"{path}: column {key!r} is missing or not {take.frames} numbers")
                found[name] = column.astype(np.float64)
        return found

    def problems(self) -> list[str]:
        """What is wrong with the project's files, one line each; nothing is the answer to hope for."""
        found = []
        for take in self.state.takes:
            try:
                self.motion(take)
                self.wanted(take)
            except MotionError as error:
                found.append(str(error))
        return found

    @contextlib.contextmanager
    def _named(self, take: TakeEntry) -> Iterator[None]:
        """What is wrong with the files of a take says of which, and how to go on without it."""
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
            if not (folder / f"{digest[:24]}.npz").exists():
                write_atomic(folder / f"{digest[:24]}.npz", data, durable=True)
        return digest

    def _store_curves(self, columns: Mapping[str, F64]) -> str:
        data = safetensors.numpy.save({name: np.ascontiguousarray(c) for name, c in columns.items()})
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / _CURVES / f"{digest[:24]}.safetensors"
        write_file(path, data, durable=True)
        return digest

    # -- revisions ---------------------------------------------------------------------------------

    def _change(self, did: str, edit: Callable[[State], State]) -> None:
        with self._locked():
            before = self.state = read_state(self.folder / MANIFEST)
            after = edit(before)
            check_addresses(after.outputs, before.outputs)
            self._write(
                replace(after, revision=before.revision + 1, parent=before.revision, did=did, at=_now())
            )

    def _write(self, state: State) -> None:
        data = state.to_json()
        with writing(self.folder):
            write_atomic(self.folder / _HISTORY / f"{state.revision:06d}.json", data, durable=True)
            write_atomic(self.folder / MANIFEST, data, durable=True)
            self._seen = self._stamp()
        self.state = state

    def _stamp(self) -> tuple[int, int]:
        found = (self.folder / MANIFEST).stat()
        return found.st_ino, found.st_mtime_ns

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the folder; the kernel gives the lock back however we end."""
        with writing(self.folder):
            handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            until = time.monotonic() + _PATIENCE_S
            while try_lock(handle) is False:
                if time.monotonic() > until:
                    raise DeviceError(f"{self.folder}: another program is changing it; try again")
                time.sleep(0.02)
            yield
        finally:
            os.close(handle)


def _check_taught(outputs: Sequence[Output], take: TakeEntry, ends: Mapping[str, Sequence[float]]) -> None:
    """``ends`` are the least and the greatest value of its curves, where they are new."""
    if not (take.taught or take.labels):
        raise OptionError(f"take {take.name}: teaches nothing; give values, a curve, a class or a gesture")
    for name in take.taught:
        output = known_output(outputs, name)
        for value in ends.get(name, (take.values[name],) if name in take.values else ()):
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
    data = read_file(path, _LARGEST_CURVE, what="a take")
    if hashlib.sha256(data).hexdigest() != digest:
        raise FormatError(f"{path}: is damaged: its content is not what the project recorded")
    return data


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
