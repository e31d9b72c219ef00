"""Does geometry help on motion? The trajectory's bias beside a random one and none; where else it steers."""

from typing import Any, Final

from training.studies.engine import Study
from training.studies.on_motion import MEASURES, SIDES, MotionGround, MotionOptions, units

ARMS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "trajectory": {},
    "random": {"model": {"bias": "random"}},
    "none": {"model": {"bias": "none"}},
    "alibi": {"model": {"bias": "none", "positions": "alibi"}},
    "rope": {"model": {"bias": "none", "positions": "rope"}},
    "no-slow": {"model": {"slow_layers": 0, "fast_layers": 5}},
    "no-pathway-gate": {"model": {"mixing": "mean"}},
    "no-event-gate": {"model": {"gated_events": False}},
    "input": {"model": {"bias": "none", "scalar_input": True}},
    # The bias network as it starts by default hardly comes to heed the scalars in so short a run.
    "trajectory-alive": {"model": {"bias_start": "fan-in"}},
    "random-alive": {"model": {"bias": "random", "bias_start": "fan-in"}},
    "trajectory-rope": {"model": {"positions": "rope"}},
    "random-rope": {"model": {"bias": "random", "positions": "rope"}},
}
"""``no-slow`` has its slow layers in the fast pathway instead."""

STUDY: Final = Study(
    title="Does geometry help on motion?",
    options=MotionOptions,
    arms=ARMS,
    # What geometry adds first, then where scalars enter, then the other parts.
    pairs=(
        ("trajectory", "random"),
        ("trajectory-alive", "random-alive"),
        ("trajectory-alive", "trajectory"),
        ("trajectory-alive", "none"),
        *(("trajectory", other) for other in ("none", "alibi", "rope", "input")),
        *((one, "none") for one in ("input", "random", "random-alive", "alibi", "rope")),
        *(("trajectory", other) for other in ("no-slow", "no-pathway-gate", "no-event-gate")),
        ("trajectory-rope", "random-rope"),
        ("trajectory-rope", "rope"),
    ),
    tables=(("Errors as a ratio to hold's, events and scalars", MEASURES),),
    ground=lambda options, case, folder: MotionGround(ARMS, options, folder),
    seeds="0-4",
    views=tuple(SIDES),
    units=units,
)
