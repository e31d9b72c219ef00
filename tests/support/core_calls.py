"""Calls of everything public in ``pyanticip._core``, as hypothesis draws them.

:data:`MAKES` has the calls of every function and every class, :data:`DOES` those of every class's methods.
Three calls in four are valid: they should pass the checks of the arguments. In the others one argument is
replaced by an invalid one (:func:`spoilt`).
"""

import atexit
import inspect
import shutil
import tempfile
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pyanticip import _core
from support import core_arrays as arrays
from support import core_controls as controls
from support import core_kernels as kernels
from support.calls import Call, Draws, call, whole
from support.core_arrays import counts, f32, numbers, rows, turns


def sounds() -> str:
    """A folder with a sound in it, for as long as this process runs."""
    folder = tempfile.mkdtemp(prefix="pyanticip-sounds-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with wave.open(f"{folder}/one.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(44_100)
        file.writeframes((8_000 * np.sin(np.arange(8_820) / 16)).astype("<i2").tobytes())
    return folder


TEXTS = st.one_of(st.sampled_from(["Hips", "Head", "joint", "", "é\0", "a" * 300]), st.text(max_size=8))
"""Names of anything."""


options = st.fixed_dictionaries(
    {
        "window": st.sampled_from([32, 33, 64]),
        "k": st.integers(2, 9),
        "stride": st.integers(1, 10),
        "horizon": st.integers(1, 12),
        "theiler": st.integers(1, 12),
        "eps_v": st.sampled_from([1e-9, 1e-4, 1.0]),
        "r0": st.sampled_from([None, 0.01, 1e-100]),
        "m": st.integers(1, 9),
        "commitment": st.just((0.4, 0.3, 0.3)),
        "ema": st.sampled_from([None, 0.5]),
        "uncertainty": st.sampled_from(["directional", "vendi"]),
        "stability": st.sampled_from(["speed", "max_jerk"]),
    }
)


def weights(joints: int) -> Draws:
    """Of each joint, or none."""
    return st.none() | st.lists(st.floats(0.1, 2), min_size=joints, max_size=joints)


def limits(joints: int) -> Draws:
    """Of each joint, or none."""
    row = st.tuples(st.just(0.0), st.just(1.0), st.just(0.0), *[st.floats(0.1, 4.0)] * 3).map(list)
    return st.none() | st.lists(row, min_size=joints, max_size=joints)


def pose_batch() -> Draws:
    """The arguments of ``pose_scalars``."""
    given = st.tuples(counts, st.integers(1, 4))
    return given.flatmap(
        lambda n: st.tuples(
            turns(*n, odd=True), options, st.booleans(), weights(n[1]), st.none() if n[0] else limits(n[1])
        )
    )


def vector_batch() -> Draws:
    """The arguments of ``vector_scalars``."""
    shapes = st.sampled_from([(2,), (7, 3), (2, 40, 5), (0, 4), (3, 0, 2)])
    return shapes.flatmap(lambda shape: st.tuples(numbers(*shape, odd=True), options, st.booleans()))


names22 = st.just(list(_core.CANONICAL_JOINTS))
bodies = st.sampled_from(["mocopi", "vmc", "xsens", "rokoko", "axis", "humanoid"])


@st.composite
def skeletons(draw: DrawFn) -> list[Any]:
    """Names, parents and offsets: a standard body's, mostly, or a chain of anything."""
    if draw(st.integers(0, 3)):
        found, parents, offsets = _core.standard_skeleton(draw(bodies))
        return [found, parents, offsets]
    joints = draw(st.integers(1, 6))
    texts = draw(st.lists(TEXTS, min_size=joints, max_size=joints))
    return [texts, np.arange(-1, joints - 1), draw(numbers(joints, 3))]


def bone(*more: Draws) -> Draws:
    """A standard body and, for each of its joints, more."""
    return skeletons().flatmap(lambda found: st.tuples(*map(st.just, found), *more))


JOINTS = {"mocopi": 27, "vmc": 55, "xsens": 23, "rokoko": 21, "axis": 59}
seqs = st.integers(0, 2**32 - 1)
times = st.one_of(st.floats(0, 1e6), st.just(0.0))


def sent(kind: str) -> Draws:
    """Rotations and positions of a frame."""
    return st.tuples(turns(JOINTS[kind]), numbers(JOINTS[kind], 3))


SEEDS = Path(__file__).parents[2] / "rust" / "anticip-wire" / "fuzz" / "seeds"
PACKETS = {
    folder.name: [file.read_bytes() for file in sorted(folder.iterdir())] for folder in SEEDS.iterdir()
}
"""Datagrams of every protocol: the seeds of the parsers' fuzzers."""


@st.composite
def datagrams(draw: DrawFn, kind: str | None = None) -> bytes:
    """A datagram of a protocol; damaged half the time."""
    data = draw(st.sampled_from(PACKETS[kind or draw(st.sampled_from(sorted(PACKETS)))]))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        piece = draw(st.binary(max_size=6))
        data = data[:at] + piece + data[at + draw(st.integers(0, 8)) :]
    return data


canonical = st.tuples(counts).flatmap(lambda n: st.tuples(turns(*n, 22), numbers(*n, 3)))
masks = st.lists(st.booleans(), min_size=22, max_size=22)
tables = st.tuples(st.integers(1, 4)).flatmap(lambda n: st.tuples(turns(*n), numbers(*n, 3)))
poses = st.tuples(counts, st.integers(1, 4)).flatmap(lambda n: st.tuples(turns(*n), numbers(n[0], 3)))
rates = st.sampled_from([24.0, 50.0, 59.94, 120.0])
jitter = st.none() | st.lists(st.floats(0, 0.2), min_size=22, max_size=22)
taught = st.integers(15, 40).flatmap(lambda n: turns(n, 22))
params = numbers(8, 5).map(np.abs) | st.none()
places = st.none() | st.tuples(st.integers(0, 2), times, st.floats(0, 2), st.floats(0, 1))

voices = st.sampled_from(sorted(_core.PRESETS))

MAKES: dict[str, SearchStrategy[Call]] = {
    "pose_scalars": whole(pose_batch()),
    "vector_scalars": whole(vector_batch()),
    "guess_joints": whole(bone()),
    "t_pose_deviation": whole(bone(st.none())),
    "standard_skeleton": call(bodies),
    "expand": whole(bodies.flatmap(lambda name: canonical.map(lambda given: (name, *given)))),
    "resample": whole(poses.flatmap(lambda given: st.tuples(*map(st.just, given), rates, rates))),
    "motion_features": canonical.flatmap(
        lambda given: call(*map(st.just, given), masks, window=st.sampled_from([32, 64]))
    ),
    "body_kinematics": call(rows()),
    "solve_trackers": whole(
        st.integers(1, 5).flatmap(
            lambda n: st.tuples(
                st.lists(
                    st.sampled_from(["hips", "head", "LeftHand", "foot_r", "wand"]), min_size=n, max_size=n
                ),
                st.builds(lambda a: np.stack([a, a]), turns(n)),
                st.builds(lambda a: np.stack([a, a]), numbers(n, 3)),
            )
        )
    ),
    "complete_body": whole(st.tuples(canonical.map(lambda given: given[0]), masks, st.none() | masks)),
    "recognise": call(datagrams()),
    "encode_mocopi_skeleton": whole(
        st.integers(1, 40).flatmap(lambda n: st.tuples(st.just([-1, *range(n - 1)]), numbers(n, 3)))
    ),
    "encode_mocopi_frame": tables.flatmap(
        lambda given: call(seqs, *map(st.just, given), stream_time=times, unix_time=st.none() | times)
    ),
    "encode_frame": st.sampled_from(["vmc", "xsens", "rokoko", "axis"]).flatmap(
        lambda kind: sent(kind).flatmap(
            lambda g: call(st.just(kind), seqs, times, *map(st.just, g), rate=rates)
        )
    ),
    "encode_vrchat_frame": whole(st.integers(1, 9).flatmap(lambda n: st.tuples(turns(n), numbers(n, 3)))),
    "encode_natnet_skeleton": whole(
        st.integers(1, 40).flatmap(
            lambda n: st.tuples(
                st.just([f"j{i}" for i in range(n)]), st.just([-1, *range(n - 1)]), numbers(n, 3)
            )
        )
    ),
    "encode_natnet_frame": whole(
        tables.flatmap(
            lambda g: st.tuples(seqs, times, *map(st.just, g), st.just([-1, *range(len(g[0]) - 1)]))
        )
    ),
    "encode_native_skeleton": st.integers(1, 40).flatmap(
        lambda n: call(
            st.just([f"j{i}" for i in range(n)]),
            st.just([-1, *range(n - 1)]),
            numbers(n, 3),
            turns(n),
            rate=st.none() | rates,
        )
    ),
    "encode_native_frame": call(seqs, times, turns(22), st.none() | numbers(3)),
    "recording_header": call(),
    "recording_check": call(st.sampled_from([_core.recording_header(), b"ANTICIP\0\1\0\0\0x", b"RIFF"])),
    "recording_frame": call(st.binary(max_size=40)),
    "recording_next": call(
        st.binary(min_size=1, max_size=40).map(lambda data: _core.recording_frame(data) + data),
        st.integers(0, 60),
    ),
    "recording_find": call(
        st.binary(min_size=3, max_size=40).map(lambda data: data + _core.recording_frame(b"\x93\4" + data)),
        st.integers(0, 60),
        st.booleans(),
    ),
    "prism_scan": whole(kernels.scan()),
    "prism_places": whole(kernels.places()),
    "prism_places_backward": whole(kernels.places_backward()),
    "prism_gru": whole(kernels.gru()),
    "prism_gru_backward": whole(kernels.gru_backward()),
    "field_forward": whole(kernels.field()),
    "field_backward": whole(kernels.field_backward()),
    "field_gates": whole(kernels.gates()),
    "trajectory_encode": whole(kernels.trajectory()),
    "encode_positions": whole(kernels.positions()),
    "plan_targets": whole(kernels.plan_targets()),
    "plan_draw": whole(kernels.plans()),
    "plan_products": whole(kernels.plan_rows(False)),
    "plan_spread": whole(kernels.plan_rows(True)),
    "scalar_mapping": call(controls.scalars),
    "stretched": call(controls.shares, controls.ends),
    "teacher_parameters": call(counts.flatmap(lambda n: turns(3 * n, 22))),
    # --- classes ---
    "Samples": call(st.sampled_from([sounds(), "/nowhere"]), st.sampled_from([44_100.0, 48_000.0])),
    "Voice": call(
        st.sampled_from([8_000.0, 48_000.0]),
        seed=st.integers(0, 2**64 - 1),
        preset=st.none() | voices,
        tonic=st.floats(24, 60),
        scale=st.none() | st.sampled_from([list(scale) for scale in _core.SCALES.values()]),
        just=st.booleans(),
        a4=st.floats(400, 480),
        chords=st.lists(st.tuples(*[st.floats(-12, 12)] * 3), max_size=8),
    ),
    "PoseStream": whole(
        st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), options, weights(n), limits(n)))
    ),
    "VectorStream": call(st.integers(1, 6), options),
    "Retargeter": whole(bone()),
    "Resampler": call(
        st.integers(1, 4), rates, max_gap=st.sampled_from([25, 0, 3, None]), curved=st.booleans()
    ),
    "TempoTracker": call(),
    "Ensemble": call(st.integers(1, 4)),
    "LiveFront": call(
        st.sampled_from(_core.PROTOCOLS), window=st.sampled_from([32, 64]), steady=st.booleans(), noise=jitter
    ),
    "OscBundle": call(
        st.just(bytes(32)),
        st.none() | st.integers(0, 28),
        st.lists(st.tuples(st.integers(0, 28), st.integers(0, 2), st.integers(0, 3)), max_size=5),
    ),
    "StepResult": call(
        controls.forecasts,
        controls.chances,
        f32(7),
        controls.shares,
        hidden=st.none() | f32(9),
        field=st.none() | f32(3, 2),
    ),
    "MotionStream": arrays.motion_model().map(lambda made: Call((made[0],), made[1])),
    "Follower": call(st.lists(taught, min_size=1, max_size=2)),
    "Cues": call(st.lists(st.tuples(st.integers(0, 2), times, st.floats(0, 2)), max_size=5)),
    "Spotter": st.integers(1, 2).flatmap(
        lambda n: call(
            st.tuples(*[taught.map(lambda take, i=i: (i, take)) for i in range(n)]).map(list),
            st.lists(st.floats(0.001, 5), min_size=n, max_size=n),
            at=st.floats(0.1, 0.8),
        )
    ),
    "EventRule": controls.rules.flatmap(
        lambda given: call(
            *[st.lists(controls.shares, min_size=2, max_size=2)] * 2,
            **{name: st.just(value) for name, value in given.items()},
        )
    ),
    "Shaper": call(controls.shapes),
    "Lead": call(controls.ways, controls.lags, sound_ms=controls.leads, delay_ms=controls.leads),
    "PerformerRange": call(controls.known, frozen=st.booleans()),
    "Desk": call(*controls.desk_parts),
    "FrontOutput": call(*controls.completed, **controls.moments),
    "Engine": call(
        controls.fronts, controls.desks, controls.desks, controls.times, st.none() | st.floats(0, 100)
    ),
    "Decoder": call(st.sampled_from(_core.PROTOCOLS)),
    "CausalTwins": call(st.lists(st.floats(0, 1), max_size=4), motion_delay_s=st.floats(0, 0.2)),
    "Memory": call(st.integers(1, 4000)),
}
"""What every function and class is called with."""

