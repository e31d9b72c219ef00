"""Atomic writing of files and folders, and removal of drafts that killed processes left behind."""

import errno
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from pyanticip.errors import DeviceError, OptionError, reason
from pyanticip.system import REPLACES_OPEN_FILES, try_lock

_LOCK_GRACE_S = 2.0
"""Age below which a draft may not have been locked by its process yet."""

_swept_folders: set[Path] = set()
"""Folders in which this process has already removed old drafts."""


def write_atomic(path: Path, data: bytes | memoryview, *, durable: bool = False, new: bool = False) -> None:
    """Write ``data`` to a draft beside ``path`` and rename it: the file is either complete or the old one.

    A symbolic link is followed and kept; an existing file keeps its mode. ``durable`` syncs to disk first, so
    that the guarantee covers power failures. ``new`` raises a FileExistsError if the file exists by then.
    """
    handle, draft = draft_file(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
            finish_draft(file, draft, path, new)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)  # e.g. for a full disk
        raise


def write_file(path: Path, data: bytes | memoryview, *, durable: bool = False, new: bool = False) -> None:
    """:func:`write_atomic`, which raises a one-line DeviceError if the file cannot be written."""
    check_folder(path)
    with writing(path):
        write_atomic(path.absolute(), data, durable=durable, new=new)


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write several files as :func:`write_file` does, but none of them unless there is room for all."""
    with ExitStack() as undo:
        drafts = []
        for path, data in files.items():
            check_folder(path)
            with writing(path):
                handle, draft = draft_file(path.absolute())
                undo.callback(draft.unlink, missing_ok=True)
                file = undo.enter_context(os.fdopen(handle, "wb", buffering=0))
                write_all(file, data)
            drafts.append((file, draft, path))
        for file, draft, path in drafts:
            with writing(path):
                finish_draft(file, draft, path.absolute())


def write_all(file: IO[bytes], data: bytes) -> None:
    """Write all of ``data`` to an unbuffered file, whose ``write`` may take only a part."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError in the block into a one-line DeviceError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise DeviceError(f"{path}: cannot be written ({reason(error)})") from None


def draft_file(path: Path) -> tuple[int, Path]:
    """Create a hidden draft beside ``path`` (or its link target), to be renamed; returns handle and path.

    The handle holds a lock, which keeps other processes from removing the draft. The first draft in a folder
    removes those left by killed processes. Raises an OSError if ``path`` is a folder, a device or read-only,
    which a rename would replace.
    """
    _check_replaceable(path)
    path = _link_target(path)
    folder = path.parent
    if folder not in _swept_folders:  # once, as thousands of files may go into one folder
        _swept_folders.add(folder)
        _remove_drafts(folder, r"\..+\.part-")
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.part-")
    try_lock(handle)
    return handle, Path(name)


def _check_replaceable(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "a device lies there, expected a file", str(path))
    if path.exists() and not os.access(path, os.W_OK):
        # A rename would replace it nevertheless.
        raise PermissionError(errno.EACCES, "it is read-only", str(path))


def finish_draft(file: IO[bytes], draft: Path, path: Path, new: bool = False) -> None:
    """Rename a draft to ``path`` and close it.

    It is renamed while locked, if the system allows that, so that no process removes it as abandoned. The
    buffer is flushed first: if the disk is full, the old file stays.
    """
    file.flush()
    path = _link_target(path)
    if path.exists():
        draft.chmod(stat.S_IMODE(path.stat().st_mode))
    else:
        ordinary_mode(draft)
    if not REPLACES_OPEN_FILES:
        file.close()
    if new:
        _rename_new(draft, path)
    else:
        draft.replace(path)
    file.close()


def _rename_new(draft: Path, path: Path) -> None:
    """Rename without overwriting: creating a hard link fails if the file exists."""
    try:
        path.hardlink_to(draft)
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        draft.rename(path)  # a file system without hard links
    else:
        draft.unlink()


def _link_target(path: Path) -> Path:
    """The target of a link, existing or not; unlike ``Path.resolve`` for circular links too."""
    return Path(os.path.realpath(path))


@contextmanager
def draft_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A hidden draft folder, removed at the end of the block unless it was renamed.

    Folders of the same ``prefix`` left in ``parent`` by killed processes are removed first.
    """
    _remove_drafts(parent, re.escape(prefix))
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    handle = None
    with suppress(OSError):  # on systems without folder handles there are no locks, and nothing is removed
        handle = os.open(folder, os.O_RDONLY)
        try_lock(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def ordinary_mode(path: Path, *, folder: bool = False) -> None:
    """Give a file or folder from ``tempfile``, which is private, the default permissions of new ones."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if folder else 0o666) & ~mask)


def _remove_drafts(parent: Path, prefix: str) -> None:
    """Remove abandoned drafts: named by ``prefix`` (a pattern) and eight letters, and not locked."""
    name = re.compile(prefix + "[a-z0-9_]{8}")
    drafts: list[Path] = []
    with suppress(OSError):
        drafts = [draft for draft in parent.iterdir() if name.fullmatch(draft.name)]
    for draft in drafts:
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime < _LOCK_GRACE_S:
                continue
            handle = os.open(draft, os.O_RDONLY)
            try:
                if try_lock(handle):
                    _remove(draft)
            finally:
                os.close(handle)


def _remove(draft: Path) -> None:
    if draft.is_dir() and not draft.is_symlink():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        draft.unlink(missing_ok=True)


def check_out(out: Path, suffixes: Sequence[str]) -> str:
    """Check an output file's name and folder; returns its suffix in lower case.

    Raises an OptionError for a suffix other than ``suffixes``, and a DeviceError as :func:`check_folder`.
    """
    suffix = out.suffix.lower()
    if suffix not in suffixes:
        raise OptionError(f"{out}: expected a name that ends in {', '.join(suffixes)}, got {out.suffix!r}")
    check_folder(out)
    return suffix


def check_folder(out: Path) -> None:
    """Raise a DeviceError if an output file cannot be written: its folder does not exist or is not writable,
    or a folder or a device has its name."""
    folder = out.absolute().parent
    if not folder.is_dir():
        raise DeviceError(f"{out}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise DeviceError(f"{out}: cannot be written (permission denied)")
    with writing(out):
        _check_replaceable(out)
