"""The tempo of the body, through its binding and through the live front end."""

import numpy as np
import pytest
from support.motions import datagrams

import pyanticip as pa
from pyanticip import _core


def walk(frames: int, strides: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Legs and arms that swing against each other, at this many strides a second: (T, 22, 4) and (T, 3)."""
    turn = 2.0 * np.pi * strides * np.arange(frames) / 50.0
    quats = np.zeros((frames, 22, 4), np.float32)
    quats[..., 0] = 1.0
    swings = {14: np.sin(turn), 18: -np.sin(turn), 15: 1.0 + np.cos(turn), 19: 1.0 - np.cos(turn)}
    for joint, swing in (swings | {7: -0.6 * np.sin(turn), 11: 0.6 * np.sin(turn)}).items():
        quats[:, joint, 0], quats[:, joint, 1] = np.cos(0.25 * swing), np.sin(0.25 * swing)
    root = np.tile(np.float32([0.0, 0.95, 0.0]), (frames, 1))
    return quats, root


def rows(frames: int, strides: float = 0.9) -> np.ndarray:
    quats, root = walk(frames, strides)
    return np.asarray(_core.motion_features(quats, root, np.ones(22, bool)))


def test_stream_and_batch_are_equal() -> None:
    found = rows(300)
    one, many, narrow = (_core.TempoTracker() for _ in range(3))
    stream = np.concatenate([one.push_many(row[None]) for row in found])
    np.testing.assert_array_equal(
        stream, np.concatenate([many.push_many(part) for part in np.split(found, 3)])
    )
    np.testing.assert_array_equal(stream, narrow.push_many(np.ascontiguousarray(found[:, :231])))
    assert stream[-1, 0] == pytest.approx(108.0, rel=0.03)
    assert stream[-1, 2] > 0.9


def test_rows_of_another_shape_are_refused() -> None:
    tracker = _core.TempoTracker()
    for wrong in (np.zeros((3, 280), np.float32), np.asfortranarray(rows(3)), rows(6)[::2]):
        for call in (tracker.push_many, _core.body_kinematics):
            with pytest.raises(pa.MotionError, match=r"231 or 279\) contiguous"):
                call(wrong)


@pytest.mark.parametrize("source", ["mocopi", "vmc", "msgpack"])
def test_the_front_end_s_tempo_is_that_of_its_rows(source: str) -> None:
    sent = datagrams(source, 400, motion=walk(400))
    missing = {150, 151, 152, 250}
    front, tracker = _core.LiveFront(source), _core.TempoTracker()
    for i, datagram in enumerate(sent):
        if i in missing:
            continue
        out = front.feed(datagram, i * 20_000_000)
        if out is None:
            continue
        assert out.tempo == tuple(tracker.push_many(out.features)[-1])
    assert out.tempo[0] == pytest.approx(108.0, rel=0.03)


def test_a_long_gap_keeps_the_tempo_without_trust() -> None:
    sent = datagrams("mocopi", 600, motion=walk(600))
    front = _core.LiveFront("mocopi")
    for i in range(300):
        before = front.feed(sent[i], i * 20_000_000)
    after = front.feed(sent[400], 400 * 20_000_000)
    assert after.reset
    assert before.tempo[2] > 0.9
    assert (after.tempo[0], after.tempo[2]) == (before.tempo[0], 0.0)


def test_imagining_a_frame_changes_no_state() -> None:
    sent = datagrams("mocopi", 300, motion=walk(300))
    plain, imagining = _core.LiveFront("mocopi"), _core.LiveFront("mocopi")
    for i, datagram in enumerate(sent):
        out, same = plain.feed(datagram, i * 20_000_000), imagining.feed(datagram, i * 20_000_000)
        assert out.tempo == same.tempo
        guess = imagining.imagine()
    bpm, phase, trust = out.tempo
    assert guess.tempo == (bpm, pytest.approx((phase + bpm / 3000.0) % 1.0), trust)
