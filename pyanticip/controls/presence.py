"""What plays while the performer's signal is lost, and how the output gets back."""

from __future__ import annotations

from dataclasses import dataclass

from pyanticip.errors import OptionError

__all__ = ["Presence"]


@dataclass(frozen=True, slots=True)
class Presence:
    """Hold, fade and come back: what the output does while the source is silent, in seconds.

    For ``hold`` after the last frame the values stand still, then they go to neutral within ``fade``; when
    frames come again the output catches up within ``catch_up``.

    :raises OptionError: a time that is out of range.
    """

    hold: float = 1.0
    fade: float = 2.0
    catch_up: float = 0.4

    def __post_init__(self) -> None:
        if not (self.hold >= 0 and self.fade > 0 and self.catch_up >= 0):
            raise OptionError(
                "silence: expected hold >= 0, fade > 0, catch_up >= 0, "
                f"got {self.hold}, {self.fade}, {self.catch_up}"
            )
