"""The bridge against the definition in NumPy and the Rust core, compiled, and its helpers."""

import shutil
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import motions

import pyanticip as pa
from pyanticip import bridge
from pyanticip.bridge import (
    AnticipationPacket,
    GeometryBridge,
    bridge_scalars,
    from_packets,
    packets,
    torch_scalars,
)
from pyanticip.errors import OptionError, ShapeError
from pyanticip.motion.skeleton import Skeleton


def test_what_torch_will_not_give_is_told_why():
    x = torch.ones(40, 2, 4, requires_grad=True)
    for call in (
        lambda: pa.pose_scalars(x),
        lambda: pa.pose_scalars(x.detach(), weights=x[0, :, 0]),
        lambda: pa.Clip(x, np.zeros((40, 3)), 50, Skeleton(("a", "b"), [-1, 0], np.zeros((2, 3)))),
    ):
        with pytest.raises(ShapeError, match=r"expected .*: .* Use tensor\.detach\(\)\.numpy\(\) instead\.$"):
            call()


def test_bridge_is_rust_on_a_cpu():
    x = torch.from_numpy(motions.tokens(80, 9, 8)).reshape(2, 40, 8)
    given = bridge_scalars(x, k=5)
    assert given.dtype == torch.float64
    np.testing.assert_array_equal(given.numpy(), pa.vector_scalars(x.numpy(), k=5))
    single = bridge_scalars(x.float().mT.contiguous().mT)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), torch_scalars(x.float()).numpy(), atol=1e-6)
    assert bridge_scalars(x.bfloat16()).dtype == torch.float32
    for array in (x.numpy(), x.numpy()[:, ::-1], x.float().numpy(), x.half().numpy()):
        assert torch.equal(bridge_scalars(array), bridge_scalars(torch.from_numpy(array.copy())))


def test_bridge_object():
    x = torch.randn(2, 40, 8)
    bridge = GeometryBridge(window=32, k=4)
    assert torch.equal(bridge(x), bridge_scalars(x, window=32, k=4))
    with pytest.raises(ShapeError, match="got nan"):
        bridge(torch.full((3, 2), float("nan")))
    assert GeometryBridge(missing="hold")(torch.full((3, 2), float("nan"))).isfinite().all()
    with pytest.raises(OptionError, match="option window: expected 32 to 16384 frames, got 8"):
        GeometryBridge(window=8)
    with pytest.raises(OptionError, match="option windows: expected one of commitment, ema"):
        GeometryBridge(windows=64)
    with pytest.raises(ShapeError, match=r"expected floating-point numbers .*, got int64"):
        bridge(np.zeros((3, 2), np.int64))
    assert [p.index for p in bridge.packets(x[0])] == list(range(40))


def test_packets_and_back():
    scalars = torch_scalars(torch.randn(30, 4, dtype=torch.float64))
    found = packets(scalars, start=100)
    assert len(found) == 30
    assert isinstance(found[3], AnticipationPacket)
    assert found[3].index == 103
    for i, name in enumerate(pa.SCALARS):
        assert getattr(found[3], name) == scalars[3, i].item()
    np.testing.assert_array_equal(from_packets(found), scalars.numpy())
    assert from_packets([]).shape == (0, 7)
    assert packets(np.zeros((0, 7))) == []
    with pytest.raises(AttributeError):
        found[0].novelty = 0.0


def test_packets_refuse():
    with pytest.raises(ShapeError, match=r"scalars: expected shape \(L, 7\), .* got \(2, 3, 7\)"):
        packets(np.zeros((2, 3, 7)))
    with pytest.raises(ShapeError, match=r"scalars: expected an array \(L, 7\), got str"):
        packets("scalars")
    found = packets(np.zeros((3, 7)))
    with pytest.raises(ShapeError, match=r"packets\[1\]: expected index 1, got 2"):
        from_packets([found[0], found[2]])
    with pytest.raises(ShapeError, match=r"packets\[1\]: expected an AnticipationPacket, got 7"):
        from_packets([found[0], 7])


TIGHT = 1e-9
VARIANTS = [
    {},
    {"window": None},
    {"window": 32},
    {"window": 64, "k": 3, "stride": 3, "horizon": 4, "theiler": 2, "m": 2},
    {"window": 40, "horizon": 20, "theiler": 3},
    {"uncertainty": "vendi", "window": 50},
    {"stability": "max_jerk", "window": 50, "stride": 2},
    {"stability": "max_jerk", "window": None},
    {"ema": 0.2, "commitment": (0.2, 0.5, 0.3), "eps_v": 1e-3, "r0": 0.1},
    {"k": 40, "theiler": 7, "m": 31},
]


