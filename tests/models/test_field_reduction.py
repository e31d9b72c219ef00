"""The field over whole sequences in Rust, and gates in the kernel: to their definitions, with gradients."""

import itertools

import numpy as np
import pytest
import torch

from pyanticip import _core
from pyanticip.errors import ShapeError
from pyanticip.models import ModelConfig
from pyanticip.models.core import fused
from pyanticip.models.core.attention import TrajectoryAttention
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.gated_attention import KERNELS, attend_gated, can_gate
from pyanticip.models.core.part import Positions
from pyanticip.models.core.steering import Extras, Steering
from pyanticip.models.core.trunk import Block
from pyanticip.models.parts.field.averages import averages, stepwise_sums
from pyanticip.models.parts.field.config import FieldConfig
from pyanticip.models.parts.field.control_field import ControlField
from pyanticip.models.parts.field.reduction import FieldSeries, reduce_field, reduce_field_plainly


def field(width=6, fibre=8, **changes):
    torch.manual_seed(0)
    made = ControlField(width, FieldConfig(width=fibre, **changes)).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return made


@pytest.mark.parametrize("length", [1, 2, 3, 40, 300])
def test_values_and_gradients_are_those_of_the_definition(length):
    made = field()
    parameters = list(made.parameters())
    x = torch.randn(2, length, 6, dtype=torch.float64, requires_grad=True)
    for names in [*[(name,) for name in FieldSeries._fields], ("log_gate", "scale"), FieldSeries._fields]:
        found = []
        for way in (reduce_field, reduce_field_plainly):
            torch.manual_seed(1)
            out = way(x, made.weights, made.decay, made.bend)
            total = sum((getattr(out, name) * torch.randn_like(out.held)).sum() for name in names)
            grads = torch.autograd.grad(total, [x, *parameters], allow_unused=True)
            grads = [
                torch.zeros_like(p) if g is None else g for p, g in zip([x, *parameters], grads, strict=True)
            ]
            found.append([*out, *grads])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)
    with torch.no_grad():
        for one, other in zip(reduce_field(x, made.weights, made.decay, made.bend), out, strict=True):
            torch.testing.assert_close(one, other)


def test_first_and_second_derivatives_are_those_of_the_values():
    made = field(fibre=2, hidden=3)
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    weights = tuple(t.detach().requires_grad_() for t in made.weights)

    def outputs(x, *weights):
        return tuple(reduce_field(x, type(made.weights)(*weights), made.decay, made.bend))

    assert torch.autograd.gradcheck(outputs, (x, *weights))
    assert torch.autograd.gradgradcheck(outputs, (x, *weights))


def test_steps_that_do_not_move_have_a_gradient():
    made = field()
    x = torch.zeros(1, 5, 6, dtype=torch.float64, requires_grad=True)
    out = reduce_field(x, made.weights, made.decay, made.bend)
    out.scale.sum().backward()
    assert torch.all(out.kappa == 0)
    assert torch.all(x.grad == 0)


def test_averages_are_free_of_bias():
    for length, decay in itertools.product((1, 7, 256, 257, 700), (1e-12, 0.9, 0.9999)):
        x = torch.rand(2, length, dtype=torch.float64)
        filled = 1 - decay ** torch.arange(1, length + 1, dtype=torch.float64)
        wanted = (1 - decay) * stepwise_sums(x, decay) / filled
        torch.testing.assert_close(averages(x, decay), wanted, atol=1e-11, rtol=1e-11)


def steer(kind, heads, length):
    if kind == "none":
        return Steering()
    if kind == "alibi":
        return Steering(slopes=torch.rand(heads).double())
    rows = 1 if kind == "shared" else 2
    amplitude = torch.randn(rows, length, heads, dtype=torch.float64, requires_grad=True)
    return Steering(
        amplitude,
        torch.full((heads,), 0.1).double().requires_grad_(),
        torch.zeros(heads).double().requires_grad_(),
    )


@pytest.mark.parametrize("kind", ["none", "alibi", "shared", "trajectory"])
@pytest.mark.parametrize("learned", [True, False])
# Heads that leave room for one channel more, and heads that do not.
@pytest.mark.parametrize(("length", "width", "heads"), [(17, 12, 3), (17, 45, 3), (150, 32, 2)])
def test_keys_gated_by_the_kernel_are_the_same_attention(kind, learned, length, width, heads, monkeypatch):
    torch.manual_seed(0)
    rows = 2
    attention = TrajectoryAttention(width, heads, length).double()
    steering = steer(kind, heads, length)
    x = torch.randn(rows, length, width, dtype=torch.float64, requires_grad=True)
    gate = torch.randn(rows, length, dtype=torch.float64, requires_grad=learned)
    inputs = [x, *attention.parameters()]
    inputs += [t for t in (gate, steering.amplitude, steering.rate, steering.beta) if t is not None]
    inputs = [t for t in inputs if t.requires_grad]
    found = []
    for kernel in (True, False):
        layout = make_fused(length, length, steering, device=x.device, dtype=x.dtype)
        monkeypatch.setattr(fused, "can_gate", can_gate if kernel else lambda *_: False)
        torch.manual_seed(1)
        mixed, _ = attention(x, layout, None, Extras(gate))
        with torch.no_grad():
            alone, _ = attention(x, layout, None, Extras(gate))
        found.append([mixed, alone, *torch.autograd.grad(mixed, inputs, torch.randn_like(mixed))])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


