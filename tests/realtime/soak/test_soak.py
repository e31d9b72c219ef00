"""The soak test, short: every fault once, a report when interrupted, a few kills."""

import json
import signal
import sys
from pathlib import Path

import pytest
from support.full_disk import full_disk
from support.wire import start, wait_for

from pyanticip.errors import DeviceError, OptionError
from realtime.soak.faults import FAULTS
from realtime.soak.run import PICTURE, REPORT, kills, run
from realtime.soak.show import Show

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are seen through /proc"),
]

SOMETIMES = {"killed: monitor", "killed: oscquery", "killed: midi", "sound: server gone"}


def test_a_show_survives_every_fault(tmp_path: Path) -> None:
    out = tmp_path / "soak"
    result = run(6.0, out, seed=5)
    assert result["well"], json.dumps({k: v for k, v in result.items() if k != "by_minute"}, indent=1)
    happened = [one["kind"] for one in result["happened"]]
    assert len(set(happened)) == len(happened)
    assert FAULTS.keys() - SOMETIMES <= set(happened) <= FAULTS.keys()
    assert all("why" not in take for take in result["takes"]), "each can be read"
    # The delays of a busy machine are not tested, only that the show continues.
    assert result["missed"] < 0.05 * result["bundles"]
    assert result["gap_ms"] < 1000.0
    assert result["bundles"] > 40 * result["seconds"]
    assert result["latency_of"] > 1000
    assert json.loads((out / REPORT).read_text())["bundles"] == result["bundles"]
    pytest.importorskip("matplotlib")
    assert (out / PICTURE).read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_leaves_a_report(tmp_path: Path) -> None:
    # A shell has what it starts in the background ignore Ctrl-C, these tests among it.
    obeys = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    takes = tmp_path / "soak" / "show" / "takes"
    with start("soak", "--hours", "1", "--json", cwd=tmp_path, **obeys) as process:
        try:
            # A second of a show, and more than the beginning of a file.
            wait_for(lambda: any(take.stat().st_size > 150_000 for take in takes.glob("*.anticip")), 60.0)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    result = json.loads(out)
    assert (process.returncode, result["ended"], result["exit_code"]) == (0, "interrupted", 0), err
    assert result["bundles"] > 50
    assert json.loads((tmp_path / "soak" / REPORT).read_text()) == result


def test_the_cost_of_a_kill_is_reported(tmp_path: Path) -> None:
    result = kills(1, tmp_path / "soak", seed=1)
    assert result["well"], json.dumps(result, indent=1)
    assert (result["kills"], result["last"]["exit_code"]) == (1, 0)
    assert result["lost_ms"]["max"] < 500.0
    assert result["fade_ms"]["max"] < 2000.0


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(DeviceError, match=r"soak/\S+: cannot be written \(file too large\)$"):
        Show(tmp_path / "soak", 0, (), None, None)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "note").touch()
    for play in (lambda: run(10.0, tmp_path), lambda: kills(1, tmp_path)):
        with pytest.raises(OptionError, match="an empty one"):
            play()
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
