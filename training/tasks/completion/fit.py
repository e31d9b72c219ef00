"""Train the network that completes a body: whole bodies, of which most joints are hidden."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pyanticip.motion.rotations import multiply
from pyanticip.vocabulary import RATE
from training.data.augment import mirror
from training.data.batches import shares
from training.data.corrupt import SUITS
from training.report.tables import Say
from training.run.averaged import check_loss
from training.tasks.completion.net import JOINTS, CompletionNet, joint_positions, matrices, nearest, product
from training.tasks.completion.teacher import parameters
from training.teacher.kinematics import MIRROR, PARENTS

Array = NDArray[np.float64]

WINDOWS: Final = 24
WINDOW: Final = 128
"""Frames: a little more than twice the longest period that the teacher looks for."""
WARM: Final = 12
"""Frames at the start of a window that are not judged."""
PEAK: Final = 3e-3
"""Highest learning rate; it falls as a cosine."""
DECAY: Final = 0.2
"""Of the weights."""
WHICH: Final[tuple[tuple[tuple[int, ...], float], ...]] = (
    (SUITS["six"], 0.4),
    (SUITS["three"], 0.2),
    (SUITS["ten"], 0.06),
    ((0, 5, 9, 13), 0.06),
    ((0, 16, 20), 0.04),
    ((0, 3, 5, 16, 20), 0.05),
    ((9,), 0.04),
    (SUITS["hand"], 0.05),
)
"""Which joints are measured, and how often; else some at random. The hips alone are left at rest."""
ENDS: Final = [8, 9, 12, 13, 16, 17, 20, 21]
"""Whose places count more: they make most of the sound."""
TRUNK_AND_ARMS: Final = slice(1, 14)
LEGS: Final = (slice(14, 18), slice(18, 22))
CROSSED: Final = 0.3
"""How often trunk and arms are somebody else's, where both legs have a sensor: few people, few postures."""
ASKEW: Final = 0.04
"""Radians at most, about each axis (standard deviation), that a sensor is worn off its joint."""
TREMBLE: Final = 0.004
"""Radians of noise about each axis."""


def in_the_world(quats: NDArray[np.floating]) -> Array:
    """Rotations (T, 22, 4) in the world of local ones."""
    world = np.array(quats, np.float64)
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            world[:, joint] = multiply(world[:, parent], world[:, joint])
    return world


def drawn(rng: np.random.Generator) -> NDArray[np.bool_]:
    """(22,) joints that are measured, at random as :data:`WHICH` says."""
    mask, left = np.zeros(JOINTS, np.bool_), rng.random()
    for joints, share in WHICH:
        if left < share:
            mask[list(joints)] = True
            return mask
        left -= share
    mask = rng.random(JOINTS) < rng.uniform(0.1, 0.6)
    mask[0] |= not mask.any()
    return mask


