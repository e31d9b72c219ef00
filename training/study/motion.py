"""Does geometry help on motion? Small motion models that differ in one thing, over seeds.

A run is a variant of the model and a seed. For a seed every variant sees the same windows in the same order;
all have as many parameters (within 1 %), the same losses, optimiser and schedule. Runs come in the order of
their seeds, so that a study that was stopped early has treated all variants alike; a run whose file exists
is not repeated.

The given scalars steer throughout, in training and when judged: none of a variant's windows run on scalars
of its own, for with ``input`` there would be nothing to replace.
"""

import csv
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from pyanticip.motion.atomic import draft_folder
from training.run.files import METRICS
from training.run.launch import resolve_device
from training.study.motion_data import MotionData, load
from training.study.motion_scores import judge
from training.study.runs import check_names, must_equal, perform, processor, read, versions, write
from training.study.scale import Scale, parameters, widened
from training.tasks.motion import MotionTrainOptions, load_run
from training.tasks.motion import fit as train

KIND: Final = "motion"

LOOP: Final = 2
"""Counts the training loops: 1 was the one before ``training.tasks.motion``, which drew other windows. Runs
of one are not mixed with runs of another."""

VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "trajectory": {},
    "random": {"bias": "random"},
    "none": {"bias": "none"},
    "alibi": {"bias": "none", "positions": "alibi"},
    "rope": {"bias": "none", "positions": "rope"},
    "no-slow": {"slow_layers": 0},
    "no-pathway-gate": {"mixing": "mean"},
    "no-event-gate": {"gated_events": False},
    "input": {"bias": "none", "scalar_input": True},
    # The bias network as it starts by default hardly comes to heed the scalars in so short a run.
    "trajectory-alive": {"bias_start": "fan-in"},
    "random-alive": {"bias": "random", "bias_start": "fan-in"},
    "trajectory-rope": {"positions": "rope"},
    "random-rope": {"bias": "random", "positions": "rope"},
}
"""What can be compared, as what differs from the shipped model's options. ``no-slow`` has its slow layers in
the fast pathway instead."""

MAIN: Final = tuple(name for name in VARIANTS if not name.endswith("-rope"))
"""The variants of the question; with RoPE under the bias as well is a second one."""


@dataclass(frozen=True)
class Recipe(Scale):
    """What all runs of a study have in common; see :class:`~training.study.scale.Scale`."""

    def config(self, variant: str) -> ModelConfig:
        """A variant's model, its feed-forward layers as wide as it takes to have as many parameters as
        ``trajectory``."""
        whole = ModelConfig(**self.sizes)
        changes = dict(VARIANTS[variant])
        if changes.get("slow_layers") == 0:
            changes["fast_layers"] = whole.fast_layers + whole.slow_layers
        cfg = replace(whole, **changes)
        return replace(cfg, ff=widened(cfg, whole))

    def options(self, variant: str, seed: int) -> MotionTrainOptions:
        """How a run trains."""
        return self.plain(seed).but(model=self.config(variant).to_dict())

    def compared(self) -> dict[str, Any]:
        """What must be equal in all runs of a folder."""
        return {
            "loop": LOOP,
            "steps": self.steps,
            "batch_frames": self.batch_frames,
            "lr": self.lr,
            "copies": self.copies,
        }


@dataclass(frozen=True)
class Run:
    """One run of a study."""

    variant: str
    seed: int

    @property
    def file(self) -> str:
        """Its file's name in the study's folder."""
        return f"motion-{self.variant}-seed{self.seed}.json"


