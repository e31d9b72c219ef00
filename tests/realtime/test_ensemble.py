"""Relations of performers: who leads, by how much, and whether they are in sync at all."""

import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.wire import arrived, port_of, udp

from pyanticip import load_motion
from pyanticip._core import Ensemble, FrontOutput
from pyanticip.errors import MotionError, ShapeError
from realtime.bench.performer import sway
from realtime.clock import MonotonicClock
from realtime.multi_show import open_multi_show
from realtime.rig import parse_rig
from realtime.sinks import ensemble as ensemble_module
from realtime.sinks.base import ControlFrame
from realtime.sinks.config import OscConfig
from realtime.sinks.ensemble import EnsembleOut
from realtime.sinks.osc import open_wire
from realtime.sockets import free_port

F32 = npt.NDArray[np.float32]
Body = tuple[F32, F32]


class EnsembleValues(NamedTuple):
    """The values of :meth:`Ensemble.step`; by default, those without performers."""

    synchrony: float = 0.0
    leader: int = -1
    lag_ms: float = 0.0
    trust: float = 0.0
    distance: float = -1.0
    posture: float = 0.0


def frame(number: int, pose: F32, root: F32) -> FrontOutput:
    features, poses = np.zeros((1, 279), np.float32), pose[None]
    place = tuple(root.tolist())
    return FrontOutput(
        features,
        poses,
        [0.0] * 7,
        seq=number,
        root=place,
        t_source_ns=0,
        t_local_ns=0,
        expected_ns=0,
        late_ns=0,
    )


def test_a_frame_of_what_is_no_body_is_refused_and_what_is_handed_out_is_nobody_s_to_change() -> None:
    body, place = np.tile(np.array([1, 0, 0, 0], np.float32), (22, 1)), np.zeros(3, np.float32)
    for wrong in (np.nan, 1e8, 0.0):
        with pytest.raises(ShapeError, match="poses: expected finite unit quaternions"):
            frame(0, body * np.float32(wrong), place)
    with pytest.raises(ShapeError, match="root must be finite"):
        frame(0, body, place * np.float32(np.nan))
    for array in (frame(0, body, place).features, frame(0, body, place).poses):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0.5


@cache
def take(file: Path) -> Body:
    clip = load_motion(file).retarget("humanoid").resample(50.0)
    return clip.quats.astype(np.float32), clip.root.astype(np.float32)


def swaying(frames: int, seed: int) -> Body:
    return sway(frames, 22, seed=seed), np.ones((frames, 3), np.float32)


def play(*bodies: Body) -> npt.NDArray[np.float64]:
    """One row of :class:`Together` per step."""
    ensemble = Ensemble(len(bodies))
    found: list[tuple[float, ...]] = []
    for n in range(min(len(quats) for quats, _ in bodies)):
        for who, (quats, root) in enumerate(bodies):
            ensemble.push(who, frame(n, quats[n], root[n]))
        found.append(ensemble.step())
    return np.array(found)


def column(rows: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.float64]:
    return rows[:, EnsembleValues._fields.index(name)]


def delayed(body: Body, frames: int) -> Body:
    return body[0][:-frames], body[1][:-frames]


def advanced(body: Body, frames: int) -> Body:
    return body[0][frames:], body[1][frames:]


@settings(max_examples=12)
@given(seed=st.integers(0, 1000), lag=st.integers(2, 40), swap=st.booleans())
def test_who_does_the_same_earlier_leads_by_that_time(seed: int, lag: int, swap: bool) -> None:
    body = swaying(350, seed)
    bodies = [advanced(body, lag), delayed(body, lag)]
    rows = play(*(reversed(bodies) if swap else bodies))[200:]
    assert (column(rows, "leader") == int(swap)).all()
    np.testing.assert_allclose(column(rows, "lag_ms"), 20.0 * lag, atol=40.0)
    assert (column(rows, "trust") > 0.5).all()


@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_everything_is_of_the_past_and_within_its_range(seed: int) -> None:
    one, other = swaying(160, seed), swaying(160, seed + 1)
    whole = play(one, other)
    changed = one[0].copy()
    changed[120:] = swaying(160, seed + 2)[0][120:]
    np.testing.assert_array_equal(play((changed, one[1]), other)[:120], whole[:120])
    for name in ("synchrony", "trust"):
        assert ((column(whole, name) >= 0.0) & (column(whole, name) <= 1.0)).all()
    assert np.isfinite(whole).all()


def test_a_slow_receiver_is_told_of_all_together_as_seldom_as_of_one() -> None:
    quats, root = swaying(60, 3)
    with udp() as fast, udp() as slow:
        targets = [OscConfig(port=port_of(fast)), OscConfig(port=port_of(slow), max_rate=1)]
        out = EnsembleOut(targets, 1)
        for n in range(60):
            told = ControlFrame(n, 0.02 * n, (0.0,) * 7, (0.0,) * 8, t_ns=n * 20_000_000)
            told.body = frame(n, quats[n], root[n])
            out.sinks[0].send(told)
        out.on_sink_closed()
        assert len(list(arrived(fast))) == 59
        assert 1 <= len(list(arrived(slow))) <= 3


def test_the_same_at_once_is_unison_and_nobody_leads() -> None:
    body = swaying(300, 3)
    last = EnsembleValues(*play(body, body, body)[-1])
    assert last.synchrony > 0.95
    assert (last.leader, last.lag_ms, last.distance) == (-1, 0.0, 0.0)
    assert last.posture < 1e-3


