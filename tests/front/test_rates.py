"""Rates that no protocol fixes: a moving arm, by an encoder of the test, is on the grid at its time."""

import numpy as np
import pytest
from support.stranger import FRAMES, LEFT_UPPER_ARM, msgpack_skeleton, vmc_pose

from pyanticip import _core

RATES = [24.0, 30.0, 50.0, 60.0, 90.0, 120.0, 240.0]
COVERED = [
    # every protocol below, at or near, and above the rate of the grid
    *(("msgpack", rate) for rate in RATES),
    *(("vmc", rate) for rate in (24.0, 60.0, 120.0)),
    *(("xsens", rate) for rate in (30.0, 50.0, 240.0)),
    *(("rokoko", rate) for rate in (30.0, 60.0, 90.0)),
]
SPEED = 0.5  # rad/s
LEFT_UPPER = LEFT_UPPER_ARM["msgpack"]  # the canonical body's


def lowered(out):
    """Angle by which the canonical left upper arm is lowered, in radians."""
    w, x, y, z = out.poses[-1][LEFT_UPPER]
    assert abs(x) < 1e-5
    assert abs(y) < 1e-5
    return -2 * np.arctan2(z, w)


def stream(kind, rate, seconds=3.0, first_number=0, loss=0.0, jitter_ms=0.0):
    """(arrival in ns, datagram) of an arm that sinks at SPEED; the first frame always arrives,
    immediately."""
    chance = np.random.default_rng(7)
    arrived = 0
    for i in range(round(seconds * rate) + 1):
        late = abs(chance.normal(0.0, jitter_ms * 1e6)) if i else 0.0
        arrived = max(arrived + 1, round(i * 1e9 / rate + late))
        if i and chance.random() < loss:
            continue
        yield arrived, FRAMES[kind](first_number + i, i / rate, SPEED * i / rate)


def assert_on_the_grid(outs, seconds=3.0, since=0.0):
    received = [out for out in outs if out is not None]
    first = received[0].t_source_ns
    for out in (out for out in received if out.t_source_ns - first >= since * 1e9):
        at = (out.t_source_ns - first) / 1e9
        assert at == pytest.approx(out.seq * 0.02, abs=0.002)
        assert lowered(out) == pytest.approx(SPEED * at, abs=0.002)
    assert [out.reset for out in received] == [True] + [False] * (len(received) - 1)
    assert received[-1].seq == pytest.approx(50 * seconds, abs=3)


@pytest.mark.parametrize(("kind", "rate"), [*COVERED, ("axis", 24.0), ("axis", 50.0), ("axis", 90.0)])
def test_an_arm_is_on_the_grid_at_its_time(kind, rate):
    front = _core.LiveFront(kind, window=64)
    assert_on_the_grid([front.feed(datagram, t_ns) for t_ns, datagram in stream(kind, rate)])


# Axis sends no times, only arrivals are known.
@pytest.mark.parametrize(("kind", "rate"), COVERED)
def test_jitter_loss_and_wrapping_numbers_move_nothing(kind, rate):
    front = _core.LiveFront(kind, window=64)
    sent = stream(kind, rate, first_number=2**32 - 40, loss=0.01, jitter_ms=3.0)
    assert_on_the_grid([front.feed(datagram, t_ns) for t_ns, datagram in sent])


def test_forward_and_left_in_unity_are_forward_and_left_here():
    """Unity: a turn by +30 degrees about x bows forward; -x is the avatar's left."""
    bow = np.radians(30.0)
    turn = (np.sin(bow / 2), 0.0, 0.0, np.cos(bow / 2))
    front = _core.LiveFront("vmc", window=64)
    out = front.feed(vmc_pose(1.0, {"Spine": turn}, (-0.1, 0.95, 0.3)), 0)
    w, x, y, z = out.poses[-1][1]
    # Right-handed, facing +z: forward takes y to z, a positive turn about x.
    np.testing.assert_allclose([2 * np.arctan2(x, w), y, z], [bow, 0, 0], atol=1e-5)
    np.testing.assert_allclose(out.root, [0.1, 0.95, 0.3], atol=1e-6)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(("first_number", "loss", "jitter_ms"), [(0, 0.0, 0.0), (2**32 - 40, 0.01, 3.0)])
