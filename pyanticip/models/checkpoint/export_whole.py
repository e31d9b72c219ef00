"""Whole-step graphs: any motion model as ONNX, the state of its stream as inputs and outputs.

The graphs of :mod:`pyanticip.models.checkpoint.export` hold the blocks alone and leave the rest to the Rust
core, which knows the shipped kind of model. Models with positions, control field, plan or random bias, and
those without slow pathway, go live through these: one graph is one frame from its feature row to the
controls. Where the slow pathway runs once every few frames there are two, one for the frames that close a
pool.

Inputs are ``row`` (1, the columns it reads), with planning ``boost`` (1, 1, codes), and ``state_0`` and so
on, the tensors of the state in their order. Outputs are ``params`` (8, 5), ``hazards`` (2, 25), ``scalars``
(7,), ``gate`` (1,), ``hidden`` (D,), with a control field ``field`` (blocks, 2), with planning ``codes`` and
``weights`` (K,), and ``next_0`` and so on for those tensors of the state that the frame changes.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyanticip.errors import CheckpointError
from pyanticip.models.checkpoint.export import write_graph
from pyanticip.models.checkpoint.manifest import SLOW_GRAPH, STEP_GRAPH
from pyanticip.models.motion.transformer import MotionState, MotionTransformer

TOLERANCE = 1e-3
"""How far a graph may be from torch, of 1 or of a tensor's largest value: rounding, where it is felt most.
(Trained models are within 1e-5; positions that content moves and gates next to shut amplify it.)"""

_LARGEST_INLINE = 1 << 20


class WholeStep(nn.Module):
    """One frame of a model as a function of tensors alone.

    :param due: whether the frame closes a pool.
    """

    def __init__(self, model: MotionTransformer, due: bool) -> None:
        super().__init__()
        self.model = model
        self.due = due
        self.template = model.initial_state(1)

    def inputs(self) -> list[str]:
        """The names of :meth:`forward`'s arguments."""
        boost = ["boost"] if self.model.planning is not None else []
        return ["row", *boost, *(f"state_{i}" for i, _ in enumerate(self.template.tensors()))]

    def outputs(self) -> list[str]:
        """The names of what :meth:`forward` returns."""
        field = ["field"] if self.model.cfg.control_field is not None else []
        plan = ["codes", "weights"] if self.model.planning is not None else []
        told = ["params", "hazards", "scalars", "gate", "hidden", *field, *plan]
        return [*told, *(f"next_{i}" for i, _ in enumerate(self.template.tensors()))]

    def forward(self, row: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """See :mod:`pyanticip.models.checkpoint.export_whole`."""
        boost, tensors = (rest[0], rest[1:]) if self.model.planning is not None else (None, rest)
        # Copies, for a step writes its rings in place.
        given = iter([tensor.clone() for tensor in tensors])
        state: MotionState = self.template.map(lambda _: next(given))
        out, after = self.model.step(row, state, due=self.due, boost=boost)
        told = [
            out.params[0, 0],
            torch.sigmoid(out.events[0, 0]),
            out.scalars[0, 0],
            out.gate[0],
            out.hidden[0, 0],
        ]
        if out.field is not None:
            told.append(out.field.live()[0, 0])
        if out.plan is not None:
            told += [out.plan.codes[0, 0], out.plan.weights[0, 0]]
        return (*told, *after.tensors())


def export_whole(model: MotionTransformer, folder: Path) -> None:
    """Write ``step.onnx``, and ``slow.onnx`` where pools close on some frames only, beside
    ``model.safetensors``, which must hold this model's weights.

    :raises CheckpointError: a graph whose output differs from torch by more than rounding can.
    """
    graphs = {STEP_GRAPH: False, SLOW_GRAPH: True} if model.cfg.pooled else {STEP_GRAPH: True}
    for name, due in graphs.items():
        _export(WholeStep(model, due).eval(), folder / name)


def _export(graph: WholeStep, path: Path) -> None:
    """Write one graph and compare it with torch over some frames."""
    columns = graph.model.cfg.columns
    generator = torch.Generator().manual_seed(0)
    row = torch.randn(1, columns, generator=generator)
    boost = []
    if graph.model.planning is not None:
        boost = [0.1 * torch.randn(1, 1, graph.model.planning.vocab, generator=generator)]
    state = [tensor.clone() for tensor in graph.template.tensors()]
    names, outputs = graph.inputs(), graph.outputs()
    given = (row, *boost, *state)
    with torch.no_grad():
        # Once as it is: what parts compute of their weights alone, and keep, is then there to be traced.
        graph(*given)
    # Unoptimised: the runtime does that as it loads, and the weights stay what they are in their file.
    how: dict[str, Any] = {"optimize": False, "largest": _LARGEST_INLINE}
    session = write_graph(graph, given, names, outputs, path, _drop_unchanged, **how)
    named = [output.name for output in session.get_outputs()]
    reads = [node.name for node in session.get_inputs()]
    stride = graph.model.cfg.slow_stride
    other = WholeStep(graph.model, not graph.due).eval()
    for frame in range(2 * stride + 3 if graph.model.cfg.pooled else 4):
        row = torch.randn(1, columns, generator=generator)
        mine = not graph.model.cfg.pooled or ((frame + 1) % stride == 0) == graph.due
        with torch.no_grad():
            said = (graph if mine else other)(row, *boost, *state)
        wanted = dict(zip(outputs, said, strict=True))
        if mine:
            feed = dict(zip(names, (row, *boost, *state), strict=True))
            found = session.run(named, {name: feed[name].numpy() for name in reads})
            for name, got in zip(named, found, strict=True):
                right = wanted[name].double().numpy()
                size = max(1.0, float(np.abs(right).max(initial=0.0)))
                error = float(np.abs(got.astype(np.float64) - right).max(initial=0.0)) / size
                if not error <= TOLERANCE:
                    raise CheckpointError(f"{path.name}: output {name} differs from torch by {error:.2g}")
        state = [wanted[name] for name in outputs if name.startswith("next_")]


def _drop_unchanged(graph: Any) -> None:
    """Leave out the outputs that are an input, handed through."""
    made = {output: node for node in graph.node for output in node.output}
    inputs = {value.name for value in graph.input}
    for output in list(graph.output):
        name = output.name
        while name in made and made[name].op_type == "Identity":
            name = made[name].input[0]
        if name in inputs:
            graph.output.remove(output)
