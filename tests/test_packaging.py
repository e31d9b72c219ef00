"""The installed thing is the thing that was built: layers, wheel contents, names, torch-freedom."""

import os
import re
import socket
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import pyanticip
import realtime
import training

ROOT = Path(__file__).resolve().parents[1]
WHEEL_TARGET = ROOT / "target" / "wheel"
PACKAGES = ("pyanticip", "realtime", "training")


def run_python(code: str) -> str:
    """The output of a fresh interpreter with the same search path as this one."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_suite_imports_what_was_built() -> None:
    where = {Path(str(p.__file__)).resolve().parents[1] for p in (pyanticip, realtime, training)}
    assert len(where) == 1, "the three packages come from different places"
    if str(WHEEL_TARGET.name) in {Path(p).name for p in os.environ.get("PYTHONPATH", "").split(os.pathsep)}:
        assert where == {WHEEL_TARGET}, "the wheel's copy must be the one under test"


def test_versions_agree() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    version = pyproject["project"]["version"]
    assert cargo["workspace"]["package"]["version"] == version
    assert pyanticip.__version__ == version


def test_import_pyanticip_stays_light() -> None:
    heavy = run_python(
        "import sys, pyanticip; "
        "print([m for m in ('torch', 'scipy', 'sounddevice', 'pydantic') if m in sys.modules])"
    )
    assert heavy == "[]"


@pytest.fixture
def base_alone(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing of the extras can be imported, in child processes neither."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    absent = {re.split(r"[<>=\[]", name)[0] for names in extras.values() for name in names} - {"pyanticip"}
    assert {"torch", "scipy", "matplotlib"} <= absent
    (tmp_path / "site").mkdir()
    # What is None there is not found.
    (tmp_path / "site" / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({sorted(absent)}))\n"
    )
    roots = [str(tmp_path / "site"), str(Path(pyanticip.__file__).parents[1])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(roots)}


@pytest.mark.slow
def test_what_plays_and_teaches_needs_the_base_alone(tmp_path: Path, base_alone: dict[str, str]) -> None:
    bvh = str(Path(realtime.__file__).parent / "data" / "performance.bvh")

    def call(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pyanticip", *words],
            cwd=tmp_path,
            env=base_alone,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    call("teach", "new", "mine", "--outputs", "brightness")
    for take, value, start in (("high", ".9", "0"), ("low", ".1", "12")):
        call("teach", "add", "mine", bvh, "--take", take, "--values", f"brightness={value}",
             "--start", start, "--end", str(int(start) + 4))  # fmt: skip
    call("teach", "fit", "mine", "--kind", "ridge")
    mapping = ("--mapping", "mine/mapping.safetensors")
    call("render", bvh, "--out", "taught.csv", "--seconds", "4", *mapping)
    call("render", bvh, "--out", "sound.wav", "--seconds", "1")
    call("replay", bvh, "--speed", "max", "--record", "take.anticip", "--osc", "127.0.0.1:9", *mapping)
    assert "1400 frames" in call("info", "take.anticip")
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    (tmp_path / "rig.toml").write_text("[source]\nport = {}\n[control]\nport = {}\n".format(*ports))
    call("live", "--rig", "rig.toml", "--osc", "127.0.0.1:9", "--seconds", "0.3")
    call("bench", "step", "--seconds", "1")
    call("doctor")


@pytest.mark.slow
def test_layers_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def wheel_path() -> Path:
    wheels = sorted((ROOT / "target" / "wheels").glob("pyanticip-*.whl"))
    if not wheels:
        pytest.skip("no wheel built: make test builds one")
    return wheels[-1]


def test_wheel_is_abi3_and_complete() -> None:
    path = wheel_path()
    assert "-cp311-abi3-" in path.name
    names = set(zipfile.ZipFile(path).namelist())
    assert any(n.startswith("pyanticip/_core.abi3") for n in names)
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    studies = {n for n in names if n.startswith("training/studies/")}
    assert not studies, "research questions are in no wheel"
    files = {f for f in tracked.stdout.split() if (ROOT / f).is_file()}
    missing = {f for f in files if not f.startswith("training/studies/")} - names
    assert not missing, f"tracked package files that the wheel lacks: {sorted(missing)}"
    strangers = {n for n in names if n.split("/")[0] not in PACKAGES and ".dist-info" not in n}
    assert not strangers, f"the wheel would install {sorted(strangers)}"


def test_lock_file_names_no_host_but_cargos_own() -> None:
    sources = set(re.findall(r'^source = "(.+)"$', (ROOT / "Cargo.lock").read_text(), re.MULTILINE))
    assert len(sources) == 1, f"crates come from several places: {sorted(sources)}"
    assert all(source.endswith("-index") for source in sources)
