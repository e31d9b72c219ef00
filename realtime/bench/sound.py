"""``pyanticip bench sound``: from movement in a file to energy in the sound, offline.

A file is played as `render` plays it, and what the voice makes of it is measured beside what the body does.
*Movement* is the teacher's loudness (the body's kinetic energy, without a lag of its own). *Sound* is the
root mean square of both channels, smoothed without lag by a Gaussian of -3 dB at 3 Hz as the teacher smooths
movement, and its square root, for loudness goes by the square. The *lag* is where their correlation is
highest, -400 to 400 ms in steps of 10 with a parabola through the highest three, from 2 s on: above zero the
sound is late. *Level* is the same of the sound without events and with density and pulse at 0: strokes are
struck when a movement has arrived, and bells and rhythm go by a clock of their own. *Sent* is that of the
loudness that was sent. *Beats*: the teacher's, those that one was
played for within 100 ms, one to one; the median of how far these are apart, and the share within 40 ms; what
the voice takes to sound is compensated as it is live, and no device is in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip._core import teacher_parameters
from pyanticip.errors import OptionError
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_motion
from pyanticip.vocabulary import PARAMETERS, RATE
from realtime.bench.offline_listener import OfflineListener
from realtime.clock import OfflineClock
from realtime.config import LeadMs
from realtime.rig import Rig
from realtime.sources.replay import Datagram, play_offline
from realtime.stage import assemble
from realtime.step.base import StepBackend
from realtime.voice.base import way_ms
from realtime.voice.open import open_voice

__all__ = ["lag_ms", "markdown", "run"]

F64 = npt.NDArray[np.float64]
#: Canonical rotations (T, 22, 4) at 50 Hz -> frames of the beats.
Beats = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.int64]]

SAMPLE_RATE = 48_000
_HOP = SAMPLE_RATE // 100
_BEGIN, _FARTHEST = 2.0, 40
_NEAR, _CLOSE = 0.1, 0.04
# A Gaussian of -3 dB at 3 Hz: its standard deviation, in hops of 10 ms.
_WIDTH = 100.0 * np.sqrt(np.log(2.0)) / (2.0 * np.pi * 3.0)
_LOUDNESS = PARAMETERS.index("loudness")


def lag_ms(late: F64, reference: F64) -> tuple[float | None, float | None]:
    """How many ms the first of two curves at 100 Hz comes after the second, and their correlation there; None
    where one of them stands still."""
    rows = []
    for shift in range(-_FARTHEST, _FARTHEST + 1):
        a = late[max(shift, 0) : len(late) + min(shift, 0)]
        b = reference[max(-shift, 0) : len(reference) + min(-shift, 0)]
        flat = a.std() < 1e-9 or b.std() < 1e-9
        rows.append(-np.inf if flat else float(np.corrcoef(a, b)[0, 1]))
    best = int(np.argmax(rows))
    if not np.isfinite(rows[best]):
        return None, None
    part = 0.0
    if 0 < best < len(rows) - 1:
        low, top, high = rows[best - 1 : best + 2]
        if np.isfinite(low + high):
            part = 0.5 * (low - high) / min(low - 2.0 * top + high, -1e-12)
    return round(10.0 * (best - _FARTHEST + part), 1), round(rows[best], 2)


def envelope(sound: npt.NDArray[np.float32]) -> F64:
    """The level of a sound (n, 2) at 100 Hz, a value for each moment k / 100 s."""
    whole = len(sound) // _HOP
    power = (sound[: whole * _HOP].astype(np.float64) ** 2).mean(1).reshape(whole, _HOP).mean(1)
    reach = int(4 * _WIDTH)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / _WIDTH) ** 2)
    level = np.sqrt(np.sqrt(np.convolve(power, kernel / kernel.sum(), "same")))
    # A hop's middle lies half a hop after its beginning.
    return np.interp(np.arange(whole), np.arange(whole) + 0.5, level)


def nearest_errors(true: F64, announced: Sequence[float]) -> list[float]:
    """How far each event that has one within 100 ms is from it, seconds, late ones above 0; nearest first."""
    pairs = sorted((abs(s - t), i, j) for i, t in enumerate(true) for j, s in enumerate(announced))
    found: dict[int, float] = {}
    used = set()
    for distance, i, j in pairs:
        if distance <= _NEAR and i not in found and j not in used:
            found[i] = announced[j] - float(true[i])
            used.add(j)
    return list(found.values())


def _row(
    path: Path, seconds: float, preset: str, rig: Rig, backend: StepBackend, beats: Beats
) -> dict[str, Any]:
    clip = load_motion(path)
    frames = round(seconds * clip.rate)
    clip = replace(clip, quats=clip.quats[:frames], root=clip.root[:frames])
    if clip.duration < 2 * _BEGIN:
        raise OptionError(f"{path}: expected {2 * _BEGIN:g} s of motion or more, has {clip.duration:.1f}")
    quats = clip.retarget("humanoid").resample(RATE).quats
    moves = np.asarray(teacher_parameters(quats), np.float64)[:, _LOUDNESS]
    clock = OfflineClock()
    voice = open_voice(preset, {}, SAMPLE_RATE)
    ear = OfflineListener(clock, voice)
    bare = OfflineListener(clock, open_voice(preset, {}, SAMPLE_RATE), bare=True)
    backend.reset()
    pipeline = assemble(rig, clock, kind="msgpack", sinks=[ear, bare], backend=backend)
    pipeline.mixer.sound_ms = way_ms(voice)
    play_offline((Datagram(*pair) for pair in datagrams(clip, "msgpack")), clock, pipeline.feed)
    pipeline.run_until(clock.now_ns())
    at = np.arange(round(100 * _BEGIN), round(100 * min(ear.times[-1], (len(moves) - 1) / RATE)))
    body = np.interp(at / 100.0, np.arange(len(moves)) / RATE, moves)
    # What is sent holds until the next frame.
    places = np.maximum(np.searchsorted(ear.times, at / 100.0, "right") - 1, 0)
    sent = np.array(ear.params, np.float64)[places, _LOUDNESS]

    def late(roll: OfflineListener) -> tuple[float | None, float | None]:
        heard = envelope(roll.sound)
        return lag_ms(np.interp(at, np.arange(len(heard)), heard), body)

    (lag, fit), (level, level_fit) = late(ear), late(bare)
    true = beats(quats) / RATE
    true = true[(true >= _BEGIN) & (true <= at[-1] / 100.0)]
    errors = np.array(nearest_errors(true, ear.due("onset")))
    return {
        "file": path.name,
        "preset": preset,
        "sound_ms": lag,
        "sound_r": fit,
        "level_ms": level,
        "level_r": level_fit,
        "sent_ms": lag_ms(sent, body)[0],
        "lead_ms": round(pipeline.mixer.lead.leads[_LOUDNESS], 1),
        "beats": len(true),
        "played": len(errors),
        "apart_ms": round(1e3 * float(np.median(np.abs(errors))), 1) if len(errors) else None,
        "close": round(float(np.mean(np.abs(errors) <= _CLOSE)), 3) if len(errors) else None,
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
        seconds: of each file at most.
        lead_ms: 0 to 400, or auto.

    Raises:
        MotionError: a file that cannot be read or is too short; a preset that is not there.
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
    """The table for a page."""
    lines = [f"| {' | '.join(_HEADS.values())} |", "|---" * len(_HEADS) + "|"]
    for row in result["rows"]:
        cells = ["-" if row[name] is None else str(row[name]) for name in _HEADS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
