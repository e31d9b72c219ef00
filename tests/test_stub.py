"""The stub of the Rust core says what the binary has."""

import subprocess
import sys
from pathlib import Path

import pytest

import pyanticip._core as core

pytest.importorskip("mypy")


@pytest.mark.slow
def test_stub_matches_the_binary(tmp_path):
    root = Path(core.__file__).parents[1]
    if not (root / "pyproject.toml").is_file():
        pytest.skip("an installed package: the settings of mypy are in the checkout")
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("pyanticip._core.__all__\n")  # PyO3 makes it; the stub's own names are what is checked
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", "pyproject.toml"]
    done = subprocess.run(
        [*command, "--allowlist", str(allowed), "pyanticip._core"],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stdout + done.stderr
