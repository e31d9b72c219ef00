"""``pyanticip bench performer``: effect of the performer's noise gate and range.

Stillness of held poses and after a stop, sound levels, and whether movement passes unchanged. The whole
pipeline runs offline, as in ``render``; the voice's loudness is in LUFS.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyanticip.errors import OptionError
from pyanticip.motion.clip import Clip
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.load import load_motion
from pyanticip.motion.rotations import multiply
from pyanticip.vocabulary import PARAMETERS, RATE
from realtime.bench.offline_listener import RATE as SAMPLE_RATE
from realtime.bench.offline_listener import OfflineListener, integrated, play_datagrams
from realtime.clock import OfflineClock
from realtime.control.calibration import Table
from realtime.programs.calibrate import calibrate_from
from realtime.rig import Rig, load_rig
from realtime.sinks.capture import CaptureSink
from realtime.stage import assemble
from realtime.voice.open import open_voice

F64 = npt.NDArray[np.float64]
Say = Callable[[str], None]

#: Held poses: a clip, and the time of the pose in it, seconds.
POSES = (
    ("cmu/49_09.amc", 6.0),
    ("cmu/05_12.bvh", 4.0),
    ("cmu/02_01.bvh", 1.4),
    ("cmu/14_24.amc", 10.0),
    ("more/reactidle/p001/001_acted.bvh", 20.0),
)
#: Clips, each with another take of the same person for calibration, and the kind of movement.
PAIRS = (
    ("49_09.amc", "49_10.amc", "slow dance"),
    ("49_19.amc", "49_18.amc", "balance"),
    ("05_02.bvh", "05_20.bvh", "dance"),
    ("02_05.amc", "02_08.bvh", "punch, swordplay"),
    ("06_15.bvh", "06_14.bvh", "basketball"),
    ("14_24.amc", "14_25.amc", "direct traffic"),
    ("14_11.amc", "14_13.amc", "wash windows, mop"),
    ("16_05.amc", "16_06.amc", "jump"),
    ("01_08.bvh", "01_10.bvh", "climb, sit"),
    ("35_02.amc", "35_05.amc", "walk"),
)
#: Clips of people standing idly.
IDLE = "more/reactidle"
#: Movement that should pass unchanged.
UNCHANGED = {
    "walking": tuple(
        f"cmu/{n}" for n in ("02_01.bvh", "06_01.bvh", "35_02.amc", "39_01.amc", "16_15.amc", "49_01.amc")
    ),
    "dance": (
        *(f"cmu/{n}" for n in ("05_02.bvh", "05_09.bvh", "05_12.bvh", "05_20.bvh", "49_09.amc", "49_10.amc")),
        "more/cmu-85/bvh/cmu85/85_12.bvh",
    ),
    "other": tuple(f"cmu/{n}" for n in ("02_05.amc", "06_13.bvh", "14_11.amc", "16_05.amc", "01_08.bvh")),
}
_LOUDNESS = PARAMETERS.index("loudness")
# Seconds of standing after a stop, and the loudness that counts as sound then.
_STOP_S = 4.0
_AUDIBLE = 0.02
# Frames after the gate's first opening that are not compared.
_SETTLE_FRAMES = 50


def perform(clip: Clip, rig: Rig, *, sound: bool = True) -> CaptureSink:
    """Play a clip, on its own skeleton, through the pipeline that ``rig`` describes."""
    clock = OfflineClock()
    capture = OfflineListener(clock, open_voice("default", {}, SAMPLE_RATE)) if sound else CaptureSink(clock)
    pipeline = assemble(rig, clock, kind="msgpack", sinks=[capture])
    with contextlib.closing(pipeline):
        play_datagrams(datagrams(clip, "msgpack"), clock, pipeline)
    return capture


def with_performer(**keys: object) -> Rig:
    """The built-in rig with these keys in ``[performer]``."""
    return load_rig(None, {"model": {"backend": "rust"}, "performer": keys})


def turned(quats: npt.NDArray[np.float32], turns: F64) -> npt.NDArray[np.float32]:
    """Rotations (..., 4), each rotated by a rotation vector (..., 3), radians, in its own frame."""
    half = turns / 2.0
    angle = np.linalg.norm(half, axis=-1, keepdims=True)
    turn = np.concatenate([np.cos(angle), np.sinc(angle / np.pi) * half], axis=-1)
    return multiply(quats, turn).astype(np.float32)


def jitter(clip: Clip, second: float, degrees: float, slow: bool, seed: int, length: float = 60.0) -> Clip:
    """A held pose of ``clip`` with noise on all joints, at 60 frames a second for ``length`` seconds.

    The noise is normal, of ``degrees`` rms about each axis, white or (``slow``) below 5 Hz.
    """
    frame, count = min(round(second * clip.rate), len(clip) - 1), round(length * 60.0)
    turns = _tremble((count, len(clip.skeleton)), 60.0, degrees, slow, seed)
    root = np.tile(clip.root[frame], (count, 1))
    return Clip(turned(clip.quats[frame], turns), root, 60.0, clip.skeleton, f"{clip.name} held")


def stopped(clip: Clip, degrees: float, slow: bool, seed: int) -> Clip:
    """The first half of ``clip``, then its last pose for ``_STOP_S``, with the noise of :func:`jitter`."""
    half = len(clip) // 2
    frames = np.minimum(np.arange(half + round(_STOP_S * clip.rate)), half - 1)
    turns = _tremble((len(frames), len(clip.skeleton)), clip.rate, degrees, slow, seed)
    quats = turned(clip.quats[frames], turns)
    return Clip(quats, clip.root[frames], clip.rate, clip.skeleton, f"{clip.name} stopped")


def _tremble(shape: tuple[int, int], rate: float, degrees: float, slow: bool, seed: int) -> F64:
    """Rotation vectors (frames, joints, 3), radians."""
    noise: F64 = np.random.default_rng(seed).standard_normal((*shape, 3))
    if slow:
        spectrum = np.fft.rfft(noise, axis=0)
        spectrum[np.fft.rfftfreq(shape[0], 1.0 / rate) >= 5.0] = 0.0
        noise = np.fft.irfft(spectrum, shape[0], axis=0)
        noise /= noise.std()
    turns: F64 = np.radians(degrees) * noise
    return turns


def run(data: Path, *, seeds: int = 1, say: Say = lambda line: None) -> dict[str, Any]:
    """Compute all tables.

    Args:
        data: folder with ``cmu`` and ``more``.
        seeds: draws of noise for each pose.
        say: receives each row.

    Raises:
        OptionError: the folder has no ``cmu``.
    """
    if not (data / "cmu").is_dir():
        raise OptionError(f"{data}: expected a folder that holds cmu and more")
    calibrated = {clip: calibrate_from(data / "cmu" / take, with_performer()) for clip, take, _ in PAIRS}
    return {
        "still": list(_reported(_still(data, seeds, calibrated["49_09.amc"]), say)),
        "stopped": list(_reported(_stopped(data, seeds), say)),
        "range": list(_reported(_range(data, calibrated), say)),
        "idle": list(_reported(_idle(data), say)),
        "unchanged": list(_reported(_unchanged(data), say)),
    }


def _reported(rows: Iterator[dict[str, Any]], say: Say) -> Iterator[dict[str, Any]]:
    for row in rows:
        say("  ".join(f"{name} {value}" for name, value in row.items()))
        yield row


def _still(data: Path, seeds: int, table: Table) -> Iterator[dict[str, Any]]:
    """Loudness of held poses, the loudest of all poses and draws."""
    rigs = {"off": with_performer(enabled=False, steady=False), "on": with_performer()}
    rigs["calibrated"] = with_performer(**table)
    for slow, degrees in itertools.product((False, True), (0.2, 0.5, 1.0)):
        row: dict[str, Any] = {"jitter": "below 5 Hz" if slow else "white", "degrees": degrees}
        for name, rig in rigs.items():
            captures = [
                perform(jitter(load_motion(data / path), second, degrees, slow, seed), rig)
                for (path, second), seed in itertools.product(POSES, range(seeds))
            ]
            row[f"lufs_{name}"] = round(max(_lufs(capture) for capture in captures), 1)
            row[f"events_{name}"] = max(len(capture.events) for capture in captures)
        yield row


def _stopped(data: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Seconds from a stop to silence, and how loud it is from 1.5 s after it."""
    clips = [load_motion(data / path) for paths in UNCHANGED.values() for path in paths]
    for slow, degrees in ((False, 0.0), (False, 0.2), (False, 0.5), (True, 0.2), (True, 0.5)):
        silent, loudest = [], []
        for clip, seed in itertools.product(clips, range(seeds)):
            capture = perform(stopped(clip, degrees, slow, seed), with_performer(), sound=False)
            after = _loudness(capture)[-round(_STOP_S * RATE) :]
            silent.append(float(np.max(np.nonzero(after > _AUDIBLE)[0] + 1, initial=0)) / RATE)
            loudest.append(float(after[round(1.5 * RATE) :].max()))
        yield {
            "jitter": "below 5 Hz" if slow else "white",
            "degrees": degrees,
            "silent_after_s": round(float(np.median(silent)), 2),
            "latest_s": round(max(silent), 2),
            "loudest_after_1.5_s": round(max(loudest), 2),
        }


