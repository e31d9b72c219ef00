"""Does the geometric bias help on tokens? Small models that differ in what biases their attention."""

from typing import Any, Final

from training.studies.on_tokens import study

_GEOMETRIC: Final = {"model": {"bias": "trajectory"}}
_ROPE: Final = {"positions": "rope"}
ARMS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"kind": "baseline", "model": {"positions": "sinusoidal"}},
    "alibi": {"kind": "baseline", "model": {"positions": "alibi"}},
    "rope": {"kind": "baseline", "model": _ROPE},
    "random": {"model": {"bias": "random"}},
    "geometric-external": _GEOMETRIC,
    "geometric-self": {**_GEOMETRIC, "scalars": "self"},
    "none": {"model": {"bias": "none"}},
    "random-rope": {"model": {"bias": "random", **_ROPE}},
    "geometric-rope": {"model": {"bias": "trajectory", **_ROPE}},
}
"""Sinusoidal positions where the name does not say otherwise. ``external``: steered by the scalars of the
embeddings; ``self``: by those that the initial head predicts."""


STUDY: Final = study(
    "Does the geometric bias help?",
    ARMS,
    # What the meaning of the scalars adds first, then everything else.
    (
        ("geometric-external", "random"),
        ("geometric-self", "random"),
        ("none", "random"),
        ("geometric-rope", "random-rope"),
        *(
            (name, "plain")
            for name in ("geometric-external", "geometric-self", "random", "none", "alibi", "rope")
        ),
        ("random-rope", "rope"),
        ("geometric-rope", "rope"),
    ),
    "0-4",
)
