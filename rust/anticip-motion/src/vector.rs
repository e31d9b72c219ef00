//! Vector arithmetic.

/// A position or a direction: left, up, ahead.
pub type Vector = [f64; 3];

pub(crate) fn add(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] + b[i])
}

pub(crate) fn minus(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] - b[i])
}

pub(crate) fn scaled(a: Vector, by: f64) -> Vector {
    a.map(|v| v * by)
}

pub(crate) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn length(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

pub(crate) fn cross(a: Vector, b: Vector) -> Vector {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

/// Angle between two vectors, radians; 0 if one is zero.
pub(crate) fn angle(a: Vector, b: Vector) -> f64 {
    length(cross(a, b)).atan2(dot(a, b))
}

/// Unit vector along `a`, or `None` if it is too short to have a direction.
pub(crate) fn direction(a: Vector) -> Option<Vector> {
    let n = length(a);
    (n > 1e-9 && n.is_finite()).then(|| scaled(a, 1.0 / n))
}
