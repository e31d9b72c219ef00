"""A folder of sounds from another program: read in every format, selected by their sound."""

import os
import shutil
import struct
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.sounds import RATE, Sound, level, spectrum
from support.wire import wait_for

from pyanticip._core import Samples, Voice
from pyanticip.errors import OptionError
from realtime.child import Child
from realtime.rig import load_rig
from realtime.sockets import free_port
from realtime.voice.open import open_voice
from realtime.voice.process import SynthProcess

SOX = shutil.which("sox")
needs_sox = pytest.mark.skipif(SOX is None, reason="sox is not installed (Debian: sox, libsox-fmt-mp3)")


def sox(*arguments: str | Path) -> None:
    subprocess.run([str(SOX), *map(str, arguments)], check=True, capture_output=True)


def tone(path: Path, hz: float, *more: str | Path, rate: int = 44_100, seconds: float = 1.0) -> Path:
    sox("-n", "-r", str(rate), *more, path, "synth", str(seconds), "sawtooth", str(hz))
    return path


def played(folder: Path, seconds: float = 6.0, **changed: float) -> Sound:
    voice = open_voice("granular", {"samples": str(folder)}, RATE)
    names = ("pitch", "loudness", "brightness", "roughness", "density", "space", "pan", "pulse")
    calm = dict(zip(names, (0.4, 0.7, 0.9, 0.0, 0.7, 0.0, 0.5, 0.0), strict=True))
    voice.params(np.array([(calm | changed)[name] for name in names], np.float32))
    voice.render(RATE // 2)
    return voice.render(int(seconds * RATE))


@needs_sox
@pytest.mark.parametrize(
    ("name", "more", "rate"),
    [
        ("a.wav", ("-b", "16"), 8_000),
        ("b.wav", ("-b", "24", "-c", "2"), 44_100),
        ("c.wav", ("-e", "floating-point", "-b", "32"), 96_000),
        ("d.flac", (), 22_050),
        ("e.ogg", (), 44_100),
        ("f.mp3", (), 32_000),
        ("g.aiff", ("-c", "2"), 11_025),
        ("h.aifc", (), 44_100),
    ],
)
def test_every_format_and_rate_plays_at_its_pitch(tmp_path, name, more, rate):
    """The requested note is played, so the sound was read at its rate and its pitch was found."""
    try:
        tone(tmp_path / name, 300.0, *more, rate=rate)
    except subprocess.CalledProcessError:
        pytest.skip(f"this sox cannot write {name}")
    assert " 1 sounds, 1.0 s" in Samples(tmp_path, RATE).summary.replace("1.1 s", "1.0 s")
    f, p = spectrum(played(tmp_path))
    notes = 73.416 * 2 ** (np.array([0, 2, 3, 5, 7, 9, 10]) / 12)
    strongest = f[1:][p[1:].argmax()]
    off = np.abs((12 * np.log2(strongest / notes) + 6) % 12 - 6).min()
    assert off < 0.2, strongest


@needs_sox
def test_brightness_and_roughness_find_their_sounds(tmp_path: Path) -> None:
    """Bands of noise and tones, dull and bright: the parameters select the matching ones."""
    sox("-n", tmp_path / "dull tone.wav", "synth", "2", "sine", "200")
    sox("-n", tmp_path / "dull noise.wav", "synth", "2", "noise", "sinc", "-400")
    sox("-n", tmp_path / "bright tone.wav", "synth", "2", "sine", "1400")
    sox("-n", tmp_path / "bright noise.wav", "synth", "2", "noise", "sinc", "1500-4000")
    dull, bright = (played(tmp_path, brightness=value) for value in (0.0, 1.0))

    def high(x: Sound) -> float:
        f, p = spectrum(x)
        return float(p[f > 1_000].sum() / p.sum())

    assert high(bright) > 0.6
    assert high(dull) < 0.1


@needs_sox
@pytest.mark.parametrize("gain", ["-60", "-20", "0"])
def test_a_quiet_recording_is_as_loud_as_a_loud_one(tmp_path: Path, gain: str) -> None:
    sox("-n", "-b", "24", tmp_path / "a.wav", "synth", "3", "sawtooth", "220", "gain", gain)
    assert -26.0 < level(played(tmp_path)) < -14.0


@needs_sox
def test_files_that_are_not_sounds_are_skipped(tmp_path: Path) -> None:
    """Links, pipes, damaged and foreign files: nothing blocks, links are followed, one line says
    what is skipped."""
    outside = tmp_path / "outside"
    outside.mkdir()
    tone(outside / "chosen.wav", 100.0)
    folder = tmp_path / "folder"
    (folder / "deep" / "er").mkdir(parents=True)
    with pytest.raises(OptionError, match=r"no sound in it .expected WAV") as caught:
        Samples(folder, RATE)
    assert "\n" not in str(caught.value)
    (folder / "linked").symlink_to(outside)
    os.mkfifo(folder / "pipe.wav")
    (folder / "notes.txt").write_text("no sound")
    (folder / "._a.wav").write_bytes(bytes(100))
    (folder / "song.m4a").write_bytes(bytes(100))
    with pytest.raises(OptionError, match=r"pipe\.wav: no file; song\.m4a: its format is not read"):
        Samples(folder, RATE)
    (folder / "broken.flac").write_bytes(b"fLaC" + bytes(200))
    for i in range(3):
        (folder / f"lost{i}.wav").symlink_to(outside / "none.wav")
    (folder / "link.wav").symlink_to(outside / "chosen.wav")
    tone(folder / "deep" / "er" / "a.flac", 300.0)
    summary = Samples(folder, RATE).summary
    assert "2 sounds, 2.0 s; 6 left out (broken.flac: " in summary
    assert (
        "; lost0.wav: no file; lost1.wav: no file; lost2.wav: no file; pipe.wav: no file; 1 more)" in summary
    )


@needs_sox
@pytest.mark.parametrize("name", ["a.wav", "a.aiff", "a.flac"])
def test_a_truncated_file_is_read_as_far_as_it_goes(tmp_path: Path, name: str) -> None:
    whole = tone(tmp_path / name, 300.0)
    os.truncate(whole, whole.stat().st_size // 2)
    assert "1 sounds, 0.5 s" in Samples(tmp_path, RATE).summary


@needs_sox
@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="no permissions as on Unix")
def test_a_subfolder_that_cannot_be_read_is_reported() -> None:
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name)).chmod(0o755)
        tone(folder / "a.wav", 300.0).chmod(0o644)
        (folder / "closed").mkdir(mode=0o000)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)
            summary = Samples(folder, RATE).summary
        finally:
            os.seteuid(user)
    assert summary.endswith("1 sounds, 1.0 s; 1 left out (closed: the folder cannot be read)")


