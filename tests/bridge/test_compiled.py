"""``torch.compile`` and CUDA change nothing."""

import shutil
import sys

import pytest
import torch
from support import trajectories

from pyanticip.bridge import bridge_scalars, torch_scalars

BACKENDS = ["aot_eager", "inductor"]
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def batch():
    return torch.stack([torch.from_numpy(trajectories.tokens(70, 9, 8, seed)) for seed in range(2)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # inductor's own, at import and at code generation
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiles_without_a_graph_break(backend):
    if backend == "inductor" and (sys.platform != "linux" or not shutil.which("g++")):
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
@pytest.mark.parametrize("name", trajectories.table())
def test_cuda(name, options):
    x = torch.from_numpy(trajectories.table()[name])
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
