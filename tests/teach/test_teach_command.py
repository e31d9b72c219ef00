"""`pyanticip teach` from the command line."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from support.clips import LEFT_ARM, swing, walking_clip
from support.stranger import Suit, refused_skeleton
from support.wire import udp

from pyanticip.cli import cli
from pyanticip.errors import DeviceError, MotionError
from pyanticip.motion.npz import save_npz
from pyanticip.teach.project import Project
from realtime.seams import SOURCES
from realtime.sockets import free_port
from realtime.sources.udp import UdpSource
from realtime.teaching.recording import store_or_keep
from realtime.teaching.take_recorder import PlayedTake

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in a folder of its own; errors are raised."""
    monkeypatch.chdir(tmp_path)
    for i, joint in enumerate((11, LEFT_ARM)):
        for j in range(2):
            save_npz(swing(3, joint=joint, level=float(i), seed=j), tmp_path / f"{'ab'[i]}{j}.npz")

    def call(*words: str) -> str:
        done = CliRunner().invoke(cli, list(words), standalone_mode=False)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.output

    return call


def test_a_file_that_has_to_be_helped(run: Run, data_dir: Path) -> None:
    cmu = data_dir / "cmu"
    shutil.copy(cmu / "49_10.amc", "take.amc")
    run("teach", "new", "mine", "--outputs", "mix")
    words = ("teach", "add", "mine", "take.amc", "--values", "mix=1")
    with pytest.raises(MotionError, match="skeleton"):
        run(*words)
    assert "take take:" in run(*words, "--skeleton", str(cmu / "49.asf"), "--up", "y")
    # A file's name need not be text; what a project keeps is.
    odd = shutil.copy("take.amc", os.fsdecode(b"r\xff.amc"))
    words = ("teach", "add", "mine", odd, "--take", "odd", "--values", "mix=1")
    run(*words, "--skeleton", str(cmu / "49.asf"), "--up", "y")
    assert Project.open("mine").state.take("odd").source == "r?.amc"


def test_from_files_to_a_mapping_and_back(run: Run) -> None:
    assert "cutoff:200..8000:exponential" in run(
        "teach", "new", "mine", "--outputs", "mix,cutoff:200..8000:exponential"
    )
    run("teach", "add", "mine", "a0.npz", "a1.npz", "--values", "mix=1,cutoff=4000")
    said = run(
        "teach", "add", "mine", "b0.npz", "--start", "0.5", "--end", "2.5", "--values", "mix=0,cutoff=300"
    )
    assert "take b0: 2.00 s" in said
    assert Project.open("mine").state.take("b0").begin == 25, "what comes before leads in"
    table = np.stack([[0, 3], [0, 0.1], [300, 300]], 1)
    np.savetxt("b1.csv", table, header="t,mix,cutoff", delimiter=",", comments="")
    run("teach", "add", "mine", "b1.npz", "--curve", "b1.csv")
    report = json.loads(run("teach", "fit", "mine", "--json").partition("\n{")[2].join(("{", "")))
    assert report["parts"][0]["error"]["mix"] < 0.2
    assert [fold["whole"] for fold in report["parts"][0]["folds"]] == [True] * 4
    said = run("teach", "check", "mine")
    assert "fine" in said
    assert "take a0: 3.00 s, on its own takes: error of mix" in said
    said = run("teach", "check", "mine", "--mapping", "mine/mapping.safetensors")
    assert "take a0: 3.00 s, error of mix" in said
    Path("rig.toml").write_text('mapping = "mine/mapping.safetensors"\n')
    assert "plays mapping mine-r4: mix, cutoff:200..8000" in run("rig", "check", "rig.toml")
    assert run("teach", "rename", "mine", "a0", "east") == "rename take a0 to east\n"
    with pytest.raises(MotionError, match="'east' already exists"):
        run("teach", "rename", "mine", "b0", "east")
    assert (
        run("teach", "set", "mine", "east", "mix=.5,cutoff=none") == "set cutoff=none,mix=0.5 in take east\n"
    )
    assert "take east: 3.00 s, mix=0.5" in run("teach", "list", "mine")
    assert "changed since the mapping was fitted" in run("teach", "check", "mine")
    assert "undone: set cutoff=none,mix=0.5 in take east" in run("teach", "undo", "mine")
    assert "tone:100..5000" in run(
        "teach", "outputs", "mine", "--rename", "cutoff=tone", "--change", "tone:100..5000"
    )
    assert run("teach", "remove", "mine", "east", "a1", "east") == "remove take east\nremove take a1\n"
    first = json.loads(run("teach", "list", "mine", "--json"))["mappings"][0]
    assert first in run("teach", "use", "mine", first)
    assert len(run("teach", "history", "mine").splitlines()) == 12
    assert "at revision 4 again" in run("teach", "undo", "mine", "--to", "4")
    assert [take.name for take in Project.open("mine").state.takes] == ["a0", "a1", "b0", "b1"]


