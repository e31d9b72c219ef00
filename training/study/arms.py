"""Questions about the parts of the motion model, each asked by arms: runs that are equal but for one thing.

An arm is what it changes in the options of :mod:`training.tasks.motion`. For a seed all arms of a question
see the same windows in the same order, with the same losses, optimiser and schedule, and have as many
parameters as the first arm (within 1 %: feed-forward layers are made wider or narrower for it). Runs come
seed by seed, so that a study that was stopped early has treated all arms alike; a run whose file exists is
not repeated.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from pyanticip.errors import FormatError, OptionError
from pyanticip.models import ModelConfig, MotionTransformer
from training.run.launch import resolve_device
from training.run.settings import merge
from training.study.motion import fit
from training.study.motion_data import MotionData, load
from training.study.motion_report import Measure
from training.study.runs import check_names, perform, processor, read, versions, write
from training.study.scale import Scale, parameters, widened
from training.tasks.motion import MotionTrainOptions

KIND: Final = "motion-arms"

NEEDS: Final[dict[str, Callable[[ModelConfig], bool]]] = {
    "loss.plan": lambda cfg: cfg.planning,
    "loss.plan_shown": lambda cfg: cfg.planning,
    "loss.field": lambda cfg: cfg.control_field,
    "loss.pose": lambda cfg: bool(cfg.pose_horizons),
}
"""Options that do nothing in models without a part: a run that had another value is the same run."""

Tables = Mapping[str, Mapping[str, Any]]
"""Options by table, as :class:`training.tasks.motion.options.MotionTrainOptions` takes them."""


class Ground(Protocol):
    """What the models of a question are judged on, made once."""

    @property
    def reference(self) -> dict[str, Any]:
        """What errors are divided by, in the form of a model's scores: by split and subject."""
        ...

    @property
    def rivals(self) -> dict[str, dict[str, Any]]:
        """The scores of what needs no training of a model, by name."""
        ...

    def judge(self, model: MotionTransformer, options: MotionTrainOptions) -> dict[str, Any]:
        """The scores of a model that was trained with these options, by split and subject."""
        ...


@dataclass(frozen=True)
class Question:
    """What is asked, and by which arms."""

    name: str
    """Of its page and of its runs' files."""
    title: str
    arms: Mapping[str, Tables]
    """What each changes in :attr:`Recipe.options`."""
    pairs: tuple[tuple[str, str], ...]
    """Arms that are compared, the second taken from the first."""
    tables: tuple[tuple[str, tuple[Measure, ...]], ...]
    """Captions, and what the columns under them are; the first is also drawn."""
    ground: Callable[[MotionData], Ground]
    common: Tables = field(default_factory=dict)
    """What all arms change."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The columns of all tables."""
        return tuple(measure for _, columns in self.tables for measure in columns)


@dataclass(frozen=True)
class Recipe(Scale):
    """How large and how long all runs of a study are; see :class:`~training.study.scale.Scale`."""

    def options(self, question: Question, arm: str, seed: int) -> MotionTrainOptions:
        """How a run trains."""
        first, cfg = (self._config(question, name) for name in (next(iter(question.arms)), arm))
        sizes = {**self.sizes, "ff": widened(cfg, first)}
        changed = merge(self.plain(seed).to_dict(), {"model": sizes}, question.common, question.arms[arm])
        return MotionTrainOptions(**changed)

    def _config(self, question: Question, arm: str) -> ModelConfig:
        changes = merge({"model": self.sizes}, question.common, question.arms[arm])
        return ModelConfig.from_dict(changes["model"])


@dataclass(frozen=True)
class Run:
    """One run of a study."""

    question: str
    arm: str
    seed: int

    @property
    def file(self) -> str:
        """Its file's name in the study's folder."""
        return f"{self.question}-{self.arm}-seed{self.seed}.json"


