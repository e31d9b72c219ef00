"""What each stride of the slow pathway costs: a training step, and one token of decoding."""

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F

from pyanticip.models import AnticipatoryTransformer, ModelConfig
from training.study.runs import processor
from training.study.text import STRIDES, Recipe

ROWS: Final = 4
LENGTH: Final = 256


def measure(folder: Path, *, pairs: int = 9) -> dict[str, Any]:
    """Time the models of the study at every stride, in turn on one thread; kept in ``stride-cost.json``.

    Args:
        folder: of the study's runs.
        pairs: turns, of which medians are taken; ratios to stride 1 are medians over turns.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        calls = {stride: _calls(stride) for stride in STRIDES}
        times: dict[tuple[int, str], list[float]] = {}
        for turn in range(pairs + 1):
            for stride, (train, decode) in calls.items():
                for key, call in (("train_ms", train), ("step_us", decode)):
                    began = time.process_time()
                    call()
                    if turn:
                        times.setdefault((stride, key), []).append(time.process_time() - began)
    finally:
        torch.set_num_threads(before)
    # Decoding runs over LENGTH steps: microseconds of one.
    unit = {"train_ms": 1e3, "step_us": 1e6 / LENGTH}
    strides: dict[str, dict[str, float]] = {}
    for stride in STRIDES:
        row = strides[str(stride)] = {}
        for key, scale in unit.items():
            mine, first = (np.array(times[s, key]) for s in (stride, 1))
            row[key] = round(float(np.median(mine)) * scale, 2)
            row[f"{key}_ratio"] = round(float(np.median(mine / first)), 4)
    result = {
        "strides": strides,
        "pairs": pairs,
        "batch": ROWS,
        "length": LENGTH,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),
    }
    (folder / "stride-cost.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def _calls(stride: int) -> tuple[Callable[[], object], Callable[[], object]]:
    torch.manual_seed(0)
    sizes = {"vocab": 128, "positions": "rope", "max_seq_len": LENGTH, "slow_stride": stride}
    model = AnticipatoryTransformer(ModelConfig.small(**{**Recipe().model, **sizes}))
    ids = torch.randint(128, (ROWS, LENGTH + 1))
    scalars = torch.rand(ROWS, LENGTH, 7)

    def train() -> None:
        model.zero_grad(set_to_none=True)
        out = model(ids[:, :-1], scalars)
        total = F.cross_entropy(out.logits.flatten(0, 1), ids[:, 1:].flatten())
        torch.autograd.backward(total + F.mse_loss(out.scalars, scalars))

    @torch.no_grad()
    def decode() -> None:
        state = model.initial_state(1)
        for i in range(LENGTH):
            _, state = model.step(ids[:1, i], state, scalars[:1, i])

    return train, decode
