"""Parameters and events from sound: the targets of takes that have their own music.

The same eight parameters in 0..1 and the same two events as the teacher's, at 50 Hz, aligned to the movement.
librosa is only imported when a sound is analysed. The formulas are in docs/data.md.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, find_peaks, hilbert, sosfiltfilt

from pyanticip.errors import FormatError, OptionError, one_line
from pyanticip.untrusted import check_file
from pyanticip.vocabulary import PARAMETERS, RATE
from training.teacher.filters import smooth
from training.teacher.kinematic_targets import PHRASE_GAP, PHRASE_HZ
from training.teacher.kinematics import FAST_HZ, SLOW_HZ

AUDIO_VERSION: Final = 1
"""Version of the analysis."""

SAMPLE_RATE: Final = 22_050
HOP: Final = 441
"""Samples per frame: exactly 20 ms."""
FINE_HOP: Final = 147
"""Samples per value of the onset curve: 6.67 ms."""
WINDOW: Final = 2048
CONTEXT: Final = 200
"""Frames of sound before and after the movement that are analysed as well."""

PITCH_HZ: Final = (55.0, 1760.0)
"""Frequencies of pitch 0 and 1: five octaves."""
BRIGHTNESS_HZ: Final = (125.0, 8000.0)
"""Spectral centroid at brightness 0 and 1: six octaves."""
FLOOR_DB: Final = -60.0
"""Level of loudness 0; full scale is 1."""
SILENT: Final = 10.0 ** (FLOOR_DB / 10.0)
"""The same as a mean square."""
ROUGH_HZ: Final = (20.0, 150.0)
"""Modulation frequencies that are perceived as roughness (Zwicker and Fastl 2007, chapter 11)."""
FULLY_ROUGH: Final = 0.7
"""RMS of the modulation over the mean envelope of a fully modulated tone, 1 / sqrt 2."""
MAX_SAMPLE: Final = 1e4
"""Samples beyond this, 80 dB above full scale, mean that the file is damaged."""
VOICED: Final = 0.8
"""Correlation of a frame with itself one period later above which it counts as voiced."""
DENSITY_RATE: Final = (0.5, 16.0)
"""Onsets per second at density 0 and 1, logarithmic in between."""
PULSE_SECONDS: Final = (0.32, 1.2)
"""Range of pulse periods."""
PULSE_WINDOW: Final = 150
"""Frames of the window of the autocorrelation."""
PULSE_REST: Final = 1.0
"""Added to the denominator, dB^2, so that noise of a steady sound is not measured as a pulse."""
ONSET_RISE_DB: Final = 1.0
"""Mean rise of the bands that makes an onset; steady noise stays below half of it."""
ONSET_LEVEL: Final = 10.0 ** (-50.0 / 10.0)
"""Mean square that the sound must reach after an onset."""
PHRASE_FLOOR: Final = 0.005
PHRASE_PROMINENCE: Final = 1.0
"""Octaves of amplitude, 6 dB each, by which the slow envelope falls before a phrase and rises after it."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SoundTargets:
    """Targets of T frames."""

    params: NDArray[np.float32]
    """(T, 8); NaN where the sound provides no value: space and pan of a mono sound."""
    onsets: NDArray[np.int64]
    phrases: NDArray[np.int64]
    notes: tuple[str, ...] = ()


def check_available() -> None:
    """Check that sounds can be analysed here.

    Raises:
        OptionError: librosa or soundfile is missing.
    """
    from importlib.util import find_spec

    for name in ("librosa", "soundfile"):
        if find_spec(name) is None:
            raise OptionError(
                f"sound beside the takes needs {name}: pip install 'pyanticip[train]', or give --sound none"
            )


def duration(path: Path) -> float:
    """Duration of a sound file, seconds.

    Raises:
        FormatError: the file cannot be read as sound.
    """
    import soundfile

    check_file(path)
    try:
        info = soundfile.info(path)
    except (soundfile.SoundFileError, OSError, ValueError) as error:
        raise FormatError(f"{path}: is not a sound that can be read: {one_line(error)}") from None
    if info.frames <= 0 or info.samplerate < 4000:
        raise FormatError(
            f"{path}: {info.frames} samples at {info.samplerate} Hz; expected some, at 4 kHz or more"
        )
    return float(info.frames / info.samplerate)


