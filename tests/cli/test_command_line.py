"""The command line's output and errors: one line, the right exit code, a suggestion."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner
from support.clips import walking_clip

from pyanticip.cli import cli
from pyanticip.cli.terminal import answer, needs, run, unwound
from pyanticip.errors import FOREIGN, Terminated
from pyanticip.models.checkpoint.manifest import SHIPPED
from pyanticip.models.forecast.manifest import GHOST
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.recording import RecordingWriter
from pyanticip.options import host_port
from pyanticip.teach.project import Project
from realtime.sockets import free_port


def python(code: str, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The output of a Python program."""
    line = [sys.executable, "-c", code, *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, cwd=cwd)


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = []
    for name, command in group.commands.items():
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


@pytest.mark.parametrize(
    ("path", "command"), commands(cli), ids=lambda x: "-".join(x) if isinstance(x, tuple) else ""
)
def test_every_command_has_help_with_an_example(path: tuple[str, ...], command: click.Command) -> None:
    text = command.get_help(click.Context(command, info_name=" ".join(path)))
    assert "Example: pyanticip " + " ".join(path[:1]) in text
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{parameter.opts} says nothing"


@pytest.mark.parametrize("group", [cli, *(c for _, c in commands(cli) if isinstance(c, click.Group))])
def test_no_summary_is_cut_at_eighty_columns(group: click.Group) -> None:
    context = click.Context(group, info_name="pyanticip", terminal_width=78)
    listed = group.get_help(context).partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rgi"], "did you mean rig?"),
        (["rig", "chekc", "x"], "did you mean check?"),
        (["rig", "init", "--fore", "x"], "did you mean --force?"),
        (["rig", "init"], "missing argument"),
        (["render", "--seconds"], "(see pyanticip render --help)"),
        (["teach", "add", "mine", __file__], "(see pyanticip teach add --help)"),
        (["--verzion"], "did you mean --version?"),
        (["live", "--rig", "a.toml", "--rig", "b.toml"], "--rig: expected one, got 2"),
        *(
            (words, "expected a path, got ''")
            for words in (
                ["render", ""],
                ["export", "x", "--out", ""],
                ["live", "--record", ""],
                ["info", "x", "--skeleton", ""],
            )
        ),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(words, says, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pyanticip", *words])
    assert run(cli) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err
    assert "--help" in err


def test_under_torchrun_the_first_process_says_an_error_before_the_others(monkeypatch, capsys):
    waited = []
    monkeypatch.setattr("pyanticip.cli.terminal.time.sleep", lambda _: waited.append(capsys.readouterr().err))
    monkeypatch.setattr("sys.argv", ["pyanticip", "nosuch"])
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    for rank, before in (("0", []), ("1", [""])):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert run(cli) == 2
        assert capsys.readouterr().err.startswith("pyanticip: ")
        assert waited == before


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("localhost:9000", ("localhost", 9000)),
        ("9000", ("127.0.0.1", 9000)),
        (":9000", ("127.0.0.1", 9000)),
        ("[::1]:9000", ("::1", 9000)),
    ],
)
def test_host_and_port(text: str, value: tuple[str, int]) -> None:
    assert host_port(text) == value


@pytest.mark.parametrize("text", ["", "localhost", "a:b", "a:0", "a:65536", "a:-1", "a:٣"])
def test_senseless_ports_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        host_port(text)


def test_another_project_in_our_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "realtime").mkdir()
    (tmp_path / "realtime" / "__init__.py").write_text("")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['pyanticip', 'rig', 'check', 'x']\n"
        "from pyanticip.cli import main\nmain()"
    )
    done = python(code)
    assert done.returncode == 1
    assert "another project has this name" in done.stderr
    assert done.stderr.count("\n") == 1


def test_ctrl_c_while_the_program_starts_ends_it_quietly() -> None:
    code = """if True:
        import os, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background is born without
        class Interrupting:
            def find_spec(self, name, path, target=None):
                if name == "pyanticip.cli.generate":
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Interrupting())
        from pyanticip.cli import main
        main()"""
    done = python(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "words",
    [
        ["render", ".", "--out"],
        ["train", "data", "build", ".", "--out"],
        ["train", "data", "augment", ".", "--out"],
    ],
)
def test_a_link_that_leads_to_itself_is_one_line(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "round").symlink_to("round")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pyanticip", *words, "round"])
    assert run(cli) == 1
    assert capsys.readouterr().err == "pyanticip: round: too many levels of symbolic links\n"


def test_another_ctrl_c_while_the_program_exits_ends_it_without_a_traceback() -> None:
    code = """if True:
        import atexit, os, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
        sys.argv[1:] = ["--version"]
        from pyanticip.cli import main
        main()"""
    done = python(code)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_a_missing_extra_is_named_before_anything_is_imported(monkeypatch, capsys):
    """A command that needs an extra looks for it; what is imported without looking is named as well."""
    found = ["click>=8", 'no-such-thing>=3; extra == "midi"', 'lost_thing; extra == "gpu"']
    monkeypatch.setattr(metadata, "requires", lambda name: found)
    monkeypatch.setattr("sys.argv", ["pyanticip"])

    def lost() -> None:
        __import__("lost_thing")

    needs("train")
    for act, says in (
        (lambda: needs("midi"), "no-such-thing, of the extra 'midi': pip install 'pyanticip[midi]'"),
        (lost, "lost_thing, of the extra 'gpu': pip install 'pyanticip[gpu]'"),
    ):
        assert run(click.Command("x", callback=act)) == 1
        assert capsys.readouterr().err == f"pyanticip: this needs {says}\n"


