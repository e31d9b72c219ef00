"""The model family: configuration, the streaming motion and token transformers, and their checkpoints.

Names are imported on first use, so that ``ModelConfig`` can be used without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyanticip.models.checkpoint.files import load_checkpoint as load_checkpoint
    from pyanticip.models.checkpoint.files import load_language_model as load_language_model
    from pyanticip.models.checkpoint.files import load_motion_model as load_motion_model
    from pyanticip.models.checkpoint.files import save_checkpoint as save_checkpoint
    from pyanticip.models.config import ModelConfig as ModelConfig
    from pyanticip.models.forecast.forecaster import PoseForecaster as PoseForecaster
    from pyanticip.models.forecast.forecaster import load_forecaster as load_forecaster
    from pyanticip.models.forecast.forecaster import save_forecaster as save_forecaster
    from pyanticip.models.forecast.manifest import ForecastConfig as ForecastConfig
    from pyanticip.models.motion.transformer import MotionTransformer as MotionTransformer
    from pyanticip.models.token.baseline import BaselineTransformer as BaselineTransformer
    from pyanticip.models.token.transformer import AnticipatoryTransformer as AnticipatoryTransformer
    from pyanticip.models.token.transformer import build_language_model as build_language_model

_HOME = {
    "AnticipatoryTransformer": "pyanticip.models.token.transformer",
    "BaselineTransformer": "pyanticip.models.token.baseline",
    "build_language_model": "pyanticip.models.token.transformer",
    "ForecastConfig": "pyanticip.models.forecast.manifest",
    "ModelConfig": "pyanticip.models.config",
    "MotionTransformer": "pyanticip.models.motion.transformer",
    "PoseForecaster": "pyanticip.models.forecast.forecaster",
    "load_forecaster": "pyanticip.models.forecast.forecaster",
    "save_forecaster": "pyanticip.models.forecast.forecaster",
    "load_checkpoint": "pyanticip.models.checkpoint.files",
    "load_language_model": "pyanticip.models.checkpoint.files",
    "load_motion_model": "pyanticip.models.checkpoint.files",
    "save_checkpoint": "pyanticip.models.checkpoint.files",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
