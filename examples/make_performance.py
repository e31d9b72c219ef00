"""Make the performance that `pyanticip demo` plays: a procedural dance, written as BVH.

    python examples/make_performance.py

writes realtime/data/performance.bvh: 28 seconds at 50 Hz of a 22-joint body with the usual joint names.
Poses are set like keyframes, every channel follows them through two critically damped springs; flowing
curves, steps, breath and the small unrest of a living body are added. The feet decide where the body is:
whichever carries the weight stays where it is.
"""

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SECONDS, RATE, INNER = 28.0, 50, 250
# Noise: degrees at rest, and per degree/second of movement; slope of its spectrum; where it ends, Hz.
TREMOR, LIVELY, SLOPE, HIGHEST = 0.1, 0.02, 0.65, 12.0
TARGET = Path(__file__).resolve().parents[1] / "realtime" / "data" / "performance.bvh"

# name, parent, offset from the parent in centimetres (T-pose, y up, facing +z, left is +x)
BODY: list[tuple[str, str, tuple[float, float, float]]] = [
    ("Hips", "", (0, 0, 0)),
    ("Spine", "Hips", (0, 10, 0)),
    ("Spine1", "Spine", (0, 13, 0)),
    ("Spine2", "Spine1", (0, 14, 0)),
    ("Neck", "Spine2", (0, 15, 0)),
    ("Head", "Neck", (0, 9, 1)),
    ("LeftShoulder", "Spine2", (5, 11, 0)),
    ("LeftArm", "LeftShoulder", (13, 0, 0)),
    ("LeftForeArm", "LeftArm", (27, 0, 0)),
    ("LeftHand", "LeftForeArm", (25, 0, 0)),
    ("RightShoulder", "Spine2", (-5, 11, 0)),
    ("RightArm", "RightShoulder", (-13, 0, 0)),
    ("RightForeArm", "RightArm", (-27, 0, 0)),
    ("RightHand", "RightForeArm", (-25, 0, 0)),
    ("LeftUpLeg", "Hips", (9, -4, 0)),
    ("LeftLeg", "LeftUpLeg", (0, -42, 0)),
    ("LeftFoot", "LeftLeg", (0, -42, 0)),
    ("LeftToeBase", "LeftFoot", (0, -7, 14)),
    ("RightUpLeg", "Hips", (-9, -4, 0)),
    ("RightLeg", "RightUpLeg", (0, -42, 0)),
    ("RightFoot", "RightLeg", (0, -42, 0)),
    ("RightToeBase", "RightFoot", (0, -7, 14)),
]
TIPS = {"Head": (0, 17, 2), "LeftHand": (17, 0, 0), "RightHand": (-17, 0, 0)}
TIPS |= {"LeftToeBase": (0, 0, 7), "RightToeBase": (0, 0, 7)}
NAMES = [name for name, _, _ in BODY]
PARENTS = [NAMES.index(parent) if parent else -1 for _, parent, _ in BODY]
OFFSETS = np.array([offset for _, _, offset in BODY], dtype=np.float64)

# What a pose is made of, in degrees. Arms: height above the horizontal, swing to the front, elbow, twist.
REST = {
    "l_high": -76.0, "l_front": 8.0, "l_elbow": 14.0, "l_twist": 0.0,
    "r_high": -76.0, "r_front": 8.0, "r_elbow": 14.0, "r_twist": 0.0,
    "lean": 0.0, "side": 0.0, "turn": 0.0, "nod": 0.0, "look": 0.0, "squat": 6.0, "heading": 0.0,
    "step": 0.0, "sway": 0.0, "flow": 0.0,
}  # fmt: skip

