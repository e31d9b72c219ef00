//! `f32` and `f64` in SIMD vectors of the processor's width.

use std::fmt::Debug;

use pulp::{Simd, bytemuck};

use crate::real::{EXPONENTIAL, LOGARITHM, ROUND, Real};

/// `f32` or `f64`, in SIMD vectors.
pub trait Lanes: Real + Debug {
    /// `(1 + x)^g` equals `1 + g x`, up to rounding, for `g x` up to this.
    const LINEAR: Self;
    /// Probabilities up to this are negligible in sums.
    const NOTHING: Self;

    /// A vector.
    type Vector<S: Simd>: Copy;

    /// Number of lanes of a vector.
    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        size_of::<Self::Vector<S>>() / size_of::<Self>()
    }

    /// A slice as vectors, without the remainder at its end.
    fn vectors<S: Simd>(of: &[Self]) -> &[Self::Vector<S>];
    /// A mutable slice as vectors, without the remainder at its end.
    fn vectors_mut<S: Simd>(of: &mut [Self]) -> &mut [Self::Vector<S>];
    /// Loads the start of a slice, padded with zeros.
    fn load<S: Simd>(s: S, from: &[Self]) -> Self::Vector<S>;
    /// Stores to the start of a slice, as far as it goes.
    fn store<S: Simd>(s: S, into: &mut [Self], values: Self::Vector<S>);
    /// The same value in all lanes.
    fn splat<S: Simd>(s: S, x: Self) -> Self::Vector<S>;
    /// `a + b`.
    fn plus<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a - b`.
    fn minus<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a b`.
    fn times<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a / b`.
    fn over<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a b + c`, rounded once where the processor has that.
    fn fma<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// The larger of two.
    fn max<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Absolute value.
    fn abs<S: Simd>(s: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// `yes` where `a < b`, else `no`.
    fn if_less<S: Simd>(
        s: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        yes: Self::Vector<S>,
        no: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// Whether any lane of `a` is above `b` or NaN.
    fn any_above<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> bool;
    /// Sum of all lanes.
    fn sum<S: Simd>(s: S, a: Self::Vector<S>) -> Self;
    /// Maximum of all lanes.
    fn largest<S: Simd>(s: S, a: Self::Vector<S>) -> Self;
    /// Natural logarithms of positive normal numbers; NaN stays NaN.
    fn log<S: Simd>(s: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// e to powers of at most 0; results are bounded below by about the smallest normal number.
    fn raise<S: Simd>(s: S, a: Self::Vector<S>) -> Self::Vector<S>;

    /// [`Lanes::log`] of one number.
    #[inline(always)]
    fn log_one<S: Simd>(s: S, x: Self) -> Self {
        Self::largest(s, Self::log(s, Self::splat(s, x)))
    }

    /// [`Lanes::raise`] of one number.
    #[inline(always)]
    fn raise_one<S: Simd>(s: S, x: Self) -> Self {
        Self::largest(s, Self::raise(s, Self::splat(s, x)))
    }

    /// `1 / (1 + e^-x)`.
    #[inline(always)]
    fn sigmoid<S: Simd>(s: S, x: Self::Vector<S>) -> Self::Vector<S> {
        let (zero, one) = (Self::splat(s, Self::ZERO), Self::splat(s, Self::ONE));
        let small = Self::raise(s, Self::minus(s, zero, Self::abs(s, x)));
        let above = Self::if_less(s, x, zero, small, one);
        Self::over(s, above, Self::plus(s, one, small))
    }

    /// Hyperbolic tangent, to a few ulps of 1.
    #[inline(always)]
    fn tanh<S: Simd>(s: S, x: Self::Vector<S>) -> Self::Vector<S> {
        let (zero, one) = (Self::splat(s, Self::ZERO), Self::splat(s, Self::ONE));
        let size = Self::abs(s, x);
        let small = Self::raise(s, Self::minus(s, zero, Self::plus(s, size, size)));
        let size = Self::over(s, Self::minus(s, one, small), Self::plus(s, one, small));
        Self::if_less(s, x, zero, Self::minus(s, zero, size), size)
    }
}

/// The methods that map to pulp operations whose names differ by precision.
macro_rules! operations {
    ($vector:ident, $vectors:ident, $vectors_mut:ident, $load:ident, $store:ident, $splat:ident, $add:ident, $sub:ident,
     $mul:ident, $div:ident, $fma:ident, $max:ident, $abs:ident, $less:ident, $select:ident, $at_most:ident,
     $not:ident, $first:ident, $sum:ident, $largest:ident) => {
        type Vector<S: Simd> = S::$vector;

        #[inline(always)]
        fn vectors<S: Simd>(of: &[Self]) -> &[Self::Vector<S>] {
            S::$vectors(of).0
        }

        #[inline(always)]
        fn vectors_mut<S: Simd>(of: &mut [Self]) -> &mut [Self::Vector<S>] {
            S::$vectors_mut(of).0
        }

        #[inline(always)]
        fn load<S: Simd>(s: S, from: &[Self]) -> Self::Vector<S> {
            match S::$vectors(from).0.first() {
                Some(whole) => *whole,
                None => s.$load(from),
            }
        }

        #[inline(always)]
        fn store<S: Simd>(s: S, into: &mut [Self], values: Self::Vector<S>) {
            match S::$vectors_mut(into).0.first_mut() {
                Some(whole) => *whole = values,
                None => s.$store(into, values),
            }
        }

        #[inline(always)]
        fn splat<S: Simd>(s: S, x: Self) -> Self::Vector<S> {
            s.$splat(x)
        }

        #[inline(always)]
        fn plus<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            s.$add(a, b)
        }

        #[inline(always)]
        fn minus<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            s.$sub(a, b)
        }

        #[inline(always)]
        fn times<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            s.$mul(a, b)
        }

        #[inline(always)]
        fn over<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            s.$div(a, b)
        }

        #[inline(always)]
        fn fma<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S> {
            s.$fma(a, b, c)
        }

        #[inline(always)]
        fn max<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            s.$max(a, b)
        }

        #[inline(always)]
        fn abs<S: Simd>(s: S, a: Self::Vector<S>) -> Self::Vector<S> {
            s.$abs(a)
        }

        #[inline(always)]
        fn if_less<S: Simd>(
            s: S,
            a: Self::Vector<S>,
            b: Self::Vector<S>,
            yes: Self::Vector<S>,
            no: Self::Vector<S>,
        ) -> Self::Vector<S> {
            s.$select(s.$less(a, b), yes, no)
        }

        #[inline(always)]
        fn any_above<S: Simd>(s: S, a: Self::Vector<S>, b: Self::Vector<S>) -> bool {
            s.$first(s.$not(s.$at_most(a, b))) < Self::lanes::<S>()
        }

        #[inline(always)]
        fn sum<S: Simd>(s: S, a: Self::Vector<S>) -> Self {
            s.$sum(a)
        }

        #[inline(always)]
        fn largest<S: Simd>(s: S, a: Self::Vector<S>) -> Self {
            s.$largest(a)
        }
    };
}

