"""A voice as far as it can be relied on: what another package's gives is checked."""

from __future__ import annotations

import contextlib

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError, foreign_errors
from realtime.voice.base import Voice

__all__ = ["block_of", "guarded"]


def guarded(voice: Voice) -> contextlib.AbstractContextManager[None]:
    """Of what a voice of another package raises, the reason in one line.

    Raises:
        OptionError: it raised anything but a MotionError.
    """
    ours = isinstance(voice, _core.Voice)
    return contextlib.nullcontext() if ours else foreign_errors(f"{_name_of(voice)} failed")


def _name_of(voice: Voice) -> str:
    return f"voice {type(voice).__module__}:{type(voice).__qualname__}"


def block_of(voice: Voice, samples: int) -> npt.NDArray[np.float32]:
    """The next samples of a voice, shape (samples, 2).

    Raises:
        OptionError: one of somebody else's fails, or gives something else.
    """
    if isinstance(voice, _core.Voice):
        return voice.render(samples)
    at = _name_of(voice)
    with foreign_errors(f"{at}: cannot be rendered"):
        begun = voice.position
        block = np.asarray(voice.render(samples), np.float32)
        now = voice.position
    if now != begun + samples:
        raise OptionError(
            f"{at}: expected position {begun + samples} after {samples} samples more, got {now}"
        )
    if block.shape != (samples, 2):
        raise OptionError(f"{at}: expected samples of shape ({samples}, 2), got {block.shape}")
    if not np.isfinite(block).all():
        raise OptionError(f"{at}: expected samples within -1..1, got NaN or infinity")
    return np.clip(block, -1.0, 1.0)
