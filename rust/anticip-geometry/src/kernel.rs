//! Angles between unit quaternions, eight joints at a time.
//!
//! A pose is stored in groups of eight joints, `[w; 8] [x; 8] [y; 8] [z; 8]` each, a tangent vector likewise as
//! `[x; 8] [y; 8] [z; 8]`. Plain loops over the eight lanes become vector instructions on any target, and the order of
//! every sum is fixed by the layout, so all targets give the same bits.
//!
//! The angle is computed from the chord `c = min(|a - b|^2, |a + b|^2)` in `[0, 2]`, not with `atan2`: with
//! `phi = theta / 2 = 2 asin(sqrt(c) / 2)`, both `theta^2 / c` and `phi / sin(phi)` are analytic in `c`
//! (singular only at `c = 4`), so one polynomial each is exact to the last bit or two over the whole range, without
//! a root, a division or a branch, and the chord is accurate for small angles.

/// Joints in a group.
pub(crate) const LANES: usize = 8;
/// Numbers in a group of a pose.
pub(crate) const POSE_GROUP: usize = 4 * LANES;
/// Numbers in a group of a tangent vector.
pub(crate) const TANGENT_GROUP: usize = 3 * LANES;

/// `theta^2 / c`, Chebyshev fit on `[0, 2]`, relative error 1.2e-17 before rounding.
const ANGLE2: [f64; 20] = [
    4.0,
    0.333_333_333_333_342_36,
    0.044_444_444_443_845_08,
    0.007_142_857_158_594_759,
    0.001_269_841_051_824_560_1,
    0.000_240_502_081_049_083_13,
    4.756_116_123_546_736e-5,
    9.753_068_965_522_901e-6,
    1.915_202_668_493_484_6e-6,
    6.816_987_786_964_332e-7,
    -3.110_998_765_943_957_4e-7,
    5.268_825_938_527_768e-7,
    -4.842_650_675_845_838e-7,
    3.647_241_809_876_810_4e-7,
    -2.066_331_296_815_871_5e-7,
    8.846_211_685_704_154e-8,
    -2.752_704_160_489_643_2e-8,
    5.923_989_256_760_211e-9,
    -7.895_400_172_262_505e-10,
    5.007_431_558_625_867e-11,
];

/// `2 phi / sin(phi)`, Chebyshev fit on `[0, 2]`, relative error 5.6e-17 before rounding.
const LOG: [f64; 21] = [
    2.0,
    0.333_333_333_333_309_45,
    0.066_666_666_668_412_63,
    0.014_285_714_235_106_958,
    0.003_174_603_949_581_513,
    0.000_721_493_475_298_385_2,
    0.000_166_545_258_846_421_58,
    3.865_251_110_760_073e-5,
    9.774_092_746_903_937e-6,
    6.414_471_530_879_942e-7,
    3.322_487_145_500_631e-6,
    -3.883_229_783_543_099e-6,
    4.489_907_149_723_325e-6,
    -3.872_486_742_974_06e-6,
    2.628_662_568_674_199_3e-6,
    -1.370_499_070_269_529e-6,
    5.413_304_504_574_027e-7,
    -1.565_441_095_479_941_3e-7,
    3.139_450_501_612_076_6e-8,
    -3.912_504_847_567_183e-9,
    2.311_192_690_577_692e-10,
];

/// Groups of `N` numbers of both.
#[inline(always)]
pub(crate) fn pairs<'a, const N: usize, T>(
    a: &'a [T],
    b: &'a [T],
) -> impl Iterator<Item = (&'a [T; N], &'a [T; N])> {
    a.as_chunks().0.iter().zip(b.as_chunks().0)
}

/// Horner's scheme in two interleaved chains, even and odd powers, which halves the latency.
#[inline(always)]
fn polynomial<const N: usize>(p: &[f64; N], c: f64) -> f64 {
    let c2 = c * c;
    let (mut even, mut odd) = (0.0, 0.0);
    for i in (0..N).rev() {
        if i % 2 == 0 {
            even = even * c2 + p[i];
        } else {
            odd = odd * c2 + p[i];
        }
    }
    even + odd * c
}

/// `min(|a - b|^2, |a + b|^2)` of two unit quaternions, which does not depend on their signs. Both are computed,
/// because `4 - |a - b|^2` would lose small angles between quaternions of opposite sign.
#[inline(always)]
fn chord(a: &[f64; POSE_GROUP], b: &[f64; POSE_GROUP], l: usize) -> f64 {
    let minus = [
        a[l] - b[l],
        a[l + 8] - b[l + 8],
        a[l + 16] - b[l + 16],
        a[l + 24] - b[l + 24],
    ];
    let plus = [
        a[l] + b[l],
        a[l + 8] + b[l + 8],
        a[l + 16] + b[l + 16],
        a[l + 24] + b[l + 24],
    ];
    let square = |d: [f64; 4]| (d[0] * d[0] + d[1] * d[1]) + (d[2] * d[2] + d[3] * d[3]);
    let (near, far) = (square(minus), square(plus));
    if near < far { near } else { far }
}

/// Sums eight lanes in a fixed order.
#[inline(always)]
pub(crate) fn sum_lanes(s: &[f64; LANES]) -> f64 {
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

/// `sum_j w_j theta_j^2`.
#[inline(always)]
pub(crate) fn pose_dist2(a: &[f64], b: &[f64], weights: &[f64]) -> f64 {
    let mut acc = [0.0; LANES];
    for ((a, b), w) in pairs::<POSE_GROUP, _>(a, b).zip(weights.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            let c = chord(a, b, l);
            acc[l] += w[l] * (c * polynomial(&ANGLE2, c));
        }
    }
    sum_lanes(&acc)
}