@needs_sox
def test_opposite_channels_are_audible_and_silent_files_are_skipped(tmp_path: Path) -> None:
    tone(tmp_path / "a.wav", 300.0)
    sox(tmp_path / "a.wav", tmp_path / "b.wav", "remix", "1", "1i")
    sox("-n", "-b", "16", tmp_path / "c.wav", "trim", "0", "1", "dither")
    (tmp_path / "d.wav").write_bytes(bytes(5_000))
    summary = Samples(tmp_path, RATE).summary
    assert "2 sounds, 2.0 s; 2 left out (c.wav: nothing in it can be heard; d.wav: " in summary
    for name in ("a.wav", "c.wav"):
        (tmp_path / name).unlink()
    summary = Samples(tmp_path, RATE).summary
    assert "1 sounds, 1.0 s; 1 left out (d.wav: its format or coding is not read)" in summary
    assert level(played(tmp_path)) > -26.0


@needs_sox
def test_the_memory_for_samples_is_bounded_and_reported(tmp_path: Path) -> None:
    # A second of sound in a sparse file of a quarter of an hour.
    whole = tone(tmp_path / "long.wav", 50.0, "-b", "16", rate=RATE)
    head = bytearray(whole.read_bytes())
    size = 44 + 2 * 900 * RATE
    struct.pack_into("<I", head, 4, size - 8)
    struct.pack_into("<I", head, 40, size - 44)
    whole.write_bytes(head)
    os.truncate(whole, size)
    tone(tmp_path / "more.wav", 50.0)
    summary = Samples(tmp_path, RATE).summary
    assert "1 sounds, 699.1 s; the memory for them (128 MiB) is full, 1 more and the end" in summary


