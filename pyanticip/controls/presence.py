"""What plays while the performer's signal is lost, and how the output gets back."""

from __future__ import annotations

from collections.abc import Sequence

from pyanticip.controls.vectors import NEUTRAL, Vector
from pyanticip.errors import OptionError

__all__ = ["Crossfade", "Presence"]


def _ease(u: float) -> float:
    """Smoothstep on 0..1: flat at both ends, steepest slope 1.5."""
    u = min(max(u, 0.0), 1.0)
    return u * u * (3.0 - 2.0 * u)


def _mix(a: Sequence[float], b: Sequence[float], w: float) -> Vector:
    return [x + w * (y - x) for x, y in zip(a, b, strict=True)]


class Crossfade:
    """From where the output stands to whatever comes now, without a jump.

    After :meth:`start` the output moves from the given vector to the live one within ``seconds``.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._from: Vector | None = None
        self._at = 0.0

    def start(self, current: Vector) -> None:
        """Begin at ``current``; a fade already running starts anew from there."""
        self._from = list(current)
        self._at = 0.0

    @property
    def running(self) -> bool:
        """True until the live vector passes unchanged."""
        return self._from is not None

    def step(self, live: Vector, dt: float) -> Vector:
        """The vector ``dt`` seconds on."""
        if self._from is None:
            return live
        self._at += max(dt, 0.0)
        if self._at >= self.seconds:
            self._from = None
            return live
        return _mix(self._from, live, _ease(self._at / self.seconds))


class Presence:
    """Hold, fade and come back: what the output does while the source is silent.

    For ``hold`` seconds after the last frame the values stand still, then they go to ``neutral`` within
    ``fade`` seconds; when frames come again the output catches up within ``catch_up`` seconds.
    """

    def __init__(
        self,
        *,
        hold: float = 1.0,
        fade: float = 2.0,
        catch_up: float = 0.4,
        gap: float = 0.1,
        neutral: Sequence[float] = NEUTRAL,
    ) -> None:
        if not (hold >= 0 and fade > 0 and catch_up >= 0):
            raise OptionError(
                f"silence: expected hold >= 0, fade > 0, catch_up >= 0, got {hold}, {fade}, {catch_up}"
            )
        self.hold, self.fade, self.gap = hold, fade, gap
        self._neutral = list(neutral)
        self._catch = Crossfade(catch_up)
        self._held = list(neutral)
        self._out = list(neutral)
        self._silent = 0.0

    @property
    def catch_up(self) -> float:
        """Seconds to catch up within when frames come again."""
        return self._catch.seconds

    @property
    def silent(self) -> float:
        """Seconds since the last live vector, as far as :meth:`silence` was told."""
        return self._silent

    @property
    def output(self) -> Vector:
        """The vector given last."""
        return self._out

    def live(self, values: Vector, dt: float) -> Vector:
        """A frame came, ``dt`` seconds after the last one: its values, eased in if there was a gap.

        What comes out depends on the ``dt`` of the frames alone, not on how often :meth:`silence` was
        called between them.
        """
        if dt > self.gap:
            self._catch.start(self._after(dt))
            dt = self.gap / 5.0
        self._silent = 0.0
        self._out = self._catch.step(values, dt)
        self._held = self._out
        return self._out

    def silence(self, dt: float) -> Vector:
        """No frame for another ``dt`` seconds: the held or fading vector."""
        self._silent += max(dt, 0.0)
        self._out = self._after(self._silent)
        return self._out

    def _after(self, seconds: float) -> Vector:
        """What is played so long after the last frame."""
        return _mix(self._held, self._neutral, _ease((seconds - self.hold) / self.fade))

    def begin(self, values: Vector) -> None:
        """As if these values had just been played."""
        self._held = self._out = list(values)

    def restart(self) -> None:
        """Ease into the next live vector from where the output stands."""
        self._catch.start(self._out)
