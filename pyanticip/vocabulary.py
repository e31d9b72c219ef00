"""Names and constants shared by the whole program; those that the Rust core defines are read from it.

Every array of scalars, parameters, events, horizons or joints uses the order given here.
"""

from typing import Final

from pyanticip import _core

RATE: Final[float] = _core.RATE
"""Frame rate of everything after the resampler, Hz."""

SCALARS: Final[tuple[str, ...]] = _core.SCALARS
"""The seven anticipation scalars. All in [0, 1] but transition pressure, [-2, 2]."""

PARAMETERS: Final[tuple[str, ...]] = _core.PARAMETERS
"""The eight sound parameters, each in [0, 1] before a rig's ranges."""

EVENTS: Final[tuple[str, ...]] = _core.EVENTS
"""The two kinds of event."""

HORIZONS_MS: Final[tuple[int, ...]] = _core.HORIZONS_MS
"""How far ahead the model predicts the parameters, milliseconds."""

EVENT_BINS: Final = 25
"""Number of hazard bins of an event; bin b covers (20 b, 20 (b + 1)] milliseconds ahead."""

BIN_MS: Final[float] = _core.BIN_MS
"""Width of a hazard bin, milliseconds."""

CANONICAL_JOINTS: Final[tuple[str, ...]] = _core.CANONICAL_JOINTS
"""The 22 joints every body is mapped onto."""

FEATURES: Final = len(_core.FEATURE_NAMES)
"""Size of a feature row, a model's input for one frame; the columns' names are ``_core.FEATURE_NAMES``."""

FEATURES_V1: Final[int] = _core.FEATURE_COUNT_V1
"""Size of a version 1 row, the first columns of a current one; the causal twin's columns follow."""

FEATURE_WIDTHS: Final = (FEATURES_V1, FEATURES)
"""Row size of every feature version, version 1 first."""

_FIRST_SCALAR = _core.FEATURE_NAMES.index(f"scalar.{SCALARS[0]}")
SCALAR_COLUMNS: Final = (_FIRST_SCALAR, _FIRST_SCALAR + len(SCALARS))
"""Half-open range of the columns of a feature row that hold the scalars."""
