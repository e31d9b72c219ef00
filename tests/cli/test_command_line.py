"""What the command line says: one line, the right exit code, a suggestion."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from pyanticip.cli import cli
from pyanticip.options import host_port
from realtime.sockets import free_port


def pyanticip(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pyanticip", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=cwd,
    )


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rgi"], "did you mean rig?"),
        (["rig", "chekc", "x"], "did you mean check?"),
        (["rig", "init", "--fore", "x"], "did you mean --force?"),
        (["rig", "init"], "missing argument"),
        (["--verzion"], "did you mean --version?"),
        (["live", "--rig", "a.toml", "--rig", "b.toml"], "--rig: expected one, got 2"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(words: list[str], says: str) -> None:
    done = pyanticip(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert "--help" in done.stderr


def test_a_missing_file_is_one_line_and_exit_1() -> None:
    done = pyanticip("rig", "check", "nowhere.toml")
    assert (done.returncode, done.stderr) == (1, "pyanticip: nowhere.toml: no such file or directory\n")


def test_help_is_light() -> None:
    """No numerical library is imported to print the help: that is what makes it quick."""
    code = (
        "import sys; sys.argv = ['pyanticip', '--help']\n"
        "from pyanticip.cli.terminal import run\nfrom pyanticip.cli import cli\n"
        "run(cli)\n"
        "heavy = {'torch', 'scipy', 'pydantic', 'sounddevice', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Commands:" in done.stdout


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_missing_extra_is_named_before_anything_is_imported() -> None:
    """A command that needs an extra looks for it; what is imported without looking is named as well."""
    code = """if True:
        import sys
        from importlib import metadata
        import click
        from pyanticip.cli.terminal import needs, run
        found = ["click>=8", 'no-such-thing>=3; extra == "midi"', 'lost; extra == "gpu"']
        metadata.requires = lambda name: found
        needs("train")
        def lost() -> None:
            import lost
        for command in (lambda: needs("midi"), lost):
            sys.argv = ["pyanticip"]
            print(run(click.Command("x", callback=command)))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "1"], done.stderr
    assert done.stderr.splitlines() == [
        "pyanticip: this needs no-such-thing, of the extra 'midi': pip install 'pyanticip[midi]'",
        "pyanticip: this needs lost, of the extra 'gpu': pip install 'pyanticip[gpu]'",
    ]


LIGHT = [
    # what is typed, exit code, what the line says
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


@pytest.mark.parametrize(("typed", "code", "says"), LIGHT, ids=[case[0] for case in LIGHT])
def test_a_mistake_is_told_before_anything_heavy_is_imported(
    tmp_path: Path, typed: str, code: int, says: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "takes").mkdir()
    (tmp_path / "takes" / "a.bvh").touch()
    (tmp_path / "file").touch()
    program = (
        f"import sys; sys.argv = ['pyanticip', *{typed.split()!r}]\n"
        "from pyanticip.cli import cli\nfrom pyanticip.cli.terminal import run\n"
        "code = run(cli)\n"
        "heavy = {'torch', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == code, done.stderr
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "takes"]


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
    done = subprocess.run(
        [sys.executable, "-c", TRACED, port],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    # Checks look at all of the tree.
    checks = ("tree.Rig._", "tree.Rig.in_vain", "ports.")
    seen = [name for name in done.stdout.splitlines()[-1].split() if not name.startswith(checks)]
    use = seen.index("mixer.Mixer.__init__")
    path = "load.load_rig load._merge load.parse_rig live.live tree.Rig.resolved stage.assemble"
    path += " stage.build_mixer"
    # Files that are said twice are refused. A number or a word: what click cannot read, we read.
    read = ["generate.Command.parse_args", "generate._Parsed.convert", "config._lead_ms"]
    read += ["options.Options.check", "play.live"]
    assert seen[:use] == [*read, *path.split()]
    # Of these two read a number or auto, the lead is an object of its own with a checked setting, and
    # seven hold the rig as a whole, whose names are looked up and which is edited while it plays.
    assert len(seen) <= 22, seen


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
@pytest.mark.parametrize(
    ("typed", "code", "says"),
    [
        # what a shell runs, exit code, what is left of stderr
        ("presets > /dev/full", 1, "pyanticip: no space left on device\n"),
        ("presets 2> /dev/full", 0, ""),
        ("presets 2>&-", 0, ""),
        ("presets >&-", 0, ""),
        ("presets >&- 2>&-", 0, ""),
        ("lve 2> /dev/full", 2, ""),
    ],
)
def test_streams_that_take_nothing(typed: str, code: int, says: str) -> None:
    line = f'"{sys.executable}" -P -m pyanticip {typed}'
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (code, says)
