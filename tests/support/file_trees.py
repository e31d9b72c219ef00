"""Files of every format that is read in Python, as trees: what a fuzzer mutates, and how files are written.

A tree is made of lists, dicts, arrays and plain values. Text is a list of lines of words, an archive its
arrays by name, a rig its tables, a recording its records.
"""

import io
import json
import operator
import random
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from pyanticip import _core
from pyanticip.errors import MotionError
from pyanticip.motion.clip import Clip
from pyanticip.motion.load import load_motion, parse_motion
from pyanticip.motion.recording import Records, pack_header, read_recording
from realtime.rig import Rig, load_rig
from support.markers import c3d_bytes, markers_of
from support.motion_files import AMC, ASF, bvh_text
from support.odd_rigs import walker

Tree = Any


@dataclass(frozen=True)
class Target:
    """A kind of file."""

    seeds: tuple[Tree, ...]
    write: Callable[[Tree], bytes]
    read: Callable[[Path], object]
    """Reads a file; a :class:`MotionError` of one line is a valid result."""
    name: str
    """Name of the file."""


def lines(text: str) -> Tree:
    """Words, line by line."""
    return [line.split() for line in text.splitlines()]


def text(tree: Tree) -> bytes:
    """The text of such lines, whose words may have been replaced by anything."""
    joined = (" ".join(map(str, line)) if isinstance(line, list) else str(line) for line in tree)
    return "\n".join(joined).encode(errors="replace") if isinstance(tree, list) else str(tree).encode()


def _archive(tree: Tree) -> bytes:
    buffer = io.BytesIO()
    arrays = {str(name): np.asarray(value) for name, value in tree.items()} if isinstance(tree, dict) else {}
    np.savez(buffer, **{name: value for name, value in arrays.items() if value.dtype != object})
    return buffer.getvalue()


def _parameters(data: bytes) -> Tree:
    """A C3D file: header and parameter blocks byte by byte, and the frames."""
    begins = 512 * (int.from_bytes(data[16:18], "little") - 1)
    return {"told": list(data[:begins]), "frames": np.frombuffer(data[begins:], "<f4")}


def _markers(tree: Tree) -> bytes:
    return bytes(operator.index(byte) % 256 for byte in tree["told"]) + np.asarray(tree["frames"]).tobytes()


def _tables(tree: Tree) -> bytes:
    tables = tree if isinstance(tree, dict) else {"table": tree}
    return "\n".join(f"{_word(name)} = {_inline(value)}" for name, value in tables.items()).encode()


def _inline(tree: Tree) -> str:
    """A value as inline TOML."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{_word(name)} = {_inline(value)}" for name, value in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(_inline, tree)) + "]"
    return _word(tree) if isinstance(tree, str | bytes) else str(tree).lower()


def _word(value: object) -> str:
    return json.dumps(value if isinstance(value, str) else repr(value))


def _records(tree: Tree) -> bytes:
    packed = (msgpack.packb(record, use_bin_type=True) for record in (tree if isinstance(tree, list) else []))
    return _core.recording_header() + b"".join(_core.recording_frame(one) for one in packed)


def _unpacked(*records: bytes) -> Tree:
    return [msgpack.unpackb(record[8:], raw=False) for record in records]


def _plain(tree: Tree) -> Tree:
    """A rig's settings as values that TOML can hold."""
    if isinstance(tree, dict):
        return {name: _plain(value) for name, value in tree.items() if value is not None}
    if isinstance(tree, list | tuple):
        return [_plain(value) for value in tree if value is not None]
    return tree if isinstance(tree, bool | int | float | str) else str(tree)


def _sound(clip: Clip) -> Clip:
    assert np.isfinite(clip.positions()).all()
    return clip


def _motion(path: Path) -> object:
    return _sound(load_motion(path))


def _amc(path: Path) -> object:
    """Read an AMC file; the part of the bytes before ``----`` is its skeleton file."""
    skeleton, _, motion = path.read_bytes().partition(b"\n----\n")
    (path.parent / "07.asf").write_bytes(skeleton)
    return _sound(parse_motion(path, motion))


def _all(path: Path) -> object:
    recording = read_recording(path)
    return list(recording)


def _show(tape: Records) -> None:
    tape.raw(1, "mocopi@a:1", b"x" * 20)
    tape.frame(2, 0, 2, np.tile(np.float32([1, 0, 0, 0]), (22, 1)), np.zeros(3))
    tape.output(3, 0, np.zeros(8), np.zeros(7), [("onset", 0.5, 0.1)])
    tape.note(4, "a note")
    tape.control(5, "gain", [0.5])


def targets() -> dict[str, Target]:
    """Every kind of file."""
    rng = np.random.default_rng(3)
    marked = [
        c3d_bytes({name: p[:3] for name, p in markers_of(walker(1.0)).items()}, scale=k) for k in (-1.0, 0.2)
    ]
    smpl = {"poses": rng.normal(size=(4, 66)), "trans": rng.normal(size=(4, 3)), "mocap_framerate": 60.0}
    quats = np.zeros((4, 3, 4), np.float32)
    quats[..., 0] = 1
    own = {
        "quats": quats,
        "root": np.zeros((4, 3), np.float32),
        "rate": 50.0,
        "parents": np.array([-1, 0, 1]),
    }
    own |= {"names": np.array(["Hips", "Spine", "Head"]), "offsets": np.ones((3, 3))}
    header = pack_header(0, {"unix_ns": 1, "skeleton": None, "rig": {}, "model": None})
    records = _unpacked(header, *packed(_show))
    return {
        "bvh": Target((lines(bvh_text()),), text, lambda p: _sound(parse_motion(p, p.read_bytes())), "c.bvh"),
        "amc": Target(([*lines(ASF), ["----"], *lines(AMC)],), text, _amc, "07_01.amc"),
        "npz": Target((smpl, own), _archive, _motion, "c.npz"),
        "c3d": Target(tuple(map(_parameters, marked)), _markers, _motion, "c.c3d"),
        "rig": Target((_plain(Rig().model_dump(mode="json")), {}), _tables, load_rig, "rig.toml"),
        "anticip": Target((records,), _records, _all, "c.anticip"),
    }


