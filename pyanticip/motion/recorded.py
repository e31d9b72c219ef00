"""The motion in an ``.anticip`` recording: its frames on the 50 Hz grid, as a clip."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyanticip import _core
from pyanticip.errors import MotionError
from pyanticip.motion import text
from pyanticip.motion.canonical import canonical_skeleton
from pyanticip.motion.clip import Clip
from pyanticip.motion.recording import Frame, read_recording
from pyanticip.vocabulary import RATE


def read_recorded(path: Path, *, rate: float | None = None) -> Clip:
    """The frames of a recording on the canonical body, at 50 Hz.

    Gaps of up to 25 frames in the numbering are filled by slerp, as the live resampler does; longer ones, and
    numbers that begin again, are joined, with a warning. What cannot be read is left out, with a warning too.
    The mask has the joints that the source had in most frames.

    Raises:
        FormatError: No recording, a newer version, or no frame of the canonical body in it: one line.
    """
    joints = len(canonical_skeleton())
    recording = read_recording(path)
    quats: list[NDArray[np.float32]] = []
    roots: list[NDArray[np.float32]] = []
    steps: list[int] = []
    had = np.zeros(joints)
    warnings: list[str] = []
    last: int | None = None
    frames = 0
    for frame in recording.frames():
        step, note = _step(frame, last)
        if note and len(warnings) < 20:
            warnings.append(note)
        last = frame.seq
        quats.append(frame.quats)
        roots.append(frame.root)
        had += 1 if frame.mask is None else frame.mask
        steps.append(step)
        frames += step
        text.check_size(path, None, frames, joints * 4)
    told = tuple(line.removeprefix(f"{path}: ") for line in recording.warnings)
    if not quats:
        why = f" ({told[0]})" if told else ""
        raise text.fail(path, None, f"holds no frame of motion{why}: replay it from its datagrams instead")
    try:
        pose, place = on_grid(np.stack(quats), np.stack(roots), steps)
        return Clip(
            pose,
            place,
            RATE if rate is None else rate,
            canonical_skeleton(),
            name=path.stem,
            mask=had > len(quats) / 2,
            warnings=(*warnings, *told),
            source=str(path),
        )
    except MotionError as error:
        raise text.fail(path, None, str(error)) from None


def _step(frame: Frame, last: int | None) -> tuple[int, str]:
    """Grid steps since the frame before, and what there is to say about them."""
    if last is None:
        return 1, ""
    step = frame.seq - last
    if step <= 0:
        return 1, f"frame numbers begin again with {frame.seq} after {last}: joined"
    if step > _core.MAX_GAP + 1:
        return 1, f"{step - 1} frames are missing after frame {last}: joined"
    return step, ""


def on_grid(
    quats: NDArray[np.float32], roots: NDArray[np.float32], steps: list[int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """All frames one step apart: the streaming resampler fills the gaps."""
    if max(steps) == 1:
        return quats, roots
    resampler = _core.Resampler(quats.shape[1], RATE)
    filled: list[NDArray[np.float32]] = []
    places: list[NDArray[np.float32]] = []
    for pose, place, index in zip(quats, roots, np.cumsum(steps).tolist(), strict=True):
        made, at = resampler.push(index / RATE, pose, place)
        filled.append(made)
        places.append(at)
    return np.concatenate(filled), np.concatenate(places)
