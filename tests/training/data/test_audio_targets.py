"""Targets from synthesised sounds with known parameters and events."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyanticip.errors import FormatError
from training.teacher.sound import BRIGHTNESS_HZ, PITCH_HZ, analyse, duration, targets_of

pytest.importorskip("librosa")
soundfile = pytest.importorskip("soundfile")

RATE = 44_100
PITCH, LOUDNESS, BRIGHTNESS, ROUGHNESS, DENSITY, SPACE, PAN, PULSE = range(8)
INNER = slice(25, -25)


def seconds(length):
    return np.arange(round(length * RATE)) / RATE


def tone(hz, length=2.0, level=0.3):
    return level * np.sin(2.0 * np.pi * hz * seconds(length))


def heard(*channels, rate=RATE):
    return analyse(np.stack(channels).astype(np.float32), rate)


def plucks(times, length, hz=440.0, decay=0.06):
    t = seconds(length)
    envelope = sum(np.where(t >= at, np.exp(-(t - at).clip(0.0) / decay), 0.0) for at in times)
    return 0.3 * envelope * np.sin(2.0 * np.pi * hz * t)


def test_what_workers_need_is_compiled_before():
    script = """
import numpy as np
from numba.core.caching import Cache

used = []
for name in ("load_overload", "save_overload"):
    def told(self, *given, name=name, real=getattr(Cache, name)):
        used.append(name)
        return real(self, *given)
    setattr(Cache, name, told)

from training.teacher.sound import analyse, warm_up

