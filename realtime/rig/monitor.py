"""The ``[monitor]`` table of a rig."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from pyanticip.options import Options, host_port
from realtime.config import Port
from realtime.sockets import is_loopback

__all__ = ["MonitorRig", "monitor_table"]


class MonitorRig(Options):
    """Where the monitor's page is. On this machine alone unless ``host`` says otherwise.

    Beyond this machine whoever opens it has to know ``token``, which is made up anew at every start where
    none is given. ``HOST:PORT`` stands for a monitor there.
    """

    enabled: bool = False
    host: str = "127.0.0.1"
    port: Port = 8765
    token: str = Field(default="", pattern="^[A-Za-z0-9_-]*$", max_length=64)

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, value: object) -> object:
        return monitor_table(value) if isinstance(value, str) else value

    @property
    def is_local(self) -> bool:
        """Whether nobody else on the network can reach it."""
        return is_loopback(self.host)


def monitor_table(text: str) -> dict[str, Any]:
    """The ``monitor`` table of ``HOST:PORT``, or of ``on``: where it is otherwise.

    Raises:
        ValueError: No address.
    """
    where = {} if text == "on" else dict(zip(("host", "port"), host_port(text), strict=True))
    return {"enabled": True, **where}