/// A lower and an upper bound on `sum_j w_j theta_j^2` at a third of its cost. The series
/// `theta^2 = 4 c + c^2 / 3 + 2 c^3 / 45 + ...` has only positive terms: truncated, it is a lower bound, and with the
/// third coefficient raised until it meets `pi^2` at `c = 2` an upper one. For small angles both are nearly exact.
#[inline(always)]
pub(crate) fn pose_dist2_bounds(a: &[f64], b: &[f64], weights: &[f64]) -> (f64, f64) {
    let (mut low, mut cubic) = ([0.0; LANES], [0.0; LANES]);
    for ((a, b), w) in pairs::<POSE_GROUP, _>(a, b).zip(weights.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            let c = chord(a, b, l);
            let wc = w[l] * c;
            low[l] += wc * (4.0 + c * (1.0 / 3.0));
            cubic[l] += wc * (c * c);
        }
    }
    let (low, cubic) = (sum_lanes(&low), sum_lanes(&cubic));
    (low + cubic * 0.044_444, low + cubic * UPPER_CUBIC)
}

/// `(pi^2 - 8 - 4 / 3) / 8`, rounded up.
const UPPER_CUBIC: f64 = 0.067_034;

/// `sqrt(w_j) Log(conj(a_j) b_j)` of every joint.
#[inline(always)]
pub(crate) fn pose_inc(a: &[f64], b: &[f64], root_weights: &[f64], out: &mut [f64]) {
    let outs = out.as_chunks_mut::<TANGENT_GROUP>().0.iter_mut();
    let groups = pairs::<POSE_GROUP, _>(a, b).zip(root_weights.as_chunks::<LANES>().0);
    for (((a, b), w), out) in groups.zip(outs) {
        for l in 0..LANES {
            let (aw, ax, ay, az) = (a[l], a[l + 8], a[l + 16], a[l + 24]);
            let (bw, bx, by, bz) = (b[l], b[l + 8], b[l + 16], b[l + 24]);
            let c = chord(a, b, l);
            let dot = (aw * bw + ax * bx) + (ay * by + az * bz);
            let f = w[l] * polynomial(&LOG, c);
            let f = if dot < 0.0 { -f } else { f };
            out[l] = f * ((aw * bx - ax * bw) + (az * by - ay * bz));
            out[l + 8] = f * ((aw * by - ay * bw) + (ax * bz - az * bx));
            out[l + 16] = f * ((aw * bz - az * bw) + (ay * bx - ax * by));
        }
    }
}

/// `|a - b|^2`; both padded to a multiple of eight.
#[inline(always)]
pub(crate) fn vector_dist2(a: &[f64], b: &[f64]) -> f64 {
    let mut acc = [0.0; LANES];
    for (a, b) in pairs::<LANES, _>(a, b) {
        for l in 0..LANES {
            let d = a[l] - b[l];
            acc[l] += d * d;
        }
    }
    sum_lanes(&acc)
}

/// Inner product; both padded to a multiple of eight.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut acc = [0.0; LANES];
    for (a, b) in pairs::<LANES, _>(a, b) {
        for l in 0..LANES {
            acc[l] += a[l] * b[l];
        }
    }
    sum_lanes(&acc)
}

/// `|(a - b) - (b - c)|^2`; all padded to a multiple of eight.
#[inline(always)]
pub(crate) fn jerk2(a: &[f64], b: &[f64], c: &[f64]) -> f64 {
    let mut acc = [0.0; LANES];
    for ((a, b), c) in pairs::<LANES, _>(a, b).zip(c.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            let j = (a[l] - b[l]) - (b[l] - c[l]);
            acc[l] += j * j;
        }
    }
    sum_lanes(&acc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quat;
    use proptest::prelude::*;

    fn pack(q: Quat) -> [f64; POSE_GROUP] {
        let mut p = [0.0; POSE_GROUP];
        p[..LANES].fill(1.0);
        for (i, c) in q.to_array().into_iter().enumerate() {
            p[LANES * i] = c;
        }
        p
    }

    const FIRST: [f64; LANES] = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

    proptest! {
        #[test]
        fn equals_the_definition(
            a in prop::array::uniform4(-1.0..1.0f64),
            axis in prop::array::uniform3(-1.0..1.0f64),
            angle in prop_oneof![0.0..std::f64::consts::PI, (-14.0..0.5f64).prop_map(|e| 10f64.powf(e))],
            flip in any::<bool>(),
        ) {
            let Some(a) = Quat::from_array(a).try_normalize() else { return Ok(()) };
            let b = (a * Quat::from_axis_angle(axis, angle)).normalize();
            let b = if flip { -b } else { b };
            let theta = a.angle_to(b);
            let fast = pose_dist2(&pack(a), &pack(b), &FIRST).sqrt();
            let (low, high) = pose_dist2_bounds(&pack(a), &pack(b), &FIRST);
            prop_assert!(low.sqrt() <= fast * (1.0 + 1e-14) && fast <= high.sqrt() * (1.0 + 1e-14));
            prop_assert!(high.sqrt() - low.sqrt() < 1e-2 * fast.powi(5) + 1e-14, "{low} {high}");
            prop_assert!((fast - theta).abs() < 1e-15 + 4e-15 * theta, "{fast} {theta}");
            let mut v = [0.0; TANGENT_GROUP];
            pose_inc(&pack(a), &pack(b), &FIRST, &mut v);
            let log = (a.conj() * b).log();
            if theta < 3.1 {
                for i in 0..3 {
                    prop_assert!((v[LANES * i] - log[i]).abs() < 2e-15 * (1.0 + theta));
                }
            }
        }
    }
}
