"""The summary of a recording by `info`, and its export by `export`."""

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pyanticip as pa
from pyanticip import _core
from pyanticip.cli import cli
from pyanticip.cli.files import _recording_lines
from pyanticip.errors import DeviceError, FormatError, OptionError
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.recording import RecordingWriter
from pyanticip.vocabulary import PARAMETERS
from realtime.bench.performer import mocopi_datagrams
from realtime.programs.demo import PERFORMANCE
from realtime.recording.info import export_recording, recording_info

QUATS = np.tile(np.float32([0.8, 0.6, 0, 0]), (22, 1))


@pytest.fixture
def show(tmp_path: Path) -> Path:
    path = tmp_path / "show.anticip"
    with RecordingWriter(path, {"rig": {"lead_ms": 100, "odd": float("nan")}}, t_ns=0) as tape:
        for i in [0, 1, 2, 5, 6]:
            t_ns = i * 20_000_000
            tape.raw(t_ns, "mocopi", bytes(100))
            tape.frame(t_ns, i, i * 20_000_000, QUATS, [0, 1, i])
            tape.output(
                t_ns, i, np.linspace(0, 1, 8), np.full(7, 0.25), [("phrase", 0.5, 0.04)] if i == 5 else []
            )
        tape.note(1_000_000_000, "look")
    return path


def test_info_counts_the_records(show: Path) -> None:
    info = recording_info(show)
    assert json.loads(json.dumps(info)) == info
    assert info["duration_s"] == pytest.approx(1.0)
    counts = {key: info[key] for key in ("datagrams", "frames", "outputs", "events", "notes")}
    assert counts == {"datagrams": 5, "frames": 5, "outputs": 5, "events": 1, "notes": 1}
    assert "  1 event, 1 note" in _recording_lines(info)
    mocopi = info["sources"]["mocopi"]
    assert (mocopi["datagrams"], mocopi["bytes"]) == (5, 500)
    assert mocopi["rate"] == pytest.approx(4 / 0.12)
    assert info["gaps"] == [{"seconds": pytest.approx(0.1), "seq": 5, "missing": 2}]
    assert (info["gap_count"], info["missing_frames"]) == (1, 2)
    assert info["notes_text"] == [{"seconds": pytest.approx(1.0), "text": "look"}]
    assert info["header"]["rig"] == {"lead_ms": 100, "odd": "nan"}
    assert info["recorded"].endswith("+00:00")
    assert info["warnings"] == []


@pytest.mark.parametrize("kind", ["mocopi", "vmc"])
def test_lost_frames_are_reported_if_frames_are_numbered(kind: str, tmp_path: Path) -> None:
    path, clip = tmp_path / "suit.anticip", pa.load_motion(PERFORMANCE)
    sent = itertools.islice(datagrams(clip, kind), 50)
    with RecordingWriter(path, {}, t_ns=0) as tape:
        for n, (t_ns, data) in enumerate(sent):
            if n % 10 != 9:
                tape.raw(t_ns, kind, data)
    info = recording_info(path)
    assert info["lost"] == (4 if kind == "mocopi" else None)
    summary = f", {info['heard'][kind]['counters']['frames']} received from the sender, 4 lost"
    show, replay = (
        CliRunner().invoke(cli, words).stdout
        for words in (["info", str(path)], ["replay", str(path), "--speed", "max", "--no-model"])
    )
    for lines in (show, replay):
        assert (summary in lines) == (kind == "mocopi"), lines
        assert (" lost" in lines) == (kind == "mocopi"), lines


def test_info_reports_a_torn_tail(show: Path) -> None:
    show.write_bytes(show.read_bytes()[:-3])
    info = recording_info(show)
    assert info["notes"] == 0
    assert len(info["warnings"]) == 1