frames = counts.flatmap(lambda n: turns(n, 22))
index = st.integers(0, 1)
shares = st.floats(0, 1)

DOES: dict[str, dict[str, SearchStrategy[Call]]] = {
    "Samples": {"any": call(st.sampled_from([sounds(), "/nowhere"]))},
    "Voice": {
        "preset": call(voices),
        "set": call(st.integers(0, 7), shares),
        "params": call(f32(8)),
        "event": call(index, shares, st.floats(0, 0.1)),
        "gain": call(shares),
        "tempo": call(st.floats(20, 400), shares),
        "limb": call(st.integers(0, 3), shares, shares, shares),
        "fade": call(shares, st.floats(0, 1)),
        "render": call(st.integers(0, 3000)),
    },
    "Ensemble": {"push": call(index, controls.outs), "step": call()},
    "TempoTracker": {"push_many": call(rows())},
    "LiveFront": {
        "feed": call(datagrams(), st.integers(0, 2**40), st.sampled_from(["", "a:1", "b:2"])),
        "imagine": call(),
        "prewarm": call(),
        "counters": call(),
        "senders": call(),
        "listen_to": call(st.none() | TEXTS),
        "reset": call(),
    },
    "StepResult": {},
    "OscBundle": {
        "pack": call(
            st.integers(-(2**31), 2**31 - 1),
            st.lists(st.lists(st.floats(), max_size=3), max_size=3),
            st.lists(st.tuples(st.binary(max_size=8), st.lists(st.floats(), max_size=3)), max_size=3),
        )
    },
    "MotionStream": {
        "step": call(rows()),
        "new_stream": call(),
        "imagine": call(rows(1)),
        "prewarm": call(),
        "reset": call(),
        "snapshot": call(),
    },
    "Follower": {
        "arm": call(st.just(_core.Cues([])), st.lists(st.none() | st.integers(0, 5), max_size=3)),
        "poses": call(index),
        "push_many": call(frames),
    },
    "Cues": {"push": call(places), "passed": call(st.integers(0, 5))},
    "Spotter": {"push": call(turns(22)), "push_many": call(frames), "reset": call()},
    "EventRule": {
        "step": call(controls.hazards, controls.shares, controls.leads, controls.spans),
        "reset": call(),
    },
    "Shaper": {"__call__": call(controls.shares), "reshape": call(controls.shapes)},
    "Desk": {
        "play": call(
            controls.steps, controls.scalars, st.none(), controls.shares, controls.spans, st.booleans()
        ),
        "bridge": call(controls.steps, controls.spans, controls.spans),
        "set_range": call(st.none() | controls.ranges),
        "silence": call(controls.spans),
        "set_mapping": whole(controls.taught()),
        "set_shapers": call(controls.shapers, controls.shapers),
        "set_smoothing_settings": call(controls.eight, st.just([])),
        "resume": call(st.lists(st.floats(0.0, 1.0), min_size=8, max_size=8), st.just([])),
        "set_mode": call(st.sampled_from(["playing", "frozen", "stopped", "panic"])),
        "fade_out": call(controls.spans),
        "restart": call(),
    },
    "Lead": {"set_frame_age": call(st.floats()), "set_lags": call(controls.lags)},
    "PerformerRange": {
        "calibrate": call(controls.known),
        "spans": call(),
        "learn": call(controls.values, shares, controls.spans),
    },
    "FrontOutput": {},
    "FrameResult": {},
    "Engine": {
        "set_model": call(st.none(), st.none()),
        "set_memory": call(st.none() | st.builds(_core.Memory, st.just(99))),
        "set_mapping": call(st.none()),
        "feed": call(datagrams(), controls.times, TEXTS, controls.times, st.booleans(), st.booleans()),
        "hold": call(datagrams(), controls.times, TEXTS, controls.times),
        "learn": call(),
        "prewarm": call(controls.outs, controls.steps, st.none()),
        "skip": call(st.booleans()),
        "imagine": call(controls.times),
    },
    "CausalTwins": {"push": call(frames), "reset": call()},
    "Memory": {
        "push": call(turns(22), params, places),
        "push_many": whole(
            counts.flatmap(lambda n: st.tuples(turns(n, 22), numbers(n, 8, 5), numbers(n, 4) | st.none()))
        ),
        "imagine": call(controls.said),
        "reset": call(),
        "rehearse": call(TEXTS, st.integers(0, 260).flatmap(lambda n: turns(n, 22))),
        "clear": call(rehearsed=st.booleans()),
        "moments": call(st.integers(0, 90), st.none() | st.integers(0, 90)),
        "restore": whole(arrays.moments()),
    },
}
"""What can be done with one of each class."""


