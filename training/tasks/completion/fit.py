"""Trains the completion network on whole bodies with most joints hidden."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pyanticip.motion.rotations import multiply
from pyanticip.vocabulary import RATE
from training.data.augment import mirror
from training.data.batches import sampling_weights
from training.data.corrupt import SUITS
from training.report.tables import ProgressCallback
from training.run.averaged import check_loss
from training.tasks.completion.net import JOINTS, CompletionNet, joint_positions, matrices, nearest, product
from training.tasks.completion.teacher import parameters
from training.teacher.kinematics import MIRROR, PARENTS

Array = NDArray[np.float64]

WINDOWS: Final = 24
"""Windows per update."""
WINDOW: Final = 128
"""Frames per window: a little more than twice the teacher's longest period."""
WARM_UP: Final = 12
"""Frames at the start of a window without loss."""
PEAK_LR: Final = 3e-3
"""Peak learning rate; it falls as a cosine."""
WEIGHT_DECAY: Final = 0.2
SENSOR_SETS: Final[tuple[tuple[tuple[int, ...], float], ...]] = (
    (SUITS["six"], 0.4),
    (SUITS["three"], 0.2),
    (SUITS["ten"], 0.06),
    ((0, 5, 9, 13), 0.06),
    ((0, 16, 20), 0.04),
    ((0, 3, 5, 16, 20), 0.05),
    ((9,), 0.04),
    (SUITS["hand"], 0.05),
)
"""Sets of measured joints with their probabilities; otherwise random joints. The hips alone are not used, as
the other joints are then left at rest."""
ENDS: Final = [8, 9, 12, 13, 16, 17, 20, 21]
"""Joints whose positions have more weight, as they affect the sound most."""
TRUNK_AND_ARMS: Final = slice(1, 14)
LEGS: Final = (slice(14, 18), slice(18, 22))
SWAP_SHARE: Final = 0.3
"""Share of windows with another clip's trunk and arms, if both legs have a sensor: adds postures."""
MAX_MISALIGNMENT: Final = 0.04
"""Maximum standard deviation of the misalignment of sensors about each axis, radians."""
NOISE: Final = 0.004
"""Standard deviation of the sensor noise about each axis, radians."""


def global_rotations(quats: NDArray[np.floating]) -> Array:
    """Convert local rotations (T, 22, 4) to global ones."""
    world = np.array(quats, np.float64)
    for joint, parent in enumerate(PARENTS):
        if parent >= 0:
            world[:, joint] = multiply(world[:, parent], world[:, joint])
    return world


