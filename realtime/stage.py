"""The one place that puts the parts of a performance together, for live, replay, render, demo and bench."""

from __future__ import annotations

from collections.abc import Sequence

from pyanticip._core import LiveFront
from pyanticip.controls import Presence
from realtime.clock import Clock
from realtime.mapping.live_mapping import open_taught
from realtime.mapping.mixer import Desk
from realtime.pipeline import Pipeline
from realtime.playout import Playout
from realtime.rig import Rig, SmoothingRig
from realtime.seams import SINKS, SOURCES
from realtime.sinks.base import Sink
from realtime.sinks.osc import OscSink
from realtime.step.base import StepBackend
from realtime.step.open import open_backend

__all__ = ["assemble", "desk_of"]


def assemble(
    rig: Rig,
    clock: Clock,
    *,
    kind: str | None = None,
    sinks: Sequence[Sink] | None = None,
    backend: StepBackend | None = None,
) -> Pipeline:
    """The pipeline that a rig describes.

    ``kind`` is the wire format where it is not the rig's source; ``sinks`` replaces the rig's;
    ``backend`` replaces the rig's model. Hosts are resolved and the checkpoint is loaded here, so that
    what is wrong with them is known before anything plays. Raises a MotionError.
    """
    kind = kind or SOURCES.load(rig.source.kind)().wire
    made: list[Sink] = list(sinks or ())
    try:
        if sinks is None:
            made += (OscSink(table) for table in rig.osc)
            made += (SINKS.load(table.kind)(table.config()) for table in rig.sink)
        if backend is None and rig.model.enabled:
            backend = open_backend(rig.model.backend, rig.model.checkpoint)
    except BaseException:
        for sink in made:
            sink.close()
        raise
    pipeline = Pipeline(
        front=LiveFront(kind, steady=rig.performer.steady, noise=rig.performer.jitter),
        desk=desk_of(rig),
        sinks=made,
        clock=clock,
        backend=backend,
        kind=kind,
        budget_ms=rig.model.budget_ms,
        playout=Playout(rig.source.buffer_ms) if rig.source.buffer_ms != 0 else None,
    )
    if rig.source.sender is not None:
        pipeline.front.listen_to(rig.source.sender)
    if rig.mapping is not None:
        try:
            pipeline.teach(open_taught(rig.mapping, backend))
        except BaseException:
            pipeline.close()
            raise
    return pipeline


def desk_of(rig: Rig) -> Desk:
    """The desk with a rig's settings."""
    neutral = rig.silence.neutral_vector()
    silence = rig.silence
    return Desk(
        smoothing=rig.smoothings(),
        lead_ms=rig.lead_ms,
        gain=rig.gain,
        trigger=rig.events.build(),
        presence=Presence(hold=silence.hold, fade=silence.fade, catch_up=silence.catch_up, neutral=neutral),
        neutral=neutral,
        extra_smoothing=rig.smoothing.get("default", SmoothingRig()).build(),
        performer=rig.performer.build(),
    )
