import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.synthetic_motion import example_of, move, one_thread, piece_of

import training

__all__ = ["environment", "example_of", "move", "one_thread", "piece_of"]

SOURCE = str(Path(__file__).resolve().parents[2] / "training")
if SOURCE not in training.__path__:  # the suite runs on the wheel, which has no studies
    training.__path__.append(SOURCE)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Environment in which a child process imports the same package as this one."""
    paths = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """``command("train", "motion", ...)`` runs a command line: exit code, standard output, standard error."""
    from pyanticip.cli import cli
    from pyanticip.cli.terminal import run

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["pyanticip", *map(str, words)])
        code, said = run(cli), capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def in_two_processes(environment: dict[str, str]) -> Callable[..., Any]:
    """``in_two_processes("train", "motion", ...)``: JSON output of a command that torchrun runs twice."""

    def call(*words: object) -> Any:
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        line = [sys.executable, *torchrun, "-m", "pyanticip", *map(str, words), "--json"]
        done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call
