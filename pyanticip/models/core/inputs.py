"""Checks of what models are given, each with one line that says what was expected."""

from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from pyanticip.errors import OptionError, ShapeError


def readable(x: Tensor) -> bool:
    """Whether values may be looked at: not where a compiler traces, nor while a CUDA graph is recorded."""
    if torch.compiler.is_compiling():
        return False
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())


def check_batch(batch: Any) -> None:
    """A state has rows.

    Raises:
        OptionError: it would have none, or no whole number.
    """
    if isinstance(batch, bool) or not isinstance(batch, Integral) or batch < 1:
        raise OptionError(f"batch must be an integer of at least 1, got {batch!r}")


def check_tensor(x: Any, name: str, shape: str) -> None:
    """What a model is given must be a tensor.

    Raises:
        ShapeError: otherwise, with what it is.
    """
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} must be a tensor {shape}, got {type(x).__name__}")


def check_state(fits: bool) -> None:
    """A state must be of the model that is given it.

    Raises:
        ShapeError: otherwise.
    """
    if not fits:
        raise ShapeError(
            "the state is another configuration's or of another type: make it with this model's initial_state"
        )


def check_finite(x: Tensor, name: str) -> None:
    """Values must be finite.

    Raises:
        ShapeError: otherwise, with the first value that is not, and where it stands.
    """
    if readable(x) and not bool(torch.isfinite(x).all()):
        at = torch.nonzero(~torch.isfinite(x))[0].tolist()
        raise ShapeError(f"{name} must be finite, got {float(x[tuple(at)])} at {at}")


def of_step(x: Any) -> Any:
    """What rows are given for one step: (B, n) with an axis for it, and all else as it is."""
    return x[:, None] if isinstance(x, Tensor) and x.ndim == 2 else x


def check_mask(mask: Any, name: str, shape: tuple[int, ...]) -> None:
    """A mask must be bool, of this shape.

    Raises:
        ShapeError: otherwise, with what it is.
    """
    check_tensor(mask, name, str(shape))
    if mask.shape != shape or mask.dtype != torch.bool:
        given = f"{tuple(mask.shape)} of {mask.dtype}"
        raise ShapeError(f"{name} must be {shape} of torch.bool, got {given}")


def check_steering(scalars: Tensor | None, predicted: Tensor | None, rows: int, length: int) -> None:
    """Scalars must be finite (B, L, 7), ``predicted`` (B, L) bool, where they are given.

    Raises:
        ShapeError: otherwise.
    """
    if scalars is not None:
        shape = (rows, length, 7)
        check_tensor(scalars, "scalars", str(shape))
        if scalars.shape != shape:
            raise ShapeError(f"scalars must be {shape}, got {tuple(scalars.shape)}")
        check_finite(scalars, "scalars")
    if predicted is not None:
        check_mask(predicted, "predicted", (rows, length))
