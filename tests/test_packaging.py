"""The installed package is the one that was built: layers, wheel contents, the stub, names, no torch import;
and names are defined in one place."""

import graphlib
import importlib.util
import os
import re
import socket
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import grimp
import pytest

import pyanticip
import realtime
import training
from pyanticip import _core, vocabulary
from pyanticip.motion.bvh import save_bvh
from pyanticip.motion.load import load_motion
from realtime.programs.demo import PERFORMANCE

ROOT = Path(__file__).resolve().parents[1]
PACKAGE_ROOT = Path(pyanticip.__file__).parents[1]
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
    assert all((PACKAGE_ROOT / package / "py.typed").is_file() for package in PACKAGES)
    if str(WHEEL_TARGET.name) in {Path(p).name for p in os.environ.get("PYTHONPATH", "").split(os.pathsep)}:
        assert where == {WHEEL_TARGET}, "the wheel's copy must be the one under test"


def test_versions_agree() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    version = pyproject["project"]["version"]
    assert cargo["workspace"]["package"]["version"] == version
    assert pyanticip.__version__ == version


LIGHT = """
import sys, pyanticip
pyanticip.ScalarStream(22)
print([m for m in ("torch", "scipy", "sounddevice", "pydantic") if m in sys.modules])
from pyanticip.models import ModelConfig
from pyanticip.models.checkpoint.manifest import SHIPPED, read_manifest
ModelConfig()
read_manifest(SHIPPED)
print("torch" in sys.modules)
"""


def test_import_pyanticip_stays_light_and_models_are_described_without_torch() -> None:
    assert run_python(LIGHT) == "[]\nFalse"


def test_the_trainer_imports_no_compiler() -> None:
    """Nor other modules that take a second or more to import."""
    asked = 'sorted({"torch._dynamo", "transformers", "sympy", "matplotlib"} & sys.modules.keys())'
    assert run_python(f"import sys, training.run.train, training.tasks.motion\nprint({asked})") == "[]"


POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MULTIPLIES = """
import os
import realtime.programs.live
import numpy as np
np.ones((600, 600)) @ np.ones((600, 600))
print(len(os.listdir("/proc/self/task")), os.environ["OMP_NUM_THREADS"])
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are seen through /proc")
@pytest.mark.parametrize(("told", "found"), [({}, ["1", "1"]), ({"OMP_NUM_THREADS": "2"}, ["1", "2"])])
def test_whoever_imports_the_live_path_has_one_thread(told: dict[str, str], found: list[str]) -> None:
    """For every numerical library: a thread pool would spin and take time from the show."""
    environment = {name: value for name, value in os.environ.items() if name not in POOLS} | told
    done = subprocess.run(
        [sys.executable, "-P", "-c", MULTIPLIES], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == found


@pytest.fixture
def base_alone(tmp_path: Path) -> dict[str, str]:
    """An environment in which no package of the extras can be imported, in child processes either."""
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


ONE_AFTER_THE_OTHER = """
import sys
from pyanticip.cli import cli
from pyanticip.cli.terminal import run

if __name__ == "__main__":
    for line in sys.argv[1].splitlines():
        sys.argv = ["pyanticip", *line.split()]
        if code := run(cli):
            sys.exit(f"{line.strip()}: {code}")
