"""Counts the kernels of a frame on a GPU, without one: the step is traced on fake CUDA tensors and lowered
for the device of the table below; the generated code calls what is launched."""

import logging
import re
from types import SimpleNamespace

import pytest
import torch
from support.models import on_a_gpu
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from pyanticip.models import load_motion_model
from realtime.step.batched import BatchedStep, fusing

pytest.importorskip("triton")
ForeachKernelSchedulerNode = pytest.importorskip("torch._inductor.scheduler").ForeachKernelSchedulerNode
SmallProducts = pytest.importorskip("realtime.step.products").SmallProducts
group = pytest.importorskip("realtime.step.launches").group

H200 = SimpleNamespace(
    name="NVIDIA H200",
    major=9,
    minor=0,
    total_memory=140 << 30,
    multi_processor_count=132,
    warp_size=32,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 << 20,
)
# Functions that query a device or run something on it.
SETTINGS = {"force_disable_caches": True, "joint_graph_constant_folding": False, "shape_padding": False}
MOST = 85


class Node:
    """What grouping asks of a scheduler's node; ``sums`` of None is a library's product."""

    def __init__(self, sums: bool | None, *needs: "Node"):
        self.sums, self.needs = sums, needs

    def is_reduction(self):
        return bool(self.sums)

    def is_template(self):
        return False

    def get_device(self):
        return torch.device("cuda" if self.sums is not None else "cpu")


def test_kernels_wait_for_those_they_can_share_a_launch_with():
    """Four launches, where each kernel as early as possible would be six: `side` waits for the product,
    `late` for `first`."""
    product = Node(None)
    first = Node(True, product)
    side, second = Node(True), Node(False, first)
    late, third = Node(False, side), Node(True, second)
    scheduler = SimpleNamespace(
        nodes=[side, late, product, first, second, third],
        _get_unmet_dep_nodes=lambda node: node.needs,
    )
    assert group(scheduler) == [[product], [side, first], [late, second], [third]]


@pytest.mark.parametrize(
    "name",
    [
        "group_algorithm_for_combo_kernels",
        "set_group_algorithm_for_combo_kernels",
        "combinable_nodes",
        "_get_unmet_dep_nodes",
    ],
)
def test_a_compiler_that_lacks_a_private_name_does_the_rest(name, monkeypatch):
    algorithm = "group_algorithm_for_combo_kernels"
    monkeypatch.setattr(ForeachKernelSchedulerNode, algorithm, staticmethod(lambda scheduler: "its own"))
    scheduler = SimpleNamespace(nodes=[Node(True)], _get_unmet_dep_nodes=lambda node: node.needs)
    monkeypatch.delattr(scheduler if name.startswith("_") else ForeachKernelSchedulerNode, name)
    with fusing() as options:
        assert options.keys() == {"combo_kernels", "post_grad_custom_pre_pass"}
        if name != algorithm:
            assert ForeachKernelSchedulerNode.group_nodes_for_combo_kernels(scheduler) == "its own"
    monkeypatch.setattr(SmallProducts, "__init__", lambda self: None.missing)
    with fusing() as options:
        assert options == {"combo_kernels": True}


class Generated(Exception):
    """Returns the generated code instead of running it."""


@pytest.fixture
def lowered(monkeypatch, tmp_path):
    """A function from a traced step and its inputs to the code that Inductor generates for it."""
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.graph import GraphLowering
    from torch.utils._triton import has_triton
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    def generated(self):
        raise Generated(self.codegen()[0].value)

    here = {"get_device_properties": lambda *_: H200, "current_device": lambda *_: 0}
    device = {"get_device_capability": lambda *_: (9, 0), "device_count": lambda: 1}
    device |= {"set_device": lambda *_: None, "synchronize": lambda *_: None}
    interface = {"is_available": lambda: True, "get_compute_capability": lambda *_: 90}
    owners = ((torch.cuda, here | device), (CudaInterface, here | interface), (CudaInterface.Worker, here))
    for owner, ways in owners:
        for name, way in ways.items():
            monkeypatch.setattr(owner, name, way)
    target = SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(driver, "_active", target)
    monkeypatch.setattr(GraphLowering, "compile_to_module", generated)
    # A compiler that fails leaves its files.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    # Cached per process: an earlier compilation may have found no device.
    has_triton.cache_clear()

    def code_of(graph, inputs):
        with fusing() as options, config.patch(**SETTINGS, **options), pytest.raises(Exception) as found:
            compile_fx(graph, inputs)
        error = found.value
        while not isinstance(error, Generated):
            error = error.__cause__ or error.inner_exception
        return error.args[0]

    yield code_of
    has_triton.cache_clear()


def traced(batch):
    """A step that closes a pool, and all tensors that it reads."""
    places = [
        (held, name)
        for module in batch.model.modules()
        for held in (module._parameters, module._buffers)
        for name, tensor in held.items()
        if tensor is not None
    ]
    inputs = [batch._rows, batch._present, *batch._state.tensors(), *(held[name] for held, name in places)]

    def step(*given):
        rest = iter(given)
        batch._rows, batch._present = next(rest), next(rest)
        batch._state = batch._state.map(lambda _: next(rest))
        for (held, name), tensor in zip(places, rest, strict=True):
            held[name] = tensor
        return (batch.advance(True),)

    inputs = [tensor.detach() for tensor in inputs]
    return make_fx(step)(*inputs), inputs


@pytest.mark.skipif(torch.cuda.is_available(), reason="what is asked of a device stays in memory")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("performers", [1, 64, 256])
def test_a_frame_that_closes_a_pool_is_tens_of_kernels(performers, lowered, request, monkeypatch, caplog):
    """Other frames run a subset of these kernels. With 256 performers there are most, and over a hundred if
    products are not rewritten or kernels not grouped."""
    if performers < 256 and not request.config.getoption("--full-product"):
        pytest.skip("ten seconds of code generation: only with --full-product")
    caplog.set_level(logging.WARNING, "torch.__trace")
    model = load_motion_model()
    with FakeTensorMode(allow_non_fake_inputs=True):
        batch = BatchedStep(on_a_gpu(model), performers)
        with monkeypatch.context() as compiling:
            compiling.setattr(torch.compiler, "is_compiling", lambda: True)
            graph, inputs = traced(batch)
        code = lowered(graph, inputs)
    body = code[code.index("def call(") :]
    launches = re.findall(
        r"^\s+\w+\.run\(|extern_kernels\.\w+\(|torch\.ops\.[\w.]+\(|aten\.[\w.]+\(", body, re.M
    )
    assert 40 < len(launches) <= MOST
