"""The package that docs/extending.md shows plays, word for word."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from pyanticip.errors import RigError
from pyanticip.motion.load import load_motion
from pyanticip.motion.recording import RecordingWriter
from realtime.programs.demo import PERFORMANCE
from realtime.programs.live import replay
from realtime.programs.render import render
from realtime.rig import load_rig
from realtime.seams import SOURCES
from realtime.sources.replay import open_show


def test_the_package_in_the_documentation_works(install: Callable[..., None], tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    named = tomllib.loads("".join(body for what, body in blocks if what == "toml"))
    groups = named["project"]["entry-points"].items()
    points = [f"[{group}]\n" + "".join(f"{n} = {at}\n" for n, at in names.items()) for group, names in groups]
    install("mypackage", "".join(body for what, body in blocks if what == "python"), "".join(points))
    tree = {
        "osc": [],
        "sink": [{"kind": "lines", "path": str(tmp_path / "pitch")}],
        "model": {"backend": "flat"},
        "memory": {"enabled": False},
        "synth": {"preset": "tone"},
    }
    kind, items = open_show(PERFORMANCE)
    lines: list[str] = []
    report = replay(items, kind, load_rig(None, tree), speed=None, seconds=2.0, say=lines.append)
    assert not lines
    assert (report["counters"]["errors"], report["counters"]["failed_steps"]) == (0, 0)
    assert len((tmp_path / "pitch").read_text().splitlines()) > 90
    render(PERFORMANCE, tmp_path / "out.wav", rig=load_rig(None, tree), seconds=0.5)
    elsewhere = {"rig": {**tree, "model": {"backend": "of another package"}}}
    with RecordingWriter(tmp_path / "take.anticip", elsewhere):
        pass
    with pytest.raises(RigError, match=r"the recording: model\.backend: .*; play it by another rig: --rig"):
        load_rig(None, None, tmp_path / "take.anticip")
    mysuit, clip = SOURCES.load("mysuit")(), load_motion(PERFORMANCE)
    (_, first) = next(mysuit.encode(clip, rate=None, loop=False, unix_time=None))
    assert mysuit.decode(first) == [first[::-1]]