def test_takes_that_do_not_tell_the_values_apart_are_told_of(run: Run) -> None:
    for name, value in (("east", 1), ("west", 0)):
        run("teach", "add", "mine", "a0.npz", "--take", name, "--values", f"mix={value}")
    assert "warning: mix: no better than always saying the mean" in run(
        "teach", "fit", "mine", "--kind", "ridge"
    )


def test_the_first_take_makes_the_outputs(run: Run) -> None:
    assert "outputs, each 0..1: glow, mix" in run(
        "teach", "add", "new", "a0.npz", "--values", "glow=.3,mix=1"
    )
    with pytest.raises(MotionError, match="no output 'glwo'; did you mean glow"):
        run("teach", "add", "new", "a1.npz", "--values", "glwo=.3")


def test_a_first_take_that_is_refused_makes_no_output(run: Run) -> None:
    run("teach", "new", "mine")
    for wrong in (("--values", "a=7"), ("--values", "a=1", "--take", "../x")):
        with pytest.raises(MotionError):
            run("teach", "add", "mine", "a0.npz", *wrong)
    run("teach", "add", "mine", "a0.npz", "--values", "cutoff=.5")
    assert [state.description for state in Project.open("mine").history()] == ["begin", "add take a0"]
    assert [output.name for output in Project.open("mine").state.outputs] == ["cutoff"]


def test_two_short_takes_that_follow_each_other_cannot_be_judged(run: Run) -> None:
    save_npz(walking_clip(2.0, 50.0), Path("walk.npz"))
    for start, end in (("1", "1.5"), ("1.5", "2")):
        words = ["--start", start, "--end", end, "--take", end, "--values", "mix=.5"]
        run("teach", "add", "mine", "walk.npz", *words)
    said = run("teach", "fit", "mine", "--no-model")
    assert "50 frames of 2 takes\n  not judged: nothing can be left out; record more takes" in said


def test_what_is_new_beside_what_was_shown_is_told_of_what_is_stored(run: Run) -> None:
    run("teach", "add", "mine", "a0.npz", "--class", "pose=up")
    assert "is new" not in run("teach", "add", "mine", "a1.npz", "--gesture", "jump")
    assert "is new" not in run("teach", "add", "mine", "b0.npz", "--class", "pose=none")
    words = ["teach", "add", "mine", "none.npz", "--class", "pose=down"]
    assert "is new" not in CliRunner().invoke(cli, words).output
    said = run("teach", "add", "mine", "b1.npz", "--class", "pose=down,psoe=none")
    assert "pose=down is new; so far: none, up" in said
    assert "class psoe is new; so far: pose" in said
    with pytest.raises(MotionError, match="give values, a curve, a class or a gesture"):
        run("teach", "set", "mine", "a1", "gesture=")
    hint = "pyanticip live --source auto://0.0.0.0 --mapping mine/mapping.safetensors"
    assert hint in run("teach", "fit", "mine", "--no-model").replace("\n", " ")
    assert "take a1: 3.00 s, the mapping has nothing that it shows" in run("teach", "check", "mine")
    Path("rig.toml").write_text('mapping = "mine/mapping.safetensors"\n')
    assert re.search(r"plays mapping mine-r\d+: class/pose\n", run("rig", "check", "rig.toml"))


def test_what_fails_halfway_says_how_far_it_came(run: Run) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        run("teach", "add", "new", "none.npz", "--values", "mix=1")
    with pytest.raises(MotionError, match=r"within 0\.\.1"):
        run("teach", "add", "new", "a0.npz", "--values", "mix=7")
    assert not Path("new").exists(), "no project without a take"
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        run("teach", "add", "new", "a0.npz", "none.npz", "--values", "mix=1")
    assert not Path("new").exists(), "all files are there, or none is added"
    Path("bad.npz").write_text("no motion")
    done = CliRunner().invoke(cli, ["teach", "add", "new", "a0.npz", "bad.npz", "--values", "mix=1"])
    assert isinstance(done.exception, MotionError)
    assert "take a0: 3.00 s" in done.output
    with pytest.raises(MotionError, match="no take 'x'"):
        run("teach", "remove", "new", "a0", "x")
    assert [take.name for take in Project.open("new").state.takes] == ["a0"]


