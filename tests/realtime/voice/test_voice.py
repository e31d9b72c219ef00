"""The built-in voice: pan, roughness, events, no clicks; and its file: exact, and complete or absent."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from support.full_disk import full_disk
from support.sounds import RATE, Sound, bursts, level, read_wav, spectrum

from pyanticip._core import Voice
from pyanticip.errors import DeviceError, OptionError, ShapeError
from pyanticip.vocabulary import EVENTS, PARAMETERS
from realtime.voice.wav import WavWriter

BASE = {
    "pitch": 0.4,
    "loudness": 0.7,
    "brightness": 0.5,
    "roughness": 0.1,
    "density": 0.0,
    "space": 0.2,
    "pan": 0.5,
    "pulse": 0.0,
}


def vector(**changed: float) -> npt.NDArray[np.float32]:
    return np.array([(BASE | changed)[name] for name in PARAMETERS], dtype=np.float32)


def sound(seconds: float = 4.0, **changed: float) -> Sound:
    voice = Voice(RATE)
    voice.params(vector(**changed))
    voice.render(RATE // 2)
    return voice.render(int(seconds * RATE))


def fundamental(x: Sound) -> float:
    """Frequency (Hz) of the strongest partial: the root of the pad."""
    f, p = spectrum(x)
    return float(f[p.argmax()])


def sides(x: Sound) -> float:
    """Level of the right channel relative to the left, dB."""
    return level(x[:, 1:]) - level(x[:, :1])


def test_pan_is_symmetric_and_of_equal_power() -> None:
    levels = [level(sound(4.0, pan=p, space=0.0)) for p in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert np.ptp(levels) < 1.2, levels
    left, right = sides(sound(4.0, pan=0.0, space=0.0)), sides(sound(4.0, pan=1.0, space=0.0))
    assert left < -60
    assert right > 60


def test_roughness_does_not_move_pitch_nor_much_the_level() -> None:
    quiet, rough = sound(4.0, roughness=0.0), sound(4.0, roughness=0.6)
    assert fundamental(rough) == pytest.approx(fundamental(quiet), rel=0.02)
    assert abs(level(rough) - level(quiet)) < 6


@pytest.mark.parametrize("event", range(len(EVENTS)))
def test_events_are_audible_and_fade(event: int) -> None:
    voice, plain = Voice(RATE), Voice(RATE)
    for v in (voice, plain):
        v.params(vector())
        v.render(RATE)
    voice.event(event, 1.0)
    struck, before = voice.render(RATE), plain.render(RATE)
    assert level(struck[: RATE // 4]) - level(before[: RATE // 4]) > (
        2.5 if EVENTS[event] == "onset" else 1.0
    )
    late = voice.render(8 * RATE)[-RATE:]
    assert abs(level(late) - level(before)) < 2


def test_a_stronger_onset_is_louder() -> None:
    levels = []
    for strength in (0.0, 0.3, 0.6, 1.0):
        voice = Voice(RATE)
        voice.params(vector())
        voice.render(RATE)
        voice.event(0, strength)
        levels.append(level(voice.render(RATE // 5)))
    assert np.all(np.diff(levels) > 0.3), levels


def test_a_phrase_changes_the_chord() -> None:
    voice = Voice(RATE)
    voice.params(vector(space=0.0))
    voice.render(RATE)
    shapes = []
    for strike in (False, False, True):
        if strike:
            voice.event(1, 1.0)
            voice.render(8 * RATE)
        _, power = spectrum(voice.render(4 * RATE))
        shape = np.log(np.convolve(power, np.ones(9), "same")[: 4 * 1500] + 1e-2)
        shapes.append((shape - shape.mean()) / np.linalg.norm(shape - shape.mean()))
    same, changed = shapes[0] @ shapes[1], shapes[1] @ shapes[2]
    assert same > 0.95
    assert changed < 0.8, (same, changed)


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("others", [0.15, 0.6])
def test_no_parameter_jump_clicks(name: str, others: float) -> None:
    """Around every jump the high-band energy stays near the maximum of the steady states."""
    rng = np.random.default_rng(5)
    rest = {n: others for n in PARAMETERS if n not in ("loudness", "density")} | {"loudness": 0.8}
    if name in ("pulse", "density"):
        rest["space"] = 0.3
    steady = 0.0
    for value in (0.0, 1.0):
        steady = max(steady, bursts(sound(4.0, **(rest | {name: value}))).max())
    voice = Voice(RATE)
    jumped = 0.0
    value = 0.0
    voice.params(vector(**(rest | {name: value})))
    voice.render(RATE)
    for _ in range(24):
        value = 1.0 - value
        voice.params(vector(**(rest | {name: value})))
        jumped = max(jumped, bursts(voice.render(int(rng.integers(2000, 9000)))).max())
    assert jumped <= 1.5 * steady, f"{10 * np.log10(jumped / steady):.1f} dB above the steady sound"


def test_the_click_detector_detects_a_click() -> None:
    x = sound(2.0, loudness=0.8, brightness=0.15)
    cut = x.copy()
    cut[RATE + int(np.abs(x[RATE : RATE + 1000, 0]).argmax()) :] = 0.0
    assert bursts(cut).max() > 20 * bursts(x).max()


def test_seeds_differ_and_repeat() -> None:
    def play(seed: int) -> Sound:
        voice = Voice(RATE, seed=seed)
        voice.params(vector(density=1.0))
        return voice.render(RATE)

    assert np.array_equal(play(1), play(1))
    assert not np.array_equal(play(1), play(2))


def test_invalid_calls_are_one_line() -> None:
    for rate, shown in ((3.0, "3"), (192_001.0, "192001"), (float("nan"), "NaN")):
        with pytest.raises(OptionError, match=rf"sample rate: expected 8000 to 192000 Hz, got {shown}$"):
            Voice(rate)
    voice = Voice()
    with pytest.raises(OptionError, match=r"limb index: expected 0 \(left hand\) to 3 \(right foot\), got 4"):
        voice.limb(4, 0.0, 0.0)
    with pytest.raises(OptionError, match="seconds: expected 0 to 60, got 61"):
        voice.fade(1.0, 61.0)
    with pytest.raises(OptionError, match="parameter index: expected 0 to 7, got 8"):
        voice.set(8, 0.0)
    with pytest.raises(OptionError, match="event index"):
        voice.event(2, 1.0)
    with pytest.raises(OptionError, match="seconds: expected 0 to 60, got -1"):
        voice.event(0, 1.0, -1.0)
    with pytest.raises(ShapeError, match="expected 8 values, got 7"):
        voice.params(np.zeros(7, dtype=np.float32))
    with pytest.raises(OptionError, match="samples"):
        voice.render(10**12)
    for _ in range(64):
        voice.event(0, 1.0, 1.0)
    with pytest.raises(OptionError, match="64 events are waiting"):
        voice.event(0, 1.0, 1.0)


def test_properties() -> None:
    voice = Voice(44_100.0)
    assert voice.sample_rate == 44_100.0
    assert voice.latency == 87
    voice.set(0, float("nan"))
    voice.render(100)
    assert (voice.position, voice.ignored) == (100, 1)


def test_wav_files_are_exact_and_never_partial(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    rng = np.random.default_rng(1)
    block = rng.uniform(-1, 1, (1000, 2)).astype(np.float32)
    with WavWriter(path, 48_000) as file:
        file.write(block)
        assert not path.exists()
    written = read_wav(path)
    assert written.shape == block.shape
    assert np.abs(written - block).max() < 2.0**-22
    half = WavWriter(tmp_path / "b.wav", 48_000)
    half.write(block)
    half.abandon()
    assert [p.name for p in tmp_path.iterdir()] == ["a.wav"]


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"a\.wav: cannot write into .*no such file"):
        WavWriter(tmp_path / "none" / "a.wav", 48_000)


def test_on_a_full_disk_nothing_is_left(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(DeviceError, match=r"a\.wav: cannot write into .*file too large"):
        WavWriter(tmp_path / "a.wav", 48_000)
    wav = WavWriter(tmp_path / "a.wav", 48_000)
    wav._file.write(b"\0")
    with full_disk(), pytest.raises(DeviceError, match=r"a\.wav: cannot be finished"):
        wav.close()
    assert not list(tmp_path.iterdir())
