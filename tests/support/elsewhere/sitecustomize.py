"""Takes from a Python process what Windows does not have, as far as it can be taken on another system.

Put this folder on ``PYTHONPATH``: it holds for the process and for its children. What only
:mod:`pyanticip.system` may do (it asks which system it is on) is left to it.
"""

import asyncio
import os
import select
import stat
import sys
import warnings
from pathlib import Path

import pyanticip.system

pyanticip.system.REPLACES_OPEN_FILES = False
pyanticip.system.LOCKS_FOLDERS = False

# A file without an encoding is read as the user's code page has it (with PYTHONWARNDEFAULTENCODING=1).
warnings.filterwarnings("error", category=EncodingWarning, module="pyanticip|realtime|training")


def _not_here(*_: object, **__: object) -> None:
    raise NotImplementedError


for _name in (
    "add_signal_handler",
    "connect_read_pipe",
    "connect_write_pipe",
    "subprocess_exec",
    "subprocess_shell",
):
    setattr(asyncio.SelectorEventLoop, _name, _not_here)

_select, _open = select.select, os.open


def _only_sockets(*waited_for, **more):
    asker = sys._getframe(1).f_globals["__name__"]
    for one in [one for kind in waited_for[:3] for one in kind] if asker != pyanticip.system.__name__ else ():
        if not stat.S_ISSOCK(os.fstat(one if isinstance(one, int) else one.fileno()).st_mode):
            raise OSError(10038, f"{asker} waits for what is no socket")
    return _select(*waited_for, **more)


select.select = _only_sockets


def _no_folders(path, *flags, **more):
    if os.path.isdir(path):  # noqa: PTH112
        raise PermissionError(13, "a folder cannot be opened", path)
    return _open(path, *flags, **more)


os.open = _no_folders


def _closed_alone(do):
    def act(path, *rest, **more):
        own = sys._getframe(1).f_globals["__name__"] == "tempfile"  # which does it otherwise there
        for descriptor in Path("/proc/self/fd").iterdir() if not own else ():
            try:
                is_open = os.path.samefile(descriptor, path)  # noqa: PTH121
            except OSError:
                continue
            if is_open:
                raise PermissionError(13, "the file is open", path)
        return do(path, *rest, **more)

    return act


for _name in ("replace", "rename", "unlink", "remove"):
    setattr(os, _name, _closed_alone(getattr(os, _name)))
