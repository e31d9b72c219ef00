"""CPU time of the parts of the model family, on one thread.

Run with ``pytest tests/benches -o addopts= --benchmark-only -k family``; elsewhere these are skipped.
"""

import itertools
import time

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pyanticip.models import (
    AnticipatoryTransformer,
    BaselineTransformer,
    ModelConfig,
    MotionTransformer,
    save_checkpoint,
)
from pyanticip.models.core.encodings import sinusoids
from pyanticip.models.core.fused import make_fused
from pyanticip.models.core.part import LossContext, Positions
from pyanticip.models.core.steering import Steering
from pyanticip.models.core.trunk import Block
from pyanticip.models.forecast.forecaster import PoseForecaster
from pyanticip.models.forecast.manifest import ForecastConfig
from pyanticip.models.parts.positions.prism.module import PrismPositions
from pyanticip.models.parts.positions.trajectory.config import TrajectoryConfig
from pyanticip.models.parts.positions.trajectory.module import TrajectoryPositions
from pyanticip.vocabulary import FEATURES
from realtime.monitor.ghost import STRIDE, Ghost
from realtime.step.open import open_rust

pytestmark = pytest.mark.benchmark(timer=time.process_time, min_rounds=12, warmup=True)


@pytest.fixture(autouse=True)
def one_thread():
    torch.manual_seed(0)
    torch.set_num_threads(1)


