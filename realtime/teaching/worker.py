"""Fitting in a process of its own: beside a running show, and on one thread per numerical library.

``python -P -m realtime.teaching.worker`` reads one JSON object (folder, options, checkpoint, model) from
standard input and writes one line of JSON: ``{"report": ...}`` or ``{"error": text, "kind": class}``. A pool
of BLAS threads makes these small problems slower, on a busy machine a hundred times; it can be told so only
before NumPy is imported.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyanticip.system import ALONE, lower_priority

__all__ = ["fit_beside", "fit_in_child"]

_COMMAND = (sys.executable, "-P", "-m", "realtime.teaching.worker")
# The show goes first.
_NICE = 5


def _order(
    folder: Path, options: dict[str, Any], checkpoint: Path | str | None, model: bool, nice: int = 0
) -> bytes:
    order = {
        "folder": str(folder),
        "options": options,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "model": model,
        "nice": nice,
    }
    return json.dumps(order).encode()


def _answer(data: bytes, code: int | None) -> dict[str, Any]:
    """The report; raises the error that the child met."""
    from pyanticip import errors

    try:
        found = json.loads(data.splitlines()[-1])
        if "report" in found:
            report: dict[str, Any] = found["report"]
            return report
        kind = vars(errors).get(found["kind"], errors.MotionError)
        raise kind(found["error"])
    except (IndexError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, errors.MotionError):
            raise
        raise errors.DeviceError(f"fitting failed: its process ended with code {code}") from None


def fit_in_child(
    folder: Path,
    options: dict[str, Any],
    *,
    checkpoint: Path | str | None = None,
    model: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Fit a project and wait for it; the report of :func:`realtime.teaching.fitting.fit_project`."""
    with subprocess.Popen(
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stderr is not None
        assert child.stdout is not None
        child.stdin.write(_order(folder, options, checkpoint, model))
        child.stdin.close()
        for line in child.stderr:
            say(line.decode(errors="replace").rstrip())
        out = child.stdout.read()
        code = child.wait()
    return _answer(out, code)


async def fit_beside(
    folder: Path, options: dict[str, Any], *, checkpoint: Path | str | None = None, model: bool = True
) -> dict[str, Any]:
    """Fit a project beside a running loop, at a lower priority; the report."""
    pipe = subprocess.PIPE
    child = subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, **ALONE)
    talk = asyncio.to_thread(child.communicate, _order(folder, options, checkpoint, model, _NICE))
    try:
        out, _ = await talk
    except asyncio.CancelledError:
        child.kill()  # which ends the thread as well
        raise
    return _answer(out, child.returncode)


def main() -> None:
    """The child."""
    order = json.loads(sys.stdin.buffer.read())
    from pyanticip.errors import MotionError
    from pyanticip.teach.options import FitOptions
    from realtime.teaching.fitting import fit_project

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        if order.get("nice"):
            lower_priority(int(order["nice"]))
        options = FitOptions(**order["options"])
        report = fit_project(
            order["folder"], options, checkpoint=order["checkpoint"], model=order["model"], say=say
        )
        print(json.dumps({"report": report}))
    except MotionError as error:
        print(json.dumps({"error": str(error), "kind": type(error).__name__}))


if __name__ == "__main__":
    main()