def does(name: str, made: Call) -> dict[str, SearchStrategy[Call]]:
    """What can be done with what was made by such a call."""
    size = made.args[0] if made.args else None
    if name in ("PoseStream", "VectorStream"):
        of = turns if name == "PoseStream" else numbers
        many = counts.flatmap(lambda n: of(n, size, odd=True))
        return {"push": call(of(size, odd=True)), "push_many": call(many), "reset": call()}
    if name == "Resampler":
        later = st.floats(0, 9) | times
        return {"push": call(later, turns(size), numbers(3))}
    if name == "Retargeter":
        moved = counts.flatmap(lambda n: st.tuples(turns(n, len(size)), numbers(n, 3)))
        taken = {"apply": whole(moved), "observe": whole(moved)}
        return {**taken, "agreement": call(counts.flatmap(lambda n: turns(n, len(size))))}
    if name == "Decoder":
        return {"feed": call(datagrams({"msgpack": "native"}.get(size, size)))}
    return DOES[name]


def functions() -> list[str]:
    """Every public function of the core."""
    return [name for name, what in _public() if inspect.isbuiltin(what)]


def classes() -> list[str]:
    """Every public class of the core."""
    return [name for name, what in _public() if inspect.isclass(what)]


def methods(name: str) -> list[str]:
    """Every public method of a class."""
    found = vars(getattr(_core, name)).items()
    shown = {name: what for name, what in found if name[0] != "_" or name == "__call__"}
    return [name for name, what in shown.items() if not inspect.isdatadescriptor(what)]


def properties(name: str) -> list[str]:
    """Every property of a class."""
    return [field for field, what in vars(getattr(_core, name)).items() if inspect.isdatadescriptor(what)]


def _public() -> Iterator[tuple[str, Any]]:
    yield from ((name, getattr(_core, name)) for name in dir(_core) if name[0] != "_")
