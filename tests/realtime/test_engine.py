"""The engine: one call for a datagram gives what its parts give one by one."""

import gc
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from support.paper import SCALARS, paper_frame

from pyanticip._core import Engine, Follower, Memory, StepResult
from pyanticip.errors import OptionError, ShapeError
from realtime.mapping.mixer import Mixer

NS = 20_000_000
RNG = np.random.default_rng(5)
TAKE = np.cumsum(RNG.standard_normal((400, 22, 4)), axis=0)
TAKE = (TAKE / np.linalg.norm(TAKE, axis=2, keepdims=True)).astype(np.float32)
SAYS = RNG.random((400, 8, 5)).astype(np.float32)


class Front:
    """A front end that returns given frames."""

    def __init__(self, frames: list[Any]) -> None:
        self.frames = frames

    def feed(self, datagram: bytes, t_arrival_ns: int, sender: str) -> Any:
        return self.frames.pop(0)

    def imagine(self) -> Any:
        return self.frames.pop(0)

    def prewarm(self) -> None: ...


class Backend:
    """A model that returns a given output, or fails."""

    def __init__(self, says: list[Any]) -> None:
        self.says, self.resets = says, 0

    def reset(self) -> None:
        self.resets += 1

    def step(self, rows: Any) -> Any:
        said = self.says.pop(0)
        if isinstance(said, BaseException):
            raise said
        return step_result(said) if isinstance(said, np.ndarray) else said


def step_result(params: np.ndarray) -> StepResult:
    return StepResult(params, np.zeros((2, 25)), np.zeros(7), 0.5)


def engine(frames: list[Any], mixer: Mixer | None = None, **options: Any) -> Engine:
    return Engine(Front(frames), (mixer or Mixer()).core, Mixer().core, 0, **options)


def feed_frame(one: Engine, n: int, stepping: bool = True, stale: bool = False) -> Any:
    return one.feed(b"", n * NS, "", n * NS, stepping, stale)


def test_of_the_frames_that_fill_a_gap_the_model_says_nothing_and_the_memory_hears_all() -> None:
    frames = [paper_frame(n + 2, n == 0, 3, poses=TAKE[n : n + 3]) for n in range(0, 300, 3)]
    says = [SAYS[n] for n in range(0, 300, 3)]
    one, known, wanted = engine(frames), Memory(2000), Memory(2000)
    for memory in (known, wanted):
        memory.rehearse("first", TAKE)
    follower, places = Follower([TAKE]), Follower([TAKE])
    one.set_memory(known, follower, [0])
    one.set_model(Backend(says), None)
    wanted.reset()
    for n in range(0, 300, 3):
        received = feed_frame(one, n, stepping=n % 9 != 0)
        rows = places.push_many(TAKE[n : n + 3]).tolist()
        where = [None if take < 0 else (int(take), *found) for take, *found in rows]
        wanted.push(TAKE[n], None, where[0])
        wanted.push(TAKE[n + 1], None, where[1])
        if n % 9 == 0:
            wanted.push(TAKE[n + 2], None, where[2])
            assert received.step is None
            assert received.remembered[0] == []
        else:
            mixed, trust = wanted.push(TAKE[n + 2], SAYS[3 * (n // 3 - n // 9 - 1)], where[2])
            np.testing.assert_array_equal(received.step.params, mixed)
            assert received.remembered[0] == trust.ravel().tolist()
        assert received.remembered[1] == where[2]
        one.learn()


def test_what_goes_out_is_what_the_mixer_plays() -> None:
    frames = [paper_frame(n, n == 0) for n in range(50)]
    mixer, other = Mixer(), Mixer()
    one = engine(frames, mixer)
    one.set_model(Backend(list(SAYS[:50])), None)
    asked = []

    def mapping(out: Any, step: Any, since: float, number: int) -> None:
        asked.append((out.seq, step.params[0, 0], since, number))

    one.set_mapping(mapping)
    for n in range(50):
        received = feed_frame(one, n)
        if n == 0:
            other.core.restart()
        played = other.play(step_result(SAYS[n]), SCALARS, 0.02)
        assert received.output == (list(played[0]), list(played[1]))
        assert (received.number, received.release_ns) == (n, n * NS)
        one.learn()
    assert asked == [(n, SAYS[n, 0, 0], 0.02, n) for n in range(50)]


def test_a_model_that_fails_is_told_of_and_the_scalars_play() -> None:
    one = engine([paper_frame(n) for n in range(6)])
    says = [
        RuntimeError("out\nof paper" + 300 * "!"),
        np.full((8, 5), np.nan, np.float32),
        "no step",
        KeyboardInterrupt(),
    ]
    backend = Backend([*says, SAYS[0]])
    one.set_model(backend, None)
    for n, failure in enumerate(("RuntimeError: out of paper", "not finite", "TypeError: ")):
        received = feed_frame(one, n)
        assert failure in received.failure
        assert len(received.failure) <= 214
        assert received.step is None
        assert received.output is not None
    with pytest.raises(KeyboardInterrupt):
        feed_frame(one, 3)
    assert backend.resets == 0
    assert feed_frame(one, 4, stale=True).failure is None
    assert backend.resets == 1
    assert feed_frame(one, 5, stepping=False).step is None


DROPPED = """
import faulthandler
from pyanticip._core import Engine
from realtime.mapping.mixer import Mixer

faulthandler.dump_traceback_later(20, exit=True)
one = Engine(object(), Mixer().core, Mixer().core, 0)


class Backend:
    def __del__(self):
        one.set_mapping(None)
        one.set_memory(None)


for _ in range(2):
    one.set_model(Backend(), None)
one.set_model(None, None)
"""


def test_what_is_replaced_may_use_the_engine_while_it_goes() -> None:
    # In a process of its own, because a deadlock would hold the interpreter.
    done = subprocess.run([sys.executable, "-P", "-c", DROPPED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("part", ["mapping", "model", "front"])
def test_an_engine_that_refers_to_itself_goes_with_the_rest(part: str) -> None:
    class Owner(Front):
        def __call__(self, *told: Any) -> None: ...

    owner: Any = Owner([])
    owner.engine = engine([]) if part != "front" else Engine(owner, Mixer().core, Mixer().core, 0)
    if part == "mapping":
        owner.engine.set_mapping(owner)
    if part == "model":
        owner.engine.set_model(owner, None)
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


def test_a_frame_whose_turn_has_passed_is_not_played() -> None:
    one = engine([paper_frame(0), paper_frame(1), paper_frame(2), paper_frame(4)])
    assert feed_frame(one, 0).output is not None
    for _ in range(3):
        one.skip(False)
    assert (one.newest_slot, one.missing_frames) == (3, 3)
    assert feed_frame(one, 1).output is None
    one.due_ns = 7
    assert one.due_ns == 7
    assert one.imagine(0) is None, "the one after the newest is another"
    assert feed_frame(one, 4).output is not None


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(OptionError, match="buffer: expected 0 to 100 ms or auto"):
        engine([], buffer=101.0)
    for wrong in (b"", [5.0], "late"):
        with pytest.raises(OptionError, match=r"\Abuffer: expected 0 to 100 ms or auto\Z"):
            engine([], buffer=wrong)
    assert engine([], buffer=30.0).buffer_ms == 30.0
    one = engine([paper_frame(0)])
    one.set_mapping(lambda *told: [0.5])
    with pytest.raises(ShapeError, match="mapping: expected 0 values"):
        feed_frame(one, 0)
    with pytest.raises(ShapeError, match="poses: expected one a feature row, got 2 of 1"):
        paper_frame(0, poses=TAKE[:2])
