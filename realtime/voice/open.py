"""Opening a voice by the name of its preset, and the preset that is built in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.options import Options, first_problem
from realtime.seams import VOICES
from realtime.voice.base import Voice

__all__ = ["built_in", "open_voice"]


class _BuiltIn:
    """The voice of the Rust core, as it is."""

    class Config(Options):
        """It has no options."""

    def __call__(self, sample_rate: float, config: Any, /) -> Voice:
        return _core.Voice(sample_rate)


built_in = _BuiltIn()


def open_voice(preset: str, options: Mapping[str, Any], sample_rate: float) -> Voice:
    """A new voice.

    :raises OptionError: no such preset, or options that are not its own.
    """
    opens = VOICES.load(preset)
    try:
        config = opens.Config.model_validate(options)
    except ValidationError as error:
        raise OptionError(f"voice {preset}: {first_problem(error)}") from None
    return opens(sample_rate, config)
