"""Rendering offline: the same pipeline, the same bytes, faster than real time."""

import csv
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.clips import swing
from support.sounds import read_wav
from support.wire import wait_for

from pyanticip import SCALARS, load_motion
from pyanticip.cli import cli
from pyanticip.errors import DeviceError, MotionError, OptionError
from pyanticip.models.checkpoint.manifest import SHIPPED
from pyanticip.motion.datagrams import datagrams
from pyanticip.motion.npz import save_npz
from pyanticip.motion.recording import RecordingWriter
from pyanticip.teach.mapping import load_mapping
from pyanticip.teach.options import FitOptions
from pyanticip.teach.project import MAPPING, Project
from pyanticip.vocabulary import PARAMETERS
from realtime.clock import OfflineClock
from realtime.programs.demo import PERFORMANCE
from realtime.programs.rehearse import rehearse
from realtime.programs.render import OfflinePlayer, render
from realtime.programs.render_folder import render_folder
from realtime.rig import Rig
from realtime.sinks.base import ControlFrame
from realtime.sinks.capture import CaptureSink
from realtime.sources.replay import Command, open_show
from realtime.teaching.fitting import fit_project
from realtime.voice.open import open_voice
from realtime.voice.wav import WavWriter

SCALARS_ONLY = Rig.model_validate({"model": {"enabled": False}})
needs_model = pytest.mark.skipif(not SHIPPED.exists(), reason="no checkpoint is shipped yet")


@needs_model
def test_with_the_model_it_is_the_same_twice(tmp_path: Path) -> None:
    reports: list[dict[str, Any]] = []
    for n in (1, 2):
        reports.append(render(PERFORMANCE, tmp_path / f"{n}.wav", seconds=6.0))
    assert (tmp_path / "1.wav").read_bytes() == (tmp_path / "2.wav").read_bytes()
    assert reports[0]["failed_steps"] == 0
    assert reports[0]["model"] != "none"


def test_numbers_and_table_agree(tmp_path: Path) -> None:
    report = render(PERFORMANCE, tmp_path / "a.npz", rig=SCALARS_ONLY, seconds=4.0)
    render(PERFORMANCE, tmp_path / "a.csv", rig=SCALARS_ONLY, seconds=4.0)
    with np.load(tmp_path / "a.npz") as file:
        found = {name: file[name] for name in file.files}
    assert tuple(found["parameters"]) == PARAMETERS
    assert found["outputs"].shape == (0,), "nothing is taught"
    assert report["frames"] == len(found["t"]) == 201
    assert np.allclose(np.diff(found["t"]), 0.02, atol=1e-6)
    assert found["params"].shape == (201, 8)
    assert np.all((found["params"] >= 0) & (found["params"] <= 1))
    assert found["scalars"].shape == (201, 7)
    assert np.isnan(found["gate"]).all(), "no model, no gate"
    with (tmp_path / "a.csv").open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert len(rows) == 201
    for i, name in enumerate(PARAMETERS):
        assert np.allclose([float(r[name]) for r in rows], found["params"][:, i], atol=1e-6)
    for i, name in enumerate(SCALARS):
        assert np.allclose([float(r[name]) for r in rows], found["scalars"][:, i], atol=1e-6)


def test_outputs_that_a_show_played_in_part_are_missing_elsewhere(tmp_path: Path) -> None:
    """The mapping was unloaded after a second, and another one loaded after two."""
    files = []
    for output in ("cutoff", "mix"):
        project = Project.create(tmp_path / output)
        for value in (0.2, 0.8):
            project.add_take(f"at-{value}", swing(2.0, level=value), values={output: value})
        fit_project(project.folder, FitOptions(), model=False)
        files.append(project.folder / MAPPING)
    kind, items = open_show(PERFORMANCE)
    sha256 = load_mapping(files[1]).sha256
    changes = [Command(10**9, "unload"), Command(2 * 10**9, "mapping", (str(files[1]), sha256))]
    show = sorted([*items, *changes], key=lambda item: item.t_ns)
    rig = SCALARS_ONLY.model_copy(update={"mapping": str(files[0])})
    for name in ("a.npz", "a.csv"):
        render(PERFORMANCE, tmp_path / name, rig=rig, seconds=3.0, show=(kind, show))
    with np.load(tmp_path / "a.npz") as file:
        taught, t = file["taught"], file["t"]
        assert list(file["outputs"]) == ["cutoff", "mix"]
    for i, (begin, end) in enumerate(((0.0, 1.0), (2.0, 3.0))):
        inside = (t > begin + 0.05) & (t < end - 0.05)
        outside = (t < begin - 0.05) | (t > end + 0.05)
        assert np.isfinite(taught[inside, i]).all()
        assert np.isnan(taught[outside, i]).all()
    with (tmp_path / "a.csv").open(newline="") as text:
        rows = list(csv.DictReader(text))
    for i, name in enumerate(("cutoff", "mix")):
        assert np.allclose([float(row[name]) for row in rows], taught[:, i], atol=1e-6, equal_nan=True)
    assert all(0.0 <= float(row["uncertainty"]) <= 1.0 for row in rows), "no column has moved"