def shaken(model):
    """Away from the start, where many weights are zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model.eval()


PARTS = {
    "plain": {},
    "alibi": {"positions": "alibi"},
    "random": {"bias": "random"},
    "rope": {"positions": "rope"},
    "sinusoidal": {"positions": "sinusoidal"},
    "trajectory": {"positions": "trajectory"},
    "prism": {"positions": "prism"},
    "field": {"control_field": True},
    "planning": {"planning": True},
    "all": {"positions": "prism", "control_field": True, "planning": True},
}


@pytest.mark.parametrize("part", [*PARTS, "plain in Rust"])
def test_family(benchmark, part, tmp_path):
    """A live step of the shipped size with one part more."""
    benchmark.group = "family"
    model = shaken(MotionTransformer(ModelConfig(**PARTS.get(part, {}))))
    if model.codebook is not None:
        model.codebook.fit(torch.randn(2 * len(model.codebook.centres), FEATURES), rounds=1)
    row = np.random.default_rng(0).normal(size=(1, FEATURES)).astype(np.float32)
    if part not in PARTS:
        benchmark(open_rust(save_checkpoint(tmp_path / "model", model)).step, row)
        return
    state = model.initial_state(1)

    @torch.no_grad()
    def step():
        nonlocal state
        out, state = model.step(torch.from_numpy(row), state)
        return out.params.numpy()

    benchmark(step)


BLOCKS = {
    "paper": (64, 2, 256, 255, False),
    "paper, with bias": (64, 2, 256, 255, True),
    "token model, small": (128, 4, 256, 255, True),
    "motion model": (128, 4, 512, 64, True),
    "token model, default": (512, 8, 2048, 64, True),
}
"""d_model, heads, ff, past steps, whether the trajectory bias is on."""


@pytest.mark.parametrize("field", [False, True], ids=["plain", "field"])
@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("block", BLOCKS)
def test_field(benchmark, block, training, field):
    """A block with control field beside one without, at 8 x 256 steps."""
    benchmark.group = f"block of the {block}, {'training' if training else 'forward'}"
    width, heads, ff, past, bias = BLOCKS[block]
    cfg = ModelConfig(d_model=width, heads=heads, ff=ff, dropout=0.0, control_field=field)
    module = Block(cfg, past, Positions())
    x = torch.randn(8, 256, width, requires_grad=training)
    steering = Steering()
    if bias:
        steering = Steering(torch.randn(8, 256, heads), torch.full((heads,), 0.02), torch.zeros(heads))
    layout = make_fused(256, past, steering, device=x.device, dtype=x.dtype)

    def call():
        with torch.set_grad_enabled(training):
            out = module(x, layout, None)[0]
        if training:
            out.sum().backward()

    benchmark(call)


UPDATES = {
    "motion model, 24 x 128": (MotionTransformer, 24, 128, {}),
    "token model, small, 8 x 256": (AnticipatoryTransformer, 8, 256, {"max_seq_len": 256}),
    "token model, 32,000 tokens, 8 x 128": (AnticipatoryTransformer, 8, 128, {"vocab": 32_000}),
    "plain transformer, width 64, 8 x 128": (
        *(BaselineTransformer, 8, 128),
        {"d_model": 64, "ff": 256, "vocab": 1024},
    ),
}


@pytest.mark.parametrize("planning", [False, True], ids=["plain", "planning"])
@pytest.mark.parametrize("update", UPDATES)
def test_planning(benchmark, update, planning):
    """Forward, loss and backward of a batch; a model that plans draws its plans and learns to make them."""
    benchmark.group = f"update of the {update}"
    kind, rows, length, sizes = UPDATES[update]
    if kind is MotionTransformer:
        model = kind(ModelConfig(planning=planning, **sizes))
        x = torch.randn(rows, length + 50, FEATURES)
        if model.codebook is not None:
            model.codebook.fit(x.flatten(0, 1), rounds=1)
    else:
        model = kind(ModelConfig.small(planning=planning, **sizes))
        x = torch.randint(model.cfg.vocab, (rows, length + 1))

    def call():
        codes, plan = x, None
        if model.planning is not None:
            codes = model.codebook(x) if kind is MotionTransformer else x
            plan = model.planning.simulate(codes, length)
        out = model(x[:, :length], plan=plan)
        total = out.hidden.sum()
        if kind is not MotionTransformer:
            total = F.cross_entropy(out.logits.flatten(0, 1), x[:, 1:].flatten())
        context = LossContext(out, codes=codes)
        sum((loss for part in model.parts() for loss in part.losses(context).values()), total).backward()

    benchmark(call)


@pytest.mark.parametrize("form", ["fused", "scan in a loop", "all in a loop"])
def test_prism(benchmark, form):
    """PRISM positions at B 32, L 256, P 256, forward and backward: the kernels beside Python loops."""
    cfg = ModelConfig(positions="prism", d_model=128, prism_cursors=4, prism_places=256)
    module = PrismPositions(cfg)
    module.reference = form != "fused"
    x = torch.randn(32, 256, 128, requires_grad=True)

    def call():
        if form != "all in a loop":
            places = [module(x)[0]]
        else:
            state, places = module.initial_state(len(x)), []
            for t in range(x.shape[1]):
                each, state = module(x[:, t : t + 1], state)
                places.append(each)
        sum(p.queries.sum() + p.keys.sum() for p in places).backward()

    benchmark.pedantic(call, rounds=12, warmup_rounds=1)


WAYS = {
    "exact": {},
    "rms": {"scale": "rms"},
    "cached": {"cache": 10},
    "linear": {"interpolation": "linear"},
    "cubic": {"interpolation": "cubic"},
}


@pytest.mark.parametrize("length", [64, 256, 1024, 4096])
@pytest.mark.parametrize("way", ["look-up", "fresh", "forward", *WAYS])
def test_positions(benchmark, way, length):
    """Trajectory positions of one sequence of width 128 beside a table, fresh sinusoids and a whole model."""
    benchmark.group = f"positions, {length} steps"
    steps = torch.arange(length)
    if way in WAYS:
        module = TrajectoryPositions(128, TrajectoryConfig(strength=0.2, **WAYS[way]), length)
        x = 0.1 * torch.randn(1, length, 128)
        call = lambda: module(x)  # noqa: E731
    elif way == "forward":
        model = AnticipatoryTransformer(ModelConfig.small(max_seq_len=length)).eval()
        ids = torch.randint(model.cfg.vocab, (1, length))
        call = lambda: model(ids)  # noqa: E731
    else:
        table = sinusoids(steps, 128).float()
        call = (lambda: table[steps]) if way == "look-up" else (lambda: sinusoids(steps, 128).float())
    with torch.no_grad():
        benchmark(call)


@pytest.mark.parametrize("paced", [False, True], ids=["hot", "paced"])
def test_forecast(benchmark, paced):
    """A whole step of the pose forecaster in a loop, or at the 60 Hz of its frames, where caches go cold."""
    benchmark.group = f"forecast, {'paced' if paced else 'hot'}"
    model = shaken(PoseForecaster(ForecastConfig(mirror=tuple(range(ForecastConfig().joints)))))
    pose = 100.0 * np.random.default_rng(0).standard_normal((model.cfg.joints, 3)).astype(np.float32)
    state = model.initial_state()

    @torch.inference_mode()
    def step(pose):
        nonlocal state
        out, state = model.step(torch.from_numpy(pose)[None], state)
        return out

    def wait():
        time.sleep(1.0 / 60.0 if paced else 0.0)
        return (pose,), {}

    benchmark.pedantic(step, setup=wait, rounds=120, warmup_rounds=10)


def test_ghost(benchmark):
    """A pose of the monitor, from its arrival to the forecast of the joints."""
    ghost, poses = Ghost(), np.tile([1.0, 0.0, 0.0, 0.0], (1000, 22, 1)).astype(np.float32)
    poses[:, 7, 1] = np.sin(np.arange(1000) / 20.0)
    numbers = itertools.count(0, STRIDE)

    def step() -> None:
        seq = next(numbers)
        ghost.forecast(seq, poses[seq % 1000], (0.0, 1.0, 0.0))

    benchmark.pedantic(step, rounds=2000, warmup_rounds=50)
