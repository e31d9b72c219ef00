"""Small matrix products as sums of products, which a compiler fuses with what comes before and after them: a
library's product is a kernel of its own, and so is all that stands around it."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.pattern_matcher import (
    Arg,
    CallFunction,
    Match,
    PatternMatcherPass,
    register_graph_pattern,
)
from torch.fx import Graph

SMALL = 1 << 21
"""Multiplications of a product up to which it is small: then a kernel takes as long as its launch."""


class SmallProducts(CustomGraphPass):
    """Rewrites the small products of a graph, for the option ``post_grad_custom_pre_pass`` of Inductor."""

    def __init__(self) -> None:
        aten = torch.ops.aten
        self._passes = PatternMatcherPass()
        for target in (aten.mm.default, aten.bmm.default):
            self._rewrite(CallFunction(target, Arg(), Arg()), _product)
        self._rewrite(
            CallFunction(aten.addmm.default, Arg(), Arg(), Arg()), lambda c, a, b: c + _product(a, b)
        )

    def _rewrite(self, pattern: CallFunction, way: Callable[..., Tensor]) -> None:
        @register_graph_pattern(pattern, pass_dict=self._passes, extra_check=_small)
        def _(match: Match, *given: object) -> None:
            match.replace_by_example(way, given)

    def __call__(self, graph: Graph) -> None:
        """Rewrite them."""
        self._passes.apply(graph)

    def uuid(self) -> bytes:
        """What stands for this pass where compiled code is kept."""
        return get_hash_for_files((str(Path(__file__)),))


def _small(match: Match) -> bool:
    a, b = (node.meta["val"] for node in match.args[-2:])
    return bool(a.numel() * b.shape[-1] <= SMALL)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
