"""One registry for each seam: what is built in, and what other people's packages bring."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Generic, TypeVar

from pyanticip.errors import OptionError

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind by name.

    Built-in ones are named as entry points are, ``module:attribute``, and imported when they are asked for.
    Another package adds its own in the entry-point ``group`` of its metadata; built-in names cannot be taken.
    """

    def __init__(self, what: str, group: str, built_in: Mapping[str, str]) -> None:
        self.what = what
        self.group = group
        self._built_in = {name: metadata.EntryPoint(name, at, group) for name, at in built_in.items()}

    @property
    def built_in(self) -> tuple[str, ...]:
        """The names that need no other package."""
        return tuple(self._built_in)

    def __contains__(self, name: str) -> bool:
        return name in self._built_in or any(metadata.entry_points(group=self.group, name=name))

    def names(self) -> tuple[str, ...]:
        """Every name: the built-in ones in their order, then those of other packages."""
        more = {point.name for point in metadata.entry_points(group=self.group)} - set(self._built_in)
        return (*self._built_in, *sorted(more))

    def find(self, name: str) -> metadata.EntryPoint:
        """Where the thing of that name is; nothing is imported.

        :raises OptionError: none has it, or two packages do.
        """
        if name in self._built_in:
            return self._built_in[name]
        points = list(metadata.entry_points(group=self.group, name=name))
        if not points:
            raise OptionError(f"expected one of {', '.join(self.names())}, got {name!r}")
        if len(points) > 1:
            at = ", ".join(point.value for point in points)
            raise OptionError(f"{self.what} {name!r} is claimed more than once: {at}")
        return points[0]

    def load(self, name: str) -> T:
        """The thing of that name.

        :raises OptionError: as :meth:`find`, and where somebody else's package cannot be imported.
        """
        point = self.find(name)
        if name in self._built_in:
            found: T = point.load()
            return found
        try:
            found = point.load()
        except Exception as error:
            # Not our module: whatever it raises is the reader's only clue.
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise OptionError(f"{self.what} {name!r}: {point.value} cannot be imported ({reason})") from None
        return found
