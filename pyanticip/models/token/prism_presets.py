"""Sizes of plain transformers with PRISM positions.

The paper's own do not add up: 140 cursors as 5 layers x 7 heads x 4 leave content of width 192 without a
whole number of channels for each of 7 heads, and a place of 340 four cursors of an odd 85. ``"paper"`` keeps
what can be kept: width 192, five layers, 28 pairs of cursors (7 x 4; here all layers share them), places of
84, a hidden state of 100. The other two are for machines at hand."""

from typing import Any

from pyanticip.errors import OptionError
from pyanticip.models.config import ModelConfig

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "d_model": 64, "heads": 4, "fast_layers": 2, "ff": 256, "max_seq_len": 256,
        "prism_cursors": 8, "prism_width": 32, "prism_places": 64, "prism_hidden": 64,
    },
    "small": {
        "d_model": 128, "heads": 4, "fast_layers": 3, "ff": 512, "max_seq_len": 512,
        "prism_cursors": 8, "prism_width": 64, "prism_places": 256, "prism_hidden": 100,
    },
    "paper": {
        "d_model": 192, "heads": 8, "fast_layers": 5, "ff": 768, "max_seq_len": 2048,
        "prism_cursors": 28, "prism_width": 84, "prism_places": 1024, "prism_hidden": 100,
    },
}  # fmt: skip
"""Name -> fields of a configuration."""

_COMMON: dict[str, Any] = {
    "positions": "prism", "bias": "none", "slow_layers": 0, "vocab": 64, "dropout": 0.0,
}  # fmt: skip


def prism_config(preset: str = "tiny", **changes: Any) -> ModelConfig:
    """A token configuration with PRISM positions, for
    :class:`~pyanticip.models.token.baseline.BaselineTransformer`.

    :param preset: a name of :data:`PRESETS`.
    :param changes: any other field.
    :raises OptionError: an unknown preset or field, or a value out of its range.
    """
    if preset not in PRESETS:
        known = ", ".join(repr(name) for name in PRESETS)
        raise OptionError(f"preset must be one of {known}, got {preset!r}")
    return ModelConfig.small(**{**_COMMON, **PRESETS[preset], **changes})
