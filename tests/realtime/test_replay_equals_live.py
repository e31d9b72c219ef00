"""What was played can be played again: the same datagrams give the same frames, whatever their pace."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pyanticip import _core
from pyanticip.motion.recording import Output, Raw, RecordingWriter, read_recording
from realtime.bench.performer import mocopi_datagrams, sway
from realtime.programs.live import replay
from realtime.rig import Rig
from realtime.sources.replay import Command, Datagram, Item, open_show

Pair = tuple[int, bytes] | Item


def mocopi(frames: int, lost: set[int] = frozenset()) -> list[Pair]:  # type: ignore[assignment]
    skeleton, datagrams = mocopi_datagrams(frames)
    return [(0, skeleton), *((n * 20_000_000, d) for n, d in enumerate(datagrams) if n not in lost)]


def vmc(frames: int) -> list[Pair]:
    quats = sway(frames, len(_core.VMC_BONES), 60.0)
    places = np.zeros((len(_core.VMC_BONES), 3), np.float32)
    return [
        (round(n * 1e9 / 60), _core.encode_frame("vmc", n, n / 60, quats[n], places)) for n in range(frames)
    ]


def msgpack(frames: int) -> list[Pair]:
    names, parents, offsets = _core.standard_skeleton("mocopi")
    skeleton = _core.encode_native_skeleton(list(names), [int(p) for p in parents], offsets, rate=120.0)
    quats = sway(frames, len(names), 120.0)
    return [
        (0, skeleton),
        *((round(n * 1e9 / 120), _core.encode_native_frame(n, n / 120, quats[n])) for n in range(frames)),
    ]


def play(
    pairs: Iterable[Pair], kind: str, path: Path, speed: float | None, jitter_ns: int = 0
) -> list[Output]:
    rng = np.random.default_rng(1)
    late = (
        p if isinstance(p, Command) else Datagram(p[0] + int(rng.integers(0, jitter_ns + 1)), *p[1:])
        for p in pairs
    )
    rig = Rig.model_validate(
        {"record": str(path), "model": {"enabled": False}, "osc": [], "control": {"enabled": False}}
    )
    replay(late, kind, rig, speed=speed, say=lambda line: None)
    return [r for r in read_recording(path) if isinstance(r, Output)]


def numbers(outputs: list[Output]) -> list[tuple[int, bytes, bytes]]:
    return [(o.seq, o.params.tobytes(), o.scalars.tobytes()) for o in outputs]


@pytest.mark.parametrize(
    ("kind", "pairs"), [("mocopi", mocopi(120)), ("vmc", vmc(120)), ("msgpack", msgpack(240))]
)
def test_every_source_plays_at_fifty_frames_a_second(kind: str, pairs: list[Pair], tmp_path: Path) -> None:
    outputs = play(pairs, kind, tmp_path / "a.anticip", None)
    seconds = len(list(pairs)) / {"mocopi": 50, "vmc": 60, "msgpack": 120}[kind]
    assert len(outputs) == pytest.approx(50 * seconds + 22, abs=4)
    assert [o.seq for o in outputs] == list(range(len(outputs)))
    assert all(np.isfinite(o.scalars).all() for o in outputs)


@pytest.mark.parametrize("kind", ["mocopi", "vmc"])
def test_arrival_jitter_changes_nothing(kind: str, tmp_path: Path) -> None:
    pairs = mocopi(150) if kind == "mocopi" else vmc(150)
    play(pairs, kind, tmp_path / "a.anticip", None)
    play(pairs, kind, tmp_path / "b.anticip", None, jitter_ns=8_000_000)
    steady, shaken = (
        [(f.seq, f.t_source_ns, f.quats.tobytes()) for f in read_recording(tmp_path / name).frames()]
        for name in ("a.anticip", "b.anticip")
    )
    assert steady == shaken, "bodies are where the sender's clock has them"


def test_a_recording_replays_as_it_was_played(tmp_path: Path) -> None:
    first = play(mocopi(150, lost={40, 41, 90}), "mocopi", tmp_path / "a.anticip", 3.0)
    kind, pairs = open_show(tmp_path / "a.anticip")
    again = play(list(pairs), kind, tmp_path / "b.anticip", None)
    assert numbers(first) == numbers(again)
    assert [o.seq for o in first] == list(range(len(first)))
    assert len(first) >= 150 + 18, "frames that are lost are bridged, and the end is a fade"


def test_a_recording_of_two_suits_replays_the_first(tmp_path: Path) -> None:
    tape = RecordingWriter(tmp_path / "a.anticip", {})
    for t, data in mocopi(5):
        tape.raw(t, "mocopi", data)
        tape.raw(t, "vmc", b"other")
    tape.close()
    kind, pairs = open_show(tmp_path / "a.anticip")
    assert kind == "mocopi"
    assert [type(p).__name__ for p in pairs] == ["Datagram"] * 6
    assert sum(isinstance(r, Raw) for r in read_recording(tmp_path / "a.anticip")) == 12


@pytest.mark.parametrize("speed", [None, 100.0])
def test_a_replay_tells_of_damage_and_of_what_follows_the_end(speed: float | None, tmp_path: Path) -> None:
    whole = play(mocopi(50), "mocopi", tmp_path / "a.anticip", 100.0)
    recording = (tmp_path / "a.anticip").read_bytes()
    begins, *more = recording.split(b"sony motion format")
    damaged = begins
    for n, rest in enumerate(more):
        damaged += (b"sony motion format", b"Sony motion format")[n in (20, 30, 40)] + rest
    (tmp_path / "j.anticip").write_bytes(damaged + recording)
    said: list[str] = []
    kind, items = open_show(tmp_path / "j.anticip", say=said.append)
    assert len(play(items, kind, tmp_path / "b.anticip", speed)) == pytest.approx(len(whole), abs=4)
    behind, damage = said
    assert behind == f"{tmp_path / 'j.anticip'}: what follows the end (51 datagrams) is not played"
    assert "the checksum does not hold" in damage
    # The magic of the second file is the fourth.
    assert "and 3 more such places" in damage
    # Takes of a memory are all that there are.
    _, items = open_show(tmp_path / "j.anticip", joined=True)
    assert sum(isinstance(item, Datagram) for item in items) > 51 + 45


def test_what_was_joined_a_year_later_is_not_waited_for(tmp_path: Path) -> None:
    day = 86_400 * 10**9
    for name, t_ns in (("a", 3 * day), ("b", 366 * day)):
        with RecordingWriter(tmp_path / name, t_ns=t_ns) as tape:
            tape.raw(t_ns, "mocopi", b"frame")
            # Nor does one of before change what is late.
            tape.raw(0, "mocopi", b"frame")
            tape.raw(t_ns + day, "mocopi", b"frame")
    (tmp_path / "j").write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
    said: list[str] = []
    assert [item.t_ns for item in open_show(tmp_path / "j", say=said.append)[1]] == [3 * day, 0, 4 * day]
    assert said[0] == f"{tmp_path / 'j'}: what follows a pause of more than a day (3 datagrams) is not played"
    assert len(list(open_show(tmp_path / "j", joined=True)[1])) == 6


@pytest.fixture
def clip(data_dir: Path) -> Iterator[Path]:
    return data_dir / "cmu" / "05_02.bvh"


@pytest.mark.slow
def test_a_real_dance_plays_and_uses_its_ranges(clip: Path, tmp_path: Path) -> None:
    kind, pairs = open_show(clip)
    outputs = play(list(pairs), kind, tmp_path / "a.anticip", None)
    assert len(outputs) > 400
    scalars = np.array([o.scalars for o in outputs])[100:]
    medians = np.median(scalars, axis=0)
    np.testing.assert_allclose(medians, [0.70, 0.29, 0.0, 0.35, 0.82, 0.22, 0.62], atol=0.12)
