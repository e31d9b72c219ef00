"""Where a bench computes."""

import torch

from pyanticip.errors import DeviceError, OptionError


def chosen(device: str) -> torch.device:
    """The device of ``auto``, ``cpu`` or ``cuda``; ``auto`` is a GPU where torch can use one.

    :raises OptionError: another word.
    :raises DeviceError: ``cuda`` where torch can use none.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise OptionError(f"option device: expected auto, cpu or cuda, got {device!r}")
    cuda = torch.cuda.is_available()
    if device == "cuda" and not cuda:
        raise DeviceError("option device: cuda is not available here; use cpu or auto")
    return torch.device("cuda" if cuda and device != "cpu" else "cpu")