def test_mocopi_of_any_rate_is_on_the_grid_at_its_times(rate, first_number, loss, jitter_ms):
    front = _core.LiveFront("mocopi", window=64)
    sent = stream("mocopi", rate, first_number=first_number, loss=loss, jitter_ms=jitter_ms)
    assert_on_the_grid([front.feed(datagram, t_ns) for t_ns, datagram in sent])
    assert (front.counters()["lost"] > 0) == (loss > 0)


@pytest.mark.parametrize("declared", [24.0, 50.0, 240.0])
def test_a_wrong_declared_rate_has_no_effect_after_a_second(declared):
    names, parents, offsets = _core.standard_skeleton("humanoid")
    front = _core.LiveFront("msgpack", window=64)
    front.feed(msgpack_skeleton(declared, list(names), [int(p) for p in parents], offsets), 0)
    assert_on_the_grid([front.feed(datagram, t_ns) for t_ns, datagram in stream("msgpack", 60.0)], since=1.0)


@pytest.mark.parametrize(
    ("kind", "rate"),
    [("mocopi", 24.0), ("mocopi", 60.0), ("vmc", 30.0), ("vmc", 90.0), ("msgpack", 50.0), ("msgpack", 240.0)],
)
def test_the_next_frame_is_extrapolated(kind, rate):
    front, alone = _core.LiveFront(kind, window=64), _core.LiveFront(kind, window=64)
    assert front.imagine() is None
    # Imagining a frame changes no state: the other front end has not done it.
    for t_ns, datagram in stream(kind, rate):
        out, other = front.feed(datagram, t_ns), alone.feed(datagram, t_ns)
        assert (out is None) == (other is None)
        if out is not None:
            np.testing.assert_array_equal(out.features, other.features)
        guess = front.imagine()
        if out is None or out.seq < 3:
            continue
        assert (guess.seq, guess.features.shape, guess.reset) == (out.seq + 1, (1, 279), False)
        assert guess.t_source_ns == pytest.approx(out.t_source_ns + 20_000_000, abs=2)
        # Times that are taken for the grid's are up to 1 ms off, of which the speed is made.
        assert lowered(guess) == pytest.approx(SPEED * guess.seq * 0.02, abs=0.003)
        np.testing.assert_array_equal(guess.features, front.imagine().features)


@pytest.mark.parametrize(("rate", "at_once"), [(50.0, 0.0), (60.0, 0.4), (30.0, 1.0)])
def test_a_grid_frame_is_sent_early_if_its_next_datagram_is_far(rate, at_once):
    """A grid frame long before the next datagram is sent at its own time; others wait for the datagram."""
    front = _core.LiveFront("mocopi", window=64)
    shares, waits = [], []
    for t_ns, datagram in stream("mocopi", rate, seconds=6.0):
        out = front.feed(datagram, t_ns)
        if out is not None and t_ns > 1e9:
            due = out.t_local_ns + 20_000_000
            waits.append(out.late_ns - due)
            shares.append(waits[-1] < 1_000_000)
    assert max(waits) < 19e6, "10 ms, and the datagram's own lateness"
    assert np.mean(shares) == pytest.approx(at_once, abs=0.15)


@pytest.mark.parametrize("kind", ["vmc", "rokoko"])
@pytest.mark.parametrize("step", [0.5, -0.5])
def test_setting_an_unnumbered_clock_causes_no_jump_and_no_reset(kind, step):
    front = _core.LiveFront(kind, window=64)
    outs = []
    for i in range(240):
        t = i / 60
        sent_s = 100.0 + t + (step if i >= 120 else 0.0)
        outs.append(front.feed(FRAMES[kind](i, sent_s, SPEED * t), round(t * 1e9)))
    received = [out for out in outs if out is not None]
    assert [out.seq for out in received if out.reset] == [0]
    assert received[-1].seq == pytest.approx(200, abs=2)
    for out in received:
        assert lowered(out) == pytest.approx(SPEED * out.seq * 0.02, abs=0.005)
    # Two frames must pass before it is known that the clock was set back.
    assert max(len(out.poses) for out in received) <= 3
