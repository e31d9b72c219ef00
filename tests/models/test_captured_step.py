"""Finds operations that CUDA graph capture refuses, without a GPU: the live step is traced on fake CUDA
tensors."""

import pytest
import torch
from support.models import config, covering, name_of, on_a_gpu
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pyanticip.models import AnticipatoryTransformer, ModelConfig
from pyanticip.models.checkpoint.manifest import read_manifest
from pyanticip.models.motion.transformer import MotionTransformer
from pyanticip.models.parts.positions.prism import scan
from realtime.step import open as opening
from realtime.step.batched import BatchedStep
from realtime.step.open import open_backend

SYNCHRONISES = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "lift_fresh")


class Refused(TorchDispatchMode):
    """Collects the operations that a capture cannot record: copies from or to the host, values that the host
    waits for, shapes that depend on data."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tensors = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, torch.Tensor)]
        # A scalar on the host may be a kernel's argument, but must not be copied to or from the device.
        on_host = [t for t in tensors if t.device.type == "cpu"]
        copied = "copy" in str(func) and len(on_host) < len(tensors)
        if any(t.dim() or copied for t in on_host) or any(name in str(func) for name in SYNCHRONISES):
            self.found.append(str(func))
        self.count += 1
        return out


# The most complete combination with each kind of positions.
FULLEST = {m["positions"]: m for m in sorted(covering(), key=lambda m: m["control_field"] + m["planning"])}
MODELS = {name_of(member): config("motion", **member) for member in FULLEST.values()}
MODELS["twin"] = config("motion", kinematics=True, d_model=32, taps=12, twin=True, scaled=True)
MODELS["passes"] = config("motion", planning=True, plan_inference="passes", plan_refine=2)
MODELS["packaged"] = read_manifest(None).config
MODELS["default"] = ModelConfig()


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize(
    ("name", "performers"), [*((name, 3) for name in MODELS), ("passes", 1), ("packaged", 1)]
)
def test_a_graph_can_record_the_step(name, performers, monkeypatch):
    """For a frame, and for one that closes a pool."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    # A kernel launch can be recorded, but needs a driver: the loop of one step replaces it.
    monkeypatch.setattr(scan, "fused_available", lambda moves, start: False)
    made = MotionTransformer(MODELS[name])
    with FakeTensorMode():
        batch = BatchedStep(on_a_gpu(made), performers)
        for due in (False, True):
            with Refused() as refused:
                outputs = batch.advance(due)
            assert refused.found == []
            assert refused.count > 50
            assert len(outputs) == performers
            assert outputs.is_cuda


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_a_graph_can_record_the_step_of_the_default_token_model(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    made = AnticipatoryTransformer(ModelConfig.default()).eval()
    with FakeTensorMode(), torch.no_grad():
        on_a_gpu(made)
        state, ids = made.initial_state(3), torch.zeros(3, dtype=torch.int64, device="cuda")
        with Refused() as refused:
            out, after = made.step(ids, state)
            state.restore(after, torch.ones(3, dtype=torch.bool, device="cuda"))
    assert refused.found == []
    assert refused.count > 50
    assert out.logits.is_cuda


def test_what_it_looks_for_is_found():
    with FakeTensorMode(), Refused() as refused:
        torch.empty(4, device="cuda")[[0, 2]]
        torch.empty(4, device="cuda").cpu()
    assert len(refused.found) >= 2


NUMBER = {
    "to the host": lambda given, host: given.cpu(),
    "into one of the host's": lambda given, host: host.copy_(given),
    "from the host": lambda given, host: host.to("cuda"),
    "from one of the host's": lambda given, host: given.copy_(host),
}


@pytest.mark.parametrize("name", NUMBER)
def test_a_single_number_is_not_copied_either(name):
    with FakeTensorMode():
        given, host = torch.empty((), device="cuda"), torch.empty(())
        with Refused() as refused:
            assert (torch.empty(4, device="cuda") * host + 2.0).is_cuda, "a kernel's argument"
            assert refused.found == []
            NUMBER[name](given, host)
        assert len(refused.found) == 1


@pytest.mark.parametrize("ask", [float, bool, torch.Tensor.item])
def test_a_number_cannot_be_asked_for(ask):
    with FakeTensorMode(), Refused(), pytest.raises(DataDependentOutputException):
        ask(torch.empty((), device="cuda"))


def test_why_no_graph_was_taken_is_told(saved, monkeypatch):
    monkeypatch.setattr(opening, "cuda_present", lambda: True)
    backend = open_backend("auto", saved)
    assert backend.name == "rust"
    assert backend.description == f"rust ({backend.why})"
    assert "CUDA does not work here" in backend.why