WORDS: list[Any] = [
    *(0, 1, -1, 2**31, 2**63 - 1, 10**30, 0.5, 1e308, float("nan"), float("inf"), True, "", "nan", "1e999"),
    *("x" * 300, "\0", "{", "}", "ROOT", "JOINT", "MOTION", "begin", "end", ":root", b"", b"\xff" * 9),
    *([], {}),
]


def changed(tree: Tree, rng: random.Random, others: list[Tree]) -> Tree:
    """The tree with a few places changed."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        tree = _one(tree, rng, others, rng.random())
    return tree


def _one(tree: Tree, rng: random.Random, others: list[Tree], stop: float) -> Tree:
    """One place changed, here or in one of the parts, which are copied, never changed in place."""
    if isinstance(tree, np.ndarray):
        return _array(tree, rng)
    if isinstance(tree, list | dict) and tree and rng.random() > 0.15:
        copy: Any = list(tree) if isinstance(tree, list) else dict(tree)
        key = rng.randrange(len(copy)) if isinstance(copy, list) else rng.choice(list(copy))
        how = rng.randrange(12)
        if how == 0:
            del copy[key]
        elif how == 1:
            other = (
                copy[rng.randrange(len(copy))] if isinstance(copy, list) else rng.choice(list(copy.values()))
            )
            copy[key] = other
        elif how == 2 and isinstance(copy, list):
            copy.insert(key, copy[key])
        elif how == 2:
            copy[f"{key}x"] = copy.pop(key)
        else:
            copy[key] = _one(copy[key], rng, others, stop)
        return copy
    if isinstance(tree, str) and rng.random() < 0.8 and re.fullmatch(r"-?\d+(\.\d+)?", tree):
        number = float(tree) if "." in tree else int(tree)
        return str(rng.choice([number + 1, -number, number * 2, 0, rng.randrange(400), rng.uniform(-1, 1)]))
    if isinstance(tree, str) and tree and rng.random() < 0.4:
        at = rng.randrange(len(tree))
        return tree[:at] + rng.choice(["", "9", "-", ".", tree[at] * 3, " "]) + tree[at + 1 :]
    if isinstance(tree, int | float) and not isinstance(tree, bool) and rng.random() < 0.5:
        return rng.choice([tree + 1, -tree, tree * 2, tree * 0.1, tree - 1])
    return rng.choice(WORDS) if stop < 0.8 else rng.choice(others)


def _array(x: Any, rng: random.Random) -> Any:
    """An array with another type or shape, or an invalid number."""
    how = rng.randrange(6)
    if how == 0:
        return x[: rng.randrange(len(x))] if x.ndim and len(x) else x
    if how == 1:
        return x.reshape(-1) if rng.random() < 0.5 else x[None]
    if how == 2 and x.dtype.kind in "fiu":
        with np.errstate(invalid="ignore", over="ignore"):
            return x.astype(rng.choice(["f2", "f8", "i4", "u1", "U4", "c8", "?"]))
    if how == 3:
        return np.concatenate([x, x]) if x.ndim else x
    if how == 4:
        return rng.choice(WORDS[:10])
    x = x.copy()
    if x.size and x.dtype.kind == "f":
        x.flat[rng.randrange(x.size)] = rng.choice([np.nan, np.inf, 0.0, -1.0, 6e4])
    elif x.size and x.dtype.kind in "iu":
        x.flat[rng.randrange(x.size)] = rng.choice([0, 1, 7, 100])
    return x


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a piece removed, doubled or overwritten."""
    at, length = rng.randint(0, len(data)), rng.randint(1, 60)
    return rng.choice(
        [
            data[:at],
            data[:at] + data[at + length :],
            data[: at + length] + data[at:],
            data[:at] + rng.randbytes(length % 7) + data[at + length % 5 :],
        ]
    )


def inputs(target: Target, rng: random.Random) -> Iterator[bytes]:
    """Endless files of mutated seeds."""
    seeds = list(target.seeds)
    while True:
        tree = changed(rng.choice(seeds), rng, seeds)
        try:
            data = target.write(tree)
        except (ValueError, TypeError, OverflowError, KeyError, AttributeError):
            continue  # no such file can be written
        yield damaged(data, rng) if rng.random() < 0.4 else data


def attempt(target: Target, data: bytes) -> bool:
    """Whether the bytes were read; False: refused in one line. Anything else is raised."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / target.name
        path.write_bytes(data)
        try:
            target.read(path)
        except MotionError as error:
            if "\n" in str(error):
                raise ValueError("an error of more than one line") from error
            return False
    return True


class _Packed(Records):
    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def _put(self, record: bytes) -> None:
        self.kept.append(record)


def packed(write: Callable[[Records], object]) -> list[bytes]:
    """The records that were written, one by one."""
    tape = _Packed()
    write(tape)
    return tape.kept