def test_a_change_changes_what_it_names(run: Run) -> None:
    run("teach", "new", "mine", "--outputs", "tone:200..8000:exponential@/synth/tone")
    said = run("teach", "outputs", "mine", "--change", "tone:100..5000")
    assert said == "tone:100..5000:exponential@/synth/tone\n"
    assert run("teach", "outputs", "mine", "--change", "tone@/x") == "tone:100..5000:exponential@/x\n"
    assert run("teach", "outputs", "mine", "--change", "tone:0..1:linear") == "tone@/x\n"


def test_several_changes_are_made_or_none(run: Run) -> None:
    run("teach", "new", "mine", "--outputs", "mix")
    with pytest.raises(MotionError, match="output tone: expected a range or an address"):
        run("teach", "outputs", "mine", "--add", "mix2", "--rename", "mix=tone", "--change", "tone")
    assert run("teach", "outputs", "mine") == "mix\n"
    with pytest.raises(MotionError, match="nothing to undo"):
        run("teach", "undo", "mine")


def test_a_take_that_is_there_is_given_its_first_class(run: Run) -> None:
    run("teach", "add", "mine", "a0.npz", "--values", "mix=1", "--class", "pose=up")
    assert "class legs is new; so far: pose" in run("teach", "set", "mine", "a0", "legs=walk,mix=.5")
    assert Project.open("mine").state.take("a0").labels == {"pose": "up", "legs": "walk"}
    for wrong in ("mxi=.5", "mix=loud", "mxi=none", "arm=", "legs"):
        with pytest.raises(MotionError):
            run("teach", "set", "mine", "a0", wrong)


def test_none_is_a_label_of_a_class_and_no_value_of_an_output(run: Run) -> None:
    run("teach", "new", "mine", "--outputs", "mix,tone")
    run("teach", "add", "mine", "a0.npz", "--values", "mix=1,tone=0", "--class", "arm=left,legs=still")
    run("teach", "set", "mine", "a0", "arm=none,tone=none,legs=,mix=.5")
    take = Project.open("mine").state.take("a0")
    assert (take.values, take.labels) == ({"mix": 0.5}, {"arm": "none"})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["add", "mine", "a0.npz"], "needs --values, --curve, --class or --gesture"),
        (["add", "mine", "none.npz", "--values", "mix=1"], "none.npz"),
        (["add", "mine", "a0.npz", "--values", "mix=7"], "within 0..1"),
        (["add", "mine", "a0.npz", "--values", "mix"], "NAME=NUMBER"),
        (["add", "mine", "a0.npz", "a1.npz", "--take", "x", "--values", "mix=1"], "one take"),
        (["add", "mine", "a0.npz", "--start", "9", "--values", "mix=1"], "within its 3.00 s"),
        (["add", "mine", "a0.npz", "--start", "1", "--end", "1.1", "--values", "mix=1"], "too short"),
        (["add", "mine", "a0.npz", "--curve", "none.csv"], "none.csv"),
        (["fit", "mine"], "nothing to learn from"),
        (["fit", "mine", "--kind", "forest"], "'--kind': 'forest' is not one of 'auto'"),
        (["fit", "mine", "--lead-ms", "30"], "multiple of 20"),
        (["fit", "mine", "--inputs", "soul"], "'--inputs': expected some of body, hidden"),
        (["fit", "none"], "not a teaching project"),
        (["use", "mine", "../x"], "no mapping"),
        (["remove", "mine", "x"], "no take 'x'"),
        (["undo", "mine", "--to", "77"], "no revision 77"),
        (["outputs", "mine", "--rename", "mix"], "OLD=NEW"),
        (["new", "mine"], "already exists"),
        (["record", "mine"], "needs --values"),
    ],
)
def test_mistakes_are_one_line(run: Run, words: list[str], says: str) -> None:
    run("teach", "new", "mine", "--outputs", "mix")
    with pytest.raises((MotionError, OSError, click.ClickException)) as told:
        run("teach", *words)
    text = told.value.format_message() if isinstance(told.value, click.ClickException) else str(told.value)
    assert says in text
    assert "\n" not in text.strip()


