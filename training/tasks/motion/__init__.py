"""The task ``motion``: options, data, losses, validation, and the folder of a run."""

from importlib import import_module
from typing import Any

_HOME = {"MotionTrainOptions": "options", "fit": "task", "load_run": "task", "training_data": "data"}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import on first use: the options alone need no torch."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
