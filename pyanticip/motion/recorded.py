"""The frames of an ``.anticip`` recording as a clip at 50 Hz."""

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

    Gaps of up to 25 frames in the numbering are filled by slerp, as the live resampler does. Longer gaps, and
    numbers that start again, are joined with a warning; unreadable records are left out with a warning. The
    mask has the joints that the source had in most frames.

    Raises:
        FormatError: Not a recording, of a newer version, or without a frame of the canonical body; one line.
    """
    joints = len(canonical_skeleton())
    recording = read_recording(path)
    quats: list[NDArray[np.float32]] = []
    roots: list[NDArray[np.float32]] = []
    steps: list[int] = []
    joint_counts = np.zeros(joints)
    warnings: list[str] = []
    last: int | None = None
    frames = 0
    for frame in recording.frames():
        step, warning = _step(frame, last)
        if warning and len(warnings) < 20:
            warnings.append(warning)
        last = frame.seq
        quats.append(frame.quats)
        roots.append(frame.root)
        joint_counts += 1 if frame.mask is None else frame.mask
        steps.append(step)
        frames += step
        text.check_size(path, None, frames, joints * 4)
    read_warnings = tuple(line.removeprefix(f"{path}: ") for line in recording.warnings)
    if not quats:
        detail = f" ({read_warnings[0]})" if read_warnings else ""
        raise text.fail(path, None, f"holds no frame of motion{detail}: replay it from its datagrams instead")
    try:
        grid_quats, grid_root = _on_grid(np.stack(quats), np.stack(roots), steps)
        return Clip(
            grid_quats,
            grid_root,
            RATE if rate is None else rate,
            canonical_skeleton(),
            name=path.stem,
            mask=joint_counts > len(quats) / 2,
            warnings=(*warnings, *read_warnings),
            source=str(path),
        )
    except MotionError as error:
        raise text.fail(path, None, str(error)) from None


def _step(frame: Frame, last: int | None) -> tuple[int, str]:
    """Grid steps since frame number ``last``, and a warning or an empty text."""
    if last is None:
        return 1, ""
    step = frame.seq - last
    if step <= 0:
        return 1, f"frame numbers begin again with {frame.seq} after {last}: joined"
    if step > _core.MAX_GAP + 1:
        return 1, f"{step - 1} frames are missing after frame {last}: joined"
    return step, ""


def _on_grid(
    quats: NDArray[np.float32], roots: NDArray[np.float32], steps: list[int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Rotations and root positions for every grid step; the streaming resampler fills the gaps."""
    if max(steps) == 1:
        return quats, roots
    resampler = _core.Resampler(quats.shape[1], RATE)
    filled_quats: list[NDArray[np.float32]] = []
    filled_roots: list[NDArray[np.float32]] = []
    for pose, root, index in zip(quats, roots, np.cumsum(steps).tolist(), strict=True):
        new_quats, new_roots = resampler.push(index / RATE, pose, root)
        filled_quats.append(new_quats)
        filled_roots.append(new_roots)
    return np.concatenate(filled_quats), np.concatenate(filled_roots)