def test_gradients_by_gates_hang_neither_on_strides_nor_on_threads():
    torch.manual_seed(0)
    q, k, v, weights = torch.randn(4, 2, 3, 20, 16).double()
    threads = torch.get_num_threads()
    for way in ("whole", "turned", "threads", "expanded"):
        gate = torch.linspace(-2, 0, 40).double().view(2, 20).requires_grad_()
        tensors = (q, k, v)
        if way == "turned":
            tensors = tuple(t.transpose(1, 2).contiguous().transpose(1, 2) for t in tensors)
        torch.set_num_threads(2 if way == "threads" else threads)
        mixed = attend_gated(*tensors, gate, 0.3)
        plain = weights
        if way == "expanded":
            mixed.sum().backward()
            plain = torch.ones_like(weights)
        else:
            mixed.backward(weights)
        torch.set_num_threads(threads)
        other = gate.detach().clone().requires_grad_()
        mask = torch.ones(20, 20, dtype=torch.bool).tril()
        scores = (0.3 * q @ k.transpose(2, 3) + other[:, None, None]).masked_fill(~mask, -torch.inf)
        (scores.softmax(-1) @ v).backward(plain)
        torch.testing.assert_close(gate.grad, other.grad, atol=1e-12, rtol=1e-12)


def test_what_the_kernel_cannot_gate_is_left_alone():
    q, gate = torch.zeros(1, 3, 2, 4), torch.zeros(1, 3)
    assert can_gate(q, gate)
    assert not can_gate(q.bfloat16(), gate)
    assert not can_gate(q.bfloat16(), gate.bfloat16())
    assert not can_gate(q.to("meta"), gate)


def test_compiled_and_exported_blocks_see_plain_operations():
    block = Block(
        ModelConfig(d_model=8, heads=2, ff=8, dropout=0.0, control_field=True), 16, Positions()
    ).eval()
    layout = make_fused(16, 16, Steering(), device=torch.device("cpu"), dtype=torch.float32)
    x = torch.randn(2, 16, 8)

    def run(x):
        return block(x, layout, None)[0]

    with torch.no_grad():
        compiled = torch.compile(run, backend="aot_eager", fullgraph=True)(x)
        torch.testing.assert_close(compiled, run(x), atol=1e-6, rtol=1e-6)


def test_arrays_that_do_not_fit_are_refused():
    shapes = {"seen": (5, 6), "bias": 3, "last": (1, 3), "end": 1, "raw": (), "out": (6, 2, 3)}

    def call(**changes):
        made = {name: np.zeros(shape) for name, shape in shapes.items()} | changes
        seen, *parameters, out = made.values()
        _core.field_forward(seen, 2, *parameters, 0.9, 0.1, out)

    call()
    for changes, words in (
        ({"seen": np.zeros(3)}, "seen: expected 30 values, given 3"),
        ({"out": np.zeros((6, 6))}, "out: expected"),
        ({"bias": np.zeros(3, np.float32)}, "bias: expected a C-contiguous array of the same float type"),
        ({"end": np.zeros(0)}, "end: expected one value, given none"),
    ):
        with pytest.raises(ShapeError, match=words):
            call(**changes)


def test_tensors_that_do_not_reach_their_end_are_refused():
    def call(short=7, gates=(2, 3)):
        tensors = [(np.zeros(24 - (i == short)), (12, 4, 2)) for i in range(6)]
        tensors.append((np.zeros(12), (6, 2, 1)))
        _core.field_gates(2, 2, 0.5, tensors, np.zeros(gates), False, np.zeros((2, 3)))

    call()
    with pytest.raises(ShapeError, match="values: expected 24 values, given 23"):
        call(short=2)
    with pytest.raises(ShapeError, match=r"gates: expected \(rows, steps\), given \[6\]"):
        call(gates=6)


def test_nothing_at_all_does_not_go_to_the_kernel():
    """Which ends the process by a division by zero."""
    for rows, steps in ((0, 4), (2, 0)):
        assert not can_gate(torch.zeros(rows, 2, steps, 16), torch.zeros(rows, steps))
    assert can_gate(torch.zeros(2, 2, 1, 16), torch.zeros(2, 1)) == KERNELS
