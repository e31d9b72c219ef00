"""What is compared: a backbone, and four ways to train it further by equal steps on equal batches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyanticip.models.parts.planning.heads import SIMULATOR_LR
from pyanticip.models.parts.planning.signal import PlanningLosses, PlanningSignal
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.models.token.baseline import BaselineTransformer
from pyanticip.models.token.transformer import AnticipatoryTransformer
from training.planning.gpt2 import PlanningGPT2

Planner = AnticipatoryTransformer | BaselineTransformer | PlanningGPT2
"""A model that can plan."""


@dataclass(frozen=True)
class Arm:
    """One way to go on from the backbone."""

    anticipator: bool
    """Whether the anticipator is trained, and with it whatever the backbone's hidden states do for it."""
    plans: bool
    """Whether the first attention layer looks at plans: simulated in training, the model's own when
    judged."""
    tuned: bool
    """Whether the backbone's own weights are trained."""


ARMS: Final[Mapping[str, Arm]] = {
    "full": Arm(anticipator=True, plans=True, tuned=True),
    "without anticipator": Arm(anticipator=True, plans=False, tuned=True),
    "without fine-tuning": Arm(anticipator=True, plans=True, tuned=False),
    "base + training": Arm(anticipator=False, plans=False, tuned=True),
}
"""The rows of the paper's tables. ``without anticipator`` keeps it in training, for what it does to the
hidden states, and drops it and its plans afterwards; ``base + training`` only trains on."""

BACKBONE: Final = "backbone"
"""The backbone as it was."""

UNLIKELIHOOD: Final = 1.0
"""Weight of the unlikelihood beside the anticipator's cross-entropy."""


def signal_of(model: Planner) -> PlanningSignal:
    """The planning signal of a model that has one."""
    assert model.planning is not None
    return model.planning


def no_plans(model: Planner, rows: int, length: int) -> PlanChoice | None:
    """Plans that name nothing; ``None`` for a model that takes none."""
    if model.planning is None:
        return None
    shape = (rows, length, model.planning.slots)
    device = model.planning.log_frequency.device
    return PlanChoice(torch.zeros(shape, dtype=torch.int64, device=device), torch.zeros(shape, device=device))


@dataclass(frozen=True)
class Losses:
    """Of one batch: ``total`` is minimised; ``ce`` of the next token; ``planning`` where it is trained."""

    total: Tensor
    ce: Tensor
    planning: PlanningLosses | None


def losses(model: Planner, arm: Arm, ids: Tensor, length: int) -> Losses:
    """The losses of windows (B, length + 1 or more) of which the first ``length`` tokens are read."""
    inputs = ids[:, :length]
    plan = no_plans(model, len(ids), length)
    if arm.plans:
        plan = signal_of(model).simulate(ids, length)
    out = model(inputs) if plan is None else model(inputs, plan=plan)
    ce = F.cross_entropy(out.logits.float().flatten(0, 1), ids[:, 1 : length + 1].flatten())
    if not arm.anticipator:
        return Losses(ce, ce, None)
    parts = signal_of(model).losses(out.anticipation, ids)
    total = ce + parts.ce + UNLIKELIHOOD * parts.unlikelihood + parts.simulator
    return Losses(total, ce, parts)


class Optimisers:
    """AdamW for what an arm trains of a model, and Adam at a rate of its own for the simulator.

    :param lr: peak rate of the backbone's weights.
    :param planning_lr: peak rate of the planning signal's own, which start from next to nothing.
    """

    def __init__(self, model: Planner, arm: Arm, lr: float, planning_lr: float) -> None:
        signal = model.planning
        simulator = [] if signal is None else list(signal.simulator.parameters())
        own = [] if signal is None else [p for n, p in signal.named_parameters() if "simulator" not in n]
        planning = {id(p) for p in (*simulator, *own)}
        backbone = [p for p in model.parameters() if id(p) not in planning]
        for parameter in backbone:
            parameter.requires_grad_(arm.tuned)
        for parameter in (*own, *simulator):
            parameter.requires_grad_(arm.anticipator)
        groups: list[dict[str, Any]] = [
            {"params": params, "peak": peak}
            for params, peak, there in ((backbone, lr, arm.tuned), (own, planning_lr, arm.anticipator))
            if there and params
        ]
        self.trained = [p for group in groups for p in group["params"]]
        self.main = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), weight_decay=0.01)
        self.simulator = (
            torch.optim.Adam(simulator, lr=SIMULATOR_LR) if arm.anticipator and simulator else None
        )

    def step(self, total: Tensor, share: float, clip: float = 1.0) -> None:
        """One update, at this share of the peak rates."""
        self.main.zero_grad(set_to_none=True)
        if self.simulator is not None:
            self.simulator.zero_grad(set_to_none=True)
        torch.autograd.backward(total)
        for group in self.main.param_groups:
            group["lr"] = group["peak"] * share
        nn.utils.clip_grad_norm_(self.trained, clip)
        self.main.step()
        if self.simulator is not None:
            self.simulator.step()


def planning_copy(backbone: Planner, options: Mapping[str, Any], counts: Tensor) -> Planner:
    """A model with the backbone's weights and a fresh planning signal.

    :param options: ``plan_`` fields of the configuration.
    :param counts: (V,) of the training text's tokens.
    """
    made: Planner
    if isinstance(backbone, PlanningGPT2):
        import copy

        core = copy.deepcopy(backbone.backbone)
        for module in (core.transformer.h[0].attn.c_attn, core.transformer.h[0].attn.c_proj):
            # The copy's hooks would call the old model.
            module._forward_hooks.clear()
            module._forward_pre_hooks.clear()
        made = PlanningGPT2(core, **options)
    else:
        fields = {**backbone.cfg.to_dict(), "planning": True, "plan_inference": "passes", **options}
        cfg = type(backbone.cfg).from_dict(fields)
        if isinstance(backbone, BaselineTransformer):
            made = BaselineTransformer(cfg, matched=False)
        else:
            made = AnticipatoryTransformer(cfg)
        made.load_state_dict(backbone.state_dict(), strict=False)
    signal = signal_of(made)
    signal.anticipator.start_from(made.token.weight)
    signal.set_frequencies(counts)
    return made