impl Lanes for f32 {
    const LINEAR: Self = 1.0 / 4096.0;
    const NOTHING: Self = 1e-12;

    operations!(
        f32s,
        as_simd_f32s,
        as_mut_simd_f32s,
        partial_load_f32s,
        partial_store_f32s,
        splat_f32s,
        add_f32s,
        sub_f32s,
        mul_f32s,
        div_f32s,
        mul_add_e_f32s,
        max_f32s,
        abs_f32s,
        less_than_f32s,
        select_f32s,
        less_than_or_equal_f32s,
        not_m32s,
        first_true_m32s,
        reduce_sum_f32s,
        reduce_max_f32s
    );

    // Cephes' polynomials, without branches: the library's functions are calls, one number at a time.
    #[inline(always)]
    fn log<S: Simd>(s: S, a: S::f32s) -> S::f32s {
        const HALF_ROOT: u32 = 0x3f35_04f3; // sqrt(1/2)
        const BIAS: u32 = 127 << 23;
        const INTEGER: u32 = 0x4b00_0000; // 2^23: the last digits count by one
        let bits = s.add_u32s(
            s.transmute_u32s_f32s(a),
            s.splat_u32s(BIAS.wrapping_sub(HALF_ROOT)),
        );
        let exponent = s.or_u32s(
            s.wrapping_dyn_shr_u32s(bits, s.splat_u32s(23)),
            s.splat_u32s(INTEGER),
        );
        let e = s.sub_f32s(s.transmute_f32s_u32s(exponent), s.splat_f32s(8_388_608.0 + 127.0));
        let mantissa = s.add_u32s(
            s.and_u32s(bits, s.splat_u32s(0x007f_ffff)),
            s.splat_u32s(HALF_ROOT),
        );
        let m = s.sub_f32s(s.transmute_f32s_u32s(mantissa), s.splat_f32s(1.0));
        let z = s.mul_f32s(m, m);
        let mut p = s.splat_f32s(LOGARITHM[0]);
        for c in &LOGARITHM[1..] {
            p = s.mul_add_e_f32s(p, m, s.splat_f32s(*c));
        }
        let tail = s.mul_f32s(z, s.splat_f32s(-0.5));
        let tail = s.mul_add_e_f32s(e, s.splat_f32s(-2.121_944_4e-4), tail);
        let tail = s.mul_add_e_f32s(s.mul_f32s(p, m), z, tail);
        let whole = s.mul_add_e_f32s(e, s.splat_f32s(0.693_359_4), s.add_f32s(m, tail));
        // NaN where the number was none.
        s.add_f32s(whole, s.sub_f32s(a, a))
    }

