"""``pyanticip send``: a simulated suit that streams a motion file over a real protocol in real time."""

from __future__ import annotations

import contextlib
import errno
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

# If sending is later than this (the machine slept), the schedule restarts from now: no burst is sent.
_MAX_LATE_NS = 500_000_000
_PROGRESS_INTERVAL_NS = 100_000_000
# Datagrams whose lateness is kept, half an hour at 50 Hz: it may run all night.
_LATENESS_SIZE = 90_000


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

    Each datagram has its own deadline, counted from the start, so delays do not accumulate. Ctrl-C ends it
    cleanly. No listener is needed; refused datagrams are counted, as are those that the network does not take
    once it has taken one.

    Args:
        path: Any file :func:`pyanticip.load_motion` reads.
        loop: Restart at the end, until ``seconds`` have passed or Ctrl-C.
        rate: Frames a second, 1 to 1000; by default mocopi 50, msgpack the file's own, else 60.
        file_rate: Frame rate of the file, in place of its own: the ``rate`` of
            :func:`pyanticip.load_motion`.
        speed: Factor on the speed of the movement; the frame rate stays.
        seconds: Stop after this many seconds.
        progress: Show a progress line on stderr.
        say: Receives warnings about the file.
        reading: Options of :func:`pyanticip.load_motion`: ``up``, ``rest`` ...

    Returns:
        dict: ``frames`` and ``datagrams`` sent, ``bytes``, ``seconds`` it took, ``refused`` (datagrams that
        found no listener), ``unsent`` (those that the network did not take), ``late_ms`` (p50, p99 and max of
        how late datagrams left) and ``interrupted``.

    Raises:
        MotionError: A file that cannot be read, a host that cannot be resolved, an option out of range.
    """
    if seconds is not None and not seconds > 0.0:
        raise OptionError(f"seconds must be more than 0, got {seconds:g}")
    if not 1 <= port <= 65535:
        raise OptionError(f"port must be 1 to 65535, got {port}")
    if protocol not in SOURCES:
        raise OptionError(f"protocol is one of {', '.join(SOURCES.names())}, got {protocol!r}")
    source, is_foreign = SOURCES.load(protocol)(), protocol not in SOURCES.built_in
    sock = connect_udp(host, port, "send", broadcast=True)
    try:
        from pyanticip.motion.datagrams import at_speed
        from pyanticip.motion.load import load_take

        clip = at_speed(load_take(path, rate=file_rate, **reading), speed)
        if say is not None:
            for line in clip.warnings:
                say(f"{path}: {line}")
        with foreign_errors(f"source {protocol!r} cannot send") if is_foreign else contextlib.nullcontext():
            stream = source.encode(clip, rate=rate, loop=loop, unix_time=time.time())
        if is_foreign:
            stream = _guarded(protocol, stream)
        length = seconds if seconds is not None else None if loop else clip.duration
        label = f"{clip.name} as {protocol} to {host}:{port}"
        return _stream(sock, stream, seconds, _progress(label, length) if progress else None)
    finally:
        sock.close()


def _guarded(protocol: str, stream: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The datagrams of a third-party source; whatever it raises becomes an OptionError."""
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
        TextColumn("{task.fields[frames]} frames{task.fields[unsent]}"),
        console=Console(file=sys.stderr),
        auto_refresh=False,
    )
    bar.add_task(label, total=length, frames=0, unsent="")
    return bar


def _stream(
    sock: socket.socket, stream: Iterator[tuple[int, bytes]], seconds: float | None, bar: Progress | None
) -> dict[str, Any]:
    """Send datagrams, each with its time in ns from the start, at their times."""
    count, size, refused, unsent, last_ns, frames = 0, 0, 0, 0, -1, 0
    lateness: deque[int] = deque(maxlen=_LATENESS_SIZE)
    interrupted = False
    end_ns = None if seconds is None else round(seconds * 1e9)
    begin = start = time.monotonic_ns()
    bar_updated_ns = -_PROGRESS_INTERVAL_NS

    def draw(bar: Progress, completed: float | None = None) -> None:
        lost = f", {unsent} not sent" if unsent else ""
        bar.update(bar.task_ids[0], completed=completed, frames=frames, unsent=lost, refresh=True)

    if bar is not None:
        bar.start()
    try:
        for t_ns, datagram in stream:
            if end_ns is not None and t_ns >= end_ns:
                break
            late_ns = _wait(start + t_ns)
            if late_ns > _MAX_LATE_NS:
                start += late_ns
            lateness.append(late_ns)
            if bar is not None and t_ns - bar_updated_ns >= _PROGRESS_INTERVAL_NS:
                bar_updated_ns = t_ns
                draw(bar, t_ns / 1e9)
            try:
                sock.send(datagram)
            except ConnectionRefusedError:
                refused += 1
            except OSError as error:
                if not count or error.errno == errno.EMSGSIZE:
                    raise DeviceError(
                        f"send: a datagram of {len(datagram)} bytes cannot be sent ({reason(error)})"
                    ) from None
                unsent += 1  # Wi-Fi that comes back finds the suit still sending
                continue
            count, size = count + 1, size + len(datagram)
            frames += t_ns != last_ns
            last_ns = t_ns
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if bar is not None:
            draw(bar)
            bar.stop()
    return {
        "frames": frames,
        "datagrams": count,
        "bytes": size,
        "seconds": round((time.monotonic_ns() - begin) / 1e9, 3),
        "refused": refused,
        "unsent": unsent,
        "late_ms": _lateness(lateness),
        "interrupted": interrupted,
    }


def _wait(deadline_ns: int) -> int:
    """Sleep until the deadline, and return how many nanoseconds it is past."""
    while (remaining_ns := deadline_ns - time.monotonic_ns()) > 0:
        time.sleep(remaining_ns / 1e9)
    return -remaining_ns


def _lateness(late_ns: deque[int]) -> dict[str, float]:
    if not late_ns:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0}
    ordered = sorted(late_ns)
    quantiles = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(ordered[min(int(quantile * len(ordered)), len(ordered) - 1)] / 1e6, 3)
        for name, quantile in quantiles.items()
    }