def plan(question: Question, arms: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """All runs, seed by seed.

    Raises:
        OptionError: an unknown arm.
    """
    check_names("arm", arms, question.arms)
    return [Run(question.name, arm, seed) for seed in seeds for arm in arms]


def study(
    question: Question,
    out: Path,
    runs: Sequence[Run],
    data: Path,
    recipe: Recipe,
    *,
    cache: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, int]:
    """Do the runs of a study that have not been done yet.

    Args:
        question: whose arms they are.
        out: folder of the runs' files, and of what is made of the takes by default.
        runs: which, in this order.
        data: a set, or a folder of takes.
        recipe: what they have in common; runs of another recipe in ``out`` are refused.
        cache: folder for what is made of the takes.
        say: told about every run that is finished.

    Returns:
        ``done`` in this call, ``kept`` from earlier ones.

    Raises:
        FormatError: no usable motion.
        OptionError: a kept run followed another recipe.
        DeviceError: a device that is not there.
    """
    resolve_device(recipe.device, "32")
    do = functools.partial(
        _do, question, out, data=data, recipe=recipe, cache=out / "cache" if cache is None else cache
    )
    return perform(out, runs, do, kept=lambda run: _kept(question, out, run, recipe), line=_line, say=say)


def _do(
    question: Question, out: Path, run: Run, *, data: Path, recipe: Recipe, cache: Path
) -> dict[str, Any]:
    """Train and judge one model, and write its file."""
    torch.set_num_threads(1)
    options = recipe.options(question, run.arm, run.seed)
    motion = load(data, recipe.copies, cache, options.data.recipe)
    ground = _ground(question, motion, out)
    wall, cpu = time.perf_counter(), time.process_time()
    model, curve = fit(options, motion, out)
    took = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    result = {
        "kind": KIND,
        **asdict(run),
        "options": options.but(data={"path": "", "cache": ""}).to_dict(),
        "motion": motion.digest,
        "parameters": parameters(model.cfg),
        "curve": curve,
        "scores": ground.judge(model, options),
        **{name: round(value, 2) for name, value in took.items()},
        "versions": versions(),
        "processor": processor(),
    }
    write(out / run.file, result)
    return result


@functools.lru_cache(maxsize=1)
def _made(ground: Callable[[MotionData], Ground], digest: str, motion: "_Shared") -> Ground:
    return ground(motion.data)


@dataclass(frozen=True)
class _Shared:
    """Data that are told apart by their digest alone."""

    digest: str
    data: MotionData = field(compare=False)


def _ground(question: Question, motion: MotionData, out: Path) -> Ground:
    """What the arms are judged on. All runs of a question in a folder learn from the same motion, whose
    rivals are kept beside them.

    Raises:
        OptionError: earlier runs learned from other motion.
    """
    ground = _made(question.ground, motion.digest, _Shared(motion.digest, motion))
    file = reference_file(out, question)
    if not file.is_file():
        kept = {"reference": ground.reference, "rivals": ground.rivals}
        write(file, {"kind": KIND, "question": question.name, "motion": motion.digest, **kept})
    elif read(file)["motion"] != motion.digest:
        raise OptionError(f"{file}: the runs beside it learned from other motion: use another folder")
    return ground


def reference_file(out: Path, question: Question) -> Path:
    """Where the scores of what needs no model are kept."""
    return out / f"{question.name}-reference.json"


def _kept(question: Question, out: Path, run: Run, recipe: Recipe) -> bool:
    """Whether a run has been done, by this recipe."""
    file = out / run.file
    if not file.is_file():
        return False
    try:
        # An option that came later has the default which stands for what was done before.
        theirs = MotionTrainOptions.of_run(read(file)["options"])
    except (KeyError, TypeError) as error:
        raise FormatError(f"{file}: not a run of {question.name}: {error}") from None
    wanted = recipe.options(question, run.arm, run.seed)
    for name, (given, had) in wanted.differences(theirs).items():
        if name in NEEDS and not NEEDS[name](wanted.config()):
            continue
        raise OptionError(f"{file}: done with {name}={had!r}, not {given!r}: use another folder")
    return True


def _line(result: dict[str, Any], number: int | None, count: int) -> str:
    at = f"{number}/{count} " if number is not None else ""
    last = result["curve"][-1]
    return (
        f"{at}{result['arm']} seed {result['seed']}: training loss {last['total']:.4f}, "
        f"{result['cpu_seconds']:.0f} s of CPU, {result['seconds']:.0f} s"
    )
