"""Does geometry help on motion? Small motion models that differ in one thing, over seeds.

A run is a variant of the model and a seed. For a seed every variant sees the same windows in the same order;
all have as many parameters (within 1 %), the same losses, optimiser and schedule. Runs come in the order of
their seeds, so that a study that was stopped early has treated all variants alike; a run whose file exists
is not repeated.

The given scalars steer throughout, in training and when judged: none of a variant's windows run on scalars
of its own, for with ``input`` there would be nothing to replace.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from training.study.motion_data import MotionData, load
from training.study.motion_scores import judge
from training.study.runs import must_equal, perform, processor, read, versions, write
from training.trainer import Trainer, TrainOptions

KIND: Final = "motion"

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
    "trajectory-rope": {"positions": "rope"},
    "random-rope": {"bias": "random", "positions": "rope"},
}
"""What can be compared, as what differs from the shipped model's options. ``no-slow`` has its slow layers in
the fast pathway instead."""

MAIN: Final = tuple(name for name in VARIANTS if not name.endswith("-rope"))
"""The variants of the question; with RoPE under the bias as well is a second one."""

SIZES: Final[dict[str, Any]] = {
    "d_model": 64,
    "heads": 4,
    "fast_layers": 2,
    "slow_layers": 3,
    "ff": 256,
    "control_hidden": 128,
    "dropout": 0.1,
}
"""Half the shipped model's widths, and all of its layers."""

CURVE: Final = 20
"""Points of a learning curve."""


@dataclass(frozen=True)
class Recipe:
    """What all runs of a study have in common.

    Raises:
        OptionError: sizes below one.
    """

    steps: int = 300
    batch_frames: int = 1536
    lr: float = 2e-3
    copies: int = 4
    """Varied copies of every training piece, the same for all seeds."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """What differs from :data:`SIZES`, in all variants."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch_frames", 1), ("copies", 0)):
            if getattr(self, name) < least:
                raise OptionError(f"option {name}: expected at least {least}, given {getattr(self, name)}")

    def config(self, variant: str) -> ModelConfig:
        """A variant's model, its feed-forward layers as wide as it takes to have as many parameters as
        ``trajectory``."""
        whole = ModelConfig(**{**SIZES, **self.model})
        changes = dict(VARIANTS[variant])
        if changes.get("slow_layers") == 0:
            changes["fast_layers"] = whole.fast_layers + whole.slow_layers
        cfg = replace(whole, **changes)
        missing = parameters(whole) - parameters(cfg)
        column = (cfg.fast_layers + cfg.slow_layers) * (2 * cfg.d_model + 1)
        return replace(cfg, ff=cfg.ff + round(missing / column))

    def options(self, seed: int) -> TrainOptions:
        """How a run trains."""
        return TrainOptions(
            steps=self.steps,
            seed=seed,
            batch_frames=self.batch_frames,
            peak_lr=self.lr,
            final_lr=self.lr / 100.0,
            warm_up_steps=min(100, max(1, self.steps // 5)),
            own_scalars=0.0,
            threads=1,
        )


@functools.lru_cache
def parameters(cfg: ModelConfig) -> int:
    """Parameters of a configuration's model."""
    return sum(p.numel() for p in MotionTransformer(cfg).parameters())


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
    for name in variants:
        if name not in VARIANTS:
            raise OptionError(f"variant: expected one of {', '.join(VARIANTS)}, given {name!r}")
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
    """
    out.mkdir(parents=True, exist_ok=True)
    kept_at = out / "cache" if cache is None else cache
    if processes > 1:
        load(data, 0, kept_at)  # so that processes do not write the same cache
    return perform(
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
    cfg, options = recipe.config(run.variant), recipe.options(run.seed)
    torch.manual_seed(run.seed)
    model = MotionTransformer(cfg)
    model.set_normalisation(motion.mean, motion.std)
    wall, cpu = time.perf_counter(), time.process_time()
    curve = fit(model, motion, options)
    took = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    result = {
        "kind": KIND,
        **asdict(run),
        "model": cfg.to_dict(),
        "options": asdict(options),
        "copies": recipe.copies,
        "motion": motion.digest,
        "parameters": parameters(cfg),
        "curve": curve,
        "scores": judge(model, motion.held_out),
        **{name: round(value, 2) for name, value in took.items()},
        "versions": versions(),
        "processor": processor(),
    }
    write(out / run.file, result)
    return result


def fit(model: MotionTransformer, motion: MotionData, options: TrainOptions) -> list[dict[str, float]]:
    """Train, and leave the averaged weights in the model.

    This alone knows how motion models are trained.

    Returns:
        Mean parts of the loss since the last point, with ``step``.
    """
    trainer = Trainer(model, motion.windows, motion.weights, options)
    every = max(1, options.steps // CURVE)
    curve: list[dict[str, float]] = []
    sums: dict[str, float] = {}
    count = 0
    while trainer.step < options.steps:
        for name, value in trainer.train_step().items():
            sums[name] = sums.get(name, 0.0) + value
        count += 1
        if trainer.step % every == 0 or trainer.step == options.steps:
            means = {name: round(value / count, 5) for name, value in sums.items() if name != "lr"}
            curve.append({"step": float(trainer.step), **means})
            sums, count = {}, 0
    model.load_state_dict(trainer.averaged())
    return curve


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
        theirs = {
            **ModelConfig.from_dict(found["model"]).to_dict(),
            **asdict(TrainOptions()),
            **found["options"],
            "copies": found["copies"],
        }
    except (KeyError, TypeError) as error:
        raise FormatError(f"{file}: not a run of the motion study: {error}") from None
    wanted = {**recipe.config(run.variant).to_dict(), **asdict(recipe.options(run.seed))}
    must_equal(file, _plain(theirs), _plain({**wanted, "copies": recipe.copies}))
    return True


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives them back."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _line(result: dict[str, Any], number: int | None, count: int) -> str:
    at = f"{number}/{count} " if number is not None else ""
    tables = [row["error"] for row in result["scores"]["validation"].values()]
    ahead = sum(float(row[3]) for table in tables for row in table) / (8 * len(tables))
    return (
        f"{at}{result['variant']} seed {result['seed']}: validation error 200 ms ahead {ahead:.4f}, "
        f"{result['cpu_seconds']:.0f} s of CPU, {result['seconds']:.0f} s"
    )