    #[inline(always)]
    fn raise<S: Simd>(s: S, a: S::f32s) -> S::f32s {
        let lowest = s.splat_f32s(-87.0);
        let x = s.select_f32s(s.less_than_f32s(a, lowest), lowest, a);
        let round = s.splat_f32s(ROUND);
        let shifted = s.mul_add_e_f32s(x, s.splat_f32s(std::f32::consts::LOG2_E), round);
        let n = s.sub_f32s(shifted, round);
        let r = s.mul_add_e_f32s(n, s.splat_f32s(-0.693_359_4), x);
        let r = s.mul_add_e_f32s(n, s.splat_f32s(2.121_944_4e-4), r);
        let mut p = s.splat_f32s(EXPONENTIAL[0]);
        for c in &EXPONENTIAL[1..] {
            p = s.mul_add_e_f32s(p, r, s.splat_f32s(*c));
        }
        let y = s.mul_add_e_f32s(s.mul_f32s(p, r), r, r);
        let y = s.add_f32s(y, s.splat_f32s(1.0));
        let power = s.add_u32s(
            s.transmute_u32s_f32s(shifted),
            s.splat_u32s(127_u32.wrapping_sub(ROUND.to_bits())),
        );
        let power = s.wrapping_dyn_shl_u32s(power, s.splat_u32s(23));
        s.mul_f32s(y, s.transmute_f32s_u32s(power))
    }
}

impl Lanes for f64 {
    const LINEAR: Self = 1.0 / 134_217_728.0;
    const NOTHING: Self = 1e-21;

    operations!(
        f64s,
        as_simd_f64s,
        as_mut_simd_f64s,
        partial_load_f64s,
        partial_store_f64s,
        splat_f64s,
        add_f64s,
        sub_f64s,
        mul_f64s,
        div_f64s,
        mul_add_e_f64s,
        max_f64s,
        abs_f64s,
        less_than_f64s,
        select_f64s,
        less_than_or_equal_f64s,
        not_m64s,
        first_true_m64s,
        reduce_sum_f64s,
        reduce_max_f64s
    );

    #[inline(always)]
    fn log<S: Simd>(_: S, mut a: S::f64s) -> S::f64s {
        for x in bytemuck::cast_slice_mut::<_, f64>(std::slice::from_mut(&mut a)) {
            *x = f64::ln(*x);
        }
        a
    }

    #[inline(always)]
    fn raise<S: Simd>(_: S, mut a: S::f64s) -> S::f64s {
        for x in bytemuck::cast_slice_mut::<_, f64>(std::slice::from_mut(&mut a)) {
            *x = f64::exp(*x);
        }
        a
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;
    use pulp::{Arch, Scalar, Simd, WithSimd};

    /// Largest distance from the double, relative to it or to one where that is larger.
    struct Check;

    impl WithSimd for Check {
        type Output = ();

        fn with_simd<S: Simd>(self, s: S) {
            let one = |v| <f32 as Lanes>::largest(s, v);
            let close = |name: &str, x: f32, found: f32, expected: f64, least: f64| {
                let error = (f64::from(found) - expected).abs();
                assert!(
                    error <= 2e-7 * expected.abs().max(least),
                    "{name}({x}): off by {error:e}"
                );
            };
            for i in 0..200_000 {
                let x = 1e-8_f32 * (1.0001_f32.powi(i));
                if x > 2.0 {
                    break;
                }
                close("ln", x, Lanes::log_one(s, x), f64::from(x).ln(), 0.5);
            }
            for i in 0..86_000 {
                let x = i as f32 * -1e-3;
                close("exp", x, Lanes::raise_one(s, x), f64::from(x).exp(), 0.0);
            }
            for i in -40_000..=40_000 {
                let x = i as f32 * 1e-3;
                let exact = f64::from(x);
                let vector = <f32 as Lanes>::splat(s, x);
                close("tanh", x, one(<f32 as Lanes>::tanh(s, vector)), exact.tanh(), 1.0);
                let (sigmoid, expected) = (<f32 as Lanes>::sigmoid(s, vector), 1.0 / (1.0 + (-exact).exp()));
                close("sigmoid", x, one(sigmoid), expected, 1.0);
            }
            assert!(<f32 as Lanes>::raise_one(s, -1e30_f32) < 1e-37);
            let nan = <f32 as Lanes>::splat(s, f32::NAN);
            for found in [
                <f32 as Lanes>::log(s, nan),
                <f32 as Lanes>::raise(s, nan),
                <f32 as Lanes>::tanh(s, nan),
                <f32 as Lanes>::sigmoid(s, nan),
            ] {
                assert!(<f32 as Lanes>::sum(s, found).is_nan());
            }
        }
    }

    #[test]
    fn single_functions_are_good_to_some_ulps() {
        Arch::new().dispatch(Check);
        Check.with_simd(Scalar);
    }
}