LIGHT = [
    # what is typed, exit code, what the line says
    ("rig check nowhere.toml", 1, "pyanticip: nowhere.toml: no such file or directory"),
    ("train motion --data empty --out run", 1, "empty: no motion in it"),
    ("train motion --data nowhere --out run", 1, "nowhere: no such folder"),
    ("train motion --data takes --out run --steps none", 2, "--steps"),
    ("train motion --data takes --out run --set stepz=3", 2, "did you mean steps"),
    ("train motion --data takes --out run --config nowhere.toml", 1, "nowhere.toml: no such file"),
    ("train motion --data takes --out file/in/run", 1, "file/in: not a directory"),
    ("train language --data nowhere.txt --valid nowhere.txt --out run", 1, "nowhere.txt: no such file"),
    ("train beats --data empty --out run", 1, "empty: no motion in it"),
    ("train packaged --data empty --out run", 1, "empty: no motion in it"),
    ("train data build nowhere --out set", 1, "nowhere: no such file"),
    ("evaluate motion --data empty --split valid", 2, "--split"),
    ("evaluate motion --data empty", 1, "empty: no motion in it"),
    ("evaluate language --run takes", 2, "no option --run; RUN... is given without one (see"),
    ("tasks train --task copy --out run --lr high", 2, "--lr"),
    ("bench train --size huge", 2, "--size"),
    ("live --source mocpi", 2, "did you mean mocopi?"),
    ("render nowhere.bvh --out x.wav", 1, "nowhere.bvh: no such file"),
]


TYPED = """
import contextlib, io, json, sys
from pyanticip.cli import cli
from pyanticip.cli.terminal import run

told = {}
for typed in ["--help", *json.loads(sys.argv[1])]:
    sys.argv = ["pyanticip", *typed.split()]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(cli)
    told[typed] = (code, out.getvalue(), err.getvalue(), list(sys.modules))
print(json.dumps(told))
"""


class Told(NamedTuple):
    """The output of a command, and the modules imported by then."""

    code: int
    out: str
    err: str
    modules: list[str]


Say = Callable[[str], Told]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Say:
    """``said(typed)``: the help and then all of LIGHT are typed in one interpreter."""
    where = tmp_path_factory.mktemp("typed")
    (where / "empty").mkdir()
    (where / "takes").mkdir()
    (where / "takes" / "a.bvh").touch()
    (where / "file").touch()
    done = python(TYPED, json.dumps([case[0] for case in LIGHT]), cwd=where)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in where.iterdir()) == ["empty", "file", "takes"]
    told = json.loads(done.stdout)
    return lambda typed: Told(*told[typed])


def test_help_is_light(said: Say) -> None:
    """Nothing large is imported to print the help: that is what makes it quick."""
    told = said("--help")
    assert told.code == 0
    assert "Commands:" in told.out
    large = {"torch", "scipy", "pydantic", "sounddevice", "rich", "importlib.metadata"}
    assert not large & set(told.modules)


@pytest.mark.parametrize(("typed", "code", "says"), LIGHT, ids=[case[0] for case in LIGHT])
def test_a_mistake_is_told_before_anything_heavy_is_imported(said, typed, code, says):
    told = said(typed)
    assert not {"torch", "scipy", "matplotlib"} & set(told.modules)
    assert told.code == code
    assert says in told.err.splitlines()[-1]
    assert "Traceback" not in told.err


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
    port = str(free_port())
    done = python(TRACED, port)
    assert done.returncode == 0, done.stderr
    # Checks and sums look at all of the tree.
    names = ("_", "untaught_output_lines", "ignored_options", "has_voice", "offers_control", "latency_ms")
    sums = (
        "checks.",
        "options.Options._check_numbers",
        "options._has_boolean",
        *(f"tree.Rig.{name}" for name in names),
    )
    seen = [name for name in done.stdout.splitlines()[-1].split() if not name.startswith(sums)]
    use = seen.index("mixer.Mixer.__init__")
    path = "load.load_rig load._merge load.parse_rig live.live stage.assemble stage.build_mixer"
    # Files that are said twice are refused. A number or a word: what click cannot read, we read.
    read = [
        "generate.Command.parse_args",
        "generate._PydanticType.convert",
        "config.number_or.<locals>.check",
    ]
    read += ["options.Options.check", "play.live"]
    assert seen[:use] == [*read, *path.split()]
    # Of these two read a number or auto, the lead is an object of its own with a checked setting, and
    # seven hold the rig as a whole, whose names are looked up and which is edited while it plays.
    assert len(seen) <= 19, seen


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
@pytest.mark.parametrize(
    ("typed", "code", "says"),
    [
        # what a shell runs, exit code, what is left of stderr
        ("presets > /dev/full", 1, "pyanticip: no space left on device\n"),
        ("presets >&-", 0, ""),
        ("presets >&- 2>&-", 0, ""),
        ("lve 2> /dev/full", 2, ""),
    ],
)
def test_streams_that_take_nothing(typed: str, code: int, says: str) -> None:
    line = f'"{sys.executable}" -P -m pyanticip {typed}'
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (code, says)