# (second, springs' speed in 1/s, what changes). Slow reaches, a walk, struck accents, stillness between them.
SCORE: list[tuple[float, float, dict[str, float]]] = [
    (1.6, 3.0, {"flow": 0.7, "r_high": 20, "r_front": 35, "r_elbow": 30, "turn": -18, "look": -15}),
    (3.0, 2.6, {"r_high": 68, "r_front": 20, "r_elbow": 8, "side": 12, "nod": -18}),
    (4.3, 3.2, {"l_high": 15, "l_front": 50, "l_elbow": 40, "turn": 20, "side": -4, "look": 22}),
    (5.6, 3.5, {"flow": 1.1, "r_high": -10, "r_front": 60, "l_high": 40, "l_front": 10, "lean": 14}),
    (7.0, 3.0, dict(REST)),
    (8.4, 4.0, {"flow": 0.8, "step": 1.0, "sway": 1.0, "heading": 30, "lean": 4}),
    (10.2, 4.0, {"heading": -40, "l_high": 10, "l_elbow": 50, "r_high": -20}),
    (11.8, 4.0, {"r_high": 45, "l_high": -50, "heading": 20, "sway": 1.5}),
    (13.4, 3.0, {"flow": 0.3, "step": 0.0, "sway": 0.0, "r_high": -60, "l_high": -60, "turn": 0, "look": 0}),
    (14.4, 16.0, {"l_high": 60, "r_high": 60, "l_front": 30, "r_front": 30, "squat": 20, "nod": -14}),
    (15.1, 16.0, {"l_high": -50, "r_high": -50, "l_elbow": 60, "r_elbow": 60, "squat": 34, "lean": 20}),
    (15.8, 18.0, {"r_high": 30, "r_front": 88, "r_elbow": 4, "turn": 34, "lean": 6}),
    (16.4, 18.0, {"l_high": 25, "l_front": 88, "l_elbow": 4, "r_elbow": 95, "turn": -36}),
    (17.0, 18.0, {"l_high": 75, "r_high": 75, "l_front": 10, "r_front": 10, "turn": 0, "squat": 4}),
    (18.0, 4.0, {"flow": 1.0, "step": 0.8, "sway": 1.2, "heading": 160, "l_elbow": 40}),
    (19.6, 5.0, {"heading": 330, "l_high": 20, "r_high": 10, "side": 10}),
    (21.0, 6.0, {"flow": 0.2, "step": 0.0, "sway": 0.0, "heading": 360, "l_high": -20, "side": 0}),
    (21.8, 14.0, {"squat": 52, "lean": 46, "nod": 18, "l_front": 55, "r_front": 55}),
    (23.6, 2.4, {"flow": 0.8, "squat": 4, "lean": -6, "l_high": 72, "r_high": 72, "l_front": 16, "nod": -24}),
    (25.4, 2.6, dict(REST) | {"heading": 360.0}),
    (26.2, 4.0, {"lean": 34, "nod": 24}),
    (27.3, 4.0, {"lean": 4, "nod": 2}),
]  # fmt: skip


def springs() -> dict[str, Floats]:
    """Every channel over time: its targets through two critically damped springs in a row."""
    count = int(SECONDS * INNER)
    dt = 1.0 / INNER
    state = {name: np.array([value, 0.0, value, 0.0]) for name, value in REST.items()}
    goal, speed = dict(REST), dict.fromkeys(REST, 3.0)
    out = {name: np.empty(count) for name in REST}
    ahead = iter(SCORE)
    following = next(ahead, None)
    for n in range(count):
        while following is not None and n * dt >= following[0]:
            _, quick, changes = following
            goal |= changes
            speed |= dict.fromkeys(changes, 1.6 * quick)
            following = next(ahead, None)
        for name, (x, v, y, w) in state.items():
            omega = speed[name]
            v += dt * (omega * omega * (goal[name] - x) - 2 * omega * v)
            x += dt * v
            w += dt * (4 * omega * omega * (x - y) - 4 * omega * w)
            y += dt * w
            state[name][:] = x, v, y, w
            out[name][n] = y
    return out