def _range(data: Path, tables: dict[str, Table]) -> Iterator[dict[str, Any]]:
    for path, take, kind in PAIRS:
        clip = load_motion(data / "cmu" / path)
        row: dict[str, Any] = {"clip": path, "kind": kind, "calibrated_on": take}
        rigs = {"off": with_performer(enabled=False), "calibrated": with_performer(**tables[path])}
        rigs["running"] = with_performer()
        for name, rig in rigs.items():
            capture = perform(clip, rig)
            low, high = np.quantile(_loudness(capture), (0.05, 0.95))
            row[f"lufs_{name}"], row[f"span_{name}"] = round(_lufs(capture), 1), round(float(high - low), 2)
        yield row


def _idle(data: Path) -> Iterator[dict[str, Any]]:
    rigs = {"off": with_performer(enabled=False, steady=False), "running": with_performer()}
    for path in sorted((data / IDLE).rglob("*.bvh")):
        clip = load_motion(path)
        row: dict[str, Any] = {"clip": path.name, "seconds": round(clip.duration)}
        for name, rig in rigs.items():
            capture = perform(clip, rig)
            row[f"lufs_{name}"], row[f"events_{name}"] = round(_lufs(capture), 1), len(capture.events)
            row[f"median_{name}"] = round(float(np.median(_loudness(capture))), 2)
        yield row


