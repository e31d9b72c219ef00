"""Command-line options of ``train data``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pyanticip.motion.options import ReadingOptions
from pyanticip.options import JsonOption, Options, option
from pyanticip.system import cores
from training.data.manifest import check_motion


class DataOption(Options):
    """Option of commands that read motion."""

    data: Path = option("A set, or a folder of takes.")

    def check(self) -> None:
        """Also check that the data path holds motion."""
        super().check()
        check_motion(self.data)


class WorkersOption(Options):
    """Option of commands that run worker processes."""

    workers: int | None = option("Processes; one per core by default.", None, ge=1)

    def cores(self) -> int:
        """Number of worker processes."""
        if self.workers is not None:
            return self.workers
        return cores()


class BuildOptions(WorkersOption, ReadingOptions, JsonOption):
    """Options of ``train data build``."""

    folder: Path = option(
        "Folder of takes, searched with its subfolders.", argument=True, metavar="TAKES", exists=True
    )
    out: Path = option("Folder of the set.")
    subject_from: str = option(
        "Where the subject is read from: auto, folder, top, file, or a regex on the path.",
        "auto",
        metavar="RULE",
    )
    split_file: Path | None = option("Subjects of each side of the split: TOML or CSV.", None, exists=True)
    min_seconds: float = option("Leave out shorter stretches.", 1.6, ge=0.1)
    sound: Literal["auto", "none"] = option("Whether a .wav or .flac beside a take is its teacher.", "auto")
    manifest: Path | None = option("Takes, their sounds and offsets: TOML or CSV.", None, exists=True)
    shard: str | None = option("Build only share i of n of the takes (i/n), for train data merge.", None)


class MergeOptions(JsonOption):
    """Options of ``train data merge``."""

    shards: tuple[Path, ...] = option("Folders of all shards.", argument=True, metavar="SHARD...")
    out: Path = option("Folder of the set.")


class AugmentOptions(WorkersOption, JsonOption):
    """Options of ``train data augment``."""

    folder: Path = option("A set.", argument=True, metavar="SET")
    out: Path = option("Folder of the new set.")
    copies: int = option("Variations of each clip.", 4, ge=1)
    seed: int = option("Random seed.", 0, ge=0)
    recipe: Path | None = option("Augmentations (TOML); all by default.", None, exists=True)


class InspectOptions(JsonOption):
    """Options of ``train data inspect``."""

    folder: Path = option("A set.", argument=True, metavar="SET")
    out: Path | None = option("PAGE.html, or a folder for page, pictures and numbers.", None)
    verify: bool = option("Read every file and verify its SHA-256.", False)
