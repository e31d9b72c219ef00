//! `f32` and `f64`, with logarithm, exponential, normal distribution and sums that a compiler vectorises.

use std::ops::{Add, Div, Mul, Sub};

/// `f32` or `f64`.
pub trait Real:
    Copy
    + Send
    + Sync
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Added before a power is taken.
    const EPS: Self;

    /// Natural logarithm of a positive normal number; NaN stays NaN.
    fn ln(self) -> Self;

    /// e to a power of at most 0; results are bounded below by about the smallest normal number.
    fn exp(self) -> Self;

    /// Rounds a double to this precision.
    fn of(x: f64) -> Self;

    /// Converts to double precision.
    fn wide(self) -> f64;

    /// Square root.
    fn root(self) -> Self;

    /// Cumulative distribution and density of the standard normal distribution.
    fn normal(self) -> (Self, Self);
}

/// Cephes' polynomial of the logarithm in single precision, highest power first.
pub(crate) const LOGARITHM: [f32; 9] = [
    7.037_683_6e-2,
    -1.151_461e-1,
    1.167_699_9e-1,
    -1.242_014_1e-1,
    1.424_932_3e-1,
    -1.666_805_8e-1,
    2.000_071_5e-1,
    -2.499_999_4e-1,
    3.333_333e-1,
];
/// Cephes' polynomial of the exponential in single precision, highest power first.
pub(crate) const EXPONENTIAL: [f32; 6] = [
    1.987_569_1e-4,
    1.398_2e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    5e-1,
];
/// Adding this to a float rounds it to an integer, in its low bits: 1.5 * 2^23.
pub(crate) const ROUND: f32 = 12_582_912.0;

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const EPS: Self = 1e-8;

    // Cephes' polynomials, without branches: the library's functions are calls, one number at a time.
    #[inline(always)]
    #[expect(clippy::eq_op, reason = "a number minus itself is NaN where it is none")]
    fn ln(self) -> Self {
        const HALF_ROOT: i32 = 0x3f35_04f3; // sqrt(1/2)
        let shifted = (self.to_bits() as i32).wrapping_sub(HALF_ROOT);
        let e = (shifted >> 23) as f32;
        let m = f32::from_bits(((shifted & 0x007f_ffff) + HALF_ROOT) as u32) - 1.0;
        let z = m * m;
        let mut p = LOGARITHM[0];
        for c in &LOGARITHM[1..] {
            p = p * m + c;
        }
        let tail = p * m * z - e * 2.121_944_4e-4 - 0.5 * z;
        // The last term is NaN where the number was none.
        m + tail + e * 0.693_359_4 + (self - self)
    }

    #[inline(always)]
    fn exp(self) -> Self {
        let x = if self < -87.0 { -87.0 } else { self };
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
        let mut p = EXPONENTIAL[0];
        for c in &EXPONENTIAL[1..] {
            p = p * r + c;
        }
        let y = p * r * r + r + 1.0;
        let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
        y * f32::from_bits(power)
    }

    #[inline(always)]
    fn of(x: f64) -> Self {
        x as f32
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }

    // Hastings' rational approximation, off by up to 1e-7: Abramowitz and Stegun, 7.1.26.
    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        let e = Real::exp(-0.5 * self * self);
        let t = 1.0 / (1.0 + 0.231_641_9 * self.abs());
        let mut p = 0.530_702_7;
        for c in [-0.726_576, 0.710_706_9, -0.142_248_37, 0.127_414_8] {
            p = p * t + c;
        }
        let tail = p * t * e;
        (if self < 0.0 { tail } else { 1.0 - tail }, 0.398_942_3 * e)
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const EPS: Self = 1e-8;

    #[inline(always)]
    fn ln(self) -> Self {
        f64::ln(self)
    }

    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }

    #[inline(always)]
    fn of(x: f64) -> Self {
        x
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        let up_to = 0.5 * libm::erfc(-self * std::f64::consts::FRAC_1_SQRT_2);
        (up_to, 0.398_942_280_401_432_7 * f64::exp(-0.5 * self * self))
    }
}

/// Partial sums, so that additions need not wait for each other. The order of additions is fixed: the same on
/// every machine.
const LANES: usize = 32;

/// `sum f(a[i], b[i])`.
#[inline(always)]
fn fold<T: Real>(a: &[T], b: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut parts = [T::ZERO; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for i in 0..LANES {
            parts[i] = parts[i] + f(a[i], b[i]);
        }
    }
    let mut total = T::ZERO;
    for (&a, &b) in a_rest.iter().zip(b_rest) {
        total = total + f(a, b);
    }
    halves(&mut parts, |a, b| a + b) + total
}

/// All lanes as one number, in pairs.
#[inline(always)]
fn halves<T: Real>(parts: &mut [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            parts[i] = f(parts[i], parts[i + width]);
        }
        width /= 2;
    }
    parts[0]
}

#[inline(always)]
pub(crate) fn sum<T: Real>(a: &[T]) -> T {
    fold(a, a, |a, _| a)
}

#[inline(always)]
pub(crate) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    fold(a, b, |a, b| a * b)
}

#[cfg(test)]
mod tests {
    use super::Real;

    #[test]
    fn single_logarithm_and_exponential_are_good_to_some_ulps() {
        for i in 0..200_000 {
            let x = 1e-8_f32 * (1.0001_f32.powi(i));
            if x > 2.0 {
                break;
            }
            let expected = f64::from(x).ln();
            let error = (f64::from(Real::ln(x)) - expected).abs();
            assert!(
                error <= 1e-7 * expected.abs().max(1.0),
                "ln({x}): off by {error:e}"
            );
        }
        for i in 0..86_000 {
            let x = i as f32 * -1e-3;
            let expected = f64::from(x).exp();
            let error = (f64::from(Real::exp(x)) - expected).abs();
            assert!(error <= 2e-7 * expected, "exp({x}): off by {error:e}");
        }
        assert!(Real::ln(f32::NAN).is_nan());
        assert!(Real::exp(f32::NAN).is_nan());
        assert!(Real::exp(-1e30_f32) < 1e-37);
    }

    #[test]
    fn the_normal_distribution_is_good_to_a_ten_millionth() {
        for i in -12_000..12_000 {
            let x = f64::from(i) * 1e-3;
            let (up_to, density) = (x as f32).normal();
            let (wanted, height) = f64::from(x as f32).normal();
            assert!((f64::from(up_to) - wanted).abs() < 2.5e-7, "at {x}");
            assert!((f64::from(density) - height).abs() < 1e-7, "at {x}");
        }
        assert!(f32::NAN.normal().0.is_nan());
        assert_eq!(f32::INFINITY.normal().0, 1.0);
    }
}
