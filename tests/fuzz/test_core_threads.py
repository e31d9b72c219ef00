"""Calls from several threads are serialised: no "already borrowed" errors, and no deadlocks."""

import sys
from collections.abc import Callable, Iterator
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.core_arrays import shipped_model
from support.core_calls import MAKES, classes, does, methods
from support.motions import swings

from pyanticip import ScalarStream, VectorStream, _core
from pyanticip.errors import MotionError

THREADS = 8


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Switch threads a hundred times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(usual)


def together(*acts: Callable[[], object]) -> None:
    """Run each act in its own thread, started together; raises the first error."""
    start, errors = Barrier(len(acts)), []

    def run(act: Callable[[], object]) -> None:
        start.wait()
        try:
            act()
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=run, args=(act,), daemon=True) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    if errors:
        raise errors[0]


BODY = swings(300, 22).astype(np.float32)
ROWS = np.random.default_rng(0).normal(size=(150, 279)).astype(np.float32)


def _model() -> Any:
    tensors, sizes = shipped_model()
    return _core.MotionStream(tensors, **sizes)


LONG: dict[str, tuple[Callable[[], Any], Callable[[Any], object], Callable[[Any], object]]] = {
    # the object, a call that releases the GIL, a call that does not
    "ScalarStream": (lambda: ScalarStream(22), lambda s: s.push_many(BODY), lambda s: s.push(BODY[0])),
    "VectorStream": (lambda: VectorStream(279), lambda s: s.push_many(ROWS), lambda s: (s.valid, s.frames)),
    "TempoTracker": (_core.TempoTracker, lambda t: t.push_many(ROWS), lambda t: t.push_many(ROWS[:1])),
    "Follower": (
        lambda: _core.Follower([BODY]),
        lambda f: f.push_many(BODY),
        lambda f: f.push_many(BODY[:1]),
    ),
    "Spotter": (
        lambda: _core.Spotter([(0, BODY[:90])], [1.0]),
        lambda s: s.push_many(BODY),
        lambda s: s.push(BODY[0]),
    ),
    "CausalTwins": (lambda: _core.CausalTwins([0.1]), lambda t: t.push(BODY), lambda t: t.reset()),
    "Memory": (lambda: _core.Memory(2000), lambda m: m.push_many(BODY), lambda m: (len(m), m.takes)),
    "MotionStream": (_model, lambda m: m.step(ROWS[:40]), lambda m: (m.reset(), m.snapshot())),
    "Voice": (_core.Voice, lambda v: v.render(9600), lambda v: (v.set(0, 0.5), v.position)),
}


@pytest.mark.parametrize("name", LONG)
def test_long_and_short_calls_are_serialised(name: str) -> None:
    make, long, short = LONG[name]
    one = make()
    together(
        *[lambda: [long(one) for _ in range(3)]] * THREADS, *[lambda: [short(one) for _ in range(100)]] * 2
    )


def test_no_frame_is_lost_between_threads() -> None:
    stream = ScalarStream(joints=22)
    together(*[lambda: stream.push_many(BODY)] * THREADS)
    assert stream.frames == THREADS * len(BODY)


@pytest.mark.parametrize("name", [name for name in classes() if methods(name)])
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_calls_from_eight_threads(name: str, data: st.DataObject) -> None:
    made = data.draw(MAKES[name])
    try:
        one, meant = getattr(_core, name)(*made.args, **made.kwargs), does(name, made)
    except MotionError:
        return
    calls = data.draw(
        st.lists(
            st.sampled_from(sorted(meant)).flatmap(lambda m: meant[m].map(lambda call: (m, call))), min_size=3
        )
    )

    def act() -> None:
        for method, call in calls:
            try:
                getattr(one, method)(*call.args, **call.kwargs)
            except MotionError:
                continue

    together(*[act] * THREADS)


def test_an_array_in_use_by_a_kernel_is_refused() -> None:
    """The kernels write into their arguments; concurrent readers get an error."""
    moves, start = np.full((8, 4, 300, 5), 0.2), np.full((8, 4, 88), 1 / 88)
    out = np.zeros((8, 4, 300, 88))
    frame, refused = out[0, 0, :1].reshape(1, 22, 4), []

    def read() -> None:
        for _ in range(300):
            try:
                _core.teacher_parameters(frame)
            except (MotionError, TypeError) as error:
                refused.append(str(error))

    together(lambda: [_core.prism_scan(moves, start, None, None, out) for _ in range(20)], read)
    assert not any("\n" in line for line in refused)
