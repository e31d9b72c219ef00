import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.synthetic_motion import example_of, move, one_thread, piece_of
from support.wire import tcp_port

__all__ = ["environment", "example_of", "move", "one_thread", "piece_of"]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """A child finds what is under test where this process found it."""
    paths = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """``command("train", "motion", ...)`` runs a command line: its exit code, what it printed, what it
    complained of."""
    from pyanticip.cli import cli
    from pyanticip.cli.terminal import run

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["pyanticip", *map(str, words)])
        code, said = run(cli), capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def in_two_processes(
    environment: dict[str, str], command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """``in_two_processes("train", "motion", ...)``: the answer of a command that runs twice, with what
    torchrun tells each: here, and in a process beside this one."""

    def call(*words: object) -> Any:
        told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(tcp_port()), "TORCHELASTIC_RUN_ID": "two"}
        told |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        line = [sys.executable, "-m", "pyanticip", *map(str, words), "--json"]
        beside = {**environment, **told, "RANK": "1", "LOCAL_RANK": "1"}
        with (
            subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=beside) as other,
            monkeypatch.context() as here,
        ):
            for name, value in {**told, "RANK": "0", "LOCAL_RANK": "0"}.items():
                here.setenv(name, value)
            try:
                code, said, trouble = command(*words, "--json")
                assert code == 0, trouble
                said_there, _ = other.communicate(timeout=300)
            finally:
                other.kill()
        assert other.returncode == 0, said_there
        return json.loads(said)

    return call
