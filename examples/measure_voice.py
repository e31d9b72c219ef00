"""Measure the effect of each parameter of the built-in voice, for docs/voice.md.

    python examples/measure_voice.py

All other parameters have calm values; all figures but decay and jump are from 8 s of sound.
"""

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pyanticip._core import Voice
from pyanticip.vocabulary import PARAMETERS

RATE = 48_000
CALM = dict(zip(PARAMETERS, (0.4, 0.7, 0.5, 0.1, 0.0, 0.2, 0.5, 0.0), strict=True))
VALUES = (0.0, 0.25, 0.5, 0.75, 1.0)
Sound = npt.NDArray[np.float32]


def play(seconds: float = 8.0, **changed: float) -> Sound:
    """Sound with the calm values and ``changed`` parameters, after 1 s to settle."""
    voice = Voice(RATE)
    voice.params(np.array([(CALM | changed)[name] for name in PARAMETERS], np.float32))
    voice.render(RATE)
    return voice.render(int(seconds * RATE))


def level(x: Sound) -> float:
    """Level in dBFS."""
    return float(10 * np.log10(np.mean(np.square(x, dtype=np.float64)) + 1e-12))


def spectrum(x: Sound) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    mono = x.mean(axis=1, dtype=np.float64) * np.hanning(len(x))
    return np.asarray(np.fft.rfftfreq(len(x), 1 / RATE), np.float64), np.abs(np.fft.rfft(mono))


def strongest_partial(x: Sound) -> float:
    """Frequency in Hz."""
    f, a = spectrum(x)
    return float(f[a.argmax()])


def centroid(x: Sound) -> float:
    """Spectral centroid in Hz."""
    f, a = spectrum(x)
    return float((f * a).sum() / a.sum())


def modulation(x: Sound, low: float, high: float) -> float:
    """Relative depth of the strongest modulation of the envelope from ``low`` to ``high`` Hz."""
    blocks = x[: len(x) // 64 * 64].astype(np.float64).reshape(-1, 128)
    envelope = np.sqrt(np.mean(blocks**2, axis=1))
    depth = np.abs(np.fft.rfft((envelope - envelope.mean()) * np.hanning(len(envelope)))) * 4 / len(envelope)
    f = np.fft.rfftfreq(len(envelope), 64 / RATE)
    return float(depth[(f >= low) & (f <= high)].max() / envelope.mean())


def strokes(x: Sound) -> float:
    """Onsets per second, as sudden rises above 1.2 kHz."""
    frames = x.mean(axis=1, dtype=np.float64)[: len(x) // 480 * 480].reshape(-1, 480) * np.hanning(480)
    high = np.fft.rfftfreq(480, 1 / RATE) > 1200
    rise = np.diff(np.log(np.abs(np.fft.rfft(frames, axis=1))[:, high].sum(axis=1) + 1e-2))
    return float(
        np.sum((rise[1:-1] > 0.8) & (rise[1:-1] >= rise[:-2]) & (rise[1:-1] > rise[2:])) * RATE / len(x)
    )


def decay(space: float) -> float:
    """Seconds until the level has fallen by 30 dB."""
    voice = Voice(RATE)
    settings = [CALM | {"space": space}, CALM | {"space": space, "loudness": 0.0}]
    sounding, silent = (np.array([s[name] for name in PARAMETERS], np.float32) for s in settings)
    voice.params(sounding)
    before = level(voice.render(4 * RATE))
    voice.params(silent)
    return next(n for n in range(1000) if level(voice.render(480)) < before - 30) / 100


FEATURES: tuple[tuple[str, str, Callable[[float], float]], ...] = (
    ("pitch", "strongest partial, Hz", lambda v: strongest_partial(play(pitch=v))),
    ("loudness", "level, dBFS", lambda v: level(play(loudness=v))),
    ("brightness", "spectral centroid, Hz", lambda v: centroid(play(brightness=v))),
    ("roughness", "envelope's modulation at 47 Hz", lambda v: modulation(play(roughness=v), 40, 55)),
    (
        "density",
        "strokes heard a second",
        lambda v: strokes(play(density=v, brightness=0.25, roughness=0.0)),
    ),
    ("space", "decay by 30 dB, s", decay),
    ("pan", "right over left, dB", lambda v: level((x := play(pan=v, space=0.0))[:, 1:]) - level(x[:, :1])),
    ("pulse", "envelope's modulation at 4 Hz", lambda v: modulation(play(pulse=v), 3, 5)),
)


def bursts(x: Sound) -> float:
    """Largest energy of the second difference within 2.7 ms, which is high for a click."""
    d = np.diff(x.astype(np.float64), n=2, axis=0)
    return float(np.sum(d[: len(d) // 128 * 128].reshape(-1, 256) ** 2, axis=1).max())


def jump(name: str, others: float) -> float:
    """Click level of 40 jumps 0 <-> 1 of one parameter, in dB relative to the steady sound at either end."""
    rest = dict.fromkeys(PARAMETERS, others) | {"loudness": 0.8, "density": 0.0}
    steady = max(bursts(play(6.0, **(rest | {name: v}))) for v in (0.0, 1.0))
    rng, voice, worst = np.random.default_rng(5), Voice(RATE), 0.0
    for n in range(41):
        voice.params(np.array([(rest | {name: float(n % 2)})[p] for p in PARAMETERS], np.float32))
        x = voice.render(int(rng.integers(2000, 9000)))
        worst = max(worst, bursts(x)) if n else 0.0
    return float(10 * np.log10(worst / steady))


def main() -> None:
    print("| parameter | measured | " + " | ".join(f"{v:g}" for v in VALUES) + " | jump, dB |")
    print("|---" * (3 + len(VALUES)) + "|")
    for name, measured, feature in FEATURES:
        cells = " | ".join(f"{feature(v):.3g}" for v in VALUES)
        print(f"| {name} | {measured} | {cells} | {max(jump(name, others) for others in (0.15, 0.6)):+.1f} |")
    voice = Voice(RATE)
    voice.params(np.array([0.6, 0.9, 0.7, 0.6, 1.0, 0.8, 0.4, 0.7], np.float32))
    elapsed = []
    for _ in range(30):
        start = time.process_time()
        voice.render(RATE)
        elapsed.append(time.process_time() - start)
    print(f"\nrenders {1 / np.median(elapsed):.0f} times as fast as it sounds (processor time)")


if __name__ == "__main__":
    main()
