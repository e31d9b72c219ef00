"""What a performance says, number by number: every tenth frame of the bundled dance, and all events."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ear import Ear
from support.golden import hold

import pyanticip as pa
from pyanticip.motion.bvh import save_bvh
from realtime.clock import OfflineClock
from realtime.programs.rehearse import rehearse
from realtime.rig import load_rig
from realtime.sources.replay import Item, open_show, play_offline
from realtime.stage import assemble

DANCE = Path(__file__).parents[2] / "realtime" / "data" / "performance.bvh"
QUIET = {"osc": [], "control": {"enabled": False}, "model": {"backend": "rust"}}
SAID = ("scalars", "params", "tempo", "limbs", "trust", "place", "extras")


def told(over: dict[str, Any], kind: str, items: Iterable[Item]) -> dict[str, Any]:
    """What a sink is sent."""
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
        **{name: [np.round(getattr(frame, name) or (), 4) for frame in some] for name in SAID},
    }


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dance from its third second on, a tenth slower."""
    clip = pa.load_motion(DANCE)
    clip = clip[round(3 * clip.rate) : round(15 * clip.rate)]
    path = tmp_path_factory.mktemp("slower") / "slower.bvh"
    save_bvh(pa.Clip(clip.quats, clip.root, clip.rate / 1.1, clip.skeleton), path)
    return path


def test_a_performance_says_what_it_said(slower: Path, tmp_path: Path) -> None:
    rehearse([DANCE], tmp_path / "piece.memory")
    cues = [{"name": f"cue{at}", "take": DANCE.stem, "at": float(at), "ahead_ms": 200.0} for at in (6, 9, 12)]
    rehearsed = {"memory": {"file": str(tmp_path / "piece.memory")}, "cue": cues}
    alone = {"memory": {"enabled": False}}
    by_hand = {"model": {"enabled": False}, "memory": {"enabled": False}, "lead_ms": 0.0}
    kind, items = open_show(slower)
    every = list(items)
    # Of each second a fifth is lost, as where Wi-Fi coughs.
    begin = every[0].t_ns
    lossy = [item for item in every if (item.t_ns - begin) % 1_000_000_000 < 800_000_000]
    hold(
        "shows",
        {
            "alone": told(alone, kind, every),
            "rehearsed": told(rehearsed, kind, every),
            "scalars": told(by_hand, kind, every),
            "lossy": told({}, kind, lossy),
        },
    )
