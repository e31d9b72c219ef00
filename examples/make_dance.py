"""Cut the dance of `pyanticip demo` out of a take of G1 Moves (CC BY 4.0), at 0.01 degrees and millimetres.

    python examples/make_dance.py J_Dance0_StepTouch.bvh

writes realtime/data/dance.bvh: 14 seconds of a dance by Jasmine Coro, starting within a movement. For the
attribution and the changes see realtime/data/DANCE.md.
"""

import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "realtime" / "data" / "dance.bvh"
FIRST, LAST = 420, 1260


def main(source: Path) -> None:
    head, motion = source.read_text(encoding="ascii").split("MOTION")
    _, interval, *rows = motion.strip().splitlines()
    cut_rows = [
        " ".join(f"{float(number) + 0.0:.2f}".removesuffix("0").removesuffix(".0") for number in row.split())
        for row in rows[FIRST:LAST]
    ]
    lines = [head.rstrip(), "MOTION", f"Frames: {len(cut_rows)}", interval, *cut_rows]
    TARGET.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1])) if len(sys.argv) == 2 else sys.exit(__doc__)
