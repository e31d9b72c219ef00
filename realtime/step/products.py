"""Rewrites small matrix products as sums of products, which a compiler fuses with the operations around them.

A library's product is a kernel of its own, and splits what is around it into further kernels.
"""

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
"""Maximum number of multiplications of a small product: its kernel takes no longer than its launch."""


class SmallProducts(CustomGraphPass):
    """Inductor pass that rewrites the small products of a graph (option ``post_grad_custom_pre_pass``)."""

    def __init__(self) -> None:
        aten = torch.ops.aten
        self._passes = PatternMatcherPass()
        for target in (aten.mm.default, aten.bmm.default):
            self._rewrite(CallFunction(target, Arg(), Arg()), _product)
        self._rewrite(
            CallFunction(aten.addmm.default, Arg(), Arg(), Arg()), lambda c, a, b: c + _product(a, b)
        )

    def _rewrite(self, pattern: CallFunction, replacement: Callable[..., Tensor]) -> None:
        @register_graph_pattern(pattern, pass_dict=self._passes, extra_check=_is_small)
        def _(match: Match, *args: object) -> None:
            match.replace_by_example(replacement, args)

    def __call__(self, graph: Graph) -> None:
        """Apply the pass."""
        self._passes.apply(graph)

    def uuid(self) -> bytes:
        """Key of this pass in the cache of compiled code."""
        return get_hash_for_files((str(Path(__file__)),))


def _is_small(match: Match) -> bool:
    a, b = (node.meta["val"] for node in match.args[-2:])
    return bool(a.numel() * b.shape[-1] <= SMALL)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
