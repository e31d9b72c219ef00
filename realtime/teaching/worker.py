"""Fitting in a child process, beside a running show.

``python -P -m realtime.teaching.worker`` reads one JSON object (folder, options, checkpoint, model, nice)
from standard input and writes one line of JSON: ``{"report": ...}`` or ``{"error": text, "kind": class}``.
Progress lines go to standard error. It uses one BLAS thread, as :mod:`realtime` sets before NumPy is
imported: a thread pool makes these small problems slower, on a busy machine a hundred times.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyanticip.system import OWN_PROCESS_GROUP, lower_priority

_COMMAND = (sys.executable, "-P", "-m", "realtime.teaching.worker")
# Niceness of a fit during a show: the show has priority.
_NICE = 5


def _request(
    folder: Path, options: dict[str, Any], checkpoint: Path | str | None, model: bool, nice: int = 0
) -> bytes:
    request = {"folder": folder, "options": options, "checkpoint": checkpoint, "model": model, "nice": nice}
    return json.dumps(request, default=str).encode()


def _parse_response(data: bytes, code: int | None) -> dict[str, Any]:
    """The report in the child's output.

    Raises:
        MotionError: the error that the child reported.
        DeviceError: it reported nothing; the message has its exit code.
    """
    from pyanticip import errors

    try:
        response = json.loads(data.splitlines()[-1])
        if "report" in response:
            report: dict[str, Any] = response["report"]
            return report
        kind = vars(errors).get(response["kind"], errors.MotionError)
        raise kind(response["error"])
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
    """Run :func:`realtime.teaching.fitting.fit_project` in a child process, and return its report."""
    pipe, response = subprocess.PIPE, b""
    # One pipe for both: a report of many takes fills one that nobody reads meanwhile.
    with subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: its exit code says so
            child.stdin.write(_request(folder, options, checkpoint, model))
            child.stdin.close()
        for line in child.stdout:
            if line.startswith((b'{"report"', b'{"error"')):
                response = line
            else:
                say(line.decode(errors="replace").rstrip())
    return _parse_response(response, child.returncode)


async def fit_beside(
    folder: Path, options: dict[str, Any], *, checkpoint: Path | str | None = None, model: bool = True
) -> dict[str, Any]:
    """As :func:`fit_in_child`, at a lower priority and without blocking the event loop."""
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        _COMMAND, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, **OWN_PROCESS_GROUP
    )
    communicate = asyncio.to_thread(child.communicate, _request(folder, options, checkpoint, model, _NICE))
    try:
        out, _ = await communicate
    except asyncio.CancelledError:
        child.kill()  # ends the thread as well
        raise
    return _parse_response(out, child.returncode)


def main() -> None:
    """Entry point of the child process."""
    request = json.loads(sys.stdin.buffer.read())
    from pyanticip.errors import MotionError
    from pyanticip.teach.options import FitOptions
    from realtime.teaching.fitting import fit_project

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        if request.get("nice"):
            lower_priority(int(request["nice"]))
        options = FitOptions(**request["options"])
        report = fit_project(
            request["folder"], options, checkpoint=request["checkpoint"], model=request["model"], say=say
        )
        print(json.dumps({"report": report}))
    except MotionError as error:
        print(json.dumps({"error": str(error), "kind": type(error).__name__}))


if __name__ == "__main__":
    main()
