"""A stand-in suit: stream a motion file to a host over a real protocol, at its real pace."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyanticip.errors import DeviceError, OptionError, foreign_errors, reason
from realtime.seams import SOURCES
from realtime.sockets import connect_udp

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["send"]

# So far behind (the machine slept, the process was stopped), sending goes on from now instead of in a burst.
_LOST_NS = 500_000_000
_PROGRESS_NS = 100_000_000
# A stand-in may run all night: lateness is that of the last half hour at 50 Hz.
_LATENESS = 90_000


def send(
    path: str | os.PathLike[str],
    protocol: str,
    host: str,
    port: int,
    *,
    loop: bool = False,
    rate: float | None = None,
    file_rate: float | None = None,
    speed: float = 1.0,
    seconds: float | None = None,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
    **reading: Any,
) -> dict[str, Any]:
    """Stream a motion file as ``protocol`` (a kind of source) to ``host:port`` over UDP.

    Each datagram leaves at its own deadline, counted from the start, so delays never add up. Ctrl-C ends
    it cleanly. Whether anybody listens does not matter, but is counted.

    Args:
        path: Any file :func:`pyanticip.load_motion` reads.
        loop: Begin again at the end until ``seconds`` have passed or Ctrl-C.
        rate: Frames a second, 1 to 1000; if not given mocopi 50, msgpack the file's own, else 60.
        file_rate: Frames a second of the file, instead of what it says: the ``rate`` of
            :func:`pyanticip.load_motion`.
        speed: The performer moves this many times as fast; the frames a second stay.
        seconds: Stop after this long.
        progress: Show a progress line on stderr.
        say: Is told what had to be decided in reading the file.
        reading: Options of :func:`pyanticip.load_motion` for a file that has to be helped: ``up``, ``rest``
            ...

    Returns:
        dict: ``frames`` and ``datagrams`` sent, ``bytes``, ``seconds`` it took, ``refused`` (datagrams that
        found no listener), ``late_ms`` (p50, p99 and max of how late datagrams left) and ``interrupted``.

    Raises:
        MotionError: One line: a file that cannot be read, a host that cannot be found, an option out of
            range.
    """
    if seconds is not None and not seconds > 0.0:
        raise OptionError(f"seconds must be more than 0, given {seconds:g}")
    if not 1 <= port <= 65535:
        raise OptionError(f"port must be 1 to 65535, given {port}")
    if protocol not in SOURCES:
        raise OptionError(f"protocol is one of {', '.join(SOURCES.names())}, given {protocol!r}")
    source, foreign = SOURCES.load(protocol)(), protocol not in SOURCES.built_in
    sock = connect_udp(host, port, "send", broadcast=True)
    try:
        from pyanticip.motion.datagrams import at_speed
        from pyanticip.motion.load import load_take

        clip = at_speed(load_take(path, rate=file_rate, **reading), speed)
        if say is not None:
            for line in clip.warnings:
                say(f"{path}: {line}")
        with foreign_errors(f"source {protocol!r} cannot send") if foreign else contextlib.nullcontext():
            stream = source.encode(clip, rate=rate, loop=loop, unix_time=time.time())
        if foreign:
            stream = _checked(protocol, stream)
        length = seconds if seconds is not None else None if loop else clip.duration
        label = f"{clip.name} as {protocol} to {host}:{port}"
        return _stream(sock, stream, seconds, _progress(label, length) if progress else None)
    finally:
        sock.close()


def _checked(protocol: str, stream: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """What the source of another package gives, or an OptionError of one line."""
    with foreign_errors(f"source {protocol!r} cannot send"):
        for t_ns, datagram in stream:
            yield int(t_ns), bytes(datagram)


def _progress(label: str, length: float | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[frames]} frames"),
        console=Console(file=sys.stderr),
        auto_refresh=False,
    )
    bar.add_task(label, total=length, frames=0)
    return bar


def _stream(
    sock: socket.socket, stream: Iterator[tuple[int, bytes]], seconds: float | None, bar: Progress | None
) -> dict[str, Any]:
    count, size, refused, last_ns, frames = 0, 0, 0, -1, 0
    lateness: deque[int] = deque(maxlen=_LATENESS)
    interrupted = False
    end_ns = None if seconds is None else round(seconds * 1e9)
    begin = start = time.monotonic_ns()
    shown = -_PROGRESS_NS
    if bar is not None:
        bar.start()
    try:
        for t_ns, datagram in stream:
            if end_ns is not None and t_ns >= end_ns:
                break
            late = _wait(start + t_ns)
            if late > _LOST_NS:
                start += late
            lateness.append(late)
            try:
                sock.send(datagram)
            except ConnectionRefusedError:
                refused += 1
            except OSError as error:
                raise DeviceError(
                    f"send: a datagram of {len(datagram)} bytes cannot be sent ({reason(error)})"
                ) from None
            count, size = count + 1, size + len(datagram)
            frames += t_ns != last_ns
            last_ns = t_ns
            if bar is not None and t_ns - shown >= _PROGRESS_NS:
                shown = t_ns
                bar.update(bar.task_ids[0], completed=t_ns / 1e9, frames=frames, refresh=True)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if bar is not None:
            bar.update(bar.task_ids[0], frames=frames, refresh=True)
            bar.stop()
    return {
        "frames": frames,
        "datagrams": count,
        "bytes": size,
        "seconds": round((time.monotonic_ns() - begin) / 1e9, 3),
        "refused": refused,
        "late_ms": _lateness(lateness),
        "interrupted": interrupted,
    }


def _wait(deadline_ns: int) -> int:
    """Sleep until the deadline; how many nanoseconds it is past."""
    while (left := deadline_ns - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)
    return -left


def _lateness(late_ns: deque[int]) -> dict[str, float]:
    if not late_ns:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0}
    ordered = sorted(late_ns)
    points = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(ordered[min(int(part * len(ordered)), len(ordered) - 1)] / 1e6, 3)
        for name, part in points.items()
    }
