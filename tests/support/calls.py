"""Hypothesis strategies for calls: with valid arguments, or with one argument replaced."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from support import core_arrays as arrays

Draws = SearchStrategy[Any]


@dataclass(frozen=True)
class Call:
    """Arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        named = [f"{name}={short(value)}" for name, value in self.kwargs.items()]
        return f"call({', '.join([*map(short, self.args), *named])})"


def short(value: Any) -> str:
    """An argument as text for the report of a failure."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}" + (f" = {value.tolist()}" if value.size < 9 else "")
    text = repr(value)
    return text if len(text) < 200 else f"{type(value).__name__} of {len(value)}"


def call(*args: Draws, **kwargs: Draws) -> SearchStrategy[Call]:
    """A call with arguments drawn from these strategies."""
    return st.builds(Call, st.tuples(*args), st.fixed_dictionaries(kwargs))


def whole(draws: Draws) -> SearchStrategy[Call]:
    """A call whose arguments are drawn together, as a list."""
    return draws.map(lambda args: Call(tuple(args), {}))


@st.composite
def spoilt(draw: DrawFn, of: SearchStrategy[Call]) -> Call:
    """The call with one argument replaced by an invalid one, or one argument too many."""
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
    """A call, valid in three cases of four."""
    return st.integers(0, 3).flatmap(lambda which: of if which else spoilt(of))
