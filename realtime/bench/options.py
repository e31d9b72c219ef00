"""What each bench and the soak can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pyanticip.options import CheckpointOption, JsonOption, option
from realtime.config import LeadMs
from realtime.rig import BackendKind

Length = Annotated[int, Field(ge=1, le=65536)]


class LatencyOptions(CheckpointOption, JsonOption):
    """Of ``bench latency``."""

    seconds: float = option("How long to measure.", 60.0, ge=1, le=3600)
    file: Path | None = option("A motion file to send; else synthetic motion.", None, exists=True)
    backend: BackendKind = option("What steps the model.", "auto")
    model: bool = option("Play with the model; --no-model: the seven scalars alone.", True)
    prewarm: bool = option("Warm each step up before its datagram; --no-prewarm: every one runs cold.", True)
    spin: bool = option("Stay awake before each datagram.", False)
    priority: bool = option("Ask for real-time priority; --no-priority: as any program.", True)
    monitor: bool = option("With the monitor beside it, which nobody looks at.", False)


class PerformersOptions(JsonOption):
    """Of ``bench performers``."""

    count: str = option("How many at a time.", "1,2,4,8,16,32", metavar="N,N...")
    seconds: float = option("How long to measure each.", 20.0, ge=1, le=3600)
    phases: Literal["random", "even", "together"] = option("When within the 20 ms the suits send.", "random")
    prewarm: bool = option("Every performer's step is prewarmed, as one alone has it.", False)
    picture: Path | None = option("Draw the curve.", None, metavar="OUT.png", written=True)
    model: bool = option("Play with the model; --no-model: the seven scalars alone.", True)


class NetworkOptions(CheckpointOption, JsonOption):
    """Of ``bench network``."""

    files: tuple[Path, ...] = option("What to send.", (), argument=True, exists=True)
    seconds: float = option("Of each file at most.", 20.0, ge=5, le=3600)
    markdown: bool = option("Print the tables as a page has them.", False)


class ScalarsOptions(JsonOption):
    """Of ``bench scalars``."""

    seconds: float = option("About how long, all in all.", 60.0, ge=1, le=3600)


class BridgeOptions(JsonOption):
    """Of ``bench bridge``."""

    seconds: float = option("About how long, all in all.", 120.0, ge=1, le=3600)
    lengths: tuple[Length, ...] = option("Only this one; repeatable.", (), flag="--length")
    data: Literal["noise", "tokens", "walk"] = option("What to measure on.", "noise")
    compile: bool = option("Measure torch.compile too; --no-compile: leave it out.", True)


class StepOptions(CheckpointOption, JsonOption):
    """Of ``bench step``."""

    seconds: float = option("How long, all in all.", 20.0, ge=1, le=3600)
    backends: tuple[Literal["rust", "torch", "cuda-graph"], ...] = option(
        "Only this one; repeatable.", (), flag="--backend"
    )


class TrainOptions(JsonOption):
    """Of ``bench train``."""

    seconds: float = option("About how long, all in all.", 120.0, ge=1, le=3600)
    size: Literal["small", "default"] = option("Preset.", "small")
    device: Literal["auto", "cpu", "cuda"] = option("Where.", "auto")


class PerformerOptions(JsonOption):
    """Of ``bench performer``."""

    data: Path = option("The takes (a folder with cmu/ and more/).", exists=True, variable="PYANTICIP_DATA")
    seeds: int = option("Draws of noise for each held pose.", 1, ge=1)


class SoundOptions(CheckpointOption, JsonOption):
    """Of ``bench sound``."""

    files: tuple[Path, ...] = option("What to play.", argument=True, exists=True)
    seconds: float = option("Of each file at most.", 25.0, ge=5, le=3600)
    presets: tuple[str, ...] = option("A voice; repeatable.", ("default",), flag="--preset")
    lead_ms: LeadMs = option("As of `live`: auto, or 0..400.", "auto", metavar="auto|MS")


class SoakOptions(JsonOption):
    """Of ``soak``."""

    hours: float = option("How long to play.", 1.0, gt=0, le=168)
    kills: int = option("In its place: so many short shows, each killed.", 0, ge=0, le=10_000, metavar="N")
    seed: int = option("Of what happens when.", 0, ge=0)
    out: Path = option("A new folder: report, picture, recordings.", Path("soak"), written=True)
