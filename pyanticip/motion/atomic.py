"""Files and folders that are either whole or not there, and no litter of programs that were killed."""

import errno
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pyanticip.errors import DeviceError, OptionError, reason
from pyanticip.system import REPLACES_OPEN_FILES, try_lock

_YOUNG_S = 2.0
"""A draft so young may be one whose maker has not locked it yet."""

_swept: set[Path] = set()
"""Folders that this process has looked through."""


def write_atomic(path: Path, data: bytes | memoryview, *, durable: bool = False, new: bool = False) -> None:
    """Write ``data`` beside ``path`` and move it there: the file is whole or it is the old one.

    A link stays, for what it leads to is written, and an existing file keeps its mode.
    ``durable`` waits until the disk has it, so that this holds when the power fails as well; ``new`` raises
    a FileExistsError where a file has come to lie there, by another program too.
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
            error.filename = str(path)  # a full disk names none
        raise


def write_file(path: Path, data: bytes | memoryview, *, durable: bool = False, new: bool = False) -> None:
    """:func:`write_atomic`; a DeviceError of one line where the file cannot be written."""
    check_folder(path)
    with writing(path):
        write_atomic(path.absolute(), data, durable=durable, new=new)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A DeviceError of one line where the file of this name cannot be written."""
    try:
        yield
    except OSError as error:
        raise DeviceError(f"{path}: cannot be written ({reason(error)})") from None


def draft_file(path: Path) -> tuple[int, Path]:
    """A new hidden file beside ``path``, or what that links to, to be renamed to it; its handle and its name.

    The handle holds a lock: while it is open, other processes leave the file alone. The first draft in a
    folder removes those that killed processes left there. Raises an OSError where something else than a file
    lies at ``path``: a folder, or a device, which a rename would put an end to.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "a device lies there, expected a file", str(path))
    path = _followed(path)
    folder = path.parent
    if folder not in _swept:  # thousands of files may go into one folder
        _swept.add(folder)
        _sweep(folder, r"\..+\.part-")
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.part-")
    try_lock(handle)
    return handle, Path(name)


def finish_draft(file: IO[bytes], draft: Path, path: Path, new: bool = False) -> None:
    """Give a draft its name, and close it.

    In its lock, which keeps others from taking it for a dead program's, where the system lets us. What waits
    in the buffer goes to the disk before: if that is full, the old file stays.
    """
    file.flush()
    path = _followed(path)
    if path.exists():
        draft.chmod(stat.S_IMODE(path.stat().st_mode))
    else:
        ordinary_mode(draft)
    if not REPLACES_OPEN_FILES:
        file.close()
    if new:
        _put(draft, path)
    else:
        draft.replace(path)
    file.close()


def _put(draft: Path, path: Path) -> None:
    """Rename where nothing lies: a link is never made over a file."""
    try:
        path.hardlink_to(draft)
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        draft.rename(path)  # a disk without links
    else:
        draft.unlink()


def _followed(path: Path) -> Path:
    """What a link leads to, or would; ``Path.resolve`` raises for links in a circle."""
    return Path(os.path.realpath(path))


@contextmanager
def draft_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A hidden folder for work under way; when the block ends it goes, unless it was renamed.

    What killed processes left in ``parent`` under the same ``prefix`` is removed first.
    """
    _sweep(parent, re.escape(prefix))
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    handle = None
    with suppress(OSError):  # no handles of folders here, then no locks either: nothing is ever swept
        handle = os.open(folder, os.O_RDONLY)
        try_lock(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def ordinary_mode(path: Path, *, folder: bool = False) -> None:
    """Give what ``tempfile`` made for the owner alone the permissions that a new file or folder gets."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if folder else 0o666) & ~mask)


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the drafts, named by a pattern and eight letters, that nobody has locked: the maker is gone."""
    name = re.compile(prefix + "[a-z0-9_]{8}")
    found: list[Path] = []
    with suppress(OSError):
        found = [draft for draft in parent.iterdir() if name.fullmatch(draft.name)]
    for draft in found:
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime < _YOUNG_S:
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
    """The suffix of a file that will be written, in small letters.

    Raises an OptionError where it is another than these, a DeviceError where the folder is not there.
    """
    suffix = out.suffix.lower()
    if suffix not in suffixes:
        raise OptionError(f"{out}: expected a name that ends in {', '.join(suffixes)}, got {out.suffix!r}")
    check_folder(out)
    return suffix


def check_folder(out: Path) -> None:
    """Raises a DeviceError where the folder of a file that will be written is not there, or not writable."""
    folder = out.absolute().parent
    if not folder.is_dir():
        raise DeviceError(f"{out}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise DeviceError(f"{out}: cannot be written (permission denied)")