def windowed(clip: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """So many frames of a clip in the world, every third time slower or faster."""
    speed = rng.uniform(0.7, 1.4) if rng.random() < 0.33 else 1.0
    first = rng.uniform(0.0, max(len(clip) - 1.001 - WINDOW * speed, 0.0))
    where = np.minimum(first + np.arange(WINDOW) * speed, len(clip) - 1.001)
    low = where.astype(np.int64)
    part = (where - low).astype(np.float32)[:, None, None]
    a, b = clip[low], clip[low + 1]
    b = np.where((a * b).sum(-1, keepdims=True) < 0.0, -b, b)
    mixed = a + part * (b - a)
    return np.asarray(mixed / np.linalg.norm(mixed, axis=-1, keepdims=True))


def crossed(
    quats: torch.Tensor, mask: torch.Tensor, known: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Some windows (B, L, 22, 4) with trunk and arms of the one before, turned to where the hips face; and
    which joints (B, 22) are known then."""
    legs = torch.stack([mask[:, leg].sum(1) for leg in LEGS], -1).amin(-1) * mask[:, 0] > 0.0
    chosen = legs & (torch.rand(len(quats)) < CROSSED)
    other = quats.roll(1, 0)
    yaws = [
        nn.functional.normalize(one[:, :, :1] * torch.tensor([1.0, 0.0, 1.0, 0.0]), dim=-1, eps=1e-6)
        for one in (quats, other)
    ]
    turn = product(yaws[0], yaws[1] * torch.tensor([1.0, -1.0, -1.0, -1.0]))
    above = other[:, :, TRUNK_AND_ARMS]
    made, told = quats.clone(), known.clone()
    made[:, :, TRUNK_AND_ARMS] = torch.where(
        chosen[:, None, None, None], product(turn.expand_as(above), above), quats[:, :, TRUNK_AND_ARMS]
    )
    told[:, TRUNK_AND_ARMS] = torch.where(chosen[:, None], known.roll(1, 0), known)[:, TRUNK_AND_ARMS]
    return made, told


def _loss(
    net: CompletionNet, quats: torch.Tensor, mask: torch.Tensor, near: torch.Tensor, known: torch.Tensor
) -> torch.Tensor:
    """Of windows (B, L, 22, 4) whose sensors are worn a little askew and tremble. Of joints that are not
    known, which rest in their take, nothing is learned."""
    batch, length = quats.shape[:2]
    quats, known = crossed(quats, mask, known)
    askew = ASKEW * torch.rand(batch, 1, 1, 1) * torch.randn(batch, 1, JOINTS, 3)
    noise = TREMBLE * torch.randn(batch, length, JOINTS, 3) * (torch.rand(batch, 1, 1, 1) < 0.4)
    half = torch.cat([torch.ones(batch, length, JOINTS, 1), (askew + noise) / 2.0], -1)
    turned, doubt, facing = net(product(quats, nn.functional.normalize(half, dim=-1)), mask, near)
    back = facing.transpose(-1, -2)
    world = matrices(quats)
    turned = torch.where(known[:, None, :, None, None] > 0.0, turned, back[:, :, None] @ world)
    hidden = ((1.0 - mask) * known)[:, None].expand(batch, length, JOINTS)[:, WARM:]
    wrong = _length((turned - back[:, :, None] @ world)[..., :2].flatten(-2))[:, WARM:] / 2**0.5
    doubt = doubt.clamp(-5.0, 2.0)[:, WARM:]
    count = hidden.sum().clamp(min=1.0)
    angle = (wrong * hidden).sum() / count
    laplace = ((wrong.detach() * torch.exp(-doubt) + doubt) * hidden).sum() / count
    here, there = joint_positions(turned) @ back, joint_positions(world)
    apart = _length(here - there)[:, WARM:]
    speeds = [(one[:, 2:] - one[:, :-2]) * (RATE / 2.0) for one in (here, there)]
    speed = _length(speeds[0] - speeds[1])[:, WARM:].mean()
    drift = parameters(here, facing @ turned[:, :, 0]) - parameters(there, world[:, :, 0])
    loss: torch.Tensor = (
        10.0 * drift[:, WARM:].abs().mean()
        + 0.5 * angle
        + 2.0 * apart.mean()
        + 2.0 * apart[..., ENDS].mean()
        + 0.1 * speed
        + 0.05 * laplace
    )
    return loss


def _length(vectors: torch.Tensor) -> torch.Tensor:
    """Of (..., n), with a gradient at nothing too."""
    return (vectors.pow(2).sum(-1) + 1e-8).sqrt()


def fit(
    clips: Sequence[NDArray[np.floating]],
    people: Sequence[str],
    masks: Sequence[NDArray[np.bool_]],
    *,
    steps: int,
    seed: int = 0,
    say: Say = lambda what, done, of: None,
) -> CompletionNet:
    """Train on canonical clips.

    Args:
        clips: (T, 22, 4) local rotations at 50 Hz, each at least two frames; mirrored ones are added.
        people: whose each is; everybody counts by the root of their minutes.
        masks: (22,) joints that each has; of the others, which rest, nothing is learned.
        steps: updates.
        seed: of every random choice.
        say: told of every step.

    Raises:
        OptionError: the loss is not finite.
    """
    worlds: list[NDArray[np.float32]] = []
    known = np.repeat(np.array(masks, np.float32), 2, axis=0)
    known[1::2] = known[1::2, MIRROR]
    for quats in clips:
        mirrored, _ = mirror(quats, np.zeros((len(quats), 3)))
        worlds += [in_the_world(one).astype(np.float32) for one in (quats, mirrored)]
    chance = np.repeat(shares([len(one) for one in clips], people), 2) / 2.0
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = CompletionNet()
    optimiser = torch.optim.AdamW(net.parameters(), lr=PEAK, weight_decay=DECAY)
    for step in range(steps):
        done = step / steps
        for group in optimiser.param_groups:
            group["lr"] = PEAK * min(1.0, done / 0.05 + 0.02) * 0.5 * (1.0 + np.cos(np.pi * done)) + 1e-5
        chosen = rng.choice(len(worlds), WINDOWS, p=chance)
        windows = np.stack([windowed(worlds[clip], rng) for clip in chosen])
        measured = [drawn(rng) for _ in chosen]
        loss = _loss(
            net,
            torch.from_numpy(windows),
            torch.from_numpy(np.stack(measured).astype(np.float32)),
            torch.from_numpy(np.stack([nearest(mask) for mask in measured])),
            torch.from_numpy(known[chosen]),
        )
        check_loss(loss, step + 1)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        say("completion", step + 1, steps)
    return net.eval()