def tensor(x):
    return torch.from_numpy(np.asarray(x, dtype=np.float64))


@pytest.mark.parametrize(("name", "options"), motions.covering(motions.hard(), VARIANTS, 4), ids=str)
def test_equals_rust(name, options):
    x = motions.hard()[name]
    expected = pa.vector_scalars(x, **options)
    np.testing.assert_allclose(torch_scalars(tensor(x), **options).numpy(), expected, atol=TIGHT, rtol=0)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"window": 32, "horizon": 2, "theiler": 3},
        {"window": None},
        {"window": None, "stability": "max_jerk"},
        {"window": None, "stability": "max_jerk", "stride": 2},
    ],
    ids=str,
)
def test_every_length(options):
    for length in (1, 2, 3, 4, 5, 8, 9, 10, 17, 32, 33, 63, 64, 65, 129):
        x = np.stack([motions.tokens(length, 6, 4), motions.walk(length, 4, seed=3)])
        expected = pa.vector_scalars(x, **options)
        given = torch_scalars(tensor(x), **options).numpy()
        np.testing.assert_allclose(given, expected, atol=TIGHT, rtol=0, err_msg=str(length))


@settings(max_examples=min(60, settings().max_examples))
@given(
    x=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 80), st.integers(1, 5)),
        # A small grid of values: repeated rows, exact ties, symmetric neighbours.
        elements=st.one_of(st.integers(-2, 2).map(float), st.floats(-1e6, 1e6)),
    ),
    window=st.one_of(st.none(), st.integers(32, 90)),
    k=st.integers(2, 12),
    stride=st.integers(1, 10),
    horizon=st.integers(1, 9),
    theiler=st.integers(1, 9),
)
def test_bounds_and_equality(x, window, k, stride, horizon, theiler):
    options = {"window": window, "k": k, "stride": stride, "horizon": horizon, "theiler": theiler}
    given = torch_scalars(tensor(x), **options).numpy()
    lower, upper = np.array([0, 0, -2, 0, 0, 0, 0]), np.array([1, 1, 2, 1, 1, 1, 1])
    assert ((given >= lower) & (given <= upper)).all()
    np.testing.assert_allclose(given[0], [0, 1, 0, 1, 0.5, 1, 1], atol=0)
    np.testing.assert_allclose(given, pa.vector_scalars(x, **options), atol=1e-6, rtol=0)


@settings(max_examples=min(40, settings().max_examples))
@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(1, 149), window=st.sampled_from([None, 32, 100]))
def test_causal_to_the_bit(seed, cut, window):
    rng = np.random.default_rng(seed)
    x = tensor(motions.tokens(150, 9, 6, seed) if seed % 2 else rng.normal(size=(150, 6)))
    other = x.clone()
    other[cut:] = tensor(10.0 ** rng.integers(-3, 9) * rng.normal(size=(150 - cut, 6)))
    a, b = (
        torch_scalars(torch.stack([x, x]), window=window),
        torch_scalars(torch.stack([x, other]), window=window),
    )
    assert torch.equal(a[:, :cut], b[:, :cut])
    assert torch.equal(a[0], b[0])


def test_small_blocks(monkeypatch):
    x = tensor(np.stack([motions.tokens(200, 9, 8, seed) for seed in range(6)]))
    for window in (None, 50):
        expected = torch_scalars(x, window=window)
        with monkeypatch.context() as patch:
            patch.setattr(bridge, "MAX_BLOCK_ELEMENTS", 20_000)
            given = torch_scalars(x, window=window)
        np.testing.assert_allclose(given.numpy(), expected.numpy(), atol=1e-12, rtol=0)


def test_precisions_and_shapes():
    x = tensor(motions.tokens(60, 9, 8)).reshape(2, 3, 10, 8)
    single = torch_scalars(x.float())
    assert single.dtype == torch.float32
    assert single.shape == (2, 3, 10, 7)
    # Computed in float64: the very numbers of the widened input, rounded once.
    assert torch.equal(single, torch_scalars(x.float().double()).float())
    for narrow in (torch.float16, torch.bfloat16):
        given = torch_scalars(x.to(narrow))
        assert given.dtype == torch.float32
        assert torch.equal(given, torch_scalars(x.to(narrow).float()))
    assert torch_scalars(x).dtype == torch.float64
    assert torch_scalars(x[:0]).shape == (0, 3, 10, 7)
    assert torch_scalars(x[..., :0, :]).shape == (2, 3, 0, 7)
    assert torch_scalars(x[0, 0]).shape == (10, 7)


