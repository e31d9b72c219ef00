"""The seven scalars straight from their definition: slow, whole windows, float64, NumPy only.

Written from the definition in docs/scalars.md, independently of the Rust core: every frame looks at its whole
window afresh, angles by atan2, means by numpy.linalg.eigh.
"""

import numpy as np

DEFAULTS = {
    "window": 256,
    "k": 8,
    "m": 5,
    "commitment": (0.4, 0.3, 0.3),
    "ema": None,
    "uncertainty": "directional",
    "stability": "speed",
}
POSES = DEFAULTS | {"stride": 6, "horizon": 10, "theiler": 12, "eps_v": 1e-4, "r0": 0.01}
VECTORS = DEFAULTS | {"stride": 1, "horizon": 1, "theiler": 1, "eps_v": 1e-9, "r0": None}


def multiply(a, b):
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def conjugate(q):
    return q * np.array([1.0, -1.0, -1.0, -1.0])


class Vectors:
    def __init__(self, x):
        self.x = np.asarray(x, dtype=np.float64)

    def inc(self, a, b):
        return self.x[b] - self.x[a]

    def dist(self, states, t):
        return np.linalg.norm(self.x[states] - self.x[t], axis=-1)

    def from_centre(self, first, last):
        window = self.x[first : last + 1]
        return np.linalg.norm(window - window.mean(axis=0), axis=-1)

    def proximity(self, t):
        return None


class Poses:
    def __init__(self, quats, weights=None, limits=None):
        quats = np.asarray(quats, dtype=np.float64)
        joints = quats.shape[1]
        w = np.ones(joints) if weights is None else np.asarray(weights, dtype=np.float64)
        self.present = w > 0
        self.w = w[self.present] / w.sum()
        self.q = self.repaired(quats)[:, self.present]
        self.limits = limits

    @staticmethod
    def repaired(quats):
        held = np.tile([1.0, 0.0, 0.0, 0.0], (quats.shape[1], 1))
        out = np.empty_like(quats)
        for t, pose in enumerate(quats):
            for j, q in enumerate(pose):
                norm = np.linalg.norm(q) if np.isfinite(q).all() else 0.0
                if norm >= 1e-6:
                    held[j] = q / norm
            out[t] = held
        return out

    def inc(self, a, b):
        r = multiply(conjugate(self.q[a]), self.q[b])
        r = np.where(r[..., :1] < 0, -r, r)
        v, w = r[..., 1:], r[..., 0]
        s = np.linalg.norm(v, axis=-1)
        factor = np.where(s > 1e-8, 2 * np.arctan2(s, w) / np.where(s > 1e-8, s, 1.0), 2.0 / w)
        return (np.sqrt(self.w)[:, None] * factor[..., None] * v).reshape(-1)

    def angles(self, a, b):
        r = multiply(conjugate(a), b)
        return 2 * np.arctan2(np.linalg.norm(r[..., 1:], axis=-1), np.abs(r[..., 0]))

    def dist(self, states, t):
        return np.sqrt((self.w * self.angles(self.q[states], self.q[t]) ** 2).sum(axis=-1))

    def from_centre(self, first, last):
        window = self.q[first : last + 1]
        centre = np.empty(window.shape[1:])
        for j in range(window.shape[1]):
            values, vectors = np.linalg.eigh(np.einsum("ti,tk->ik", window[:, j], window[:, j]))
            unique = values[3] - values[2] >= 1e-6 * len(window)
            centre[j] = vectors[:, 3] if unique else window[-1, j]
        return np.sqrt((self.w * self.angles(window, centre) ** 2).sum(axis=-1))

    def proximity(self, t):
        if self.limits is None:
            return None
        parts = []
        speeds = np.zeros(len(self.w)) if t == 0 else self.angles(self.q[t - 1], self.q[t])
        names = [np.asarray(self.limits[n], dtype=np.float64) for n in ("axes", "swing", "twist", "speed")]
        for q, speed, axis, swing_max, twist_max, speed_max in zip(
            self.q[t], speeds, *(n[self.present] for n in names), strict=True
        ):
            axis = axis / np.linalg.norm(axis)
            along = q[1:] @ axis
            twist = 2 * np.arctan2(abs(along), abs(q[0]))
            swing = 2 * np.arctan2(np.linalg.norm(q[1:] - along * axis), np.hypot(q[0], along))
            for value, most in ((swing, swing_max), (twist, twist_max), (speed, speed_max)):
                if np.isfinite(most):
                    parts.append(min(value / most, 1.0))
        return float(np.mean(parts))


def directional_spread(u):
    n = len(u)
    cbar = (np.linalg.norm(u.sum(axis=0)) ** 2 - n) / (n * (n - 1))
    return 1 - max(0.0, cbar)


