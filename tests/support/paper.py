"""Fake outputs of a front end."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pyanticip._core import FrontOutput

SCALARS = (0.7, 0.3, 0.0, 0.35, 0.8, 0.2, 0.6)


def paper_frame(
    seq: int,
    reset: bool = False,
    rows: int = 1,
    t_arrival_ns: int = 0,
    scalars: Sequence[float] = SCALARS,
    poses: npt.NDArray[np.float32] | None = None,
    root: Sequence[float] = (0.0, 0.0, 0.0),
) -> FrontOutput:
    """Output of a front end for a body that stands still, or for ``poses`` (rows, 22, 4)."""
    return FrontOutput(
        np.zeros((rows, 279), np.float32),
        np.tile(np.float32([1, 0, 0, 0]), (rows, 22, 1)) if poses is None else poses,
        scalars,
        seq=seq,
        reset=reset,
        t_source_ns=seq * 20_000_000,
        t_local_ns=seq * 20_000_000,
        expected_ns=t_arrival_ns + 20_000_000,
        late_ns=t_arrival_ns + 25_000_000,
        tempo=(120.0, (seq * 0.04) % 1.0, 0.9),
        limbs=[0.25, 0.5, 0.0] * 4,
        root=root,
        filled=rows - 1,
        stages_ns=(1000, 2000, 3000),
    )
