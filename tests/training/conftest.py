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
def in_two_processes(
    command: Callable[..., tuple[int, str, str]], environment: dict[str, str]
) -> Callable[..., Any]:
    """``in_two_processes("train", "motion", ...)``: JSON output of a command run twice, as with torchrun, in
    this process, which has the store of the process group, and in another."""
    from torch.distributed import TCPStore

    def call(*words: object) -> Any:
        line = [*map(str, words), "--json"]
        store = TCPStore("127.0.0.1", 0, 3, is_master=True, wait_for_workers=False)
        about = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_RUN_ID": "test"}
        about |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"}
        ranks = [about | {"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
        other = [sys.executable, "-P", "-m", "pyanticip", *line]
        with (
            subprocess.Popen(other, env=environment | ranks[1], stdout=subprocess.PIPE) as process,
            pytest.MonkeyPatch.context() as patch,
        ):
            try:
                for name, value in ranks[0].items():
                    patch.setenv(name, value)
                code, out, complaint = command(*line)
                assert code == 0, complaint
                assert process.communicate(timeout=300)[0] == b"", "only the first process prints"
                assert process.returncode == 0
            finally:
                process.kill()
        return json.loads(out)

    return call