def plan(variants: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """All runs, seed by seed.

    Raises:
        OptionError: an unknown variant.
    """
    check_names("variant", variants, VARIANTS)
    return [Run(variant, seed) for seed in seeds for variant in variants]


def study(
    out: Path,
    runs: Sequence[Run],
    data: Path,
    recipe: Recipe,
    *,
    cache: Path | None = None,
    processes: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, int]:
    """Do the runs of a study that have not been done yet.

    Args:
        out: folder of the runs' files, and of what the retargeted motion is kept in by default.
        runs: which, in this order.
        data: folder of takes.
        recipe: what they have in common; runs of another recipe in ``out`` are refused.
        cache: folder for the retargeted motion.
        processes: runs at a time, each on one thread; every process holds the motion.
        say: told about every run that is finished.

    Returns:
        ``done`` in this call, ``kept`` from earlier ones.

    Raises:
        FormatError: no usable motion.
        OptionError: a kept run followed another recipe.
        DeviceError: a device that is not there.
    """
    resolve_device(recipe.device, "32")
    kept_at = out / "cache" if cache is None else cache
    return perform(
        out,
        runs,
        functools.partial(do, out, data=data, recipe=recipe, cache=kept_at),
        kept=lambda run: _kept(out, run, recipe),
        line=_line,
        processes=processes,
        say=say,
    )


def do(out: Path, run: Run, *, data: Path, recipe: Recipe, cache: Path | None) -> dict[str, Any]:
    """Train and judge one model, and write its file.

    Raises:
        OptionError: earlier runs in ``out`` learned from other motion.
    """
    torch.set_num_threads(1)
    motion = load(data, recipe.copies, cache)
    _same_motion(out, motion)
    options = recipe.options(run.variant, run.seed)
    wall, cpu = time.perf_counter(), time.process_time()
    model, curve = fit(options, motion, out)
    took = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    result = {
        "kind": KIND,
        **asdict(run),
        "model": model.cfg.to_dict(),
        "recipe": recipe.compared(),
        "motion": motion.digest,
        "parameters": parameters(model.cfg),
        "curve": curve,
        "scores": judge(model, motion.held_out),
        **{name: round(value, 2) for name, value in took.items()},
        "versions": versions(),
        "processor": processor(),
    }
    write(out / run.file, result)
    return result


def fit(
    options: MotionTrainOptions, motion: MotionData, out: Path
) -> tuple[MotionTransformer, list[dict[str, float]]]:
    """Train; in a folder below ``out`` that is gone afterwards, at the next start if this process is killed.

    This alone knows how motion models are trained.

    Returns:
        The model with the averaged weights of the last update; and mean parts of the loss since the last
        point, with ``step``.
    """
    with draft_folder(out, ".fit-") as place:
        folder = place / "run"
        if not train(options, folder, data=motion.training)["finished"]:
            raise KeyboardInterrupt
        with (folder / METRICS).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        # There is one validation, after the last update: the best weights are the last.
        model = load_run(folder)
    names = ("step", "total", "params", "events", "scalars", "gate", "orthogonality")
    return model, [{name: round(float(row[name]), 5) for name in names} for row in rows]


REFERENCE: Final = "reference.json"
"""File of what needs no model, for the motion of all runs in a folder."""


def _same_motion(out: Path, motion: MotionData) -> None:
    """All runs of a folder learn from the same motion, whose rivals stand beside them."""
    file = out / REFERENCE
    if not file.is_file():
        write(file, {"kind": KIND, "motion": motion.digest, "scores": motion.reference})
    elif read(file)["motion"] != motion.digest:
        raise OptionError(f"{file}: the runs beside it learned from other motion: use another folder")


def _kept(out: Path, run: Run, recipe: Recipe) -> bool:
    """Whether a run has been done, by this recipe."""
    file = out / run.file
    if not file.is_file():
        return False
    found = read(file)
    try:
        # An option that came later has the default which stands for what was done before.
        theirs = {**ModelConfig.from_dict(found["model"]).to_dict(), **found["recipe"]}
    except (KeyError, TypeError) as error:
        raise FormatError(f"{file}: not a run of the motion study: {error}") from None
    must_equal(file, theirs, {**recipe.config(run.variant).to_dict(), **recipe.compared()})
    return True


def _line(result: dict[str, Any], number: int | None, count: int) -> str:
    at = f"{number}/{count} " if number is not None else ""
    tables = [row["error"] for row in result["scores"]["validation"].values()]
    ahead = sum(float(row[3]) for table in tables for row in table) / (8 * len(tables))
    return (
        f"{at}{result['variant']} seed {result['seed']}: validation error 200 ms ahead {ahead:.4f}, "
        f"{result['cpu_seconds']:.0f} s of CPU, {result['seconds']:.0f} s"
    )
