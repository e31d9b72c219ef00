"""The endless show, short: every fault once, a report when interrupted, a few kills."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.full_disk import full_disk
from support.wire import wait_for

from pyanticip.errors import DeviceError, OptionError
from realtime.soak import tables
from realtime.soak.faults import MOTION, PROCESSES
from realtime.soak.faults_around import DISK, FILES, RECEIVERS, REMOTE, SOUND
from realtime.soak.kills import kills
from realtime.soak.processes import PROC
from realtime.soak.run import PICTURE, run
from realtime.soak.show_process import REPORT, ShowProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PROC / "self" / "statm").is_file(), reason="processes are seen through /proc"),
]

ALWAYS = REMOTE | DISK | FILES | MOTION | RECEIVERS


def test_a_show_outlives_every_fault(tmp_path: Path) -> None:
    out = tmp_path / "soak"
    result = run(6.0, out, seed=5)
    assert tables.is_well(result), json.dumps({k: v for k, v in result.items() if k != "by_minute"}, indent=1)
    happened = [one["kind"] for one in result["happened"]]
    assert len(set(happened)) == len(happened)
    assert set(ALWAYS) | {"killed: recorder", "killed: voice", "killed: guard"} <= set(happened)
    assert set(happened) <= set(ALWAYS) | set(PROCESSES) | set(SOUND)
    # How late a busy machine is, is not for a test to judge: that the show goes on is.
    assert result["missed"] < 0.05 * result["bundles"]
    assert result["gap_ms"] < 1000.0
    assert result["bundles"] > 40 * result["seconds"]
    assert result["latency_of"] > 1000
    assert all(take["readable"] for take in result["takes"])
    assert json.loads((out / REPORT).read_text())["bundles"] == result["bundles"]
    pytest.importorskip("matplotlib")
    assert (out / PICTURE).read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_leaves_a_report_of_what_there_is(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pyanticip", "soak", "--hours", "1", "--out", "soak", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell has what it starts in the background ignore Ctrl-C, these tests among it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    takes = tmp_path / "soak" / "show" / "takes"
    with process:
        try:
            # A second of a show, and more than the beginning of a file.
            wait_for(lambda: any(take.stat().st_size > 150_000 for take in takes.glob("*.anticip")), 60.0)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    result = json.loads(out)
    assert result["ended"] == "interrupted", err
    assert result["bundles"] > 50
    assert result["exit_code"] == 0
    assert json.loads((tmp_path / "soak" / REPORT).read_text())["bundles"] == result["bundles"]


def test_what_a_kill_costs(tmp_path: Path) -> None:
    result = kills(1, tmp_path / "soak", seed=1)
    assert tables.is_over_well(result), json.dumps(result, indent=1)
    assert result["kills"] == 1
    assert result["last"]["exit_code"] == 0
    assert result["lost_ms"]["max"] < 500.0
    assert result["fade_ms"]["max"] < 2000.0


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(DeviceError, match=r"soak/\S+: cannot be written \(file too large\)$"):
        ShowProcess(tmp_path / "soak", SimpleNamespace(port=9), midi=None, environment={})  # type: ignore[arg-type]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "note").touch()
    for play in (lambda: run(10.0, tmp_path), lambda: kills(1, tmp_path)):
        with pytest.raises(OptionError, match="an empty one"):
            play()
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
