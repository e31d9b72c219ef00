"""A clip as the datagrams that a suit would send, for ``send``, ``replay`` and the benches."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from pyanticip import _core
from pyanticip.errors import OptionError
from pyanticip.motion.clip import Clip
from pyanticip.motion.units import check_rate

Protocol = Literal["mocopi", "vmc", "xsens", "rokoko", "axis", "natnet", "msgpack"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)

DEFAULT_RATE = 60.0
"""Default frames per second of protocols other than mocopi and msgpack; no protocol prescribes a rate.
Most VMC senders follow a 60 Hz display; MVN streams 60 Hz from Awinda and up to 240 Hz from Link."""

DEFAULT_RATES = {"mocopi": 50.0}
"""Default frames per second of other protocols. Current mocopi apps send 60, older ones 50."""

RATE_LIMITS = (1.0, 1000.0)
"""Minimum and maximum frames per second to send."""

SKELETON_SECONDS = 2.5
"""Interval at which the skeleton is sent again, in seconds; mocopi does so every few seconds."""

_NS = 1_000_000_000
# (seconds since the start, sequence number, frame of the clip) -> datagram
_Encode = Callable[[float, int, int], bytes]
# number of frames, frames per second, skeleton datagram, frame encoder
_Source = tuple[int, float, bytes | None, _Encode]


def datagrams(
    clip: Clip,
    protocol: str,
    *,
    rate: float | None = None,
    loop: bool = False,
    unix_time: float | None = None,
    first_number: int = 0,
) -> Iterator[tuple[int, bytes]]:
    """Yield ``(t_ns, datagram)``: the time to send at, in nanoseconds from the start, and the bytes.

    Args:
        clip: Any clip. It is retargeted to the canonical body, resampled and distributed over the protocol's
            bones; for "msgpack" it is sent unchanged, on its own skeleton, and the receiver does that.
        protocol: One of :data:`PROTOCOLS`; "msgpack" is this project's own.
        rate: Frames per second, 1 to 1000. Default: mocopi 50, msgpack the clip's, else 60. The msgpack
            skeleton states it.
        loop: Repeat for ever; sequence numbers and times continue.
        unix_time: mocopi: Unix seconds of the first frame, for the field ``uttm`` of newer apps; omitted if
            None.
        first_number: Number of the first frame, for protocols that have one; numbers wrap at 32 bits. Times
            start at 0.

    Raises:
        OptionError: An unknown protocol, or a rate out of range.
        SkeletonError: The clip cannot be mapped onto the canonical body.
    """
    if protocol not in PROTOCOLS:
        raise OptionError(f"protocol is one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    low, high = RATE_LIMITS
    if rate is not None and not low <= rate <= high:
        raise OptionError(f"rate must be {low:g} to {high:g} frames a second, got {rate:g}")
    if protocol == "msgpack":
        return _stream(*_native(clip if rate is None else clip.resample(rate)), loop, first_number)
    body = clip.retarget("humanoid").resample(
        DEFAULT_RATES.get(protocol, DEFAULT_RATE) if rate is None else rate
    )
    if protocol == "mocopi":
        return _stream(*_mocopi(body, unix_time), loop, first_number)
    source = _natnet(body) if protocol == "natnet" else _bones(body, protocol)
    return _stream(*source, loop, first_number)


def _stream(
    frames: int, rate: float, skeleton: bytes | None, encode: _Encode, loop: bool, first_number: int
) -> Iterator[tuple[int, bytes]]:
    next_skeleton = 0.0
    for sequence in itertools.count() if loop else range(frames):
        seconds = sequence / rate
        t_ns = round(sequence * _NS / rate)
        if skeleton is not None and seconds >= next_skeleton:
            yield t_ns, skeleton
            next_skeleton += SKELETON_SECONDS
        yield t_ns, encode(seconds, (first_number + sequence) & 0xFFFFFFFF, sequence % frames)


def _mocopi(body: Clip, unix_time: float | None) -> _Source:
    quats, positions = _expand(body, "mocopi")
    _, parents, _ = _core.standard_skeleton("mocopi")
    skeleton = _core.encode_mocopi_skeleton([int(parent) for parent in parents], positions[0])

    def encode(seconds: float, sequence: int, frame: int) -> bytes:
        return _core.encode_mocopi_frame(
            sequence,
            quats[frame],
            positions[frame],
            stream_time=seconds,
            unix_time=None if unix_time is None else unix_time + seconds,
        )

    return len(body), body.rate, skeleton, encode


def _expand(body: Clip, target: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Local rotations (T, J, 4) and positions (T, J, 3) on the standard body of a protocol."""
    quats, root = _core.expand(target, body.quats, body.root)
    _, _, offsets = _core.standard_skeleton(target)
    positions = np.tile(np.asarray(offsets, np.float32), (len(body), 1, 1))
    positions[:, 0] = root
    return quats, positions


def _bones(body: Clip, protocol: str) -> _Source:
    quats, positions = _expand(body, protocol)
    ids = None
    if protocol == "vmc":
        ids = [_core.VMC_BONES.index(name) for name in _core.standard_skeleton("vmc")[0]]

    def encode(seconds: float, sequence: int, frame: int) -> bytes:
        return _core.encode_frame(
            protocol, sequence, seconds, quats[frame], positions[frame], ids=ids, rate=body.rate
        )

    return len(body), body.rate, None, encode


def _natnet(body: Clip) -> _Source:
    """NatNet, which has no body of its own: on the canonical body."""
    names, parents, offsets = _core.standard_skeleton("humanoid")
    parent_list = parents.tolist()

    def encode(seconds: float, sequence: int, frame: int) -> bytes:
        positions = np.array(offsets, np.float32)
        positions[0] = body.root[frame]
        return _core.encode_natnet_frame(sequence, seconds, body.quats[frame], positions, parent_list)

    return len(body), body.rate, _core.encode_natnet_skeleton(names, parent_list, offsets), encode


def _native(clip: Clip) -> _Source:
    clip.retargeter()
    body = clip.skeleton
    skeleton = _core.encode_native_skeleton(
        list(body.names), body.parents.tolist(), body.offsets, body.rest, rate=clip.rate
    )

    def encode(seconds: float, sequence: int, frame: int) -> bytes:
        return _core.encode_native_frame(sequence, seconds, clip.quats[frame], clip.root[frame])

    return len(clip), clip.rate, skeleton, encode


def at_speed(clip: Clip, speed: float) -> Clip:
    """The same frames at ``speed`` times the rate; 0.01 to 100."""
    if not 0.01 <= speed <= 100.0:
        raise OptionError(f"speed must be 0.01 to 100, got {speed:g}")
    return clip if speed == 1.0 else replace(clip, rate=check_rate(clip.rate * speed))
