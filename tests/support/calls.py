"""A call with its arguments, as hypothesis draws it: meant, or with one argument that was not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from support import core_arrays as arrays

Draws = SearchStrategy[Any]


@dataclass(frozen=True)
class Call:
    """What something is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        named = [f"{name}={short(value)}" for name, value in self.kwargs.items()]
        return f"call({', '.join([*map(short, self.args), *named])})"


def short(value: Any) -> str:
    """An argument in a report of what failed."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}" + (f" = {value.tolist()}" if value.size < 9 else "")
    text = repr(value)
    return text if len(text) < 200 else f"{type(value).__name__} of {len(value)}"


def call(*args: Draws, **kwargs: Draws) -> SearchStrategy[Call]:
    """A call with such arguments."""
    return st.builds(Call, st.tuples(*args), st.fixed_dictionaries(kwargs))


def whole(draws: Draws) -> SearchStrategy[Call]:
    """A call whose arguments are drawn together, as a list."""
    return draws.map(lambda args: Call(tuple(args), {}))


@st.composite
def spoilt(draw: DrawFn, of: SearchStrategy[Call]) -> Call:
    """The call with one argument that was not meant; with a few more or fewer at times."""
    given = draw(of)
    names: list[int | str] = [*range(len(given.args)), *given.kwargs]
    if not names or draw(st.integers(0, 9)) == 0:
        return Call((*given.args, draw(arrays.ANYTHING)), given.kwargs)
    name = draw(st.sampled_from(names))
    if isinstance(name, str):
        return Call(given.args, {**given.kwargs, name: draw(arrays.spoilt(given.kwargs[name]))})
    args = list(given.args)
    args[name] = draw(arrays.spoilt(args[name]))
    return Call(tuple(args), given.kwargs)


def drawn(of: SearchStrategy[Call]) -> SearchStrategy[Call]:
    """A call, meant three times in four."""
    return st.integers(0, 3).flatmap(lambda which: of if which else spoilt(of))
