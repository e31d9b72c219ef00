"""A fake front end and model, because the pipeline must not depend on the real ones."""

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ear import Ear
from support.paper import SCALARS, paper_frame
from support.playing import Playing

from realtime.clock import OfflineClock
from realtime.mapping.mixer import Mixer
from realtime.pipeline import Pipeline
from realtime.programs.demo import PERFORMANCE
from realtime.programs.rehearse import rehearse
from realtime.step.base import StepBackend, StepResult


@pytest.fixture(scope="module", autouse=True)
def tests_out_of_sight() -> None:
    """Freeze existing objects: a show's garbage collection takes a second among those of thousands of
    tests."""
    gc.collect()
    gc.freeze()


@dataclass
class PaperFront:
    """Each datagram is a frame number in ASCII; a gap of up to 25 is filled, a longer one resets."""

    last: int | None = None
    timing = (50.0, 0.5, 0.0)
    refusal = unplayed_reason = None
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
        return paper_frame(seq, reset, 1 if reset else gap, t_arrival_ns)

    #: Whether it can extrapolate the frame after the newest, and its scalars.
    can_imagine: bool = False
    imagined_scalars: Sequence[float] = SCALARS

    def prewarm(self) -> None:
        pass

    def imagine(self) -> Any:
        if self.last is None or not self.can_imagine:
            return None
        seq = self.last + 1
        return paper_frame(seq, t_arrival_ns=seq * 20_000_000, scalars=self.imagined_scalars)

    def counters(self) -> dict[str, int]:
        return {"lost": 3, "alien": 2}


@dataclass
class PaperModel(StepBackend):
    name: str = "paper"
    level: float = 0.75
    calls: list[str] = field(default_factory=list)
    fail: bool = False
    delay: float = 0.0

    def step(self, rows: np.ndarray) -> Any:
        import time

        self.calls.append(f"step {len(rows)}")
        if self.fail:
            raise RuntimeError("out of paper")
        if self.delay:
            time.sleep(self.delay)
        params, hazards = np.full((8, 5), self.level, np.float32), np.zeros((2, 25), np.float32)
        return StepResult(params, hazards, np.zeros(7, np.float32), 1.0)

    def imagine(self, row: np.ndarray) -> Any:
        self.calls.append("imagine")
        params, hazards = np.full((8, 5), self.level / 3, np.float32), np.zeros((2, 25), np.float32)
        return StepResult(params, hazards, np.zeros(7, np.float32), 1.0)

    def reset(self) -> None:
        self.calls.append("reset")

    def prewarm(self) -> None:
        self.calls.append("prewarm")

    def close(self) -> None:
        self.calls.append("close")


@dataclass
class Stage:
    """A pipeline on an offline clock with fake parts."""

    model: PaperModel | None = None
    buffer_ms: float | str = 0.0

    def __post_init__(self) -> None:
        self.clock = OfflineClock()
        self.ear = Ear()
        self.front = PaperFront()
        self.pipeline = Pipeline(
            front=self.front,
            mixer=Mixer(),
            sinks=[self.ear],
            clock=self.clock,
            backend=self.model,
            buffer_ms=self.buffer_ms,
        )

    def receive(self, n: int, at_ns: int) -> None:
        """Receive a frame at a time."""
        self.clock.advance_to(at_ns)
        self.pipeline.feed(str(n).encode(), self.clock.now_ns())

    def frame(self, n: int) -> None:
        self.receive(n, n * 20_000_000 + 1)

    def frames(self, *ends: int) -> "Stage":
        """Receive the frames of a range, each in time."""
        for n in range(*ends):
            self.frame(n)
        return self

    def silence(self, frames: int) -> None:
        """Let this many frames be missing."""
        self.clock.advance_to(self.clock.now_ns() + frames * 20_000_000 + 6_000_000)
        self.pipeline.run_until(self.clock.now_ns())


@pytest.fixture(scope="session")
def piece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of the packaged performance."""
    file = tmp_path_factory.mktemp("rehearsed") / "piece.memory"
    rehearse([PERFORMANCE], file)
    return file


@pytest.fixture
def stage() -> type[Stage]:
    return Stage


@pytest.fixture
def paper_model() -> type[PaperModel]:
    return PaperModel


@pytest.fixture
def play() -> Iterator[Callable[..., Playing]]:
    """``play(rig, folder)`` plays a rig until the test ends."""
    with contextlib.ExitStack() as shows:
        yield lambda *args, **more: shows.enter_context(contextlib.closing(Playing(*args, **more)))


@pytest.fixture
def install(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package as pip does: a module, and its metadata."""

    def write_package(name: str, code: str, entry_points: str) -> None:
        folder = tmp_path_factory.mktemp("site")
        (folder / f"{name}.py").write_text(code)
        dist_info = folder / f"{name}-1.0.dist-info"
        dist_info.mkdir()
        (dist_info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (dist_info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write_package
