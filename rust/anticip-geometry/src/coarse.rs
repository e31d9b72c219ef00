//! Poses as 16-bit integers: a quarter of the memory, so that a window of thousands of frames stays in the processor's
//! cache, and a lower bound on distances that starts from products of integers.
//!
//! A group of eight joints is laid out as in a state, `[w; 8] [x; 8] [y; 8] [z; 8]`. With the product `d` of two unit
//! quaternions the chord is `c = 2 - 2 |d|`. Rounding changes `c` by less than [`ERROR`], whatever its value, so the
//! bound is good for poses far apart and says nothing about those that nearly agree.

use crate::kernel::{LANES, POSE_GROUP, pairs};
use crate::sketch::ROUND;

/// Numbers in a group.
pub(crate) const COARSE_GROUP: usize = 4 * LANES;

/// Smaller distances are left to finer bounds.
pub(crate) const USEFUL: f64 = 0.2;

const UNIT: f64 = 32_767.0;

/// Error of a chord. Each of four components is off by at most half a unit: a quaternion by a unit's length, a product
/// by twice that, the chord by four times; and the rounding of single precision.
const ERROR: f32 = 4.1 / 32_767.0;

/// Writes a pose of unit quaternions as integers.
#[inline(always)]
pub(crate) fn coarsen(state: &[f64], out: &mut [i16]) {
    let groups = state.as_chunks::<POSE_GROUP>().0;
    for (q, out) in groups.iter().zip(out.as_chunks_mut::<COARSE_GROUP>().0) {
        for (q, out) in q.iter().zip(out) {
            *out = (q * UNIT + ROUND).to_bits() as i16;
        }
    }
}

/// A lower bound on `sum_j w_j theta_j^2`: the first terms of its series, as in
/// [`crate::kernel::pose_dist2_bounds`].
#[inline(always)]
pub(crate) fn least_dist2(a: &[i16], b: &[i16], weights: &[f32]) -> f64 {
    let mut low = [0.0f32; LANES];
    for ((a, b), w) in pairs::<COARSE_GROUP, _>(a, b).zip(weights.as_chunks::<LANES>().0) {
        let mut products = [0i32; LANES];
        for (a, b) in pairs::<LANES, _>(a, b) {
            for l in 0..LANES {
                products[l] += i32::from(a[l]) * i32::from(b[l]);
            }
        }
        for l in 0..LANES {
            let c = (2.0 - ERROR) - (products[l] as f32).abs() * (2.0 / (UNIT * UNIT)) as f32;
            let c = if c > 0.0 { c } else { 0.0 };
            low[l] += w[l] * (c * (4.0 + c * (1.0 / 3.0 + c * 0.044_444)));
        }
    }
    // The rounding error of single precision grows with the number of terms.
    f64::from(low.iter().sum::<f32>()) * (1.0 - 1e-6 - 1e-7 * weights.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quat;
    use crate::kernel::pose_dist2;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_bound_holds_and_is_close_where_it_matters(
            joints in prop::collection::vec(
                (prop::array::uniform4(-1.0..1.0f64), prop::array::uniform3(-1.0..1.0f64)), 16
            ),
            angle in 0.0..std::f64::consts::PI,
            flip in any::<bool>(),
        ) {
            let (mut a, mut b) = (vec![0.0; 2 * POSE_GROUP], vec![0.0; 2 * POSE_GROUP]);
            for (j, (q, axis)) in joints.into_iter().enumerate() {
                let Some(q) = Quat::from_array(q).try_normalize() else { return Ok(()) };
                let p = (q * Quat::from_axis_angle(axis, angle)).normalize();
                crate::space::set_joint(&mut a, j, q);
                crate::space::set_joint(&mut b, j, if flip { -p } else { p });
            }
            let [mut coarse_a, mut coarse_b] = [[0; 2 * COARSE_GROUP]; 2];
            coarsen(&a, &mut coarse_a);
            coarsen(&b, &mut coarse_b);
            let distance = pose_dist2(&a, &b, &[1.0 / 16.0; 16]).sqrt();
            let bound = least_dist2(&coarse_a, &coarse_b, &[1.0 / 16.0; 16]).sqrt();
            prop_assert!(bound <= distance, "{bound} {distance}");
            prop_assert!(distance < USEFUL || distance - bound < 0.01 * distance, "{bound} {distance}");
        }
    }
}
