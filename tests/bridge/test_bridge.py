"""The convenience around both implementations, and packets."""

import numpy as np
import pytest
import torch
from support import trajectories

import pyanticip as pa
from pyanticip.bridge import (
    AnticipationPacket,
    GeometryBridge,
    bridge_scalars,
    from_packets,
    packets,
    torch_scalars,
)
from pyanticip.errors import OptionError, ShapeError


def test_bridge_is_rust_on_a_cpu():
    x = torch.from_numpy(trajectories.tokens(80, 9, 8)).reshape(2, 40, 8)
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
    with pytest.raises(ShapeError, match="given nan"):
        bridge(torch.full((3, 2), float("nan")))
    assert GeometryBridge(missing="hold")(torch.full((3, 2), float("nan"))).isfinite().all()
    with pytest.raises(OptionError, match="option window: expected 32 to 16384 frames, given 8"):
        GeometryBridge(window=8)
    with pytest.raises(OptionError, match="option windows: expected one of commitment, ema"):
        GeometryBridge(windows=64)
    with pytest.raises(ShapeError, match=r"expected floating-point numbers .*, given int64"):
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
    with pytest.raises(ShapeError, match=r"scalars: expected shape \(L, 7\), .* given \(2, 3, 7\)"):
        packets(np.zeros((2, 3, 7)))
    with pytest.raises(ShapeError, match=r"scalars: expected an array \(L, 7\), given str"):
        packets("scalars")
    found = packets(np.zeros((3, 7)))
    with pytest.raises(ShapeError, match=r"packets\[1\]: expected index 1, given 2"):
        from_packets([found[0], found[2]])
    with pytest.raises(ShapeError, match=r"packets\[1\]: expected an AnticipationPacket, given 7"):
        from_packets([found[0], 7])