def targets_of(path: Path, start: float, frames: int) -> SoundTargets:
    """Parameters and events of ``frames`` frames of a sound file from ``start`` seconds on.

    Args:
        path: WAV, FLAC or another format that libsndfile reads.
        start: seconds, at least 0.
        frames: at 50 Hz; start + frames / 50 may exceed the file by less than a frame.

    Raises:
        FormatError: the file cannot be read as sound, or has samples that are not finite.
    """
    import soundfile

    check_file(path)
    try:
        with soundfile.SoundFile(path) as file:
            rate = int(file.samplerate)
            first = round(start * rate)
            lead = min(CONTEXT, int(first * RATE / rate))
            begin = max(first - round(lead * rate / RATE), 0)
            file.seek(begin)
            count = round((lead + frames + CONTEXT) * rate / RATE)
            samples = file.read(count, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, OSError, ValueError) as error:
        raise FormatError(f"{path}: is not a sound that can be read: {one_line(error)}") from None
    if len(samples) == 0:
        raise FormatError(f"{path}: ends before {start:.2f} s")
    if not np.isfinite(samples).all():
        raise FormatError(f"{path}: has samples that are not finite")
    if (peak := float(np.abs(samples).max())) > MAX_SAMPLE:
        raise FormatError(f"{path}: has samples of {peak:.3g}, where full scale is 1")
    targets = analyse(np.asarray(samples.T, dtype=np.float32), rate)
    # The analysis may end up to one frame early; the last value is then repeated.
    index = np.minimum(lead + np.arange(frames), len(targets.params) - 1)
    return SoundTargets(
        targets.params[index],
        _within(targets.onsets, lead, frames),
        _within(targets.phrases, lead, frames),
        targets.notes,
    )


def _within(times: NDArray[np.int64], lead: int, frames: int) -> NDArray[np.int64]:
    return times[(times >= lead) & (times < lead + frames)] - lead


