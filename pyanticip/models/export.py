"""The two ONNX graphs of a motion model: one step of the fast pathway, and one pool of the slow one.

Both take the state as inputs and return only what is new: the runtime keeps the rings and writes the new
keys and values into them, so that no graph copies a ring. Weights stay in the safetensors file beside the
graphs, which point into it.
"""

import json
import logging
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import CheckpointError, OptionError
from pyanticip.models.config import FEATURES, ModelConfig, front_width
from pyanticip.models.kinematics import MEASURES
from pyanticip.models.manifest import SLOW_GRAPH, STEP_GRAPH, WEIGHTS
from pyanticip.models.motion import CLIP, MotionTransformer
from pyanticip.models.trunk import Block

STEP_OUTPUTS = ("params", "hazards", "scalars", "gate", "taps_next", "pool_next")
SLOW_OUTPUTS = ("slow",)

SMALLEST_REFERENCE = 256
INLINE_LIMIT = 4096
"""Constants up to this many bytes may stay inside the graph; larger ones must be among the weights."""


def check_exportable(cfg: ModelConfig) -> None:
    """The live graphs know neither positions nor random scalars, and there is one for each pathway.

    :raises OptionError: a configuration with either, or without a slow pathway.
    """
    if cfg.positions != "none" or cfg.bias == "random":
        raise OptionError(
            "a live checkpoint needs positions='none' and bias 'trajectory' or 'none', "
            f"got positions={cfg.positions!r}, bias={cfg.bias!r}"
        )
    if not cfg.slow_layers:
        raise OptionError("a live checkpoint needs slow_layers of at least 1, got 0")


