"""Checks the output and wraps the errors of voices from other packages."""

from __future__ import annotations

import contextlib

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError, foreign_errors
from realtime.voice.base import Voice


def guarded(voice: Voice) -> contextlib.AbstractContextManager[None]:
    """A context that turns the errors of another package's voice into one line.

    Raises:
        OptionError: The voice raised anything but a MotionError.
    """
    is_built_in = isinstance(voice, _core.Voice)
    return contextlib.nullcontext() if is_built_in else foreign_errors(f"{_name_of(voice)} failed")


def _name_of(voice: Voice) -> str:
    return f"voice {type(voice).__module__}:{type(voice).__qualname__}"


def render_checked(voice: Voice, samples: int) -> npt.NDArray[np.float32]:
    """Render the next samples of a voice, shape (samples, 2), within -1..1.

    Raises:
        OptionError: Another package's voice fails, or returns anything else.
    """
    if isinstance(voice, _core.Voice):
        return voice.render(samples)
    name = _name_of(voice)
    with foreign_errors(f"{name}: cannot be rendered"):
        start = voice.position
        block = np.asarray(voice.render(samples), np.float32)
        end = voice.position
    if end != start + samples:
        raise OptionError(
            f"{name}: expected position {start + samples} after {samples} samples more, got {end}"
        )
    if block.shape != (samples, 2):
        raise OptionError(f"{name}: expected samples of shape ({samples}, 2), got {block.shape}")
    if not np.isfinite(block).all():
        raise OptionError(f"{name}: expected samples within -1..1, got NaN or infinity")
    return np.clip(block, -1.0, 1.0)
