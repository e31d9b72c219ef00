"""``pyanticip bench sound``: lag from movement in a file to energy in the sound, offline.

A file is played as by `render`, and the voice's sound is compared with the body's movement. *Movement* is the
teacher's loudness (the body's kinetic energy, without a lag of its own). *Sound* is the square root of the
root mean square of both channels, smoothed without lag by a Gaussian of -3 dB at 3 Hz, as the teacher smooths
movement; the root, because loudness is quadratic. The *lag* is where their correlation is highest, -400 to
400 ms in steps of 10 with a parabola through the highest three, from 2 s on; positive: the sound is late.
*Level* is the same for the sound without events and with density and pulse at 0: strokes sound when a
movement has arrived, and bells and rhythm follow a clock of their own. *Sent* is the lag of the loudness that
was sent. *Beats* are the teacher's; counted are those with a played one within 100 ms, one to one, the median
of their distances, and the share within 40 ms. The voice's latency is compensated as it is live; there is no
device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip._core import teacher_parameters
from pyanticip.motion.datagrams import datagrams
from pyanticip.vocabulary import PARAMETERS, RATE
from realtime.bench.offline_listener import OfflineListener, load_start, play_datagrams
from realtime.clock import OfflineClock
from realtime.config import LeadMs
from realtime.rig import Rig
from realtime.stage import assemble
from realtime.step.base import StepBackend
from realtime.voice.base import voice_latency_ms
from realtime.voice.open import open_voice

F64 = npt.NDArray[np.float64]
#: From canonical rotations (T, 22, 4) at 50 Hz to the frames of the beats.
Beats = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.int64]]

SAMPLE_RATE = 48_000
_HOP = SAMPLE_RATE // 100
# Start of the evaluation, seconds; largest lag, hops of 10 ms.
_BEGIN_S, _MAX_LAG = 2.0, 40
# Largest distance of a pair of beats, and of a close pair, seconds.
_NEAR_S, _CLOSE_S = 0.1, 0.04
# Standard deviation of a Gaussian of -3 dB at 3 Hz, in hops of 10 ms.
_WIDTH = 100.0 * np.sqrt(np.log(2.0)) / (2.0 * np.pi * 3.0)
_LOUDNESS = PARAMETERS.index("loudness")


def lag_ms(late: F64, reference: F64) -> tuple[float | None, float | None]:
    """Lag of the first of two curves at 100 Hz behind the second, ms, and their correlation at it.

    None where one of them is constant.
    """
    rows = []
    for shift in range(-_MAX_LAG, _MAX_LAG + 1):
        a = late[max(shift, 0) : len(late) + min(shift, 0)]
        b = reference[max(-shift, 0) : len(reference) + min(-shift, 0)]
        is_constant = a.std() < 1e-9 or b.std() < 1e-9
        rows.append(-np.inf if is_constant else float(np.corrcoef(a, b)[0, 1]))
    best = int(np.argmax(rows))
    if not np.isfinite(rows[best]):
        return None, None
    fraction = 0.0
    if 0 < best < len(rows) - 1:
        before, peak, after = rows[best - 1 : best + 2]
        if np.isfinite(before + after):
            fraction = 0.5 * (before - after) / min(before - 2.0 * peak + after, -1e-12)
    return round(10.0 * (best - _MAX_LAG + fraction), 1), round(rows[best], 2)


def envelope(sound: npt.NDArray[np.float32]) -> F64:
    """The level of a sound (n, 2) at 100 Hz, a value for each time k / 100 s."""
    hops = len(sound) // _HOP
    power = (sound[: hops * _HOP].astype(np.float64) ** 2).mean(1).reshape(hops, _HOP).mean(1)
    reach = int(4 * _WIDTH)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / _WIDTH) ** 2)
    level = np.sqrt(np.sqrt(np.convolve(power, kernel / kernel.sum(), "same")))
    # The level of a hop belongs to its middle.
    return np.interp(np.arange(hops), np.arange(hops) + 0.5, level)


def nearest_errors(true: F64, announced: Sequence[float]) -> list[float]:
    """Errors, in seconds, of announced events within 100 ms of a true one, one to one; nearest pairs first.

    Positive: announced too late.
    """
    pairs = sorted((abs(s - t), i, j) for i, t in enumerate(true) for j, s in enumerate(announced))
    errors: dict[int, float] = {}
    used = set()
    for distance, i, j in pairs:
        if distance <= _NEAR_S and i not in errors and j not in used:
            errors[i] = announced[j] - float(true[i])
            used.add(j)
    return list(errors.values())


def _row(
    path: Path, seconds: float, preset: str, rig: Rig, backend: StepBackend, beats: Beats
) -> dict[str, Any]:
    clip = load_start(path, seconds, 2 * _BEGIN_S)
    quats = clip.retarget("humanoid").resample(RATE).quats
    movement = np.asarray(teacher_parameters(quats), np.float64)[:, _LOUDNESS]
    clock = OfflineClock()
    voice = open_voice(preset, {}, SAMPLE_RATE)
    full = OfflineListener(clock, voice)
    bare = OfflineListener(clock, open_voice(preset, {}, SAMPLE_RATE), bare=True)
    backend.reset()
    pipeline = assemble(rig, clock, kind="msgpack", sinks=[full, bare], backend=backend)
    pipeline.mixer.sound_ms = voice_latency_ms(voice)
    play_datagrams(datagrams(clip, "msgpack"), clock, pipeline)
    hops = np.arange(round(100 * _BEGIN_S), round(100 * min(full.times[-1], (len(movement) - 1) / RATE)))
    body = np.interp(hops / 100.0, np.arange(len(movement)) / RATE, movement)
    # A sent value holds until the next frame.
    indices = np.maximum(np.searchsorted(full.times, hops / 100.0, "right") - 1, 0)
    sent = np.array(full.params, np.float64)[indices, _LOUDNESS]

    def lag_of(listener: OfflineListener) -> tuple[float | None, float | None]:
        level = envelope(listener.sound)
        return lag_ms(np.interp(hops, np.arange(len(level)), level), body)

    (lag, correlation), (level, level_correlation) = lag_of(full), lag_of(bare)
    true = beats(quats) / RATE
    true = true[(true >= _BEGIN_S) & (true <= hops[-1] / 100.0)]
    errors = np.array(nearest_errors(true, full.due("onset")))
    return {
        "file": path.name,
        "preset": preset,
        "sound_ms": lag,
        "sound_r": correlation,
        "level_ms": level,
        "level_r": level_correlation,
        "sent_ms": lag_ms(sent, body)[0],
        "lead_ms": round(pipeline.mixer.lead.leads[_LOUDNESS], 1),
        "beats": len(true),
        "played": len(errors),
        "apart_ms": round(1e3 * float(np.median(np.abs(errors))), 1) if len(errors) else None,
        "close": round(float(np.mean(np.abs(errors) <= _CLOSE_S)), 3) if len(errors) else None,
    }


def run(
    files: Sequence[Path],
    presets: Sequence[str],
    seconds: float,
    *,
    beats: Beats,
    lead_ms: LeadMs = "auto",
    checkpoint: Path | None = None,
) -> dict[str, Any]:
    """Measure every file with every preset; the object that ``--json`` prints: ``rows``.

    Args:
        seconds: longest part of each file that is played.
        beats: finds the reference beats.
        lead_ms: 0 to 400, or auto.

    Raises:
        MotionError: a file cannot be read or is too short; an unknown preset.
    """
    from realtime.step.open import open_processor

    rig = Rig(lead_ms=lead_ms)
    backend = open_processor(checkpoint)
    try:
        rows = [_row(path, seconds, preset, rig, backend, beats) for preset in presets for path in files]
    finally:
        backend.close()
    return {"seconds": seconds, "lead_ms": rig.lead_ms, "rows": rows}


_HEADS = {
    "file": "file",
    "preset": "preset",
    "sound_ms": "sound, ms",
    "sound_r": "r",
    "level_ms": "level, ms",
    "level_r": "r",
    "sent_ms": "sent, ms",
    "lead_ms": "lead, ms",
    "played": "beats played",
    "beats": "of",
    "apart_ms": "apart, ms",
    "close": "within 40 ms",
}


def markdown(result: dict[str, Any]) -> str:
    """The result as a Markdown table."""
    lines = [f"| {' | '.join(_HEADS.values())} |", "|---" * len(_HEADS) + "|"]
    for row in result["rows"]:
        cells = ["-" if row[name] is None else str(row[name]).replace("|", r"\|") for name in _HEADS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
