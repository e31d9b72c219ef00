"""The stub of the Rust core says what the binary has."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytest.importorskip("mypy")


@pytest.mark.slow
def test_stub_matches_the_binary(tmp_path):
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("pyanticip._core.__all__\n")  # PyO3 makes it; the stub's own names are what is checked
    command = [sys.executable, "-P", "-m", "mypy.stubtest", "--mypy-config-file", "pyproject.toml"]
    done = subprocess.run(
        [*command, "--allowlist", str(allowed), "pyanticip._core"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
