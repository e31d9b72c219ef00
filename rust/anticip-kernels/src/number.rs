//! What the control field needs of numbers beside logarithm and exponential.

use crate::real::Real;

/// `f32` or `f64`, with the normal distribution.
pub trait Number: Real {
    /// The nearest one.
    #[must_use]
    fn of(x: f64) -> Self;

    /// The same in double precision.
    #[must_use]
    fn wide(self) -> f64;

    /// Square root.
    #[must_use]
    fn root(self) -> Self;

    /// The standard normal distribution up to here, and its density here.
    #[must_use]
    fn normal(self) -> (Self, Self);
}

impl Number for f32 {
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

impl Number for f64 {
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

#[cfg(test)]
mod tests {
    use super::Number;

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