def warm_up() -> None:
    """Make librosa compile and cache its numba functions.

    Call this before several processes analyse sounds: two that write the cache files for the first time at
    once may load a mixture of both, which crashes.
    """
    clicks = np.zeros((1, SAMPLE_RATE), dtype=np.float32)
    clicks[0, SAMPLE_RATE // 4 :] = 0.3 * np.sin(np.arange(SAMPLE_RATE - SAMPLE_RATE // 4) / 8.0)
    analyse(clicks, SAMPLE_RATE)


def analyse(samples: NDArray[np.floating], rate: int) -> SoundTargets:
    """Parameters and events of a whole sound.

    Args:
        samples: (C, N), full scale 1; the first two channels are left and right.
        rate: samples per second.
    """
    import librosa

    sound = np.asarray(samples[:2], dtype=np.float32)
    if rate != SAMPLE_RATE:
        sound = librosa.resample(sound, orig_sr=rate, target_sr=SAMPLE_RATE, res_type="soxr_hq")
    # The analysis needs at least one window.
    sound = np.pad(sound, ((0, 0), (0, max(WINDOW - sound.shape[1], 0))))
    frames = 1 + sound.shape[1] // HOP
    mono = sound.mean(axis=0)
    power = np.mean([_power(channel)[:frames] for channel in sound], axis=0)
    spectrum = np.abs(librosa.stft(mono, n_fft=WINDOW, hop_length=HOP))[:, :frames].T.astype(np.float64)
    onset_curve = _flux(mono)
    # The click where a sound is cut off is not an onset.
    onsets = _onsets(onset_curve, power)
    onsets = onsets[onsets < (sound.shape[1] - WINDOW // 2) / SAMPLE_RATE]
    notes: list[str] = []
    pitch = _pitch(mono, power, frames)
    if pitch is None:
        notes.append("no pitch is heard in the sound: it stays in the middle")
    params = np.full((frames, len(PARAMETERS)), np.nan)
    loud = smooth(power, FAST_HZ)
    params[:, 0] = 0.5 if pitch is None else pitch
    params[:, 1] = 1.0 - 10.0 * np.log10(np.maximum(loud, SILENT)) / FLOOR_DB
    params[:, 2] = _brightness(spectrum, power)
    params[:, 3] = _roughness(mono, frames)
    params[:, 4] = _density(onsets, frames)
    params[:, 7] = _pulse(onset_curve, frames)
    if _is_stereo(sound):
        params[:, 5], params[:, 6] = _width_and_pan(sound, frames)
    else:
        notes.append("the sound has one channel: space and pan are the teacher's")
    slow = np.log2(np.sqrt(np.maximum(smooth(power, PHRASE_HZ), 0.0)) + PHRASE_FLOOR)
    phrases, _ = find_peaks(-slow, prominence=PHRASE_PROMINENCE, distance=PHRASE_GAP)
    clipped = np.clip(params, 0.0, 1.0).astype(np.float32)
    onset_frames = np.unique(np.round(onsets * RATE).astype(np.int64))
    return SoundTargets(clipped, onset_frames[onset_frames < frames], phrases.astype(np.int64), tuple(notes))


def _power(samples: NDArray[np.float32]) -> Array:
    """Mean square (T,) of the 46 ms around every frame."""
    import librosa

    rms = librosa.feature.rms(y=samples, frame_length=1024, hop_length=HOP)[0]
    return np.asarray(rms, dtype=np.float64) ** 2


def _interpolate(values: Array, known: NDArray[np.bool_]) -> Array | None:
    """Interpolate linearly over unknown values; None if none is known."""
    if not known.any():
        return None
    return np.interp(np.arange(len(values)), np.flatnonzero(known), values[known])


def _pitch(mono: NDArray[np.float32], power: Array, frames: int) -> Array | None:
    """Pitch 0..1 by YIN (de Cheveigne and Kawahara 2002), unvoiced frames interpolated; None if all are."""
    import librosa

    low, high = PITCH_HZ
    hz = librosa.yin(
        mono, fmin=low * 0.97, fmax=high * 1.03, sr=SAMPLE_RATE, frame_length=WINDOW, hop_length=HOP
    )[:frames]
    padded = np.pad(mono.astype(np.float64), WINDOW // 2)
    voiced = np.zeros(frames, dtype=np.bool_)
    for frame, lag in enumerate(np.round(SAMPLE_RATE / hz).astype(int).tolist()):
        window = padded[frame * HOP : frame * HOP + WINDOW]
        early, late = window[:-lag], window[lag:]
        energy = np.sqrt((early @ early) * (late @ late))
        voiced[frame] = power[frame] > SILENT and early @ late > VOICED * energy
    octaves = np.log2(hz / low) / np.log2(high / low)
    pitch = _interpolate(octaves, voiced)
    return None if pitch is None else smooth(pitch, FAST_HZ)


def _brightness(spectrum: Array, power: Array) -> Array:
    """Centroid of the power spectrum, weighted by level; 0..1, logarithmic.

    Power rather than amplitude, so that the noise floor of a file does not brighten its quiet moments.
    """
    hz = np.arange(spectrum.shape[1]) * SAMPLE_RATE / WINDOW
    sums = smooth(np.column_stack([spectrum**2 @ hz, (spectrum**2).sum(axis=1)]), FAST_HZ)
    low, high = BRIGHTNESS_HZ
    centroid = sums[:, 0] / np.maximum(sums[:, 1], 1e-12)
    value = np.log2(np.maximum(centroid, 1.0) / low) / np.log2(high / low)
    brightness = _interpolate(np.clip(value, 0.0, 1.0), smooth(power, FAST_HZ) > SILENT)
    return np.full(len(power), 0.5) if brightness is None else brightness


def _roughness(mono: NDArray[np.float32], frames: int) -> Array:
    """Modulation of 20 to 150 Hz in octave bands from 125 Hz, relative to the bands' mean envelopes."""
    edges = (125.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0)
    depth, level = np.zeros(frames), np.zeros(frames)
    modulation_filter = butter(2, ROUGH_HZ, "bandpass", fs=SAMPLE_RATE, output="sos")
    for low, high in pairwise(edges):
        band = sosfiltfilt(butter(2, (low, high), "bandpass", fs=SAMPLE_RATE, output="sos"), mono)
        envelope = np.abs(hilbert(band))
        modulation = _mean_square(sosfiltfilt(modulation_filter, envelope), frames)
        # Weighted by amplitude: faint bands contribute little.
        depth += np.sqrt(np.maximum(smooth(modulation, FAST_HZ), 0.0))
        level += np.sqrt(np.maximum(smooth(_mean_square(envelope, frames), FAST_HZ), 0.0))
    share: Array = np.where(level > np.sqrt(SILENT), depth / np.maximum(level, 1e-9), 0.0)
    return np.asarray(share / FULLY_ROUGH, dtype=np.float64)


def _mean_square(x: NDArray[np.floating], frames: int) -> Array:
    """Mean square (T,) of the 20 ms around every frame."""
    padded = np.zeros(frames * HOP)
    half = HOP // 2
    padded[half : half + len(x)] = x[: len(padded) - half] ** 2
    return np.asarray(padded.reshape(frames, HOP).mean(axis=1), dtype=np.float64)


def _flux(mono: NDArray[np.float32]) -> NDArray[np.float32]:
    """Mean rise of the mel bands over 20 ms, dB, every 6.67 ms (SuperFlux, Boeck and Widmer 2013)."""
    import librosa

    flux = librosa.onset.onset_strength(y=mono, sr=SAMPLE_RATE, hop_length=FINE_HOP, lag=3, max_size=3)
    return np.asarray(flux, dtype=np.float32)


def _onsets(curve: NDArray[np.float32], power: Array) -> Array:
    """Times of the onsets, seconds: peaks of the spectral flux that are followed by sound."""
    import librosa

    if not (curve > 0.0).any():
        return np.zeros(0)
    onset_frames = librosa.onset.onset_detect(
        onset_envelope=curve,
        sr=SAMPLE_RATE,
        hop_length=FINE_HOP,
        units="frames",
        # An absolute threshold in dB, not relative to the maximum: a steady sound has no onset.
        normalize=False,
        delta=ONSET_RISE_DB,
    )
    seconds = np.asarray(onset_frames, dtype=np.float64) * FINE_HOP / SAMPLE_RATE
    frame = np.clip(np.round(seconds * RATE).astype(int), 0, len(power) - 1)
    after = np.stack([power[np.minimum(frame + n, len(power) - 1)] for n in range(4)]).max(axis=0)
    return np.asarray(seconds[after > ONSET_LEVEL], dtype=np.float64)


def _density(onsets: Array, frames: int) -> Array:
    """Onsets per second around a frame (smoothed at 0.4 Hz), 0..1, logarithmic."""
    impulses = np.zeros(frames)
    np.add.at(impulses, np.clip(np.round(onsets * RATE).astype(int), 0, frames - 1), RATE)
    rate = smooth(impulses, PHRASE_HZ)
    low, high = DENSITY_RATE
    value = np.log(np.maximum(rate, 1e-9) / low) / np.log(high / low)
    return np.asarray(np.clip(value, 0.0, 1.0), dtype=np.float64)


def _pulse(curve: NDArray[np.float32], frames: int) -> Array:
    """Regularity of the onsets at their best period of 0.32 to 1.2 s, over about 3 s.

    Maximum of the autocorrelation of the onset curve in a Hann window of 3 s, normalised by the window's own.
    """
    import librosa

    # Three values of the curve per frame; the level that steady noise reaches is subtracted.
    strength = np.maximum(curve.astype(np.float64) - 0.5 * ONSET_RISE_DB, 0.0)
    coarse = np.add.reduceat(strength, np.arange(0, len(strength), HOP // FINE_HOP))[:frames]
    coarse = np.pad(coarse, (0, frames - len(coarse)))
    centred = coarse - smooth(coarse, 1.0 / 3.0)
    if frames < PULSE_WINDOW:
        centred = np.pad(centred, (0, PULSE_WINDOW - frames))
    tempogram: Any = librosa.feature.tempogram(
        onset_envelope=centred, sr=SAMPLE_RATE, hop_length=HOP, win_length=PULSE_WINDOW, norm=None
    )
    window = np.hanning(PULSE_WINDOW)
    taper = np.correlate(window, window, "full")[PULSE_WINDOW - 1 :]
    lags = np.arange(round(PULSE_SECONDS[0] * RATE), round(PULSE_SECONDS[1] * RATE) + 1)
    power = np.maximum(tempogram[0], 0.0)
    clarity = (tempogram[lags] / (taper[lags, None] / taper[0])).max(axis=0) / (power + PULSE_REST)
    return smooth(np.clip(clarity[:frames], 0.0, 1.0), SLOW_HZ)


def _is_stereo(sound: NDArray[np.float32]) -> bool:
    """Whether there are two channels whose difference exceeds -60 dB."""
    if len(sound) < 2:
        return False
    difference = float(((sound[0] - sound[1]) ** 2).mean())
    return difference > 1e-6 * float((sound**2).mean()) > 0.0


def _width_and_pan(sound: NDArray[np.float32], frames: int) -> tuple[Array, Array]:
    """Width and pan (T,) of a stereo sound.

    Width: 1 minus the correlation of left and right. Pan: 0 left to 1 right, the equal-power pan position
    with the same balance.
    """
    left, right = sound.astype(np.float64)
    both = np.column_stack(
        [
            _mean_square(left, frames),
            _mean_square(right, frames),
            _mean_square(left + right, frames),
        ]
    )
    l2, r2, sum2 = np.maximum(smooth(both, SLOW_HZ).T, 0.0)
    product = 0.5 * (sum2 - l2 - r2)
    known = l2 + r2 > SILENT
    # A channel 40 dB below the other counts as absent: then there is no width.
    paired = np.minimum(l2, r2) > 1e-4 * np.maximum(l2, r2)
    width = np.where(paired, 1.0 - product / np.sqrt(np.maximum(l2 * r2, 1e-20)), 0.0)
    pan = np.arctan2(np.sqrt(r2), np.sqrt(l2)) / (0.5 * np.pi)
    columns = [_interpolate(np.clip(value, 0.0, 1.0), known) for value in (width, pan)]
    return tuple(np.full(frames, 0.5) if v is None else v for v in columns)  # type: ignore[return-value]
