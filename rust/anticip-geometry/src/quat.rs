//! Unit quaternions: rotations in three dimensions.

use std::ops::{Mul, Neg};

/// A quaternion `w + x i + y j + z k` (Hamilton: `i j = k`), in the order `w, x, y, z`.
///
/// As a rotation it maps the child's frame to the parent's: `rotate` converts coordinates in the child's frame to
/// coordinates in the parent's, and `parent * child` composes. `q` and `-q` are the same rotation.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Quat {
    /// Scalar part.
    pub w: f64,
    /// First vector component.
    pub x: f64,
    /// Second vector component.
    pub y: f64,
    /// Third vector component.
    pub z: f64,
}

/// Quaternions with a smaller norm are not rotations, because they have no reliable direction.
pub const MIN_NORM: f64 = 1e-6;

impl Default for Quat {
    fn default() -> Self {
        Self::IDENTITY
    }
}

impl Mul for Quat {
    type Output = Self;

    /// Hamilton product.
    #[inline]
    fn mul(self, b: Self) -> Self {
        Self {
            w: self.w * b.w - self.x * b.x - self.y * b.y - self.z * b.z,
            x: self.w * b.x + self.x * b.w + self.y * b.z - self.z * b.y,
            y: self.w * b.y - self.x * b.z + self.y * b.w + self.z * b.x,
            z: self.w * b.z + self.x * b.y - self.y * b.x + self.z * b.w,
        }
    }
}

impl Neg for Quat {
    type Output = Self;

    #[inline]
    fn neg(self) -> Self {
        self.map(|c| -c)
    }
}

impl Quat {
    /// No rotation.
    pub const IDENTITY: Self = Self {
        w: 1.0,
        x: 0.0,
        y: 0.0,
        z: 0.0,
    };

    /// Creates a quaternion from components in the order `w, x, y, z`; not normalised.
    #[inline]
    pub const fn new(w: f64, x: f64, y: f64, z: f64) -> Self {
        Self { w, x, y, z }
    }

    /// Creates a quaternion from an array `[w, x, y, z]`; not normalised.
    #[inline]
    pub const fn from_array(a: [f64; 4]) -> Self {
        Self::new(a[0], a[1], a[2], a[3])
    }

    /// Returns the array `[w, x, y, z]`.
    #[inline]
    pub const fn to_array(self) -> [f64; 4] {
        [self.w, self.x, self.y, self.z]
    }

