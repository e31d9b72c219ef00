"""The CMU short-term motion prediction benchmark: its files, its skeleton and its windows.

The protocol is that of Li et al. (2018, convSeq2Seq), Mao et al. (2019, LTD), Dang et al. (2021, MSR-GCN) and
Ma et al. (2022, PGBIG), as in their public loaders. Files are ``train/<action>/<action>_<n>.txt`` and
``test/<action>/<action>_1.txt``: comma-separated rows of 117 numbers, 3 for the root's position and 38
exponential maps in radians.

Every loader keeps every second row and calls that 25 frames per second. The rows are the 120 Hz clips, so the
rate is really 60: the published 80, 160, 320, 400, 560 and 1000 ms are 33, 67, 133, 167, 233 and 417 ms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pyanticip.errors import FormatError, OptionError
from pyanticip.untrusted import read_text

Array = npt.NDArray[np.float64]

ACTIONS: Final = (
    "basketball",
    "basketball_signal",
    "directing_traffic",
    "jumping",
    "running",
    "soccer",
    "walking",
    "washwindow",
)
COLUMNS: Final = 117
JOINTS: Final = 38
STRIDE: Final = 2
OBSERVED: Final = 10
TARGET: Final = 25
SHORTEST: Final = STRIDE * (OBSERVED + TARGET - 1) + 1
"""Rows of the shortest take that a window fits into."""
HORIZONS: Final = (1, 3, 7, 9, 13, 24)
"""Indices of the target frames that the tables report."""
NOMINAL_MS: Final = (80, 160, 320, 400, 560, 1000)
"""The horizons as named in the tables."""
TRUE_MS: Final = (33, 67, 133, 167, 233, 417)
"""The true horizons."""

# fmt: off
PARENTS: Final = (
    -1, 0, 1, 2, 3, 4, 5, 0, 7, 8, 9, 10, 11, 0, 13, 14, 15, 16, 17, 18, 15, 20, 21, 22, 23, 24, 25, 23, 27,
    15, 29, 30, 31, 32, 33, 34, 32, 36,
)
_OFFSETS: Final = (
    (0, 0, 0), (0, 0, 0), (1.65674, -1.80282, .62477), (2.5972, -7.13576, 0), (2.49236, -6.8477, 0),
    (.19704, -.54136, 2.14581), (0, 0, 1.11249), (0, 0, 0), (-1.6107, -1.80282, .62476),
    (-2.59502, -7.12977, 0), (-2.4678, -6.78024, 0), (-.23024, -.63258, 2.13368), (0, 0, 1.11569), (0, 0, 0),
    (.01961, 2.0545, -.14112), (.01021, 2.06436, -.05921), (0, 0, 0), (.00713, 1.56711, .14968),
    (.03429, 1.56041, -.10006), (.01305, 1.6256, -.05265), (0, 0, 0), (3.54205, .90436, -.17364),
    (4.86513, 0, 0), (3.35554, 0, 0), (0, 0, 0), (.66117, 0, 0), (.53306, 0, 0), (0, 0, 0),
    (.5412, 0, .5412), (0, 0, 0), (-3.49802, .75994, -.32616), (-5.02649, 0, 0), (-3.36431, 0, 0), (0, 0, 0),
    (-.73041, 0, 0), (-.58887, 0, 0), (0, 0, 0), (-.59786, 0, .59786),
)
# fmt: on
OFFSETS: Final[Array] = 70.0 * np.array(_OFFSETS, dtype=np.float64)
"""Bones (38, 3) in the tables' "mm": 70 per unit instead of the true 56.44, so they are 24 % too long."""

COPIED: Final = {16: 15, 20: 15, 29: 15, 24: 23, 27: 23, 33: 32, 36: 32}
"""Joints that coincide with another one, from which their prediction is copied; they are scored as well."""
FIXED: Final = (0, 1, 2, 7, 8, 13)
"""Joints that do not move in the root's frame; scored with their true positions."""
PREDICTED: Final = tuple(j for j in range(JOINTS) if j not in COPIED and j not in FIXED)
"""The 25 joints that a model predicts."""

LEFT: Final = (1, 2, 3, 4, 5, 6, 20, 21, 22, 23, 24, 25, 26, 27, 28)
RIGHT: Final = (7, 8, 9, 10, 11, 12, 29, 30, 31, 32, 33, 34, 35, 36, 37)
_OTHER: Final = dict(zip(LEFT + RIGHT, RIGHT + LEFT, strict=True))
MIRROR: Final = tuple(PREDICTED.index(_OTHER.get(joint, joint)) for joint in PREDICTED)
"""For each predicted joint, its counterpart on the other side; their bones differ by 3 % at most."""