def _unchanged(data: Path) -> Iterator[dict[str, Any]]:
    """Difference of the eight parameters with and without the gate, over their SD in a kind of movement."""
    off, on = (with_performer(enabled=False, steady=steady) for steady in (False, True))
    for kind, paths in UNCHANGED.items():
        errors, references, begins, beats = [], [], [], []
        for path in paths:
            clip = load_motion(data / path)
            without, gated = (perform(clip, rig, sound=False) for rig in (off, on))
            before, after = np.array(without.params), np.array(gated.params)
            # From a second after the gate first opened.
            begin = (
                next((i for i, p in enumerate(gated.params) if p[_LOUDNESS] > 0.0), len(after))
                + _SETTLE_FRAMES
            )
            errors.append(after - before)
            references.append(before)
            begins.append(begin)
            beats += _matched(without, gated, begin / RATE)
        yield {
            "kind": kind,
            "error": _relative_error(errors, references, begins),
            "error_with_beginnings": _relative_error(errors, references, [0] * len(errors)),
            "opens_after_s": round(float(np.median(begins)) / RATE - _SETTLE_FRAMES / RATE, 2),
            "beats": len(beats),
            "beats_within_20_ms": sum(beats),
        }


def _relative_error(errors: Sequence[F64], references: Sequence[F64], begins: Sequence[int]) -> float:
    error = np.concatenate([e[b:] for e, b in zip(errors, begins, strict=True)])
    reference = np.concatenate([r[b:] for r, b in zip(references, begins, strict=True)])
    return round(float(np.mean(np.sqrt((error**2).mean(0)) / reference.std(0))), 3)


def _matched(without: CaptureSink, gated: CaptureSink, since: float) -> list[bool]:
    """For each beat without the gate, whether there is one with it within 20 ms, and vice versa."""
    beats = [[due for due in capture.due("onset") if due >= since] for capture in (without, gated)]
    pairs = ((a, b) for a, b in (beats, beats[::-1]))
    return [any(abs(t - u) <= 0.0205 for u in b) for a, b in pairs for t in a]


def _lufs(capture: CaptureSink) -> float:
    assert isinstance(capture, OfflineListener)
    return integrated(capture.sound)


def _loudness(capture: CaptureSink) -> F64:
    return np.array(capture.params)[:, _LOUDNESS]
