"""Performances, third-party files and models give the golden values of NAME.json in this folder.

``PYANTICIP_GOLDEN=write python -m pytest tests/golden`` rewrites them; a reviewer judges the difference.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.ear import Ear
from support.models import KINDS, PRISM, VOCAB, config, given, name_of, run, said

import pyanticip as pa
from pyanticip.errors import MotionError
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.describe import describe
from pyanticip.vocabulary import FEATURES
from realtime.clock import OfflineClock
from realtime.programs.rehearse import rehearse
from realtime.rig import load_rig
from realtime.sources.replay import Item, open_show, play_offline
from realtime.stage import assemble

FOLDER = Path(__file__).parent
TOLERANCE = 2e-3
"""Absolute and relative tolerance: processors round differently."""


def plain(found: Any) -> Any:
    """Values for JSON, with numbers of five digits."""
    if isinstance(found, dict):
        return {str(name): plain(value) for name, value in found.items()}
    if isinstance(found, list | tuple | np.ndarray):
        return [plain(value) for value in found]
    if isinstance(found, bool | np.bool_):
        return bool(found)
    if isinstance(found, int | np.integer):
        return int(found)
    return float(f"{found:.5g}") if isinstance(found, float | np.floating) else found


def differences(found: Any, golden: Any, where: str = "") -> list[str]:
    """The differences of two trees, by path."""
    if isinstance(found, float | int) and isinstance(golden, float | int):
        same = abs(found - golden) <= TOLERANCE * (1.0 + abs(golden)) or found == golden
        return [] if same else [f"{where}: {golden} was, {found} is"]
    if isinstance(found, dict) and isinstance(golden, dict):
        names = list(dict.fromkeys((*golden, *found)))
        pairs = [(name, found.get(name), golden.get(name)) for name in names]
    elif isinstance(found, list) and isinstance(golden, list) and len(found) == len(golden):
        pairs = [(str(n), *pair) for n, pair in enumerate(zip(found, golden, strict=True))]
    else:
        return [] if found == golden else [f"{where}: {str(golden)[:60]} was, {str(found)[:60]} is"]
    return [line for name, one, other in pairs for line in differences(one, other, f"{where}/{name}")]


def check_golden(name: str, found: dict[str, Any]) -> None:
    """Compare values by case with the golden ones."""
    file = FOLDER / f"{name}.json"
    found = plain(found)
    if os.environ.get("PYANTICIP_GOLDEN") == "write":
        lines = ",\n".join(f" {json.dumps(case)}: {json.dumps(value)}" for case, value in found.items())
        file.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    differing = differences(found, json.loads(file.read_text(encoding="utf-8")))
    assert not differing, f"{len(differing)} differ, of them: " + "; ".join(differing[:5])


DANCE = Path(__file__).parents[2] / "realtime" / "data" / "performance.bvh"
QUIET = {"osc": [], "control": {"enabled": False}, "model": {"backend": "rust"}}
FRAME_FIELDS = ("scalars", "params", "tempo", "limbs", "trust", "place", "extras")


def output_of(over: dict[str, Any], kind: str, items: Iterable[Item]) -> dict[str, Any]:
    """The output that a sink receives."""
    clock, ear = OfflineClock(), Ear()
    pipeline = assemble(load_rig(None, {**QUIET, **over}), clock, kind=kind, sinks=[ear])
    play_offline(items, clock, pipeline.feed)
    pipeline.run_until(pipeline.fade_out(clock.now_ns()))
    some = ear.frames[::10]
    events = [(frame.seq, *event) for frame in ear.frames for event in frame.events]
    pipeline.close()
    return {
        "frames": len(ear.frames),
        "events": events,
        **{name: [np.round(getattr(frame, name) or (), 4) for frame in some] for name in FRAME_FIELDS},
    }


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dance from its third second on, a tenth slower."""
    clip = pa.load_motion(DANCE)
    clip = clip[round(3 * clip.rate) : round(15 * clip.rate)]
    path = tmp_path_factory.mktemp("slower") / "slower.bvh"
    save_bvh(pa.Clip(clip.quats, clip.root, clip.rate / 1.1, clip.skeleton), path)
    return path


def test_performances_match_the_golden_values(slower: Path, tmp_path: Path) -> None:
    rehearse([DANCE], tmp_path / "piece.memory")
    cues = [{"name": f"cue{at}", "take": DANCE.stem, "at": float(at), "ahead_ms": 200.0} for at in (6, 9, 12)]
    rehearsed = {"memory": {"file": str(tmp_path / "piece.memory")}, "cue": cues}
    alone = {"memory": {"enabled": False}}
    by_hand = {"model": {"enabled": False}, "memory": {"enabled": False}, "lead_ms": 0.0}
    kind, items = open_show(slower)
    every = list(items)
    # A fifth of each second is lost, as on poor Wi-Fi.
    begin = every[0].t_ns
    lossy = [item for item in every if (item.t_ns - begin) % 1_000_000_000 < 800_000_000]
    check_golden(
        "shows",
        {
            "alone": output_of(alone, kind, every),
            "rehearsed": output_of(rehearsed, kind, every),
            "scalars": output_of(by_hand, kind, every),
            "lossy": output_of({}, kind, lossy),
        },
    )