    #[inline]
    fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(f(self.w), f(self.x), f(self.y), f(self.z))
    }

    /// The conjugate, which is the inverse rotation of a unit quaternion.
    #[inline]
    #[must_use]
    pub const fn conj(self) -> Self {
        Self::new(self.w, -self.x, -self.y, -self.z)
    }

    /// The four-dimensional inner product.
    #[inline]
    pub fn dot(self, b: Self) -> f64 {
        self.w * b.w + self.x * b.x + self.y * b.y + self.z * b.z
    }

    /// The Euclidean norm.
    #[inline]
    pub fn norm(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The unit quaternion in the same direction. NaN if the norm is zero or a component is not finite; for external
    /// data use [`Quat::try_normalize`] or [`Quat::normalize_or`].
    #[inline]
    #[must_use]
    pub fn normalize(self) -> Self {
        let n = self.norm();
        self.map(|c| c / n)
    }

    /// The unit quaternion in the same direction, or `None` if a component is not finite or the norm is below
    /// [`MIN_NORM`]. Components so large that their squares overflow are scaled down first.
    #[must_use]
    pub fn try_normalize(self) -> Option<Self> {
        let n = self.norm();
        if n.is_finite() {
            return (n >= MIN_NORM).then(|| self.normalize());
        }
        let m = self.w.abs().max(self.x.abs()).max(self.y.abs()).max(self.z.abs());
        let all_finite = self.to_array().iter().all(|c| c.is_finite());
        all_finite.then(|| self.map(|c| c / m).normalize())
    }

    /// [`Quat::try_normalize`], or `fallback` if that is `None`.
    #[must_use]
    pub fn normalize_or(self, fallback: Self) -> Self {
        self.try_normalize().unwrap_or(fallback)
    }

    /// Rotates a vector by this unit quaternion.
    #[inline]
    pub fn rotate(self, v: [f64; 3]) -> [f64; 3] {
        // v + 2 w (u x v) + 2 u x (u x v)
        let t = [
            2.0 * (self.y * v[2] - self.z * v[1]),
            2.0 * (self.z * v[0] - self.x * v[2]),
            2.0 * (self.x * v[1] - self.y * v[0]),
        ];
        [
            v[0] + self.w * t[0] + self.y * t[2] - self.z * t[1],
            v[1] + self.w * t[1] + self.z * t[0] - self.x * t[2],
            v[2] + self.w * t[2] + self.x * t[1] - self.y * t[0],
        ]
    }

    /// The rotation vector (axis times angle, angle in `[0, pi]`) of this unit quaternion: `2 atan2(|v|, w) v / |v|`
    /// after choosing the sign with `w >= 0`.
    pub fn log(self) -> [f64; 3] {
        let q = if self.w < 0.0 { -self } else { self };
        let s2 = q.x * q.x + q.y * q.y + q.z * q.z;
        // Below 1e-8 the next term of the series is beyond double precision.
        let f = if s2 < 1e-16 {
            2.0 / q.w
        } else {
            2.0 * s2.sqrt().atan2(q.w) / s2.sqrt()
        };
        [f * q.x, f * q.y, f * q.z]
    }

    /// The unit quaternion of a rotation vector; the inverse of [`Quat::log`].
    #[must_use]
    pub fn exp(v: [f64; 3]) -> Self {
        let a = (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
        let h = 0.5 * a;
        // sin(h) / a
        let f = if a < 1e-8 { 0.5 } else { h.sin() / a };
        Self::new(h.cos(), f * v[0], f * v[1], f * v[2])
    }

    /// The angle in `[0, pi]` of the rotation from this unit quaternion to `b`.
    #[inline]
    pub fn angle_to(self, b: Self) -> f64 {
        let r = self.conj() * b;
        2.0 * (r.x * r.x + r.y * r.y + r.z * r.z).sqrt().atan2(r.w.abs())
    }

    /// Spherical interpolation along the shortest arc from `a` (t = 0) to `b` (t = 1), both unit.
    #[must_use]
    pub fn slerp(a: Self, b: Self, t: f64) -> Self {
        let v = (a.conj() * b).log();
        (a * Self::exp([t * v[0], t * v[1], t * v[2]])).normalize()
    }

    /// The rotation by `angle` radians about `axis` (any length); identity if the axis has no direction.
    #[must_use]
    pub fn from_axis_angle(axis: [f64; 3], angle: f64) -> Self {
        let n = (axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]).sqrt();
        if !(n > 0.0 && n.is_finite()) {
            return Self::IDENTITY;
        }
        let (s, c) = (0.5 * angle).sin_cos();
        Self::new(c, s * axis[0] / n, s * axis[1] / n, s * axis[2] / n)
    }

    /// The smallest rotation from direction `a` to direction `b` (any lengths). Opposite directions rotate about some
    /// axis perpendicular to `a`; identity if either has no direction.
    #[must_use]
    pub fn from_two_vectors(a: [f64; 3], b: [f64; 3]) -> Self {
        let unit = |v: [f64; 3]| {
            let n = (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
            (n > 0.0 && n.is_finite()).then(|| [v[0] / n, v[1] / n, v[2] / n])
        };
        let (Some(a), Some(b)) = (unit(a), unit(b)) else {
            return Self::IDENTITY;
        };
        let cross = [
            a[1] * b[2] - a[2] * b[1],
            a[2] * b[0] - a[0] * b[2],
            a[0] * b[1] - a[1] * b[0],
        ];
        let dot = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        if dot < -0.999_999 {
            // Nearly opposite: half a turn about a perpendicular axis, then the small remainder, which is well
            // conditioned.
            let p = if a[0].abs() < 0.6 {
                [0.0, -a[2], a[1]]
            } else {
                [a[2], 0.0, -a[0]]
            };
            let half = Self::from_axis_angle(p, std::f64::consts::PI);
            return (Self::from_two_vectors(half.rotate(a), b) * half).normalize();
        }
        Self::new(1.0 + dot, cross[0], cross[1], cross[2]).normalize()
    }

    /// The rotation matrix (rows) of this unit quaternion.
    pub fn to_matrix(self) -> [[f64; 3]; 3] {
        let Self { w, x, y, z } = self;
        [
            [
                1.0 - 2.0 * (y * y + z * z),
                2.0 * (x * y - w * z),
                2.0 * (x * z + w * y),
            ],
            [
                2.0 * (x * y + w * z),
                1.0 - 2.0 * (x * x + z * z),
                2.0 * (y * z - w * x),
            ],
            [
                2.0 * (x * z - w * y),
                2.0 * (y * z + w * x),
                1.0 - 2.0 * (x * x + y * y),
            ],
        ]
    }

    /// The unit quaternion (`w >= 0`) of a rotation matrix (rows): Shepperd's method, stable for every angle.
    #[must_use]
    pub fn from_matrix(m: [[f64; 3]; 3]) -> Self {
        let trace = m[0][0] + m[1][1] + m[2][2];
        let q = if trace >= m[0][0] && trace >= m[1][1] && trace >= m[2][2] {
            Self::new(
                1.0 + trace,
                m[2][1] - m[1][2],
                m[0][2] - m[2][0],
                m[1][0] - m[0][1],
            )
        } else if m[0][0] >= m[1][1] && m[0][0] >= m[2][2] {
            let d = 1.0 + m[0][0] - m[1][1] - m[2][2];
            Self::new(m[2][1] - m[1][2], d, m[0][1] + m[1][0], m[0][2] + m[2][0])
        } else if m[1][1] >= m[2][2] {
            let d = 1.0 - m[0][0] + m[1][1] - m[2][2];
            Self::new(m[0][2] - m[2][0], m[0][1] + m[1][0], d, m[1][2] + m[2][1])
        } else {
            let d = 1.0 - m[0][0] - m[1][1] + m[2][2];
            Self::new(m[1][0] - m[0][1], m[0][2] + m[2][0], m[1][2] + m[2][1], d)
        };
        let q = q.normalize_or(Self::IDENTITY);
        if q.w < 0.0 { -q } else { q }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::PI;

    fn unit() -> impl Strategy<Value = Quat> {
        prop::array::uniform4(-1.0..1.0f64)
            .prop_filter_map("has a direction", |a| Quat::from_array(a).try_normalize())
    }

    fn near(a: Quat, b: Quat) -> bool {
        a.angle_to(b) < 1e-7
    }

    proptest! {
        #[test]
        fn exp_undoes_log(q in unit()) {
            prop_assert!(near(Quat::exp(q.log()), q));
            let a = q.log().iter().map(|c| c * c).sum::<f64>().sqrt();
            prop_assert!((0.0..=PI + 1e-12).contains(&a));
            prop_assert!((a - Quat::IDENTITY.angle_to(q)).abs() < 1e-12);
        }

        #[test]
        fn matrix_rotates_as_the_quaternion(q in unit(), v in prop::array::uniform3(-5.0..5.0f64)) {
            let (m, r) = (q.to_matrix(), q.rotate(v));
            for i in 0..3 {
                let s: f64 = (0..3).map(|k| m[i][k] * v[k]).sum();
                prop_assert!((s - r[i]).abs() < 1e-12);
            }
            prop_assert!(near(Quat::from_matrix(m), q));
        }

        #[test]
        fn products_compose(a in unit(), b in unit(), v in prop::array::uniform3(-5.0..5.0f64)) {
            let (one, two) = ((a * b).rotate(v), a.rotate(b.rotate(v)));
            for i in 0..3 {
                prop_assert!((one[i] - two[i]).abs() < 1e-12);
            }
        }

        #[test]
        fn slerp_takes_the_short_way(a in unit(), b in unit(), t in 0.0..1.0f64) {
            let whole = a.angle_to(b);
            prop_assert!((a.angle_to(Quat::slerp(a, b, t)) - t * whole).abs() < 1e-7);
            prop_assert!(near(Quat::slerp(a, b, t), Quat::slerp(a, -b, t)) || whole > PI - 1e-6);
        }

        #[test]
        fn two_vectors_meet(a in prop::array::uniform3(-5.0..5.0f64), b in prop::array::uniform3(-5.0..5.0f64)) {
            let n = |v: [f64; 3]| (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
            prop_assume!(n(a) > 1e-3 && n(b) > 1e-3);
            for b in [b, [-a[0], -a[1], -a[2]], [-a[0] + 1e-9, -a[1], -a[2]], a] {
                let r = Quat::from_two_vectors(a, b).rotate(a);
                for i in 0..3 {
                    prop_assert!((r[i] / n(a) - b[i] / n(b)).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn degenerate_quaternions_are_named() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Quat::new(bad, 0.0, 0.0, 1.0).try_normalize(), None);
        }
        for (w, normal) in [
            (0.0, None),
            (9e-7, None),
            (2e-6, Some(Quat::IDENTITY)),
            (f64::MAX, Some(Quat::IDENTITY)),
        ] {
            assert_eq!(Quat::new(w, 0.0, 0.0, 0.0).try_normalize(), normal);
        }
        let fallback = Quat::new(0.0, 0.0, 0.0, f64::NAN).normalize_or(Quat::IDENTITY);
        assert_eq!(fallback, Quat::IDENTITY);
        assert_eq!(Quat::from_two_vectors([0.0; 3], [1.0, 0.0, 0.0]), Quat::IDENTITY);
        assert_eq!(Quat::from_axis_angle([0.0; 3], 1.0), Quat::IDENTITY);
        assert_eq!(Quat::IDENTITY.log(), [0.0; 3]);
        assert!((Quat::from_axis_angle([0.0, 0.0, 2.0], 1e-12).log()[2] - 1e-12).abs() < 1e-27);
    }
}