def test_export_writes_plain_files(show: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    done = export_recording(show, out)
    assert sorted(path.name for path in out.iterdir()) == ["frames.npz", "header.json", "outputs.csv"]
    assert [Path(name).name for name in done["files"]] == ["frames.npz", "outputs.csv", "header.json"]
    with np.load(out / "frames.npz") as arrays:
        assert arrays["quats"].shape == (5, 22, 4)
        np.testing.assert_array_equal(arrays["root"][:, 2], [0, 1, 2, 5, 6])
        np.testing.assert_array_equal(arrays["seq"], [0, 1, 2, 5, 6])
    with (out / "outputs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert list(rows[0])[2 : 2 + 15] == [*_core.SCALARS, *PARAMETERS]
    assert float(rows[3]["pulse"]) == 1.0
    assert (rows[3]["phrase"], rows[3]["phrase_ahead_s"], rows[2]["phrase"]) == ("0.5", "0.04", "")
    assert float(rows[4]["seconds"]) == pytest.approx(0.12)
    header = json.loads((out / "header.json").read_text())
    assert header == {key: value for key, value in done.items() if key != "files"}


def test_export_has_taught_outputs_field_and_plan(tmp_path: Path) -> None:
    path = tmp_path / "show.anticip"
    with RecordingWriter(path, {"mapping": {"outputs": ["cutoff"]}}, t_ns=0) as tape:
        for i in range(2):
            extra: dict[str, Any] = {"field": (0.9, 0.1), "plan": [(237, 0.75), (7, 0.25)]} if i else {}
            tape.output(i, i, np.linspace(0, 1, 9), np.full(7, 0.25), [], **extra)
    export_recording(path, tmp_path / "out")
    with (tmp_path / "out" / "outputs.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["cutoff"], second["cutoff"]) == ("1", "1")
    assert (first["trust"], first["plan"]) == ("", "")
    assert [float(second[name]) for name in ("trust", "curvature")] == pytest.approx([0.9, 0.1])
    assert second["plan"] == "237=0.75;7=0.25"


def test_export_overwrites_nothing_and_leaves_no_partial_files(show: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_recording(show, out)
    with pytest.raises(OptionError, match="already exists"):
        export_recording(show, out)
    with pytest.raises(DeviceError, match="cannot be written to"):
        export_recording(show, show / "below")
    with pytest.raises(FormatError):
        export_recording(out / "header.json", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_empty_show_exports_too(tmp_path: Path) -> None:
    path = tmp_path / "empty.anticip"
    with RecordingWriter(path):
        pass
    assert recording_info(path)["duration_s"] == 0.0
    done = export_recording(path, tmp_path / "out")
    assert done["frames"] == 0
    assert [Path(name).name for name in done["files"]] == ["outputs.csv", "header.json"]
    assert not (tmp_path / "out" / "frames.npz").exists()
    assert done["warnings"] == [f"{path}: holds no frame of motion: no frames.npz is written"]


@pytest.mark.parametrize("header", [{}, {"rig": {"source": {"from": "10.0.0.2"}}}], ids=["player", "rig"])
def test_info_uses_the_sender_recorded_at_the_start(tmp_path: Path, header: dict[str, Any]) -> None:
    path, (skeleton, frames) = tmp_path / "mid.anticip", mocopi_datagrams(20)
    with RecordingWriter(path, header, t_ns=0) as tape:
        if not header:
            tape.control(0, "player", ["10.0.0.2:5000"])
        for n, frame in enumerate(frames):
            for sender in ("10.0.0.1:7000", "10.0.0.2:5000"):
                for data in (skeleton, frame) if n == 0 else (frame,):
                    tape.raw(n * 20_000_000, f"mocopi@{sender}", data)
    assert recording_info(path)["heard"]["mocopi"]["from"] == ["10.0.0.2:5000"]


def test_missing_joints_are_masked_in_the_recording(tmp_path: Path) -> None:
    mask = np.ones(22, np.bool_)
    mask[[4, 5]] = False
    path = tmp_path / "headless.anticip"
    with RecordingWriter(path) as tape:
        tape.frame(0, 0, 0, QUATS, [0, 1, 0])
        for i in range(1, 4):
            tape.frame(i * 20_000_000, i, i * 20_000_000, QUATS, [0, 1, 0], mask)
    export_recording(path, tmp_path / "plain")
    for file in (path, tmp_path / "plain/frames.npz"):
        clip = pa.load_motion(file)
        assert (clip.mask.tolist(), clip.rate, len(clip)) == (mask.tolist(), 50.0, 4)


@pytest.mark.parametrize(
    "words",
    ["render {} --no-model --out {}.csv", "replay {} --no-model --speed max", "export {} --out {}.d",
     "send {} --as msgpack --to 127.0.0.1:9"],
    ids=lambda words: words.split()[0],
)  # fmt: skip
def test_a_cut_recording_is_reported_once(tmp_path: Path, words: str) -> None:
    path, (skeleton, frames) = tmp_path / "cut.anticip", mocopi_datagrams(20)
    with RecordingWriter(path) as tape:
        for n, datagram in enumerate([skeleton, *frames]):
            tape.raw(n * 20_000_000, "mocopi", datagram)
            tape.frame(n * 20_000_000, n, n * 20_000_000, QUATS, [0, 1, 0])
    path.write_bytes(path.read_bytes()[:-3])
    done = CliRunner().invoke(cli, words.format(path, path).split())
    assert done.exit_code == 0
    lines = [line for line in done.stderr.splitlines() if "cut.anticip" in line]
    assert [line.count("cut.anticip: byte ") for line in lines] == [1], lines
    assert lines[0].count("cut.anticip") == 1