FILES = (
    "makers/**/*.bvh",
    "more/accad-male1/*A[1-4]_*.bvh",
    "more/cmu-85/**/85_0[1-3].bvh",
    "more/g1-moves/**/*Dance1_*.bvh",
    "more/movin-sample/**/*.bvh",
    "more/reactidle/p00[01]/*.bvh",
    "cmu/0[1-9]_01.bvh",
    "cmu/09_1[12].amc",
)
SECONDS = 8
LEFT_OUT = ("file", "joints", "parents", "frames", "duration_s")


def read(path: Path) -> dict[str, object]:
    """The output of `info`, and mean and mean change of groups of features."""
    try:
        clip, described = describe(path)
    except MotionError as error:
        return {"error": str(error).replace(str(path), path.name)}
    described = {name: value for name, value in described.items() if name not in LEFT_OUT}
    described["map"] = " ".join(f"{joint}={'>'.join(names)}" for joint, names in described["map"].items())
    if described["refused"] is None:
        start = clip.seconds(0.0, min(SECONDS, clip.duration))
        rows = start.retarget("humanoid").resample(50.0).features()[: SECONDS * 50]
        groups = rows.reshape(len(rows), 31, 9)
        described["mean"], described["spread"] = (
            groups.mean((0, 2)),
            np.abs(np.diff(groups, axis=0)).mean((0, 2)),
        )
    else:
        described["refused"] = str(described["refused"]).replace(str(path), path.name)
    return described


def test_third_party_files_match_the_golden_values(data_dir: Path) -> None:
    paths = sorted({path for pattern in FILES for path in data_dir.glob(pattern)})
    assert len(paths) > 20
    check_golden("readings", {path.relative_to(data_dir).as_posix(): read(path) for path in paths})


LENGTH = 30
MEMBERS = {
    "motion": [
        {},
        {"kinematics": True, "d_model": 32, "taps": 12, "strokes": True},
        {"kinematics": True, "d_model": 32, "taps": 12, "twin": True},
        {"control_field": True, "planning": True, "slow_stride": 3},
        {"positions": "trajectory", "bias": "random"},
        PRISM,
    ],
    "anticipatory": [
        *({"positions": scheme} for scheme in ("sinusoidal", "rope", "alibi", "trajectory")),
        {"bias": "trajectory", "mode": "external"},
        {"bias": "random", "mode": "initial"},
        {"planning": True, "plan_refine": 3},
        {"planning": True, "plan_inference": "recurrent"},
        {"control_field": True, "slow_stride": 4},
        {**PRISM, "prism_copy": True},
    ],
    "baseline": [{}, {"planning": True}, {**PRISM, "prism_again": 3, "prism_absolute": True}],
}


def waves(shape: torch.Size | tuple[int, ...], name: str) -> torch.Tensor:
    """Numbers in -1..1 that depend on a name and on nothing else."""
    turn = int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big") / 65536
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float64) * (1.0 + turn) + 7.0 * turn).reshape(shape)


def outputs_and_gradients(kind: str, mode: str | None = None, **changes: object) -> dict[str, object]:
    """Every output at three steps, and the sum of the norms of the gradients."""
    model = KINDS[kind](config(kind, **changes)).double().eval()
    if kind == "motion" and model.planning is not None:
        model.codebook.fit(waves((200, FEATURES), "codes").float(), rounds=2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.2 * waves(parameter.shape, name) - 0.9 * parameter)
    x = (
        waves((2, LENGTH, 279), "rows")
        if kind == "motion"
        else (waves((2, LENGTH), "ids") * 50).long() % VOCAB
    )
    out = said(run(model, x, mode=mode, scalars=given(model, x, mode)))
    found = {name: value.detach()[0, [3, 17, -1]].flatten()[:24].tolist() for name, value in out.items()}
    loss = sum((value * waves(value.shape, name)).sum() for name, value in out.items() if value.requires_grad)
    loss.backward()
    learned = [p.grad.norm().item() for p in model.parameters() if p.grad is not None]
    return {**found, "learned": sum(learned), "parameters": len(learned)}


def test_models_match_the_golden_values() -> None:
    torch.manual_seed(0)
    cases = ((kind, changes) for kind, members in MEMBERS.items() for changes in members)
    check_golden(
        "models",
        {f"{kind}-{name_of(changes)}": outputs_and_gradients(kind, **changes) for kind, changes in cases},
    )