def test_no_gradient_and_no_autocast():
    x = torch.randn(2, 40, 8, requires_grad=True)
    expected = torch_scalars(x)
    assert not expected.requires_grad
    assert not bridge_scalars(x).requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(torch_scalars(x), expected)


def test_missing_vectors_are_held_or_refused():
    x = motions.walk(80, 3)
    x[0] = np.nan
    x[20:23, 1] = -np.inf
    x[50] = 1e101
    held = x.copy()
    held[0], held[20:23], held[50] = 0, x[19], x[49]
    for way in (torch_scalars, bridge_scalars):
        assert torch.equal(way(tensor(x), missing="hold"), way(tensor(held)))
        with pytest.raises(ShapeError, match=r"x\[0, 0\]: expected a finite number .* got nan"):
            way(tensor(x), missing="refuse")
        with pytest.raises(ShapeError, match=r"x\[0, 1, 1\]: .* got -inf"):
            way(tensor(x[19:40])[None], missing="refuse")
        with pytest.raises(OptionError, match="option missing: expected 'hold' or 'refuse', got 'drop'"):
            way(tensor(held), missing="drop")
    np.testing.assert_allclose(torch_scalars(tensor(x)).numpy(), pa.vector_scalars(x), atol=TIGHT, rtol=0)


@pytest.mark.parametrize("way", [torch_scalars, bridge_scalars])
def test_bad_input(way):
    with pytest.raises(ShapeError, match=r"x: expected a floating-point tensor .* got torch.int64"):
        way(torch.zeros(3, 4, dtype=torch.int64))
    with pytest.raises(ShapeError, match=r"x: expected shape \(..., L, d\) with d >= 1, got \(5,\)"):
        way(torch.zeros(5))
    with pytest.raises(ShapeError, match=r"got \(2, 5, 0\)"):
        way(torch.zeros(2, 5, 0))
    with pytest.raises(ShapeError, match=r"x: expected .*got"):
        way([["a", "b"]])
    for name, value in {
        "window": 31,
        "k": 1,
        "stride": 86,
        "horizon": 0,
        "theiler": 300,
        "eps_v": 0.0,
        "r0": -1.0,
        "m": 256,
        "commitment": (0.5, 0.5, 0.5),
        "ema": 0.0,
        "uncertainty": "cosine",
        "stability": "none",
    }.items():
        with pytest.raises(OptionError, match=f"option {name}"):
            way(torch.zeros(4, 2), **{name: value})


BACKENDS = ["eager", "inductor"]
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def batch():
    return torch.stack([torch.from_numpy(motions.tokens(70, 9, 8, seed)) for seed in range(2)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # inductor's own, at import and at code generation
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiles_without_a_graph_break(backend, request):
    if backend == "inductor":
        if not request.config.getoption("--full-product"):
            pytest.skip("a minute of code generation: only with --full-product")
        if sys.platform != "linux" or not shutil.which("g++"):
            pytest.skip("no C++ compiler")
    torch.compiler.reset()
    compiled = torch.compile(torch_scalars, fullgraph=True, backend=backend)
    x = batch()
    x[1, 30:33] = float("nan")
    expected = torch_scalars(x, window=32, k=4)
    torch.testing.assert_close(compiled(x, window=32, k=4), expected, atol=1e-9, rtol=0)
    other = x.clone()
    other[:, 50:] += 1.0
    assert torch.equal(compiled(other, window=32, k=4)[:, :50], compiled(x, window=32, k=4)[:, :50])


@cuda
@pytest.mark.parametrize("options", [{}, {"window": None}, {"window": 32, "k": 5, "horizon": 3}], ids=str)
@pytest.mark.parametrize("name", motions.hard())
def test_cuda(name, options):
    x = torch.from_numpy(motions.hard()[name])
    given = torch_scalars(x.cuda(), **options)
    assert given.is_cuda
    torch.testing.assert_close(given.cpu(), torch_scalars(x, **options), atol=1e-9, rtol=0)
    assert torch.equal(bridge_scalars(x.cuda(), missing="hold", **options), given)


@cuda
def test_cuda_is_causal_to_the_bit():
    x = batch().cuda()
    other = x.clone()
    other[:, 40:] = 1e6 * torch.randn_like(other[:, 40:])
    assert torch.equal(torch_scalars(x)[:, :40], torch_scalars(other)[:, :40])


@cuda
def test_memory_is_bounded():
    x = torch.randn(8, 4096, 128, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch_scalars(x, window=None)
    # A single (B, L, L) would take 1 GiB; the float64 copies of the input take 32 MiB each.
    assert torch.cuda.max_memory_allocated() - before < 768 << 20
