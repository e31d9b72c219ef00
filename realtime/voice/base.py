"""What a voice has to do."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

__all__ = [
    "NEEDS_SAMPLES",
    "PANIC_S",
    "RETURN_S",
    "SAMPLED",
    "Limbed",
    "Preset",
    "Rhythmic",
    "Switchable",
    "Voice",
    "way_ms",
]


#: The built-in preset that needs a folder of sounds.
SAMPLED = "granular"
NEEDS_SAMPLES = "it needs a folder of sounds ([synth] samples in the rig, or --samples FOLDER)"


#: How long a voice takes to fall silent in a panic, and to come back, seconds.
PANIC_S, RETURN_S = 0.02, 0.3


class Voice(Protocol):
    """Sound from parameters and events; how the samples are cut into blocks must not change them."""

    @property
    def sample_rate(self) -> float:
        """Samples a second, 8000 to 192000."""
        ...

    @property
    def latency(self) -> int:
        """Samples by which the output lags, at most a second."""
        ...

    @property
    def position(self) -> int:
        """Stereo samples rendered so far."""
        ...

    def set(self, index: int, value: float) -> None:
        """Set one of the eight parameters, 0..1."""
        ...

    def params(self, values: npt.NDArray[np.float32]) -> None:
        """Set all eight, shape (8,)."""
        ...

    def event(self, index: int, strength: float, seconds: float) -> None:
        """Strike event 0 (onset) or 1 (phrase), strength 0..1, so many seconds ahead of now.

        Raises:
            OptionError: too many are waiting; the stroke is dropped.
        """
        ...

    def fade(self, value: float, seconds: float) -> None:
        """Move the master gain to 0..1 in a straight line; at 0 what rings should end."""
        ...

    def render(self, samples: int) -> npt.NDArray[np.float32]:
        """The next samples, shape (samples, 2), within -1..1. On the audio thread: it must not wait."""
        ...


@runtime_checkable
class Switchable(Protocol):
    """A voice that has several presets."""

    def preset(self, name: str) -> None:
        """Let another take over, without a click.

        Raises:
            OptionError: it has none of that name; nothing changes then.
        """
        ...


@runtime_checkable
class Rhythmic(Protocol):
    """A voice whose rhythm follows a beat."""

    def tempo(self, bpm: float, phase: float) -> None:
        """Beats a minute, and how far the beat has come now, 0..1."""
        ...


@runtime_checkable
class Limbed(Protocol):
    """A voice that hands and feet play."""

    def limb(self, index: int, speed: float, height: float, stroke: float, /) -> None:
        """What limb 0..3 (left hand, right hand, left foot, right foot) does, 0..1 each."""
        ...


class Preset(Protocol):
    """A voice that can be chosen: its table of options, and how it is opened."""

    @property
    def Config(self) -> type[BaseModel]:
        """The keys of ``[synth] options``."""
        ...

    def __call__(self, sample_rate: float, config: Any, /) -> Voice:
        """A new voice, from an instance of :attr:`Config`."""
        ...


# How long a voice takes to follow what it is set to: the loudness of the built-in one, two time constants.
_GLIDE_MS = 12.0


def way_ms(voice: Voice) -> float:
    """How long a voice takes from what it is told to what is heard of it, beside the device's own latency."""
    return 1000.0 * voice.latency / voice.sample_rate + _GLIDE_MS
