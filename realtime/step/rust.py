"""Backend of the Rust core for the packaged kind of model, without torch."""

from typing import Any

import safetensors
import safetensors.numpy

from pyanticip._core import MotionStream
from pyanticip.errors import CheckpointError, MotionError
from pyanticip.models.checkpoint.manifest import WEIGHTS, Manifest
from pyanticip.models.config import ModelConfig, visible_columns
from realtime.step.base import F32, StepBackend, StepResult


class RustBackend(StepBackend):
    """Steps on one CPU thread with the GIL released; never imports torch.

    A step is a single call, because each small call into NumPy would cost some 15 us when caches are cold.
    """

    name = "rust"
    manifest: Manifest
    core: MotionStream

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.hidden = manifest.config.d_model
        self.core = _stream_of(manifest)

    def step(self, rows: F32) -> StepResult:
        """See :class:`StepBackend`."""
        return self.core.step(rows)

    def imagine(self, row: F32) -> StepResult:
        """See :class:`StepBackend`."""
        return self.core.imagine(row)

    def reset(self) -> None:
        """See :class:`StepBackend`."""
        self.core.reset()

    def prewarm(self) -> None:
        """See :class:`StepBackend`."""
        self.core.prewarm()


# The model that was read last, by its key. Performers share its weights: of sixteen steps in a row each takes
# a third of the time, because the first one leaves the weights in the CPU's cache.
_cached: tuple[tuple[object, ...], MotionStream] | None = None


def _stream_of(manifest: Manifest) -> MotionStream:
    """A new stream of the checkpoint's model."""
    global _cached
    weights = manifest.read(WEIGHTS)
    key = manifest.sha256[WEIGHTS], manifest.config
    if _cached is None or _cached[0] != key:
        _cached = key, _read_stream(manifest, weights)
    return _cached[1].new_stream()


def stream_sizes(cfg: ModelConfig) -> dict[str, Any]:
    """Keyword arguments of the core's ``MotionStream`` for a model of this configuration."""
    return {
        "width": cfg.d_model,
        "heads": cfg.heads,
        "layers": (cfg.fast_layers, cfg.slow_layers),
        "past": (cfg.fast_past, cfg.slow_past),
        "hidden": cfg.ff,
        "stride": cfg.slow_stride,
        "taps": cfg.taps,
        "units": cfg.control_hidden,
        "visible": visible_columns(cfg),
        "distance": cfg.dist_scale,
        "positive": cfg.alpha == "softplus",
        "gated": cfg.gated_events,
    }


def _read_stream(manifest: Manifest, weights: bytes) -> MotionStream:
    cfg = manifest.config
    try:
        tensors = safetensors.numpy.load(weights)
        if cfg.strokes != any(name.startswith("control.beats.") for name in tensors):
            raise ValueError("a head that hears strokes must be there where strokes is true, and only there")
        basis = tensors.get("poses.basis")
        if cfg.pose_window != (0 if basis is None else len(basis)):
            raise ValueError(
                f"a perceptron for {cfg.pose_window} frames of poses must be there, or none for 0"
            )
        return MotionStream(tensors, **stream_sizes(cfg))
    except (safetensors.SafetensorError, MotionError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint {manifest.folder}: {WEIGHTS} does not fit its configuration: {error}"
        ) from None
