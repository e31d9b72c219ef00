"""What models of the family say of given rows, and how they would learn, with weights of a plain rule."""

import hashlib

import torch
from support.golden import hold
from support.models import KINDS, PRISM, VOCAB, config, given, name_of, run, said

from pyanticip.vocabulary import FEATURES

LENGTH = 30
MEMBERS = {
    "motion": [
        {},
        {"kinematics": True, "d_model": 32, "taps": 12, "strokes": True},
        {"kinematics": True, "d_model": 32, "taps": 12, "twin": True},
        {"control_field": True, "planning": True, "slow_stride": 3},
        {"positions": "trajectory", "bias": "random"},
        PRISM,
    ],
    "anticipatory": [
        *({"positions": scheme} for scheme in ("sinusoidal", "rope", "alibi", "trajectory")),
        {"bias": "trajectory", "mode": "external"},
        {"bias": "random", "mode": "initial"},
        {"planning": True, "plan_refine": 3},
        {"planning": True, "plan_inference": "recurrent"},
        {"control_field": True, "slow_stride": 4},
        {**PRISM, "prism_copy": True},
    ],
    "baseline": [{}, {"planning": True}, {**PRISM, "prism_again": 3, "prism_absolute": True}],
}


def waves(shape: torch.Size | tuple[int, ...], name: str) -> torch.Tensor:
    """Numbers in -1..1 that depend on a name and on nothing else."""
    turn = int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big") / 65536
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float64) * (1.0 + turn) + 7.0 * turn).reshape(shape)


def told(kind: str, mode: str | None = None, **changes: object) -> dict[str, object]:
    """Three steps of everything that is said, and what each parameter would change."""
    model = KINDS[kind](config(kind, **changes)).double().eval()
    if kind == "motion" and model.planning is not None:
        model.codebook.fit(waves((200, FEATURES), "codes").float(), rounds=2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.2 * waves(parameter.shape, name) - 0.9 * parameter)
    x = (
        waves((2, LENGTH, 279), "rows")
        if kind == "motion"
        else (waves((2, LENGTH), "ids") * 50).long() % VOCAB
    )
    out = said(run(model, x, mode=mode, scalars=given(model, x, mode)))
    found = {name: value.detach()[0, [3, 17, -1]].flatten()[:24].tolist() for name, value in out.items()}
    loss = sum((value * waves(value.shape, name)).sum() for name, value in out.items() if value.requires_grad)
    loss.backward()
    learned = [p.grad.norm().item() for p in model.parameters() if p.grad is not None]
    return {**found, "learned": sum(learned), "parameters": len(learned)}


def test_models_say_what_they_said() -> None:
    torch.manual_seed(0)
    cases = ((kind, changes) for kind, members in MEMBERS.items() for changes in members)
    hold("models", {f"{kind}-{name_of(changes)}": told(kind, **changes) for kind, changes in cases})
