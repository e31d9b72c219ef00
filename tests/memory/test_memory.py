"""Memory: it is causal, streaming equals batch, and rehearsed movements are predicted."""

import numpy as np
import pytest

import pyanticip as pa
from pyanticip._core import TEACHER_REACH, Memory, Spotter, StepResult, teacher_parameters
from pyanticip.errors import OptionError, ShapeError
from pyanticip.memory import rehearse
from pyanticip.motion.canonical import canonical_skeleton

MODEL_SAYS = np.random.default_rng(0).uniform(0.0, 1.0, (2000, 8, 5)).astype(np.float32)


@pytest.fixture
def known(move):
    return rehearse([("first", move(400, seed=1))], capacity=2000)


def at_tempo_one(frames, trust=1.0):
    """Places of who does take 0 again as it was rehearsed."""
    return [(0, t / 50, 1.0, trust) for t in range(frames)]


def test_pushing_one_by_one_is_pushing_all(move):
    quats, params = move(400, seed=1).astype(np.float32), MODEL_SAYS[:400].copy()
    params[100:120] = np.nan
    places = np.array(at_tempo_one(400))
    places[60:90] = -1.0, np.nan, np.nan, 0.0
    again = [rehearse([("first", quats)], capacity=2000) for _ in range(2)]
    whole = again[0].push_many(quats, params, places)
    for t in range(400):
        known = None if places[t, 0] < 0 else (0, *places[t, 1:].tolist())
        said = params[t] if np.isfinite(params[t]).all() else None
        for one, all_of_them in zip(again[1].push(quats[t], said, known), whole, strict=True):
            assert np.array_equal(one, all_of_them[t])


def test_what_was_rehearsed_at_the_place_is_known_ahead(move):
    quats = move(400, seed=1)
    truth = teacher_parameters(quats)
    ahead = np.stack([np.roll(truth, -h, 0) for h in (5, 10, 20)], -1)[60:370]

    def error(places, take=quats):
        mixed, _ = rehearse([("first", take)], capacity=2000).push_many(quats, MODEL_SAYS[:400], places)
        return np.abs(mixed[60:370, :, 2:] - ahead).mean()

    placed = error(at_tempo_one(400))
    assert placed < 0.7 * error(None)
    assert error(at_tempo_one(400, trust=0.0)) == error(None)
    assert error([(0, t / 50 + 1.0, 1.0, 1.0) for t in range(400)]) > 1.05 * placed


@pytest.mark.parametrize(
    "place",
    [
        (7, 2.0, 1.0, 1.0),
        (0, -1.0, 1.0, 1.0),
        (0, 1e300, 1.0, 1.0),
        (0, 2.0, np.nan, 1.0),
        (0, 2.0, 1.0, np.nan),
    ],
)
def test_a_place_that_was_not_rehearsed_says_nothing(move, place):
    quats = move(200, seed=1)
    with_it, without = (rehearse([("first", quats)], capacity=2000) for _ in range(2))
    for t in range(200):
        mixed = with_it.push(quats[t], MODEL_SAYS[t], place)[0]
        assert np.array_equal(mixed, without.push(quats[t], MODEL_SAYS[t])[0])


@pytest.mark.parametrize("change", [130, 260])
def test_what_comes_changes_nothing_that_was_said(move, known, change):
    one, other = move(400, seed=3), move(400, seed=3)
    other[change:] = move(400, seed=4)[change:]
    params = MODEL_SAYS[:400].copy()
    first = known.push_many(one, params)
    params[change:] = 0.5
    second = rehearse([("first", move(400, seed=1))], capacity=2000).push_many(other, params)
    for before, after in zip(first, second, strict=True):
        assert np.array_equal(before[:change], after[:change])
        assert not np.array_equal(before[change:], after[change:])


def test_a_moment_is_learned_when_all_that_followed_is_known(move):
    """A moment needs what the teacher says of the frame 20 later, which comes TEACHER_REACH frames after."""
    quats = move(400, seed=5)
    memory = Memory(2000)
    memory.push_many(quats[:120])
    assert len(memory) == 0
    memory.push_many(quats[120:121])
    last = 120 - TEACHER_REACH - 20
    assert len(memory) == (last - 25) // 2 + 1
    memory.push_many(quats[121:])
    last = 399 - TEACHER_REACH - 20
    assert len(memory) == (last - 25) // 2 + 1
    memory.reset()
    assert len(memory) == (399 - 20 - 25) // 2 + 1


