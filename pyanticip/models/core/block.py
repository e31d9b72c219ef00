"""One block of a pathway, and a pathway of blocks."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.core.attention import Layout, Ring, TrajectoryAttention
from pyanticip.models.core.part import Gate, GateTrace, Part, Positions
from pyanticip.models.core.plan import Plan
from pyanticip.models.core.steering import Extras

if TYPE_CHECKING:
    from pyanticip.models.config import ModelConfig


class Block(nn.Module):
    """Pre-norm attention and feed-forward: ``x += drop(attn(LN x)); x += FFN(LN x)``.

    With a gate (:class:`~pyanticip.models.core.part.Gate`) keys are gated and the feed-forward output is
    scaled.

    Args:
        positions: the position scheme; if it has vectors, the block has its own weights of them.
    """

    def __init__(self, cfg: "ModelConfig", past: int, positions: Positions) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(cfg.d_model)
        self.attention = TrajectoryAttention(cfg.d_model, cfg.heads, past)
        self.norm2 = nn.LayerNorm(cfg.d_model)
        self.up = nn.Linear(cfg.d_model, cfg.ff)
        self.down = nn.Linear(cfg.ff, cfg.d_model)
        self.dropout = nn.Dropout(cfg.dropout)
        self.ffn_dropout = nn.Dropout(cfg.dropout if cfg.ffn_dropout else 0.0)
        self.field: Gate | None = cfg.build("control_field")
        self.mix = positions.mix(cfg.heads)

    def initial_state(self, batch: int) -> Ring:
        """The state before the first step, for ``batch`` rows."""
        return self.attention.initial_state(
            batch, None if self.field is None else self.field.initial_state(batch)
        )

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        ring: Ring | None,
        plan: Plan | None = None,
        new: Tensor | None = None,
    ) -> tuple[Tensor, Ring | None, Any]:
        """Run the block over a chunk (B, L, D); returns its output, the ring and the gate's output.

        Args:
            plan: predicted codes that attention reads besides the past.
            new: (B,) how many steps of the chunk are real in each row; ``None``: all of them.
        """
        gating, after = None, None
        if self.field is not None:
            gating, after = self.field(x, None if ring is None else ring.field, new)
        extras: Extras | None = None
        if gating is not None or self.mix is not None:
            weights = () if self.mix is None else self.mix()
            extras = Extras(None if gating is None else gating.log_gate, *weights)
        mixed, ring = self.attention(self.norm1(x), layout, ring, extras, plan)
        x = x + self.dropout(mixed)
        change = self.ffn_dropout(self.down(F.gelu(self.up(self.norm2(x)))))
        if gating is None:
            x = x + change
        else:
            x = torch.addcmul(x, change, gating.scale[..., None].to(change.dtype))
        if ring is not None and after is not None:
            ring = replace(ring, field=after)
        return x, ring, gating


class MLPBlock(nn.Module):
    """A residual block ``x += drop(down(drop(gelu(up(LN x)))))``, initially the identity.

    Args:
        inner: width of the hidden layer.
    """

    def __init__(self, width: int, inner: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.drop = nn.Dropout(dropout)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block on (..., width)."""
        result: Tensor = x + self.drop(self.down(self.drop(F.gelu(self.up(self.norm(x))))))
        return result


@dataclass(frozen=True)
class Pathway:
    """Result of a pathway over a chunk: ``out`` (B, L, D), the blocks' ``rings`` after it, the outputs
    ``gating`` of their gates, the ring of position vectors ``stored`` after it, and the sum ``pool`` (B, D)
    of the steps of the open pool."""

    out: Tensor
    rings: tuple[Ring, ...] = ()
    gating: tuple[Any, ...] = ()
    stored: Tensor | None = None
    pool: Tensor | None = None


def run_blocks(
    blocks: nn.ModuleList,
    x: Tensor,
    layout: Layout,
    rings: tuple[Ring, ...] | None,
    *,
    plan: Plan | None = None,
    new: Tensor | None = None,
) -> Pathway:
    """Run a pathway's blocks in order; only the first attends to the plan."""
    after: list[Ring] = []
    gatings: list[Any] = []
    for i, block in enumerate(blocks):
        x, ring, gating = block(x, layout, None if rings is None else rings[i], plan if i == 0 else None, new)
        if ring is not None:
            after.append(ring)
        if gating is not None:
            gatings.append(gating)
    return Pathway(x, tuple(after), tuple(gatings), layout.stored)


def fit(blocks: nn.ModuleList, rings: tuple[Ring, ...]) -> bool:
    """Whether the shape and dtype of rings match these blocks, which are all alike."""
    if len(rings) != len(blocks):
        return False
    if not rings:
        return True
    ring, block = rings[0], blocks[0]
    assert isinstance(block, Block)
    attention, k = block.attention, ring.k
    weight = attention.qkv.weight
    shape = (attention.past + 1, attention.heads, weight.shape[1] // attention.heads)
    return k.shape[1:] == shape and k.dtype == weight.dtype and bool(ring.field) == (block.field is not None)


def blocks_of(modules: nn.ModuleList) -> list[Block]:
    """A pathway's blocks."""
    return [block for block in modules if isinstance(block, Block)]


def first_norm(blocks: nn.ModuleList) -> nn.LayerNorm:
    """The norm before the first block's attention."""
    return blocks_of(blocks)[0].norm1


def first_gate(blocks: nn.ModuleList) -> Gate | None:
    """The first block's gate."""
    return blocks_of(blocks)[0].field


def gate_trace(blocks: nn.ModuleList, fast: tuple[Any, ...], slow: tuple[Any, ...] = ()) -> GateTrace | None:
    """The trace of a model's gates, ``None`` without any."""
    gate = first_gate(blocks)
    return None if gate is None else gate.trace(fast, slow)


def reset_parts(model: nn.Module) -> None:
    """Initialise the weights of a model's parts."""
    for module in model.modules():
        if isinstance(module, Part):
            module.reset_parameters()


def init_weights(module: nn.Module) -> None:
    """Initialise linear and embedding weights to N(0, .02), biases to 0, layer norms to (1, 0)."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
