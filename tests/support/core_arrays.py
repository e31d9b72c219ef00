"""Hypothesis strategies for arrays that the core is called with, and for invalid arguments."""

from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Draws = SearchStrategy[Any]

seeds = st.integers(0, 2**16)
counts = st.sampled_from([0, 1, 2, 9, 33])
"""How many frames."""


@st.composite
def numbers(draw: DrawFn, *shape: int, dtype: type = np.float64, odd: bool = False) -> Any:
    """Normal numbers; all equal, tiny or huge ones; with ``odd`` perhaps one NaN, infinity or 1e300."""
    kind = draw(st.sampled_from(["plain", "plain", "same", "tiny", "huge"]))
    x = np.random.default_rng(draw(seeds)).normal(size=shape).astype(dtype)
    if kind == "same":
        x[...] = 1.0
    x *= {"tiny": 1e-30, "huge": 1e6}.get(kind, 1.0)
    if odd and x.size and draw(st.booleans()):
        x.flat[draw(st.integers(0, x.size - 1))] = draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e300]))
    return x


def f32(*shape: int) -> Draws:
    """Numbers in single precision."""
    return numbers(*shape, dtype=np.float32)


@st.composite
def turns(draw: DrawFn, *shape: int, odd: bool = False) -> Any:
    """Rotations (..., 4), random or all the same; with ``odd`` perhaps an invalid one."""
    x = np.random.default_rng(draw(seeds)).normal(size=(*shape, 4))
    if draw(st.integers(0, 3)) == 0:
        x[...] = [1.0, 0.0, 0.0, 0.0]
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    if odd and x.size and draw(st.booleans()):
        x.reshape(-1, 4)[draw(st.integers(0, x.size // 4 - 1))] = draw(st.sampled_from([0.0, np.nan, 1e300]))
    with np.errstate(over="ignore"):
        return x.astype(draw(st.sampled_from([np.float32, np.float64])))


def rows(*count: int) -> Draws:
    """Rows of features of one of the two versions; one or more where no ``count`` is given."""
    many = st.just(count[0]) if count else st.sampled_from([1, 2, 9])
    return st.tuples(many, st.sampled_from([231, 279])).flatmap(lambda shape: f32(*shape))


WRONG: list[Any] = [
    None,
    -1,
    0,
    10**9,
    2**31,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
    10**30,
    float("nan"),
    float("inf"),
    -1e308,
    5e-324,
    True,
    "",
    "\0",
    "mocopi",
    b"",
    b"\xff" * 9,
    [],
    [[]],
    {},
    {"window": 2**63},
    (1, 2),
    [None],
    object(),
    np.zeros(0),
    np.zeros((0, 22, 4)),
    np.zeros((1, 1, 1, 1, 1), np.float32),
    np.array(3.0),
    np.array(["x"]),
    np.array([object()]),
    np.zeros((2, 3), complex),
    np.zeros((3, 4), np.int8),
]
"""Invalid arguments for most calls."""
ANYTHING = st.sampled_from(WRONG)


@st.composite
def spoilt(draw: DrawFn, value: Any) -> Any:
    """A replacement for an argument: anything, or for an array perhaps a similar one."""
    if not isinstance(value, np.ndarray) or value.dtype == object or draw(st.integers(0, 2)) == 0:
        return draw(ANYTHING)
    with np.errstate(over="ignore"):
        return SPOILS[draw(st.sampled_from(sorted(SPOILS)))](value)


def _odd(x: Any) -> Any:
    x = x.copy()
    if x.size:
        x.flat[x.size // 2] = np.nan if x.dtype.kind == "f" else 1
    return x


def _fixed(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


def _askew(x: Any) -> Any:
    """The same numbers at an address that is no multiple of their size."""
    room = np.zeros(x.nbytes + 1, np.uint8)
    room[1:] = np.frombuffer(x.tobytes(), np.uint8)
    return room[1:].view(x.dtype).reshape(x.shape)


SPOILS: dict[str, Any] = {
    "not a number": _odd,
    "read only": _fixed,
    "askew": _askew,
    "turned": lambda x: np.asfortranarray(x),
    "every other": lambda x: np.repeat(x, 2, axis=0)[::2] if x.ndim else x,
    "backwards": lambda x: x[::-1] if x.ndim else x,
    "deeper": lambda x: x[None],
    "flat": lambda x: x.reshape(-1),
    "longer": lambda x: np.concatenate([x, x[:1]]) if x.ndim else x,
    "shorter": lambda x: x[:-1] if x.ndim else x,
    "none": lambda x: x[:0] if x.ndim else x,
    "other type": lambda x: x.astype(np.float16 if x.dtype == np.float64 else np.float64),
    "other order": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "as a list": lambda x: x.tolist(),
    "one for two": lambda x: np.broadcast_to(x[..., None], (*x.shape, 2)),
}
"""Ways to spoil an array."""


@cache
def shipped_model() -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and sizes of the model that comes with the package."""
    tensors, sizes = _shipped()
    return dict(tensors), dict(sizes)


@cache
def _shipped() -> tuple[dict[str, Any], dict[str, Any]]:
    import safetensors.numpy

    from pyanticip.models.checkpoint.manifest import WEIGHTS, read_manifest
    from realtime.step.rust import stream_sizes

    manifest = read_manifest()
    return safetensors.numpy.load(manifest.read(WEIGHTS)), stream_sizes(manifest.config)


@st.composite
def motion_model(draw: DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """The shipped model's tensors and sizes; past, stride and distance may be others."""
    tensors, sizes = shipped_model()
    changes = {
        "past": (draw(st.integers(1, 300)), draw(st.integers(1, 90))),
        "stride": draw(st.integers(1, 9)),
        "distance": draw(st.floats(0, 10)),
        "gated": draw(st.booleans()),
    }
    return tensors, {**sizes, **changes}


@st.composite
def moments(draw: DrawFn) -> list[Any]:
    """Takes and moments as a memory gives them, or any that have their shape."""
    from pyanticip import _core

    count, rng = draw(st.sampled_from([0, 1, 12, 60])), np.random.default_rng(draw(seeds))
    origins = np.stack([np.zeros(count), 2 * np.arange(count)], 1).astype(np.uint32)
    # Seldom: of such hardly any can be restored.
    if draw(st.integers(0, 3)) == 3:
        origins = rng.integers(0, 2**32, (count, 2), np.uint32, endpoint=False)
        origins[:, 0] %= 2
    keys = rng.integers(-3000, 3000, (count, _core.KEY_SIZE)).astype(np.int16)
    return [["a", "b"], keys, rng.integers(0, 2**16, (count, 24)).astype(np.uint16), origins]