def test_what_was_rehearsed_is_known_ahead(move):
    quats = move(600, seed=6)
    truth = teacher_parameters(quats)
    memory = rehearse([("piece", quats)])
    memory.learning = False
    errors = []
    for t in range(500):
        mixed, _ = memory.push(quats[t])
        if t >= 300:  # by then memory has been right for long
            errors.append([np.abs(mixed[:, 2 + i] - truth[t + h]).max() for i, h in enumerate((5, 10, 20))])
    assert np.mean(errors) < 0.02


def test_what_says_best_is_believed(move):
    """A model that always says the truth keeps its weight, one that says nonsense loses it."""
    quats = move(900, seed=7)
    truth = teacher_parameters(quats)
    right = np.stack([truth[np.minimum(np.arange(900) + h, 899)] for h in (0, 2, 5, 10, 20)], axis=2)
    mixed, trust = Memory(2000).push_many(quats, right)
    assert np.abs(mixed[600:, :, 2:] - right[600:, :, 2:]).mean() < 0.01
    assert trust[600:].mean() > 0.95
    mixed, trust = Memory(2000).push_many(quats, np.full_like(right, 0.5))
    assert trust[600:].mean() < 0.5
    assert np.abs(mixed[600:, :, 2:] - 0.5).mean() > 0.01


@pytest.mark.parametrize("params", [None, MODEL_SAYS[:300]])
def test_what_is_said_is_bounded(move, known, params):
    for amount in (0.0, 0.5, 3.0):
        mixed, trust = known.push_many(move(300, seed=8, amount=amount), params)
        for said in (mixed, trust):
            assert np.isfinite(said).all()
            assert said.min() >= 0.0
            assert said.max() <= 1.0
        known.reset()


def saying(params):
    return StepResult(params, np.zeros((2, 25)), np.zeros(7), 0.5)


def test_imagining_leaves_no_trace(move, known):
    quats = move(300, seed=9)
    other = rehearse([("first", move(400, seed=1))], capacity=2000)
    for t in range(300):
        mixed, _ = known.push(quats[t], MODEL_SAYS[t])
        assert np.array_equal(known.imagine(saying(MODEL_SAYS[t])).params, mixed)
        known.imagine(saying(MODEL_SAYS[t + 1]))
        assert np.array_equal(other.push(quats[t], MODEL_SAYS[t])[0], mixed)


def test_what_is_no_number_is_not_heard(known):
    with pytest.raises(ShapeError, match="finite"):
        known.imagine(saying(np.full((8, 5), np.nan)))


def test_a_frozen_memory_learns_nothing_and_a_cleared_one_keeps_the_rehearsal(move, known):
    before = len(known)
    known.learning = False
    known.push_many(move(400, seed=2))
    assert len(known) == before == known.rehearsed
    known.learning = True
    known.push_many(move(400, seed=2))
    assert len(known) > before
    known.clear()
    assert len(known) == before
    assert known.takes == ["first"]
    known.clear(rehearsed=True)
    assert len(known) == 0
    assert known.takes == []


def test_what_is_learned_is_what_was_played_while_it_learned(move):
    """A moment is learned 1.7 s after it was played; what counts is when that was."""
    quats, memory = move(700, seed=2), Memory(2000)
    learned = [(0, 200), (400, 500)]
    for first, last, learning in ((0, 200, True), (200, 400, False), (400, 500, True), (500, 700, False)):
        memory.learning = learning
        memory.push_many(quats[first:last])
    frames = memory.moments()[3][:, 1].tolist()
    assert frames == [n for first, last in learned for n in range(max(first, 25), last) if n % 2]
    memory.clear()
    memory.learning = True
    memory.push_many(quats[:200])
    memory.clear()
    memory.push_many(quats[200:350])
    memory.reset()
    assert memory.moments()[3][:, 1].min() == 901


def test_what_is_restored_stands_in_place_of_what_was_played(move, known):
    memory = Memory(2000)
    memory.push_many(move(300, seed=2))
    memory.restore(*known.moments())
    memory.learning = False
    memory.push_many(move(300, seed=3))
    memory.reset()
    assert (len(memory), memory.takes) == (len(known), known.takes)