@needs_sox
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_do_no_harm(tmp_path: Path, data: st.DataObject) -> None:
    """A damaged real file is read as far as possible, or skipped."""
    name = data.draw(st.sampled_from(["a.wav", "a.flac", "a.ogg", "a.aiff"]))
    whole = tmp_path / name
    if not whole.exists():
        tone(whole, 300.0, seconds=0.3)
    damaged = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, min(len(damaged) - 1, 400)))] = data.draw(st.integers(0, 255))
    folder = tmp_path / "damaged"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / name).write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    try:
        samples = Samples(folder, RATE)
    except OptionError as error:
        message = str(error)
    else:
        message = samples.summary
        voice = Voice(RATE, preset="granular", samples=samples)
        voice.params(np.full(8, 0.7, np.float32))
        assert np.isfinite(voice.render(RATE // 4)).all()
    assert "\n" not in message


def test_without_samples_the_default_preset_plays_with_a_line(tmp_path: Path) -> None:
    for options, says in (
        ({}, "preset granular: it needs a folder of sounds"),
        ({"samples": str(tmp_path)}, "samples: .*: no sound in it .expected"),
        ({"samples": str(tmp_path / "nowhere")}, "samples: .*: not a folder that can be read"),
    ):
        lines: list[str] = []
        voice = open_voice("granular", options, RATE, lines.append)
        plain = open_voice("default", {}, RATE)
        for v in (voice, plain):
            v.params(np.full(8, 0.6, np.float32))
        assert np.array_equal(voice.render(RATE), plain.render(RATE))
        *before, line = lines
        assert before == [f"reading samples: {folder}" for folder in options.values()]
        assert line.endswith("; playing the preset default without")
        with pytest.raises(OptionError, match=says):
            open_voice("granular", options, RATE)


STATUS = '{"sound_ms": 10.0, "device": null, "sampled": true}'


def test_the_rig_and_the_performer_name_the_folder(tmp_path: Path) -> None:
    rig = load_rig(None, {"synth": {"preset": "granular", "samples": str(tmp_path)}})
    assert rig.synth.voice_options == {"samples": str(tmp_path)}
    with (
        closing(SynthProcess(free_port(), None, lambda line: None)) as process,
        pytest.raises(OptionError, match="granular: it needs a folder"),
    ):
        process.preset("granular")


@pytest.mark.slow
def test_a_folder_without_a_sound_is_no_preset_to_choose(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    options = {"samples": str(tmp_path)}
    process = SynthProcess(free_port(), "none", lambda line: None, preset="plucked", options=options)
    try:
        wait_for(lambda: process.poll() and process._last_report)
        with pytest.raises(OptionError, match=f"^preset granular: no sound was found in {tmp_path}$"):
            process.preset("granular")
    finally:
        process.close()


def test_a_preset_chosen_while_samples_are_read_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preset is repeated for a process that listens late, and for a restarted one."""
    monkeypatch.setattr(Child, "_start", lambda self: self._on_start())
    listened: list[bool] = []
    monkeypatch.setattr(SynthProcess, "_send_preset", lambda self: listened.append(True))
    process = SynthProcess(1, "none", lambda line: None)
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Child, "poll", lambda self: self._on_output([STATUS] if now[0] == 160.0 else []))
    process.preset("choir")
    for now[0], still in ((130.0, 1), (160.0, 1), (162.0, 1), (180.0, 0)):
        listened.clear()
        process.poll()
        assert len(listened) == still
    process._on_start()  # a restart
    process.poll()
    assert len(listened) == 1
    assert process._arguments[:2] == ["--preset", "choir"]


@needs_sox
def test_samples_of_another_rate_are_refused(tmp_path: Path) -> None:
    tone(tmp_path / "a.wav", 220.0)
    with pytest.raises(
        OptionError, match=r"^samples: expected to be read at the voice's 48000 Hz, got 44100 Hz$"
    ):
        Voice(48_000.0, samples=Samples(tmp_path, 44_100.0))