@pytest.mark.slow
@pytest.mark.parametrize(("encoding", "name"), [("latin-1", "\N{SNOWMAN}.toml"), ("utf-8", "\udcff.toml")])
def test_letters_that_an_encoding_lacks_are_question_marks(encoding: str, name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pyanticip", "rig", "init", name], cwd=tmp_path, capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"}, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"wrote ?.toml;")
    assert (tmp_path / name).exists()


@pytest.mark.slow
@pytest.mark.parametrize("nobody", ["<&-", "</dev/null"])
def test_a_question_that_nobody_can_answer_is_an_error(nobody: str) -> None:
    line = f'"{sys.executable}" -P -m pyanticip setup {nobody}'
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.endswith("\npyanticip: setup: nobody answers; --yes answers all questions\n")


def test_what_stands_in_a_file_does_not_steer_the_terminal(tmp_path: Path) -> None:
    trick = "\x1b]0;mine\x07\x9b31m"
    with RecordingWriter(tmp_path / "a.anticip") as tape:
        tape.raw(1, f"mocopi@{trick}", b"frame")
    save_bvh(walking_clip(60), tmp_path / "a.bvh")
    text = (tmp_path / "a.bvh").read_text()
    (tmp_path / "a.bvh").write_text(text.replace("JOINT left_hand", f"JOINT {trick}:left_hand"))
    Project.create(tmp_path / "mine")
    for file in (tmp_path / "mine").rglob("*.json"):
        file.write_text(file.read_text().replace('"begin"', json.dumps(trick)))
    for words in (
        ["info", "a.anticip"],
        ["info", "a.bvh"],
        ["info", "a.bvh", "--joints"],
        ["teach", "history", "mine"],
    ):
        words = [str(tmp_path / word) if word[:2] in ("a.", "mi") else word for word in words]
        said = CliRunner().invoke(cli, words, catch_exceptions=False).output
        assert "mine" in said.replace(str(tmp_path), "")
        assert not set(said) & set(trick) - set("]0;mine31m"), words


def test_info_tells_which_model_a_checkpoint_is(tmp_path: Path) -> None:
    copy = tmp_path / "run" / "checkpoint"
    shutil.copytree(SHIPPED, copy)
    for named in (copy, copy / "model.safetensors"):
        told = CliRunner().invoke(cli, ["info", str(named)]).output
        assert "a motion model, checkpoint-de305c69, 2,070,065 parameters; its files are whole" in told
        assert "kept apart for test: 07, 49" in told
    forecaster = CliRunner().invoke(cli, ["info", str(GHOST)])
    assert "a forecaster, ghost-" in forecaster.output
    above = CliRunner().invoke(cli, ["info", str(tmp_path / "run")])
    assert f"did you mean {copy}?" in str(above.exception)
    for file, of, command in (
        ("data/set.json", "data", "train data inspect"),
        ("mine/project.json", "mine", "teach list"),
        ("stage.toml", "stage.toml", "rig check"),
    ):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
        elsewhere = CliRunner().invoke(cli, ["info", str(tmp_path / of)])
        assert f"see it with: pyanticip {command} {tmp_path / of}" in str(elsewhere.exception)
    (copy / "model.safetensors").write_bytes(b"\0" * 100)
    damaged = CliRunner().invoke(cli, ["info", str(copy)])
    assert "model.safetensors is damaged or not its own" in str(damaged.exception)


def test_a_figure_that_does_not_exist_is_null_in_json(capsys):
    answer({"a": [float("nan"), 1.5, (float("inf"), True)], "b": {"c": "x"}}, "", True)
    assert (
        capsys.readouterr().out.split()
        == json.dumps({"a": [None, 1.5, [None, True]], "b": {"c": "x"}}, indent=2).split()
    )


@pytest.mark.parametrize(("command", "option", "begun", "names"), [
    ("live", "preset", "b", ["bowed", "bells"]),
    ("render", "preset", "gran", ["granular"]),
    ("live", "source", "v", ["vmc", "vrchat"]),
    ("live", "backend", "", ["rust", "torch", "cuda-graph"]),
])  # fmt: skip
def test_tab_completes_the_names_of_what_is_installed(command, option, begun, names) -> None:
    found = cli.get_command(click.Context(cli, info_name="pyanticip"), command)
    assert found is not None
    param = next(each for each in found.params if each.name == option)
    completed = param.shell_complete(click.Context(found), begun)
    assert [each.value for each in completed] == names


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_sigterm_is_not_taken_for_an_error_of_another_package():
    with pytest.raises(Terminated), unwound(), contextlib.suppress(*FOREIGN):
        signal.raise_signal(signal.SIGTERM)
