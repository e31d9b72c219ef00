"""The model family: configuration, the streaming motion and token transformers, and their checkpoints.

Names are imported on first use, so that ``ModelConfig`` is to be had without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyanticip.models.baselines import BaselineTransformer as BaselineTransformer
    from pyanticip.models.checkpoint import load_checkpoint as load_checkpoint
    from pyanticip.models.checkpoint import load_language_model as load_language_model
    from pyanticip.models.checkpoint import load_motion_model as load_motion_model
    from pyanticip.models.checkpoint import save_checkpoint as save_checkpoint
    from pyanticip.models.config import ModelConfig as ModelConfig
    from pyanticip.models.forecast import PoseForecaster as PoseForecaster
    from pyanticip.models.forecast_checkpoint import load_forecaster as load_forecaster
    from pyanticip.models.forecast_checkpoint import save_forecaster as save_forecaster
    from pyanticip.models.forecast_manifest import ForecastConfig as ForecastConfig
    from pyanticip.models.forecast_step import ForecastStream as ForecastStream
    from pyanticip.models.language import AnticipatoryTransformer as AnticipatoryTransformer
    from pyanticip.models.language import build_language_model as build_language_model
    from pyanticip.models.motion import MotionTransformer as MotionTransformer

_HOME = {
    "AnticipatoryTransformer": "pyanticip.models.language",
    "BaselineTransformer": "pyanticip.models.baselines",
    "build_language_model": "pyanticip.models.language",
    "ForecastConfig": "pyanticip.models.forecast_manifest",
    "ForecastStream": "pyanticip.models.forecast_step",
    "ModelConfig": "pyanticip.models.config",
    "MotionTransformer": "pyanticip.models.motion",
    "PoseForecaster": "pyanticip.models.forecast",
    "load_forecaster": "pyanticip.models.forecast_checkpoint",
    "save_forecaster": "pyanticip.models.forecast_checkpoint",
    "load_checkpoint": "pyanticip.models.checkpoint",
    "load_language_model": "pyanticip.models.checkpoint",
    "load_motion_model": "pyanticip.models.checkpoint",
    "save_checkpoint": "pyanticip.models.checkpoint",
}

__all__ = [
    "AnticipatoryTransformer",
    "BaselineTransformer",
    "ForecastConfig",
    "ForecastStream",
    "ModelConfig",
    "MotionTransformer",
    "PoseForecaster",
    "build_language_model",
    "load_checkpoint",
    "load_forecaster",
    "load_language_model",
    "load_motion_model",
    "save_checkpoint",
    "save_forecaster",
]


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