def angles(c: dict[str, Floats]) -> Floats:
    """Euler angles Z, X, Y in degrees, shape (T, joints, 3)."""
    t = np.arange(len(c["lean"])) / INNER
    out = np.zeros((len(t), len(NAMES), 3))
    step, sway = c["step"], c["sway"]
    phase = 2 * np.pi * 1.05 * t  # two steps a cycle: 126 a minute
    stride = 1.3 * np.sin(phase) * step
    breath = np.sin(2 * np.pi * 0.27 * t) + 0.4 * np.sin(2 * np.pi * 0.11 * t + 1.0)
    drift = np.sin(2 * np.pi * 0.19 * t + 0.5) + 0.6 * np.sin(2 * np.pi * 0.071 * t)

    def wave(hertz: float, start: float, degrees: float) -> Floats:
        return degrees * c["flow"] * np.sin(2 * np.pi * hertz * t + start)

    def put(name: str, z: object = 0.0, x: object = 0.0, y: object = 0.0) -> None:
        out[:, NAMES.index(name)] = np.stack([np.broadcast_to(np.asarray(a), t.shape) for a in (z, x, y)], 1)

    turn = c["turn"] + wave(0.47, 0.3, 13)
    bend = c["side"] + wave(0.36, 1.1, 9)
    lean = c["lean"] + wave(0.58, 2.0, 6)
    weight = sway * 5 * np.sin(phase) + 0.5 * drift
    put("Hips", z=0.5 * weight, x=0.25 * lean, y=c["heading"] + 6 * stride)
    put("Spine", z=0.3 * bend - 0.3 * weight, x=0.25 * lean, y=0.3 * turn - 3 * stride)
    put(
        "Spine1",
        z=0.3 * bend - 0.3 * weight,
        x=0.25 * lean + 0.6 * breath,
        y=0.35 * turn - 3 * stride,
    )
    put("Spine2", z=0.4 * bend, x=0.25 * lean + 0.5 * breath, y=0.35 * turn - 3 * stride)
    put("Neck", z=-0.3 * bend, x=0.5 * c["nod"] - 0.2 * lean, y=0.5 * c["look"] + 0.6 * drift)
    put("Head", x=0.5 * c["nod"] - 0.2 * breath, y=0.5 * c["look"])
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        p = side[0].lower()
        late = 0.0 if side == "Left" else 2.1
        high = c[f"{p}_high"] + wave(0.61, late, 22)
        front = c[f"{p}_front"] + wave(0.43, 1.0 + late, 24)
        elbow = c[f"{p}_elbow"] + wave(0.78, 2.0 + late, 18)
        swing = -sign * 26 * stride  # arms against legs
        put(f"{side}Shoulder", z=sign * (0.12 * np.maximum(high, 0) + 0.4 * breath))
        put(f"{side}Arm", z=sign * (0.92 * high - 0.5 * breath), x=c[f"{p}_twist"], y=-sign * (front + swing))
        put(f"{side}ForeArm", y=-sign * (elbow + 0.25 * np.abs(swing) + 1.0 * drift))
        put(f"{side}Hand", z=sign * 0.12 * high, y=-sign * 0.15 * elbow)
        # The knee folds twice as far as the hip, the ankle undoes it: the foot stays level.
        lift = np.maximum(sign * np.sin(phase), 0.0) ** 1.5 * step
        walk = -sign * 20 * np.cos(phase) * step
        hip = c["squat"] + 24 * lift + 0.25 * lean
        knee = 2 * c["squat"] + 46 * lift
        put(f"{side}UpLeg", z=-0.5 * weight + sign * 1.5, x=-hip + walk, y=sign * 6)
        put(f"{side}Leg", x=knee)
        put(f"{side}Foot", z=-sign * 1.5, x=hip - knee - walk * 0.8 - 0.25 * lean, y=0)
        put(f"{side}ToeBase", x=-6 * lift)
    return out


def unrest(degrees: Floats, rng: np.random.Generator) -> Floats:
    """What no body holds still: noise that falls with frequency, more of it where there is more movement."""
    frames = len(degrees)
    f = np.fft.rfftfreq(frames, 1 / INNER)
    shape = np.where(f > 0.2, 1.0 / np.maximum(f, 0.2) ** SLOPE, 0.0) * np.exp(-((f / HIGHEST) ** 2))
    noise = np.fft.irfft(
        np.fft.rfft(rng.standard_normal(degrees.shape), axis=0) * shape[:, None, None], frames, axis=0
    )
    noise /= noise.std(axis=0)
    kernel = np.hanning(INNER)
    speed = np.abs(np.gradient(degrees, 1 / INNER, axis=0)).mean(axis=(1, 2))
    activity = np.convolve(speed, kernel / kernel.sum(), "same")
    amount = (TREMOR + LIVELY * activity)[:, None, None]
    # A channel that is never used stays zero: it keeps the file small.
    return np.where(np.abs(degrees).max(axis=0) > 0, degrees + amount * noise, 0.0)


def matrices(degrees: Floats) -> Floats:
    """Rotation matrices of Euler angles Z, X, Y (in that order), shape (..., 3, 3)."""
    z, x, y = np.moveaxis(np.radians(degrees), -1, 0)
    zero, one = np.zeros_like(z), np.ones_like(z)

    def stack(rows: list[list[Floats]]) -> Floats:
        return np.stack([np.stack(row, -1) for row in rows], -2)

    rz = stack([[np.cos(z), -np.sin(z), zero], [np.sin(z), np.cos(z), zero], [zero, zero, one]])
    rx = stack([[one, zero, zero], [zero, np.cos(x), -np.sin(x)], [zero, np.sin(x), np.cos(x)]])
    ry = stack([[np.cos(y), zero, np.sin(y)], [zero, one, zero], [-np.sin(y), zero, np.cos(y)]])
    return rz @ rx @ ry


