"""Reads and verifies the description of a forecaster's checkpoint, without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, model_validator

from pyanticip.errors import OptionError
from pyanticip.models.checkpoint.manifest import load_description
from pyanticip.models.core.config import Config, Count, Share

FORECAST_FORMAT: Final = "anticip-forecast"
FORECAST_VERSION: Final = 1
GHOST: Final = Path(__file__).parents[1] / "data" / "ghost"
"""The packaged body forecaster, which the monitor draws."""

Frames = Annotated[int, Field(ge=1, le=10_000)]
Terms = Annotated[int, Field(ge=1, le=100)]


class ForecastConfig(Config):
    """Configuration of a ``PoseForecaster``.

    ``joints`` points in space; ``observed`` input frames and ``target`` output frames; ``order`` polynomial
    terms of the past; ``components`` smooth trajectories of the future; ``width``, ``blocks`` and ``expand``
    of the MLP; ``dropout`` in training; ``mirror`` the joint on the other side of each joint (mirrored in x),
    empty for a body without sides.

    Raises:
        OptionError: a value out of range.
    """

    owner: ClassVar[str] = "forecaster"
    joints: Count = 25
    observed: Frames = 10
    target: Frames = 25
    width: Count = 256
    blocks: Count = 4
    expand: Count = 2
    components: Terms = 8
    order: Terms = 4
    dropout: Share = 0.1
    mirror: Annotated[tuple[int, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _check(self) -> "ForecastConfig":
        if self.order >= self.observed:
            raise OptionError(f"order must be below observed ({self.observed}), got {self.order}")
        if self.components > self.target:
            raise OptionError(f"components must be at most target ({self.target}), got {self.components}")
        pairs = self.mirror
        if pairs and (
            sorted(pairs) != list(range(self.joints)) or any(pairs[pairs[j]] != j for j in range(self.joints))
        ):
            raise OptionError(f"mirror must pair the {self.joints} joints, got {list(pairs)}")
        return self


@dataclass(frozen=True)
class ForecastManifest:
    """A forecaster's description: its folder, configuration, training notes, and ``sha256`` by file."""

    folder: Path
    config: ForecastConfig
    training: Mapping[str, Any]
    sha256: Mapping[str, str]


def read_forecast_manifest(path: str | Path) -> ForecastManifest:
    """Read and check ``model.json`` of a forecaster's folder.

    Raises:
        CheckpointError: missing, malformed, from a newer version, or not a forecaster's.
    """
    folder = Path(path)
    data, config, _, hashes = load_description(folder, FORECAST_FORMAT, FORECAST_VERSION, ForecastConfig)
    return ForecastManifest(folder, config, data["training"], hashes)
