"""Checks of model inputs, each with a one-line error that says what was expected."""

from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from pyanticip.errors import OptionError, ShapeError


def can_read_values(x: Tensor) -> bool:
    """Whether tensor values can be read: not while a compiler traces, nor while a CUDA graph is captured."""
    if torch.compiler.is_compiling():
        return False
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())


def check_batch(batch: Any) -> None:
    """Check a batch size.

    Raises:
        OptionError: it is not an integer of at least 1.
    """
    if isinstance(batch, bool) or not isinstance(batch, Integral) or batch < 1:
        raise OptionError(f"batch must be an integer of at least 1, got {batch!r}")


def check_tensor(x: Any, name: str, shape: str) -> None:
    """Check that an input is a tensor.

    Raises:
        ShapeError: it is not; the message names its type.
    """
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} must be a tensor {shape}, got {type(x).__name__}")


def check_state(fits: bool) -> None:
    """Check that a state belongs to the model that receives it.

    Raises:
        ShapeError: ``fits`` is False.
    """
    if not fits:
        raise ShapeError(
            "the state is another configuration's or of another type: make it with this model's initial_state"
        )


def check_finite(x: Tensor, name: str) -> None:
    """Check that all values are finite; skipped where values cannot be read.

    Raises:
        ShapeError: one is not; the message has the first such value and its index.
    """
    if can_read_values(x) and not bool(torch.isfinite(x).all()):
        at = torch.nonzero(~torch.isfinite(x))[0].tolist()
        raise ShapeError(f"{name} must be finite, got {float(x[tuple(at)])} at {at}")


def add_step_axis(x: Any) -> Any:
    """Turn the input of one step (B, n) into (B, 1, n); anything else is returned unchanged."""
    return x[:, None] if isinstance(x, Tensor) and x.ndim == 2 else x


def check_mask(mask: Any, name: str, shape: tuple[int, ...]) -> None:
    """Check that a mask is bool and has this shape.

    Raises:
        ShapeError: otherwise; the message has its shape and type.
    """
    check_tensor(mask, name, str(shape))
    if mask.shape != shape or mask.dtype != torch.bool:
        actual = f"{tuple(mask.shape)} of {mask.dtype}"
        raise ShapeError(f"{name} must be {shape} of torch.bool, got {actual}")


def check_steering(scalars: Tensor | None, predicted: Tensor | None, rows: int, length: int) -> None:
    """Check ``scalars``, finite (B, L, 7) or None, and ``predicted``, (B, L) bool or None.

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
