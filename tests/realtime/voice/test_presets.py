"""Every preset: each parameter is audible, switching does not click, stillness is silent, keys hold."""

import functools
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from support.sounds import RATE, Sound, bursts, level, read_wav

from pyanticip._core import PRESETS, SCALES, VOICE_CEILING, Samples, Voice
from pyanticip.cli import cli
from pyanticip.errors import OptionError, RigError
from pyanticip.vocabulary import PARAMETERS
from realtime.bench.offline_listener import integrated
from realtime.clock import OfflineClock
from realtime.osc import message
from realtime.programs.demo import PERFORMANCE
from realtime.programs.live import replay
from realtime.programs.render import OfflinePlayer, render
from realtime.rig import load_rig
from realtime.sinks.capture import CaptureSink
from realtime.sources.replay import Command, Item, open_show, play_offline
from realtime.stage import assemble
from realtime.voice.open import open_voice, presets
from realtime.voice.osc_input import VoiceInput
from realtime.voice.synth import VoicePlayer
from realtime.voice.wav import WavWriter

CALM = dict(zip(PARAMETERS, (0.4, 0.7, 0.5, 0.1, 0.6, 0.2, 0.5, 0.0), strict=True))


def vector(**changed: float) -> npt.NDArray[np.float32]:
    return np.array([(CALM | changed)[name] for name in PARAMETERS], np.float32)


@functools.cache
def sounds() -> Samples:
    """Sounds from dull to bright and from smooth to noisy, for the preset granular."""
    rng, t = np.random.default_rng(7), np.arange(RATE) / RATE
    with tempfile.TemporaryDirectory() as folder:
        for n, f in enumerate((110.0, 196.0, 392.0, 784.0)):
            tone = sum(np.sin(2 * np.pi * f * k * t) / k for k in range(1, 4 + 3 * n))
            for noise in (0.0, 0.3, 1.0):
                mixed = (1 - 0.7 * noise) * tone + noise * rng.standard_normal(RATE)
                mixed *= np.exp(-8 * (t % 0.5))
                with WavWriter(Path(folder, f"{n} {noise}.wav"), RATE) as file:
                    file.write(np.repeat(0.01 * mixed[:, None], 2, axis=1).astype(np.float32))
        return Samples(folder, RATE)


def open_preset(preset: str = "default") -> Voice:
    return Voice(RATE, preset=preset, samples=sounds())


def played(preset: str, seconds: float = 8.0, **changed: float) -> Sound:
    voice = open_preset(preset)
    voice.params(vector(**changed))
    voice.render(RATE)
    return voice.render(int(seconds * RATE))


