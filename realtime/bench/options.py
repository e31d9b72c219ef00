"""What each bench and the soak can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pyanticip.errors import OptionError
from pyanticip.options import CheckpointOption, JsonOption, ModelOptions, option
from realtime.config import LeadMs
from realtime.rig import BackendKind

Length = Annotated[int, Field(ge=1, le=65536)]


def numbers(name: str, text: str, most: int) -> list[int]:
    """The numbers from 1 to ``most`` of an option that lists some.

    Raises:
        OptionError: other words, or none.
    """
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(1 <= n <= most for n in found):
        raise OptionError(f"{name}: expected numbers from 1 to {most}, as 1,2,4, got {text!r}")
    return found


class LatencyOptions(ModelOptions, JsonOption):
    """Of ``bench latency``."""

    seconds: float = option("Seconds to measure.", 60.0, ge=1, le=3600)
    file: Path | None = option("Motion file to send; synthetic motion by default.", None, exists=True)
    backend: BackendKind = option("Step backend.", "auto")
    prewarm: bool = option("Warm up each step before its datagram; --no-prewarm: run every step cold.", True)
    spin: bool = option("Poll instead of sleeping before each datagram: less latency, more CPU.", False)
    priority: bool = option("Ask for real-time priority.", True)
    monitor: bool = option("Run the monitor as well, without a browser.", False)


class PerformersOptions(JsonOption):
    """Of ``bench performers``."""

    count: str = option("Numbers of performers to measure.", "1,2,4,8,16,32", metavar="N,N...")
    seconds: float = option("Seconds to measure each.", 20.0, ge=1, le=3600)
    phases: Literal["random", "even", "together"] = option(
        "When each suit sends within the 20 ms frame.", "random"
    )
    prewarm: bool = option("Prewarm every performer's step, as a single performer's is.", False)
    picture: Path | None = option("Plot the result.", None, metavar="OUT.png", written=True)
    model: bool = option("Run the model; --no-model: the seven scalars play instead.", True)


class NetworkOptions(CheckpointOption, JsonOption):
    """Of ``bench network``."""

    files: tuple[Path, ...] = option("Motion files to send.", (), argument=True, exists=True)
    seconds: float = option("Seconds of each file at most.", 20.0, ge=5, le=3600)
    markdown: bool = option("Print the tables as Markdown.", False)


class ScalarsOptions(JsonOption):
    """Of ``bench scalars``."""

    seconds: float = option("Total seconds, approximately.", 60.0, ge=1, le=3600)


class BridgeOptions(JsonOption):
    """Of ``bench bridge``."""

    seconds: float = option("Total seconds, approximately.", 120.0, ge=1, le=3600)
    lengths: tuple[Length, ...] = option("Measure only this one; repeatable.", (), flag="--length")
    data: Literal["noise", "tokens", "walk"] = option("Kind of test data.", "noise")
    compile: bool = option("Measure torch.compile as well.", True)


class StepOptions(CheckpointOption, JsonOption):
    """Of ``bench step``."""

    seconds: float = option("Total seconds.", 20.0, ge=1, le=3600)
    backends: tuple[Literal["rust", "torch", "cuda-graph"], ...] = option(
        "Measure only this one; repeatable.", (), flag="--backend"
    )
    performers: str = option("Instead, time steps of this many performers at once.", "", metavar="N,N...")


class TrainOptions(JsonOption):
    """Of ``bench train``."""

    seconds: float = option("Total seconds, approximately.", 120.0, ge=1, le=3600)
    size: Literal["small", "default"] = option("Model preset.", "small")
    device: Literal["auto", "cpu", "cuda"] = option("Compute device.", "auto")


class PerformerOptions(JsonOption):
    """Of ``bench performer``."""

    data: Path = option("The takes (a folder with cmu/ and more/).", exists=True, variable="PYANTICIP_DATA")
    seeds: int = option("Draws of noise for each held pose.", 1, ge=1)


class SoundOptions(CheckpointOption, JsonOption):
    """Of ``bench sound``."""

    files: tuple[Path, ...] = option("Motion files to play.", argument=True, exists=True)
    seconds: float = option("Seconds of each file at most.", 25.0, ge=5, le=3600)
    presets: tuple[str, ...] = option("Voice preset; repeatable.", ("default",), flag="--preset")
    lead_ms: LeadMs = option("Lead as in `live`: auto, or 0..400 ms.", "auto", metavar="auto|MS")


class SoakOptions(JsonOption):
    """Of ``soak``."""

    hours: float = option("Hours to play.", 1.0, gt=0, le=168)
    kills: int = option("Instead, run this many short shows and kill each.", 0, ge=0, le=10_000, metavar="N")
    seed: int = option("Seed of the sequence of faults.", 0, ge=0)
    out: Path = option("New folder for report, picture and recordings.", Path("soak"), written=True)
