"""``pyanticip train packaged``: trains a checkpoint from takes, stage by stage.

Every stage has its own folder in ``OUT``, with its checkpoint. ``OUT/recipe.json`` lists the finished stages,
each with a hash of everything that determines it (its options, the data, and the stages it starts from), the
hash of its weights, and those of the stages it was made from. An interrupted command resumes at the stage it
had reached, a run at its last state.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

from rich.console import Console

from pyanticip.errors import CheckpointError, OptionError, Terminated
from pyanticip.models.checkpoint.manifest import WEIGHTS, read_manifest
from pyanticip.untrusted import read_json
from training.data.sets import MotionSet
from training.data.sets.vary import VARY_VERSION
from training.finish.beats import train_event_head
from training.finish.common import warn
from training.finish.poses import train_pose_head
from training.recipes.stages import PACKAGED, STAGE_OPTIONS, AnyStage, Beats, Train, read_stages
from training.run.files import CONFIG, run_lock, write_text
from training.run.task import check_same
from training.tasks.motion.data import base_set, recipe_of, training_data
from training.tasks.motion.options import MotionTrainOptions
from training.tasks.motion.task import CHECKPOINT, MotionTask, check_weights, fit

RECORD: Final = "recipe.json"
FORMAT: Final = "pyanticip-recipe"


def make(
    data: Path, out: Path, *, recipe: Path | None = None, cache: Path | None = None, quiet: bool = True
) -> dict[str, Any]:
    """Run a recipe, or resume it.

    Args:
        data: a set, or a folder of takes.
        out: folder of the stages: a new one, or that of an interrupted run with the same recipe and data.
        recipe: TOML file of stages; that of the packaged model by default.
        cache: folder of sets and varied copies; the user's cache folder by default.
        quiet: whether to show no progress and no messages.

    Returns:
        The last stage's checkpoint, and for each stage its name, its entry in the record, and whether it was
        ``made`` now or ``kept``. ``finished`` is False after Ctrl-C or SIGTERM, when progress was saved (the
        command then exits with 130).

    Raises:
        OptionError: an invalid recipe, data it does not fit, a folder with other content, or stages made
            with other options or data, or from other weights.
        FormatError: no motion in ``data``.
        CheckpointError: a stage that ended without a checkpoint, or whose checkpoint is damaged or has
            changed.
    """
    stages = read_stages(recipe or PACKAGED)
    _read(out)  # refuses another folder before sets are built
    console = Console(stderr=True, quiet=quiet)
    takes = base_set(MotionTrainOptions().replace(data={"path": data, "cache": cache or ""}), console)
    keys = dict[str, str]()
    for stage in stages:
        keys[stage.name] = _key(stage, takes.digest, keys)
    report: dict[str, Any] = {"out": str(out), "finished": False, "data": takes.digest, "stages": []}
    out.mkdir(parents=True, exist_ok=True)
    with run_lock(out):
        record = _read(out)  # another command may just have finished a stage
        made = record["stages"]
        finished = {name for name in made if (out / name / CHECKPOINT).is_dir()}
        for stage in stages:  # check everything before the first stage runs
            if stage.name in finished:
                _check(out / stage.name, made[stage.name], keys[stage.name])
        warn(console, takes.warnings)
        write_text(out / RECORD, json.dumps(record, indent=1) + "\n")
        for number, stage in enumerate(stages, start=1):
            checkpoint = out / stage.name / CHECKPOINT
            kept = stage.name in finished
            action = "kept" if kept else stage.kind
            console.print(f"stage {number} of {len(stages)}, {stage.name}: {action}", highlight=False)
            needed = {name: made[name].get("weights") for name in stage.needs()}
            began = made[stage.name].get("from", {}) if kept else {}
            # Older versions noted no weights: what is not known is not held against a stage.
            if changed := [name for name, w in needed.items() if w and (began.get(name) or w) != w]:
                raise OptionError(
                    f"{out / stage.name}: was made from other weights of {', '.join(changed)}; "
                    "delete it to make it again"
                )
            if not kept:
                started = time.monotonic()
                try:
                    if not _make(stage, out, data, takes, cache, console):
                        return report
                except (KeyboardInterrupt, Terminated):  # Ctrl-C, SIGTERM
                    return report
                if not checkpoint.is_dir():
                    raise CheckpointError(
                        f"{checkpoint.parent}: ended without a checkpoint; delete it to make it again"
                    )
                seconds = round(time.monotonic() - started, 1)
                weights = read_manifest(checkpoint).sha256[WEIGHTS]
                made[stage.name] = {
                    "key": keys[stage.name],
                    "seconds": seconds,
                    "weights": weights,
                    "from": needed,
                }
                write_text(out / RECORD, json.dumps(record, indent=1) + "\n")
            state = "kept" if kept else "made"
            report["stages"].append({"name": stage.name, **made[stage.name], "state": state})
    return {**report, "finished": True, "checkpoint": str(checkpoint)}


def _read(out: Path) -> dict[str, Any]:
    """Read the record of finished stages in a folder; empty for a new one."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return {"format": FORMAT, "stages": {}}
    file = out / RECORD
    if not file.is_file():
        raise OptionError(f"{out}: holds something else; give a new folder, or one that has a {RECORD}")
    try:
        record = read_json(file, OptionError)
        if record["format"] == FORMAT and all(stage["key"] for stage in record["stages"].values()):
            return dict(record)
    except (LookupError, TypeError, AttributeError):
        pass
    raise OptionError(f"{file}: does not say which stages are finished")