def test_the_table_has_the_cues(tmp_path: Path) -> None:
    rehearse([PERFORMANCE], tmp_path / "a.memory")
    cues = [{"name": f"at-{at}", "take": "performance", "at": at, "ahead_ms": 300} for at in (2, 3)]
    tree = {"model": {"enabled": False}, "memory": {"file": str(tmp_path / "a.memory")}, "cue": cues}
    for name in ("a.npz", "a.csv"):
        render(PERFORMANCE, tmp_path / name, rig=Rig.model_validate(tree), seconds=4.0)
    with np.load(tmp_path / "a.npz") as file:
        is_cue = np.char.startswith(file["event_name"], "cue/")
        sent = list(zip(file["event_name"][is_cue], file["event_ahead"][is_cue], strict=True))
    assert [name for name, _ in sent] == ["cue/at-2", "cue/at-3"]
    with (tmp_path / "a.csv").open(newline="") as text:
        rows = list(csv.DictReader(text))
    for name, ahead in sent:
        assert [float(row[f"{name}_ahead"]) for row in rows if row[name]] == [pytest.approx(ahead, abs=1e-6)]


def test_a_motion_file_is_not_overwritten(tmp_path: Path) -> None:
    save_npz(load_motion(PERFORMANCE)[:60], tmp_path / "take.npz")
    with pytest.raises(OptionError, match="already exists and was not rendered"):
        render(tmp_path / "take.npz", tmp_path / "take.npz", rig=SCALARS_ONLY)
    for _ in range(2):
        render(tmp_path / "take.npz", tmp_path / "a.npz", rig=SCALARS_ONLY)


def test_limbs_are_written_in_every_row_but_those_of_silence(tmp_path: Path) -> None:
    clip = load_motion(PERFORMANCE)[:180].resample(120.0)
    path = tmp_path / "take.anticip"
    with RecordingWriter(path) as tape:
        for t_ns, datagram in datagrams(clip, "msgpack"):
            # No datagrams for a second.
            if not 1_000_000_000 < t_ns < 2_000_000_000:
                tape.raw(t_ns, "msgpack", datagram)
    render(path, tmp_path / "a.npz", rig=SCALARS_ONLY)
    with np.load(tmp_path / "a.npz") as file:
        limbs, t = file["limbs"], file["t"]
    silent = (t > 1.45) & (t < 1.95)
    assert np.isnan(limbs[silent]).all()
    assert np.isfinite(limbs[(t < 1.35) | (t > 2.05)]).all()


def test_the_sound_is_a_whole_wav_with_a_tail(tmp_path: Path) -> None:
    out = tmp_path / "a.wav"
    report = render(PERFORMANCE, out, rig=SCALARS_ONLY, seconds=5.0)
    sound = read_wav(out)
    assert len(sound) == pytest.approx(48_000 * report["sound_seconds"], abs=48)
    assert report["sound_seconds"] > report["seconds"] + 2
    assert 0.01 < np.abs(sound).max() <= 0.7944
    assert np.abs(sound[-480:]).max() < 2e-4, "it ends in silence"


def test_a_recording_renders_as_the_file_it_was_made_of(tmp_path: Path) -> None:
    clip = load_motion(PERFORMANCE)[:200]
    path = tmp_path / "take.anticip"
    with RecordingWriter(path) as tape:
        for t_ns, datagram in datagrams(clip, "mocopi"):
            tape.raw(5_000_000_000 + t_ns, "mocopi", datagram)
    report = render(path, tmp_path / "a.npz", rig=SCALARS_ONLY)
    assert report["frames"] == pytest.approx(200, abs=2)
    with np.load(tmp_path / "a.npz") as file:
        recorded = file["scalars"]
    render(PERFORMANCE, tmp_path / "b.npz", rig=SCALARS_ONLY, seconds=3.9)
    with np.load(tmp_path / "b.npz") as file:
        direct = file["scalars"]
    n = min(len(recorded), len(direct))
    # The body is the same but for what the suit's joints cannot say.
    assert np.corrcoef(recorded[20:n, 4], direct[20:n, 4])[0, 1] > 0.9


