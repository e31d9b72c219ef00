"""``pyanticip bench network``: effect of frame rates and poor networks, offline and deterministic.

Motion files are encoded as a suit sends them, but the arrival times of their datagrams are simulated. The
pipeline is that of ``live`` on an offline clock, as in ``render``. Three tables: frame rates of each protocol
(with jitter, 1 % loss and frame numbers that wrap) compared with 50 Hz undisturbed; a body whose joints are
slightly off, undisturbed, which shows how sensitive the figures are; and two suits over poor networks
compared with the same undisturbed.

Comparison of two runs: each consists of bundles, with their send times and eight parameters. At every moment
of the clip's own time (zero: its first frame is sent), from 2 s to its end, the newest bundle of each is what
a synth has. Time is not sampled, but integrated exactly: bundles lie on a grid, where a sample could take a
delay of a nanosecond for 20 ms. Nothing is shifted and the lead is 0: a late value counts as wrong for as
long as it is late. *Error* is the root mean square of the difference over the standard deviation of the
undisturbed run, for each parameter whose deviation there is above 0.01; the mean over these, then over clips.
*Beats* is the share of the undisturbed run's onsets (sent + seconds ahead, from 2 s on) for which the other
run has one within 50 ms, one to one, over all clips; *false* is the number of the other's unmatched ones, as
a share of the undisturbed run's. *Per second* is the rate of bundles, *SD* the standard deviation of the
intervals between them, *most* the largest number of bundles within 100 ms.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console, Group
from rich.progress import track

from pyanticip.bench.machine import machine, rich_table
from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import PROTOCOLS, datagrams
from pyanticip.vocabulary import PARAMETERS, RATE
from realtime.bench.offline_listener import load_start, play_datagrams
from realtime.bench.stillness import turned
from realtime.clock import OfflineClock
from realtime.rig import Rig, load_rig
from realtime.sinks.capture import CaptureSink
from realtime.stage import assemble
from realtime.step.base import StepBackend

F64 = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]
Pairs = list[tuple[int, bytes]]

RATES = (24.0, 30.0, 50.0, 60.0, 90.0, 120.0, 240.0)
#: For the table of rates: standard deviation of delays, share lost, frames before the 32-bit number wraps.
JITTER_MS, LOSS, BEFORE_WRAP = 2.0, 0.01, 100
#: For the table of bodies that are off: degrees rms about each axis of each joint, independent per frame.
OFF_DEGREES = (0.01, 0.05, 0.2)
#: Start of the evaluation.
WARM_UP_SECONDS = 2.0
# Parameters with a smaller standard deviation are not compared.
_MIN_DEVIATION = 0.01
# Largest distance of matching beats.
_NEAR_SECONDS = 0.05
_MS = 1_000_000
# Interval of datagrams that are delivered together, as recorded from a real network.
_BURST_INTERVAL_NS = 2_000

#: From departure times (ns) and a random generator to arrival times (ns), -1 for lost datagrams.
Network = Callable[[Times, np.random.Generator], Times]


def late(sd_ms: float) -> Network:
    """Half normal delays of this standard deviation; the order is preserved."""
    scale = sd_ms * _MS / np.sqrt(1.0 - 2.0 / np.pi)

    return lambda sent, chance: np.maximum.accumulate(
        sent + np.abs(chance.normal(0.0, scale, len(sent))).astype(np.int64)
    )


def lossy(share: float) -> Network:
    """Each datagram is lost with this probability."""
    return lambda sent, chance: np.where(chance.random(len(sent)) < share, -1, sent)


def away(every_ms: int, last_ms: int, *, lost: bool) -> Network:
    """In every period of ``every_ms``, the last ``last_ms`` are delivered together at its end, or lost."""

    def network(sent: Times, chance: np.random.Generator) -> Times:
        period_start = sent - sent % (every_ms * _MS)
        arrival = -1 if lost else period_start + every_ms * _MS
        return np.where(sent - period_start >= (every_ms - last_ms) * _MS, arrival, sent)

    return network


def stall(sent: Times, chance: np.random.Generator) -> Times:
    """Datagrams sent from 4 to 12 s are delivered together."""
    return np.where(sent < 12_000 * _MS, away(12_000, 8_000, lost=False)(sent, chance), sent)


#: Protocols and rates of the suits: a current mocopi, and the most common rate of motion files.
SUITS = (("mocopi", 60.0), ("msgpack", 120.0))
#: By name of the row: the network, and the source's jitter buffer in ms, "auto" or None.
NETWORKS: dict[str, tuple[Network, float | str | None]] = {
    "burst of 150 ms every second": (away(1000, 150, lost=False), None),
    "gap of 300 ms every 2 s": (away(2000, 300, lost=True), None),
    "5 % lost": (lossy(0.05), None),
    "5 % lost, buffer of 60 ms": (lossy(0.05), 60.0),
    "20 % lost": (lossy(0.2), None),
    "20 % lost, buffer of 60 ms": (lossy(0.2), 60.0),
    "jitter of 6.4 ms": (late(6.4), None),
    "jitter of 6.4 ms, buffer auto": (late(6.4), "auto"),
    "stall of 8 s": (stall, None),
}


def arrive(pairs: Pairs, networks: Sequence[Network], seed: str) -> Pairs:
    """Pairs of arrival time (ns) and datagram, from pairs of departure time and datagram.

    The first arrives at once in any network, so that time has a zero.
    """
    chance = np.random.default_rng(zlib.crc32(seed.encode()))
    times = np.array([t_ns for t_ns, _ in pairs[1:]], np.int64)
    indices = np.arange(len(times))
    for network in networks:
        arrivals = network(times, chance)
        indices, times = indices[arrivals >= 0], arrivals[arrivals >= 0]
    out, last = [pairs[0]], -_BURST_INTERVAL_NS
    for i, t_ns in zip(indices.tolist(), times.tolist(), strict=True):
        last = t_ns if t_ns > last else last + _BURST_INTERVAL_NS
        out.append((last, pairs[i + 1][1]))
    return out


class Played(NamedTuple):
    """The output of a run: send times (T,) in seconds, parameters (T, 8), due times of onsets (E,)."""

    times: F64
    params: F64
    beats: F64


def play(pairs: Pairs, protocol: str, backend: StepBackend | None, rig: Rig | None = None) -> Played:
    """Play a whole show offline; the backend stays open."""
    clock = OfflineClock()
    capture = CaptureSink(clock)
    pipeline = assemble(
        (rig or Rig()).model_copy(update={"lead_ms": 0.0}),
        clock,
        kind=protocol,
        sinks=[capture],
        backend=backend,
    )
    play_datagrams(pairs, clock, pipeline)
    params = np.array(capture.params, np.float64).reshape(-1, len(PARAMETERS))
    return Played(np.array(capture.times), params, np.array(capture.due("onset"), np.float64))


def run(
    files: Sequence[Path] = (),
    seconds: float = 20.0,
    *,
    checkpoint: Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Measure; the object that ``--json`` prints.

    Args:
        files: motion files of 4 s or more; the bundled performance if empty.
        seconds: longest part of each file that is played, 5 to 3600.

    Returns:
        ``rates``, ``off`` and ``networks``, lists of rows: ``name``, ``error``, ``beats`` and ``false``
        (shares of ``of``, the beats of the undisturbed runs), ``per_second``, ``sd_ms``, ``most``. A figure
        is None where it is undefined.

    Raises:
        MotionError: a file cannot be read or is too short.
    """
    from realtime.step.open import open_processor

    paths = list(files) or [Path(__file__).parents[1] / "data" / "performance.bvh"]
    clips = [load_start(path, seconds, 2 * WARM_UP_SECONDS) for path in paths]
    backend = open_processor(checkpoint)
    try:
        rates = [row for protocol in PROTOCOLS for row in _rates(protocol, clips, backend, progress)]
        off = list(_off(clips, backend))
        networks = [row for suit in SUITS for row in _networks(*suit, clips, backend, progress)]
    finally:
        backend.close()
    context = {"files": [path.name for path in paths], "seconds": seconds, **machine()}
    return {"rates": rates, "off": off, "networks": networks, **context}