@dataclass(frozen=True)
class Take:
    """One file: ``action``, ``name``, and ``whole``, all its 120 Hz rows (R, 117) float64."""

    action: str
    name: str
    whole: Array

    @property
    def number(self) -> int:
        """The number in its name."""
        return int(self.name.rpartition("_")[2])

    @property
    def digest(self) -> str:
        """SHA-256 of its numbers."""
        return hashlib.sha256(self.whole.tobytes()).hexdigest()

    @property
    def rows(self) -> Array:
        """Every second row (T, 117), as used by the benchmark."""
        return self.whole[::STRIDE]

    @property
    def maps(self) -> Array:
        """The exponential maps (T, 38, 3), radians."""
        return self.rows[:, 3:].reshape(-1, JOINTS, 3)

    @cached_property
    def joint_positions(self) -> Array:
        """Joint positions (T, 38, 3) in the root's frame, in the tables' "mm"."""
        return positions(self.maps)


def load_take(path: Path, action: str) -> Take:
    """Read one file.

    Raises:
        FormatError: the file cannot be read, has rows of another width, or numbers that are not finite.
    """
    text = read_text(path)
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fields = line.split(",")
        if len(fields) != COLUMNS:
            raise FormatError(f"{path}, line {number}: expected {COLUMNS} numbers, found {len(fields)}")
        try:
            rows.append([float(field) for field in fields])
        except ValueError:
            raise FormatError(f"{path}, line {number}: expected numbers separated by commas") from None
    array = np.array(rows, dtype=np.float64).reshape(-1, COLUMNS)
    if not np.isfinite(array).all():
        line_index = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise FormatError(f"{path}, row {line_index + 1}: expected finite numbers")
    return Take(action, path.stem, array)


def load_split(folder: Path, split: str) -> tuple[list[Take], list[str]]:
    """Load all takes of ``train`` or ``test``, ordered by action and number; also returns the missing files.

    Raises:
        FormatError: the folder is missing or empty, or a file cannot be read.
    """
    base = folder / split
    numbers = range(1, 6) if split == "train" else range(1, 2)
    takes, missing = [], []
    for action in ACTIONS:
        for number in numbers:
            path = base / action / f"{action}_{number}.txt"
            if path.is_file():
                takes.append(load_take(path, action))
            else:
                missing.append(f"{split}/{action}/{path.name}")
    if not takes:
        message = f"{base}: expected files like {ACTIONS[0]}/{ACTIONS[0]}_1.txt, found none"
        if split == "test" and (folder / "train").is_dir():
            message += "; without the test files: --split train, or leave clips out (train forecast --folds)"
        raise FormatError(message)
    return takes, missing


def check_windows(takes: Sequence[Take], option: str) -> None:
    """Refuse takes to judge on that are too short for a window: the error on them is not a number.

    Args:
        takes: the takes that ``option`` leaves out of training.
        option: its name, for the message.

    Raises:
        OptionError: one is too short.
    """
    if short := [take for take in takes if len(take.whole) < SHORTEST]:
        raise OptionError(
            f"{option}: {short[0].name}, which would be left out to judge on, has "
            f"{len(short[0].whole)} rows; a window needs {SHORTEST}"
        )


def rotations(maps: Array) -> Array:
    """Matrices (..., 3, 3) of exponential maps (..., 3), for row vectors: ``v' = v @ R`` (Rodrigues)."""
    angle = np.linalg.norm(maps, axis=-1, keepdims=True)
    axis = maps / np.maximum(angle, np.finfo(np.float64).tiny)
    x, y, z = np.moveaxis(axis, -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack((zero, -z, y, z, zero, -x, -y, x, zero), -1).reshape(*x.shape, 3, 3)
    sin, cos = np.sin(angle)[..., None], np.cos(angle)[..., None]
    result: Array = np.eye(3) + sin * cross + (1.0 - cos) * (cross @ cross)
    return result


def positions(maps: Array) -> Array:
    """Joint positions (..., 38, 3) in the root's frame, in the tables' "mm".

    The root's rotation and position are not used.
    """
    local = rotations(maps)
    world = np.zeros_like(local)
    position = np.zeros(maps.shape)
    for joint in range(1, JOINTS):
        parent = PARENTS[joint]
        if parent == 0:
            world[..., joint, :, :] = local[..., joint, :, :]
            position[..., joint, :] = OFFSETS[joint]
        else:
            parent_rotation = world[..., parent, :, :]
            position[..., joint, :] = OFFSETS[joint] @ parent_rotation + position[..., parent, :]
            world[..., joint, :, :] = local[..., joint, :, :] @ parent_rotation
    return position


def all_windows(frames: int) -> npt.NDArray[np.int64]:
    """First frames of all windows of 10 observed and 25 target frames."""
    return np.arange(max(frames - OBSERVED - TARGET + 1, 0))


def sampled_windows(frames: int) -> npt.NDArray[np.int64]:
    """First frames of the 8 windows of 50 observed and 25 target frames that the angle tables use."""
    if frames <= 75:
        return np.zeros(0, dtype=np.int64)
    draw = np.random.RandomState(1234567890)
    return np.array([draw.randint(0, frames - 75) for _ in range(8)], dtype=np.int64)


def per_action(takes: Sequence[Take]) -> Iterator[tuple[str, list[Take]]]:
    """The takes of each action, in the order of :data:`ACTIONS`."""
    for action in ACTIONS:
        chosen = [take for take in takes if take.action == action]
        if chosen:
            yield action, chosen