def _attend(
    block: Block, x: Tensor, bias: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A block for a single step x (1, D) against a ring's keys and values (1, H, P, d).

    Returns the step (1, D) and its key and value (1, H, 1, d).
    """
    attention = block.attention
    q, k, v = attention.qkv(block.norm1(x)).view(3, attention.heads, 1, -1).split(1, 0)
    scores = (q @ torch.cat((keys, k), 2).transpose(2, 3)) * q.shape[-1] ** -0.5 + bias
    mixed = scores.softmax(-1) @ torch.cat((values, v), 2)
    x = x + attention.out(mixed.reshape(1, -1))
    x = x + block.down(F.gelu(block.up(block.norm2(x))))
    return x, k, v


class _Graph(nn.Module):
    """What both graphs share: batch 1, activations (1, D).

    :param past: slots of the rings.
    :param stride: steps from one slot to the next.
    """

    kernel: Tensor

    def __init__(self, model: MotionTransformer, past: int, stride: int) -> None:
        super().__init__()
        self.model = model
        bias = model.trunk.bias
        if bias is not None and past:
            # Row r: the bias kernel over the ring's slots when slot r is next to be written, then over the
            # step itself. A table, because a look-up is one node where the formula is five.
            slots = torch.arange(past)
            ages = (slots[:, None] - slots[None, :] - 1) % past + 1
            ages = torch.cat((ages, torch.zeros(past, 1, dtype=ages.dtype)), 1)
            table = bias.kernel(past, stride).detach()[:, ages]  # (H, P, P + 1)
            self.register_buffer("kernel", table.transpose(0, 1)[:, :, None].contiguous())

    def front(self, features: Tensor, taps: Tensor) -> tuple[Tensor, Tensor]:
        """The last frames (T, D) with this one, and its filtered embedding (1, D).

        ``features`` are a row (1, 231) and, beside it, its kinematics (1, 177) where the model uses them:
        they come from outside, because as tensor operations they would be half of the graph.
        """
        model = self.model
        extra = features.shape[1] - FEATURES
        mean = F.pad(model.mean, (0, extra))
        gain = F.pad(model.visible / model.std, (0, extra), value=1.0)
        raw = model.condense(((features - mean) * gain).clamp(-CLIP, CLIP))
        joined = torch.cat((taps, raw), 0)
        return joined, (joined * model.filters).sum(0, keepdim=True)

    def bias(self, scalars: Tensor, slot: Tensor, mask: Tensor) -> Tensor:
        """The additive bias, broadcastable to (1, H, 1, P + 1), for scalars (1, 7), slot (1,) and a mask."""
        bias = self.model.trunk.bias
        if bias is None or mask.shape[0] == 1:
            return mask
        additive: Tensor = bias(scalars).view(1, bias.heads, 1, 1) * self.kernel[slot] + mask
        return additive


class StepGraph(_Graph):
    """One frame through everything but the slow blocks, whose last result comes in as ``held``."""

    def forward(
        self,
        features: Tensor,
        taps: Tensor,
        pool: Tensor,
        held: Tensor,
        given: Tensor,
        slot: Tensor,
        mask: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
    ) -> tuple[Tensor, ...]:
        """Returns params (1, 40), hazards (1, 50), scalars, gate, the next taps and pool, keys and values."""
        trunk, model = self.model.trunk, self.model
        joined, x = self.front(features, taps)
        fast, new = _attend_all(trunk.fast, x, self.bias(given, slot, mask), keys, values)
        assert trunk.pathway is not None
        mixed, _ = trunk.pathway(given, x, fast, held)
        refined = trunk.refined_head(mixed)
        hidden = trunk.norm(mixed)
        gate = trunk.commitment(hidden, refined[:, :1])
        recent = None
        if model.smoothed is not None:
            # As in ``model.recent``, without its sliding windows: there is one.
            measures = joined[:, -MEASURES:].t().reshape(1, -1)
            recent = torch.cat((measures, model.smoothed(joined[:, -model.direct :]).view(1, -1)), 1)
        params, logits = model.control.flat(hidden, gate, recent)
        return (params, torch.sigmoid(logits), refined, gate, joined[1:], pool + x, *new)


class SlowGraph(_Graph):
    """The frame that closes a pool: embed it, complete the mean, run the slow blocks."""

    def forward(
        self,
        features: Tensor,
        taps: Tensor,
        pool: Tensor,
        given: Tensor,
        slot: Tensor,
        mask: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
    ) -> tuple[Tensor, ...]:
        """Returns the slow pathway's new result (1, D), keys and values."""
        _, x = self.front(features, taps)
        mean = (pool + x) / self.model.cfg.slow_stride
        out, new = _attend_all(self.model.trunk.slow, mean, self.bias(given, slot, mask), keys, values)
        return (out, *new)


def _attend_all(
    blocks: nn.ModuleList, x: Tensor, bias: Tensor, keys: list[Tensor], values: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """A pathway's blocks; returns the step and each block's new key and value, one after the other."""
    new: list[Tensor] = []
    for block, k, v in zip(blocks, keys, values, strict=True):
        assert isinstance(block, Block)
        x, *both = _attend(block, x, bias, k, v)
        new += both
    return x, new


def export_graphs(model: MotionTransformer, folder: Path) -> None:
    """Write ``step.onnx`` and ``slow.onnx`` beside ``model.safetensors``, which must hold this model's
    weights.

    :raises CheckpointError: a graph whose output differs from torch by more than 1e-4.
    :raises OptionError: a configuration that the graphs do not cover.
    """
    cfg = model.cfg
    check_exportable(cfg)
    head = cfg.d_model // cfg.heads
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def rings(layers: int, past: int) -> tuple[list[Tensor], list[Tensor]]:
        keys, values = ([noise(1, cfg.heads, past, head) for _ in range(layers)] for _ in range(2))
        return keys, values

    def frame(*names: str) -> dict[str, Tensor]:
        shapes = {"features": (1, front_width(cfg)), "taps": (cfg.taps - 1, cfg.d_model)}
        return {name: noise(*shapes.get(name, (1, cfg.d_model))) for name in names}

    for name, graph, arguments, past, layers, outputs in (
        (
            STEP_GRAPH,
            StepGraph(model, cfg.fast_past, 1),
            frame("features", "taps", "pool", "held"),
            cfg.fast_past,
            cfg.fast_layers,
            STEP_OUTPUTS,
        ),
        (
            SLOW_GRAPH,
            SlowGraph(model, cfg.slow_past, cfg.slow_stride),
            frame("features", "taps", "pool"),
            cfg.slow_past,
            cfg.slow_layers,
            SLOW_OUTPUTS,
        ),
    ):
        steps = {
            "given": noise(1, 7),
            "slot": torch.zeros(1, dtype=torch.int64),
            "mask": torch.zeros(past + 1),
        }
        keys, values = rings(layers, past)
        inputs = [*arguments, *steps, *(f"{kind}_{i}" for kind in ("keys", "values") for i in range(layers))]
        named = [*outputs, *(f"{kind}_{i}" for i in range(layers) for kind in ("key", "value"))]
        everything = (*arguments.values(), *steps.values(), keys, values)
        _export(graph.eval(), everything, inputs, named, folder / name)


def _export(
    graph: nn.Module, arguments: tuple[Any, ...], inputs: list[str], outputs: list[str], path: Path
) -> None:
    import onnxruntime

    runtime: Any = onnxruntime
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph, arguments, dynamo=True, verbose=False, input_names=inputs, output_names=outputs
        )
        wanted = graph(*arguments)
    assert program is not None
    proto = program.model_proto
    _fold_residuals(proto.graph)
    kernel = getattr(graph, "kernel", torch.zeros(0))
    _point_into(proto, path.with_name(WEIGHTS), kernel.nbytes)
    # Names of source files and the exporter's notes have no business in a shipped file.
    for message in (proto, proto.graph, *proto.graph.node, *proto.graph.initializer):
        message.doc_string = ""
        del message.metadata_props[:]
    for message in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        message.doc_string = ""
        del message.metadata_props[:]
    path.write_bytes(proto.SerializeToString())
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    flat = [t for a in arguments for t in (a if isinstance(a, list) else [a])]
    known = {i.name for i in session.get_inputs()}
    feed = {n: t.numpy() for n, t in zip(inputs, flat, strict=True) if n in known}
    for name, got, tensor in zip(outputs, session.run(outputs, feed), wanted, strict=True):
        error = float(np.abs(got - tensor.numpy()).max())
        if not error <= 1e-4:
            raise CheckpointError(f"{path.name}: output {name} differs from torch by {error:.2g}")


def _fold_residuals(graph: Any) -> None:
    """Turn ``Add(x, Gemm(a, W))`` into ``Gemm(a, W, x)``: projection and residual in one node."""
    uses: dict[str, int] = {}
    for node in graph.node:
        for name in node.input:
            uses[name] = uses.get(name, 0) + 1
    outputs = {o.name for o in graph.output}
    known = {i.name for i in (*graph.initializer, *graph.input)}
    open_products: dict[str, tuple[Any, set[str]]] = {}
    gone = []
    for node in graph.node:
        if node.op_type == "Gemm" and len(node.input) == 2 and uses.get(node.output[0]) == 1:
            open_products[node.output[0]] = (node, set(known))
        if node.op_type == "Add":
            for product, other in (node.input, reversed(node.input)):
                found = open_products.get(product)
                # The other addend must be there before the product is computed, and have its shape.
                if found and product not in outputs and other in found[1]:
                    found[0].input.append(other)
                    found[0].output[0] = node.output[0]
                    gone.append(node)
                    break
        known.update(node.output)
    for node in gone:
        graph.node.remove(node)


def _point_into(proto: Any, weights: Path, table: int) -> None:
    """Replace every large constant of a graph by a reference to the same bytes of the safetensors file.

    One constant of ``table`` bytes, the bias kernel, is computed from weights and stays.
    """
    data = weights.read_bytes()
    (header,) = struct.unpack("<Q", data[:8])
    places: dict[bytes, tuple[int, int]] = {}
    for name, entry in json.loads(data[8 : 8 + header]).items():
        if name != "__metadata__":
            low, high = (8 + header + offset for offset in entry["data_offsets"])
            places.setdefault(data[low:high], (low, high - low))
    for tensor in proto.graph.initializer:
        raw = tensor.raw_data
        place = places.get(raw) if len(raw) >= SMALLEST_REFERENCE else None
        if place is None:
            if len(raw) > INLINE_LIMIT and len(raw) != table:
                raise CheckpointError(f"constant {tensor.name} ({len(raw)} bytes) is not in {weights.name}")
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = 1  # TensorProto.EXTERNAL
        for key, value in (("location", weights.name), ("offset", place[0]), ("length", place[1])):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
