"""Models of the family: combinations of options, a few that cover all pairs, and helpers to run a model."""

import dataclasses
import itertools
import re

import numpy as np
import torch

from pyanticip._core import MotionStream
from pyanticip.bridge import bridge_scalars
from pyanticip.models import (
    AnticipatoryTransformer,
    BaselineTransformer,
    ModelConfig,
    MotionTransformer,
    load_motion_model,
    save_checkpoint,
)
from pyanticip.models.parts.planning.targets import PlanChoice
from pyanticip.models.parts.registry import PARTS
from pyanticip.vocabulary import FEATURES
from realtime.step.rust import stream_sizes

FACTORS = {
    "positions": ("none", *PARTS["positions"]),
    "bias": ("none", "trajectory", "random"),
    "control_field": (False, True),
    "planning": (False, True),
    "slow_stride": (1, 3),
}
KINDS = {
    "anticipatory": AnticipatoryTransformer,
    "baseline": BaselineTransformer,
    "motion": MotionTransformer,
}
VOCAB = 12


def product(**more):
    """Every combination of the factors, and of ``more``, as changes to a configuration."""
    factors = FACTORS | more
    return [dict(zip(factors, values, strict=True)) for values in itertools.product(*factors.values())]


def pairs(member):
    """The pairs of choices in a combination."""
    return set(itertools.combinations(member.items(), 2))


def covering(**more):
    """Few combinations in which every pair of choices occurs (greedy)."""
    every = product(**more)
    left = set().union(*map(pairs, every))
    chosen = []
    while left:
        best = max(every, key=lambda member: len(pairs(member) & left))
        chosen.append(best)
        left -= pairs(best)
    return chosen


def name_of(changes):
    """A short name of a combination for a test's id."""
    return "-".join(f"{key}={value}" for key, value in changes.items()) or "default"


SIZES = {"d_model": 16, "heads": 4, "fast_layers": 2, "slow_layers": 1, "ff": 24, "window": 8, "pools": 4}
PRISM = {"positions": "prism", "prism_cursors": 5, "prism_width": 4, "prism_places": 20, "prism_hidden": 8}
MOTION = {"taps": 6, "control_hidden": 8, "kinematics": False}


def config(kind, **changes):
    """A configuration so small that all rings wrap within 40 steps, in which every part has an effect."""
    cfg = {**SIZES, "dropout": 0.0}
    if changes.get("planning"):
        cfg |= {"plan_tokens": 5} | ({"plan_codes": 20} if kind == "motion" else {})
    if kind == "motion":
        return ModelConfig(**{**cfg, **MOTION, **changes})
    return ModelConfig.small(**{**cfg, "vocab": VOCAB, "max_seq_len": 40, **changes})


def build(kind, dtype=torch.float64, noise=0.2, seed=0, **changes):
    """A model with noise on its initial weights, so that every part matters."""
    torch.manual_seed(seed)
    model = KINDS[kind](config(kind, **changes))
    if kind == "motion" and model.planning is not None:
        model.codebook.fit(torch.randn(200, 231), rounds=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
        if model.planning is not None:
            model.planning.set_frequencies(torch.rand(model.planning.vocab))
        if kind == "motion" and noise >= 0.2:
            columns = model.cfg.columns
            model.set_normalisation(torch.randn(columns), torch.rand(columns) + 0.5)
        if kind == "motion" and model.trusted is not None:
            model.trusted.last.weight.normal_(0.0, 10 * noise)
            model.trusted.last.bias.zero_()
    return model.to(dtype).eval()


IN_BYTES = re.compile(r"(attention\.(qkv|out)|up|down|front|poses\.inlet)\.weight$")


def as_kept(model):
    """A motion model with weights rounded as the Rust core stores them, so that steps compare exactly.

    Weights of the layers inside the blocks are bytes relative to the largest of their row.
    """
    for name, parameter in model.named_parameters():
        if IN_BYTES.search(name):
            with torch.no_grad():
                weight = parameter.float()
                one = weight.abs().amax(1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
                # So that all of its products with bytes are exact.
                one = (one.view(torch.int32) & ~0x7F).view(torch.float32)
                parameter.copy_((weight / one).round() * one)
    return model


def motion_stream(model, tensors=None, **changes):
    """The Rust core's step with the weights of a motion model; ``tensors`` replace some."""
    own = {name: t.float().contiguous().numpy() for name, t in model.state_dict().items()}
    return MotionStream({**own, **(tensors or {})}, **{**stream_sizes(model.cfg), **changes})


def learn(model, loss, steps, lr):
    """Minimise ``loss()``, and leave the model in evaluation mode."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    for _ in range(steps):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    model.eval()


def inputs(kind, rows, length, dtype=torch.float64):
    """Tokens or feature rows."""
    if kind == "motion":
        return torch.randn(rows, length, FEATURES, dtype=dtype)
    return torch.randint(VOCAB, (rows, length))


def rows_of(rng, axes):
    """Random feature rows (L, FEATURES) whose rotations are the nearest to matrices (L, 22, 3, 3)."""
    rows = rng.standard_normal((len(axes), FEATURES)).astype(np.float32)
    rows[:, :132] = np.linalg.qr(axes)[0][..., :2].swapaxes(-1, -2).reshape(len(axes), 132)
    return rows


def given(model, x, mode):
    """The scalars for a token model in mode ``external``, those of its own embeddings; else None."""
    if mode != "external" or x.is_floating_point():
        return None
    return bridge_scalars(model.embed(x).detach()).to(model.token.weight)


def run(model, x, state=None, mode=None, scalars=None):
    """The output for a whole sequence; with a state, for a chunk, and the state after it."""
    more = {"scalars": scalars, "mode": mode}
    return model(x, state=state, **{name: value for name, value in more.items() if value is not None})


def said(out):
    """All outputs of a model by name: tensors (B, L, ...)."""
    found = {}
    for field in dataclasses.fields(out):
        value = getattr(out, field.name)
        if isinstance(value, PlanChoice):
            found["weights"] = value.weights
            # Slots without weight may hold any code.
            found["codes"] = torch.where(value.weights > 0, value.codes, -1).double()
        elif field.name == "field" and value is not None:
            found["field"] = value.live()
        elif isinstance(value, torch.Tensor) and field.name != "head":
            found[field.name] = value
    return found


def another_checkpoint(folder):
    """Save the packaged model with slightly changed biases, and return its folder."""
    model = load_motion_model(None)
    with torch.no_grad():
        for name, bias in model.named_parameters():
            if name.endswith("bias"):
                bias += 0.05
    return save_checkpoint(folder, model)


def on_a_gpu(model):
    """Replace every tensor of the model by one on a (fake) GPU."""
    for module in model.modules():
        for name, one in module._parameters.items():
            if one is not None:
                like = torch.empty(one.shape, dtype=one.dtype, device="cuda")
                module._parameters[name] = torch.nn.Parameter(like, requires_grad=False)
        for name, one in module._buffers.items():
            if one is not None:
                module._buffers[name] = torch.empty(one.shape, dtype=one.dtype, device="cuda")
    return model
