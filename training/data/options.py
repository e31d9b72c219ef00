"""What the commands that prepare motion for training can be told."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pyanticip.motion.options import ReadingOptions
from pyanticip.options import JsonOption, Options, option
from pyanticip.system import cores


class WorkersOption(Options):
    """Of every command that shares its work among processes."""

    workers: int | None = option("Processes; as many as there are cores if not given.", None, ge=1)

    def cores(self) -> int:
        """How many processes there are to be."""
        if self.workers is not None:
            return self.workers
        return cores()


class BuildOptions(WorkersOption, ReadingOptions, JsonOption):
    """Of ``train data build``."""

    folder: Path = option("Takes, in any folders.", argument=True, metavar="TAKES", exists=True)
    out: Path = option("Folder of the set.")
    subject_from: str = option(
        "Who performs: auto, folder, top, file, or a regular expression for the path.",
        "auto",
        metavar="RULE",
    )
    split_file: Path | None = option("Subjects and their sides: TOML or CSV.", None, exists=True)
    min_seconds: float = option("Shorter stretches are left out.", 1.6, ge=0.1)
    sound: Literal["auto", "none"] = option("Whether a .wav or .flac beside a take teaches it.", "auto")
    manifest: Path | None = option("Takes, their sounds and offsets: TOML or CSV.", None, exists=True)
    shard: str | None = option("i/n: only this share of the takes, for train data merge.", None)


class MergeOptions(JsonOption):
    """Of ``train data merge``."""

    shards: tuple[Path, ...] = option("Folders of all shards.", argument=True, metavar="SHARD...")
    out: Path = option("Folder of the set.")


class AugmentOptions(WorkersOption, JsonOption):
    """Of ``train data augment``."""

    folder: Path = option("A set.", argument=True, metavar="SET")
    out: Path = option("Folder of the new set.")
    copies: int = option("Variations of each clip.", 4, ge=1)
    seed: int = option("Of every random choice.", 0, ge=0)
    recipe: Path | None = option("What is done to them: TOML. Everything by default.", None, exists=True)


class InspectOptions(JsonOption):
    """Of ``train data inspect``."""

    folder: Path = option("A set.", argument=True, metavar="SET")
    out: Path | None = option("A page.html, or a folder for page, pictures and numbers.", None)
    verify: bool = option("Read everything and compare its sha256.", False)
