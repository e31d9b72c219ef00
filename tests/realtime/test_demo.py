"""The demo plays through the real pipeline and reports it; the doctor's findings are true."""

import contextlib
import importlib.util
import itertools
import json
import socket
import threading
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.wire import DatagramReceiver, tcp_port

from pyanticip.errors import OptionError
from realtime.programs import doctor as doctor_module
from realtime.programs.demo import _print_summary, demo
from realtime.programs.doctor import _gpu, doctor, lines
from realtime.rig.tree import SynthRig
from realtime.voice.audio import probe
from realtime.voice.process import begin_voice


class Browser(threading.Thread):
    """Connects to a monitor, sends a command, and stores the answer and twenty frames."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.address = f"127.0.0.1:{tcp_port()}"
        self.seen: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {}
        self.start()

    def run(self) -> None:
        from websockets.sync.client import connect

        while not self.seen:
            with contextlib.suppress(OSError), connect(f"ws://{self.address}/live") as client:
                client.send(json.dumps({"do": "gain", "with": [0.5]}))
                received = (json.loads(client.recv(10)) for _ in range(200))
                self.answer = next(each for each in received if "reply" in each)
                self.seen += itertools.islice((each["frame"] for each in received if "frame" in each), 20)
            time.sleep(0.05)


@pytest.fixture
def ear() -> Iterator[DatagramReceiver]:
    ear = DatagramReceiver()
    yield ear
    ear.close()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_demo_sends_bundles_and_ends(ear, elsewhere, capsys):
    browser = Browser() if importlib.util.find_spec("websockets") else None
    result = demo(seconds=4.0, osc=("127.0.0.1", ear.port), audio=False, monitor=browser and browser.address)
    # Two passes of 1.4 s.
    assert result["frames"] == pytest.approx(141, abs=7)
    assert len(ear.datagrams) == pytest.approx(result["bundles"], abs=2)
    assert all((b"/anticip/params" in b) != (b"/anticip/status" in b) for b in ear.datagrams[5:])
    assert result["audio"] is None
    assert 0 < result["latency_ms"]["p50"] < 20
    printed = capsys.readouterr().err
    assert f"OSC to 127.0.0.1:{ear.port}" in printed
    assert "OSC bundles" in printed
    assert printed.index("lead 0") < printed.index("second pass, lead automatic")
    assert "Jasmine Coro" in printed
    assert "pyanticip doctor" in printed
    assert not list(elsewhere.iterdir()), "no sound was wanted"
    json.dumps(result)
    _print_summary({**result, "bundles": 1, "refused": 9}, "127.0.0.1", 9000, Console(stderr=True))
    assert ", 1 OSC bundle to 127.0.0.1:9000 (nobody" in " ".join(capsys.readouterr().err.split())
    if browser is not None:
        # The dance has 60 Hz, and two frames of five have no body; the page gets the others.
        browser.join(10)
        assert (browser.answer["reply"], browser.answer["ok"]) == ("gain", True), browser.answer
        assert sum(frame["places"] is not None for frame in browser.seen) >= 18
        bodies = [frame for frame in browser.seen if frame["places"] is not None]
        assert all(np.shape(frame["ghosts"]) == (2, 22, 3) for frame in bodies)


@pytest.mark.slow
def test_without_a_device_it_writes_the_sound_to_a_file(ear, elsewhere, capfd):
    voice = begin_voice(SynthRig(device="nowhere"), print)
    result = demo(seconds=3.0, osc=("127.0.0.1", ear.port), voice=voice)
    assert voice.pid is None
    assert result["audio"] is None
    assert result["wav"]["out"] == "demo.wav"
    with wave.open(str(elsewhere / "demo.wav")) as file:
        assert file.getnframes() > 48_000
    printed = capfd.readouterr().err
    assert "no sound: " in printed
    assert "wrote demo.wav" in printed


def test_the_demo_refuses_zero_seconds() -> None:
    with pytest.raises(OptionError, match="seconds: expected more than 0"):
        demo(seconds=0.0)


@pytest.mark.slow
def test_the_doctor_finds_no_fault_here() -> None:
    report = doctor()
    json.dumps(report)
    found = {check["name"]: check for check in report["checks"]}
    names = {"versions", "packages", "model", "audio", "ports", "gpu", "processor", "timer", "voice"}
    assert set(found) >= names
    for check in report["checks"]:
        assert check["status"] in ("ok", "warn", "broken")
        assert "\n" not in check["found"]
        assert check["status"] == "ok" or check["remedy"], check
    assert report["working"], lines(report)
    assert len(lines(report)) >= len(report["checks"]) + 1


@pytest.mark.parametrize(("cuda", "torch", "status"), [
    (False, False, "ok"), (False, True, "ok"), (True, True, "ok"), (True, False, "warn"),
])  # fmt: skip
def test_a_gpu_without_torch_is_reported_with_its_extra(monkeypatch, cuda, torch, status):
    monkeypatch.setattr("realtime.step.open.cuda_present", lambda: cuda)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if torch else None)
    check = _gpu()
    assert check["status"] == status
    assert ("no CUDA" in check["found"]) != cuda
    assert ("pyanticip[gpu]" in check["remedy"]) == (status == "warn")


def test_a_port_in_use_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as in_use:
        in_use.bind(("127.0.0.1", 0))
        port = in_use.getsockname()[1]
        monkeypatch.setattr(doctor_module, "_PORTS", ((port, "test"),))
        check = doctor_module._ports()
    assert check["status"] == "warn"
    assert f"{port} (test): address already in use" in check["found"]
    assert check["remedy"]


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def faints() -> doctor_module.Check:
        raise RuntimeError("oh\nno")

    monkeypatch.setattr(doctor_module, "_CHECKS", (("x", faints),))
    report = doctor()
    assert not report["working"]
    assert report["checks"][0]["found"] == "RuntimeError: oh"


def test_a_package_of_another_project_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import importlib.machinery
    import importlib.util

    (tmp_path / "realtime").mkdir()
    alien = importlib.machinery.ModuleSpec(
        "realtime", None, origin=str(tmp_path / "realtime" / "__init__.py")
    )
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: alien if name == "realtime" else real(name, *rest)
    )
    check = doctor_module._packages()
    assert check["status"] == "broken"
    assert "pip uninstall realtime" in check["remedy"]


def test_another_project_in_the_same_folder_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    about = tmp_path / "realtime-2.34.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: realtime\nVersion: 2.34.1\n")
    (about / "RECORD").write_text("realtime/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    check = doctor_module._packages()
    assert check["status"] == "broken"
    assert check["found"].endswith("is of another project as well: realtime")
    assert "pip uninstall realtime, then install pyanticip again" in check["remedy"]


def test_probing_devices_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    import realtime.voice.audio

    monkeypatch.setattr(realtime.voice.audio.sys, "executable", "/nonexistent")  # type: ignore[attr-defined]
    audio = probe()
    assert not audio.usable
    assert audio.error
