"""What token models check about their input."""

import torch
from torch import Tensor

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.config import ModelConfig


def check_token_config(cfg: ModelConfig) -> None:
    """A token model needs a vocabulary and a longest sequence, and reads no body.

    :raises OptionError: otherwise.
    """
    if not cfg.vocab:
        raise OptionError("a token model needs vocab >= 1: start from ModelConfig.small() or .default()")
    if cfg.kinematics:
        raise OptionError("a token model has no body: kinematics must be False, got True")
    if cfg.scalar_input or not cfg.gated_events:
        raise OptionError("scalar_input and gated_events=False are options of the motion model")


def check_ids(ids: Tensor, vocab: int) -> None:
    """Ids must be whole numbers (B, L) from 0 to ``vocab - 1``.

    :raises ShapeError: otherwise, with the first offending id and where it stands.
    """
    if ids.ndim != 2 or ids.shape[1] < 1:
        raise ShapeError(f"ids must be (B, L) with L >= 1, got {tuple(ids.shape)}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise ShapeError(f"ids must be int64 or int32, got {ids.dtype}")
    if torch.compiler.is_compiling():
        return
    wrong = (ids < 0) | (ids >= vocab)
    if bool(wrong.any()):
        row, step = (int(i) for i in torch.nonzero(wrong)[0])
        raise ShapeError(f"ids must be 0 to {vocab - 1}, got {int(ids[row, step])} at [{row}, {step}]")


def check_length(length: int, frames: Tensor | None, cfg: ModelConfig, absolute: bool) -> None:
    """A sequence may be ``max_seq_len`` long; so may a stream whose positions are absolute.

    :param frames: (B,) tokens so far in each row of a stream. Its rings slide, so that streams with relative
        positions have no end; sinusoids were never trained beyond ``max_seq_len``.
    :param absolute: whether positions count from a sequence's start.
    :raises ShapeError: longer.
    """
    longest = cfg.max_seq_len
    if frames is None:
        if length > longest:
            raise ShapeError(f"ids are {length} long, max_seq_len is {longest}")
    elif absolute and not torch.compiler.is_compiling():
        end = int(frames.max()) + length
        if end > longest:
            raise ShapeError(f"the stream would be {end} long, max_seq_len is {longest}")
