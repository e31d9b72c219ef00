//! Activations of whole rows, in arithmetic that the compiler vectorises for the processor's instruction set.

use pulp::Arch;

/// Adding this number leaves the nearest integer in a float's last bits.
const ROUND_MAGIC: f32 = 12_582_912.0;
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// `exp x` to a few ulps, with `x` clamped to -87..88.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND_MAGIC;
    let whole = shifted - ROUND_MAGIC;
    let r = (x - whole * LN_2[0]) - whole * LN_2[1];
    // The Taylor polynomial: |r| <= ln(2) / 2.
    let p = 1.0 / 720.0 + r * (1.0 / 5040.0);
    let p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * p)))));
    let power = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits()) << 23;
    f32::from_bits(p.to_bits().wrapping_add(power))
}

/// Applies `1 / (1 + exp -x)` to every number.
pub(crate) fn sigmoid(row: &mut [f32]) {
    Arch::new().dispatch(|| row.iter_mut().for_each(|x| *x = 1.0 / (1.0 + exp(-*x))));
}

/// Applies `x Phi(x)` to every number, with an error of 2e-7 in the error function (Abramowitz and Stegun 7.1.26).
pub(crate) fn gelu(row: &mut [f32]) {
    const TERMS: [f32; 5] = [0.254_829_6, -0.284_496_72, 1.421_413_8, -1.453_152_1, 1.061_405_4];
    let unit = |x: &mut f32| {
        let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
        let t = 1.0 / (1.0 + 0.327_591_1 * z);
        let p = t * (TERMS[0] + t * (TERMS[1] + t * (TERMS[2] + t * (TERMS[3] + t * TERMS[4]))));
        let beyond = 0.5 * p * exp(-z * z);
        *x *= if *x < 0.0 { beyond } else { 1.0 - beyond };
    };
    Arch::new().dispatch(|| row.iter_mut().for_each(unit));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> impl Iterator<Item = f32> {
        (-120_000..=120_000).map(|i| i as f32 * 1e-3)
    }

    #[test]
    fn exponential() {
        for x in grid().filter(|x| (-87.0..88.0).contains(x)) {
            let wanted = f64::from(x).exp();
            assert!((f64::from(exp(x)) / wanted - 1.0).abs() < 4e-7, "{x}");
        }
        assert_eq!(exp(-1e9), exp(-87.0));
        assert!(exp(f32::INFINITY).is_finite());
    }

    #[test]
    fn sigmoids() {
        for x in grid() {
            let mut row = [x];
            sigmoid(&mut row);
            let wanted = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(row[0]) - wanted).abs() < 2e-7, "{x}");
        }
    }

    #[test]
    fn gaussian_units() {
        for x in grid() {
            let mut row = [x];
            gelu(&mut row);
            let z = f64::from(x);
            let wanted = 0.5 * z * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
            assert!(
                (f64::from(row[0]) - wanted).abs() < 2e-7 * z.abs().max(1.0),
                "{x}: {} {wanted}",
                row[0]
            );
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let mut row = [f32::NAN; 2];
        sigmoid(&mut row[..1]);
        gelu(&mut row[1..]);
        assert!(row.iter().all(|x| x.is_nan()));
    }
}
