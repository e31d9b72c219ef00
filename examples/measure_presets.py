"""Measure the presets of the built-in voice on recorded movement: the tables of presets in docs/voice.md.

    python examples/measure_presets.py SAMPLES DANCE.bvh ANOTHER.bvh ...  # needs 'pyanticip[train]'

For each preset, rendered as by `pyanticip render`: integrated loudness of each clip (ITU-R BS.1770-4), the
highest true peak (four times oversampled), processor time per second of sound, and similarities: the closest
other preset on any clip; the mean and the maximum over all pairs of clips, and the number of pairs above .95.
Similarity is the correlation of long-term spectra (third octaves from 50 Hz to 12 kHz, in dB, floor -60 dB).
SAMPLES is the folder of sounds that the preset granular plays.
"""

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from pyanticip._core import PRESETS, Samples, Voice
from pyanticip.vocabulary import EVENTS
from realtime.bench.offline_listener import RATE, integrated
from realtime.programs.render import render
from realtime.rig import Rig

SECONDS = 40.0
# Clips whose spectra correlate more than this sound alike.
ALIKE = 0.95
Sound = npt.NDArray[np.float32]
Spectrum = npt.NDArray[np.float64]


def render_sound(preset: str, clip: Path, samples: Path) -> Sound:
    """Render a clip with a preset, shape (samples, 2)."""
    rig = Rig.model_validate({"synth": {"preset": preset, "samples": str(samples)}})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "sound.wav")
        render(clip, out, rig=rig, seconds=SECONDS)
        return np.asarray(soundfile.read(out, dtype="float32")[0], np.float32)


def cost(preset: str, control: dict[str, npt.NDArray[np.generic]], sounds: Samples) -> float:
    """Processor seconds per second of sound, with the ``control`` values that a clip was rendered to."""
    voice, elapsed = Voice(RATE, preset=preset, samples=sounds), 0.0
    columns = (control[f"event_{part}"] for part in ("t", "name", "strength", "ahead"))
    events = list(zip(*columns, strict=True))
    for t, params, limbs in zip(control["t"], control["params"], control["limbs"], strict=True):
        start = time.thread_time()
        voice.render(max(round(float(t) * RATE) - voice.position, 0))
        elapsed += time.thread_time() - start
        voice.params(params)
        for limb, values in enumerate(limbs.reshape(4, 3)):
            voice.limb(limb, *map(float, values))
        for _, name, strength, ahead in (e for e in events if e[0] == t and e[1] in EVENTS):
            voice.event(EVENTS.index(name), strength, ahead)
    return elapsed * RATE / voice.position


def true_peak(x: Sound) -> float:
    """True peak in dB relative to full scale, four times oversampled."""
    pieces = (x[max(start - 512, 0) : start + RATE + 512] for start in range(0, len(x), RATE))
    spectra = ((np.fft.rfft(p, axis=0), 4 * len(p)) for p in pieces if len(p) > 2_048)
    peak = max(np.abs(4 * np.fft.irfft(s, n, axis=0))[2_048:-2_048].max() for s, n in spectra)
    return float(20 * np.log10(peak + 1e-9))


def spectrum(x: Sound) -> Spectrum:
    """Levels of third octaves relative to the total, dB."""
    mono = x.mean(axis=1, dtype=np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(mono, 8_192)[::4_096] * np.hanning(8_192)
    power = np.mean(np.abs(np.fft.rfft(windows, axis=1)) ** 2, axis=0)
    f = np.fft.rfftfreq(8_192, 1 / RATE)
    edges = 50 * 2 ** ((np.arange(25) - 0.5) / 3)
    bands = np.array([power[(f >= a) & (f < b)].sum() for a, b in pairwise(edges)])
    return np.asarray(10 * np.log10(bands / bands.sum() + 1e-6))


def correlations(spectra: list[Spectrum]) -> Spectrum:
    """Matrix of correlations between the spectra, with -1 on the diagonal."""
    table = np.asarray(np.corrcoef(np.array(spectra)))
    np.fill_diagonal(table, -1.0)
    return table


def main(samples: Path, clips: list[Path]) -> None:
    controls = []
    with tempfile.TemporaryDirectory() as folder:
        for clip in clips:
            render(clip, Path(folder, "control.npz"), seconds=SECONDS)
            with np.load(Path(folder, "control.npz")) as arrays:
                controls.append(dict(arrays))
    recorded = Samples(str(samples), RATE)
    sounds = {preset: [render_sound(preset, clip, samples) for clip in clips] for preset in PRESETS}
    spectra = {preset: [spectrum(sound) for sound in of_preset] for preset, of_preset in sounds.items()}
    presets = list(PRESETS)
    across = np.max([correlations([spectra[p][c] for p in presets]) for c in range(len(clips))], axis=0)
    print("| preset | " + " | ".join(f"LUFS {clip.stem}" for clip in clips), end="")
    print(" | true peak, dB | cost, % of a core | closest preset | two clips |")
    print("|---" * (len(clips) + 5) + "|")
    for row, preset in enumerate(presets):
        cells = [f"{integrated(x):.1f}" for x in sounds[preset]]
        share = 100 * np.median([cost(preset, control, recorded) for control in controls])
        cells += [f"{max(map(true_peak, sounds[preset])):.1f}", f"{share:.1f}"]
        nearest = int(across[row].argmax())
        cells.append(f"{presets[nearest]} {across[row, nearest]:.2f}")
        similarity = ""
        if len(clips) > 1:
            pairs = np.asarray(np.corrcoef(spectra[preset]))[np.triu_indices(len(clips), 1)]
            similarity = f"{pairs.mean():.2f}, {pairs.max():.2f}, {np.sum(pairs > ALIKE)} of {len(pairs)}"
        cells.append(similarity)
        print(f"| {preset} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
