"""The shipped kind of model in the Rust core, without torch."""

from typing import Any

import safetensors
import safetensors.numpy

from pyanticip._core import MotionStream
from pyanticip.errors import CheckpointError, MotionError
from pyanticip.models.checkpoint.manifest import WEIGHTS, Manifest
from pyanticip.models.config import ModelConfig, visible_columns
from realtime.step.base import F32, StepBackend, StepResult

__all__ = ["RustBackend", "stream_sizes"]


class RustBackend(StepBackend):
    """One CPU thread, the interpreter left free; never imports torch.

    A step is one call: every small one into NumPy would cost some 15 us when caches are cold.
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


# The model that was read last. Several performers share its weights: of sixteen steps in a row each takes a
# third of the time, for the first one leaves them in the cache.
_newest: tuple[tuple[object, ...], MotionStream] | None = None


def _stream_of(manifest: Manifest) -> MotionStream:
    """A fresh stream of the checkpoint's model."""
    global _newest
    weights = manifest.read(WEIGHTS)
    which = manifest.sha256[WEIGHTS], manifest.config
    if _newest is None or _newest[0] != which:
        _newest = which, _read(manifest, weights)
    return _newest[1].fresh()


def stream_sizes(cfg: ModelConfig) -> dict[str, Any]:
    """What the core's stream is made with beside the tensors of a model of this configuration."""
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


def _read(manifest: Manifest, weights: bytes) -> MotionStream:
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
