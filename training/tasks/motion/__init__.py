"""Training of the motion model: options, data, the loop, the folder of a run."""

from typing import Any

__all__ = ["MotionTrainOptions", "fit", "load_run", "training_data"]


def __getattr__(name: str) -> Any:
    """Import on first use: the options alone need no torch."""
    if name == "MotionTrainOptions":
        from training.tasks.motion.options import MotionTrainOptions

        return MotionTrainOptions
    if name == "fit":
        from training.tasks.motion.task import fit

        return fit
    if name == "load_run":
        from training.tasks.motion.task import load_run

        return load_run
    if name == "training_data":
        from training.tasks.motion.data import training_data

        return training_data
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
