"""Whatever a user gets wrong: one clear line on stderr, exit code 1 or 2, no traceback, nothing lost."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyanticip.cli import cli
from pyanticip.cli.terminal import run

pytestmark = pytest.mark.slow

BVH = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
  End Site
  {
    OFFSET 0 1 0
  }
}
MOTION
Frames: 2
Frame Time: 0.02
0 0 0 0 0 0
0 0 0 0 0 0
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of everything that can be wrong."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "empty.bvh").write_bytes(b"")
    (folder / "binary.bvh").write_bytes(bytes(range(256)) * 8)
    (folder / "number.bvh").write_text(BVH.replace("0 0 0 0 0 0\n", "0 0 zero 0 0 0\n"))
    (folder / "joints.bvh").write_text(BVH.replace("Hips", "Tentacle"))
    (folder / "song.mp3").write_bytes(b"ID3")
    (folder / "torn.anticip").write_bytes(b"ANTICIP\0\1\0\0\0")
    (folder / "newer.anticip").write_bytes(b"ANTICIP\0\x63\0\0\0")
    (folder / "broken.toml").write_text("lead_ms = \n")
    (folder / "typo.toml").write_text("[source]\nprot = 1\n")
    (folder / "taken.anticip").write_text("dear")
    checkpoint = folder / "corrupt"
    checkpoint.mkdir()
    (checkpoint / "model.json").write_text("{")
    (folder / "nameless").mkdir()
    (folder / "nameless" / "model.json").write_text('{"format": []}')
    (folder / "words").mkdir()
    (folder / "words" / "model.json").write_text('{"format": "anticip-language"}')
    in_use = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    in_use.bind(("127.0.0.1", 0))
    (folder / "control.toml").write_text(f"[control]\nport = {in_use.getsockname()[1]}\n")
    (folder / "port").write_text(str(in_use.getsockname()[1]))
    yield folder
    in_use.close()
    assert (folder / "taken.anticip").read_text() == "dear"


# Below the ephemeral ports, which start at 32768.
LIVE = "live --seconds 1 --source mocopi://127.0.0.1:21471 --no-model"
CASES = [
    # command line, exit code, part of the error line
    (
        "live --source mocopi://127.0.0.1:{port} --no-model",
        1,
        "source mocopi: port {port} at 127.0.0.1 is in use by another program; close it or choose another",
    ),
    ("live --source vmc://203.0.113.7:12399 --no-model", 1, "source vmc: cannot listen at 203.0.113.7:12399"),
    ("live --source vmc://nowhere.invalid:9 --no-model", 1, "source vmc: cannot resolve host"),
    ("synth --port {port}", 1, "synth: port {port} at 127.0.0.1 is in use"),
    (f"{LIVE} --osc nowhere.invalid:9000", 1, "cannot resolve host 'nowhere.invalid'"),
    (f"{LIVE} --osc localhost", 2, "expected HOST:PORT"),
    (f"{LIVE} --lead-ms 500", 2, "--lead-ms"),
    (f"{LIVE} --rig missing.toml", 1, "missing.toml: no such file"),
    (f"{LIVE} --rig broken.toml", 1, "broken.toml: not valid TOML"),
    (f"{LIVE} --rig binary.bvh", 1, "binary.bvh: not a text file in UTF-8"),
    (f"{LIVE} --rig typo.toml", 1, "source.prot: unknown key; did you mean port?"),
    (f"{LIVE} --record taken.anticip", 2, "never overwritten"),
    (f"{LIVE} --record nowhere/x.anticip", 1, "does not exist"),
    (f"{LIVE} --bakend rust", 2, "did you mean --backend?"),
    ("live --source mocpi", 2, "did you mean mocopi?"),
    ("live --source mocopi://127.0.0.1:21471 --checkpoint nowhere", 1, "nowhere"),
    ("live --source mocopi://127.0.0.1:21471 --checkpoint corrupt", 1, "corrupt"),
    (
        "live --rig control.toml --checkpoint corrupt",
        1,
        "control server ([control] port in a rig): port {port} at 127.0.0.1 is in use",
    ),
    (
        "live --source mocopi://127.0.0.1:21471 --checkpoint words",
        1,
        "is of a token model, expected that of a",
    ),
    ("demo --no-audio --out song.mp3", 2, "expected a name that ends in .wav, got '.mp3'"),
    ("demo --no-audio --out nowhere/song.wav", 1, "does not exist"),
    (f"{LIVE} --checkpoint nowhere", 1, "nowhere: no such file or directory"),
    ("render number.bvh --out x.csv --samples nowhere", 1, "nowhere: no such file or directory"),
    ("info number.bvh --skeleton nowhere", 1, "nowhere: no such file or directory"),
    ("replay missing.bvh --no-model", 1, "missing.bvh"),
    ("replay joints.bvh --no-model --speed max", 1, "Tentacle"),
    ("replay song.mp3 --no-model", 1, "song.mp3"),
    ("replay torn.anticip --no-model", 1, "torn.anticip"),
    ("replay newer.anticip --no-model", 1, "newer.anticip"),
    ("replay empty.bvh --speed fast", 2, "--speed"),
    ("send missing.bvh --as mocopi --to 127.0.0.1:9", 1, "missing.bvh"),
    ("send joints.bvh --as mocopi --to 127.0.0.1:9", 1, "Tentacle"),
    ("send number.bvh --as vmc --to 127.0.0.1:9 --file-rate 0", 2, "'--file-rate': 0.0 is not in the range"),
    ("render number.bvh --out /proc/self/x.wav", 1, "/proc/self: no file can be made there"),
    ("send number.bvh --as vmc --to 127.0.0.1:9 --file-rate nan", 2, "send: --file-rate: input should be a"),
    ("send empty.bvh --as kinect --to 127.0.0.1:9", 2, "--as"),
    ("send empty.bvh --as vmc --to nowhere.invalid:9", 1, "nowhere.invalid"),
    ("info empty.bvh", 1, "empty.bvh"),
    ("info nameless", 1, "is of format '[]'"),
    ("info number.bvh --skeleton empty.bvh", 2, "--skeleton is for AMC files; number.bvh has no use for it"),
    ("replay torn.anticip --units cm", 2, "--units is for motion files that are no recording"),
    ("render number.bvh --out x.wav --skeleton empty.bvh", 2, "--skeleton is for AMC files"),
    ("rehearse torn.anticip --out x.memory --up z", 2, "--up is for motion files that are no recording"),
    ("calibrate torn.anticip --still 8", 2, "--still is for a suit; all of torn.anticip is read"),
    ("calibrate torn.anticip --move 8", 2, "--move is for a suit; all of torn.anticip is read"),
    ("calibrate torn.anticip --rest 3", 2, "--rest is for motion files that are no recording"),
    ("send number.bvh --as vmc --to 127.0.0.1:9 --skeleton empty.bvh", 2, "--skeleton is for AMC files"),
    ("teach add mine number.bvh --values a=1 --skeleton empty.bvh", 2, "--skeleton is for AMC files"),
    ("export newer.anticip --out x", 1, "newer.anticip"),
    ("bench latency --seconds 0", 2, "--seconds"),
    ("render number.bvh --out x.wav --seconds 1e308", 2, "--seconds: expected at most 1e+09, got 1e+308"),
    ("teach add mine number.bvh --values a=1 --end 1e308", 2, "--end: expected at most 1e+09, got 1e+308"),
    ("bench latency --no-model --checkpoint corrupt", 2, "--checkpoint: --no-model has no use for it"),
    ("teach fit mine --no-model --checkpoint corrupt", 2, "--checkpoint: --no-model has no use for it"),
    ("bench performers --picture curve.pdf", 2, "expected a name that ends in .png, got '.pdf'"),
    ("synth --wav out.mp3", 2, "expected a name that ends in .wav, got '.mp3'"),
    ("send number.bvh --as osc --to 127.0.0.1:9", 2, "phone, wek, got 'osc'"),
    ("live --source osc", 1, "command line: source.addresses: an osc source needs them"),
    ("live --port 9000", 2, "no option --port (see"),
    ("list", 2, "no command 'list' (see"),
    ("rig init typo.toml", 2, "--force"),
    ("rig init binary.bvh --force", 2, "binary.bvh: not a text file in UTF-8; only a rig is overwritten"),
    ("setup --yes --force --out binary.bvh", 2, "only a rig is overwritten"),
    ("info number.bvh --picture taken", 2, "taken: expected a name that ends in .png, .svg, .pdf, got ''"),
    ("rig init nowhere/stage.toml", 1, "does not exist"),
    ("setup --yes --out control.toml", 2, "exists; choose another with --out, or --force"),
    ("setup --yes --suit mocopy", 2, "unknown, got 'mocopy'; did you mean mocopi?"),
    ("setup --yes --suit auto", 2, "unknown, got 'auto'"),
    ("setup --yes --suit osc", 2, "unknown, got 'osc'"),
    ("setup --yes --suit mocopi://0.0.0.0:x", 2, "--suit: expected HOST:PORT"),
    ("calibrate --skeleton empty.bvh", 2, "--skeleton is for a file; expected a FILE"),
    ("setup --yes --suit mocopi://127.0.0.1:21471 --wait 1 --out nowhere/stage.toml", 1, "does not exist"),
    ("calibrate --source mocopi://127.0.0.1:21471 --rig nowhere/stage.toml", 1, "does not exist"),
]


def check_error(code: int, out: str, err: str, expected_code: int, message: str) -> None:
    assert "Traceback" not in err, err
    assert code == expected_code, err
    assert out == ""
    assert err.startswith("pyanticip: ")
    assert err.count("\n") == 1, err
    assert message in err


@pytest.mark.parametrize(("arguments", "code", "message"), CASES, ids=[case[0] for case in CASES])
def test_an_error_is_one_line(stage, monkeypatch, capsys, arguments, code, message):
    port = (stage / "port").read_text()
    monkeypatch.chdir(stage)
    monkeypatch.setattr("sys.argv", ["pyanticip", *arguments.format(port=port).split()])
    exit_code, printed = run(cli), capsys.readouterr()
    check_error(exit_code, printed.out, printed.err, code, message.format(port=port))


def test_an_error_of_a_process_is_one_line(stage: Path) -> None:
    command = [sys.executable, "-m", "pyanticip", "live", "--source", "mocpi"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=stage)
    check_error(done.returncode, done.stdout, done.stderr, 2, "did you mean mocopi?")