"""


@pytest.mark.slow
def test_what_plays_and_teaches_needs_the_base_alone(tmp_path: Path, base_alone: dict[str, str]) -> None:
    save_bvh(load_motion(PERFORMANCE)[:450], tmp_path / "dance.bvh")

    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    (tmp_path / "rig.toml").write_text("[source]\nport = {}\n[control]\nport = {}\n".format(*ports))
    mapping = "--mapping mine/mapping.safetensors"
    commands = f"""teach new mine --outputs brightness
        teach add mine dance.bvh --take high --values brightness=.9 --start 0 --end 4
        teach add mine dance.bvh --take low --values brightness=.1 --start 5 --end 9
        teach fit mine --kind ridge
        render dance.bvh --out taught.csv --seconds 4 {mapping}
        render dance.bvh --out sound.wav --seconds 1
        replay dance.bvh --speed max --record take.anticip --osc 127.0.0.1:9 {mapping}
        info take.anticip
        live --rig rig.toml --osc 127.0.0.1:9 --seconds 0.3
        bench step --seconds 1
        doctor"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", ONE_AFTER_THE_OTHER, commands],
        cwd=tmp_path,
        env=base_alone,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "450 frames" in done.stdout


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


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not for their types alone either, which the layers leave out."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=False)
    graph.remove_module("pyanticip")  # whoever imports the binary is taken to import its package's face
    graphlib.TopologicalSorter(
        {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    ).prepare()


def test_wheel_is_abi3_and_complete() -> None:
    wheels = {path: set(zipfile.ZipFile(path).namelist()) for path in (ROOT / "target/wheels").glob("*.whl")}
    # What an editable install leaves there only points to the tree.
    whole = {path: names for path, names in wheels.items() if "pyanticip.pth" not in names}
    if not whole:
        pytest.skip("no wheel built: make test builds one")
    path, names = max(whole.items())
    assert "-cp311-abi3-" in path.name
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
    assert any(n.endswith(".dist-info/licenses/THIRD_PARTY") for n in names)
    strangers = {n for n in names if n.split("/")[0] not in PACKAGES and ".dist-info" not in n}
    assert not strangers, f"the wheel would install {sorted(strangers)}"
    with zipfile.ZipFile(path) as wheel:
        described = [n for n in names if ".dist-info/" in n and str(ROOT).encode() in wheel.read(n)]
    assert not described, "what describes the wheel names the folder where it was built"


def test_lock_file_names_no_host_but_cargos_own() -> None:
    sources = set(re.findall(r'^source = "(.+)"$', (ROOT / "Cargo.lock").read_text(), re.MULTILINE))
    assert len(sources) == 1, f"crates come from several places: {sorted(sources)}"
    assert all(source.endswith("-index") for source in sources)


def test_the_third_party_file_has_the_crates_of_the_lock_file() -> None:
    spec = importlib.util.spec_from_file_location("third_party", ROOT / ".ci" / "third_party.py")
    third_party = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(third_party)
    text = (ROOT / "THIRD_PARTY").read_text(encoding="utf-8")
    linked, tools = third_party.listed(text)
    assert linked | tools == third_party.locked(), "python .ci/third_party.py writes it again"
    assert {"symphonia", "safetensors", "numpy"} <= {name for name, _ in linked}
    assert not re.search(r"crates\.io|registry|/root|/home", text)
    for licence in ("Permission is hereby granted", "Mozilla Public License", "Apache License"):
        assert licence in text


@pytest.mark.slow
def test_stub_matches_the_binary(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("pyanticip._core.__all__\n")  # PyO3 makes it; the stub's own names are what is checked
    # What it imports is mypy's to read: the binary knows no types.
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nfollow_imports = skip\nfollow_imports_for_stubs = True\n")
    command = [sys.executable, "-P", "-m", "mypy.stubtest", "--mypy-config-file", str(config)]
    done = subprocess.run(
        [*command, "--allowlist", str(allowed), "pyanticip._core"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_that_receivers_rely_on() -> None:
    assert vocabulary.PARAMETERS == (
        "pitch", "loudness", "brightness", "roughness", "density", "space", "pan", "pulse",
    )  # fmt: skip
    assert vocabulary.EVENTS == ("onset", "phrase")
    assert vocabulary.RATE == 50.0
    assert vocabulary.HORIZONS_MS == (0, 40, 100, 200, 400)
    assert pyanticip.SCALARS == (
        "commitment", "uncertainty", "transition_pressure", "recovery_margin", "phase_stiffness", "novelty",
        "stability",
    )  # fmt: skip
    assert pyanticip.SCALARS is vocabulary.SCALARS


def test_the_scalars_columns_are_theirs() -> None:
    first, last = vocabulary.SCALAR_COLUMNS
    assert [f"scalar.{name}" for name in vocabulary.SCALARS] == list(_core.FEATURE_NAMES[first:last])
    assert len(_core.FEATURE_NAMES) == vocabulary.FEATURES


def test_the_columns_of_version_2_are_the_twins_parameters() -> None:
    blocks = ("0ms", "20ms", "60ms", "160ms", "mean_1s", "mean_4s")
    twins = [f"twin.{name}.{block}" for block in blocks for name in vocabulary.PARAMETERS]
    assert list(_core.FEATURE_NAMES[vocabulary.FEATURES_V1 :]) == twins
    assert vocabulary.FEATURE_WIDTHS == (231, 279)


def test_nobody_says_them_again() -> None:
    lists = (vocabulary.SCALARS, vocabulary.PARAMETERS, vocabulary.EVENTS, vocabulary.CANONICAL_JOINTS)
    again = [r"[\s,]*".join(f"[\"']{name}[\"']" for name in names) for names in lists]
    again += [r"\b_?(RATE|FPS)\b[^=\n]*= *50\b", r"[(\[]0, 40, 100, 200, 400[)\]]"]
    found = [
        f"{path.relative_to(PACKAGE_ROOT)}: {match[0]!r}"
        for package in ("pyanticip", "realtime", "training")
        for path in sorted((PACKAGE_ROOT / package).rglob("*.py"))
        for pattern in again
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"))
        if path.name != "vocabulary.py"
    ]
    assert not found