def test_who_stands_still_is_with_nobody() -> None:
    rng = np.random.default_rng(1)
    moving, still = swaying(300, 3), swaying(300, 4)
    held = np.repeat(still[0][:1], 300, axis=0) + rng.normal(0, 1e-4, still[0].shape)
    held /= np.linalg.norm(held, axis=-1, keepdims=True)
    rows = play(moving, (held.astype(np.float32), still[1]))[150:]
    assert column(rows, "synchrony").max() < 0.2
    assert column(rows, "trust").max() < 0.1


def test_who_has_gone_does_not_count_and_is_nobody_s_like_when_back() -> None:
    one, other = swaying(400, 5), swaying(400, 6)
    ensemble, found = Ensemble(2), []
    for n in range(400):
        ensemble.push(0, frame(n, one[0][n], one[1][n]))
        if not 150 <= n < 250:
            ensemble.push(1, frame(n, other[0][n], other[1][n] * 0.0))
        found.append(EnsembleValues(*ensemble.step()))
    assert found[200] == EnsembleValues()
    assert found[100].distance == -1.0, "a position of zeros means unknown"
    assert max(row.trust for row in found[250:300]) < 0.3


def clips(data_dir: Path, names: Sequence[str]) -> list[Body]:
    return [take(data_dir / "cmu" / name) for name in names]


@pytest.mark.parametrize("lag", [5, 20])
def test_a_dancer_who_follows_a_dancer(lag: int, data_dir: Path) -> None:
    for body in clips(data_dir, ["05_02.bvh", "49_09.amc", "02_05.amc"]):
        rows = play(delayed(body, lag), advanced(body, lag))[150:]
        right = (column(rows, "leader") == 1) & (np.abs(column(rows, "lag_ms") - 20.0 * lag) <= 40.0)
        assert right.mean() > 0.98


def test_a_follower_who_drags_and_hurries(data_dir: Path) -> None:
    """A copy delayed by 300 ms, varying by 80 ms over four seconds, with larger arm movements."""
    (quats, root) = clips(data_dir, ["02_05.amc"])[0]
    n = np.arange(20, len(quats))
    lag = 15.0 + 4.0 * np.sin(2.0 * np.pi * n / 200.0)
    warped = quats[np.round(n - lag).astype(int)].copy()
    warped[:, 10:, 0] *= 0.95
    warped /= np.linalg.norm(warped, axis=-1, keepdims=True)
    rows = play((quats[20:], root[20:]), (warped.astype(np.float32), root[20:]))[200:]
    assert (column(rows, "leader") == 0).all()
    # The values describe the last seconds: the delay is that of then.
    error = np.abs(column(rows, "lag_ms") - 20.0 * lag[200:])
    assert np.median(error) <= 80.0
    assert column(rows, "trust").mean() > 0.5


def test_strangers_in_different_dances_are_not_together(data_dir: Path) -> None:
    bodies = clips(data_dir, ["05_02.bvh", "49_09.amc", "02_05.amc", "14_24.amc"])
    for one, other in itertools.combinations(bodies, 2):
        rows = play(one, other)[150:]
        assert column(rows, "synchrony").mean() < 0.2
        assert (column(rows, "trust") < 0.5).all()


def test_the_order_they_are_told_in_changes_the_leader_s_number_alone(data_dir: Path) -> None:
    bodies = clips(data_dir, ["05_02.bvh", "49_09.amc"])
    bodies.append(advanced(bodies[0], 10))
    there, back = play(*bodies)[100:], play(*reversed(bodies))[100:]
    leaders = column(there, "leader")
    np.testing.assert_array_equal(np.where(leaders < 0, -1, 2 - leaders), column(back, "leader"))
    for name in ("synchrony", "lag_ms", "trust", "distance", "posture"):
        np.testing.assert_allclose(column(there, name), column(back, name), atol=1e-6)


def test_whoever_was_not_heard_for_half_a_second_is_not_there() -> None:
    one, other = swaying(120, 5), swaying(120, 6)
    ensemble, there = Ensemble(2), []
    for n in range(120):
        ensemble.push(0, frame(n, one[0][n], one[1][n]))
        if n < 60:
            ensemble.push(1, frame(n, other[0][n], other[1][n] * 3.0))
        there.append(ensemble.step() != EnsembleValues())
    # Last frame in step 59; a step counts before its values are read.
    assert there == [True] * (60 + 24) + [False] * (60 - 24)


def test_what_was_sent_is_counted_once() -> None:
    out = EnsembleOut([OscConfig(port=free_port())], 2)
    assert [bool(sink.counters()) for sink in out.sinks] == [True, False]
    assert [sink.trouble for sink in out.sinks] == ["", ""]
    out._receivers[-1][1].trouble = "no route"
    assert [sink.trouble for sink in out.sinks] == ["no route", ""]
    for sink in out.sinks:
        sink.close()


def test_a_show_that_cannot_be_opened_closes_the_ensemble_s_receivers(monkeypatch) -> None:
    opened: list[Any] = []

    def open_and_note(target: OscConfig) -> Any:
        opened.append(open_wire(target))
        return opened[-1]

    monkeypatch.setattr(ensemble_module, "open_wire", open_and_note)
    two = [{"name": "alice", "from": "10.0.0.1"}, {"name": "bob", "from": "10.0.0.2"}]
    tree = {"performer": two, "source": {"port": free_port()}, "control": {"enabled": False}}
    for more in (
        {"model": {"checkpoint": "/nowhere"}},
        {"osc": [{"port": 29000}, {"host": "no.such.host.invalid"}]},
    ):
        with pytest.raises(MotionError):
            open_multi_show(parse_rig({**tree, **more}, ""), MonotonicClock(), lambda line: None)
    assert [wire._sock for wire in opened] == [None, None]