def _check(folder: Path, made: Mapping[str, Any], key: str) -> None:
    """Check that a finished stage matches its key, and that its checkpoint is unchanged.

    Raises:
        OptionError, CheckpointError: see :func:`make`.
    """
    if made["key"] != key:
        raise OptionError(
            f"{folder}: was made with other options, data or earlier stages; "
            "delete it to make it again, or give another folder with --out"
        )
    advice = f"delete {folder} to make it again"
    try:
        manifest = read_manifest(folder / CHECKPOINT)
        manifest.read(WEIGHTS)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; {advice}") from None
    if made.get("weights") not in (None, manifest.sha256[WEIGHTS]):
        raise CheckpointError(f"checkpoint {folder / CHECKPOINT}: has other weights than were made; {advice}")


def _key(stage: AnyStage, data: str, keys: Mapping[str, str]) -> str:
    """A hash of everything that determines a stage's result: its options, the data's digest, the stages
    before it, and the version of the varied copies."""
    content = stage.model_dump(exclude={"name", "start", "ensemble"})
    needs: dict[str, Any] = {"from": keys[stage.start] if stage.start else ""}
    if isinstance(stage, Train):
        options = stage.run_options()
        copies = recipe_of(options.data.recipe).record()
        deciding_options = {
            n: v for n, v in options.flat().items() if n not in (*options.EXECUTION, *STAGE_OPTIONS)
        }
        content["options"] = {**deciding_options, "data.recipe": copies}
        needs["ensemble"] = [keys[name] for name in stage.ensemble]
    text = json.dumps([content, data, needs, VARY_VERSION], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _make(
    stage: AnyStage,
    out: Path,
    data: Path,
    takes: MotionSet,
    cache: Path | None,
    console: Console,
) -> bool:
    """Run a stage or resume it; returns whether it finished."""
    folder, start_checkpoint = out / stage.name, out / stage.start / CHECKPOINT
    if isinstance(stage, Train):
        ensemble = [out / name / CHECKPOINT for name in stage.ensemble]
        options = stage.run_options(data, cache or "", start_checkpoint if stage.start else "", ensemble)
        if resume := (folder / CONFIG).is_file():
            check_same(MotionTask, folder, options)
            check_weights(options, folder)
        learned_from = training_data(options, console, base=takes)
        return bool(fit(options, folder, data=learned_from, resume=resume, quiet=console.quiet)["finished"])
    shutil.rmtree(
        folder, ignore_errors=True
    )  # left by a process that was killed before the stage was recorded
    train_head = train_event_head if isinstance(stage, Beats) else train_pose_head
    target, head_options = folder / CHECKPOINT, stage.options.model_dump()
    common_options: dict[str, Any] = {
        "base": takes,
        "checkpoint": start_checkpoint,
        "cache": cache,
        "quiet": console.quiet,
    }
    train_head(data, target, **common_options, **head_options)
    return True


def lines(report: Mapping[str, Any]) -> list[str]:
    """Lines to print about a report."""
    if not report["finished"]:
        return ["interrupted; what is finished or saved is kept, and the same command goes on with it"]
    durations = ", ".join(f"{stage['name']} {stage['seconds']:.0f} s" for stage in report["stages"])
    where = report["checkpoint"]
    return [
        durations,
        f"wrote {where}; play it with:",
        f"  pyanticip live --source auto://0.0.0.0 --checkpoint {quote(where)}",
    ]
