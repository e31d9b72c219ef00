"""A front-end and a model made of paper: what the pipeline does must not depend on the real ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from support.ear import Ear

from realtime.clock import OfflineClock
from realtime.mapping.mixer import Mixer
from realtime.pipeline import Pipeline
from realtime.step.base import StepBackend, StepResult


@dataclass
class PaperFrame:
    seq: int
    reset: bool = False
    rows: int = 1
    valid: bool = True
    t_arrival_ns: int = 0

    def __post_init__(self) -> None:
        self.features = np.zeros((self.rows, 279), np.float32)
        self.t_source_ns = self.seq * 20_000_000
        self.t_local_ns = self.t_source_ns
        self.expected_ns = self.t_arrival_ns + 20_000_000
        self.late_ns = self.t_arrival_ns + 25_000_000
        self.patience_ns = 5_000_000
        self.scalars = np.array([0.7, 0.3, 0, 0.35, 0.8, 0.2, 0.6])
        self.poses = np.tile(np.float32([1, 0, 0, 0]), (self.rows, 22, 1))
        self.root = np.zeros(3, np.float32)
        self.activity = 1.0
        self.tempo = (120.0, (self.seq * 0.04) % 1.0, 0.9)
        self.limbs = [0.25, 0.5, 0.0] * 4
        self.filled = self.rows - 1
        self.stages_ns = (1000, 2000, 3000)


@dataclass
class PaperFront:
    """Each datagram is a frame number in ASCII; a gap of up to 25 is filled, a longer one resets."""

    last: int | None = None
    timing = (50.0, 0.5, 0.0)
    refusal = None
    wanted: str | None = None
    skeleton = noise = None
    mask = np.ones(22, np.bool_)

    def senders(self) -> list[tuple[str, bool, int, int]]:
        return [("10.0.0.1:4000", True, 9, 0), ("10.0.0.2:5000", False, 1, 0)]

    def listen_to(self, sender: str | None) -> bool:
        self.wanted = sender
        return True

    def feed(self, datagram: bytes, t_arrival_ns: int, sender: str = "") -> Any:
        if not datagram.isdigit():
            return None
        seq = int(datagram)
        first = self.last is None
        gap = seq - (self.last or 0) if not first else 1
        self.last = seq
        reset = first or gap > 25 or gap <= 0
        return PaperFrame(seq, reset, 1 if reset else gap, t_arrival_ns=t_arrival_ns)

    #: Whether it can tell the frame after the newest.
    foresees: bool = False

    def prewarm(self) -> None:
        pass

    def imagine(self) -> Any:
        if self.last is None or not self.foresees:
            return None
        return PaperFrame(self.last + 1, t_arrival_ns=(self.last + 1) * 20_000_000)

    def counters(self) -> dict[str, int]:
        return {"lost": 3, "alien": 2}


@dataclass
class PaperModel(StepBackend):
    name: str = "paper"
    level: float = 0.75
    said: list[str] = field(default_factory=list)
    fail: bool = False
    delay: float = 0.0

    def step(self, rows: np.ndarray) -> Any:
        import time

        self.said.append(f"step {len(rows)}")
        if self.fail:
            raise RuntimeError("out of paper")
        if self.delay:
            time.sleep(self.delay)
        params, hazards = np.full((8, 5), self.level, np.float32), np.zeros((2, 25), np.float32)
        return StepResult(params, hazards, np.zeros(7, np.float32), 1.0, True)

    def imagine(self, row: np.ndarray) -> Any:
        self.said.append("imagine")
        params, hazards = np.full((8, 5), self.level / 3, np.float32), np.zeros((2, 25), np.float32)
        return StepResult(params, hazards, np.zeros(7, np.float32), 1.0, False)

    def reset(self) -> None:
        self.said.append("reset")

    def prewarm(self) -> None:
        self.said.append("prewarm")

    def close(self) -> None:
        self.said.append("close")


@dataclass
class Stage:
    """A pipeline on an offline clock with paper parts."""

    model: PaperModel | None = None

    def __post_init__(self) -> None:
        self.clock = OfflineClock()
        self.ear = Ear()
        self.front = PaperFront()
        self.pipeline = Pipeline(
            front=self.front, mixer=Mixer(), sinks=[self.ear], clock=self.clock, backend=self.model
        )

    def frame(self, n: int) -> None:
        self.clock.advance_to(n * 20_000_000 + 1)
        self.pipeline.feed(str(n).encode(), self.clock.now_ns())

    def silence(self, frames: int) -> None:
        """So many frames do not come."""
        self.clock.advance_to(self.clock.now_ns() + frames * 20_000_000 + 6_000_000)
        self.pipeline.run_until(self.clock.now_ns())


@pytest.fixture
def stage() -> type[Stage]:
    return Stage


@pytest.fixture
def paper_model() -> type[PaperModel]:
    return PaperModel