warm_up()
assert used, "nothing is kept"
used.clear()
sound = np.random.default_rng(0).normal(0.0, 0.1, (2, 40000)).astype(np.float32)
sound[:, :20000] += 0.5 * np.sin(np.arange(20000) / 9)
analyse(sound, 16000)
assert not used, used
"""
    # Reused by the tests below.
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@given(st.floats(60.0, 1650.0), st.floats(-40.0, -3.0))
@settings(max_examples=15)
def test_pitch_and_loudness_of_a_tone(hz, level):
    found = heard(tone(hz, 1.5, np.sqrt(2.0) * 10.0 ** (level / 20.0)))
    low, high = PITCH_HZ
    octaves = np.log2(hz / low) / np.log2(high / low)
    # A twentieth of an octave.
    np.testing.assert_allclose(found.params[INNER, PITCH], octaves, atol=0.01)
    np.testing.assert_allclose(found.params[INNER, LOUDNESS], 1.0 + level / 60.0, atol=0.01)


def test_a_glide_is_followed_in_time():
    t = seconds(4.0)
    octaves = np.clip((t - 1.0) / 2.0, 0.0, 1.0)  # 220 to 440 Hz between 1 and 3 s
    phase = 2.0 * np.pi * np.cumsum(220.0 * 2.0**octaves) / RATE
    found = heard(0.3 * np.sin(phase))
    expected = (2.0 + np.clip((np.arange(len(found.params)) / 50.0 - 1.0) / 2.0, 0.0, 1.0)) / 5.0
    np.testing.assert_allclose(found.params[INNER, PITCH], expected[INNER], atol=0.01)


def test_loudness_follows_a_swell_without_delay():
    t = seconds(4.0)
    level = -40.0 + 30.0 * np.exp(-(((t - 2.0) / 0.5) ** 2))
    found = heard(np.sqrt(2.0) * 10.0 ** (level / 20.0) * np.sin(2.0 * np.pi * 300.0 * t))
    assert abs(int(found.params[:, LOUDNESS].argmax()) - 100) <= 1
    assert found.params[100, LOUDNESS] == pytest.approx(1.0 - 10.0 / 60.0, abs=0.03)


def test_brightness_is_the_centroid():
    low, high = BRIGHTNESS_HZ
    for hz in (250.0, 1000.0, 4000.0):
        found = heard(tone(hz))
        expected = np.log2(hz / low) / np.log2(high / low)
        np.testing.assert_allclose(found.params[INNER, BRIGHTNESS], expected, atol=0.02)


def test_beating_is_rough_and_slow_tremolo_is_not():
    t = seconds(3.0)
    carrier = 0.3 * np.sin(2.0 * np.pi * 700.0 * t)

    def rough(hz, depth):
        return heard(carrier * (1.0 + depth * np.sin(2.0 * np.pi * hz * t))).params[INNER, ROUGHNESS].mean()

    assert rough(47.0, 0.0) < 0.02
    assert rough(4.0, 1.0) < 0.05
    some, half, full = rough(47.0, 0.25), rough(47.0, 0.5), rough(47.0, 1.0)
    assert some < half < full
    assert half == pytest.approx(0.5, abs=0.1)
    assert full > 0.75


def test_onsets_are_found_where_they_are():
    rng = np.random.default_rng(1)
    times = 0.3 + np.cumsum(rng.uniform(0.12, 0.5, 25))
    found = heard(plucks(times, times[-1] + 0.6))
    assert len(found.onsets) == len(times)
    assert np.abs(found.onsets / 50.0 - times).max() <= 0.02


def test_a_steady_sound_has_no_onset_and_no_pulse():
    t = seconds(6.0)
    saw = 0.3 * (2.0 * ((110.0 * t) % 1.0) - 1.0)
    noise = 0.1 * np.random.default_rng(0).normal(size=len(t))
    for sound in (saw, noise, tone(300.0, 6.0)):
        found = heard(sound)
        # An onset at the beginning of the file may count.
        assert (found.onsets > 5).sum() == 0
        assert found.params[50:-50, PULSE].max() < 0.05
        assert found.params[50:-50, DENSITY].max() == 0.0


@pytest.mark.parametrize("rate", [1.0, 2.0, 4.0, 8.0])
def test_density_counts_the_onsets(rate):
    found = heard(plucks(np.arange(0.5, 9.6, 1.0 / rate), 10.0, decay=0.3 / rate))
    expected = np.log(rate / 0.5) / np.log(16.0 / 0.5)
    assert found.params[100:-100, DENSITY].mean() == pytest.approx(expected, abs=0.03)


def test_an_even_beat_has_a_pulse_and_an_uneven_one_less():
    even = heard(plucks(np.arange(0.5, 11.5, 0.5), 12.0)).params[150:-150, PULSE].mean()
    times = 0.5 + np.cumsum(np.random.default_rng(2).uniform(0.15, 0.85, 21))
    uneven = heard(plucks(times, 12.0)).params[150:-150, PULSE].mean()
    assert even > 0.9
    assert uneven < 0.6


def test_a_phrase_begins_after_a_rest():
    t = seconds(9.0)
    level = np.where((t > 4.0) & (t < 5.0), 0.003, 0.3)
    found = heard(level * np.sin(2.0 * np.pi * 330.0 * t))
    assert len(found.phrases) == 1
    assert abs(found.phrases[0] / 50.0 - 4.5) < 0.1


@pytest.mark.parametrize("place", [0.0, 0.2, 0.45, 0.9, 1.0])
def test_pan_is_the_place_of_equal_power(place):
    sound = tone(500.0)
    found = heard(np.cos(0.5 * np.pi * place) * sound, np.sin(0.5 * np.pi * place) * sound)
    np.testing.assert_allclose(found.params[INNER, PAN], place, atol=0.01)
    assert found.params[INNER, SPACE].max() < 0.02


def test_space_is_how_different_the_channels_are():
    rng = np.random.default_rng(0)
    both, one, other = 0.1 * rng.normal(size=(3, 3 * RATE))
    apart = heard(one, other).params[INNER, SPACE].mean()
    half = heard(both + one, both + other).params[INNER, SPACE].mean()
    assert apart > 0.95
    assert half == pytest.approx(0.5, abs=0.05)


def test_one_channel_leaves_space_and_pan_to_the_teacher():
    for sound in (heard(tone(300.0)), heard(tone(300.0), tone(300.0))):
        assert np.isnan(sound.params[:, [SPACE, PAN]]).all()
        assert any("one channel" in note for note in sound.notes)


def test_silence_is_silent():
    found = heard(np.zeros(3 * RATE))
    assert found.params[:, LOUDNESS].max() == 0.0
    assert len(found.onsets) == len(found.phrases) == 0
    assert np.isfinite(found.params[:, :5]).all()
    assert any("no pitch" in note for note in found.notes)


@pytest.mark.parametrize("rate", [8_000, 22_050, 48_000])
def test_the_rate_of_the_file_does_not_matter(rate):
    t = np.arange(2 * rate) / rate
    found = heard(0.3 * np.sin(2.0 * np.pi * 440.0 * t), rate=rate)
    assert abs(len(found.params) - 101) <= 1
    np.testing.assert_allclose(found.params[INNER, PITCH], 0.6, atol=0.01)


def test_a_part_of_a_file_is_what_the_whole_says_of_it(tmp_path):
    times = np.arange(0.37, 19.0, 0.61)
    soundfile.write(tmp_path / "a.flac", plucks(times, 20.0), RATE)
    assert duration(tmp_path / "a.flac") == pytest.approx(20.0)
    whole = heard(plucks(times, 20.0))
    part = targets_of(tmp_path / "a.flac", 8.0, 250)
    np.testing.assert_allclose(part.params[:, :5], whole.params[400:650, :5], atol=0.02)
    inside = whole.onsets[(whole.onsets >= 400) & (whole.onsets < 650)] - 400
    np.testing.assert_array_equal(part.onsets, inside)


def test_a_start_between_two_frames_is_kept_exactly(tmp_path):
    times = np.arange(1.0, 9.0, 0.5)
    soundfile.write(tmp_path / "a.wav", plucks(times, 10.0), RATE)
    # 0.511 s in: the first onset is 0.489 s later.
    found = targets_of(tmp_path / "a.wav", 0.511, 300)
    assert np.abs(found.onsets / 50.0 - (times - 0.511)[: len(found.onsets)]).max() <= 0.02


def test_what_is_no_sound_is_said_in_one_line(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFFnothing")
    with pytest.raises(FormatError, match=r"a\.wav: is not a sound that can be read"):
        duration(path)
    with pytest.raises(FormatError, match="is not a sound"):
        targets_of(path, 0.0, 100)
    soundfile.write(path, np.zeros(0), RATE)
    with pytest.raises(FormatError, match="0 samples"):
        duration(path)
    broken = np.zeros(RATE, dtype=np.float32)
    broken[100] = np.nan
    soundfile.write(path, broken, RATE, subtype="FLOAT")
    with pytest.raises(FormatError, match="not finite"):
        targets_of(path, 0.0, 10)
    broken[100] = 1e30
    soundfile.write(path, broken, RATE, subtype="FLOAT")
    with pytest.raises(FormatError, match=r"a\.wav: has samples of 1e\+30, where full scale is 1"):
        targets_of(path, 0.0, 10)
