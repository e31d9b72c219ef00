"""How far an option of `live` travels: through which functions, from the command line to its use."""

import socket
import subprocess
import sys

TRACED = """
import sys
from pathlib import Path

from pydantic import BaseModel

import pyanticip
from pyanticip.cli import cli
from pyanticip.cli.terminal import run

port = sys.argv[1]
root = Path(pyanticip.__file__).parents[1]
ours = tuple(f"{root / name}/" for name in ("pyanticip", "realtime", "training"))
seen = []


def holds(value):
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(map(holds, value))
    return isinstance(value, (str, float)) and value in ("137", 137.0)


def entered(frame, event, argument):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(ours) or code.co_name.startswith("<"):
        return
    name = f"{Path(code.co_filename).stem}.{code.co_qualname}"
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    if name not in seen and any(holds(frame.f_locals.get(each)) for each in code.co_varnames[:count]):
        seen.append(name)


words = f"live --source mocopi://127.0.0.1:{port} --seconds 0.2 --no-model --osc 127.0.0.1:9 --lead-ms 137"
sys.argv = ["pyanticip", *words.split()]
sys.setprofile(entered)
run(cli)
sys.setprofile(None)
print(*seen)
"""


def test_an_option_of_live_goes_straight_to_its_use() -> None:
    """It is an option, then a leaf of the rig's tree, then what the mixer works with.

    Counted are our functions that are handed the value, or a tree that holds it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    done = subprocess.run(
        [sys.executable, "-c", TRACED, port],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    # The tree's own checks look at all of it.
    seen = [name for name in done.stdout.splitlines()[-1].split() if not name.startswith("tree.Rig._")]
    use = seen.index("mixer.Mixer.__init__")
    path = "load.load_rig load._merge load.parse_rig live.live stage.assemble stage.build_mixer"
    # A number or a word: what click cannot read, we read.
    read = ["generate._Parsed.convert", "config._lead_ms", "options.Options.check", "play.live"]
    assert seen[:use] == [*read, *path.split()]
    # Of these two read a number or auto, the lead is an object of its own with a checked setting, and
    # five hold the rig as a whole, which is edited while it plays.
    assert len(seen) <= 20, seen