@pytest.mark.parametrize("kind", ["mocopi", "phone"])
def test_a_take_from_a_suit(run: Run, kind: str) -> None:
    """The phone is named by a rig."""
    port = free_port()
    stop = threading.Event()

    def suit() -> None:
        with udp() as out:
            source = SOURCES.load(kind)()
            for _, data in source.encode(swing(60), rate=None, loop=False, unix_time=None):
                if stop.wait(0.02):
                    return
                out.sendto(data, ("127.0.0.1", port))

    thread = threading.Thread(target=suit)
    thread.start()
    try:
        time.sleep(0.2)
        where = f"{kind}://127.0.0.1:{port}"
        Path("rig.toml").write_text(f'source = "{where}"\n')
        named = ("--source", where) if kind == "mocopi" else ("--rig", "rig.toml")
        run(
            "teach", "record", "mine", *named, "--take", "still", "--values", "mix=.4",
            "--seconds", "1", "--countdown", ".6",
        )  # fmt: skip
    finally:
        stop.set()
        thread.join()
    take = Project.open("mine").state.take("still")
    # A phone tells no times: arrivals on a busy machine make its second.
    assert take.frames == 50 if kind == "mocopi" else take.frames >= 40
    assert take.begin > 10
    assert take.values == {"mix": 0.4}
    assert Project.open("mine").problems() == []


@pytest.mark.parametrize("countdown", ["0", "3"])
def test_a_body_that_is_refused_makes_no_take(run, countdown, monkeypatch):
    run("teach", "new", "mine", "--outputs", "mix")
    suit = Suit(free_port(), "msgpack", skeleton=refused_skeleton())
    # Frames that come before their skeleton are another body's, and a take.
    listen = UdpSource.start
    monkeypatch.setattr(UdpSource, "start", lambda *args: (listen(*args), suit.start()))
    words = ["--source", f"msgpack://127.0.0.1:{suit.port}", "--values", "mix=1", "--seconds", "2"]
    try:
        with pytest.raises(DeviceError, match=r"the body of this msgpack cannot be played: .* lies"):
            run("teach", "record", "mine", *words, "--countdown", countdown)
    finally:
        suit.over.set()
    assert Project.open("mine").state.takes == ()


def test_what_was_danced_before_another_body_is_refused_is_kept(run: Run) -> None:
    run("teach", "new", "mine", "--outputs", "mix")
    suit = Suit(free_port(), "msgpack")
    suit.start()
    later = threading.Timer(4.0, setattr, (suit, "skeleton", refused_skeleton()))
    later.start()
    words = ["--source", f"msgpack://127.0.0.1:{suit.port}", "--values", "mix=1", "--countdown", "0"]
    try:
        output = run("teach", "record", "mine", *words, "--seconds", "30")
    finally:
        later.cancel()
        suit.over.set()
    assert "the signal was lost or the skeleton changed: the take ends there" in output
    (take,) = Project.open("mine").state.takes
    assert 2.5 < len(Project.open("mine").motion(take).quats) / 50 < 6.0


def test_a_take_that_cannot_be_stored_is_kept_and_added_by_what_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run("teach", "add", "mine", "b0.npz", "--values", "mix=0")
    clip = Project.open("mine").motion(Project.open("mine").state.takes[0])
    played = PlayedTake("odd one", clip, 25, {"mix": 0.25}, {}, "mocopi", labels={"pose": "up"})
    takes = Path("mine/takes")
    takes.rename("aside")
    takes.write_text("in the way")
    with pytest.raises(DeviceError, match="the take is kept: pyanticip teach add mine") as caught:
        store_or_keep(played, Project.open("mine"))
    takes.unlink()
    Path("aside").rename(takes)
    name, *command = shlex.split(str(caught.value).rpartition("kept: ")[2])
    assert name == "pyanticip"
    run(*command)
    take = Project.open("mine").state.take("odd one")
    assert (take.begin, take.values, dict(take.labels)) == (25, {"mix": 0.25}, {"pose": "up"})
    np.testing.assert_array_equal(Project.open("mine").motion(take).quats, clip.quats)


