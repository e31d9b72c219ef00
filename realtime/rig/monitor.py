"""The ``[monitor]`` table of a rig."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from pyanticip.options import Options, host_port
from realtime.config import Port
from realtime.sockets import is_loopback

__all__ = ["MonitorRig", "monitor_table"]


class MonitorRig(Options):
    """Address of the monitor's page: on this machine only, unless ``host`` says otherwise.

    From other machines it needs ``token``, which is generated at every start if none is given. The text
    ``HOST:PORT`` may stand for the table.
    """

    enabled: bool = False
    host: str = "127.0.0.1"
    port: Port = 8765
    token: str = Field(default="", pattern="^[A-Za-z0-9_-]*$", max_length=64)

    @model_validator(mode="before")
    @classmethod
    def _parse_text(cls, value: object) -> object:
        return monitor_table(value) if isinstance(value, str) else value

    @property
    def is_local(self) -> bool:
        """Whether it can be reached from this machine only."""
        return is_loopback(self.host)


def monitor_table(text: str) -> dict[str, Any]:
    """The ``monitor`` table of the text ``HOST:PORT``, or ``on`` for the default address.

    Raises:
        ValueError: Not an address.
    """
    address = {} if text == "on" else dict(zip(("host", "port"), host_port(text), strict=True))
    return {"enabled": True, **address}