def _text(path: Path) -> Path:
    path.write_text("not motion at all\n")
    return path


@pytest.mark.parametrize(
    ("make", "out", "kind", "words"),
    [
        (lambda p: PERFORMANCE, "a.mp3", OptionError, r"ends in \.wav, \.npz, \.csv, got '\.mp3'"),
        (lambda p: PERFORMANCE, "none/a.wav", DeviceError, "folder .* does not exist"),
        (lambda p: _text(p / "x.bvh"), "a.wav", MotionError, r"x\.bvh"),
        (lambda p: p / "missing.bvh", "a.wav", (MotionError, OSError), r"missing\.bvh"),
    ],
)
def test_a_failed_render_is_one_line_and_leaves_nothing(tmp_path, make, out, kind, words):
    source = make(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(kind, match=words) as caught:
        render(source, tmp_path / out, rig=SCALARS_ONLY)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_what_does_not_fit_into_a_wav_file_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("realtime.voice.wav._MAX_DATA", 6 * 48_000 * 5)
    monkeypatch.setattr("realtime.programs.render.open_voice", lambda *_: pytest.fail("it works"))
    with pytest.raises(OptionError, match=r"28 s do not fit .* give --seconds 1$"):
        render(PERFORMANCE, tmp_path / "a.wav", rig=SCALARS_ONLY)
    monkeypatch.setattr("realtime.programs.render.open_voice", open_voice)
    assert render(PERFORMANCE, tmp_path / "a.wav", rig=SCALARS_ONLY, seconds=1.0)["sound_seconds"] < 5.0
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


def test_a_render_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    code = f"""if True:
        import signal, sys
        from pyanticip.cli import main
        from realtime.programs import render
        render.play_offline = lambda *_: signal.raise_signal(signal.SIGTERM)
        sys.argv = ["pyanticip", "render", {str(PERFORMANCE)!r}, "--out", "x.wav", "--no-model"]
        main()"""
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert list(tmp_path.iterdir()) == []


def test_events_are_rendered_at_their_time(tmp_path: Path) -> None:
    sounds = []
    for strike in (True, False):
        clock = OfflineClock()
        path = tmp_path / f"{strike}.wav"
        with WavWriter(path, 48_000) as wav:
            player = OfflinePlayer(wav)
            roll = CaptureSink(clock, player.play)
            for n in range(50):
                clock.advance_to(n * 20_000_000)
                events = [("onset", 1.0, 0.1)] if strike and n == 25 else []
                calm = [0.4, 0.7, 0.3, 0.0, 0.0, 0.1, 0.5, 0.0]
                roll.send(ControlFrame(n, n / 50, [0.0] * 7, calm, events, t_ns=clock.now_ns()))
            player.finish(1.5)
        sounds.append(read_wav(path))
    assert len(sounds[0]) == 72_000
    first = int(np.argmax(np.any(sounds[0] != sounds[1], axis=1)))
    assert first == pytest.approx(48_000 * 0.6, abs=200)


def test_rendering_waits_for_a_slow_voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime.programs.render._QUEUE_FRAMES", 20)
    goes_on, write, played = threading.Event(), WavWriter.write, []
    monkeypatch.setattr(WavWriter, "write", lambda *args: (goes_on.wait(), write(*args)))

    def play() -> None:
        for n in range(200):
            player.play(n / 50, ControlFrame(n, n / 50, [0.0] * 7, [0.5] * 8, []))
            played.append(n)

    with WavWriter(tmp_path / "a.wav", 48_000) as wav:
        player = OfflinePlayer(wav)
        thread = threading.Thread(target=play)
        thread.start()
        # The first second is being written.
        wait_for(lambda: len(played) > 50 and player._jobs.full())
        assert len(played) < 100
        goes_on.set()
        thread.join()
        player.finish(4.0)
    assert wav.samples == 4 * 48_000


def test_a_write_error_is_raised_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: WavWriter, block: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(WavWriter, "write", full)
    with pytest.raises(OSError, match="No space left"):
        render(PERFORMANCE, tmp_path / "a.wav", rig=SCALARS_ONLY, seconds=2.0)
    assert not list(tmp_path.iterdir())


def takes(folder: Path) -> Path:
    """Two takes in separate folders, two with one name, a broken one and a file that is not motion."""
    first, second = folder / "one" / "a.bvh", folder / "two" / "deeper" / "b.BVH"
    for path in (first, second, first.with_suffix(".npz")):
        path.parent.mkdir(parents=True, exist_ok=True)
    bvh = (PERFORMANCE.parent / "dance.bvh").read_bytes()
    first.write_bytes(bvh)
    second.write_bytes(bvh)
    save_npz(load_motion(first), first.with_suffix(".npz"))
    (folder / "broken.bvh").write_bytes(bvh[:20_000])
    (folder / "notes.txt").write_text("none")
    return folder


def test_a_folder_renders_like_its_files_with_any_number_of_workers(tmp_path: Path) -> None:
    folder = takes(tmp_path / "takes")
    lines: list[str] = []
    outputs: list[dict[str, bytes]] = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        options: dict[str, Any] = {"seconds": 1.5, "workers": workers, "say": lines.append}
        done = render_folder(folder, out, suffix=".npz", rig=lambda path: SCALARS_ONLY, **options)
        assert (done["files"], list(done["failed"])) == (3, [str(folder / "broken.bvh")])
        files = [path for path in out.rglob("*") if path.is_file()]
        outputs.append({path.relative_to(out).as_posix(): path.read_bytes() for path in files})
    assert set(outputs[0]) == {"one/a.bvh.npz", "one/a.npz.npz", "two/deeper/b.npz"}
    assert outputs[0] == outputs[1]
    assert sum("broken.bvh" in line for line in lines) == 2
    render(folder / "two" / "deeper" / "b.BVH", tmp_path / "b.npz", rig=SCALARS_ONLY, seconds=1.5)
    assert (tmp_path / "b.npz").read_bytes() == outputs[0]["two/deeper/b.npz"]


def test_no_file_of_a_folder_takes_the_sound_of_another_or_of_an_earlier_render(tmp_path: Path) -> None:
    first = takes(tmp_path) / "one" / "a.bvh"
    first.with_name("a.bvh.bvh").write_bytes(first.read_bytes())
    expected = {"a.bvh.npz", "a.bvh.bvh.npz", "a.npz.npz"}
    options: dict[str, Any] = {"seconds": 0.5, "workers": 1, "rig": lambda path: SCALARS_ONLY}
    render_folder(tmp_path / "one", tmp_path / "out", suffix=".npz", **options)
    assert {path.name for path in (tmp_path / "out").iterdir()} == expected
    for _ in range(2):
        done = render_folder(tmp_path / "one", tmp_path / "one", suffix=".npz", **options)
        assert (done["files"], done["failed"]) == (3, {})


def test_a_folder_at_the_command_line(tmp_path: Path) -> None:
    folder = takes(tmp_path / "takes")
    command = ["render", str(folder), "--out", str(tmp_path / "out"), "--no-model", "--seconds", "1"]
    vain = ["--preset", "default", "--lead-ms", "100"]
    run = CliRunner().invoke(cli, [*command, *vain, "--kind", "csv", "--workers", "1"])
    assert run.exit_code == 1
    assert "--lead-ms: without the model it does nothing\n--preset: without the voice it" in run.stderr
    assert "3 files" in run.output
    assert "1 could not be rendered" in run.output
    assert len(list((tmp_path / "out").rglob("*.csv"))) == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(MotionError, match="no motion in it"):
        render_folder(tmp_path / "empty", tmp_path / "out")
    unused = CliRunner().invoke(cli, [*command, "--skeleton", str(folder / "notes.txt")]).exception
    assert str(unused) == f"--skeleton is for AMC files; {folder} has no use for it"
    with pytest.raises(OptionError, match=r"suffix: expected \.wav"):
        render_folder(folder, tmp_path / "out", suffix=".mp3")
    with pytest.raises(OptionError, match=r"x\.wav: expected a folder"):
        render_folder(folder, tmp_path / "x.wav")
    # What a run before has left in the folder is none of its takes.
    inside = folder / "made"
    for _ in range(2):
        assert render_folder(folder, inside, suffix=".npz", seconds=0.5, workers=1)["files"] == 3
    command = ["render", str(folder / "one" / "a.bvh"), "--out", str(tmp_path / "a.wav"), "--kind", "npz"]
    found = CliRunner().invoke(cli, command).exception
    assert isinstance(found, OptionError)
    assert "--kind is for a folder" in str(found)
