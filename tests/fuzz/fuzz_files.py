"""Fuzz a reader of files, guided by the edges of its code, for as long as one likes.

    python tests/fuzz/fuzz_files.py bvh|amc|c3d|npz|rig|anticip --seconds 600 [--seed 1]

Changes the trees of :mod:`support.file_trees` and keeps those that lead to lines in an order not seen before
(an edge is a line after a line of one function; Python's own tracing, so that any Python will do). Prints one
line of JSON. Stops at the first file that raises anything but a :class:`~pyanticip.errors.MotionError` of one
line, and leaves it in ``crash-NAME``.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from support.file_trees import attempt, inputs, targets  # noqa: E402

Edge = tuple[CodeType, int, int]
OURS = (str(ROOT / "pyanticip"), str(ROOT / "realtime"))


class Edges:
    """Lines that followed each other in the functions of the project."""

    def __init__(self) -> None:
        self.seen: set[Edge] = set()

    def trace(self, frame: FrameType, event: str, told: Any) -> Any:
        """As :func:`sys.settrace` has it: a function that is entered, followed line by line if it is ours."""
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            return None
        before, seen = 0, self.seen

        def line(frame: FrameType, event: str, told: Any) -> Any:
            nonlocal before
            seen.add((code, before, frame.f_lineno))
            before = frame.f_lineno
            return line

        return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=sorted(targets()))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    target, rng, edges = targets()[options.target], random.Random(options.seed), Edges()

    def run(data: bytes) -> bool:
        sys.settrace(edges.trace)
        try:
            return attempt(target, data)
        except BaseException:
            Path(f"crash-{target.name}").write_bytes(data)
            print(f"crash-{target.name}: {len(data)} bytes (seed {options.seed})", file=sys.stderr)
            raise
        finally:
            sys.settrace(None)

    kept = list(target.seeds)
    for tree in kept:
        run(target.write(tree))
    begun, count, read, first = time.monotonic(), 0, 0, len(edges.seen)
    for tree, data in inputs(target, rng, kept):
        before = len(edges.seen)
        read += run(data)
        count += 1
        if len(edges.seen) > before:
            kept.append(tree)
        if time.monotonic() - begun > options.seconds:
            break
    found = {"executions": count, "read": read, "seeds": first, "edges": len(edges.seen), "kept": len(kept)}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
