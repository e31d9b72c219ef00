"""The protocols of voices and presets, and checks on those of other packages."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from pyanticip import _core
from pyanticip.errors import OptionError, foreign_errors

#: The built-in preset that needs a folder of recorded sounds.
SAMPLED = "granular"
NEEDS_SAMPLES = "it needs a folder of sounds ([synth] samples in the rig, or --samples FOLDER)"


#: Duration of the fade-out in a panic, and of the fade-in afterwards.
PANIC_S, RETURN_S = 0.02, 0.3


class Voice(Protocol):
    """Turns parameters and events into sound. The size of the rendered blocks must not change the samples."""

    @property
    def sample_rate(self) -> float:
        """Samples per second, 8000 to 192000."""
        ...

    @property
    def latency(self) -> int:
        """Samples by which the output lags, at most one second's."""
        ...

    @property
    def position(self) -> int:
        """Stereo samples rendered so far."""
        ...

    def set(self, index: int, value: float) -> None:
        """Set one of the eight parameters, 0..1."""
        ...

    def params(self, values: npt.NDArray[np.float32]) -> None:
        """Set all eight parameters, shape (8,), 0..1."""
        ...

    def event(self, index: int, strength: float, seconds: float) -> None:
        """Schedule event 0 (onset) or 1 (phrase) with strength 0..1, ``seconds`` ahead of ``position``.

        Raises:
            OptionError: Too many events are scheduled; this one is dropped.
        """
        ...

    def fade(self, value: float, seconds: float) -> None:
        """Move the master gain linearly to ``value``, 0..1; at 0 ringing sounds should end."""
        ...

    def render(self, samples: int) -> npt.NDArray[np.float32]:
        """The next samples, shape (samples, 2), within -1..1. Runs on the audio thread: it must not block."""
        ...


@runtime_checkable
class Switchable(Protocol):
    """A voice with several presets."""

    def preset(self, name: str) -> None:
        """Switch to another preset, without a click.

        Raises:
            OptionError: There is no preset of that name; nothing changes.
        """
        ...


@runtime_checkable
class Rhythmic(Protocol):
    """A voice whose rhythm follows a beat."""

    def tempo(self, bpm: float, phase: float) -> None:
        """Set the beats per minute, and the phase at ``position``, 0..1 (0 on the beat)."""
        ...


@runtime_checkable
class Limbed(Protocol):
    """A voice that is played with hands and feet."""

    def limb(self, index: int, speed: float, height: float, stroke: float, /) -> None:
        """Set speed, height and stroke, 0..1, of limb 0..3 (left hand, right hand, left foot, right foot)."""
        ...


class Preset(Protocol):
    """Factory for a voice that can be selected by name."""

    @property
    def Config(self) -> type[BaseModel]:
        """The keys of ``[synth] options``."""
        ...

    def __call__(self, sample_rate: float, config: Any, /) -> Voice:
        """Open a voice from an instance of :attr:`Config`."""
        ...


# Time in which a voice follows a parameter: two time constants of the built-in voice's loudness.
_GLIDE_MS = 12.0


def voice_latency_ms(voice: Voice) -> float:
    """Latency from a parameter to its sound, in milliseconds, without the device's output latency."""
    return 1000.0 * voice.latency / voice.sample_rate + _GLIDE_MS


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
