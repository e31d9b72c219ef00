"""The receivers of `examples/receivers` in the real programs: they play a performance, and are recorded.

All play at once, to one JACK server with a dummy driver, so that a performance is waited for once. Times are
judged by medians, and where a busy machine lost a part of the recording nothing is judged. ``-rP`` shows the
figures of docs/receivers.md.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.concert import (
    FOLDERS,
    HARMLESS,
    PROGRAMS,
    RATE,
    Concert,
    Player,
    jack_server,
    missing,
    play,
    run_jack_tool,
    write_moving_part,
)
from support.wire import wait_for

from realtime.rig import load_rig

_JACK = ("jackd", "jack_lsp", "jack_connect")
_NAMES = tuple(PROGRAMS)
_HOP, _WINDOW = 960, 4096

jack = pytest.mark.skipif(
    any(shutil.which(name) is None for name in _JACK) or importlib.util.find_spec("jack") is None,
    reason="JACK, its tools or JACK-Client are not installed",
)


def test_every_folder_has_a_valid_rig() -> None:
    assert sorted(path.name for path in FOLDERS.iterdir()) == sorted(_NAMES)
    for name in _NAMES:
        (target,) = load_rig(FOLDERS / name / "rig.toml").osc
        assert target.schedule == ("sc" in name or name == "supercollider")


@pytest.fixture(scope="module")
def concert(tmp_path_factory: pytest.TempPathFactory) -> Concert:
    folder = tmp_path_factory.mktemp("concert")
    names = [name for name in _NAMES if not missing(name)]
    return play(folder, write_moving_part(folder / "part.bvh"), names, panic=10.0, resume=11.3, kill=13.6)


@pytest.fixture(params=_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    if lacks := missing(request.param):
        pytest.skip(f"not installed: {', '.join(lacks)}")
    return str(request.param)


def is_recorded(concert: Concert, name: str, begin: float, end: float) -> bool:
    """Whether all of it was recorded, without blocks of zeros, which a program without CPU time leaves."""
    part = slice(round(begin * RATE), round(end * RATE))
    sound = np.abs(concert.recordings[name].sound[part]).max(1)
    blocks = sound[: len(sound) // 64 * 64].reshape(-1, 64).max(1)
    return bool(concert.there[part].all() and (blocks > 0).all())


def voice_track(concert: Concert, name: str) -> tuple[NDArray[np.float64], ...]:
    """Times at which the voice plays and no note rings, with its pitch (semitones) and level at each."""
    sound, times, pitch, level = concert.recordings[name].sound, [], [], []
    window = np.hanning(_WINDOW)
    plays = ((concert.sent[0][0] + 0.8, concert.panic - 0.1), (concert.resumed + 0.6, concert.killed - 0.1))
    struck = [due for due, *_ in (*concert.events, *concert.cancelled)]
    for start in range(0, len(sound) - _WINDOW, _HOP):
        begin, end = start / RATE, (start + _WINDOW) / RATE
        now = (begin + end) / 2
        if not any(a < now < b for a, b in plays) or not is_recorded(concert, name, begin, end):
            continue
        if any(due - 0.05 < now < due + 0.5 for due in struck):
            continue
        frame = sound[start : start + _WINDOW].astype(np.float64)
        spectrum = np.abs(np.fft.rfft(frame.sum(1) * window, 2 * _WINDOW)) + 1e-12
        low, high = (round(hz * 2 * _WINDOW / RATE) for hz in (60, 650))
        peak = low + int(spectrum[low:high].argmax())
        a, b, c = np.log(spectrum[peak - 1 : peak + 2])
        between = (a - c) / (2 * min(a - 2 * b + c, -1e-9))  # bins from the peak to the top of a parabola
        pitch.append(12 * np.log2((peak + between) * RATE / (2 * _WINDOW)))
        middle = frame[_WINDOW // 2 - _HOP : _WINDOW // 2 + _HOP]
        level.append(np.sqrt(2 * (middle**2).mean()))
        times.append(now)
    return np.array(times), np.array(pitch), np.array(level)


def correlation(
    concert: Concert, times: NDArray[np.float64], measured: NDArray[np.float64], parameter: int
) -> tuple[float, float]:
    """The best correlation with the values sent 0 to 150 ms before, and that delay in seconds."""
    at, sent = np.array([t for t, _ in concert.sent]), np.array([p[parameter] for _, p in concert.sent])
    return max(
        (float(np.corrcoef(np.interp(times - lag, at, sent), measured)[0, 1]), float(lag))
        for lag in np.arange(0.0, 0.15, 0.01)
    )


def attacks(concert: Concert, name: str, dues: list[float]) -> list[tuple[float, float]]:
    """For each due time, the offset (seconds) of the sharpest attack within 80 ms, and how much louder
    the 10 ms after it are than those before, above some kHz (a second difference)."""
    sharp = np.diff(concert.recordings[name].sound.sum(1).astype(np.float64), 2)
    power = np.concatenate([[0.0], np.cumsum(sharp**2)])
    found = []
    for due in dues:
        if is_recorded(concert, name, due - 0.1, due + 0.1):
            at = np.round((due + np.arange(-0.08, 0.08, 0.001)) * RATE).astype(int)
            before, after = power[at] - power[at - RATE // 100], power[at + RATE // 100] - power[at]
            rise = (after + 1e-9) / (before + 1e-9)
            found.append((float(at[rise.argmax()] / RATE - due), float(rise.max())))
    return found


def peak(concert: Concert, name: str, begin: float, end: float) -> float:
    """Peak level in dBFS."""
    sound = concert.recordings[name].sound[round(begin * RATE) : round(end * RATE)]
    return float(20 * np.log10(np.abs(sound).max() + 1e-9))


@jack
@pytest.mark.slow
def test_pitch_and_level_follow(concert: Concert, name: str) -> None:
    times, pitch, level = voice_track(concert, name)
    if len(times) <= 100:  # the test of silence would notice if it were silent
        pytest.skip("the machine lost too much of the recording")
    loudness = np.interp(times, [t for t, _ in concert.sent], [p[1] for _, p in concert.sent])
    is_audible = loudness > 0.15
    found = {
        "pitch": correlation(concert, times[is_audible], pitch[is_audible], 0),
        "level": correlation(concert, times, np.sqrt(level), 1),  # proportional to the square of loudness
    }
    for what, (r, lag) in found.items():
        print(f"{name}: {what} r {r:.3f}, {1000 * lag:.0f} ms after it was sent")
    assert min(r for r, _ in found.values()) >= 0.9


@jack
@pytest.mark.slow
def test_beats_play_at_their_time_and_not_when_cancelled(concert, name):
    beats = attacks(concert, name, [due for due, kind, _ in concert.events if kind == "onset"])
    if len(beats) < 3:
        pytest.skip("the machine lost too much of the recording")
    error, late = np.median([abs(late) for late, _ in beats]), [round(1000 * late) for late, _ in beats]
    print(f"{name}: beats {1000 * error:.1f} ms from when they are due (median), late by {late} ms")
    assert error <= 0.015
    off = attacks(concert, name, [due for due, _ in concert.cancelled])
    if name != "scsynth" and off:  # scsynth cannot cancel what was sent
        assert np.median([rise for _, rise in off]) < 0.3 * np.median([rise for _, rise in beats])


@jack
@pytest.mark.slow
def test_receivers_fall_silent_at_a_panic_and_without_input(concert: Concert, name: str) -> None:
    assert peak(concert, name, concert.panic - 0.5, concert.panic) > -30
    assert peak(concert, name, concert.panic + 1.0, concert.resumed) < -55
    # It holds the last values for 2 s, then fades.
    assert peak(concert, name, concert.killed + 1.0, concert.killed + 1.5) > -40
    assert peak(concert, name, concert.killed + 3.0, concert.killed + 3.4) < -55


@jack
@pytest.mark.slow
def test_receivers_log_no_errors(concert: Concert, name: str) -> None:
    lines = [line for line in concert.recordings[name].log.splitlines() if not HARMLESS.search(line)]
    assert not [line for line in lines if re.search(r"(?i)error|fail|exception|illegal|couldn't|can't", line)]


@jack
@pytest.mark.slow
def test_receivers_connect_to_the_outputs_at_another_rate(tmp_path: Path, name: str) -> None:
    with jack_server(44_100) as server, closing(Player(name, tmp_path, server)) as player:
        player.wait()
        environment = {**os.environ, "JACK_DEFAULT_SERVER": server}

        def listed() -> str:
            return run_jack_tool(environment, "jack_lsp", "-c").stdout

        wait_for(
            lambda: re.search(r"^ +system:playback_1$", listed(), re.M),
            20.0,
            f"{name}: {player.output()[-2000:]}",
        )


@pytest.mark.slow
@pytest.mark.skipif(bool(missing("supercollider")), reason="sclang is not installed")
def test_the_compiled_synth_matches_its_source(tmp_path: Path) -> None:
    from support.concert import ENVIRONMENT

    source = shutil.copy(FOLDERS / "scsynth" / "anticip.scd", tmp_path)
    subprocess.run(
        ["sclang", source],
        env={**ENVIRONMENT, "HOME": str(tmp_path)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    made = (tmp_path / "anticip.scsyndef").read_bytes()
    assert made == (FOLDERS / "scsynth" / "anticip.scsyndef").read_bytes()
