"""The two ONNX graphs of a motion model: one step of the fast pathway, and one pool of the slow one.

Both hold the blocks of their pathway and nothing else: what comes before (front-end, bias, pools) and after
(gates, heads) is computed outside, by ``_core.StepState``. They take the state as inputs and return only what
is new: the runtime keeps the rings and writes the new keys and values into them, so that no graph copies a
ring. Weights stay in the safetensors file beside the graphs, which point into it.
"""

import json
import logging
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.errors import CheckpointError
from pyanticip.models.checkpoint.manifest import SLOW_GRAPH, STEP_GRAPH, WEIGHTS
from pyanticip.models.checkpoint.runtime import open_session
from pyanticip.models.core.block import Block
from pyanticip.models.motion.transformer import MotionTransformer

STEP_OUTPUTS = ("fast",)
SLOW_OUTPUTS = ("slow",)

SPEAKERS = ("torch.onnx._internal.exporter._registration", "onnx_ir._convenience")
"""Loggers of the exporter that warn of what no user can change."""

SMALLEST_REFERENCE = 256
INLINE_LIMIT = 4096
"""Constants up to this many bytes may stay inside the graph; larger ones must be among the weights."""


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


class PathwayGraph(nn.Module):
    """The blocks of a pathway for one step: of the fast one a frame, of the slow one a pool that has closed.

    What is around them comes from outside (``_core.StepState``), because as tensor operations it would be two
    thirds of the graph.
    """

    def __init__(self, blocks: nn.ModuleList) -> None:
        super().__init__()
        self.blocks = blocks

    def forward(
        self, x: Tensor, bias: Tensor, keys: list[Tensor], values: list[Tensor]
    ) -> tuple[Tensor, ...]:
        """Returns the pathway's result (1, D) for x (1, D), and each block's new key and value.

        ``bias`` (1, H, 1, P + 1) is the additive bias of the ring's slots and of the step itself.
        """
        new: list[Tensor] = []
        for block, k, v in zip(self.blocks, keys, values, strict=True):
            assert isinstance(block, Block)
            x, *both = _attend(block, x, bias, k, v)
            new += both
        return (x, *new)


def export_graphs(model: MotionTransformer, folder: Path) -> None:
    """Write ``step.onnx`` and ``slow.onnx`` beside ``model.safetensors``, which must hold this model's
    weights.

    :raises CheckpointError: a graph whose output differs from torch by more than 1e-4.
    """
    cfg = model.cfg
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def rings(layers: int, past: int) -> dict[str, Any]:
        shape = (1, cfg.heads, past, cfg.d_model // cfg.heads)
        keys, values = ([noise(*shape) for _ in range(layers)] for _ in range(2))
        return {"bias": noise(1, cfg.heads, 1, past + 1), "keys": keys, "values": values}

    trunk = model.trunk
    step = {"x": noise(1, cfg.d_model), **rings(cfg.fast_layers, cfg.fast_past)}
    slow = {"mean": noise(1, cfg.d_model), **rings(cfg.slow_layers, cfg.slow_past)}
    export_graph(PathwayGraph(trunk.fast), step, STEP_OUTPUTS, folder / STEP_GRAPH)
    export_graph(PathwayGraph(trunk.slow), slow, SLOW_OUTPUTS, folder / SLOW_GRAPH)


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Without the exporter's warnings, which are about its own parts."""
    speakers = [logging.getLogger(name) for name in SPEAKERS]
    levels = [speaker.level for speaker in speakers]
    for speaker in speakers:
        speaker.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for speaker, level in zip(speakers, levels, strict=True):
            speaker.setLevel(level)


def export_graph(
    graph: nn.Module,
    arguments: dict[str, Any],
    outputs: tuple[str, ...],
    path: Path,
    *,
    tolerance: float = 1e-4,
) -> None:
    """Write a graph of these arguments, by name; a list of keys or values has one name for each block.

    :raises CheckpointError: an output differs from torch by more than the tolerance, or a large constant is
        not in the safetensors file beside the graph.
    """
    feed: dict[str, Tensor] = {}
    for name, value in arguments.items():
        if isinstance(value, list):
            feed |= {f"{name}_{i}": tensor for i, tensor in enumerate(value)}
        else:
            feed[name] = value
    blocks = len(arguments.get("keys", ()))
    named = [*outputs, *(f"{kind}_{i}" for i in range(blocks) for kind in ("key", "value"))]
    given = tuple(arguments.values())
    session = write_graph(graph.eval(), given, list(feed), named, path, _fold_residuals)
    with torch.no_grad():
        wanted = graph(*given)
    read = {i.name: feed[i.name].numpy() for i in session.get_inputs()}
    for name, got, tensor in zip(named, session.run(named, read), wanted, strict=True):
        error = float(np.abs(got - tensor.numpy()).max())
        if not error <= tolerance:
            raise CheckpointError(f"{path.name}: output {name} differs from torch by {error:.2g}")


def write_graph(
    graph: nn.Module,
    arguments: tuple[Any, ...],
    inputs: list[str],
    outputs: list[str],
    path: Path,
    change: Callable[[Any], None],
    *,
    optimize: bool = True,
    largest: int = INLINE_LIMIT,
) -> Any:
    """Trace a graph, ``change`` what came of it, and write it; its weights are those of the safetensors file
    beside it.

    :returns: a session of the file.
    :raises CheckpointError: a constant of over ``largest`` bytes is not in that file.
    """
    with quiet_exporter(), torch.no_grad():
        program = torch.onnx.export(
            graph,
            arguments,
            dynamo=True,
            optimize=optimize,
            verbose=False,
            input_names=inputs,
            output_names=outputs,
        )
    assert program is not None
    proto = program.model_proto
    change(proto.graph)
    _point_into(proto, path.with_name(WEIGHTS), largest)
    _strip(proto)
    path.write_bytes(proto.SerializeToString())
    return open_session(path)


def _strip(proto: Any) -> None:
    """Take out names of source files and the exporter's notes: they have no business in a shipped file."""
    for message in (proto, proto.graph, *proto.graph.node, *proto.graph.initializer, *proto.functions):
        message.doc_string = ""
        del message.metadata_props[:]
    for message in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        message.doc_string = ""
        del message.metadata_props[:]
    for function in proto.functions:
        for message in (*function.node, *function.value_info):
            message.doc_string = ""
            del message.metadata_props[:]


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


def _point_into(proto: Any, weights: Path, largest: int) -> None:
    """Replace every large constant of a graph by a reference to the same bytes of the safetensors file.

    :raises CheckpointError: one of over ``largest`` bytes is not there.
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
            if len(raw) > largest:
                raise CheckpointError(f"constant {tensor.name} ({len(raw)} bytes) is not in {weights.name}")
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = 1  # TensorProto.EXTERNAL
        for key, value in (("location", weights.name), ("offset", place[0]), ("length", place[1])):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
