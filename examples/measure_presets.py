"""Measure the presets of the built-in voice on recorded movement: the second table of docs/voice.md.

    python examples/measure_presets.py SAMPLES DANCE.bvh ANOTHER.bvh ...

Of each preset, as `pyanticip render` makes it: integrated loudness of each clip (ITU-R BS.1770-4), the
highest true peak (four times oversampled), processor time per second of sound, the closest other preset on
any clip, and any two clips on average, those most alike, and how many pairs are above .95, all as the
correlation of long-term spectra (third octaves from 50 Hz to 12 kHz, in dB, floor -60 dB). SAMPLES is the
folder of sounds that the preset granular plays.
"""

import sys
import tempfile
import time
import wave
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyanticip._core import PRESETS, Samples, Voice
from pyanticip.vocabulary import EVENTS
from realtime.bench.offline_listener import RATE, integrated
from realtime.programs.render import render
from realtime.rig import Rig

SECONDS = 40.0
# Two clips whose spectra correlate more than this sound like one.
ALIKE = 0.95
Sound = npt.NDArray[np.float32]
Spectrum = npt.NDArray[np.float64]


def rendered(preset: str, clip: Path, samples: Path) -> Sound:
    """What `pyanticip render` makes of a clip with a preset."""
    rig = Rig.model_validate({"synth": {"preset": preset, "samples": str(samples)}})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "sound.wav")
        render(clip, out, rig=rig, seconds=SECONDS)
        with wave.open(str(out)) as file:
            raw = np.frombuffer(file.readframes(file.getnframes()), np.uint8).reshape(-1, 3)
    # Of 32 bits the 24 higher ones.
    whole = np.pad(raw, ((0, 0), (1, 0))).view("<i4")
    return np.asarray(whole.reshape(-1, 2) / 2**31, np.float32)


def cost(preset: str, moves: dict[str, npt.NDArray[np.generic]], sounds: Samples) -> float:
    """Processor seconds that a preset takes for a second of a clip, by its rendered numbers."""
    voice, took = Voice(RATE, preset=preset, samples=sounds), 0.0
    events = list(zip(*(moves[f"event_{part}"] for part in ("t", "name", "strength", "ahead")), strict=True))
    for t, params, limbs in zip(moves["t"], moves["params"], moves["limbs"], strict=True):
        begun = time.thread_time()
        voice.render(max(round(float(t) * RATE) - voice.position, 0))
        took += time.thread_time() - begun
        voice.params(params)
        for limb, moved in enumerate(limbs.reshape(4, 3)):
            voice.limb(limb, *map(float, moved))
        for _, name, strength, ahead in (e for e in events if e[0] == t and e[1] in EVENTS):
            voice.event(EVENTS.index(name), strength, ahead)
    return took * RATE / voice.position


def true_peak(x: Sound) -> float:
    """dB above full scale, four times oversampled."""
    pieces = (x[max(at - 512, 0) : at + RATE + 512] for at in range(0, len(x), RATE))
    spectra = ((np.fft.rfft(p, axis=0), 4 * len(p)) for p in pieces if len(p) > 2_048)
    peak = max(np.abs(4 * np.fft.irfft(s, n, axis=0))[2_048:-2_048].max() for s, n in spectra)
    return float(20 * np.log10(peak + 1e-9))


def spectrum(x: Sound) -> Spectrum:
    """dB of third octaves, of the whole."""
    mono = x.mean(axis=1, dtype=np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(mono, 8_192)[::4_096] * np.hanning(8_192)
    power = np.mean(np.abs(np.fft.rfft(windows, axis=1)) ** 2, axis=0)
    f = np.fft.rfftfreq(8_192, 1 / RATE)
    edges = 50 * 2 ** ((np.arange(25) - 0.5) / 3)
    bands = np.array([power[(f >= a) & (f < b)].sum() for a, b in pairwise(edges)])
    return np.asarray(10 * np.log10(bands / bands.sum() + 1e-6))


def alike(spectra: list[Spectrum]) -> Spectrum:
    """Correlations, their diagonal left out."""
    table = np.asarray(np.corrcoef(np.array(spectra)))
    np.fill_diagonal(table, -1.0)
    return table


def main(samples: Path, clips: list[Path]) -> None:
    moves = []
    with tempfile.TemporaryDirectory() as folder:
        for clip in clips:
            render(clip, Path(folder, "moves.npz"), seconds=SECONDS)
            with np.load(Path(folder, "moves.npz")) as found:
                moves.append(dict(found))
    sounds = Samples(str(samples), RATE)
    made = {preset: [rendered(preset, clip, samples) for clip in clips] for preset in PRESETS}
    spectra = {preset: [spectrum(sound) for sound in heard] for preset, heard in made.items()}
    presets = list(PRESETS)
    across = np.max([alike([spectra[p][c] for p in presets]) for c in range(len(clips))], axis=0)
    print("| preset | " + " | ".join(f"LUFS {clip.stem}" for clip in clips), end="")
    print(" | true peak, dB | cost, % of a core | closest preset | two clips |")
    print("|---" * (len(clips) + 5) + "|")
    for row, preset in enumerate(presets):
        cells = [f"{integrated(x):.1f}" for x in made[preset]]
        share = 100 * np.median([cost(preset, clip, sounds) for clip in moves])
        cells += [f"{max(map(true_peak, made[preset])):.1f}", f"{share:.1f}"]
        nearest = int(across[row].argmax())
        cells.append(f"{presets[nearest]} {across[row, nearest]:.2f}")
        told = ""
        if len(clips) > 1:
            pairs = np.asarray(np.corrcoef(spectra[preset]))[np.triu_indices(len(clips), 1)]
            told = f"{pairs.mean():.2f}, {pairs.max():.2f}, {np.sum(pairs > ALIKE)} of {len(pairs)}"
        cells.append(told)
        print(f"| {preset} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
