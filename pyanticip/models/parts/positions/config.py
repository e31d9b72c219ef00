"""What options of position schemes have in common. No torch."""

from typing import ClassVar

from pyanticip.models.core.config import Config


class PositionConfig(Config):
    """Options of a position scheme; this class is that of one without any."""

    whose: ClassVar[str] = "positions"
    kind: str
    """The scheme's name in the registry."""