def _rates(
    protocol: str, clips: Sequence[Clip], backend: StepBackend, progress: bool
) -> Iterator[dict[str, Any]]:
    clean = [play(list(datagrams(clip, protocol, rate=RATE)), protocol, backend) for clip in clips]
    for rate in _track(RATES, protocol, progress):
        runs = []
        for i, clip in enumerate(clips):
            sent = datagrams(clip, protocol, rate=rate, unix_time=1.7e9, first_number=2**32 - BEFORE_WRAP)
            arrived = arrive(list(sent), (lossy(LOSS), late(JITTER_MS)), f"{protocol} {rate:g} {i}")
            runs.append(play(arrived, protocol, backend))
        yield {"name": f"{protocol}, {rate:g} Hz", **compare(clean, runs)}


def _off(clips: Sequence[Clip], backend: StepBackend) -> Iterator[dict[str, Any]]:
    bodies = [clip.resample(RATE) for clip in clips]
    clean = [play(list(datagrams(body, "msgpack")), "msgpack", backend) for body in bodies]
    for degrees in OFF_DEGREES:
        runs = []
        for i, body in enumerate(bodies):
            chance = np.random.default_rng(i).standard_normal((*body.quats.shape[:2], 3))
            off = replace(body, quats=turned(body.quats, np.radians(degrees) * chance))
            runs.append(play(list(datagrams(off, "msgpack")), "msgpack", backend))
        yield {"name": f"joints {degrees:g} degrees off", **compare(clean, runs)}