def test_neither_fitting_nor_playing_imports_torch(run: Run) -> None:
    run("teach", "add", "mine", "a0.npz", "--values", "mix=1")
    run("teach", "add", "mine", "b0.npz", "--values", "mix=0")
    code = (
        "import sys\nfrom pathlib import Path\nfrom pyanticip.teach.options import FitOptions\n"
        "from realtime.teaching.fitting import fit_project\nfrom realtime.rig import Rig\n"
        "from realtime.programs.live import replay\nfrom realtime.sources.replay import open_show\n"
        "fit_project('mine', FitOptions(kind='ridge'))\n"
        "kind, shown = open_show(Path('a0.npz'))\n"
        "rig = Rig(mapping='mine/mapping.safetensors')\n"
        "done = replay(shown, kind, rig, speed=None, say=print)\n"
        "assert done['counters']['frames'] == 150, done\n"
        "heavy = {'torch', 'training', 'matplotlib'} & set(sys.modules)\nassert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_takes_of_another_project_are_added_as_they_are(run: Run) -> None:
    run("teach", "new", "anna", "--outputs", "mix,cutoff:200..8000")
    run("teach", "add", "anna", "a0.npz", "--start", "1", "--values", "cutoff=900", "--class", "arm=right")
    Path("mix.csv").write_text("t,mix\n0,0\n3,1\n")
    run("teach", "add", "anna", "b0.npz", "--curve", "mix.csv", "--take", "bent")
    run("teach", "new", "both", "--outputs", "mix")
    run("teach", "add", "both", "b1.npz", "--take", "bent", "--values", "mix=.5")
    assert run("teach", "add", "both", "anna") == "take a0: 2.00 s\ntake anna bent: 3.00 s\n"
    anna, both = Project.open(Path("anna")), Project.open(Path("both"))
    assert [o.describe() for o in both.state.outputs] == ["mix", "cutoff:200..8000"]
    mine, hers = both.state.take("a0"), anna.state.take("a0")
    assert (mine.motion, mine.begin, mine.values, mine.labels) == (
        hers.motion, hers.begin, {"cutoff": 900}, {"arm": "right"}
    )  # fmt: skip
    curve = both.targets(both.state.take("anna bent"))["mix"]
    np.testing.assert_array_equal(curve, anna.targets(anna.state.take("bent"))["mix"])
    for words, message in (
        (("anna", "--values", "mix=1"), "as they are"),
        (("anna", "--up", "z"), "as they are"),
        (("both",), "already"),
    ):
        with pytest.raises((click.UsageError, MotionError), match=message):
            run("teach", "add", "both", *words)
    Path("empty").mkdir()
    with pytest.raises(MotionError, match="empty"):
        run("teach", "add", "both", "empty")
    assert json.loads(run("teach", "add", "copy", "anna", "--json"))["outputs_made"] == ["mix", "cutoff"]


def test_what_was_added_before_a_project_that_cannot_be_read_is_reported(run: Run) -> None:
    run("teach", "add", "anna", "a0.npz", "--values", "mix=1")
    Path("empty").mkdir()
    done = CliRunner().invoke(cli, ["teach", "add", "mine", "anna", "empty"], standalone_mode=False)
    assert isinstance(done.exception, MotionError)
    assert done.output == "take a0: 3.00 s\n"
    assert [take.name for take in Project.open(Path("mine")).state.takes] == ["a0"]


def test_a_label_of_which_no_take_was_left_out_is_not_judged(run: Run) -> None:
    """Such as one that is shown only once, and too briefly to be cut into blocks."""
    for label, files in (("right", ("a0.npz", "a1.npz")), ("left", ("b0.npz", "b1.npz"))):
        run("teach", "add", "mine", *files, "--class", f"arm={label}")
    save_npz(swing(1, joint=12, level=0.5, seed=9), Path("c.npz"))
    run("teach", "add", "mine", "c.npz", "--end", ".8", "--class", "arm=up")
    line = "ot judged, as no take of theirs was left out: up"
    assert f"\n    n{line}\n" in run("teach", "fit", "mine", "--no-model")
    page = Path("mine/report.html").read_text()
    assert f"N{line}." in page
    assert page.count(">-") == 3, "the row of up, and only this"


def test_an_output_that_all_takes_want_at_one_value_is_named(run: Run) -> None:
    run("teach", "add", "mine", "a0.npz", "b0.npz", "--values", "mix=.5")
    said = run("teach", "fit", "mine", "--no-model")
    assert "warning: mix: all takes want the same value" in said
    assert "no better than" not in said