def positions(degrees: Floats) -> Floats:
    """Joint positions with the hips at the origin, centimetres, shape (T, joints, 3)."""
    local = matrices(degrees)
    turned, place = np.empty_like(local), np.zeros((len(degrees), len(NAMES), 3))
    for j, parent in enumerate(PARENTS):
        turned[:, j] = local[:, j] if parent < 0 else turned[:, parent] @ local[:, j]
        if parent >= 0:
            place[:, j] = place[:, parent] + turned[:, parent] @ OFFSETS[j]
    return place


def root_track(degrees: Floats) -> Floats:
    """Where the hips are, centimetres: the feet stand on the floor, the one with weight does not slide."""
    place = positions(degrees)
    soles = [[NAMES.index(f"{side}{part}") for part in ("Foot", "ToeBase")] for side in ("Left", "Right")]
    left, right = (place[:, sole] for sole in soles)
    low = np.stack([left[..., 1].min(1), right[..., 1].min(1)], 1)
    # A soft minimum: the height has no corner where the weight changes feet.
    height = -(-2.0 * np.log(np.exp(-low / 2.0).sum(1) / 2.0)) + 1.5
    share = 1.0 / (1.0 + np.exp((low[:, 0] - low[:, 1]) / 0.8))
    move = -(
        share[:, None] * np.gradient(left[:, 0], axis=0)
        + (1 - share)[:, None] * np.gradient(right[:, 0], axis=0)
    )
    root = np.cumsum(move, axis=0)
    root[:, 1] = height
    kernel = np.hanning(INNER // 8)
    kernel /= kernel.sum()
    padded = np.pad(root, ((len(kernel), len(kernel)), (0, 0)), mode="edge")
    smooth = np.stack([np.convolve(padded[:, i], kernel, "same") for i in range(3)], 1)
    return smooth[len(kernel) : -len(kernel)]


def hierarchy() -> list[str]:
    """The HIERARCHY part."""
    lines = ["HIERARCHY"]

    def numbers(offset: npt.ArrayLike) -> str:
        return " ".join(f"{v:g}" for v in np.asarray(offset))

    def write(j: int, indent: str) -> None:
        lines.append(f"{indent}{'ROOT' if j == 0 else 'JOINT'} {NAMES[j]}")
        lines.append(f"{indent}{{")
        lines.append(f"{indent}  OFFSET {numbers(OFFSETS[j])}")
        place = "6 Xposition Yposition Zposition " if j == 0 else "3 "
        lines.append(f"{indent}  CHANNELS {place}Zrotation Xrotation Yrotation")
        for child in [k for k, parent in enumerate(PARENTS) if parent == j]:
            write(child, indent + "  ")
        if NAMES[j] in TIPS:
            lines.extend([f"{indent}  End Site", f"{indent}  {{"])
            lines.extend([f"{indent}    OFFSET {numbers(TIPS[NAMES[j]])}", f"{indent}  }}"])
        lines.append(f"{indent}}}")

    write(0, "")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=TARGET)
    out = parser.parse_args().out
    degrees = unrest(angles(springs()), np.random.default_rng(7))
    root = root_track(degrees)
    every = INNER // RATE
    degrees, root = degrees[::every], root[::every]
    rows = np.concatenate([root, degrees.reshape(len(degrees), -1)], axis=1)
    order: list[int] = []

    def visit(j: int) -> None:
        order.append(j)
        for child in [k for k, parent in enumerate(PARENTS) if parent == j]:
            visit(child)

    visit(0)
    columns = [0, 1, 2, *(3 + 3 * j + i for j in order for i in range(3))]
    text = [*hierarchy(), "MOTION", f"Frames: {len(rows)}", f"Frame Time: {1 / RATE:.7f}"]
    text += [" ".join(f"{v:.2f}".rstrip("0").rstrip(".") for v in row) for row in rows[:, columns]]
    out.parent.mkdir(exist_ok=True)
    out.write_text("\n".join(text).replace(" -0 ", " 0 ") + "\n", encoding="ascii")
    print(f"{out}: {len(rows)} frames, {out.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