def test_what_is_not_restored_leaves_what_there_was(move, known):
    takes, *arrays = known.moments()
    small = Memory(len(known) - 1)
    small.restore(takes, *(array[1:] for array in arrays))
    with pytest.raises(OptionError, match="is full"):
        small.restore(["another"], *arrays)
    with pytest.raises(ShapeError, match="keys: expected a contiguous array"):
        small.restore(["another"], np.asfortranarray(arrays[0][1:]), *(array[1:] for array in arrays[1:]))
    assert (small.takes, len(small)) == (["first"], len(known) - 1)


def test_what_the_model_says_beyond_its_range_is_not_heard(move):
    said = np.full((300, 8, 5), 0.5, np.float32)
    said[100:200] = 1e30
    said[200:] = -5.0
    mixed, _ = Memory(2000).push_many(move(300, seed=4), said)
    assert 0.0 <= mixed.min() <= mixed.max() <= 1.0


def test_the_oldest_of_what_was_played_is_forgotten_first(move):
    rehearsal = move(200, seed=1)
    memory = rehearse([("kept", rehearsal)], capacity=150)
    kept = memory.moments()
    memory.push_many(move(600, seed=2))
    takes, keys, followed, origins = memory.moments()
    room = 150 - memory.rehearsed
    assert len(memory) == 150
    assert takes == ["kept", "live 2"]
    for old, new in zip(kept[1:], (keys, followed, origins), strict=True):
        assert np.array_equal(old, new[: memory.rehearsed])
    learned = (599 - TEACHER_REACH - 20 - 25) // 2 + 1
    assert memory.forgotten == learned - room
    newest = 25 + 2 * (learned - 1)
    assert origins[memory.rehearsed :, 1].tolist() == list(range(newest - 2 * (room - 1), newest + 1, 2))


def test_a_reset_begins_a_new_take(move):
    quats = move(300, seed=3)
    memory = Memory(2000)
    memory.push_many(quats)
    memory.reset()
    memory.push_many(quats)
    memory.reset()
    takes, _, _, origins = memory.moments()
    assert takes == ["live 1", "live 2"]
    assert np.array_equal(origins[origins[:, 0] == 0, 1], origins[origins[:, 0] == 1, 1])


def test_what_is_refused(move, known):
    with pytest.raises(ShapeError, match="canonical rotations"):
        known.push(np.zeros((21, 4)))
    for wrong in (np.nan, np.inf, 0.0, 1e8):  # one of these would be in all sums for good
        with pytest.raises(ShapeError, match="finite unit quaternions"):
            known.push(np.full((22, 4), wrong))
        with pytest.raises(ShapeError, match="finite unit quaternions"):
            Spotter([(0, move(90))], [1.0]).push(np.full((22, 4), wrong))
    with pytest.raises(ShapeError, match="params"):
        known.push(move(1)[0], np.zeros((8, 4)))
    with pytest.raises(ShapeError, match="params"):
        known.push_many(move(2), np.zeros((3, 8, 5)))
    with pytest.raises(OptionError, match="capacity"):
        Memory(0)
    with pytest.raises(OptionError, match="capacity: expected a number of moments from 1, got -4"):
        rehearse([("short", move(40))], capacity=-4)
    with pytest.raises(OptionError, match="full"):
        rehearse([("long", move(400))], capacity=100)
    with pytest.raises(OptionError, match="shorter"):
        rehearse([("short", move(40))])
    with pytest.raises(OptionError, match="a take called 'twice' already"):
        rehearse([("twice", move(100)), ("twice", move(100))])
    canonical = pa.Clip(move(100).astype(np.float32), np.zeros((100, 3)), 50.0, canonical_skeleton())
    for wrong, what in (([canonical], "Clip"), (canonical, "Clip"), (["take.bvh"], "str")):
        with pytest.raises(OptionError, match=rf"pairs of a name and rotations \(T, 22, 4\), .*, got {what}"):
            rehearse(wrong)
    with pytest.raises(ShapeError, match=r"take 'nothing': canonical rotations: expected finite unit"):
        rehearse([("nothing", np.zeros((100, 22, 4)))])
    known.push_many(move(300))
    with pytest.raises(OptionError, match="before playing"):
        known.rehearse("late", move(300))
