"""Options of the commands ``pyanticip bench`` and ``pyanticip soak``."""

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
    """The comma-separated numbers, from 1 to ``most``, in the value of option ``name``.

    Raises:
        OptionError: the value has another form.
    """
    try:
        values = [int(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(1 <= n <= most for n in values):
        raise OptionError(f"{name}: expected numbers from 1 to {most}, as 1,2,4, got {text!r}")
    return values


class LatencyOptions(ModelOptions, JsonOption):
    """Options of ``bench latency``."""

    seconds: float = option("Seconds to measure.", 60.0, ge=1, le=3600)
    file: Path | None = option("Motion file to send; synthetic motion by default.", None, exists=True)
    backend: BackendKind = option("Step backend.", "auto", names="realtime.seams:BACKENDS")
    prewarm: bool = option("Warm up each step before its datagram; --no-prewarm: run every step cold.", True)
    spin: bool = option("Poll instead of sleeping before each datagram: less latency, more CPU.", False)
    priority: bool = option("Ask for real-time priority.", True)
    monitor: bool = option("Run the monitor as well, without a browser.", False)


class PerformersOptions(JsonOption):
    """Options of ``bench performers``."""

    count: str = option("Numbers of performers to measure.", "1,2,4,8,16,32", metavar="N,N...")
    seconds: float = option("Seconds to measure each.", 20.0, ge=1, le=3600)
    phases: Literal["random", "even", "together"] = option(
        "When each suit sends within the 20 ms frame.", "random"
    )
    prewarm: bool = option("Prewarm every performer's step, as a single performer's is.", False)
    picture: Path | None = option("Plot the result.", None, metavar="OUT.png", written=True)
    model: bool = option("Run the model; --no-model: the seven scalars play instead.", True)


class NetworkOptions(CheckpointOption, JsonOption):
    """Options of ``bench network``."""

    files: tuple[Path, ...] = option("Motion files to send.", (), argument=True, exists=True)
    seconds: float = option("Seconds of each file at most.", 20.0, ge=5, le=3600)
    markdown: bool = option("Print the tables as Markdown.", False)


class ScalarsOptions(JsonOption):
    """Options of ``bench scalars``."""

    seconds: float = option("Total seconds, approximately.", 60.0, ge=1, le=3600)


class BridgeOptions(JsonOption):
    """Options of ``bench bridge``."""

    seconds: float = option("Total seconds, approximately.", 120.0, ge=1, le=3600)
    lengths: tuple[Length, ...] = option("Measure only this one; repeatable.", (), flag="--length")
    data: Literal["noise", "tokens", "walk"] = option("Kind of test data.", "noise")
    compile: bool = option("Measure torch.compile as well.", True)


class StepOptions(CheckpointOption, JsonOption):
    """Options of ``bench step``."""

    seconds: float = option("Total seconds.", 20.0, ge=1, le=3600)
    backends: tuple[Literal["rust", "torch", "cuda-graph"], ...] = option(
        "Measure only this one; repeatable.", (), flag="--backend"
    )
    performers: str = option("Instead, time steps of this many performers at once.", "", metavar="N,N...")


class TrainOptions(JsonOption):
    """Options of ``bench train``."""

    seconds: float = option("Total seconds, approximately.", 120.0, ge=1, le=3600)
    size: Literal["small", "default"] = option("Model preset.", "small")
    device: Literal["auto", "cpu", "cuda"] = option("Compute device.", "auto")


class PerformerOptions(JsonOption):
    """Options of ``bench performer``."""

    data: Path = option("The takes (a folder with cmu/ and more/).", exists=True, variable="PYANTICIP_DATA")
    seeds: int = option("Draws of noise for each held pose.", 1, ge=1)


class SoundOptions(CheckpointOption, JsonOption):
    """Options of ``bench sound``."""

    files: tuple[Path, ...] = option("Motion files to play.", argument=True, exists=True)
    seconds: float = option("Seconds of each file at most.", 25.0, ge=5, le=3600)
    presets: tuple[str, ...] = option(
        "Voice preset; repeatable.", ("default",), flag="--preset", names="realtime.seams:VOICES"
    )
    lead_ms: LeadMs = option("Lead as in `live`: auto, or 0..400 ms.", "auto", metavar="auto|MS")


class SoakOptions(JsonOption):
    """Options of ``soak``."""

    hours: float = option("Hours to play.", 1.0, gt=0, le=168)
    kills: int = option("Instead, run this many short shows and kill each.", 0, ge=0, le=10_000, metavar="N")
    seed: int = option("Seed of the sequence of faults.", 0, ge=0)
    out: Path = option("New folder for report, picture and recordings.", Path("soak"), written=True)
