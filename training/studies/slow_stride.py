"""What does a stride of the slow pathway cost on tokens?"""

from typing import Final

from training.studies.geometric_bias import ARMS
from training.studies.on_tokens import study

STRIDES: Final = {1: "geometric-rope", 2: "stride-2", 4: "stride-4", 10: "stride-10"}
MODEL: Final = ARMS["geometric-rope"]["model"]

STUDY: Final = study(
    "The stride of the slow pathway",
    {name: {"model": {**MODEL, "slow_stride": stride}} for stride, name in STRIDES.items()},
    [(name, "geometric-rope") for name in ("stride-2", "stride-4", "stride-10")],
    "0-2",
)
