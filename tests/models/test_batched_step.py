"""Many performers in one step: the same results as one by one, in kernels that a compiler fuses."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from support.models import build, covering, name_of
from torch.fx.experimental.proxy_tensor import make_fx

from pyanticip.errors import OptionError, ShapeError
from realtime.bench.step import run, table
from realtime.step import products
from realtime.step.batched import BatchedStep, fused

WHOLE = {"twin": True, "strokes": True, "kinematics": True, "d_model": 48, "taps": 12}
WHOLE |= {"scaled": True, "pose_window": 20}
# The most complete combination with each kind of positions.
FULLEST = {m["positions"]: m for m in sorted(covering(), key=lambda m: m["control_field"] + m["planning"])}
MODELS = {name_of(member): member for member in FULLEST.values()} | {"whole": WHOLE}
MODELS["passes"] = {"planning": True, "plan_inference": "passes", "plan_refine": 2, "slow_stride": 3}


@pytest.mark.parametrize("name", MODELS)
def test_each_performer_is_stepped_as_if_alone(name):
    """Rings wrap around, some performers skip a step and some restart; streams that skip do not change."""
    rng = np.random.default_rng(0)
    model = build("motion", torch.float32, 0.05, **MODELS[name])
    batch, singles = BatchedStep(model, 3), [BatchedStep(model) for _ in range(3)]
    for frame in range(16):
        rows, present = rng.standard_normal((3, 279)).astype(np.float32), rng.random(3) < 0.6
        rows.setflags(write=False)
        if frame in (5, 10):
            begins = np.arange(3) == frame % 3
            batch.reset(begins)
            singles[frame % 3].reset()
        outputs = batch.step(rows, present)
        for i, single in enumerate(singles):
            expected = (single if present[i] else deepcopy(single)).step(rows[i : i + 1])
            np.testing.assert_allclose(outputs[i], expected[0], atol=1e-5, rtol=0)


def test_rows_and_presence_must_be_those_of_the_performers():
    batch = BatchedStep(build("motion", torch.float32, 0.05), 3)
    with pytest.raises(ShapeError, match="of 3 performers, got 2 and"):
        batch.step(np.zeros((2, 279), np.float32))
    with pytest.raises(ShapeError, match=r"got 3 and \(2,\)"):
        batch.step(np.zeros((3, 279), np.float32), np.ones(2, np.bool_))


def test_the_whole_step_is_one_graph_for_a_compiler_and_the_same(monkeypatch):
    """Traced and lowered as for a GPU, without a graph break, for frames that may close a pool; other frames
    do a part of that. The kernels themselves are run by other tests."""
    monkeypatch.setattr(torch, "compile", _traced(torch.compile))
    rng = np.random.default_rng(1)
    model = build("motion", torch.float32, 0.05, slow_stride=3, fast_layers=1, **WHOLE)
    batch, plain = BatchedStep(model, 2), BatchedStep(model, 2)
    advance, why = fused(batch, (True,))
    assert why == ""
    monkeypatch.setattr(batch, "advance", lambda due, everybody: advance(True))
    for frame in range(14):
        rows, present = rng.standard_normal((2, 279)).astype(np.float32), rng.random(2) < 0.7
        if frame == 8:
            for each in (batch, plain):
                each.reset(np.array([True, False]))
        np.testing.assert_allclose(batch.step(rows, present), plain.step(rows, present), atol=1e-5, rtol=0)


def _traced(compiler):
    return lambda function, **how: compiler(function, backend="aot_eager", **how)


def _broken(due):
    raise RuntimeError("no C compiler")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (_broken, "RuntimeError: no C compiler"),
        (lambda due: torch.zeros(()), "RuntimeError: what was compiled says something else"),
    ],
)
def test_why_kernels_are_not_fused_is_told(found, why, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **how: found)
    batch = BatchedStep(build("motion", torch.float32, 0.05))
    assert fused(batch, (False, True)) == (batch.advance, f"kernels not fused: {why}")
    assert not any(tensor.any() for tensor in (batch._present, *batch._state.tensors()))


def test_a_compiled_step_is_compared_where_pools_have_closed(monkeypatch):
    batch = BatchedStep(build("motion", torch.float32, 0.05, slow_stride=3))
    monkeypatch.setattr(torch, "compile", lambda function, **how: function)
    assert fused(batch, (False, True)) == (batch.advance, "")

    def forgetful(due):
        """From a stream's start, as long as no pool has closed."""
        output = BatchedStep.advance(batch, due)
        batch._state.trunk.held.zero_()
        return output

    monkeypatch.setattr(torch, "compile", lambda function, **how: forgetful)
    assert fused(batch, (False, True))[1].endswith("what was compiled says something else")
    assert not any(tensor.any() for tensor in batch._state.tensors())


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method")
def test_small_products_are_rewritten_for_a_compiler(monkeypatch):
    """Products of all three kinds become sums, except large ones; the results are the same."""
    aten, gen = torch.ops.aten, torch.Generator().manual_seed(0)
    a, b, c = (
        torch.randn(5, 7, generator=gen),
        torch.randn(7, 6, generator=gen),
        torch.randn(6, generator=gen),
    )

    def step(a, b, c):
        return aten.mm(a, b), aten.bmm(a[None], b[None]), aten.addmm(c, a, b), aten.mm(a.repeat(2, 1), b)

    monkeypatch.setattr(products, "SMALL", 5 * 6 * 7)
    graph = make_fx(step, tracing_mode="fake")(a, b, c)
    products.SmallProducts()(graph.graph)
    graph.recompile()
    left = [node.target for node in graph.graph.nodes if "mm" in str(node.target)]
    assert left == [aten.mm.default]
    for got, expected in zip(graph(a, b, c), step(a, b, c), strict=True):
        torch.testing.assert_close(got, expected)


def test_bench_steps_many_performers(saved, monkeypatch):
    monkeypatch.setattr("realtime.bench.step.TURN", 12)
    result = run(1.0, ["rust", "torch"], saved, "1,3")
    for sizes in result["batch_us"].values():
        assert list(sizes) == ["1", "3"]
        for count, values in sizes.items():
            assert 0 < values["p50"] <= values["p90"] <= values["p99"]
            assert values["performer"] == pytest.approx(values["p50"] / int(count), abs=1e-3)
    assert table(result).row_count == 4
    with pytest.raises(OptionError, match="performers: expected numbers from 1 to 4096, as 1,2,4, got '1,x'"):
        run(1.0, ["rust"], saved, "1,x")