def vendi_spread(u):
    n = len(u)
    values = np.linalg.eigvalsh(np.exp(4 * (np.clip(u @ u.T, -1, 1) - 1)) / n)
    values = values[values > 1e-300]
    return float(-(values * np.log(values)).sum() / np.log(n))


def scalars(space, frames, options):
    """The definition, frame by frame; (T, 7)."""
    o = options
    h, theiler, eps, s = o["horizon"], o["theiler"], o["eps_v"], o["stride"]
    r0 = eps if o["r0"] is None else o["r0"]
    window = frames + 1 if o["window"] is None else o["window"]
    v = {t: space.inc(t - 1, t) for t in range(1, frames)}
    strided = {t: space.inc(t - s, t) for t in range(s, frames)}
    speed = {t: np.linalg.norm(x) for t, x in strided.items()}
    jerk = {
        t: np.linalg.norm(strided[t] - 2 * strided[t - s] + strided[t - 2 * s]) for t in range(3 * s, frames)
    }
    out = np.zeros((frames, 7))
    pressure = 0.0
    for t in range(frames):
        first = max(0, t - window + 1)
        offsets = space.from_centre(first, t)
        radius = offsets.max()

        far = np.arange(first, t - max(theiler, h) + 1)
        uncertainty = 1.0
        if len(far) >= 2:
            keys = np.round(space.dist(far, t) / (1e-9 * (radius + r0)))
            nearest = far[np.lexsort((-far, keys))][: o["k"]]
            c = np.array([space.inc(past, past + h) for past in nearest])
            u = np.concatenate([c, np.full((len(c), 1), eps)], axis=1)
            u /= np.linalg.norm(u, axis=1, keepdims=True)
            n = len(u)
            spread = directional_spread(u) if o["uncertainty"] == "directional" else vendi_spread(u)
            uncertainty = spread if n == o["k"] else (n * spread + (o["k"] - n)) / o["k"]

        near = np.arange(first, t - theiler + 1)
        novelty = min(1.0, space.dist(near, t).min() / (2 * (radius + r0))) if len(near) else 1.0

        p = space.proximity(t)
        if p is None:
            p = offsets[-1] / (radius + r0) * min(1.0, (len(offsets) - 1) / 8)

        last = [v[i] for i in range(max(1, t - o["m"] + 1), t + 1)]
        path = sum(np.linalg.norm(x) for x in last) + o["m"] * eps
        persistence = np.linalg.norm(sum(last)) / path if last else 0.0

        phase = 0.5
        if t >= 2 * s and speed[t] > s * eps and speed[t - s] > s * eps:
            phase = (1 + strided[t] @ strided[t - s] / (speed[t] * speed[t - s])) / 2

        stability = 1.0
        if t >= 3 * s and o["stability"] == "speed":
            bound = speed[t] + 2 * speed[t - s] + speed[t - 2 * s]
            stability = 1 - jerk[t] / bound if bound > 4 * s * eps else 1.0
        elif t >= 3 * s:
            largest = max(jerk[i] for i in range(first + 3 * s, t + 1))
            stability = 1 - jerk[t] / largest if largest > 0 else 1.0

        a, b, d = o["commitment"]
        commitment = a * (1 - uncertainty) + b * p + d * persistence
        raw = 0.0 if t < s else (commitment - out[t - s, 0]) - (uncertainty - out[t - s, 1])
        pressure = raw if o["ema"] is None or t == 0 else o["ema"] * raw + (1 - o["ema"]) * pressure
        out[t] = commitment, uncertainty, pressure, 1 - p, phase, novelty, stability
    return out


def pose_scalars(quats, *, weights=None, limits=None, **options):
    return scalars(Poses(quats, weights, limits), len(quats), POSES | options)


def vector_scalars(x, **options):
    return scalars(Vectors(x), len(x), VECTORS | options)


def paper_vector_scalars(x):
    """The papers' normalisers over the whole sequence (the last value of window=None supplies the rest)."""
    x = np.asarray(x, dtype=np.float64)
    base = vector_scalars(x, window=None)
    centred = np.linalg.norm(x - x.mean(axis=0), axis=1)
    radius = centred.max()
    v = np.diff(x, axis=0)
    jerks = np.concatenate([np.zeros(3), np.linalg.norm(np.diff(v, n=2, axis=0), axis=1)])
    out = base.copy()
    p = centred / radius
    out[:, 0] += 0.3 * (p - (1 - base[:, 3]))
    out[1:, 2] = np.diff(out[:, 0]) - np.diff(out[:, 1])
    out[:, 3] = 1 - p
    out[0, 5] = 1.0
    for t in range(1, len(x)):
        out[t, 5] = min(1.0, np.linalg.norm(x[:t] - x[t], axis=1).min() / (2 * radius))
    out[3:, 6] = 1 - jerks[3:] / jerks.max()
    out[:3, 6] = 1.0
    return out
