"""A causal forecaster of poses: joint positions of the next frames from the last ones.

By default ten observed frames in, the next 25 out, in one pass. The past is represented by the last pose and
the coefficients of orthogonal polynomials over the observed frames (velocity, acceleration, ...). A residual
MLP with a parallel linear path predicts the change from the last pose, as weights of a few smooth
trajectories (the principal components of the training motion). A plain MLP over a compact temporal basis
follows siMLPe (Guo et al. 2023, "Back to MLP"), the residual over the last pose LTD (Mao et al. 2019). With a
``mirror`` permutation the forecast is the mean over the body and its mirror image, so that both are treated
alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pyanticip.errors import ShapeError
from pyanticip.models.checkpoint.files import build_with_weights, write_checkpoint
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_verified
from pyanticip.models.core.block import MLPBlock
from pyanticip.models.core.encodings import polynomials
from pyanticip.models.core.inputs import check_batch
from pyanticip.models.forecast.manifest import (
    FORECAST_FORMAT,
    FORECAST_VERSION,
    ForecastConfig,
    read_forecast_manifest,
)


class ForecastState(NamedTuple):
    """Streaming state.

    ``frames`` (B, observed, joints, 3), newest last; ``seen`` (B,) int64 frames since the start.
    """

    frames: Tensor
    seen: Tensor


class PoseForecaster(nn.Module):
    """Forecasts ``target`` frames from the last ``observed`` ones, frame by frame or all at once.

    Positions are in the body's own frame, in the unit that the normalisation was fitted to. An untrained
    forecaster predicts that the last pose stays.
    """

    pose_mean: Tensor
    pose_std: Tensor
    past_basis: Tensor
    past_scale: Tensor
    future_basis: Tensor
    unit: Tensor

    def __init__(self, config: ForecastConfig) -> None:
        super().__init__()
        self.cfg = config
        size, outputs = 3 * config.joints, 3 * config.joints * config.components
        inputs = size * (1 + config.order)
        self.inlet = nn.Linear(inputs, config.width)
        self.blocks = nn.ModuleList(
            MLPBlock(config.width, config.width * config.expand, config.dropout) for _ in range(config.blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.outlet = nn.Linear(config.width, outputs)
        self.direct = nn.Linear(inputs, outputs)
        self.momentum = nn.Linear(config.order, config.components, bias=False)
        for layer in (self.outlet, self.direct):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.momentum.weight)
        self.register_buffer("pose_mean", torch.zeros(size))
        self.register_buffer("pose_std", torch.ones(size))
        self.register_buffer("past_basis", polynomials(config.observed, config.order))
        self.register_buffer("past_scale", torch.ones(config.order))
        self.register_buffer("future_basis", polynomials(config.target, config.components - 1, constant=True))
        self.register_buffer("unit", torch.ones(()))
        self.mixed = False
        """Whether the MLP is trained in bfloat16; its weights and everything else stay float32."""
        self._sides = torch.tensor(config.mirror, dtype=torch.int64)

    def fit_normalisation(self, windows: Tensor, unit: float) -> None:
        """Set the statistics from windows (N, observed + target, joints, 3) of the training motion.

        Raises:
            ShapeError: windows of another shape.
        """
        cfg = self.cfg
        length = cfg.observed + cfg.target
        if windows.ndim != 4 or tuple(windows.shape[1:]) != (length, cfg.joints, 3):
            raise ShapeError(f"expected windows (N, {length}, {cfg.joints}, 3), got {tuple(windows.shape)}")
        with torch.no_grad():
            self.unit.fill_(unit)
            flat = windows.flatten(2) / unit
            last = flat[:, cfg.observed - 1]
            self.pose_mean.copy_(last.mean(0))
            # A lower bound, so that a joint that hardly moves is not amplified.
            self.pose_std.copy_(last.std(0).clamp_min(0.02))
            past = (flat[:, : cfg.observed] - last[:, None]).transpose(1, 2) @ self.past_basis
            self.past_scale.copy_(past.square().mean((0, 1)).sqrt().clamp_min(1e-6))
            future = (
                (flat[:, cfg.observed :] - last[:, None]).double().transpose(1, 2).reshape(-1, cfg.target)
            )
            values, vectors = torch.linalg.eigh(future.T @ future / len(future))
            size = values.flip(0)[: cfg.components].clamp_min(1e-12).sqrt()
            self.future_basis.copy_((vectors.flip(1)[:, : cfg.components] * size).T)

    def mirrored(self, positions: Tensor) -> Tensor:
        """The mirror image of positions (..., joints, 3): sides swapped, x negated."""
        other = positions.index_select(-2, self._sides.to(positions.device))
        image: Tensor = other * other.new_tensor([-1.0, 1.0, 1.0])
        return image

    def one_view(self, observed: Tensor) -> Tensor:
        """Forecast from (B, observed, joints, 3) without its mirror image, which is what is trained."""
        cfg = self.cfg
        flat = observed.flatten(2) / self.unit
        last = flat[:, -1]
        past = (flat - last[:, None]).transpose(1, 2) @ self.past_basis / self.past_scale
        x = torch.cat(((last - self.pose_mean) / self.pose_std, past.flatten(1)), 1)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.mixed and self.training):
            z = self.inlet(x)
            for block in self.blocks:
                z = block(z)
            weights = self.outlet(self.norm(z)) + self.direct(x)
        weights = weights.to(past.dtype).view(len(x), -1, cfg.components)
        moves = (weights + self.momentum(past)) @ self.future_basis
        forecast: Tensor = (moves.transpose(1, 2) + last[:, None]) * self.unit
        return forecast.view(len(x), cfg.target, cfg.joints, 3)

    def predict(self, observed: Tensor) -> Tensor:
        """The next frames (B, target, joints, 3) after windows (B, observed, joints, 3).

        Raises:
            ShapeError: windows of another shape.
        """
        cfg = self.cfg
        if observed.ndim != 4 or tuple(observed.shape[1:]) != (cfg.observed, cfg.joints, 3):
            raise ShapeError(
                f"expected windows (B, {cfg.observed}, {cfg.joints}, 3), got {tuple(observed.shape)}"
            )
        if not cfg.mirror:
            return self.one_view(observed)
        plain, other = self.one_view(torch.cat((observed, self.mirrored(observed)))).chunk(2)
        return 0.5 * (plain + self.mirrored(other))

    def forward(self, positions: Tensor) -> Tensor:
        """Forecast after every frame of (B, L, joints, 3): (B, L, target, joints, 3).

        The forecast after frame ``t`` depends only on frames up to ``t``; the first frame is repeated in
        place of the ones before it.

        Raises:
            ShapeError: positions of another shape.
        """
        cfg = self.cfg
        if positions.ndim != 4 or tuple(positions.shape[2:]) != (cfg.joints, 3) or not positions.shape[1]:
            raise ShapeError(f"expected positions (B, L, {cfg.joints}, 3), got {tuple(positions.shape)}")
        first = positions[:, :1].expand(-1, cfg.observed - 1, -1, -1)
        windows = torch.cat((first, positions), 1).unfold(1, cfg.observed, 1).permute(0, 1, 4, 2, 3)
        forecast = self.predict(windows.flatten(0, 1))
        return forecast.view(*positions.shape[:2], *forecast.shape[1:])

    def initial_state(self, batch: int = 1) -> ForecastState:
        """The state before the first frame."""
        check_batch(batch)
        cfg = self.cfg
        frames = self.unit.new_zeros(batch, cfg.observed, cfg.joints, 3)
        return ForecastState(frames, frames.new_zeros(batch, dtype=torch.int64))

    def step(self, frame: Tensor, state: ForecastState) -> tuple[Tensor, ForecastState]:
        """Run one frame (B, joints, 3); returns the forecast (B, target, joints, 3) and the next state.

        Raises:
            ShapeError: a frame of another shape, or of another batch than the state.
        """
        cfg = self.cfg
        if tuple(frame.shape) != (len(state.seen), cfg.joints, 3):
            raise ShapeError(
                f"expected a frame ({len(state.seen)}, {cfg.joints}, 3), got {tuple(frame.shape)}"
            )
        new = frame[:, None]
        rolled = torch.cat((state.frames[:, 1:], new), 1)
        frames = torch.where((state.seen == 0)[:, None, None, None], new, rolled)
        return self.predict(frames), ForecastState(frames, state.seen + 1)


def save_forecaster(
    path: str | Path, model: PoseForecaster, *, training: Mapping[str, Any] | None = None
) -> Path:
    """Write a checkpoint folder (``model.safetensors``, ``model.json``), replacing an older checkpoint.

    Args:
        training: notes on how it was trained, as JSON values.

    Raises:
        CheckpointError: weights that are not finite, or a folder that holds anything but a checkpoint.
    """
    content = {
        "format": FORECAST_FORMAT,
        "version": FORECAST_VERSION,
        "config": model.cfg.to_dict(),
        "parameter_count": sum(p.numel() for p in model.parameters()),
        "training": dict(training or {}),
    }
    return write_checkpoint(
        Path(path), model, content, lambda draft: PoseForecaster(read_forecast_manifest(draft).config)
    )


def load_forecaster(path: str | Path) -> PoseForecaster:
    """Load a forecaster in evaluation mode.

    Raises:
        CheckpointError: missing, damaged, from a newer version, or not a forecaster's.
    """
    manifest = read_forecast_manifest(path)
    data = read_verified(manifest.folder, WEIGHTS, manifest.sha256)
    return build_with_weights(
        lambda: PoseForecaster(manifest.config), data, f"checkpoint {manifest.folder}"
    ).eval()
