"""Processes, devices and signals."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType

import torch
import torch.distributed as dist

from pyanticip.errors import DeviceError, OptionError, one_line


@dataclass(frozen=True)
class Processes:
    """This process among those started by ``torchrun``; by default a single process."""

    rank: int = 0
    world: int = 1
    local: int = 1
    """Processes on this machine."""

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def barrier(self) -> None:
        """Wait until all processes have called this.

        Raises:
            DeviceError: another process ended, and has said why.
        """
        if self.world > 1:
            try:
                dist.barrier()
            except RuntimeError as error:
                raise DeviceError(f"another process of this command ended ({one_line(error)})") from None


@contextmanager
def process_group(device: str) -> Iterator[Processes]:
    """Join the process group of ``torchrun``; without it this process is alone.

    Raises:
        DeviceError: the processes cannot meet, for instance because one has ended.
    """
    if not dist.is_available() or not dist.is_torchelastic_launched() or int(os.environ["WORLD_SIZE"]) == 1:
        yield Processes()
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=timedelta(minutes=30))
    except RuntimeError as error:
        raise DeviceError(f"the processes of this command cannot meet ({one_line(error)})") from None
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_WORLD_SIZE"]))
    finally:
        dist.destroy_process_group()


def resolve_device(device: str, precision: str) -> str:
    """Choose ``"cpu"`` or ``"cuda"``.

    Args:
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        precision: ``"32"``, ``"bf16"`` or ``"16"``.

    Raises:
        DeviceError: CUDA is requested but not available.
        OptionError: precision ``"16"`` without CUDA.
    """
    cuda = torch.cuda.is_available()
    if device == "cuda" and not cuda:
        raise DeviceError("option device: cuda is not available here; use cpu or auto")
    device = "cuda" if cuda and device != "cpu" else "cpu"
    if precision == "16" and device == "cpu":
        raise OptionError("option precision: 16 needs CUDA; on a CPU use bf16 or 32")
    return device


class Interrupt:
    """A request to stop, by Ctrl-C or SIGTERM.

    Args:
        insist: whether a second signal raises KeyboardInterrupt. Not under ``torchrun``, where Ctrl-C arrives
            twice anyway.
    """

    def __init__(self, insist: bool) -> None:
        self.requested = False
        self._insist = insist

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self.requested

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and self._insist:
            raise KeyboardInterrupt
        self.requested = True

    @contextmanager
    def armed(self) -> Iterator["Interrupt"]:
        """Handle the signals inside the context, and restore the previous handlers; no-op outside the main
        thread."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {n: signal.signal(n, self._handle) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