def power(x: Sound) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean power spectrum of windows of 85 ms."""
    mono = x.mean(axis=1, dtype=np.float64)
    frames = np.lib.stride_tricks.sliding_window_view(mono, 4096)[::2048] * np.hanning(4096)
    return np.fft.rfftfreq(4096, 1 / RATE), np.mean(np.abs(np.fft.rfft(frames, axis=1)) ** 2, axis=0)


def centroid(x: Sound) -> float:
    """Octaves above 1 Hz, weighted by magnitude."""
    f, p = power(x)
    return float(np.log2((f * np.sqrt(p)).sum() / np.sqrt(p).sum()))


def height(x: Sound) -> float:
    """Octaves above 1 Hz of the lowest strong partial, because the upper of two voices may be stronger."""
    f, p = power(x)
    return float(np.log2(f[1:][p[1:] > p[1:].max() / 6].min()))


def modulation(low: float, high: float) -> Callable[[Sound], float]:
    """Depth of the envelope's strongest modulation between two frequencies, relative to its mean."""

    def depth(x: Sound) -> float:
        e = np.sqrt(np.mean(x[: len(x) // 64 * 64].astype(np.float64).reshape(-1, 128) ** 2, axis=1))
        s = np.abs(np.fft.rfft((e - e.mean()) * np.hanning(len(e)))) * 4 / len(e)
        f = np.fft.rfftfreq(len(e), 64 / RATE)
        return float(s[(f >= low) & (f <= high)].max() / e.mean())

    return depth


def flux(x: Sound) -> float:
    """Rise of the spectrum from each 10 ms to the next, which is high for strokes."""
    frames = x.mean(axis=1, dtype=np.float64)[: len(x) // 480 * 480].reshape(-1, 480) * np.hanning(480)
    s = np.log(np.abs(np.fft.rfft(frames, axis=1)) + 1e-3)
    return float(np.maximum(np.diff(s, axis=0), 0).mean())


def reverberation(preset: str, space: float) -> float:
    """Level of the second from 0.5 s after the end of the dry sound, against the sound before, dB."""
    voice = open_preset(preset)
    voice.params(vector(space=space))
    before = level(voice.render(2 * RATE)[RATE:])
    voice.params(vector(space=space, loudness=0.0))
    return level(voice.render(3 * RATE // 2)[RATE // 2 :]) - before


DESCRIPTORS: tuple[tuple[str, Callable[[Sound], float], float], ...] = (
    ("pitch", height, 0.4),
    ("loudness", level, 8.0),
    ("brightness", centroid, 0.25),
    ("roughness", modulation(46.0, 48.0), 0.08),
    ("density", flux, 0.004),
    ("pan", lambda x: level(x[:, 1:]) - level(x[:, :1]), 6.0),
    ("pulse", modulation(3.5, 4.5), 0.1),
)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("name", "descriptor", "least"), DESCRIPTORS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_every_parameter_is_audible_in_every_preset(preset, name, descriptor, least):
    # Strokes and rhythm need more sound to measure than steady tones.
    seconds = 6.0 if name in ("density", "pulse") else 2.0
    low, high = (descriptor(played(preset, seconds, **{name: value})) for value in (0.2, 0.8))
    assert high - low > least, (low, high)


@pytest.mark.parametrize("preset", PRESETS)
def test_space_is_audible_in_every_preset(preset: str) -> None:
    assert reverberation(preset, 0.8) - reverberation(preset, 0.2) > 6.0


@pytest.mark.parametrize("preset", PRESETS)
def test_stillness_is_silence_and_the_ceiling_holds(preset: str) -> None:
    voice = open_preset(preset)
    voice.params(np.ones(8, np.float32))
    for n in range(20):
        voice.event(n % 2, 1.0)
        assert np.abs(voice.render(RATE // 5)).max() <= VOICE_CEILING
    voice.params(vector(loudness=0.0, density=1.0, pulse=1.0))
    voice.render(8 * RATE)
    voice.event(0, 1.0)
    assert np.abs(voice.render(RATE)).max() < 1e-4


def test_switching_presets_does_not_click() -> None:
    """Around a switch nothing is sharper than the presets themselves."""
    steady = {name: bursts(played(name, 4.0)).max() for name in PRESETS}
    rng, voice, last = np.random.default_rng(1), open_preset(), "default"
    voice.params(vector())
    voice.render(RATE)
    for name in rng.permutation(list(PRESETS) * 4):
        voice.preset(name)
        worst = bursts(voice.render(RATE // 2)).max()
        assert worst <= 1.5 * (np.sqrt(steady[name]) + np.sqrt(steady[last])) ** 2, (last, name)
        last = str(name)


def test_onsets_are_audible_at_their_time() -> None:
    for preset in PRESETS:
        voice, plain = open_preset(preset), open_preset(preset)
        for v in (voice, plain):
            v.params(vector(density=0.0, space=0.0))
            v.render(RATE)
        voice.event(0, 1.0, 0.2)
        difference = np.abs(voice.render(RATE) - plain.render(RATE)).max(axis=1)
        # 64 samples before; after it, the limiter's look-ahead and a string's attack.
        assert 0.2 * RATE - 64 <= np.flatnonzero(difference)[0] <= 0.2 * RATE + 200, preset
        loud = np.flatnonzero(difference > 0.3 * difference[: RATE // 2].max())[0]
        assert loud < 0.28 * RATE, preset


def partials(root: str, **options: object) -> float:
    """Frequency (Hz) of the strongest partial of the drone at the lowest pitch."""
    voice = open_voice("drone", {"root": root, **options}, RATE)
    voice.params(vector(pitch=0.0, density=0.0, brightness=0.0))
    voice.render(RATE)
    mono = voice.render(3 * RATE).mean(axis=1, dtype=np.float64) * np.hanning(3 * RATE)
    return float(np.fft.rfftfreq(3 * RATE, 1 / RATE)[np.abs(np.fft.rfft(mono)).argmax()])


def test_the_synth_command_uses_the_rig(tmp_path, monkeypatch):
    file, arguments = tmp_path / "a.toml", dict[str, Any]()
    file.write_text("[synth]\npreset = 'choir'\ndevice = 3\noptions.root = 'A2'\n")
    monkeypatch.setattr(
        "realtime.voice.synth.synth",
        lambda port, **options: arguments.update(options) or {"wav_complete": True},
    )
    answer = CliRunner().invoke(cli, ["synth", "--rig", str(file), "--preset", "bells"])
    assert answer.exit_code == 0, answer.output
    assert (arguments["preset"], arguments["options"], arguments["device"]) == ("bells", {"root": "A2"}, 3)


def test_the_rig_sets_key_and_tuning() -> None:
    # Partials of the drone are pairs about 1 % apart.
    assert partials("A2") / partials("D2") == pytest.approx(2 ** (7 / 12), rel=0.02)
    assert partials("D2", a4=480.0) / partials("D2", a4=400.0) == pytest.approx(1.2, rel=0.02)
    for scale in (*SCALES, (0.0, 2.5, 7.0)):
        voice = open_voice("plucked", {"scale": scale, "tuning": "just", "chords": [(0, 2, 4)]}, RATE)
        voice.params(vector(pitch=1.0))
        assert np.isfinite(voice.render(RATE)).all()


class MemoryFile(list[Sound]):
    """Stands in for a file."""

    write = list.append


def render_performance(voices: Sequence[Voice]) -> list[Sound]:
    """The bundled performance on each voice, by one show and a player of ``render`` for each."""
    source, show = open_show(PERFORMANCE)
    items = list(show)
    clock = OfflineClock(items[0].t_ns)
    files = [MemoryFile() for _ in voices]
    players = [OfflinePlayer(file, voice) for file, voice in zip(files, voices, strict=True)]
    rig = load_rig(None, {"model": {"enabled": False}, "memory": {"enabled": False}, "osc": []})
    sinks = [CaptureSink(clock, player.play) for player in players]
    pipeline = assemble(rig, clock, kind=source, sinks=sinks)
    play_offline(items, clock, pipeline.feed)
    pipeline.close()
    for player in players:
        player.finish(sinks[0].times[-1])
        player.close()
    return [np.concatenate(blocks) for blocks in files]


def test_a_performance_is_about_as_loud_at_every_root() -> None:
    others = {"plucked": ("C1", "A2", "B3"), "glass": ("C1", "E3", "B3"), "duo": ("C1", "A1", "B3")}
    keys = [(preset, root) for preset, roots in others.items() for root in ("D2", *roots)]
    rendered = render_performance([open_voice(preset, {"root": root}, RATE) for preset, root in keys])
    lufs = {key: integrated(sound) for key, sound in zip(keys, rendered, strict=True)}
    for preset, roots in others.items():
        differences = {root: lufs[preset, root] - lufs[preset, "D2"] for root in roots}
        assert max(map(abs, differences.values())) < 3.0, (preset, differences)


def test_presets_have_distinct_spectra() -> None:
    """Compares long-term spectra in third octaves; granular sounds like its folder."""
    names = [name for name in PRESETS if name != "granular"]
    edges = 50 * 2 ** ((np.arange(25) - 0.5) / 3)
    spectra = []
    for sound in render_performance([Voice(RATE, preset=name) for name in names]):
        f, p = power(sound)
        bands = np.array([p[(f >= low) & (f < high)].sum() for low, high in pairwise(edges)])
        spectra.append(10 * np.log10(bands / bands.sum() + 1e-6))
    alike = np.corrcoef(spectra) - np.eye(len(names))
    assert alike.max() < 0.8, [names[at] for at in np.unravel_index(alike.argmax(), alike.shape)]


@pytest.mark.parametrize("preset", ["choir", "bells", "drums"])
def test_resonances_follow_the_last_seconds(preset: str) -> None:
    """Two performers do the same after 8 s of different movement: audible at once, even in a preset that is
    chosen only then, and gone 40 s later."""
    voices = [open_preset("glass"), open_preset("glass")]
    for voice, manner in zip(voices, ({"pulse": 0.1, "roughness": 0.8}, {"pulse": 0.6}), strict=True):
        voice.params(vector(**manner))
        voice.render(8 * RATE)
        voice.preset(preset)
        # Earlier sounds have decayed.
        voice.params(vector(loudness=0.0))
        voice.render(4 * RATE)

    def level_change() -> float:
        for voice in voices:
            voice.params(vector())
        f, p = zip(*(power(voice.render(4 * RATE)) for voice in voices), strict=True)
        edges = 100 * 2.0 ** np.arange(7)
        bands = [[q[(f[0] >= a) & (f[0] < b)].sum() for a, b in pairwise(edges)] for q in p]
        return float(np.abs(np.diff(10 * np.log10(bands), axis=0)).max())

    soon = level_change()
    for voice in voices:
        voice.render(36 * RATE)
    assert soon > 4.0
    assert level_change() < soon / 2


def test_silence_forgets_how_the_performer_moved() -> None:
    sounds = []
    for pulse in (0.0, 0.6):
        voice = open_preset("choir")
        voice.params(vector(pulse=pulse))
        voice.render(8 * RATE)
        voice.params(vector())
        for gain in (0.0, 1.0):
            voice.fade(gain, 0.1)
            sound = voice.render(2 * RATE)
        sounds.append(sound)
    assert np.abs(sounds[0]).max() > 0.1
    assert np.abs(sounds[0] - sounds[1]).max() < 1e-3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"root": "H2"}, "root: expected a note from C1 to B3"),
        ({"root": "Cb1"}, "root: expected a note from C1 to B3"),
        ({"scale": "blue"}, "scale: expected one of dorian, .* got 'blue'"),
        ({"scale": [0, 12]}, "scale: expected 1 to 12 semitones"),
        # In the core's 32-bit floats these would be the same note, and an octave.
        ({"scale": [0, 5.0, 5.00000001]}, "scale: expected 1 to 12 semitones"),
        ({"scale": [0, 11.99999999]}, "scale: expected 1 to 12 semitones"),
        ({"tuning": "pythagorean"}, "tuning: input should be 'equal' or 'just'"),
        ({"a4": 1.0}, "a4: input should be greater than or equal to 380"),
        ({"chords": [[0, 1, 99]]}, "chords: expected at most 8"),
        ({"chords": [[]]}, "chords: expected at most 8 chords of exactly three steps each, from -24 to 24"),
        ({"scael": "major"}, r"synth\.options\.scael: unknown key; did you mean scale\?"),
        ({"scale": [0, "x"]}, r"synth\.options\.scale\.1: input should be a valid number"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, object], says: str) -> None:
    with pytest.raises(RigError, match=says) as caught:
        load_rig(None, {"synth": {"options": options}})
    assert "\n" not in str(caught.value)


def test_an_unknown_preset_changes_nothing() -> None:
    voice, plain = Voice(RATE), Voice(RATE)
    with pytest.raises(OptionError, match=r"preset: expected one of default, .* got \"bagpipe\""):
        voice.preset("bagpipe")
    for v in (voice, plain):
        v.params(vector())
    assert np.array_equal(voice.render(RATE), plain.render(RATE))
    assert set(presets()) >= set(PRESETS)


def test_the_voice_handles_preset_commands() -> None:
    voice_input = VoiceInput()
    assert voice_input.decode(message("/anticip/control/preset", ["choir"])) == [("preset", "choir")]
    assert voice_input.decode(message("/anticip/control/preset", [3])) == []
    assert voice_input.counts["malformed"] == 1
    switched, first = VoicePlayer(Voice(RATE)), VoicePlayer(Voice(RATE))
    now = time.monotonic()
    settings = [("set", i, float(v), 0.0) for i, v in enumerate(vector())]
    first.push([*settings], now)
    switched.push([*settings, ("preset", "bagpipe"), ("preset", "choir")], now)
    assert not np.array_equal(switched.render(RATE, now), first.render(RATE, now))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_panic_silences_everything(preset: str) -> None:
    """Falls to -60 dBFS within 50 ms, with the longest room; afterwards nothing of before is audible."""
    player = VoicePlayer(open_preset(preset))
    now = 0.0

    def play(seconds: float, *more: Any, **changed: float) -> Sound:
        nonlocal now
        parts = []
        for _ in range(round(seconds * 50)):
            settings = [("set", i, float(v), 0.0) for i, v in enumerate(vector(space=1.0, **changed))]
            player.push([*settings, *more], now)
            parts.append(player.render(RATE // 50, now))
            now += 0.02
        return np.concatenate(parts)

    play(1.5, loudness=1.0, density=1.0)
    assert np.abs(play(0.1, ("event", 0, 1.0, 0.0), loudness=1.0, density=1.0)).max() > 0.05
    fading = play(0.04, ("status", "panic"), loudness=1.0)
    assert np.abs(fading[: RATE // 100]).max() > 0.01
    assert np.abs(play(1.0, ("status", "panic"), loudness=0.0)[RATE // 100 :]).max() < 1e-3
    assert np.abs(play(0.8, ("status", "playing"), loudness=0.0)).max() < 1e-3
    assert np.abs(play(1.0, ("status", "playing"), ("event", 0, 1.0, 0.0))).max() > 0.01
    play(0.1, ("status", "panic"))
    # The sender of the panic is gone: another that sends no panic is audible.
    now += 1.0
    player.render(RATE // 50, now)
    assert np.abs(play(1.0, ("event", 0, 1.0, 0.0))).max() > 0.01


def test_a_recording_replays_preset_changes_and_panic(tmp_path: Path) -> None:
    """A preset command is recorded without a voice, and applies when the recording is rendered."""
    alone: dict[str, object] = {"model": {"enabled": False}, "memory": {"enabled": False}, "osc": []}
    kind, show = open_show(PERFORMANCE)
    begun: list[Item] = []
    for item in show:
        if not begun or item.t_ns - begun[0].t_ns < 4_000_000_000:
            begun.append(item)
    middle = Command(begun[0].t_ns + 2_500_000_000, "preset", ("bells",))
    wrong = Command(begun[0].t_ns + 2_600_000_000, "preset", ("bagpipe",))
    panic, start = (
        Command(begun[0].t_ns + t, name) for t, name in ((3_000_000_000, "panic"), (3_400_000_000, "start"))
    )
    lines: list[str] = []
    for name, more in (("plain", []), ("changed", [middle, wrong, panic, start])):
        items = sorted([*begun, *more], key=lambda item: item.t_ns)
        rig = load_rig(
            None, {**alone, "synth": {"preset": "drone"}, "record": str(tmp_path / f"{name}.anticip")}
        )
        replay(items, kind, rig, speed=None, say=lines.append)
        for out in ("a", "b")[: 1 + (name == "changed")]:
            again = load_rig(None, {"osc": []}, tmp_path / f"{name}.anticip")
            assert again.synth.preset == "drone"
            render(tmp_path / f"{name}.anticip", tmp_path / f"{name}-{out}.wav", rig=again)
    assert len(lines) == 1
    assert "preset: expected one of" in lines[0]
    plain, changed, second = (read_wav(tmp_path / f"{n}.wav") for n in ("plain-a", "changed-a", "changed-b"))
    assert np.array_equal(changed, second)
    changed_at = np.flatnonzero((plain != changed).any(axis=1))[0] / RATE
    assert 2.48 < changed_at < 2.6
    before, silent, after = (
        np.abs(changed)[round(a * RATE) : round(b * RATE)] for a, b in ((2.9, 3), (3.05, 3.4), (3.4, 4))
    )
    assert silent.max() < 1e-3
    assert min(before.max(), after.max()) > 0.005