def _networks(
    protocol: str, rate: float, clips: Sequence[Clip], backend: StepBackend, progress: bool
) -> Iterator[dict[str, Any]]:
    sent = [list(datagrams(clip, protocol, rate=rate, unix_time=1.7e9)) for clip in clips]
    clean = [play(pairs, protocol, backend) for pairs in sent]
    yield {"name": f"{protocol}, {rate:g} Hz, undisturbed", **compare(clean, clean)}
    for name in _track(list(NETWORKS), f"{protocol} disturbed", progress):
        network, buffer = NETWORKS[name]
        rig = load_rig(None, {"source": {"buffer_ms": buffer}} if buffer is not None else None)
        arrived = [arrive(pairs, (network,), f"{name} {i}") for i, pairs in enumerate(sent)]
        yield {"name": name, **compare(clean, [play(pairs, protocol, backend, rig) for pairs in arrived])}


def compare(clean: Sequence[Played], runs: Sequence[Played]) -> dict[str, Any]:
    """The figures of one row: a disturbed run of every clip compared with the undisturbed one."""
    errors, intervals, length = [], [], 0.0
    bundles = matches = false = of = most = 0
    for reference, other in zip(clean, runs, strict=True):
        end = reference.times[-1]
        errors += [error] if (error := _error(reference, other, end)) is not None else []
        times = other.times[(other.times >= WARM_UP_SECONDS) & (other.times <= end)]
        intervals += np.diff(times).tolist()
        bundles, length = bundles + len(times), length + end - WARM_UP_SECONDS
        within = np.searchsorted(other.times, other.times + 0.1) - np.arange(len(other.times))
        most = max(most, int(within.max()))
        true, announced = reference.beats.tolist(), other.beats.tolist()
        # A beat after the warm-up may be matched by one before it.
        pairs = matched(true, announced)
        matches += sum(true[i] >= WARM_UP_SECONDS for i, _ in pairs)
        false += sum(beat >= WARM_UP_SECONDS for beat in announced)
        false -= sum(announced[j] >= WARM_UP_SECONDS for _, j in pairs)
        of += sum(beat >= WARM_UP_SECONDS for beat in true)
    return {
        "error": round(float(np.mean(errors)), 4) if errors else None,
        "beats": round(matches / of, 4) if of else None,
        "false": round(false / of, 4) if of else None,
        "of": of,
        "per_second": round(bundles / float(length), 2),
        "sd_ms": round(float(np.std(intervals)) * 1e3, 2) if intervals else None,
        "most": most,
    }


def _error(clean: Played, other: Played, end: float) -> float | None:
    """RMS difference over standard deviation, the mean over the parameters that vary; None if none does."""
    edges = np.unique(np.clip([WARM_UP_SECONDS, *clean.times, *other.times], WARM_UP_SECONDS, end))
    weights = np.diff(edges) / (end - WARM_UP_SECONDS)
    reference, values = (
        run.params[np.maximum(np.searchsorted(run.times, edges[:-1], "right") - 1, 0)]
        for run in (clean, other)
    )
    deviation = np.sqrt(weights @ (reference - weights @ reference) ** 2)
    varies = deviation > _MIN_DEVIATION
    difference = np.sqrt(weights @ (reference - values) ** 2)
    return float(np.mean(difference[varies] / deviation[varies])) if varies.any() else None


def matched(true: Sequence[float], announced: Sequence[float]) -> list[tuple[int, int]]:
    """Indices of the elements of two ascending sequences of times that match within 50 ms, one to one."""
    i, j, pairs = 0, 0, list[tuple[int, int]]()
    while i < len(true) and j < len(announced):
        if abs(true[i] - announced[j]) <= _NEAR_SECONDS:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif true[i] < announced[j]:
            i += 1
        else:
            j += 1
    return pairs


def _track(items: Sequence[Any], what: str, progress: bool) -> Iterable[Any]:
    return track(items, what, console=Console(stderr=True), transient=True, disable=not progress)


def _cells(row: dict[str, Any]) -> list[str]:
    values = [row[column.lower().replace(" ", "_") or "name"] for column in _COLUMNS]
    return ["-" if value is None else form.format(value) for form, value in zip(_FORMS, values, strict=True)]


_COLUMNS = ("", "error", "beats", "false", "per second", "SD ms", "most")
_FORMS = ("{}", "{:.3f}", "{:.0%}", "{:.0%}", "{:.1f}", "{:.1f}", "{}")
_TITLES = {
    "rates": f"rates, {JITTER_MS:g} ms jitter, {100 * LOSS:g} % lost, numbers wrap; beside 50 Hz undisturbed",
    "off": "50 Hz undisturbed, joints off at random; beside the same without",
    "networks": "networks; beside the same suit undisturbed",
}


def table(result: dict[str, Any]) -> Group:
    """The result as tables for the terminal."""
    tables = [rich_table(title, _COLUMNS, ("",)) for title in _TITLES.values()]
    for part, one in zip(_TITLES, tables, strict=True):
        for row in result[part]:
            one.add_row(*_cells(row))
    return Group(*tables)


def markdown(result: dict[str, Any]) -> str:
    """The result as Markdown tables."""
    lines = []
    for part, title in _TITLES.items():
        lines += [f"{title}:", "", f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
        lines += [f"| {' | '.join(_cells(row))} |" for row in result[part]] + [""]
    return "\n".join(lines)
