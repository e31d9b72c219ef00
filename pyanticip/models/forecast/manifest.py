"""What a forecaster's checkpoint folder holds, read and verified without torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models.checkpoint.manifest import (
    MANIFEST,
    STEP_GRAPH,
    check_format,
    read_description,
    verified_graph,
)
from pyanticip.models.config import refuse_unknown

FORECAST_FORMAT: Final = "anticip-forecast"
FORECAST_VERSION: Final = 1


@dataclass(frozen=True)
class ForecastConfig:
    """Sizes of a :class:`PoseForecaster`.

    ``joints`` points in space; ``observed`` frames seen and ``target`` frames said; ``order`` polynomial
    terms of the past; ``components`` smooth trajectories of the future; ``width``, ``blocks`` and
    ``expand`` of the perceptron; ``dropout`` in training; ``mirror`` the joint on the other side of each
    joint (mirrored in x), empty for a body without sides.

    :raises OptionError: a value out of range.
    """

    joints: int = 25
    observed: int = 10
    target: int = 25
    width: int = 256
    blocks: int = 2
    expand: int = 2
    components: int = 8
    order: int = 4
    dropout: float = 0.1
    mirror: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mirror", tuple(self.mirror))
        for name in ("joints", "observed", "target", "width", "blocks", "expand", "components", "order"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"{name} must be a whole number from 1, got {value!r}")
        if self.order >= self.observed:
            raise OptionError(f"order must be below observed ({self.observed}), got {self.order}")
        if self.components > self.target:
            raise OptionError(f"components must be at most target ({self.target}), got {self.components}")
        if not isinstance(self.dropout, int | float) or not 0.0 <= self.dropout < 1.0:
            raise OptionError(f"dropout must be in [0, 1), got {self.dropout!r}")
        pairs = self.mirror
        if pairs and (
            sorted(pairs) != list(range(self.joints)) or any(pairs[pairs[j]] != j for j in range(self.joints))
        ):
            raise OptionError(f"mirror must pair the {self.joints} joints, got {list(pairs)}")

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, for a checkpoint's JSON."""
        return {**dataclasses.asdict(self), "mirror": list(self.mirror)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ForecastConfig:
        """Rebuild a configuration from :meth:`to_dict`.

        :raises OptionError: an unknown field (with the nearest known one), or a value out of range.
        """
        refuse_unknown(cls, fields, "forecaster")
        return cls(**fields)


@dataclass(frozen=True)
class ForecastManifest:
    """A forecaster's description: its folder, sizes, what the trainer noted, and ``sha256`` by file."""

    folder: Path
    config: ForecastConfig
    training: Mapping[str, Any]
    sha256: Mapping[str, str]

    def graph(self) -> Path:
        """The path of the verified ONNX graph, which reads nothing but this checkpoint's weights.

        :raises CheckpointError: none, a damaged one, or one that points to another file.
        """
        return verified_graph(self.folder, STEP_GRAPH, self.sha256)


def read_forecast_manifest(path: str | Path) -> ForecastManifest:
    """Read and check ``model.json`` of a forecaster's folder.

    :raises CheckpointError: missing, malformed, from a newer version, or not a forecaster's.
    """
    folder = Path(path)
    where = f"checkpoint {folder}"
    data = read_description(folder)
    check_format(data, where, FORECAST_FORMAT, FORECAST_VERSION)
    config, training, hashes = (data.get(name) for name in ("config", "training", "sha256"))
    if not (isinstance(config, dict) and isinstance(training, dict) and isinstance(hashes, dict)):
        raise CheckpointError(f"{where}: {MANIFEST} lacks or garbles config, training or sha256")
    try:
        return ForecastManifest(folder, ForecastConfig.from_dict(config), training, hashes)
    except (OptionError, TypeError) as error:
        raise CheckpointError(f"{where}: {error}") from None
