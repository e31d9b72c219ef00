"""Fuzz the readers of motion files for as long as one likes.

    python tests/fuzz/fuzz_motion_files.py --seconds 600 [--seed 1] [FILE ...]

Takes the given files (and small ones of its own) as seeds, damages them and reads them. With ``--atheris``
and the atheris package the damage is guided by coverage; without, it is a plain loop. Stops at the first
bytes that raise anything but a FormatError and leaves them in ``crash.bin``.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from support.motion_files import AMC, ASF, bvh_text  # noqa: E402

from pyanticip.errors import FormatError  # noqa: E402
from pyanticip.motion.asf import read_asf  # noqa: E402
from pyanticip.motion.load import parse_motion  # noqa: E402

PIECES = [
    b"nan",
    b"1e999",
    b"{",
    b"}",
    b"\n",
    b"ROOT x",
    b"JOINT y",
    b"\0",
    b"9" * 40,
    b"-",
    b"e",
    b":",
    b"1\n",
]


def damaged(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 8)):
        at = rng.randint(0, len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data = data[:at] + rng.choice(PIECES) + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + rng.randint(1, 200) :]
        elif kind == 2 and data:
            index = min(at, len(data) - 1)
            data = data[:index] + bytes([rng.randrange(256)]) + data[index + 1 :]
        elif kind == 3:
            data = data[: at + rng.randint(1, 400)] + data[at:]
        elif rng.random() < 0.2:
            data = data[:at]
    return data


def read_one(folder: Path, name: str, data: bytes) -> bool:
    """Whether the bytes were read; a FormatError is a good answer, anything else ends the run."""
    try:
        if name.endswith(".asf"):
            read_asf(folder / name, data)
        else:
            parse_motion(folder / name, data).positions()
    except FormatError as error:
        if "\n" in str(error):
            raise ValueError("an error of more than one line") from error
        return False
    return True


def with_atheris(folder: Path, names: list[str]) -> None:
    """Coverage-guided: the first byte chooses the kind of file."""
    import atheris

    def target(data: bytes) -> None:
        if data:
            read_one(folder, names[data[0] % len(names)], data[1:])

    atheris.instrument_all()
    atheris.Setup([sys.argv[0]], target)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "07.asf").write_text(ASF)
        seeds = {"clip.bvh": bvh_text().encode(), "07_01.amc": AMC.encode(), "07.asf": ASF.encode()}
        for path in options.files:
            seeds[path.name] = path.read_bytes()[:200_000]
        if options.atheris:
            with_atheris(folder, list(seeds))
            return 0
        read, refused, end = 0, 0, time.monotonic() + options.seconds
        while time.monotonic() < end:
            name = rng.choice(list(seeds))
            data = damaged(seeds[name], rng)
            try:
                if read_one(folder, name, data):
                    read += 1
                else:
                    refused += 1
            except BaseException:
                Path("crash.bin").write_bytes(data)
                print(f"crash.bin: {name}, {len(data)} bytes", file=sys.stderr)
                raise
        print(f"{read} read, {refused} refused, none crashed in {options.seconds:g} s (seed {options.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