def draw_mask(rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw a mask (22,) of measured joints, see :data:`SENSOR_SETS`."""
    mask, remaining = np.zeros(JOINTS, np.bool_), rng.random()
    for joints, share in SENSOR_SETS:
        if remaining < share:
            mask[list(joints)] = True
            return mask
        remaining -= share
    mask = rng.random(JOINTS) < rng.uniform(0.1, 0.6)
    mask[0] |= not mask.any()
    return mask


def draw_window(clip: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw a window of a clip of global rotations, a third of them slowed down or sped up."""
    speed = rng.uniform(0.7, 1.4) if rng.random() < 0.33 else 1.0
    first = rng.uniform(0.0, max(len(clip) - 1.001 - WINDOW * speed, 0.0))
    times = np.minimum(first + np.arange(WINDOW) * speed, len(clip) - 1.001)
    low = times.astype(np.int64)
    weight = (times - low).astype(np.float32)[:, None, None]
    a, b = clip[low], clip[low + 1]
    b = np.where((a * b).sum(-1, keepdims=True) < 0.0, -b, b)
    mixed = a + weight * (b - a)
    return np.asarray(mixed / np.linalg.norm(mixed, axis=-1, keepdims=True))


def swap_upper_bodies(
    quats: torch.Tensor, mask: torch.Tensor, known: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Give some windows (B, L, 22, 4) trunk and arms of the previous one, turned to the hips' heading; also
    returns the joints (B, 22) that are known then."""
    legs = torch.stack([mask[:, leg].sum(1) for leg in LEGS], -1).amin(-1) * mask[:, 0] > 0.0
    chosen = legs & (torch.rand(len(quats)) < SWAP_SHARE)
    other = quats.roll(1, 0)
    yaws = [
        nn.functional.normalize(one[:, :, :1] * torch.tensor([1.0, 0.0, 1.0, 0.0]), dim=-1, eps=1e-6)
        for one in (quats, other)
    ]
    turn = product(yaws[0], yaws[1] * torch.tensor([1.0, -1.0, -1.0, -1.0]))
    upper = other[:, :, TRUNK_AND_ARMS]
    mixed, mixed_known = quats.clone(), known.clone()
    mixed[:, :, TRUNK_AND_ARMS] = torch.where(
        chosen[:, None, None, None], product(turn.expand_as(upper), upper), quats[:, :, TRUNK_AND_ARMS]
    )
    mixed_known[:, TRUNK_AND_ARMS] = torch.where(chosen[:, None], known.roll(1, 0), known)[:, TRUNK_AND_ARMS]
    return mixed, mixed_known


def _loss(
    net: CompletionNet, quats: torch.Tensor, mask: torch.Tensor, near: torch.Tensor, known: torch.Tensor
) -> torch.Tensor:
    """Loss of windows (B, L, 22, 4) with misaligned and noisy sensors; joints that are not known, which rest
    in their take, do not count."""
    batch, length = quats.shape[:2]
    quats, known = swap_upper_bodies(quats, mask, known)
    misalignment = MAX_MISALIGNMENT * torch.rand(batch, 1, 1, 1) * torch.randn(batch, 1, JOINTS, 3)
    noise = NOISE * torch.randn(batch, length, JOINTS, 3) * (torch.rand(batch, 1, 1, 1) < 0.4)
    half = torch.cat([torch.ones(batch, length, JOINTS, 1), (misalignment + noise) / 2.0], -1)
    turned, log_error, facing = net(product(quats, nn.functional.normalize(half, dim=-1)), mask, near)
    back = facing.transpose(-1, -2)
    world = matrices(quats)
    turned = torch.where(known[:, None, :, None, None] > 0.0, turned, back[:, :, None] @ world)
    hidden = ((1.0 - mask) * known)[:, None].expand(batch, length, JOINTS)[:, WARM_UP:]
    column_error = _length((turned - back[:, :, None] @ world)[..., :2].flatten(-2))[:, WARM_UP:] / 2**0.5
    log_error = log_error.clamp(-5.0, 2.0)[:, WARM_UP:]
    count = hidden.sum().clamp(min=1.0)
    angle = (column_error * hidden).sum() / count
    laplace = ((column_error.detach() * torch.exp(-log_error) + log_error) * hidden).sum() / count
    predicted, true = joint_positions(turned) @ back, joint_positions(world)
    distance = _length(predicted - true)[:, WARM_UP:]
    speeds = [(one[:, 2:] - one[:, :-2]) * (RATE / 2.0) for one in (predicted, true)]
    speed = _length(speeds[0] - speeds[1])[:, WARM_UP:].mean()
    drift = parameters(predicted, facing @ turned[:, :, 0]) - parameters(true, world[:, :, 0])
    loss: torch.Tensor = (
        10.0 * drift[:, WARM_UP:].abs().mean()
        + 0.5 * angle
        + 2.0 * distance.mean()
        + 2.0 * distance[..., ENDS].mean()
        + 0.1 * speed
        + 0.05 * laplace
    )
    return loss


def _length(vectors: torch.Tensor) -> torch.Tensor:
    """Length of vectors (..., n), with a finite gradient at zero."""
    return (vectors.pow(2).sum(-1) + 1e-8).sqrt()


def fit(
    clips: Sequence[NDArray[np.floating]],
    people: Sequence[str],
    masks: Sequence[NDArray[np.bool_]],
    *,
    steps: int,
    seed: int = 0,
    say: ProgressCallback = lambda what, done, of: None,
) -> CompletionNet:
    """Train on canonical clips.

    Args:
        clips: (T, 22, 4) local rotations at 50 Hz, each at least two frames; mirrored copies are added.
        people: person of each clip; a person's weight is the square root of their frames.
        masks: (22,) joints that each clip has; the others, at rest, are not learned.
        steps: number of updates.
        seed: seed of all random choices.
        say: progress callback.

    Raises:
        OptionError: the loss is not finite.
    """
    worlds: list[NDArray[np.float32]] = []
    known = np.repeat(np.array(masks, np.float32), 2, axis=0)
    known[1::2] = known[1::2, MIRROR]
    for quats in clips:
        mirrored, _ = mirror(quats, np.zeros((len(quats), 3)))
        worlds += [global_rotations(one).astype(np.float32) for one in (quats, mirrored)]
    probabilities = np.repeat(sampling_weights([len(one) for one in clips], people), 2) / 2.0
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = CompletionNet()
    optimiser = torch.optim.AdamW(net.parameters(), lr=PEAK_LR, weight_decay=WEIGHT_DECAY)
    for step in range(steps):
        done = step / steps
        for group in optimiser.param_groups:
            group["lr"] = PEAK_LR * min(1.0, done / 0.05 + 0.02) * 0.5 * (1.0 + np.cos(np.pi * done)) + 1e-5
        clip_indices = rng.choice(len(worlds), WINDOWS, p=probabilities)
        windows = np.stack([draw_window(worlds[clip], rng) for clip in clip_indices])
        sensor_masks = [draw_mask(rng) for _ in clip_indices]
        loss = _loss(
            net,
            torch.from_numpy(windows),
            torch.from_numpy(np.stack(sensor_masks).astype(np.float32)),
            torch.from_numpy(np.stack([nearest(mask) for mask in sensor_masks])),
            torch.from_numpy(known[clip_indices]),
        )
        check_loss(loss, step + 1)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        say("completion", step + 1, steps)
    return net.eval()
