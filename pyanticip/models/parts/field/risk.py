"""The control field's risk, taught by frames that are known to be bad.

The risk of a step is dh >= 0. Read as a hazard, the chance that a frame is bad is ``1 - exp(-dh)``: as dh is
a softplus, that is the sigmoid of what goes into it, and the likelihood below is that of logistic
regression.
"""

import torch
from torch import Tensor

from pyanticip.models.core.part import GateTrace

SMALLEST = 1e-6
"""Risks below this are taken for it where their logarithm is: it is of the order of float32's precision."""


def risk_loss(
    trace: GateTrace,
    bad: Tensor,
    weight: Tensor,
    stride: int,
    divisor: float | None = None,
    distrust: Tensor | None = None,
) -> Tensor:
    """Negative log-likelihood of which frames are bad under the risks, nats a frame, mean over the blocks.

    That of the frames as they came is added to it.

    A pool of the slow pathway is bad if any of its frames is, and counts once for each that is judged.

    Args:
        trace: of fields over whole windows from their start.
        bad: (B, L) 1 for bad frames, else 0.
        weight: (B, L) 1 for frames that are judged, else 0.
        stride: frames of a pool; 1 where the slow pathway has every frame.
        divisor: what sums over frames are divided by to become means; by default the sum of the weights.
        distrust: (B, L) risk of the frames as they came, where the model has one.
    """
    frames = weight.sum().clamp(min=1.0) if divisor is None else max(divisor, 1e-6)
    sums = [(surprise(block.risk, bad) * weight).sum() for block in trace.fast]
    for block in trace.slow:
        pools = block.risk.shape[1]
        whole = slice(0, pools * stride)
        labels = bad[:, whole].reshape(len(bad), pools, stride)
        labels = labels.amax(2) if pools else labels[..., 0]
        each = surprise(block.risk, labels).repeat_interleave(stride, 1)
        sums.append((each * weight[:, whole]).sum())
    total = torch.stack(sums).mean() / frames
    return total if distrust is None else total + distrust_loss(distrust, bad, weight, divisor)


def distrust_loss(distrust: Tensor, bad: Tensor, weight: Tensor, divisor: float | None = None) -> Tensor:
    """The same of the frames as they came alone, ``distrust`` (B, L)."""
    frames = weight.sum().clamp(min=1.0) if divisor is None else max(divisor, 1e-6)
    return (surprise(distrust, bad) * weight).sum() / frames


def surprise(risk: Tensor, bad: Tensor) -> Tensor:
    """Negative log-likelihood of ``bad`` (1 or 0) under risks of the same shape."""
    seen = torch.log(-torch.expm1(-risk.clamp(min=SMALLEST)))
    return torch.where(bad > 0.5, -seen, risk)
