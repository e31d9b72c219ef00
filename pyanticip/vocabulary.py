"""The words of the whole program, each in one place; what the Rust core has is read from there.

Every array of scalars, parameters, events, horizons or joints has them in the order given here.
"""

from typing import Final

from pyanticip import _core

RATE: Final[float] = _core.RATE
"""Frames a second of the grid that everything after the resampler runs on, Hz."""

SCALARS: Final[tuple[str, ...]] = _core.SCALARS
"""The seven anticipation scalars. All in [0, 1] but transition pressure, [-2, 2]."""

PARAMETERS: Final[tuple[str, ...]] = _core.PARAMETERS
"""The eight sound parameters, each in [0, 1] before a rig's ranges."""

EVENTS: Final[tuple[str, ...]] = _core.EVENTS
"""The two kinds of event."""

HORIZONS_MS: Final[tuple[int, ...]] = _core.HORIZONS_MS
"""How far ahead the model says the parameters, milliseconds."""

EVENT_BINS: Final = 25
"""Hazards of an event: bin b covers (20 b, 20 (b + 1)] milliseconds ahead."""

BIN_MS: Final[float] = _core.BIN_MS
"""Width of such a bin, milliseconds."""

CANONICAL_JOINTS: Final[tuple[str, ...]] = _core.CANONICAL_JOINTS
"""The 22 joints every body is mapped onto."""

FEATURES: Final = len(_core.FEATURE_NAMES)
"""Numbers of a feature row, what a model may see of a frame; their names are ``_core.FEATURE_NAMES``."""

FEATURES_V1: Final[int] = _core.FEATURE_COUNT_V1
"""How many of them, the first ones, are version 1's; those of the causal twin follow."""

FEATURE_WIDTHS: Final = (FEATURES_V1, FEATURES)
"""Numbers of a row of every version, version 1 first."""

_FIRST = _core.FEATURE_NAMES.index(f"scalar.{SCALARS[0]}")
SCALAR_COLUMNS: Final = (_FIRST, _FIRST + len(SCALARS))
"""Half-open range of the columns of a feature row that hold the scalars."""
