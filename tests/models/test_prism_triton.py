"""The Triton kernels are the loop, in Triton's interpreter: no GPU is needed, and none has run them."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAM = """
import torch
from pyanticip.models.parts.positions.prism.scan import scan_loop
from pyanticip.models.parts.positions.prism.scan_triton import scan_triton

torch.manual_seed(0)
for places, jumping, sharpening in ((5, 0, True), (8, 1, True), (6, 2, False)):
    moves = torch.randn(2, 3, 4, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    start = torch.randn(2, 3, places, dtype=torch.float64).softmax(-1).requires_grad_()
    gamma = (1 + torch.rand(3, dtype=torch.float64)).requires_grad_() if sharpening else None
    jumps = None
    if jumping:
        jumps = (torch.rand(2, jumping, 4, places, dtype=torch.float64) / places).requires_grad_()
    wanted, got = (run(moves, start, gamma, jumps) for run in (scan_loop, scan_triton))
    torch.testing.assert_close(got, wanted)
    leaves = [t for t in (moves, start, gamma, jumps) if t is not None]
    weights = torch.randn_like(wanted)
    for a, b in zip(*(torch.autograd.grad((t * weights).sum(), leaves) for t in (got, wanted))):
        torch.testing.assert_close(a, b)
print("equal")
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_the_kernels_are_the_loop_in_tritons_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    root = Path(__import__("pyanticip").__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=root, timeout=300
    )
    assert done.stdout.strip() == "equal", done.stderr[-2000:]
