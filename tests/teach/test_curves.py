import zipfile
from pathlib import Path

import numpy as np
import pytest

from pyanticip.errors import FormatError
from pyanticip.motion.recording import RecordingWriter
from pyanticip.teach.curves import load_curves, sample


def test_a_table_of_key_points(tmp_path: Path) -> None:
    file = tmp_path / "curve.csv"
    file.write_text("t, cutoff, mix\n0, 100, 0\n1, 300,\n2, , 1\n\n", encoding="utf-8")
    curves = load_curves(file)
    assert sample(curves["cutoff"], 151)[[0, 25, 50, 150]] == pytest.approx([100, 200, 300, 300])
    assert sample(curves["mix"], 101)[[0, 50, 100]] == pytest.approx([0, 0.5, 1])


def test_arrays(tmp_path: Path) -> None:
    file = tmp_path / "curve.npz"
    t = np.linspace(0, 2, 11)
    np.savez(file, t=t, cutoff=100 * t, note=np.array("hello"), other=np.zeros((3, 3)))
    assert list(load_curves(file)) == ["cutoff"]
    np.savez(file, t=t, params=np.tile(np.arange(8) / 8, (11, 1)))
    assert load_curves(file)["loudness"][1] == pytest.approx(1 / 8)
    np.savez(file, t=t, params=np.zeros((11, 8)), taught=np.ones((11, 1)), outputs=np.array(["cutoff"]))
    assert load_curves(file)["cutoff"][1] == pytest.approx(1)


def test_a_recording_tells_its_notes_or_what_was_sent(tmp_path: Path) -> None:
    def record(name: str, notes: bool) -> Path:
        path = tmp_path / name
        pose = np.tile([1.0, 0, 0, 0], (22, 1))
        with RecordingWriter(path, {}) as tape:
            for i in range(100):
                t = 1_000_000_000 + i * 20_000_000
                tape.frame(t, i, t, pose, [0, 0.9, 0])
                tape.output(t, i, [i / 100] * 9, [0.0] * 7)
                if notes and i in (0, 50):
                    tape.note(t, f"cutoff={100 + i}")
                if i == 60:
                    tape.note(t, "what a night")
        return path

    sent = load_curves(record("sent.anticip", False))
    assert sample(sent["pitch"], 100) == pytest.approx(np.arange(100) / 100)
    noted = load_curves(record("noted.anticip", True))
    assert list(noted) == ["cutoff"]
    assert sample(noted["cutoff"], 100)[[0, 49, 50, 99]] == pytest.approx([100, 100, 150, 150])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a header"),
        ("a,b\n1,2\n", "expected a header"),
        ("t,a,a\n0,1,2\n", "twice"),
        ("t,a\n0\n", ":2: expected 2 cells, got 1"),
        ("t,a\n0,x\n", ":2: could not convert"),
        ("t,a\n1,0\n0,1\n", "go back"),
        ("t,a\n0,inf\n", "finite"),
        ("t,a\n0,\n", "holds no curve"),
        ("\x00\xff", "expected a header|neither"),
    ],
)
def test_a_bad_table_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match=reason) as told:
        load_curves(file)
    assert "\n" not in str(told.value)
    assert "bad.csv" in str(told.value)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        load_curves(tmp_path / "none.csv")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04nothing")
    with pytest.raises(FormatError, match="broken npz"):
        load_curves(tmp_path / "broken.npz")
    np.savez(tmp_path / "more.npz", t=np.arange(3.0), x=np.arange(3.0))
    with zipfile.ZipFile(tmp_path / "more.npz", "a") as archive:
        archive.writestr("README.txt", "what this is")
    assert list(load_curves(tmp_path / "more.npz")) == ["x"]
    np.savez(tmp_path / "locked.npz", t=np.arange(3.0), x=np.arange(3.0))
    locked = bytearray((tmp_path / "locked.npz").read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.find(header) + flags] |= 1
    (tmp_path / "locked.npz").write_bytes(locked)
    with pytest.raises(FormatError, match=r"broken npz.*password"):
        load_curves(tmp_path / "locked.npz")
    np.savez(tmp_path / "objects.npz", t=np.array([object()], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="broken npz"):
        load_curves(tmp_path / "objects.npz")
